"""The JobMaster of one job: its status, its ExecutionGraph, what it does when an attempt fails or the job is cancelled.

Attempts are deployed when their inputs are complete; a failed subtask restarts alone, for every edge is blocking and what
finished subtasks published stays (the failover region of such a graph is a single subtask). A new attempt is made only after
the old one is terminal or its instance is lost (P15).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from eventflink.events.inputs import TaskStateReport
from eventflink.events.log_events import (
    InputsSkipped,
    JobCancellationRequested,
    JobMasterStarted,
    JobResultStored,
    JobStatusChanged,
    LogEvent,
    RegionRestarted,
    RestartScheduled,
    SlotFreed,
    SlotRequestCancelled,
    SlotRequested,
    TaskCancellationRequested,
    TaskDeployed,
    TaskFailed,
    TaskFinished,
    TaskScheduled,
    TaskStateChanged,
)
from eventflink.master.canonical import DERIVED, require
from eventflink.master.execution_graph import ExecutionGraph, Subtask, SubtaskKey
from eventflink.master.failover import RestartHistory, next_restart
from eventflink.master.follow_ups import FollowUps
from eventflink.model.attempts import AttemptId, FailureCause
from eventflink.model.job_graph import JobGraph, RestartStrategy
from eventflink.model.statuses import (
    JOB_TRANSITIONS,
    TERMINAL_EXECUTION_STATES,
    TERMINAL_JOB_STATUSES,
    ExecutionState,
    FollowUpType,
    IllegalTransition,
    JobStatus,
    RestartStrategyType,
    check_transition,
)

TASK_BATCH = 256
"""How many tasks one decision schedules or cancels at most; the rest follows in the next (P10a)."""

MAX_SLOT_REFUSALS = 10
"""After this many refused slots in a row an attempt fails like any other."""

MAX_REMEMBERED_ATTEMPTS = 16
"""Of a subtask: where each ran, so that its files can be asked for."""

_STARTING = (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING)
_PLAIN_STATES = (ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.CANCELED)
_ENDING = (JobStatus.FAILING, JobStatus.CANCELLING)
_GOING_ON = (JobStatus.RUNNING, JobStatus.RESTARTING)


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
    restart_history: RestartHistory = field(default_factory=RestartHistory)
    restarts_due: dict[SubtaskKey, int] = field(default_factory=dict)
    """Failed subtasks that wait to start again, with when."""
    to_cancel: dict[SubtaskKey, None] = field(default_factory=dict)
    """Live attempts of an ending job that nobody has told yet."""
    cause: FailureCause | None = None
    ended_at_ms: int = 0

    @classmethod
    def of(cls, follow_ups: FollowUps, job_id: str, actor: str, digest: str, graph: JobGraph, at_ms: int) -> "JobMaster":
        """Return the JobMaster of a job that was just submitted."""
        return cls(follow_ups, job_id, actor, digest, at_ms, ExecutionGraph.of(graph), status_since_ms=at_ms)

    # -- decide ---------------------------------------------------------------------------------------------------

    def decide_schedule(self, allocation_ids: Iterable[str]) -> list[LogEvent]:
        """Schedule a batch of the subtasks that are ready, and ask for their slots."""
        events: list[LogEvent] = []
        for _, (vertex_id, index), allocation_id in zip(range(TASK_BATCH), self.execution_graph.ready, allocation_ids, strict=False):
            attempt = self.execution_graph.vertices[vertex_id].subtasks[index].attempt
            events.append(TaskScheduled(self.job_id, vertex_id, index, attempt))
            events.append(SlotRequested(allocation_id, self.job_id, vertex_id, index, attempt))
        return events

    def decide_report(self, report: TaskStateReport, now_ms: int) -> list[LogEvent]:
        """Answer what a TaskExecutor says of an attempt; the slot of a terminal one is freed."""
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
        if said is ExecutionState.FINISHED and subtask.state is not ExecutionState.CANCELING:
            finished = TaskFinished(self.job_id, subtask.vertex_id, subtask.subtask_index, subtask.attempt, report.outputs)
            return [*self._advance(subtask, ExecutionState.RUNNING), finished, SlotFreed(subtask.allocation_id)]
        if said is ExecutionState.FAILED:
            cause = report.cause or FailureCause("Unknown", "the TaskExecutor gave no cause")
            return [*self.decide_failure(subtask, cause, now_ms), SlotFreed(subtask.allocation_id)]
        if said in (ExecutionState.FINISHED, ExecutionState.CANCELED):
            return [*self._decide_canceled(subtask, now_ms), SlotFreed(subtask.allocation_id)]
        return [InputsSkipped(1, f"{said} is nothing that a TaskExecutor reports")]

    def _advance(self, subtask: Subtask, to_state: ExecutionState) -> list[LogEvent]:
        """Return the transitions from where a starting attempt stands to where it is said to be."""
        if subtask.state not in _STARTING:
            return []
        path = _STARTING[_STARTING.index(subtask.state) : _STARTING.index(to_state) + 1]
        return [self._changed(subtask, before, after) for before, after in pairwise(path)]

    def _changed(self, subtask: Subtask, before: ExecutionState, after: ExecutionState) -> TaskStateChanged:
        return TaskStateChanged(self.job_id, subtask.vertex_id, subtask.subtask_index, subtask.attempt, before, after)

    def _decide_canceled(self, subtask: Subtask, now_ms: int) -> list[LogEvent]:
        """End a cancelled attempt; one that nobody asked to end has failed."""
        if subtask.state is ExecutionState.CANCELING:
            return [self._changed(subtask, ExecutionState.CANCELING, ExecutionState.CANCELED)]
        return self.decide_failure(
            subtask, FailureCause("UnexpectedCancellation", "the TaskExecutor cancelled the attempt on its own"), now_ms
        )

    def decide_failure(self, subtask: Subtask, cause: FailureCause, now_ms: int) -> list[LogEvent]:
        """Fail an attempt: it restarts later, or the job fails, as the restart strategy has it."""
        if subtask.state is ExecutionState.CANCELING:
            return [self._changed(subtask, ExecutionState.CANCELING, ExecutionState.CANCELED)]
        failed = TaskFailed(self.job_id, subtask.vertex_id, subtask.subtask_index, subtask.attempt, cause)
        if self.status in _ENDING:
            return [failed]
        is_restarting, history = self.status is JobStatus.RESTARTING, self.restart_history
        strategy = self.restart_strategy
        restart = strategy and next_restart(strategy, history, self.job_id, now_ms, is_restarting=is_restarting)
        if not restart:
            return [failed, self._status_changed(JobStatus.FAILING)]
        due_ms, restarts = now_ms + restart.delay_ms, history.restarts + 1
        due = RestartScheduled(self.job_id, subtask.vertex_id, subtask.subtask_index, due_ms, restarts, restart.backoff_ms)
        return [failed, due, *([] if is_restarting else [self._status_changed(JobStatus.RESTARTING)])]

    def decide_refusal(self, subtask: Subtask, reason: str, now_ms: int) -> list[LogEvent]:
        """Fail an attempt whose slot was refused; it gets another slot at once, a bounded number of times."""
        cause = FailureCause("SlotOfferRejected", f"the TaskExecutor refused the slot: {reason}")
        if subtask.state is not ExecutionState.DEPLOYING or subtask.refusals >= MAX_SLOT_REFUSALS or self.status in _ENDING:
            return self.decide_failure(subtask, cause, now_ms)
        return [
            TaskFailed(self.job_id, subtask.vertex_id, subtask.subtask_index, subtask.attempt, cause),
            RegionRestarted(self.job_id, subtask.vertex_id, subtask.subtask_index, subtask.attempt + 1),
        ]

    def decide_restarts(self, now_ms: int) -> list[LogEvent]:
        """Start the subtasks again whose delay is over."""
        due = [key for key, at_ms in self.restarts_due.items() if at_ms <= now_ms][:TASK_BATCH]
        events: list[LogEvent] = []
        for vertex_id, index in due:
            attempt = self.execution_graph.vertices[vertex_id].subtasks[index].attempt
            events.append(RegionRestarted(self.job_id, vertex_id, index, attempt + 1))
        if events and len(due) == len(self.restarts_due):
            events.append(self._status_changed(JobStatus.RUNNING))
        return events

    def decide_cancellation(self, actor: str) -> list[LogEvent]:
        """Begin to cancel the job; its tasks are told by follow-ups."""
        events: list[LogEvent] = [JobCancellationRequested(self.job_id, actor)]
        if self.status is not JobStatus.CANCELLING:
            events.append(self._status_changed(JobStatus.CANCELLING))
        return events

    def decide_task_cancellations(self) -> list[LogEvent]:
        """Tell a batch of live attempts of an ending job to end."""
        events: list[LogEvent] = []
        for _, (vertex_id, index) in zip(range(TASK_BATCH), self.to_cancel, strict=False):
            subtask = self.execution_graph.vertices[vertex_id].subtasks[index]
            if subtask.state in _STARTING:
                reason = f"the job is {self.status}"
                events.append(TaskCancellationRequested(self.job_id, vertex_id, index, subtask.attempt, reason))
                continue
            if subtask.state is ExecutionState.SCHEDULED:
                events.append(SlotRequestCancelled(subtask.allocation_id))
            events.append(self._changed(subtask, subtask.state, ExecutionState.CANCELED))
        return events

    def decide_completion(self, now_ms: int) -> list[LogEvent]:
        """End the job: nothing of it is alive, or everything has finished."""
        ends = {JobStatus.FAILING: JobStatus.FAILED, JobStatus.CANCELLING: JobStatus.CANCELED}
        status = ends.get(self.status, JobStatus.FINISHED)
        cause = self.cause if status is JobStatus.FAILED else None
        stored = JobResultStored(job_id=self.job_id, status=status, cause=cause, net_run_time_ms=now_ms - self.submitted_at_ms)
        return [self._status_changed(status), stored]

    def _status_changed(self, to_status: JobStatus) -> JobStatusChanged:
        return JobStatusChanged(self.job_id, self.status, to_status)

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply_job_master_started(self, event: JobMasterStarted, at_ms: int) -> None:
        """Start: INITIALIZING → CREATED."""
        self._set_status(JobStatus.CREATED, at_ms)
        self.job_master_id = event.job_master_id
        self.restart_strategy = event.restart_strategy

    def apply_job_status_changed(self, event: JobStatusChanged, at_ms: int) -> None:
        """Move along the table of JobStatus."""
        if event.from_status is not self.status:
            raise IllegalTransition(f"{self.job_id} is {self.status}, not {event.from_status}")
        self._set_status(event.to_status, at_ms)
        if event.to_status in _ENDING:
            self.restarts_due.clear()
            for subtask in self.execution_graph.subtasks():
                if subtask.state not in TERMINAL_EXECUTION_STATES and subtask.state is not ExecutionState.CANCELING:
                    self.to_cancel[subtask.vertex_id, subtask.subtask_index] = None
        self._want()

    def _set_status(self, status: JobStatus, at_ms: int) -> None:
        check_transition(JOB_TRANSITIONS, self.job_id, self.status, status)
        self.status = status
        self.status_since_ms = at_ms
        if status in TERMINAL_JOB_STATUSES:
            self.ended_at_ms = at_ms

    def apply_task_scheduled(self, event: TaskScheduled, _at: int) -> None:
        """Move CREATED → SCHEDULED."""
        graph = self.execution_graph
        graph.transition(graph.require_current(event.vertex_id, event.subtask_index, event.attempt), ExecutionState.SCHEDULED)
        self._want()

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
        self._want()

    def apply_task_cancellation_requested(self, event: TaskCancellationRequested, _at: int) -> None:
        """Move to CANCELING, until the TaskExecutor says that the attempt is terminal."""
        graph = self.execution_graph
        graph.transition(graph.require_current(event.vertex_id, event.subtask_index, event.attempt), ExecutionState.CANCELING)
        self.to_cancel.pop((event.vertex_id, event.subtask_index), None)
        self._want()

    def apply_task_finished(self, event: TaskFinished, _at: int) -> None:
        """Move to FINISHED: the attempt's outputs are now the subtask's result."""
        graph = self.execution_graph
        subtask = graph.require_current(event.vertex_id, event.subtask_index, event.attempt)
        graph.transition(subtask, ExecutionState.FINISHED)
        graph.complete(subtask, event.outputs)
        self.to_cancel.pop((event.vertex_id, event.subtask_index), None)
        self._want()

    def apply_task_failed(self, event: TaskFailed, _at: int) -> None:
        """Move to FAILED; the first failure without a restart is the job's cause."""
        graph = self.execution_graph
        subtask = graph.require_current(event.vertex_id, event.subtask_index, event.attempt)
        graph.transition(subtask, ExecutionState.FAILED)
        subtask.last_failure = event.cause
        self.to_cancel.pop((event.vertex_id, event.subtask_index), None)
        if self.status not in _ENDING:
            self.cause = event.cause
        self._want()

    @property
    def restarts(self) -> int:
        """How often a region of the job was started again."""
        return self.restart_history.restarts

    def apply_restart_scheduled(self, event: RestartScheduled, at_ms: int) -> None:
        """Wait for the delay: the failure is not the job's."""
        subtask = self.execution_graph.subtask(event.vertex_id, event.subtask_index)
        if subtask is None or subtask.state is not ExecutionState.FAILED or self.status not in _GOING_ON:
            raise IllegalTransition(f"{event} names no failed subtask of a running job")
        strategy = self.restart_strategy
        by_rate = strategy is not None and strategy.strategy_type is RestartStrategyType.FAILURE_RATE
        self.restart_history.note(event.restarts, event.backoff_ms, at_ms, strategy.attempts if by_rate and strategy is not None else 0)
        self.cause = None
        self.restarts_due[event.vertex_id, event.subtask_index] = event.restart_at_ms

    def apply_region_restarted(self, event: RegionRestarted, _at: int) -> None:
        """Make the next attempt: CREATED."""
        graph = self.execution_graph
        subtask = graph.subtask(event.vertex_id, event.subtask_index)
        if subtask is None or self.status not in _GOING_ON:
            raise IllegalTransition(f"{event} names no subtask of a running job")
        graph.restart(subtask, event.attempt)
        self.cause = None
        if self.restarts_due.pop((event.vertex_id, event.subtask_index), None) is None:
            subtask.refusals += 1
        self._want()

    def _want(self) -> None:
        """Keep the queue of consequences in step with what the job needs next."""
        follow_ups, graph, job_id = self.follow_ups, self.execution_graph, self.job_id
        running = self.status in _GOING_ON
        follow_ups.want(FollowUpType.SCHEDULE_TASKS, job_id, wanted=running and bool(graph.ready))
        follow_ups.want(FollowUpType.CANCEL_TASKS, job_id, wanted=bool(self.to_cancel))
        ended = (self.status in _ENDING and not graph.live_attempts) or (self.status is JobStatus.RUNNING and not graph.unfinished_vertices)
        follow_ups.want(FollowUpType.COMPLETE_JOB, job_id, wanted=ended)

    def validate(self) -> None:
        """Check the job's parts against its status."""
        self.execution_graph.validate(self.job_id)
        for vertex_id, index in self.restarts_due:
            state = self.execution_graph.vertices[vertex_id].subtasks[index].state
            require(state is ExecutionState.FAILED, f"{self.job_id}/{vertex_id}[{index}] waits to restart but is {state}")
        require(
            (self.status is JobStatus.RESTARTING) == bool(self.restarts_due),
            f"{self.job_id} is {self.status}; waiting: {self.restarts_due}",
        )
        require(not self.to_cancel or self.status in _ENDING, f"{self.job_id} is {self.status}, yet attempts are to be cancelled")
        if self.status in TERMINAL_JOB_STATUSES:
            require(self.execution_graph.live_attempts == 0, f"{self.job_id} is {self.status} with live attempts")
            require(self.ended_at_ms > 0, f"{self.job_id} is {self.status} but has no end")
