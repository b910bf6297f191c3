"""A queue below its quota takes slots back from queues that borrow: when, whose, how many, and what that means for who is in them."""

from typing import Any

from eventflink.events.log_events import (
    JobStatusChanged,
    RestartScheduled,
    SlotReclaimed,
    StreamStarted,
    TaskCancellationRequested,
    TaskFailed,
)
from eventflink.master.effects import Deployment, Effect
from eventflink.master.settings import MasterSettings
from eventflink.model.job_queues import JobQueue
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import ExecutionState, JobStatus
from tests.support.cluster import ScriptedCluster, cancellations, deployments, graph, sharing, state_report, stream, tasks, vertex

FLOOD, STREAMS = JobQueue("flood", 0), JobQueue("streams", 2)
AFTER_MS = 5_000


def _cluster(*queues: JobQueue, after_ms: int | None = AFTER_MS) -> ScriptedCluster:
    made = ScriptedCluster(MasterSettings(queues=tuple(sorted(queues, key=lambda queue: queue.name)), queue_reclaim_after_ms=after_ms))
    made.pass_time(100)
    return made


def _submit(cluster: ScriptedCluster, job_id: str, queue: str, parallelism: int = 1, **more: Any) -> list[Deployment]:
    return deployments(cluster.submit(graph(vertex("a", parallelism), queue=queue, **more), job_id=job_id))


def _start(cluster: ScriptedCluster, started: list[Deployment]) -> list[Deployment]:
    for each in started:
        cluster.report(each, ExecutionState.RUNNING)
    return started


def _end(cluster: ScriptedCluster, effects: list[Effect]) -> list[Effect]:
    """Have attempts end that are told to; return what follows."""
    followed: list[Effect] = []
    for order in cancellations(effects):
        followed += cluster.say(state_report(order, ExecutionState.CANCELED))
    return followed + cluster.pass_time(1)


def _reclaimed(cluster: ScriptedCluster) -> list[tuple[str, int]]:
    return [(event.job_id, event.subtask_index) for event in cluster.events(SlotReclaimed)]


def test_a_queue_takes_back_as_many_slots_as_its_requests_share() -> None:
    cluster = _cluster(FLOOD, JobQueue("streams", 9))
    cluster.register("tm", 6)
    _start(cluster, _submit(cluster, "flood", "flood", 6))
    wide = [sharing("a", 2), sharing("b"), sharing("c", 2), sharing("alone", group="another"), vertex("d")]
    cluster.submit(graph(*wide, queue="streams"), job_id="wanted")
    cluster.pass_time(AFTER_MS)
    assert len(_reclaimed(cluster)) == cluster.master.slot_manager.slots_wanted()[None] == 4


def test_closing_vertices_keep_their_slots_whatever_end_they_follow() -> None:
    for end in (ExecutionState.FINISHED, ExecutionState.FAILED):
        cluster = _cluster(FLOOD, STREAMS)
        cluster.register("tm", 1)
        document = graph(vertex("a"), vertex("end") | {"runs": "always"}, queue="flood", restart_strategy={"type": "none"})
        [work] = _start(cluster, deployments(cluster.submit(document, job_id="flood")))
        [closing] = _start(cluster, deployments(cluster.report(work, end)))
        assert not _submit(cluster, "wanted", "streams")
        cluster.pass_time(AFTER_MS * 2)
        assert not _reclaimed(cluster)
        cluster.report(closing, ExecutionState.FINISHED)
        assert [subtask.state for subtask in cluster.job("wanted").execution_graph.subtasks()] == [ExecutionState.DEPLOYING]


def test_a_queue_below_its_quota_takes_back_the_youngest_slots_that_are_borrowed_after_a_while() -> None:
    cluster = _cluster(FLOOD, STREAMS)
    cluster.register("tm", 4)
    _start(cluster, _submit(cluster, "flood", "flood", 9))
    _submit(cluster, "wanted", "streams", 3)
    cluster.pass_time(AFTER_MS - 1_000)
    assert not _reclaimed(cluster)
    effects = cluster.pass_time(2_000)
    assert _reclaimed(cluster) == [("flood", 3), ("flood", 2)]
    cluster.pass_time(60_000)
    assert len(_reclaimed(cluster)) == 2
    assert [task.job_id for task in tasks(_end(cluster, effects))] == ["wanted", "wanted"]
    cluster.check()


def test_it_is_no_failure_and_no_restart_counts() -> None:
    cluster = _cluster(FLOOD, STREAMS)
    cluster.register("tm", 2)
    _start(cluster, _submit(cluster, "flood", "flood", 2, restart_strategy={"type": "none"}))
    _submit(cluster, "wanted", "streams", 1)
    effects = cluster.pass_time(2 * AFTER_MS)
    [cancelled] = cluster.events(TaskCancellationRequested)
    assert cancelled.reason == "queue 'streams' takes back its slot, which queue 'flood' had borrowed"
    effects = _end(cluster, effects)
    assert not cluster.events(TaskFailed, RestartScheduled)
    job = cluster.job("flood")
    assert (job.status, job.restarts.count, job.exceptions.root_count) == (JobStatus.RUNNING, 0, 0)
    assert any(task.job_id == "wanted" for task in tasks(effects))
    cluster.check()


