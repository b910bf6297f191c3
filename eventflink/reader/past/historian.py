"""What can be asked of the past: each question is a method here, and answers with a document and the record that it reflects.

A historian belongs to whoever feeds it records; here is neither a clock nor a wire. Questions are quick: some milliseconds, and where a
state has to be loaded some tens of them.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from eventflink.audit import NothingKnown
from eventflink.audit.difference import difference_between, moment_of
from eventflink.audit.filters import LogPlace
from eventflink.documents.log import LogBounds
from eventflink.leadership.fold import Fold
from eventflink.master.settings import MasterSettings
from eventflink.reader.past import decisions, time_line, why
from eventflink.reader.past.decisions import EventsWanted
from eventflink.reader.past.flow_curves import flow_curves
from eventflink.reader.past.fold_pickle import release_fold
from eventflink.reader.past.log_book import LogBook
from eventflink.reader.past.port import HistoryRefused, Refusal
from eventflink.reader.state_cache import StateCache
from eventflink.views.jobs_and_cluster import JobNotFound
from eventflink.views.moment import moment_view
from eventflink.views.queries import SubjectNotFound

T = TypeVar("T")


class Historian:
    """Answers from one log."""

    def __init__(self, book: LogBook, topic_id: str, settings: MasterSettings) -> None:
        """Answer from a book of the log with this id; `settings` are those that a dry run decides with."""
        self.book = book
        self._topic_id = topic_id
        self._settings = settings
        self._newest = StateCache()

    def answer(self, question: str, arguments: tuple[Any, ...]) -> Any:
        """Return the answer of the method that has this name.

        Raises:
            HistoryRefused: there is none.

        """
        if question not in QUESTIONS:
            raise HistoryRefused(Refusal.INVALID, f"unknown question: '{question}'")
        return getattr(self, question)(*arguments)

    def page(self, place: LogPlace | None, compute: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
        """Return what `compute(fold, *arguments)` makes of the state at a place; of the newest it is remembered until there is a newer."""
        fold = self.book.state_at(self.book.offset_of(place))
        return _moment(self._newest.page if fold is self.book.fold else moment_view, fold, compute, arguments)

    def spend(self, place: LogPlace | None, compute: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
        """Return the same of a state that `compute` may change, and whose master decides with the cluster's settings."""
        fold = self.book.copy_of_state_at(self.book.offset_of(place), self._settings)
        try:
            return _moment(moment_view, fold, compute, arguments)
        finally:
            release_fold(fold)

    def bounds(self) -> LogBounds:
        """Return from where to where the log is known."""
        return time_line.bounds(self.book, self._topic_id)

    def histogram(self, first: LogPlace | None, last: LogPlace | None, buckets: int, needed: int) -> dict[str, Any]:
        """Return how much was decided when, who led, and what is marked, if the log is known up to the record that is needed."""
        self.book.check_known(needed)
        return self._as_of(None, time_line.time_line(self.book, first, last, buckets))

    def position(self, place: LogPlace | None) -> dict[str, Any]:
        """Return which record a place is."""
        offset = self.book.offset_of(place)
        return self._as_of(offset, time_line.position(self.book, offset))

    def steps(self, place: LogPlace | None, job_id: str | None, task_manager_id: str | None) -> dict[str, Any]:
        """Return the records before and after a place that concern something."""
        offset = self.book.offset_of(place)
        return self._as_of(offset, time_line.steps(self.book, offset, job_id, task_manager_id))

    def flow(self, place: LogPlace | None, job_id: str, points: int) -> dict[str, Any]:
        """Return how the streams of a job have flowed up to a place."""
        offset = self.book.offset_of(place)
        return self._as_of(offset, flow_curves(self.book, offset, job_id, points))

    def events(self, wanted: EventsWanted, needed: int) -> dict[str, Any]:
        """Return a page of events, if the log is known up to the record that is needed."""
        self.book.check_known(needed)
        return self._as_of(None, decisions.events(self.book, wanted))

    def decision(self, offset: int) -> dict[str, Any]:
        """Return one decision, what led to it and what it led to."""
        return self._as_of(offset, decisions.decision(self.book, offset))

    def diff(self, before: LogPlace | None, after: LogPlace | None, max_rows: int) -> dict[str, Any]:
        """Return what differs between the states at two places."""
        # Taken one after the other: a state is ours until the next question only.
        moment = moment_of(self.book.state_at(self.book.offset_of(before)))
        offset = self.book.offset_of(after)
        return self._as_of(offset, difference_between(moment, moment_of(self.book.state_at(offset)), max_rows))

    def why(self, place: LogPlace | None, text: str) -> dict[str, Any]:
        """Return what an id named at a place, what that was, and why."""
        offset = self.book.offset_of(place)
        return self._as_of(offset, _known(why.explain, self.book, text, offset))

    def story(self, place: LogPlace | None, text: str) -> dict[str, Any]:
        """Return the life of a job up to a place."""
        offset = self.book.offset_of(place)
        return self._as_of(offset, _known(why.tell_story, self.book, text, offset))

    def masters(self, place: LogPlace | None) -> dict[str, Any]:
        """Return who led up to a place: the masters, and their leaderships."""
        offset = self.book.offset_of(place)
        return self._as_of(offset, time_line.masters(self.book, offset))

    def _as_of(self, offset: int | None, body: object) -> dict[str, Any]:
        """Return what the index says, with the record that it is about; None: the last one."""
        offset = self.book.last_offset if offset is None else offset
        led = self.book.index.leadership_at(offset)
        return {
            "offset": offset,
            "decided_at": self.book.time(offset) if offset >= self.book.first_offset else None,
            "epoch": led.epoch if led is not None else 0,
            "leader_id": led.leader_id if led is not None else "",
            "master_id": led.master_id if led is not None else "",
            "body": body,
        }


QUESTIONS: Final = frozenset(
    {"page", "spend", "bounds", "histogram", "position", "steps", "flow", "events", "decision", "diff", "why", "story", "masters"}
)


def _known(answer: Callable[[LogBook, str, int], T], book: LogBook, text: str, offset: int) -> T:
    try:
        return answer(book, text, offset)
    except NothingKnown as error:
        raise HistoryRefused(Refusal.NOT_FOUND, str(error)) from error


def _moment(view: Callable[..., dict[str, Any]], fold: Fold, compute: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
    try:
        return view(fold, compute, arguments)
    except (JobNotFound, SubjectNotFound) as error:
        raise HistoryRefused(Refusal.NOT_FOUND, str(error)) from error
