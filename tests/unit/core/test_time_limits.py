"""Time limits: an attempt that runs for too long fails, a job that has used up its time fails as a whole, whoever leads meanwhile."""

from collections.abc import Iterator
from typing import Any

import pytest

from eventflink.documents.waits import WaitReason
from eventflink.events.inputs import TaskManagerDeath
from eventflink.events.log_events import (
    GlobalFailureOccurred,
    InputParked,
    JobStatusChanged,
    JobTimeLimitNear,
    RestartScheduled,
    TaskCancellationRequested,
    TaskFailed,
    TaskFinished,
)
from eventflink.events.topics import MAX_DECISION_BYTES, Topic
from eventflink.master import time_limits
from eventflink.master.effects import Deployment, unacknowledged
from eventflink.model.attempts import FailureCause
from eventflink.model.failure_types import FailureKind, kind_of
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import InvalidJobGraph, parse_job_graph, to_document
from eventflink.model.statuses import ExecutionState, FailureReaction, JobStatus
from eventflink.views.jobs_and_cluster import job_view
from eventflink.views.pages.cluster import cluster_page
from eventflink.views.pages.job_parts import exceptions_page
from eventflink.views.pages.one_job import job_page
from eventflink.views.vertex_waits import VertexWaits
from tests.support.cluster import (
    REPORTS,
    START_MS,
    ScriptedCluster,
    cancellations,
    deployments,
    fixed_delay,
    graph,
    reports_of,
    state_report,
    stream,
    tasks,
    vertex,
)

TWO_RESTARTS = fixed_delay(2)


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """One TaskManager with four slots; the log is replayed at the end."""
    scripted = ScriptedCluster()
    scripted.register()
    yield scripted
    scripted.check()


def limited(name: str, limit: str = "10s", parallelism: int = 1) -> dict[str, Any]:
    return vertex(name, parallelism) | {"time_limit": limit}


def running(cluster: ScriptedCluster, *vertices: dict[str, Any], **more: Any) -> list[Deployment]:
    """Submit a job, and have all of its tasks run that are deployed."""
    found = deployments(cluster.submit(graph(*vertices, **more)))
    for deployment in found:
        cluster.report(deployment, ExecutionState.RUNNING)
    return found


def status(cluster: ScriptedCluster) -> JobStatus:
    return cluster.job("job").status


@pytest.mark.rule("P22")
def test_an_attempt_is_told_to_end_exactly_at_its_limit_and_fails_when_it_has(cluster: ScriptedCluster) -> None:
    running(cluster, limited("a"), restart_strategy=TWO_RESTARTS)
    assert not cancellations(cluster.pass_time(9_999))
    [told] = cancellations(cluster.pass_time(1))
    assert told.payload.reason == "it has run for the time limit of 'a', 10s"  # type: ignore[union-attr] # a cancellation
    assert not cluster.events(TaskFailed)  # P15: its next attempt waits for its end.
    cluster.pass_time(60_000)
    cluster.say(state_report(told, ExecutionState.CANCELED))
    [failed], [restart] = cluster.events(TaskFailed), cluster.events(RestartScheduled)
    assert failed.cause.failure_type == "TaskTimeLimitExceeded"
    assert "raise the vertex's 'time_limit'" in failed.cause.message
    assert kind_of(failed.cause) is FailureKind.TIME_LIMIT
    assert restart.is_counted
    [again] = deployments(cluster.pass_time(500))
    cluster.report(again, ExecutionState.RUNNING)
    cluster.pass_time(9_999)
    cluster.report(again, ExecutionState.FINISHED)
    assert status(cluster) is JobStatus.FINISHED


@pytest.mark.parametrize("said", [ExecutionState.FINISHED, ExecutionState.FAILED, ExecutionState.CANCELED])
def test_however_it_ends_after_its_limit_the_limit_is_why(cluster: ScriptedCluster, said: ExecutionState) -> None:
    [deployment] = running(cluster, limited("a"), restart_strategy={"type": "none"})
    cluster.pass_time(10_000)
    cluster.report(deployment, said)
    assert [e.cause.failure_type for e in cluster.events(TaskFailed)] == ["TaskTimeLimitExceeded"]
    assert status(cluster) is JobStatus.FAILED
    assert cluster.job("job").cause == cluster.events(TaskFailed)[0].cause


