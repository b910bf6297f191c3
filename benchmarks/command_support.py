"""What the commands share: a directory, a cluster id and a Kafka of their own, and how figures are printed."""

import contextlib
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from benchmarks.failover_times import FailoverDisturbed
from benchmarks.failover_watch import NotSeen
from benchmarks.floor import FloorFailed
from benchmarks.heartbeats import HeartbeatsDisturbed
from benchmarks.process_cpu import CpuNotMeasured
from benchmarks.report import machine
from benchmarks.rest_api import RestDisturbed
from benchmarks.stream_traffic import TrafficFailed
from benchmarks.submit import JobDidNotFinish
from benchmarks.trace_legs import TraceIncomplete
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.session import Session
from eventflink.local.embedded_broker import EmbeddedBroker


def sayer(session: Session) -> Callable[[str], None]:
    """Return what prints a line for people, beside the figures."""
    return lambda line: session.err.print(f"• {line}", markup=False)


@contextlib.contextmanager
def scratch(session: Session) -> Iterator[Session]:
    """Give a benchmark a directory and a cluster id of its own."""
    directory = Path(tempfile.mkdtemp(prefix="eventflink-bench-"))
    overrides = {
        **session.overrides,
        "data.directory": str(directory),
        "broker.port": "0",
        "cluster.id": f"bench-{uuid.uuid4().hex[:8]}",
    }
    try:
        yield Session(session.config, overrides, verbose=session.verbose)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def print_figures(session: Session, rows: list[tuple[str, ...]], figures: dict[str, Any], *, as_json: bool) -> None:
    """Print a table, and with `as_json` all figures as one JSON object after it."""
    table = Table()
    for heading in ("figure", "unit", "min", "median", "p99", "max", "samples"):
        table.add_column(heading, justify="left" if heading in ("figure", "unit") else "right")
    for row in rows:
        table.add_row(*row)
    (session.err if as_json else session.out).print(table)
    if as_json:
        session.print_json({**figures, "machine": machine()})


_GIVEN_UP: Final = (
    FailoverDisturbed,
    HeartbeatsDisturbed,
    CpuNotMeasured,
    FloorFailed,
    JobDidNotFinish,
    RestDisturbed,
    TraceIncomplete,
    TrafficFailed,
)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn what a benchmark of a cluster gives up with into a line and an exit code."""
    try:
        yield
    except _GIVEN_UP as error:
        raise CommandFailed(ExitCode.NEGATIVE, str(error)) from error
    except NotSeen as error:
        raise CommandFailed(ExitCode.ENVIRONMENT, str(error)) from error


def command_of(session: Session, bootstrap: str, overrides: dict[str, str], command: str) -> list[str]:
    """Return the command line of a part of the cluster."""
    return [*session.child_arguments(bootstrap, overrides), command]


def new_cell(session: Session) -> Session:
    """Return a session with a cluster id that nobody had before."""
    return Session(session.config, {**session.overrides, "cluster.id": f"bench-{uuid.uuid4().hex[:8]}"}, verbose=session.verbose)


@contextlib.contextmanager
def own_broker(session: Session) -> Iterator[tuple[Session, str, EmbeddedBroker | None]]:
    """Give a benchmark its directory and a Kafka cluster: the configured one, or an embedded broker of its own."""
    with scratch(session) as used:
        bootstrap = session.configuration.bootstrap_servers
        if bootstrap:
            yield used, bootstrap, None
            return
        with EmbeddedBroker(used.configuration.data_path / "broker", 0, progress=sayer(session)) as broker:
            yield used, broker.bootstrap_servers, broker
