"""The JobMaster of one job: its status, its ExecutionGraph, and how events change them.

It composes what a job has besides its graph: `Restarts`, `Rescales`, `Suspension`, the `ExceptionHistory`, `Checkpoints`. What a failure
leads to is decided in `failover.py`, what is scheduled in `default_scheduler.py` and `adaptive_scheduler.py`, what is rescaled in
`rescaling.py`, what becomes of checkpoints in `checkpoint_coordinator.py`: rules that read a JobMaster and change nothing. An event of a
job is replayed by the method of its name.
"""

from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from eventflink.events.inputs import RerunJob
from eventflink.events.log_events import (
    CheckpointAborted,
    CheckpointAcknowledged,
    CheckpointCompleted,
    CheckpointEvent,
    CheckpointSubsumed,
    CheckpointTriggered,
    GlobalFailureOccurred,
    JobCancellationRequested,
    JobClosingAborted,
    JobClosingStarted,
    JobFailureDismissed,
    JobMasterStarted,
    JobMasterStopped,
    JobRescaled,
    JobRescaleRequested,
    JobRestartScheduled,
    JobResultStored,
    JobResumptionRequested,
    JobReuseDecided,
    JobStatusChanged,
    JobSuspensionRequested,
    JobTimeLimitNear,
    LogEvent,
    RegionRestarted,
    RescaleScheduled,
    ResourcesAwaited,
    RestartScheduled,
    SlotReclaimed,
    SlotRequestCancelled,
    SlotRequested,
    SlotShared,
    StreamStarted,
    TaskCancellationRequested,
    TaskDeployed,
    TaskFailed,
    TaskFinished,
    TaskScheduled,
    TaskStateChanged,
    VertexSkipped,
)
from eventflink.master.canonical import DERIVED, InvariantBroken, require
from eventflink.master.checkpoints import Checkpoints
from eventflink.master.closing import Closing, begun_closing
from eventflink.master.exception_history import MAX_NAMED_TASKS, ExceptionHistory, TaskFailure, bounded_cause
from eventflink.master.execution_graph import ExecutionGraph, ExecutionVertex, Subtask, SubtaskKey, shared
from eventflink.master.follow_ups import FollowUps
from eventflink.master.rescales import Rescales
from eventflink.master.restarts import Restarts, subtasks_to_restart, subtasks_to_restart_globally
from eventflink.master.settings import Context, MasterSettings
from eventflink.master.slot_manager import SlotManager
from eventflink.master.slot_requests import SlotRequest
from eventflink.master.suspension import Suspension
from eventflink.model.attempts import UNKNOWN_COUNT, AttemptId, FailureCause, IOMetrics
from eventflink.model.closing import GraphOutcome, runs_in_words
from eventflink.model.job_graph import CheckpointSettings, RestartStrategy
from eventflink.model.job_queues import DEFAULT_QUEUE
from eventflink.model.reuse import VertexReuse
from eventflink.model.schedules import ScheduledInstant
from eventflink.model.statuses import (
    ENDING_JOB_STATUSES,
    JOB_TRANSITIONS,
    RUNNING_JOB_STATUSES,
    SUSPENDABLE_JOB_STATUSES,
    TERMINAL_EXECUTION_STATES,
    TERMINAL_JOB_STATUSES,
    ExecutionState,
    FailoverStrategy,
    FailureReaction,
    FollowUpType,
    IllegalTransition,
    JobStatus,
    RestartStrategyType,
    ReuseReason,
    SchedulerType,
    check_transition,
)

CANCELLATION_BATCH: Final = 256
"""How many tasks one decision cancels at most; the rest follows in the next (P10a)."""

STARTING_STATES: Final = (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING)
"""Those of an attempt that its TaskExecutor has, in their order."""

DEPLOYED_STATES: Final = (*STARTING_STATES, ExecutionState.CANCELING)
"""Those of an attempt of which its TaskExecutor may say something."""

_ENDS: Final = {
    JobStatus.RUNNING: JobStatus.FINISHED,
    JobStatus.FAILING: JobStatus.FAILED,
    JobStatus.CANCELLING: JobStatus.CANCELED,
}
"""How a job of each status ends of which nothing is left to run."""

_PLAIN_STATES: Final = (ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.CANCELED)


