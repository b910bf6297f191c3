"""The configuration: every key with its type, default and meaning, in one pydantic model.

Keys are written dotted, as Flink writes them, flat or nested in YAML. Durations are whole milliseconds. An unknown or
ill-typed key is an error that names it and the nearest valid one. Nothing here opens a connection.
"""

import difflib
import re
import socket
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from eventflink.model.job_graph import (
    MAX_FAILURE_RATE,
    MAX_RESTART_DELAY_MS,
    MAX_RESTART_INTERVAL_MS,
    UNLIMITED_RESTARTS,
    RestartStrategy,
)
from eventflink.model.metric_settings import MetricScope, read_ports, scope_labels
from eventflink.model.port_range import parse_ports
from eventflink.model.resources import ResourceProfile, parse_cpu_cores, parse_extended_resources, parse_memory_size, profile_of
from eventflink.model.statuses import FailoverStrategy, JobStoreType, RestartStrategyType, SchedulerType


class ConfigurationError(Exception):
    """The configuration is not usable; the message names the key and what is wrong with it."""


FACTORY_PATTERN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

_METRIC_SCOPES = {
    "metrics_scope_jm": MetricScope.JOBMANAGER,
    "metrics_scope_job": MetricScope.JOB,
    "metrics_scope_tm": MetricScope.TASKMANAGER,
    "metrics_scope_task": MetricScope.TASK,
}


MemorySize = Annotated[int, BeforeValidator(parse_memory_size)]


