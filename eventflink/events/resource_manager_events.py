"""Events of the ResourceManager: TaskManagers that come and go, workers that are asked for, files that are uploaded.

Values of which the schemas of the same names are made; `log_events.py` has all of them and the rule of all.
"""

from dataclasses import dataclass

from eventflink.events.decision import LogEvent
from eventflink.model.attempts import AttemptStatus
from eventflink.model.resources import Hardware, ResourceProfile
from eventflink.model.spark_engines import SparkAddress
from eventflink.model.statuses import TaskManagerFile


@dataclass(slots=True)
class TaskManagerRegistered(LogEvent):
    """A TaskManager's instance offers its slots; an older instance of it is replaced."""

    task_manager_id: str
    """The TaskManager (stable over restarts)."""
    instance_id: str
    """One life of it: fresh at each start and after each self-fence (P12)."""
    host: str
    """Where it runs."""
    process_id: int
    """Its process there."""
    slot_count: int
    """How many slots it has."""
    begun_at_ms: int = 0
    """When the instance began, in milliseconds of its own host's clock; 0: not said."""
    slot_profile: ResourceProfile | None = None
    """What each of its slots has; null: not said."""
    metrics_address: str = ""
    """host:port where it serves its metrics to Prometheus; empty: nowhere, or not said."""
    hardware: Hardware | None = None
    """What its host has; null: not said."""
    registration_number: int = 0
    """Of the registration that is answered; 0: not said."""
    spark_addresses: tuple[SparkAddress, ...] = ()
    """Where those of its Sparks are that are elsewhere; the first registration of an instance counts."""
    deployment_partition: int = 0
    """Which partition of `deployments` it reads; the first registration of an instance counts."""


@dataclass(slots=True)
class InstanceEndEvent(LogEvent):
    """An instance is not, or no longer, one of the cluster's."""

    task_manager_id: str
    """The TaskManager (stable over restarts)."""
    instance_id: str
    """One life of it: fresh at each start and after each self-fence (P12)."""
    reason: str
    """Why."""


@dataclass(slots=True)
class TaskManagerReportReconciled(LogEvent):
    """A full slot report was matched against the state."""

    task_manager_id: str
    """The TaskManager (stable over restarts)."""
    instance_id: str
    """One life of it: fresh at each start and after each self-fence (P12)."""
    missing: tuple[str, ...]
    """Allocations whose attempts the state expected and the TaskManager lacks: they fail."""
    unknown: tuple[AttemptStatus, ...]
    """Attempts that the TaskManager has and the state does not expect: they are cancelled."""
    number: int = 0
    """The number of the report; 0: it was not said."""
    ready: bool = False
    """Whether the TaskManager is ready for tasks; one that is not is given them last."""


@dataclass(slots=True)
class TaskManagerRegistrationRefused(InstanceEndEvent):
    """The instance is gone for good: it has to come back as a new one (P12)."""

    deployment_partition: int = 0
    """Which partition of `deployments` it reads."""


@dataclass(slots=True)
class TaskManagerDisconnected(InstanceEndEvent):
    """An instance left in order."""


@dataclass(slots=True)
class TaskManagerLost(InstanceEndEvent):
    """An instance is gone: it missed its heartbeats, or its guardian saw it die."""

    deployment_partition: int = 0
    """Which partition of `deployments` it reads, if it lives after all."""


@dataclass(slots=True)
class TaskManagerBlocked(LogEvent):
    """The TaskManager gets no new slots to fill; what runs there keeps running."""

    task_manager_id: str
    """The TaskManager (stable over restarts)."""
    reason: str
    """Why, in the words of who asked."""
    until_ms: int
    """When it is unblocked by itself, in milliseconds since 1970 by the log's clock; 0: by a command alone."""
    actor: str
    """Who asked."""


@dataclass(slots=True)
class TaskManagerUnblocked(LogEvent):
    """The TaskManager gets slots to fill again."""

    task_manager_id: str
    """The TaskManager (stable over restarts)."""
    reason: str
    """Why: its time was over, or somebody asked."""
    actor: str
    """Who asked; empty: its time was over."""


@dataclass(slots=True)
class SparkEnded(LogEvent):
    """The Spark of the TaskManager's host ended by itself, or was ended since it did not answer; who needs it next starts another."""

    task_manager_id: str
    """The TaskManager (stable over restarts)."""
    instance_id: str
    """One life of it: fresh at each start and after each self-fence (P12)."""
    ended_at_ms: int
    """When, in milliseconds since 1970 by the clock of the host."""
    reason: str
    """Why, as its supervisor saw it."""


@dataclass(slots=True)
class WorkerRequested(LogEvent):
    """The resource driver is asked for a worker: a TaskManager that registers under the worker's id."""

    worker_id: str
    """The worker, and the TaskManager that it will be."""
    slot_count: int
    """How many slots it is to have."""
    slot_profile: ResourceProfile | None = None
    """What each of them is to have; null: not said."""


@dataclass(slots=True)
class WorkerRequestFailed(LogEvent):
    """A worker that was asked for will not come: the driver says so, or its time to register is over."""

    worker_id: str
    """The worker; it is given up for good."""
    reason: str
    """What went wrong."""
    backoff_ms: int
    """For so many milliseconds no further worker is asked for."""


@dataclass(slots=True)
class TaskManagerReleased(InstanceEndEvent):
    """A TaskManager that the resource driver had started is given back: it was idle for long enough, and gets no more tasks."""


@dataclass(slots=True)
class TaskManagerFileUploadRequested(LogEvent):
    """Somebody wants something of a TaskExecutor itself; FileUploaded ends it, after a time in any case."""

    request_id: str
    """Names the upload."""
    task_manager_id: str
    """The TaskManager (stable over restarts)."""
    instance_id: str
    """One life of it: fresh at each start and after each self-fence (P12)."""
    file: TaskManagerFile
    """What is wanted: its own log, what it prints, a log by its name, the list of these, or the stacks of its threads."""
    name: str = ""
    """Which log, for NAMED: a name of the list, never a path."""
