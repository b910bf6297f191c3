"""Which subtasks start again when an attempt fails: the whole job under full, the subtask and those whose output it lost under region."""

from collections.abc import Iterable, Iterator

import pytest

from eventflink.events.effects import TaskDeployment
from eventflink.events.inputs import SlotOfferRefusal, TaskManagerDeath, TaskStateReport
from eventflink.events.log_events import (
    FollowUpDecided,
    InternalInputsAttempted,
    JobResultStored,
    JobStatusChanged,
    RegionRestarted,
    RestartScheduled,
    SlotRequestCancelled,
    TaskCancellationRequested,
    TaskDeployed,
    TaskFinished,
    TaskScheduled,
)
from eventflink.events.topics import MAX_DECISION_BYTES, Topic
from eventflink.master.effects import Deployment, Effect, unacknowledged
from eventflink.master.failover import MAX_LOST_INPUTS, RESTART_BATCH
from eventflink.master.job_master import CANCELLATION_BATCH
from eventflink.master.settings import MasterSettings
from eventflink.model.attempts import FailureCause, LostInput, SubtaskReference
from eventflink.model.statuses import ExecutionState, FailoverStrategy, FollowUpType, JobStatus
from tests.support.cluster import (
    REPORTS,
    ScriptedCluster,
    cancellations,
    deployments,
    fixed_delay,
    graph,
    output_at,
    output_of,
    reports_of,
    state_report,
    tasks,
    vertex,
)

FULL = MasterSettings(failover_strategy=FailoverStrategy.FULL)
LOST = FailureCause("InputLost", "vertex 'b': input 'a' cannot be read")


@pytest.fixture
def full() -> Iterator[ScriptedCluster]:
    """A cluster whose jobs restart as a whole."""
    cluster = ScriptedCluster(FULL)
    yield cluster
    cluster.check()


@pytest.fixture
def region(cluster: ScriptedCluster) -> ScriptedCluster:
    """Return a cluster whose jobs restart region by region, and that may say what outputs are lost."""
    return cluster


def _two_vertices(cluster: ScriptedCluster, restarts: int = 3, delay_ms: int = 500) -> list[Deployment]:
    """Submit a[0..1] → b[0..1]."""
    document = graph(vertex("a", 2), vertex("b", 2), edges=[("a", "b", "hash")], restart_strategy=fixed_delay(restarts, delay_ms))
    return deployments(cluster.submit(document))


def _attempts(effects: Iterable[Effect]) -> list[tuple[str, int, int]]:
    return [(t.vertex_id, t.subtask_index, t.attempt) for t in tasks(effects)]


def _states(cluster: ScriptedCluster) -> dict[str, list[str]]:
    return {v: [str(s.state) for s in x.subtasks] for v, x in cluster.job("job").execution_graph.vertices.items()}


def _statuses(cluster: ScriptedCluster) -> list[JobStatus]:
    return [e.to_status for e in cluster.events(JobStatusChanged)]


def _finish(cluster: ScriptedCluster, effects: Iterable[Effect]) -> list[Effect]:
    return [e for d in deployments(effects) for e in cluster.report(d, ExecutionState.FINISHED)]


def _lose(cluster: ScriptedCluster, deployment: Deployment, *inputs: tuple[str, int]) -> list[Effect]:
    """Have an attempt fail because it cannot read what subtasks of the writers published."""
    offer, report = reports_of(deployment, ExecutionState.FAILED, LOST)
    assert isinstance(report, TaskStateReport)
    report.lost_inputs = tuple(LostInput(*each) for each in inputs)
    return cluster.say(offer, report)