def test_with_its_task_manager_it_fails_of_its_limit_as_well(cluster: ScriptedCluster) -> None:
    running(cluster, limited("a"), restart_strategy=TWO_RESTARTS)
    cluster.pass_time(10_000)
    cluster.say(TaskManagerDeath("tm", "tm-1", "killed"))
    assert [e.cause.failure_type for e in cluster.events(TaskFailed)] == ["TaskTimeLimitExceeded"]
    assert status(cluster) is JobStatus.RESTARTING


def test_the_limit_of_a_vertex_counts_from_when_each_attempt_runs(cluster: ScriptedCluster) -> None:
    [one, other] = deployments(cluster.submit(graph(limited("a", parallelism=2))))
    cluster.report(one, ExecutionState.INITIALIZING)
    cluster.pass_time(60_000)
    cluster.report(other, ExecutionState.RUNNING)
    cluster.pass_time(5_000)
    cluster.report(one, ExecutionState.RUNNING)
    assert [c.payload.subtask_index for c in cancellations(cluster.pass_time(5_000))] == [1]  # type: ignore[union-attr] # cancellations
    assert [c.payload.subtask_index for c in cancellations(cluster.pass_time(5_000))] == [0]  # type: ignore[union-attr] # cancellations


def test_every_attempt_counts_for_the_restart_strategy(cluster: ScriptedCluster) -> None:
    effects = cluster.submit(graph(limited("a"), restart_strategy=TWO_RESTARTS))
    for _ in range(3):
        [deployment] = deployments(effects)
        cluster.report(deployment, ExecutionState.RUNNING)
        [told] = cancellations(cluster.pass_time(10_000))
        cluster.say(state_report(told, ExecutionState.CANCELED))
        effects = cluster.pass_time(500)
    assert status(cluster) is JobStatus.FAILED
    assert len(cluster.events(RestartScheduled)) == 2


def test_what_has_finished_in_the_instant_of_its_limit_has_finished(cluster: ScriptedCluster) -> None:
    [deployment] = running(cluster, limited("a"), time_limit="10s")
    cluster.monotonic_ms += 10_000
    cluster.wall_ms += 10_000
    cluster.report(deployment, ExecutionState.FINISHED)
    cluster.pass_time(0)
    assert status(cluster) is JobStatus.FINISHED
    assert not cluster.events(TaskCancellationRequested, GlobalFailureOccurred)


@pytest.mark.rule("P22")
def test_a_limit_that_passes_while_nobody_leads_is_decided_by_the_next_leader(cluster: ScriptedCluster) -> None:
    running(cluster, limited("a", parallelism=2), restart_strategy=TWO_RESTARTS)
    cluster.monotonic_ms += 3_600_000
    cluster.wall_ms += 3_600_000
    cluster.fail_over()
    assert len(cancellations(cluster.pass_time(0))) == 2
    cluster.fail_over()
    resent = cancellations(unacknowledged(cluster.master))
    assert [c.payload.reason for c in resent] == ["it has run for the time limit of 'a', 10s"] * 2  # type: ignore[union-attr] # cancellations
    cluster.pass_time(60_000)
    assert len(cluster.events(TaskCancellationRequested)) == 2


@pytest.mark.rule("P22")
def test_a_report_that_waited_for_the_next_leader_comes_before_its_limits(cluster: ScriptedCluster) -> None:
    """The task was done in time, and nobody was there to hear it."""
    [deployment] = running(cluster, limited("a"), time_limit="10s")
    cluster.put(Topic.TASKMANAGERS, REPORTS.encode(reports_of(deployment, ExecutionState.FINISHED)))
    cluster.monotonic_ms += 3_600_000
    cluster.wall_ms += 3_600_000
    cluster.fail_over()
    cluster.pass_time(0)
    assert status(cluster) is JobStatus.FINISHED
    assert len(cluster.events(TaskFinished)) == 1
    assert not cluster.events(TaskCancellationRequested, GlobalFailureOccurred)


