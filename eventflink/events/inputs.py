"""What clients and TaskExecutors say to the master: the payloads of the inbound topics.

The schemas of the same names are made of these classes. What all requests have, and what a request is about, is
said by their base class. The bounds of a request's fields are annotations; `leadership/inbound.py`, which turns bytes into one of these or
a refusal, checks them in whatever encoding a request comes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import annotated_types as at

from eventflink.events.topics import SPECIFICATIONS, Topic
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
from eventflink.model.schedules import ScheduleDefinition
from eventflink.model.spark_ends import SparkEnd
from eventflink.model.spark_engines import SparkAddress
from eventflink.model.statuses import ApplicationStatus, DrillStepType, ExecutionState, SavepointMode, TaskFile, TaskManagerFile
from eventflink.model.stream_progress import StreamProgress

NO_REPLY: Final = -1
"""The reply partition of a request that wants no answer."""

CLUSTER_SUBJECT: Final = "cluster"
"""What a request is about that concerns the whole cluster."""


MAX_ID_LENGTH: Final = 128
MAX_ACTOR_LENGTH: Final = 256
MAX_REPLY_PARTITION: Final = SPECIFICATIONS[Topic.REPLIES].partitions - 1
"""The last partition on which an answer can be sent."""
MAX_REASON_LENGTH: Final = 1_024
MAX_DIAGNOSTICS_LENGTH: Final = 8_192
MAX_DIGEST_LENGTH: Final = 128
MAX_DIRECTORY_LENGTH: Final = 2_048
MAX_BLOCKED_MS: Final = 366 * 86_400_000
MAX_FREEZE_MS: Final = 600_000
MAX_TIME_MS: Final = 253_370_764_800_000
"""The year 9999."""
MAX_SCHEDULE_ID_LENGTH: Final = 96
"""With the instant behind it, it is the id of a job."""
MAX_BACKFILL_CONCURRENCY: Final = 100

MAX_VERTICES_NAMED: Final = 1_000

Reason = Annotated[str, at.MaxLen(MAX_REASON_LENGTH)]
VertexName = Annotated[str, at.MaxLen(MAX_ID_LENGTH)]


@dataclass(slots=True, kw_only=True)
class Request:
    """What a client asks for: answered by a decision (P7), and done once under each request id (P8)."""

    topic: ClassVar[Topic] = Topic.COMMANDS
    subject_field: ClassVar[str] = "job_id"
    """The field that names what the request is about; empty: it is about the whole cluster."""
    refused_while_shutting_down: ClassVar[bool] = False
    """Whether it would run a job, which a cluster that is shut down does no more."""

    request_id: Annotated[str, at.MaxLen(MAX_ID_LENGTH)] = ""
    """Names the request; the same id is answered once more, never done twice. Empty: derived from topic, partition and offset."""
    reply_partition: Annotated[int, at.Interval(ge=NO_REPLY, le=MAX_REPLY_PARTITION)] = NO_REPLY
    """The partition of `replies` the client listens to; -1: it wants no reply; -2 in the log: unknown, so the answer goes to all."""
    actor: Annotated[str, at.MaxLen(MAX_ACTOR_LENGTH)] = ""
    """Who asks."""

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
    """Letters, digits, `.`, `_` and `-`, at most 128. Empty: derived from topic, partition and offset."""
    job_graph: JobGraph
    """What to run."""


@dataclass(slots=True, kw_only=True)
class Command(Request):
    """A request on `commands`."""


@dataclass(slots=True, kw_only=True)
class FencedCommand(Command):
    """A command that may be for one leader only: a fencing token is a part of the input, and never of the log."""

    leader_id: str = ""
    """Fencing token: the id of the leader that is to do this, as in its heartbeats; another leader refuses. Empty: any leader."""


@dataclass(slots=True, kw_only=True)
class FencedJobCommand(FencedCommand):
    """A command about a job that may be for one JobMaster of it only."""

    job_id: str
    """The job."""
    job_master_id: str = ""
    """Fencing token: which JobMaster of the job this is for; another one refuses. Empty: whichever there is."""


@dataclass(slots=True, kw_only=True)
class CancelJob(FencedJobCommand):
    """End a job."""

    closing: bool = False
    """Whether closing vertices that run are cancelled as well."""


@dataclass(slots=True, kw_only=True)
class RequestFileUpload(FencedCommand, HasAttemptId):
    """Upload a file of a task attempt to the blob store."""

    job_id: str
    """The job."""
    vertex_id: str
    """The vertex in the job's graph."""
    subtask_index: int = 0
    """Which parallel subtask of the vertex, from 0."""
    attempt: int = 1
    """Which attempt of the subtask, from 1."""
    file: TaskFile = TaskFile.LOG
    """Which file."""


