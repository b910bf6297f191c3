"""Closing vertices run when all others have come to their end, before their job ends; how it ends was decided before, and stays."""

from collections.abc import Iterator
from typing import Any

import pytest

from eventflink.events import log_events as e
from eventflink.events.log_events import JobClosingAborted, JobClosingStarted, JobStatusChanged, RequestRejected
from eventflink.gateways.outputs import find_output
from eventflink.leadership.leader import ApplyFailed
from eventflink.master.effects import Effect
from eventflink.master.settings import AdaptiveSettings, MasterSettings
from eventflink.model.attempts import FailureCause
from eventflink.model.closing import GraphOutcome
from eventflink.model.statuses import ExecutionState, FailoverStrategy, FailureReaction, JobStatus, ReuseReason, SchedulerType
from eventflink.views.jobs_and_cluster import job_view
from eventflink.views.waits import Waits
from tests.support.cluster import (
    ScriptedCluster,
    cancellations,
    deployments,
    fixed_delay,
    graph,
    replies,
    state_report,
    stream,
    tasks,
    vertex,
)

FAILED = ExecutionState.FAILED
CASES = [(SchedulerType.DEFAULT, FailoverStrategy.REGION), (SchedulerType.ADAPTIVE, FailoverStrategy.FULL)]
CAUSE = FailureCause("ValueError", "no such column")
RUN = {
    JobStatus.FINISHED: ["on_success", "always"],
    JobStatus.FAILED: ["on_failure", "always"],
    JobStatus.CANCELED: ["always"],
}
"""Which of the closing vertices of `closed` run, by how its graph comes out."""


@pytest.fixture(params=CASES, ids=lambda case: case[0])
def cluster(request: pytest.FixtureRequest) -> Iterator[ScriptedCluster]:
    """One TaskManager of 4 slots, under each scheduler and failover strategy; the log is replayed at the end."""
    scheduler, failover = request.param
    scripted = ScriptedCluster(MasterSettings(adaptive=AdaptiveSettings(scheduler), failover_strategy=failover))
    scripted.register("one", 4)
    yield scripted
    scripted.check()


def closing(name: str, runs: str, parallelism: int = 1, **more: Any) -> dict[str, Any]:
    """Return a closing vertex of a document."""
    return vertex(name, parallelism) | {"runs": runs} | more


def closed(**more: Any) -> dict[str, Any]:
    """Return a job of two vertices, and one that closes it after each end."""
    ends = closing("on_success", "on-success"), closing("on_failure", "on-failure"), closing("always", "always")
    return graph(vertex("read"), vertex("write"), *ends, edges=[("read", "write", "rebalance")], **more)


def bring_to(cluster: ScriptedCluster, outcome: JobStatus, document: dict[str, Any] | None = None) -> list[Effect]:
    """Submit a job whose vertices that run in their turn come out so; return what follows."""
    [first] = deployments(cluster.submit(document or closed()))
    if outcome is JobStatus.FAILED:
        return cluster.report(first, FAILED)
    if outcome is JobStatus.CANCELED:
        [cancelled] = cancellations(cluster.cancel())
        return cluster.say(state_report(cancelled, ExecutionState.CANCELED))
    [second] = deployments(cluster.report(first, ExecutionState.FINISHED))
    return cluster.report(second, ExecutionState.FINISHED)


def begun(effects: list[Effect]) -> list[str]:
    return [task.vertex_id for task in tasks(effects)]


def cancel_closing(cluster: ScriptedCluster, request_id: str = "closing") -> list[Effect]:
    return cluster.command(type="CancelJob", job_id="job", request_id=request_id, closing=True)


def states(cluster: ScriptedCluster) -> dict[str, list[ExecutionState]]:
    return {name: [s.state for s in each.subtasks] for name, each in cluster.job("job").execution_graph.vertices.items()}


@pytest.mark.rule("P25")
@pytest.mark.parametrize("outcome", list(RUN))
def test_those_run_that_are_for_the_end_and_the_job_ends_after_them(cluster: ScriptedCluster, outcome: JobStatus) -> None:
    effects = bring_to(cluster, outcome)
    assert begun(effects) == RUN[outcome]
    job = cluster.job("job")
    before = {JobStatus.FINISHED: JobStatus.RUNNING, JobStatus.FAILED: JobStatus.FAILING, JobStatus.CANCELED: JobStatus.CANCELLING}
    assert job.status is before[outcome]
    left_out = {"on_success", "on_failure", "always"} - set(RUN[outcome])
    assert all(states(cluster)[name] == [ExecutionState.CANCELED] for name in left_out)
    *first, last = deployments(effects)
    for each in first:
        cluster.report(each, ExecutionState.FINISHED)
    assert job.status is before[outcome]
    cluster.report(last, ExecutionState.FINISHED)
    assert job.status is outcome
    [stored] = cluster.events(e.JobResultStored)
    assert stored.status is outcome


