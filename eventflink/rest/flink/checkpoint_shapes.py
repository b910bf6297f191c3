"""Checkpoints as Flink's REST API writes them: one, its vertices, its subtasks, and the statistics over several.

What Flink has of alignment, of phases and of data in flight is 0: streams commit batches, so nothing is aligned.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from eventflink.model.statuses import CheckpointStatus
from eventflink.rest.flink.io_metrics import percentile
from eventflink.rest.flink.shapes import NONE, Shape

NOT_ADDRESSABLE = "<checkpoint-not-externally-addressable>"


def _is_none(value: Any) -> bool:
    return value is None


class StatsSummary(Shape):
    """Of some numbers the least, the greatest, and what is between; all 0 of none."""

    min: int = 0
    max: int = 0
    avg: int = 0
    p50: float = 0.0
    p90: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    p999: float = 0.0


def summary_of(numbers: Sequence[int]) -> StatsSummary:
    """Return the summary of some numbers."""
    if not numbers:
        return StatsSummary()
    ordered = sorted(numbers)
    p50, p90, p95, p99, p999 = (float(percentile(ordered, share)) for share in (0.5, 0.9, 0.95, 0.99, 0.999))
    average = sum(ordered) // len(ordered)
    return StatsSummary(min=ordered[0], max=ordered[-1], avg=average, p50=p50, p90=p90, p95=p95, p99=p99, p999=p999)


class TaskCheckpointStatistics(Shape):
    """The part of a vertex in a checkpoint."""

    id: int
    status: CheckpointStatus
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int = 0
    processed_data: int = 0
    persisted_data: int = 0
    num_subtasks: int
    num_acknowledged_subtasks: int


class CheckpointStatistics(Shape):
    """A checkpoint: one that completed has a path, one that failed a reason."""

    class_name: str = Field(serialization_alias="className")
    id: int
    status: CheckpointStatus
    is_savepoint: bool
    savepoint_format: str | None = Field(default=None, serialization_alias="savepointFormat")
    trigger_timestamp: int
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int = 0
    processed_data: int = 0
    persisted_data: int = 0
    num_subtasks: int
    num_acknowledged_subtasks: int
    checkpoint_type: str
    tasks: dict[str, TaskCheckpointStatistics] = Field(default={})
    external_path: str | None = Field(default=None, exclude_if=_is_none)
    discarded: bool | None = Field(default=None, exclude_if=_is_none)
    failure_timestamp: int | None = Field(default=None, exclude_if=_is_none)
    failure_message: str | None = Field(default=None, exclude_if=_is_none)


class RestoredCheckpointStatistics(Shape):
    """From where the streams went on last. Each goes on after its own last batch, and names no checkpoint: its id is -1."""

    id: int = NONE
    restore_timestamp: int
    is_savepoint: bool = False
    external_path: str | None = None


class CheckpointCounts(Shape):
    """How many there were."""

    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class CheckpointSummary(Shape):
    """Over the completed ones of the history."""

    checkpointed_size: StatsSummary
    state_size: StatsSummary
    end_to_end_duration: StatsSummary
    alignment_buffered: StatsSummary = StatsSummary()
    processed_data: StatsSummary = StatsSummary()
    persisted_data: StatsSummary = StatsSummary()


class LatestCheckpoints(Shape):
    """The newest of each kind."""

    completed: CheckpointStatistics | None
    savepoint: CheckpointStatistics | None
    failed: CheckpointStatistics | None
    restored: RestoredCheckpointStatistics | None


class CheckpointingStatistics(Shape):
    """The checkpoints of a job, the newest first."""

    counts: CheckpointCounts
    summary: CheckpointSummary
    latest: LatestCheckpoints
    history: list[CheckpointStatistics]


class CheckpointDurationInfo(Shape):
    """The phases of a subtask's checkpoint."""

    sync: int = 0
    asynchronous: int = Field(default=0, serialization_alias="async")


class CheckpointAlignmentInfo(Shape):
    """The alignment of a subtask's checkpoint."""

    buffered: int = 0
    processed: int = 0
    persisted: int = 0
    duration: int = 0


class SubtaskCheckpointStatistics(Shape):
    """The part of a subtask in a checkpoint; of one that has not answered there is no more than that."""

    class_name: str = Field(serialization_alias="className")
    index: int
    status: str
    ack_timestamp: int | None = Field(default=None, exclude_if=_is_none)
    end_to_end_duration: int | None = Field(default=None, exclude_if=_is_none)
    checkpointed_size: int | None = Field(default=None, exclude_if=_is_none)
    state_size: int | None = Field(default=None, exclude_if=_is_none)
    checkpoint: CheckpointDurationInfo | None = Field(default=None, exclude_if=_is_none)
    alignment: CheckpointAlignmentInfo | None = Field(default=None, exclude_if=_is_none)
    start_delay: int | None = Field(default=None, exclude_if=_is_none)
    unaligned_checkpoint: bool | None = Field(default=None, exclude_if=_is_none)
    aborted: bool | None = Field(default=None, exclude_if=_is_none)


class CheckpointDurationSummary(Shape):
    """Over the phases of subtasks' checkpoints."""

    sync: StatsSummary = StatsSummary()
    asynchronous: StatsSummary = Field(default=StatsSummary(), serialization_alias="async")


class CheckpointAlignmentSummary(Shape):
    """Over the alignment of subtasks' checkpoints."""

    buffered: StatsSummary = StatsSummary()
    processed: StatsSummary = StatsSummary()
    persisted: StatsSummary = StatsSummary()
    duration: StatsSummary = StatsSummary()


class TaskCheckpointSummary(Shape):
    """Over the subtasks that have answered."""

    checkpointed_size: StatsSummary
    state_size: StatsSummary
    end_to_end_duration: StatsSummary
    checkpoint_duration: CheckpointDurationSummary = CheckpointDurationSummary()
    alignment: CheckpointAlignmentSummary = CheckpointAlignmentSummary()
    start_delay: StatsSummary = StatsSummary()


class TaskCheckpointStatisticsWithSubtaskDetails(TaskCheckpointStatistics):
    """The part of a vertex in a checkpoint, with its subtasks."""

    summary: TaskCheckpointSummary
    subtasks: list[SubtaskCheckpointStatistics]


class ExternalizedCheckpointInfo(Shape):
    """What becomes of checkpoints when the job is cancelled."""

    enabled: bool = True
    delete_on_cancellation: bool


class CheckpointConfigInfo(Shape):
    """How checkpoints of a job are taken; times in milliseconds."""

    mode: str = "exactly_once"
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int = 1
    externalization: ExternalizedCheckpointInfo
    state_backend: str = "Spark's state store"
    checkpoint_storage: str = "Spark's checkpoint location"
    unaligned_checkpoints: bool = False
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int = 0
    checkpoints_after_tasks_finish: bool = True
    state_changelog_enabled: bool = False
    changelog_storage: str = ""
    changelog_periodic_materialization_interval: int = 0
