"""What the loss of a TaskManager leads to, and how a full report is matched against the state (P13, P16)."""

import pytest

from eventflink.events.effects import EarlierAttempt, InstanceForgotten, TaskCancellation
from eventflink.events.inputs import Disconnection, SlotOffer, SlotReport, TaskManagerDeath, TaskManagerReport
from eventflink.events.log_events import InputsSkipped, JobResultStored, TaskFailed, TaskManagerLost, TaskManagerReportReconciled
from eventflink.leadership.liveness import HeartbeatMonitor
from eventflink.master.effects import Deployment
from eventflink.master.inputs import HeartbeatTimeout
from eventflink.model.attempts import AttemptStatus, FailureCause, SlotStatus
from eventflink.model.spark_engines import SparkAddress
from eventflink.model.statuses import ExecutionState, FollowUpType, JobStatus, SlotState
from tests.support.cluster import ScriptedCluster, cancellations, deployments, fixed_delay, graph, state_report, stream, tasks, vertex

RUNNING = ExecutionState.RUNNING


@pytest.mark.parametrize(
    "departure",
    [TaskManagerDeath("tm1", "tm1-1", "exit code 137"), Disconnection("tm1", "tm1-1", "stopped"), HeartbeatTimeout("tm1", "tm1-1", 5_000)],
    ids=lambda d: type(d).__name__,
)
def test_the_tasks_of_an_instance_that_is_gone_start_elsewhere(
    cluster: ScriptedCluster, departure: TaskManagerDeath | Disconnection | HeartbeatTimeout
) -> None:
    """Whatever made it go, and of several jobs at once: the jobs without a task there do not notice."""
    cluster.register("tm1", slots=4)
    running = deployments(
        cluster.submit(graph(vertex("a", 2), restart_strategy=fixed_delay(5, 0)), job_id="one")
        + cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(5, 0)), job_id="two")
        + cluster.submit(graph(vertex("a")), job_id="three")
    )
    for deployment in running[1:]:  # The first one is not acknowledged.
        cluster.report(deployment, RUNNING)
    cluster.register("tm2", slots=3)
    cluster.cancel("no such job")
    unharmed = deployments(cluster.submit(graph(vertex("a")), job_id="unharmed"))
    effects = cluster.timer(departure) if isinstance(departure, HeartbeatTimeout) else cluster.say(departure)
    assert cluster.job("three").status is JobStatus.FAILED
    assert cluster.job("unharmed").status is JobStatus.RUNNING
    assert {f.job_id for f in cluster.events(TaskFailed)} == {"one", "two", "three"}
    effects += cluster.pass_time(1)
    assert {t.attempt for t in tasks(effects)} == {2}
    cluster.run([*effects, *unharmed])
    assert all(d.task_manager_id == "tm2" for d in deployments(effects))
    assert {j: m.status for j, m in cluster.master.dispatcher.jobs.items()} == {
        "one": JobStatus.FINISHED,
        "two": JobStatus.FINISHED,
        "three": JobStatus.FAILED,
        "unharmed": JobStatus.FINISHED,
    }


@pytest.mark.rule("P15")
def test_a_deployment_names_the_attempt_before_it_and_earlier_ones_whose_instances_were_lost(cluster: ScriptedCluster) -> None:
    """Also by a leader that was none when they were lost: of their Spark sessions nobody may have said that they are released (P15)."""
    cluster.register("tm1", slots=1)
    [first] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(5, 0))))
    assert tasks([first])[0].earlier_attempts == ()
    cluster.register("tm2", slots=1)
    cluster.say(TaskManagerDeath("tm1", "tm1-1", "exit code 137"))
    [second] = deployments(cluster.pass_time(1))
    lost, named = EarlierAttempt(0, 1, "tm1-1"), []
    assert tasks([second])[0].earlier_attempts == (lost,)
    for _ in range(2):
        cluster.report(second, RUNNING)
        failed = cluster.report(second, ExecutionState.FAILED, cause=FailureCause("Error", "of the task"))
        [second] = deployments(failed + cluster.pass_time(1))
        named.append(tasks([second])[0].earlier_attempts)
    assert named == [(EarlierAttempt(0, 2, "tm2-1"), lost), (EarlierAttempt(0, 3, "tm2-1"), lost)]
    again = cluster.fail_over()
    assert [t.earlier_attempts for t in tasks(again.effects)] == named[1:]


