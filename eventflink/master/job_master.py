"""The JobMaster of one job: its status, its ExecutionGraph, what it does when an attempt fails or the job is cancelled.

Attempts are deployed when their inputs are complete. What follows from a failure is decided in `failover.py`, and carried out here: the
subtasks that start again are remembered, the results of those that had finished are taken back, those that live are cancelled.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from eventflink.events.inputs import TaskStateReport
from eventflink.events.log_events import (
    InputsSkipped,
    JobCancellationRequested,
    JobMasterStarted,
    JobMasterStopped,
    JobResultStored,
    JobResumptionRequested,
    JobStatusChanged,
    JobSuspensionRequested,
    LogEvent,
    RegionRestarted,
    ResourcesAwaited,
    RestartScheduled,
    SlotRequestCancelled,
    SlotRequested,
    SlotShared,
    TaskCancellationRequested,
    TaskDeployed,
    TaskFailed,
    TaskFinished,
    TaskScheduled,
    TaskStateChanged,
)
from eventflink.master.canonical import DERIVED, require
from eventflink.master.deployment_size import find_fault_of_deployment
from eventflink.master.exception_history import MAX_NAMED_TASKS, ExceptionHistory, TaskFailure
from eventflink.master.execution_graph import ExecutionGraph, Subtask, SubtaskKey
from eventflink.master.failover import ENDING, GOING_ON, decide_failure, key_of, to_restart
from eventflink.master.follow_ups import FollowUps
from eventflink.master.report_bounds import bounded_cause, find_fault_of_outputs
from eventflink.master.rescaling import PendingRescale, WaitingVertex, is_rescaling, validate_rescales
from eventflink.master.restart_strategies import RestartHistory
from eventflink.master.shared_slots import SharePicker
from eventflink.master.suspension import Suspension, decide_stop, to_resume
from eventflink.model.attempts import AttemptId, FailureCause
from eventflink.model.job_graph import JobGraph, RestartStrategy
from eventflink.model.statuses import (
    JOB_TRANSITIONS,
    TERMINAL_EXECUTION_STATES,
    TERMINAL_JOB_STATUSES,
    ExecutionState,
    FailoverStrategy,
    FollowUpType,
    IllegalTransition,
    JobStatus,
    SchedulerType,
    check_transition,
)

TASK_BATCH = 256
"""How many tasks one decision schedules or cancels at most; the rest follows in the next (P10a)."""

MAX_REMEMBERED_ATTEMPTS = 16
"""Of a subtask: where each ran, so that its files can be asked for."""

_STARTING = (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING)
_ENDS = (ExecutionState.FINISHED, ExecutionState.CANCELED, ExecutionState.FAILED)
_PLAIN_STATES = (ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.CANCELED)


@dataclass(slots=True)
class JobMaster:
    """One job."""

    follow_ups: FollowUps = field(metadata=DERIVED)
    job_id: str
    actor: str
    graph_digest: str
    submitted_at_ms: int
    execution_graph: ExecutionGraph
    status: JobStatus = JobStatus.INITIALIZING
    status_since_ms: int = 0
    job_master_id: str = ""
    restart_strategy: RestartStrategy | None = None
    restarts: int = 0
    restarts_due: dict[SubtaskKey, int] = field(default_factory=dict)
    """Subtasks that wait to start again, with when at the earliest; the attempts of some may still be alive."""
    to_cancel: dict[SubtaskKey, None] = field(default_factory=dict)
    """Live attempts that are to end, and that nobody has told yet: the job ends, or they are to start again."""
    cause: FailureCause | None = None
    ended_at_ms: int = 0
    restart_history: RestartHistory = field(default_factory=RestartHistory)
    failover_strategy: FailoverStrategy = FailoverStrategy.REGION
    restart_begun: bool = False
    """Some of the subtasks of a full restart have started again, and the others follow at once."""
    exceptions: ExceptionHistory = field(default_factory=ExceptionHistory)
    suspension: Suspension = field(default_factory=Suspension)
    scheduler: SchedulerType = SchedulerType.DEFAULT
    reactive: bool = False
    """The adaptive scheduler uses all slots that there are."""
    waiting: dict[str, WaitingVertex] = field(default_factory=dict)
    """Of an adaptive job: vertices that could start, but for the slots; who has waited for longest stands first."""
    unsettled: dict[str, None] = field(default_factory=dict)
    """Of an adaptive job: vertices whose parallelism was chosen, and of which nothing has finished since: it may be chosen again."""
    rescales: dict[str, PendingRescale] = field(default_factory=dict)
    """Vertices that get another parallelism when their attempts have ended."""

    @classmethod
    def of(cls, follow_ups: FollowUps, job_id: str, actor: str, digest: str, graph: JobGraph, at_ms: int) -> "JobMaster":
        """Return the JobMaster of a job that was just submitted."""
        return cls(follow_ups, job_id, actor, digest, at_ms, ExecutionGraph.of(graph), status_since_ms=at_ms)

    # -- decide ---------------------------------------------------------------------------------------------------

    def decide_schedule(
        self, allocation_ids: Iterator[str], shares: SharePicker, now_ms: int, keys: Iterable[SubtaskKey] | None = None
    ) -> list[LogEvent]:
        """Schedule a batch of the subtasks that are ready, or of those named: they join others in slots of the job, or ask for slots.

        One that could never be deployed fails, alone.
        """
        events: list[LogEvent] = []
        weighed = ""
        ready: Iterable[SubtaskKey] = self.execution_graph.ready if keys is None else keys
        if self.rescales and keys is None:
            held_back = self.held_back()
            ready = (key for key in ready if key[0] not in held_back)
        for _, (vertex_id, index) in zip(range(TASK_BATCH), ready, strict=False):
            subtask = self.execution_graph.vertices[vertex_id].subtasks[index]
            if vertex_id != weighed:
                if fault := find_fault_of_deployment(self.execution_graph, vertex_id):
                    return events or decide_failure(self, subtask, fault, now_ms)
                weighed = vertex_id
            attempt = (self.job_id, vertex_id, index, subtask.attempt)
            events.append(TaskScheduled(*attempt))
            group = self.execution_graph.group_of(subtask)
            joined = shares.pick((self.job_id, group), vertex_id, index) if group else None
            if joined is None:
                events.append(SlotRequested(next(allocation_ids), *attempt))
            else:
                events += [SlotShared(joined, *attempt), TaskDeployed(*attempt, joined)]
        return events

    def decide_report(self, report: TaskStateReport, returned: LogEvent, now_ms: int) -> list[LogEvent]:
        """Answer what a TaskExecutor says of an attempt; `returned` says what becomes of the slot of a terminal one."""
        subtask = self.execution_graph.current(AttemptId(report.job_id, report.vertex_id, report.subtask_index, report.attempt))
        if subtask is None or not subtask.allocation_id or subtask.state in TERMINAL_EXECUTION_STATES:
            return [
                InputsSkipped(
                    1, f"{report.execution_state} of {report.vertex_id}[{report.subtask_index}]#{report.attempt}: not a live attempt"
                )
            ]
        said = report.execution_state
        if said in (ExecutionState.INITIALIZING, ExecutionState.RUNNING):
            return self._advance(subtask, said) or [InputsSkipped(1, f"{said}: the attempt is {subtask.state} already")]
        if said in _ENDS:
            return [*self._decide_end(subtask, report, now_ms), returned]
        return [InputsSkipped(1, f"{said} is nothing that a TaskExecutor reports")]

    def _decide_end(self, subtask: Subtask, report: TaskStateReport, now_ms: int) -> list[LogEvent]:
        """End an attempt as its TaskExecutor says, or as it was asked to."""
        if report.execution_state is ExecutionState.FAILED:
            cause = bounded_cause(report.cause) if report.cause else FailureCause("Unknown", "the TaskExecutor gave no cause")
            return decide_failure(self, subtask, cause, now_ms, report.lost_inputs)
        # What is to start again has no result: nobody may read what is about to be made anew.
        if subtask.state is ExecutionState.CANCELING or key_of(subtask) in self.restarts_due:
            return [self._changed(subtask, subtask.state, ExecutionState.CANCELED)]
        if report.execution_state is ExecutionState.CANCELED:
            cause = FailureCause("UnexpectedCancellation", "the TaskExecutor cancelled the attempt on its own")
            return decide_failure(self, subtask, cause, now_ms)
        if fault := find_fault_of_outputs(report.outputs):
            return decide_failure(self, subtask, FailureCause("OutputsUnusable", fault), now_ms)
        finished = TaskFinished(self.job_id, subtask.vertex_id, subtask.subtask_index, subtask.attempt, report.outputs)
        return [*self._advance(subtask, ExecutionState.RUNNING), finished]

    def _advance(self, subtask: Subtask, to_state: ExecutionState) -> list[LogEvent]:
        """Return the transitions from where a starting attempt stands to where it is said to be."""
        if subtask.state not in _STARTING:
            return []
        path = _STARTING[_STARTING.index(subtask.state) : _STARTING.index(to_state) + 1]
        return [self._changed(subtask, before, after) for before, after in pairwise(path)]

    def _changed(self, subtask: Subtask, before: ExecutionState, after: ExecutionState) -> TaskStateChanged:
        return TaskStateChanged(self.job_id, subtask.vertex_id, subtask.subtask_index, subtask.attempt, before, after)

    def decide_cancellation(self, actor: str) -> list[LogEvent]:
        """Begin to cancel the job; its tasks are told by follow-ups."""
        events: list[LogEvent] = [JobCancellationRequested(self.job_id, actor)]
        if self.status is not JobStatus.CANCELLING:
            events.append(self._status_changed(JobStatus.CANCELLING))
        return events

    def decide_task_cancellations(self) -> list[LogEvent]:
        """Tell a batch of live attempts to end, because their job ends or they start again with it."""
        events: list[LogEvent] = []
        for _, (vertex_id, index) in zip(range(TASK_BATCH), self.to_cancel, strict=False):
            subtask = self.execution_graph.vertices[vertex_id].subtasks[index]
            if subtask.state in _STARTING:
                events.append(
                    TaskCancellationRequested(self.job_id, vertex_id, index, subtask.attempt, self.cancellation_reason(vertex_id))
                )
                continue
            if subtask.state is ExecutionState.SCHEDULED:
                events.append(SlotRequestCancelled(subtask.allocation_id))
            events.append(self._changed(subtask, subtask.state, ExecutionState.CANCELED))
        return events

    def cancellation_reason(self, vertex_id: str) -> str:
        """Return why live attempts of a vertex are told to end."""
        if self.status in ENDING:
            return f"the job is {self.status}"
        if (pending := self.rescales.get(vertex_id)) is not None:
            return f"its vertex is rescaled to {pending.to_parallelism} subtasks"
        return f"it starts again with restart {self.restarts} of its job"

    def holds_back(self, vertex_id: str) -> bool:
        """Tell whether a vertex is not to be scheduled though it is ready: it waits for slots, or is to be rescaled first."""
        return vertex_id in self.waiting or is_rescaling(self, vertex_id)

    def held_back(self) -> set[str]:
        """Return all vertices of which `holds_back` is true."""
        return {*self.waiting, *(name for rescaled in self.rescales for name in self.execution_graph.forward_group(rescaled))}

    def decide_completion(self, now_ms: int) -> list[LogEvent]:
        """End the job: nothing of it is alive, or everything has finished. A suspended one only stops, and may go on."""
        if self.status is JobStatus.SUSPENDED:
            return decide_stop(self)
        ends = {JobStatus.FAILING: JobStatus.FAILED, JobStatus.CANCELLING: JobStatus.CANCELED}
        status = ends.get(self.status, JobStatus.FINISHED)
        cause = self.cause if status is JobStatus.FAILED else None
        stored = JobResultStored(job_id=self.job_id, status=status, cause=cause, net_run_time_ms=now_ms - self.submitted_at_ms)
        return [self._status_changed(status), stored]

    def _status_changed(self, to_status: JobStatus) -> JobStatusChanged:
        return JobStatusChanged(self.job_id, self.status, to_status)

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply_job_master_started(self, event: JobMasterStarted, at_ms: int) -> None:
        """Start: INITIALIZING → CREATED; or, of a suspended job, anew: SUSPENDED → RECONCILING, until what runs again has new attempts."""
        if self.status is JobStatus.SUSPENDED:
            self.suspension.check_start(self.job_id, self.job_master_id)
            self._set_status(JobStatus.RECONCILING, at_ms)
            self.suspension = Suspension(job_masters=self.suspension.job_masters + 1)
            self.restarts_due = {key_of(subtask): at_ms for subtask in to_resume(self.execution_graph)}
            self.restart_begun = bool(self.restarts_due)
            self.cause = None
            self.want()
        elif self.status is JobStatus.INITIALIZING:
            self._set_status(JobStatus.CREATED, at_ms)
        else:
            raise IllegalTransition(f"{self.job_id} is {self.status}: it has a JobMaster")
        self.job_master_id = event.job_master_id
        self.restart_strategy = event.restart_strategy
        self.failover_strategy = event.failover_strategy
        self.exceptions.size = event.exception_history_size
        self.scheduler = event.scheduler
        self.reactive = event.reactive

    def apply_job_status_changed(self, event: JobStatusChanged, at_ms: int) -> None:
        """Move along the table of JobStatus."""
        if event.from_status is not self.status:
            raise IllegalTransition(f"{self.job_id} is {self.status}, not {event.from_status}")
        if event.to_status is JobStatus.RECONCILING:
            raise IllegalTransition(f"{self.job_id} cannot be {event.to_status} before it has a new JobMaster")
        self._set_status(event.to_status, at_ms)
        if event.to_status is JobStatus.CANCELLING:
            self.suspension.resumption_requested = False
        if event.to_status is JobStatus.FAILING:
            self.exceptions.note_job_failure(event.reason)
        if event.to_status in ENDING:
            self.restarts_due.clear()
            self.restart_begun = False
            for held in (self.waiting, self.unsettled, self.rescales):
                held.clear()
            for subtask in self.execution_graph.subtasks():
                if subtask.state not in TERMINAL_EXECUTION_STATES and subtask.state is not ExecutionState.CANCELING:
                    self.to_cancel[subtask.vertex_id, subtask.subtask_index] = None
        self.want()

    def _set_status(self, status: JobStatus, at_ms: int) -> None:
        check_transition(JOB_TRANSITIONS, self.job_id, self.status, status)
        self.status = status
        self.status_since_ms = at_ms
        if status in TERMINAL_JOB_STATUSES:
            self.ended_at_ms = at_ms

    def apply_job_suspension_requested(self, event: JobSuspensionRequested, _at: int) -> None:
        """Remember why; the status changes by its own event. A job that was to go on again is not."""
        self.suspension.note_request(self.job_id, self.status, event.reason)
        self.want()

    def apply_job_resumption_requested(self, event: JobResumptionRequested, _at: int) -> None:
        """Remember that the job is to go on once nothing of it is alive."""
        self.suspension.note_resumption(event.job_id, self.status)
        self.want()

    def apply_job_master_stopped(self, event: JobMasterStopped, _at: int) -> None:
        """Be without a JobMaster: the token that it had is nobody's any more."""
        if self.status is not JobStatus.SUSPENDED or self.execution_graph.live_attempts or event.job_master_id != self.job_master_id:
            raise IllegalTransition(f"{event} does not fit {self.status} under '{self.job_master_id}'")
        if not self.job_master_id:
            raise IllegalTransition(f"{self.job_id} has no JobMaster that could stop")
        self.job_master_id = ""
        self.want()

    def apply_task_scheduled(self, event: TaskScheduled, at_ms: int) -> None:
        """Move CREATED → SCHEDULED; nothing of the vertex waits any more."""
        graph = self.execution_graph
        subtask = graph.require_current(event.vertex_id, event.subtask_index, event.attempt)
        if is_rescaling(self, event.vertex_id):
            raise IllegalTransition(f"{event}: its vertex is to be rescaled first")
        graph.transition(subtask, ExecutionState.SCHEDULED)
        if self.scheduler is SchedulerType.ADAPTIVE:
            self.waiting.pop(event.vertex_id, None)
            self.unsettled[event.vertex_id] = None
            graph.vertices[event.vertex_id].scheduled_at_ms = at_ms
        self.want()

    def apply_resources_awaited(self, event: ResourcesAwaited, at_ms: int) -> None:
        """Let a vertex wait for slots."""
        vertex = self.execution_graph.vertices.get(event.vertex_id)
        is_ready = vertex is not None and not vertex.unfinished_inputs and any(s.state is ExecutionState.CREATED for s in vertex.subtasks)
        if not is_ready or self.scheduler is not SchedulerType.ADAPTIVE or self.status not in GOING_ON or self.holds_back(event.vertex_id):
            raise IllegalTransition(f"{event} names no vertex of an adaptive job that could be scheduled")
        self.waiting[event.vertex_id] = WaitingVertex(at_ms, event.wanted)
        self.want()

    def with_request(self, event: SlotShared) -> Subtask:
        """Return the subtask whose attempt is to join others in a slot.

        Raises:
            IllegalTransition: it is not SCHEDULED, or is of no slot sharing group.

        """
        subtask = self.execution_graph.require_current(event.vertex_id, event.subtask_index, event.attempt)
        if subtask.state is not ExecutionState.SCHEDULED or not self.execution_graph.group_of(subtask):
            raise IllegalTransition(f"{event} does not fit: the attempt is {subtask.state}, or shares no slot")
        return subtask

    def without_request(self, event: SlotRequested) -> Subtask:
        """Return the subtask whose attempt is to wait for a slot from now on.

        Raises:
            IllegalTransition: it is not SCHEDULED, or waits for a slot already.

        """
        subtask = self.execution_graph.require_current(event.vertex_id, event.subtask_index, event.attempt)
        if subtask.state is not ExecutionState.SCHEDULED or subtask.allocation_id:
            raise IllegalTransition(f"{event} does not fit {subtask.state} with '{subtask.allocation_id}'")
        return subtask

    def apply_task_deployed(self, event: TaskDeployed, _at: int, place: tuple[str, str]) -> None:
        """Move SCHEDULED → DEPLOYING; `place` is (TaskManager, instance)."""
        graph = self.execution_graph
        subtask = graph.require_current(event.vertex_id, event.subtask_index, event.attempt)
        graph.transition(subtask, ExecutionState.DEPLOYING)
        subtask.places[event.attempt] = place
        while len(subtask.places) > MAX_REMEMBERED_ATTEMPTS:
            del subtask.places[next(iter(subtask.places))]

    def apply_task_state_changed(self, event: TaskStateChanged, _at: int) -> None:
        """Move along the table of ExecutionState, where no event of its own says it."""
        graph = self.execution_graph
        subtask = graph.require_current(event.vertex_id, event.subtask_index, event.attempt)
        if subtask.state is not event.from_state or event.to_state not in _PLAIN_STATES:
            raise IllegalTransition(f"{event} does not fit {subtask.state}, or is another event's to say")
        graph.transition(subtask, event.to_state)
        if event.to_state is ExecutionState.RUNNING:
            subtask.refusals = 0
        if event.to_state in TERMINAL_EXECUTION_STATES:
            self.to_cancel.pop((event.vertex_id, event.subtask_index), None)
        self.want()

    def apply_task_cancellation_requested(self, event: TaskCancellationRequested, _at: int) -> None:
        """Move to CANCELING, until the TaskExecutor says that the attempt is terminal."""
        graph = self.execution_graph
        graph.transition(graph.require_current(event.vertex_id, event.subtask_index, event.attempt), ExecutionState.CANCELING)
        self.to_cancel.pop((event.vertex_id, event.subtask_index), None)
        self.want()

    def apply_task_finished(self, event: TaskFinished, _at: int) -> None:
        """Move to FINISHED: the attempt's outputs are now the subtask's result."""
        graph = self.execution_graph
        subtask = graph.require_current(event.vertex_id, event.subtask_index, event.attempt)
        if key_of(subtask) in self.restarts_due:
            raise IllegalTransition(f"{event}: the subtask is to start again, and no result of this attempt counts")
        graph.transition(subtask, ExecutionState.FINISHED)
        graph.complete(subtask, event.outputs)
        self.unsettled.pop(event.vertex_id, None)
        self.to_cancel.pop((event.vertex_id, event.subtask_index), None)
        self.want()

    def apply_task_failed(self, event: TaskFailed, at_ms: int) -> None:
        """Move to FAILED; the first failure without a restart is the job's cause."""
        graph, key = self.execution_graph, (event.vertex_id, event.subtask_index)
        subtask = graph.require_current(*key, event.attempt)
        graph.transition(subtask, ExecutionState.FAILED)
        subtask.last_failure = event.cause
        self.to_cancel.pop(key, None)
        is_concurrent = self.status in ENDING or key in self.restarts_due
        if not is_concurrent:
            self.cause = event.cause
        place = subtask.places.get(event.attempt, ("", ""))
        self.exceptions.note_failure(TaskFailure(at_ms, *key, event.attempt, *place, event.cause), is_concurrent=is_concurrent)
        self.want()

    def apply_restart_scheduled(self, event: RestartScheduled, at_ms: int) -> None:
        """Wait for the delay: the failure is not the job's. What is to start again has no result any more, and ends if it lives."""
        graph, key = self.execution_graph, (event.vertex_id, event.subtask_index)
        failed = graph.subtask(*key)
        if failed is None or failed.state is not ExecutionState.FAILED or self.status not in GOING_ON or key in self.restarts_due:
            raise IllegalTransition(f"{event} names no failed subtask of a running job")
        subtasks = to_restart(graph, failed, event.failover_strategy, event.lost_outputs)
        self.restart_history.note(self.restart_strategy, event.backoff_ms, at_ms)
        self.restarts = event.restarts
        self.cause = None
        for subtask in subtasks:
            self.let_restart(subtask, event.restart_at_ms)
        for vertex_id in [v for v in self.waiting if graph.vertices[v].unfinished_inputs]:
            del self.waiting[vertex_id]  # What it reads is made anew.
        named = [key_of(subtask) for subtask in subtasks[:MAX_NAMED_TASKS]]
        self.exceptions.note_restart(event.restarts, event.restart_at_ms - at_ms, event.failover_strategy, named, len(subtasks))
        self.want()

    def let_restart(self, subtask: Subtask, at_ms: int) -> None:
        """Have a subtask start again, when its attempt has ended and not before `at_ms`; its result does not count any more."""
        key = key_of(subtask)
        self.restarts_due[key] = max(at_ms, self.restarts_due.get(key, at_ms))
        if subtask.state is ExecutionState.FINISHED:
            if not subtask.revoked:
                self.execution_graph.revoke(subtask)
        elif subtask.state not in TERMINAL_EXECUTION_STATES and subtask.state is not ExecutionState.CANCELING:
            self.to_cancel[key] = None

    def apply_region_restarted(self, event: RegionRestarted, _at: int) -> None:
        """Make the next attempt: CREATED."""
        graph, key = self.execution_graph, (event.vertex_id, event.subtask_index)
        subtask = graph.subtask(*key)
        if subtask is None or self.status not in (*GOING_ON, JobStatus.RECONCILING) or event.vertex_id in self.rescales:
            raise IllegalTransition(f"{event} names no subtask of a running job, or one whose vertex is rescaled")
        if subtask.state is not ExecutionState.FAILED and key not in self.restarts_due:
            raise IllegalTransition(f"{event}: the subtask is {subtask.state}, and nothing restarts it")
        graph.restart(subtask, event.attempt)
        self.cause = None
        if self.restarts_due.pop(key, None) is None:
            subtask.refusals += 1
            self.exceptions.note_new_slot()
        together = self.failover_strategy is FailoverStrategy.FULL or self.status is JobStatus.RECONCILING
        self.restart_begun = together and bool(self.restarts_due)
        self.want()

    def want(self) -> None:
        """Keep the queue of consequences in step with what the job needs next."""
        follow_ups, graph, job_id = self.follow_ups, self.execution_graph, self.job_id
        # A full restart begins together: nothing is scheduled before all of the job has ended and been reset.
        waits = self.status is JobStatus.RESTARTING and self.failover_strategy is FailoverStrategy.FULL
        running = self.status in GOING_ON and not waits
        ready = bool(graph.ready)
        if ready and (self.waiting or self.rescales):
            held_back = self.held_back()
            ready = any(vertex_id not in held_back for vertex_id, _ in graph.ready)
        follow_ups.want(FollowUpType.SCHEDULE_TASKS, job_id, wanted=running and ready)
        follow_ups.want(FollowUpType.RESTART_TASKS, job_id, wanted=self.restart_begun)
        follow_ups.want(FollowUpType.CANCEL_TASKS, job_id, wanted=bool(self.to_cancel))
        ended = (self.status in ENDING and not graph.live_attempts) or (self.status is JobStatus.RUNNING and not graph.unfinished_vertices)
        if self.status is JobStatus.SUSPENDED:
            ended = ended and (bool(self.job_master_id) or self.suspension.resumption_requested)
        follow_ups.want(FollowUpType.COMPLETE_JOB, job_id, wanted=ended)

    def validate(self) -> None:
        """Check the job's parts against its status."""
        self.execution_graph.validate(self.job_id)
        validate_rescales(self)
        for vertex_id, index in self.restarts_due:
            subtask = self.execution_graph.vertices[vertex_id].subtasks[index]
            place = f"{self.job_id}/{vertex_id}[{index}] waits to restart but"
            require(subtask.state is not ExecutionState.CREATED, f"{place} has not begun")
            require(subtask.state is not ExecutionState.FINISHED or subtask.revoked, f"{place} its result counts")
            lives = subtask.state not in TERMINAL_EXECUTION_STATES and subtask.state is not ExecutionState.CANCELING
            require(not lives or (vertex_id, index) in self.to_cancel, f"{place} is {subtask.state}, and nobody ends it")
        require(
            (self.status in (JobStatus.RESTARTING, JobStatus.RECONCILING)) == bool(self.restarts_due),
            f"{self.job_id} is {self.status}; waiting: {self.restarts_due}",
        )
        ends = self.status in ENDING or set(self.to_cancel) <= set(self.restarts_due)
        require(ends, f"{self.job_id} is {self.status}, yet attempts are to be cancelled")
        self.suspension.validate(self.job_id, self.status, self.job_master_id)
        require(not self.restart_begun or bool(self.restarts_due), f"{self.job_id} restarts nothing")
        if self.status in TERMINAL_JOB_STATUSES:
            require(self.execution_graph.live_attempts == 0, f"{self.job_id} is {self.status} with live attempts")
            require(self.ended_at_ms > 0, f"{self.job_id} is {self.status} but has no end")
