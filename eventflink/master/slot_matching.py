"""One decision of MATCH_SLOTS: a batch of requests gets slots, and of those that are left over it is said why they wait.

Which named queue of jobs is next is found anew with each slot that is given. A request whose attempt can join others of its slot sharing
group, in a slot that its job holds, needs no slot: its attempt joins them, and the request is cancelled. Nothing of the state is changed
here; both what a decision costs and what it says are bounded by the batch (P10a).
"""

import heapq
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from eventflink.events.log_events import LogEvent, SlotAllocated, SlotRequestCancelled, SlotRequestDeferred, SlotShared, TaskDeployed
from eventflink.master.free_slots import Place, SlotPicker
from eventflink.master.inputs import Blamed
from eventflink.master.queue_shares import QueueShares
from eventflink.master.shared_slots import SharePicker
from eventflink.master.slot_manager import SlotManager
from eventflink.master.slot_requests import Asked, Turn, turn_of

MATCH_BATCH: Final = 256
"""How many requests one decision matches or defers at most; the rest follows in the next (P10a)."""

_Head = tuple[Turn, Iterator[str]]
"""The first request of a line, and those that follow it."""

_Match = tuple[str, Place | str]
"""A request, and the slot that it gets, or the allocation that its attempt joins."""


def decide_matches(slots: SlotManager, *, spread: bool) -> list[LogEvent]:
    """Match a batch of pending requests to free slots, and say of others why they wait."""
    events: list[LogEvent] = []
    picker = SlotPicker(slots.free_ready, slots.free_unready, slots.task_managers, spread=spread)
    shares = SharePicker(slots.sharing)
    served: dict[tuple[str, Asked], int] = {}
    count = 0
    # Requests that can share a slot with running attempts come first, those that can share a slot assigned just now come last.
    for allocation_id, given in chain(shares.serve(), _matches(slots, picker, shares), shares.serve()):
        request = slots.pending[allocation_id]
        attempt = request.attempt
        if isinstance(given, str):
            events += [SlotRequestCancelled(allocation_id), SlotShared(given, *attempt), TaskDeployed(*attempt, given)]
        else:
            events += [SlotAllocated(allocation_id, *given), TaskDeployed(*attempt, allocation_id)]
        key = (attempt.job_id, request.profile)
        served[key] = served.get(key, 0) + 1
        count += 1
        if count == MATCH_BATCH:
            return events
    # What is left over now is not left over by the bound of the batch: no free slot fits.
    events.extend(_decide_deferrals(slots, served, MATCH_BATCH - count))
    return events


def _matches(slots: SlotManager, picker: SlotPicker, shares: SharePicker) -> Iterator[_Match]:
    """Yield requests with their slots, in the order in which they are served.

    One whose attempt joins those who got a slot before it comes with the allocation of that.
    """
    heads: dict[str, list[_Head]] = {}
    for line, queue in slots.queues.queues.items():
        if picker.has_room(line.profile):
            following = queue.in_turn()
            first = next(following)
            heads.setdefault(line.queue, []).append((turn_of(first, slots.pending[first]), following))
    served = {name: _matches_of(slots, of_queue, picker, shares) for name, of_queue in heads.items()}
    if not slots.job_queues:
        for matches in served.values():  # There is one at the most.
            yield from matches
        return
    yield from _matches_by_share(slots.shares, served)


def _matches_by_share(shares: QueueShares, served: Mapping[str, Iterator[_Match]]) -> Iterator[_Match]:
    """Yield the matches of several named queues, each time of the one that is next; one that holds as much as it may is left out."""
    held = {name: shares.held_by(name) for name in served}
    limits = {name: shares.queue_of(name).limit for name in served}
    order = [shares.standing_of(name, held[name]) for name in served]
    heapq.heapify(order)
    while order:
        *_, name = order[0]
        limit = limits[name]
        match = next(served[name], None) if limit is None or held[name] < limit else None
        if match is None:
            heapq.heappop(order)
            continue
        yield match
        if not isinstance(match[1], str):
            held[name] += 1
            heapq.heapreplace(order, shares.standing_of(name, held[name]))


def _matches_of(slots: SlotManager, heads: list[_Head], picker: SlotPicker, shares: SharePicker) -> Iterator[_Match]:
    """Yield the matches of one named queue; a line of it ends when nothing fits it any more."""
    heapq.heapify(heads)  # No two turns are equal.
    while heads:
        turn, following = heads[0]
        allocation_id = turn[-1]
        if not shares.is_served(allocation_id):
            given = _give(slots, allocation_id, picker, shares)
            if given is None:
                heapq.heappop(heads)
                continue
            yield allocation_id, given
        after = next(following, None)
        if after is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (turn_of(after, slots.pending[after]), following))


def _give(slots: SlotManager, allocation_id: str, picker: SlotPicker, shares: SharePicker) -> Place | str | None:
    """Choose what a request gets: the allocation of others whom its attempt joins, or a free slot; None: nothing that is left fits."""
    request = slots.pending[allocation_id]
    try:
        joined = shares.serve_one(allocation_id, request.group_key, request.attempt) if request.slot_sharing_group else None
        if joined is not None:
            return joined
        place = picker.pick(request.profile)
        if place is not None:
            shares.add(allocation_id, request)
    except Exception as error:
        raise Blamed(request.attempt.job_id, error) from error
    return place


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
