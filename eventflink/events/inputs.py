"""What clients and TaskExecutors say to the master: the payloads of the inbound topics.

These classes mirror the schemas of the same names; a test holds the two together. How bytes become one of these, or a
refusal, is in `inbound.py`.
"""

from dataclasses import dataclass

from eventflink.model.attempts import AttemptStatus, FailureCause, LostInput, OutputLocation, SlotStatus
from eventflink.model.job_graph import JobGraph
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import ApplicationStatus, DrillStepType, ExecutionState, TaskFile, TaskManagerFile


@dataclass(slots=True, kw_only=True)
class JobSubmission:
    """A job to run."""

    job_id: str = ""
    request_id: str = ""
    reply_partition: int = -1
    actor: str = ""
    job_graph: JobGraph


@dataclass(slots=True, kw_only=True)
class CancelJob:
    """End a job."""

    request_id: str = ""
    reply_partition: int = -1
    actor: str = ""
    job_id: str
    leader_id: str = ""
    job_master_id: str = ""


@dataclass(slots=True, kw_only=True)
class RequestFileUpload:
    """Upload a file of a task attempt to the blob store."""

    request_id: str = ""
    reply_partition: int = -1
    actor: str = ""
    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int
    file: TaskFile
    leader_id: str = ""


@dataclass(slots=True, kw_only=True)
class ReportSnapshot:
    """A master has put a snapshot into `snapshots`."""

    request_id: str = ""
    reply_partition: int = -1
    actor: str = ""
    snapshot_id: str
    log_offset: int
    digest: str
    chunk_count: int
    byte_count: int
    taken_by: str


@dataclass(slots=True, kw_only=True)
class ConfirmSnapshot:
    """A master has folded the log up to a snapshot's offset by itself."""

    request_id: str = ""
    reply_partition: int = -1
    actor: str = ""
    snapshot_id: str
    log_offset: int
    digest: str
    confirmed_by: str


@dataclass(slots=True, kw_only=True)
class DrillStep:
    """Ask a master to fall; refused unless drills are allowed."""

    request_id: str = ""
    reply_partition: int = -1
    actor: str = ""
    drill_id: str
    step: DrillStepType
    master_id: str
    duration_ms: int = 0


@dataclass(slots=True, kw_only=True)
class BlockTaskManager:
    """Give no new slots of a TaskManager away."""

    request_id: str = ""
    reply_partition: int = -1
    actor: str = ""
    task_manager_id: str
    reason: str = ""
    duration_ms: int = 0
    leader_id: str = ""


@dataclass(slots=True, kw_only=True)
class UnblockTaskManager:
    """Give slots of a TaskManager away again."""

    request_id: str = ""
    reply_partition: int = -1
    actor: str = ""
    task_manager_id: str
    leader_id: str = ""


@dataclass(slots=True, kw_only=True)
class SuspendJob:
    """Stop a job without ending it."""

    request_id: str = ""
    reply_partition: int = -1
    actor: str = ""
    job_id: str
    reason: str = ""
    leader_id: str = ""
    job_master_id: str = ""


@dataclass(slots=True, kw_only=True)
class ResumeJob:
    """Let a suspended job go on."""

    request_id: str = ""
    reply_partition: int = -1
    actor: str = ""
    job_id: str
    leader_id: str = ""


@dataclass(slots=True, kw_only=True)
class RequestTaskManagerFileUpload:
    """Upload something of a TaskExecutor itself to the blob store."""

    request_id: str = ""
    reply_partition: int = -1
    actor: str = ""
    task_manager_id: str
    file: TaskManagerFile
    name: str = ""
    leader_id: str = ""


@dataclass(slots=True, kw_only=True)
class ShutDownCluster:
    """End the whole cluster in order."""

    request_id: str = ""
    reply_partition: int = -1
    actor: str = ""
    application_status: ApplicationStatus
    diagnostics: str = ""
    cancel_jobs: bool = False
    leader_id: str = ""


@dataclass(slots=True, kw_only=True)
class RescaleJob:
    """Give a vertex of a job another parallelism."""

    request_id: str = ""
    reply_partition: int = -1
    actor: str = ""
    job_id: str
    vertex_id: str
    parallelism: int
    leader_id: str = ""
    job_master_id: str = ""


@dataclass(slots=True)
class TaskManagerRegistration:
    """A TaskExecutor offers itself."""

    task_manager_id: str
    instance_id: str
    host: str
    process_id: int
    slot_count: int
    begun_at_ms: int = 0
    slot_profile: ResourceProfile | None = None
    metrics_address: str = ""


@dataclass(slots=True)
class SlotReport:
    """Everything that an instance has, for reconciliation after a change of leader."""

    task_manager_id: str
    instance_id: str
    slots: tuple[SlotStatus, ...]
    attempts: tuple[AttemptStatus, ...]


@dataclass(slots=True)
class SlotOffer:
    """The slot is taken for the allocation."""

    task_manager_id: str
    instance_id: str
    allocation_id: str


@dataclass(slots=True)
class SlotOfferRefusal:
    """The slot cannot be given, or not to this attempt."""

    task_manager_id: str
    instance_id: str
    allocation_id: str
    reason: str
    vertex_id: str
    subtask_index: int
    attempt: int


@dataclass(slots=True)
class TaskStateReport:
    """Where an attempt stands."""

    task_manager_id: str
    instance_id: str
    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int
    execution_state: ExecutionState
    outputs: tuple[OutputLocation, ...] = ()
    cause: FailureCause | None = None
    lost_inputs: tuple[LostInput, ...] = ()


@dataclass(slots=True)
class FileUploadCompleted:
    """An upload ended."""

    task_manager_id: str
    instance_id: str
    request_id: str
    blob_key: str | None = None
    error: str | None = None


@dataclass(slots=True)
class Disconnection:
    """An instance leaves in order; its tasks have ended."""

    task_manager_id: str
    instance_id: str
    reason: str


@dataclass(slots=True)
class TaskManagerDeath:
    """The guardian saw its TaskExecutor die, and has seen its task processes gone."""

    task_manager_id: str
    instance_id: str
    reason: str


@dataclass(slots=True)
class Heartbeat:
    """An instance is alive."""

    task_manager_id: str
    instance_id: str
    sequence: int
    free_slots: int
    running_tasks: int


@dataclass(slots=True)
class Canary:
    """The leader can write to and read from this partition, so silence on it means something (P13)."""

    leader_id: str
    sequence: int


Command = (
    CancelJob
    | RequestFileUpload
    | ReportSnapshot
    | ConfirmSnapshot
    | DrillStep
    | BlockTaskManager
    | UnblockTaskManager
    | SuspendJob
    | ResumeJob
    | RequestTaskManagerFileUpload
    | ShutDownCluster
    | RescaleJob
)
TaskManagerReport = (
    TaskManagerRegistration
    | SlotReport
    | SlotOffer
    | SlotOfferRefusal
    | TaskStateReport
    | FileUploadCompleted
    | Disconnection
    | TaskManagerDeath
)
