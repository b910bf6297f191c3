"""The attempts and slots of one instance of a TaskExecutor.

A slot belongs to one allocation at a time, and is free when the last attempt of that has ended. An attempt that this instance has heard
of is never started twice, and a deployment that is resent is answered with the whole path of its states. What ended stays in a bounded
memory, cancellations that overtook their deployment (tombstones) and refusals among it; what had to leave that is refused (`forgotten.py`).
An attempt is terminal only when its process is reaped and its Spark session released (P15).
"""

import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eventflink.events.effects import CheckpointOrder, FinishStream, ResumeStream, TaskCancellation, TaskDeployment
from eventflink.events.inputs import (
    CheckpointAcknowledgement,
    CheckpointDecline,
    SlotOffer,
    SlotOfferRefusal,
    SlotReport,
    StreamStartReport,
    TaskManagerReport,
    TaskStateReport,
)
from eventflink.model.attempts import (
    Accumulators,
    AttemptId,
    AttemptStatus,
    FailureCause,
    HasAttemptId,
    IOMetrics,
    LostInput,
    OutputLocation,
    SlotStatus,
)
from eventflink.model.statuses import TERMINAL_EXECUTION_STATES, ExecutionState
from eventflink.model.stream_progress import bounded_progress
from eventflink.taskexecutor.process_events import (
    CheckpointDeclined,
    CheckpointTaken,
    EndTask,
    Failed,
    Finished,
    FinishQuery,
    Killed,
    LaunchTask,
    Outcome,
    QueryStarted,
    ReleaseSpark,
    ResumeQuery,
    SparkOpened,
    SparkReleased,
    StreamEvent,
    TakeCheckpoint,
    TaskInitialized,
    TaskLaunched,
    TaskProcessEnded,
    spark_session_of,
)
from eventflink.taskexecutor.protocol.actions import Outbox, ProtocolSettings
from eventflink.taskexecutor.protocol.counters import Counters
from eventflink.taskexecutor.protocol.forgotten import ForgottenAttempts

if TYPE_CHECKING:
    from eventflink.model.spark_ends import SparkEnd

AttemptEvent = TaskLaunched | TaskInitialized | SparkOpened | StreamEvent | TaskProcessEnded | SparkReleased

# A record of `taskmanagers` is at most 256 KiB; user code can raise an exception of any length.
_MESSAGE_LIMIT = 4096
_STACK_TRACE_LIMIT = 16_384
_REASON_LIMIT = 1_024


@dataclass(slots=True)
class KnownAttempt:
    """One attempt that the instance knows; without allocation it is a tombstone.

    `path` holds the states that it went through after DEPLOYING; the first `reported_count` of them were reported.
    """

    attempt: AttemptId
    allocation_id: str = ""
    overtaken_id: str = ""
    """Of a tombstone: the allocation of its deployment, once that has come."""
    slot_index: int = -1
    spark_session_id: str = ""
    refusal: str = ""
    path: list[ExecutionState] = field(default_factory=list)
    reported_count: int = 0
    offered: bool = False
    process_id: int = 0
    spark_remote: str = ""
    """The Spark on which it has a session that is not released; empty: it has none."""
    cancelled: bool = False
    ending: bool = False
    outcome: Outcome | None = None
    deadline_ms: int | None = None
    outputs: tuple[OutputLocation, ...] = ()
    io: IOMetrics | None = None
    accumulators: Accumulators | None = None
    cause: FailureCause | None = None
    lost_inputs: tuple[LostInput, ...] = ()
    delivered: bool = False
    job_name: str = ""
    deployed_at_ms: int = 0
    stream_start: StreamStartReport | None = None
    """How its query began; None: it has not, or is no stream."""
    checkpoint_id: int = 0
    """The newest checkpoint that it was asked for; 0: none."""
    checkpoint_answer: CheckpointAcknowledgement | CheckpointDecline | None = None
    """What it said to that; None: nothing yet."""

    @property
    def state(self) -> ExecutionState:
        """Where it stands, in the master's words."""
        if self.path and self.path[-1] in TERMINAL_EXECUTION_STATES:
            return self.path[-1]
        if self.cancelled:
            return ExecutionState.CANCELING
        return self.path[-1] if self.path else ExecutionState.DEPLOYING


