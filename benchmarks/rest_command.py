"""`rest`: what a REST process costs who asks it."""

from dataclasses import asdict
from functools import partial

import click

from benchmarks.command_support import command_of, explained, new_cell, own_broker, print_figures, sayer
from benchmarks.report import as_row
from benchmarks.rest_api import measure_changes, measure_list, measure_reads
from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session


@click.command("rest")
@click.option("--events", type=click.IntRange(min=1000), default=100_000, show_default=True, help="How long the log is that is read.")
@click.option("--jobs", type=click.IntRange(1, 1000), default=1000, show_default=True, help="How many jobs are listed.")
@click.option("--samples", type=click.IntRange(min=4), default=200, show_default=True, help="How often each is asked.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@pass_session
def bench_rest(session: Session, events: int, jobs: int, samples: int, *, as_json: bool) -> int:
    """Measure a REST process: its start, the list of jobs, the past, submissions, and how soon a change is told."""
    say = sayer(session)
    with explained(), own_broker(session) as (used, bootstrap, _):
        cell = new_cell(used)
        reads = measure_reads(cell.configuration, bootstrap, partial(command_of, cell, bootstrap), events=events, samples=samples, say=say)
        cell = new_cell(used)
        listed = measure_list(cell.configuration, bootstrap, partial(command_of, cell, bootstrap), jobs=jobs, samples=samples, say=say)
        cell = new_cell(used)
        changes = measure_changes(cell.configuration, bootstrap, partial(command_of, cell, bootstrap), samples=samples, say=say)
    rows = [
        as_row(f"start with a snapshot near the end of {events:,} events → first answer", "ms", reads.started_ms),
        as_row(f"GET /jobs/overview, {jobs:,} jobs, {listed.overview_bytes / 1000:,.0f} kB", "ms", listed.overview_ms),
        as_row(f"the cluster at an offset of {events:,} events", "ms", reads.past_ms),
        as_row(f"eventflink list, {events:,} events, a REST process runs", "ms", reads.list_ms),
        as_row("the same, nobody runs", "ms", reads.list_alone_ms),
        as_row("POST of a job → accepted", "ms", changes.submitted_ms),
        as_row("the same through Kafka", "ms", changes.kafka_ms),
        as_row("decision → server-sent event", "ms", changes.told_ms),
    ]
    print_figures(session, rows, {"benchmark": "rest", **asdict(reads), **asdict(listed), **asdict(changes)}, as_json=as_json)
    session.err.print(
        f"{listed.overview_per_s:,.1f} lists of jobs/s with {listed.clients} clients; "
        f"the whole past can be asked for {reads.indexed_s:.1f} s after the start"
    )
    return ExitCode.OK