@pytest.mark.rule("P22")
def test_reports_that_wait_come_before_limits_that_have_passed_since(cluster: ScriptedCluster) -> None:
    """Also of the leader that has led all the time: many tasks end at once, or it decides slowly."""
    waiting = running(cluster, limited("a", parallelism=4), time_limit="10s")
    cluster.pass_time(9_990)
    for deployment in waiting:
        cluster.put(Topic.TASKMANAGERS, REPORTS.encode(reports_of(deployment, ExecutionState.FINISHED)))
    cluster.monotonic_ms += 10
    cluster.wall_ms += 10
    leader = cluster.leader
    cluster.timer(*cluster.participant.due(leader, leader.clock.read(cluster.monotonic_ms, cluster.wall_ms)))
    assert status(cluster) is JobStatus.FINISHED
    assert len(cluster.events(TaskFinished)) == 4
    assert not cluster.events(TaskCancellationRequested, GlobalFailureOccurred)


@pytest.mark.rule("P22")
def test_a_job_fails_as_a_whole_exactly_at_its_limit_without_a_restart(cluster: ScriptedCluster) -> None:
    """One of its tasks has a slot, the others wait for one: all of that is its time."""
    cluster.submit(graph(vertex("a", 6), restart_strategy=TWO_RESTARTS, time_limit="1h"))
    assert not cancellations(cluster.pass_time(299_000))
    effects = cluster.pass_time(3_600_000 - 299_000)
    [failure] = cluster.events(GlobalFailureOccurred)
    assert failure.cause.failure_type == "JobTimeLimitExceeded"
    assert kind_of(failure.cause) is FailureKind.TIME_LIMIT
    assert "time limit of 1h: raise the job's 'time_limit'" in failure.cause.message
    cluster.run(effects)
    job = cluster.job("job")
    assert (job.status, job.cause) == (JobStatus.FAILED, failure.cause)
    newest = job.exceptions.newest
    assert newest is not None
    assert newest.failure.cause == failure.cause
    assert (newest.reaction, newest.reason) == (FailureReaction.JOB_FAILURE, "a job that has used up its time is not restarted")


@pytest.mark.parametrize(("more", "warned_ms"), [({}, 360_000), ({"time_limit_warning": "5m"}, 300_000)])
def test_before_its_limit_a_job_is_a_problem_of_the_cluster(cluster: ScriptedCluster, more: dict[str, Any], warned_ms: int) -> None:
    [deployment] = running(cluster, vertex("a"), time_limit="1h", **more)
    cluster.pass_time(3_600_000 - warned_ms - 1)
    assert not cluster.events(JobTimeLimitNear)
    assert not cluster_page(cluster.fold).problems
    cluster.pass_time(1)
    cluster.pass_time(10_000)
    assert cluster.events(JobTimeLimitNear) == [JobTimeLimitNear("job", START_MS + 3_600_000)]
    page = cluster_page(cluster.fold)
    said = "Job 'job' has used up most of its time limit of 1h: it fails at 2027-01-15T09:00:00.000+00:00 if it has not ended."
    assert [(each.severity, each.sentence, each.link) for each in page.problems] == [("late", said, "/jobs/job")]
    assert page.sentence == "1 job is near its time limit. Nothing else is wrong."
    cluster.suspend()
    cluster.report(deployment, ExecutionState.CANCELED)
    assert not cluster_page(cluster.fold).problems
    cluster.pass_time(60_000)
    [again] = deployments(cluster.resume())
    cluster.pass_time(1_000)
    assert len(cluster.events(JobTimeLimitNear)) == 1
    assert "2027-01-15T09:01:00" in cluster_page(cluster.fold).problems[0].sentence
    cluster.report(again, ExecutionState.FINISHED)
    assert not cluster_page(cluster.fold).problems


def test_a_job_that_waits_to_restart_ends_at_its_limit(cluster: ScriptedCluster) -> None:
    [deployment] = running(cluster, vertex("a"), restart_strategy=fixed_delay(9, 3_600_000), time_limit="1m")
    cluster.report(deployment, ExecutionState.FAILED)
    cluster.pass_time(59_999)
    assert status(cluster) is JobStatus.RESTARTING
    assert not tasks(cluster.pass_time(1))
    assert status(cluster) is JobStatus.FAILED


