"""What deciding goes by, taken from a configuration: for who leads, and for who only asks what a leader would decide."""

from eventflink.master.settings import (
    DEFAULT_STABILIZATION_TIMEOUT_MS,
    DEFAULT_WAIT_TIMEOUT_MS,
    NO_TIMEOUT,
    AdaptiveSettings,
    MasterSettings,
    WorkerSettings,
)
from eventflink.model.configuration import Configuration
from eventflink.model.statuses import JobStoreType, SchedulerType


def master_settings(configuration: Configuration) -> MasterSettings:
    """Return what the core takes from the configuration."""
    return MasterSettings(
        slot_request_timeout_ms=configuration.slot_request_timeout_ms,
        evenly_spread_out_slots=configuration.evenly_spread_out_slots,
        fail_unfulfillable_requests=configuration.fail_unfulfillable_requests,
        start_up_time_ms=configuration.slot_request_timeout_ms if configuration.start_up_time_ms < 0 else configuration.start_up_time_ms,
        job_store_capacity=configuration.job_store_capacity,
        job_store_expiration_ms=configuration.job_store_expiration_ms,
        job_store_cache_size=configuration.job_store_cache_size if configuration.job_store_type is JobStoreType.FILE else None,
        keep_outputs_ms=configuration.keep_outputs_ms,
        archives=bool(configuration.archive_location),
        request_horizon=configuration.request_horizon,
        request_horizon_ms=configuration.request_horizon_ms,
        drills_allowed=configuration.drills_allowed,
        restart_strategy=configuration.default_restart_strategy,
        stream_restart_strategy=configuration.default_stream_restart_strategy,
        failover_strategy=configuration.failover_strategy,
        exception_history_size=configuration.exception_history_size,
        checkpointing=configuration.default_checkpointing,
        savepoint_directory=configuration.savepoint_directory,
        checkpoint_history_size=configuration.checkpoint_history_size,
        shutdown_timeout_ms=configuration.shutdown_timeout_ms,
        workers=_worker_settings(configuration),
        adaptive=_adaptive_settings(configuration),
        queues=configuration.job_queues,
        queue_reclaim_after_ms=None if configuration.queue_reclaim_after_ms < 0 else configuration.queue_reclaim_after_ms,
    )


def _worker_settings(configuration: Configuration) -> WorkerSettings | None:
    """Return how workers are asked for; None where no driver starts any, or a log is only rehearsed."""
    if configuration.resource_driver == "standalone" or configuration.drills_rehearsal:
        return None
    return WorkerSettings(
        slot_count=configuration.slots,
        slot_profile=configuration.slot_profile,
        max_slots=configuration.max_slots,
        registration_timeout_ms=configuration.worker_registration_timeout_ms,
        idle_timeout_ms=configuration.worker_idle_timeout_ms,
        max_failure_rate=configuration.max_worker_failures,
        retry_interval_ms=configuration.worker_retry_interval_ms,
    )


def _adaptive_settings(configuration: Configuration) -> AdaptiveSettings:
    """Return what the adaptive scheduler takes from the configuration; as in Flink, the reactive mode has other defaults."""
    reactive = configuration.scheduler_mode == "reactive"
    wait_ms, stabilization_ms = configuration.resource_wait_timeout_ms, configuration.resource_stabilization_timeout_ms
    return AdaptiveSettings(
        scheduler=SchedulerType.ADAPTIVE if reactive else configuration.scheduler,
        reactive=reactive,
        resource_wait_timeout_ms=wait_ms if wait_ms is not None else (NO_TIMEOUT if reactive else DEFAULT_WAIT_TIMEOUT_MS),
        resource_stabilization_timeout_ms=(
            stabilization_ms if stabilization_ms is not None else (0 if reactive else DEFAULT_STABILIZATION_TIMEOUT_MS)
        ),
        min_parallelism_increase=configuration.min_parallelism_increase,
    )
