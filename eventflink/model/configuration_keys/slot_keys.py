"""Keys of slots, of the queues of jobs that wait for them, and of who starts TaskExecutors."""

from pathlib import Path
from typing import Any, Final

from pydantic import Field, field_validator

from eventflink.model.configuration_keys.keys import FACTORY_PATTERN, Keys
from eventflink.model.job_queues import JobQueue, parse_queues, queues_of

RESOURCE_DRIVERS: Final = ("standalone", "process", "kubernetes")
"""The values of `resourcemanager.driver` that name no factory."""


class SlotKeys(Keys):
    """Keys of slots, of the queues of jobs that wait for them, and of who starts TaskExecutors."""

    slot_request_timeout_ms: int = Field(
        300_000,
        alias="slot.request.timeout",
        ge=100,
        description="After this long without a slot the attempt fails, unless its batch job holds one.",
    )
    evenly_spread_out_slots: bool = Field(
        True,  # noqa: FBT003 - a default, not an argument
        alias="cluster.evenly-spread-out-slots",
        description="Whether a task goes to the TaskManager with the most free slots, or with the fewest (of the smallest that fits).",
    )
    queues: dict[str, str] = Field(
        {},
        alias="queues.*",
        description="Queues that jobs name, as `queue: etl`: `queues.etl.nominal-quota` is the number of slots that its jobs are entitled "
        "to, `queues.etl.borrowing-limit` how many more they may hold while others leave them free (default: all), and "
        "`queues.etl.weight` (1 to 1,000, default 1) its share of what is borrowed. Without any queue all jobs take turns.",
    )
    queue_reclaim_after_ms: int = Field(
        -1,
        alias="slotmanager.queue-reclaim-after",
        ge=-1,
        description="After a request has waited for so long, a queue below its quota takes slots back from queues that borrow: tasks of "
        "theirs end, and start again. -1: never; it gets the next slots that are given back.",
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
        "kubernetes (it has Kubernetes start pods), or module:Factory.",
    )
    kubernetes_namespace: str = Field(
        "",
        alias="kubernetes.namespace",
        description="Where the pods of TaskManagers are. Default: that of the master's own pod, or of the current context of kubectl.",
    )
    kubernetes_image: str = Field(
        "", alias="kubernetes.container.image.ref", description="The image of TaskManagers, where the pod template names none."
    )
    kubernetes_pod_template: Path | None = Field(
        None,
        alias="kubernetes.pod-template-file.taskmanager",
        description="A Pod, in YAML or JSON, of which the pods of TaskManagers are made; its container `taskexecutor` is the TaskManager.",
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

    @field_validator("queues", mode="before")
    @classmethod
    def _check_queues(cls, value: dict[str, Any]) -> dict[str, str]:
        return parse_queues(value)

    @property
    def job_queues(self) -> tuple[JobQueue, ...]:
        """The queues that are configured, in the order of their names."""
        return queues_of(self.queues)

    @field_validator("resource_driver")
    @classmethod
    def _check_resource_driver(cls, value: str) -> str:
        if value not in RESOURCE_DRIVERS and not FACTORY_PATTERN.fullmatch(value):
            raise ValueError(f"unknown resource driver: '{value}'; known: {', '.join(RESOURCE_DRIVERS)}, or package.module:Factory")
        return value
