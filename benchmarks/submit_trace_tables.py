"""What `submit --trace` prints: the cluster beside its floor, the legs of the way, and the processor by process."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.report import Distribution
from benchmarks.submit_trace import FLOOR, CpuCost, ModeFigures, TraceFigures
from benchmarks.trace_legs import Leg

QUIET_SHARE: Final = 0.05
"""A machine that does less than this beside a benchmark, as a share of one core, is quiet."""

_NOTHING: Final = ""


def print_trace(out: Console, figures: TraceFigures) -> None:
    """Print all tables."""
    for mode in (figures.one_at_a_time, figures.concurrent):
        name = "one at a time" if mode.in_flight == 1 else f"{mode.in_flight} in flight"
        out.print(_comparison(name, mode))
        out.print(_legs(f"client → reply, {name}", mode.to_reply, mode.floor_to_reply))
        for leg in mode.delivery:
            out.print(f"{leg.start} → {leg.end}: mean {leg.mean_ms:.2f} ms, median {leg.median_ms:.2f}, p99 {leg.p99_ms:.2f}")
        if mode.to_finished:
            out.print(_legs(f"reply → FINISHED, {name}", mode.to_finished, ()))
    out.print(_processor(figures))
    records = ", ".join(f"{count:.1f} in '{topic}'" for topic, count in figures.records_per_job.items() if count)
    out.print(f"records for a job: {records}")
    others = f"{figures.others_share:.0%} of a core was taken by what is not measured here"
    out.print(f"{others}: {'a quiet machine' if figures.others_share < QUIET_SHARE else 'NOT a quiet machine: compare ratios only'}")


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number == 0 else "right")
    return table


def _comparison(name: str, mode: ModeFigures) -> Table:
    table = _table(name, "figure", "unit", "cluster", "floor", "ratio (min … median … max of the rounds)")
    table.add_row(
        "accepted, median", "ms", f"{mode.accepted_ms.median:,.2f}", f"{mode.floor_ms.median:,.2f}", _ratio(mode.accepted_median_ratio)
    )
    table.add_row("accepted, p99", "ms", f"{mode.accepted_ms.p99:,.2f}", f"{mode.floor_ms.p99:,.2f}", _ratio(mode.accepted_p99_ratio))
    if mode.in_flight > 1:  # One at a time, the rate says nothing that the median does not say.
        rates = f"{mode.accepted_per_s.median:,.1f}", f"{mode.floor_per_s.median:,.1f}"
        table.add_row("accepted", "jobs/s", *rates, _ratio(mode.accepted_per_s_ratio))
    if mode.finished_ms is not None and mode.finished_per_s is not None:
        table.add_row("FINISHED, median", "ms", f"{mode.finished_ms.median:,.2f}", _NOTHING, _NOTHING)
        table.add_row("FINISHED, p99", "ms", f"{mode.finished_ms.p99:,.2f}", _NOTHING, _NOTHING)
        table.add_row("FINISHED", "jobs/s", f"{mode.finished_per_s.median:,.1f}", _NOTHING, _NOTHING)
    return table


def _ratio(ratio: Distribution) -> str:
    return f"{ratio.min:.2f} … {ratio.median:.2f} … {ratio.max:.2f}"


def _legs(title: str, found: Sequence[Leg], bare: Sequence[Leg]) -> Table:
    table = _table(title, "leg", "where", "mean ms", "median ms", "p99 ms", "CPU ms", *(("floor: mean ms", "CPU ms") if bare else ()))
    floor = {(leg.start, leg.end): leg for leg in bare}
    for leg in found:
        cells = [f"{leg.start} → {leg.end}", leg.place, f"{leg.mean_ms:.2f}", f"{leg.median_ms:.2f}", f"{leg.p99_ms:.2f}", _cpu(leg)]
        if bare:
            other = floor.get((leg.start, leg.end))
            cells += [f"{other.mean_ms:.2f}", _cpu(other)] if other is not None else [_NOTHING, _NOTHING]
        table.add_row(*cells)
    sums = ["sum", _NOTHING, f"{sum(leg.mean_ms for leg in found):.2f}", _NOTHING, _NOTHING, _NOTHING]
    table.add_row(*sums, *((f"{sum(leg.mean_ms for leg in bare):.2f}", _NOTHING) if bare else ()), style="bold")
    return table


def _cpu(leg: Leg) -> str:
    return _NOTHING if leg.cpu_ms is None else f"{leg.cpu_ms:.2f}"


def _processor(figures: TraceFigures) -> Table:
    modes = (figures.one_at_a_time, figures.concurrent)
    headings = [f"{heading}, {mode.in_flight} in flight" for mode in modes for heading in ("ms/job", "less idle", "waits for a core")]
    table = _table("processor", "process", "idle, % of a core", *headings)
    for name, share in figures.idle_share.items():
        costs = [(mode.floor_cpu if name == FLOOR else mode.cpu)[name] for mode in modes]
        table.add_row(name, f"{share:.1%}", *_costs(costs))
    if figures.broker_alone_share is not None:
        table.add_row("broker, alone", f"{figures.broker_alone_share:.1%}", *[_NOTHING] * 6)
    for name in figures.one_at_a_time.floor_cpu:
        if name != FLOOR:
            table.add_row(f"{name}, for the floor", _NOTHING, *_costs([mode.floor_cpu[name] for mode in modes]))
    servers = [name for name in figures.one_at_a_time.cpu if name != "client"]
    sums = [
        CpuCost(sum(mode.cpu[name].gross_ms for name in servers), sum(mode.cpu[name].net_ms for name in servers), None) for mode in modes
    ]
    table.add_row("all servers", f"{sum(figures.idle_share[name] for name in servers):.1%}", *_costs(sums), style="bold")
    return table


def _costs(costs: Sequence[CpuCost]) -> list[str]:
    return [_NOTHING if value is None else f"{value:.2f}" for cost in costs for value in (cost.gross_ms, cost.net_ms, cost.waited_ms)]
