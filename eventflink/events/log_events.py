"""Every event that a decision can hold: what happened, in the past tense, by the component it belongs to.

Events are values: nobody changes one after it was made (they are not frozen only because freezing triples the cost of a
replay). These classes mirror the schemas of the same names; a test holds the two together.
"""

from dataclasses import dataclass

from eventflink.model.attempts import AttemptStatus, FailureCause, OutputLocation, SubtaskReference
from eventflink.model.job_graph import JobGraph, RestartStrategy
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import (
    ApplicationStatus,
    DrillStepType,
    ExecutionState,
    FailoverStrategy,
    FollowUpType,
    JobStatus,
    RescaleReason,
    SchedulerType,
    SlotRequestDeferralReason,
    TaskFile,
    TaskManagerFile,
)


@dataclass(slots=True)
class LeadershipGranted:
    """A candidate's bid for the next epoch; the first one in log order wins (P1)."""

    master_id: str
    blob_address: str


@dataclass(slots=True)
class InputsBound:
    """Binds an inbound partition's cursor to the identity of its topic, so that a re-created topic is noticed (P9)."""

    topic: str
    partition: int
    topic_id: str
    next_offset: int


@dataclass(slots=True)
class InputsSkipped:
    """Inputs that change nothing (P7): late, repeated or about what is gone."""

    count: int
    reason: str


@dataclass(slots=True)
class InputsLost:
    """Retention overtook a cursor: inputs that nobody decided are gone (P9)."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int


@dataclass(slots=True, kw_only=True)
class RequestAccepted:
    """The answer to a request that was done."""

    request_id: str = ""
    reply_partition: int = -1
    subject: str


@dataclass(slots=True, kw_only=True)
class RequestRejected:
    """The answer to a request, or any other input, that was refused; the state is untouched."""

    request_id: str = ""
    reply_partition: int = -1
    subject: str
    code: str
    message: str
    dead_letter: bool


@dataclass(slots=True)
class RequestRepeated:
    """A request id that is already answered came again: the same answer is sent once more (P8)."""

    request_id: str = ""
    reply_partition: int = -1


@dataclass(slots=True)
class AnswersExpired:
    """The oldest answers leave the state: their request ids are beyond the horizon (P8)."""

    count: int


@dataclass(slots=True)
class FollowUpDecided:
    """The oldest consequence in the state's queue was decided by the events that follow."""

    follow_up_type: FollowUpType
    subject: str


@dataclass(slots=True)
class JobSubmitted:
    """A valid JobGraph is in the cluster: this event is its entry in the JobGraphStore."""

    job_id: str
    graph_digest: str
    actor: str
    job_graph: JobGraph


@dataclass(slots=True)
class JobMasterStarted:
    """The job has a JobMaster."""

    job_id: str
    job_master_id: str
    restart_strategy: RestartStrategy
    failover_strategy: FailoverStrategy = FailoverStrategy.REGION
    exception_history_size: int = 16
    scheduler: SchedulerType = SchedulerType.DEFAULT
    reactive: bool = False


@dataclass(slots=True)
class JobCancellationRequested:
    """Somebody wants the job to end."""

    job_id: str
    actor: str


@dataclass(slots=True)
class JobStatusChanged:
    """One transition of the table of JobStatus."""

    job_id: str
    from_status: JobStatus
    to_status: JobStatus
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class JobResultStored:
    """The job reached a terminal state; its result is kept, its resources are still to be cleaned up (dirty)."""

    job_id: str
    status: JobStatus
    cause: FailureCause | None = None
    net_run_time_ms: int


@dataclass(slots=True)
class JobCleanedUp:
    """The intermediate data of a terminal job are gone (clean)."""

    job_id: str


@dataclass(slots=True)
class JobCleanupFailed:
    """A clean-up did not work; it is tried again, with limits."""

    job_id: str
    attempt: int
    retry_at_ms: int
    message: str


@dataclass(slots=True)
class JobEvicted:
    """A terminal job leaves the memory of the masters; its id stays known until the horizon."""

    job_id: str