@dataclass(slots=True, kw_only=True)
class ReportSnapshot(Command):
    """A master has put a snapshot into `snapshots`."""

    subject_field: ClassVar = "snapshot_id"

    snapshot_id: str
    """Names it in `snapshots`."""
    log_offset: int
    """It holds the state after this record."""
    digest: Annotated[str, at.MinLen(1), at.MaxLen(MAX_DIGEST_LENGTH)]
    """The state's canonical digest, in hexadecimal."""
    chunk_count: Annotated[int, at.Interval(ge=1)]
    """Of how many records it consists."""
    byte_count: Annotated[int, at.Interval(ge=0)]
    """Their data together."""
    taken_by: str
    """The master."""


@dataclass(slots=True, kw_only=True)
class ConfirmSnapshot(Command):
    """A master has folded the log up to a snapshot's offset by itself."""

    subject_field: ClassVar = "snapshot_id"

    snapshot_id: str
    """The snapshot."""
    log_offset: int
    """Its offset."""
    digest: str
    """The digest that this master came to, in hexadecimal."""
    confirmed_by: Annotated[str, at.MinLen(1)]
    """This master."""


@dataclass(slots=True, kw_only=True)
class DrillStep(Command):
    """Ask a master to crash, freeze or step down; refused unless drills are allowed."""

    subject_field: ClassVar = "drill_id"

    drill_id: str
    """Names the drill."""
    step: DrillStepType
    """What it is to do."""
    master_id: str
    """Which master."""
    duration_ms: Annotated[int, at.Interval(ge=0, le=MAX_FREEZE_MS)] = 0
    """For how long it freezes."""


@dataclass(slots=True, kw_only=True)
class BlockTaskManager(FencedCommand):
    """Give no new slots of a TaskManager away; what runs there keeps running."""

    subject_field: ClassVar = "task_manager_id"

    task_manager_id: str
    """The TaskManager (stable over restarts)."""
    reason: Reason = ""
    """Why; it is shown with the TaskManager."""
    duration_ms: Annotated[int, at.Interval(ge=0, le=MAX_BLOCKED_MS)] = 0
    """After this long it is unblocked by itself; 0: by a command alone."""


@dataclass(slots=True, kw_only=True)
class UnblockTaskManager(FencedCommand):
    """Give slots of a TaskManager away again."""

    subject_field: ClassVar = "task_manager_id"

    task_manager_id: str
    """The TaskManager (stable over restarts)."""


@dataclass(slots=True, kw_only=True)
class SuspendJob(FencedJobCommand):
    """Stop a job without ending it: its attempts end, what has finished stays."""

    reason: Reason = ""
    """Why; it is recorded in the log."""


@dataclass(slots=True, kw_only=True)
class ResumeJob(FencedCommand):
    """Resume a suspended job with what had not finished."""

    refused_while_shutting_down: ClassVar = True

    job_id: str
    """The job."""


@dataclass(slots=True, kw_only=True)
class RerunJob(FencedCommand):
    """Run an ended job again, as another job: with its graph and its code or with others, from the beginning, or from where it failed."""

    refused_while_shutting_down: ClassVar = True

    job_id: str = ""
    """The id of the new job. Empty: the id of the request."""
    rerun_of: str
    """The id of the ended job, which must still be in the memory of the masters."""
    parameters: tuple[ParameterValue, ...] = ()
    """Values that are others than in that job; in JSON an object of values by name."""
    failed: bool = False
    """Whether what that job has finished is reused where it can be; else everything runs, unless `from_vertices` says where to begin."""
    from_vertices: Annotated[tuple[VertexName, ...], at.MaxLen(MAX_VERTICES_NAMED)] = ()
    """These vertices and all that reads them run; what else that job has finished is reused where it can be."""
    job_graph: JobGraph | None = None
    """The graph that runs in place of that job's, under its name; null: its graph. Its parameters have the values of that job where these
    were not the defaults, and a graph without code archives has those of that job.
    """


