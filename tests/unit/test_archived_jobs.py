"""A job that has left the memory is answered for all the same: from what the log keeps of it, and from its archive."""

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eventflink.blob.flink_archives import FlinkArchives
from eventflink.blob.job_archives import ArchiveDamaged, ArchiveMissing, JobArchives
from eventflink.blob.open_storage import open_storage
from eventflink.documents.one_job import ExecutionGraphInfo, JobArchive, JobOutcome
from eventflink.documents.plain import parse, plain
from eventflink.entrypoint import archiving
from eventflink.entrypoint.archiving import Archiver, NotingArchiver
from eventflink.leadership.reads import Answered, Read, ReadRefused
from eventflink.master.effects import ArchiveJob
from eventflink.master.inputs import ArchiveFailed, ArchivesWritten, CleanupsCompleted, MasterInput, WrittenArchive
from eventflink.master.settings import MasterSettings
from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import ExecutionState, JobStatus
from eventflink.reader.questions import answer_of, look_up, question_of
from eventflink.rest.flink.archive_format import flink_archive
from eventflink.views import job_document
from eventflink.views.archive import archive_view
from eventflink.views.jobs_and_cluster import JobNotFound, job_view
from eventflink.views.queries import job_result, job_status
from tests.support.cluster import ScriptedCluster, deployments, graph, replay, vertex
from tests.support.ended_jobs import FAILED

FILE = MasterSettings(archives=True, job_store_cache_size=0)


def new_cluster(**settings: Any) -> ScriptedCluster:
    cluster = ScriptedCluster(replace(FILE, **settings))
    cluster.register()
    return cluster


def fail(cluster: ScriptedCluster, job_id: str) -> None:
    [deployment] = deployments(cluster.submit(graph(vertex("a")), job_id=job_id))
    cluster.pass_time(7)
    cluster.report(deployment, ExecutionState.FAILED, cause=FailureCause("KeyError", "no 'x'", "Traceback"))


def archive(cluster: ScriptedCluster, archives: JobArchives, job_id: str) -> None:
    """Write the archive of a job, and let the job leave the memory."""
    file = archives.write(plain(archive_view(cluster.fold, job_id)))
    written = ArchivesWritten((WrittenArchive(job_id, file.location, file.digest, file.byte_count),))
    cluster.timer(CleanupsCompleted((job_id,)), written)
    cluster.pass_time(1)
    assert job_id in cluster.master.dispatcher.forgotten


def ask(cluster: ScriptedCluster, archives: JobArchives | None, path: str, **parameters: int) -> dict[str, Any]:
    """Return what whoever folds the log answers."""
    question = question_of(path, parameters)
    answer: dict[str, Any] = answer_of(question, look_up(question, replay(cluster.log)), archives)
    return answer


@pytest.fixture
def archives(tmp_path: Path) -> JobArchives:
    return JobArchives(open_storage(str(tmp_path / "archives")), 10)


def test_an_evicted_job_is_shown_as_it_was_in_memory(archives: JobArchives) -> None:
    cluster = new_cluster()
    fail(cluster, "job")
    before, result = job_view(cluster.fold, "job"), job_result(cluster.fold, "job")
    standing = job_status(cluster.fold, "job")
    archive(cluster, archives, "job")
    answer = ask(cluster, archives, "/jobs/job")
    assert (answer["job"], answer["log_offset"]) == (json.loads(json.dumps(plain(before))), len(cluster.log) - 1)
    job = parse(ExecutionGraphInfo, {**answer["job"], "log_offset": answer["log_offset"]})
    assert (job.status, job.is_archived) == (JobStatus.FAILED, True)
    shown = ask(cluster, archives, "/jobs/job/exceptions", limit=1)
    assert (shown["total"], len(shown["exceptions"]), shown["truncated"]) == (1, 1, False)
    assert shown["exceptions"][0]["cause"]["stack_trace"] == "Traceback"
    status = ask(cluster, archives, "/jobs/job/status")["job"]
    assert (status["status"], status["status_since"]) == (standing.status, standing.status_since)
    kept = ask(cluster, archives, "/jobs/job/result")["result"]
    assert result.cause is not None
    assert parse(JobOutcome, kept) == replace(result, cause=replace(result.cause, stack_trace=None), accumulators=None)
    assert kept["net_run_time_ms"] == 7