@dataclass(slots=True)
class JobArchiveRequested:
    """The archive of an ended job is to be written; until then the job stays in memory."""

    job_id: str


@dataclass(slots=True)
class JobArchived:
    """The archive of an ended job is written."""

    job_id: str
    location: str
    digest: str
    byte_count: int


@dataclass(slots=True)
class JobArchiveFailed:
    """An archive could not be written; it is tried again, with limits."""

    job_id: str
    attempt: int
    retry_at_ms: int
    message: str


@dataclass(slots=True)
class JobIdsExpired:
    """The oldest ids of evicted jobs leave the state (P8)."""

    count: int


@dataclass(slots=True)
class TaskManagerRegistered:
    """A TaskManager's instance offers its slots; an older instance of it is replaced."""

    task_manager_id: str
    instance_id: str
    host: str
    process_id: int
    slot_count: int
    begun_at_ms: int = 0
    slot_profile: ResourceProfile | None = None
    feature_level: int = 0
    metrics_address: str = ""


@dataclass(slots=True)
class TaskManagerReportReconciled:
    """A full slot report was matched against the state."""

    task_manager_id: str
    instance_id: str
    missing: tuple[str, ...]
    unknown: tuple[AttemptStatus, ...]


@dataclass(slots=True)
class TaskManagerRegistrationRefused:
    """The instance is gone for good: it has to come back as a new one (P12)."""

    task_manager_id: str
    instance_id: str
    reason: str


@dataclass(slots=True)
class TaskManagerDisconnected:
    """An instance left in order."""

    task_manager_id: str
    instance_id: str
    reason: str


@dataclass(slots=True)
class TaskManagerLost:
    """An instance is gone: it missed its beats, or its guardian saw it die."""

    task_manager_id: str
    instance_id: str
    reason: str


@dataclass(slots=True)
class SlotRequested:
    """An attempt wants a slot."""

    allocation_id: str
    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int


@dataclass(slots=True)
class SlotAllocated:
    """The request got a slot: FREE to PENDING."""

    allocation_id: str
    task_manager_id: str
    instance_id: str
    slot_index: int


@dataclass(slots=True)
class SlotOffered:
    """The TaskExecutor confirmed the allocation: PENDING to ALLOCATED."""

    allocation_id: str


@dataclass(slots=True)
class SlotOfferRejected:
    """The TaskExecutor refused the allocation: PENDING to FREE."""

    allocation_id: str
    reason: str


@dataclass(slots=True)
class SlotRequestCancelled:
    """The attempt needs no slot any more."""

    allocation_id: str


@dataclass(slots=True)
class SlotRequestTimedOut:
    """No slot became free in time."""

    allocation_id: str
    waited_ms: int


@dataclass(slots=True)
class SlotFreed:
    """The slot is FREE again."""

    allocation_id: str


@dataclass(slots=True)
class SlotShared:
    """An attempt gets a place in a slot that its job holds already for the same slot sharing group."""

    allocation_id: str
    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int


@dataclass(slots=True)
class SlotShareReturned:
    """An attempt gives its place in a slot back in which other attempts go on."""

    allocation_id: str
    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int


@dataclass(slots=True)
class TaskScheduled:
    """The attempt's inputs are there; it waits for a slot: CREATED to SCHEDULED."""

    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int


@dataclass(slots=True)
class TaskDeployed:
    """The attempt goes to its slot: SCHEDULED to DEPLOYING."""

    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int
    allocation_id: str


@dataclass(slots=True)
class TaskStateChanged:
    """One transition of the table of ExecutionState that is not an end with a result or a failure."""

    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int
    from_state: ExecutionState
    to_state: ExecutionState


@dataclass(slots=True)
class TaskCancellationRequested:
    """The TaskExecutor is told to end the attempt: CANCELING."""

    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int
    reason: str


@dataclass(slots=True)
class TaskFinished:
    """The attempt finished, and its outputs are now the subtask's result: the log is the output commit."""

    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int
    outputs: tuple[OutputLocation, ...] = ()


@dataclass(slots=True)
class TaskFailed:
    """The attempt failed."""

    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int
    cause: FailureCause