@dataclass(slots=True, kw_only=True)
class ScheduleCommand(FencedCommand):
    """A command about a schedule."""

    subject_field: ClassVar = "schedule_id"

    schedule_id: str
    """The schedule: letters, digits, `.`, `_` and `-`, at most 96."""


@dataclass(slots=True, kw_only=True)
class PutSchedule(ScheduleCommand):
    """Make a schedule, or give the one of this id another definition."""

    definition: ScheduleDefinition
    """What it starts, and when; in JSON its document."""


@dataclass(slots=True, kw_only=True)
class DeleteSchedule(ScheduleCommand):
    """Remove a schedule; the jobs that it started run on."""


@dataclass(slots=True, kw_only=True)
class PauseSchedule(ScheduleCommand):
    """Start no jobs for the instants of a schedule until it is resumed."""

    reason: Reason = ""
    """Why; it is shown with the schedule."""


@dataclass(slots=True, kw_only=True)
class ResumeSchedule(ScheduleCommand):
    """Start jobs again, from the next instant on."""


@dataclass(slots=True, kw_only=True)
class FireSchedule(FencedCommand):
    """Start the job of a schedule now, for an instant, whatever else runs of it."""

    refused_while_shutting_down: ClassVar = True

    job_id: str = ""
    """The id of the new job. Empty: the id of the request."""
    schedule_id: str
    """The schedule."""
    instant_ms: Annotated[int, at.Interval(ge=0, le=MAX_TIME_MS)] | None = None
    """For which time, in milliseconds since 1970; it need not be an instant of the schedule. Null: now."""
    parameters: tuple[ParameterValue, ...] = ()
    """Values that are others than the schedule says; in JSON an object of values by name."""


@dataclass(slots=True, kw_only=True)
class StartBackfill(ScheduleCommand):
    """Start the jobs of the instants of a time that has passed."""

    refused_while_shutting_down: ClassVar = True

    first_ms: Annotated[int, at.Interval(ge=0, le=MAX_TIME_MS)]
    """No instant before it."""
    end_ms: Annotated[int, at.Interval(ge=0, le=MAX_TIME_MS)]
    """No instant at or after it."""
    concurrency: Annotated[int, at.Interval(ge=1, le=MAX_BACKFILL_CONCURRENCY)] = 1
    """How many of its jobs may run at once."""
    newest_first: bool = False
    """Whether it begins with the newest instant."""
    repeats_finished: bool = False
    """Whether instants get a job whose job has finished, as far as the masters know."""


@dataclass(slots=True, kw_only=True)
class CancelBackfill(ScheduleCommand):
    """End the back-fill of a schedule, and cancel its jobs that run."""


@dataclass(slots=True, kw_only=True)
class DismissJobFailure(FencedCommand):
    """Dismiss the failure of a job: the cluster no longer counts the failed job as a problem."""

    job_id: str
    """The job."""
    reason: Reason = ""
    """Why; empty: it is not said."""


@dataclass(slots=True, kw_only=True)
class RequestTaskManagerFileUpload(FencedCommand):
    """Upload something of a TaskExecutor itself to the blob store."""

    subject_field: ClassVar = "task_manager_id"

    task_manager_id: str
    """The TaskManager (stable over restarts)."""
    file: TaskManagerFile = TaskManagerFile.LOG
    """What is wanted: its own log, what it prints, a log by its name, the list of these, or the stacks of its threads."""
    name: str = ""
    """Which log, for NAMED: a name of the list, never a path."""


@dataclass(slots=True, kw_only=True)
class ShutDownCluster(FencedCommand):
    """End the whole cluster in order: its jobs, its TaskManagers, its masters."""

    subject_field: ClassVar = ""

    application_status: ApplicationStatus = ApplicationStatus.SUCCEEDED
    """How what the cluster was started for came out; the masters' exit code follows from it."""
    diagnostics: Annotated[str, at.MaxLen(MAX_DIAGNOSTICS_LENGTH)] = ""
    """An explanation for people."""
    cancel_jobs: bool = False
    """Whether jobs are cancelled; else they are suspended, and resumed when the cluster starts again."""


