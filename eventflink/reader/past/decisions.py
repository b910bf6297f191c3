"""Decisions and events of a log, found through its index and shown in words."""

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from typing import Final

from eventflink.audit.entries import Entry
from eventflink.audit.filters import LogPlace
from eventflink.audit.plain import plain
from eventflink.documents.log import CauseOfDecision, DecisionPage, EventOfDecision, EventRow, EventsPage, LinkedDecision
from eventflink.events.decision import Cause, InputCause, LogEvent
from eventflink.events.log_events import FollowUpDecided
from eventflink.events.wording import describe, describe_cause, details_of, iso_time, subject_of
from eventflink.model.texts import printable
from eventflink.reader.past.links import threads_of
from eventflink.reader.past.log_book import LogBook
from eventflink.reader.past.log_index import INDEX_BITS
from eventflink.reader.past.port import HistoryRefused, Refusal
from eventflink.views.job_document import shown

MAX_SHOWN_EVENTS: Final = 1_000
"""Of one decision."""

MAX_SHOWN_CAUSES: Final = 100
MAX_SEARCHED: Final = 50_000
"""Events that are looked at for one page of those that fit several filters."""

MAX_FITTING: Final = 10_000
"""Ids that begin with what is asked for."""

FEW_LISTS: Final = 100
"""So many lists are searched for each place; of more all places are put together before."""

_SAID_OF_A_LINK: Final = 3
_INDEX: Final = (1 << INDEX_BITS) - 1


@dataclass(frozen=True, slots=True)
class EventsWanted:
    """Which events to show; nothing given is everything."""

    first: LogPlace | None = None
    last: LogPlace | None = None
    types: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    """Types that are left out."""
    job_id: str | None = None
    """A job; where none has this id, all whose ids begin so."""
    task_manager_id: str | None = None
    """Or the id of one of its instances."""
    rejected: bool | None = None
    newest_first: bool = True
    limit: int = 100
    cursor: tuple[int, int] | None = None
    """The event, as offset and index, behind which to go on in that order."""


def events(book: LogBook, wanted: EventsWanted) -> EventsPage:
    """Return a page of events; `next` is the event behind which the next page begins, as `OFFSET.INDEX`, None at the end."""
    start, end = book.range_of(wanted.first, wanted.last)
    first, behind = start << INDEX_BITS, end << INDEX_BITS
    if wanted.cursor is not None:
        place = (wanted.cursor[0] << INDEX_BITS) + wanted.cursor[1]
        first, behind = (first, min(behind, place)) if wanted.newest_first else (max(first, place + 1), behind)
    rows: list[EventRow] = []
    last: int | None = None
    entry: Entry | None = None
    hidden = [book.index.by_type.get(name, ()) for name in wanted.without]
    for searched, place in enumerate(_places(book, wanted, first, behind)):
        if len(rows) == wanted.limit or searched == MAX_SEARCHED:
            return EventsPage(events=rows, next=f"{(last or 0) >> INDEX_BITS}.{(last or 0) & _INDEX}")
        last, offset = place, place >> INDEX_BITS
        counts_as_wanted = wanted.rejected is None or book.index.is_rejected(offset) is wanted.rejected
        if counts_as_wanted and not any(_holds(each, place) for each in hidden):
            entry = entry if entry is not None and entry.offset == offset else book.entry(offset)
            rows.append(event_row(entry, place & _INDEX))
    return EventsPage(events=rows, next=None)


def _places(book: LogBook, wanted: EventsWanted, first: int, behind: int) -> Iterator[int]:
    """Yield the places from `first` up to `behind` that fit all but whether they count, in the order that is wanted."""
    index = book.index
    groups: list[Sequence[Sequence[int]]] = []  # For each filter the lists of which one has to have a place.
    if wanted.job_id:
        groups.append(_of_jobs(book, wanted.job_id))
    if wanted.task_manager_id:
        groups.append([index.by_task_manager.get(wanted.task_manager_id, ())])
    if wanted.types:
        groups.append([index.by_type.get(name, ()) for name in wanted.types])
    if not groups:
        yield from _all_places(book, wanted, first, behind)
        return
    shortest = min(groups, key=lambda group: sum(map(len, group)))
    others = [_holder(each, first, behind) for each in groups if each is not shortest]
    in_order = [_within(each, first, behind, reverse=wanted.newest_first) for each in shortest]
    for place, _ in groupby(heapq.merge(*in_order, reverse=wanted.newest_first)):  # One event may be of several jobs.
        if all(holds(place) for holds in others):
            yield place


def _of_jobs(book: LogBook, text: str) -> Sequence[Sequence[int]]:
    found = book.index.of_jobs(text)
    if len(found) > MAX_FITTING:
        raise HistoryRefused(Refusal.INVALID, f"invalid job: '{text}' is the beginning of more than {MAX_FITTING} ids")
    return found


