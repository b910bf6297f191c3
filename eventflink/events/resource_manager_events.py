"""Events of the ResourceManager: TaskManagers that come and go, workers that are asked for, files that are uploaded.

Values that mirror the schemas of the same names; `log_events.py` has all of them and the rule of all.
"""

from dataclasses import dataclass

from eventflink.events.decision import LogEvent
from eventflink.model.attempts import AttemptStatus
from eventflink.model.resources import Hardware, ResourceProfile
from eventflink.model.statuses import TaskManagerFile


@dataclass(slots=True)
class TaskManagerRegistered(LogEvent):
    """A TaskManager's instance offers its slots; an older instance of it is replaced."""

    task_manager_id: str
    instance_id: str
    host: str
    process_id: int
    slot_count: int
    begun_at_ms: int = 0
    slot_profile: ResourceProfile | None = None
    metrics_address: str = ""
    hardware: Hardware | None = None
    registration_number: int = 0


@dataclass(slots=True)
class InstanceEndEvent(LogEvent):
    """An instance is not, or no longer, one of the cluster's."""

    task_manager_id: str
    instance_id: str
    reason: str


@dataclass(slots=True)
class TaskManagerReportReconciled(LogEvent):
    """A full slot report was matched against the state."""

    task_manager_id: str
    instance_id: str
    missing: tuple[str, ...]
    unknown: tuple[AttemptStatus, ...]
    number: int = 0
    ready: bool = False


@dataclass(slots=True)
class TaskManagerRegistrationRefused(InstanceEndEvent):
    """The instance is gone for good: it has to come back as a new one (P12)."""


@dataclass(slots=True)
class TaskManagerDisconnected(InstanceEndEvent):
    """An instance left in order."""


@dataclass(slots=True)
class TaskManagerLost(InstanceEndEvent):
    """An instance is gone: it missed its heartbeats, or its guardian saw it die."""


@dataclass(slots=True)
class TaskManagerBlocked(LogEvent):
    """The TaskManager gets no new slots to fill; what runs there keeps running."""

    task_manager_id: str
    reason: str
    until_ms: int
    actor: str


@dataclass(slots=True)
class TaskManagerUnblocked(LogEvent):
    """The TaskManager gets slots to fill again."""

    task_manager_id: str
    reason: str
    actor: str


@dataclass(slots=True)
class SparkEnded(LogEvent):
    """The Spark of the TaskManager's host ended by itself, or was ended since it did not answer; who needs it next starts another."""

    task_manager_id: str
    instance_id: str
    ended_at_ms: int
    reason: str


@dataclass(slots=True)
class WorkerRequested(LogEvent):
    """The resource driver is asked for a worker: a TaskManager that registers under the worker's id."""

    worker_id: str
    slot_count: int
    slot_profile: ResourceProfile | None = None


@dataclass(slots=True)
class WorkerRequestFailed(LogEvent):
    """A worker that was asked for will not come: the driver says so, or its time to register is over."""

    worker_id: str
    reason: str
    backoff_ms: int


@dataclass(slots=True)
class TaskManagerReleased(InstanceEndEvent):
    """A TaskManager that the resource driver had started is given back: it was idle for long enough, and gets no more tasks."""


@dataclass(slots=True)
class TaskManagerFileUploadRequested(LogEvent):
    """Somebody wants something of a TaskExecutor itself; FileUploaded ends it."""

    request_id: str
    task_manager_id: str
    instance_id: str
    file: TaskManagerFile
    name: str = ""
