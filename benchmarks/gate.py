"""Whether a commit costs more than another one: the figures that are compared, and the verdict on each.

Only figures are compared that a busy machine changes little: processor time per job and per replayed event, the share of a core that an
idle process takes, and ratios to the floor of the same run. The rule: what noise can explain fails nothing. A figure is worse only where
its median over the rounds exceeds the other commit's by more than the tolerance, and every round of the one lies above every round of the
other. Where the commits come from and how they are run is `gate_runs.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Any, Final

from benchmarks.process_cpu import CLIENT
from benchmarks.report import Distribution
from benchmarks.submit_trace import FLOOR

ALL_SERVERS: Final = "all servers"
_OF_THE_BENCHMARK: Final = (CLIENT, FLOOR)
"""Processes that are no part of a cluster."""


class Kind(StrEnum):
    """What a figure measures, and in which unit."""

    JOB = "ms of CPU a job"
    IDLE = "% of a core, idle"
    FLOOR = "times the floor"
    REPLAY = "µs of CPU an event"


LEAST_DIFFERENCE: Final[Mapping[Kind, float]] = {Kind.JOB: 0.05, Kind.IDLE: 0.3, Kind.FLOOR: 0.2, Kind.REPLAY: 1.0}
"""What never matters, however large a part it is of a small figure."""

_BLUR_MS: Final = 20.0
"""Two ticks of the kernel's clock: so far apart may two readings of the same processor time be."""


@dataclass(frozen=True, slots=True, order=True)
class Figure:
    """Something that is measured of each commit, once a round."""

    kind: Kind
    name: str
    blur: float = field(default=0.0, compare=False)
    """By how much two measurements of the same may differ, because processor time is counted in ticks."""


class Verdict(StrEnum):
    """What the rounds say of a figure."""

    SAME = "same"
    """The medians differ by no more than the tolerance."""
    UNCLEAR = "unclear"
    """They do, but the rounds overlap: noise can explain it."""
    BETTER = "better"
    WORSE = "WORSE"
    MISSING = "not in both"
    """A process that only one of the commits has."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of both commits, over all rounds."""

    figure: Figure
    base: Distribution | None
    candidate: Distribution | None
    ratio: Distribution | None
    """The candidate's over the base's, by rounds; None where one is missing or takes nothing."""
    verdict: Verdict


def figures_of(submit: Mapping[str, Any], replay: Mapping[str, Any]) -> dict[Figure, float]:
    """Return the figures of one round from what `submit --trace` and `replay` print as JSON.

    Raises:
        KeyError: this is not what they print.

    """
    figures: dict[Figure, float] = {}
    shares = {name: 100 * share for name, share in submit["idle_share"].items() if name not in _OF_THE_BENCHMARK}
    for name, share in (shares | {ALL_SERVERS: sum(shares.values())}).items():
        figures[Figure(Kind.IDLE, name)] = share
    for mode in (submit["one_at_a_time"], submit["concurrent"]):
        in_flight = "one at a time" if mode["in_flight"] == 1 else f"{mode['in_flight']} in flight"
        costs = {name: cost["net_ms"] for name, cost in mode["cpu"].items() if name not in _OF_THE_BENCHMARK}
        blur = _BLUR_MS / mode["accepted_ms"]["count"]
        for name, cost_ms in (costs | {ALL_SERVERS: sum(costs.values())}).items():
            figures[Figure(Kind.JOB, f"{in_flight}: {name}", blur)] = cost_ms
        figures[Figure(Kind.FLOOR, f"{in_flight}: accepted, median")] = mode["accepted_median_ratio"]["median"]
    if (cpu_us := replay.get("replay_cpu_us_per_event")) is not None:  # Commits are compared that did not measure it yet.
        figures[Figure(Kind.REPLAY, "replay")] = cpu_us["median"]
    return figures


def compare(
    base: Sequence[Mapping[Figure, float]], candidate: Sequence[Mapping[Figure, float]], tolerances: Mapping[Kind, float]
) -> list[Comparison]:
    """Compare all figures of as many rounds of both; a tolerance is a part of the base's figure, 0.1 being a tenth."""
    found = dict.fromkeys(figure for measured in (*base, *candidate) for figure in measured)
    return [_compare(figure, _rounds(base, figure), _rounds(candidate, figure), tolerances[figure.kind]) for figure in found]


def _rounds(measured: Sequence[Mapping[Figure, float]], figure: Figure) -> list[float]:
    """Return the figure of each round; nothing where a round lacks it: half a comparison is none."""
    values = [figures[figure] for figures in measured if figure in figures]
    return values if len(values) == len(measured) else []


def _compare(figure: Figure, base: list[float], candidate: list[float], tolerance: float) -> Comparison:
    if not base or not candidate:
        return Comparison(
            figure, Distribution.of(base) if base else None, Distribution.of(candidate) if candidate else None, None, Verdict.MISSING
        )
    difference = median(candidate) - median(base)
    verdict = Verdict.SAME
    if abs(difference) > max(LEAST_DIFFERENCE[figure.kind], figure.blur, tolerance * abs(median(base))):
        verdict = Verdict.UNCLEAR
        if min(candidate) > max(base):
            verdict = Verdict.WORSE
        elif max(candidate) < min(base):
            verdict = Verdict.BETTER
    has_ratio = min(*base, *candidate) > 0
    ratio = Distribution.of([ours / theirs for ours, theirs in zip(candidate, base, strict=True)]) if has_ratio else None
    return Comparison(figure, Distribution.of(base), Distribution.of(candidate), ratio, verdict)