def _holder(lists: Sequence[Sequence[int]], first: int, behind: int) -> Callable[[int], bool]:
    """Return what tells whether a place is in one of some lists."""
    if len(lists) <= FEW_LISTS:
        return lambda place: any(_holds(each, place) for each in lists)
    return set(chain.from_iterable(_within(each, first, behind, reverse=False) for each in lists)).__contains__


def _all_places(book: LogBook, wanted: EventsWanted, first: int, behind: int) -> Iterator[int]:
    start, end = max(book.first_offset, first >> INDEX_BITS), min(book.last_offset + 1, -(-behind >> INDEX_BITS))
    offsets: Sequence[int] = range(start, end)
    if wanted.rejected:
        offsets = book.index.rejected[bisect_left(book.index.rejected, start) : bisect_left(book.index.rejected, end)]
    for offset in reversed(offsets) if wanted.newest_first else offsets:
        count = len(book.entry(offset).decision.events)
        places = range(offset << INDEX_BITS, (offset << INDEX_BITS) + count)
        for place in reversed(places) if wanted.newest_first else places:
            if first <= place < behind:
                yield place


def _within(places: Sequence[int], first: int, behind: int, *, reverse: bool) -> Iterator[int]:
    numbers = range(bisect_left(places, first), bisect_left(places, behind))
    return (places[number] for number in (reversed(numbers) if reverse else numbers))


def _holds(places: Sequence[int], place: int) -> bool:
    number = bisect_left(places, place)
    return number < len(places) and places[number] == place


def event_row(entry: Entry, index: int) -> EventRow:
    """Return an event in words, with where it stands."""
    decision = entry.decision
    event = decision.events[index]
    return EventRow(
        offset=entry.offset,
        index=index,
        epoch=decision.epoch,
        sequence=decision.sequence,
        decided_at=iso_time(decision.decided_at_ms),
        accepted=entry.accepted,
        rejection=entry.rejection,
        job_id=getattr(event, "job_id", None),
        task_manager_id=getattr(event, "task_manager_id", None),
        **_in_words(event),
    )


def _in_words(event: LogEvent) -> dict[str, str]:
    """Return the fields of `EventInWords` by name."""
    return {"type": type(event).__name__, "subject": printable(subject_of(event)), "details": printable(details_of(event))}


def decision(book: LogBook, offset: int) -> DecisionPage:
    """Return one decision: what it answers, what it says, which decisions it continues and which continue it."""
    book.check(offset)
    entry = book.entry(offset)
    made = entry.decision
    led = book.index.leadership_at(offset)
    return DecisionPage(
        offset=offset,
        decided_at=iso_time(made.decided_at_ms),
        appended_at=iso_time(entry.timestamp_ms),
        epoch=made.epoch,
        sequence=made.sequence,
        leader_id=made.leader_id,
        master_id=(led.master_id or None) if led is not None and led.leader_id == made.leader_id else None,
        actor=made.actor or None,
        accepted=entry.accepted,
        rejection=entry.rejection,
        byte_count=entry.byte_count,
        causes=[_cause(cause) for cause in made.causes[:MAX_SHOWN_CAUSES]],
        events=[EventOfDecision(**_in_words(event), payload=shown(plain(event))) for event in made.events[:MAX_SHOWN_EVENTS]],
        events_total=len(made.events),
        because_of=[_link(book, entry, other) for other in book.index.links.before(offset)],
        led_to=[_link(book, entry, other) for other in book.index.links.after(offset, book.last_offset + 1)],
    )


def _cause(cause: Cause) -> CauseOfDecision:
    sentence = describe_cause(cause)
    if not isinstance(cause, InputCause):
        return CauseOfDecision(sentence=sentence)
    return CauseOfDecision(
        sentence=sentence, topic=cause.topic, partition=cause.partition, offset=cause.first_offset, last_offset=cause.last_offset
    )


def _link(book: LogBook, entry: Entry, offset: int) -> LinkedDecision:
    other = book.entry(offset)
    said = list(islice(_on_same_threads(entry, other), _SAID_OF_A_LINK + 1)) or list(other.decision.events[: _SAID_OF_A_LINK + 1])
    more = " …" if len(said) > _SAID_OF_A_LINK else ""
    return LinkedDecision(offset=offset, sentence="; ".join(map(describe, said[:_SAID_OF_A_LINK])) + more)


def _on_same_threads(entry: Entry, other: Entry) -> Iterator[LogEvent]:
    """Yield the events of another decision on the threads of this one."""
    mine = {thread for event in entry.decision.events for thread in threads_of(event)}
    for event in other.decision.events:
        if not isinstance(event, FollowUpDecided) and any(thread in mine for thread in threads_of(event)):
            yield event
