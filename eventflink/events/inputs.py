"""What clients and TaskExecutors say to the master: the payloads of the inbound topics.

These classes mirror the schemas of the same names; a test holds the two together. What all requests have, and what a request is about, is
said by their base class. The bounds of a request's fields are annotations; `leadership/inbound.py`, which turns bytes into one of these or
a refusal, checks them in whatever encoding a request comes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import annotated_types as at

from eventflink.events.topics import Topic
from eventflink.model.attempts import (
    Accumulators,
    AttemptStatus,
    FailureCause,
    HasAttemptId,
    IOMetrics,
    LostInput,
    OutputLocation,
    SlotStatus,
)
from eventflink.model.job_graph import JobGraph, ParameterValue
from eventflink.model.resources import Hardware, ResourceProfile
from eventflink.model.spark_ends import SparkEnd
from eventflink.model.statuses import ApplicationStatus, DrillStepType, ExecutionState, SavepointMode, TaskFile, TaskManagerFile
from eventflink.model.stream_progress import StreamProgress

NO_REPLY: Final = -1
"""The reply partition of a request that wants no answer."""

CLUSTER_SUBJECT: Final = "cluster"
"""What a request is about that concerns the whole cluster."""


MAX_ID_LENGTH: Final = 128
MAX_ACTOR_LENGTH: Final = 256
MAX_REPLY_PARTITION: Final = 1_000
MAX_REASON_LENGTH: Final = 1_024
MAX_DIAGNOSTICS_LENGTH: Final = 8_192
MAX_DIGEST_LENGTH: Final = 128
MAX_DIRECTORY_LENGTH: Final = 2_048
MAX_BLOCKED_MS: Final = 366 * 86_400_000
MAX_FREEZE_MS: Final = 600_000

Reason = Annotated[str, at.MaxLen(MAX_REASON_LENGTH)]


@dataclass(slots=True, kw_only=True)
class Request:
    """What a client asks for: answered by a decision (P7), and done once under each request id (P8)."""

    topic: ClassVar[Topic] = Topic.COMMANDS
    subject_field: ClassVar[str] = "job_id"
    """The field that names what the request is about; empty: it is about the whole cluster."""
    refused_while_shutting_down: ClassVar[bool] = False
    """Whether it would run a job, which a cluster that is shut down does no more."""

    request_id: Annotated[str, at.MaxLen(MAX_ID_LENGTH)] = ""
    reply_partition: Annotated[int, at.Interval(ge=NO_REPLY, le=MAX_REPLY_PARTITION)] = NO_REPLY
    actor: Annotated[str, at.MaxLen(MAX_ACTOR_LENGTH)] = ""

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
    """The leader that it is for; empty: any leader."""


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
class RequestFileUpload(FencedCommand, HasAttemptId):
    """Upload a file of a task attempt to the blob store."""

    job_id: str
    vertex_id: str
    subtask_index: int = 0
    attempt: int = 1
    file: TaskFile = TaskFile.LOG


@dataclass(slots=True, kw_only=True)
class ReportSnapshot(Command):
    """A master has put a snapshot into `snapshots`."""

    subject_field: ClassVar = "snapshot_id"

    snapshot_id: str
    log_offset: int
    digest: Annotated[str, at.MinLen(1), at.MaxLen(MAX_DIGEST_LENGTH)]
    chunk_count: Annotated[int, at.Interval(ge=1)]
    byte_count: Annotated[int, at.Interval(ge=0)]
    taken_by: str


@dataclass(slots=True, kw_only=True)
class ConfirmSnapshot(Command):
    """A master has folded the log up to a snapshot's offset by itself."""

    subject_field: ClassVar = "snapshot_id"

    snapshot_id: str
    log_offset: int
    digest: str
    confirmed_by: Annotated[str, at.MinLen(1)]


@dataclass(slots=True, kw_only=True)
class DrillStep(Command):
    """Ask a master to crash, freeze or step down; refused unless drills are allowed."""

    subject_field: ClassVar = "drill_id"

    drill_id: str
    step: DrillStepType
    master_id: str
    duration_ms: Annotated[int, at.Interval(ge=0, le=MAX_FREEZE_MS)] = 0


@dataclass(slots=True, kw_only=True)
class BlockTaskManager(FencedCommand):
    """Give no new slots of a TaskManager away."""

    subject_field: ClassVar = "task_manager_id"

    task_manager_id: str
    reason: Reason = ""
    duration_ms: Annotated[int, at.Interval(ge=0, le=MAX_BLOCKED_MS)] = 0


@dataclass(slots=True, kw_only=True)
class UnblockTaskManager(FencedCommand):
    """Give slots of a TaskManager away again."""

    subject_field: ClassVar = "task_manager_id"

    task_manager_id: str


@dataclass(slots=True, kw_only=True)
class SuspendJob(FencedJobCommand):
    """Stop a job without ending it."""

    reason: Reason = ""


@dataclass(slots=True, kw_only=True)
class ResumeJob(FencedCommand):
    """Resume a suspended job."""

    refused_while_shutting_down: ClassVar = True

    job_id: str


@dataclass(slots=True, kw_only=True)
class RerunJob(FencedCommand):
    """Run an ended job again, as another job."""

    refused_while_shutting_down: ClassVar = True

    job_id: str = ""
    """The id of the new job; empty: the id of the request."""
    rerun_of: str
    """The id of the ended job."""
    parameters: tuple[ParameterValue, ...] = ()
    """Values that are others than in that job."""