class Configuration(BaseModel):
    """Every key of eventflink.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    cluster_id: str = Field("eventflink", alias="cluster.id", description="Names the cell: the prefix of its topics.")
    bootstrap_servers: str = Field(
        "",
        alias="bootstrap.servers",
        description="The Kafka cluster. Empty: `up`, `cluster start` and `demo` start a broker of their own.",
    )
    schema_registry_url: str = Field(
        "", alias="schema.registry.url", description="Confluent-compatible registry; inbound topics then take its wire format too."
    )
    data_directory: Path = Field(
        Path("~/.local/share/eventflink"), alias="data.directory", description="Everything this host writes, unless said otherwise."
    )
    broker_port: int = Field(9092, alias="broker.port", ge=0, le=65535, description="Where the embedded broker listens; 0: any free port.")
    replication_factor: int = Field(
        1, alias="topics.replication-factor", ge=1, le=15, description="Of topics that are created; below 3 the cluster is single-node."
    )

    master_id: str = Field("", alias="jobmanager.id", description="Names this master over restarts. Default: the host's name.")
    rpc_address: str = Field("localhost", alias="jobmanager.rpc.address", description="The host name under which others reach this master.")
    high_availability: str = Field(
        "kafka",
        alias="high-availability.type",
        description="Who elects: kafka (the log), none (there is one master), zookeeper, or module:Factory.",
    )
    zookeeper_quorum: str = Field("", alias="high-availability.zookeeper.quorum", description="host:port,… of the ZooKeeper that elects.")
    zookeeper_root: str = Field("/eventflink", alias="high-availability.zookeeper.path.root", description="The node below which it elects.")
    zookeeper_session_timeout_ms: int = Field(
        10_000,
        alias="high-availability.zookeeper.session-timeout",
        ge=1000,
        description="After this long without contact ZooKeeper gives the leadership to another master.",
    )
    query_port: int = Field(
        0, alias="jobmanager.query.port", ge=0, le=65535, description="Where this master answers reads of the state; 0: any free port."
    )
    query_bind_host: str = Field("127.0.0.1", alias="jobmanager.query.bind-host", description="The interface on which it answers them.")
    drills_allowed: bool = Field(
        False,  # noqa: FBT003 - a default, not an argument
        alias="drills.allowed",
        description="Whether a command may make the leader stop, freeze or die, as drills do.",
    )
    drills_rehearsal: bool = Field(
        False,  # noqa: FBT003 - a default, not an argument
        alias="drills.rehearsal",
        description="Set by `drill --rehearsal` for masters on a copy of the log: clean-ups are only noted.",
    )
    lease_timeout_ms: int = Field(
        1000, alias="high-availability.lease-timeout", ge=100, description="No decision may stay unconfirmed for longer."
    )
    leader_beat_interval_ms: int = Field(
        100, alias="high-availability.beat-interval", ge=10, description="How often the leader says on `leadership` that it lives."
    )
    window_size: int = Field(
        1024, alias="high-availability.window-size", ge=1, le=65536, description="How many decisions may be unconfirmed at once."
    )
    inbox_size: int = Field(
        4096, alias="master.inbox-size", ge=64, le=1_000_000, description="Inputs held per partition before its reading pauses."
    )
    redeploy_interval_ms: int = Field(
        10_000,
        alias="master.resend-interval",
        ge=100,
        description="After this long an unacknowledged deployment or cancellation is sent again.",
    )
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
    archive_directory: str = Field(
        "",
        alias="jobmanager.archive.fs.dir",
        description="Where the archives of ended jobs are written, below a folder named by cluster.id: a directory, or an fsspec URL "
        "that all masters reach. Default: below data.directory with jobstore.type file, else nowhere.",
    )
    request_horizon: int = Field(
        1_000_000, alias="requests.horizon-entries", ge=1000, description="How many answers and job ids are remembered."
    )

    request_horizon_ms: int = Field(
        604_800_000, alias="requests.horizon-time", ge=60_000, description="For how long; an older submission or command is refused."
    )

    snapshot_interval_records: int = Field(
        50_000,
        alias="snapshots.interval-records",
        ge=0,
        description="After this many records of the log a master takes a snapshot of the state; 0: never.",
    )
    snapshots_retained: int = Field(
        2, alias="snapshots.retained", ge=1, le=16, description="How many snapshots are kept, besides the newest confirmed one."
    )
    snapshot_trim_log: bool = Field(
        False,  # noqa: FBT003 - a default, not an argument
        alias="snapshots.trim-log",
        description="Whether the records of the log before a snapshot that another master confirmed are deleted, for ever.",
    )
    snapshot_trim_keep_records: int = Field(
        100_000, alias="snapshots.trim-keep-records", ge=0, description="How many of the newest records of the log trimming leaves."
    )

    heartbeat_interval_ms: int = Field(1000, alias="heartbeat.interval", ge=50, description="How often a TaskExecutor beats.")
    heartbeat_misses: int = Field(5, alias="heartbeat.missed-beats", ge=2, description="After this many missed beats it is lost.")
    self_fence_timeout_ms: int = Field(
        3500, alias="taskmanager.self-fence-timeout", ge=100, description="Without an acknowledged beat for this long it ends its tasks."
    )
    kill_timeout_ms: int = Field(
        1000, alias="taskmanager.kill-timeout", ge=10, description="How long a task has between being asked to end and being killed."
    )

    task_manager_id: str = Field("", alias="taskmanager.id", description="Names this TaskExecutor over restarts. Default: host and random.")
    task_manager_host: str = Field("", alias="taskmanager.host", description="This host's name. Default: what the system says.")
    slots: int = Field(2, alias="taskmanager.numberOfTaskSlots", ge=1, le=1024, description="How many tasks run at once.")
    cpu_cores: Annotated[int, BeforeValidator(parse_cpu_cores)] = Field(
        0,
        alias="taskmanager.cpu.cores",
        description="Processors that its tasks may count on, such as 4 or 0.5; the slots share them equally. 0: not said.",
    )
    task_heap_memory: MemorySize = Field(
        0, alias="taskmanager.memory.task.heap.size", description="Memory for its tasks' own objects, such as 4g; likewise."
    )
    task_off_heap_memory: MemorySize = Field(
        0, alias="taskmanager.memory.task.off-heap.size", description="Memory that its tasks take elsewhere; likewise."
    )
    managed_memory: MemorySize = Field(
        0, alias="taskmanager.memory.managed.size", description="Memory that Spark manages for its tasks; likewise."
    )
    external_resources: str = Field(
        "", alias="taskmanager.external-resources", description="Whatever else its tasks may count on, such as gpu=2,fpga=1; likewise."
    )
    spark_remote: str = Field(
        "", alias="spark.remote", description="A Spark Connect address, sc://host:port. Empty: a local server that this host shares."
    )
    spark_master: str = Field("local[*]", alias="spark.local.master", description="The master of the local server.")
    spark_memory: str = Field("1g", alias="spark.local.memory", pattern=r"^[1-9]\d*[mg]$", description="The heap of the local server.")

    blob_directory: str = Field(
        "",
        alias="blob.storage.directory",
        description="Where blobs are kept, below a folder named by cluster.id: a directory, or an fsspec URL that all masters reach "
        "(s3://bucket/blobs). Default: below data.directory.",
    )
    blob_bind_host: str = Field("127.0.0.1", alias="blob.server.bind-host", description="The interface of the blob server.")
    blob_port: str = Field(
        "0",
        alias="blob.server.port",
        description="Its port; 0: any free one. Or ports, of which the first free one is taken: 50100-50200, or 50100,50200-50300.",
    )
    blob_max_bytes: int = Field(512 * 1024 * 1024, alias="blob.max-size", ge=1024, description="The largest blob that is taken, in bytes.")
    blob_max_transfers: int = Field(
        50, alias="blob.fetch.num-concurrent", ge=1, le=1000, description="How many blobs a master receives and sends at once."
    )
    blob_backlog: int = Field(
        1000,
        alias="blob.fetch.backlog",
        ge=1,
        le=100_000,
        description="How many requests for blobs, and how many connections, wait for their turn; one more is told to come back (503).",
    )
    blob_cleanup_interval_ms: int = Field(
        3_600_000,
        alias="blob.service.cleanup.interval",
        ge=1000,
        description="How often the leader removes blobs that nobody needs, how long a transient blob (an uploaded log) lives, and how long "
        "a TaskExecutor keeps code that no task uses. Milliseconds, where Flink counts seconds.",
    )
    blob_grace_period_ms: int = Field(
        3_600_000,
        alias="blob.service.cleanup.grace-period",
        ge=1000,
        description="A permanent blob to which no job refers stays for this long after its last upload: until its job is submitted.",
    )
    tls_enabled: bool = Field(
        False,  # noqa: FBT003 - a default, not an argument
        alias="security.ssl.internal.enabled",
        description="Whether blob servers and their clients speak TLS.",
    )
    tls_certificate: Path | None = Field(
        None,
        alias="security.ssl.internal.certificate",
        description="A PEM file with this process's certificate and what leads to its CA; a master needs one.",
    )
    tls_key: Path | None = Field(None, alias="security.ssl.internal.key", description="A PEM file with its private key; no password.")
    tls_ca: Path | None = Field(
        None,
        alias="security.ssl.internal.ca",
        description="A PEM file with the CAs to trust. Default: the system's. A master with one demands a certificate of each client.",
    )
    working_directory: Path | None = Field(
        None,
        alias="execution.working-directory",
        description="Data sets of jobs; every TaskExecutor and its Spark must see it. Default: below data.directory.",
    )

    slot_request_timeout_ms: int = Field(
        300_000, alias="slot.request.timeout", ge=100, description="After this long without a slot the attempt fails."
    )
    evenly_spread_out_slots: bool = Field(
        True,  # noqa: FBT003 - a default, not an argument
        alias="cluster.evenly-spread-out-slots",
        description="Whether a task goes to the TaskManager with the most free slots, or with the fewest (of the smallest that fits).",
    )
    shutdown_timeout_ms: int = Field(
        30_000,
        alias="cluster.services.shutdown-timeout",
        ge=1_000,
        description="When the cluster is shut down, TaskManagers may take so long to end their tasks, and again to end themselves.",
    )
    fail_unfulfillable_requests: bool = Field(
        True,  # noqa: FBT003 - a default, not an argument
        alias="resourcemanager.standalone.fail-unfulfillable-requests",
        description="Whether an attempt fails at once, after the start-up time, if no registered slot has room for what it asks.",
    )
    start_up_time_ms: int = Field(
        -1,
        alias="resourcemanager.standalone.start-up-time",
        ge=-1,
        description="For so long after a master became the leader TaskManagers may still come. -1: as slot.request.timeout.",
    )
    resource_driver: str = Field(
        "standalone",
        alias="resourcemanager.driver",
        description="Who starts TaskManagers: standalone (people do), process (the leader starts some on its host when slots are missing), "
        "or module:Factory.",
    )
    max_slots: int = Field(
        64,
        alias="slotmanager.number-of-slots.max",
        ge=1,
        le=1_000_000,
        description="No worker is asked of the resource driver beyond so many slots of the whole cluster.",
    )
    worker_idle_timeout_ms: int = Field(
        30_000,
        alias="resourcemanager.taskmanager-timeout",
        ge=0,
        description="A TaskManager that the resource driver started is released after it was idle for so long.",
    )
    worker_registration_timeout_ms: int = Field(
        300_000,
        alias="resourcemanager.taskmanager-registration.timeout",
        ge=1000,
        description="A worker that was asked of the resource driver and does not register for so long is given up, and replaced.",
    )
    max_worker_failures: int = Field(
        10,
        alias="resourcemanager.start-worker.max-failure-rate",
        ge=1,
        le=1000,
        description="After so many workers in a minute that did not come there is a wait before the next is asked for.",
    )
    worker_retry_interval_ms: int = Field(
        3000,
        alias="resourcemanager.start-worker.retry-interval",
        ge=1,
        le=300_000,
        description="That wait; it doubles with each further failure, up to five minutes, until a worker registers.",
    )
    restart_strategy: RestartStrategyType = Field(
        RestartStrategyType.NONE,
        alias="restart-strategy.type",
        description="For graphs that name none: none, fixed-delay, exponential-delay or failure-rate.",
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

    pid_directory: Path | None = Field(
        None,
        alias="env.pid.dir",
        description="Pid files of the daemons of `cluster start`; a directory of this host alone. Default: below data.directory.",
    )
    log_directory: Path | None = Field(None, alias="env.log.dir", description="Logs of these daemons. Default: below data.directory.")
    old_logs: int = Field(
        5, alias="env.log.max", ge=0, le=100, description="How many earlier logs of a daemon are kept, as .1, .2, …; the newest is .1."
    )
    ssh_command: str = Field("ssh", alias="env.ssh.command", min_length=1, description="How `cluster` reaches hosts that are not this one.")
    ssh_options: str = Field("", alias="env.ssh.opts", description="Further options of that command; they come before its own.")
    remote_directory: str = Field(
        "", alias="env.remote.directory", description="Where `eventflink` is started on another host. Default: the directory here."
    )
    remote_program: str = Field(
        "", alias="env.remote.program", description="The command line of `eventflink` on another host. Default: the same as here."
    )
    start_timeout_ms: int = Field(
        90_000, alias="cluster.start-timeout", ge=1000, description="How long `cluster start` waits until a daemon has joined the cluster."
    )
    stop_timeout_ms: int = Field(
        30_000, alias="cluster.stop-timeout", ge=100, description="How long a daemon has for its orderly end before it is killed."
    )
    metrics_ports: str = Field(
        "",
        alias="metrics.reporter.prom.port",
        description="Where a process serves its metrics to Prometheus: a port, a range of which it takes the first free one, or 0 for any. "
        "Empty: nowhere.",
    )
    metrics_bind_host: str = Field(
        "127.0.0.1", alias="metrics.reporter.prom.bind-host", description="The interface on which it serves them, without authentication."
    )
    metrics_scope_jm: str = Field(
        "<cluster_id>.<host>.jobmanager.<jm_id>", alias="metrics.scope.jm", description="The labels of a master's metrics."
    )
    metrics_scope_job: str = Field(
        "<cluster_id>.<host>.jobmanager.<jm_id>.<job_id>.<job_name>",
        alias="metrics.scope.jm-job",
        description="The labels of the metrics of a live job.",
    )
    metrics_scope_tm: str = Field(
        "<cluster_id>.<host>.taskmanager.<tm_id>", alias="metrics.scope.tm", description="The labels of a TaskExecutor's metrics."
    )
    metrics_scope_task: str = Field(
        "<cluster_id>.<host>.taskmanager.<tm_id>.<job_id>.<task_id>.<subtask_index>.<task_attempt_num>",
        alias="metrics.scope.task",
        description="The labels of the metrics of a running task.",
    )
    metrics_max_jobs: int = Field(
        100,
        alias="metrics.max-jobs",
        ge=0,
        le=10_000,
        description="So many live jobs have metrics of their own, the oldest first.",
    )
    metrics_system_resource: bool = Field(
        True,  # noqa: FBT003 - a default, not an argument
        alias="metrics.system-resource",
        description="Whether a process tells of its host as well: processors, memory, the disk of data.directory.",
    )
    thread_dump_enabled: bool = Field(
        False,  # noqa: FBT003 - a default, not an argument
        alias="metrics.thread-dump.enabled",
        description="Whether who reaches the metrics may see the stacks of all threads.",
    )
    profiler_enabled: bool = Field(
        False,  # noqa: FBT003 - a default, not an argument
        alias="metrics.profiler.enabled",
        description="Whether who reaches the metrics may have the process profile itself for a while.",
    )
    profiler_max_duration_ms: int = Field(
        60_000, alias="metrics.profiler.max-duration", ge=1000, le=600_000, description="The longest while of that."
    )

    @field_validator("external_resources")
    @classmethod
    def _check_external_resources(cls, value: str) -> str:
        parse_extended_resources(value)
        return value

    @model_validator(mode="after")
    def _check_profile(self) -> Self:
        self.total_profile  # noqa: B018 - it raises
        return self

    @field_validator("restart_strategy", "failover_strategy", "job_store_type", "scheduler", mode="before")
    @classmethod
    def _read_strategy(cls, value: object) -> object:
        return value.upper().replace("-", "_") if isinstance(value, str) else value

    @field_validator("restart_strategy")
    @classmethod
    def _check_restart_strategy(cls, value: RestartStrategyType) -> RestartStrategyType:
        if value is RestartStrategyType.CLUSTER_DEFAULT:
            raise ValueError("cluster-default is for graphs; the cluster's own is none, fixed-delay, exponential-delay or failure-rate")
        return value

    @field_validator("scheduler")
    @classmethod
    def _check_scheduler(cls, value: SchedulerType) -> SchedulerType:
        if value is SchedulerType.CLUSTER_DEFAULT:
            raise ValueError("cluster-default is for graphs; the cluster's own is default or adaptive")
        return value

    @field_validator("high_availability")
    @classmethod
    def _check_high_availability(cls, value: str) -> str:
        if value not in ("kafka", "none", "zookeeper") and not FACTORY_PATTERN.fullmatch(value):
            raise ValueError(f"'{value}' is no election: kafka, none, zookeeper, or package.module:Factory")
        return value

    @field_validator("resource_driver")
    @classmethod
    def _check_resource_driver(cls, value: str) -> str:
        if value not in ("standalone", "process") and not FACTORY_PATTERN.fullmatch(value):
            raise ValueError(f"'{value}' is no resource driver: standalone, process, or package.module:Factory")
        return value

    @field_validator("metrics_ports", mode="before")
    @classmethod
    def _read_metrics_ports(cls, value: object) -> object:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value  # YAML reads a single port as a number.

    @field_validator("metrics_ports")
    @classmethod
    def _check_metrics_ports(cls, value: str) -> str:
        read_ports(value)
        return value

    @field_validator("metrics_scope_jm", "metrics_scope_job", "metrics_scope_tm", "metrics_scope_task")
    @classmethod
    def _check_metrics_scope(cls, value: str, info: ValidationInfo) -> str:
        scope_labels(_METRIC_SCOPES[info.field_name or ""], value)
        return value

    @field_validator("cluster_id", "master_id", "task_manager_id")
    @classmethod
    def _check_id(cls, value: str) -> str:
        if value and not ID_PATTERN.fullmatch(value):
            raise ValueError("only letters, digits, '.', '_' and '-', at most 128, beginning with a letter or digit")
        return value

    @field_validator("blob_port", mode="before")
    @classmethod
    def _check_blob_port(cls, value: object) -> object:
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if isinstance(text, str):
            parse_ports(text)
        return text

    @field_validator("blob_directory", mode="before")
    @classmethod
    def _read_blob_directory(cls, value: object) -> object:
        return str(value) if isinstance(value, Path) else value

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("security.ssl.internal.certificate and security.ssl.internal.key belong together: one of them is missing")
        return self

    @model_validator(mode="after")
    def _check_worker_slots(self) -> Self:
        if self.resource_driver != "standalone" and self.max_slots < self.slots:
            raise ValueError(
                f"slotmanager.number-of-slots.max ({self.max_slots}) is less than taskmanager.numberOfTaskSlots ({self.slots}): "
                "no worker could ever be asked for"
            )
        return self

    @model_validator(mode="after")
    def _check_quorum(self) -> Self:
        if self.high_availability == "zookeeper" and not self.zookeeper_quorum:
            raise ValueError("high-availability.type is zookeeper, so high-availability.zookeeper.quorum must name its servers")
        return self

    @model_validator(mode="after")
    def _check_backoff(self) -> Self:
        if self.max_backoff_ms < self.initial_backoff_ms:
            raise ValueError(
                f"restart-strategy.exponential-delay.max-backoff ({self.max_backoff_ms}) must not be less than "
                f"restart-strategy.exponential-delay.initial-backoff ({self.initial_backoff_ms})"
            )
        return self

    @model_validator(mode="after")
    def _check_timeouts(self) -> Self:
        """Hold P14: a TaskExecutor's tasks have ended before a master can hold it for lost."""
        if self.self_fence_timeout_ms + self.kill_timeout_ms >= self.loss_timeout_ms:
            raise ValueError(
                f"taskmanager.self-fence-timeout ({self.self_fence_timeout_ms}) + taskmanager.kill-timeout "
                f"({self.kill_timeout_ms}) must be less than heartbeat.interval * heartbeat.missed-beats ({self.loss_timeout_ms})"
            )
        return self

    @property
    def metric_labels(self) -> dict[MetricScope, tuple[str, ...]]:
        """Which variables are labels, by scope."""
        return {scope: scope_labels(scope, getattr(self, name)) for name, scope in _METRIC_SCOPES.items()}

    @property
    def default_restart_strategy(self) -> RestartStrategy:
        """The strategy of graphs that name none."""
        strategy_type = self.restart_strategy
        match strategy_type:
            case RestartStrategyType.FIXED_DELAY:
                return RestartStrategy(strategy_type, attempts=self.restart_attempts, delay_ms=self.restart_delay_ms)
            case RestartStrategyType.FAILURE_RATE:
                return RestartStrategy(
                    strategy_type,
                    attempts=self.max_failures_per_interval,
                    delay_ms=self.failure_rate_delay_ms,
                    interval_ms=self.failure_rate_interval_ms,
                )
            case RestartStrategyType.EXPONENTIAL_DELAY:
                return RestartStrategy(
                    strategy_type,
                    delay_ms=self.initial_backoff_ms,
                    max_delay_ms=self.max_backoff_ms,
                    multiplier=self.backoff_multiplier,
                    reset_threshold_ms=self.reset_backoff_threshold_ms,
                    jitter_factor=self.jitter_factor,
                )
            case _:
                return RestartStrategy(RestartStrategyType.NONE)

    @property
    def loss_timeout_ms(self) -> int:
        """After this much silence a TaskManager is lost."""
        return self.heartbeat_interval_ms * self.heartbeat_misses

    @property
    def total_profile(self) -> ResourceProfile | None:
        """What all slots of a TaskExecutor have together; None: nothing was said."""
        return profile_of(
            cpu_millicores=self.cpu_cores,
            task_heap_bytes=self.task_heap_memory,
            task_off_heap_bytes=self.task_off_heap_memory,
            managed_bytes=self.managed_memory,
            extended_resources=parse_extended_resources(self.external_resources),
        )

    @property
    def slot_profile(self) -> ResourceProfile | None:
        """What each slot of a TaskExecutor has: an equal share of the whole, rounded down."""
        total = self.total_profile
        return total.divided_by(self.slots) if total is not None else None

    @property
    def data_path(self) -> Path:
        """`data.directory`, absolute."""
        return self.data_directory.expanduser().absolute()

    @property
    def blob_location(self) -> str:
        """Where this cluster's blobs are kept: an absolute path, or an fsspec URL. Other clusters may lie beside it."""
        directory = self.blob_directory
        if "://" not in directory:
            return str((Path(directory) if directory else self.data_path / "blobs").expanduser().absolute() / self.cluster_id)
        return f"{directory.rstrip('/')}/{self.cluster_id}"

    @property
    def archive_location(self) -> str:
        """Where this cluster's archives of ended jobs are: an absolute path, or an fsspec URL; empty: nowhere."""
        directory = self.archive_directory
        if not directory and self.job_store_type is JobStoreType.MEMORY:
            return ""
        if "://" not in directory:
            return str((Path(directory) if directory else self.data_path / "archives").expanduser().absolute() / self.cluster_id)
        return f"{directory.rstrip('/')}/{self.cluster_id}"

    @property
    def working_path(self) -> Path:
        """Where the data sets of jobs are, absolute."""
        return (self.working_directory or self.data_path / "jobs").expanduser().absolute()

    @property
    def pid_path(self) -> Path:
        """Where the pid files of this cluster's daemons are, absolute."""
        return (self.pid_directory or self.data_path / "run" / "pids").expanduser().absolute() / self.cluster_id

    @property
    def log_path(self) -> Path:
        """Where the logs of this cluster's daemons are, absolute."""
        return (self.log_directory or self.data_path / "logs").expanduser().absolute() / self.cluster_id

    @property
    def host(self) -> str:
        """The name of this host."""
        return self.task_manager_host or socket.gethostname()

    def with_ids(self) -> "Configuration":
        """Return a copy in which the ids that were left out are filled in."""
        return self.model_copy(
            update={
                "master_id": self.master_id or f"master-{self.host}",
                "task_manager_id": self.task_manager_id or f"tm-{self.host}-{uuid.uuid4().hex[:8]}",
            }
        )