@dataclass(slots=True)
class RestartScheduled:
    """The failed subtask will start again."""

    job_id: str
    vertex_id: str
    subtask_index: int
    restart_at_ms: int
    restarts: int
    backoff_ms: int = 0
    failed_attempt: int = 0
    delay_ms: int = 0
    failover_strategy: FailoverStrategy = FailoverStrategy.REGION
    task_count: int = 1
    lost_outputs: tuple[SubtaskReference, ...] = ()


@dataclass(slots=True)
class RegionRestarted:
    """The subtask has a new attempt: CREATED."""

    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int


@dataclass(slots=True)
class FileUploadRequested:
    """Somebody wants a file that a task attempt wrote."""

    request_id: str
    task_manager_id: str
    instance_id: str
    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int
    file: TaskFile


@dataclass(slots=True)
class FileUploaded:
    """The upload ended: the blob's key, or why there is none."""

    request_id: str
    blob_key: str | None = None
    error: str | None = None


@dataclass(slots=True)
class InputsAttempted:
    """The leader is about to decide these inputs: an earlier leader fell, perhaps at one of them (P10)."""

    topic: str
    first_offset: int
    last_offset: int


@dataclass(slots=True)
class FeatureLevelRaised:
    """Every master that was heard of knows these events: from here on they may be written (P19)."""

    from_level: int
    to_level: int


@dataclass(slots=True)
class SnapshotTaken:
    """The state at an earlier offset of the log is in `snapshots` (P18)."""

    snapshot_id: str
    log_offset: int
    digest: str
    chunk_count: int
    byte_count: int
    taken_by: str


@dataclass(slots=True)
class SnapshotConfirmed:
    """Another master folded the log up to the snapshot's offset by itself and got the same digest (P18)."""

    snapshot_id: str
    log_offset: int
    digest: str
    confirmed_by: str


@dataclass(slots=True)
class DrillStepOrdered:
    """A drill asks a master to fall, so that people can see what happens then."""

    drill_id: str
    step: DrillStepType
    master_id: str
    duration_ms: int


@dataclass(slots=True, kw_only=True)
class SlotRequestDeferred:
    """Requests of a job for slots of one profile wait, and why; told once for as long as the reason stays."""

    job_id: str
    resource_profile: ResourceProfile | None = None
    reason: SlotRequestDeferralReason
    requests: int


@dataclass(slots=True)
class SlotRequestUnfulfillable:
    """No registered slot can ever satisfy the request, and the time in which others could have come is over."""

    allocation_id: str
    reason: str


@dataclass(slots=True)
class TaskManagerBlocked:
    """The TaskManager gets no new slots to fill; what runs there goes on."""

    task_manager_id: str
    reason: str
    until_ms: int
    actor: str


@dataclass(slots=True)
class TaskManagerUnblocked:
    """The TaskManager gets slots to fill again."""

    task_manager_id: str
    reason: str
    actor: str


@dataclass(slots=True)
class WorkerRequested:
    """The resource driver is asked for a worker: a TaskManager that registers under the worker's id."""

    worker_id: str
    slot_count: int
    slot_profile: ResourceProfile | None = None


@dataclass(slots=True)
class WorkerRequestFailed:
    """A worker that was asked for will not come: the driver says so, or its time to register is over."""

    worker_id: str
    reason: str
    backoff_ms: int


@dataclass(slots=True)
class TaskManagerReleased:
    """A TaskManager that the resource driver had started is given back: it was idle for long enough, and gets no more tasks."""

    task_manager_id: str
    instance_id: str
    reason: str


@dataclass(slots=True)
class JobSuspensionRequested:
    """The job is to stop without an end: its attempts end, the results of what has finished stay."""

    job_id: str
    actor: str
    reason: str
    resumes_with_cluster: bool


@dataclass(slots=True)
class JobMasterStopped:
    """All attempts of a suspended job have ended, and it has no JobMaster any more; requests under its token are refused."""

    job_id: str
    job_master_id: str
    reason: str


@dataclass(slots=True)
class JobResumptionRequested:
    """The suspended job is to go on, under a new JobMaster, as soon as its older one has stopped."""

    job_id: str
    actor: str


