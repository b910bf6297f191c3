"""The Dispatcher: every job the cluster knows, from its submission to the moment it is forgotten.

A job is live, then ended and kept (its intermediate outputs stay, so that they can be reused), then ended and dirty (they are to be
removed), then ended and clean, then evicted: from then on only its id and the digest of its graph are known, until the horizon, so that it
never runs a second time. Most jobs are not kept.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from weakref import WeakValueDictionary

from eventflink.events.inputs import MAX_ID_LENGTH, CancelJob, Command, DismissJobFailure, JobSubmission, RerunJob
from eventflink.events.log_events import (
    JobCancellationRequested,
    JobCleanedUp,
    JobCleanupFailed,
    JobClosingStarted,
    JobFailureDismissed,
    JobIdsExpired,
    JobMasterStarted,
    JobOutputsReleased,
    JobResultStored,
    JobReuseDecided,
    JobStatusChanged,
    JobSubmitted,
    LogEvent,
    RequestRejected,
    RetryEvent,
)
from eventflink.master.canonical import DERIVED, require
from eventflink.master.execution_graph import ExecutionGraph
from eventflink.master.follow_ups import FollowUps
from eventflink.master.inputs import CleanupFailed, CleanupsCompleted
from eventflink.master.job_master import JobMaster
from eventflink.master.queue_shares import find_fault_of_queue
from eventflink.master.requests import accepted, count_expired, rejected
from eventflink.master.reuse import decide_reuse, refuse_reuse
from eventflink.master.settings import Context
from eventflink.master.slot_manager import SlotManager
from eventflink.model.attempts import FailureCause
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import InvalidJobGraph, bind_again, graph_digest
from eventflink.model.reuse import VertexReuse
from eventflink.model.schedules import ScheduledInstant
from eventflink.model.statuses import (
    RUNNING_JOB_STATUSES,
    TERMINAL_JOB_STATUSES,
    IllegalTransition,
    JobStatus,
    RestartStrategyType,
    SchedulerType,
)

EVICTION_BATCH = 256
MAX_CLEANUP_ATTEMPTS = 8
RETRY_BACKOFF_MS = 1_000
MAX_RETRY_BACKOFF_MS = 300_000
MAX_KEPT_MESSAGE = 1_024
"""Of the cause of an evicted job."""


@dataclass(slots=True)
class Retries:
    """How far something is that is to be done outside for an ended job: its clean-up, its archive."""

    attempts: int = 0
    """How many failed."""
    retry_at_ms: int = 0
    """When to try again; 0: the first attempt is under way."""

    def after_failure(self, now_ms: int, most: int) -> tuple[int, int] | None:
        """Return what to note of a failure: how many there were, and when to try again, with exponential back-off; 0: never.

        None: nothing, it is of another attempt, which began before the failure of the first was noted.
        """
        if self.retry_at_ms > now_ms:
            return None
        attempts = self.attempts + 1
        return attempts, 0 if attempts >= most else now_ms + min(RETRY_BACKOFF_MS * 2**attempts, MAX_RETRY_BACKOFF_MS)

    @staticmethod
    def note_failure(waiting: "dict[str, Retries]", event: RetryEvent) -> None:
        """Wait for the next attempt, or give up: then the event says what was left undone."""
        if event.job_id not in waiting:
            raise IllegalTransition(f"{event}: nobody waits for it")
        if event.retry_at_ms:
            waiting[event.job_id] = Retries(event.attempt, event.retry_at_ms)
        else:
            del waiting[event.job_id]


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
    slot_manager: SlotManager = field(metadata=DERIVED)
    jobs: dict[str, JobMaster] = field(default_factory=dict)
    dirty: dict[str, Retries] = field(default_factory=dict)
    ended: dict[str, None] = field(default_factory=dict)
    """Ended jobs in memory, the oldest first."""
    forgotten: dict[str, ForgottenJob] = field(default_factory=dict)
    """Evicted jobs by id, the oldest first."""
    restarting_jobs: dict[str, None] = field(default_factory=dict)
    """Those with subtasks that wait to start again, or that are closed."""
    adaptive_jobs: dict[str, None] = field(default_factory=dict)
    """Those that run, or restart."""
    streaming_jobs: dict[str, None] = field(default_factory=dict)
    """Those with streams that run: of which checkpoints are taken."""
    limited_jobs: dict[str, None] = field(default_factory=dict)
    """Those with a time limit, of the job or of a vertex, that run, or restart; and those that are closed."""
    kept: dict[str, int] = field(default_factory=dict)
    """Ended jobs whose intermediate outputs are kept, and until when at the least."""
    holds: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Jobs that are not clean, by each the kept ones whose outputs it takes: these stay as long."""
    examples: WeakValueDictionary[str, JobMaster] = field(default_factory=WeakValueDictionary, metadata=DERIVED)
    """By the digest of its graph, the job with that graph that ended last and is in memory: the next one shares with it what is equal."""

    # -- decide ---------------------------------------------------------------------------------------------------

    def decide_job_submission(self, submission: JobSubmission, context: Context) -> list[LogEvent]:
        """Accept a job, or say why not. The graph itself was validated before it came here."""
        return self._decide_new_job(submission, submission.job_id, submission.job_graph, context)

    def decide_rerun_job(self, command: RerunJob, context: Context) -> list[LogEvent]:
        """Run an ended job, known while it is in memory, as a new job: its graph, or another one of its name.

        Where the command says so, vertices that the ended job has finished are reused.
        """
        before, again = self.jobs.get(command.rerun_of), self.jobs.get(command.job_id)
        if again is not None and (again.rerun_of != command.rerun_of or again.status in TERMINAL_JOB_STATUSES):
            again = None  # It is not what an earlier one of such requests has led to.
        known = before if before is not None else again
        if known is None:
            return [self.unknown_job(command, command.rerun_of, "; submit its document again, with its code")]
        if known is before and known.status not in TERMINAL_JOB_STATUSES:
            return [rejected(command, "JobNotEnded", f"job '{known.job_id}' is {known.status}: only a job that has ended is run again")]
        graph = _graph_again(known.execution_graph.graph, command)
        if not isinstance(graph, JobGraph):
            return [graph]
        if again is not None and again.graph_digest == graph_digest(graph) and again.was_asked_for_by(command):
            return [accepted(command)]
        reuse: tuple[VertexReuse, ...] = ()
        if again is None and (command.failed or command.from_vertices):
            reuse = decide_reuse(known, graph, command.from_vertices, is_kept=known.job_id in self.kept)
            if (refusal := refuse_reuse(known, graph, command, reuse)) is not None:
                return [refusal]
        return self._decide_new_job(command, command.job_id, graph, context, command.rerun_of, reuse)

    def _decide_new_job(
        self,
        request: JobSubmission | RerunJob,
        job_id: str,
        graph: JobGraph,
        context: Context,
        rerun_of: str = "",
        reuse: tuple[VertexReuse, ...] = (),
    ) -> list[LogEvent]:
        digest = graph_digest(graph)
        known = self.jobs.get(job_id)
        if known is not None and known.graph_digest == digest and known.status not in TERMINAL_JOB_STATUSES and not rerun_of:
            return [accepted(request)]
        if known is not None or job_id in self.forgotten:
            what = f"it is {known.status}" if known is not None else "it ended long ago"
            if known is not None and known.graph_digest != digest:
                what = f"with another graph; {what}"
            return [rejected(request, "DuplicateJobSubmission", f"job '{job_id}' was submitted before: {what}")]
        if request.job_graph is not None and (fault := find_fault_of_queue(graph, context.settings.queues)):
            return [rejected(request, "UnknownQueue", fault)]
        scheduled = self.jobs[rerun_of].scheduled if rerun_of in self.jobs else None
        started = self.start_of(job_id, digest, request.actor, graph, context, rerun_of=rerun_of, reuse=reuse, scheduled=scheduled)
        return [accepted(request), *started]

    def start_of(
        self,
        job_id: str,
        digest: str,
        actor: str,
        graph: JobGraph,
        context: Context,
        *,
        rerun_of: str = "",
        reuse: tuple[VertexReuse, ...] = (),
        scheduled: ScheduledInstant | None = None,
    ) -> list[LogEvent]:
        """Return what brings a job with a new id and this graph, of this digest, into the cluster."""
        settings, adaptive = context.settings, context.settings.adaptive
        has_stream = any(vertex.stream is not None for vertex in graph.vertices)
        strategy = graph.restart_strategy
        if strategy.strategy_type is RestartStrategyType.CLUSTER_DEFAULT:
            strategy = (settings.stream_restart_strategy if has_stream else None) or settings.restart_strategy
        scheduler = graph.scheduler
        if scheduler is SchedulerType.CLUSTER_DEFAULT:
            scheduler = SchedulerType.DEFAULT if any(vertex.keeps_parallelism for vertex in graph.vertices) else adaptive.scheduler
        return [
            JobSubmitted(job_id, digest, actor, graph, rerun_of, scheduled),
            *([JobReuseDecided(job_id, reuse)] if reuse else []),
            JobMasterStarted(
                job_id,
                f"{job_id}-1",
                strategy,
                settings.failover_strategy,
                settings.exception_history_size,
                scheduler,
                reactive=adaptive.reactive and scheduler is SchedulerType.ADAPTIVE,
                checkpointing=(graph.checkpointing or settings.checkpointing) if has_stream else None,
                checkpoint_history_size=settings.checkpoint_history_size,
            ),
            JobStatusChanged(job_id, JobStatus.CREATED, JobStatus.RUNNING),
        ]

    def is_known(self, job_id: str) -> bool:
        """Tell whether there is or was a job of this id, as far as it is remembered."""
        return job_id in self.jobs or job_id in self.forgotten

    def status_of(self, job_id: str) -> JobStatus | None:
        """Return where a job stands, or how it ended; None: it is not known."""
        job = self.jobs.get(job_id) or self.forgotten.get(job_id)
        return job.status if job is not None else None

    def decide_cancel_job(self, command: CancelJob) -> list[LogEvent]:
        """Begin to cancel a job; one that is cancelled already is cancelled. Its closing vertices go on, unless the command names them."""
        job, forgotten = self.jobs.get(command.job_id), self.forgotten.get(command.job_id)
        if job is not None and job.closing is not None and job.is_closing:
            if not command.closing and (end := job.closing.outcome.status) is not JobStatus.CANCELED:
                message = f"job '{job.job_id}' ends as {end}, and its closing vertices run: cancel these as well, by 'closing' (--closing)"
                return [rejected(command, "JobTerminated", message)]
            abort = job.decide_closing_abort(f"cancelled by {command.actor or 'a command'}") if command.closing else []
            return [accepted(command), *([JobCancellationRequested(job.job_id, command.actor), *abort] if abort else [])]
        status = job.status if job is not None else forgotten.status if forgotten is not None else None
        if status in (JobStatus.FINISHED, JobStatus.FAILED):
            return [rejected(command, "JobTerminated", f"job '{command.job_id}' is {status} already")]
        if job is None:
            if status is JobStatus.CANCELED:
                return [accepted(command)]
            return [self.unknown_job(command)]
        return [accepted(command)] if job.status is JobStatus.CANCELED else [accepted(command), *job.decide_cancellation(command.actor)]

    def decide_dismiss_job_failure(self, command: DismissJobFailure) -> list[LogEvent]:
        """Dismiss the failure of a job; a failure that is dismissed already stays so."""
        job = self.jobs.get(command.job_id)
        if job is None:
            return [self.unknown_job(command)]
        if job.status is not JobStatus.FAILED:
            why = f"job '{job.job_id}' is {job.status}: only a job that has FAILED has a failure to dismiss"
            return [rejected(command, "JobNotFailed", why)]
        if job.failure_is_dismissed:
            return [accepted(command)]
        return [accepted(command), JobFailureDismissed(job.job_id, command.actor, command.reason)]

    def unknown_job(self, command: Command, job_id: str = "", advice: str = "") -> RequestRejected:
        """Refuse a request about a job that is not in memory: its subject, or `job_id`; `advice` ends the message with what to do."""
        job_id = job_id or command.subject
        gone = "; it ended and was evicted from memory" if job_id in self.forgotten else ""
        return rejected(command, "UnknownJob", f"job not found: '{job_id[:MAX_ID_LENGTH]}'{gone}{advice}")

    def decide_cleanups_completed(self, completed: CleanupsCompleted) -> list[LogEvent]:
        """Take note that intermediate data are gone."""
        return [JobCleanedUp(job_id) for job_id in dict.fromkeys(completed.job_ids) if job_id in self.dirty]

    def decide_cleanup_failed(self, failed: CleanupFailed, context: Context) -> list[LogEvent]:
        """Try again later, with exponential back-off and a limit."""
        dirty = self.dirty.get(failed.job_id)
        retry = dirty.after_failure(context.now_ms, MAX_CLEANUP_ATTEMPTS) if dirty is not None else None
        return [JobCleanupFailed(failed.job_id, *retry, failed.message)] if retry is not None else []

    def decide_expiry(self, horizon: int, oldest_kept_ms: int) -> list[LogEvent]:
        """Let the oldest ids of evicted jobs beyond the horizon go."""
        evicted = islice((job.evicted_at_ms for job in self.forgotten.values()), EVICTION_BATCH)
        count = count_expired(evicted, len(self.forgotten) - horizon, oldest_kept_ms)
        return [JobIdsExpired(count)] if count else []

    def is_clean(self, job_id: str) -> bool:
        """Tell whether a job in memory has ended, and nothing but its results is left of it."""
        return job_id in self.ended and job_id not in self.dirty and job_id not in self.kept

    def held(self) -> set[str]:
        """Return the ended jobs whose outputs another one takes that is not clean."""
        return set(chain.from_iterable(self.holds.values()))

    def adaptive(self) -> Iterator[JobMaster]:
        """Yield the jobs of the adaptive scheduler that run, or restart."""
        return (self.jobs[job_id] for job_id in self.adaptive_jobs)

    def blob_references(self, rerun_since_ms: int) -> Counter[str]:
        """Return how many jobs refer to each permanent blob; one that no job refers to is not in it.

        A job refers to its code archives from its submission until it has ended and is cleaned up, as in Flink (so as long as its outputs
        are kept), and when it ended at `rerun_since_ms` or later, so that it can be run again. Files that tasks uploaded are not referred
        to: those blobs expire by themselves.
        """
        references: Counter[str] = Counter()
        for job_id, job in self.jobs.items():
            if not self.is_clean(job_id) or job.ended_at_ms >= rerun_since_ms:
                references.update(dict.fromkeys(job.execution_graph.graph.code_archives, 1))
        return references

    # -- apply ----------------------------------------------------------------------------------------------------

    def job(self, job_id: str) -> JobMaster:
        """Return a job that an event names.

        Raises:
            IllegalTransition: there is no such job.

        """
        try:
            return self.jobs[job_id]
        except KeyError:
            raise IllegalTransition(f"job not found: '{job_id}'") from None

    def apply_job_submitted(self, event: JobSubmitted, at_ms: int) -> None:
        """Create the JobMaster."""
        if event.job_id in self.jobs or event.job_id in self.forgotten:
            raise IllegalTransition(f"job '{event.job_id}' was submitted before")
        graph = ExecutionGraph.of(event.job_graph)
        times = {JobStatus.INITIALIZING: at_ms}
        self.jobs[event.job_id] = JobMaster(
            self.follow_ups,
            self.slot_manager,
            event.job_id,
            event.actor,
            event.graph_digest,
            times,
            graph,
            rerun_of=event.rerun_of,
            scheduled=event.scheduled,
        )

    def apply_job_reuse_decided(self, event: JobReuseDecided, at_ms: int) -> None:
        """Let vertices of a job that is new begin finished, and keep the outputs that they take until it is clean."""
        job = self.job(event.job_id)
        before = self.jobs.get(job.rerun_of)
        if before is None or before.job_id not in self.ended:
            raise IllegalTransition(f"{event.job_id} runs no ended job again, whose outputs it could take")
        origins = job.reuse_outputs(event, before, at_ms)
        held = tuple([job_id for job_id in self.kept if job_id in origins])
        if held:
            self.holds[event.job_id] = held

    def apply_job_status_changed(self, event: JobStatusChanged) -> None:
        """Keep the lists of those of which something may be due: it is found without a look at all."""
        if event.to_status is JobStatus.RESTARTING:
            self.restarting_jobs[event.job_id] = None
        else:
            self.restarting_jobs.pop(event.job_id, None)
        job = self.jobs[event.job_id]
        if event.to_status is JobStatus.RUNNING and job.checkpoints is not None:
            self.streaming_jobs[event.job_id] = None
        else:
            self.streaming_jobs.pop(event.job_id, None)
        if event.to_status not in RUNNING_JOB_STATUSES:
            self.adaptive_jobs.pop(event.job_id, None)
            self.limited_jobs.pop(event.job_id, None)
            return
        if job.scheduler is SchedulerType.ADAPTIVE:
            self.adaptive_jobs[event.job_id] = None
        if job.is_limited:
            self.limited_jobs[event.job_id] = None

    def apply_job_closing_started(self, event: JobClosingStarted) -> None:
        """Look at the job where something of closing vertices may be due: they start again, and have a time limit, in each status."""
        self.restarting_jobs[event.job_id] = self.limited_jobs[event.job_id] = None

    def check_job_cancellation_requested(self, event: JobCancellationRequested) -> None:
        """Raise `IllegalTransition` unless the job is there; its status changes by its own event, this one says who asked."""
        self.job(event.job_id)

    def check_job_failure_dismissed(self, event: JobFailureDismissed) -> None:
        """Raise `IllegalTransition` unless the job is there; it is changed by its JobMaster."""
        self.job(event.job_id)

    def apply_job_result_stored(self, event: JobResultStored, at_ms: int) -> None:
        """Store the result; the job is dirty, or its outputs are kept until later."""
        job = self.job(event.job_id)
        status = job.status
        if status is not event.status or status not in TERMINAL_JOB_STATUSES or event.job_id in self.ended:
            raise IllegalTransition(f"job '{event.job_id}' is {status}: it has a result already, or none as {event.status}")
        self.ended[job.job_id] = None
        if event.outputs_kept_ms:
            self.kept[job.job_id] = at_ms + event.outputs_kept_ms
        else:
            self.dirty[job.job_id] = Retries()
        self.share(job)

    def share(self, job: JobMaster) -> None:
        """Let a job that has ended weigh less: thousands of them are kept, and most are of a few graphs."""
        like = self.examples.get(job.graph_digest)
        if like is not None and job.execution_graph.is_of_the_graph_of(like.execution_graph):
            job.share(like)
        self.examples[job.graph_digest] = job

    def apply_job_outputs_released(self, event: JobOutputsReleased) -> None:
        """Mark the job dirty."""
        if event.job_id not in self.kept or event.job_id in self.held():
            raise IllegalTransition(f"the outputs of job '{event.job_id}' are not kept, or another job takes them")
        del self.kept[event.job_id]
        self.dirty[event.job_id] = Retries()

    def apply_job_cleaned_up(self, event: JobCleanedUp) -> None:
        """Mark the job clean: it holds the outputs of others no longer."""
        if self.dirty.pop(event.job_id, None) is None:
            raise IllegalTransition(f"job '{event.job_id}' is not dirty")
        self.holds.pop(event.job_id, None)

    def apply_job_cleanup_failed(self, event: JobCleanupFailed) -> None:
        """Wait, or give up: the job then counts as clean."""
        Retries.note_failure(self.dirty, event)
        if event.job_id not in self.dirty:
            self.holds.pop(event.job_id, None)

    def evict(self, job_id: str, at_ms: int, archive_digest: str) -> None:
        """Forget all of a job but its id, how it ended, and the digest of its archive (empty: it has none).

        Raises:
            IllegalTransition: there is no such job, it has not ended, or is not cleaned up.

        """
        job = self.job(job_id)
        if not self.is_clean(job_id):
            raise IllegalTransition(f"job '{job_id}' is not ended and clean")
        del self.jobs[job_id]
        del self.ended[job_id]
        self.forgotten[job_id] = ForgottenJob.of(job, at_ms, archive_digest)

    def apply_job_ids_expired(self, event: JobIdsExpired) -> None:
        """Forget the oldest ids as well."""
        if not 0 < event.count <= len(self.forgotten):
            raise IllegalTransition(f"{event.count} job ids cannot expire: there are {len(self.forgotten)}")
        for job_id in list(islice(self.forgotten, event.count)):
            del self.forgotten[job_id]

    def validate(self) -> None:
        """Check every job and the stores against each other."""
        for job_id, job in self.jobs.items():
            job.validate()
            require(
                (job_id in self.ended) == (job.status in TERMINAL_JOB_STATUSES),
                f"job '{job_id}' is {job.status}; ended: {job_id in self.ended}",
            )
        restarting = {j for j, job in self.jobs.items() if job.status is JobStatus.RESTARTING or job.is_closing}
        require(restarting == set(self.restarting_jobs), "the list of restarting jobs is stale")
        adaptive = {j for j, job in self.jobs.items() if job.scheduler is SchedulerType.ADAPTIVE and job.status in RUNNING_JOB_STATUSES}
        require(adaptive == set(self.adaptive_jobs), "the list of adaptive jobs is stale")
        streaming = {j for j, job in self.jobs.items() if job.checkpoints is not None and job.status is JobStatus.RUNNING}
        require(streaming == set(self.streaming_jobs), "the list of streaming jobs is stale")
        limited = {j for j, job in self.jobs.items() if job.is_closing or (job.is_limited and job.status in RUNNING_JOB_STATUSES)}
        require(limited == set(self.limited_jobs), "the list of jobs with time limits is stale")
        require(set(self.ended) <= set(self.jobs), "an ended job is not in memory")
        require(set(self.dirty) <= set(self.ended), "a dirty job has not ended")
        require(set(self.kept) <= set(self.ended), "a job has not ended, and its outputs are kept")
        require(not set(self.kept) & set(self.dirty), "outputs are kept and to be removed")
        require(not any(map(self.is_clean, self.holds)), "a clean job holds outputs")
        require(set(self.holds) <= set(self.jobs) and self.held() <= set(self.kept), "outputs are held that are not kept, or by nobody")
        require(not set(self.forgotten) & set(self.jobs), "a forgotten job is in memory")


def _graph_again(before: JobGraph, command: RerunJob) -> JobGraph | RequestRejected:
    """Return the graph of a job that runs an ended one again, or why there is none."""
    if command.job_graph is not None and command.job_graph.name != before.name:
        message = f"job '{command.rerun_of}' is a run of '{before.name}', and the graph is called '{command.job_graph.name}'"
        return rejected(command, "InvalidJobGraph", f"{message}: submit a job of another name instead of a rerun")
    try:
        return bind_again(before, command.job_graph, {each.name: each.value for each in command.parameters})
    except InvalidJobGraph as error:
        return rejected(command, "InvalidParameters", f"job '{command.rerun_of}' cannot be run again with these values: {error}")