def test_while_a_job_is_suspended_its_time_stands_still(cluster: ScriptedCluster) -> None:
    [deployment] = running(cluster, limited("a", "40s"), time_limit="1m")
    cluster.pass_time(30_000)
    cluster.suspend()
    cluster.report(deployment, ExecutionState.CANCELED)
    cluster.pass_time(3_600_000)
    cluster.fail_over()
    assert status(cluster) is JobStatus.SUSPENDED
    [again] = deployments(cluster.resume())
    cluster.report(again, ExecutionState.RUNNING)
    assert not cancellations(cluster.pass_time(29_999))
    assert len(cancellations(cluster.pass_time(1))) == 1
    assert status(cluster) is JobStatus.FAILING


def test_a_job_that_is_cancelled_meanwhile_is_cancelled(cluster: ScriptedCluster) -> None:
    [deployment] = running(cluster, limited("a"), time_limit="20s", restart_strategy=TWO_RESTARTS)
    cluster.pass_time(10_000)
    cluster.cancel()
    cluster.pass_time(3_600_000)
    cluster.report(deployment, ExecutionState.CANCELED)
    assert status(cluster) is JobStatus.CANCELED
    assert not cluster.events(GlobalFailureOccurred, RestartScheduled)


def test_an_attempt_beyond_its_limit_does_not_outlive_its_job_and_its_job_not_its_own(cluster: ScriptedCluster) -> None:
    one, other = running(cluster, limited("a"), vertex("b"), time_limit="15s", restart_strategy=TWO_RESTARTS)
    cluster.pass_time(10_000)
    [told] = cancellations(cluster.pass_time(5_000))
    assert told.payload.vertex_id == "b"  # type: ignore[union-attr] # a cancellation
    cluster.report(one, ExecutionState.CANCELED)
    cluster.report(other, ExecutionState.CANCELED)
    assert status(cluster) is JobStatus.FAILED
    assert [e.cause.failure_type for e in cluster.events(TaskFailed)] == ["TaskTimeLimitExceeded"]
    cause = cluster.job("job").cause
    assert cause is not None
    assert cause.failure_type == "JobTimeLimitExceeded"


def test_what_is_to_start_again_anyway_joins_that_restart() -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=9)
    one, other = running(cluster, limited("a"), vertex("b"), restart_strategy=TWO_RESTARTS)
    cluster.pass_time(10_000)
    cluster.report(other, ExecutionState.FAILED, cause=FailureCause("ValueError", "no"))
    cluster.report(one, ExecutionState.CANCELED)
    assert len(cluster.events(RestartScheduled)) == 2
    assert len(deployments(cluster.pass_time(500))) == 2
    cluster.check()


def test_attempts_of_a_large_vertex_are_ended_in_bounded_decisions() -> None:
    cluster = ScriptedCluster(check_digests=False)
    cluster.register(slots=700)
    running(cluster, limited("a", parallelism=600))
    assert len(cancellations(cluster.pass_time(10_000))) == 600
    assert max(map(len, cluster.log)) <= MAX_DECISION_BYTES
    cluster.check()


