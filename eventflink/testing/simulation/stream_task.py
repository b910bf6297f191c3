"""The process of a stream's task: it starts the query, and obeys one order after the other, as `taskexecutor/task_stream.py` does.

What a query does is the server's, what is left to chance is in `streams.py`. A query that was stopped for a savepoint is waited for no
longer, but for what the master decides: it begins again as a new run, or the task finishes.
"""

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from eventflink.events.effects import TaskDeployment
from eventflink.model.attempts import AttemptId, SubtaskId
from eventflink.model.statuses import SavepointMode
from eventflink.streams.failures import CheckpointLost, SinkFenced, SinkUnavailable
from eventflink.taskexecutor.process_events import (
    CheckpointDeclined,
    FinishQuery,
    ProcessEvent,
    QueryStarted,
    ResumeQuery,
    StreamOrder,
    TakeCheckpoint,
)
from eventflink.testing.simulation.process import Process
from eventflink.testing.simulation.savepoints import SimulatedSavepointPart, settle
from eventflink.testing.simulation.scheduler import Call
from eventflink.testing.simulation.spark_server import SparkServer
from eventflink.testing.simulation.streams import SimulatedStreams, SubtaskStream

_HEARTBEAT_MS: Final = 500
_STUCK_MS: Final = 4_000.0
"""How long a savepoint takes whose file system does not answer: longer than it is waited for."""


@dataclass(frozen=True, slots=True)
class _Until:
    """Wait until what is begun here calls back, and with what."""

    call: Callable[[Callable[..., None]], None]


_Wait = float | Callable[[], Any] | _Until


class TaskHost(Protocol):
    """What runs the process of a task."""

    process: Process
    """All processes of the machine that tasks are."""

    @property
    def is_alive(self) -> bool:
        """Whether this one runs."""

    def later(self, delay_ms: float, call: Call) -> None:
        """Do something then, if the task still lives."""

    def tell(self, event: ProcessEvent) -> None:
        """Tell the TaskExecutor."""

    def notice_end(self, failure_type: str, message: str, is_noticed: Callable[[], bool]) -> None:
        """End the task a moment after its query, if it still looks at that then; with no type of failure it finishes."""


