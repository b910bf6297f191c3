"""Under the adaptive scheduler a vertex runs with the slots that there are, and is rescaled when others come or go."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from eventflink.events.inputs import TaskManagerDeath
from eventflink.events.log_events import (
    JobMasterStarted,
    JobRescaled,
    RescaleScheduled,
    ResourcesAwaited,
    RestartScheduled,
    SlotRequestTimedOut,
    TaskFinished,
    WorkerRequested,
)
from eventflink.master.effects import Deployment, Effect
from eventflink.master.inputs import AdaptJob
from eventflink.master.settings import NO_TIMEOUT, AdaptiveSettings, MasterSettings, WorkerSettings
from eventflink.model.job_graph import RestartStrategy
from eventflink.model.statuses import ExecutionState, FailoverStrategy, JobStatus, RescaleReason, RestartStrategyType, SchedulerType
from eventflink.snapshots.snapshot import encode_fold
from eventflink.snapshots.state_codec import restore_fold
from tests.support.cluster import (
    ScriptedCluster,
    cancellations,
    deployments,
    fixed_delay,
    graph,
    new_fold,
    output_at,
    state_report,
    tasks,
    vertex,
)

STABILIZATION_MS = 10_000
WAIT_MS = 300_000
FEWER, MORE = RescaleReason.FEWER_SLOTS, RescaleReason.MORE_SLOTS


def _adaptive(*vertices: dict[str, Any], **more: Any) -> dict[str, Any]:
    return graph(*vertices, scheduler="adaptive", **more)


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """Nothing is registered; the log is replayed at the end."""
    yield from _cluster(AdaptiveSettings())


@pytest.fixture
def reactive() -> Iterator[ScriptedCluster]:
    yield from _cluster(AdaptiveSettings(SchedulerType.ADAPTIVE, True, NO_TIMEOUT, 0))  # noqa: FBT003 - as the configuration has it


def _cluster(settings: AdaptiveSettings) -> Iterator[ScriptedCluster]:
    scripted = ScriptedCluster(MasterSettings(adaptive=settings))
    yield scripted
    scripted.check()


def _rescales(cluster: ScriptedCluster) -> list[tuple[str, int, int, RescaleReason]]:
    return [(r.vertex_id, r.from_parallelism, r.to_parallelism, r.reason) for r in cluster.events(JobRescaled)]


def _shares(effects: list[Effect]) -> list[tuple[str, int, int, int]]:
    """Return (vertex, subtask, attempt, of how many) of each task that is deployed."""
    return [(t.vertex_id, t.subtask_index, t.attempt, t.parallelism) for t in tasks(effects)]


def _begin(cluster: ScriptedCluster, effects: list[Effect]) -> list[Deployment]:
    """Let everything that is deployed run; return it."""
    begun = deployments(effects)
    for deployment in begun:
        cluster.report(deployment, ExecutionState.RUNNING)
    return begun


def _end(cluster: ScriptedCluster, effects: list[Effect]) -> list[Effect]:
    """Have everything that is cancelled end; return what follows, also at once by the timers."""
    done: list[Effect] = []
    for cancelled in cancellations(effects):
        done += cluster.say(state_report(cancelled, ExecutionState.CANCELED))
    return done + cluster.pass_time(0)


def test_with_slots_for_all_it_starts_at_once_and_is_not_rescaled(cluster: ScriptedCluster) -> None:
    cluster.register("one", 4)
    assert _shares(cluster.submit(_adaptive(vertex("a", 4)))) == [("a", index, 1, 4) for index in range(4)]
    assert not cluster.events(ResourcesAwaited, JobRescaled)


def test_it_waits_for_the_slots_that_are_missing_and_starts_as_soon_as_they_come(cluster: ScriptedCluster) -> None:
    cluster.register("one", 2)
    assert not tasks(cluster.submit(_adaptive(vertex("a", 4))))
    assert cluster.events(ResourcesAwaited) == [ResourcesAwaited("job", "a", 4, 2)]
    assert not tasks(cluster.pass_time(STABILIZATION_MS - 1))
    cluster.register("two", 2)
    assert _shares(cluster.pass_time(0)) == [("a", index, 1, 4) for index in range(4)]
    assert not cluster.events(JobRescaled)


def test_after_the_stabilization_timeout_it_starts_with_what_there_is_and_finishes(cluster: ScriptedCluster) -> None:
    cluster.register("one", 2)
    cluster.submit(_adaptive(vertex("a", 4), vertex("b", 4), edges=[("a", "b", "hash")]))
    started = cluster.pass_time(STABILIZATION_MS)
    assert _shares(started) == [("a", 0, 1, 2), ("a", 1, 1, 2)]
    assert _rescales(cluster) == [("a", 4, 2, FEWER)]
    cluster.run(started)
    cluster.run(cluster.pass_time(STABILIZATION_MS))
    assert _rescales(cluster) == [("a", 4, 2, FEWER), ("b", 4, 2, FEWER)]
    assert cluster.job("job").status is JobStatus.FINISHED


def test_a_reader_of_fewer_outputs_reads_each_of_them_once(cluster: ScriptedCluster) -> None:
    cluster.register("one", 2)
    cluster.submit(_adaptive(vertex("a", 4), vertex("b", 2), edges=[("a", "b", "hash")]))
    [one, other] = tasks(cluster.run(cluster.pass_time(STABILIZATION_MS)))[-2:]
    locations = tuple(output_at(f"/outputs/job/a/{index}/1/default") for index in range(2))
    assert [i.locations for t in (one, other) for i in t.inputs] == [locations, locations]


def test_without_any_slot_the_job_fails_after_the_wait_timeout_whatever_its_restart_strategy(cluster: ScriptedCluster) -> None:
    cluster.submit(_adaptive(vertex("a", 4), restart_strategy=fixed_delay(5)))
    cluster.pass_time(WAIT_MS - 1)
    assert cluster.job("job").status is JobStatus.RUNNING
    cluster.pass_time(1)
    job = cluster.job("job")
    assert (job.status, job.restarts.count) == (JobStatus.FAILED, 0)
    assert job.cause is not None
    assert job.cause.failure_type == "NoResourceAvailable"
    assert job.cause.message == "no slot was there for vertex 'a' within 300000 ms: no TaskManager is registered"
    assert job.exceptions.roots[-1].reason == "jobmanager.adaptive-scheduler.resource-wait-timeout is over"


def test_a_profile_that_no_slot_has_room_for_is_waited_for_as_long_and_named(cluster: ScriptedCluster) -> None:
    cluster.register("one", 2)
    cluster.submit(_adaptive(vertex("a", 1, task_heap_memory="1g")))
    cluster.pass_time(WAIT_MS)
    cause = cluster.job("job").cause
    assert cause is not None
    assert "none of the 2 registered slots has room for" in cause.message
    assert not cluster.events(SlotRequestTimedOut)


def test_a_wait_timeout_of_minus_one_never_comes(cluster: ScriptedCluster) -> None:
    cluster.settings = MasterSettings(adaptive=AdaptiveSettings(resource_wait_timeout_ms=NO_TIMEOUT))
    cluster.fail_over()
    cluster.submit(_adaptive(vertex("a")))
    cluster.pass_time(100 * WAIT_MS)
    cluster.register("one", 1)
    assert len(tasks(cluster.pass_time(0))) == 1


def test_when_more_slots_come_it_is_rescaled_once_its_attempts_have_ended(cluster: ScriptedCluster) -> None:
    """The rescale is no failure: the job has no restart strategy, and continues."""
    cluster.register("one", 2)
    cluster.submit(_adaptive(vertex("a", 4)))
    _begin(cluster, cluster.pass_time(STABILIZATION_MS))
    cluster.register("two", 2)
    assert not cancellations(cluster.pass_time(STABILIZATION_MS - 1))
    effects = cluster.pass_time(1)
    ends = cancellations(effects)
    assert len(ends) == 2
    assert not tasks(effects), "no attempt follows before those before it have ended"
    job = cluster.job("job")
    assert (job.status, [r.to_parallelism for r in cluster.events(RescaleScheduled)]) == (JobStatus.RESTARTING, [4])
    cluster.say(state_report(ends[0], ExecutionState.CANCELED))
    assert not tasks(cluster.pass_time(60_000)), "one of them has not ended"
    cluster.say(state_report(ends[1], ExecutionState.CANCELED))
    restarted = cluster.pass_time(0)
    assert _shares(restarted) == [("a", index, 2, 4) for index in range(4)]
    cluster.run(restarted)
    assert (job.status, job.restarts.count, job.exceptions.root_count) == (JobStatus.FINISHED, 0, 0)
    assert not cluster.events(RestartScheduled)


def test_what_attempts_of_the_old_parallelism_still_finish_does_not_count(cluster: ScriptedCluster) -> None:
    cluster.register("one", 2)
    cluster.submit(_adaptive(vertex("a", 4), vertex("b"), edges=[("a", "b", "rebalance")]))
    old = _begin(cluster, cluster.pass_time(STABILIZATION_MS))
    cluster.register("two", 2)
    cluster.pass_time(STABILIZATION_MS)
    for deployment in old:
        cluster.report(deployment, ExecutionState.FINISHED)
    assert not cluster.events(TaskFinished)
    [*_, reader] = tasks(cluster.run(cluster.pass_time(0)))
    assert reader.vertex_id == "b"
    assert reader.inputs[0].locations == tuple(output_at(f"/outputs/job/a/{index}/2/default") for index in range(4))


def test_as_soon_as_a_subtask_has_finished_the_parallelism_stays(cluster: ScriptedCluster) -> None:
    cluster.register("one", 2)
    cluster.submit(_adaptive(vertex("a", 4)))
    [first, second] = _begin(cluster, cluster.pass_time(STABILIZATION_MS))
    cluster.report(first, ExecutionState.FINISHED)
    cluster.register("two", 2)
    assert not cancellations(cluster.pass_time(10 * STABILIZATION_MS))
    cluster.report(second, ExecutionState.FINISHED)
    assert cluster.events(TaskFinished)[-1].attempt == 1
    assert len(_rescales(cluster)) == 1


def test_an_increase_below_the_least_one_is_not_worth_it(cluster: ScriptedCluster) -> None:
    cluster.settings = MasterSettings(adaptive=AdaptiveSettings(min_parallelism_increase=2))
    cluster.fail_over()
    cluster.register("one", 1)
    cluster.submit(_adaptive(vertex("a", 4)))
    _begin(cluster, cluster.pass_time(STABILIZATION_MS))
    cluster.register("two", 1)
    assert not cancellations(cluster.pass_time(STABILIZATION_MS))
    cluster.register("three", 1)
    assert len(cancellations(cluster.pass_time(0))) == 1
    assert cluster.events(RescaleScheduled)[0].to_parallelism == 3


def test_between_two_rescales_lies_the_stabilization_timeout(cluster: ScriptedCluster) -> None:
    cluster.register("one", 1)
    cluster.submit(_adaptive(vertex("a", 3)))
    _begin(cluster, cluster.pass_time(STABILIZATION_MS))
    cluster.register("two", 1)
    cluster.pass_time(STABILIZATION_MS - 1)
    _begin(cluster, _end(cluster, cluster.pass_time(1)))
    cluster.register("three", 1)
    assert not cancellations(cluster.pass_time(STABILIZATION_MS - 1))
    assert len(cancellations(cluster.pass_time(1))) == 2


def test_after_the_loss_of_a_task_manager_it_goes_on_with_what_is_left(cluster: ScriptedCluster) -> None:
    cluster.register("one", 2)
    cluster.register("two", 2)
    _begin(cluster, cluster.submit(_adaptive(vertex("a", 4), restart_strategy=fixed_delay(2, 500))))
    cluster.say(TaskManagerDeath("two", "two-1", "killed"))
    cluster.pass_time(500)
    assert not cancellations(cluster.pass_time(STABILIZATION_MS - 1)), "another one may come in its place"
    effects = cluster.pass_time(1)
    assert len(cancellations(effects)) == 2
    restarted = _end(cluster, effects)
    assert _shares(restarted) == [("a", 0, 2, 2), ("a", 1, 2, 2)], "no subtask has an attempt of a number that was given before"
    cluster.run(restarted)
    job = cluster.job("job")
    assert (job.status, job.restarts.count) == (JobStatus.FINISHED, 2)


def test_a_task_manager_that_comes_in_time_takes_the_place_of_the_lost_one(cluster: ScriptedCluster) -> None:
    cluster.register("one", 2)
    cluster.register("two", 2)
    running = _begin(cluster, cluster.submit(_adaptive(vertex("a", 4), restart_strategy=fixed_delay(2, 500))))
    cluster.say(TaskManagerDeath("two", "two-1", "killed"))
    cluster.pass_time(500 + STABILIZATION_MS - 1)
    cluster.register("two", 2, instance="2")
    again = cluster.pass_time(0)
    assert [s[2:] for s in _shares(again)] == [(2, 4), (2, 4)]
    cluster.run(again)
    for deployment in running:
        if deployment.task_manager_id == "one":
            cluster.run(cluster.report(deployment, ExecutionState.FINISHED))
    assert cluster.job("job").status is JobStatus.FINISHED
    assert not _rescales(cluster)


def test_what_has_finished_is_kept_when_a_task_manager_is_lost(cluster: ScriptedCluster) -> None:
    """The lost subtask waits for a slot of its siblings: to rescale would throw away what is done."""
    cluster.register("one", 2)
    cluster.register("two", 1)
    running = _begin(cluster, cluster.submit(_adaptive(vertex("a", 3), restart_strategy=fixed_delay(2, 500))))
    on_one = [d for d in running if d.task_manager_id == "one"]
    cluster.submit(graph(vertex("z", 1)), job_id="next")
    cluster.report(on_one[0], ExecutionState.FINISHED)
    cluster.say(TaskManagerDeath("two", "two-1", "killed"))
    assert not cancellations(cluster.pass_time(10 * STABILIZATION_MS))
    [lost] = tasks(cluster.report(on_one[1], ExecutionState.FINISHED))
    assert (lost.attempt, lost.parallelism) == (2, 3)
    assert not _rescales(cluster)


def test_a_job_that_has_nothing_left_waits_and_starts_with_what_comes(cluster: ScriptedCluster) -> None:
    cluster.register("one", 2)
    _begin(cluster, cluster.submit(_adaptive(vertex("a", 2), restart_strategy=fixed_delay(2, 0))))
    cluster.say(TaskManagerDeath("one", "one-1", "killed"))
    cluster.pass_time(0)
    cluster.pass_time(STABILIZATION_MS)
    cluster.register("two", 1)
    started = cluster.pass_time(0)
    assert _shares(started) == [("a", 0, 2, 1)]
    cluster.run(started)
    assert cluster.job("job").status is JobStatus.FINISHED


def test_vertices_that_forward_edges_bind_keep_the_same_parallelism(cluster: ScriptedCluster) -> None:
    """The reader has that of the writer, also where there are slots for more; `validate` compares both after each decision."""
    cluster.register("one", 2)
    cluster.submit(_adaptive(vertex("a", 4), vertex("b", 4), vertex("c", 4), edges=[("a", "b", "forward"), ("b", "c", "hash")]))
    writers = _begin(cluster, cluster.pass_time(STABILIZATION_MS))
    cluster.report(writers[0], ExecutionState.FINISHED)
    cluster.register("two", 2)
    readers = cluster.report(writers[1], ExecutionState.FINISHED)
    assert _shares(readers) == [("b", 0, 1, 2), ("b", 1, 1, 2)]
    assert not cancellations(cluster.pass_time(10 * STABILIZATION_MS)), "the writer's results bind them"
    for deployment in deployments(readers):
        last = cluster.report(deployment, ExecutionState.FINISHED)
    assert _shares(last) == [("c", index, 1, 4) for index in range(4)]
    cluster.run(last)
    assert cluster.job("job").status is JobStatus.FINISHED
    assert _rescales(cluster) == [("a", 4, 2, FEWER)]


def test_writers_that_forward_edges_bind_to_one_reader_start_with_the_same_parallelism(cluster: ScriptedCluster) -> None:
    """The first one decides; the other has to wait for slots, as without the adaptive scheduler."""
    cluster.register("one", 3)
    cluster.submit(_adaptive(vertex("a", 4), vertex("b", 4), vertex("c", 4), edges=[("a", "c", "forward"), ("b", "c", "forward")]))
    cluster.run(cluster.pass_time(STABILIZATION_MS))
    assert _rescales(cluster) == [("a", 4, 2, FEWER)]
    assert cluster.job("job").status is JobStatus.FINISHED
    assert {t.parallelism for r in cluster.released for t in tasks(r.effects)} == {2}


def test_jobs_that_wait_share_what_there_is(cluster: ScriptedCluster) -> None:
    cluster.register("one", 4)
    holders = deployments(cluster.submit(graph(vertex("z", 4)), job_id="holder"))
    for job_id in ("first", "second"):
        cluster.submit(_adaptive(vertex("a", 4)), job_id=job_id)
    assert not tasks(cluster.pass_time(STABILIZATION_MS)), "nothing is free, and nobody waits in line"
    for holder in holders:
        cluster.report(holder, ExecutionState.FINISHED)
    assert [t.job_id for t in tasks(cluster.pass_time(0))] == ["first", "first", "second", "second"]


def test_a_job_that_comes_later_does_not_take_what_others_wait_for(cluster: ScriptedCluster) -> None:
    cluster.register("one", 3)
    cluster.submit(_adaptive(vertex("a", 4)), job_id="first")
    assert not tasks(cluster.submit(_adaptive(vertex("a", 3)), job_id="second"))
    assert [t.job_id for t in tasks(cluster.submit(_adaptive(vertex("a", 1)), job_id="third"))] == ["third"], "its share is as much"
    started = tasks(cluster.pass_time(STABILIZATION_MS))
    assert [(t.job_id, t.parallelism) for t in started] == [("first", 1), ("second", 1)]


def test_where_others_wait_in_line_it_gets_its_share_in_turns(cluster: ScriptedCluster) -> None:
    """Else slots would go to those in line for as long as there is anybody."""
    cluster.register("one", 4)
    holders = deployments(cluster.submit(graph(vertex("z", 40)), job_id="holder"))
    cluster.submit(_adaptive(vertex("a", 4)))
    cluster.pass_time(STABILIZATION_MS)
    assert _rescales(cluster) == [("a", 4, 2, FEWER)]
    followers = [cluster.report(holder, ExecutionState.FINISHED) for holder in holders]
    assert sorted(t.job_id for effects in followers for t in tasks(effects)) == ["holder", "holder", "job", "job"]


def test_a_vertex_that_runs_does_not_grow_while_another_waits(cluster: ScriptedCluster) -> None:
    cluster.register("one", 1)
    cluster.submit(_adaptive(vertex("a", 4)), job_id="first")
    _begin(cluster, cluster.pass_time(STABILIZATION_MS))
    cluster.submit(_adaptive(vertex("a", 2)), job_id="second")
    cluster.register("two", 1)
    effects = cluster.pass_time(STABILIZATION_MS)
    assert not cancellations(effects)
    assert [t.job_id for t in tasks(effects)] == ["second"]


def test_slots_of_another_profile_are_no_reason_to_grow(cluster: ScriptedCluster) -> None:
    asked = {"extended_resources": {"gpu": 1}}
    cluster.register("one", 2)
    cluster.submit(_adaptive(vertex("a", 4), vertex("g", 1, **asked)))
    _begin(cluster, cluster.pass_time(STABILIZATION_MS))
    assert len(_rescales(cluster)) == 1
    cluster.pass_time(2 * STABILIZATION_MS)
    assert not cluster.events(RescaleScheduled)
    cluster.register("two", 2)
    assert len(cancellations(cluster.pass_time(0))) == 2, "who waits for a slot with a GPU does not hold up others"


def test_a_reactive_job_uses_all_slots_and_follows_them_up_and_down(reactive: ScriptedCluster) -> None:
    reactive.register("one", 2)
    first = reactive.submit(graph(vertex("a", 1), restart_strategy=fixed_delay(100, 0))) + reactive.pass_time(0)
    assert _shares(first) == [("a", 0, 1, 2), ("a", 1, 1, 2)]
    _begin(reactive, first)
    reactive.register("two", 3)
    more = _end(reactive, reactive.pass_time(0))
    assert [s[3] for s in _shares(more)] == [5] * 5
    _begin(reactive, more)
    reactive.say(TaskManagerDeath("two", "two-1", "killed"))
    fewer = _end(reactive, reactive.pass_time(1))
    assert [s[3] for s in _shares(fewer)] == [2, 2]
    reactive.run(fewer)
    assert reactive.job("job").status is JobStatus.FINISHED


def test_a_reactive_job_has_no_more_subtasks_than_max_parallelism(reactive: ScriptedCluster) -> None:
    reactive.register("one", 9)
    document = graph(vertex("a", 2) | {"max_parallelism": 3})
    assert len(tasks(reactive.submit(document) + reactive.pass_time(0))) == 3


def test_vertices_of_a_reactive_job_share_the_slots(reactive: ScriptedCluster) -> None:
    reactive.register("one", 6)
    effects = reactive.submit(graph(vertex("a"), vertex("b"))) + reactive.pass_time(0)
    assert sorted(t.vertex_id for t in tasks(effects)) == ["a"] * 3 + ["b"] * 3


def test_a_reactive_job_waits_for_slots_without_end(reactive: ScriptedCluster) -> None:
    reactive.submit(graph(vertex("a")))
    reactive.pass_time(100 * WAIT_MS)
    reactive.register("one", 1)
    assert len(tasks(reactive.pass_time(0))) == 1


def test_a_graph_names_its_scheduler_and_else_has_the_cluster_s(cluster: ScriptedCluster, reactive: ScriptedCluster) -> None:
    for name in ("default", "adaptive", "cluster-default"):
        for each in (cluster, reactive):
            each.submit(graph(vertex("a"), scheduler=name), job_id=name)
    started = [[(e.scheduler, e.reactive) for e in each.events(JobMasterStarted)] for each in (cluster, reactive)]
    default, adaptive = SchedulerType.DEFAULT, SchedulerType.ADAPTIVE
    assert started[0] == [(default, False), (adaptive, False), (default, False)]
    assert started[1] == [(default, False), (adaptive, True), (adaptive, True)]


def test_a_job_of_the_default_scheduler_asks_for_all_its_slots_at_once(cluster: ScriptedCluster) -> None:
    cluster.register("one", 2)
    assert len(tasks(cluster.submit(graph(vertex("a", 4))))) == 2
    assert not list(cluster.master.due(cluster.wall_ms + 10 * STABILIZATION_MS, 0))
    assert not cluster.events(ResourcesAwaited, JobRescaled)


@pytest.mark.parametrize("seconds", [0, 1, 10, 11, 22])
def test_a_change_of_leader_forgets_nothing_of_a_wait_or_a_rescale(cluster: ScriptedCluster, seconds: int) -> None:
    """Whenever it comes: while the vertex waits, runs with less, or ends to be rescaled."""
    cluster.register("one", 2)
    cluster.submit(_adaptive(vertex("a", 4)))
    for second in range(23):
        if second == 12:
            cluster.register("two", 2)
        if second == seconds:
            cluster.fail_over()
        _begin(cluster, cluster.pass_time(1_000))
    assert [r.to_parallelism for r in cluster.events(RescaleScheduled)] == [4]
    again = _end(cluster, _cancelled(cluster))
    assert [s[2:] for s in _shares(again)] == [(2, 4)] * 4
    cluster.run(again)
    assert cluster.job("job").status is JobStatus.FINISHED


def _cancelled(cluster: ScriptedCluster) -> list[Effect]:
    """Return what a leader that takes over now resends: the cancellations that nobody has confirmed."""
    return list(cluster.fail_over().effects)


def test_a_full_restart_and_a_rescale_begin_together() -> None:
    strategy = RestartStrategy(RestartStrategyType.FIXED_DELAY, 3, 500)
    cluster = ScriptedCluster(MasterSettings(failover_strategy=FailoverStrategy.FULL, restart_strategy=strategy))
    cluster.register("one", 4)
    cluster.submit(_adaptive(vertex("a", 4), vertex("b", 2)))
    running = _begin(cluster, cluster.pass_time(STABILIZATION_MS))
    cluster.register("two", 2)
    started = cluster.pass_time(STABILIZATION_MS)
    running += _begin(cluster, started)
    assert {t.vertex_id for t in tasks(started)} == {"b"}
    effects = cluster.rescale("a", 3)
    ended = [cluster.report(d, ExecutionState.FAILED) for d in running if d.payload.vertex_id == "b"]  # type: ignore[union-attr]
    effects += [e for each in ended for e in each]
    _end(cluster, effects)
    again = cluster.pass_time(500)
    assert sorted((s[0], s[3]) for s in _shares(again)) == [("a", 3)] * 3 + [("b", 2)] * 2
    cluster.run(again)
    assert cluster.job("job").status is JobStatus.FINISHED
    cluster.check()


def test_a_snapshot_in_the_middle_of_it_holds_everything(cluster: ScriptedCluster) -> None:
    cluster.register("one", 2)
    cluster.submit(_adaptive(vertex("a", 4)), job_id="running")
    _begin(cluster, cluster.pass_time(STABILIZATION_MS))
    cluster.submit(_adaptive(vertex("a", 4)), job_id="waiting")
    cluster.rescale("a", 1, job_id="running")
    job = cluster.job("running")
    assert (len(job.rescales.pending), len(cluster.job("waiting").rescales.waiting)) == (1, 1)
    fold = new_fold()
    restore_fold(json.loads(encode_fold(cluster.fold)), fold)
    fold.master.validate()
    assert fold.master.digest() == cluster.master.digest()


def test_a_resource_driver_starts_workers_for_what_waits_and_for_what_could_be_more() -> None:
    workers = WorkerSettings(slot_count=2, max_slots=4)
    cluster = ScriptedCluster(MasterSettings(workers=workers))
    cluster.submit(_adaptive(vertex("a", 8)))
    cluster.pass_time(0)
    assert [w.worker_id for w in cluster.events(WorkerRequested)] == ["worker-1", "worker-2"], "as many as there may be"
    cluster.register("worker-1", 2)
    _begin(cluster, cluster.pass_time(STABILIZATION_MS))
    cluster.say(TaskManagerDeath("worker-2", "worker-2-1", "killed"))
    cluster.register("worker-2", 2)
    effects = cluster.pass_time(STABILIZATION_MS)
    assert [r.to_parallelism for r in cluster.events(RescaleScheduled)] == [4]
    cluster.run(_end(cluster, effects))
    assert cluster.job("job").status is JobStatus.FINISHED
    cluster.check()


def test_a_resource_driver_starts_nothing_for_a_job_that_is_to_stay_as_it_is(reactive: ScriptedCluster) -> None:
    """One that is reactive takes what there is; one of which a subtask has finished keeps its parallelism."""
    reactive.settings = MasterSettings(adaptive=reactive.settings.adaptive, workers=WorkerSettings(slot_count=2, max_slots=40))
    reactive.fail_over()
    reactive.submit(graph(vertex("a", 8)))
    reactive.pass_time(0)
    assert len(reactive.events(WorkerRequested)) == 1
    reactive.register("worker-1", 2)
    _begin(reactive, reactive.pass_time(0))
    reactive.pass_time(1_000)
    assert len(reactive.events(WorkerRequested)) == 1


def test_an_order_to_adapt_a_job_that_is_gone_or_needs_nothing_leads_to_nothing(cluster: ScriptedCluster) -> None:
    cluster.register("one", 1)
    cluster.submit(_adaptive(vertex("a")))
    assert cluster.master.decide(AdaptJob("job"), cluster.wall_ms) == []
    assert cluster.master.decide(AdaptJob("none"), cluster.wall_ms) == []


def test_a_vertex_of_hundreds_of_subtasks_is_scheduled_and_rescaled_in_small_decisions() -> None:
    cluster = ScriptedCluster(check_digests=False, check_states=False)
    for number in range(3):
        cluster.register(f"tm{number}", 200)
    cluster.submit(_adaptive(vertex("a", 800)))
    started = cluster.pass_time(STABILIZATION_MS)
    assert len(tasks(started)) == 600
    for number in range(3, 5):
        cluster.register(f"tm{number}", 200)
    ended = cluster.pass_time(STABILIZATION_MS)
    assert len(cancellations(ended)) == 600
    again = _end(cluster, ended)
    assert len(tasks(again)) == 800
    assert max(map(len, cluster.log)) < 64 * 1024
    cluster.run(again)
    assert cluster.job("job").status is JobStatus.FINISHED
    cluster.check()
