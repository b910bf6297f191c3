"""How a job's tasks get to slots: in the order of the graph, in bounded batches, spread evenly."""

from collections import Counter

import pytest

from eventflink.events.effects import TaskDeployment, TaskInput
from eventflink.events.log_events import (
    JobCleanedUp,
    JobCleanupFailed,
    JobEvicted,
    JobResultStored,
    JobStatusChanged,
    SlotAllocated,
    SlotRequestTimedOut,
    TaskFailed,
    TaskFinished,
    TaskScheduled,
)
from eventflink.events.topics import MAX_DECISION_BYTES
from eventflink.master.default_scheduler import SCHEDULE_BATCH
from eventflink.master.dispatcher import MAX_CLEANUP_ATTEMPTS
from eventflink.master.effects import CleanUp, due_clean_ups
from eventflink.master.inputs import CleanupFailed, CleanupsCompleted
from eventflink.master.settings import MasterSettings
from eventflink.model.statuses import ExecutionState, JobStatus, ShipStrategy
from tests.support.cluster import CODEC, ScriptedCluster, deployments, graph, output_of, reports_of, stream, tasks, vertex


def test_a_vertex_starts_only_when_every_subtask_of_every_input_has_finished(cluster: ScriptedCluster) -> None:
    cluster.register(slots=8)
    effects = cluster.submit(
        graph(
            vertex("a", 2),
            vertex("b", 2),
            vertex("c", 2),
            vertex("d"),
            edges=[("a", "c", "forward"), ("b", "c", "hash"), ("c", "d", "broadcast")],
        )
    )
    first = deployments(effects)
    assert [(t.vertex_id, t.subtask_index) for t in tasks(first)] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    for deployment in first[:3]:
        assert not tasks(cluster.report(deployment, ExecutionState.FINISHED))
    second = deployments(cluster.report(first[3], ExecutionState.FINISHED))
    assert [(t.vertex_id, t.subtask_index) for t in tasks(second)] == [("c", 0), ("c", 1)]
    assert not tasks(cluster.report(second[0], ExecutionState.FINISHED))
    [last] = deployments(cluster.report(second[1], ExecutionState.FINISHED))
    assert tasks([last])[0].vertex_id == "d"


def test_of_a_forward_edge_a_task_is_told_what_its_partner_left(cluster: ScriptedCluster) -> None:
    cluster.register(slots=8)
    first = deployments(cluster.submit(graph(vertex("a", 3), vertex("b", 3), edges=[("a", "b", "forward")])))
    second = tasks([effect for each in first for effect in cluster.report(each, ExecutionState.FINISHED)])
    assert [t.inputs[0].locations for t in second] == [(output_of(t),) for t in tasks(first)]


def test_a_task_is_told_where_the_rows_of_its_inputs_are(cluster: ScriptedCluster) -> None:
    """All locations in the order of the writer's subtasks, whatever order they finished in; the share is the reader's to take."""
    cluster.register(slots=8)
    first = deployments(cluster.submit(graph(vertex("a", 2), vertex("b", 2), edges=[("a", "b", "hash")])))
    cluster.report(first[1], ExecutionState.FINISHED)
    second = tasks(cluster.report(first[0], ExecutionState.FINISHED))
    locations = tuple(output_of(t) for t in tasks(first))
    assert [t.inputs for t in second] == [(TaskInput("a", ShipStrategy.HASH, ("k",), locations),)] * 2
    assert [t.outputs for t in tasks(first)] == [("default",), ("default",)]
    assert [t.outputs for t in second] == [(), ()]


def test_a_task_is_told_all_it_has_to_know(cluster: ScriptedCluster) -> None:
    cluster.register()
    document = graph({**vertex("a", 2), "parameters": {"b": 1, "a": "x"}}, code_archives=["0" * 64])
    [task, _] = tasks(cluster.submit(document))
    assert (task.job_name, task.task, task.parallelism, task.max_parallelism) == ("test job", "jobs:a", 2, 4096)
    assert (task.parameters_json, task.code_archives, task.slot_index) == ('{"a":"x","b":1}', ("0" * 64,), 0)


