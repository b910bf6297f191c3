"""Events of the Dispatcher: what becomes of jobs as a whole: submission, result, clean-up, archive, eviction.

Values of which the schemas of the same names are made; `log_events.py` has all of them and the rule of all.
"""

from dataclasses import dataclass

from eventflink.events.decision import LogEvent
from eventflink.model.attempts import FailureCause, HasAttemptId
from eventflink.model.job_graph import CheckpointSettings, JobGraph, RestartStrategy
from eventflink.model.reuse import VertexReuse
from eventflink.model.schedules import ScheduledInstant
from eventflink.model.statuses import FailoverStrategy, JobStatus, SchedulerType, TaskFile


@dataclass(slots=True)
class JobSubmitted(LogEvent):
    """A valid JobGraph is in the cluster: this event is its entry in the JobGraphStore."""

    job_id: str
    """The job."""
    graph_digest: str
    """SHA-256 of the canonical graph: the same id with another graph is refused."""
    actor: str
    """Who asked."""
    job_graph: JobGraph
    """The graph."""
    rerun_of: str = ""
    """The ended job that it runs again; empty: none."""
    scheduled: ScheduledInstant | None = None
    """For which instant of which schedule it runs; null: it was submitted."""


@dataclass(slots=True)
class JobReuseDecided(LogEvent):
    """A job that runs another one again takes the outputs of some of its vertices: these begin finished."""

    job_id: str
    """The job; whose vertices it takes says its JobSubmitted."""
    vertices: tuple[VertexReuse, ...]
    """All vertices, in the order of the graph."""


@dataclass(slots=True)
class JobMasterStarted(LogEvent):
    """The job has a JobMaster."""

    job_id: str
    """The job."""
    job_master_id: str
    """Its fencing token."""
    restart_strategy: RestartStrategy
    """The strategy in force: the graph's, or the cluster's default at that moment."""
    failover_strategy: FailoverStrategy = FailoverStrategy.REGION
    """Which subtasks start again when an attempt fails."""
    exception_history_size: int = 16
    """How many failures the job remembers, with what they led to."""
    scheduler: SchedulerType = SchedulerType.DEFAULT
    """Which scheduler the job has: the graph's, or the cluster's default at that moment."""
    reactive: bool = False
    """The adaptive scheduler is to use all slots that there are."""
    checkpointing: CheckpointSettings | None = None
    """When checkpoints of its streams are taken: the graph's settings, or the cluster's at that moment. Null: it has no stream."""
    checkpoint_history_size: int = 10
    """How many checkpoints the job remembers, with how they ended."""


@dataclass(slots=True)
class JobCancellationRequested(LogEvent):
    """Somebody wants the job to end."""

    job_id: str
    """The job."""
    actor: str
    """Who asked."""


@dataclass(slots=True)
class JobFailureDismissed(LogEvent):
    """A failure of a job was dismissed: the cluster no longer counts the failed job as a problem."""

    job_id: str
    """The job."""
    actor: str
    """Who asked."""
    reason: str = ""
    """Why; empty: it was not said."""


@dataclass(slots=True, kw_only=True)
class JobResultStored(LogEvent):
    """The job reached a terminal state; its result is stored, its intermediate outputs are kept for a time, or to be removed (dirty)."""

    job_id: str
    """The job."""
    status: JobStatus
    """FINISHED, FAILED or CANCELED."""
    cause: FailureCause | None = None
    """Why it failed."""
    net_run_time_ms: int
    """From submission to the end, in milliseconds."""
    outputs_kept_ms: int = 0
    """For how long its intermediate outputs are kept at the least, in milliseconds; 0: they are removed at once."""


@dataclass(slots=True)
class JobOutputsReleased(LogEvent):
    """The outputs of an ended job, which were kept to be reused, are to be removed (dirty)."""

    job_id: str
    """The job."""


@dataclass(slots=True)
class JobCleanedUp(LogEvent):
    """The intermediate data of a terminal job are gone (clean)."""

    job_id: str
    """The job."""


@dataclass(slots=True)
class RetryEvent(LogEvent):
    """Something that is to be done for an ended job did not work; it is tried again, with limits."""

    job_id: str
    """The job."""
    attempt: int
    """Which try, from 1."""
    retry_at_ms: int
    """When the next one is due; 0: given up."""
    message: str
    """What was in the way."""


@dataclass(slots=True)
class JobCleanupFailed(RetryEvent):
    """A clean-up did not work; it is tried again, with limits."""


@dataclass(slots=True)
class JobEvicted(LogEvent):
    """A terminal job leaves the memory of the masters; its id stays known until the horizon."""

    job_id: str
    """The job."""


@dataclass(slots=True)
class JobArchiveRequested(LogEvent):
    """The archive of a job that has ended is to be written; the job stays in memory until it is, or is given up."""

    job_id: str
    """The job."""


@dataclass(slots=True)
class JobArchived(LogEvent):
    """The archive of an ended job is written: who asks for the job once it has left the memory is answered from there."""

    job_id: str
    """The job."""
    location: str
    """Where it is: a path, or an fsspec URL."""
    digest: str
    """The SHA-256 of what is archived, in hexadecimal; an archive with another one is not believed."""
    byte_count: int
    """How long the document is."""


@dataclass(slots=True)
class JobArchiveFailed(RetryEvent):
    """The archive of a job could not be written; it is tried again, with limits."""


@dataclass(slots=True)
class JobIdsExpired(LogEvent):
    """The oldest ids of evicted jobs leave the state (P8)."""

    count: int
    """How many of the oldest."""


@dataclass(slots=True)
class FileUploadRequested(LogEvent, HasAttemptId):
    """Somebody wants a file that a task attempt wrote."""

    request_id: str
    """Names the upload."""
    task_manager_id: str
    """The TaskManager (stable over restarts)."""
    instance_id: str
    """One life of it: fresh at each start and after each self-fence (P12)."""
    job_id: str
    """The job."""
    vertex_id: str
    """The vertex in the job's graph."""
    subtask_index: int
    """Which parallel subtask of the vertex, from 0."""
    attempt: int
    """Which attempt of the subtask, from 1."""
    file: TaskFile
    """Which file."""


@dataclass(slots=True)
class FileUploaded(LogEvent):
    """The upload ended: the blob's key, or why there is none."""

    request_id: str
    """Names the upload."""
    blob_key: str | None = None
    """SHA-256 of the content."""
    error: str | None = None
    """What was in the way."""


@dataclass(slots=True)
class JobSuspensionRequested(LogEvent):
    """The job is to stop without an end: its attempts end, the results of what has finished stay."""

    job_id: str
    """The job."""
    actor: str
    """Who asked."""
    reason: str
    """Why, in the words of who asked."""
    resumes_with_cluster: bool
    """Whether the job is resumed when the cluster starts again: it was suspended because the cluster shuts down."""


@dataclass(slots=True)
class JobResumptionRequested(LogEvent):
    """The suspended job is resumed, under a new JobMaster, as soon as its older one has stopped."""

    job_id: str
    """The job."""
    actor: str
    """Who asked; empty: the cluster, because it starts again."""