# -- full ----------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("P15")
def test_full_cancels_what_lives_first_and_then_restarts_everything_that_has_begun(full: ScriptedCluster) -> None:
    full.register(slots=2)
    [a0, a1] = _two_vertices(full)
    _finish(full, [a0])
    full.report(a1, ExecutionState.FINISHED)
    [b0, b1] = deployments(full.released[-1].effects)
    full.report(b1, ExecutionState.RUNNING)
    effects = full.report(b0, ExecutionState.FAILED)
    assert full.job("job").status is JobStatus.RESTARTING
    [scheduled] = full.events(RestartScheduled)
    assert (scheduled.failover_strategy, scheduled.task_count, scheduled.restarts) == (FailoverStrategy.FULL, 4, 1)
    [cancellation] = cancellations(effects)
    assert cancellation.payload.reason == "it starts again with restart 1 of its job"  # type: ignore[union-attr] # by its class
    assert not tasks(full.pass_time(10_000)), "b[1] lives: nothing starts again before it has ended"
    assert not full.events(RegionRestarted)
    effects = full.run([cancellation])
    assert not tasks(effects)
    effects = full.pass_time(0)
    assert _attempts(effects) == [("a", 0, 2), ("a", 1, 2)], "what had finished runs again, and b waits for it"
    assert _statuses(full) == [JobStatus.RUNNING, JobStatus.RESTARTING, JobStatus.RUNNING]
    effects = full.run(effects)
    assert [(t.vertex_id, t.attempt) for t in tasks(effects)][2:] == [("b", 2), ("b", 2)]
    assert tasks(effects)[2].inputs[0].locations == (output_at("/outputs/job/a/0/2/default"), output_at("/outputs/job/a/1/2/default"))
    assert full.job("job").status is JobStatus.FINISHED


def test_full_leaves_what_has_not_begun_as_it_is(full: ScriptedCluster) -> None:
    full.register(slots=2)
    a0 = _two_vertices(full, delay_ms=0)[0]
    full.run([*cancellations(full.report(a0, ExecutionState.FAILED))])
    assert [(e.vertex_id, e.attempt) for e in full.events(RegionRestarted)] == []
    full.run(full.pass_time(1))
    assert {(e.vertex_id, e.attempt) for e in full.events(RegionRestarted)} == {("a", 2)}
    assert {(e.vertex_id, e.attempt) for e in full.events(TaskFinished)} == {("a", 2), ("b", 1)}


def test_full_takes_requests_for_slots_back(full: ScriptedCluster) -> None:
    full.register(slots=1)
    [a0] = deployments(full.submit(graph(vertex("a", 3), restart_strategy=fixed_delay(1))))
    effects = full.report(a0, ExecutionState.FAILED)
    assert len(full.events(SlotRequestCancelled)) == 2
    assert not tasks(effects), "the slot that the failure made free is for nobody yet"
    effects = full.run(full.pass_time(500))
    assert sorted(_attempts(effects)) == [("a", 0, 2), ("a", 1, 2), ("a", 2, 2)]
    assert full.job("job").status is JobStatus.FINISHED


@pytest.mark.parametrize("late", [ExecutionState.FAILED, ExecutionState.FINISHED, ExecutionState.CANCELED])
def test_what_ends_before_it_is_cancelled_joins_the_restart(full: ScriptedCluster, late: ExecutionState) -> None:
    """Reports of one record are decided before the cancellations that the first of them leads to."""
    full.register(slots=3)
    [one, other, third] = deployments(full.submit(graph(vertex("a", 3), restart_strategy=fixed_delay(1))))
    for each in (other, third):
        full.report(each, ExecutionState.RUNNING)
    cause = FailureCause("E", "second") if late is ExecutionState.FAILED else None
    effects = full.say(*reports_of(one, ExecutionState.FAILED), *reports_of(other, late, cause)[1:])
    assert [c.payload.subtask_index for c in cancellations(effects)] == [2]  # type: ignore[union-attr] # by its class
    assert not full.events(TaskFinished), "a result that is about to be made again counts for nobody"
    full.report(third, ExecutionState.FAILED, cause=FailureCause("E", "while it is cancelled"))
    full.run(full.pass_time(500))
    assert len(full.events(RestartScheduled)) == 1
    assert (full.job("job").status, full.job("job").restarts.count) == (JobStatus.FINISHED, 1)


