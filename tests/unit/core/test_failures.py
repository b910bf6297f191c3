"""What happens when an attempt fails: the restart strategy decides, a new attempt comes only after the old one ended (P15)."""

import pytest

from eventflink.events.inputs import SlotOffer, TaskManagerDeath
from eventflink.events.log_events import JobResultStored, RegionRestarted, RestartScheduled, SlotOfferRejected, TaskFailed
from eventflink.master.failover import MAX_SLOT_REFUSALS
from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import ExecutionState, JobStatus
from tests.support.cluster import ScriptedCluster, cancellations, deployments, fixed_delay, graph, output_at, state_report, tasks, vertex


def test_without_a_strategy_the_first_failure_fails_the_job_and_ends_the_others(cluster: ScriptedCluster) -> None:
    cluster.register(slots=2)
    [one, other] = deployments(cluster.submit(graph(vertex("a", 3))))
    cluster.report(other, ExecutionState.RUNNING)
    cause = FailureCause("KeyError", "no column 'x'", "Traceback …")
    effects = cluster.report(one, ExecutionState.FAILED, cause=cause)
    assert cluster.job("job").status is JobStatus.FAILING
    [cancellation] = cancellations(effects)
    assert (cancellation.payload.vertex_id, cancellation.payload.subtask_index) == ("a", 1)  # type: ignore[union-attr] # by its class
    assert not tasks(effects), "what waited for a slot is not deployed any more"
    cluster.run([cancellation])
    [stored] = cluster.events(JobResultStored)
    assert (stored.status, stored.cause) == (JobStatus.FAILED, cause)
    assert cluster.master.slot_manager.get_number_free_slots() == 2


def test_the_first_failure_stays_the_cause(cluster: ScriptedCluster) -> None:
    cluster.register(slots=2)
    [one, other] = deployments(cluster.submit(graph(vertex("a", 2))))
    cluster.report(one, ExecutionState.FAILED, cause=FailureCause("First", "1"))
    cluster.report(other, ExecutionState.FAILED, cause=FailureCause("Second", "2"))
    [stored] = cluster.events(JobResultStored)
    assert stored.cause == FailureCause("First", "1")


def test_a_failure_without_a_cause_says_so(cluster: ScriptedCluster) -> None:
    cluster.register()
    [one] = deployments(cluster.submit(graph(vertex("a"))))
    cluster.say(SlotOffer("tm", "tm-1", "allocation-1"), state_report(one, ExecutionState.FAILED))
    assert cluster.events(TaskFailed)[0].cause == FailureCause("Unknown", "the TaskExecutor gave no cause")


def test_an_attempt_that_its_task_executor_cancelled_on_its_own_has_failed(cluster: ScriptedCluster) -> None:
    cluster.register()
    [one] = deployments(cluster.submit(graph(vertex("a"))))
    cluster.report(one, ExecutionState.CANCELED)
    assert cluster.events(TaskFailed)[0].cause.failure_type == "UnexpectedCancellation"
    assert cluster.job("job").status is JobStatus.FAILED


def test_fixed_delay_restarts_the_failed_subtask_alone_after_the_delay(cluster: ScriptedCluster) -> None:
    """Finished subtasks keep what they published: every edge is blocking."""
    cluster.register(slots=4)
    first = deployments(
        cluster.submit(graph(vertex("a", 2), vertex("b"), edges=[("a", "b", "hash")], restart_strategy=fixed_delay(2, delay_ms=500)))
    )
    cluster.report(first[0], ExecutionState.FINISHED)
    effects = cluster.report(first[1], ExecutionState.FAILED)
    assert cluster.job("job").status is JobStatus.RESTARTING
    assert not tasks(effects + cluster.pass_time(499))
    [again] = deployments(cluster.pass_time(1))
    assert cluster.job("job").status is JobStatus.RUNNING
    assert [(t.vertex_id, t.subtask_index, t.attempt) for t in tasks([again])] == [("a", 1, 2)]
    effects = cluster.run([again])
    assert [t.vertex_id for t in tasks(effects)] == ["a", "b"]
    assert cluster.job("job").status is JobStatus.FINISHED
    assert tasks(effects)[1].inputs[0].locations == (output_at("/outputs/job/a/0/1/default"), output_at("/outputs/job/a/1/2/default"))


@pytest.mark.parametrize("attempts", [0, 1, 3])
def test_restarts_are_counted_over_the_job_and_run_out(cluster: ScriptedCluster, attempts: int) -> None:
    cluster.register(slots=1)
    effects = cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(attempts, delay_ms=100)))
    for number in range(attempts + 1):
        [deployment] = deployments(effects)
        assert tasks([deployment])[0].attempt == number + 1
        cluster.report(deployment, ExecutionState.FAILED, cause=FailureCause("E", str(number)))
        effects = cluster.pass_time(100)
    assert [e.restarts for e in cluster.events(RestartScheduled)] == list(range(1, attempts + 1))
    [stored] = cluster.events(JobResultStored)
    assert (stored.status, stored.cause) == (JobStatus.FAILED, FailureCause("E", str(attempts)))


