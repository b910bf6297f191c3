"""The Spark server of one machine: sessions, and the queries of streams, which are Spark's and outlive the tasks that started them.

A query does what Spark's does, each step at a moment of its own, so that faults fall between: it notes that a batch begins and what that
reads, has the sink write it, notes that it is done. What the sink does is decided by the real `SinkProtocol`; here are the wires.
"""

from collections.abc import Callable, Generator
from random import Random
from typing import Any, Final, Protocol

from eventflink.model.attempts import AttemptId
from eventflink.model.stream_progress import NO_BATCH
from eventflink.streams.client_watch import ClientWatch
from eventflink.streams.failures import CheckpointLost, ClientSilent, SinkFenced, SinkUnavailable
from eventflink.streams.sink_protocol import (
    BeginTransaction,
    Commit,
    ComputeBatch,
    FenceOlder,
    Mark,
    ReadMark,
    SendMark,
    SinkProtocol,
    SinkStep,
    WriteRecords,
    next_step,
)
from eventflink.testing.simulation.broker import Broker, Link
from eventflink.testing.simulation.checkpoint_directories import DirectoryUnusable
from eventflink.testing.simulation.process import Process
from eventflink.testing.simulation.scheduler import MILLISECOND, Call, LocalClock
from eventflink.testing.simulation.sink_calls import Steps, read_mark
from eventflink.testing.simulation.sink_topic import MarkUnstable, ProducerFenced
from eventflink.testing.simulation.streams import StreamStorage, SubtaskStream
from eventflink.testing.simulation.transcript import Transcript

_START_MS: Final = 1_500
"""How long a server takes at most until it answers, once it is started again."""
_LATENCY_MS: Final = 3.0
_STALL_MS: Final = 3_000
_STALL_SHARE: Final = 0.02
"""Of the requests to Kafka: how many are stuck on their way, longer than it may take to start another attempt."""
_RESEND_MS: Final = 250
_CALL_TIMEOUT_MS: Final = 3_000
_IDLE_MS: Final = 200.0
_STEP_MS: Final = 20
_BATCH_MS: Final = 150
_LINGER_SHARE: Final = 0.3
"""Of the sinks whose query is stopped: how many take a moment until their process is ended."""
_LINGER_MS: Final = 40
_FORGOTTEN_RELEASES: Final = 0.6
"""Of the releases that a server does not answer: how many it never gets."""

_FAILURES: Final = (CheckpointLost, ClientSilent, SinkFenced, SinkUnavailable, DirectoryUnusable)


class SimulatedSession(Protocol):
    """What a task has opened."""

    def session_lost(self) -> None:
        """Take that the server is gone."""


class Client(Protocol):
    """Who has started a query."""

    def heartbeat(self) -> str:
        """Return what it last wrote into its session, which changes while it lives."""

    def query_started(self, restored_batch_id: int) -> None:
        """Take that its query runs, and after which batch."""

    def query_ended(self, failure_type: str, message: str) -> None:
        """Take that its query has ended; with no type: by itself."""


