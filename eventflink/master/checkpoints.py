"""The checkpoints of one job with streams: the one that is pending, those that completed, and how the streams began.

A subtask of a stream is a query that commits its batches itself, and every exchange between queries is durable. So the last committed
batches of all subtasks, taken together, are a place from which the job can go on, whenever each of them was read: a checkpoint asks for
them, and holds nothing up. At most one is pending. When one is due, and what an answer leads to, is decided in
`checkpoint_coordinator.py`; here are the data, and how events change them. Everything is bounded: progress is kept of the pending one and
of the latest completed one, of older ones only sums. A savepoint that is to end its job stops the queries: which of them wait for what
follows is kept here as well (S3).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from eventflink.events.log_events import (
    CheckpointAborted,
    CheckpointAcknowledged,
    CheckpointCompleted,
    CheckpointEvent,
    CheckpointSubsumed,
    CheckpointTriggered,
    SavepointRequest,
    StreamStarted,
)
from eventflink.master.canonical import require
from eventflink.master.execution_graph import ExecutionGraph, ExecutionVertex, SubtaskKey
from eventflink.model.job_graph import CheckpointSettings
from eventflink.model.statuses import (
    CheckpointFailureReason,
    CheckpointStatus,
    ExecutionState,
    IllegalTransition,
    SavepointMode,
)
from eventflink.model.stream_progress import StreamProgress

DEFAULT_CHECKPOINT_HISTORY: Final = 10

COUNTED_FAILURES: Final = (CheckpointFailureReason.EXPIRED, CheckpointFailureReason.DECLINED)
"""What counts against `tolerable_failed_checkpoints`: what fails because its job does is no failure of checkpoints."""


@dataclass(slots=True)
class StreamStart:
    """How the query of a subtask's newest attempt began."""

    attempt: int
    at_ms: int
    query_id: str
    run_id: str
    spark_session_id: str
    location: str
    restored_batch_id: int
    """The batch after which it goes on; -1: the stream began."""


@dataclass(slots=True)
class Acknowledgement:
    """Where a subtask stood when it was asked."""

    attempt: int
    at_ms: int
    progress: StreamProgress


@dataclass(slots=True)
class Checkpoint:
    """One checkpoint as the history has it."""

    checkpoint_id: int
    triggered_at_ms: int
    actor: str
    """Who asked for it; empty: it was due."""
    subtasks: int
    """How many were asked."""
    status: CheckpointStatus = CheckpointStatus.IN_PROGRESS
    acknowledged: int = 0
    duration_ms: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    reason: CheckpointFailureReason | None = None
    message: str = ""
    savepoint: SavepointRequest | None = None
    """That it is a savepoint; None: it is none."""
    request_id: str = ""
    """Of the request that asked for it; empty: it was due."""

    @property
    def stops_streams(self) -> bool:
        """Whether it is a savepoint after which nothing is read."""
        return self.savepoint is not None and self.savepoint.stops_streams


@dataclass(slots=True)
class StoppedStream:
    """An attempt whose query was stopped for a savepoint: it waits to be told whether to resume or to finish."""

    attempt: int
    checkpoint_id: int


@dataclass(slots=True)
class PendingCheckpoint:
    """The checkpoint that is under way."""

    checkpoint: Checkpoint
    awaited: dict[SubtaskKey, int]
    """The attempts that have not answered yet."""
    acknowledged: dict[SubtaskKey, Acknowledgement] = field(default_factory=dict)
    broken: str = ""
    """How an attempt ended that had not answered; empty: all of them live."""

    def asked(self, graph: ExecutionGraph) -> dict[SubtaskKey, int]:
        """Return the awaited attempts that can answer: of a savepoint the readers of an edge come when its writers have answered."""
        if self.checkpoint.savepoint is None or not (writers := graph.pipelined_writers()):
            return self.awaited
        waiting = {vertex_id for vertex_id, _ in self.awaited}
        return {key: attempt for key, attempt in self.awaited.items() if waiting.isdisjoint(writers.get(key[0], ()))}


