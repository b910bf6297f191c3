"""One decision of MATCH_SLOTS: a batch of requests gets slots, and of those that are left over it is said why they wait.

It reads the SlotManager's state and changes nothing; both what it costs and what it says are bounded by the batch (P10a).
"""

import heapq
from collections.abc import Iterator
from typing import Final

from eventflink.events.log_events import LogEvent, SlotAllocated, SlotRequestDeferred, TaskDeployed
from eventflink.master.free_slots import Place, SlotPicker
from eventflink.master.slot_manager import SlotManager
from eventflink.master.slot_requests import Asked, Turn, turn_of

MATCH_BATCH: Final = 256
"""How many requests one decision matches or defers at most; the rest follows in the next (P10a)."""


def decide_matches(slots: SlotManager, *, spread: bool) -> list[LogEvent]:
    """Match a batch of pending requests to free slots, and say of others why they wait."""
    events: list[LogEvent] = []
    picker = SlotPicker(slots.offered(), slots.task_managers, spread=spread)
    served: dict[tuple[str, Asked], int] = {}
    count = 0
    for allocation_id, place in _matches(slots, picker):
        request = slots.pending[allocation_id]
        attempt = request.attempt
        events.append(SlotAllocated(allocation_id, *place))
        events.append(TaskDeployed(attempt.job_id, attempt.vertex_id, attempt.subtask_index, attempt.attempt, allocation_id))
        key = (attempt.job_id, request.profile)
        served[key] = served.get(key, 0) + 1
        count += 1
        if count == MATCH_BATCH:
            return events
    # Whoever is left over now is not left over by the bound of the batch: nothing that is free fits.
    events.extend(_decide_deferrals(slots, served, MATCH_BATCH - count))
    return events


def _matches(slots: SlotManager, picker: SlotPicker) -> Iterator[tuple[str, Place]]:
    """Yield requests with their slots, in the order in which they are served; a queue ends when nothing fits it any more."""
    heads: list[tuple[Turn, Iterator[str]]] = []
    for profile, queue in slots.queues.queues.items():
        if picker.has_room(profile):
            following = queue.in_turn()
            first = next(following)
            heads.append((turn_of(first, slots.pending[first]), following))
    heapq.heapify(heads)  # No two turns are equal.
    while heads:
        turn, following = heads[0]
        allocation_id = turn[-1]
        place = picker.pick(slots.pending[allocation_id].profile)
        if place is None:
            heapq.heappop(heads)
            continue
        yield allocation_id, place
        after = next(following, None)
        if after is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (turn_of(after, slots.pending[after]), following))


def _decide_deferrals(slots: SlotManager, served: dict[tuple[str, Asked], int], most: int) -> Iterator[LogEvent]:
    """Yield for each job whose requests are left over why they are, where that was not said yet."""
    for profile, jobs in slots.deferrals.untold.items():
        reason = slots.why_waiting(profile)
        for job_id in jobs:
            left = len(slots.queues.waiting(job_id, profile)) - served.get((job_id, profile), 0)
            if not left:
                continue
            if not most:
                return
            most -= 1
            yield SlotRequestDeferred(job_id=job_id, resource_profile=profile, reason=reason, requests=left)