@pytest.mark.rule("P15")
def test_a_deployment_says_on_which_spark_each_earlier_attempt_was_by_what_its_instance_had_registered(cluster: ScriptedCluster) -> None:
    """The engine of that name is elsewhere by now: the session of the lost attempt is to be ended where it is (P15)."""
    old, new, default = SparkAddress("lake", "sc://old:1"), SparkAddress("lake", "sc://new:1"), SparkAddress("", "sc://default:1")
    cluster.register("tm1", slots=2, spark_addresses=(default, old))
    vertices = (vertex("a") | {"engine": "lake"}, vertex("b"))
    first = deployments(cluster.submit(graph(*vertices, restart_strategy=fixed_delay(5, 0))))
    assert {task.vertex_id: (task.engine, task.earlier_attempts) for task in tasks(first)} == {"a": ("lake", ()), "b": ("", ())}
    cluster.register("tm2", slots=2, spark_addresses=(new,))
    cluster.say(TaskManagerDeath("tm1", "tm1-1", "cut off"))
    second = deployments(cluster.pass_time(1))
    named = {task.vertex_id: task.earlier_attempts for task in tasks(second)}
    assert named == {"a": (EarlierAttempt(0, 1, "tm1-1", "sc://old:1"),), "b": (EarlierAttempt(0, 1, "tm1-1", "sc://default:1"),)}
    again = cluster.fail_over()
    assert {task.vertex_id: task.earlier_attempts for task in tasks(again.effects)} == named
    [of_a] = [d for d, task in zip(second, tasks(second), strict=True) if task.vertex_id == "a"]
    cluster.report(of_a, RUNNING)
    failed = cluster.report(of_a, ExecutionState.FAILED, cause=FailureCause("Error", "of the task"))
    [third] = [task for task in tasks(failed + cluster.pass_time(1)) if task.vertex_id == "a"]
    assert third.earlier_attempts == (EarlierAttempt(0, 2, "tm2-1", "sc://new:1"), *named["a"])


@pytest.mark.rule("P15")
def test_a_deployment_of_a_stream_names_no_attempt_before_one_that_has_run(cluster: ScriptedCluster) -> None:
    """That had ended their sessions before it ran, and what they ran on may be gone for good by now."""
    cluster.register("tm1", slots=1, spark_addresses=(SparkAddress("", "sc://old:1"),))
    [first] = deployments(cluster.submit(graph(stream("a"), restart_strategy=fixed_delay(9, 0))))
    cluster.report(first, RUNNING)
    cluster.say(TaskManagerDeath("tm1", "tm1-1", "cut off"))
    named = []
    for number in range(2, 6):
        name = f"tm{number}"
        cluster.register(name, slots=1, spark_addresses=(SparkAddress("", "sc://new:1"),))
        [next_one] = deployments(cluster.pass_time(1))
        named.append([each.attempt for each in tasks([next_one])[0].earlier_attempts])
        if number == 3:
            cluster.report(next_one, RUNNING)
        cluster.say(TaskManagerDeath(name, f"{name}-1", "cut off"))
    assert named == [[1], [2, 1], [3], [4, 3]]


@pytest.mark.rule("P15")
def test_a_deployment_names_lost_attempts_of_subtasks_that_a_rescale_has_left_out(cluster: ScriptedCluster) -> None:
    """Their rows are computed by others since."""
    cluster.register("tm1", slots=2)
    cluster.register("tm2", slots=2)
    running = deployments(cluster.submit(graph(vertex("a", 4), scheduler="adaptive", restart_strategy=fixed_delay(5, 0))))
    for deployment in running:
        cluster.report(deployment, RUNNING)
    [gone] = [d for d, task in zip(running, tasks(running), strict=True) if task.subtask_index == 3]
    effects = cluster.say(TaskManagerDeath(gone.task_manager_id, gone.instance_id, "cut off"))
    for _ in range(6):
        effects += [e for c in cancellations(effects) for e in cluster.say(state_report(c, ExecutionState.CANCELED))]
        effects += cluster.pass_time(30_000)
    named = {(e.subtask_index, e.attempt, e.instance_id) for task in tasks(effects) for e in task.earlier_attempts}
    assert len(cluster.job("job").execution_graph.vertices["a"].subtasks) == 2
    assert named == {(task.subtask_index, 1, d.instance_id) for d, task in zip(running, tasks(running), strict=True)}


def test_the_cause_of_such_a_failure_names_the_task_manager_and_why(cluster: ScriptedCluster) -> None:
    cluster.register()
    cluster.submit(graph(vertex("a")))
    effects = cluster.say(TaskManagerDeath("tm", "tm-1", "exit code 137"))
    [stored] = cluster.events(JobResultStored)
    assert stored.cause is not None
    assert stored.cause.failure_type == "TaskManagerLost"
    assert stored.cause.message == "tm no longer has job/a[0]#1 (TaskManagerLost: exit code 137)"
    assert effects[0] == Deployment("tm", "tm-1", InstanceForgotten("exit code 137"))


