"""What must hold of the SlotManager's slots, requests, allocations and indexes, whatever was decided."""

from typing import TYPE_CHECKING

from eventflink.master.canonical import require
from eventflink.master.slots import Allocation, totals_of
from eventflink.model.statuses import SlotState

if TYPE_CHECKING:
    from eventflink.master.slot_manager import SlotManager
    from eventflink.model.attempts import AttemptId


def validate_slots(manager: "SlotManager") -> None:
    """Check slots, allocations and indexes against each other."""
    occupied = {}
    for task_manager_id, held in manager.task_managers.items():
        for index, slot in enumerate(held.slots):
            place = f"{task_manager_id}/{index}"
            require((slot.state is SlotState.FREE) == (not slot.allocation_id), f"{place} is {slot.state} with '{slot.allocation_id}'")
            require((slot.state is SlotState.FREE) == (index in held.free), f"{place} is {slot.state}, but its index says otherwise")
            if slot.allocation_id:
                require(slot.allocation_id not in occupied, f"{slot.allocation_id} holds two slots")
                occupied[slot.allocation_id] = (task_manager_id, held.instance_id, index)
        levels = manager.by_free_count if held.profile is None else manager.by_profile.get(held.profile, {})
        counted = task_manager_id in levels.get(len(held.free), {})
        require(counted == (bool(held.free) and not held.blocked), f"{task_manager_id} is not counted by its free slots")
    counted_free = sum(len(level) for _, levels in manager.offered() for level in levels.values())
    require(counted_free == sum(bool(t.free) and not t.blocked for t in manager.task_managers.values()), "free counts are stale")
    require(all(manager.by_profile.values()), "a profile is kept of which nothing is free")
    require(totals_of(manager.task_managers) == manager.totals, "the totals by profile are stale")
    manager.queues.validate(manager.pending)
    manager.deferrals.validate(manager.queues, manager.why_waiting)
    attempts: set[AttemptId] = set()
    for allocation_id, allocation in manager.allocations.items():
        place_held = (allocation.task_manager_id, allocation.instance_id, allocation.slot_index)
        require(allocation.orphaned != "" or occupied.get(allocation_id) == place_held, f"{allocation_id} does not hold {place_held}")
        for attempt in allocation.attempts:
            require(attempt not in attempts, f"{attempt} has two allocations")
            attempts.add(attempt)
        _validate_sharing(allocation_id, allocation)
    require(set(occupied) <= set(manager.allocations), "a slot is held by an allocation that is not there")
    for request in manager.pending.values():
        require(request.attempt not in attempts, f"{request.attempt} waits for a slot and has one")
    manager.sharing.validate(manager.pending, manager.allocations, manager.task_managers)


def _validate_sharing(allocation_id: str, allocation: Allocation) -> None:
    """Check that those who are in one slot are of one group of one job, and of different vertices."""
    together = allocation.attempts
    require(len(together) == 1 or bool(allocation.slot_sharing_group), f"{allocation_id} is of no group, and {len(together)} share it")
    require(len({a.vertex_id for a in together}) == len(together), f"{allocation_id} holds two attempts of one vertex")
    require(len({a.job_id for a in together}) == 1, f"{allocation_id} holds attempts of two jobs")
