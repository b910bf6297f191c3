"""`stream`: what streams cost, how long a record takes, and what the death of a process does to them."""

import os
from dataclasses import asdict
from functools import partial

import click

from benchmarks.command_support import command_of, explained, own_broker, print_figures, sayer
from benchmarks.report import Distribution, as_row
from benchmarks.stream_cluster import StreamCluster
from benchmarks.stream_faults import GAP_AIMS_MS, Fault, FaultBench
from benchmarks.stream_latency import CORES, measure_latency
from benchmarks.stream_savepoints import PROBES, measure_savepoints
from benchmarks.stream_throughput import Side, ThroughputBench
from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session


@click.command("stream")
@click.option("--rounds", type=click.IntRange(1, 100), default=5, show_default=True, help="How often job and plain PySpark alternate.")
@click.option("--rows", type=click.IntRange(min=600), default=1_200_000, show_default=True, help="How many records each of them reads.")
@click.option("--latency", is_flag=True, help="Measure instead how long a record takes, by trigger.")
@click.option(
    "--seconds", type=click.IntRange(1, 3600), default=60, show_default=True, help="With --latency: how long each trigger is measured."
)
@click.option(
    "--faults", type=click.Choice([fault.value for fault in Fault]), help="Measure instead what kill -9 of this process does to a stream."
)
@click.option(
    "--savepoints",
    type=click.IntRange(PROBES, 100_000_000),
    multiple=True,
    metavar="KEYS",
    help="Measure instead what a savepoint costs of a stream with so many keys in state; repeatable.",
)
@click.option("--runs", type=click.IntRange(1, 1000), default=10, show_default=True, help="With --faults: how often it is killed.")
@click.option("--seed", type=int, default=1, show_default=True, help="With --faults: of the moments at which it is killed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@pass_session
def bench_stream(
    session: Session,
    rounds: int,
    rows: int,
    seconds: int,
    faults: str | None,
    savepoints: tuple[int, ...],
    runs: int,
    seed: int,
    *,
    latency: bool,
    as_json: bool,
) -> int:
    """Measure a stream from Kafka to Kafka beside plain PySpark on the same Spark server.

    The exit code is 1 if a record was repeated or is missing, or a restored job lacks state. docs/performance.md says what is measured.
    """
    if sum(map(bool, (latency, savepoints, faults))) > 1:
        raise click.UsageError("--latency, --savepoints and --faults exclude each other")
    if faults == Fault.BROKER and session.configuration.bootstrap_servers:
        raise click.UsageError("--faults broker kills an embedded broker, and bootstrap.servers names another Kafka")
    if latency:
        master = f"local[{max(CORES, os.cpu_count() or 1)}]"
        session = Session(session.config, {"spark.local.master": master, **session.overrides}, verbose=session.verbose)
    with (
        explained(),
        own_broker(session) as (used, bootstrap, broker),
        StreamCluster(used.configuration, bootstrap, partial(command_of, used, bootstrap)) as cluster,
    ):
        if faults:
            bench = FaultBench(cluster, Fault(faults), broker, sayer(session))
            return _report_faults(session, bench, runs, seed, as_json=as_json)
        if savepoints:
            return _report_savepoints(session, cluster, savepoints, as_json=as_json)
        if latency:
            return _report_latency(session, cluster, seconds, as_json=as_json)
        return _report_throughput(session, cluster, rounds, rows, as_json=as_json)


def _report_faults(session: Session, bench: FaultBench, runs: int, seed: int, *, as_json: bool) -> int:
    figures = bench.measure(runs=runs, seed=seed)
    done = figures.runs
    rows = [
        as_row(f"longest gap between commits, {figures.fault} killed", "ms", figures.gap_ms),
        as_row("the same before the kill", "ms", Distribution.of([run.usual_gap_ms for run in done])),
        as_row("batches repeated in a run", "batches", Distribution.of([run.batches_repeated for run in done])),
        as_row("records of aborted transactions in a run", "records", Distribution.of([run.aborted for run in done])),
    ]
    print_figures(session, rows, {"benchmark": "stream-faults", **asdict(figures)}, as_json=as_json)
    session.err.print(
        f"{figures.fault} killed {len(done)} times: {sum(run.fed for run in done):,} records in, "
        f"{sum(run.committed for run in done):,} committed, {sum(run.repeated for run in done)} repeated, "
        f"{sum(run.missing for run in done)} missing"
    )
    if (aim_ms := GAP_AIMS_MS.get(figures.fault)) is not None:
        late = sum(run.gap_ms > aim_ms for run in done)
        session.err.print(f"the gap is to be at most {aim_ms:,} ms; it was longer in {late} of {len(done)} runs")
    return ExitCode.OK if figures.is_exact else ExitCode.NEGATIVE


def _report_latency(session: Session, cluster: StreamCluster, seconds: int, *, as_json: bool) -> int:
    figures = measure_latency(cluster, seconds=seconds, say=sayer(session))
    rows = [as_row(f"fed → read committed, {each.trigger} {each.trigger_ms}", "ms", each.latency_ms) for each in figures]
    print_figures(session, rows, {"benchmark": "stream-latency", "triggers": [asdict(each) for each in figures]}, as_json=as_json)
    return ExitCode.OK if all(each.counts.is_exact for each in figures) else ExitCode.NEGATIVE


def _report_savepoints(session: Session, cluster: StreamCluster, keys: tuple[int, ...], *, as_json: bool) -> int:
    figures = measure_savepoints(cluster, keys, sayer(session))
    rows = [
        row
        for each in figures
        for row in (
            as_row(f"{each.keys:,} keys: stopped with a savepoint", "ms", Distribution.of([each.stop_ms])),
            as_row(f"{each.keys:,} keys: of that the copy of {each.files} files", "ms", Distribution.of([each.copy_ms])),
            as_row(f"{each.keys:,} keys: size", "bytes", Distribution.of([each.bytes])),
            as_row(f"{each.keys:,} keys: first job, submission to first commit", "ms", Distribution.of([each.first_start_ms])),
            as_row(f"{each.keys:,} keys: restored job, submission to first commit", "ms", Distribution.of([each.restored_start_ms])),
        )
    ]
    print_figures(session, rows, {"benchmark": "stream-savepoints", "keys": [asdict(each) for each in figures]}, as_json=as_json)
    return ExitCode.OK if all(each.counted_right == PROBES for each in figures) else ExitCode.NEGATIVE


def _report_throughput(session: Session, cluster: StreamCluster, rounds: int, count: int, *, as_json: bool) -> int:
    figures = ThroughputBench(cluster, sayer(session)).measure(rounds=rounds, rows=count)
    rows = [*_side_rows("job", figures.job), *_side_rows("plain PySpark", figures.plain)]
    print_figures(session, rows, {"benchmark": "stream", **asdict(figures)}, as_json=as_json)
    for name, ratio in (("time", figures.time_ratio), ("processor time", figures.cpu_ratio)):
        session.err.print(f"the job takes {ratio.median:.2f} of plain PySpark's {name} ({ratio.min:.2f} … {ratio.max:.2f})")
    return ExitCode.OK if all(each.is_exact for each in figures.counts) else ExitCode.NEGATIVE


def _side_rows(name: str, side: Side) -> list[tuple[str, ...]]:
    return [
        as_row(f"{name}: between first and last commit", "rows/s", side.rows_per_s),
        as_row(f"{name}: from its submission to its end", "s", side.wall_s),
        *[as_row(f"{name}: processor, {part}", "µs/row", used) for part, used in side.cpu_us_per_row.items()],
    ]
