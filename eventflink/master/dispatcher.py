"""The Dispatcher: every job the cluster knows, from its submission to the moment it is forgotten.

A job is live, then ended and dirty (its intermediate data are still there), then ended and clean, then evicted: from then on
only its id and the digest of its graph are known, until the horizon, so that it never runs a second time.
"""

from dataclasses import dataclass, field

from eventflink.events.inputs import CancelJob, JobSubmission, RequestFileUpload, ResumeJob, SuspendJob
from eventflink.events.log_events import (
    FileUploaded,
    FileUploadRequested,
    JobCancellationRequested,
    JobCleanedUp,
    JobCleanupFailed,
    JobEvicted,
    JobIdsExpired,
    JobMasterStarted,
    JobResultStored,
    JobStatusChanged,
    JobSubmitted,
    LogEvent,
    RequestRejected,
)
from eventflink.master.answers import accepted, rejected
from eventflink.master.canonical import DERIVED, require
from eventflink.master.failover import GOING_ON
from eventflink.master.follow_ups import FollowUps
from eventflink.master.inputs import CleanupFailed, CleanupsCompleted
from eventflink.master.job_master import JobMaster
from eventflink.master.suspension import decide_resumption, decide_suspension
from eventflink.model.attempts import AttemptId, FailureCause
from eventflink.model.job_graph import RestartStrategy
from eventflink.model.job_graph_document import graph_digest
from eventflink.model.statuses import (
    TERMINAL_JOB_STATUSES,
    FailoverStrategy,
    IllegalTransition,
    JobStatus,
    RestartStrategyType,
    SchedulerType,
    TaskFile,
)

EVICTION_BATCH = 256
MAX_CLEANUP_ATTEMPTS = 8
CLEANUP_BACKOFF_MS = 1_000
MAX_PENDING_UPLOADS = 1_000
MAX_KEPT_MESSAGE = 1_024
"""Of the cause of an evicted job."""


@dataclass(frozen=True, slots=True)
class JobDefaults:
    """What the cluster lays down for a job that begins now."""

    restart_strategy: RestartStrategy
    """For graphs that name none."""
    failover_strategy: FailoverStrategy
    exception_history_size: int
    scheduler: SchedulerType = SchedulerType.DEFAULT
    """For graphs that name none."""
    reactive: bool = False


@dataclass(slots=True)
class DirtyJob:
    """An ended job whose clean-up is not done."""

    attempts: int = 0
    retry_at_ms: int = 0


@dataclass(slots=True)
class PendingUpload:
    """A file that somebody waits for."""

    task_manager_id: str
    instance_id: str
    attempt: AttemptId
    file: TaskFile


@dataclass(slots=True)
class ForgottenJob:
    """What is left of an evicted job: enough not to run it a second time, and to say how it ended."""

    graph_digest: str
    evicted_at_ms: int
    status: JobStatus
    submitted_at_ms: int
    ended_at_ms: int
    cause: FailureCause | None = None
    """Why it failed, without the stack trace."""
    archive_digest: str = ""
    """Of its archive; empty: it has none."""

    @classmethod
    def of(cls, job: JobMaster, at_ms: int, archive_digest: str) -> "ForgottenJob":
        """Return what is kept of an ended job that leaves the memory."""
        cause = job.cause if job.status is JobStatus.FAILED else None
        if cause is not None:
            message, root_message = cause.message[:MAX_KEPT_MESSAGE], cause.root_message[:MAX_KEPT_MESSAGE]
            cause = FailureCause(cause.failure_type, message, None, cause.root_type, root_message)
        return cls(job.graph_digest, at_ms, job.status, job.submitted_at_ms, job.ended_at_ms, cause, archive_digest)