@pytest.mark.parametrize("together", [True, False])
def test_a_slot_that_is_refused_during_a_restart_joins_it(full: ScriptedCluster, *, together: bool) -> None:
    """Whether it was told to end already or not: it gets no other slot before the job restarts."""
    full.register(slots=2)
    [one, other] = deployments(full.submit(graph(vertex("a", 2), restart_strategy=fixed_delay(1))))
    assert isinstance(other.payload, TaskDeployment)
    refusal = SlotOfferRefusal("tm", "tm-1", other.payload.allocation_id, "no memory", "a", 1, 1)
    effects = full.say(*reports_of(one, ExecutionState.FAILED), *([refusal] if together else []))
    effects += [] if together else full.say(refusal)
    assert not tasks(effects)
    assert not full.events(RegionRestarted)
    assert [t.attempt for t in tasks(full.pass_time(500))] == [2, 2]
    assert full.job("job").restarts.count == 1


def test_the_loss_of_a_task_manager_is_one_restart(full: ScriptedCluster) -> None:
    full.register("tm1", slots=2)
    full.register("tm2", slots=2)
    deployed = deployments(full.submit(graph(vertex("a", 4), restart_strategy=fixed_delay(1, 0))))
    for deployment in deployed:
        full.report(deployment, ExecutionState.RUNNING)
    effects = full.say(TaskManagerDeath("tm1", "tm1-1", "killed"))
    assert {c.task_manager_id for c in cancellations(effects)} == {"tm2"}
    effects = full.run(effects)
    full.run(full.pass_time(1))
    assert (full.job("job").status, full.job("job").restarts.count) == (JobStatus.FINISHED, 1)
    assert {e.attempt for e in full.events(TaskFinished)} == {2}


def test_a_job_that_is_cancelled_in_the_middle_of_a_full_restart_ends(full: ScriptedCluster) -> None:
    full.register(slots=4)
    [a0, a1] = _two_vertices(full)
    _finish(full, [a0])
    assert not cancellations(full.report(a1, ExecutionState.FAILED))
    full.cancel()
    assert full.job("job").status is JobStatus.CANCELED
    assert not tasks(full.pass_time(10_000))
    assert not full.events(RegionRestarted)


def test_a_job_that_is_cancelled_while_a_full_restart_cancels_waits_for_these(full: ScriptedCluster) -> None:
    full.register(slots=2)
    [one, other] = deployments(full.submit(graph(vertex("a", 2), restart_strategy=fixed_delay(1))))
    full.report(other, ExecutionState.RUNNING)
    effects = full.report(one, ExecutionState.FAILED)
    full.cancel()
    assert full.job("job").status is JobStatus.CANCELLING
    assert not full.take_effects(), "it was told to end before"
    full.run(effects)
    assert full.job("job").status is JobStatus.CANCELED


def test_the_failure_that_is_one_too_many_fails_a_job_that_was_restarted_as_a_whole(full: ScriptedCluster) -> None:
    full.register(slots=2)
    deployed = deployments(full.submit(graph(vertex("a", 2), restart_strategy=fixed_delay(1, 0))))
    for _ in range(2):
        full.report(deployed[1], ExecutionState.RUNNING)
        full.run([*cancellations(full.report(deployed[0], ExecutionState.FAILED))])
        deployed = deployments(full.pass_time(1))
    [stored] = full.events(JobResultStored)
    assert stored.status is JobStatus.FAILED
    assert _statuses(full)[1:] == [JobStatus.RESTARTING, JobStatus.RUNNING, JobStatus.FAILING, JobStatus.FAILED]


