"""`python -m tests.simulation`: whole clusters in virtual time, with faults; the real decisions, leaderships and fences run inside.

It needs no Kafka and no cluster. A seed that breaks an invariant breaks it again on every machine.
"""

import json
import os
import time
from dataclasses import asdict
from typing import Any, Final

import click

from tests.simulation.run import RunResult, simulate, simulate_many

_REPORT_INTERVAL_S: Final = 10.0
_BROKEN: Final = 1
"""The exit code where a run breaks an invariant."""


@click.command(context_settings={"max_content_width": 110})
@click.option("--seeds", type=click.IntRange(min=1), default=100, show_default=True, help="How many runs.")
@click.option("--first-seed", type=click.IntRange(min=0), default=0, show_default=True, help="The seed of the first; the others count on.")
@click.option("--jobs", type=click.IntRange(1, 256), help="How many processes share the work. Default: one for each processor.")
@click.option("--transcript", is_flag=True, help="Print what happened, line by line; only with --seeds 1.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@click.pass_context
def simulation(context: click.Context, seeds: int, first_seed: int, jobs: int | None, *, transcript: bool, as_json: bool) -> None:
    """Simulate clusters with faults and check what must always hold; the exit code is 1 if a run breaks it."""
    if transcript and seeds != 1:
        raise click.UsageError("--transcript prints one run: give --seeds 1 as well")
    if transcript:
        is_broken = _print_run(simulate(first_seed, with_transcript=True), as_json=as_json)
    else:
        is_broken = _print_runs(range(first_seed, first_seed + seeds), min(jobs or os.cpu_count() or 1, seeds), as_json=as_json)
    context.exit(_BROKEN if is_broken else 0)


def _print_runs(seeds: range, workers: int, *, as_json: bool) -> bool:
    started = reported = time.monotonic()
    broken: list[RunResult] = []
    totals = {"simulated_ms": 0, "log_records": 0, "leaderships": 0, "jobs": 0, "excused_overlaps": 0}
    for count, result in enumerate(simulate_many(seeds, workers), 1):
        for name in totals:
            totals[name] += getattr(result, name)
        if result.invariant:
            broken.append(result)
            _remark(f"seed {result.seed} breaks {result.invariant}: {result.message}")
            _remark(f"  see it again: python -m tests.simulation --first-seed {result.seed} --seeds 1 --transcript")
        if time.monotonic() - reported >= _REPORT_INTERVAL_S:
            reported = time.monotonic()
            _remark(f"• {count:,} of {len(seeds):,} runs, {len(broken)} with a violation, {reported - started:.0f} s")
    seconds = time.monotonic() - started
    _remark(
        f"{len(seeds):,} runs, {len(broken)} with a violation, in {seconds:.1f} s: {totals['simulated_ms'] / 3_600_000:.1f} simulated "
        f"hours, {totals['log_records']:,} records of the log, {totals['leaderships']:,} leaderships, {totals['jobs']:,} jobs"
    )
    if as_json:
        violations = [_document(result) for result in broken]
        document = {"first_seed": seeds.start, "seeds": len(seeds), "seconds": round(seconds, 3), **totals, "violations": violations}
        click.echo(json.dumps(document))
    return bool(broken)


def _print_run(result: RunResult, *, as_json: bool) -> bool:
    if not as_json:
        click.echo("\n".join(result.transcript))
    else:
        click.echo(json.dumps(_document(result) | {"transcript": list(result.transcript)}))
    summary = f"breaks {result.invariant}: {result.message}" if result.invariant else "holds"
    _remark(f"seed {result.seed} {summary} (transcript {result.transcript_digest})")
    return bool(result.invariant)


def _remark(text: str) -> None:
    click.echo(text, err=True)


def _document(result: RunResult) -> dict[str, Any]:
    return {name: value for name, value in asdict(result).items() if name != "transcript"}


if __name__ == "__main__":
    simulation(prog_name="python -m tests.simulation")