def _name_signal(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit // 2]}\n… {len(text) - limit} characters left out …\n{text[-limit // 2 :]}"


def _clip_cause(cause: FailureCause) -> FailureCause:
    trace = cause.stack_trace
    return FailureCause(
        _clip(cause.failure_type, 256),
        _clip(cause.message, _MESSAGE_LIMIT),
        None if trace is None else _clip(trace, _STACK_TRACE_LIMIT),
        _clip(cause.root_type, 256),
        _clip(cause.root_message, _MESSAGE_LIMIT),
    )


class AttemptTable:
    """What one instance runs and ran; it writes orders and reports to the outbox."""

    def __init__(self, settings: ProtocolSettings, instance_id: str, partition: int, outbox: Outbox, counters: Counters) -> None:
        self._counters = counters
        self._settings = settings
        self._instance_id = instance_id
        self._partition = partition
        """Which one of `deployments` the instance reads."""
        self._outbox = outbox
        self._live: dict[AttemptId, KnownAttempt] = {}
        self._ended: dict[AttemptId, KnownAttempt] = {}
        self._forgotten = ForgottenAttempts()
        self._slots: list[dict[AttemptId, KnownAttempt]] = [{} for _ in range(settings.slot_count)]
        """Who is in each slot: of one allocation, and at most one attempt of each vertex."""
        self._slot_report_number = 0
        self.reported_ready = False
        """What the newest slot report said; the master takes an instance that has made none for not ready."""
        self.disk_fault = self.reported_disk_fault = ""
        """Why nothing can be written where tasks would, if it cannot, and what the newest slot report said of that."""
        self.spark_end: SparkEnd | None = None
        """The last end of the host's Spark that was seen, and what the newest slot report said of that."""
        self.reported_spark_end: SparkEnd | None = None
        self._ending_all = False
        self._silent = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing runs and nothing has to be released."""
        return not self._live

    @property
    def free_slots(self) -> int:
        """How many slots are free."""
        return self._slots.count({})

    @property
    def running_tasks(self) -> int:
        """How many attempts are not terminal."""
        return len(self._live)

    def live_attempts(self) -> list[KnownAttempt]:
        """Return the attempts that are not terminal, the oldest first."""
        return list(self._live.values())

    def deploy(self, deployment: TaskDeployment, blob_address: str, refusal: str, now_ms: int) -> None:
        """Start the attempt in its slot, or refuse it (for `refusal`, if any), or answer again what is known of it."""
        attempt = AttemptId(deployment.job_id, deployment.vertex_id, deployment.subtask_index, deployment.attempt)
        known = self._live.get(attempt) or self._ended.get(attempt)
        if known is not None:
            if known.allocation_id in ("", deployment.allocation_id):
                known.overtaken_id = deployment.allocation_id
                self._outbox.add_reports(self._all_reports_of(known))
            else:  # One of the two was never decided; what is said of the other one's allocation answers nobody who decided this one.
                reason = f"{attempt} is known here under the allocation {known.allocation_id}"
                self._outbox.add_reports([self._refusal_of(attempt, deployment.allocation_id, reason)])
            return
        if self._forgotten.may_have(attempt, deployment.allocation_id):  # Not remembered: a flood of copies would push out what is known.
            self._counters.tasks_refused += 1
            reason = f"{attempt} may have ended here before: {deployment.allocation_id} is not newer than what is forgotten"
            self._outbox.add_reports([self._refusal_of(attempt, deployment.allocation_id, reason)])
            return
        allocation_id, slot_index = deployment.allocation_id, deployment.slot_index
        known = KnownAttempt(attempt, allocation_id, slot_index=slot_index, job_name=deployment.job_name, deployed_at_ms=now_ms)
        known.refusal = refusal or self._find_refusal(deployment)
        if known.refusal:
            self._counters.tasks_refused += 1
            self._remember(known)
            self._outbox.add_reports(self._all_reports_of(known))
            return
        known.spark_session_id = spark_session_of(self._instance_id, attempt)
        known.deadline_ms = now_ms + self._settings.launch_timeout_ms
        self._live[attempt] = known
        self._slots[slot_index][attempt] = known
        self._forgotten.take_slot(slot_index, allocation_id)
        self._outbox.add_process_action(LaunchTask(deployment, known.spark_session_id, blob_address))

    def cancel(self, cancellation: TaskCancellation, now_ms: int) -> None:
        """End the attempt; one that is not known leaves a tombstone, so that its deployment, when it comes, starts nothing."""
        attempt = AttemptId(cancellation.job_id, cancellation.vertex_id, cancellation.subtask_index, cancellation.attempt)
        live = self._live.get(attempt)
        if live is not None:
            live.cancelled = True
            self._end(live, now_ms)
            return
        ended = self._ended.get(attempt)
        if ended is None:
            ended = KnownAttempt(attempt, path=[ExecutionState.CANCELED], reported_count=1, cancelled=True)
            self._remember(ended)
        self._outbox.add_reports(self._all_reports_of(ended))

    def take_checkpoint(self, order: CheckpointOrder) -> None:
        """Ask the attempt's stream where it stands, or decline for it; a question that is repeated gets the same answer."""
        attempt = order.attempt_id
        known = self._live.get(attempt) or self._ended.get(attempt)
        if known is None or known.state is not ExecutionState.RUNNING:
            reason = f"the attempt is {known.state}" if known is not None else "the TaskExecutor does not know the attempt"
            self._outbox.add_reports([CheckpointDecline(*self._subject(attempt), order.checkpoint_id, reason, task_ended=True)])
        elif known.outcome is not None:
            return  # How it ended is reported when its Spark session is released, and says more.
        elif order.checkpoint_id > known.checkpoint_id:
            known.checkpoint_id, known.checkpoint_answer = order.checkpoint_id, None
            self._outbox.add_process_action(TakeCheckpoint(attempt, order.checkpoint_id, order.savepoint))
        elif order.checkpoint_id == known.checkpoint_id and known.checkpoint_answer is not None:
            self._outbox.add_reports([known.checkpoint_answer])

    def go_on(self, order: ResumeStream | FinishStream) -> None:
        """Tell the attempt's stream what follows its savepoint; one that has ended is told nothing, and its end is reported."""
        known = self._live.get(order.attempt_id)
        if known is not None and known.outcome is None and not known.ending:
            action = FinishQuery if isinstance(order, FinishStream) else ResumeQuery
            self._outbox.add_process_action(action(known.attempt, order.checkpoint_id))

    def end_all(self, now_ms: int, *, silent: bool) -> None:
        """End every attempt because the instance ends; when silent, nothing more is reported of any."""
        self._ending_all = True
        self._silent = self._silent or silent
        for known in list(self._live.values()):
            self._end(known, now_ms)

    def handle(self, event: AttemptEvent, now_ms: int) -> None:
        """Take what the fork server tells of an attempt; what it tells of an attempt that is over changes nothing."""
        known = self._live.get(event.attempt)
        if known is None:
            return
        match event:
            case TaskLaunched(process_id=process_id):
                known.process_id = process_id
                self._counters.tasks_started += 1
                if not known.ending:
                    known.deadline_ms = None
                self._advance(known, ExecutionState.INITIALIZING)
            case TaskInitialized():
                self._advance(known, ExecutionState.INITIALIZING, ExecutionState.RUNNING)
            case SparkOpened(remote=remote):
                known.spark_remote = remote
            case QueryStarted() | CheckpointTaken() | CheckpointDeclined():
                self._handle_stream(known, event)
            case TaskProcessEnded(outcome=outcome):
                self._process_ended(known, outcome, now_ms, can_release=True)
            case SparkReleased():
                known.spark_remote = ""
                if known.outcome is not None:
                    self._conclude(known)

    def processes_lost(self, reason: str, now_ms: int) -> None:
        """Every task process is gone with its fork server; what their Spark sessions do is released by the next one."""
        outcome = Failed(FailureCause("ForkServerDied", f"the fork server of the TaskExecutor ended: {reason}"))
        for known in list(self._live.values()):
            if known.outcome is None:
                self._process_ended(known, outcome, now_ms, can_release=False)

    def resend_releases(self) -> None:
        """Order every release again that is still awaited: there is a new fork server."""
        for known in self._live.values():
            if known.outcome is not None:
                self._outbox.add_process_action(ReleaseSpark(known.attempt, known.spark_session_id, known.spark_remote))

    @property
    def next_due_ms(self) -> int | None:
        """When the next bound is reached; None: nothing is bounded."""
        return min((known.deadline_ms for known in self._live.values() if known.deadline_ms is not None), default=None)

    def tick(self, now_ms: int) -> str:
        """Hold the bounds: a release that takes too long is not waited for. Return why the fork server is to be ended; empty: it is not."""
        for known in list(self._live.values()):
            if known.deadline_ms is None or now_ms < known.deadline_ms:
                continue
            if known.outcome is not None:
                self._conclude(known)
                continue
            known.deadline_ms = None
            what = "end" if known.ending else "launch"
            return f"it was told to {what} {known.attempt} and did not"
        return ""

    def report_slots(self, *, is_ready: bool) -> None:
        """Report everything, whether the instance is ready for tasks, why it cannot write, if it cannot, and how its Spark ended.

        Terminal states that Kafka has not acknowledged go before it, lest the attempts seem missing.
        """
        for known in self._ended.values():
            if not known.delivered and known.allocation_id:
                self._outbox.add_reports(self._all_reports_of(known))
        slots = tuple(SlotStatus(i, next((k.allocation_id for k in s.values()), None)) for i, s in enumerate(self._slots))
        attempts = tuple(AttemptStatus(*k.attempt, k.state) for k in self._live.values())
        self._slot_report_number += 1
        self.reported_ready, self.reported_disk_fault, self.reported_spark_end = is_ready, self.disk_fault, self.spark_end
        place = (self._settings.task_manager_id, self._instance_id)
        number, disk_fault, spark_end = self._slot_report_number, self.disk_fault, self.spark_end
        report = SlotReport(*place, slots, attempts, number, is_ready, disk_fault, spark_end, self._partition)
        self._outbox.add_reports([report])
        # A start that no master has read, because retention was faster, is told again; every other one is skipped by name.
        self._outbox.add_reports(k.stream_start for k in self._live.values() if k.stream_start is not None and not k.ending)

    def resend_reports(self, attempts: Iterable[AttemptId]) -> None:
        """Report again what is known of the attempts."""
        for attempt in attempts:
            known = self._live.get(attempt) or self._ended.get(attempt)
            if known is not None:
                self._outbox.add_reports(self._all_reports_of(known))

    def delivered(self, reports: Iterable[TaskManagerReport]) -> None:
        """Kafka has these reports."""
        for report in reports:
            if isinstance(report, TaskStateReport) and report.execution_state in TERMINAL_EXECUTION_STATES:
                known = self._ended.get(attempt_of(report))
                if known is not None:
                    known.delivered = True

    def find_allocations(self, allocation_ids: set[str]) -> Iterator[AttemptId]:
        """Return the attempts of these allocations."""
        for memory in (self._live, self._ended):
            yield from (known.attempt for known in memory.values() if known.allocation_id in allocation_ids)

    def _find_refusal(self, deployment: TaskDeployment) -> str:
        """Return why an attempt cannot have its slot; empty: it can. Beside others it can be if they have the same allocation."""
        slot_index = deployment.slot_index
        if self._ending_all:
            return "the TaskExecutor ends"
        if not 0 <= slot_index < len(self._slots):
            return f"slot not found: {slot_index}; the slots are 0 to {len(self._slots) - 1}"
        for holder in self._slots[slot_index].values():
            if holder.allocation_id != deployment.allocation_id:
                return f"slot {slot_index} is taken by {holder.attempt} (allocation {holder.allocation_id})"
            if holder.attempt[:2] == (deployment.job_id, deployment.vertex_id):
                return f"slot {slot_index} holds {holder.attempt}, and at most one attempt of a vertex"
        return ""

    def _end(self, known: KnownAttempt, now_ms: int) -> None:
        if known.outcome is not None:
            return
        if not known.ending:
            known.ending = True
            known.deadline_ms = now_ms + self._settings.kill_timeout_ms + self._settings.end_timeout_ms
        self._outbox.add_process_action(EndTask(known.attempt, self._settings.kill_timeout_ms))

    def _handle_stream(self, known: KnownAttempt, event: StreamEvent) -> None:
        """Report how a query began, and what it answers: to the newest question alone, and once."""
        subject = self._subject(known.attempt)
        report: TaskManagerReport
        if isinstance(event, QueryStarted):
            session_id, restored = known.spark_session_id, event.restored_batch_id
            report = known.stream_start = StreamStartReport(*subject, event.query_id, event.run_id, session_id, event.location, restored)
        elif event.checkpoint_id != known.checkpoint_id or known.checkpoint_answer is not None:
            return
        elif isinstance(event, CheckpointTaken):
            report = known.checkpoint_answer = CheckpointAcknowledgement(*subject, event.checkpoint_id, bounded_progress(event.progress))
        else:
            report = known.checkpoint_answer = CheckpointDecline(*subject, event.checkpoint_id, _clip(event.reason, _REASON_LIMIT))
        if not known.ending:  # So it is where the instance ends as well.
            self._outbox.add_reports([report])

    def _subject(self, attempt: AttemptId) -> tuple[str, str, str, str, int, int]:
        return self._settings.task_manager_id, self._instance_id, attempt.job_id, attempt.vertex_id, attempt.subtask_index, attempt.attempt

    def _advance(self, known: KnownAttempt, *states: ExecutionState) -> None:
        """Report the states that are new; what is being ended has nothing more to say until it has ended."""
        known.path.extend(s for s in states if s not in known.path)
        if not known.ending:
            self._report_new_states(known)

    def _process_ended(self, known: KnownAttempt, outcome: Outcome, now_ms: int, *, can_release: bool) -> None:
        if known.outcome is not None:
            return
        known.outcome = outcome
        if isinstance(outcome, Finished) or not known.spark_remote:  # A task that finishes has closed its session itself.
            self._conclude(known)
            return
        known.deadline_ms = now_ms + self._settings.spark_release_timeout_ms
        if can_release:
            self._outbox.add_process_action(ReleaseSpark(known.attempt, known.spark_session_id, known.spark_remote))

    def _conclude(self, known: KnownAttempt) -> None:
        """Make the attempt terminal: its process is reaped and its Spark session released, or waited for long enough."""
        outcome = known.outcome
        if known.cancelled:
            known.path.append(ExecutionState.CANCELED)
            known.reported_count = len(known.path) - 1  # What it went through meanwhile is of no interest any more.
        elif isinstance(outcome, Finished):
            known.outputs, known.io, known.accumulators = outcome.outputs, outcome.io, outcome.accumulators
            known.path = [ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.FINISHED]
        else:
            known.cause = _clip_cause(self._find_cause(known, outcome))
            known.lost_inputs = outcome.lost_inputs if isinstance(outcome, Failed) else ()
            known.path.append(ExecutionState.FAILED)
        known.deadline_ms = None
        self._counters.tasks_ended[known.state] += 1
        del self._live[known.attempt]
        del self._slots[known.slot_index][known.attempt]
        self._remember(known)
        if not self._ending_all or known.state is not ExecutionState.FAILED:
            self._report_new_states(known)  # Else the task neither failed nor was cancelled: the end of the instance implies it.

    @staticmethod
    def _find_cause(known: KnownAttempt, outcome: Outcome | None) -> FailureCause:
        if isinstance(outcome, Failed):
            return outcome.cause
        number = outcome.signal if isinstance(outcome, Killed) else 0
        return FailureCause("TaskProcessDied", f"task process {known.process_id} was killed by signal {_name_signal(number)}")

    def _remember(self, known: KnownAttempt) -> None:
        self._ended[known.attempt] = known
        while len(self._ended) > self._settings.ended_attempt_limit:
            forgotten = self._ended.pop(next(iter(self._ended)))
            self._forgotten.add(forgotten.attempt, forgotten.allocation_id or forgotten.overtaken_id)

    def _report_new_states(self, known: KnownAttempt) -> None:
        """Report the states that were not reported; with the first goes the offer of the slot."""
        if self._silent or known.reported_count == len(known.path):
            return
        self._outbox.add_reports(self._reports_of(known, known.path[known.reported_count :], with_offer=not known.offered))
        known.offered = True
        known.reported_count = len(known.path)

    def _all_reports_of(self, known: KnownAttempt) -> list[TaskManagerReport]:
        """Return all that was reported of the attempt; nothing before it was launched, for that is reported when it is."""
        if self._silent:
            return []
        if known.refusal:
            return [self._refusal_of(known.attempt, known.allocation_id, known.refusal)]
        if known.reported_count == 0:
            return []
        reports = self._reports_of(known, known.path[: known.reported_count], with_offer=bool(known.allocation_id))
        if known.stream_start is not None:  # Before the end, if that was reported: of an attempt that has ended a master takes nothing.
            reports.insert(len(reports) - (known.state in TERMINAL_EXECUTION_STATES), known.stream_start)
        return reports

    def _refusal_of(self, attempt: AttemptId, allocation_id: str, reason: str) -> SlotOfferRefusal:
        return SlotOfferRefusal(self._settings.task_manager_id, self._instance_id, allocation_id, reason, *attempt[1:])

    def _reports_of(self, known: KnownAttempt, states: Iterable[ExecutionState], *, with_offer: bool) -> list[TaskManagerReport]:
        task_manager_id, instance_id = self._settings.task_manager_id, self._instance_id
        job_id, vertex_id, subtask_index, attempt = known.attempt
        reports: list[TaskManagerReport] = [SlotOffer(task_manager_id, instance_id, known.allocation_id)] if with_offer else []
        for state in states:
            report = TaskStateReport(task_manager_id, instance_id, job_id, vertex_id, subtask_index, attempt, state)
            if state is ExecutionState.FINISHED:
                report.outputs, report.io, report.accumulators = known.outputs, known.io, known.accumulators
            elif state is ExecutionState.FAILED:
                report.cause, report.lost_inputs = known.cause, known.lost_inputs
            reports.append(report)
        return reports


def attempt_of(report: HasAttemptId) -> AttemptId:
    """Return the attempt that the report is about."""
    return report.attempt_id