class SparkServer:
    """One server, over all the lives of its process."""

    def __init__(
        self,
        name: str,
        broker: Broker,
        clock: LocalClock,
        link: Link,
        storage: StreamStorage,
        rng: Random,
        session_timeout_ms: int,
        transcript: Transcript,
    ) -> None:
        """Start at once."""
        self.name = name
        self.clock = clock
        self.link = link
        self.storage = storage
        self.rng = rng
        self.session_timeout_ms = session_timeout_ms
        self.scheduler = broker.scheduler
        self._broker = broker
        self.transcript = transcript
        self.process = Process(name, broker.scheduler, clock)
        self.queries: dict[AttemptId, Query] = {}
        self._sessions: dict[AttemptId, SimulatedSession] = {}
        self._up_from_us = 0
        self._forgotten: set[AttemptId] = set()

    def open(self, attempt: AttemptId, session: SimulatedSession) -> None:
        """Open a session."""
        self._sessions[attempt] = session

    def start_query(self, attempt: AttemptId, stream: SubtaskStream, client: Client, fails_in_ms: float | None = None) -> None:
        """Start a query of a session, as soon as the server answers, and after it has stopped an older one of the subtask here."""
        process = self.process

        def start() -> None:
            if attempt not in self._sessions:
                return
            for other in [query for query in self.queries.values() if query.attempt[:3] == attempt[:3]]:
                other.stop("a newer attempt has started one here")
            query = self.queries[attempt] = Query(self, process, attempt, stream, client)
            if fails_in_ms is not None:
                process.after(fails_in_ms, lambda: query.fail("StreamingQueryException", f"the query of {attempt} was unlucky"))

        self.scheduler.after(self._up_from_us - self.scheduler.now_us, lambda: process.deliver(start))

    def stop_query(self, attempt: AttemptId, then: Call) -> None:
        """Stop the query of a session, which cuts the batch that it computes, as soon as the server answers."""

        def stop() -> None:
            if query := self.queries.get(attempt):
                query.stop("its task stops it")
            then()

        self.process.deliver(stop)

    def close(self, attempt: AttemptId) -> None:
        """Close the session of a task that has finished."""
        self._sessions.pop(attempt, None)
        if query := self.queries.get(attempt):
            query.stop("its session is closed")

    def release(self, attempt: AttemptId, then: Call) -> None:
        """End what runs in a session, and close it, as soon as the server answers."""

        def released() -> None:
            self.close(attempt)
            then()

        if self.process.is_paused and self.rng.random() < _FORGOTTEN_RELEASES:
            self._forgotten.add(attempt)
            return
        self.process.deliver(released)

    def is_out_of_reach(self, attempt: AttemptId) -> bool:
        """Tell whether a session cannot be released now: who waits for that has to give it up."""
        return self.process.is_paused or attempt in self._forgotten

    def stall(self, duration_ms: float) -> None:
        """Answer nobody for a time, and go on then."""
        self.transcript.note(self.name, f"its Spark stands still for {duration_ms:.0f} ms")
        self.process.pause()
        self.scheduler.after(int(duration_ms * MILLISECOND), self.process.resume)

    def kill(self) -> None:
        """End it, and all that it runs; the next task that needs one starts it."""
        self.transcript.note(self.name, "its Spark is gone")
        self.process.kill()
        self.process = Process(self.name, self.scheduler, self.clock)
        self._up_from_us = self.scheduler.now_us + int(_START_MS * self.rng.random() * MILLISECOND)
        for query in list(self.queries.values()):
            query.vanish()
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for session in sessions:
            session.session_lost()

    def call_kafka(self, process: Process, call: Callable[[], Any], then: Callable[[Any, Exception | None], None]) -> None:
        """Make a call at the sink's Kafka, again until it is answered or has taken too long; what is on its way arrives in any case."""
        deadline_us = self.scheduler.now_us + _CALL_TIMEOUT_MS * MILLISECOND

        def send() -> None:
            stalls = self._broker.stall_share > 0 and self.rng.random() < _STALL_SHARE
            stall_ms = _STALL_MS * self.rng.random() if stalls else 0.0
            self.scheduler.after(int((_LATENCY_MS * self.rng.random() + stall_ms) * MILLISECOND), arrive)

        def arrive() -> None:
            if self.link.is_cut_off:
                process.after(_RESEND_MS, again)
                return
            result, error = None, None
            try:
                result = call()
            except (ProducerFenced, MarkUnstable) as refused:
                error = refused
            self.scheduler.after(int(_LATENCY_MS * self.rng.random() * MILLISECOND), lambda: process.deliver(lambda: answer(result, error)))

        def answer(result: Any, error: Exception | None) -> None:
            if self.link.is_cut_off:
                process.after(_RESEND_MS, again)
            else:
                then(result, error)

        def again() -> None:
            if self.scheduler.now_us < deadline_us:
                send()
            else:
                then(None, SinkUnavailable("Kafka does not answer"))

        send()


