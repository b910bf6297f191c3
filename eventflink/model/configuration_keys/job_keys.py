"""Keys of jobs: what becomes of failures, which scheduler they have, how long they are kept."""

from typing import Self

from pydantic import Field, field_validator, model_validator

from eventflink.model.configuration_keys.keys import Keys
from eventflink.model.job_graph import (
    MAX_FAILURE_RATE,
    MAX_KEEP_OUTPUTS_MS,
    MAX_RESTART_DELAY_MS,
    MAX_RESTART_INTERVAL_MS,
    UNLIMITED_RESTARTS,
)
from eventflink.model.statuses import FailoverStrategy, JobStoreType, RestartStrategyType, SchedulerType


class JobKeys(Keys):
    """Keys of jobs: what becomes of failures, which scheduler they have, how long they are kept."""

    job_store_capacity: int = Field(
        10_000, alias="jobstore.max-capacity", ge=1, description="How many ended jobs the masters keep in memory."
    )
    job_store_type: JobStoreType = Field(
        JobStoreType.MEMORY,
        alias="jobstore.type",
        description="Where ended jobs are: memory (of the masters), or file (in archives, of which the masters keep the newest in memory).",
    )
    job_store_expiration_ms: int = Field(
        0,
        alias="jobstore.expiration-time",
        ge=0,
        description="For how long an ended job stays in memory; 0: without an end. Milliseconds, where Flink counts seconds.",
    )
    job_store_cache_size: int = Field(
        1000,
        alias="jobstore.cache-size",
        ge=0,
        description="With jobstore.type file, how many archived jobs stay in memory; and how many archives a master that was asked for "
        "them keeps. Jobs, where Flink counts bytes.",
    )
    keep_outputs_ms: int = Field(
        86_400_000,
        alias="execution.keep-outputs",
        ge=0,
        le=MAX_KEEP_OUTPUTS_MS,
        description="For how long after its end the outputs of a batch job that failed or was cancelled stay, so that a rerun can take "
        "them; 0: not at all. A job may say otherwise (keep).",
    )
    archive_directory: str = Field(
        "",
        alias="jobmanager.archive.fs.dir",
        description="Where the archives of ended jobs are written, below a folder named by cluster.id: a directory, or an fsspec URL "
        "that all masters reach. Default: below data.directory with jobstore.type file, else nowhere.",
    )
    flink_archives: bool = Field(
        False,  # noqa: FBT003 - a default, not an argument
        alias="jobmanager.archive.flink-format",
        description="Whether the archives are written in Flink's format as well, where Flink's own history server looks for them in "
        "that directory.",
    )
    restart_strategy: RestartStrategyType = Field(
        RestartStrategyType.NONE,
        alias="restart-strategy.type",
        description="For graphs that name none: none, fixed-delay, exponential-delay or failure-rate. Where it is not set, jobs with "
        "streams have exponential-delay.",
    )
    restart_attempts: int = Field(
        1, alias="restart-strategy.fixed-delay.attempts", ge=0, le=UNLIMITED_RESTARTS, description="Restarts of one job."
    )
    restart_delay_ms: int = Field(
        1000, alias="restart-strategy.fixed-delay.delay", ge=0, le=MAX_RESTART_DELAY_MS, description="Before each restart."
    )
    initial_backoff_ms: int = Field(
        1000,
        alias="restart-strategy.exponential-delay.initial-backoff",
        ge=1,
        le=MAX_RESTART_DELAY_MS,
        description="Before the first restart.",
    )
    max_backoff_ms: int = Field(
        300_000,
        alias="restart-strategy.exponential-delay.max-backoff",
        ge=1,
        le=MAX_RESTART_DELAY_MS,
        description="Before any restart at the most.",
    )
    backoff_multiplier: float = Field(
        2.0,
        alias="restart-strategy.exponential-delay.backoff-multiplier",
        ge=1,
        le=1000,
        allow_inf_nan=False,
        description="How many times as long as the one before each wait is.",
    )
    reset_backoff_threshold_ms: int = Field(
        3_600_000,
        alias="restart-strategy.exponential-delay.reset-backoff-threshold",
        ge=1,
        le=MAX_RESTART_INTERVAL_MS,
        description="After this long without a failure the first wait applies again.",
    )
    jitter_factor: float = Field(
        0.1,
        alias="restart-strategy.exponential-delay.jitter-factor",
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="By which part a wait may be longer or shorter.",
    )
    max_failures_per_interval: int = Field(
        1,
        alias="restart-strategy.failure-rate.max-failures-per-interval",
        ge=1,
        le=MAX_FAILURE_RATE,
        description="How many failures within the interval are restarted; one more fails the job.",
    )
    failure_rate_interval_ms: int = Field(
        60_000,
        alias="restart-strategy.failure-rate.failure-rate-interval",
        ge=1,
        le=MAX_RESTART_INTERVAL_MS,
        description="Within which they are counted.",
    )
    failure_rate_delay_ms: int = Field(
        1000, alias="restart-strategy.failure-rate.delay", ge=0, le=MAX_RESTART_DELAY_MS, description="Before each restart."
    )
    failover_strategy: FailoverStrategy = Field(
        FailoverStrategy.REGION,
        alias="jobmanager.execution.failover-strategy",
        description="What starts again when an attempt fails: region (the subtask, and whose output it lost) or full (the whole job).",
    )
    scheduler: SchedulerType = Field(
        SchedulerType.DEFAULT,
        alias="jobmanager.scheduler",
        description="For graphs that name none: default (a vertex has the parallelism of its graph) or adaptive (what slots there are).",
    )
    scheduler_mode: str = Field(
        "",
        alias="scheduler-mode",
        pattern=r"^(reactive)?$",
        description="reactive: jobs are adaptive, unless their graph says default, and use all slots that there are.",
    )
    resource_wait_timeout_ms: int | None = Field(
        None,
        alias="jobmanager.adaptive-scheduler.resource-wait-timeout",
        ge=-1,
        description="An adaptive job without any slot fails after so long; -1: never. Default: 300000; -1 with scheduler-mode: reactive.",
    )
    resource_stabilization_timeout_ms: int | None = Field(
        None,
        alias="jobmanager.adaptive-scheduler.resource-stabilization-timeout",
        ge=0,
        description="For so long a vertex waits for all slots that it wants, and rests between rescales. Default: 10000; 0 when reactive.",
    )
    min_parallelism_increase: int = Field(
        1,
        alias="jobmanager.adaptive-scheduler.min-parallelism-increase",
        ge=1,
        description="A vertex that runs is only rescaled for so many more subtasks.",
    )
    exception_history_size: int = Field(
        16, alias="web.exception-history-size", ge=0, le=1000, description="How many failures of a job, with what followed, are remembered."
    )

    @field_validator("restart_strategy", "failover_strategy", "job_store_type", "scheduler", mode="before")
    @classmethod
    def _read_strategy(cls, value: object) -> object:
        return value.upper().replace("-", "_") if isinstance(value, str) else value

    @field_validator("restart_strategy")
    @classmethod
    def _check_restart_strategy(cls, value: RestartStrategyType) -> RestartStrategyType:
        if value is RestartStrategyType.CLUSTER_DEFAULT:
            raise ValueError("cluster-default is for graphs only; give none, fixed-delay, exponential-delay or failure-rate")
        return value

    @field_validator("scheduler")
    @classmethod
    def _check_scheduler(cls, value: SchedulerType) -> SchedulerType:
        if value is SchedulerType.CLUSTER_DEFAULT:
            raise ValueError("cluster-default is for graphs only; give default or adaptive")
        return value

    @model_validator(mode="after")
    def _check_backoff(self) -> Self:
        if self.max_backoff_ms < self.initial_backoff_ms:
            raise ValueError(
                f"restart-strategy.exponential-delay.max-backoff ({self.max_backoff_ms}) must not be less than "
                f"restart-strategy.exponential-delay.initial-backoff ({self.initial_backoff_ms})"
            )
        return self
