"""Why a thing was as it was at a moment, and the story of a job up to one. The index knows where to look, so not the whole log is read.

This is the only place that answers either question: for `eventflink why` and `eventflink history` as for REST and the dashboard.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from eventflink.audit import NothingKnown
from eventflink.audit.cause_chain import ChainBuilder
from eventflink.audit.standing import standing_of
from eventflink.audit.story import StoryTeller
from eventflink.audit.subjects import Subject, SubjectFinder, SubjectType
from eventflink.documents.explanation import Explanation, StoryOfJob
from eventflink.events.log_events import JobSubmitted
from eventflink.reader.past.log_book import LogBook
from eventflink.reader.past.log_index import offsets_between, places_between
from eventflink.reader.past.port import HistoryRefused, Refusal

MAX_READ: Final = 100_000
"""Decisions that are read for one answer."""

MAX_FITTING: Final = 1_000
"""Jobs whose ids begin with what is asked for."""

_OF_INSTANCES: Final = ("TaskManagerLost", "TaskManagerDisconnected")
"""Types of events that end the slots of an instance, whichever jobs have them."""

_OF_STORIES: Final = (*_OF_INSTANCES, "TaskManagerReleased", "LeadershipGranted")
"""Types of events that belong to the story of a job, though they may not name it."""


def explain(book: LogBook, text: str, offset: int, *, most: int = MAX_READ) -> Explanation:
    """Return what the id `text` named after a record, what it was, and why, from at most so many decisions.

    Raises:
        NothingKnown: nothing had the id, or several jobs began with it.
        HistoryRefused: there is no state of then, or too much to read for one answer.

    """
    fold = book.state_at(offset)
    finder = SubjectFinder(text)
    for each in _bounded(_naming(book, text, offset + 1), text, most):
        finder.follow_entry(book.entry(each))
    subject = finder.resolve(fold.master, _newest_jobs(book, offset + 1), book.first_offset)
    builder = ChainBuilder(subject, book.index.origins)
    for each in _bounded(_concerning(book, subject, offset + 1), subject.name, most):
        builder.follow_entry(book.entry(each))
    standing = standing_of(subject, fold.master)
    steps, omitted = builder.chain(book.entry)
    return Explanation(
        type=str(subject.subject_type),
        id=subject.name,
        state=standing.state,
        facts=standing.facts,
        cause=standing.cause,
        waits=standing.waits,
        chain=steps,
        omitted=omitted,
        log_offset=offset,
    )


def tell_story(book: LogBook, text: str, offset: int, *, most: int = MAX_READ) -> StoryOfJob:
    """Return the life, up to a record, of the job with the id `text`, or the only one whose id begins so; raises as `explain` does."""
    finder, end = SubjectFinder(text), offset + 1
    for each in _beginnings(book, _fitting(book, text, end), end):
        finder.follow_entry(book.entry(each))
    job_id = finder.resolve_job(book.state_at(offset).master, _newest_jobs(book, end), book.first_offset)
    index = book.index
    start = next(iter(_beginnings(book, [job_id], end)), end)
    places = [index.by_job.get(job_id, ()), *(index.by_type.get(name, ()) for name in _OF_STORIES)]
    teller: StoryTeller | None = None
    for each in _bounded(offsets_between(places, start, end), job_id, most):
        if index.is_rejected(each):
            continue
        entry = book.entry(each)
        if teller is None:
            submitted = next((event for event in entry.decision.events if isinstance(event, JobSubmitted) and event.job_id == job_id), None)
            if submitted is None:
                break
            teller = StoryTeller(submitted)
        led = index.leadership_at(each)
        silent_ms = max(0, led.granted_at_ms - led.quiet_since_ms) if led is not None and led.quiet_since_ms else 0
        teller.follow_entry(entry, silent_ms)
        if teller.is_over:
            break
    if teller is None:
        raise NothingKnown(f"submission not found in the log: job '{job_id}'; the log begins at offset {book.first_offset}")
    return teller.story(offset)


def _is_told_of(book: LogBook, job_id: str, end: int) -> bool:
    return places_between(book.index.by_job.get(job_id, ()), 0, end)[1] > 0


def _newest_jobs(book: LogBook, end: int) -> Iterator[str]:
    """Yield the jobs that were told of before `end`, newest first."""
    return (each for each in reversed(book.index.by_job) if _is_told_of(book, each, end))


def _fitting(book: LogBook, text: str, end: int) -> list[str]:
    """Return the job with an id, or else those whose ids begin so, of those that were told of before `end`."""
    if not text or _is_told_of(book, text, end):
        return [text] if text else []
    return [each for each in book.index.by_job if each.startswith(text) and _is_told_of(book, each, end)]


def _beginnings(book: LogBook, job_ids: list[str], end: int) -> list[int]:
    """Return, of some jobs, the first records before `end` that count, in order."""
    index = book.index
    of_jobs = (offsets_between([index.by_job.get(each, ())], 0, end) for each in job_ids[:MAX_FITTING])
    firsts = (next((offset for offset in offsets if not index.is_rejected(offset)), None) for offsets in of_jobs)
    return sorted({first for first in firsts if first is not None})


def _naming(book: LogBook, text: str, end: int) -> Iterable[int]:
    """Return the records that tell what an id names, before `end`."""
    fitting = _fitting(book, text.partition("/")[0], end)
    if len(fitting) == 1:
        return offsets_between([book.index.by_job[fitting[0]]], 0, end)
    if fitting:  # Which of them there are is all that matters.
        return _beginnings(book, fitting, end)
    return book.store.mentioning(text, end)


def _concerning(book: LogBook, subject: Subject, end: int) -> Iterable[int]:
    """Return the records before `end` that may belong to the chain of a subject."""
    index = book.index
    if subject.subject_type is SubjectType.REQUEST:
        return book.store.mentioning(subject.name, end)
    if subject.subject_type in (SubjectType.TASK_MANAGER, SubjectType.INSTANCE):
        return offsets_between([index.by_task_manager.get(subject.task_manager_id, ())], 0, end)
    return offsets_between([index.by_job.get(subject.job_id, ()), *(index.by_type.get(name, ()) for name in _OF_INSTANCES)], 0, end)


def _bounded(offsets: Iterable[int], name: str, most: int) -> Iterator[int]:
    for count, offset in enumerate(offsets):
        if count == most:
            raise HistoryRefused(Refusal.INVALID, f"more than {most} decisions concern '{name}': the command line reads them all")
        yield offset
