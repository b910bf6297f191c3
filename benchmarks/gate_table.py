"""What `gate` prints: each figure of both commits, their ratio with its extremes over the rounds, and the verdict."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.gate import Comparison, Verdict
from benchmarks.gate_runs import Commit
from benchmarks.report import Distribution

_NOTHING: Final = "-"


def print_gate(out: Console, base: Commit, candidate: Commit, comparisons: Sequence[Comparison]) -> None:
    """Print the table, and how many figures came to which verdict."""
    title = f"{base.short} {base.subject}\n{candidate.short} {candidate.subject}"
    table = Table(title=title, title_justify="left")
    for heading in ("figure", "unit", base.short, candidate.short, "ratio (min … median … max of the rounds)", "verdict"):
        table.add_column(heading, justify="left" if heading in ("figure", "unit", "verdict") else "right")
    for each in comparisons:
        ratio = _NOTHING if each.ratio is None else f"{each.ratio.min:.2f} … {each.ratio.median:.2f} … {each.ratio.max:.2f}"
        cells = (each.figure.name, each.figure.kind, _median(each.base), _median(each.candidate), ratio, each.verdict)
        table.add_row(*cells, style="bold" if each.verdict is Verdict.WORSE else None)
    out.print(table)
    counts = Counter(each.verdict for each in comparisons)
    out.print(", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]))
    if counts[Verdict.UNCLEAR]:
        out.print(f"what is {Verdict.UNCLEAR} needs more rounds, or a quieter machine")


def _median(figure: Distribution | None) -> str:
    return _NOTHING if figure is None else f"{figure.median:,.2f}"