def test_what_was_not_decided_of_a_loss_is_decided_by_the_next_leader(cluster: ScriptedCluster) -> None:
    """P10a: consequences are part of the state, so they survive a crash between two decisions."""
    cluster.register(slots=40)
    cluster.submit(graph(vertex("a", 40), restart_strategy=fixed_delay(100, 0)))
    from_here = len(cluster.log)
    cluster.say(TaskManagerDeath("tm", "tm-1", "killed"))
    assert len(cluster.log) > from_here + 1, "it takes more than one decision"
    whole = list(cluster.log)
    cluster.log[from_here + 1 :] = []
    cluster.digests = {o: d for o, d in cluster.digests.items() if o <= from_here}
    cluster.fail_over()
    assert any(kind is FollowUpType.FAIL_ALLOCATION for kind, _ in cluster.master.follow_ups.entries)
    cluster.settle()
    assert len(cluster.events(TaskFailed)) == 40
    assert len(whole) > from_here


def _present(job_id: str = "job", index: int = 0, attempt: int = 1) -> AttemptStatus:
    return AttemptStatus(job_id, "a", index, attempt, RUNNING)


@pytest.mark.rule("P16")
def test_an_acknowledged_attempt_that_is_not_reported_is_missing_and_fails(cluster: ScriptedCluster) -> None:
    cluster.register(slots=2)
    [one, other] = deployments(cluster.submit(graph(vertex("a", 2), restart_strategy=fixed_delay(1, 0))))
    cluster.report(one, RUNNING)
    cluster.report(other, RUNNING)
    cluster.say(SlotReport("tm", "tm-1", (SlotStatus(0, "allocation-1"), SlotStatus(1)), (_present(),)))
    assert cluster.events(TaskManagerReportReconciled)[-1].missing == ("allocation-2",)
    [failed] = cluster.events(TaskFailed)
    assert (failed.subtask_index, failed.cause.failure_type) == (1, "AttemptMissing")
    [again] = deployments(cluster.pass_time(1))
    assert tasks([again])[0].attempt == 2
    cluster.run([one, again])
    assert cluster.job("job").status is JobStatus.FINISHED


@pytest.mark.rule("P16")
def test_an_unacknowledged_deployment_is_not_missing(cluster: ScriptedCluster) -> None:
    """P16: the report may have been written before the deployment came."""
    cluster.register(slots=2)
    [one] = deployments(cluster.submit(graph(vertex("a"))))
    cluster.say(SlotReport("tm", "tm-1", (SlotStatus(0), SlotStatus(1)), ()))
    assert cluster.events(TaskManagerReportReconciled)[-1].missing == ()
    cluster.report(one, ExecutionState.FINISHED)
    assert cluster.job("job").status is JobStatus.FINISHED


@pytest.mark.rule("P16")
def test_a_copy_of_a_report_that_comes_behind_an_acknowledgement_is_skipped(cluster: ScriptedCluster) -> None:
    """P16: a producer that lost its id has sent it twice; the newer one counts, and what does not say its number."""
    cluster.register()
    [one] = deployments(cluster.submit(graph(vertex("a"))))
    first, second = (SlotReport("tm", "tm-1", (SlotStatus(0),), (), number) for number in (1, 2))
    cluster.say(first)
    cluster.report(one, RUNNING)
    cluster.say(first)
    assert [report.missing for report in cluster.events(TaskManagerReportReconciled)] == [()]
    assert "SlotReport 1 of tm-1" in cluster.events(InputsSkipped)[-1].reason
    cluster.say(second)
    assert [report.missing for report in cluster.events(TaskManagerReportReconciled)] == [(), ("allocation-1",)]


def test_an_attempt_reported_twice_as_missing_fails_once(cluster: ScriptedCluster) -> None:
    """Two reports in one record: the second finds the loss decided already."""
    cluster.register()
    [one] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(3, 0))))
    cluster.report(one, RUNNING)
    empty = SlotReport("tm", "tm-1", (), ())
    cluster.say(empty, empty)
    assert [r.missing for r in cluster.events(TaskManagerReportReconciled)] == [("allocation-1",), ()]
    assert len(cluster.events(TaskFailed)) == 1


def test_a_loss_right_after_a_report_of_missing_attempts_fails_them_once(cluster: ScriptedCluster) -> None:
    cluster.register(slots=2)
    for deployment in deployments(cluster.submit(graph(vertex("a", 2), restart_strategy=fixed_delay(5, 0)))):
        cluster.report(deployment, RUNNING)
    cluster.say(SlotReport("tm", "tm-1", (), ()), TaskManagerDeath("tm", "tm-1", "killed"))
    assert len(cluster.events(TaskFailed)) == 2
    assert not cluster.master.slot_manager.allocations