def test_status_and_result_need_no_archive(archives: JobArchives) -> None:
    cluster = new_cluster(archives=False, job_store_cache_size=None, job_store_capacity=0)
    cluster.run(cluster.submit(graph(vertex("a")), job_id="job"))
    cluster.pass_time(1)
    for place in (archives, None):
        assert ask(cluster, place, "/jobs/job/status")["job"]["status"] == "FINISHED"
        assert ask(cluster, place, "/jobs/job/result")["result"]["is_terminal"]
        with pytest.raises(JobNotFound, match="job not found: 'job'; it ended and was evicted from memory, and it has no archive"):
            ask(cluster, place, "/jobs/job")


def test_a_damaged_archive_and_one_that_is_gone_are_never_served(archives: JobArchives, tmp_path: Path) -> None:
    cluster = new_cluster()
    fail(cluster, "job")
    archive(cluster, archives, "job")
    path = tmp_path / "archives" / "job.json"
    document = path.read_text()
    path.write_text(document.replace("KeyError", "NoError!"))
    with pytest.raises(ArchiveDamaged, match=f"the archive of job 'job' at {path} is damaged: its digest is "):
        ask(cluster, archives, "/jobs/job")
    assert ask(cluster, archives, "/jobs/job/result")["result"]["status"] == "FAILED", "the log knows that much"
    path.unlink()
    with pytest.raises(ArchiveMissing, match=f"archive not found: job 'job' at {path}, though it was written"):
        ask(cluster, archives, "/jobs/job/exceptions")
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        ask(cluster, archives, "/jobs/job")


def test_an_archive_outlives_the_memory_of_the_job_s_id(archives: JobArchives) -> None:
    cluster = new_cluster(request_horizon_ms=10_000)
    fail(cluster, "job")
    archive(cluster, archives, "job")
    cluster.pass_time(10_001)
    assert not cluster.master.dispatcher.forgotten
    assert ask(cluster, archives, "/jobs/job")["job"]["status"] == "FAILED"
    assert ask(cluster, archives, "/jobs/job/status")["job"]["status"] == "FAILED"
    assert ask(cluster, archives, "/jobs/job/result")["result"]["cause"]["stack_trace"] == "Traceback"
    for unknown in ("nobody", "job.json", "../job"):
        with pytest.raises(JobNotFound, match="job not found"):
            ask(cluster, archives, f"/jobs/{unknown}")


# -- writing ----------------------------------------------------------------------------------------------------------


def run_archiver(
    cluster: ScriptedCluster,
    archives: JobArchives | None,
    kind: type[Archiver] = Archiver,
    *,
    refuse: str = "",
    copies: FlinkArchives | None = None,
) -> list[MasterInput]:
    """Have everything that waits for its archive archived; return the outcomes."""
    outcomes: list[MasterInput] = []
    is_done = asyncio.Event()
    pending = list(cluster.master.job_store.pending)

    def note(outcome: MasterInput) -> None:
        outcomes.append(outcome)
        if sum(len(o.archives) if isinstance(o, ArchivesWritten) else 1 for o in outcomes) >= len(pending):
            is_done.set()

    def ask(read: Read) -> None:
        read.deliver(ReadRefused(refuse) if refuse else Answered(read.compute(cluster.fold), 0, 1, "LEADER"))

    async def run() -> None:
        archiver = kind(archives, ask, note, copies)
        task = asyncio.create_task(archiver.run())
        for job_id in [*pending, "nobody", *pending]:
            archiver.submit(ArchiveJob(job_id))
            await asyncio.sleep(0)  # They end soon after each other, and not at once.
        async with asyncio.timeout(120):
            await is_done.wait()
        task.cancel()

    asyncio.run(run())
    return outcomes


def test_every_job_that_waits_is_archived_a_bounded_number_of_tasks_at_once(archives: JobArchives, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "MAX_TASKS", 2)
    cluster = new_cluster()
    names = [f"job-{number}" for number in range(5)]
    for name in names:
        fail(cluster, name)
    outcomes = run_archiver(cluster, archives)
    assert [len(o.archives) for o in outcomes if isinstance(o, ArchivesWritten)] == [2, 2, 1]
    cluster.timer(*outcomes, CleanupsCompleted(tuple(names)))
    cluster.pass_time(1)
    assert list(cluster.master.dispatcher.forgotten) == names
    for name in names:
        assert archives.read(name, cluster.master.dispatcher.forgotten[name].archive_digest)["job"]["job_id"] == name