class Query:
    """The query of one attempt, and the process of its sink."""

    def __init__(self, server: SparkServer, process: Process, attempt: AttemptId, stream: SubtaskStream, client: Client) -> None:
        """Begin with what the checkpoint directory says."""
        self.attempt = attempt
        self.is_in_sink = False
        self._server = server
        self._process = process
        self._stream = stream
        self._client = client
        self._watch = ClientWatch(server.session_timeout_ms / 1000)
        self._protocol = SinkProtocol(stream.writer)
        self._epoch = 0
        self._ends_at_us: int | None = None
        """When the process of a sink ends whose query was stopped; None: it was not."""
        self._steps = self._run()
        self._advance(None, None)

    def stop(self, reason: str) -> None:
        """Stop the query. The process of its sink may need a moment to end, in which it goes on; nothing more is noted."""
        self._leave(f"is stopped: {reason}")
        lingers = self.is_in_sink and self._server.rng.random() < _LINGER_SHARE
        self._ends_at_us = self._now_us + (int(_LINGER_MS * self._server.rng.random() * MILLISECOND) if lingers else -1)

    def vanish(self) -> None:
        """End with the server."""
        self._leave("is gone with its server")
        self._ends_at_us = -1

    def fail(self, failure_type: str, message: str) -> None:
        """End by an error, which its task is told of."""
        if self._ends_at_us is None:
            self._leave(f"fails: {failure_type}: {message}")
            self._ends_at_us = -1
            self._client.query_ended(failure_type, message)

    def kill_sink(self) -> None:
        """Kill the process of the sink: what it had sent arrives, and its query fails."""
        self.fail("StreamingQueryException", "the process of foreachBatch exited unexpectedly")

    @property
    def _now_us(self) -> int:
        return self._server.scheduler.now_us

    def _leave(self, how: str) -> None:
        if self._server.queries.get(self.attempt) is self:
            del self._server.queries[self.attempt]
            self._server.transcript.note(self._server.name, f"the query of {self.attempt} {how}")

    def _advance(self, result: Any, error: Exception | None) -> None:
        """Go on after what was waited for; a query that was stopped only where its sink has not noticed yet."""
        if self._ends_at_us is not None and not (self.is_in_sink and self._now_us < self._ends_at_us):
            return
        try:
            wait = self._steps.throw(error) if error is not None else self._steps.send(result)
        except StopIteration:
            if self._ends_at_us is None:
                self._leave("has read everything")
                self._client.query_ended("", "")
        except _FAILURES as failure:
            self.fail(type(failure).__name__, str(failure))
        else:
            if isinstance(wait, float):
                self._process.after(wait, lambda: self._advance(None, None))
            else:
                self._server.call_kafka(self._process, wait, self._advance)

    # -- what Spark does -------------------------------------------------------------------------------------------

    def _run(self) -> Steps:
        stream, directory, rng = self._stream, self._stream.directory, self._server.rng
        yield _STEP_MS * rng.random()
        batch_id, begun, done = directory.last_begun + 1, directory.last_begun, directory.last_done
        start = directory.end_of(begun)
        end = start
        if begun not in (done, NO_BATCH):
            batch_id, start = begun, directory.end_of(begun - 1)
        last = stream.available(self._now_us)
        self._server.transcript.note(self._server.name, f"the query of {self.attempt} begins at batch {batch_id}")
        self._client.query_started(done)
        while True:
            if end == start:
                end = self._end_of_next(start, last)
                if end == start:
                    if stream.is_bounded:
                        break
                    yield _IDLE_MS
                    self._check_client()
                    continue
                yield _STEP_MS * rng.random()
                directory.note_begun(batch_id, end)
            yield from self._write(batch_id, range(start, end))
            yield _STEP_MS * rng.random()
            directory.note_done(batch_id)
            batch_id, start = batch_id + 1, end
        self._server.storage.records.finished(stream.writer, last)

    def _end_of_next(self, start: int, last: int) -> int:
        stream = self._stream
        size = 1 + self._server.rng.randrange(stream.batch_size)
        return max(start, min(start + size, last if stream.is_bounded else stream.available(self._now_us)))

    def _check_client(self) -> None:
        """End what nobody has asked about for too long: so a server does with a session, and a sink with its query."""
        self._watch.note(self._client.heartbeat(), self._now_us / (1000 * MILLISECOND))

    # -- what the sink does ----------------------------------------------------------------------------------------

    def _write(self, batch_id: int, records: range) -> Steps:
        self.is_in_sink = True
        self._check_client()
        if self._stream.is_exactly_once:
            yield from self._write_once(batch_id, records)
        else:
            self._server.storage.records.delivered(self._stream.writer, records)
            yield _BATCH_MS * self._server.rng.random()
        self.is_in_sink = False

    def _write_once(self, batch_id: int, records: range) -> Steps:
        # A batch begins where the one before has read up to, by the directory.
        before = str(records.start) if batch_id else ""
        steps, is_begun = self._protocol.steps(batch_id, str(records.stop), before), False
        step = next_step(steps, None)
        try:
            while step is not None:
                found = yield from self._carry_out(step, records)
                is_begun = is_begun or isinstance(step, BeginTransaction)
                step = next_step(steps, found)
        except ProducerFenced as error:
            raise SinkFenced(f"batch {batch_id} was not written") from error
        except SinkUnavailable:
            if is_begun:
                self._abort()
            raise

    def _abort(self) -> None:
        """Tell Kafka, and do not wait: what cannot be aborted is aborted by Kafka."""
        topic, writer, epoch = self._server.storage.topic, self._stream.writer, self._epoch
        self._server.call_kafka(self._process, lambda: topic.abort(writer, epoch), lambda _result, _error: None)

    def _carry_out(self, step: SinkStep, records: range) -> Generator[float | Callable[[], Any], Any, Mark | None]:
        topic, writer, epoch, rng = self._server.storage.topic, self._stream.writer, self._epoch, self._server.rng
        match step:
            case ReadMark(awaits_transactions=awaits_transactions):
                return (yield from read_mark(topic, writer.writer_id, awaits_transactions=awaits_transactions))
            case FenceOlder():
                self._epoch = yield lambda: topic.init_transactions(writer)
            case ComputeBatch():
                yield _BATCH_MS * rng.random()
            case BeginTransaction():
                pass  # Kafka hears of it with the first record.
            case WriteRecords():  # They are computed as they are written.
                middle = records.start + rng.randrange(len(records))
                for part in (range(records.start, middle), range(middle, records.stop)):
                    if part:
                        yield lambda part=part: topic.write(writer, epoch, part)  # type: ignore[misc]  # mypy infers no default arguments
                        yield _BATCH_MS * rng.random()
            case SendMark(mark=mark):
                yield lambda: topic.send_mark(writer, epoch, mark)
            case Commit():
                yield lambda: topic.commit(writer, epoch)
        return None
