"""What commands that ask the log have in common: their options for a part of it, and what becomes of errors while it is read.

`read_explanation` and `read_story` answer by themselves what a REST process would answer, with the functions that it has.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import click

from eventflink.audit import FilterInvalid, LogFaulty
from eventflink.audit.filters import LogPlace
from eventflink.audit.log_source import KafkaLog
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.session import Session
from eventflink.cli.state import ask_job
from eventflink.documents.explanation import Explanation, StoryOfJob
from eventflink.gateways.errors import ArchiveUnusable
from eventflink.gateways.folding import folding_log
from eventflink.leadership.fold import Fold
from eventflink.log.replay import collecting_rarely
from eventflink.reader.past.log_book import LogBook
from eventflink.reader.past.reading import read_book
from eventflink.reader.past.why import explain, tell_story
from eventflink.snapshots.loading import LogTrimmed, load_fold

Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")


class PlaceType(click.ParamType):
    """An offset of the log, or a time."""

    name = "place"

    def __init__(self, *, is_first: bool = False) -> None:
        """Read it as the first of a part of the log, or as any place."""
        self._is_first = is_first

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> LogPlace:
        """Return the place that a text names."""
        if isinstance(value, LogPlace):
            return value
        try:
            return LogPlace.parse(str(value), is_first=self._is_first)
        except FilterInvalid as error:
            self.fail(str(error), param, ctx)


def range_options(command: Command) -> Command:
    """Give a command the options --from and --until."""
    first = click.option(
        "--from",
        "first",
        type=PlaceType(is_first=True),
        default=LogPlace(),
        metavar="PLACE",
        help="Begin at this offset or ISO 8601 time (UTC).",
    )
    last = click.option(
        "--until", "last", type=PlaceType(), default=LogPlace(), metavar="PLACE", help="End with this offset or ISO 8601 time (UTC)."
    )
    return first(last(command))


def read_explanation(session: Session, text: str) -> Explanation:
    """Return what an id names now, what it is, and why; raises as `reading_log`, and NothingKnown."""
    return _read(session, lambda book: explain(book, text, book.last_offset, most=sys.maxsize))


def read_story(session: Session, text: str) -> StoryOfJob:
    """Return the life of a job, read from the newest snapshot before its submission if the job is still known; raises as the above."""
    try:
        job = ask_job(session, text)
        before_ms = round(datetime.fromisoformat(job.submitted_at).timestamp() * 1000)
        fold = load_fold(session.access, wanted=lambda manifest: manifest.last_decided_at_ms < before_ms)
    except (CommandFailed, ArchiveUnusable, LogTrimmed):
        fold = None
    return _read(session, lambda book: tell_story(book, text, book.last_offset, most=sys.maxsize), fold)


def _read(session: Session, answer: Callable[[LogBook], T], fold: Fold | None = None) -> T:
    with session.working("reading the log") as working, reading_log(session):
        book = read_book(session.access, fold, lambda records, count: working.count(records, _said_of(count)))
        if book.first_offset < book.states_from:
            remark_on_beginning(session, book.first_offset)
        return answer(book)


def _said_of(count: int) -> str:
    return f"of {count:,} records of the log read"


@contextmanager
def reading_log(session: Session) -> Iterator[KafkaLog]:
    """Give the cluster's log to read; raises as `folding_log` does, also where a record cannot be read."""
    try:
        with folding_log(session.access), collecting_rarely():
            yield KafkaLog(session.access)
    except LogFaulty as error:
        raise CommandFailed(ExitCode.INTERNAL, f"the log of '{session.cluster_id}' cannot be read on: {error}") from error


def remark_on_beginning(session: Session, first_offset: int) -> None:
    """Say on standard error that the beginning of the log is not there any more."""
    if first_offset:
        session.err.print(
            f"the log begins at offset {first_offset}: what was accepted follows from epochs and sequences alone",
            style="yellow",
            markup=False,
        )
