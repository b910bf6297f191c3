"""The invariants of the whole state: those of each component, and those between them.

The tests and the simulation check them after every decision; a running master does not.
"""

from typing import TYPE_CHECKING

from eventflink.master.canonical import require
from eventflink.master.execution_graph import Subtask
from eventflink.model.statuses import TERMINAL_EXECUTION_STATES, ExecutionState, JobStatus

if TYPE_CHECKING:
    from eventflink.master.master import Master


def validate(master: "Master") -> None:
    """Check every invariant of every component, and those between them; raises `InvariantBroken`."""
    master.upkeep.validate()
    master.slot_manager.validate()
    master.resource_manager.validate()
    master.blocklist.validate()
    master.workers.validate(master.resource_manager.task_managers)
    master.dispatcher.validate()
    master.job_store.validate(master.dispatcher.ended)
    master.shutdown.validate()
    for job_id in master.shutdown.suspended:
        status = master.dispatcher.jobs[job_id].status
        require(status is JobStatus.SUSPENDED, f"{job_id} is {status}, and waits for the cluster to begin anew")
    registered = {t: m.instance_id for t, m in master.resource_manager.task_managers.items()}
    master.task_manager_files.validate(registered, dict(master.dispatcher.uploads))
    with_slots = {t: s.instance_id for t, s in master.slot_manager.task_managers.items()}
    require(registered == with_slots, "ResourceManager and SlotManager know different TaskManagers")
    for task_manager_id, held in master.slot_manager.task_managers.items():
        blocked = task_manager_id in master.blocklist.task_managers
        require(held.blocked == blocked, f"{task_manager_id} is blocked: {held.blocked}; on the blocklist: {blocked}")
    for allocation_id, allocation in master.slot_manager.allocations.items():
        for attempt in allocation.attempts:
            holder = master.live_subtask(attempt)
            require(holder is not None and holder.allocation_id == allocation_id, f"{allocation_id} is not held by a live {attempt}")
    for allocation_id, request in master.slot_manager.pending.items():
        subtask = master.live_subtask(request.attempt)
        waits = subtask is not None and subtask.allocation_id == allocation_id and subtask.state is ExecutionState.SCHEDULED
        require(waits, f"{allocation_id} is requested for an attempt that does not wait for it")
    for job_id, job in master.dispatcher.jobs.items():
        for subtask in job.execution_graph.subtasks():
            _validate_subtask(master, job_id, subtask)


def _validate_subtask(master: "Master", job_id: str, subtask: Subtask) -> None:
    state = subtask.state
    place = f"{job_id}/{subtask.vertex_id}[{subtask.subtask_index}]#{subtask.attempt}"
    if state is ExecutionState.SCHEDULED:
        require(subtask.allocation_id in master.slot_manager.pending, f"{place} is SCHEDULED but waits for no slot")
    elif state not in TERMINAL_EXECUTION_STATES and state is not ExecutionState.CREATED:
        require(subtask.allocation_id in master.slot_manager.allocations, f"{place} is {state} without a slot")
