"""What deciding takes from the configuration."""

from dataclasses import dataclass, field

from eventflink.master.adaptive_scheduler import AdaptiveSettings
from eventflink.master.exception_history import DEFAULT_HISTORY_SIZE
from eventflink.master.job_store import JobStoreRules
from eventflink.master.workers import WorkerSettings
from eventflink.model.job_graph import RestartStrategy
from eventflink.model.statuses import FailoverStrategy, RestartStrategyType


@dataclass(frozen=True, slots=True)
class MasterSettings:
    """What `decide` takes from the configuration. `apply` takes nothing from it: masters may be configured differently."""

    slot_request_timeout_ms: int = 300_000
    evenly_spread_out_slots: bool = True
    fail_unfulfillable_requests: bool = True
    start_up_time_ms: int = 300_000
    """For so long after a master became the leader no request is failed as unfulfillable."""
    job_store_capacity: int = 10_000
    job_store_expiration_ms: int = 0
    job_store_cache_size: int | None = None
    archives: bool = False
    request_horizon: int = 1_000_000
    request_horizon_ms: int = 604_800_000
    drills_allowed: bool = False
    restart_strategy: RestartStrategy = field(default_factory=lambda: RestartStrategy(strategy_type=RestartStrategyType.NONE))
    failover_strategy: FailoverStrategy = FailoverStrategy.REGION
    exception_history_size: int = DEFAULT_HISTORY_SIZE
    workers: WorkerSettings | None = None
    """None: no resource driver starts TaskManagers."""
    shutdown_timeout_ms: int = 30_000
    """For so long TaskManagers may end their tasks, and then themselves, when the cluster is shut down."""
    adaptive: AdaptiveSettings = field(default_factory=AdaptiveSettings)

    @property
    def job_store(self) -> JobStoreRules:
        """What is said of ended jobs."""
        return JobStoreRules(self.job_store_capacity, self.job_store_expiration_ms, self.job_store_cache_size, self.archives)