def test_documents_are_searched_for_secrets_in_threads_and_one_that_cannot_be_fails_alone(
    archives: JobArchives, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document that took the event loop for longer than a lease stopped each leader, one after the other."""
    cluster = new_cluster()
    names = ["good", "bad", "better"]
    for name in names:
        [deployment] = deployments(cluster.submit({**graph(vertex("a")), "name": name}, job_id=name))
        cluster.report(deployment, ExecutionState.FAILED, cause=FailureCause("KeyError", "no 'x'", "Traceback"))
    threads: dict[str, threading.Thread] = {}

    def searched(document: dict[str, Any]) -> dict[str, Any]:
        threads[document["name"]] = threading.current_thread()
        if document["name"] == "bad":
            raise RecursionError("hush")  # What it says may be of the document.
        return document

    monkeypatch.setattr(job_document, "shown", searched)
    written, failed = run_archiver(cluster, archives)
    assert isinstance(written, ArchivesWritten)
    assert [each.job_id for each in written.archives] == ["good", "better"]
    assert failed == ArchiveFailed("bad", "it cannot be made: RecursionError")
    assert threads.keys() == set(names)
    assert threading.current_thread() not in threads.values()


def test_what_cannot_be_written_is_told_with_the_reason(tmp_path: Path) -> None:
    cluster = new_cluster()
    fail(cluster, "job")
    (tmp_path / "file").write_text("no directory")
    for archives, refuse, reason in (
        (JobArchives(open_storage(str(tmp_path / "file" / "archives")), 1), "", "Not a directory"),
        (None, "", "this master has no archive directory"),
        (JobArchives(open_storage(str(tmp_path)), 1), "1000 reads wait already", "1000 reads wait already"),
    ):
        outcomes = run_archiver(cluster, archives, refuse=refuse)
        assert {(type(o), o.job_id) for o in outcomes if isinstance(o, ArchiveFailed)} >= {(ArchiveFailed, "job")}
        assert all(reason in o.message for o in outcomes if isinstance(o, ArchiveFailed))


def test_a_rehearsal_writes_no_archive(archives: JobArchives, tmp_path: Path) -> None:
    cluster = new_cluster()
    fail(cluster, "job")
    copies = FlinkArchives(open_storage(str(tmp_path / "archives")), flink_archive)
    [outcome] = run_archiver(cluster, archives, NotingArchiver, copies=copies)
    assert isinstance(outcome, ArchivesWritten)
    assert not (tmp_path / "archives").exists()


def test_a_copy_in_flinks_format_lies_there_before_the_log_says_that_the_job_is_archived(archives: JobArchives, tmp_path: Path) -> None:
    cluster = new_cluster()
    fail(cluster, FAILED)
    [outcome] = run_archiver(cluster, archives, copies=FlinkArchives(open_storage(str(tmp_path / "copies")), flink_archive))
    assert isinstance(outcome, ArchivesWritten)
    assert (tmp_path / "copies" / FAILED).stat().st_size > 1_000


def test_a_copy_that_cannot_be_made_is_given_up_and_nothing_ends_for_it(
    archives: JobArchives, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(archiving, "COPY_DELAY_S", 0.01)
    cluster = new_cluster()
    fail(cluster, FAILED)

    def damaged(_archive: JobArchive) -> Iterator[tuple[str, str]]:
        raise LookupError("no such thing in this archive")

    (tmp_path / "file").write_text("no directory")
    for copies in (
        FlinkArchives(open_storage(str(tmp_path / "file" / "copies")), flink_archive),
        FlinkArchives(open_storage(str(tmp_path)), damaged),
    ):
        caplog.clear()
        [outcome] = run_archiver(cluster, archives, copies=copies)
        assert isinstance(outcome, ArchivesWritten)
        assert [message.split()[:4] for message in caplog.messages] == [
            ["FlinkArchiveFailed", f"job={FAILED}", f"attempt={number}", "of=3"] for number in (1, 2, 3)
        ]
