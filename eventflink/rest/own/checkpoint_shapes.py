"""The shapes of checkpoints, and of what the subtasks of streams said when they were asked."""

from pydantic import Field

from eventflink.model.job_graph import CheckpointSettings
from eventflink.model.statuses import BackPressureLevel, CheckpointFailureReason, CheckpointStatus, SavepointMode
from eventflink.model.stream_progress import PartitionLag, StreamSourceProgress
from eventflink.rest.own.moments import OwnShape


class SavepointOfCheckpoint(OwnShape):
    """That a checkpoint is a savepoint."""

    path: str
    mode: SavepointMode


class Checkpoint(OwnShape):
    """A checkpoint."""

    checkpoint_id: int
    triggered_at: str | None
    actor: str | None
    """Who asked for it; null: it was due."""
    request_id: str | None = None
    subtasks: int
    """How many were asked."""
    status: CheckpointStatus
    acknowledged: int
    duration_ms: int
    state_rows: int
    state_bytes: int
    reason: CheckpointFailureReason | None
    """Why it failed."""
    message: str
    savepoint: SavepointOfCheckpoint | None = None


class RestoredCheckpoint(OwnShape):
    """The newest start of a query that went on after a batch of an earlier attempt."""

    at: str | None
    task: str
    batch_id: int


class LatestCheckpoints(OwnShape):
    """The newest of each kind."""

    completed: Checkpoint | None
    savepoint: Checkpoint | None
    failed: Checkpoint | None
    restored: RestoredCheckpoint | None


class CheckpointCounts(OwnShape):
    """How many there were."""

    triggered: int
    in_progress: int
    completed: int
    failed: int
    restored: int


class CheckpointsSummary(OwnShape):
    """The checkpoints of a job, without their history."""

    settings: CheckpointSettings | None
    """null: the job has no streams, and no checkpoints."""
    counts: CheckpointCounts
    latest: LatestCheckpoints
    pending: Checkpoint | None
    retained: list[int]
    """The ids of those that are retained."""


class BackPressure(OwnShape):
    """By how much a stream did not keep up when it was last asked."""

    level: BackPressureLevel
    ratio: float
    reason: str


class StreamStart(OwnShape):
    """How the query of the newest attempt began."""

    attempt: int
    at: str | None
    query_id: str
    run_id: str
    spark_session_id: str
    location: str
    restored_batch_id: int
    """The batch after which it goes on; -1: the stream began."""


class StreamOutputProgress(OwnShape):
    """What one output has got from this attempt."""

    name: str
    location: str
    rows_written: int
    """-1: not all batches were seen."""
    written_at: str | None
    """When the newest batch began that brought it rows."""
    rows_since: int
    """That were read since then, or since the first batch."""
    silent_ms: int
    """From then until the last batch that read some of them."""


class StreamAnswer(OwnShape):
    """Where a subtask stood when it was last asked."""

    attempt: int
    at: str | None
    batch_id: int
    """The last committed batch; -1: none was committed."""
    sources: list[StreamSourceProgress]
    input_rows: int
    """Of the last batch that had any."""
    input_rows_per_second: float
    processed_rows_per_second: float
    batch_duration_ms: int
    slowest_phase: str
    slowest_phase_ms: int
    state_rows: int
    state_bytes: int
    late_rows_dropped: int
    """In this attempt: rows that came behind the watermark."""
    rows_since_watermark: int = 0
    """That have come since the watermark moved last."""
    watermark_stands_ms: int = 0
    """From that move until the last of them came."""
    state_grown_rows: int = 0
    """Since rows were taken out of the state last, or the attempt began."""
    state_grows_ms: int = 0
    """From then until the last batch with which it grew."""
    outputs: list[StreamOutputProgress] = Field(default_factory=list)
    """In the graph's order; empty where Spark does not count what it writes."""
    watermark: str | None
    partitions_behind: int = 0
    partition_lags: list[PartitionLag] = Field(default_factory=list)
    """The partitions that are furthest behind."""


class StreamOfSubtask(OwnShape):
    """A subtask of a stream: how its query began, and where it stood."""

    task: str
    start: StreamStart | None
    answer: StreamAnswer | None
    back_pressure: BackPressure | None