@pytest.mark.rule("P25")
def test_a_vertex_that_does_not_run_never_has_a_slot(cluster: ScriptedCluster) -> None:
    cluster.run(bring_to(cluster, JobStatus.FINISHED))
    assert "on_failure" not in {each.vertex_id for each in cluster.events(e.TaskScheduled)}


def test_they_are_told_what_failed(cluster: ScriptedCluster) -> None:
    effects = bring_to(cluster, JobStatus.FAILED)
    outcome = GraphOutcome(JobStatus.FAILED, "read", 0, 1, "ValueError", "no such column")
    assert [task.outcome for task in tasks(effects)] == [outcome, outcome]
    assert cluster.events(JobClosingStarted) == [JobClosingStarted("job", outcome)]


@pytest.mark.parametrize("outcome", [JobStatus.FINISHED, JobStatus.CANCELED])
def test_of_another_end_they_are_told_its_status(cluster: ScriptedCluster, outcome: JobStatus) -> None:
    assert {task.outcome for task in tasks(bring_to(cluster, outcome))} == {GraphOutcome(outcome)}


def test_others_are_told_of_no_end(cluster: ScriptedCluster) -> None:
    assert [task.outcome for task in tasks(cluster.submit(closed()))] == [None]


def test_what_a_failure_says_is_cut(cluster: ScriptedCluster) -> None:
    [first] = deployments(cluster.submit(closed()))
    [told, _] = tasks(cluster.report(first, FAILED, cause=FailureCause("ValueError", "x" * 100_000, "trace" * 1_000)))
    assert told.outcome is not None
    assert len(told.outcome.message) < 1_100


def test_a_job_that_fails_as_a_whole_names_no_vertex(cluster: ScriptedCluster) -> None:
    [first] = deployments(cluster.submit(closed(time_limit="1m")))
    [cancelled] = cancellations(cluster.pass_time(60_000))
    [told, _] = tasks(cluster.say(state_report(cancelled, ExecutionState.CANCELED)))
    assert told.outcome is not None
    assert (told.outcome.vertex_id, told.outcome.failure_type) == ("", "JobTimeLimitExceeded")
    assert first.task_manager_id == "one"


def test_they_wait_for_all_others_of_a_job_that_fails(cluster: ScriptedCluster) -> None:
    document = graph(vertex("a"), vertex("b"), closing("always", "always"))
    one, other = deployments(cluster.submit(document))
    effects = cluster.report(one, FAILED)
    assert not tasks(effects)
    assert begun(cluster.say(state_report(cancellations(effects)[0], ExecutionState.CANCELED))) == ["always"]
    assert other.task_manager_id == "one"


def test_a_restart_of_the_others_is_no_end(cluster: ScriptedCluster) -> None:
    [first] = deployments(cluster.submit(closed(restart_strategy=fixed_delay(1))))
    assert not tasks(cluster.report(first, FAILED))
    effects = cluster.pass_time(500)
    assert begun(effects) == ["read"]
    cluster.run(effects)
    assert cluster.job("job").status is JobStatus.FINISHED
    assert [each.vertex_id for each in cluster.events(e.TaskFinished)][-2:] == ["on_success", "always"]


@pytest.mark.rule("P25")
@pytest.mark.parametrize("outcome", list(RUN))
def test_a_failure_of_one_changes_nothing_of_the_end(cluster: ScriptedCluster, outcome: JobStatus) -> None:
    strategy = {"type": "none"} if outcome is JobStatus.FAILED else fixed_delay(5)
    cluster.run(bring_to(cluster, outcome, closed(restart_strategy=strategy)), lambda _: FAILED)
    job = cluster.job("job")
    assert job.status is outcome
    assert job.cause == (CAUSE if outcome is JobStatus.FAILED else None)
    noted = [root for root in job.exceptions.roots if root.reaction is FailureReaction.NOTED]
    assert [root.failure.vertex_id for root in noted] == RUN[outcome]


