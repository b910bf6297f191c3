"""What every benchmark reports: min, median, p99 and max of what it measured, and the machine it ran on."""

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import psutil


@dataclass(frozen=True, slots=True)
class Distribution:
    """A measured quantity over all its samples."""

    count: int
    min: float
    median: float
    p99: float
    max: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> "Distribution":
        """Summarise at least one sample."""
        ordered = sorted(samples)
        p99 = ordered[min(len(ordered) - 1, (len(ordered) * 99) // 100)]
        return cls(len(ordered), *(round(v, 3) for v in (ordered[0], statistics.median(ordered), p99, ordered[-1])))


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "processor": platform.processor() or platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "confluent_kafka": version("confluent-kafka"),
        "fastavro": version("fastavro"),
        "faust_streaming": version("faust-streaming"),
        "pyspark": version("pyspark"),
    }


def as_row(name: str, unit: str, distribution: Distribution) -> tuple[str, ...]:
    """Return the cells of a table: name, unit, min, median, p99, max, samples."""
    values = asdict(distribution)
    return (name, unit, *(f"{values[key]:,.1f}" for key in ("min", "median", "p99", "max")), str(distribution.count))
