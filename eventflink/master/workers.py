"""The workers of the resource driver: which TaskManagers it was asked for, which of them have come, and when the next may be asked for.

A worker's id is minted in the decision that asks for it, and is the id under which its TaskManager registers: so it is recognised by
whoever leads then (L5). An id that was given up is never used again. Who starts and stops processes is the driver's part, outside; how
many workers are missing and which are idle is decided here.

Failures follow Flink's ActiveResourceManager: so many in a minute are nothing to wait for, after that there is a pause before the next
request, here one that doubles with each further failure until a worker registers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from eventflink.events.log_events import LogEvent, TaskManagerReleased, WorkerRequested, WorkerRequestFailed
from eventflink.master.canonical import require
from eventflink.master.inputs import FailWorkerRequests, MasterInput, ReleaseTaskManagers, RequestWorkers, WorkerTerminated
from eventflink.master.resource_manager import MAX_SLOTS, ResourceManager
from eventflink.model.resources import ResourceProfile, fits
from eventflink.model.statuses import IllegalTransition

if TYPE_CHECKING:
    from eventflink.master.slot_manager import SlotManager

PREFIX: Final = "worker-"
BATCH: Final = 64
"""How many workers one decision asks for, gives up or releases at most (P10a)."""

MAX_WORKERS: Final = 10_000
"""Pending and registered ones together, whatever the configuration allows."""

MAX_GIVEN_UP: Final = 10_000
MAX_REASON_LENGTH: Final = 1_024
RATE_INTERVAL_MS: Final = 60_000
"""The minute within which `resourcemanager.start-worker.max-failure-rate` counts failures."""

MAX_FAILURE_RATE: Final = 1_000
MAX_BACKOFF_MS: Final = 300_000
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What `decide` takes from the configuration where a resource driver starts workers; durations in milliseconds."""

    slot_count: int
    slot_profile: ResourceProfile | None = None
    max_slots: int = 64
    """Of the whole cluster; nothing is asked for beyond it."""
    registration_timeout_ms: int = 300_000
    idle_timeout_ms: int = 30_000
    max_failure_rate: int = 10
    retry_interval_ms: int = 3_000


@dataclass(slots=True)
class PendingWorker:
    """A worker that was asked for and has not registered."""

    slot_count: int
    slot_profile: ResourceProfile | None
    requested_at_ms: int


