"""What commands that ask the log have in common: their options for a part of it, and what becomes of errors while it is read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from confluent_kafka import KafkaException

from eventflink.audit.errors import FilterInvalid, LogFaulty
from eventflink.audit.filters import Place
from eventflink.audit.log_source import KafkaLog
from eventflink.cli.exit_codes import ExitCode
from eventflink.cli.failures import CommandFailed
from eventflink.cli.session import Session
from eventflink.events.topics import Topic
from eventflink.gateways.errors import ClusterUnreachable
from eventflink.gateways.kafka_clients import PartitionReader
from eventflink.log.replay import ReplayStalled, collecting_rarely

Command = TypeVar("Command", bound=Callable[..., Any])


class PlaceType(click.ParamType):
    """An offset of the log, or a time."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        """Return the place that a text names."""
        if isinstance(value, Place):
            return value
        try:
            return Place.parse(str(value))
        except FilterInvalid as error:
            self.fail(str(error), param, ctx)


def range_options(command: Command) -> Command:
    """Give a command the options --from and --until."""
    first = click.option(
        "--from", "first", type=PlaceType(), default=Place(), metavar="PLACE", help="Begin at this offset or ISO 8601 time (UTC)."
    )
    last = click.option(
        "--until", "last", type=PlaceType(), default=Place(), metavar="PLACE", help="End with this offset or ISO 8601 time (UTC)."
    )
    return first(last(command))


@contextmanager
def reading_log(session: Session) -> Iterator[KafkaLog]:
    """Give the cluster's log to read, and turn errors of reading it into those of commands.

    Raises:
        ClusterNotFound: Kafka holds no such cluster.
        ClusterUnreachable: Kafka does not answer, or stopped answering.
        CommandFailed: a record of the log cannot be read or folded.

    """
    # Opened only for its errors, which say whether Kafka or the cluster is missing.
    PartitionReader(session.bootstrap, session.cluster_id, Topic.LOG).close()
    try:
        with collecting_rarely():
            yield KafkaLog(session.bootstrap, session.cluster_id)
    except (KafkaException, ReplayStalled) as error:
        raise ClusterUnreachable(f"the log at {session.bootstrap} cannot be read: {error}") from error
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