def test_a_limit_that_cannot_be_looked_at_costs_its_job_and_no_leader(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect would end each leader in turn where what is due is asked, so it is decided, and parked (P10)."""
    warning_ms = time_limits._warning_ms

    def failing(of: JobGraph) -> int:
        if of.name == "bad":
            raise ZeroDivisionError("a defect")
        return warning_ms(of)

    with monkeypatch.context() as patch:
        patch.setattr(time_limits, "_warning_ms", failing)
        for name in ("bad", "good"):
            [deployment] = deployments(cluster.submit(graph(limited("a"), name=name, time_limit="1h"), job_id=name))
            cluster.report(deployment, ExecutionState.RUNNING)
        cluster.pass_time(10_000)
    assert cluster.terms == 1
    assert (cluster.job("bad").status, cluster.job("bad").cause) != (JobStatus.RUNNING, None)
    assert [e.job_id for e in cluster.events(InputParked)] == ["bad"]
    assert [e.job_id for e in cluster.events(TaskCancellationRequested) if e.job_id == "good"] == ["good"]


def test_jobs_without_limits_are_not_asked_about(cluster: ScriptedCluster) -> None:
    running(cluster, vertex("a"))
    assert not cluster.master.dispatcher.limited_jobs
    cluster.pass_time(10**9)
    assert not cluster.events(GlobalFailureOccurred, JobStatusChanged)[1:]


def test_the_limits_of_a_job_are_shown_with_it_and_when_it_fails(cluster: ScriptedCluster) -> None:
    [deployment, _] = running(cluster, limited("a", "90s"), vertex("b"), time_limit="1h")
    shown, page = job_view(cluster.fold, "job"), job_page(cluster.fold, "job")
    assert (shown.time_limit_ms, shown.fails_at) == (page.time_limit_ms, page.fails_at) == (3_600_000, "2027-01-15T09:00:00.000+00:00")
    assert [each.time_limit_ms for each in shown.vertices] == [each.time_limit_ms for each in page.vertices] == [90_000, None]
    cluster.suspend()
    assert (job_view(cluster.fold, "job").time_limit_ms, job_view(cluster.fold, "job").fails_at) == (3_600_000, None)
    cluster.report(deployment, ExecutionState.CANCELED)


def test_an_attempt_that_does_not_end_waits_since_its_limit(cluster: ScriptedCluster) -> None:
    [deployment] = running(cluster, limited("a"))
    cluster.pass_time(10_000)
    cluster.pass_time(60_000)
    [wait] = VertexWaits(cluster.master).of_jobs([cluster.job("job")])
    assert (wait.reason, wait.since_ms) == (WaitReason.CANCELLATION, START_MS + 10_000)
    cluster.report(deployment, ExecutionState.CANCELED)


def test_a_failure_by_a_limit_says_whose_it_is_and_what_to_do(cluster: ScriptedCluster) -> None:
    [deployment] = running(cluster, limited("a"), restart_strategy=fixed_delay(1))
    cluster.pass_time(10_000)
    cluster.report(deployment, ExecutionState.CANCELED)
    [told] = exceptions_page(cluster.fold, "job", 10).exceptions
    assert told.kind == "time_limit"
    assert "raise the vertex's 'time_limit' if it needs longer, or see in its logs where it stood; restart 1" in told.sentence


# -- the document --------------------------------------------------------------------------------------------------


def test_limits_are_written_and_read_as_durations() -> None:
    parsed = parse_job_graph(graph(limited("a", "90s"), time_limit="2h", time_limit_warning="15m"), "test")
    assert (parsed.time_limit_ms, parsed.time_limit_warning_ms, parsed.vertices[0].time_limit_ms) == (7_200_000, 900_000, 90_000)
    document = to_document(parsed)
    assert (document["time_limit"], document["time_limit_warning"], document["vertices"][0]["time_limit"]) == ("2h", "15m", "90s")
    assert parse_job_graph(document, "test") == parsed


@pytest.mark.parametrize("wrong", ["for ever", "7", 7, 1.5, "0s", "367d", "-1d", "9" * 400 + "d", True])
@pytest.mark.parametrize("key", ["time_limit", "time_limit_warning", "vertices[0].time_limit"])
def test_what_is_no_limit_is_refused(wrong: Any, key: str) -> None:
    made = vertex("a") | ({"time_limit": wrong} if key.startswith("vertices") else {})
    more: dict[str, Any] = {} if key.startswith("vertices") else {key: wrong}
    with pytest.raises(InvalidJobGraph, match=r"time_limit.*: must be a whole number with ms, s, m, h or d behind it, such as 15m"):
        parse_job_graph(graph(made, **more), "test")


@pytest.mark.parametrize("more", [{}, {"time_limit": "1h"}, {"time_limit": "30m"}])
def test_a_warning_has_to_come_before_its_limit_and_after_the_submission(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidJobGraph, match="'time_limit_warning' says how long before the job's 'time_limit' it warns"):
        parse_job_graph(graph(vertex("a"), time_limit_warning="1h", **more), "test")


def test_a_stream_has_no_limit_but_a_job_whose_streams_end_may() -> None:
    endless = stream("s")
    ends = endless | {"stream": endless["stream"] | {"trigger": {"available_now": True}}}
    with pytest.raises(InvalidJobGraph, match=r"vertices\[0\]\.time_limit: it is for batch tasks, and 's' is a stream"):
        parse_job_graph(graph(ends | {"time_limit": "1h"}), "test")
    with pytest.raises(
        InvalidJobGraph, match="'time_limit' is for jobs that end by themselves, and the stream 's' runs until it is stopped"
    ):
        parse_job_graph(graph(endless, time_limit="1h"), "test")
    assert parse_job_graph(graph(ends, time_limit="1h"), "test").time_limit_ms == 3_600_000
