"""Keys of the checkpoints of streams: when they are taken, and how long they are kept. A graph's own `checkpointing` comes before them."""

from pydantic import Field, field_validator

from eventflink.model.configuration_keys.keys import Keys
from eventflink.model.job_graph import MAX_CHECKPOINT_TIME_MS, MAX_RETAINED_CHECKPOINTS, CheckpointSettings
from eventflink.model.statuses import CheckpointRetention


class CheckpointKeys(Keys):
    """Keys of the checkpoints of streams, for graphs that say nothing about them."""

    checkpoint_interval_ms: int = Field(
        10_000,
        alias="execution.checkpointing.interval",
        ge=0,
        le=MAX_CHECKPOINT_TIME_MS,
        description="Between the triggers of two checkpoints of a job with streams; 0: none are taken unless they are asked for.",
    )
    checkpoint_timeout_ms: int = Field(
        600_000,
        alias="execution.checkpointing.timeout",
        ge=10,
        le=MAX_CHECKPOINT_TIME_MS,
        description="A checkpoint that is not complete by then is aborted.",
    )
    checkpoint_min_pause_ms: int = Field(
        0,
        alias="execution.checkpointing.min-pause",
        ge=0,
        le=MAX_CHECKPOINT_TIME_MS,
        description="Between the end of a checkpoint and the trigger of the next.",
    )
    tolerable_failed_checkpoints: int = Field(
        0,
        alias="execution.checkpointing.tolerable-failed-checkpoints",
        ge=-1,
        le=1_000_000,
        description="How many checkpoints may fail in a row before the job fails; -1: any number.",
    )
    retained_checkpoints: int = Field(
        1,
        alias="execution.checkpointing.num-retained",
        ge=1,
        le=MAX_RETAINED_CHECKPOINTS,
        description="How many completed checkpoints of a job are remembered.",
    )
    checkpoint_retention: CheckpointRetention = Field(
        CheckpointRetention.DELETE_ON_CANCELLATION,
        alias="execution.checkpointing.externalized-checkpoint-retention",
        description="What becomes of them when the job is cancelled: DELETE_ON_CANCELLATION or RETAIN_ON_CANCELLATION. Those of a failed "
        "job stay, those of a finished one go.",
    )
    savepoint_directory: str = Field(
        "",
        alias="execution.checkpointing.savepoint-dir",
        max_length=2_048,
        description="Where savepoints are made whose request names no directory: a path that all TaskExecutors share, or a URL that fsspec "
        "knows. Empty: such a request is refused.",
    )
    checkpoint_history_size: int = Field(
        10,
        alias="web.checkpoints.history",
        ge=0,
        le=1000,
        description="How many checkpoints of a job are remembered, with how they ended.",
    )

    @field_validator("checkpoint_retention", mode="before")
    @classmethod
    def _read_retention(cls, value: object) -> object:
        return value.upper().replace("-", "_") if isinstance(value, str) else value

    @property
    def default_checkpointing(self) -> CheckpointSettings:
        """When checkpoints are taken of jobs whose graph does not say."""
        return CheckpointSettings(
            interval_ms=self.checkpoint_interval_ms,
            timeout_ms=self.checkpoint_timeout_ms,
            min_pause_ms=self.checkpoint_min_pause_ms,
            tolerable_failed_checkpoints=self.tolerable_failed_checkpoints,
            max_retained=self.retained_checkpoints,
            retention=self.checkpoint_retention,
        )