@dataclass(slots=True, kw_only=True)
class RescaleJob(FencedJobCommand):
    """Give a vertex of a job another parallelism."""

    vertex_id: str
    """The vertex."""
    parallelism: int
    """How many subtasks it, and those that forward edges bind to it, are to have."""


@dataclass(slots=True, kw_only=True)
class TriggerCheckpoint(FencedJobCommand):
    """Take a checkpoint of a job with streams now."""


@dataclass(slots=True, kw_only=True)
class TriggerSavepoint(FencedJobCommand):
    """Take a savepoint of a job with streams, and do with the job what its mode says."""

    target_directory: Annotated[str, at.MaxLen(MAX_DIRECTORY_LENGTH)] = ""
    """Where its directory is made; empty: where the cluster's configuration says."""
    mode: SavepointMode = SavepointMode.CONTINUE
    """What becomes of the job."""


@dataclass(slots=True, kw_only=True)
class ReleaseParkedInput(FencedCommand):
    """Try a parked input again, or drop it."""

    subject_field: ClassVar = "parked_id"

    parked_id: str
    """Which of the parked inputs."""
    retry: bool = True
    """Try it again; false: drop it, if the state does not want it done any more."""


@dataclass(slots=True)
class InstanceMessage:
    """What one instance of a TaskManager says, or its guardian says of it."""

    task_manager_id: str
    """The TaskManager (stable over restarts)."""
    instance_id: str
    """One life of it: fresh at each start and after each self-fence (P12)."""


@dataclass(slots=True)
class TaskManagerRegistration(InstanceMessage):
    """A TaskExecutor offers itself."""

    host: str
    """Where it runs."""
    process_id: int
    """Its process there."""
    slot_count: int
    """How many slots."""
    begun_at_ms: int = 0
    """When the instance began, in milliseconds of its own host's clock; an instance does not replace one that began later. 0: not said."""
    slot_profile: ResourceProfile | None = None
    """What each of its slots has; null: not said."""
    metrics_address: str = ""
    """host:port where it serves its metrics to Prometheus; empty: nowhere, or not said."""
    hardware: Hardware | None = None
    """What its host has; null: not said."""
    number: int = 0
    """Which registration of this instance it is, from 1 on: the answer names it. 0: not said."""
    spark_addresses: tuple[SparkAddress, ...] = ()
    """Where those of its Sparks are that are elsewhere."""
    deployment_partition: int = 0
    """Which partition of `deployments` it reads; a registered instance goes on reading that one."""


@dataclass(slots=True)
class SlotReport(InstanceMessage):
    """Everything that an instance has, for reconciliation after a change of leader."""

    slots: tuple[SlotStatus, ...]
    """All its slots."""
    attempts: tuple[AttemptStatus, ...]
    """All attempts that are not terminal."""
    number: int = 0
    """How many of these reports the instance has made, this one included; 0: it was not said. A copy that comes late is not obeyed (P16).
    """
    ready: bool = False
    """Whether its fork servers have loaded what tasks need: one that is not ready is given tasks last."""
    disk_fault: str = ""
    """Why it cannot write where its tasks would; empty: it can. While it cannot, it is given no tasks."""
    spark_end: SparkEnd | None = None
    """The last end of the host's Spark that the instance has seen; null: none."""
    deployment_partition: int = 0
    """Which partition of `deployments` it reads: an instance that is not registered is answered there."""


@dataclass(slots=True)
class SlotOffer(InstanceMessage):
    """The slot is taken for the allocation."""

    allocation_id: str
    """The allocation."""


@dataclass(slots=True)
class SlotOfferRefusal(InstanceMessage):
    """The slot cannot be given, or not to this attempt."""

    allocation_id: str
    """The allocation."""
    reason: str
    """Why."""
    vertex_id: str
    """The vertex of the attempt that is refused."""
    subtask_index: int
    """Its subtask, from 0."""
    attempt: int
    """Which attempt of that, from 1."""