def test_two_edges_between_the_same_vertices_count_as_two_inputs(cluster: ScriptedCluster) -> None:
    cluster.register()
    document = graph(vertex("a"), vertex("b"))
    document["edges"] = [
        {"from": "a", "to": "b", "output": "left"},
        {"from": "a", "to": "b", "output": "right", "name": "other"},
    ]
    effects = cluster.run(cluster.submit(document))
    [a, b] = tasks(effects)
    assert a.outputs == ("left", "right")
    assert [(i.input_name, i.locations) for i in b.inputs] == [("a", (output_of(a, "left"),)), ("other", (output_of(a, "right"),))]
    assert cluster.job("job").status is JobStatus.FINISHED


def test_tasks_are_spread_evenly_over_task_managers(cluster: ScriptedCluster) -> None:
    for name, slots in (("tm1", 4), ("tm2", 4), ("tm3", 2)):
        cluster.register(name, slots)
    placed = Counter(d.task_manager_id for d in deployments(cluster.submit(graph(vertex("a", 7)))))
    assert placed == {"tm1": 3, "tm2": 3, "tm3": 1}
    placed += Counter(d.task_manager_id for d in deployments(cluster.submit(graph(vertex("a", 3)), job_id="second")))
    assert placed == {"tm1": 4, "tm2": 4, "tm3": 2}


