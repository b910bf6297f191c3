"""Events of the Dispatcher: what becomes of jobs as a whole: submission, result, clean-up, archive, eviction.

Values that mirror the schemas of the same names; `log_events.py` has all of them and the rule of all.
"""

from dataclasses import dataclass

from eventflink.events.decision import LogEvent
from eventflink.model.attempts import FailureCause, HasAttemptId
from eventflink.model.job_graph import CheckpointSettings, JobGraph, RestartStrategy
from eventflink.model.statuses import FailoverStrategy, JobStatus, SchedulerType, TaskFile


@dataclass(slots=True)
class JobSubmitted(LogEvent):
    """A valid JobGraph is in the cluster: this event is its entry in the JobGraphStore."""

    job_id: str
    graph_digest: str
    actor: str
    job_graph: JobGraph
    rerun_of: str = ""


@dataclass(slots=True)
class JobMasterStarted(LogEvent):
    """The job has a JobMaster."""

    job_id: str
    job_master_id: str
    restart_strategy: RestartStrategy
    failover_strategy: FailoverStrategy = FailoverStrategy.REGION
    exception_history_size: int = 16
    scheduler: SchedulerType = SchedulerType.DEFAULT
    reactive: bool = False
    checkpointing: CheckpointSettings | None = None
    checkpoint_history_size: int = 10


@dataclass(slots=True)
class JobCancellationRequested(LogEvent):
    """Somebody wants the job to end."""

    job_id: str
    actor: str


@dataclass(slots=True)
class JobFailureDismissed(LogEvent):
    """A failure of a job was dismissed: the cluster no longer counts the failed job as a problem."""

    job_id: str
    actor: str
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class JobResultStored(LogEvent):
    """The job reached a terminal state; its result is kept, its resources are still to be cleaned up (dirty)."""

    job_id: str
    status: JobStatus
    cause: FailureCause | None = None
    net_run_time_ms: int


@dataclass(slots=True)
class JobCleanedUp(LogEvent):
    """The intermediate data of a terminal job are gone (clean)."""

    job_id: str


@dataclass(slots=True)
class RetryEvent(LogEvent):
    """Something that is to be done for an ended job did not work; it is tried again, with limits."""

    job_id: str
    attempt: int
    retry_at_ms: int
    message: str


@dataclass(slots=True)
class JobCleanupFailed(RetryEvent):
    """A clean-up did not work."""


@dataclass(slots=True)
class JobEvicted(LogEvent):
    """A terminal job leaves the memory of the masters; its id stays known until the horizon."""

    job_id: str


@dataclass(slots=True)
class JobArchiveRequested(LogEvent):
    """The archive of an ended job is to be written; until then the job stays in memory."""

    job_id: str


@dataclass(slots=True)
class JobArchived(LogEvent):
    """The archive of an ended job is written."""

    job_id: str
    location: str
    digest: str
    byte_count: int


@dataclass(slots=True)
class JobArchiveFailed(RetryEvent):
    """An archive could not be written."""


@dataclass(slots=True)
class JobIdsExpired(LogEvent):
    """The oldest ids of evicted jobs leave the state (P8)."""

    count: int


@dataclass(slots=True)
class FileUploadRequested(LogEvent, HasAttemptId):
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
class FileUploaded(LogEvent):
    """The upload ended: the blob's key, or why there is none."""

    request_id: str
    blob_key: str | None = None
    error: str | None = None


@dataclass(slots=True)
class JobSuspensionRequested(LogEvent):
    """The job is to stop without an end: its attempts end, the results of what has finished stay."""

    job_id: str
    actor: str
    reason: str
    resumes_with_cluster: bool


@dataclass(slots=True)
class JobResumptionRequested(LogEvent):
    """The suspended job is resumed, under a new JobMaster, as soon as its older one has stopped."""

    job_id: str
    actor: str
