"""The whole cluster: its overview with what is wrong, and its counts for programs."""

from dataclasses import dataclass, field
from enum import StrEnum

from eventflink.documents.failures import Failure
from eventflink.documents.parked import ParkedRow
from eventflink.documents.queues import QueueRow
from eventflink.documents.task_managers import BlockedTaskManagerRow, TaskManagerRow, TaskManagerTile
from eventflink.documents.waits import WaitRow
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import ApplicationStatus, ExecutionState, JobStatus


class Severity(StrEnum):
    """What kind of problem it is."""

    FAILED = "failed"
    WAITS = "waits"
    STANDS = "stands"
    LATE = "late"
    LOST = "lost"
    SPARK_ENDED = "spark_ended"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is wrong."""

    severity: Severity
    sentence: str
    link: str
    """The page of the dashboard that shows more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCounts:
    """The slots of the cluster, and who waits for them."""

    total: int
    free: int
    pending: int
    """Asked of the resource driver, and not registered yet."""
    requests: int
    """Tasks that wait for a slot."""
    resources: ResourceProfile | None
    """What all slots have together whose TaskManagers say it; null: none does."""
    resources_free: ResourceProfile | None
    """What of it is in free slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Masters:
    """Who leads, as the log says."""

    leader: str
    blob_address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown:
    """How far the end of the cluster has come."""

    application_status: ApplicationStatus
    diagnostics: str
    cancel_jobs: bool
    actor: str
    requested_at: str | None
    status_recorded_at: str | None
    is_over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPage:
    """The overview of a cluster."""

    sentence: str
    """Whether everything is fine."""
    problems: list[Problem]
    jobs: dict[JobStatus, int]
    tasks: dict[ExecutionState, int]
    """The number of tasks in each state, of jobs that have not ended."""
    slots: SlotCounts
    waits: list[WaitRow]
    """The first five: trouble first, then the longest."""
    waits_total: int
    failures: list[Failure]
    """The newest five."""
    task_managers: list[TaskManagerTile]
    """The first ones, up to 2,000 slots in all."""
    task_managers_total: int
    masters: Masters
    shutdown: Shutdown | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingWorkerRow:
    """A worker that the resource driver was asked for and that has not registered."""

    worker_id: str
    slots: int
    slot_profile: str | None
    requested_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownWorkers:
    """The workers of the resource driver, and how its last request failed."""

    pending: list[PendingWorkerRow]
    registered: list[str]
    last_failure: str | None
    retry_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """Where a state stands in the log."""

    epoch: int
    leader_id: str
    log_offset: int
    decisions_accepted: int
    decisions_rejected: int
    last_decision_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus(LogPosition):
    """A cluster as `status` shows it."""

    jobs: dict[JobStatus, int]
    jobs_live: int
    slots: int
    slots_free: int
    slots_pending: int
    """Asked of the resource driver, and not registered yet."""
    slot_requests: int
    workers: KnownWorkers
    shutdown: Shutdown | None
    blocked: list[BlockedTaskManagerRow]
    parked: list[ParkedRow]
    task_managers: list[TaskManagerRow]
    queues: list[QueueRow] = field(default_factory=list)
    """The named queues of jobs; empty if none are configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """How many there are of everything."""

    task_managers: int
    slots: int
    slots_free: int
    slots_pending: int
    """Asked of the resource driver, and not registered."""
    slot_requests: int
    """Attempts that wait for a slot."""
    jobs: dict[JobStatus, int]
    jobs_live: int
    leader_id: str
    """The fencing token of the Dispatcher and the ResourceManager."""
    leading_master_id: str
    blob_address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOverview(Overview):
    """How many there are of everything, and the record of the log that this reflects."""

    epoch: int
    log_offset: int