@pytest.mark.rule("P10a")
@pytest.mark.parametrize("subtasks", [2_000, pytest.param(10_000, marks=pytest.mark.soak("eventflink.master"))])
def test_thousands_of_subtasks_restart_in_bounded_decisions_whoever_leads(subtasks: int) -> None:
    cluster = ScriptedCluster(FULL, check_digests=False, check_states=False)
    for number in range(10):
        cluster.register(f"tm{number}", slots=subtasks // 10)
    vertices = [vertex(f"{'v' * 63}{n}", subtasks // 4) for n in range(4)]
    deployed = deployments(cluster.submit(graph(*vertices, restart_strategy=fixed_delay(1, 0)), job_id="j" * 128))
    assert len(deployed) == subtasks
    begin = len(cluster.log)
    effects = cancellations(cluster.report(deployed[0], ExecutionState.FAILED))
    assert len(effects) == subtasks - 1
    cluster.fail_over()
    for first in range(0, len(effects), 500):
        reports = [state_report(c, ExecutionState.CANCELED) for c in effects[first : first + 500]]
        cluster.put(Topic.TASKMANAGERS, REPORTS.encode(reports))
    cluster.settle()
    assert not cluster.events(RegionRestarted)
    cluster.timer(*cluster.master.due(cluster.wall_ms, 0))  # The first batch; the others follow without a timer.
    decisions = list(cluster.decisions())[begin:]
    assert len(cluster.events(RegionRestarted)) == subtasks
    for decision in decisions:
        steps = 1 + sum(isinstance(e, FollowUpDecided) for e in decision.events)
        assert sum(isinstance(e, RegionRestarted) for e in decision.events) <= RESTART_BATCH * steps
        assert sum(isinstance(e, TaskCancellationRequested) for e in decision.events) <= CANCELLATION_BATCH * steps
    assert max(map(len, cluster.log[begin:])) <= MAX_DECISION_BYTES
    assert FollowUpType.RESTART_TASKS in {e.follow_up_type for d in decisions for e in d.events if isinstance(e, FollowUpDecided)}
    assert cluster.job("j" * 128).status is JobStatus.RUNNING
    assert sum(e.attempt == 2 for e in cluster.events(TaskDeployed)) == subtasks
    cluster.check()


def test_a_change_of_leader_in_the_middle_of_each_step_of_a_full_restart_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, full: ScriptedCluster
) -> None:
    """One consequence is decided at a time, one subtask at a time, and after each decision another leader continues."""
    monkeypatch.setattr("eventflink.leadership.leader.INLINE_STEPS", 0)
    monkeypatch.setattr("eventflink.master.failover.RESTART_BATCH", 1)
    monkeypatch.setattr("eventflink.master.job_master.CANCELLATION_BATCH", 1)
    monkeypatch.setattr("eventflink.master.default_scheduler.SCHEDULE_BATCH", 1)
    full.register(slots=4)
    deployed = _two_vertices(full, delay_ms=100)
    full.report(deployed[0], ExecutionState.RUNNING)

    def hop() -> None:
        """Decide one step at a time, each by another leader."""
        for _ in range(200):
            if full.decide() is None:
                return
            full.read_back(len(full.log) - 1)
            if not isinstance(full.last_events()[-1], InternalInputsAttempted):  # Of what leaders announce and end at, P10 thinks ill.
                full.fail_over()

    full.put(Topic.TASKMANAGERS, REPORTS.encode(reports_of(deployed[1], ExecutionState.FAILED)))
    hop()
    assert full.job("job").status is JobStatus.RESTARTING
    repeated = [e for e in unacknowledged(full.master) if isinstance(e, Deployment)]
    assert [c.payload.subtask_index for c in cancellations(repeated)] == [0]  # type: ignore[union-attr] # by its class
    full.put(Topic.TASKMANAGERS, REPORTS.encode([state_report(cancellations(repeated)[0], ExecutionState.CANCELED)]))
    hop()
    full.monotonic_ms += 100
    full.wall_ms += 100
    full.leader.timers.extend(full.master.due(full.wall_ms, 0))
    hop()
    assert full.job("job").status is JobStatus.RUNNING
    again = [e for e in unacknowledged(full.master) if isinstance(e, Deployment)]
    assert _attempts(again) == [("a", 0, 2), ("a", 1, 2)]
    events = full.events(RegionRestarted, TaskScheduled)
    first = next(n for n, e in enumerate(events) if isinstance(e, TaskScheduled) and e.attempt == 2)
    assert not [e for e in events[first:] if isinstance(e, RegionRestarted)], "nothing restarts before everything can"
    full.run([*again])
    assert full.job("job").status is JobStatus.FINISHED
    assert len(full.events(RestartScheduled)) == 1


def _decide_once(cluster: ScriptedCluster) -> None:
    assert cluster.decide() is not None
    cluster.read_back(len(cluster.log) - 1)


def test_a_full_restart_is_cancelled_between_two_of_its_steps(monkeypatch: pytest.MonkeyPatch, full: ScriptedCluster) -> None:
    monkeypatch.setattr("eventflink.leadership.leader.INLINE_STEPS", 0)
    monkeypatch.setattr("eventflink.master.failover.RESTART_BATCH", 1)
    full.register(slots=3)
    deployed = deployments(full.submit(graph(vertex("a", 3), restart_strategy=fixed_delay(1, 0))))
    for deployment in deployed:
        full.report(deployment, ExecutionState.FAILED)
    full.run([*cancellations(full.take_effects())])
    full.say(*[state_report(d, ExecutionState.CANCELED) for d in deployed[1:]])
    full.leader.timers.extend(full.master.due(full.wall_ms, 0))
    _decide_once(full)
    assert (len(full.events(RegionRestarted)), full.job("job").restarts.begun) == (1, True)
    full.cancel()
    assert full.job("job").status is JobStatus.CANCELED
    assert not tasks(full.pass_time(1_000))


def test_what_is_about_to_be_cancelled_is_not_deployed_again_by_the_next_leader(
    monkeypatch: pytest.MonkeyPatch, full: ScriptedCluster
) -> None:
    monkeypatch.setattr("eventflink.leadership.leader.INLINE_STEPS", 0)
    full.register(slots=2)
    one, _ = deployments(full.submit(graph(vertex("a", 2), restart_strategy=fixed_delay(1))))
    full.put(Topic.TASKMANAGERS, REPORTS.encode(reports_of(one, ExecutionState.FAILED)))
    _decide_once(full)
    full.fail_over()
    assert not [e for e in unacknowledged(full.master) if isinstance(e, Deployment)]
    effects = full.settle()
    assert not tasks(effects)
    assert [c.payload.subtask_index for c in cancellations(effects)] == [1]  # type: ignore[union-attr] # by its class


# -- region: outputs that are lost -----------------------------------------------------------------------------------------


def test_a_lost_output_restarts_its_writer_and_then_the_reader(region: ScriptedCluster) -> None:
    region.register(slots=4)
    first = deployments(region.submit(graph(vertex("a", 2), vertex("b"), edges=[("a", "b", "hash")], restart_strategy=fixed_delay(1, 500))))
    _finish(region, first[:1])
    [b0] = deployments(_finish(region, first[1:]))
    _lose(region, b0, ("a", 1))
    [scheduled] = region.events(RestartScheduled)
    assert (scheduled.vertex_id, scheduled.lost_outputs, scheduled.task_count) == ("b", (SubtaskReference("a", 1),), 2)
    effects = region.pass_time(500)
    assert _attempts(effects) == [("a", 1, 2)], "the reader waits for the writer"
    assert _states(region) == {"a": ["FINISHED", "DEPLOYING"], "b": ["CREATED"]}
    [again] = deployments(_finish(region, effects))
    assert tasks([again])[0].inputs[0].locations == (output_at("/outputs/job/a/0/1/default"), output_at("/outputs/job/a/1/2/default"))
    _finish(region, [again])
    assert region.job("job").status is JobStatus.FINISHED
    assert region.job("job").restarts.count == 1


def test_whoever_may_have_read_the_lost_output_starts_again_as_well(region: ScriptedCluster) -> None:
    """b[1] has finished, c[0] runs on its and b[0]'s results, d reads nothing of it and keeps running."""
    region.register(slots=8)
    document = graph(
        vertex("a"),
        vertex("b", 2),
        vertex("c"),
        vertex("d"),
        edges=[("a", "b", "broadcast"), ("a", "c", "hash"), ("b", "c", "hash")],
        restart_strategy=fixed_delay(1, 0),
    )
    [a0, d0] = deployments(region.submit(document))
    region.report(d0, ExecutionState.RUNNING)
    b0, b1 = deployments(_finish(region, [a0]))
    _finish(region, [b0])
    [c0] = deployments(_finish(region, [b1]))
    _lose(region, c0, ("a", 0))
    assert region.events(RestartScheduled)[0].task_count == 4
    region.run(region.pass_time(1))
    assert {(e.vertex_id, e.subtask_index): e.attempt for e in region.events(RegionRestarted)} == {
        ("a", 0): 2,
        ("b", 0): 2,
        ("b", 1): 2,
        ("c", 0): 2,
    }
    _finish(region, [d0])
    assert region.job("job").status is JobStatus.FINISHED


def test_readers_that_live_are_cancelled_and_those_that_wait_are_held_back(region: ScriptedCluster) -> None:
    region.register(slots=2)
    document = graph(vertex("a"), vertex("b", 3), edges=[("a", "b", "hash")], restart_strategy=fixed_delay(1, 300))
    b0, b1 = deployments(_finish(region, deployments(region.submit(document))))
    region.report(b1, ExecutionState.RUNNING)
    effects = _lose(region, b0, ("a", 0))
    [cancellation] = cancellations(effects)
    assert not tasks(effects), "b[2] waited for a slot: it does not get the one that is free now"
    effects = region.pass_time(300)
    assert _attempts(effects) == [("a", 0, 2)], "the writer need not wait for a reader of its older output"
    assert region.job("job").status is JobStatus.RESTARTING
    effects = _finish(region, effects)
    assert region.job("job").status is JobStatus.RESTARTING
    effects += region.say(state_report(cancellation, ExecutionState.CANCELED))
    region.run(effects + region.pass_time(1))
    assert region.job("job").status is JobStatus.FINISHED
    assert {(e.vertex_id, e.subtask_index, e.attempt) for e in region.events(TaskFinished)} == {
        ("a", 0, 1),
        ("a", 0, 2),
        ("b", 0, 2),
        ("b", 1, 2),
        ("b", 2, 2),
    }


def test_readers_that_nobody_has_scheduled_yet_wait_for_the_writer(monkeypatch: pytest.MonkeyPatch, region: ScriptedCluster) -> None:
    monkeypatch.setattr("eventflink.leadership.leader.INLINE_STEPS", 0)
    monkeypatch.setattr("eventflink.master.job_master.CANCELLATION_BATCH", 1)
    monkeypatch.setattr("eventflink.master.default_scheduler.SCHEDULE_BATCH", 1)
    region.register(slots=3)
    document = graph(vertex("a"), vertex("b", 3), edges=[("a", "b", "hash")], restart_strategy=fixed_delay(1, 0))
    [a0] = deployments(region.submit(document))
    region.put(Topic.TASKMANAGERS, REPORTS.encode(reports_of(a0, ExecutionState.FINISHED)))
    while not (found := deployments(region.take_effects())):
        _decide_once(region)
    assert "CREATED" in _states(region)["b"]
    offer, report = reports_of(found[0], ExecutionState.FAILED, LOST)
    assert isinstance(report, TaskStateReport)
    report.lost_inputs = (LostInput("a", 0),)
    region.put(Topic.TASKMANAGERS, REPORTS.encode([offer, report]))
    while not region.events(RestartScheduled):
        _decide_once(region)
    unscheduled = _states(region)["b"].count("CREATED")
    region.settle()
    assert _states(region)["b"].count("CREATED") == unscheduled > 0


def test_a_lost_output_counts_as_one_restart_and_may_be_one_too_many(region: ScriptedCluster) -> None:
    region.register(slots=2)
    document = graph(vertex("a"), vertex("b"), edges=[("a", "b", "hash")], restart_strategy=fixed_delay(1, 0))
    effects = region.submit(document)
    for _ in range(2):
        [b0] = deployments(_finish(region, effects))
        _lose(region, b0, ("a", 0))
        effects = region.pass_time(1)
    [stored] = region.events(JobResultStored)
    assert (stored.status, stored.cause) == (JobStatus.FAILED, LOST)


@pytest.mark.parametrize("inputs", [[("none", 0)], [("a", 7)], [("a", -1)], [("b", 0)], []])
def test_an_output_that_nobody_wrote_cannot_be_lost(region: ScriptedCluster, inputs: list[tuple[str, int]]) -> None:
    region.register(slots=2)
    [b0] = deployments(
        _finish(region, region.submit(graph(vertex("a"), vertex("b"), edges=[("a", "b", "hash")], restart_strategy=fixed_delay(1, 0))))
    )
    _lose(region, b0, *inputs)
    assert region.events(RestartScheduled)[0].lost_outputs == ()
    assert _attempts(region.pass_time(1)) == [("b", 0, 2)]


def test_a_report_of_ever_so_many_losses_leads_to_a_bounded_decision(region: ScriptedCluster) -> None:
    region.register(slots=1_000)
    region.register("tm2", slots=1_000)
    writer = "w" * 64
    document = graph(vertex(writer, 1_500), vertex("b"), edges=[(writer, "b", "hash")], restart_strategy=fixed_delay(2, 0))
    region.check_states = region.check_digests = False
    for deployment in deployments(region.submit(document)):
        region.put(Topic.TASKMANAGERS, REPORTS.encode(reports_of(deployment, ExecutionState.FINISHED)))
    [b0] = deployments(region.settle())
    _lose(region, b0, *[(writer, n % 1_500) for n in range(3_000)])
    [scheduled] = region.events(RestartScheduled)
    assert (len(scheduled.lost_outputs), scheduled.task_count) == (MAX_LOST_INPUTS, MAX_LOST_INPUTS + 1)
    assert max(map(len, region.log)) <= MAX_DECISION_BYTES


def test_two_readers_that_miss_the_same_output_are_one_restart(region: ScriptedCluster) -> None:
    region.register(slots=2)
    document = graph(vertex("a"), vertex("b", 2), edges=[("a", "b", "hash")], restart_strategy=fixed_delay(1, 0))
    b0, b1 = deployments(_finish(region, region.submit(document)))
    first, second = reports_of(b0, ExecutionState.FAILED, LOST), reports_of(b1, ExecutionState.FAILED, LOST)
    for reports in (first, second):
        assert isinstance(reports[1], TaskStateReport)
        reports[1].lost_inputs = (LostInput("a", 0),)
    region.say(*first, *second)
    region.run(region.pass_time(1))
    assert (region.job("job").status, region.job("job").restarts.count) == (JobStatus.FINISHED, 1)


def test_under_full_a_lost_output_is_one_of_everything(full: ScriptedCluster) -> None:
    full.register(slots=2)
    document = graph(vertex("a", 2), vertex("b"), edges=[("a", "b", "hash")], restart_strategy=fixed_delay(1, 0))
    [b0] = deployments(_finish(full, full.submit(document)))
    _lose(full, b0, ("a", 1))
    assert _attempts(full.pass_time(1)) == [("a", 0, 2), ("a", 1, 2)]


def test_a_job_that_is_cancelled_while_a_writer_runs_again_keeps_nothing_of_it(region: ScriptedCluster) -> None:
    region.register(slots=2)
    document = graph(vertex("a"), vertex("b"), edges=[("a", "b", "hash")], restart_strategy=fixed_delay(1, 0))
    [b0] = deployments(_finish(region, region.submit(document)))
    _lose(region, b0, ("a", 0))
    effects = region.pass_time(1)
    effects += region.cancel()
    region.run([*cancellations(effects)])
    assert region.job("job").status is JobStatus.CANCELED
    assert output_of(tasks(effects)[0]).location not in str(region.job("job").execution_graph)


def test_a_lost_output_survives_a_change_of_leader_at_every_step(region: ScriptedCluster) -> None:
    region.register(slots=2)
    document = graph(vertex("a"), vertex("b"), edges=[("a", "b", "hash")], restart_strategy=fixed_delay(1, 500))
    effects = region.submit(document)
    region.fail_over()
    effects = _finish(region, effects)
    region.fail_over()
    _lose(region, deployments(effects)[-1], ("a", 0))
    region.fail_over()
    effects = region.pass_time(500)[-1:]
    region.fail_over()
    effects = _finish(region, effects)[-1:]
    region.fail_over()
    _finish(region, effects)
    assert region.job("job").status is JobStatus.FINISHED
    assert [e.attempt for e in region.events(TaskScheduled)] == [1, 1, 2, 2]