@dataclass(slots=True)
class Workers:
    """All workers; a TaskManager that is none of them was started by somebody else, and is never released."""

    next_worker: int = 1
    pending: dict[str, PendingWorker] = field(default_factory=dict)
    """In the order in which they were asked for."""
    registered: dict[str, None] = field(default_factory=dict)
    given_up: dict[str, str] = field(default_factory=dict)
    """Workers that ended or will not come, with the reason; the oldest are forgotten."""
    failures: list[int] = field(default_factory=list)
    """When requests failed within the last minute."""
    backoff_ms: int = 0
    retry_at_ms: int = 0
    last_failure: str = ""
    """Of the last request that failed, until a worker registers."""

    # -- queries --------------------------------------------------------------------------------------------------

    def get_number_pending_task_manager_slots(self) -> int:
        """Return how many slots were asked of the driver and have not registered."""
        return sum(worker.slot_count for worker in self.pending.values())

    def is_awaited_for(self, asked: ResourceProfile | None) -> bool:
        """Tell whether a worker was asked for whose slots have room for a request."""
        return any(fits(worker.slot_profile, asked) for worker in self.pending.values())

    def describe_wait(self) -> str:
        """Say which workers have not registered."""
        names = list(self.pending)
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        said = f"{', '.join(names[:_SHOWN])}{more} with {self.get_number_pending_task_manager_slots()} slots"
        return f"{said} {'was' if len(names) == 1 else 'were'} asked of the resource driver and {_have(len(names))} not registered yet"

    # -- decide ---------------------------------------------------------------------------------------------------

    def due(
        self, slots: "SlotManager", settings: WorkerSettings | None, now_ms: int, wanted: Mapping[ResourceProfile | None, int]
    ) -> Iterator[MasterInput]:
        """Yield what is to be decided about workers now; `settings` is None where no driver starts any; `wanted` as in `missing`."""
        if next(self._overdue(settings, now_ms), None) is not None:
            yield FailWorkerRequests()
        if settings is None:
            return
        if now_ms >= self.retry_at_ms and self.missing(slots, settings, wanted):
            yield RequestWorkers()
        if next(self._idle(slots, settings, now_ms), None) is not None:
            yield ReleaseTaskManagers()

    def missing(self, slots: "SlotManager", settings: WorkerSettings, wanted: Mapping[ResourceProfile | None, int]) -> int:
        """Return how many workers are to be asked for: for requests that neither free nor pending slots have room for, and workers have.

        `wanted` is how many slots adaptive jobs want beyond the free ones, without having asked for them.
        """
        waiting = [(profile, count) for profile, count in slots.slots_wanted().items() if not slots.has_free_slot_for(profile)]
        waiting.extend(wanted.items())
        if not any(fits(settings.slot_profile, profile) for profile, _ in waiting):
            return 0
        awaited: dict[ResourceProfile | None, int] = {}
        for worker in self.pending.values():
            awaited[worker.slot_profile] = awaited.get(worker.slot_profile, 0) + worker.slot_count
        # Those who ask for most choose first, and take the smallest that has room.
        offers = sorted(awaited, key=_size)
        uncovered = 0
        for profile, count in sorted(waiting, key=lambda pair: _size(pair[0]), reverse=True):
            left = count
            for offer in offers:
                if left and fits(offer, profile):
                    taken = min(left, awaited[offer])
                    awaited[offer] -= taken
                    left -= taken
            uncovered += left if fits(settings.slot_profile, profile) else 0
        used = slots.get_number_registered_slots() + self.get_number_pending_task_manager_slots()
        room = min((settings.max_slots - used) // settings.slot_count, MAX_WORKERS - len(self.pending) - len(self.registered))
        return max(0, min(-(-uncovered // settings.slot_count), room))

    def decide_requests(
        self,
        slots: "SlotManager",
        settings: WorkerSettings | None,
        task_managers: Mapping[str, object],
        now_ms: int,
        wanted: Mapping[ResourceProfile | None, int],
    ) -> list[LogEvent]:
        """Ask for a batch of the workers that are missing; an id that somebody else has registered is left out."""
        if settings is None or now_ms < self.retry_at_ms:
            return []
        events: list[LogEvent] = []
        number = self.next_worker
        for _ in range(min(self.missing(slots, settings, wanted), BATCH)):
            while f"{PREFIX}{number}" in task_managers:
                number += 1
            events.append(WorkerRequested(f"{PREFIX}{number}", settings.slot_count, settings.slot_profile))
            number += 1
        return events

    def decide_overdue(self, settings: WorkerSettings | None, now_ms: int) -> list[LogEvent]:
        """Give up a batch of workers that did not register in time, or all if there is no driver any more."""
        overdue = [worker_id for worker_id, _ in zip(self._overdue(settings, now_ms), range(BATCH), strict=False)]
        if settings is None:
            return [WorkerRequestFailed(worker_id, "no resource driver is configured any more", 0) for worker_id in overdue]
        reason = f"it did not register within {settings.registration_timeout_ms} ms"
        return self._failed(dict.fromkeys(overdue, reason), settings, now_ms)

    def decide_terminated(self, value: WorkerTerminated, settings: WorkerSettings | None, now_ms: int) -> list[LogEvent]:
        """Give up a worker that the driver cannot start, or that ended before it registered.

        Of one that has registered the driver's word is not needed: whether its tasks have ended its guardian says, or its silence (P15).
        """
        if value.worker_id not in self.pending or settings is None:
            return []
        return self._failed({value.worker_id: value.reason[:MAX_REASON_LENGTH]}, settings, now_ms)

    def _failed(self, reasons: Mapping[str, str], settings: WorkerSettings, now_ms: int) -> list[LogEvent]:
        backoff_ms = self.backoff_ms
        recent = sum(at_ms > now_ms - RATE_INTERVAL_MS for at_ms in self.failures)
        events: list[LogEvent] = []
        for number, (worker_id, reason) in enumerate(reasons.items(), start=1):
            if not backoff_ms and recent + number >= settings.max_failure_rate:
                backoff_ms = min(settings.retry_interval_ms, MAX_BACKOFF_MS)
            elif number == 1:  # What fails at once is one reason to wait longer.
                backoff_ms = min(2 * backoff_ms, MAX_BACKOFF_MS)
            events.append(WorkerRequestFailed(worker_id, reason, backoff_ms))
        return events

    def decide_releases(
        self, slots: "SlotManager", resource_manager: ResourceManager, settings: WorkerSettings | None, now_ms: int
    ) -> list[LogEvent]:
        """Release a batch of workers that have been idle for long enough, and that nobody waits for."""
        if settings is None:
            return []
        events: list[LogEvent] = []
        for worker_id, _ in zip(self._idle(slots, settings, now_ms), range(BATCH), strict=False):
            instance_id = resource_manager.task_managers[worker_id].instance_id
            idle_ms = now_ms - slots.task_managers[worker_id].idle_since_ms
            events.append(TaskManagerReleased(worker_id, instance_id, f"it was idle for {idle_ms} ms"))
        return events

    def _overdue(self, settings: WorkerSettings | None, now_ms: int) -> Iterator[str]:
        for worker_id, worker in self.pending.items():
            if settings is None or now_ms - worker.requested_at_ms >= settings.registration_timeout_ms:
                yield worker_id

    def _idle(self, slots: "SlotManager", settings: WorkerSettings, now_ms: int) -> Iterator[str]:
        for worker_id in self.registered:
            held = slots.task_managers[worker_id]
            if len(held.free) < len(held.slots) or now_ms - held.idle_since_ms < settings.idle_timeout_ms:
                continue
            # A request that fits is about to be matched with it.
            if held.blocked or not any(fits(held.profile, profile) for profile in slots.queues.queues):
                yield worker_id

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply_worker_requested(self, event: WorkerRequested, at_ms: int) -> None:
        """Wait for a worker."""
        number = number_of(event.worker_id)
        if number < self.next_worker:
            raise IllegalTransition(f"{event.worker_id} is no new worker: the next one is {PREFIX}{self.next_worker}")
        if not 1 <= event.slot_count <= MAX_SLOTS:
            raise IllegalTransition(f"{event.worker_id} cannot have {event.slot_count} slots")
        if len(self.pending) + len(self.registered) >= MAX_WORKERS:
            raise IllegalTransition(f"{event.worker_id} would be one more than the {MAX_WORKERS} workers that a cluster may have")
        self.next_worker = number + 1
        self.pending[event.worker_id] = PendingWorker(event.slot_count, event.slot_profile, at_ms)

    def apply_worker_request_failed(self, event: WorkerRequestFailed, at_ms: int) -> None:
        """Wait for it no more, and for a while ask for no other."""
        if event.worker_id not in self.pending:
            raise IllegalTransition(f"{event.worker_id} is not asked for")
        if not 0 <= event.backoff_ms <= MAX_BACKOFF_MS:
            raise IllegalTransition(f"{event.worker_id}: a back-off of {event.backoff_ms} ms is not between 0 and {MAX_BACKOFF_MS}")
        del self.pending[event.worker_id]
        self._give_up(event.worker_id, event.reason)
        self.failures = [*(f for f in self.failures if f > at_ms - RATE_INTERVAL_MS), at_ms][-MAX_FAILURE_RATE:]
        self.backoff_ms, self.retry_at_ms = event.backoff_ms, at_ms + event.backoff_ms
        self.last_failure = f"{event.worker_id}: {event.reason}"

    def check_released(self, event: TaskManagerReleased) -> None:
        """Raise `IllegalTransition` unless it is a worker."""
        if event.task_manager_id not in self.registered:
            raise IllegalTransition(f"{event.task_manager_id} was not started by the resource driver")

    def apply_registered(self, task_manager_id: str) -> None:
        """Take note that a TaskManager has registered, if it is a worker; a new instance of one replaces what was lost just before."""
        if task_manager_id in self.pending:
            del self.pending[task_manager_id]
            self.failures, self.backoff_ms, self.retry_at_ms, self.last_failure = [], 0, 0, ""
        elif self.given_up.pop(task_manager_id, None) is None:
            return
        self.registered[task_manager_id] = None

    def apply_gone(self, task_manager_id: str, reason: str) -> None:
        """Take note that a TaskManager is gone; a worker that was lost is given up, like one that was released."""
        if task_manager_id in self.registered:
            del self.registered[task_manager_id]
            self._give_up(task_manager_id, reason)

    def _give_up(self, worker_id: str, reason: str) -> None:
        self.given_up[worker_id] = reason
        while len(self.given_up) > MAX_GIVEN_UP:
            del self.given_up[next(iter(self.given_up))]

    def validate(self, task_managers: Mapping[str, object]) -> None:
        """Check that each worker is in one place, and the bounds."""
        places = [*self.pending, *self.registered, *self.given_up]
        require(len(places) == len(set(places)), "a worker is in two places")
        require(all(number_of(worker_id) < self.next_worker for worker_id in places), "a worker has an id that is not given out yet")
        require(set(self.registered) <= set(task_managers), "a worker counts as registered and is no TaskManager")
        require(not set(self.pending) & set(task_managers), "a worker is registered and still waited for")
        require(len(self.pending) + len(self.registered) <= MAX_WORKERS, f"there are more than {MAX_WORKERS} workers")
        require(len(self.given_up) <= MAX_GIVEN_UP and len(self.failures) <= MAX_FAILURE_RATE, "what is remembered of workers has no bound")


def number_of(worker_id: str) -> int:
    """Return the number of a worker.

    Raises:
        IllegalTransition: it is no worker's id.

    """
    digits = worker_id.removeprefix(PREFIX)
    if worker_id == digits or not (digits.isascii() and digits.isdecimal()) or f"{PREFIX}{int(digits)}" != worker_id:
        raise IllegalTransition(f"'{worker_id[:128]}' is no worker's id")
    return int(digits)


def _size(profile: ResourceProfile | None) -> tuple[bool, tuple[object, ...]]:
    return profile is not None, profile.sort_key if profile is not None else ()


def _have(count: int) -> str:
    return "has" if count == 1 else "have"
