"""What is done about a job that failed: it runs again as another job, with the same graph, or somebody dismisses the failure."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from eventflink.blob.keys import blob_key
from eventflink.documents.jobs import ListedJob
from eventflink.events.log_events import JobFailureDismissed, JobSubmitted, RequestRejected
from eventflink.events.topics import Topic
from eventflink.master.effects import Effect
from eventflink.master.inputs import CleanupsCompleted
from eventflink.master.settings import MasterSettings
from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import ExecutionState, JobStatus
from eventflink.views.pages.cluster import cluster_page
from eventflink.views.pages.jobs import jobs_page
from tests.support.cluster import ScriptedCluster, deployments, graph, orders, replies, stream, tasks, vertex

CODE = blob_key(b"code")


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """A cluster in which 'job' has failed; the log is replayed at the end."""
    scripted = ScriptedCluster()
    scripted.register()
    fail(scripted, "job")
    yield scripted
    scripted.check()


def fail(cluster: ScriptedCluster, job_id: str) -> None:
    document = graph(vertex("a"), vertex("b"), edges=[("a", "b", "hash")], restart_strategy={"type": "none"}, code_archives=[CODE])
    [task] = deployments(cluster.submit(document, job_id=job_id))
    cluster.report(task, ExecutionState.FAILED, cause=FailureCause("KeyError", "no 'x'", None))


def rerun(cluster: ScriptedCluster, rerun_of: str = "job", **more: Any) -> list[Effect]:
    return cluster.command(type="RerunJob", rerun_of=rerun_of, **more)


def troubled(cluster: ScriptedCluster) -> list[ListedJob]:
    """Return the rows of all jobs, trouble first."""
    return jobs_page(cluster.fold, (), "", "", "trouble", 0, 10).jobs


def answer(effects: list[Effect]) -> str:
    """Return the refusal of the only reply; "" for what was accepted."""
    [reply] = replies(effects)
    return f"{reply.payload.code}: {reply.payload.message}" if isinstance(reply.payload, RequestRejected) else ""


def test_it_runs_with_the_same_graph_as_a_job_of_its_own(cluster: ScriptedCluster) -> None:
    [task] = deployments(rerun(cluster, job_id="job-2", actor="ann"))
    first, again = cluster.events(JobSubmitted)
    assert (again.job_id, again.rerun_of, first.rerun_of) == ("job-2", "job", "")
    assert (again.job_graph, again.graph_digest) == (first.job_graph, first.graph_digest)
    [reader] = deployments(cluster.report(task, ExecutionState.FINISHED))
    cluster.report(reader, ExecutionState.FINISHED)
    assert (cluster.job("job").status, cluster.job("job-2").status) == (JobStatus.FAILED, JobStatus.FINISHED)
    cluster.fail_over()
    assert cluster.job("job-2").rerun_of == "job"
    assert answer(rerun(cluster, "job-2", job_id="job-3")) == "", "what has finished runs again as well"


def test_what_names_no_job_that_has_ended_is_refused(cluster: ScriptedCluster) -> None:
    assert answer(rerun(cluster, "nobody", job_id="new")) == "UnknownJob: job not found: 'nobody'; submit its document again, with its code"
    rerun(cluster, job_id="job-2")
    assert answer(rerun(cluster, "job-2", job_id="job-3")) == "JobNotEnded: job 'job-2' is RUNNING: only a job that has ended is run again"
    assert answer(rerun(cluster, job_id="job")).startswith("DuplicateJobSubmission: job 'job' was submitted before: it is FAILED")
    assert answer(cluster.command(type="RerunJob", job_id="job-4")).startswith("InvalidRequest: commands@")
    assert set(cluster.master.dispatcher.jobs) == {"job", "job-2"}


def test_what_the_masters_have_forgotten_is_refused() -> None:
    cluster = ScriptedCluster(MasterSettings(job_store_capacity=1))
    cluster.register()
    fail(cluster, "old")
    fail(cluster, "new")
    cluster.timer(CleanupsCompleted(("old", "new")))
    cluster.pass_time(10_000)
    assert list(cluster.master.dispatcher.forgotten) == ["old"]
    assert (
        answer(rerun(cluster, "old"))
        == "UnknownJob: job not found: 'old'; it ended and was evicted from memory; submit its document again, with its code"
    )


def test_a_cluster_that_is_shut_down_runs_nothing_again(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a")), job_id="keeps it up")
    cluster.shut_down()
    assert answer(rerun(cluster)).startswith("ClusterShuttingDown")


def test_who_repeats_the_request_gets_the_same_job(cluster: ScriptedCluster) -> None:
    for request_id in ("one", "one", "other"):
        assert answer(rerun(cluster, job_id="job-2", request_id=request_id)) == ""
    assert [event.job_id for event in cluster.events(JobSubmitted)] == ["job", "job-2"]
    assert answer(cluster.submit(graph(vertex("a")), job_id="job-2")).startswith("DuplicateJobSubmission")


def test_who_names_no_id_gets_that_of_the_request_whatever_the_key_of_the_record_is(cluster: ScriptedCluster) -> None:
    document = json.dumps({"type": "RerunJob", "rerun_of": "job"}).encode()
    for key in (b"job", b"job", None):
        cluster.put(Topic.COMMANDS, document, key=key)
    cluster.settle()
    for request_id in ("mine", "mine", "no id of a job!"):
        rerun(cluster, request_id=request_id)
    again = [event.job_id for event in cluster.events(JobSubmitted) if event.rerun_of]
    assert (len(set(again)), len(again)) == (5, 5), "a request that is repeated means the same job"
    assert again[:3] == ["commands-0-0", "commands-0-1", "commands-0-2"]
    assert again[3] == "mine"
    assert re.fullmatch("[0-9a-f]{32}", again[4])


def test_a_repetition_is_the_same_job_also_when_the_ended_one_is_forgotten() -> None:
    cluster = ScriptedCluster(MasterSettings(job_store_capacity=1))
    cluster.register()
    fail(cluster, "old")
    rerun(cluster, "old", job_id="again", request_id="one")
    fail(cluster, "new")
    cluster.timer(CleanupsCompleted(("old", "new")))
    cluster.pass_time(10_000)
    assert "old" in cluster.master.dispatcher.forgotten
    assert answer(rerun(cluster, "old", job_id="again", request_id="other")) == ""


def test_a_stream_runs_again_from_its_beginning(cluster: ScriptedCluster) -> None:
    [first] = deployments(cluster.submit(graph(stream("s"), checkpointing={"interval_ms": 100}), job_id="stream"))
    cluster.start_stream(first)
    cluster.acknowledge(*orders(cluster.pass_time(100)), batch_id=3)
    cluster.report(first, ExecutionState.FAILED, cause=FailureCause("KeyError", "no 'x'", None))
    cluster.cancel("stream")
    cluster.pass_time(100)
    [again] = deployments(rerun(cluster, "stream", job_id="stream-2"))
    [task] = tasks([again])
    checkpoints = cluster.job("stream-2").checkpoints
    assert checkpoints is not None
    assert (task.attempt, task.restore, checkpoints.completed_count) == (1, None, 0)


def test_code_stays_for_as_long_as_a_job_is_run_again(cluster: ScriptedCluster) -> None:
    cluster.timer(CleanupsCompleted(("job",)))
    dispatcher = cluster.master.dispatcher
    ended_at_ms = dispatcher.jobs["job"].ended_at_ms
    assert not dispatcher.dirty
    assert dict(dispatcher.blob_references(rerun_since_ms=ended_at_ms)) == {CODE: 1}
    assert not dispatcher.blob_references(rerun_since_ms=ended_at_ms + 1)


def test_a_job_that_was_run_again_is_a_problem_no_more(cluster: ScriptedCluster) -> None:
    assert [problem.link for problem in cluster_page(cluster.fold).problems] == ["/jobs/job"]
    assert [row.job_id for row in troubled(cluster)] == ["job"]
    [task] = deployments(rerun(cluster, job_id="job-2"))
    assert cluster_page(cluster.fold).problems == []
    assert [(row.job_id, row.run_again_by) for row in troubled(cluster)] == [("job-2", None), ("job", "job-2")]
    cluster.report(task, ExecutionState.FAILED, cause=FailureCause("KeyError", "no 'x'", None))
    assert [problem.link for problem in cluster_page(cluster.fold).problems] == ["/jobs/job-2"]


def test_a_failure_that_somebody_dismissed_is_a_problem_no_more(cluster: ScriptedCluster) -> None:
    assert answer(cluster.command(type="DismissJobFailure", job_id="job", reason="an experiment", actor="ann")) == ""
    [dismissed] = cluster.events(JobFailureDismissed)
    assert (dismissed.job_id, dismissed.actor, dismissed.reason) == ("job", "ann (declared)", "an experiment")
    assert cluster_page(cluster.fold).problems == []
    cluster.fail_over()
    assert cluster_page(cluster.fold).problems == []
    assert answer(cluster.command(type="DismissJobFailure", job_id="job")) == "", "it is as it is wanted"
    assert len(cluster.events(JobFailureDismissed)) == 1
    rerun(cluster, job_id="job-2")
    assert answer(cluster.command(type="DismissJobFailure", job_id="job-2")).startswith("JobNotFailed: job 'job-2' is RUNNING")