@dataclass(slots=True)
class TaskStateReport(InstanceMessage, HasAttemptId):
    """Where an attempt stands."""

    job_id: str
    """The job."""
    vertex_id: str
    """The vertex in the job's graph."""
    subtask_index: int
    """Which parallel subtask of the vertex, from 0."""
    attempt: int
    """Which attempt of the subtask, from 1."""
    execution_state: ExecutionState
    """Where it stands now."""
    outputs: tuple[OutputLocation, ...] = ()
    """With FINISHED: what it published."""
    cause: FailureCause | None = None
    """With FAILED: why."""
    lost_inputs: tuple[LostInput, ...] = ()
    """With FAILED: the outputs of other subtasks that the attempt could not read. At most 1,000."""
    io: IOMetrics | None = None
    """With FINISHED: what it read and wrote; null: not known."""
    accumulators: Accumulators | None = None
    """With FINISHED: what its code has counted; null: nothing."""


@dataclass(slots=True)
class FileUploadCompleted(InstanceMessage):
    """An upload ended."""

    request_id: str
    """Names the upload."""
    blob_key: str | None = None
    """SHA-256 of the content."""
    error: str | None = None
    """What was in the way."""


@dataclass(slots=True)
class Disconnection(InstanceMessage):
    """An instance leaves in order; its tasks have ended."""

    reason: str
    """Why."""


@dataclass(slots=True)
class TaskManagerDeath(InstanceMessage):
    """The guardian saw its TaskExecutor die, and has seen its task processes gone."""

    reason: str
    """What it saw."""


@dataclass(slots=True)
class StreamStartReport(InstanceMessage, HasAttemptId):
    """The query of a stream's attempt runs."""

    job_id: str
    """The job."""
    vertex_id: str
    """The vertex in the job's graph."""
    subtask_index: int
    """Which parallel subtask of the vertex, from 0."""
    attempt: int
    """Which attempt of the subtask, from 1."""
    query_id: str
    """Spark's id of the query, the same for all attempts with this checkpoint directory."""
    run_id: str
    """Spark's id of this run of it."""
    spark_session_id: str
    """The session in which it runs."""
    location: str
    """The directory of the subtask's checkpoints."""
    restored_batch_id: int
    """The last batch that an earlier attempt committed, and after which this one goes on; -1: the stream begins."""


@dataclass(slots=True)
class CheckpointAcknowledgement(InstanceMessage, HasAttemptId):
    """Where an attempt's stream stands, for a checkpoint."""

    job_id: str
    """The job."""
    vertex_id: str
    """The vertex in the job's graph."""
    subtask_index: int
    """Which parallel subtask of the vertex, from 0."""
    attempt: int
    """Which attempt of the subtask, from 1."""
    checkpoint_id: int
    """Which checkpoint of the job, from 1."""
    progress: StreamProgress
    """Where it stands."""


@dataclass(slots=True)
class CheckpointDecline(InstanceMessage, HasAttemptId):
    """An attempt takes no part in a checkpoint."""

    job_id: str
    """The job."""
    vertex_id: str
    """The vertex in the job's graph."""
    subtask_index: int
    """Which parallel subtask of the vertex, from 0."""
    attempt: int
    """Which attempt of the subtask, from 1."""
    checkpoint_id: int
    """Which checkpoint of the job, from 1."""
    reason: str
    """Why."""
    task_ended: bool = False
    """The attempt does not run: that is no failure of the checkpoint."""


@dataclass(slots=True)
class Heartbeat(InstanceMessage):
    """An instance is alive."""

    sequence: int
    """Counts the heartbeats of the instance."""
    free_slots: int
    """Slots without an allocation."""
    running_tasks: int
    """Task processes that run."""


@dataclass(slots=True)
class Canary:
    """The leader can write to and read from this partition, so silence on it means something (P13)."""

    leader_id: str
    """Who wrote it."""
    sequence: int
    """Counts the canaries of the leader."""


COMMANDS: Final[Mapping[str, type[Command]]] = {
    name: cls for name, cls in tuple(globals().items()) if isinstance(cls, type) and issubclass(cls, Command) and not cls.__subclasses__()
}
"""Every command by its name, in the order of their module, which is that of the schema's union."""

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
