"""`eventflink simulate`: whole clusters in virtual time, with faults; the real decisions, leaderships and fences run inside.

It needs no Kafka and no cluster. A seed that breaks an invariant breaks it again on every machine.
"""

import os
import time
from dataclasses import asdict
from typing import Any

import click

from eventflink.cli.failures import ExitCode
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.lab.simulation.run import RunResult, simulate_many
from eventflink.lab.simulation.run import simulate as simulate_seed

_REPORT_INTERVAL_S = 10.0


@click.command()
@click.option("--seeds", type=click.IntRange(min=1), default=100, show_default=True, help="How many runs.")
@click.option("--first-seed", type=click.IntRange(min=0), default=0, show_default=True, help="The seed of the first; the others count on.")
@click.option("--jobs", type=click.IntRange(1, 256), help="How many processes share the work. Default: one for each processor.")
@click.option("--transcript", is_flag=True, help="Print what happened, line by line; only with --seeds 1.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@pass_session
def simulate(session: Session, seeds: int, first_seed: int, jobs: int | None, *, transcript: bool, as_json: bool) -> int:
    """Simulate clusters with faults and check what must always hold; the exit code is 1 if a run breaks it."""
    if transcript:
        if seeds != 1:
            raise click.UsageError("--transcript prints one run: give --seeds 1 as well")
        return _print_run(session, simulate_seed(first_seed, with_transcript=True), as_json=as_json)
    started = reported = time.monotonic()
    broken: list[RunResult] = []
    totals = {"simulated_ms": 0, "log_records": 0, "leaderships": 0, "jobs": 0, "excused_overlaps": 0}
    for count, result in enumerate(simulate_many(range(first_seed, first_seed + seeds), min(jobs or os.cpu_count() or 1, seeds)), 1):
        for name in totals:
            totals[name] += getattr(result, name)
        if result.invariant:
            broken.append(result)
            _tell(session, result)
        if time.monotonic() - reported >= _REPORT_INTERVAL_S:
            reported = time.monotonic()
            session.err.print(f"• {count:,} of {seeds:,} runs, {len(broken)} with a violation, {reported - started:.0f} s", markup=False)
    seconds = time.monotonic() - started
    session.err.print(
        f"{seeds:,} runs, {len(broken)} with a violation, in {seconds:.1f} s: {totals['simulated_ms'] / 3_600_000:.1f} simulated hours, "
        f"{totals['log_records']:,} records of the log, {totals['leaderships']:,} leaderships, {totals['jobs']:,} jobs",
        markup=False,
    )
    if as_json:
        violations = [_document(result) for result in broken]
        session.print_json({"first_seed": first_seed, "seeds": seeds, "seconds": round(seconds, 3), **totals, "violations": violations})
    return ExitCode.NEGATIVE if broken else ExitCode.OK


def _tell(session: Session, result: RunResult) -> None:
    session.err.print(f"seed {result.seed} breaks {result.invariant}: {result.message}", markup=False)
    session.err.print(f"  see it again: eventflink simulate --first-seed {result.seed} --seeds 1 --transcript", markup=False)


def _print_run(session: Session, result: RunResult, *, as_json: bool) -> int:
    if not as_json:
        echo("\n".join(result.transcript))
    else:
        session.print_json(_document(result) | {"transcript": list(result.transcript)})
    summary = f"breaks {result.invariant}: {result.message}" if result.invariant else "holds"
    session.err.print(f"seed {result.seed} {summary} (transcript {result.transcript_digest})", markup=False)
    return ExitCode.NEGATIVE if result.invariant else ExitCode.OK


def _document(result: RunResult) -> dict[str, Any]:
    return {name: value for name, value in asdict(result).items() if name != "transcript"}
