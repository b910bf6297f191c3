"""The SlotManager: every slot of the cluster, the requests that wait for one, and the allocations that hold one.

A slot goes FREE → PENDING (SlotAllocated) → ALLOCATED (SlotOffered) → FREE (SlotFreed). A request gets a slot whose profile has room
for what it asks; which named queue of jobs is next is in `queue_shares.py`, which request of it in `slot_requests.py`, which slot it gets
in `free_slots.py`, which slot of its own job it joins in `shared_slots.py`, why others wait in `deferrals.py`, and `slot_matching.py`
decides on all of it.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from eventflink.events.log_events import (
    LogEvent,
    QueuesConfigured,
    SlotAllocated,
    SlotFreed,
    SlotOffered,
    SlotOfferRejected,
    SlotRequestCancelled,
    SlotRequestDeferred,
    SlotRequestTimedOut,
    SlotRequestUnfulfillable,
    SlotShareReturned,
    TaskManagerBlocked,
    TaskManagerDisconnected,
    TaskManagerLost,
    TaskManagerRegistered,
    TaskManagerReleased,
    TaskManagerReportReconciled,
    TaskManagerUnblocked,
    WorkerRequested,
    WorkerRequestFailed,
)
from eventflink.master.blocklist import Blocklist
from eventflink.master.canonical import DERIVED, require
from eventflink.master.deferrals import Deferrals
from eventflink.master.follow_ups import FollowUps
from eventflink.master.free_slots import FreeSlots, Levels
from eventflink.master.inputs import ConfigureQueues
from eventflink.master.queue_shares import QueueShares
from eventflink.master.settings import Context
from eventflink.master.shared_slots import SharedSlots, is_open
from eventflink.master.slot_requests import Asked, Line, RequestQueues, SlotRequest
from eventflink.master.slots import Allocation, ProfileTotals, Slot, TaskManagerSlots, Totals, totals_of
from eventflink.master.workers import Workers
from eventflink.model.attempts import AttemptId
from eventflink.model.job_queues import DEFAULT_QUEUE, MAX_QUEUES, JobQueue
from eventflink.model.resources import ResourceProfile, fits, sort_key_of
from eventflink.model.statuses import (
    SLOT_TRANSITIONS,
    FollowUpType,
    IllegalTransition,
    SlotRequestDeferralReason,
    SlotState,
    check_transition,
)

_MAX_PROFILES_TOLD: Final = 3
"""So many profiles of slots are named where none has room for a request."""


@dataclass(slots=True)
class SlotManager:
    """Slots, pending requests and allocations."""

    follow_ups: FollowUps = field(metadata=DERIVED)
    workers: Workers = field(metadata=DERIVED)
    """Which slots were asked of the resource driver."""
    blocklist: Blocklist = field(metadata=DERIVED)
    task_managers: dict[str, TaskManagerSlots] = field(default_factory=dict)
    pending: OrderedDict[str, SlotRequest] = field(default_factory=OrderedDict)
    """In the order in which they came."""
    allocations: dict[str, Allocation] = field(default_factory=dict)
    next_allocation: int = 1
    free_ready: FreeSlots = field(default_factory=FreeSlots)
    """What is given away of TaskManagers that are ready."""
    free_unready: FreeSlots = field(default_factory=FreeSlots)
    """The same of those that are not: it is taken last."""
    deferrals: Deferrals = field(default_factory=Deferrals)
    job_queues: dict[str, JobQueue] = field(default_factory=dict)
    """The named queues that are configured; none: all jobs are in one, without a limit."""
    served_rounds: dict[tuple[str, int], int] = field(default_factory=dict)
    """By queue and priority, the highest round of a request that got a slot: rounds of others say nothing about its turns."""
    queues: RequestQueues = field(default_factory=RequestQueues, metadata=DERIVED)
    totals: Totals = field(default_factory=dict, metadata=DERIVED)
    sharing: SharedSlots = field(default_factory=SharedSlots, metadata=DERIVED)
    shares: QueueShares = field(default_factory=QueueShares, metadata=DERIVED)

    # -- decide ---------------------------------------------------------------------------------------------------

    def decide_configure_queues(self, _value: ConfigureQueues, context: Context) -> list[LogEvent]:
        """Go by the queues of the leader's configuration."""
        configured = context.settings.queues
        return [QueuesConfigured(configured)] if configured != tuple(self.job_queues.values()) else []

    def allocation_ids(self) -> Iterator[str]:
        """Yield fresh allocation ids: they count, so they need no randomness."""
        number = self.next_allocation
        while True:
            yield f"allocation-{number}"
            number += 1

    def offered(self) -> Iterator[tuple[ResourceProfile | None, Levels]]:
        """Yield the TaskManagers with free slots that are given away, by what the slots have."""
        yield from self.free_ready.offered()
        yield from self.free_unready.offered()

    def overdue_requests(self, now_ms: int, timeout_ms: int) -> list[tuple[str, SlotRequest]]:
        """Return, of each job and profile, the oldest pending request, if it has waited for so long; the oldest of all first."""
        oldest = next(iter(self.pending.values()), None)
        if oldest is None or now_ms - oldest.requested_at_ms < timeout_ms:
            return []
        first_of_each = (next(iter(known.requests)) for of_job in self.queues.by_job.values() for known in of_job.values())
        found = [(each, self.pending[each]) for each in first_of_each if now_ms - self.pending[each].requested_at_ms >= timeout_ms]
        return sorted(found, key=lambda each: (each[1].requested_at_ms, len(each[0]), each[0]))

    def held_profiles(self) -> dict[str, set[ResourceProfile | None]]:
        """Return what the slots have that each job holds, and that are given away when they are free again."""
        held: dict[str, set[ResourceProfile | None]] = {}
        for allocation in self.allocations.values():
            if not allocation.orphaned and not (holder := self.task_managers[allocation.task_manager_id]).blocked:
                held.setdefault(allocation.attempt.job_id, set()).add(holder.profile)
        return held

    def slots_wanted(self) -> dict[Asked, int]:
        """Return how many slots would serve all requests that wait, by what they ask for; of a named queue no more than it may hold."""
        return self._within_limits(self.slots_of_lines())

    def slots_of_lines(self) -> dict[Line, int]:
        """Return how many slots would serve the requests of each line.

        Attempts of a slot sharing group go into one slot, one of each vertex: it takes as many as its widest vertex waits for.
        """
        wanted = {line: queue.count for line, queue in self.queues.queues.items()}
        for group in self.sharing.groups.values():
            widest: dict[Line, int] = {}
            for requests in group.waiting.values():
                line = self.queues.line_of(self.pending[next(iter(requests))])
                wanted[line] -= len(requests)
                widest[line] = max(widest.get(line, 0), len(requests))
            for line, count in widest.items():
                wanted[line] += count
        return wanted

    def _within_limits(self, wanted: Mapping[Line, int]) -> dict[Asked, int]:
        """Return by profile how many slots are wanted that the queues may hold: those of the highest priority first, then the smallest."""
        total: dict[Asked, int] = {}
        rooms: dict[str, int | None] = {}
        for line in sorted(wanted, key=lambda each: (-each.priority, sort_key_of(each.profile))):
            room = rooms.setdefault(line.queue, self.shares.room_of(line.queue))
            count = wanted[line] if room is None else min(wanted[line], room)
            rooms[line.queue] = None if room is None else room - count
            total[line.profile] = total.get(line.profile, 0) + count
        return total

    def unfulfillable_requests(self, may_come: Callable[[Asked], bool]) -> Iterator[str]:
        """Yield of each job one request, the oldest of its profile, that no registered slot can ever satisfy.

        `may_come` tells whether a slot for a profile may still come: because a resource driver can start what has one.
        While no TaskManager is registered nothing is known of what the cluster has, and no request is unfulfillable.
        """
        found: set[str] = set()
        for profile, told in self.deferrals.told.items():
            if told.reason is not SlotRequestDeferralReason.NO_FITTING_SLOT or may_come(profile):
                continue
            for job_id in told.jobs:
                if job_id not in found:
                    found.add(job_id)
                    yield next(iter(self.queues.waiting(job_id, profile)))

    def describe_wait(self, profile: Asked, queue: str) -> str:
        """Return `why_request_waits` in words."""
        reason = self.describe_reason(profile, queue)
        failure = self.workers.last_failure
        return f"{reason}; the last request for a worker failed: {failure}" if failure else reason

    def describe_reason(self, profile: Asked, queue: str) -> str:
        """Return the same without what became of the last request for a worker."""
        registered = self.get_number_registered_slots()
        match self.why_request_waits(profile, queue):
            case SlotRequestDeferralReason.QUEUE_SHARE:
                return self.shares.describe(self.shares.name_of(queue), {line.queue for line in self.queues.queues})
            case SlotRequestDeferralReason.WORKER_REQUESTED:
                return self.workers.describe_wait()
            case SlotRequestDeferralReason.NO_TASK_MANAGER:
                return "no TaskManager is registered"
            case SlotRequestDeferralReason.NO_FITTING_SLOT:
                none_has = f"none of the {registered} registered slots has" if registered > 1 else "the only registered slot has no"
                return f"{none_has} room for {profile} ({self._describe_slots()})"
            case SlotRequestDeferralReason.TASK_MANAGERS_BLOCKED:
                return "no slot is free on a TaskManager that is not blocked"
            case SlotRequestDeferralReason.NO_FREE_SLOT:
                return self._describe_taken(profile, registered)

    def _describe_taken(self, profile: Asked, registered: int) -> str:
        fitting = sum(totals.slots for offered, totals in self.totals.items() if fits(offered, profile))
        if fitting == 1:
            return f"the only {'registered slot' if registered == 1 else f'slot that has room for {profile}'} is taken"
        return f"all {fitting} {'registered slots' if fitting == registered else f'slots that have room for {profile}'} are taken"

    def _describe_slots(self) -> str:
        """Return how many slots have what, the largest first; those of the smallest profiles, where there are many, are only counted."""
        profiles = sorted((offered for offered in self.totals if offered is not None), key=lambda offered: offered.sort_key, reverse=True)
        told = [f"{self.totals[offered].slots} with {offered}" for offered in profiles[:_MAX_PROFILES_TOLD]]
        if others := sum(self.totals[offered].slots for offered in profiles[_MAX_PROFILES_TOLD:]):
            told.append(f"{others} with other profiles")
        if None in self.totals:
            told.append(f"{self.totals[None].slots} whose TaskManager does not say what its slots have")
        return "; ".join(told)

    def why_request_waits(self, profile: Asked, queue: str) -> SlotRequestDeferralReason:
        """Return why a request of a named queue waits now: its queue holds as many slots as it may, or else what all wait for."""
        is_full = self.shares.is_full(self.shares.name_of(queue))
        return SlotRequestDeferralReason.QUEUE_SHARE if is_full else self.why_waiting(profile)

    def why_waiting(self, profile: Asked) -> SlotRequestDeferralReason:
        """Return why a request for this profile waits when no free slot is given to it, whatever its queue.

        A queue is full and not full again with each slot that is taken or freed: jobs are not told of each time.
        """
        reasons = SlotRequestDeferralReason
        if self.workers.is_awaited_for(profile):
            return reasons.WORKER_REQUESTED
        if not self.task_managers:
            return reasons.NO_TASK_MANAGER
        fitting = [totals for offered, totals in self.totals.items() if fits(offered, profile)]
        if not fitting:
            return reasons.NO_FITTING_SLOT
        if any(totals.blocked_free for totals in fitting) or all(totals.blocked == totals.task_managers for totals in fitting):
            return reasons.TASK_MANAGERS_BLOCKED
        return reasons.QUEUE_SHARE if self.job_queues else reasons.NO_FREE_SLOT

    def has_free_slot_for(self, profile: Asked) -> bool:
        """Tell whether a slot that fits is free now, and not blocked."""
        return any(fits(offered, profile) for offered, _ in self.offered())

    def available_for(self, profile: Asked, queue: str) -> int:
        """Return how many free slots that fit a job of a named queue can have once all requests that wait for such slots are served."""
        unclaimed, room = self.unclaimed_for(profile), self.room_beyond_requests(queue)
        return unclaimed if room is None else min(unclaimed, room)

    def unclaimed_for(self, profile: Asked) -> int:
        """Return the same for a job of a queue without a limit."""
        free = sum(
            count * len(members) for offered, levels in self.offered() if fits(offered, profile) for count, members in levels.items()
        )
        if not free or not self.pending:
            return free
        claimed: dict[str, int] = {}
        for line, queue in self.queues.queues.items():
            if any(fits(offered, profile) and fits(offered, line.profile) for offered, _ in self.offered()):
                claimed[line.queue] = claimed.get(line.queue, 0) + queue.count
        rooms = {name: self.shares.room_of(name) for name in claimed}
        return max(0, free - sum(count if (room := rooms[name]) is None else min(count, room) for name, count in claimed.items()))

    def room_beyond_requests(self, queue: str) -> int | None:
        """Return how many slots a named queue may hold beyond those that it holds and waits for; None: all that there are."""
        name = self.shares.name_of(queue)
        room = self.shares.room_of(name)
        return None if room is None else max(0, room - self.queues.count_of(name))

    def profiles_served(self) -> set[Asked]:
        """Return for which profiles requests wait whose queues may hold more slots."""
        return {line.profile for line in self.queues.queues if not self.shares.is_full(line.queue)}

    def competes(self, profile: Asked, other: Asked) -> bool:
        """Tell whether there is a slot, free or not, that fits both."""
        return any(fits(offered, profile) and fits(offered, other) for offered in self.totals)

    def share_of(self, profile: Asked, queue: str) -> int:
        """Return the share of the slots that fit which a job of a named queue gets that comes now, of at least one: jobs take turns.

        0 where none is registered, or where no job waits for such slots and no queues are configured, in which jobs could wait.
        """
        competing = {line.profile for line in self.queues.queues if self.competes(profile, line.profile)}
        jobs = sum(not competing.isdisjoint(of_job) for of_job in self.queues.by_job.values())
        fitting = sum(totals.slots for offered, totals in self.totals.items() if fits(offered, profile))
        if not fitting or not (jobs or self.job_queues):
            return 0
        room = self.room_beyond_requests(queue)
        share = fitting // (1 + jobs)
        return max(1, share if room is None else min(share, room))

    def held_by(self, allocation_id: str, instance_id: str) -> Allocation | None:
        """Return the allocation if this instance holds it."""
        allocation = self.allocations.get(allocation_id)
        return allocation if allocation is not None and allocation.instance_id == instance_id and not allocation.orphaned else None

    def is_known(self, allocation_id: str) -> bool:
        """Tell whether an allocation is requested, or holds a slot."""
        return allocation_id in self.pending or allocation_id in self.allocations

    def place_of(self, allocation_id: str, attempt: tuple[str, str, int, int]) -> tuple[str, str]:
        """Return (TaskManager, instance) of the slot that an attempt has; a plain tuple will do, which is made faster than an `AttemptId`.

        Raises:
            IllegalTransition: it has none by this allocation.

        """
        allocation = self.allocations.get(allocation_id)
        if allocation is None or (attempt != allocation.attempt and attempt not in allocation.others):
            raise IllegalTransition(f"{allocation_id} holds no slot for {attempt}")
        return allocation.task_manager_id, allocation.instance_id

    def spark_address_of(self, allocation_id: str, engine: str) -> str:
        """Return where an instance that has this allocation has its Spark of that name; empty: on its host, or it has none."""
        allocation = self.allocations[allocation_id]
        held = self.task_managers.get(allocation.task_manager_id)
        return held.spark_address(engine) if held is not None and held.instance_id == allocation.instance_id else ""

    def state_of(self, allocation: Allocation) -> SlotState:
        """Return where the slot of an allocation stands."""
        return self.task_managers[allocation.task_manager_id].slots[allocation.slot_index].state

    def decide_return(self, attempt: AttemptId, allocation_id: str) -> SlotFreed | SlotShareReturned:
        """Return what becomes of the slot of an attempt that ends: it is free with the last one."""
        shared = self.allocations[allocation_id].others
        return SlotShareReturned(allocation_id, *attempt) if shared else SlotFreed(allocation_id)

    # -- queries --------------------------------------------------------------------------------------------------

    def get_number_registered_slots(self) -> int:
        """Return how many slots there are."""
        return sum(totals.slots for totals in self.totals.values())

    def get_number_free_slots(self) -> int:
        """Return how many of them are FREE, also those that are blocked."""
        return sum(totals.free for totals in self.totals.values())

    def get_number_free_slots_of(self, task_manager_id: str) -> int:
        """Return how many slots of a TaskManager are FREE; none if it is not registered."""
        held = self.task_managers.get(task_manager_id)
        return len(held.free) if held is not None else 0

    def get_number_pending_slot_requests(self) -> int:
        """Return how many requests wait."""
        return len(self.pending)

    def get_number_pending_slot_requests_of(self, job_id: str, profile: Asked) -> int:
        """Return how many requests of a job for a profile wait."""
        return len(self.queues.waiting(job_id, profile))

    def get_number_pending_task_manager_slots(self) -> int:
        """Return how many slots were asked of the resource driver and have not registered."""
        return self.workers.get_number_pending_task_manager_slots()

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply_task_manager_registered(self, event: TaskManagerRegistered, at_ms: int) -> None:
        """Take the slots of a new instance; the older one was lost before. Registered again: nothing changes."""
        if event.task_manager_id in self.task_managers:
            return
        indexes = range(event.slot_count)
        held = TaskManagerSlots(
            event.instance_id,
            [Slot() for _ in indexes],
            dict.fromkeys(indexes),
            profile=event.slot_profile,
            blocked=event.task_manager_id in self.blocklist.task_managers,
            idle_since_ms=at_ms,
            spark_addresses=event.spark_addresses,
        )
        self.task_managers[event.task_manager_id] = held
        self.totals.setdefault(held.profile, ProfileTotals()).count(held)
        self._count_free(event.task_manager_id, held, 0, event.slot_count)
        self._reconsider()

    def check_task_manager_released(self, event: TaskManagerReleased) -> None:
        """Raise `IllegalTransition` unless all slots of the TaskManager are free."""
        held = self.task_managers.get(event.task_manager_id)
        if held is not None and len(held.free) < len(held.slots):
            taken = len(held.slots) - len(held.free)
            raise IllegalTransition(f"{event.task_manager_id} is not idle: {taken} of its {len(held.slots)} slots are taken")

    def apply_worker_requested(self, _event: WorkerRequested | WorkerRequestFailed) -> None:
        """Look whether somebody waits for another reason now that other workers are asked for."""
        self._reconsider()

    apply_worker_request_failed = apply_worker_requested

    def apply_task_manager_lost(self, event: TaskManagerLost | TaskManagerDisconnected | TaskManagerReleased) -> None:
        """Drop the slots of an instance; its allocations wait for their failure to be decided, one by one."""
        held = self.task_managers[event.task_manager_id]
        self._count_free(event.task_manager_id, held, len(held.free), 0)
        for slot in held.slots:
            if slot.allocation_id:
                self.shares.count(self.allocations[slot.allocation_id], -1)
                self._orphan(slot.allocation_id, f"{type(event).__name__}: {event.reason}")
        del self.task_managers[event.task_manager_id]
        totals = self.totals[held.profile]
        totals.count(held, -1)
        if not totals.task_managers:
            del self.totals[held.profile]
        self._reconsider()

    apply_task_manager_disconnected = apply_task_manager_released = apply_task_manager_lost

    def apply_task_manager_blocked(self, event: TaskManagerBlocked | TaskManagerUnblocked) -> None:
        """Take the free slots of a TaskManager out of what is given away, or put them back; it need not be registered."""
        held = self.task_managers.get(event.task_manager_id)
        blocked = isinstance(event, TaskManagerBlocked)
        if held is None or held.blocked == blocked:
            return
        totals = self.totals[held.profile]
        self._count_free(event.task_manager_id, held, len(held.free), 0)
        totals.count(held, -1)
        self._open_slots(held, opened=False)
        held.blocked = blocked
        self._open_slots(held, opened=True)
        totals.count(held)
        self._count_free(event.task_manager_id, held, 0, len(held.free))
        self._reconsider()

    apply_task_manager_unblocked = apply_task_manager_blocked

    def apply_task_manager_report_reconciled(self, event: TaskManagerReportReconciled) -> None:
        """Note whether the TaskManager is ready, and mark the allocations whose attempts it does not have: they fail."""
        held = self.task_managers.get(event.task_manager_id)
        if held is None or held.instance_id != event.instance_id:
            raise IllegalTransition(f"{event.task_manager_id} has no slots as the instance {event.instance_id}")
        for allocation_id in event.missing:
            if self.held_by(allocation_id, event.instance_id) is None:
                raise IllegalTransition(f"{allocation_id} is not held by the instance {event.instance_id} of {event.task_manager_id}")
        held.slot_report_number = max(held.slot_report_number, event.number)
        if event.ready != held.ready:
            self._count_free(event.task_manager_id, held, len(held.free), 0)
            held.ready = event.ready
            self._count_free(event.task_manager_id, held, 0, len(held.free))
        for allocation_id in event.missing:
            self._orphan(allocation_id, "AttemptMissing: its TaskExecutor does not report it")

    def apply_queues_configured(self, event: QueuesConfigured) -> None:
        """Go by other queues: what waits and what is held counts in them from here on, and nobody loses a slot."""
        defined = {queue.name: queue for queue in event.queues}
        if not len(event.queues) == len(defined) <= MAX_QUEUES or event.queues == tuple(self.job_queues.values()):
            raise IllegalTransition(f"{event} does not fit: these queues are configured already, or there are too many, or two of a name")
        self.job_queues = defined
        self.queues = RequestQueues.of(self.pending, defined)
        self.shares = QueueShares.of(defined, self.allocations, self.task_managers)
        known = {DEFAULT_QUEUE, *defined}
        self.served_rounds = {key: number for key, number in self.served_rounds.items() if key[0] in known}
        self._reconsider()

    def request(self, allocation_id: str, request: SlotRequest) -> None:
        """Put the request of an attempt into its queue, in the round that it has there.

        Raises:
            IllegalTransition: the allocation was requested already; nothing was changed.

        """
        if self.is_known(allocation_id):
            raise IllegalTransition(f"{allocation_id} was requested already")
        of_job = self.queues.of_job(request)
        served_round = self.served_rounds.get((of_job.line.queue, of_job.line.priority), 0)
        request.round_number = of_job.next_round(served_round, self.pending)
        self.pending[allocation_id] = request
        of_job.add(allocation_id, request)
        self.sharing.add_request(allocation_id, request)
        self.next_allocation += 1
        self.deferrals.add(request.attempt.job_id, request.profile)
        self._want_matching()

    def apply_slot_allocated(self, event: SlotAllocated) -> None:
        """Give a slot to a request: FREE → PENDING."""
        request = self.pending.get(event.allocation_id)
        held = self.task_managers.get(event.task_manager_id)
        if request is None or held is None or held.instance_id != event.instance_id:
            raise IllegalTransition(f"{event.allocation_id} is not pending, or {event.task_manager_id} is not that instance")
        if not 0 <= event.slot_index < len(held.slots):
            raise IllegalTransition(f"{event.task_manager_id} has no slot {event.slot_index}")
        slot = held.slots[event.slot_index]
        check_transition(SLOT_TRANSITIONS, f"{event.task_manager_id}/{event.slot_index}", slot.state, SlotState.PENDING)
        if held.blocked or not fits(held.profile, request.profile):
            what = "it is blocked" if held.blocked else f"it has {held.profile}, and {request.profile} is asked for"
            raise IllegalTransition(
                f"{event.allocation_id} cannot have {event.task_manager_id}/{event.slot_index}: {event.task_manager_id} {what}"
            )
        queue = self.shares.name_of(request.queue) if self.job_queues else DEFAULT_QUEUE
        if self.job_queues and self.shares.is_full(queue):
            raise IllegalTransition(f"{event.allocation_id} cannot have a slot: queue '{queue}' holds as many as it may")
        self._end_request(event.allocation_id, request)
        served = queue, request.priority
        self.served_rounds[served] = max(self.served_rounds.get(served, 0), request.round_number)
        slot.state, slot.allocation_id = SlotState.PENDING, event.allocation_id
        del held.free[event.slot_index]
        self.totals[held.profile].free -= 1
        self._count_free(event.task_manager_id, held, len(held.free) + 1, len(held.free))
        place = (event.task_manager_id, event.instance_id, event.slot_index)
        allocation = Allocation(request.attempt, *place, "", request.slot_sharing_group, {}, request.queue, request.priority)
        self.shares.count(allocation, 1)
        self.allocations[event.allocation_id] = allocation
        if is_open(allocation, self.task_managers):
            self.sharing.add_slot(event.allocation_id, allocation)
        self._want_matching()

    def share(self, allocation_id: str, attempt: AttemptId, group: str) -> None:
        """Let an attempt of `group` join those in a slot that its job holds.

        Raises:
            IllegalTransition: it may not join them; nothing was changed.

        """
        allocation = self.allocations.get(allocation_id)
        if allocation is None or not is_open(allocation, self.task_managers) or allocation.group_key != (attempt.job_id, group):
            raise IllegalTransition(f"{allocation_id} holds no slot that {attempt} of the group '{group}' could join")
        if any(other.vertex_id == attempt.vertex_id for other in allocation.attempts):
            raise IllegalTransition(f"{allocation_id} holds an attempt of the vertex of {attempt} already")
        allocation.others[attempt] = None
        self.sharing.join(allocation_id, allocation, attempt)
        self._want_matching()

    def apply_slot_share_returned(self, event: SlotShareReturned) -> None:
        """Let an attempt leave a slot in which others keep running."""
        allocation = self.allocations.get(event.allocation_id)
        attempt = event.attempt_id
        if allocation is None or not allocation.others or attempt not in allocation.attempts:
            raise IllegalTransition(f"{event.allocation_id} holds no slot that {attempt} shares with others")
        if attempt in allocation.others:
            del allocation.others[attempt]
        else:
            allocation.attempt = next(iter(allocation.others))
            del allocation.others[allocation.attempt]
        if allocation.orphaned:
            self.follow_ups.want(FollowUpType.FAIL_ALLOCATION, event.allocation_id, wanted=True)
        elif is_open(allocation, self.task_managers):
            self.sharing.leave(event.allocation_id, allocation, attempt)
        self._want_matching()

    def reclaim(self, allocation_id: str, attempt: AttemptId, queue: str) -> None:
        """Note which queue takes back the slot of an attempt; each attempt in it is told.

        Raises:
            IllegalTransition: the attempt has no such slot, or another queue takes it back; nothing was changed.

        """
        allocation = self.allocations.get(allocation_id)
        if allocation is None or allocation.orphaned or attempt not in allocation.attempts:
            raise IllegalTransition(f"{allocation_id} holds no slot for {attempt} that could be taken back")
        if queue not in self.job_queues or allocation.reclaimed_for not in ("", queue):
            raise IllegalTransition(f"queue '{queue}' cannot take {allocation_id} back: it is not there, or another one does")
        if not allocation.reclaimed_for:
            if is_open(allocation, self.task_managers):
                self.sharing.remove_slot(allocation_id, allocation)
            self.shares.count(allocation, -1)
            allocation.reclaimed_for = queue
            self.shares.count(allocation, 1)

    def apply_slot_offered(self, event: SlotOffered) -> None:
        """Confirm an allocation: PENDING → ALLOCATED."""
        allocation = self.allocations.get(event.allocation_id)
        if allocation is None or allocation.orphaned:
            raise IllegalTransition(f"{event.allocation_id} holds no slot")
        slot = self.task_managers[allocation.task_manager_id].slots[allocation.slot_index]
        check_transition(SLOT_TRANSITIONS, event.allocation_id, slot.state, SlotState.ALLOCATED)
        slot.state = SlotState.ALLOCATED

    def apply_slot_freed(self, event: SlotFreed | SlotOfferRejected, at_ms: int) -> None:
        """End an allocation: its slot, unless it went with its instance, is FREE again."""
        allocation = self.allocations.get(event.allocation_id)
        if allocation is None or allocation.others:
            what = "holds no slot" if allocation is None else f"holds a slot for {len(allocation.attempts)} attempts"
            raise IllegalTransition(f"{event.allocation_id} {what}")
        del self.allocations[event.allocation_id]
        if is_open(allocation, self.task_managers):
            self.sharing.remove_slot(event.allocation_id, allocation)
        self.follow_ups.want(FollowUpType.FAIL_ALLOCATION, event.allocation_id, wanted=False)
        held = self.task_managers.get(allocation.task_manager_id)
        if held is None or held.instance_id != allocation.instance_id:
            return
        slot = held.slots[allocation.slot_index]
        check_transition(SLOT_TRANSITIONS, event.allocation_id, slot.state, SlotState.FREE)
        slot.state, slot.allocation_id = SlotState.FREE, ""
        held.free[allocation.slot_index] = None
        held.idle_since_ms = at_ms
        self.shares.count(allocation, -1)
        self.totals[held.profile].free += 1
        if held.blocked:
            self.totals[held.profile].blocked_free += 1
            self._reconsider()
            return
        self._count_free(allocation.task_manager_id, held, len(held.free) - 1, len(held.free))
        self._want_matching()

    apply_slot_offer_rejected = apply_slot_freed

    def apply_slot_request_cancelled(self, event: SlotRequestCancelled | SlotRequestTimedOut | SlotRequestUnfulfillable) -> None:
        """Take a request out of the queue."""
        request = self.pending.get(event.allocation_id)
        if request is None:
            raise IllegalTransition(f"{event.allocation_id} is not pending")
        self._end_request(event.allocation_id, request)
        self._want_matching()

    apply_slot_request_timed_out = apply_slot_request_unfulfillable = apply_slot_request_cancelled

    def apply_slot_request_deferred(self, event: SlotRequestDeferred) -> None:
        """Take note that it was said why requests of a job wait."""
        if event.reason is not self.why_waiting(event.resource_profile):
            raise IllegalTransition(f"{event} does not fit: the reason is {self.why_waiting(event.resource_profile)}")
        self.deferrals.tell(event.job_id, event.resource_profile, event.reason)
        if self.deferrals.untold:
            self._want_matching()

    def _end_request(self, allocation_id: str, request: SlotRequest) -> None:
        del self.pending[allocation_id]
        self.sharing.remove_request(allocation_id, request)
        if self.queues.remove(allocation_id, request):
            self.deferrals.forget(request.attempt.job_id, request.profile)

    def _orphan(self, allocation_id: str, reason: str) -> None:
        allocation = self.allocations[allocation_id]
        if is_open(allocation, self.task_managers):
            self.sharing.remove_slot(allocation_id, allocation)
        allocation.orphaned = reason
        self.follow_ups.want(FollowUpType.FAIL_ALLOCATION, allocation_id, wanted=True)

    def _open_slots(self, held: TaskManagerSlots, *, opened: bool) -> None:
        """Put the slots that attempts may join into the index of those, or take them out."""
        for slot in held.slots:
            allocation = self.allocations.get(slot.allocation_id)
            if allocation is not None and is_open(allocation, self.task_managers):
                (self.sharing.add_slot if opened else self.sharing.remove_slot)(slot.allocation_id, allocation)

    def _count_free(self, task_manager_id: str, held: TaskManagerSlots, before: int, after: int) -> None:
        if not held.blocked:
            (self.free_ready if held.ready else self.free_unready).count(held.profile, task_manager_id, before, after)

    def _reconsider(self) -> None:
        """Look after a change of what there is whether somebody waits for another reason now."""
        self.deferrals.reconsider(self.why_waiting)
        self._want_matching()

    def _want_matching(self) -> None:
        has_free = bool(self.free_ready) or bool(self.free_unready)
        wanted = (bool(self.pending) and has_free) or bool(self.deferrals.untold) or bool(self.sharing.servable)
        self.follow_ups.want(FollowUpType.MATCH_SLOTS, "", wanted=wanted)

    def validate(self) -> None:
        """Check slots, allocations and indexes against each other, and what is blocked against the blocklist."""
        occupied = {}
        for task_manager_id, held in self.task_managers.items():
            for index, slot in enumerate(held.slots):
                place = f"{task_manager_id}/{index}"
                require((slot.state is SlotState.FREE) == (not slot.allocation_id), f"{place} is {slot.state} with '{slot.allocation_id}'")
                require((slot.state is SlotState.FREE) == (index in held.free), f"{place} is {slot.state}, but its index says otherwise")
                if slot.allocation_id:
                    require(slot.allocation_id not in occupied, f"{slot.allocation_id} holds two slots")
                    occupied[slot.allocation_id] = (task_manager_id, held.instance_id, index)
            free = self.free_ready if held.ready else self.free_unready
            levels = free.by_free_count if held.profile is None else free.by_profile.get(held.profile, {})
            counted = task_manager_id in levels.get(len(held.free), {})
            require(counted == (bool(held.free) and not held.blocked), f"{task_manager_id} is not counted by its free slots")
        counted_free = sum(len(level) for _, levels in self.offered() for level in levels.values())
        require(counted_free == sum(bool(t.free) and not t.blocked for t in self.task_managers.values()), "free counts are stale")
        require(all(levels for _, levels in self.offered()), "a profile is kept of which nothing is free")
        require(totals_of(self.task_managers) == self.totals, "the totals by profile are stale")
        self.queues.validate(self.pending)
        self.shares.validate(self.job_queues, self.allocations, self.task_managers)
        require(len(self.job_queues) <= MAX_QUEUES and self.queues.defined == self.job_queues, "the queues are stale, or too many")
        self.deferrals.validate(self.queues, self.why_waiting)
        attempts: set[AttemptId] = set()
        for allocation_id, allocation in self.allocations.items():
            place_held = (allocation.task_manager_id, allocation.instance_id, allocation.slot_index)
            require(allocation.orphaned != "" or occupied.get(allocation_id) == place_held, f"{allocation_id} does not hold {place_held}")
            for attempt in allocation.attempts:
                require(attempt not in attempts, f"{attempt} has two allocations")
                attempts.add(attempt)
            _validate_sharing(allocation_id, allocation)
        require(set(occupied) <= set(self.allocations), "a slot is held by an allocation that is not there")
        for request in self.pending.values():
            require(request.attempt not in attempts, f"{request.attempt} waits for a slot and has one")
        self.sharing.validate(self.pending, self.allocations, self.task_managers)
        for task_manager_id, held in self.task_managers.items():
            blocked = task_manager_id in self.blocklist.task_managers
            require(held.blocked == blocked, f"{task_manager_id} is blocked: {held.blocked}; on the blocklist: {blocked}")


def _validate_sharing(allocation_id: str, allocation: Allocation) -> None:
    """Check that those who are in one slot are of one group of one job, and of different vertices."""
    together = allocation.attempts
    require(len(together) == 1 or bool(allocation.slot_sharing_group), f"{allocation_id} is of no group, and {len(together)} share it")
    require(len({a.vertex_id for a in together}) == len(together), f"{allocation_id} holds two attempts of one vertex")
    require(len({a.job_id for a in together}) == 1, f"{allocation_id} holds attempts of two jobs")
