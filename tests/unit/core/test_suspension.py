"""A suspended job keeps what has finished, frees its slots, and continues with the rest under a new JobMaster."""

from collections.abc import Iterator

import pytest

from eventflink.events.inputs import MAX_REASON_LENGTH, TaskManagerDeath
from eventflink.events.log_events import (
    JobMasterStarted,
    JobMasterStopped,
    JobStatusChanged,
    JobSuspensionRequested,
    RegionRestarted,
    RequestAccepted,
    RequestRejected,
    SlotRequestCancelled,
    TaskFinished,
)
from eventflink.events.topics import MAX_DECISION_BYTES
from eventflink.master.effects import Effect
from eventflink.master.settings import MasterSettings
from eventflink.model.statuses import ExecutionState, FailoverStrategy, JobStatus
from tests.support.cluster import ScriptedCluster, cancellations, deployments, fixed_delay, graph, replies, state_report, tasks, vertex


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """One TaskManager with four slots, at the newest feature level; the log is replayed at the end."""
    scripted = ScriptedCluster()
    scripted.register()
    yield scripted
    scripted.check()


def _answer(effects: list[Effect]) -> str:
    """Return the code of the only refusal; "" for what was accepted."""
    [reply] = replies(effects)
    return reply.payload.code if isinstance(reply.payload, RequestRejected) else ""


def _status(cluster: ScriptedCluster) -> JobStatus:
    return cluster.job("job").status


def _attempts(cluster: ScriptedCluster) -> list[int]:
    return [s.attempt for s in cluster.job("job").execution_graph.subtasks()]


def _half_done(cluster: ScriptedCluster) -> list[Effect]:
    """Run a job until its first vertex has finished; return the deployment of the second one."""
    document = graph(vertex("a", 2), vertex("b"), edges=[("a", "b", "hash")])
    one, other = deployments(cluster.submit(document))
    cluster.report(one, ExecutionState.FINISHED)
    [reader] = deployments(cluster.report(other, ExecutionState.FINISHED))
    cluster.report(reader, ExecutionState.RUNNING)
    return [reader]


def test_what_has_finished_stays_and_only_the_rest_runs_again(cluster: ScriptedCluster) -> None:
    _half_done(cluster)
    [cancellation] = cancellations(cluster.suspend(reason="maintenance"))
    assert _status(cluster) is JobStatus.SUSPENDED
    cluster.say(state_report(cancellation, ExecutionState.CANCELED))
    assert cluster.master.slot_manager.get_number_free_slots() == 4
    assert cluster.events(JobMasterStopped) == [JobMasterStopped("job", "job-1", "maintenance")]
    assert not tasks(cluster.pass_time(60_000)), "it stays suspended"
    effects = cluster.resume()
    [again] = tasks(effects)
    assert (again.vertex_id, again.attempt) == ("b", 2)
    assert [each.location for entry in again.inputs for each in entry.locations] == [
        "/outputs/job/a/0/1/default",
        "/outputs/job/a/1/1/default",
    ]
    cluster.run(effects)
    assert _status(cluster) is JobStatus.FINISHED
    assert [(e.vertex_id, e.attempt) for e in cluster.events(TaskFinished)] == [("a", 1), ("a", 1), ("b", 2)]
    statuses = [e.to_status for e in cluster.events(JobStatusChanged)]
    assert statuses == [JobStatus.RUNNING, JobStatus.SUSPENDED, JobStatus.RUNNING, JobStatus.FINISHED]


def test_the_job_master_keeps_its_token_until_its_last_attempt_has_ended(cluster: ScriptedCluster) -> None:
    """P15: whatever else happens, an attempt of the older JobMaster is terminal before."""
    reader = _half_done(cluster)
    cluster.suspend()
    assert cluster.job("job").job_master_id == "job-1"
    assert not tasks(cluster.resume()), "the older attempt may still write"
    assert _status(cluster) is JobStatus.SUSPENDED
    [again] = tasks(cluster.report(deployments(reader)[0], ExecutionState.CANCELED))
    assert again.attempt == 2
    assert (cluster.job("job").job_master_id, _status(cluster)) == ("job-2", JobStatus.RUNNING)