def test_without_the_setting_nothing_is_taken_back() -> None:
    cluster = _cluster(FLOOD, STREAMS, after_ms=None)
    cluster.register("tm", 2)
    _start(cluster, _submit(cluster, "flood", "flood", 5))
    _submit(cluster, "wanted", "streams", 2)
    cluster.pass_time(3_600_000)
    assert not _reclaimed(cluster)


def test_a_queue_that_has_its_quota_takes_nothing_and_nobody_below_his_loses_anything() -> None:
    cluster = _cluster(JobQueue("a", 2), JobQueue("b", 2))
    cluster.register("tm", 4)
    _start(cluster, _submit(cluster, "first", "a", 5))
    _submit(cluster, "second", "b", 5)
    _end(cluster, cluster.pass_time(2 * AFTER_MS))
    assert dict(cluster.master.slot_manager.shares.held) == {"a": 2, "b": 2}
    cluster.pass_time(3_600_000)
    assert len(_reclaimed(cluster)) == 2
    cluster.check()


def test_the_lowest_priority_loses_first_of_the_queue_that_borrows_most_for_its_weight() -> None:
    cluster = _cluster(JobQueue("heavy", 0, 4), JobQueue("light", 0, 1), STREAMS)
    cluster.register("tm", 6)
    for job_id, queue, slots, priority in (("low", "light", 1, -1), ("ordinary", "light", 2, 0), ("other", "heavy", 3, -50)):
        _start(cluster, _submit(cluster, job_id, queue, slots, priority=priority))
    _submit(cluster, "wanted", "streams", 2)
    cluster.pass_time(2 * AFTER_MS)
    assert _reclaimed(cluster) == [("low", 0), ("ordinary", 1)]
    cluster.check()


def test_a_slot_without_room_or_of_a_blocked_task_manager_is_left_alone() -> None:
    cluster = _cluster(FLOOD, STREAMS)
    cluster.register("small", 1, profile=ResourceProfile(500))
    cluster.register("large", 1, profile=ResourceProfile(4_000))
    cluster.register("blocked", 1, profile=ResourceProfile(4_000))
    _start(cluster, _submit(cluster, "flood", "flood", 3))
    cluster.block("blocked")
    cluster.submit(graph(vertex("a", 2, cpu_cores=2), queue="streams"), job_id="wanted")
    cluster.pass_time(2 * AFTER_MS)
    [reclaimed] = cluster.events(SlotReclaimed)
    assert cluster.master.slot_manager.allocations[reclaimed.allocation_id].task_manager_id == "large"
    cluster.check()


def test_all_who_share_a_slot_end_together_and_one_slot_is_enough() -> None:
    cluster = _cluster(FLOOD, JobQueue("streams", 1))
    cluster.register("tm", 1)
    _start(cluster, deployments(cluster.submit(graph(sharing("a"), sharing("b"), queue="flood"), job_id="flood")))
    _submit(cluster, "wanted", "streams")
    effects = cluster.pass_time(2 * AFTER_MS)
    assert len(cancellations(effects)) == len(_reclaimed(cluster)) == 2
    assert [task.job_id for task in tasks(_end(cluster, effects))] == ["wanted"]
    cluster.check()


def test_a_stream_goes_on_with_its_next_attempt() -> None:
    cluster = _cluster(FLOOD, STREAMS)
    cluster.register("tm", 1)
    _start(cluster, deployments(cluster.submit(graph(stream("s"), queue="flood"), job_id="flood")))
    _submit(cluster, "wanted", "streams")
    _end(cluster, cluster.pass_time(2 * AFTER_MS))
    assert not cluster.events(TaskFailed, StreamStarted)
    subtask = cluster.job("flood").execution_graph.vertices["s"].subtasks[0]
    assert subtask.attempt == 2
    assert [event.reason for event in cluster.events(JobStatusChanged) if event.to_status is JobStatus.RESTARTING] == [
        "queue 'streams' takes slots back"
    ]
    cluster.check()


def test_a_batch_flood_never_starves_streams() -> None:
    cluster = _cluster(JobQueue("batch", 2), JobQueue("streams", 4))
    cluster.register("tm", 8)
    for number in range(20):
        _start(cluster, _submit(cluster, f"batch-{number}", "batch", 8))
    for number in range(4):
        cluster.submit(graph(stream("s"), queue="streams"), job_id=f"stream-{number}")
        _start(cluster, deployments(_end(cluster, cluster.pass_time(AFTER_MS + 1_000))))
        assert cluster.master.slot_manager.shares.held_by("streams") == number + 1
    assert cluster.master.slot_manager.shares.held_by("batch") == 4
    assert not cluster.events(TaskFailed)
    cluster.check()
