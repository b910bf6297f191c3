"""What deciding goes by besides the state: the configuration, the moment, and the leader.

`apply` takes nothing from here: masters may be configured differently.
"""

from dataclasses import dataclass, field
from typing import Final

from eventflink.master.checkpoints import DEFAULT_CHECKPOINT_HISTORY
from eventflink.master.exception_history import DEFAULT_HISTORY_SIZE
from eventflink.model.job_graph import CheckpointSettings, RestartStrategy
from eventflink.model.job_queues import JobQueue
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import CheckpointRetention, FailoverStrategy, RestartStrategyType, SchedulerType

DEFAULT_WAIT_TIMEOUT_MS: Final = 300_000
DEFAULT_STABILIZATION_TIMEOUT_MS: Final = 10_000
NO_TIMEOUT: Final = -1


@dataclass(frozen=True, slots=True)
class AdaptiveSettings:
    """What the configuration says about schedulers."""

    scheduler: SchedulerType = SchedulerType.DEFAULT
    """For graphs that name none."""
    reactive: bool = False
    resource_wait_timeout_ms: int = DEFAULT_WAIT_TIMEOUT_MS
    resource_stabilization_timeout_ms: int = DEFAULT_STABILIZATION_TIMEOUT_MS
    min_parallelism_increase: int = 1


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What the configuration says where a resource driver starts workers; durations in milliseconds."""

    slot_count: int
    slot_profile: ResourceProfile | None = None
    max_slots: int = 64
    """Of the whole cluster; nothing is asked for beyond it."""
    registration_timeout_ms: int = 300_000
    idle_timeout_ms: int = 30_000
    max_failure_rate: int = 10
    retry_interval_ms: int = 3_000


def default_checkpointing() -> CheckpointSettings:
    """Return Flink's defaults, and checkpoints every ten seconds: they hold nothing up."""
    return CheckpointSettings(
        interval_ms=10_000,
        timeout_ms=600_000,
        min_pause_ms=0,
        tolerable_failed_checkpoints=0,
        max_retained=1,
        retention=CheckpointRetention.DELETE_ON_CANCELLATION,
    )


@dataclass(frozen=True, slots=True)
class MasterSettings:
    """What the configuration says to the master."""

    slot_request_timeout_ms: int = 300_000
    evenly_spread_out_slots: bool = True
    fail_unfulfillable_requests: bool = True
    start_up_time_ms: int = 300_000
    """For so long after a master became the leader no request is failed as unfulfillable."""
    job_store_capacity: int = 10_000
    """How many ended jobs stay in memory at the most."""
    job_store_expiration_ms: int = 0
    """For how long they stay there; 0: without an end."""
    job_store_cache_size: int | None = None
    """How many stay there although their archives are written; None: as many as others (the type Memory)."""
    keep_outputs_ms: int = 86_400_000
    """For how long the outputs of a job that FAILED or was CANCELED are kept whose graph says nothing about it."""
    archives: bool = False
    """Whether the archives of ended jobs are written."""
    request_horizon: int = 1_000_000
    request_horizon_ms: int = 604_800_000
    drills_allowed: bool = False
    restart_strategy: RestartStrategy = field(default_factory=lambda: RestartStrategy(strategy_type=RestartStrategyType.NONE))
    stream_restart_strategy: RestartStrategy | None = None
    """Of jobs with streams; None: the same as of others."""
    failover_strategy: FailoverStrategy = FailoverStrategy.REGION
    exception_history_size: int = DEFAULT_HISTORY_SIZE
    checkpointing: CheckpointSettings = field(default_factory=default_checkpointing)
    """Of jobs with streams whose graph says nothing about it."""
    savepoint_directory: str = ""
    """Where savepoints go whose request names no directory; empty: such a request is refused."""
    checkpoint_history_size: int = DEFAULT_CHECKPOINT_HISTORY
    workers: WorkerSettings | None = None
    """None: no resource driver starts TaskManagers."""
    shutdown_timeout_ms: int = 30_000
    """For so long TaskManagers may end their tasks, and then themselves, when the cluster is shut down."""
    adaptive: AdaptiveSettings = field(default_factory=AdaptiveSettings)
    queues: tuple[JobQueue, ...] = ()
    """In the order of their names; none: all jobs take turns."""
    queue_reclaim_after_ms: int | None = None
    """After so long a queue below its quota takes slots back from queues that borrow; None: never."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a decision goes by besides the state."""

    settings: MasterSettings
    now_ms: int
    """Of the log's clock."""
    leader_id: str = ""
    """The fencing token of the leader that decides."""

    @property
    def request_horizon(self) -> tuple[int, int]:
        """How many answers are kept, and since when at the longest."""
        return self.settings.request_horizon, self.now_ms - self.settings.request_horizon_ms
