"""Flink's counts of what tasks read and wrote, and statistics over subtasks.

The state has no such counts of tasks: they are zero and said to be incomplete, as Flink's are before a task has reported any.
"""

from collections.abc import Sequence

from pydantic import Field

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


UNKNOWN_IO = IOMetricsInfo()


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


_COUNTS = (
    "read-bytes",
    "write-bytes",
    "read-records",
    "write-records",
    "accumulated-backpressured-time",
    "accumulated-idle-time",
    "accumulated-busy-time",
)


def aggregated(durations: Sequence[dict[str, int]]) -> AggregatedTaskDetailsInfo:
    """Return the statistics over subtasks, from how long each was in each state; -1 counts for nothing."""
    states = durations[0] if durations else {}
    known = {state: [each[state] for each in durations if each[state] >= 0] for state in states}
    return AggregatedTaskDetailsInfo(
        metrics=dict.fromkeys(_COUNTS, Statistics()), status_duration={state: statistics_of(found) for state, found in known.items()}
    )
