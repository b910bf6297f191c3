"""What clients and TaskExecutors say to the master: the payloads of the inbound topics.

These classes mirror the schemas of the same names; a test holds the two together. What all requests have, and what a request is about, is
said by their base class; how bytes become one of these, or a refusal, is in `leadership/inbound.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from eventflink.events.topics import Topic
from eventflink.model.attempts import AttemptStatus, FailureCause, LostInput, OutputLocation, SlotStatus
from eventflink.model.job_graph import JobGraph
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import ApplicationStatus, DrillStepType, ExecutionState, TaskFile, TaskManagerFile

NO_REPLY: Final = -1
"""The reply partition of a request that wants no answer."""

CLUSTER_SUBJECT: Final = "cluster"
"""What a request is about that concerns the whole cluster."""


@dataclass(slots=True, kw_only=True)
class Request:
    """What a client asks for: answered by a decision (P7), and done once under each request id (P8)."""

    topic: ClassVar[Topic] = Topic.COMMANDS
    subject_field: ClassVar[str] = "job_id"
    """The field that names what the request is about; empty: it is about the whole cluster."""
    refused_while_shutting_down: ClassVar[bool] = False
    """Whether it would run a job, which a cluster that is shut down does no more."""

    request_id: str = ""
    reply_partition: int = NO_REPLY
    actor: str = ""

    @property
    def subject(self) -> str:
        """What the request is about, in full: the id of a job, a TaskManager, a snapshot or a drill, or the cluster."""
        return str(getattr(self, self.subject_field)) if self.subject_field else CLUSTER_SUBJECT


@dataclass(slots=True, kw_only=True)
class JobSubmission(Request):
    """A job to run."""

    topic: ClassVar = Topic.SUBMISSIONS
    refused_while_shutting_down: ClassVar = True

    job_id: str = ""
    job_graph: JobGraph


@dataclass(slots=True, kw_only=True)
class Command(Request):
    """A request on `commands`."""


@dataclass(slots=True, kw_only=True)
class FencedCommand(Command):
    """A command that may be for one leader only: a fencing token is a part of the input, and never of the log."""

    leader_id: str = ""
    """Whose leadership it is for; empty: for whoever leads."""


@dataclass(slots=True, kw_only=True)
class FencedJobCommand(FencedCommand):
    """A command about a job that may be for one JobMaster of it only."""

    job_id: str
    job_master_id: str = ""
    """Which JobMaster of the job it is for; empty: for whichever there is."""


@dataclass(slots=True, kw_only=True)
class CancelJob(FencedJobCommand):
    """End a job."""


@dataclass(slots=True, kw_only=True)
class RequestFileUpload(FencedCommand):
    """Upload a file of a task attempt to the blob store."""

    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int
    file: TaskFile


@dataclass(slots=True, kw_only=True)
class ReportSnapshot(Command):
    """A master has put a snapshot into `snapshots`."""

    subject_field: ClassVar = "snapshot_id"

    snapshot_id: str
    log_offset: int
    digest: str
    chunk_count: int
    byte_count: int
    taken_by: str


@dataclass(slots=True, kw_only=True)
class ConfirmSnapshot(Command):
    """A master has folded the log up to a snapshot's offset by itself."""

    subject_field: ClassVar = "snapshot_id"

    snapshot_id: str
    log_offset: int
    digest: str
    confirmed_by: str


@dataclass(slots=True, kw_only=True)
class DrillStep(Command):
    """Ask a master to fall; refused unless drills are allowed."""

    subject_field: ClassVar = "drill_id"

    drill_id: str
    step: DrillStepType
    master_id: str
    duration_ms: int = 0


@dataclass(slots=True, kw_only=True)
class BlockTaskManager(FencedCommand):
    """Give no new slots of a TaskManager away."""

    subject_field: ClassVar = "task_manager_id"

    task_manager_id: str
    reason: str = ""
    duration_ms: int = 0


@dataclass(slots=True, kw_only=True)
class UnblockTaskManager(FencedCommand):
    """Give slots of a TaskManager away again."""

    subject_field: ClassVar = "task_manager_id"

    task_manager_id: str


@dataclass(slots=True, kw_only=True)
class SuspendJob(FencedJobCommand):
    """Stop a job without ending it."""

    reason: str = ""


@dataclass(slots=True, kw_only=True)
class ResumeJob(FencedCommand):
    """Let a suspended job go on."""

    refused_while_shutting_down: ClassVar = True

    job_id: str


@dataclass(slots=True, kw_only=True)
class RequestTaskManagerFileUpload(FencedCommand):
    """Upload something of a TaskExecutor itself to the blob store."""

    subject_field: ClassVar = "task_manager_id"

    task_manager_id: str
    file: TaskManagerFile
    name: str = ""


@dataclass(slots=True, kw_only=True)
class ShutDownCluster(FencedCommand):
    """End the whole cluster in order."""

    subject_field: ClassVar = ""

    application_status: ApplicationStatus
    diagnostics: str = ""
    cancel_jobs: bool = False


@dataclass(slots=True, kw_only=True)
class RescaleJob(FencedJobCommand):
    """Give a vertex of a job another parallelism."""

    vertex_id: str
    parallelism: int


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


COMMANDS: Final[Mapping[str, type[Command]]] = {
    name: cls for name, cls in tuple(globals().items()) if isinstance(cls, type) and issubclass(cls, Command) and not cls.__subclasses__()
}
"""Every command by its name, in the order of the schema's union."""

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
