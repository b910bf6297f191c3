"""`eventflink bench`: measured promises. Each benchmark takes `--json`; its last line is then one JSON object.

Without a Kafka cluster to use, each starts what it needs in a directory of its own and leaves nothing behind.
"""

import contextlib
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from eventflink.benchmarks.replay import measure_replay
from eventflink.benchmarks.report import as_row, machine
from eventflink.benchmarks.submit import measure_submit
from eventflink.cli.exit_codes import ExitCode
from eventflink.cli.local_cluster import LocalCluster
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import read_fold
from eventflink.log.embedded_broker import EmbeddedBroker


@click.group()
def bench() -> None:
    """Measure the cluster: minimum, median, p99 and maximum, with the machine they were measured on."""


def _say(session: Session) -> Callable[[str], None]:
    return lambda line: session.err.print(f"• {line}", markup=False)


@contextlib.contextmanager
def _scratch(session: Session) -> Iterator[Session]:
    """Give a benchmark a directory and a cluster id of its own."""
    directory = Path(tempfile.mkdtemp(prefix="eventflink-bench-"))
    overrides = {
        **session.overrides,
        "data.directory": str(directory),
        "broker.port": "0",
        "cluster.id": f"bench-{uuid.uuid4().hex[:8]}",
    }
    try:
        yield Session(session.config, overrides, session.verbose)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _print(session: Session, rows: list[tuple[str, ...]], figures: dict[str, Any], *, as_json: bool) -> None:
    table = Table()
    for heading in ("figure", "unit", "min", "median", "p99", "max", "samples"):
        table.add_column(heading, justify="left" if heading in ("figure", "unit") else "right")
    for row in rows:
        table.add_row(*row)
    (session.err if as_json else session.out).print(table)
    if as_json:
        session.print_json({**figures, "machine": machine()})


@bench.command("submit")
@click.option("--jobs", type=click.IntRange(min=1), default=200, show_default=True, help="Submitted one at a time.")
@click.option("--clients", type=click.IntRange(1, 256), default=16, show_default=True, help="Submit at once in the second part.")
@click.option("--concurrent-jobs", type=click.IntRange(min=1), default=1600, show_default=True, help="In the second part, in all.")
@click.option("--own-cluster/--running-cluster", default=True, show_default=True, help="Start a cluster, or take the one that runs.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@pass_session
def bench_submit(session: Session, jobs: int, clients: int, concurrent_jobs: int, *, own_cluster: bool, as_json: bool) -> int:
    """Measure submit → accepted and submit → FINISHED of one-vertex no-op jobs, through Kafka."""
    say = _say(session)
    with contextlib.ExitStack() as stack:
        used, bootstrap = session, ""
        if own_cluster:
            used = stack.enter_context(_scratch(session))
            bootstrap = stack.enter_context(LocalCluster(used, 1, say)).bootstrap
        bootstrap = bootstrap or session.bootstrap
        fold = read_fold(bootstrap, used.cluster_id)
        figures = measure_submit(
            bootstrap,
            used.cluster_id,
            fold.last_offset + 1,
            fold.acceptance,
            jobs=jobs,
            clients=clients,
            concurrent_jobs=concurrent_jobs,
            say=say,
        )
    rows = [
        as_row("submit → accepted", "ms", figures.accepted_ms),
        as_row("submit → FINISHED", "ms", figures.finished_ms),
        as_row(f"submit → accepted, {clients} clients", "ms", figures.concurrent_accepted_ms),
    ]
    _print(session, rows, {"benchmark": "submit", **asdict(figures)}, as_json=as_json)
    session.err.print(f"{figures.accepted_per_s:,.1f} jobs accepted/s and {figures.finished_per_s:,.1f} finished/s with {clients} clients")
    return ExitCode.OK


@bench.command("replay")
@click.option("--events", type=click.IntRange(min=1000), default=200_000, show_default=True, help="How long the log is.")
@click.option("--rounds", type=click.IntRange(1, 100), default=5, show_default=True, help="Pairs of replay and bare reading.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@pass_session
def bench_replay(session: Session, events: int, rounds: int, *, as_json: bool) -> int:
    """Measure replay from a cold start to a validated state, beside consuming and decoding the same log."""
    say = _say(session)
    with contextlib.ExitStack() as stack:
        used = stack.enter_context(_scratch(session))
        bootstrap = session.configuration.bootstrap_servers
        if not bootstrap:
            bootstrap = stack.enter_context(EmbeddedBroker(used.configuration.data_path / "broker", 0, progress=say)).bootstrap_servers
        figures = measure_replay(bootstrap, used.cluster_id, events=events, rounds=rounds, say=say)
    rows = [
        as_row("replay", "events/s", figures.replay_events_per_s),
        as_row("bare consume and decode", "events/s", figures.bare_events_per_s),
    ]
    _print(session, rows, {"benchmark": "replay", **asdict(figures)}, as_json=as_json)
    share = figures.share_of_bare
    session.err.print(f"replay runs at {share.median:.0%} of the bare rate (min {share.min:.0%}, max {share.max:.0%})")
    return ExitCode.OK