def test_one_that_fails_is_tried_again_by_its_own_retries(cluster: ScriptedCluster) -> None:
    document = graph(vertex("a"), closing("always", "always", retries=2), restart_strategy={"type": "none"})
    [first] = deployments(cluster.submit(document))
    effects = cluster.report(first, FAILED)
    for attempt in (1, 2):
        [again] = deployments(effects)
        assert tasks([again])[0].attempt == attempt
        assert not tasks(cluster.report(again, FAILED))
        assert cluster.job("job").status is JobStatus.FAILING
        effects = cluster.pass_time(60_000)
    [last] = deployments(effects)
    cluster.report(last, FAILED)
    assert cluster.job("job").status is JobStatus.FAILED
    assert not cluster.events(JobClosingAborted)


def test_one_whose_task_manager_is_lost_runs_again_elsewhere(cluster: ScriptedCluster) -> None:
    [lost] = deployments(bring_to(cluster, JobStatus.CANCELED))
    cluster.register("two", 4)
    cluster.register("one", 4, instance="2")
    effects = cluster.pass_time(2_000)
    assert [(task.vertex_id, task.attempt) for task in tasks(effects)] == [("always", 2)]
    assert lost.instance_id == "one-1"
    cluster.run(effects)
    assert cluster.job("job").status is JobStatus.CANCELED


def test_subtasks_of_one_fail_and_start_again_alone(cluster: ScriptedCluster) -> None:
    one, other = deployments(bring_to(cluster, JobStatus.FAILED, graph(vertex("read"), closing("always", "always", 2, retries=1))))
    cluster.report(one, FAILED)
    cluster.report(other, ExecutionState.FINISHED)
    assert [(task.subtask_index, task.attempt) for task in tasks(cluster.pass_time(60_000))] == [(0, 2)]


@pytest.mark.rule("P25")
@pytest.mark.parametrize("outcome", list(RUN))
def test_after_their_time_they_are_cancelled_and_the_job_ends_as_it_was_to(cluster: ScriptedCluster, outcome: JobStatus) -> None:
    running = deployments(bring_to(cluster, outcome, closed(closing_time_limit="30s")))
    for each in running:
        cluster.report(each, ExecutionState.RUNNING)
    assert not cancellations(cluster.pass_time(29_999))
    cancelled = cancellations(cluster.pass_time(1))
    assert len(cancelled) == len(running)
    [aborted] = cluster.events(JobClosingAborted)
    assert aborted.reason == "the closing vertices have used their time of 30s: raise the job's 'closing_time_limit' if they need longer"
    for each in cancelled:
        cluster.say(state_report(each, ExecutionState.CANCELED))
    assert cluster.job("job").status is outcome


def test_without_a_slot_they_do_not_hold_the_job_for_ever(cluster: ScriptedCluster) -> None:
    bring_to(cluster, JobStatus.FAILED, graph(vertex("read"), closing("always", "always", resources={"cpu_cores": 64})))
    assert cluster.job("job").status is JobStatus.FAILING
    cluster.pass_time(600_000)
    assert cluster.job("job").status is JobStatus.FAILED


def test_the_time_limit_of_one_holds_for_each_attempt(cluster: ScriptedCluster) -> None:
    [running] = deployments(bring_to(cluster, JobStatus.FAILED, graph(vertex("read"), closing("always", "always", time_limit="5s"))))
    cluster.report(running, ExecutionState.RUNNING)
    [cancelled] = cancellations(cluster.pass_time(5_000))
    cluster.say(state_report(cancelled, ExecutionState.CANCELED))
    job = cluster.job("job")
    assert job.status is JobStatus.FAILED
    assert job.exceptions.roots[-1].failure.cause.failure_type == "TaskTimeLimitExceeded"


def test_the_time_limit_of_the_job_is_none_of_theirs(cluster: ScriptedCluster) -> None:
    effects = bring_to(cluster, JobStatus.FINISHED, closed(time_limit="1m"))
    cluster.pass_time(120_000)
    assert not cluster.events(e.GlobalFailureOccurred, e.JobTimeLimitNear)
    cluster.run(effects)
    assert cluster.job("job").status is JobStatus.FINISHED


@pytest.mark.rule("P25")
@pytest.mark.parametrize("outcome", list(RUN))
def test_who_cancels_them_ends_the_job_as_it_was_to(cluster: ScriptedCluster, outcome: JobStatus) -> None:
    running = deployments(bring_to(cluster, outcome))
    effects = cancel_closing(cluster)
    assert len(cancellations(effects)) == len(running)
    for each in cancellations(effects):
        cluster.say(state_report(each, ExecutionState.CANCELED))
    assert cluster.job("job").status is outcome
    [aborted] = cluster.events(JobClosingAborted)
    assert aborted.reason.startswith("cancelled by test")


