"""The workers of the resource driver: which TaskManagers it was asked for, which of them have come, and when the next may be asked for.

A worker's id is minted in the decision that asks for it, and is the id under which its TaskManager registers: so every later
leader recognises it (L5). An id that was given up is never used again. Starting and stopping processes is the driver's part, outside; how
many workers are missing and which are idle is decided in `active_resource_manager.py`.

Failures follow Flink's ActiveResourceManager: so many in a minute are nothing to wait for, after that there is a pause before the next
request, here one that doubles with each further failure until a worker registers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from eventflink.events.inputs import MAX_ID_LENGTH
from eventflink.events.log_events import (
    LogEvent,
    TaskManagerDisconnected,
    TaskManagerLost,
    TaskManagerRegistered,
    TaskManagerReleased,
    WorkerRequested,
    WorkerRequestFailed,
)
from eventflink.master.canonical import require
from eventflink.master.inputs import FailWorkerRequests, WorkerTerminated
from eventflink.master.resource_manager import MAX_REASON_LENGTH, MAX_SLOTS
from eventflink.master.settings import Context, WorkerSettings
from eventflink.model.resources import ResourceProfile, fits
from eventflink.model.statuses import IllegalTransition
from eventflink.model.texts import cut_bytes

PREFIX: Final = "worker-"
BATCH: Final = 64
"""How many workers one decision asks for, gives up or releases at most (P10a)."""

MAX_WORKERS: Final = 10_000
"""Pending and registered ones together, whatever the configuration allows."""

MAX_GIVEN_UP: Final = 10_000
RATE_INTERVAL_MS: Final = 60_000
"""The minute within which `resourcemanager.start-worker.max-failure-rate` counts failures."""

MAX_FAILURE_RATE: Final = 1_000
MAX_BACKOFF_MS: Final = 300_000
_SHOWN: Final = 3


@dataclass(slots=True)
class PendingWorker:
    """A worker that was asked for and has not registered."""

    slot_count: int
    slot_profile: ResourceProfile | None
    requested_at_ms: int


@dataclass(slots=True)
class Workers:
    """All workers; any other TaskManager was not started by the driver, and is never released."""

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
        was, has = ("was", "has") if len(names) == 1 else ("were", "have")
        return f"{said} {was} asked of the resource driver and {has} not registered yet"

    # -- decide ---------------------------------------------------------------------------------------------------

    def decide_fail_worker_requests(self, _value: FailWorkerRequests, context: Context) -> list[LogEvent]:
        """Give up a batch of workers that did not register in time, or all if there is no driver any more."""
        settings = context.settings.workers
        overdue = list(islice(self._overdue(context), BATCH))
        if settings is None:
            return [WorkerRequestFailed(worker_id, "a resource driver is no longer configured", 0) for worker_id in overdue]
        reason = f"it did not register within {settings.registration_timeout_ms} ms"
        return self._failed(dict.fromkeys(overdue, reason), settings, context.now_ms)

    def decide_worker_terminated(self, value: WorkerTerminated, context: Context) -> list[LogEvent]:
        """Give up a worker that the driver cannot start, or that ended before it registered.

        Of one that has registered the driver's report is not needed: whether its tasks have ended its guardian says, or its silence (P15).
        """
        settings = context.settings.workers
        if value.worker_id not in self.pending or settings is None:
            return []
        return self._failed({value.worker_id: cut_bytes(value.reason, MAX_REASON_LENGTH)}, settings, context.now_ms)

    def _failed(self, reasons: Mapping[str, str], settings: WorkerSettings, now_ms: int) -> list[LogEvent]:
        backoff_ms = self.backoff_ms
        recent = sum(at_ms > now_ms - RATE_INTERVAL_MS for at_ms in self.failures)
        events: list[LogEvent] = []
        for number, (worker_id, reason) in enumerate(reasons.items(), start=1):
            if not backoff_ms and recent + number >= settings.max_failure_rate:
                backoff_ms = min(settings.retry_interval_ms, MAX_BACKOFF_MS)
            elif number == 1:  # Failures of one decision lengthen the pause once.
                backoff_ms = min(2 * backoff_ms, MAX_BACKOFF_MS)
            events.append(WorkerRequestFailed(worker_id, reason, backoff_ms))
        return events

    def _overdue(self, context: Context) -> Iterator[str]:
        """Yield the workers that did not register in time, or all if there is no driver any more."""
        settings = context.settings.workers
        for worker_id, worker in self.pending.items():
            if settings is None or context.now_ms - worker.requested_at_ms >= settings.registration_timeout_ms:
                yield worker_id

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply_worker_requested(self, event: WorkerRequested, at_ms: int) -> None:
        """Wait for a worker."""
        number = number_of(event.worker_id)
        if number < self.next_worker:
            raise IllegalTransition(f"{event.worker_id} is not a new worker: the next one is {PREFIX}{self.next_worker}")
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

    def check_task_manager_released(self, event: TaskManagerReleased) -> None:
        """Raise `IllegalTransition` unless it is a worker."""
        if event.task_manager_id not in self.registered:
            raise IllegalTransition(f"{event.task_manager_id} was not started by the resource driver")

    def apply_task_manager_registered(self, event: TaskManagerRegistered) -> None:
        """Take note that a TaskManager has registered, if it is a worker; a new instance of one replaces what was lost just before."""
        if event.task_manager_id in self.pending:
            del self.pending[event.task_manager_id]
            self.failures, self.backoff_ms, self.retry_at_ms, self.last_failure = [], 0, 0, ""
        elif self.given_up.pop(event.task_manager_id, None) is None:
            return
        self.registered[event.task_manager_id] = None

    def apply_task_manager_lost(self, event: TaskManagerLost | TaskManagerDisconnected | TaskManagerReleased) -> None:
        """Give up a worker that is gone, whether it was lost or released."""
        if event.task_manager_id in self.registered:
            del self.registered[event.task_manager_id]
            self._give_up(event.task_manager_id, f"{type(event).__name__}: {event.reason}")

    apply_task_manager_disconnected = apply_task_manager_released = apply_task_manager_lost

    def _give_up(self, worker_id: str, reason: str) -> None:
        self.given_up[worker_id] = reason
        while len(self.given_up) > MAX_GIVEN_UP:
            del self.given_up[next(iter(self.given_up))]

    def validate(self) -> None:
        """Check that each worker is in one place, and the bounds."""
        places = [*self.pending, *self.registered, *self.given_up]
        require(len(places) == len(set(places)), "a worker is in two places")
        require(all(number_of(worker_id) < self.next_worker for worker_id in places), "a worker has an id that is not given out yet")
        require(len(self.pending) + len(self.registered) <= MAX_WORKERS, f"there are more than {MAX_WORKERS} workers")
        require(len(self.given_up) <= MAX_GIVEN_UP and len(self.failures) <= MAX_FAILURE_RATE, "what is remembered of workers has no bound")


def number_of(worker_id: str) -> int:
    """Return the number of a worker.

    Raises:
        IllegalTransition: it is not a worker's id.

    """
    digits = worker_id.removeprefix(PREFIX)
    if worker_id == digits or not (digits.isascii() and digits.isdecimal()) or f"{PREFIX}{int(digits)}" != worker_id:
        raise IllegalTransition(f"'{worker_id[:MAX_ID_LENGTH]}' is not a worker's id")
    return int(digits)
