"""How far a stream has come: what its subtask says of its last committed batch.

These classes mirror the schemas of the same names; a test holds the two together. Rates and durations are those of Spark's progress
of the query.
"""

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from eventflink.model.attempts import UNKNOWN_COUNT

NO_BATCH: Final = -1
"""The batch of a stream that has not committed any."""

NO_WATERMARK: Final = -1
NEVER: Final = -1
"""The time of what has not been."""

MAX_SOURCES: Final = 16
MAX_OUTPUTS: Final = 16
MAX_NAME_LENGTH: Final = 128
MAX_TOPIC_LENGTH: Final = 249
"""As Kafka has it."""
MAX_LOCATION_LENGTH: Final = 256
MAX_PARTITION_LAGS: Final = 16
"""How many partitions a subtask tells of, however many it reads: each is part of every checkpoint's record."""
MAX_OFFSET_LENGTH: Final = 16_384
MAX_NUMBER: Final = 2**48
"""The sum of ten thousand of them is still a long."""
MAX_OFFSETS_LENGTH: Final = 49_152
"""Of all sources together."""
_MAX_INT: Final = 2**31 - 1


@dataclass(slots=True, kw_only=True)
class StreamSourceProgress:
    """Where one source of a stream stands after its last committed batch."""

    name: str
    """The source."""
    end_offset: str
    """As Spark writes it: of Kafka a JSON object of the next offset by topic and partition; empty: too long to be told."""
    records_behind: int
    """How many records were there and not read yet; -1: the source does not say."""


@dataclass(slots=True, kw_only=True)
class StreamOutputProgress:
    """What one output of a stream has got from this attempt."""

    name: str
    """The output."""
    location: str
    """The topic, the directory, `module:function`, or the edge."""
    rows_written: int
    """By all batches of this attempt; -1: not all of them were seen."""
    written_at_ms: int = NEVER
    """When the newest batch began that brought it rows; -1: none has."""
    rows_since: int = 0
    """Rows that the stream has read since then, or since its first batch."""
    silent_ms: int = 0
    """From then until the last batch that read some of them."""


@dataclass(slots=True, kw_only=True)
class PartitionLag:
    """How far a stream is behind in one partition of Kafka."""

    source: str
    """The source that reads it."""
    topic: str
    """Of the partition."""
    partition: int
    """Its number."""
    records_behind: int
    """How many of its records were there and not read yet."""


@dataclass(slots=True, kw_only=True)
class StreamProgress:
    """Where a subtask of a stream stands: its last committed batch, and what that cost."""

    batch_id: int
    """The last committed batch, from 0; -1: none has been committed."""
    sources: tuple[StreamSourceProgress, ...] = ()
    """Each source of the stream."""
    input_rows: int = 0
    """How many rows the newest batch had that was not empty."""
    input_rows_per_second: float = 0.0
    """As Spark reports it."""
    processed_rows_per_second: float = 0.0
    """As Spark reports it."""
    batch_duration_ms: int = 0
    """How long the batch took."""
    slowest_phase: str = ""
    """The part of the batch that took longest, in Spark's word for it, such as `addBatch`."""
    slowest_phase_ms: int = 0
    """How long that took."""
    state_rows: int = 0
    """In all state stores."""
    state_bytes: int = 0
    """Of memory of all state stores."""
    late_rows_dropped: int = 0
    """Rows that came behind the watermark, in all batches of this attempt that were seen."""
    watermark_ms: int = NO_WATERMARK
    """Event time before which nothing more is expected; -1: the query has no watermark."""
    partitions_behind: int = 0
    """How many partitions of Kafka have records that were there and not read yet, over all sources that tell it."""
    partition_lags: tuple[PartitionLag, ...] = ()
    """Those of them that are furthest behind, at most 16."""
    rows_read: int = UNKNOWN_COUNT
    """By all batches of this attempt; -1: not all of them were seen."""
    rows_since_watermark: int = 0
    """Rows that have come since the watermark moved last; 0: it moves, or the query has none."""
    watermark_stands_ms: int = 0
    """From that move until the last batch that brought some of them."""
    state_grown_rows: int = 0
    """By how many rows the state has grown since rows were taken out of it last, or this attempt began."""
    state_grows_ms: int = 0
    """From then until the last batch with which it grew."""
    outputs: tuple[StreamOutputProgress, ...] = ()
    """In the graph's order; none where Spark does not count what it writes, as in real time. At most 16."""


