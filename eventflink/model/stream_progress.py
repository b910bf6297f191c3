"""How far a stream has come: what its subtask says of its last committed batch.

These classes mirror the schemas of the same names; a test holds the two together. Rates and durations are those of Spark's progress
of the query.
"""

from dataclasses import dataclass
from typing import Final

NO_BATCH: Final = -1
"""The batch of a stream that has not committed any."""

NO_WATERMARK: Final = -1


@dataclass(slots=True, kw_only=True)
class StreamSourceProgress:
    """Where one source of a stream stands after its last committed batch."""

    name: str
    end_offset: str
    """As Spark writes it: of Kafka a JSON object of the next offset by topic and partition; empty: too long to be told."""
    records_behind: int
    """How many records were there and not read yet; -1: the source does not say."""


@dataclass(slots=True, kw_only=True)
class StreamProgress:
    """Where a subtask of a stream stands: its last committed batch, and what that cost."""

    batch_id: int
    """The last committed batch, from 0; -1: none has been committed."""
    sources: tuple[StreamSourceProgress, ...] = ()
    input_rows: int = 0
    """Of the last batch that had any."""
    input_rows_per_second: float = 0.0
    processed_rows_per_second: float = 0.0
    batch_duration_ms: int = 0
    slowest_phase: str = ""
    """The part of the batch that took longest, in Spark's word for it, such as `addBatch`."""
    slowest_phase_ms: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    late_rows_dropped: int = 0
    """Of the last batch: rows that came behind the watermark."""
    watermark_ms: int = NO_WATERMARK
    """Event time before which nothing more is expected; -1: the query has no watermark."""