def test_a_command_under_the_token_of_the_older_job_master_is_refused(cluster: ScriptedCluster) -> None:
    effects = cluster.submit(graph(vertex("a", 9)))
    cluster.suspend(job_master_id="job-1")
    for deployment in deployments(effects):
        cluster.report(deployment, ExecutionState.CANCELED)
    cancel = cluster.command(type="CancelJob", job_id="job", job_master_id="job-1")
    assert _answer(cancel) == "FencingTokenMismatch"
    assert "job 'job' has none now" in replies(cancel)[0].payload.message  # type: ignore[union-attr] # a refusal
    cluster.resume()
    assert [e.job_master_id for e in cluster.events(JobMasterStarted)] == ["job-1", "job-2"]
    assert _answer(cluster.suspend(job_master_id="job-1")) == "FencingTokenMismatch"
    assert _status(cluster) is JobStatus.RUNNING
    assert _answer(cluster.suspend(job_master_id="job-2")) == ""


def test_pending_requests_are_withdrawn_and_nothing_waits_for_a_slot(cluster: ScriptedCluster) -> None:
    effects = cluster.submit(graph(vertex("a", 6)))
    cluster.suspend()
    assert len(cluster.events(SlotRequestCancelled)) == 2
    for deployment in deployments(effects):
        cluster.report(deployment, ExecutionState.CANCELED)
    slots = cluster.master.slot_manager
    assert (slots.get_number_pending_slot_requests(), slots.get_number_free_slots()) == (0, 4)


def test_many_live_attempts_are_told_in_bounded_decisions(cluster: ScriptedCluster) -> None:
    cluster.register("large", slots=400)
    effects = deployments(cluster.submit(graph(vertex("a", 300))))
    cluster.suspend()
    for deployment in effects:
        cluster.report(deployment, ExecutionState.CANCELED)
    assert cluster.job("job").job_master_id == ""
    assert len(cancellations(e for released in cluster.released for e in released.effects)) == 300
    assert len(deployments(cluster.resume())) == 300
    assert max(map(len, cluster.log)) <= MAX_DECISION_BYTES


def test_a_failover_in_the_middle_changes_nothing(cluster: ScriptedCluster) -> None:
    [reader] = deployments(_half_done(cluster))
    cluster.suspend()
    cluster.fail_over()
    cluster.resume()
    cluster.fail_over()
    [again] = tasks(cluster.report(reader, ExecutionState.CANCELED))
    assert (again.vertex_id, again.attempt) == ("b", 2)


def test_a_suspended_job_can_be_cancelled_also_while_it_is_to_go_on(cluster: ScriptedCluster) -> None:
    [reader] = deployments(_half_done(cluster))
    cluster.suspend()
    cluster.resume()
    assert _answer(cluster.cancel()) == ""
    assert not tasks(cluster.report(reader, ExecutionState.CANCELED))
    assert _status(cluster) is JobStatus.CANCELED


def test_one_that_has_stopped_is_cancelled_at_once(cluster: ScriptedCluster) -> None:
    effects = cluster.submit(graph(vertex("a")))
    cluster.suspend()
    cluster.report(deployments(effects)[0], ExecutionState.CANCELED)
    cluster.cancel()
    assert _status(cluster) is JobStatus.CANCELED
    assert _answer(cluster.resume()) == _answer(cluster.suspend()) == "JobTerminated"


def test_a_job_that_is_asked_again_to_stop_does_not_go_on(cluster: ScriptedCluster) -> None:
    [reader] = deployments(_half_done(cluster))
    cluster.suspend()
    cluster.resume()
    cluster.suspend(reason="on second thoughts")
    assert not tasks(cluster.report(reader, ExecutionState.CANCELED))
    assert cluster.events(JobMasterStopped) == [JobMasterStopped("job", "job-1", "on second thoughts")]