@pytest.mark.parametrize(
    "unknown",
    [_present("gone"), _present(index=5), _present(attempt=2), _present(attempt=0), AttemptStatus("job", "b", 0, 1, RUNNING)],
    ids=["job", "subtask", "later attempt", "earlier attempt", "vertex"],
)
def test_an_attempt_that_nobody_expects_is_cancelled(cluster: ScriptedCluster, unknown: AttemptStatus) -> None:
    cluster.register()
    [one] = deployments(cluster.submit(graph(vertex("a"))))
    cluster.report(one, RUNNING)
    effects = cluster.say(SlotReport("tm", "tm-1", (), (_present(), unknown)))
    [cancellation] = cancellations(effects)
    payload = cancellation.payload
    assert isinstance(payload, TaskCancellation)
    assert (payload.job_id, payload.vertex_id, payload.subtask_index, payload.attempt) == (
        unknown.job_id,
        unknown.vertex_id,
        unknown.subtask_index,
        unknown.attempt,
    )
    assert cluster.job("job").status is JobStatus.RUNNING


def test_an_attempt_on_another_instance_is_unknown_there(cluster: ScriptedCluster) -> None:
    """One attempt, one place: any other that has it is told to end it."""
    cluster.register("tm", slots=1)
    [one] = deployments(cluster.submit(graph(vertex("a"))))
    cluster.report(one, RUNNING)
    cluster.register("other", slots=1)
    [cancellation] = cancellations(cluster.say(SlotReport("other", "other-1", (), (_present(),))))
    assert cancellation.task_manager_id == "other"


def test_an_offer_for_what_is_lost_is_skipped(cluster: ScriptedCluster) -> None:
    cluster.register("tm", slots=1)
    cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(3, 0)))
    reports: tuple[TaskManagerReport, ...] = (TaskManagerDeath("tm", "tm-1", "killed"), SlotOffer("tm", "tm-1", "allocation-1"))
    cluster.say(*reports)
    assert len(cluster.events(InputsSkipped)) == 1


def test_slots_are_free_pending_and_allocated_in_turn(cluster: ScriptedCluster) -> None:
    cluster.register(slots=1)
    slot = cluster.master.slot_manager.task_managers["tm"].slots[0]
    assert slot.state.value == SlotState.FREE
    [one] = deployments(cluster.submit(graph(vertex("a"))))
    assert slot.state.value == SlotState.PENDING
    cluster.report(one, RUNNING)
    assert slot.state.value == SlotState.ALLOCATED
    cluster.report(one, ExecutionState.FINISHED)
    assert slot.state.value == SlotState.FREE
    assert not cluster.events(TaskManagerLost)


class TestHeartbeatMonitor:
    """P13: silence is proof only where a later canary shows that a heartbeat could have been read."""

    @pytest.mark.rule("P13")
    def test_silence_without_a_later_canary_proves_nothing(self) -> None:
        monitor = HeartbeatMonitor(timeout_ms=5_000, promoted_at_ms=0)
        monitor.heard("i", 1_000)
        assert monitor.overdue("tm", "i", 100_000) is None
        monitor.canary_read(5_999)
        assert monitor.overdue("tm", "i", 100_000) is None

    def test_silence_up_to_a_canary_behind_the_deadline_is_a_loss(self) -> None:
        monitor = HeartbeatMonitor(timeout_ms=5_000, promoted_at_ms=0)
        monitor.heard("i", 1_000)
        monitor.canary_read(6_000)
        assert monitor.overdue("tm", "i", 5_999) is None
        assert monitor.overdue("tm", "i", 6_000) == HeartbeatTimeout("tm", "i", 5_000)

    def test_a_heartbeat_starts_the_deadline_again(self) -> None:
        monitor = HeartbeatMonitor(timeout_ms=5_000, promoted_at_ms=0)
        monitor.heard("i", 1_000)
        monitor.canary_read(6_500)
        monitor.heard("i", 5_900)
        assert monitor.overdue("tm", "i", 6_600) is None

    @pytest.mark.rule("P13")
    def test_deadlines_begin_anew_at_promotion(self) -> None:
        monitor = HeartbeatMonitor(timeout_ms=5_000, promoted_at_ms=50_000)
        assert monitor.overdue("tm", "i", 50_010) is None
        monitor.canary_read(54_999)
        assert monitor.overdue("tm", "i", 90_000) is None
        monitor.canary_read(55_010)
        assert monitor.overdue("tm", "i", 90_000) is not None

    def test_an_older_canary_that_comes_late_takes_nothing_back(self) -> None:
        monitor = HeartbeatMonitor(timeout_ms=5_000, promoted_at_ms=0)
        monitor.heard("i", 0)
        monitor.canary_read(5_000)
        monitor.canary_read(1)
        assert monitor.overdue("tm", "i", 5_000) is not None

    def test_what_is_gone_is_forgotten(self) -> None:
        monitor = HeartbeatMonitor(timeout_ms=5_000, promoted_at_ms=0)
        monitor.heard("i", 0)
        monitor.heard("j", 0)
        monitor.forget_all_but({"j"})
        assert list(monitor.last_heard_ms) == ["j"]
