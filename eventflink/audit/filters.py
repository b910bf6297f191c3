"""Which events somebody wants to see: by type, job, TaskManager, acceptance, and place in the log.

Whose an event is says `attribution.py`, so a filter has to see every decision from the beginning of the log on, in order.
"""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from eventflink.audit import FilterInvalid
from eventflink.audit.attribution import Attribution
from eventflink.audit.entries import Entry
from eventflink.events.log_events import EVENTS
from eventflink.events.wording import iso_time

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

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
    raise FilterInvalid(f"unknown event type: '{name}'{hint}")


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A place in the log: an offset, or a point in the log's time."""

    offset: int | None = None
    at_ms: int | None = None

    @classmethod
    def parse(cls, text: str, *, is_first: bool = False) -> "LogPlace":
        """Return the place that a text names; a time without a zone is in UTC.

        The log has milliseconds: a time between two is the earlier, or the later where the place is the first of a part of the log.

        Raises:
            FilterInvalid: it is neither an offset nor an ISO 8601 time.

        """
        if text.isascii() and text.isdigit() and len(text) <= 18:  # noqa: PLR2004 - what fits an offset
            return cls(offset=int(text))
        try:
            time = datetime.fromisoformat(text)
        except ValueError as error:
            raise FilterInvalid(f"'{text}' is neither an offset nor a time such as 2026-11-21T12:00:00") from error
        since = (time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH
        return cls(at_ms=-(-since // _MILLISECOND) if is_first else since // _MILLISECOND)

    def __str__(self) -> str:
        return str(self.offset) if self.offset is not None else iso_time(self.at_ms) if self.at_ms is not None else ""

    def is_after(self, entry: Entry) -> bool:
        """Tell whether the place lies behind the entry."""
        if self.offset is not None:
            return entry.offset < self.offset
        return self.at_ms is not None and entry.log_time_ms < self.at_ms

    def is_before(self, entry: Entry) -> bool:
        """Tell whether the place lies before the entry."""
        if self.offset is not None:
            return entry.offset > self.offset
        return self.at_ms is not None and entry.log_time_ms > self.at_ms


@dataclass(frozen=True, slots=True)
class Range:
    """A part of the log, both ends included; no end is open."""

    first: LogPlace = LogPlace()
    last: LogPlace = LogPlace()

    def end_offset(self, end: int) -> int:
        """Return the offset to stop before, given that of the log."""
        return end if self.last.offset is None else min(end, self.last.offset + 1)

    def holds(self, entry: Entry) -> bool:
        """Tell whether the entry belongs to it."""
        return not self.first.is_after(entry) and not self.last.is_before(entry)

    def is_over(self, entry: Entry) -> bool:
        """Tell whether neither the entry nor anything after it belongs to it."""
        return self.last.is_before(entry)


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
        self._attribution = Attribution()

    def choose(self, entry: Entry) -> list[int]:
        """Return the indexes of the events to show; every entry must be given, also those that nobody wants."""
        wanted, events = self._wanted, entry.decision.events
        chosen = []
        for index, event in enumerate(events) if wanted.job_id or wanted.task_manager_id else ():
            jobs, holder = self._attribution.follow_event(event, counts=entry.accepted)
            of_job = not wanted.job_id or any(job_id.startswith(wanted.job_id) for job_id in jobs)
            of_task_manager = not wanted.task_manager_id or (holder is not None and wanted.task_manager_id in holder)
            if of_job and of_task_manager:
                chosen.append(index)
        if wanted.accepted is not None and entry.accepted is not wanted.accepted:
            return []
        if not wanted.job_id and not wanted.task_manager_id:
            chosen = list(range(len(events)))
        return [index for index in chosen if not wanted.types or type(events[index]).__name__ in wanted.types]


def entries_within(entries: Iterable[Entry], wanted: Range) -> Iterator[Entry]:
    """Yield the entries of a part of the log."""
    for entry in entries:
        if wanted.is_over(entry):
            return
        if wanted.holds(entry):
            yield entry
