"""The SlotManager: every slot of the cluster, the requests that wait for one, and the allocations that hold one.

A slot goes FREE → PENDING (SlotAllocated) → ALLOCATED (SlotOffered) → FREE (SlotFreed). Requests are matched in the order in
which they came, each to a free slot of the TaskManager that has the most of them, so that work is spread evenly. Matching
costs by the number of matches, not by the size of the cluster.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from eventflink.events.log_events import (
    LogEvent,
    SlotAllocated,
    SlotFreed,
    SlotOffered,
    SlotOfferRejected,
    SlotRequestCancelled,
    SlotRequested,
    SlotRequestTimedOut,
    TaskDeployed,
    TaskManagerDisconnected,
    TaskManagerLost,
    TaskManagerRegistered,
    TaskManagerReportReconciled,
)
from eventflink.master.canonical import DERIVED, require
from eventflink.master.follow_ups import FollowUps
from eventflink.model.attempts import AttemptId
from eventflink.model.statuses import SLOT_TRANSITIONS, FollowUpType, IllegalTransition, SlotState, check_transition

MATCH_BATCH = 256
"""How many requests one decision matches at most; the rest follows in the next (P10a)."""


@dataclass(slots=True)
class Slot:
    """One slot of a TaskManager."""

    state: SlotState = SlotState.FREE
    allocation_id: str = ""


@dataclass(slots=True)
class TaskManagerSlots:
    """All slots of one registered instance."""

    instance_id: str
    slots: list[Slot]
    free: dict[int, None]


@dataclass(slots=True)
class SlotRequest:
    """An attempt that waits for a slot."""

    attempt: AttemptId
    requested_at_ms: int


@dataclass(slots=True)
class Allocation:
    """An attempt that has a slot, or had one on an instance that is lost until its failure is decided."""

    attempt: AttemptId
    task_manager_id: str
    instance_id: str
    slot_index: int
    orphaned: str = ""


@dataclass(slots=True)
class SlotManager:
    """Slots, pending requests and allocations."""

    follow_ups: FollowUps = field(metadata=DERIVED)
    task_managers: dict[str, TaskManagerSlots] = field(default_factory=dict)
    pending: dict[str, SlotRequest] = field(default_factory=dict)
    allocations: dict[str, Allocation] = field(default_factory=dict)
    next_allocation: int = 1
    by_free_count: dict[int, dict[str, None]] = field(default_factory=dict)
    """TaskManagers by how many free slots they have; none with zero."""

    # -- decide ---------------------------------------------------------------------------------------------------

    def allocation_ids(self) -> Iterator[str]:
        """Yield fresh allocation ids: they count, so they need no randomness."""
        number = self.next_allocation
        while True:
            yield f"allocation-{number}"
            number += 1

    def decide_matches(self) -> list[LogEvent]:
        """Match a batch of pending requests to free slots."""
        events: list[LogEvent] = []
        requests = zip(range(MATCH_BATCH), self.pending.items(), self._slots_most_free_first(), strict=False)
        for _, (allocation_id, request), (task_manager_id, instance_id, slot_index) in requests:
            attempt = request.attempt
            events.append(SlotAllocated(allocation_id, task_manager_id, instance_id, slot_index))
            events.append(TaskDeployed(attempt.job_id, attempt.vertex_id, attempt.subtask_index, attempt.attempt, allocation_id))
        return events

    def _slots_most_free_first(self) -> Iterator[tuple[str, str, int]]:
        """Yield (TaskManager, instance, slot index): at each step one of the TaskManagers with the most slots left."""
        carried: list[Iterator[tuple[str, str, int]]] = []
        for count in range(max(self.by_free_count, default=0), 0, -1):
            level: list[Iterator[tuple[str, str, int]]] = []
            for slots in chain(carried, map(self._free_slots_of, self.by_free_count.get(count, ()))):
                yield next(slots)
                level.append(slots)
            carried = level

    def _free_slots_of(self, task_manager_id: str) -> Iterator[tuple[str, str, int]]:
        held = self.task_managers[task_manager_id]
        return iter([(task_manager_id, held.instance_id, index) for index in held.free])

    def overdue_request(self, now_ms: int, timeout_ms: int) -> tuple[str, SlotRequest] | None:
        """Return the oldest pending request if it has waited too long (all wait equally long)."""
        for allocation_id, request in self.pending.items():
            return (allocation_id, request) if now_ms - request.requested_at_ms >= timeout_ms else None
        return None

    def held_by(self, allocation_id: str, instance_id: str) -> Allocation | None:
        """Return the allocation if this instance holds it."""
        allocation = self.allocations.get(allocation_id)
        return allocation if allocation is not None and allocation.instance_id == instance_id and not allocation.orphaned else None

    def state_of(self, allocation: Allocation) -> SlotState:
        """Return where the slot of an allocation stands."""
        return self.task_managers[allocation.task_manager_id].slots[allocation.slot_index].state

    # -- queries --------------------------------------------------------------------------------------------------

    def get_number_registered_slots(self) -> int:
        """Return how many slots there are."""
        return sum(len(t.slots) for t in self.task_managers.values())

    def get_number_free_slots(self) -> int:
        """Return how many of them are FREE."""
        return sum(len(t.free) for t in self.task_managers.values())

    def get_number_pending_slot_requests(self) -> int:
        """Return how many requests wait."""
        return len(self.pending)

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply_task_manager_registered(self, event: TaskManagerRegistered, _at: int) -> None:
        """Take the slots of a new instance; the older one was lost before. Registered again: nothing changes."""
        known = self.task_managers.get(event.task_manager_id)
        if known is not None:
            if known.instance_id != event.instance_id:
                raise IllegalTransition(f"{event.task_manager_id}: instance {known.instance_id} still holds its slots")
            return
        indexes = range(event.slot_count)
        self.task_managers[event.task_manager_id] = TaskManagerSlots(event.instance_id, [Slot() for _ in indexes], dict.fromkeys(indexes))
        self._count_free(event.task_manager_id, 0, event.slot_count)
        self._want_matching()

    def apply_task_manager_gone(self, event: TaskManagerLost | TaskManagerDisconnected, _at: int) -> None:
        """Drop the slots of an instance; its allocations wait for their failure to be decided, one by one."""
        held = self.task_managers.get(event.task_manager_id)
        if held is None or held.instance_id != event.instance_id:
            raise IllegalTransition(f"{event.task_manager_id}: the instance {event.instance_id} is not registered")
        self._count_free(event.task_manager_id, len(held.free), 0)
        del self.task_managers[event.task_manager_id]
        for slot in held.slots:
            if slot.allocation_id:
                self._orphan(slot.allocation_id, f"{type(event).__name__}: {event.reason}")
        self._want_matching()

    def apply_report_reconciled(self, event: TaskManagerReportReconciled, _at: int) -> None:
        """Mark the allocations whose attempts their TaskManager does not have: they fail."""
        for allocation_id in event.missing:
            if self.held_by(allocation_id, event.instance_id) is None:
                raise IllegalTransition(f"{allocation_id} is not held by the instance {event.instance_id} of {event.task_manager_id}")
        for allocation_id in event.missing:
            self._orphan(allocation_id, "AttemptMissing: its TaskExecutor does not report it")

    def apply_slot_requested(self, event: SlotRequested, at_ms: int) -> None:
        """Put a request at the end of the queue."""
        if event.allocation_id in self.pending or event.allocation_id in self.allocations:
            raise IllegalTransition(f"{event.allocation_id} was requested already")
        attempt = AttemptId(event.job_id, event.vertex_id, event.subtask_index, event.attempt)
        self.pending[event.allocation_id] = SlotRequest(attempt, at_ms)
        self.next_allocation += 1
        self._want_matching()

    def apply_slot_allocated(self, event: SlotAllocated, _at: int) -> None:
        """Give a slot to a request: FREE → PENDING."""
        request = self.pending.get(event.allocation_id)
        held = self.task_managers.get(event.task_manager_id)
        if request is None or held is None or held.instance_id != event.instance_id:
            raise IllegalTransition(f"{event.allocation_id} is not pending, or {event.task_manager_id} is not that instance")
        if not 0 <= event.slot_index < len(held.slots):
            raise IllegalTransition(f"{event.task_manager_id} has no slot {event.slot_index}")
        slot = held.slots[event.slot_index]
        check_transition(SLOT_TRANSITIONS, f"{event.task_manager_id}/{event.slot_index}", slot.state, SlotState.PENDING)
        del self.pending[event.allocation_id]
        slot.state, slot.allocation_id = SlotState.PENDING, event.allocation_id
        del held.free[event.slot_index]
        self._count_free(event.task_manager_id, len(held.free) + 1, len(held.free))
        self.allocations[event.allocation_id] = Allocation(request.attempt, event.task_manager_id, event.instance_id, event.slot_index)
        self._want_matching()

    def apply_slot_offered(self, event: SlotOffered, _at: int) -> None:
        """Confirm an allocation: PENDING → ALLOCATED."""
        allocation = self.allocations.get(event.allocation_id)
        if allocation is None or allocation.orphaned:
            raise IllegalTransition(f"{event.allocation_id} holds no slot")
        slot = self.task_managers[allocation.task_manager_id].slots[allocation.slot_index]
        check_transition(SLOT_TRANSITIONS, event.allocation_id, slot.state, SlotState.ALLOCATED)
        slot.state = SlotState.ALLOCATED

    def apply_slot_released(self, event: SlotFreed | SlotOfferRejected, _at: int) -> None:
        """End an allocation: its slot, unless it went with its instance, is FREE again."""
        allocation = self.allocations.pop(event.allocation_id, None)
        if allocation is None:
            raise IllegalTransition(f"{event.allocation_id} holds no slot")
        self.follow_ups.want(FollowUpType.FAIL_ALLOCATION, event.allocation_id, wanted=False)
        held = self.task_managers.get(allocation.task_manager_id)
        if held is None or held.instance_id != allocation.instance_id:
            return
        slot = held.slots[allocation.slot_index]
        check_transition(SLOT_TRANSITIONS, event.allocation_id, slot.state, SlotState.FREE)
        slot.state, slot.allocation_id = SlotState.FREE, ""
        held.free[allocation.slot_index] = None
        self._count_free(allocation.task_manager_id, len(held.free) - 1, len(held.free))
        self._want_matching()

    def apply_slot_request_ended(self, event: SlotRequestCancelled | SlotRequestTimedOut, _at: int) -> None:
        """Take a request out of the queue."""
        if self.pending.pop(event.allocation_id, None) is None:
            raise IllegalTransition(f"{event.allocation_id} is not pending")
        self._want_matching()

    def _orphan(self, allocation_id: str, reason: str) -> None:
        self.allocations[allocation_id].orphaned = reason
        self.follow_ups.want(FollowUpType.FAIL_ALLOCATION, allocation_id, wanted=True)

    def _count_free(self, task_manager_id: str, before: int, after: int) -> None:
        if before:
            level = self.by_free_count[before]
            del level[task_manager_id]
            if not level:
                del self.by_free_count[before]
        if after:
            self.by_free_count.setdefault(after, {})[task_manager_id] = None

    def _want_matching(self) -> None:
        self.follow_ups.want(FollowUpType.MATCH_SLOTS, "", wanted=bool(self.pending) and bool(self.by_free_count))

    def validate(self) -> None:
        """Check slots, allocations and indexes against each other."""
        occupied = {}
        for task_manager_id, held in self.task_managers.items():
            for index, slot in enumerate(held.slots):
                place = f"{task_manager_id}/{index}"
                require((slot.state is SlotState.FREE) == (not slot.allocation_id), f"{place} is {slot.state} with '{slot.allocation_id}'")
                require((slot.state is SlotState.FREE) == (index in held.free), f"{place} is {slot.state}, but its index says otherwise")
                if slot.allocation_id:
                    require(slot.allocation_id not in occupied, f"{slot.allocation_id} holds two slots")
                    occupied[slot.allocation_id] = (task_manager_id, held.instance_id, index)
            counted = task_manager_id in self.by_free_count.get(len(held.free), {})
            require(counted == bool(held.free), f"{task_manager_id} is not counted by its free slots")
        require(
            sum(map(len, self.by_free_count.values())) == sum(bool(t.free) for t in self.task_managers.values()), "free counts are stale"
        )
        attempts: set[AttemptId] = set()
        for allocation_id, allocation in self.allocations.items():
            place_held = (allocation.task_manager_id, allocation.instance_id, allocation.slot_index)
            require(allocation.orphaned != "" or occupied.get(allocation_id) == place_held, f"{allocation_id} does not hold {place_held}")
            require(allocation.attempt not in attempts, f"{allocation.attempt} has two allocations")
            attempts.add(allocation.attempt)
        require(set(occupied) <= set(self.allocations), "a slot is held by an allocation that is not there")
        for request in self.pending.values():
            require(request.attempt not in attempts, f"{request.attempt} waits for a slot and has one")
