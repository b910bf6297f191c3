"""Keys of metrics, stacks and profiles."""

from typing import Final

from pydantic import Field, ValidationInfo, field_validator

from eventflink.model.configuration_keys.keys import Keys
from eventflink.model.metric_settings import MetricScope, read_ports, scope_labels

METRIC_SCOPES: Final = {
    "metrics_scope_jm": MetricScope.JOBMANAGER,
    "metrics_scope_job": MetricScope.JOB,
    "metrics_scope_tm": MetricScope.TASKMANAGER,
    "metrics_scope_task": MetricScope.TASK,
}


class MetricsKeys(Keys):
    """Keys of metrics, stacks and profiles."""

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
        scope_labels(METRIC_SCOPES[info.field_name or ""], value)
        return value
