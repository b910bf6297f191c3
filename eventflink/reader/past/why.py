"""Why a thing was as it was at a moment, as `eventflink why` says it, without reading the whole log: the index knows where to look."""

import heapq
from collections.abc import Iterable, Iterator
from typing import Final

from eventflink.audit.cause_chain import ChainBuilder
from eventflink.audit.explanation import Explanation
from eventflink.audit.standing import standing_of
from eventflink.audit.subjects import Subject, SubjectFinder, SubjectType
from eventflink.reader.past.log_book import LogBook
from eventflink.reader.past.log_index import INDEX_BITS
from eventflink.reader.past.port import HistoryRefused, Refusal

MAX_READ: Final = 100_000
"""Decisions that are read for one answer."""

MAX_FITTING: Final = 1_000
"""Jobs whose ids begin with what is asked for."""

_OF_INSTANCES: Final = ("TaskManagerLost", "TaskManagerDisconnected")
"""Types of events that end the slots of an instance, whichever jobs have them."""


def explain(book: LogBook, text: str, offset: int) -> Explanation:
    """Return what the id `text` named after a record, what it was, and why.

    Raises:
        NothingKnown: nothing had the id, or several jobs began with it.
        HistoryRefused: there is no state of then, or too much to read for one answer.

    """
    fold = book.state_at(offset)
    finder = SubjectFinder(text)
    for each in _naming(book, text, offset + 1):
        finder.follow_entry(book.entry(each))
    subject = finder.resolve(fold.master)
    builder = ChainBuilder(subject, book.index.origins)
    for each in _concerning(book, subject, offset + 1):
        builder.follow_entry(book.entry(each))
    return Explanation(subject, standing_of(subject, fold.master), builder.chain(book.entry), fold)


def _naming(book: LogBook, text: str, end: int) -> Iterator[int]:
    """Yield the records that tell what an id names, before `end`."""
    job_id = text.partition("/")[0]
    fitting = [job_id] if job_id in book.index.by_job else [each for each in book.index.by_job if each.startswith(job_id)] if job_id else []
    if len(fitting) == 1:
        yield from _bounded(_offsets_of([book.index.by_job[fitting[0]]], end), text)
    elif fitting:  # Which of them there are is all that matters.
        firsts = [next(_offsets_of([book.index.by_job[each]], end), None) for each in fitting[:MAX_FITTING]]
        yield from sorted({first for first in firsts if first is not None})
    else:
        yield from _bounded(book.store.mentioning(text, end), text)


def _concerning(book: LogBook, subject: Subject, end: int) -> Iterator[int]:
    """Yield the records before `end` that may belong to the chain of a subject."""
    index = book.index
    if subject.subject_type is SubjectType.REQUEST:
        return _bounded(book.store.mentioning(subject.name, end), subject.name)
    if subject.subject_type in (SubjectType.TASK_MANAGER, SubjectType.INSTANCE):
        lists = [index.by_task_manager.get(subject.task_manager_id)]
    else:
        lists = [index.by_job.get(subject.job_id), *map(index.by_type.get, _OF_INSTANCES)]
    return _bounded(_offsets_of([each for each in lists if each is not None], end), subject.name)


def _offsets_of(lists: Iterable[Iterable[int]], end: int) -> Iterator[int]:
    """Yield the records before `end` of places, each once and in order."""
    last = -1
    for place in heapq.merge(*(_before(each, end) for each in lists)):
        if place >> INDEX_BITS != last:
            last = place >> INDEX_BITS
            yield last


def _before(places: Iterable[int], end: int) -> Iterator[int]:
    for place in places:
        if place >> INDEX_BITS >= end:
            return
        yield place


def _bounded(offsets: Iterable[int], name: str) -> Iterator[int]:
    for count, offset in enumerate(offsets):
        if count == MAX_READ:
            raise HistoryRefused(Refusal.INVALID, f"more than {MAX_READ} decisions concern '{name}': 'eventflink why' reads them all")
        yield offset