class SimulatedStreamTask:
    """One attempt of a subtask of a stream, from its session on."""

    def __init__(
        self, deployment: TaskDeployment, attempt: AttemptId, server: SparkServer, streams: SimulatedStreams, host: TaskHost
    ) -> None:
        """Start nothing yet."""
        self.attempt = attempt
        self._deployment = deployment
        self._server = server
        self._streams = streams
        self._host = host
        self._stream: SubtaskStream | None = None
        self._run = 0
        self._writers = 0
        self._heartbeat = ""
        self._is_stopped = False
        """What becomes of the query is the master's to say."""
        self._stopped_for = 0
        self._resumed_for = 0
        self._is_busy = False
        self._waiting: deque[StreamOrder] = deque()
        self._drained: Callable[[str], None] = lambda _failure: None

    def begin(self) -> None:
        """Start the query, after what may have happened to its directory."""
        self._stream = self._streams.open(self._deployment, self.attempt)
        self._begin_run(self._streams.fails_in_ms(self.attempt))

    def _begin_run(self, fails_in_ms: float | None = None) -> None:
        self._run += 1
        self._is_stopped = False
        self._server.start_query(self.attempt, self._next_stream(), _Run(self, self._run), fails_in_ms)

    def _next_stream(self) -> SubtaskStream:
        """Return the stream for who writes from now on, and nobody before it any more."""
        assert self._stream is not None  # noqa: S101 - orders come when the query has started
        self._writers += 1
        return replace(self._stream, writer=replace(self._stream.writer, query=self._writers))

    # -- what the server asks and tells ----------------------------------------------------------------------------

    def heartbeat(self) -> str:
        """Return what the task last wrote into its session."""
        if self._host.is_alive and self._host.process.is_running:
            self._heartbeat = str(self._host.process.clock.monotonic_ms() // _HEARTBEAT_MS)
        return self._heartbeat

    def run_started(self, run: int, restored_batch_id: int) -> None:
        """Tell that the query runs."""
        names = (f"query of {self.attempt}", f"run {run} of {self.attempt}", "/checkpoints")
        self._host.later(0, lambda: self._host.tell(QueryStarted(self.attempt, *names, restored_batch_id)))

    def run_ended(self, run: int, failure_type: str, message: str) -> None:
        """Notice that the query has ended: a failure always, the end of what was to be read unless a savepoint came between."""

        def is_noticed() -> bool:
            return failure_type != "" or (run == self._run and not self._is_stopped)

        self._host.notice_end(failure_type, message, is_noticed)

    def drain_ended(self, failure: str) -> None:
        """Go on with the savepoint: what was there is read."""
        self._host.later(0, lambda: self._drained(failure))

    # -- orders ----------------------------------------------------------------------------------------------------

    def obey(self, order: StreamOrder) -> None:
        """Do what the TaskExecutor asks, when what it asked before is done."""
        if self._is_busy:
            self._waiting.append(order)
            return
        match order:
            case TakeCheckpoint(checkpoint_id=checkpoint_id, savepoint=None):
                self._answer_later(checkpoint_id)
            case TakeCheckpoint():
                self._work(self._take_savepoint(order))
            case ResumeQuery(checkpoint_id=checkpoint_id) if checkpoint_id > self._resumed_for:
                self._resumed_for = checkpoint_id
                self._work(self._resume())
            case FinishQuery(checkpoint_id=checkpoint_id) if checkpoint_id == self._stopped_for:
                self._host.notice_end("", "", lambda: self._is_stopped)
            case _:
                pass  # It is repeated.

    def _answer_later(self, checkpoint_id: int) -> None:
        delay_ms = self._streams.answers_in_ms(self.attempt)
        if delay_ms is not None:
            self._host.later(delay_ms, lambda: self._answer(checkpoint_id, is_declined=self._streams.declines(self.attempt)))

    def _answer(self, checkpoint_id: int, *, is_declined: bool) -> None:
        declined = CheckpointDeclined(self.attempt, checkpoint_id, "it was unlucky")
        self._host.tell(declined if is_declined else self._streams.answer(self.attempt, checkpoint_id))

    def _resume(self) -> Generator[_Wait, Any, None]:
        yield _Until(lambda then: self._server.stop_query(self.attempt, then))
        self._begin_run()

    def _take_savepoint(self, order: TakeCheckpoint) -> Generator[_Wait, Any, None]:
        delay_ms = self._streams.answers_in_ms(self.attempt)
        yield _STUCK_MS if delay_ms is None else delay_ms
        is_declined = self._streams.declines(self.attempt)  # As where its directory cannot be made.
        if not is_declined:
            is_declined = not (yield from self._take_part(order))
        self._answer(order.checkpoint_id, is_declined=is_declined)

    def _take_part(self, order: TakeCheckpoint) -> Generator[_Wait, Any, bool]:
        """Write this subtask's part, unless the disk is full by then; unless the job goes on, nothing is read after it."""
        savepoint = order.savepoint
        assert savepoint is not None  # noqa: S101 - the caller has looked
        if savepoint.stops_stream:
            self._stopped_for = order.checkpoint_id
            self._is_stopped = True
            yield _Until(lambda then: self._server.stop_query(self.attempt, then))
        if savepoint.mode is SavepointMode.DRAIN and (yield _Until(self._drain)):
            return False
        stream = self._next_stream()
        ends, last_done = stream.directory.copy()
        yield self._streams.copies_in_ms()
        next_batch_id = last_done + 1
        if savepoint.stops_stream and stream.is_exactly_once:
            try:
                next_batch_id = max(next_batch_id, (yield from settle(self._streams.storage.topic, stream.writer, next_batch_id, ends)))
            except (CheckpointLost, SinkFenced, SinkUnavailable):
                return False
        has_lost_its_end = next_batch_id > 0 and next_batch_id - 1 not in ends  # Noted as done by a query that had begun before the loss.
        if has_lost_its_end or self._streams.declines(self.attempt):
            return False
        part = SimulatedSavepointPart(stream.writer.writer_id, ends, last_done, next_batch_id)
        self._streams.storage.write_part(savepoint.path, SubtaskId(*self.attempt[:3]), part, is_exactly_once=stream.is_exactly_once)
        return True

    def _drain(self, then: Callable[..., None]) -> None:
        self._drained = then
        self._server.start_query(self.attempt, replace(self._next_stream(), is_bounded=True), _Drain(self))

    def _work(self, steps: Generator[_Wait, Any, None]) -> None:
        """Go through the steps of an order; others wait until it is done."""
        self._is_busy = True

        def advance(result: Any = None, error: Exception | None = None) -> None:
            try:
                wait = steps.throw(error) if error is not None else steps.send(result)
            except StopIteration:
                self._is_busy = False
                while self._waiting and not self._is_busy:
                    self.obey(self._waiting.popleft())
                return
            if isinstance(wait, float):
                self._host.later(wait, advance)
            elif isinstance(wait, _Until):
                wait.call(lambda *results: self._host.later(0, lambda: advance(*results)))
            else:
                process = self._host.process
                self._server.call_kafka(process, wait, lambda result, error: self._host.later(0, lambda: advance(result, error)))

        advance()


class _Run:
    """A run of the query, for the server."""

    def __init__(self, task: SimulatedStreamTask, number: int) -> None:
        self._task = task
        self._number = number

    def heartbeat(self) -> str:
        return self._task.heartbeat()

    def query_started(self, restored_batch_id: int) -> None:
        self._task.run_started(self._number, restored_batch_id)

    def query_ended(self, failure_type: str, message: str) -> None:
        self._task.run_ended(self._number, failure_type, message)


class _Drain:
    """The query that reads what is there before a savepoint, for the server."""

    def __init__(self, task: SimulatedStreamTask) -> None:
        self._task = task

    def heartbeat(self) -> str:
        return self._task.heartbeat()

    def query_started(self, restored_batch_id: int) -> None:
        pass  # Nobody is told.

    def query_ended(self, failure_type: str, _message: str) -> None:
        self._task.drain_ended(failure_type)