def test_to_cancel_them_twice_is_to_cancel_them_once(cluster: ScriptedCluster) -> None:
    bring_to(cluster, JobStatus.CANCELED)
    cancel_closing(cluster, "again")
    assert not cancellations(cancel_closing(cluster, "once more"))
    assert len(cluster.events(JobClosingAborted)) == 1


@pytest.mark.rule("P25")
@pytest.mark.parametrize("outcome", list(RUN))
def test_who_cancels_a_job_that_is_closed_lets_them_run(cluster: ScriptedCluster, outcome: JobStatus) -> None:
    effects = bring_to(cluster, outcome)
    before = len(cluster.events(e.JobCancellationRequested))
    [reply] = replies(answered := cluster.cancel(request_id="again"))
    if outcome is JobStatus.CANCELED:
        assert isinstance(reply.payload, e.RequestAccepted)
    else:
        assert isinstance(reply.payload, e.RequestRejected)
        assert (reply.payload.code, f"ends as {outcome}" in reply.payload.message) == ("JobTerminated", True)
    assert not cancellations(answered)
    assert len(cluster.events(e.JobCancellationRequested)) == before
    cluster.run(effects)
    assert cluster.job("job").status is outcome
    assert len(cluster.events(e.TaskFinished)) >= len(RUN[outcome])


def test_one_that_waits_for_its_retry_is_not_tried_again_after_that(cluster: ScriptedCluster) -> None:
    [running] = deployments(bring_to(cluster, JobStatus.FAILED, graph(vertex("read"), closing("always", "always", retries=5))))
    cluster.report(running, FAILED)
    cancel_closing(cluster)
    assert cluster.job("job").status is JobStatus.FAILED
    assert not tasks(cluster.pass_time(60_000))


@pytest.mark.parametrize("outcome", list(RUN))
@pytest.mark.parametrize("command", ["SuspendJob", "ResumeJob"])
def test_a_job_that_is_closed_is_neither_suspended_nor_resumed(cluster: ScriptedCluster, outcome: JobStatus, command: str) -> None:
    effects = bring_to(cluster, outcome)
    [reply] = replies(cluster.command(type=command, job_id="job"))
    assert isinstance(reply.payload, RequestRejected)
    assert reply.payload.code == "JobEnding"
    assert reply.payload.message == "the closing vertices of job 'job' run: it ends after them, and can neither be suspended nor resumed"
    cluster.run(effects)
    assert cluster.job("job").status is outcome


def test_a_job_that_was_suspended_is_closed_at_its_end_alone(cluster: ScriptedCluster) -> None:
    [first] = deployments(cluster.submit(closed()))
    [cancelled] = cancellations(cluster.suspend())
    assert not tasks(cluster.say(state_report(cancelled, ExecutionState.CANCELED)))
    effects = cluster.resume()
    assert begun(effects) == ["read"]
    cluster.run(effects)
    assert cluster.job("job").status is JobStatus.FINISHED
    assert first.task_manager_id == "one"
    assert states(cluster)["always"] == [ExecutionState.FINISHED]


def test_a_suspended_job_that_is_cancelled_is_closed(cluster: ScriptedCluster) -> None:
    [_] = deployments(cluster.submit(closed()))
    [cancelled] = cancellations(cluster.suspend())
    cluster.say(state_report(cancelled, ExecutionState.CANCELED))
    effects = cluster.cancel()
    assert begun(effects) == ["always"]
    cluster.run(effects)
    assert cluster.job("job").status is JobStatus.CANCELED


@pytest.mark.rule("P25")
@pytest.mark.parametrize("outcome", list(RUN))
def test_a_leader_that_comes_in_between_goes_on(cluster: ScriptedCluster, outcome: JobStatus) -> None:
    bring_to(cluster, outcome)
    effects = list(cluster.fail_over().effects)
    assert sorted(begun(effects)) == sorted(RUN[outcome])
    assert all(task.outcome is not None and task.outcome.status is outcome for task in tasks(effects))
    cluster.run(effects)
    assert cluster.job("job").status is outcome


def test_a_shutdown_waits_for_them_for_as_long_as_for_all_else(cluster: ScriptedCluster) -> None:
    [first] = deployments(cluster.submit(closed()))
    cluster.shut_down(cancel_jobs=True)
    [cancelled] = cancellations(cluster.pass_time(0))
    effects = cluster.say(state_report(cancelled, ExecutionState.CANCELED))
    assert begun(effects) == ["always"]
    assert not cluster.events(e.ApplicationStatusRecorded)
    assert cancellations(cluster.pass_time(cluster.settings.shutdown_timeout_ms))
    [aborted] = cluster.events(JobClosingAborted)
    assert aborted.reason == "the cluster is shut down, and waits no longer for them"
    assert first.task_manager_id == "one"


