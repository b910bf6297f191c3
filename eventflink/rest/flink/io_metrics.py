"""Flink's counts of what tasks read and wrote, and statistics over subtasks.

An attempt says them when it has finished, and that of a stream with each checkpoint what it has read. Counts that are not known are zero
and said to be incomplete, as Flink's are before a task has reported any; a sum over attempts is of those that are known.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import Field

from eventflink.documents.one_job import AttemptInfo
from eventflink.model.attempts import UNKNOWN_COUNT, IOMetrics
from eventflink.rest.flink.shapes import Shape


class IOMetricsInfo(Shape):
    """What tasks read and wrote."""

    read_bytes: int = Field(default=0, serialization_alias="read-bytes")
    read_bytes_complete: bool = Field(default=False, serialization_alias="read-bytes-complete")
    write_bytes: int = Field(default=0, serialization_alias="write-bytes")
    write_bytes_complete: bool = Field(default=False, serialization_alias="write-bytes-complete")
    read_records: int = Field(default=0, serialization_alias="read-records")
    read_records_complete: bool = Field(default=False, serialization_alias="read-records-complete")
    write_records: int = Field(default=0, serialization_alias="write-records")
    write_records_complete: bool = Field(default=False, serialization_alias="write-records-complete")
    accumulated_backpressured_time: int = Field(default=0, serialization_alias="accumulated-backpressured-time")
    accumulated_idle_time: int = Field(default=0, serialization_alias="accumulated-idle-time")
    accumulated_busy_time: float = Field(default=0.0, serialization_alias="accumulated-busy-time")


_UNKNOWN: Final = IOMetrics()
_COUNTS: Final = ("read_bytes", "write_bytes", "read_records", "write_records")


def io_metrics_of(attempts: Iterable[AttemptInfo | None]) -> IOMetricsInfo:
    """Return what attempts read and wrote together; of None it is not known."""
    counts = [(attempt.io if attempt is not None else None) or _UNKNOWN for attempt in attempts]
    fields: dict[str, int | bool] = {}
    for name in _COUNTS:
        known = [count for each in counts if (count := getattr(each, name)) != UNKNOWN_COUNT]
        fields |= {name: sum(known), f"{name}_complete": len(known) == len(counts)}
    return IOMetricsInfo.model_validate(fields)


class Statistics(Shape):
    """Of some numbers the least, the greatest, and what is between."""

    min: int = 0
    max: int = 0
    avg: int = 0
    sum: int = 0
    median: int = 0
    p25: int = 0
    p75: int = 0
    p95: int = 0


def percentile(ordered: Sequence[int], share: float) -> int:
    """Return the number below which `share`, from 0 to 1, of the ordered numbers lie; 0 of none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0


def statistics_of(numbers: Sequence[int]) -> Statistics:
    """Return the statistics of numbers; all 0 of none."""
    if not numbers:
        return Statistics()
    ordered, total = sorted(numbers), sum(numbers)
    middle, low, high, highest = (percentile(ordered, share) for share in (0.5, 0.25, 0.75, 0.95))
    least, greatest = ordered[0], ordered[-1]
    return Statistics(min=least, max=greatest, avg=total // len(ordered), sum=total, median=middle, p25=low, p75=high, p95=highest)


class AggregatedTaskDetailsInfo(Shape):
    """Statistics over subtasks: of what they read and wrote, and of how long they were in each state."""

    metrics: dict[str, Statistics]
    status_duration: dict[str, Statistics] = Field(serialization_alias="status-duration")


_TIMES: Final = ("accumulated-backpressured-time", "accumulated-idle-time", "accumulated-busy-time")


def aggregated(durations: Sequence[dict[str, int]], counts: Sequence[IOMetricsInfo]) -> AggregatedTaskDetailsInfo:
    """Return the statistics over subtasks, from how long each was in each state, -1 counts for nothing, and what each read and wrote."""
    states = durations[0] if durations else {}
    known = {state: [each[state] for each in durations if each[state] >= 0] for state in states}
    metrics = {
        name.replace("_", "-"): statistics_of([getattr(each, name) for each in counts if getattr(each, f"{name}_complete")])
        for name in _COUNTS
    }
    return AggregatedTaskDetailsInfo(
        metrics=metrics | dict.fromkeys(_TIMES, Statistics()),
        status_duration={state: statistics_of(found) for state, found in known.items()},
    )