@dataclass(slots=True)
class TaskManagerFileUploadRequested:
    """Somebody wants something of a TaskExecutor itself; FileUploaded ends it."""

    request_id: str
    task_manager_id: str
    instance_id: str
    file: TaskManagerFile
    name: str = ""


@dataclass(slots=True)
class ClusterShutdownRequested:
    """The cluster is to end: it takes no new jobs, and those that it has are suspended or cancelled."""

    application_status: ApplicationStatus
    diagnostics: str
    cancel_jobs: bool
    actor: str


@dataclass(slots=True)
class ResourcesAwaited:
    """A vertex could start, and waits: there are fewer slots than it wants."""

    job_id: str
    vertex_id: str
    wanted: int
    available: int


@dataclass(slots=True)
class JobRescaleRequested:
    """Somebody asks for another parallelism of a vertex."""

    job_id: str
    vertex_id: str
    parallelism: int
    actor: str


@dataclass(slots=True)
class ApplicationStatusRecorded:
    """No job runs any more: this is how it came out. The TaskManagers are stopped."""

    application_status: ApplicationStatus
    diagnostics: str


@dataclass(slots=True)
class ClusterStopped:
    """No TaskManager is there any more: every master that reads this ends, with the exit code of the status."""

    application_status: ApplicationStatus


@dataclass(slots=True)
class ClusterStarted:
    """A master was started on the log of a cluster that had ended: it begins anew, and what was suspended for its end goes on."""

    after_status: ApplicationStatus
    jobs: int


@dataclass(slots=True)
class RescaleScheduled:
    """A vertex that has begun gets another parallelism as soon as all its attempts have ended; what they left does not count."""

    job_id: str
    vertex_id: str
    from_parallelism: int
    to_parallelism: int
    reason: RescaleReason


@dataclass(slots=True)
class JobRescaled:
    """A vertex, of which no attempt lives, has another parallelism, and with it those that forward edges bind to it."""

    job_id: str
    vertex_id: str
    from_parallelism: int
    to_parallelism: int
    reason: RescaleReason
    attempt: int


LogEvent = (
    LeadershipGranted
    | InputsBound
    | InputsSkipped
    | InputsLost
    | RequestAccepted
    | RequestRejected
    | RequestRepeated
    | AnswersExpired
    | FollowUpDecided
    | JobSubmitted
    | JobMasterStarted
    | JobCancellationRequested
    | JobStatusChanged
    | JobResultStored
    | JobCleanedUp
    | JobCleanupFailed
    | JobEvicted
    | JobIdsExpired
    | TaskManagerRegistered
    | TaskManagerReportReconciled
    | TaskManagerRegistrationRefused
    | TaskManagerDisconnected
    | TaskManagerLost
    | SlotRequested
    | SlotAllocated
    | SlotOffered
    | SlotOfferRejected
    | SlotRequestCancelled
    | SlotRequestTimedOut
    | SlotFreed
    | TaskScheduled
    | TaskDeployed
    | TaskStateChanged
    | TaskCancellationRequested
    | TaskFinished
    | TaskFailed
    | RestartScheduled
    | RegionRestarted
    | FileUploadRequested
    | FileUploaded
    | InputsAttempted
    | FeatureLevelRaised
    | SnapshotTaken
    | SnapshotConfirmed
    | DrillStepOrdered
    | SlotRequestDeferred
    | SlotRequestUnfulfillable
    | TaskManagerBlocked
    | TaskManagerUnblocked
    | JobArchiveRequested
    | JobArchived
    | JobArchiveFailed
    | WorkerRequested
    | WorkerRequestFailed
    | TaskManagerReleased
    | JobSuspensionRequested
    | JobMasterStopped
    | JobResumptionRequested
    | SlotShared
    | SlotShareReturned
    | TaskManagerFileUploadRequested
    | ClusterShutdownRequested
    | ApplicationStatusRecorded
    | ClusterStopped
    | ClusterStarted
    | ResourcesAwaited
    | JobRescaleRequested
    | RescaleScheduled
    | JobRescaled
)