def test_a_shutdown_that_suspends_jobs_lets_one_end_that_is_closed(cluster: ScriptedCluster) -> None:
    effects = bring_to(cluster, JobStatus.FINISHED)
    cluster.shut_down()
    cluster.pass_time(0)
    assert not cluster.events(e.JobSuspensionRequested)
    cluster.run(effects)
    assert cluster.job("job").status is JobStatus.FINISHED
    cluster.pass_time(0)
    assert cluster.events(e.ApplicationStatusRecorded)


def test_a_rerun_has_closing_vertices_of_its_own(cluster: ScriptedCluster) -> None:
    document = graph(vertex("a"), vertex("b"), closing("always", "always"), edges=[("a", "b", "rebalance")], keep="1d")
    [first] = deployments(cluster.submit(document))
    [second] = deployments(cluster.report(first, ExecutionState.FINISHED))
    cluster.run(cluster.report(second, FAILED))
    assert states(cluster)["always"] == [ExecutionState.FINISHED]
    effects = cluster.command(type="RerunJob", rerun_of="job", job_id="again", failed=True)
    assert begun(effects) == ["b"]
    assert cluster.job("again").reuse["always"].reason is ReuseReason.CLOSING
    assert begun(cluster.run(effects)) == ["b", "always"]
    assert cluster.job("again").status is JobStatus.FINISHED


def test_the_result_of_a_job_is_none_of_theirs(cluster: ScriptedCluster) -> None:
    cluster.run(bring_to(cluster, JobStatus.FINISHED))
    view = job_view(cluster.fold, "job")
    assert find_output(view).vertex_id == "write"
    assert find_output(view, "always").vertex_id == "always"


def test_nobody_gives_one_another_parallelism(cluster: ScriptedCluster) -> None:
    cluster.submit(closed())
    [reply] = replies(cluster.rescale("always", 3))
    assert isinstance(reply.payload, RequestRejected)
    assert (reply.payload.code, reply.payload.message) == (
        "ClosingVertex",
        "vertex 'always' runs at the end of its job, with the parallelism that its document says",
    )


def test_a_job_of_streams_is_closed(cluster: ScriptedCluster) -> None:
    [running] = deployments(cluster.submit(graph(stream("numbers"), closing("always", "always"))))
    cluster.report(running, ExecutionState.RUNNING)
    [cancelled] = cancellations(cluster.cancel())
    effects = cluster.say(state_report(cancelled, ExecutionState.CANCELED))
    assert begun(effects) == ["always"]
    cluster.run(effects)
    assert cluster.job("job").status is JobStatus.CANCELED


def test_it_says_whether_each_runs_and_why(cluster: ScriptedCluster) -> None:
    cluster.submit(closed())
    said = {each.vertex_id: (each.runs, each.runs_note) for each in job_view(cluster.fold, "job").vertices}
    assert said["read"] == (None, None)
    assert said["always"] == ("always", "it runs always, when all others of its job have come to their end")
    job = cluster.job("job")
    wait = Waits(cluster.master).of_subtask(job, job.execution_graph.vertices["on_failure"].subtasks[0])
    assert wait is not None
    assert wait.why == "it runs on-failure, when all others of its job have come to their end"


def test_it_says_how_far_the_closing_is(cluster: ScriptedCluster) -> None:
    effects = bring_to(cluster, JobStatus.FINISHED)
    view = job_view(cluster.fold, "job")
    assert view.closing is not None
    assert (view.closing.outcome, view.closing.abort_reason) == (JobStatus.FINISHED, None)
    said = {each.vertex_id: each.runs_note for each in view.vertices}
    assert said["on_success"] == "it runs on-success, and the others came out as FINISHED"
    assert said["on_failure"] == "it does not run, for it runs on-failure, and the others came out as FINISHED"
    cluster.run(effects)


@pytest.mark.rule("P25")
def test_no_job_ends_before_its_closing_vertices(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ScriptedCluster()
    cluster.register("one", 4)
    job = cluster.job
    bring_to(cluster, JobStatus.FINISHED)
    monkeypatch.setattr(
        type(job("job")), "decide_closing_abort", lambda self, _: [JobStatusChanged(self.job_id, self.status, JobStatus.FINISHED)]
    )
    with pytest.raises(ApplyFailed, match="of the closing vertices of job there is"):
        cancel_closing(cluster)
