"""Whatever the tables of transitions do not list is refused by the event that would say it, in every state that a cluster can be in.

The states are found in the logs of the scenarios, at every offset; the events are made for each of them.
"""

from collections.abc import Iterator
from functools import cache

import pytest

from eventflink.events import log_events as e
from eventflink.events.log_events import LogEvent
from eventflink.master.execution_graph import Subtask
from eventflink.master.master import Master
from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import (
    EXECUTION_TRANSITIONS,
    JOB_TRANSITIONS,
    SLOT_TRANSITIONS,
    ExecutionState,
    IllegalTransition,
    JobStatus,
    SlotState,
)
from tests.support.cluster import START_MS, ScriptedCluster, deployments, graph, new_fold, replay, vertex
from tests.support.scenarios import busy_cluster, eventful_cluster, restarting_cluster

Spot = tuple[str, int, str, str, int]
"""A log, how much of it, a job or TaskManager, a vertex, and an index."""

UNREACHED_STATES = {ExecutionState.RECONCILING}
"""Nothing says it: Flink's adaptive scheduler does."""
UNREACHED_STATUSES = {JobStatus.RECONCILING, JobStatus.SUSPENDED, JobStatus.CREATED, JobStatus.INITIALIZING}
"""Nothing says them, no scenario has them, or they do not outlast the decision that begins a job."""
CAUSE = FailureCause("E", "message")


def starting_cluster() -> ScriptedCluster:
    """Return a cluster with an attempt that starts."""
    cluster = ScriptedCluster()
    cluster.register()
    [deployment] = deployments(cluster.submit(graph(vertex("a"))))
    cluster.report(deployment, ExecutionState.INITIALIZING)
    return cluster


@cache
def logs() -> dict[str, tuple[bytes, ...]]:
    return {
        "busy": tuple(busy_cluster().log),
        "eventful": tuple(eventful_cluster().log),
        "restarting": tuple(restarting_cluster().log),
        "starting": tuple(starting_cluster().log),
    }


@cache
def spots() -> tuple[dict[ExecutionState, Spot], dict[JobStatus, Spot], dict[SlotState, Spot]]:
    """Return where each state of an attempt, each status of a job and each state of a slot is met first."""
    attempts: dict[ExecutionState, Spot] = {}
    jobs: dict[JobStatus, Spot] = {}
    slots: dict[SlotState, Spot] = {}
    for name, log in logs().items():
        fold = new_fold()
        for offset, value in enumerate(log):
            fold.fold_record(offset, START_MS, value)
            for job_id, job in fold.master.dispatcher.jobs.items():
                jobs.setdefault(job.status, (name, offset + 1, job_id, "", 0))
                for subtask in job.execution_graph.subtasks():
                    attempts.setdefault(subtask.state, (name, offset + 1, job_id, subtask.vertex_id, subtask.subtask_index))
            for task_manager_id, held in fold.master.slot_manager.task_managers.items():
                for index, slot in enumerate(held.slots):
                    slots.setdefault(slot.state, (name, offset + 1, task_manager_id, "", index))
    return attempts, jobs, slots


def master_at(spot: Spot) -> Master:
    return replay(logs()[spot[0]][: spot[1]]).master


def assert_refused(master: Master, event: LogEvent) -> None:
    before = master.digest()
    with pytest.raises(IllegalTransition):
        master.apply(event, START_MS)
    assert master.digest() == before


def events_to(job_id: str, subtask: Subtask, attempt: int, index: int) -> Iterator[tuple[ExecutionState, LogEvent]]:
    """Yield for each state the event that would lead an attempt there."""
    place = (job_id, subtask.vertex_id, index, attempt)
    yield ExecutionState.SCHEDULED, e.TaskScheduled(*place)
    yield ExecutionState.DEPLOYING, e.TaskDeployed(*place, subtask.allocation_id)
    yield ExecutionState.CANCELING, e.TaskCancellationRequested(*place, "reason")
    yield ExecutionState.FINISHED, e.TaskFinished(*place)
    yield ExecutionState.FAILED, e.TaskFailed(*place, CAUSE)
    for state in ExecutionState:
        yield state, e.TaskStateChanged(*place, subtask.state, state)