def test_a_failure_beyond_the_last_restart_while_another_waits_fails_the_job(cluster: ScriptedCluster) -> None:
    """RESTARTING → FAILING: the subtask that waits is never started again."""
    cluster.register(slots=2)
    [one, other] = deployments(cluster.submit(graph(vertex("a", 2), restart_strategy=fixed_delay(1))))
    cluster.report(one, ExecutionState.FAILED)
    assert cluster.job("job").status is JobStatus.RESTARTING
    cluster.report(other, ExecutionState.FAILED)
    assert cluster.job("job").status is JobStatus.FAILED
    assert not tasks(cluster.pass_time(10_000))


def test_several_failures_wait_each_for_its_own_delay(cluster: ScriptedCluster) -> None:
    cluster.register(slots=2)
    [one, other] = deployments(cluster.submit(graph(vertex("a", 2), restart_strategy=fixed_delay(5, delay_ms=500))))
    cluster.report(one, ExecutionState.FAILED)
    cluster.pass_time(300)
    cluster.report(other, ExecutionState.FAILED)
    effects = cluster.pass_time(200)
    assert [t.subtask_index for t in tasks(effects)] == [0]
    assert cluster.job("job").status is JobStatus.RESTARTING
    effects += cluster.pass_time(300)
    assert [t.subtask_index for t in tasks(effects)] == [0, 1]
    cluster.run(effects)
    assert cluster.job("job").status is JobStatus.FINISHED


def test_a_waiting_restart_survives_a_change_of_leader(cluster: ScriptedCluster) -> None:
    cluster.register()
    [one] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(1))))
    cluster.report(one, ExecutionState.FAILED)
    cluster.fail_over()
    cluster.run(cluster.pass_time(500))
    assert cluster.job("job").status is JobStatus.FINISHED


def test_a_refused_slot_is_asked_for_again_at_once_without_counting_as_a_restart(cluster: ScriptedCluster) -> None:
    cluster.register(slots=2)
    [first] = deployments(cluster.submit(graph(vertex("a"))))
    effects = cluster.refuse(first)
    assert cluster.events(SlotOfferRejected)[0].reason == "no memory"
    assert [t.attempt for t in tasks(effects)] == [2]
    assert cluster.job("job").status is JobStatus.RUNNING
    assert cluster.job("job").restarts.count == 0
    cluster.run(effects)
    assert cluster.job("job").status is JobStatus.FINISHED


def test_slots_that_are_refused_again_and_again_fail_the_attempt(cluster: ScriptedCluster) -> None:
    cluster.register(slots=1)
    effects = cluster.submit(graph(vertex("a")))
    for _ in range(MAX_SLOT_REFUSALS + 1):
        effects = cluster.refuse(deployments(effects)[0])
    assert cluster.job("job").status is JobStatus.FAILED
    assert cluster.events(JobResultStored)[0].cause == FailureCause("SlotOfferRejected", "the TaskExecutor refused the slot: no memory")


def test_only_refusals_in_a_row_count(cluster: ScriptedCluster) -> None:
    """An attempt that ran in between starts the count again."""
    cluster.register(slots=1)
    effects = cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(1, delay_ms=0)))
    for _ in range(MAX_SLOT_REFUSALS):
        effects = cluster.refuse(deployments(effects)[0])
    cluster.report(deployments(effects)[0], ExecutionState.RUNNING)
    cluster.report(deployments(effects)[0], ExecutionState.FAILED)
    effects = cluster.refuse(deployments(cluster.pass_time(1))[0])
    cluster.run(effects)
    assert cluster.job("job").status is JobStatus.FINISHED


def test_a_refusal_after_the_attempt_ran_is_a_failure(cluster: ScriptedCluster) -> None:
    cluster.register()
    [first] = deployments(cluster.submit(graph(vertex("a"))))
    cluster.report(first, ExecutionState.RUNNING)
    cluster.refuse(first, "taken away")
    assert cluster.job("job").status is JobStatus.FAILED


@pytest.mark.rule("P15")
def test_a_new_attempt_is_made_only_after_the_old_one_ended_or_its_instance_is_lost(cluster: ScriptedCluster) -> None:
    """P15: nothing but a terminal report, a loss or a refusal makes attempt 2."""
    cluster.register("tm1", slots=1)
    cluster.register("tm2", slots=1)
    [first] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(3, delay_ms=0))))
    cluster.report(first, ExecutionState.RUNNING)
    cluster.pass_time(600_000)
    assert not cluster.events(RegionRestarted)
    cluster.say(TaskManagerDeath(first.task_manager_id, first.instance_id, "killed"))
    [second] = deployments(cluster.pass_time(1))
    assert second.task_manager_id != first.task_manager_id
    assert tasks([second])[0].attempt == 2
