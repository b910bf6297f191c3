"""What the accepted decisions said, kept apart from the state that they made: the ground on which a run is judged.

Nothing of the master's own bookkeeping is used here, so a state that forgot something, or that did something twice, is found out.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from eventflink.events import log_events as e
from eventflink.events.decision import Decision, InputCause
from eventflink.leadership.acceptance import is_grant
from eventflink.master.blocklist import ITSELF
from eventflink.master.requests import ALL_REPLY_PARTITIONS
from eventflink.model.attempts import AttemptId, SubtaskId
from eventflink.model.resources import ResourceProfile, fits, sum_of
from eventflink.model.statuses import EXECUTION_TRANSITIONS, JOB_TRANSITIONS, ExecutionState, FollowUpType, JobStatus, SavepointMode
from eventflink.testing.simulation.streams import StreamStorage
from eventflink.testing.simulation.violations import Invariant, ViolationFound
from tests.simulation.closing_vertices import ClosingLedger
from tests.simulation.conditions import ConditionLedger
from tests.simulation.mapped_vertices import MappedLedger
from tests.simulation.queues import QueueLedger
from tests.simulation.reruns import RerunLedger
from tests.simulation.retries import RetryLedger
from tests.simulation.schedules import ScheduleLedger
from tests.simulation.time_limits import TimeLimitLedger

_TERMINAL_STATES: Final = (ExecutionState.FINISHED, ExecutionState.CANCELED, ExecutionState.FAILED)


@dataclass(frozen=True, slots=True)
class AcceptedAnswer:
    """What a request was answered."""

    is_accepted: bool
    subject: str
    code: str


@dataclass(frozen=True, slots=True)
class AcceptedDecision:
    """Where an accepted decision stands, and which requests it answers."""

    epoch: int
    sequence: int
    leader_id: str
    request_ids: tuple[str, ...]


@dataclass(slots=True)
class CheckpointLedger:
    """The checkpoints of one job."""

    newest: int = 0
    pending: int = 0
    """0: none."""
    awaited: int = 0
    committed: dict[SubtaskId, int] = field(default_factory=dict)
    """The last batches when the pending one was triggered."""
    answers: dict[SubtaskId, int] = field(default_factory=dict)
    """The batch of each subtask that has answered the pending one."""
    completed: dict[SubtaskId, int] = field(default_factory=dict)
    """The highest batch of each subtask in a completed one."""
    savepoint: e.SavepointRequest | None = None
    """That the newest one is a savepoint."""
    is_parked: bool = False
    """Its end could not be decided."""


@dataclass(slots=True)
class Ledger:
    """Facts, by what they are about."""

    streams: StreamStorage
    """What is true of streams, with which what the log says of them is compared."""
    stopped: dict[str, e.SavepointRequest]
    """The jobs that have stopped with a savepoint that is complete."""
    accepted_decisions: dict[int, AcceptedDecision] = field(default_factory=dict)
    """By offset."""
    next_inputs: dict[str, int] = field(default_factory=dict)
    answers: dict[str, AcceptedAnswer] = field(default_factory=dict)
    submitted: dict[str, int] = field(default_factory=dict)
    """Offset of each job's submission."""
    job_statuses: dict[str, JobStatus] = field(default_factory=dict)
    attempt_states: dict[AttemptId, ExecutionState] = field(default_factory=dict)
    allocated: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    """(TaskManager, instance, slot) of each allocation that there ever was."""
    holders: dict[tuple[str, str, int], str] = field(default_factory=dict)
    """Which allocation has a slot now."""
    slot_profiles: dict[tuple[str, str], ResourceProfile | None] = field(default_factory=dict)
    """What the slots of an instance have."""
    slot_counts: dict[tuple[str, str], int] = field(default_factory=dict)
    asked: dict[tuple[str, str], ResourceProfile | None] = field(default_factory=dict)
    """What a slot has to have that is asked for in the name of a vertex of a job."""
    groups: dict[tuple[str, str], str | None] = field(default_factory=dict)
    """The slot sharing group of a vertex of a job."""
    requested: dict[str, AttemptId] = field(default_factory=dict)
    """For which attempt an allocation was asked for."""
    members: dict[str, dict[str, AttemptId]] = field(default_factory=dict)
    """Who has the slot of an allocation now, by vertex."""
    rescaled: set[str] = field(default_factory=set)
    """Jobs of which the parallelism of a vertex was changed."""
    blocked: dict[str, str] = field(default_factory=dict)
    """By whom."""
    ready: set[tuple[str, str]] = field(default_factory=set)
    """Instances whose newest report says that they are ready for tasks."""
    slots_of_attempts: dict[AttemptId, str] = field(default_factory=dict)
    cancelled: set[AttemptId] = field(default_factory=set)
    checkpoints: dict[str, CheckpointLedger] = field(default_factory=dict)
    """Of each job that had one."""
    deployed_stopped: set[AttemptId] = field(default_factory=set)
    """The attempts that were deployed after that."""
    registered: set[tuple[str, str]] = field(default_factory=set)
    forgotten: set[tuple[str, str]] = field(default_factory=set)
    results: dict[SubtaskId, int] = field(default_factory=dict)
    """Which attempt of a subtask finished."""
    outputs: set[str] = field(default_factory=set)
    uploads: set[str] = field(default_factory=set)
    ended_jobs: set[str] = field(default_factory=set)
    workers: set[str] = field(default_factory=set)
    """Every worker that the resource driver was asked for."""
    workers_gone: set[str] = field(default_factory=set)
    shutdowns: int = 0
    """How often somebody wanted the cluster to end."""
    stops: int = 0
    """How often its TaskManagers were to stop for that."""
    decided_at_ms: int = 0
    schedules: ScheduleLedger = field(default_factory=ScheduleLedger)
    time_limits: TimeLimitLedger = field(default_factory=TimeLimitLedger)
    retries: RetryLedger = field(default_factory=RetryLedger)
    mapped: MappedLedger = field(default_factory=MappedLedger)
    queues: QueueLedger = field(default_factory=QueueLedger)
    closing: ClosingLedger = field(default_factory=ClosingLedger)
    conditions: ConditionLedger = field(default_factory=ConditionLedger)
    reruns: RerunLedger = field(default_factory=RerunLedger)
    _requests: list[str] = field(default_factory=list)
    _notes: dict[type[Any], Callable[[Any, int], None]] = field(init=False)

    def __post_init__(self) -> None:
        self._notes = {
            e.InputsBound: self._inputs_bound,
            e.InputsLost: self._inputs_lost,
            e.RequestAccepted: self._request_accepted,
            e.RequestRejected: self._request_rejected,
            e.RequestRepeated: lambda event, _: self._requests.append(event.request_id),
            e.JobSubmitted: self._job_submitted,
            e.ScheduleStored: self.schedules.stored,
            e.ScheduleDeleted: self.schedules.deleted,
            e.ScheduleResumed: self.schedules.resumed,
            e.RunFollowed: self.schedules.followed,
            e.TopicCursorSet: self.schedules.cursor_set,
            e.RecordsClaimed: self.schedules.claimed,
            e.RecordsLost: self.schedules.lost,
            e.FileAwaited: self.schedules.awaited,
            e.BackfillCancelled: self.schedules.backfill_cancelled,
            e.TableCursorSet: self.schedules.table_cursor_set,
            e.VersionsClaimed: self.schedules.versions_claimed,
            e.ScheduleFired: self.schedules.fired,
            e.InstantQueued: self.schedules.queued,
            e.InstantsSkipped: self.schedules.skipped,
            e.BackfillStarted: self.schedules.backfill_started,
            e.JobMasterStarted: self._job_master_started,
            e.ClusterShutdownRequested: self._cluster_shutdown_requested,
            e.ApplicationStatusRecorded: self._application_status_recorded,
            e.JobStatusChanged: self._job_status_changed,
            e.JobResultStored: self._job_result_stored,
            e.InputParked: self._input_parked,
            e.TaskManagerRegistered: self._task_manager_registered,
            e.TaskManagerBlocked: lambda event, _: self.blocked.update({event.task_manager_id: event.actor}),
            e.TaskManagerUnblocked: self._task_manager_unblocked,
            e.SlotRequested: lambda event, _: self.requested.update({event.allocation_id: _attempt_of(event)}),
            e.TaskManagerRegistrationRefused: lambda event, _: self.forgotten.add((event.task_manager_id, event.instance_id)),
            e.TaskManagerLost: self._instance_gone,
            e.TaskManagerDisconnected: self._instance_gone,
            e.TaskManagerReleased: self._task_manager_released,
            e.WorkerRequested: lambda event, _: self.workers.add(event.worker_id),
            e.WorkerRequestFailed: lambda event, _: self.workers_gone.add(event.worker_id),
            e.TaskManagerReportReconciled: self._report_reconciled,
            e.SlotAllocated: self._slot_allocated,
            e.SlotShared: self._slot_shared,
            e.SlotShareReturned: self._slot_share_returned,
            e.SlotFreed: lambda event, offset: self._release(event.allocation_id, offset),
            e.SlotOfferRejected: lambda event, offset: self._release(event.allocation_id, offset),
            e.TaskScheduled: lambda event, _: self._move(event, ExecutionState.SCHEDULED),
            e.TaskDeployed: self._task_deployed,
            e.TaskStateChanged: lambda event, _: self._move(event, event.to_state),
            e.TaskCancellationRequested: self._task_cancellation_requested,
            e.TaskFinished: self._task_finished,
            e.TaskFailed: lambda event, _: self._move(event, ExecutionState.FAILED),
            e.RegionRestarted: self._region_restarted,
            e.JobRescaled: self._job_rescaled,
            e.FileUploadRequested: lambda event, _: self.uploads.add(event.request_id),
            e.CheckpointTriggered: self._checkpoint_triggered,
            e.CheckpointAcknowledged: self._checkpoint_acknowledged,
            e.CheckpointCompleted: self._checkpoint_completed,
            e.CheckpointAborted: self._checkpoint_aborted,
            e.TaskManagerFileUploadRequested: lambda event, _: self.uploads.add(event.request_id),
        }

    def note_decision(self, offset: int, decision: Decision) -> None:
        """Note an accepted decision.

        Raises:
            ViolationFound: it cannot be.

        """
        if decision.decided_at_ms >= self.decided_at_ms:
            self.decided_at_ms = decision.decided_at_ms
        elif not is_grant(decision):  # A candidate does not know what was decided last.
            raise ViolationFound(Invariant.TIME_FORWARD, f"log@{offset} was decided before the decision before it")
        self._requests = []
        for cause in decision.causes:
            if isinstance(cause, InputCause):
                self._input_decided(offset, cause)
        for event in decision.events:
            note = self._notes.get(type(event))
            if note is not None:
                note(event, offset)
        self.time_limits.on_decision(decision, offset)
        self.retries.on_decision(decision, offset)
        self.mapped.on_decision(decision, offset)
        self.queues.on_decision(decision, offset)
        self.closing.on_decision(decision, offset)
        self.conditions.on_decision(decision, offset)
        for subtask in self.reruns.on_decision(decision, offset):  # As if its first attempt had finished here.
            self.attempt_states[AttemptId(*subtask, 1)] = ExecutionState.FINISHED
            self.results[subtask] = 1
        self._check_answers(decision, offset)
        self.accepted_decisions[offset] = AcceptedDecision(decision.epoch, decision.sequence, decision.leader_id, tuple(self._requests))

    # -- inputs and answers ----------------------------------------------------------------------------------------

    def _input_decided(self, offset: int, cause: InputCause) -> None:
        expected = self.next_inputs.get(cause.topic, -1)
        if cause.first_offset != expected or cause.last_offset < cause.first_offset:
            what = "again" if cause.first_offset < expected else f"but {expected} was not decided"
            raise ViolationFound(Invariant.INPUTS_ONCE, f"log@{offset} decides {cause.topic}@{cause.first_offset} {what}")
        self.next_inputs[cause.topic] = cause.last_offset + 1

    def _check_answers(self, decision: Decision, offset: int) -> None:
        """Check that a decision which names several inputs answers each of them (P7): the simulated broker's offsets have no gaps."""
        named = sum(cause.last_offset - cause.first_offset + 1 for cause in decision.causes if isinstance(cause, InputCause))
        answered = sum(isinstance(event, e.RequestRejected) for event in decision.events)
        if named > 1 and answered != named:
            raise ViolationFound(Invariant.INPUTS_ONCE, f"log@{offset} names {named} inputs, and refuses {answered}")

    def _inputs_bound(self, event: e.InputsBound, offset: int) -> None:
        if event.topic in self.next_inputs:
            raise ViolationFound(Invariant.INPUTS_ONCE, f"log@{offset} binds the cursor of {event.topic} a second time")
        self.next_inputs[event.topic] = event.next_offset

    def _inputs_lost(self, event: e.InputsLost, offset: int) -> None:
        raise ViolationFound(Invariant.INPUTS_ONCE, f"log@{offset} gives {event} up, and the broker has lost nothing")

    def _request_accepted(self, event: e.RequestAccepted, offset: int) -> None:
        self._answer(event.request_id, AcceptedAnswer(is_accepted=True, subject=event.subject, code=""), offset)

    def _request_rejected(self, event: e.RequestRejected, offset: int) -> None:
        if event.request_id and event.reply_partition != ALL_REPLY_PARTITIONS:
            self._answer(event.request_id, AcceptedAnswer(is_accepted=False, subject=event.subject, code=event.code), offset)
        else:
            self._requests.append(event.request_id)

    def _answer(self, request_id: str, answer: AcceptedAnswer, offset: int) -> None:
        before = self.answers.setdefault(request_id, answer)
        if before != answer:
            raise ViolationFound(Invariant.ONE_ANSWER, f"log@{offset} answers {request_id} with {answer}; it was {before}")
        self._requests.append(request_id)

    # -- jobs ------------------------------------------------------------------------------------------------------

    def _job_submitted(self, event: e.JobSubmitted, offset: int) -> None:
        if event.job_id in self.submitted:
            message = f"log@{offset} submits {event.job_id}, which log@{self.submitted[event.job_id]} has submitted"
            raise ViolationFound(Invariant.JOB_ONCE, message)
        self.submitted[event.job_id] = offset
        self.schedules.submitted(event, offset)
        vertices = event.job_graph.vertices
        for vertex in vertices:
            group = vertex.slot_sharing_group
            together = [v.resources for v in vertices if v.slot_sharing_group == group]
            self.groups[event.job_id, vertex.vertex_id] = group
            self.asked[event.job_id, vertex.vertex_id] = vertex.resources if group is None else sum_of(together)
        self.job_statuses[event.job_id] = JobStatus.INITIALIZING

    def _job_master_started(self, event: e.JobMasterStarted, _offset: int) -> None:
        is_suspended = self.job_statuses[event.job_id] is JobStatus.SUSPENDED
        self._move_job(event.job_id, JobStatus.RECONCILING if is_suspended else JobStatus.CREATED)

    def _job_result_stored(self, event: e.JobResultStored, offset: int) -> None:
        self.ended_jobs.add(event.job_id)
        self.schedules.ended(event, offset)
        stopped, status = self.stopped.get(event.job_id), self.job_statuses[event.job_id]
        if stopped is not None and stopped.mode is SavepointMode.CANCEL and status is JobStatus.FINISHED:
            raise ViolationFound(Invariant.SAVEPOINTS, f"log@{offset}: {event.job_id} has finished, and was cancelled with {stopped.path}")
        if (known := self.checkpoints.get(event.job_id)) is not None and known.pending and not known.is_parked:
            raise ViolationFound(Invariant.CHECKPOINTS, f"log@{offset}: {event.job_id} ends while checkpoint {known.pending} is pending")

    def _input_parked(self, event: e.InputParked, _offset: int) -> None:
        if event.input_type == FollowUpType.ABORT_CHECKPOINT and event.job_id is not None:
            self.checkpoints[event.job_id].is_parked = True

    def _cluster_shutdown_requested(self, _event: e.ClusterShutdownRequested, _offset: int) -> None:
        self.shutdowns += 1

    def _application_status_recorded(self, _event: e.ApplicationStatusRecorded, offset: int) -> None:
        alive = [a for a, state in self.attempt_states.items() if state not in _TERMINAL_STATES]
        if alive:
            raise ViolationFound(Invariant.STATE_TABLES, f"log@{offset} stops the TaskManagers while {alive[0]} is alive")
        self.stops += 1

    def _job_status_changed(self, event: e.JobStatusChanged, _offset: int) -> None:
        self._move_job(event.job_id, event.to_status)

    def _move_job(self, job_id: str, status: JobStatus) -> None:
        before = self.job_statuses[job_id]
        if status not in JOB_TRANSITIONS[before]:
            raise ViolationFound(Invariant.STATE_TABLES, f"{job_id} goes from {before} to {status}")
        self.job_statuses[job_id] = status

    def _move(self, event: Any, state: ExecutionState) -> None:
        attempt = AttemptId(event.job_id, event.vertex_id, event.subtask_index, event.attempt)
        before = self.attempt_states.get(attempt, ExecutionState.CREATED)
        if state not in EXECUTION_TRANSITIONS[before]:
            raise ViolationFound(Invariant.STATE_TABLES, f"{attempt} goes from {before} to {state}")
        self.attempt_states[attempt] = state
        if state is ExecutionState.SCHEDULED and attempt.attempt > 1:
            older = self._before(attempt)
            if older not in _TERMINAL_STATES:
                raise ViolationFound(Invariant.STATE_TABLES, f"{attempt} is scheduled while its predecessor is {older}")

    def _before(self, attempt: AttemptId) -> ExecutionState | None:
        """Return where the newest attempt before one stands; a vertex that was rescaled leaves numbers out, and begins with any."""
        numbers = range(attempt.attempt - 1, 0, -1)
        if attempt.job_id not in self.rescaled:
            return self.attempt_states.get(attempt._replace(attempt=numbers[0]))
        known = (self.attempt_states.get(attempt._replace(attempt=number)) for number in numbers)
        return next((state for state in known if state is not None), ExecutionState.CANCELED)

    def _task_cancellation_requested(self, event: e.TaskCancellationRequested, _offset: int) -> None:
        self._move(event, ExecutionState.CANCELING)
        self.cancelled.add(AttemptId(event.job_id, event.vertex_id, event.subtask_index, event.attempt))

    def _task_finished(self, event: e.TaskFinished, offset: int) -> None:
        self._move(event, ExecutionState.FINISHED)
        subtask = SubtaskId(event.job_id, event.vertex_id, event.subtask_index)
        if subtask in self.results:
            raise ViolationFound(Invariant.ONE_RESULT, f"log@{offset}: {subtask} finished as attempt {self.results[subtask]} before")
        self.results[subtask] = event.attempt
        self.outputs.update(output.location for output in event.outputs)

    def _region_restarted(self, event: e.RegionRestarted, offset: int) -> None:
        """Forget a result that is computed again: its subtask has none until the new attempt finishes."""
        subtask = SubtaskId(event.job_id, event.vertex_id, event.subtask_index)
        older = AttemptId(*subtask, event.attempt - 1)
        state = self.attempt_states.get(older, ExecutionState.CREATED)
        if state not in _TERMINAL_STATES:
            raise ViolationFound(Invariant.STATE_TABLES, f"log@{offset} restarts {subtask} while {older} is {state}")
        self.results.pop(subtask, None)

    def _job_rescaled(self, event: e.JobRescaled, offset: int) -> None:
        """Let go of the results of a vertex: all of it restarts, when all of it has ended."""
        self.rescaled.add(event.job_id)
        for attempt, state in self.attempt_states.items():
            if attempt[:2] == (event.job_id, event.vertex_id) and state not in _TERMINAL_STATES:
                raise ViolationFound(Invariant.STATE_TABLES, f"log@{offset} rescales the vertex of {attempt}, which is {state}")
        for subtask in [s for s in self.results if s[:2] == (event.job_id, event.vertex_id)]:
            del self.results[subtask]

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def _checkpoint_triggered(self, event: e.CheckpointTriggered, offset: int) -> None:
        known = self.checkpoints.setdefault(event.job_id, CheckpointLedger())
        if known.pending or event.checkpoint_id != known.newest + 1 or self.job_statuses[event.job_id] is not JobStatus.RUNNING:
            message = f"log@{offset} triggers checkpoint {event.checkpoint_id} of {event.job_id} while {known.pending} is pending"
            raise ViolationFound(Invariant.CHECKPOINTS, f"{message}; the job is {self.job_statuses[event.job_id]}")
        known.newest = known.pending = event.checkpoint_id
        known.savepoint = event.savepoint
        known.awaited, known.answers, known.committed = event.awaited, {}, self.streams.committed_batches()

    def _checkpoint_acknowledged(self, event: e.CheckpointAcknowledged, offset: int) -> None:
        known, attempt = self._pending(event, offset), _attempt_of(event)
        subtask, batch_id = SubtaskId(*attempt[:3]), event.progress.batch_id
        is_replaced = attempt._replace(attempt=attempt.attempt + 1) in self.attempt_states
        if self.attempt_states.get(attempt) is not ExecutionState.RUNNING or is_replaced or subtask in known.answers:
            message = f"log@{offset} takes an answer of {attempt}, which is {self.attempt_states.get(attempt)}"
            raise ViolationFound(Invariant.CHECKPOINTS, message)
        least, most = known.committed.get(subtask, -1), self.streams.directory_of(subtask).last_done
        if not least <= batch_id <= most:
            message = f"log@{offset}: {attempt} says batch {batch_id}; it had committed {least} when it was asked, and has {most} now"
            raise ViolationFound(Invariant.CHECKPOINTS, message)
        known.answers[subtask] = batch_id

    def _checkpoint_completed(self, event: e.CheckpointCompleted, offset: int) -> None:
        known = self._pending(event, offset)
        if len(known.answers) != known.awaited:
            message = f"log@{offset} completes checkpoint {known.pending} with {len(known.answers)} of {known.awaited} answers"
            raise ViolationFound(Invariant.CHECKPOINTS, message)
        for subtask, batch_id in known.answers.items():
            if batch_id < known.completed.get(subtask, -1):
                message = f"log@{offset}: {subtask} is at batch {batch_id}, and was at {known.completed[subtask]} before"
                raise ViolationFound(Invariant.CHECKPOINTS, message)
        known.completed |= known.answers
        known.pending = 0
        if known.savepoint is not None:
            self._check_savepoint(event.job_id, known.savepoint, known.answers, offset)

    def _check_savepoint(self, job_id: str, savepoint: e.SavepointRequest, answers: Iterable[SubtaskId], offset: int) -> None:
        """Check that a savepoint that is complete has a part of each subtask, which holds all that counts if nothing may follow (S3)."""
        held = self.streams.held_records.get(savepoint.path, {})
        for subtask in answers:
            committed = self.streams.records.count("/".join(map(str, subtask)))
            count = held.get(subtask, -1)
            if count == -1 or (savepoint.stops_streams and count is not None and count != committed):
                message = f"log@{offset} completes {savepoint.path}, which holds {count} records of {subtask}; {committed} count"
                raise ViolationFound(Invariant.SAVEPOINTS, message)
        if savepoint.mode is not SavepointMode.CONTINUE:
            self.stopped[job_id] = savepoint

    def _checkpoint_aborted(self, event: e.CheckpointAborted, offset: int) -> None:
        self._pending(event, offset).pending = 0

    def _pending(self, event: e.CheckpointEvent | e.CheckpointAcknowledged, offset: int) -> CheckpointLedger:
        known = self.checkpoints.get(event.job_id, CheckpointLedger())
        if event.checkpoint_id != known.pending:
            raise ViolationFound(Invariant.CHECKPOINTS, f"log@{offset}: {event} is not about the pending checkpoint {known.pending}")
        return known

    # -- slots -----------------------------------------------------------------------------------------------------

    def _task_manager_registered(self, event: e.TaskManagerRegistered, _offset: int) -> None:
        instance = (event.task_manager_id, event.instance_id)
        self.registered.add(instance)
        self.slot_profiles.setdefault(instance, event.slot_profile)
        self.slot_counts.setdefault(instance, event.slot_count)

    def _task_manager_unblocked(self, event: e.TaskManagerUnblocked, _offset: int) -> None:
        del self.blocked[event.task_manager_id]

    def _slot_allocated(self, event: e.SlotAllocated, offset: int) -> None:
        attempt = self.requested[event.allocation_id]
        asked = self.asked[attempt.job_id, attempt.vertex_id]
        offered = self.slot_profiles[event.task_manager_id, event.instance_id]
        if event.task_manager_id in self.blocked or not fits(offered, asked):
            message = f"log@{offset} gives {event.allocation_id}, which asks for {asked}, a slot of {event.task_manager_id} with {offered}"
            is_blocked = " that is blocked" if event.task_manager_id in self.blocked else ""
            raise ViolationFound(Invariant.SLOT_FITS, message + is_blocked)
        place = (event.task_manager_id, event.instance_id, event.slot_index)
        if place in self.holders or event.allocation_id in self.allocated:
            message = f"log@{offset} gives {place} to {event.allocation_id}; {self.holders.get(place)} has it"
            raise ViolationFound(Invariant.ONE_ALLOCATION, message)
        better = next(self._ready_instead_of(place[:2]), None)
        if better is not None:
            message = f"log@{offset} gives {place} to {event.allocation_id}: it is not ready, and {better} is"
            raise ViolationFound(Invariant.UNREADY_LAST, message)
        self.allocated[event.allocation_id] = place
        self.holders[place] = event.allocation_id
        self.members[event.allocation_id] = {attempt.vertex_id: attempt}

    def _ready_instead_of(self, instance: tuple[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the instances that are ready and have a free slot with the same profile, if this one is not."""
        if instance in self.ready:
            return
        taken = Counter(place[:2] for place in self.holders)
        for other in self.ready:
            is_free = taken[other] < self.slot_counts[other] and other[0] not in self.blocked
            if is_free and self.slot_profiles[other] == self.slot_profiles[instance]:
                yield other

    def _slot_shared(self, event: e.SlotShared, offset: int) -> None:
        attempt, place = _attempt_of(event), self.allocated.get(event.allocation_id, ("", "", -1))
        if self.holders.get(place) != event.allocation_id or place[0] in self.blocked:
            raise ViolationFound(Invariant.SHARED_SLOT, f"log@{offset} lets {attempt} join {event.allocation_id}, which cannot be joined")
        members = self.members[event.allocation_id]
        groups = {(a.job_id, self.groups[a.job_id, a.vertex_id]) for a in (attempt, *members.values())}
        if len(groups) > 1 or (attempt.job_id, None) in groups or attempt.vertex_id in members:
            together = ", ".join(map(str, members.values()))
            raise ViolationFound(Invariant.SHARED_SLOT, f"log@{offset} lets {attempt} join {together} in {event.allocation_id}")
        members[attempt.vertex_id] = attempt

    def _slot_share_returned(self, event: e.SlotShareReturned, offset: int) -> None:
        attempt, members = _attempt_of(event), self.members.get(event.allocation_id, {})
        if members.get(attempt.vertex_id) != attempt or len(members) == 1:
            message = f"log@{offset} has {attempt} leave others in {event.allocation_id}, which holds {list(map(str, members.values()))}"
            raise ViolationFound(Invariant.SHARED_SLOT, message)
        del members[attempt.vertex_id]

    def _task_deployed(self, event: e.TaskDeployed, offset: int) -> None:
        self._move(event, ExecutionState.DEPLOYING)
        attempt = _attempt_of(event)
        if self.members.get(event.allocation_id, {}).get(attempt.vertex_id) != attempt:
            raise ViolationFound(Invariant.ONE_ALLOCATION, f"log@{offset} deploys {attempt} into {event.allocation_id}, which others hold")
        if attempt in self.slots_of_attempts:
            raise ViolationFound(Invariant.ONE_ALLOCATION, f"log@{offset} deploys {attempt} into a second slot")
        self.slots_of_attempts[attempt] = event.allocation_id
        if attempt.job_id in self.stopped:
            self.deployed_stopped.add(attempt)

    def _release(self, allocation_id: str, offset: int) -> None:
        place, members = self.allocated[allocation_id], self.members.pop(allocation_id)
        if len(members) > 1:
            message = f"log@{offset} frees the slot of {allocation_id}, in which {', '.join(map(str, members.values()))} are"
            raise ViolationFound(Invariant.SHARED_SLOT, message)
        if self.holders.get(place) == allocation_id:
            del self.holders[place]

    def _task_manager_released(self, event: e.TaskManagerReleased, offset: int) -> None:
        held = [allocation_id for place, allocation_id in self.holders.items() if place[:2] == (event.task_manager_id, event.instance_id)]
        if held or event.task_manager_id not in self.workers:
            what = f"it holds {held[0]}" if held else "no driver was asked for it"
            raise ViolationFound(Invariant.RELEASED_WAS_IDLE, f"log@{offset} releases {event.task_manager_id}; {what}")
        self._instance_gone(event, offset)

    def _instance_gone(self, event: e.TaskManagerLost | e.TaskManagerDisconnected | e.TaskManagerReleased, _offset: int) -> None:
        if self.blocked.get(event.task_manager_id) == ITSELF:
            del self.blocked[event.task_manager_id]
        instance = (event.task_manager_id, event.instance_id)
        self.forgotten.add(instance)
        self.ready.discard(instance)
        self.workers_gone.add(event.task_manager_id)
        for place in [p for p in self.holders if p[:2] == instance]:
            del self.holders[place]

    def _report_reconciled(self, event: e.TaskManagerReportReconciled, _offset: int) -> None:
        (self.ready.add if event.ready else self.ready.discard)((event.task_manager_id, event.instance_id))
        self.cancelled.update(AttemptId(a.job_id, a.vertex_id, a.subtask_index, a.attempt) for a in event.unknown)


def _attempt_of(event: Any) -> AttemptId:
    return AttemptId(event.job_id, event.vertex_id, event.subtask_index, event.attempt)
