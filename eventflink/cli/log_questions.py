"""What commands that ask the log have in common: their options for a part of it, and what becomes of errors while it is read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from eventflink.audit import FilterInvalid, LogFaulty
from eventflink.audit.filters import LogPlace
from eventflink.audit.log_source import KafkaLog
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.session import Session
from eventflink.gateways.folding import folding_log
from eventflink.log.replay import collecting_rarely

Command = TypeVar("Command", bound=Callable[..., Any])


class PlaceType(click.ParamType):
    """An offset of the log, or a time."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> LogPlace:
        """Return the place that a text names."""
        if isinstance(value, LogPlace):
            return value
        try:
            return LogPlace.parse(str(value))
        except FilterInvalid as error:
            self.fail(str(error), param, ctx)


def range_options(command: Command) -> Command:
    """Give a command the options --from and --until."""
    first = click.option(
        "--from", "first", type=PlaceType(), default=LogPlace(), metavar="PLACE", help="Begin at this offset or ISO 8601 time (UTC)."
    )
    last = click.option(
        "--until", "last", type=PlaceType(), default=LogPlace(), metavar="PLACE", help="End with this offset or ISO 8601 time (UTC)."
    )
    return first(last(command))


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
