"""What a time line shows of a log: how much was decided when, who led, what is marked, and where one gets from a moment.

Everything is answered from the index; records are read only for the words of the marks that are shown.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from eventflink.audit.filters import LogPlace
from eventflink.documents.log import (
    HistoryHealth,
    LabelledRecord,
    LeaderRow,
    LeadershipRow,
    LogBounds,
    MarkKind,
    MarkOfLog,
    MasterRow,
    MastersPage,
    StepsFromMoment,
    StretchOfLog,
    TimeLine,
)
from eventflink.documents.plain import part_of
from eventflink.events.wording import describe
from eventflink.reader.past.log_book import LogBook
from eventflink.reader.past.log_index import INDEX_BITS, Leadership, count_between, places_between
from eventflink.views.plain import iso_time

MAX_MARKS: Final = 500
MAX_LEADERSHIPS: Final = 1_000

_INDEX: Final = (1 << INDEX_BITS) - 1


def bounds(book: LogBook, topic_id: str) -> LogBounds:
    """Return from where to where the log is known, and from where on its states are."""
    health = HistoryHealth(bytes=book.store.byte_count + book.index.byte_count())
    if book.last_offset < book.first_offset:
        return LogBounds(topic_id=topic_id, history=health)
    return LogBounds(
        first_offset=book.first_offset,
        first_at=book.time(book.first_offset),
        states_from=book.states_from if book.states_from <= book.last_offset else None,
        topic_id=topic_id,
        indexed_to=book.last_offset,
        indexed_to_at=book.time(book.last_offset),
        history=health,
    )


def time_line(book: LogBook, first: LogPlace | None, last: LogPlace | None, buckets: int) -> TimeLine:
    """Return how much was decided in each of some stretches of time, equally long, and what there is to mark in the whole.

    Where a record is the end of something, it is the one after its last.
    """
    start, end = book.range_of(first, last)
    if start >= end:
        return _empty(book, start)
    from_ms, until_ms = book.index.time_at(start), book.index.time_at(end - 1)
    edges = _edges(book, start, end, min(buckets, until_ms - from_ms + 1))
    places, total = _marked(book, start, end)
    leaderships = leaderships_between(book, start, end, book.last_offset + 1)
    return TimeLine(
        begins=start,
        until=end,
        from_at=iso_time(from_ms),
        until_at=iso_time(until_ms),
        buckets=[
            StretchOfLog(
                from_offset=start,
                until_offset=end,
                from_at=iso_time(from_ms),
                until_at=iso_time(until_ms),
                decisions=end - start,
                failures=_count(book, MarkKind.FAILURE, start, end),
                rejected=count_between(book.index.rejected, start, end),
            )
            for (start, from_ms), (end, until_ms) in pairwise(edges)
        ],
        leaderships=leaderships[-MAX_LEADERSHIPS:],
        leaderships_total=len(leaderships),
        marks=[_mark(book, *each) for each in places],
        marks_total=total,
    )


def _empty(book: LogBook, offset: int) -> TimeLine:
    at = book.time(min(max(offset, book.first_offset), book.last_offset)) if book.last_offset >= book.first_offset else None
    return TimeLine(begins=offset, until=offset, from_at=at, until_at=at)


def _edges(book: LogBook, start: int, end: int, count: int) -> list[tuple[int, int]]:
    """Return the edges of so many stretches of time: the first record of each, and the time, one edge more than there are stretches."""
    from_ms, until_ms = book.index.time_at(start), book.index.time_at(end - 1)
    times = [from_ms + number * (until_ms + 1 - from_ms) // count for number in range(count)]
    return [(min(end, max(start, book.index.offset_at(at_ms - 1) + 1)), at_ms) for at_ms in times] + [(end, until_ms)]


def _count(book: LogBook, kind: MarkKind, start: int, end: int) -> int:
    first, behind = places_between(book.index.marks[kind], start, end)
    return behind - first


def _marked(book: LogBook, start: int, end: int) -> tuple[list[tuple[MarkKind, int, int]], int]:
    """Return kind, place and count of what is to be marked, near ones of a kind as one where there are too many; and how many there are."""
    total = sum(_count(book, kind, start, end) for kind in MarkKind)
    kinds = [kind for kind in MarkKind if _count(book, kind, start, end)]
    if total <= MAX_MARKS:
        stretches = [(start, end)]
    else:
        edges = _edges(book, start, end, min(MAX_MARKS // len(kinds), book.index.time_at(end - 1) - book.index.time_at(start) + 1))
        stretches = [(first, behind) for (first, _), (behind, _) in pairwise(edges)]
    found = []
    for kind in kinds:
        places = book.index.marks[kind]
        for first_offset, end_offset in stretches:
            first, behind = places_between(places, first_offset, end_offset)
            if total <= MAX_MARKS:
                found += [(kind, place, 1) for place in places[first:behind]]
            elif first < behind:
                found.append((kind, places[first], behind - first))
    return sorted(found, key=lambda each: each[1]), total


def _mark(book: LogBook, kind: MarkKind, place: int, count: int) -> MarkOfLog:
    offset = place >> INDEX_BITS
    event = book.entry(offset).decision.events[place & _INDEX]
    job_id = getattr(event, "job_id", None)
    return MarkOfLog(offset=offset, at=book.time(offset), kind=kind, label=describe(event), job_id=job_id, count=count)


def leaderships_between(book: LogBook, start: int, end: int, log_end: int) -> list[LeadershipRow]:
    """Return who led in a part of the log, oldest first, each whole as a log tells that ends before `log_end`."""
    known = [each for each in book.index.leaderships if each.from_offset < log_end]
    return [_leadership(book, one, after, log_end) for one, after in _with_next(known) if _is_within(one, after, start, end)]


def _with_next(leaderships: list[Leadership]) -> Iterator[tuple[Leadership, Leadership | None]]:
    yield from zip(leaderships, [*leaderships[1:], None], strict=False)


def _is_within(one: Leadership, after: Leadership | None, start: int, end: int) -> bool:
    return one.from_offset < end and (after is None or after.from_offset > start)


def _leadership(book: LogBook, one: Leadership, after: Leadership | None, log_end: int) -> LeadershipRow:
    end = after.from_offset if after is not None else log_end
    return LeadershipRow(
        epoch=one.epoch,
        leader_id=one.leader_id,
        master_id=one.master_id or None,
        from_offset=one.from_offset,
        from_at=iso_time(one.granted_at_ms),
        until_offset=after.from_offset if after is not None else None,
        until_at=iso_time(after.quiet_since_ms) if after is not None else None,
        gap_ms=max(0, one.granted_at_ms - one.quiet_since_ms) if one.quiet_since_ms else None,
        decisions=end - one.from_offset - count_between(book.index.rejected, one.from_offset, end),
        rejected=count_between(book.index.rejected, one.from_offset, end),
    )


def masters(book: LogBook, offset: int) -> MastersPage:
    """Return who led up to a record: the masters, the one that leads last, and their leaderships, oldest first."""
    leaderships = leaderships_between(book, book.first_offset, offset + 1, offset + 1)
    by_id: dict[str, MasterRow] = {}
    for each in leaderships:
        until = each.until_offset or offset + 1
        known = by_id.pop(each.master_id or "", None)
        by_id[each.master_id or ""] = MasterRow(
            master_id=each.master_id,
            leader_id=each.leader_id,
            epoch=each.epoch,
            leaderships=1 + (known.leaderships if known is not None else 0),
            decisions=each.decisions + (known.decisions if known is not None else 0),
            last_offset=until - 1,
            last_at=book.time(until - 1),
        )
    return MastersPage(
        leader=part_of(LeaderRow, leaderships[-1]) if leaderships else None,
        masters=list(by_id.values()),
        leaderships=leaderships[-MAX_LEADERSHIPS:],
        leaderships_total=len(leaderships),
    )


def position(book: LogBook, offset: int) -> LabelledRecord:
    """Return what a record says first."""
    return LabelledRecord(offset=offset, decided_at=book.time(offset), label=_label(book, offset))


def _label(book: LogBook, offset: int, place: int = 0) -> str:
    return describe(book.entry(offset).decision.events[place & _INDEX])


def steps(book: LogBook, offset: int, job_id: str | None, task_manager_id: str | None) -> StepsFromMoment:
    """Return the records before and after one that count and concern a job or a TaskManager, or anything.

    `unchanged_since_at` is when the last such record up to `offset` was decided, and `unchanged_until_at` when the next one was.
    """
    places: Any = None
    if job_id is not None:
        places = book.index.by_job.get(job_id, ())
    elif task_manager_id is not None:
        places = book.index.by_task_manager.get(task_manager_id, ())
    last = _step(book, places, offset + 1, -1)
    before = _step(book, places, offset, -1)
    after = _step(book, places, offset, +1)
    return StepsFromMoment(
        previous=before and before >> INDEX_BITS,
        next=after and after >> INDEX_BITS,
        previous_label=None if before is None else _label(book, before >> INDEX_BITS, before),
        next_label=None if after is None else _label(book, after >> INDEX_BITS, after),
        unchanged_since_at=None if last is None else book.time(last >> INDEX_BITS),
        unchanged_until_at=None if after is None else book.time(after >> INDEX_BITS),
    )


def _step(book: LogBook, places: Any, offset: int, way: int) -> int | None:
    """Return the place of the first event of the nearest record on that side of `offset` that counts; None: there is none."""
    while True:
        if places is None:
            offset += way
            if not book.first_offset <= offset <= book.last_offset:
                return None
            place = offset << INDEX_BITS
        else:
            before, behind = places_between(places, offset, offset + 1)
            number = before - 1 if way < 0 else behind
            if not 0 <= number < len(places):
                return None
            offset = places[number] >> INDEX_BITS
            place = places[places_between(places, offset, offset + 1)[0]]
        if not book.index.is_rejected(offset):
            return int(place)