@dataclass(slots=True)
class Dispatcher:
    """All jobs."""

    follow_ups: FollowUps = field(metadata=DERIVED)
    jobs: dict[str, JobMaster] = field(default_factory=dict)
    dirty: dict[str, DirtyJob] = field(default_factory=dict)
    ended: dict[str, None] = field(default_factory=dict)
    """Ended jobs in memory, the oldest first."""
    forgotten: dict[str, ForgottenJob] = field(default_factory=dict)
    """Evicted jobs by id, the oldest first."""
    uploads: dict[str, PendingUpload] = field(default_factory=dict)
    restarting_jobs: dict[str, None] = field(default_factory=dict)
    adaptive_jobs: dict[str, None] = field(default_factory=dict)
    """Those that run, or restart."""

    # -- decide ---------------------------------------------------------------------------------------------------

    def decide_submission(self, submission: JobSubmission, defaults: JobDefaults) -> list[LogEvent]:
        """Accept a job, or say why not. The graph itself was validated before it came here."""
        job_id, graph = submission.job_id, submission.job_graph
        digest = graph_digest(graph)
        known = self.jobs.get(job_id)
        if known is not None and known.graph_digest == digest and known.status not in TERMINAL_JOB_STATUSES:
            return [accepted(submission)]
        if known is not None or job_id in self.forgotten:
            what = f"it is {known.status}" if known is not None else "it ended long ago"
            if known is not None and known.graph_digest != digest:
                what = f"with another graph; {what}"
            return [rejected(submission, "DuplicateJobSubmission", f"job '{job_id}' was submitted before: {what}")]
        strategy = graph.restart_strategy
        if strategy.strategy_type is RestartStrategyType.CLUSTER_DEFAULT:
            strategy = defaults.restart_strategy
        scheduler = defaults.scheduler if graph.scheduler is SchedulerType.CLUSTER_DEFAULT else graph.scheduler
        return [
            accepted(submission),
            JobSubmitted(job_id, digest, submission.actor, graph),
            JobMasterStarted(
                job_id,
                f"{job_id}-1",
                strategy,
                defaults.failover_strategy,
                defaults.exception_history_size,
                scheduler,
                reactive=defaults.reactive and scheduler is SchedulerType.ADAPTIVE,
            ),
            JobStatusChanged(job_id, JobStatus.CREATED, JobStatus.RUNNING),
        ]

    def decide_cancellation(self, command: CancelJob) -> list[LogEvent]:
        """Begin to cancel a job; one that is cancelled already is cancelled."""
        job, forgotten = self.jobs.get(command.job_id), self.forgotten.get(command.job_id)
        status = job.status if job is not None else forgotten.status if forgotten is not None else None
        if status in (JobStatus.FINISHED, JobStatus.FAILED):
            return [rejected(command, "JobTerminated", f"job '{command.job_id}' is {status} already")]
        if job is None:
            if status is JobStatus.CANCELED:
                return [accepted(command)]
            return [self._unknown_job(command, command.job_id)]
        return [accepted(command)] if job.status is JobStatus.CANCELED else [accepted(command), *job.decide_cancellation(command.actor)]

    def decide_suspension(self, command: SuspendJob, *, resumes_with_cluster: bool) -> list[LogEvent]:
        """Begin to suspend a job."""
        unknown = self._unknown_job(command, command.job_id)
        job = self.jobs.get(command.job_id)
        return decide_suspension(job, command, unknown, resumes_with_cluster=resumes_with_cluster)

    def decide_resumption(self, command: ResumeJob) -> list[LogEvent]:
        """Let a suspended job go on."""
        job_id = command.job_id
        return decide_resumption(self.jobs.get(job_id), command, self._unknown_job(command, job_id))

    def decide_file_upload(self, command: RequestFileUpload, holder: tuple[str, str] | None, others: int) -> list[LogEvent]:
        """Ask the TaskManager that ran an attempt for one of its files; `holder` is (TaskManager, instance).

        `others` more uploads are under way: of what TaskExecutors have themselves.
        """
        job = self.jobs.get(command.job_id)
        if job is None:
            return [self._unknown_job(command, command.job_id)]
        attempt = AttemptId(command.job_id, command.vertex_id, command.subtask_index, command.attempt)
        if holder is None:
            message = f"attempt {attempt} was never deployed, or its TaskManager is gone"
            return [rejected(command, "FileNotAvailable", message)]
        if len(self.uploads) + others >= MAX_PENDING_UPLOADS:
            return [rejected(command, "TooManyUploads", f"{MAX_PENDING_UPLOADS} uploads are pending already")]
        requested = FileUploadRequested(
            command.request_id,
            *holder,
            job_id=attempt.job_id,
            vertex_id=attempt.vertex_id,
            subtask_index=attempt.subtask_index,
            attempt=attempt.attempt,
            file=command.file,
        )
        return [accepted(command), requested]

    def _unknown_job(self, command: CancelJob | RequestFileUpload | SuspendJob | ResumeJob, job_id: str) -> RequestRejected:
        gone = " (it ended, and was evicted from memory)" if job_id in self.forgotten else ""
        return rejected(command, "UnknownJob", f"there is no job '{job_id}'{gone}")

    def decide_cleaned_up(self, completed: CleanupsCompleted) -> list[LogEvent]:
        """Take note that intermediate data are gone."""
        return [JobCleanedUp(job_id) for job_id in dict.fromkeys(completed.job_ids) if job_id in self.dirty]

    def decide_cleanup_failed(self, failed: CleanupFailed, now_ms: int) -> list[LogEvent]:
        """Try again later, with exponential back-off and a limit."""
        dirty = self.dirty.get(failed.job_id)
        if dirty is None or dirty.retry_at_ms > now_ms:
            return []  # It was given up, or this is a second try that began before the first was noted.
        attempt = dirty.attempts + 1
        retry_at_ms = 0 if attempt >= MAX_CLEANUP_ATTEMPTS else now_ms + CLEANUP_BACKOFF_MS * 2**attempt
        return [JobCleanupFailed(failed.job_id, attempt, retry_at_ms, failed.message)]

    def decide_expiry(self, horizon: int, oldest_kept_ms: int) -> list[LogEvent]:
        """Let the oldest ids of evicted jobs beyond the horizon go."""
        beyond = len(self.forgotten) - horizon
        count = 0
        for _, job in zip(range(EVICTION_BATCH), self.forgotten.values(), strict=False):
            if count >= beyond and job.evicted_at_ms >= oldest_kept_ms:
                break
            count += 1
        return [JobIdsExpired(count)] if count else []

    def is_expired(self, horizon: int, oldest_kept_ms: int) -> bool:
        """Tell whether the oldest id is beyond the horizon."""
        oldest = next(iter(self.forgotten.values()), None)
        return oldest is not None and (len(self.forgotten) > horizon or oldest.evicted_at_ms < oldest_kept_ms)

    def restarting(self) -> list[JobMaster]:
        """Return the jobs with failed subtasks that wait to start again."""
        return [self.jobs[job_id] for job_id in self.restarting_jobs]

    # -- apply ----------------------------------------------------------------------------------------------------

    def job(self, job_id: str) -> JobMaster:
        """Return a job that an event names.

        Raises:
            IllegalTransition: there is no such job.

        """
        try:
            return self.jobs[job_id]
        except KeyError:
            raise IllegalTransition(f"there is no job '{job_id}'") from None

    def apply_job_submitted(self, event: JobSubmitted, at_ms: int) -> None:
        """Create the JobMaster."""
        if event.job_id in self.jobs or event.job_id in self.forgotten:
            raise IllegalTransition(f"job '{event.job_id}' was submitted before")
        self.jobs[event.job_id] = JobMaster.of(self.follow_ups, event.job_id, event.actor, event.graph_digest, event.job_graph, at_ms)

    def apply_job_status_changed(self, event: JobStatusChanged, at_ms: int) -> None:
        """Move the job along its table, and keep the list of those that restart."""
        self.job(event.job_id).apply_job_status_changed(event, at_ms)
        if event.to_status is JobStatus.RESTARTING:
            self.restarting_jobs[event.job_id] = None
        else:
            self.restarting_jobs.pop(event.job_id, None)
        if event.to_status not in GOING_ON:
            self.adaptive_jobs.pop(event.job_id, None)
        elif self.jobs[event.job_id].scheduler is SchedulerType.ADAPTIVE:
            self.adaptive_jobs[event.job_id] = None

    def apply_job_cancellation_requested(self, event: JobCancellationRequested, _at: int) -> None:
        """Change nothing: the status changes by its own event; this one says who asked."""
        self.job(event.job_id)

    def apply_job_result_stored(self, event: JobResultStored, _at: int) -> None:
        """Keep the result; the job is dirty."""
        status = self.job(event.job_id).status
        if status is not event.status or status not in TERMINAL_JOB_STATUSES or event.job_id in self.ended:
            raise IllegalTransition(f"job '{event.job_id}' is {status}: it has a result already, or none as {event.status}")
        self.ended[event.job_id] = None
        self.dirty[event.job_id] = DirtyJob()

    def apply_job_cleaned_up(self, event: JobCleanedUp, _at: int) -> None:
        """Mark the job clean."""
        if self.dirty.pop(event.job_id, None) is None:
            raise IllegalTransition(f"job '{event.job_id}' is not dirty")

    def apply_job_cleanup_failed(self, event: JobCleanupFailed, _at: int) -> None:
        """Wait, or give up: the job then counts as clean, and the event says what was left behind."""
        if event.job_id not in self.dirty:
            raise IllegalTransition(f"job '{event.job_id}' is not dirty")
        if event.retry_at_ms:
            self.dirty[event.job_id] = DirtyJob(event.attempt, event.retry_at_ms)
        else:
            del self.dirty[event.job_id]

    def apply_job_evicted(self, event: JobEvicted, at_ms: int, archive_digest: str) -> None:
        """Forget all but the id, how it ended, and what its archive is."""
        job = self.job(event.job_id)
        if event.job_id not in self.ended or event.job_id in self.dirty:
            raise IllegalTransition(f"job '{event.job_id}' is not ended and clean")
        del self.jobs[event.job_id]
        del self.ended[event.job_id]
        self.forgotten[event.job_id] = ForgottenJob.of(job, at_ms, archive_digest)

    def apply_job_ids_expired(self, event: JobIdsExpired, _at: int) -> None:
        """Forget the oldest ids as well."""
        if not 0 < event.count <= len(self.forgotten):
            raise IllegalTransition(f"{event.count} job ids cannot expire: there are {len(self.forgotten)}")
        for job_id in [j for j, _ in zip(self.forgotten, range(event.count), strict=False)]:
            del self.forgotten[job_id]

    def apply_file_upload_requested(self, event: FileUploadRequested, _at: int) -> None:
        """Remember who waits for which file."""
        self.job(event.job_id)
        if event.request_id in self.uploads:
            raise IllegalTransition(f"the upload {event.request_id} was requested already")
        attempt = AttemptId(event.job_id, event.vertex_id, event.subtask_index, event.attempt)
        self.uploads[event.request_id] = PendingUpload(event.task_manager_id, event.instance_id, attempt, event.file)

    def apply_file_uploaded(self, event: FileUploaded, _at: int) -> None:
        """Nobody waits any more."""
        if self.uploads.pop(event.request_id, None) is None:
            raise IllegalTransition(f"nobody waits for the upload {event.request_id}")

    def drop_uploads_of(self, instance_id: str) -> None:
        """Forget the uploads that an instance, which is gone, can no longer do."""
        for request_id in [r for r, u in self.uploads.items() if u.instance_id == instance_id]:
            del self.uploads[request_id]

    def validate(self) -> None:
        """Check every job and the stores against each other."""
        for job_id, job in self.jobs.items():
            job.validate()
            require(
                (job_id in self.ended) == (job.status in TERMINAL_JOB_STATUSES),
                f"job '{job_id}' is {job.status}; ended: {job_id in self.ended}",
            )
        restarting = {j for j, job in self.jobs.items() if job.status is JobStatus.RESTARTING}
        require(restarting == set(self.restarting_jobs), "the list of restarting jobs is stale")
        adaptive = {j for j, job in self.jobs.items() if job.scheduler is SchedulerType.ADAPTIVE and job.status in GOING_ON}
        require(adaptive == set(self.adaptive_jobs), "the list of adaptive jobs is stale")
        require(set(self.ended) <= set(self.jobs), "an ended job is not in memory")
        require(set(self.dirty) <= set(self.ended), "a dirty job has not ended")
        require(not set(self.forgotten) & set(self.jobs), "a forgotten job is in memory")
