"""Slots that a queue of jobs which is below its quota takes back from queues that borrow. Nothing here changes anything.

It does so when the request that is next in it has waited for `slotmanager.queue-reclaim-after`, and no free slot fits. Of the queue that
borrows most for its weight the slots of the lowest priority go first, and of these the one that was given last: least work is lost. Who is
in such a slot ends and starts again, a stream after its last committed batch. That is no failure: no restart strategy is asked.
"""

from collections.abc import Iterator
from typing import Final

from eventflink.events.log_events import JobStatusChanged, LogEvent, SlotReclaimed
from eventflink.master.inputs import ReclaimSlots
from eventflink.master.job_master import STARTING_STATES
from eventflink.master.settings import Context
from eventflink.master.slot_manager import SlotManager
from eventflink.master.slot_requests import Asked, Line
from eventflink.master.slots import Allocation
from eventflink.master.state import ClusterState
from eventflink.model.allocations import age_of
from eventflink.model.resources import fits, sort_key_of
from eventflink.model.statuses import RUNNING_JOB_STATUSES, JobStatus

RECLAIM_BATCH: Final = 64
"""How many slots one decision takes back at most; the rest follows in the next (P10a)."""


def decide_reclaim_slots(state: ClusterState, _value: ReclaimSlots, context: Context) -> list[LogEvent]:
    """Take back a batch of slots."""
    slots, after_ms = state.slot_manager, context.settings.queue_reclaim_after_ms
    if after_ms is None or not slots.job_queues:
        return []
    starving = list(_starving(slots, context.now_ms - after_ms))
    if not starving:
        return []
    borrowed, events = _Borrowed(state), list[LogEvent]()
    jobs: dict[str, str] = {}
    left = RECLAIM_BATCH
    for line, count in starving:
        for _ in range(min(count, left)):
            allocation_id = borrowed.take(line.profile)
            if allocation_id is None:
                break
            left -= 1
            attempts = slots.allocations[allocation_id].attempts
            events += [SlotReclaimed(allocation_id, *attempt, queue=line.queue) for attempt in attempts]
            jobs.setdefault(attempts[0].job_id, line.queue)
    for job_id, queue in jobs.items():
        if state.dispatcher.jobs[job_id].status is JobStatus.RUNNING:
            events.append(JobStatusChanged(job_id, JobStatus.RUNNING, JobStatus.RESTARTING, f"queue '{queue}' takes slots back"))
    return events


def _starving(slots: SlotManager, since_ms: int) -> Iterator[tuple[Line, int]]:
    """Yield each line that waits in a queue below its quota, with the number of slots to take back for it."""
    shares, missing, needed = slots.shares, dict[str, int](), slots.slots_of_lines()
    for name, queue in shares.defined.items():
        wanted = min(queue.nominal_quota - shares.held_by(name), sum(count for line, count in needed.items() if line.queue == name))
        missing[name] = wanted - shares.awaited.get(name, 0)
    for line in sorted(slots.queues.queues, key=lambda each: (each.queue, -each.priority, sort_key_of(each.profile))):
        if missing.get(line.queue, 0) <= 0 or slots.has_free_slot_for(line.profile):
            continue
        requests = slots.queues.queues[line]
        if slots.pending[next(requests.in_turn())].requested_at_ms <= since_ms:
            count = min(needed[line], missing[line.queue])
            missing[line.queue] -= count
            yield line, count


class _Borrowed:
    """The slots that can be taken back, as they stand after the choices of one decision."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._slots, self._shares = state.slot_manager, state.slot_manager.shares
        held = {name: count - self._shares.leaving.get(name, 0) for name, count in self._shares.held.items()}
        self._held = {name: count for name, count in held.items() if count > self._shares.queue_of(name).nominal_quota}
        """Of the queues that borrow."""
        self._allocations: dict[str, list[str]] = {name: [] for name in self._held}
        """What these may lose, in the order in which they lose it."""
        for allocation_id, allocation in self._slots.allocations.items() if self._held else ():
            if (name := self._shares.name_of(allocation.queue)) in self._held:
                self._allocations[name].append(allocation_id)
        known = self._slots.allocations
        for those in self._allocations.values():
            those.sort(key=age_of, reverse=True)
            those.sort(key=lambda each: known[each].priority)

    def take(self, asked: Asked) -> str | None:
        """Choose a slot that has room for a request; None: there is none."""
        for name in sorted(self._held, key=lambda each: self._shares.standing_of(each, self._held[each]), reverse=True):
            those = self._allocations[name]
            found = next((each for each in those if self._is_reclaimable(self._slots.allocations[each], asked)), None)
            if found is not None:
                those.remove(found)
                self._held[name] -= 1
                if self._held[name] <= self._shares.queue_of(name).nominal_quota:
                    del self._held[name]
                return found
        return None

    def _is_reclaimable(self, allocation: Allocation, asked: Asked) -> bool:
        """Tell whether everybody in a slot may start again, and the slot can be given to a request then."""
        if allocation.orphaned or allocation.reclaimed_for:
            return False
        holder = self._slots.task_managers[allocation.task_manager_id]
        if holder.blocked or not fits(holder.profile, asked):
            return False
        for attempt in allocation.attempts:
            job, subtask = self._state.job_and_subtask(attempt)
            # Closing vertices have little time, which would go on without them.
            if job.status not in RUNNING_JOB_STATUSES or job.closing is not None or subtask.state not in STARTING_STATES:
                return False
            if subtask.key in job.restarts.due or subtask.key in job.to_cancel:
                return False
        return True
