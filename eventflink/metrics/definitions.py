"""What a metric is: name, type, scope, labels, meaning, and the plain counters and histograms that hot paths write.

Whatever is counted in a loop that decides is counted in plain Python objects that only this loop touches: no lock is taken, no label is
looked up. Prometheus sees them only when it asks (`registry.py`).
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import auto
from typing import Final

from eventflink.model.metric_settings import MetricScope
from eventflink.model.statuses import UpperStrEnum


class MetricType(UpperStrEnum):
    """How a metric moves."""

    COUNTER = auto()
    """Only upwards, and back to nothing when its process starts again."""
    GAUGE = auto()
    HISTOGRAM = auto()


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; `name` is the whole name as it is scraped (that of a histogram without `_bucket`, `_sum`, `_count`)."""

    name: str
    metric_type: MetricType
    scope: MetricScope
    meaning: str
    labels: tuple[str, ...] = ()
    """Its own, besides those of the scope."""
    is_foreign: bool = False
    """It comes from a collector of prometheus_client."""


@dataclass(slots=True)
class Histogram:
    """How often which values were seen; `boundaries` are inclusive upper bounds, ascending."""

    boundaries: Sequence[float]
    counts: list[int] = field(init=False)
    total: float = 0.0

    def __post_init__(self) -> None:
        """Begin with nothing; the last count is of values above all boundaries."""
        self.counts = [0] * (len(self.boundaries) + 1)

    def observe(self, value: float) -> None:
        """Take one value."""
        self.counts[bisect_left(self.boundaries, value)] += 1
        self.total += value


LATENCY_BOUNDARIES: Final = (
    0.000_1,
    0.000_25,
    0.000_5,
    0.001,
    0.002_5,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
)
"""Seconds: from a decision that nobody waits for to one that costs the leadership."""