@dataclass(slots=True)
class Checkpoints:
    """What a JobMaster knows of the checkpoints of its job."""

    settings: CheckpointSettings
    history_size: int = DEFAULT_CHECKPOINT_HISTORY
    next_id: int = 1
    pending: PendingCheckpoint | None = None
    completed: list[Checkpoint] = field(default_factory=list)
    """Those that are retained, the oldest first."""
    progress: dict[SubtaskKey, Acknowledgement] = field(default_factory=dict)
    """Of the latest completed one; of a subtask that had finished by then, what it said last."""
    history: list[Checkpoint] = field(default_factory=list)
    """The newest that have ended, the oldest first."""
    latest_failed: Checkpoint | None = None
    starts: dict[SubtaskKey, StreamStart] = field(default_factory=dict)
    completed_count: int = 0
    failed_count: int = 0
    restored_count: int = 0
    """How often a query went on after a batch of an earlier attempt."""
    consecutive_failures: int = 0
    triggered_at_ms: int = 0
    ended_at_ms: int = 0
    latest_savepoint: Checkpoint | None = None
    stopped: dict[SubtaskKey, StoppedStream] = field(default_factory=dict)
    is_finishing: bool = False
    """A savepoint with which the job stops is complete: the streams finish."""

    # -- queries --------------------------------------------------------------------------------------------------

    @property
    def triggered_count(self) -> int:
        """How many were triggered."""
        return self.next_id - 1

    @property
    def latest(self) -> Checkpoint | None:
        """The newest that completed."""
        return self.completed[-1] if self.completed else None

    @property
    def last_words(self) -> Mapping[SubtaskKey, Acknowledgement]:
        """What each subtask said last when it was asked."""
        return self.progress | (self.pending.acknowledged if self.pending is not None else {})

    def attempts_to_ask(self, graph: ExecutionGraph) -> dict[SubtaskKey, int]:
        """Return the attempts that a checkpoint would ask, all of streams that have not finished; none unless the query of each runs."""
        if self.stopped or self.is_finishing:
            return {}
        attempts: dict[SubtaskKey, int] = {}
        for vertex in streams_of(graph):
            for subtask in vertex.subtasks:
                if subtask.has_result:
                    continue
                start = self.starts.get(subtask.key)
                if subtask.state is not ExecutionState.RUNNING or start is None or start.attempt != subtask.attempt:
                    return {}
                attempts[subtask.key] = subtask.attempt
        return attempts

    # -- apply ----------------------------------------------------------------------------------------------------

    def note_start(self, event: StreamStarted, at_ms: int) -> None:
        """Remember how the query of a subtask's newest attempt began."""
        key = (event.vertex_id, event.subtask_index)
        told = (event.query_id, event.run_id, event.spark_session_id, event.location, event.restored_batch_id)
        self.starts[key] = StreamStart(event.attempt, at_ms, *told)
        self.stopped.pop(key, None)
        self.restored_count += event.restored_batch_id >= 0

    def trigger(self, event: CheckpointTriggered, graph: ExecutionGraph, at_ms: int) -> None:
        """Wait for every stream to say where it stands."""
        attempts = self.attempts_to_ask(graph)
        if self.pending is not None or event.checkpoint_id != self.next_id or not attempts or event.awaited != len(attempts):
            raise IllegalTransition(f"{event} does not fit: the next one is {self.next_id}, and asks {len(attempts)} subtasks")
        asked = Checkpoint(event.checkpoint_id, at_ms, event.actor, len(attempts), savepoint=event.savepoint, request_id=event.request_id)
        self.pending = PendingCheckpoint(asked, attempts)
        self.next_id += 1
        self.triggered_at_ms = at_ms

    def acknowledge(self, event: CheckpointAcknowledged, at_ms: int) -> None:
        """Take an answer."""
        pending, key = self._require_pending(event), (event.vertex_id, event.subtask_index)
        if pending.awaited.get(key) != event.attempt:
            raise IllegalTransition(f"checkpoint {event.checkpoint_id} does not wait for {event.attempt_id}")
        del pending.awaited[key]
        pending.acknowledged[key] = Acknowledgement(event.attempt, at_ms, event.progress)
        pending.checkpoint.acknowledged += 1
        if pending.checkpoint.stops_streams:
            self.stopped[key] = StoppedStream(event.attempt, event.checkpoint_id)

    def complete(self, event: CheckpointCompleted, at_ms: int) -> None:
        """Retain the pending one: everybody has answered."""
        pending = self._require_pending(event)
        if pending.awaited:
            raise IllegalTransition(f"checkpoint {event.checkpoint_id} waits for {len(pending.awaited)} subtasks")
        checkpoint = pending.checkpoint
        checkpoint.state_rows, checkpoint.state_bytes = event.state_rows, event.state_bytes
        self.progress = self.progress | pending.acknowledged
        if checkpoint.savepoint is None:
            self.completed.append(checkpoint)
        else:  # It is the user's: it is not subsumed.
            self.latest_savepoint = checkpoint
            self.is_finishing = checkpoint.savepoint.finishes_job
            if checkpoint.savepoint.mode is SavepointMode.CANCEL:
                self.stopped.clear()  # What was stopped is cancelled by the same decision: told to resume, it would read on until then.
        self.completed_count += 1
        self.consecutive_failures = 0
        self._end(checkpoint, CheckpointStatus.COMPLETED, event.duration_ms, at_ms)

    def abort(self, event: CheckpointAborted, graph: ExecutionGraph, at_ms: int) -> None:
        """Give the pending one up; streams that it stopped, or may have stopped, are to resume."""
        pending = self._require_pending(event)
        checkpoint = pending.checkpoint
        if checkpoint.stops_streams:
            for key, attempt in pending.asked(graph).items():
                subtask = graph.subtask(*key)
                if subtask is not None and subtask.attempt == attempt and subtask.state is ExecutionState.RUNNING:
                    self.stopped[key] = StoppedStream(attempt, checkpoint.checkpoint_id)
        checkpoint.reason, checkpoint.message = event.reason, event.message
        self.latest_failed = checkpoint
        self.failed_count += 1
        self.consecutive_failures += event.reason in COUNTED_FAILURES and checkpoint.savepoint is None
        self._end(checkpoint, CheckpointStatus.FAILED, at_ms - checkpoint.triggered_at_ms, at_ms)

    def subsume(self, event: CheckpointSubsumed) -> None:
        """Retain the oldest one no longer."""
        if len(self.completed) <= self.settings.max_retained or self.completed[0].checkpoint_id != event.checkpoint_id:
            raise IllegalTransition(f"{event}: it is not the oldest of more than {self.settings.max_retained}")
        del self.completed[0]

    def note_global_failure(self) -> None:
        """Count anew: what failed too often has failed the job."""
        self.consecutive_failures = 0

    def note_ended(self, key: SubtaskKey, how: str) -> None:
        """Take note that an attempt has ended: a checkpoint that waits for it cannot complete."""
        self.stopped.pop(key, None)
        if self.pending is not None and key in self.pending.awaited and not self.pending.broken:
            self.pending.broken = how

    def _require_pending(self, event: CheckpointEvent | CheckpointAcknowledged) -> PendingCheckpoint:
        pending = self.pending
        if pending is None or pending.checkpoint.checkpoint_id != event.checkpoint_id:
            raise IllegalTransition(f"checkpoint {event.checkpoint_id} of {event.job_id} is not pending")
        return pending

    def _end(self, checkpoint: Checkpoint, status: CheckpointStatus, duration_ms: int, at_ms: int) -> None:
        checkpoint.status, checkpoint.duration_ms = status, duration_ms
        self.pending = None
        self.ended_at_ms = at_ms
        self.history.append(checkpoint)
        del self.history[: max(0, len(self.history) - self.history_size)]

    def validate(self, job_id: str, graph: ExecutionGraph, *, is_running: bool) -> None:
        """Check what is pending against the graph, and the bounds."""
        require(len(self.history) <= self.history_size, f"{job_id} remembers {len(self.history)} checkpoints")
        # Between its completion and the event that the oldest is retained no longer there is one more; no decision ends there.
        require(len(self.completed) <= self.settings.max_retained, f"{job_id} retains {len(self.completed)} checkpoints")
        ids = [checkpoint.checkpoint_id for checkpoint in self.completed]
        require(ids == sorted(ids) and max(ids, default=0) < self.next_id, f"{job_id} retains the checkpoints {ids}")
        counted = self.completed_count + self.failed_count + (self.pending is not None)
        require(counted == self.triggered_count, f"{job_id}: checkpoints are miscounted")
        for vertex_id, index in self.starts:
            vertex = graph.vertices[vertex_id]
            require(vertex.vertex.stream is not None and index < vertex.parallelism, f"{job_id}/{vertex_id}[{index}] is not a stream")
        for (vertex_id, index), stopped in self.stopped.items():
            subtask = graph.vertices[vertex_id].subtasks[index]
            waits = subtask.attempt == stopped.attempt and subtask.state in (ExecutionState.RUNNING, ExecutionState.CANCELING)
            require(waits, f"{job_id}: {vertex_id}[{index}]#{stopped.attempt} was stopped for a savepoint, and is {subtask.state}")
        if (pending := self.pending) is None:
            return
        require(bool(pending.awaited), f"{job_id}: checkpoint {pending.checkpoint.checkpoint_id} is complete, and pending")
        require(not set(pending.awaited) & set(pending.acknowledged), f"{job_id}: an attempt is awaited that has answered")
        for (vertex_id, index), attempt in pending.awaited.items():
            subtask = graph.vertices[vertex_id].subtasks[index]
            asked = subtask.attempt == attempt and subtask.state is ExecutionState.RUNNING
            ends = bool(pending.broken) or not is_running
            require(asked or ends, f"{job_id}: checkpoint {pending.checkpoint.checkpoint_id} waits for {vertex_id}[{index}]#{attempt}")


def streams_of(graph: ExecutionGraph) -> Iterable[ExecutionVertex]:
    """Return the vertices that are streams."""
    return (vertex for vertex in graph.vertices.values() if vertex.vertex.stream is not None)