@pytest.mark.parametrize("state", [s for s in ExecutionState if s not in UNREACHED_STATES])
def test_an_attempt_goes_nowhere_that_its_table_does_not_list(state: ExecutionState) -> None:
    spot = spots()[0][state]
    _, _, job_id, vertex_id, index = spot
    master = master_at(spot)
    subtask = master.dispatcher.jobs[job_id].execution_graph.vertices[vertex_id].subtasks[index]
    tried = set()
    for to_state, event in events_to(job_id, subtask, subtask.attempt, index):
        if to_state not in EXECUTION_TRANSITIONS[state]:
            assert_refused(master, event)
            tried.add(to_state)
    assert tried == set(ExecutionState) - set(EXECUTION_TRANSITIONS[state])


@pytest.mark.parametrize("state", [s for s in ExecutionState if s not in UNREACHED_STATES])
def test_no_event_moves_an_attempt_that_is_not_the_current_one(state: ExecutionState) -> None:
    """An older one, a later one, one of a subtask that is not there, and one of a job that is not there."""
    spot = spots()[0][state]
    _, _, job_id, vertex_id, index = spot
    master = master_at(spot)
    subtasks = master.dispatcher.jobs[job_id].execution_graph.vertices[vertex_id].subtasks
    subtask = subtasks[index]
    for attempt in (subtask.attempt - 1, subtask.attempt + 1, -subtask.attempt, 2**31 - 1):
        for _, event in events_to(job_id, subtask, attempt, index):
            assert_refused(master, event)
    for other in (-1, -len(subtasks), len(subtasks), 2**31 - 1):
        for _, event in events_to(job_id, subtask, subtask.attempt, other):
            assert_refused(master, event)
    for _, event in events_to("no such job", subtask, subtask.attempt, index):
        assert_refused(master, event)


@pytest.mark.parametrize("status", [s for s in JobStatus if s not in UNREACHED_STATUSES])
def test_a_job_goes_nowhere_that_its_table_does_not_list(status: JobStatus) -> None:
    spot = spots()[1][status]
    master = master_at(spot)
    for to_status in JobStatus:
        if to_status not in JOB_TRANSITIONS[status]:
            assert_refused(master, e.JobStatusChanged(spot[2], status, to_status))
        for from_status in set(JobStatus) - {status}:
            assert_refused(master, e.JobStatusChanged(spot[2], from_status, to_status))
        assert_refused(master, e.JobStatusChanged("no such job", status, to_status))


@pytest.mark.parametrize("state", list(SlotState))
def test_a_slot_goes_nowhere_that_its_table_does_not_list(state: SlotState) -> None:
    spot = spots()[2][state]
    _, _, task_manager_id, _, index = spot
    master = master_at(spot)
    held = master.slot_manager.task_managers[task_manager_id]
    allocation_id = held.slots[index].allocation_id
    to_pending = [e.SlotAllocated(a, task_manager_id, held.instance_id, index) for a in (*master.slot_manager.pending, allocation_id)]
    events: dict[SlotState, list[LogEvent]] = {
        SlotState.PENDING: [*to_pending],
        SlotState.ALLOCATED: [e.SlotOffered(allocation_id)],
        SlotState.FREE: [e.SlotFreed(allocation_id), e.SlotOfferRejected(allocation_id, "reason")],
    }
    for to_state, made in events.items():
        if to_state not in SLOT_TRANSITIONS[state]:
            for event in made:
                assert_refused(master, event)


def test_every_state_is_met_that_can_be() -> None:
    attempts, jobs, slots = spots()
    assert set(attempts) == set(ExecutionState) - UNREACHED_STATES
    assert set(jobs) >= set(JobStatus) - UNREACHED_STATUSES
    assert set(slots) == set(SlotState)
