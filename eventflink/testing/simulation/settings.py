"""The numbers of a run: how large the cluster is, its times, and for how long faults happen.

The lease is the product's default; TaskExecutors have less than half of theirs, so that a run sees more of them lost.
"""

from dataclasses import dataclass

from eventflink.events.effects import INLINE_LOCATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """One run; durations in milliseconds."""

    seed: int = 0
    """The run's, for what draws from random numbers of its own: jobs' restart strategies, and what is lost of their data."""
    masters: int = 3
    task_executors: int = 3
    slots: int = 2
    jobs: int = 12
    lease_timeout_ms: int = 1000
    leader_heartbeat_interval_ms: int = 200
    heartbeat_interval_ms: int = 400
    loss_timeout_ms: int = 2000
    self_fence_timeout_ms: int = 1300
    kill_timeout_ms: int = 400
    spark_release_timeout_ms: int = 1000
    session_timeout_ms: int = 5000
    """After this long without a word from its task, a Spark session ends, and what runs in it."""
    resend_interval_ms: int = 3000
    window_size: int = 32
    inbox_size: int = 24
    job_store_capacity: int = 2
    request_horizon_ms: int = 604_800_000
    slot_request_timeout_ms: int = 30_000
    start_up_time_ms: int = 3_000
    """For so long a new leader fails no request because nothing can satisfy it."""
    shutdown_timeout_ms: int = 6_000
    drift_ppm: int = 20_000
    """How much faster or slower than true time a monotonic clock may be: two percent, far more than real ones."""
    least_run_ms: int = 0
    """How long every task runs at least that is not ended before."""
    deployment_partitions: int = 4
    """What the topic begins with."""
    task_managers_per_partition: int = 64
    """Where more of them share one, the leader adds partitions."""
    inline_locations: int = INLINE_LOCATIONS
    """Longer lists of locations are told apart from the orders that name them."""
    active_ms: int = 16_000
    """For how long clients submit and faults happen."""
    fault_interval_ms: int = 600
    snapshot_interval_ms: int = 0
    """How often a master does something for snapshots; zero: never."""
    rest_ms: int = 120_000
    """Within which everything has to come to rest once the faults have stopped."""
