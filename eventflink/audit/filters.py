"""Which events somebody wants to see: by type, job, TaskManager, acceptance, and place in the log.

An event belongs to a job or a TaskManager also through its allocation, so a filter has to see every accepted decision from
the beginning of the log on, in order. It remembers only allocations and attempts that are in use.
"""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from eventflink.audit import FilterInvalid
from eventflink.audit.entries import Entry
from eventflink.events.job_master_events import execution_state_after
from eventflink.events.log_events import (
    EVENTS,
    FollowUpDecided,
    LogEvent,
    RequestAccepted,
    RequestRejected,
    SlotAllocated,
    SlotFreed,
    SlotOfferRejected,
    SlotRequestCancelled,
    SlotRequested,
    SlotRequestTimedOut,
    TaskManagerReportReconciled,
)
from eventflink.model.attempts import AttemptId
from eventflink.model.statuses import TERMINAL_EXECUTION_STATES

EVENT_TYPES: Final[tuple[str, ...]] = tuple(sorted(EVENTS))


def event_type(name: str) -> str:
    """Return the name of an event type, however it is capitalised.

    Raises:
        FilterInvalid: there is no such type; the message names the nearest.

    """
    by_lower = {known.lower(): known for known in EVENT_TYPES}
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    near = [by_lower[found] for found in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)]
    hint = f"; did you mean {' or '.join(near)}?" if near else "; docs/generated/events.md lists them"
    raise FilterInvalid(f"there is no event type '{name}'{hint}")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the log: an offset, or a point in the log's time."""

    offset: int | None = None
    at_ms: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Place":
        """Return the place that a text names; a time without a zone is in UTC.

        Raises:
            FilterInvalid: it is neither an offset nor an ISO 8601 time.

        """
        if text.isascii() and text.isdigit() and len(text) <= 18:  # noqa: PLR2004 - what fits an offset
            return cls(offset=int(text))
        try:
            time = datetime.fromisoformat(text)
        except ValueError as error:
            raise FilterInvalid(f"'{text}' is neither an offset nor a time such as 2026-11-21T12:00:00") from error
        return cls(at_ms=round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000))

    def is_after(self, entry: Entry) -> bool:
        """Tell whether the place lies behind the entry."""
        if self.offset is not None:
            return entry.offset < self.offset
        return self.at_ms is not None and entry.decision.decided_at_ms < self.at_ms

    def is_before(self, entry: Entry) -> bool:
        """Tell whether the place lies before the entry."""
        if self.offset is not None:
            return entry.offset > self.offset
        return self.at_ms is not None and entry.decision.decided_at_ms > self.at_ms


@dataclass(frozen=True, slots=True)
class Range:
    """A part of the log, both ends included; no end is open."""

    first: Place = Place()
    last: Place = Place()

    def end_offset(self, end: int) -> int:
        """Return the offset to stop before, given that of the log."""
        return end if self.last.offset is None else min(end, self.last.offset + 1)

    def holds(self, entry: Entry) -> bool:
        """Tell whether the entry belongs to it."""
        return not self.first.is_after(entry) and not self.last.is_before(entry)

    def is_over(self, entry: Entry) -> bool:
        """Tell whether nothing after the entry belongs to it: the time of accepted decisions never goes back."""
        return entry.accepted and self.last.is_before(entry)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to show; ids may be given by their beginning, and nothing given is everything."""

    types: frozenset[str] = frozenset()
    job_id: str = ""
    task_manager_id: str = ""
    """Or the id of one of its instances."""
    accepted: bool | None = None


class EventFilter:
    """Chooses events of entries that come in offset order."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._allocations_of_job: set[str] = set()
        self._allocations_of_task_manager: set[str] = set()
        self._attempts_of_task_manager: set[AttemptId] = set()

    def choose(self, entry: Entry) -> list[int]:
        """Return the indexes of the events to show; every entry must be given, also those that nobody wants."""
        chosen = [index for index, event in enumerate(entry.decision.events) if self._concerns(event, remember=entry.accepted)]
        if self._wanted.accepted is not None and entry.accepted is not self._wanted.accepted:
            return []
        types = self._wanted.types
        return [index for index in chosen if not types or type(entry.decision.events[index]).__name__ in types]

    def _concerns(self, event: LogEvent, *, remember: bool) -> bool:
        # Both are asked in any case: each remembers.
        of_job = not self._wanted.job_id or self._concerns_job(event, remember=remember)
        of_task_manager = not self._wanted.task_manager_id or self._concerns_task_manager(event, remember=remember)
        return of_job and of_task_manager

    def _concerns_job(self, event: LogEvent, *, remember: bool) -> bool:
        wanted = self._wanted.job_id
        if isinstance(event, RequestAccepted | RequestRejected | FollowUpDecided):
            return _fits(event.subject, wanted)
        if isinstance(event, TaskManagerReportReconciled):
            return any(_fits(a.job_id, wanted) for a in event.unknown) or not self._allocations_of_job.isdisjoint(event.missing)
        if isinstance(event, SlotRequested) and remember and _fits(event.job_id, wanted):
            self._allocations_of_job.add(event.allocation_id)
        concerns = _fits(getattr(event, "job_id", None), wanted) or getattr(event, "allocation_id", None) in self._allocations_of_job
        if remember:
            _forget(self._allocations_of_job, event)
        return concerns

    def _concerns_task_manager(self, event: LogEvent, *, remember: bool) -> bool:
        wanted = self._wanted.task_manager_id
        concerns = wanted in (getattr(event, "task_manager_id", None), getattr(event, "instance_id", None))
        if isinstance(event, SlotAllocated) and concerns and remember:
            self._allocations_of_task_manager.add(event.allocation_id)
        concerns = concerns or getattr(event, "allocation_id", None) in self._allocations_of_task_manager
        attempt = attempt_of(event)
        if attempt is None:
            if remember:
                _forget(self._allocations_of_task_manager, event)
            return concerns
        if concerns and remember:
            self._attempts_of_task_manager.add(attempt)
        concerns = concerns or attempt in self._attempts_of_task_manager
        if remember and ends_attempt(event):
            self._attempts_of_task_manager.discard(attempt)
        return concerns


def _fits(value: str | None, wanted: str) -> bool:
    """Tell whether an id is the wanted one or begins with it."""
    return value is not None and value.startswith(wanted)


def _forget(allocations: set[str], event: LogEvent) -> None:
    if isinstance(event, SlotFreed | SlotOfferRejected | SlotRequestCancelled | SlotRequestTimedOut):
        allocations.discard(event.allocation_id)


def attempt_of(event: LogEvent) -> AttemptId | None:
    """Return the attempt that an event is about."""
    attempt = getattr(event, "attempt", None)
    vertex_id = getattr(event, "vertex_id", None)
    if attempt is None or vertex_id is None:
        return None
    return AttemptId(getattr(event, "job_id", ""), vertex_id, getattr(event, "subtask_index", 0), attempt)


def ends_attempt(event: LogEvent) -> bool:
    """Tell whether an attempt is over with this event."""
    return execution_state_after(event) in TERMINAL_EXECUTION_STATES


def entries_within(entries: Iterable[Entry], wanted: Range) -> Iterator[Entry]:
    """Yield the entries of a part of the log."""
    for entry in entries:
        if wanted.is_over(entry):
            return
        if wanted.holds(entry):
            yield entry