@dataclass(slots=True, kw_only=True)
class DismissJobFailure(FencedCommand):
    """Remove a failed job from the problems of the cluster."""

    job_id: str
    reason: Reason = ""


@dataclass(slots=True, kw_only=True)
class RequestTaskManagerFileUpload(FencedCommand):
    """Upload something of a TaskExecutor itself to the blob store."""

    subject_field: ClassVar = "task_manager_id"

    task_manager_id: str
    file: TaskManagerFile = TaskManagerFile.LOG
    name: str = ""


@dataclass(slots=True, kw_only=True)
class ShutDownCluster(FencedCommand):
    """End the whole cluster in order."""

    subject_field: ClassVar = ""

    application_status: ApplicationStatus = ApplicationStatus.SUCCEEDED
    diagnostics: Annotated[str, at.MaxLen(MAX_DIAGNOSTICS_LENGTH)] = ""
    cancel_jobs: bool = False


@dataclass(slots=True, kw_only=True)
class RescaleJob(FencedJobCommand):
    """Give a vertex of a job another parallelism."""

    vertex_id: str
    parallelism: int


@dataclass(slots=True, kw_only=True)
class TriggerCheckpoint(FencedJobCommand):
    """Take a checkpoint of a job with streams now."""


@dataclass(slots=True, kw_only=True)
class TriggerSavepoint(FencedJobCommand):
    """Take a savepoint of a job with streams, and do with the job what its mode says."""

    target_directory: Annotated[str, at.MaxLen(MAX_DIRECTORY_LENGTH)] = ""
    mode: SavepointMode = SavepointMode.CONTINUE


@dataclass(slots=True, kw_only=True)
class ReleaseParkedInput(FencedCommand):
    """Try a parked input again, or drop it."""

    subject_field: ClassVar = "parked_id"

    parked_id: str
    retry: bool = True


@dataclass(slots=True)
class InstanceMessage:
    """What one instance of a TaskManager says, or its guardian says of it."""

    task_manager_id: str
    instance_id: str


@dataclass(slots=True)
class TaskManagerRegistration(InstanceMessage):
    """A TaskExecutor offers itself."""

    host: str
    process_id: int
    slot_count: int
    begun_at_ms: int = 0
    slot_profile: ResourceProfile | None = None
    metrics_address: str = ""
    hardware: Hardware | None = None
    number: int = 0


@dataclass(slots=True)
class SlotReport(InstanceMessage):
    """Everything that an instance has, for reconciliation after a change of leader."""

    slots: tuple[SlotStatus, ...]
    attempts: tuple[AttemptStatus, ...]
    number: int = 0
    ready: bool = False
    disk_fault: str = ""
    spark_end: SparkEnd | None = None


@dataclass(slots=True)
class SlotOffer(InstanceMessage):
    """The slot is taken for the allocation."""

    allocation_id: str


@dataclass(slots=True)
class SlotOfferRefusal(InstanceMessage):
    """The slot cannot be given, or not to this attempt."""

    allocation_id: str
    reason: str
    vertex_id: str
    subtask_index: int
    attempt: int


@dataclass(slots=True)
class TaskStateReport(InstanceMessage, HasAttemptId):
    """Where an attempt stands."""

    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int
    execution_state: ExecutionState
    outputs: tuple[OutputLocation, ...] = ()
    cause: FailureCause | None = None
    lost_inputs: tuple[LostInput, ...] = ()
    io: IOMetrics | None = None
    accumulators: Accumulators | None = None


@dataclass(slots=True)
class FileUploadCompleted(InstanceMessage):
    """An upload ended."""

    request_id: str
    blob_key: str | None = None
    error: str | None = None


@dataclass(slots=True)
class Disconnection(InstanceMessage):
    """An instance leaves in order; its tasks have ended."""

    reason: str


@dataclass(slots=True)
class TaskManagerDeath(InstanceMessage):
    """The guardian saw its TaskExecutor die, and has seen its task processes gone."""

    reason: str


@dataclass(slots=True)
class StreamStartReport(InstanceMessage, HasAttemptId):
    """The query of a stream's attempt runs."""

    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int
    query_id: str
    run_id: str
    spark_session_id: str
    location: str
    restored_batch_id: int


@dataclass(slots=True)
class CheckpointAcknowledgement(InstanceMessage, HasAttemptId):
    """Where an attempt's stream stands, for a checkpoint."""

    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int
    checkpoint_id: int
    progress: StreamProgress


@dataclass(slots=True)
class CheckpointDecline(InstanceMessage, HasAttemptId):
    """An attempt takes no part in a checkpoint."""

    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int
    checkpoint_id: int
    reason: str
    task_ended: bool = False


@dataclass(slots=True)
class Heartbeat(InstanceMessage):
    """An instance is alive."""

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

MASTERS_COMMANDS: Final = (ReportSnapshot, ConfirmSnapshot)
"""What masters alone say on `commands` (P3a)."""

REQUESTS: Final[tuple[type[Request], ...]] = (JobSubmission, *COMMANDS.values())
"""Every kind of request."""

TaskManagerReport = (
    TaskManagerRegistration
    | SlotReport
    | SlotOffer
    | SlotOfferRefusal
    | TaskStateReport
    | FileUploadCompleted
    | Disconnection
    | TaskManagerDeath
    | StreamStartReport
    | CheckpointAcknowledgement
    | CheckpointDecline
)