def _flatten(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in document.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{name}."))
        else:
            flat[name] = value
    return flat


KEYS: dict[str, str] = {field.alias or name: name for name, field in Configuration.model_fields.items()}


def explain_unknown(key: str) -> str:
    """Return what is said of a key that does not exist: with the nearest one that does."""
    near = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.4)
    return f"unknown configuration key '{key}'" + (f"; did you mean '{near[0]}'?" if near else "")


def build_configuration(values: Mapping[str, Any], source: str) -> Configuration:
    """Validate dotted keys into a Configuration.

    Raises:
        ConfigurationError: names the key, the source and what is wrong.

    """
    flat = _flatten(values)
    for key in flat:
        if key not in KEYS:
            raise ConfigurationError(f"{source}: {explain_unknown(key)}")
    try:
        return Configuration.model_validate(flat)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(p) for p in first["loc"])
        raise ConfigurationError(f"{source}: {key + ': ' if key else ''}{first['msg'].removeprefix('Value error, ')}") from error


def read_values(path: Path) -> dict[str, Any]:
    """Return what a YAML file says, by dotted keys, not yet validated.

    Raises:
        ConfigurationError: the file cannot be read, or is no mapping.

    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from error
    if document is not None and not isinstance(document, Mapping):
        raise ConfigurationError(f"{path}: the document must be a mapping of keys to values, not {type(document).__name__}")
    return _flatten(document or {})


def load_configuration(path: Path | None, overrides: Mapping[str, str]) -> Configuration:
    """Read a YAML file (or only defaults) and lay `-D key=value` overrides over it.

    Raises:
        ConfigurationError: the file or a key is not usable.

    """
    values: dict[str, Any] = {}
    source = "configuration"
    if path is not None:
        source = str(path)
        values = read_values(path)
    for key, text in overrides.items():
        if key not in KEYS:
            raise ConfigurationError(f"-D {key}: {explain_unknown(key)}")
        values[key] = text
        source = f"{source} with -D {key}" if len(overrides) == 1 else source
    return build_configuration(values, source)
