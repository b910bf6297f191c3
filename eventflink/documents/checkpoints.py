"""Checkpoints of a job, and what the subtasks of its streams said when they were asked."""

from dataclasses import dataclass, field

from eventflink.model.job_graph import CheckpointSettings
from eventflink.model.statuses import BackPressureLevel, CheckpointFailureReason, CheckpointStatus, JobStatus, SavepointMode
from eventflink.model.stream_progress import PartitionLag, StreamSourceProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointOfCheckpoint:
    """That a checkpoint is a savepoint."""

    path: str
    mode: SavepointMode
    stops_streams: bool
    """Whether nothing is read after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """A checkpoint."""

    checkpoint_id: int
    triggered_at: str
    actor: str | None
    """Who asked for it; null: it was due."""
    request_id: str | None
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
    savepoint: SavepointOfCheckpoint | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredCheckpoint:
    """The newest start of a query that went on after a batch of an earlier attempt."""

    at: str
    task: str
    batch_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestCheckpoints:
    """The newest of each kind."""

    completed: CheckpointRow | None = None
    savepoint: CheckpointRow | None = None
    failed: CheckpointRow | None = None
    restored: RestoredCheckpoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedCheckpoints:
    """How many there were."""

    triggered: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    restored: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsSummary:
    """The checkpoints of a job, without their history."""

    settings: CheckpointSettings | None = None
    """null: the job has no streams, and no checkpoints."""
    counts: CountedCheckpoints = CountedCheckpoints()
    latest: NewestCheckpoints = NewestCheckpoints()
    pending: CheckpointRow | None = None
    retained: list[int] = field(default_factory=list)
    """The ids of those that are retained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackPressure:
    """By how much a stream did not keep up when it was last asked; `views/back_pressure.py` says what the ratio is."""

    level: BackPressureLevel
    ratio: float
    """From 0 to 1."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackPressureOfSubtask(BackPressure):
    """The back-pressure of a subtask of a vertex."""

    subtask_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskBackPressure(BackPressureOfSubtask):
    """The back-pressure of a subtask, and when it was asked."""

    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorBackPressureStats:
    """How far a stream does not keep up: as far as its worst subtask."""

    job_id: str
    vertex_id: str
    level: BackPressureLevel | None
    """null: no subtask has been asked yet."""
    subtasks: list[SubtaskBackPressure]
    log_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStart:
    """How the query of the newest attempt began."""

    attempt: int
    at: str
    query_id: str
    run_id: str
    spark_session_id: str
    location: str
    restored_batch_id: int
    """The batch after which it goes on; -1: the stream began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOfStream:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAnswer:
    """Where a subtask stood when it was last asked."""

    attempt: int
    at: str
    batch_id: int
    """The last committed batch; -1: none was committed."""
    sources: list[StreamSourceProgress]
    input_rows: int
    """How many rows the newest batch had that was not empty."""
    input_rows_per_second: float
    processed_rows_per_second: float
    batch_duration_ms: int
    slowest_phase: str
    slowest_phase_ms: int
    state_rows: int
    state_bytes: int
    late_rows_dropped: int
    """In this attempt: rows that came behind the watermark."""
    rows_read: int
    """By all batches of this attempt; -1: not all of them were seen."""
    rows_since_watermark: int
    """That have come since the watermark moved last."""
    watermark_stands_ms: int
    """From that move until the last of them came."""
    state_grown_rows: int
    """Since rows were taken out of the state last, or the attempt began."""
    state_grows_ms: int
    """From then until the last batch with which it grew."""
    outputs: list[OutputOfStream]
    """In the graph's order; empty where Spark does not count what it writes."""
    watermark: str | None
    partitions_behind: int
    partition_lags: list[PartitionLag]
    """The partitions that are furthest behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOfSubtask:
    """A subtask of a stream: how its query began, and where it stood."""

    task: str
    vertex_id: str
    subtask_index: int
    start: QueryStart | None
    answer: StreamAnswer | None
    back_pressure: BackPressure | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsPage(CheckpointsSummary):
    """The checkpoints of a job."""

    job_id: str
    name: str
    status: JobStatus
    history: list[CheckpointRow] = field(default_factory=list)
    """The newest that have ended, the newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCheckpoints(CheckpointsPage):
    """The checkpoints of a job, and where each subtask of a stream stood when it was last asked."""

    subtasks: list[StreamOfSubtask] = field(default_factory=list)
    subtasks_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsAsOf(JobCheckpoints):
    """The checkpoints of a job, and the record of the log that they reflect."""

    epoch: int
    log_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedCheckpoint:
    """A checkpoint that is complete."""

    job_id: str
    checkpoint_id: int
    duration_ms: int
    state_rows: int
    """In the state stores of all streams."""
    state_bytes: int
    savepoint_path: str = ""
    """The directory of the savepoint; empty: the checkpoint is no savepoint."""