def furthest_behind(lags: Iterable[PartitionLag]) -> tuple[PartitionLag, ...]:
    """Return the partitions that are furthest behind, the furthest first."""
    return tuple(
        heapq.nsmallest(MAX_PARTITION_LAGS, lags, key=lambda each: (-each.records_behind, each.source, each.topic, each.partition))
    )


def bounded_progress(progress: StreamProgress) -> StreamProgress:
    """Return a progress that a decision can hold: without sources and offsets that are too many or too long, all numbers within bounds."""
    room = MAX_OFFSETS_LENGTH
    sources = []
    for source in progress.sources[:MAX_SOURCES]:
        offset = source.end_offset if len(source.end_offset) <= min(room, MAX_OFFSET_LENGTH) else ""
        room -= len(offset)
        name, behind = source.name[:MAX_NAME_LENGTH], _bounded(source.records_behind, -1)
        sources.append(StreamSourceProgress(name=name, end_offset=offset, records_behind=behind))
    return StreamProgress(
        batch_id=_bounded(progress.batch_id, NO_BATCH),
        sources=tuple(sources),
        input_rows=_bounded(progress.input_rows),
        input_rows_per_second=_finite(progress.input_rows_per_second),
        processed_rows_per_second=_finite(progress.processed_rows_per_second),
        batch_duration_ms=_bounded(progress.batch_duration_ms),
        slowest_phase=progress.slowest_phase[:MAX_NAME_LENGTH],
        slowest_phase_ms=_bounded(progress.slowest_phase_ms),
        state_rows=_bounded(progress.state_rows),
        state_bytes=_bounded(progress.state_bytes),
        late_rows_dropped=_bounded(progress.late_rows_dropped),
        watermark_ms=_bounded(progress.watermark_ms, NO_WATERMARK),
        rows_read=_bounded(progress.rows_read, UNKNOWN_COUNT),
        rows_since_watermark=_bounded(progress.rows_since_watermark),
        watermark_stands_ms=_bounded(progress.watermark_stands_ms),
        state_grown_rows=_bounded(progress.state_grown_rows),
        state_grows_ms=_bounded(progress.state_grows_ms),
        outputs=tuple([_bounded_output(output) for output in progress.outputs[:MAX_OUTPUTS]]),
        partitions_behind=min(max(progress.partitions_behind, 0), _MAX_INT),
        partition_lags=tuple(
            [
                PartitionLag(
                    source=lag.source[:MAX_NAME_LENGTH],
                    topic=lag.topic[:MAX_TOPIC_LENGTH],
                    partition=min(max(lag.partition, 0), _MAX_INT),
                    records_behind=_bounded(lag.records_behind),
                )
                for lag in progress.partition_lags[:MAX_PARTITION_LAGS]
            ]
        ),
    )


def _bounded_output(output: StreamOutputProgress) -> StreamOutputProgress:
    return StreamOutputProgress(
        name=output.name[:MAX_NAME_LENGTH],
        location=output.location[:MAX_LOCATION_LENGTH],
        rows_written=_bounded(output.rows_written, UNKNOWN_COUNT),
        written_at_ms=_bounded(output.written_at_ms, NEVER),
        rows_since=_bounded(output.rows_since),
        silent_ms=_bounded(output.silent_ms),
    )


def _bounded(number: int, least: int = 0) -> int:
    return min(max(number, least), MAX_NUMBER)


def _finite(number: float) -> float:
    return number if math.isfinite(number) else 0.0