def test_the_loss_of_the_task_manager_ends_the_attempts_and_the_job_is_suspended(cluster: ScriptedCluster) -> None:
    _half_done(cluster)
    cluster.suspend()
    cluster.say(TaskManagerDeath("tm", "tm-1", "killed"))
    assert (_status(cluster), cluster.job("job").job_master_id) == (JobStatus.SUSPENDED, "")


def test_a_job_that_waits_to_restart_goes_on_without_the_rest_of_its_delay(cluster: ScriptedCluster) -> None:
    [one] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(3, 60_000))))
    cluster.report(one, ExecutionState.FAILED)
    cluster.suspend()
    assert not tasks(cluster.pass_time(120_000))
    [again] = tasks(cluster.resume())
    assert (again.attempt, cluster.job("job").restarts.count) == (2, 1)


def test_a_result_that_was_taken_back_is_made_anew(cluster: ScriptedCluster) -> None:
    """Under full failover everything that had begun was to begin again; a suspension does not bring its results back."""
    cluster.settings = MasterSettings(failover_strategy=FailoverStrategy.FULL)
    cluster.fail_over()
    document = graph(vertex("a"), vertex("b"), edges=[("a", "b", "hash")], restart_strategy=fixed_delay(3, 60_000))
    [reader] = deployments(cluster.report(deployments(cluster.submit(document))[0], ExecutionState.FINISHED))
    cluster.report(reader, ExecutionState.FAILED)
    cluster.suspend()
    effects = cluster.resume()
    assert [task.vertex_id for task in tasks(effects)] == ["a"]
    cluster.run(effects)
    assert (_status(cluster), _attempts(cluster)) == (JobStatus.FINISHED, [2, 2])


def test_large_jobs_go_on_in_bounded_decisions() -> None:
    cluster = ScriptedCluster(check_digests=False, check_states=False)
    cluster.submit(graph(vertex("a", 2_000)))
    cluster.suspend()
    assert (cluster.job("job").status, cluster.job("job").job_master_id) == (JobStatus.SUSPENDED, "")
    cluster.resume()
    assert len(cluster.events(RegionRestarted)) == 2_000
    assert cluster.job("job").status is JobStatus.RUNNING
    assert max(map(len, cluster.log)) <= MAX_DECISION_BYTES
    cluster.check()


def test_asking_for_what_is_so_is_accepted_without_an_event(cluster: ScriptedCluster) -> None:
    effects = cluster.submit(graph(vertex("a")))
    assert _answer(cluster.resume()) == ""
    for _ in range(2):
        assert _answer(cluster.suspend()) == ""
    cluster.report(deployments(effects)[0], ExecutionState.CANCELED)
    assert len(cluster.events(JobSuspensionRequested)) == 1


def test_a_request_that_is_repeated_is_not_done_twice(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a", 9)))
    cluster.suspend(request_id="r")
    cluster.resume()
    assert isinstance(replies(cluster.suspend(request_id="r"))[0].payload, RequestAccepted)
    assert len(cluster.events(JobSuspensionRequested)) == 1


def test_a_job_that_ends_can_neither_be_suspended_nor_go_on(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a")))
    cluster.cancel()
    assert _answer(cluster.suspend()) == _answer(cluster.resume()) == "JobEnding"
    assert _status(cluster) is JobStatus.CANCELLING


@pytest.mark.parametrize("kind", ["SuspendJob", "ResumeJob"])
def test_a_wrong_command_is_refused(cluster: ScriptedCluster, kind: str) -> None:
    assert _answer(cluster.command(type=kind, job_id="nobody")) == "UnknownJob"
    assert _answer(cluster.command(type=kind, job_id="no id!")) == "InvalidRequest"
    assert _answer(cluster.command(type=kind, job_id="job", then="x")) == "InvalidRequest"


def test_a_reason_has_a_bound(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a")))
    assert _answer(cluster.suspend(reason="x" * (MAX_REASON_LENGTH + 1))) == "InvalidRequest"
    assert _status(cluster) is JobStatus.RUNNING