@dataclass(slots=True, weakref_slot=True)
class JobMaster:
    """One job."""

    follow_ups: FollowUps = field(metadata=DERIVED)
    slot_manager: SlotManager = field(metadata=DERIVED)
    job_id: str
    actor: str
    graph_digest: str
    status_times_ms: dict[JobStatus, int]
    """When it entered each status last; one that it never had is left out."""
    execution_graph: ExecutionGraph
    status: JobStatus = JobStatus.INITIALIZING
    job_master_id: str = ""
    scheduler: SchedulerType = SchedulerType.DEFAULT
    reactive: bool = False
    """The adaptive scheduler uses all slots that there are."""
    to_cancel: dict[SubtaskKey, None] = field(default_factory=dict)
    """Live attempts that are still to be cancelled: the job ends, or they are to start again."""
    cause: FailureCause | None = None
    restarts: Restarts = field(default_factory=Restarts)
    rescales: Rescales = field(default_factory=Rescales)
    suspension: Suspension = field(default_factory=Suspension)
    exceptions: ExceptionHistory = field(default_factory=ExceptionHistory)
    checkpoints: Checkpoints | None = None
    """None: no vertex is a stream."""
    rerun_of: str = ""
    """The ended job that it runs again; empty: none."""
    failure_is_dismissed: bool = False
    """Whether somebody has dismissed the failure of this job."""
    reuse: dict[str, VertexReuse] = field(default_factory=dict)
    """By vertex, whether it began finished, with outputs of the job that runs again, and why; empty: that was not asked for."""
    scheduled: ScheduledInstant | None = None
    """For which instant of which schedule it runs; None: it was submitted."""
    time_limit_is_near: bool = False
    """Whether it was said that it has used up most of its time."""
    closing: Closing | None = None
    """None: its closing vertices have not begun, or it has none."""

    # -- queries --------------------------------------------------------------------------------------------------

    @property
    def submitted_at_ms(self) -> int:
        """When it was submitted."""
        return self.status_times_ms[JobStatus.INITIALIZING]

    @property
    def status_since_ms(self) -> int:
        """Since when it has its status."""
        return self.status_times_ms[self.status]

    @property
    def ended_at_ms(self) -> int:
        """When it ended; 0: it has not."""
        return self.status_since_ms if self.status in TERMINAL_JOB_STATUSES else 0

    @property
    def queue(self) -> str:
        """The named queue that the job asks for."""
        return self.execution_graph.graph.queue or DEFAULT_QUEUE

    @property
    def is_limited(self) -> bool:
        """Whether the job, or a vertex of it, has a time limit."""
        return self.execution_graph.graph.time_limit_ms is not None or bool(self.execution_graph.limited)

    @property
    def is_closing(self) -> bool:
        """Whether its closing vertices have begun, and it has not ended."""
        return self.closing is not None and self.status not in TERMINAL_JOB_STATUSES

    @property
    def is_ending(self) -> bool:
        """Whether its attempts are cancelled, and no new ones are made."""
        return self.status in ENDING_JOB_STATUSES if self.closing is None else self.closing.is_aborted

    @property
    def is_running(self) -> bool:
        """Whether its attempts are made, and their results count."""
        return self.is_closing and not self.is_ending if self.closing is not None else self.status in RUNNING_JOB_STATUSES

    @property
    def fails_at_ms(self) -> int | None:
        """When a job fails that runs, or restarts, and has not ended; None: it has no time limit, or its time stands still.

        All time counts since its submission, but for that in which it was suspended, and that of its closing vertices.
        """
        limit_ms = self.execution_graph.graph.time_limit_ms
        if limit_ms is None or self.status not in RUNNING_JOB_STATUSES or self.closing is not None:
            return None
        return self.submitted_at_ms + self.suspension.suspended_ms + limit_ms

    def attempt_of(self, subtask: Subtask) -> AttemptId:
        """Return the current attempt of a subtask."""
        return AttemptId(self.job_id, subtask.vertex_id, subtask.subtask_index, subtask.attempt)

    def cancellation_reason(self, subtask: Subtask) -> str:
        """Return why the live attempt of a subtask is cancelled."""
        if self.closing is not None and (reason := self._reason_of_closing(self.closing, subtask)):
            return reason
        if self.status in ENDING_JOB_STATUSES and self.closing is None:
            return f"the job is {self.status}"
        if subtask.exceeds_time_limit:
            return self.execution_graph.describe_time_limit(subtask.vertex_id)
        if (pending := self.rescales.pending.get(subtask.vertex_id)) is not None:
            return f"its vertex is rescaled to {pending.to_parallelism} subtasks"
        allocation = self.slot_manager.allocations.get(subtask.allocation_id)
        if allocation is not None and allocation.reclaimed_for:
            return f"queue '{allocation.reclaimed_for}' takes back its slot, which queue '{allocation.queue}' had borrowed"
        return f"it starts again with restart {self.restarts.count} of its job"

    def _reason_of_closing(self, closing: Closing, subtask: Subtask) -> str:
        vertex = self.execution_graph.vertices[subtask.vertex_id].vertex
        if not self.execution_graph.runs_now(vertex):
            return f"it runs {runs_in_words(vertex.runs)}, and the job ends as {closing.outcome.status}"
        return closing.abort_reason

    @property
    def aborts_checkpoint(self) -> bool:
        """Whether a checkpoint is pending that cannot complete, and is about to be aborted (C3)."""
        pending = self.checkpoints.pending if self.checkpoints is not None else None
        return pending is not None and (bool(pending.broken) or self.status is not JobStatus.RUNNING)

    def without_result(self) -> list[Subtask]:
        """Return the subtasks that run again when a suspended job is resumed, in the order of the graph."""
        subtasks = (s for vertex in self.execution_graph.counted_vertices() for s in vertex.subtasks)
        return [s for s in subtasks if not s.has_result]

    def was_asked_for_by(self, command: RerunJob) -> bool:
        """Tell whether a request to run `rerun_of` again wants the same vertices reused as the request that has led to this job."""
        named = {vertex_id for vertex_id, reuse in self.reuse.items() if reuse.reason is ReuseReason.REQUESTED}
        return bool(self.reuse) == bool(command.failed or command.from_vertices) and named == set(command.from_vertices)

    def outputs_kept_ms(self, status: JobStatus, settings: MasterSettings) -> int:
        """Return for how long the outputs are kept that edges read, of a job that ends with this status; 0: there are none, or not at all.

        Those of a job with streams are not: its edges are topics, and its streams go on from savepoints.
        """
        graph = self.execution_graph
        if self.checkpoints is not None or not any(graph.vertices[vertex_id].has_outputs for vertex_id in graph.edges_from):
            return 0
        if graph.graph.keep_outputs_ms is not None:
            return graph.graph.keep_outputs_ms
        return settings.keep_outputs_ms if status is not JobStatus.FINISHED else 0

    # -- decide ---------------------------------------------------------------------------------------------------

    def decide_cancellation(self, actor: str) -> list[LogEvent]:
        """Begin to cancel the job; its tasks are cancelled by follow-ups. Nothing where its closing vertices run: it ends after them."""
        if self.closing is not None:
            return []
        events: list[LogEvent] = [JobCancellationRequested(self.job_id, actor)]
        if self.status is not JobStatus.CANCELLING:
            events.append(JobStatusChanged(self.job_id, self.status, JobStatus.CANCELLING))
        return events

    def decide_closing_abort(self, reason: str) -> list[LogEvent]:
        """Cancel what still runs of the closing vertices; nothing where none does, or it is cancelled already."""
        return [JobClosingAborted(self.job_id, reason)] if self.is_closing and not self.is_ending else []

    def decide_suspension(self, actor: str, reason: str, *, resumes_with_cluster: bool) -> list[LogEvent]:
        """Suspend a job that can be; nothing for one that is, and is not to be resumed."""
        requested = JobSuspensionRequested(self.job_id, actor, reason, resumes_with_cluster)
        if self.status is JobStatus.SUSPENDED:
            return [requested] if self.suspension.resumption_requested else []
        if self.status not in SUSPENDABLE_JOB_STATUSES or self.closing is not None:
            return []
        return [requested, JobStatusChanged(self.job_id, self.status, JobStatus.SUSPENDED, reason)]

    def decide_resumption(self, actor: str) -> list[LogEvent]:
        """Resume a suspended job; nothing where it is to be resumed already, or is not suspended."""
        waits = self.status is JobStatus.SUSPENDED and not self.suspension.resumption_requested
        return [JobResumptionRequested(self.job_id, actor)] if waits else []

    def decide_task_cancellations(self) -> list[LogEvent]:
        """Cancel a batch of live attempts, because their job ends or they start again with it."""
        events: list[LogEvent] = []
        for vertex_id, index in islice(self.to_cancel, CANCELLATION_BATCH):
            subtask = self.execution_graph.vertices[vertex_id].subtasks[index]
            attempt = self.attempt_of(subtask)
            if subtask.state in STARTING_STATES:
                events.append(TaskCancellationRequested(*attempt, self.cancellation_reason(subtask)))
                continue
            if subtask.state is ExecutionState.SCHEDULED:
                events.append(SlotRequestCancelled(subtask.allocation_id))
            events.append(TaskStateChanged(*attempt, subtask.state, ExecutionState.CANCELED))
        return events

    def decide_completion(self, context: Context) -> list[LogEvent]:
        """End the job: nothing of it is alive, or everything has finished. A suspended one only stops, and may be resumed.

        Closing vertices run first.
        """
        if self.status is JobStatus.SUSPENDED:
            return self._decide_stop()
        status = _ENDS[self.status]
        if self.closing is None and self.execution_graph.has_closing_vertices:
            return [JobClosingStarted(self.job_id, self._outcome(status))]
        cause = self.cause if status is JobStatus.FAILED else None
        stored = JobResultStored(
            job_id=self.job_id,
            status=status,
            cause=cause,
            net_run_time_ms=context.now_ms - self.submitted_at_ms,
            outputs_kept_ms=self.outputs_kept_ms(status, context.settings),
        )
        return [JobStatusChanged(self.job_id, self.status, status), stored]

    def _outcome(self, status: JobStatus) -> GraphOutcome:
        if status is not JobStatus.FAILED or self.cause is None:
            return GraphOutcome(status)
        cause, newest = bounded_cause(self.cause, trace_limit=0), self.exceptions.newest
        failed = (cause.failure_type, cause.message)
        if newest is None or newest.reaction is not FailureReaction.JOB_FAILURE or not newest.failure.vertex_id:
            return GraphOutcome(status, "", 0, 0, *failed)
        return GraphOutcome(status, newest.failure.vertex_id, newest.failure.subtask_index, newest.failure.attempt, *failed)

    def _decide_stop(self) -> list[LogEvent]:
        """Stop the JobMaster of a suspended job of which nothing is alive, and start a new one if it is to be resumed."""
        events: list[LogEvent] = []
        if self.job_master_id:
            events.append(JobMasterStopped(self.job_id, self.job_master_id, self.suspension.reason))
        if self.suspension.resumption_requested:
            token = f"{self.job_id}-{self.suspension.job_masters + 1}"
            strategy = self.restarts.strategy or RestartStrategy(RestartStrategyType.NONE)
            settings = (strategy, self.restarts.failover_strategy, self.exceptions.size, self.scheduler)
            events.append(JobMasterStarted(self.job_id, token, *settings, self.reactive, *self._checkpoint_settings()))
            if not self.without_result():
                events.append(JobStatusChanged(self.job_id, JobStatus.RECONCILING, JobStatus.RUNNING))
        return events

    def _checkpoint_settings(self) -> tuple[CheckpointSettings, int] | tuple[()]:
        return (self.checkpoints.settings, self.checkpoints.history_size) if self.checkpoints is not None else ()

    # -- apply: the job -------------------------------------------------------------------------------------------

    def apply_job_master_started(self, event: JobMasterStarted, at_ms: int) -> None:
        """Start: INITIALIZING → CREATED; or, of a suspended job, again: SUSPENDED → RECONCILING, until what runs again has new attempts."""
        if self.status is JobStatus.SUSPENDED:
            self.suspension.resume(self.job_id, self.job_master_id, at_ms - self.status_since_ms)
            self._set_status(JobStatus.RECONCILING, at_ms)
            self.restarts.resume(self.without_result(), at_ms)
            self.cause = None
        elif self.status is JobStatus.INITIALIZING:
            self._set_status(JobStatus.CREATED, at_ms)
        else:
            raise IllegalTransition(f"{self.job_id} is {self.status}: it has a JobMaster")
        self.job_master_id = event.job_master_id
        self.scheduler, self.reactive = event.scheduler, event.reactive
        self.restarts.begin(event)
        self.exceptions.begin(event)
        if event.checkpointing is not None and self.checkpoints is None:
            self.checkpoints = Checkpoints(event.checkpointing, event.checkpoint_history_size)
        self._want()

    def apply_job_status_changed(self, event: JobStatusChanged, at_ms: int) -> None:
        """Move along the table of JobStatus."""
        if event.from_status is not self.status:
            raise IllegalTransition(f"{self.job_id} is {self.status}, not {event.from_status}")
        if event.to_status is JobStatus.RECONCILING:
            raise IllegalTransition(f"{self.job_id} cannot be {event.to_status} before it has a new JobMaster")
        if self.execution_graph.has_closing_vertices:
            self._check_closed(event)
        self._set_status(event.to_status, at_ms)
        if event.to_status is JobStatus.CANCELLING:
            self.suspension.drop_resumption()
        if event.to_status is JobStatus.FAILING:
            self.exceptions.note_job_failure(event.reason)
        if event.to_status in ENDING_JOB_STATUSES:
            self.restarts.clear()
            self.rescales.clear()
            self._cancel_all()
        self._want()

    def _check_closed(self, event: JobStatusChanged) -> None:
        """Raise `IllegalTransition` unless it ends when its closing vertices have, and as it was decided before they began."""
        if self.closing is None:
            fits = event.to_status not in TERMINAL_JOB_STATUSES
        else:
            fits = event.to_status is self.closing.outcome.status and not self.execution_graph.live_attempts and not self.restarts.due
        if not fits:
            raise IllegalTransition(f"{event}: of the closing vertices of {self.job_id} there is {self.closing}")

    def _cancel_all(self) -> None:
        """Have all attempts cancelled that live, and are not cancelled already."""
        for vertex in self.execution_graph.counted_vertices():
            for subtask in vertex.subtasks:
                if subtask.state not in TERMINAL_EXECUTION_STATES and subtask.state is not ExecutionState.CANCELING:
                    self.to_cancel[subtask.key] = None

    def apply_job_closing_started(self, event: JobClosingStarted, at_ms: int) -> None:
        """Let the closing vertices run that run after this end, and cancel the others."""
        graph = self.execution_graph.graph
        fits = self.closing is None and self.execution_graph.has_closing_vertices and self._has_run_out
        if not fits or event.outcome.status is not _ENDS.get(self.status):
            raise IllegalTransition(f"{event} does not fit: the job is {self.status}, and of its closing vertices there is {self.closing}")
        self.closing = begun_closing(event.outcome, graph, at_ms)
        self.restarts.begin_closing()
        self.to_cancel |= {subtask.key: None for subtask in self.execution_graph.begin_closing(event.outcome.status)}
        self._want()

    def apply_job_closing_aborted(self, event: JobClosingAborted) -> None:
        """Have the closing vertices cancelled; none of them is tried again."""
        if self.closing is None or not self.is_running or not event.reason:
            raise IllegalTransition(f"{event} does not fit: the job is {self.status}, and of its closing vertices there is {self.closing}")
        self.closing.abort_reason = event.reason
        self.restarts.clear()
        self._cancel_all()
        self._want()

    @property
    def _has_run_out(self) -> bool:
        """Whether nothing is left to run but its closing vertices."""
        if self.status is JobStatus.RUNNING:
            return not self.execution_graph.unfinished_vertices
        return self.status in ENDING_JOB_STATUSES and not self.execution_graph.live_attempts

    def _set_status(self, status: JobStatus, at_ms: int) -> None:
        check_transition(JOB_TRANSITIONS, self.job_id, self.status, status)
        self.status = status
        self.status_times_ms[status] = at_ms

    def reuse_outputs(self, event: JobReuseDecided, before: "JobMaster", at_ms: int) -> set[str]:
        """Take outputs of an ended job, and remember why; return the jobs whose attempts left them: that job, or those that it reused.

        Raises:
            IllegalTransition: this job has begun, or the other one has not finished what is to be taken; nothing was changed.

        """
        graph, others = self.execution_graph, before.execution_graph.vertices
        taken = [reuse for reuse in event.vertices if reuse.is_reused or reuse.subtasks]
        named = [reuse.vertex_id for reuse in event.vertices]
        finished = all(reuse.vertex_id in others and others[reuse.vertex_id].has_finished(reuse.subtasks) for reuse in taken)
        if self.status is not JobStatus.INITIALIZING or self.reuse or named != list(graph.vertices) or not finished:
            raise IllegalTransition(f"{event} does not fit: the job is {self.status}, or '{before.job_id}' has not finished these vertices")
        self.reuse = {reuse.vertex_id: reuse for reuse in event.vertices}
        for reuse in taken:
            graph.take_outputs(others[reuse.vertex_id], reuse.subtasks, before.job_id, at_ms)
        return {s.executions[-1].reused_from for reuse in taken for s in graph.vertices[reuse.vertex_id].subtasks if s.executions}

    def apply_job_failure_dismissed(self, event: JobFailureDismissed) -> None:
        """Remember that the failure is dismissed."""
        if self.status is not JobStatus.FAILED or self.failure_is_dismissed:
            raise IllegalTransition(
                f"job '{event.job_id}' is {self.status}: it has no failure to dismiss, or its failure is dismissed already"
            )
        self.failure_is_dismissed = True

    def apply_job_suspension_requested(self, event: JobSuspensionRequested) -> None:
        """Remember why; the status changes by its own event. A job that was to be resumed is not."""
        if self.closing is not None:
            raise IllegalTransition(f"{event}: the closing vertices of the job have begun")
        self.suspension.request(self.job_id, self.status, event.reason)
        self._want()

    def apply_job_resumption_requested(self, event: JobResumptionRequested) -> None:
        """Remember that the job is to be resumed once nothing of it is alive."""
        self.suspension.request_resumption(event.job_id, self.status)
        self._want()

    def apply_job_master_stopped(self, event: JobMasterStopped) -> None:
        """Be without a JobMaster: its fencing token is not valid any more."""
        if self.status is not JobStatus.SUSPENDED or self.execution_graph.live_attempts or event.job_master_id != self.job_master_id:
            raise IllegalTransition(f"{event} does not fit {self.status} under '{self.job_master_id}'")
        if not self.job_master_id:
            raise IllegalTransition(f"{self.job_id} has no JobMaster that could stop")
        self.job_master_id = ""
        self._want()

    def share(self, like: "JobMaster") -> None:
        """Hold in common with another ended job of the same graph what is equal in both: nothing of either changes any more."""
        self.graph_digest, self.actor = like.graph_digest, shared(self.actor, like.actor)
        self.execution_graph.share(like.execution_graph)
        self.to_cancel, self.rescales = shared(self.to_cancel, like.to_cancel), shared(self.rescales, like.rescales)
        self.restarts, self.suspension = shared(self.restarts, like.restarts), shared(self.suspension, like.suspension)
        self.exceptions, self.checkpoints = shared(self.exceptions, like.exceptions), shared(self.checkpoints, like.checkpoints)

    # -- apply: attempts and their slots --------------------------------------------------------------------------

    def apply_task_scheduled(self, event: TaskScheduled, at_ms: int) -> None:
        """Move CREATED → SCHEDULED; nothing of the vertex waits any more."""
        graph = self.execution_graph
        subtask = graph.require_current(event)
        if self.rescales.binds(graph, event.vertex_id):
            raise IllegalTransition(f"{event}: its vertex is to be rescaled first")
        if graph.is_unmapped(event.vertex_id):
            raise IllegalTransition(f"{event}: its vertex has not a subtask for each row of its input")
        if graph.find_skip(event.vertex_id) is not None:
            raise IllegalTransition(f"{event}: its vertex is to be skipped")
        graph.transition(subtask, ExecutionState.SCHEDULED, at_ms)
        if self.scheduler is SchedulerType.ADAPTIVE and self.closing is None:
            self.rescales.note_scheduled(event.vertex_id)
            graph.vertices[event.vertex_id].scheduled_at_ms = at_ms
        self._want()

    def apply_vertex_skipped(self, event: VertexSkipped) -> None:
        """Leave the vertex out: what waits for it does not wait any more."""
        graph = self.execution_graph
        vertex = graph.vertices.get(event.vertex_id)
        fits = vertex is not None and self.is_running and vertex.skip is None and not vertex.has_begun
        if not fits or graph.find_skip(event.vertex_id) != event.skip:
            raise IllegalTransition(f"{event} does not fit: the job is {self.status}, or the vertex has begun, or is not to be skipped so")
        graph.skip(event.vertex_id, event.skip)
        self.rescales.note_finished(event.vertex_id)
        self._want()

    def apply_slot_requested(self, event: SlotRequested, at_ms: int) -> None:
        """Let a SCHEDULED attempt wait for a slot."""
        graph = self.execution_graph
        subtask = graph.require_current(event)
        if subtask.state is not ExecutionState.SCHEDULED or subtask.allocation_id:
            raise IllegalTransition(f"{event} does not fit {subtask.state} with '{subtask.allocation_id}'")
        profile, group = graph.slot_profile_of(event.vertex_id), graph.group_of(subtask)
        request = SlotRequest(event.attempt_id, at_ms, profile, 0, group, self.queue, graph.graph.priority)
        self.slot_manager.request(event.allocation_id, request)
        subtask.allocation_id = event.allocation_id

    def apply_slot_shared(self, event: SlotShared) -> None:
        """Let a SCHEDULED attempt, which waits for no slot, join others of its group in one."""
        subtask = self.execution_graph.require_current(event)
        group = self.execution_graph.group_of(subtask)
        if subtask.state is not ExecutionState.SCHEDULED or not group:
            raise IllegalTransition(f"{event} does not fit: the attempt is {subtask.state}, or shares no slot")
        if self.slot_manager.is_known(subtask.allocation_id):
            raise IllegalTransition(f"{event} does not fit: the attempt has {subtask.allocation_id}")
        self.slot_manager.share(event.allocation_id, event.attempt_id, group)
        subtask.allocation_id = event.allocation_id

    def apply_task_deployed(self, event: TaskDeployed, at_ms: int) -> None:
        """Move SCHEDULED → DEPLOYING, in the slot that the attempt has."""
        graph = self.execution_graph
        attempt = (event.job_id, event.vertex_id, event.subtask_index, event.attempt)
        place = self.slot_manager.place_of(event.allocation_id, attempt)
        subtask = graph.require_current(event)
        graph.transition(subtask, ExecutionState.DEPLOYING, at_ms)
        execution = subtask.executions[-1]
        execution.task_manager_id, execution.instance_id = place
        engine = graph.graph.engine_of(graph.vertices[event.vertex_id].vertex)
        execution.spark_address = self.slot_manager.spark_address_of(event.allocation_id, engine)

    def apply_task_state_changed(self, event: TaskStateChanged, at_ms: int) -> None:
        """Move along the table of ExecutionState, where no event of its own says it."""
        graph = self.execution_graph
        subtask = graph.require_current(event)
        if subtask.state is not event.from_state or event.to_state not in _PLAIN_STATES:
            raise IllegalTransition(f"{event} does not fit {subtask.state}, or is another event's to say")
        graph.transition(subtask, event.to_state, at_ms)
        if event.to_state is ExecutionState.RUNNING:
            subtask.refusals = 0
        if event.to_state in TERMINAL_EXECUTION_STATES:
            self.to_cancel.pop((event.vertex_id, event.subtask_index), None)
            self._note_ended(subtask)
        self._want()

    def apply_task_cancellation_requested(self, event: TaskCancellationRequested, at_ms: int) -> None:
        """Move to CANCELING, until the TaskExecutor says that the attempt is terminal."""
        subtask = self.execution_graph.require_current(event)
        self.execution_graph.transition(subtask, ExecutionState.CANCELING, at_ms)
        if event.exceeds_time_limit:
            subtask.executions[-1].exceeded_at_ms = at_ms
        self.to_cancel.pop((event.vertex_id, event.subtask_index), None)
        self._want()

    def apply_task_finished(self, event: TaskFinished, at_ms: int) -> None:
        """Move to FINISHED: the attempt's outputs are now the subtask's result."""
        graph, key = self.execution_graph, (event.vertex_id, event.subtask_index)
        subtask = graph.require_current(event)
        if key in self.restarts.due:
            raise IllegalTransition(f"{event}: the subtask is to start again, and no result of this attempt counts")
        graph.transition(subtask, ExecutionState.FINISHED, at_ms)
        subtask.executions[-1].io, subtask.executions[-1].accumulators = event.io, event.accumulators
        graph.complete(subtask, event.outputs)
        if self.scheduler is SchedulerType.ADAPTIVE:
            self.rescales.note_finished(event.vertex_id)
        self.to_cancel.pop(key, None)
        self._note_ended(subtask)
        self._want()

    def apply_task_failed(self, event: TaskFailed, at_ms: int) -> None:
        """Move to FAILED; the first failure without a restart is the job's cause."""
        graph, key = self.execution_graph, (event.vertex_id, event.subtask_index)
        subtask = graph.require_current(event)
        graph.transition(subtask, ExecutionState.FAILED, at_ms)
        subtask.last_failure = event.cause
        self.to_cancel.pop(key, None)
        self._note_ended(subtask)
        is_concurrent = self.is_ending or key in self.restarts.due
        if not is_concurrent and self.closing is None:
            self.cause = event.cause
        place = (subtask.executions[-1].task_manager_id, subtask.executions[-1].instance_id)
        self.exceptions.note_failure(TaskFailure(at_ms, *key, event.attempt, *place, event.cause), is_concurrent=is_concurrent)
        if self.closing is not None and not is_concurrent:
            self.exceptions.note_closing_failure()
        self._want()

    def _note_ended(self, subtask: Subtask) -> None:
        if self.checkpoints is not None:
            self.checkpoints.note_ended(subtask.key, f"{self.attempt_of(subtask)} is {subtask.state}")

    # -- apply: checkpoints ---------------------------------------------------------------------------------------

    def apply_stream_started(self, event: StreamStarted, at_ms: int) -> None:
        """Remember how the query of an attempt began."""
        checkpoints, graph = self._require_checkpoints(event), self.execution_graph
        subtask = graph.require_current(event)
        if subtask.state not in DEPLOYED_STATES or graph.vertices[event.vertex_id].vertex.stream is None:
            raise IllegalTransition(f"{event} does not fit: the attempt is {subtask.state}, or no stream")
        checkpoints.note_start(event, at_ms)

    def apply_checkpoint_triggered(self, event: CheckpointTriggered, at_ms: int) -> None:
        """Wait for every stream to say where it stands."""
        checkpoints = self._require_checkpoints(event)
        if self.status is not JobStatus.RUNNING:
            raise IllegalTransition(f"{event}: the job is {self.status}")
        checkpoints.trigger(event, self.execution_graph, at_ms)

    def apply_checkpoint_acknowledged(self, event: CheckpointAcknowledged, at_ms: int) -> None:
        """Take a stream's answer."""
        self._require_checkpoints(event).acknowledge(event, at_ms)
        subtask = self.execution_graph.current(event.attempt_id)
        if subtask is not None and subtask.execution is not None:
            rows = event.progress.rows_read
            subtask.execution.io = IOMetrics(read_records=rows) if rows != UNKNOWN_COUNT else None

    def apply_checkpoint_completed(self, event: CheckpointCompleted, at_ms: int) -> None:
        """Retain the pending checkpoint."""
        self._require_checkpoints(event).complete(event, at_ms)
        self._want()

    def apply_checkpoint_aborted(self, event: CheckpointAborted, at_ms: int) -> None:
        """Give the pending checkpoint up."""
        self._require_checkpoints(event).abort(event, self.execution_graph, at_ms)
        self._want()

    def apply_checkpoint_subsumed(self, event: CheckpointSubsumed) -> None:
        """Retain the oldest checkpoint no longer."""
        self._require_checkpoints(event).subsume(event)

    def _require_checkpoints(self, event: CheckpointEvent | CheckpointAcknowledged | StreamStarted) -> Checkpoints:
        if self.checkpoints is None:
            raise IllegalTransition(f"{event} is of a job without streams")
        return self.checkpoints

    # -- apply: restarts and rescales -----------------------------------------------------------------------------

    def apply_restart_scheduled(self, event: RestartScheduled, at_ms: int) -> None:
        """Wait for the delay: the failure is not the job's. What is to start again has no result any more, and ends if it lives."""
        graph, key = self.execution_graph, (event.vertex_id, event.subtask_index)
        failed = graph.subtask(*key)
        is_failed = failed is not None and failed.state is ExecutionState.FAILED
        if failed is None or not is_failed or not self.is_running or key in self.restarts.due:
            raise IllegalTransition(f"{event} does not name a failed subtask of a running job")
        if not 0 <= event.retry_rule <= len(graph.vertices[event.vertex_id].vertex.retries):
            raise IllegalTransition(f"{event} goes by a rule that the vertex does not have")
        subtasks = subtasks_to_restart(graph, failed, event.failover_strategy, event.lost_outputs)
        self.restarts.schedule(event, at_ms)
        self._forget_cause()
        for subtask in subtasks:
            self._let_restart(subtask, event.restart_at_ms)
        self.rescales.drop_waiting_without_inputs(graph)
        named = [subtask.key for subtask in subtasks[:MAX_NAMED_TASKS]]
        self.exceptions.note_restart(
            event.restarts, event.restart_at_ms - at_ms, event.failover_strategy, named, len(subtasks), event.retry_rule
        )
        self._want()

    def apply_global_failure_occurred(self, event: GlobalFailureOccurred, at_ms: int) -> None:
        """Take note of a failure of the job as a whole."""
        if JobStatus.FAILING not in JOB_TRANSITIONS[self.status]:
            raise IllegalTransition(f"{event}: the job is {self.status}")
        self.cause = event.cause
        self.exceptions.note_failure(TaskFailure(at_ms, "", 0, 0, "", "", event.cause), is_concurrent=False)
        if self.checkpoints is not None:
            self.checkpoints.note_global_failure()

    def apply_job_time_limit_near(self, event: JobTimeLimitNear) -> None:
        """Remember that it was said; a job that is suspended afterwards is not warned of again."""
        if self.fails_at_ms != event.fails_at_ms or self.time_limit_is_near:
            raise IllegalTransition(
                f"{event}: the job is {self.status}, and fails at {self.fails_at_ms}; was it said: {self.time_limit_is_near}"
            )
        self.time_limit_is_near = True

    def apply_job_restart_scheduled(self, event: JobRestartScheduled, at_ms: int) -> None:
        """Wait for the delay after a failure of the job as a whole; what is to start again ends first, and has no result any more."""
        graph = self.execution_graph
        subtasks = subtasks_to_restart_globally(graph, event.failover_strategy)
        if self.status is not JobStatus.RUNNING or not subtasks:
            raise IllegalTransition(f"{event}: the job is {self.status}, or nothing of it runs")
        self.restarts.schedule(event, at_ms)
        self.cause = None
        for subtask in subtasks:
            self._let_restart(subtask, event.restart_at_ms)
        self.rescales.drop_waiting_without_inputs(graph)
        named = [subtask.key for subtask in subtasks[:MAX_NAMED_TASKS]]
        self.exceptions.note_restart(event.restarts, event.delay_ms, event.failover_strategy, named, len(subtasks))
        self._want()

    def _forget_cause(self) -> None:
        """Take note that what failed starts again: it does not fail the job. One that is closed has failed before, or never."""
        if self.closing is None:
            self.cause = None

    def _let_restart(self, subtask: Subtask, at_ms: int) -> None:
        """Have a subtask start again, when its attempt has ended and not before `at_ms`; its result does not count any more."""
        self.restarts.add(subtask.key, at_ms)
        if subtask.state is ExecutionState.FINISHED:
            if not subtask.revoked:
                self.execution_graph.revoke(subtask)
        elif subtask.state not in TERMINAL_EXECUTION_STATES and subtask.state is not ExecutionState.CANCELING:
            self.to_cancel[subtask.key] = None

    def apply_slot_reclaimed(self, event: SlotReclaimed, at_ms: int) -> None:
        """Let the attempt in a slot that is taken back end, and its subtask start again: no restart is counted, and nothing has failed."""
        subtask = self.execution_graph.require_current(event)
        is_to_end = subtask.key in self.restarts.due or subtask.key in self.to_cancel or self.closing is not None
        if self.status not in RUNNING_JOB_STATUSES or subtask.state not in STARTING_STATES or is_to_end:
            raise IllegalTransition(f"{event} does not fit: the job is {self.status}, and the attempt {subtask.state}, or one is to end")
        self.slot_manager.reclaim(event.allocation_id, event.attempt_id, event.queue)
        self._let_restart(subtask, at_ms)
        self._want()

    def apply_region_restarted(self, event: RegionRestarted) -> None:
        """Make the next attempt: CREATED."""
        graph, key = self.execution_graph, (event.vertex_id, event.subtask_index)
        subtask = graph.subtask(*key)
        is_running = self.is_running or self.status is JobStatus.RECONCILING
        if subtask is None or not is_running or event.vertex_id in self.rescales.pending:
            raise IllegalTransition(f"{event} does not name a subtask of a running job, or names one whose vertex is rescaled")
        if subtask.state is not ExecutionState.FAILED and key not in self.restarts.due:
            raise IllegalTransition(f"{event}: the subtask is {subtask.state}, and nothing restarts it")
        graph.restart(subtask, event.attempt)
        self._forget_cause()
        together = self.restarts.failover_strategy is FailoverStrategy.FULL or self.status is JobStatus.RECONCILING
        if not self.restarts.start(key, together=together):
            subtask.refusals += 1
            self.exceptions.note_new_slot()
        self._want()

    def apply_resources_awaited(self, event: ResourcesAwaited, at_ms: int) -> None:
        """Let a vertex wait for slots."""
        vertex = self.execution_graph.vertices.get(event.vertex_id)
        is_ready = vertex is not None and not vertex.unfinished_inputs and any(s.state is ExecutionState.CREATED for s in vertex.subtasks)
        is_adaptive = self.scheduler is SchedulerType.ADAPTIVE and self.status in RUNNING_JOB_STATUSES
        if not is_ready or not is_adaptive or self.rescales.holds_back(self.execution_graph, event.vertex_id):
            raise IllegalTransition(f"{event} does not name a vertex of an adaptive job that could be scheduled")
        self.rescales.await_resources(event, at_ms)
        self._want()

    def apply_job_rescale_requested(self, event: JobRescaleRequested) -> None:
        """Remember what was asked for, of all vertices that forward edges bind together."""
        self._rescalable(event, event.parallelism)
        self.execution_graph.request_parallelism(event.vertex_id, event.parallelism)

    def apply_rescale_scheduled(self, event: RescaleScheduled, at_ms: int) -> None:
        """Let the vertex end: what lives of it is to be cancelled, what it has published is taken back."""
        vertex = self._rescalable(event, event.to_parallelism)
        if vertex.parallelism != event.from_parallelism or not vertex.has_begun or event.vertex_id in self.rescales.pending:
            raise IllegalTransition(f"{event} does not fit: the vertex has {vertex.parallelism} subtasks, and must have begun")
        self.rescales.schedule(event, self.execution_graph.forward_group(event.vertex_id))
        for subtask in vertex.subtasks:
            if subtask.state is not ExecutionState.CREATED:
                self._let_restart(subtask, at_ms)
        self._want()

    def apply_job_rescaled(self, event: JobRescaled) -> None:
        """Give the vertex its new subtasks, and those that forward edges bind to it as many."""
        graph, vertex = self.execution_graph, self._rescalable(event, event.to_parallelism)
        pending = self.rescales.pending.get(event.vertex_id)
        fits = vertex.parallelism == event.from_parallelism and vertex.next_attempt == event.attempt
        if not fits or (vertex.has_begun if pending is None else pending.to_parallelism != event.to_parallelism):
            raise IllegalTransition(f"{event} does not fit: of the vertex with {vertex.parallelism} subtasks {pending} is pending")
        keys = self.restarts.keys_of(event.vertex_id, vertex.parallelism)
        graph.resize(event.vertex_id, event.to_parallelism)
        self.restarts.forget(keys)
        self.rescales.complete(event.vertex_id, graph.forward_group(event.vertex_id), adaptive=self.scheduler is SchedulerType.ADAPTIVE)
        self._want()

    def _rescalable(self, event: JobRescaleRequested | RescaleScheduled | JobRescaled, parallelism: int) -> ExecutionVertex:
        """Return the vertex of an event if it can have this parallelism.

        Raises:
            IllegalTransition: there is none such, or it cannot; nothing was changed.

        """
        graph = self.execution_graph
        vertex = graph.vertices.get(event.vertex_id)
        if vertex is None or self.status not in RUNNING_JOB_STATUSES:
            raise IllegalTransition(f"{event} does not name a vertex of a running job")
        highest = self.rescales.highest_parallelism(graph, event.vertex_id)
        if not 1 <= parallelism <= highest:
            raise IllegalTransition(f"{event}: the vertex can have 1 to {highest} subtasks")
        if vertex.is_complete or graph.others_have_begun(event.vertex_id):
            raise IllegalTransition(f"{event}: the vertex has finished, or was skipped, or another that forward edges bind to it has begun")
        return vertex

    def _want(self) -> None:
        """Keep the queue of follow-ups in step with what the job needs next."""
        follow_ups, graph, job_id = self.follow_ups, self.execution_graph, self.job_id
        # A full restart begins together: nothing is scheduled before all of the job has ended and been reset.
        waits = self.status is JobStatus.RESTARTING and self.restarts.failover_strategy is FailoverStrategy.FULL
        if self.closing is None:
            running = self.status in RUNNING_JOB_STATUSES and not waits
            ends = self._has_run_out
            if self.status is JobStatus.SUSPENDED:
                ends = ends and (bool(self.job_master_id) or self.suspension.resumption_requested)
        else:
            running = self.is_running
            ends = self.is_closing and not graph.live_attempts and not self.restarts.due
        ready = bool(graph.ready)
        if ready and (self.rescales.waiting or self.rescales.pending):
            ready = len(graph.ready) > sum(map(graph.ready_subtasks_of, self.rescales.held_back(graph)))
        schedules, restarts, cancels = running and ready, self.restarts.begun, bool(self.to_cancel)
        aborts = self.checkpoints is not None and self.aborts_checkpoint
        # Mostly none: a replay comes here for every event of a task.
        if aborts and follow_ups.parked and (FollowUpType.ABORT_CHECKPOINT, job_id) in follow_ups.parked:
            ends = False
        if schedules or restarts or cancels or ends or aborts or follow_ups.entries or follow_ups.parked:
            follow_ups.want(FollowUpType.ABORT_CHECKPOINT, job_id, wanted=aborts)  # The first: no job ends with a checkpoint pending.
            follow_ups.want(FollowUpType.SCHEDULE_TASKS, job_id, wanted=schedules)
            follow_ups.want(FollowUpType.RESTART_TASKS, job_id, wanted=restarts)
            follow_ups.want(FollowUpType.CANCEL_TASKS, job_id, wanted=cancels)
            follow_ups.want(FollowUpType.COMPLETE_JOB, job_id, wanted=ends)

    def validate(self) -> None:
        """Check the job's parts against its status."""
        times = self.status_times_ms
        since = times.get(self.status) == max(times.values(), default=0) and JobStatus.INITIALIZING in times
        if not since:  # Not by `require`: a replay asks each job, and to write the times down would take longer than all else here.
            raise InvariantBroken(f"{self.job_id} is {self.status}, and entered its statuses at {times}")
        self.execution_graph.validate(self.job_id)
        self.restarts.validate(self.job_id, self.status, self.execution_graph, self.to_cancel, is_closing=self.closing is not None)
        self._validate_closing()
        self.rescales.validate(self.job_id, self.execution_graph, self.restarts.due)
        self.suspension.validate(self.job_id, self.status, self.job_master_id)
        self._validate_mapped()
        if self.checkpoints is not None:
            self.checkpoints.validate(self.job_id, self.execution_graph, is_running=self.status is JobStatus.RUNNING)
            aborts = self.follow_ups.stands(FollowUpType.ABORT_CHECKPOINT, self.job_id)
            require(aborts == self.aborts_checkpoint, f"{self.job_id}: a checkpoint that cannot complete is pending, and stays so")
        waits = bool(self.rescales.waiting or self.rescales.unsettled or self.reactive)
        require(self.scheduler is SchedulerType.ADAPTIVE or not waits, f"{self.job_id} is not adaptive, yet its vertices wait")
        waits = bool(self.rescales.waiting or self.rescales.pending)
        require(self.status in RUNNING_JOB_STATUSES or not waits, f"{self.job_id} is {self.status}, and something of it waits")
        ends = self.status in ENDING_JOB_STATUSES or self.is_closing or set(self.to_cancel) <= set(self.restarts.due)
        require(ends, f"{self.job_id} is {self.status}, yet attempts are to be cancelled")
        if self.status in TERMINAL_JOB_STATUSES:
            require(self.execution_graph.live_attempts == 0, f"{self.job_id} is {self.status} with live attempts")

    def _validate_closing(self) -> None:
        """Check that its closing vertices begin when all others have come to their end, and that it ends after them."""
        graph, closing = self.execution_graph, self.closing
        require(
            (closing.outcome.status if closing is not None else None) is graph.outcome, f"{self.job_id} is closed, and its graph is not"
        )
        if closing is not None:
            fits = _ENDS.get(self.status, self.status) is closing.outcome.status
            require(fits, f"{self.job_id} is {self.status}, and was to end as {closing.outcome.status}")
            require(not self.restarts.due or self.is_running, f"{self.job_id} is {self.status}, and closing vertices are to start again")
        elif graph.has_closing_vertices:
            require(self.status not in TERMINAL_JOB_STATUSES, f"{self.job_id} is {self.status}, and its closing vertices have not begun")

    def _validate_mapped(self) -> None:
        """Check that what runs of a mapped vertex, and is not to start again, has each a row of its own."""
        graph = self.execution_graph
        for vertex_id in graph.mapping_edges if self.status in RUNNING_JOB_STATUSES else ():
            subtasks = graph.vertices[vertex_id].subtasks
            begun = [
                s for s in subtasks if s.state not in (ExecutionState.CREATED, ExecutionState.FAILED) and s.key not in self.restarts.due
            ]
            mapped = not begun or not graph.is_unmapped(vertex_id)
            require(mapped, f"{self.job_id}/{vertex_id} has begun, and not with a subtask for each row of its input")