def test_what_finds_no_slot_waits_and_goes_on_in_order(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a", 3)))
    assert cluster.master.slot_manager.get_number_pending_slot_requests() == 3
    [first] = deployments(cluster.register(slots=1))
    assert tasks([first])[0].subtask_index == 0
    [second] = deployments(cluster.report(first, ExecutionState.FINISHED))
    assert tasks([second])[0].subtask_index == 1
    assert tasks(cluster.register("tm2", slots=5))[0].subtask_index == 2


@pytest.mark.rule("P10a")
def test_large_jobs_are_scheduled_in_bounded_decisions() -> None:
    """P10a: no decision is larger than the bound, none schedules more than a batch, and other inputs get their turn."""
    cluster = ScriptedCluster(check_digests=False, check_states=False)
    cluster.register(slots=300)
    long = "v" * 64
    effects = cluster.submit(graph(vertex(long, 700)), job_id="j" * 128)
    assert len(tasks(effects)) == 300
    assert cluster.master.slot_manager.get_number_pending_slot_requests() == 400
    effects = cluster.run(effects)
    assert len(tasks(effects)) == 700
    assert cluster.job("j" * 128).status is JobStatus.FINISHED
    assert max(map(len, cluster.log)) <= MAX_DECISION_BYTES
    assert max(sum(isinstance(e, TaskScheduled) for e in d.events) for d in cluster.decisions()) == SCHEDULE_BATCH
    assert max(sum(isinstance(e, SlotAllocated) for e in d.events) for d in cluster.decisions()) <= SCHEDULE_BATCH
    cluster.check()


def test_a_small_job_is_accepted_scheduled_and_deployed_in_one_decision(cluster: ScriptedCluster) -> None:
    """Consequences share the record of their cause while it is small: one trip through the log, not four."""
    cluster.register()
    count = len(cluster.log)
    assert tasks(cluster.submit(graph(vertex("a"))))
    assert len(cluster.log) == count + 1


def test_intermediate_states_may_be_left_out_or_told_one_by_one(cluster: ScriptedCluster) -> None:
    cluster.register()
    [one, other] = deployments(cluster.submit(graph(vertex("a"), vertex("b"))))
    for state in (ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.FINISHED):
        cluster.report(one, state)
    cluster.report(other, ExecutionState.FINISHED)
    assert len(cluster.events(TaskFinished)) == 2
    assert cluster.job("job").status is JobStatus.FINISHED


def test_a_finished_job_is_stored_cleaned_up_and_evicted(cluster: ScriptedCluster) -> None:
    """Only the outputs that no edge reads are kept; the store holds so many ended jobs and no more."""
    cluster.master.settings = MasterSettings(job_store_capacity=1)
    cluster.register()
    first = deployments(cluster.submit(graph(vertex("a"), vertex("b"), edges=[("a", "b", "forward")])))
    cluster.pass_time(700)
    second = deployments(cluster.report(first[0], ExecutionState.FINISHED))
    effects = cluster.report(second[0], ExecutionState.FINISHED)
    result = tasks(second)[0]
    assert effects == [CleanUp("job", (output_of(result).location,))]
    [stored] = cluster.events(JobResultStored)
    assert (stored.status, stored.cause, stored.net_run_time_ms) == (JobStatus.FINISHED, None, 700)
    assert list(cluster.master.dispatcher.dirty) == ["job"]
    cluster.run(cluster.submit(graph(vertex("a")), job_id="second"))
    cluster.pass_time(1)
    assert not cluster.events(JobEvicted), "a dirty job is not evicted"
    cluster.timer(CleanupsCompleted(("job", "no such job")))
    assert cluster.events(JobCleanedUp) == [JobCleanedUp("second"), JobCleanedUp("job")]
    cluster.pass_time(1)
    assert cluster.events(JobEvicted) == [JobEvicted("job")]
    assert list(cluster.master.dispatcher.forgotten) == ["job"]


@pytest.mark.rule("L5")
def test_a_failed_clean_up_is_tried_again_with_back_off_and_given_up(cluster: ScriptedCluster) -> None:
    cluster.register()
    cluster.report(deployments(cluster.submit(graph(vertex("a"))))[0], ExecutionState.FINISHED)
    delays = []
    for _ in range(MAX_CLEANUP_ATTEMPTS - 1):
        cluster.timer(CleanupFailed("job", "permission denied"))
        now_ms = CODEC.decode(cluster.log[-1]).decided_at_ms
        retry_at_ms = cluster.master.dispatcher.dirty["job"].retry_at_ms
        delays.append(retry_at_ms - now_ms)
        assert not due_clean_ups(cluster.master, retry_at_ms - 1)
        assert [c.job_id for c in due_clean_ups(cluster.master, retry_at_ms)] == ["job"]
        cluster.pass_time(delays[-1])
    assert delays == [2_000 * 2**n for n in range(MAX_CLEANUP_ATTEMPTS - 1)]
    cluster.timer(CleanupFailed("job", "permission denied"))
    assert not cluster.master.dispatcher.dirty
    assert cluster.events(JobCleanupFailed)[-1].retry_at_ms == 0
    cluster.timer(CleanupFailed("job", "too late"))
    assert len(cluster.events(JobCleanupFailed)) == MAX_CLEANUP_ATTEMPTS


def test_a_slot_request_that_waits_too_long_fails_its_attempt(cluster: ScriptedCluster) -> None:
    cluster.master.settings = MasterSettings(slot_request_timeout_ms=10_000)
    cluster.submit(graph(vertex("a", 3)))
    cluster.pass_time(9_999)
    assert cluster.job("job").status is JobStatus.RUNNING
    cluster.pass_time(1)
    [timed_out] = cluster.events(SlotRequestTimedOut)
    assert timed_out.waited_ms == 10_000
    [failed] = cluster.events(TaskFailed)
    assert failed.cause.failure_type == "NoResourceAvailable"
    assert failed.cause.message == "no slot was given to it within 10000 ms: no TaskManager is registered"
    assert cluster.job("job").status is JobStatus.FAILED
    assert not cluster.master.slot_manager.pending


def test_a_batch_job_that_works_its_way_through_its_slots_does_not_time_out(cluster: ScriptedCluster) -> None:
    """It holds a slot that will be free; another job's requests fail, and its own do once it has held none for as long."""
    cluster.master.settings = MasterSettings(slot_request_timeout_ms=10_000)
    cluster.register(slots=1)
    [first] = deployments(cluster.submit(graph(vertex("a", 3), restart_strategy={"type": "none"})))
    cluster.pass_time(5_000)
    cluster.submit(graph(vertex("b")), job_id="other")
    cluster.pass_time(9_999)
    assert not cluster.events(SlotRequestTimedOut)
    cluster.pass_time(1)
    assert cluster.job("other").status is JobStatus.FAILED
    [second] = deployments(cluster.report(first, ExecutionState.FINISHED))
    cluster.pass_time(30_000)
    assert cluster.job("job").status is JobStatus.RUNNING
    [third] = deployments(cluster.report(second, ExecutionState.FINISHED))
    cluster.block("tm")
    cluster.report(third, ExecutionState.FINISHED)
    assert cluster.job("job").status is JobStatus.FINISHED


def test_of_requests_that_are_overdue_each_job_has_one_for_each_profile_the_oldest_first(cluster: ScriptedCluster) -> None:
    """What works its way through its tasks is looked at ten times a second: not at each of its requests."""
    cluster.register(slots=1)
    cluster.submit(graph(vertex("a", 200), vertex("b", 2, cpu_cores=1)), job_id="first")
    cluster.pass_time(1_000)
    cluster.submit(graph(vertex("c", 200)), job_id="second")
    slots, now_ms = cluster.master.slot_manager, cluster.wall_ms
    assert len(slots.pending) > 400
    found = [request for _, request in slots.overdue_requests(now_ms, 0)]
    assert [request.requested_at_ms for request in found] == [now_ms - 1_000, now_ms - 1_000, now_ms]
    assert [request.attempt.job_id for request in found] == ["first", "first", "second"]
    assert len({request.profile for request in found}) == 2
    assert len(slots.overdue_requests(now_ms, 1_000)) == 2
    assert slots.overdue_requests(now_ms, 1_001) == []


def test_requests_of_a_job_time_out_that_has_held_no_slot_for_as_long(cluster: ScriptedCluster) -> None:
    cluster.master.settings = MasterSettings(slot_request_timeout_ms=10_000)
    cluster.register(slots=1)
    [first] = deployments(cluster.submit(graph(vertex("a", 2))))
    cluster.block("tm")
    cluster.pass_time(9_000)
    cluster.report(first, ExecutionState.FINISHED)
    cluster.pass_time(9_999)
    assert cluster.job("job").status is JobStatus.RUNNING
    cluster.pass_time(1)
    assert [event.waited_ms for event in cluster.events(SlotRequestTimedOut)] == [19_000]
    assert cluster.job("job").status is JobStatus.FAILED


def test_requests_of_a_stream_time_out_although_its_job_holds_a_slot(cluster: ScriptedCluster) -> None:
    """A stream does not give a slot back."""
    cluster.master.settings = MasterSettings(slot_request_timeout_ms=10_000)
    cluster.register(slots=1)
    cluster.submit(graph(stream("s", 2)))
    cluster.pass_time(10_000)
    assert cluster.events(SlotRequestTimedOut)


@pytest.mark.parametrize("parallelism", [1, 2, 17])
def test_every_subtask_runs_exactly_once(cluster: ScriptedCluster, parallelism: int) -> None:
    cluster.register(slots=3)
    effects = cluster.run(cluster.submit(graph(vertex("a", parallelism), vertex("b", parallelism), edges=[("a", "b", "forward")])))
    ran = Counter((t.vertex_id, t.subtask_index, t.attempt) for t in tasks(effects))
    assert ran == {(v, i, 1): 1 for v in "ab" for i in range(parallelism)}
    assert [c.to_status for c in cluster.events(JobStatusChanged)] == [JobStatus.RUNNING, JobStatus.FINISHED]
    assert cluster.master.slot_manager.get_number_free_slots() == 3


def test_the_reports_of_many_tasks_in_one_record_are_all_decided(cluster: ScriptedCluster) -> None:
    cluster.register(slots=200)
    waiting = deployments(cluster.submit(graph(vertex("a", 200))))
    assert all(isinstance(d.payload, TaskDeployment) for d in waiting)
    cluster.say(*[r for d in waiting for r in reports_of(d, ExecutionState.FINISHED)])
    assert cluster.job("job").status is JobStatus.FINISHED
