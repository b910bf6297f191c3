"""A mapped vertex has a subtask for each row of an input, whatever that is; what cannot be is refused, and never tried again."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from eventflink.events.log_events import JobRescaled, RequestRejected, RestartScheduled
from eventflink.leadership.leader import ApplyFailed
from eventflink.master.effects import Deployment, Effect
from eventflink.master.settings import NO_TIMEOUT, AdaptiveSettings, MasterSettings
from eventflink.model.attempts import LostInput
from eventflink.model.statuses import ExecutionState, FailoverStrategy, JobStatus, RescaleReason, SchedulerType
from eventflink.views.jobs_and_cluster import vertex_fields
from tests.support.cluster import (
    ScriptedCluster,
    cancellations,
    deployments,
    fixed_delay,
    graph,
    replies,
    state_report,
    tasks,
    vertex,
)

ROWS = RescaleReason.INPUT_ROWS
NO_RESTART = {"type": "none"}


@pytest.fixture(params=[SchedulerType.DEFAULT, SchedulerType.ADAPTIVE])
def cluster(request: pytest.FixtureRequest) -> Iterator[ScriptedCluster]:
    """One TaskManager of 4 slots, under each scheduler; the log is replayed at the end."""
    scripted = ScriptedCluster(MasterSettings(adaptive=AdaptiveSettings(request.param)))
    scripted.register("one", 4)
    yield scripted
    scripted.check()


def mapped(*, writers: int = 1, most: int = 128, **more: Any) -> dict[str, Any]:
    """Return a job whose second vertex has a subtask for each row of the first, and whose third reads it."""
    vertices = vertex("list", writers), vertex("load") | {"max_parallelism": most}, vertex("sum")
    return graph(*vertices, edges=[("list", "load", "each"), ("load", "sum", "rebalance")], **more)


def finish(cluster: ScriptedCluster, deployment: Deployment, rows: int) -> list[Effect]:
    """Let a task finish that has written so many rows."""
    report = state_report(deployment, ExecutionState.FINISHED)
    return cluster.say(replace(report, outputs=tuple([replace(output, rows=rows) for output in report.outputs])))


def lists(cluster: ScriptedCluster, rows: int, **more: Any) -> list[Effect]:
    """Submit a mapped job, and let its first vertex leave so many rows."""
    [first] = deployments(cluster.submit(mapped(**more)))
    return finish(cluster, first, rows)


def shares(effects: list[Effect]) -> list[tuple[str, int, int, int]]:
    """Return (vertex, subtask, attempt, of how many) of each task that is deployed."""
    return [(t.vertex_id, t.subtask_index, t.attempt, t.parallelism) for t in tasks(effects)]


def _fields_of_load(cluster: ScriptedCluster) -> dict[str, Any]:
    job = cluster.job("job")
    return vertex_fields(job.execution_graph.vertices["load"], job, cluster.master.slot_manager)


@pytest.mark.rule("P24")
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_it_has_a_subtask_for_each_row(cluster: ScriptedCluster, rows: int) -> None:
    effects = lists(cluster, rows)
    assert shares(effects) == [("load", index, 1, rows) for index in range(rows)]
    assert cluster.events(JobRescaled) == ([JobRescaled("job", "load", 1, rows, ROWS, 1)] if rows > 1 else [])
    read = cluster.run(effects)
    assert len(tasks(read)[-1].inputs[0].locations) == rows
    assert cluster.job("job").status is JobStatus.FINISHED


def test_rows_of_all_subtasks_of_its_writer_count(cluster: ScriptedCluster) -> None:
    one, other = deployments(cluster.submit(mapped(writers=2)))
    assert not tasks(finish(cluster, one, 1))
    assert shares(finish(cluster, other, 2)) == [("load", index, 1, 3) for index in range(3)]


def test_with_no_rows_it_has_one_subtask_that_has_none(cluster: ScriptedCluster) -> None:
    effects = lists(cluster, 0)
    assert shares(effects) == [("load", 0, 1, 1)]
    said = _fields_of_load(cluster)
    assert said["parallelism_note"] == "'list' has left no rows: its only subtask runs nothing"
    cluster.run(effects)
    assert cluster.job("job").status is JobStatus.FINISHED


def test_more_rows_than_slots_take_turns(cluster: ScriptedCluster) -> None:
    effects = lists(cluster, 37)
    assert len(tasks(effects)) == 4
    assert sum(t.vertex_id == "load" for t in tasks(cluster.run(effects))) == 37
    job = cluster.job("job")
    assert (job.status, job.restarts.count) == (JobStatus.FINISHED, 0)


def test_more_rows_than_it_may_have_subtasks_fail_the_job_at_once_and_say_how_many(cluster: ScriptedCluster) -> None:
    assert not tasks(lists(cluster, 6, most=5, restart_strategy=fixed_delay(5)))
    job = cluster.job("job")
    assert (job.status, job.restarts.count) == (JobStatus.FAILED, 0)
    assert job.cause is not None
    assert job.cause.failure_type == "TooManyRows"
    assert job.cause.message == (
        "'list' has left 6 rows, and 'load' may have at most 5 subtasks, one for each: raise its 'max_parallelism', or let a row stand "
        "for more"
    )
    assert not cluster.events(JobRescaled)


def test_as_many_rows_as_it_may_have_subtasks_are_not_too_many(cluster: ScriptedCluster) -> None:
    cluster.run(lists(cluster, 5, most=5))
    assert cluster.job("job").status is JobStatus.FINISHED


def test_before_its_input_is_complete_it_says_what_decides(cluster: ScriptedCluster) -> None:
    cluster.submit(mapped())
    said = _fields_of_load(cluster)
    assert (said["parallelism"], said["wanted_parallelism"]) == (1, 1)
    assert said["parallelism_note"] == "a subtask for each row of 'list' when it has finished"


def test_nobody_else_gives_it_another_parallelism(cluster: ScriptedCluster) -> None:
    cluster.submit(mapped())
    [reply] = replies(cluster.rescale("load", 3))
    assert isinstance(reply.payload, RequestRejected)
    assert (reply.payload.code, reply.payload.message) == (
        "MappedVertex",
        "vertex 'load' has a subtask for each row of 'list': its parallelism stays",
    )


def test_a_subtask_that_fails_starts_again_with_its_row_alone(cluster: ScriptedCluster) -> None:
    begun = deployments(lists(cluster, 3, restart_strategy=fixed_delay(1)))
    cluster.report(begun[1], ExecutionState.FAILED)
    assert shares(cluster.pass_time(500)) == [("load", 1, 2, 3)]


@pytest.mark.rule("P24")
def test_a_leader_that_comes_between_the_rows_and_their_tasks_counts_the_same(cluster: ScriptedCluster) -> None:
    [first] = deployments(cluster.submit(mapped()))
    report = state_report(first, ExecutionState.FINISHED)
    cluster.say(replace(report, outputs=tuple([replace(output, rows=3) for output in report.outputs])))
    released = cluster.fail_over()
    assert shares(list(released.effects)) == [("load", index, 1, 3) for index in range(3)]


@pytest.mark.rule("P24")
@pytest.mark.parametrize("again", [0, 1, 2, 3, 4])
def test_when_its_writer_runs_again_the_rows_are_counted_again(cluster: ScriptedCluster, again: int) -> None:
    """One subtask says that its input is lost, one has finished, one still runs: none of them stays, whatever comes of the second run."""
    begun = deployments(lists(cluster, 3, restart_strategy=fixed_delay(1)))
    cluster.report(begun[0], ExecutionState.FINISHED)
    cluster.report(begun[1], ExecutionState.RUNNING)
    lost = replace(state_report(begun[2], ExecutionState.FAILED), lost_inputs=(LostInput("list", 0),))
    [cancelled] = cancellations(cluster.say(lost))
    [writer] = deployments(cluster.pass_time(500))
    effects = finish(cluster, writer, again)
    effects += cluster.say(state_report(cancelled, ExecutionState.CANCELED)) + cluster.pass_time(0)
    parallelism = max(1, again)
    assert shares(effects) == [("load", index, 2, parallelism) for index in ((0, 2, 1) if again == 3 else range(parallelism))]
    cluster.run(effects)
    job = cluster.job("job")
    assert (job.status, job.execution_graph.vertices["load"].parallelism) == (JobStatus.FINISHED, parallelism)
    [scheduled] = cluster.events(RestartScheduled)
    assert scheduled.task_count == 4


def test_a_mapped_vertex_may_map_another(cluster: ScriptedCluster) -> None:
    vertices = vertex("list"), vertex("load"), vertex("store")
    [first] = deployments(cluster.submit(graph(*vertices, edges=[("list", "load", "each"), ("load", "store", "each")])))
    one, other = deployments(finish(cluster, first, 2))
    finish(cluster, one, 0)
    assert shares(finish(cluster, other, 3)) == [("store", index, 1, 3) for index in range(3)]


def test_subtasks_in_a_slot_sharing_group_share_slots(cluster: ScriptedCluster) -> None:
    vertices = vertex("list"), vertex("load") | {"slot_sharing_group": "g"}, vertex("other") | {"slot_sharing_group": "g"}
    begun = deployments(cluster.submit(graph(*vertices, edges=[("list", "load", "each")])))
    finish(cluster, next(d for d in begun if d.payload.vertex_id == "list"), 3)  # type: ignore[union-attr]
    assert len(cluster.master.slot_manager.allocations) == 3


def test_a_job_that_is_suspended_before_the_rows_are_counted_goes_on_with_them(cluster: ScriptedCluster) -> None:
    begun = deployments(lists(cluster, 3))
    cluster.suspend()
    for deployment in begun:
        cluster.report(deployment, ExecutionState.CANCELED)
    assert shares(cluster.resume()) == [("load", index, 2, 3) for index in range(3)]


def test_a_rerun_takes_the_rows_of_the_job_before(cluster: ScriptedCluster) -> None:
    begun = deployments(lists(cluster, 3, restart_strategy=NO_RESTART, keep="1d"))
    cluster.report(begun[0], ExecutionState.FAILED)
    for deployment in begun[1:]:
        cluster.report(deployment, ExecutionState.CANCELED)
    assert cluster.job("job").status is JobStatus.FAILED
    effects = cluster.command(type="RerunJob", rerun_of="job", job_id="again", failed=True)
    assert shares(effects) == [("load", index, 1, 3) for index in range(3)]


def test_a_rerun_does_those_rows_that_were_not_done(cluster: ScriptedCluster) -> None:
    begun = deployments(lists(cluster, 3, restart_strategy=NO_RESTART, keep="1d"))
    finish(cluster, begun[0], 1)
    finish(cluster, begun[2], 1)
    cluster.report(begun[1], ExecutionState.FAILED)
    assert cluster.job("job").status is JobStatus.FAILED
    effects = cluster.command(type="RerunJob", rerun_of="job", job_id="again", failed=True)
    assert shares(effects) == [("load", 1, 1, 3)]
    cluster.run(effects)
    assert cluster.job("again").status is JobStatus.FINISHED


def test_a_reactive_job_has_as_many_subtasks_as_slots_but_of_a_mapped_vertex() -> None:
    settings = AdaptiveSettings(
        SchedulerType.ADAPTIVE, reactive=True, resource_wait_timeout_ms=NO_TIMEOUT, resource_stabilization_timeout_ms=0
    )
    cluster = ScriptedCluster(MasterSettings(adaptive=settings))
    cluster.register("one", 4)
    cluster.submit(mapped())
    writers = deployments(cluster.pass_time(0))
    assert len(writers) == 4
    effects = [effect for writer in writers for effect in finish(cluster, writer, 2)]
    assert shares(effects) == [("load", index, 1, 8) for index in range(4)]
    assert shares(cluster.run(effects) + cluster.pass_time(0))[4:8] == [("load", index, 1, 8) for index in range(4, 8)]
    cluster.check()


def test_a_job_that_starts_again_as_a_whole_counts_the_rows_of_its_second_run() -> None:
    cluster = ScriptedCluster(MasterSettings(failover_strategy=FailoverStrategy.FULL))
    cluster.register("one", 4)
    begun = deployments(lists(cluster, 3, restart_strategy=fixed_delay(1)))
    effects = cluster.report(begun[0], ExecutionState.FAILED)
    for cancelled in cancellations(effects):
        cluster.say(state_report(cancelled, ExecutionState.CANCELED))
    [writer] = deployments(cluster.pass_time(500))
    assert shares(finish(cluster, writer, 2)) == [("load", index, 2, 2) for index in range(2)]
    cluster.check()


@pytest.mark.rule("P24")
def test_no_subtask_is_scheduled_before_there_is_one_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ScriptedCluster()
    cluster.register("one", 4)
    monkeypatch.setattr("eventflink.master.default_scheduler.decide_parallelism", lambda *_: [])
    with pytest.raises(ApplyFailed, match="its vertex has not a subtask for each row of its input"):
        lists(cluster, 3)
