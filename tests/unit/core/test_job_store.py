"""An ended job stays in memory as long as the store says, never runs again, and leaves it only when it is clean and archived."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from eventflink.events.log_events import (
    JobArchived,
    JobArchiveFailed,
    JobArchiveRequested,
    JobCleanupFailed,
    JobEvicted,
    RequestRejected,
)
from eventflink.master.dispatcher import MAX_RETRY_BACKOFF_MS, Dispatcher, ForgottenJob
from eventflink.master.effects import ArchiveJob, due_archives
from eventflink.master.inputs import ArchiveFailed, CleanupFailed, CleanupsCompleted
from eventflink.master.job_store import MAX_ARCHIVE_ATTEMPTS, MAX_MESSAGE_LENGTH
from eventflink.master.settings import MasterSettings
from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import ExecutionState, IllegalTransition, JobStatus
from eventflink.snapshots.state_codec import document_of, restore_fold
from tests.support.cluster import START_MS, ScriptedCluster, archives_written, deployments, graph, new_fold, replay, replies, vertex

FILE = MasterSettings(archives=True, job_store_cache_size=1)


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """One TaskManager, at the newest feature level; the log is replayed at the end."""
    scripted = ScriptedCluster()
    scripted.register()
    yield scripted
    scripted.check()


def end(cluster: ScriptedCluster, *job_ids: str) -> None:
    for job_id in job_ids:
        cluster.run(cluster.submit(graph(vertex("a")), job_id=job_id))


def finish(cluster: ScriptedCluster, job_id: str) -> list[str]:
    """End a job whose data nobody removes and whose archive nobody writes; return what is to be archived."""
    [deployment] = deployments(cluster.submit(graph(vertex("a")), job_id=job_id))
    effects = cluster.report(deployment, ExecutionState.FINISHED)
    return [effect.job_id for effect in effects if isinstance(effect, ArchiveJob)]


def in_memory(cluster: ScriptedCluster) -> list[str]:
    return list(cluster.master.dispatcher.ended)


def test_an_ended_job_leaves_the_memory_when_its_time_is_over(cluster: ScriptedCluster) -> None:
    cluster.master.settings = MasterSettings(job_store_expiration_ms=10_000)
    end(cluster, "one")
    cluster.pass_time(4_000)
    end(cluster, "two")
    cluster.pass_time(5_999)
    assert in_memory(cluster) == ["one", "two"]
    cluster.pass_time(1)
    assert in_memory(cluster) == ["two"]
    cluster.pass_time(4_000)
    assert cluster.events(JobEvicted) == [JobEvicted("one"), JobEvicted("two")]


def test_what_is_not_clean_outlasts_its_time_and_holds_back_no_other(cluster: ScriptedCluster) -> None:
    cluster.master.settings = MasterSettings(job_store_expiration_ms=1_000)
    finish(cluster, "dirty")
    end(cluster, "clean")
    cluster.pass_time(1_000)
    assert in_memory(cluster) == ["dirty"]
    cluster.timer(CleanupsCompleted(("dirty",)))
    cluster.pass_time(1)
    assert in_memory(cluster) == []


def test_without_an_expiration_only_the_capacity_counts(cluster: ScriptedCluster) -> None:
    cluster.master.settings = MasterSettings(job_store_capacity=1)
    end(cluster, "one", "two")
    cluster.pass_time(10**12)
    assert in_memory(cluster) == ["two"]


def test_an_archive_is_asked_for_when_a_job_ends_where_archives_are(cluster: ScriptedCluster) -> None:
    assert finish(cluster, "before") == []
    cluster.master.settings = MasterSettings(archives=True)
    assert finish(cluster, "after") == ["after"]
    assert cluster.events(JobArchiveRequested) == [JobArchiveRequested("after")]
    cluster.timer(archives_written("before", "after", "none", "after"))
    assert cluster.events(JobArchived) == [JobArchived("after", "/archives/after.json", "digest of after", 100)]
    cluster.timer(archives_written("after"))
    assert len(cluster.events(JobArchived)) == 1, "written a second time, it is noted once"
    assert in_memory(cluster) == ["before", "after"], "in a store of the type Memory they stay"


def test_a_job_stays_in_memory_until_its_archive_is_written(cluster: ScriptedCluster) -> None:
    cluster.master.settings = replace(FILE, job_store_capacity=1, job_store_cache_size=0, job_store_expiration_ms=1)
    finish(cluster, "job")
    cluster.timer(CleanupsCompleted(("job",)))
    end(cluster, "other")
    cluster.pass_time(1_000)
    assert in_memory(cluster) == ["job"]
    cluster.timer(archives_written("job"))
    cluster.pass_time(1)
    assert in_memory(cluster) == []


def test_in_a_store_of_files_only_the_newest_archived_jobs_stay_in_memory(cluster: ScriptedCluster) -> None:
    cluster.master.settings = FILE
    end(cluster, "one", "two", "three")
    cluster.pass_time(1)
    assert in_memory(cluster) == ["three"]
    assert list(cluster.master.dispatcher.forgotten) == ["one", "two"]
    assert cluster.master.dispatcher.forgotten["one"].archive_digest == "digest of one"
    assert list(cluster.master.job_store.archived) == ["three"]


def test_an_evicted_job_is_remembered_with_how_it_ended(cluster: ScriptedCluster) -> None:
    cluster.master.settings = replace(FILE, job_store_cache_size=0)
    [deployment] = deployments(cluster.submit(graph(vertex("a")), job_id="bad"))
    cluster.pass_time(5)
    cause = FailureCause("KeyError", "x" * 5_000, "Traceback", "OSError", "y" * 5_000)
    cluster.report(deployment, ExecutionState.FAILED, cause=cause)
    cluster.timer(CleanupsCompleted(("bad",)), archives_written("bad"))
    cluster.pass_time(1)
    digest = cluster.master.dispatcher.forgotten["bad"].graph_digest
    kept = FailureCause("KeyError", "x" * 1_024, None, "OSError", "y" * 1_024)
    expected = ForgottenJob(digest, START_MS + 6, JobStatus.FAILED, START_MS, START_MS + 5, kept, "digest of bad")
    assert cluster.master.dispatcher.forgotten == {"bad": expected}
    restored = new_fold()
    restore_fold(document_of(cluster.fold), restored)
    assert restored.master.digest() == cluster.master.digest()


def test_a_job_that_has_ended_never_runs_again_also_after_its_eviction(cluster: ScriptedCluster) -> None:
    cluster.master.settings = replace(FILE, job_store_cache_size=0)
    end(cluster, "job")
    cluster.pass_time(1)
    cluster.fail_over()
    assert list(cluster.master.dispatcher.forgotten) == ["job"]
    [reply] = replies(cluster.submit(graph(vertex("a")), job_id="job", request_id="again"))
    assert isinstance(reply.payload, RequestRejected)
    assert (reply.payload.code, reply.payload.message) == (
        "DuplicateJobSubmission",
        "job 'job' was submitted before: it ended long ago",
    )


def test_cancelling_an_evicted_job_is_answered_as_while_it_was_in_memory(cluster: ScriptedCluster) -> None:
    cluster.master.settings = replace(FILE, job_store_cache_size=0)
    end(cluster, "finished")
    cluster.submit(graph(vertex("a", 9)), job_id="cancelled")
    cluster.run(cluster.cancel("cancelled"))
    cluster.pass_time(1)
    assert in_memory(cluster) == []
    [refused] = replies(cluster.cancel("finished", "r1"))
    assert isinstance(refused.payload, RequestRejected)
    assert (refused.payload.code, refused.payload.message) == ("JobTerminated", "job 'finished' is FINISHED already")
    [accepted] = replies(cluster.cancel("cancelled", "r2"))
    assert accepted.payload.subject == "cancelled"
    assert not isinstance(accepted.payload, RequestRejected)


def test_a_failed_archive_is_tried_again_with_back_off_and_given_up(cluster: ScriptedCluster) -> None:
    cluster.master.settings = FILE
    finish(cluster, "job")
    delays = []
    for _ in range(MAX_ARCHIVE_ATTEMPTS - 1):
        now_ms = cluster.wall_ms
        cluster.timer(ArchiveFailed("job", "no space left" * 1_000))
        retry_at_ms = cluster.master.job_store.pending["job"].retry_at_ms
        delays.append(retry_at_ms - now_ms)
        cluster.timer(ArchiveFailed("job", "a second try that began before the first was noted"))
        assert cluster.master.job_store.pending["job"].retry_at_ms == retry_at_ms
        assert due_archives(cluster.master, retry_at_ms - 1) == []
        assert due_archives(cluster.master, retry_at_ms) == [ArchiveJob("job")]
        cluster.pass_time(delays[-1])
    assert delays == [min(2_000 * 2**n, MAX_RETRY_BACKOFF_MS) for n in range(MAX_ARCHIVE_ATTEMPTS - 1)]
    cluster.timer(ArchiveFailed("job", "no space left"))
    failures = cluster.events(JobArchiveFailed)
    assert [failure.attempt for failure in failures] == list(range(1, MAX_ARCHIVE_ATTEMPTS + 1))
    assert (failures[-1].retry_at_ms, len(failures[0].message)) == (0, MAX_MESSAGE_LENGTH)
    assert not cluster.master.job_store.pending
    cluster.timer(ArchiveFailed("job", "too late"), archives_written("job"))
    assert len(cluster.events(JobArchiveFailed)) == MAX_ARCHIVE_ATTEMPTS
    assert not cluster.events(JobArchived), "what was given up is not taken up again"


def test_a_job_whose_archive_was_given_up_stays_as_long_as_one_without(cluster: ScriptedCluster) -> None:
    cluster.master.settings = replace(FILE, job_store_cache_size=0, job_store_capacity=1)
    finish(cluster, "job")
    cluster.timer(CleanupsCompleted(("job",)))
    for _ in range(MAX_ARCHIVE_ATTEMPTS):
        cluster.timer(ArchiveFailed("job", "no space left"))
        cluster.pass_time(MAX_RETRY_BACKOFF_MS)
    assert in_memory(cluster) == ["job"]
    cluster.master.settings = replace(FILE, job_store_capacity=0)
    cluster.pass_time(1)
    assert cluster.master.dispatcher.forgotten["job"].archive_digest == ""


def test_a_new_leader_goes_on_with_the_archives_that_are_not_written(cluster: ScriptedCluster) -> None:
    cluster.master.settings = FILE
    for job_id in ("asked", "failed", "written"):
        finish(cluster, job_id)
    cluster.timer(ArchiveFailed("failed", "no space left"), archives_written("written"))
    effects = cluster.fail_over().effects
    assert [e for e in effects if isinstance(e, ArchiveJob)] == [ArchiveJob("asked")]
    retry_at_ms = cluster.master.job_store.pending["failed"].retry_at_ms
    assert due_archives(cluster.master, retry_at_ms) == [ArchiveJob("failed")]


def test_a_second_try_of_a_clean_up_that_began_too_early_does_not_count(cluster: ScriptedCluster) -> None:
    finish(cluster, "job")
    cluster.timer(CleanupFailed("job", "busy"), CleanupFailed("job", "busy"))
    assert [failure.attempt for failure in cluster.events(JobCleanupFailed)] == [1]


def test_a_job_with_an_archive_to_be_written_is_not_evicted_whatever_an_event_says(cluster: ScriptedCluster) -> None:
    cluster.master.settings = FILE
    finish(cluster, "job")
    cluster.timer(CleanupsCompleted(("job",)))
    before = cluster.master.digest()
    with pytest.raises(IllegalTransition, match="the archive of job 'job' is not written"):
        cluster.master.apply(JobEvicted("job"), START_MS)
    assert cluster.master.digest() == before


def test_ended_jobs_of_one_graph_hold_in_common_what_is_equal(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    end(cluster, "one", "two")
    failed = deployments(cluster.submit(graph(vertex("a")), job_id="failed"))
    cluster.run(cluster.report(failed[0], ExecutionState.FAILED, cause=FailureCause("ValueError", "no")))
    restored = new_fold()
    restore_fold(document_of(cluster.fold), restored)
    for fold in (cluster.fold, restored):
        one, two, other = (fold.master.dispatcher.jobs[job_id] for job_id in ("one", "two", "failed"))
        assert one.execution_graph.graph is two.execution_graph.graph is other.execution_graph.graph
        assert one.restarts is two.restarts
        assert one.exceptions is two.exceptions
        assert (one.exceptions.root_count, other.exceptions.root_count) == (0, 1)
    monkeypatch.setattr(Dispatcher, "share", lambda _self, _job: None)
    apart = replay(cluster.log)
    assert apart.master.dispatcher.jobs["one"].restarts is not apart.master.dispatcher.jobs["two"].restarts
    assert apart.master.digest() == cluster.master.digest() == restored.master.digest()


def test_a_job_that_runs_holds_nothing_in_common_with_one_that_ended(cluster: ScriptedCluster) -> None:
    end(cluster, "ended")
    cluster.submit(graph(vertex("a")), job_id="running")
    ended, running = (cluster.job(job_id) for job_id in ("ended", "running"))
    assert ended.restarts == running.restarts
    assert ended.restarts is not running.restarts
    assert ended.execution_graph.graph is not running.execution_graph.graph
