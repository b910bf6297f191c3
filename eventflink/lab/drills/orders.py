"""Making a leader crash, freeze or step down: by a command, obeyed only where drills are allowed, or by a signal to its process."""

import contextlib
import os
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

import psutil
from confluent_kafka import KafkaError, KafkaException, Message

from eventflink.events.codec import PayloadCodec
from eventflink.events.inputs import DrillStep
from eventflink.events.log_events import DrillStepOrdered, RequestRejected
from eventflink.events.topics import Topic, topic_name
from eventflink.gateways.follow import LoggedDecision
from eventflink.gateways.kafka_clients import make_producer
from eventflink.gateways.reads import KnownMaster
from eventflink.lab.drills.errors import DrillRefused
from eventflink.lab.drills.log_watch import DrillWatch
from eventflink.model.statuses import DrillStepType

ORDER_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Fallen:
    """A leader that was made to crash, freeze or step down."""

    at_s: float
    """When: the order was seen accepted, or the signal was sent; monotonic seconds."""
    offset: int | None = None
    """The accepted order in the log; None: it was a signal."""
    timestamp_ms: int | None = None
    """Kafka's, of the order."""


class Order(Protocol):
    """A way to end a leadership. Use it as a context manager: leaving it undoes what it may still hold."""

    def give(self, watch: DrillWatch) -> Fallen:
        """Carry it out.

        Raises:
            DrillRefused: the leader was not ended; the message says why.

        """

    def __enter__(self) -> Self:
        """Prepare."""

    def __exit__(self, *exception: object) -> None:
        """Hold nothing any more."""


@dataclass(slots=True)
class CommandOrder:
    """Asks the leader itself, wherever it runs."""

    bootstrap: str
    cluster_id: str
    drill_id: str
    step: DrillStepType
    master_id: str
    duration_ms: int
    actor: str

    def give(self, watch: DrillWatch) -> Fallen:
        """Put the command where the leader reads it and wait for the decision: the log answers, for a leader that was killed cannot."""
        step = DrillStep(
            request_id=self.drill_id,
            actor=self.actor,
            drill_id=self.drill_id,
            step=self.step,
            master_id=self.master_id,
            duration_ms=self.duration_ms,
        )
        self._send(PayloadCodec("CommandEnvelope").encode(step, sent_at_ms=time.time_ns() // 1_000_000))
        seen = watch.wait_for(self._find, f"the leader's answer to the drill {self.drill_id}", ORDER_TIMEOUT_S)
        if isinstance(seen.found, RequestRejected):
            raise DrillRefused(f"{seen.found.message} ({seen.found.code})")
        return Fallen(seen.seen_s, seen.offset, seen.timestamp_ms)

    def _find(self, logged: LoggedDecision) -> DrillStepOrdered | RequestRejected | None:
        for event in logged.decision.events:
            if isinstance(event, DrillStepOrdered) and event.drill_id == self.drill_id:
                return event
            if isinstance(event, RequestRejected) and event.request_id == self.drill_id:
                return event
        return None

    def _send(self, value: bytes) -> None:
        failures: list[str] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error.str())

        producer = make_producer(self.bootstrap)
        try:
            producer.produce(topic_name(self.cluster_id, Topic.COMMANDS), value=value, key=self.drill_id.encode(), on_delivery=delivered)
            left = producer.flush(ORDER_TIMEOUT_S)
        except (BufferError, KafkaException) as error:
            raise DrillRefused(f"the order cannot be sent: {error}") from error
        if left or failures:
            producer.purge()
            raise DrillRefused(f"the order was not delivered: {', '.join(failures) or 'Kafka does not answer'}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Hold nothing."""


@dataclass(slots=True)
class SignalOrder:
    """Signals the leader's process, which runs on this host."""

    process_id: int
    step: DrillStepType
    duration_ms: int
    _thaw: threading.Timer | None = field(default=None)

    def give(self, _watch: DrillWatch) -> Fallen:
        """Send SIGKILL or SIGTERM, or SIGSTOP with a SIGCONT later."""
        signum = {DrillStepType.KILL: signal.SIGKILL, DrillStepType.STOP: signal.SIGTERM, DrillStepType.FREEZE: signal.SIGSTOP}[self.step]
        at_s = time.monotonic()
        try:
            os.kill(self.process_id, signum)
        except OSError as error:
            raise DrillRefused(f"process {self.process_id} cannot be signalled: {error.strerror}") from error
        if self.step is DrillStepType.FREEZE:
            self._thaw = threading.Timer(self.duration_ms / 1000, self._let_go)
            self._thaw.daemon = True
            self._thaw.start()
        return Fallen(at_s)

    def _let_go(self) -> None:
        with contextlib.suppress(OSError):
            os.kill(self.process_id, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._thaw is not None:
            self._thaw.cancel()
            self._let_go()


def check_process(process_id: int, leader: KnownMaster) -> None:
    """Check that a process is the leader's: it listens where the leader says that it answers reads.

    Raises:
        DrillRefused: it does not, or cannot be looked at.

    """
    port = leader.presence.query_address.rpartition(":")[2]
    try:
        listening = psutil.Process(process_id).net_connections(kind="tcp")
    except psutil.NoSuchProcess as error:
        raise DrillRefused(f"there is no process {process_id} on this host") from error
    except psutil.Error as error:
        raise DrillRefused(f"process {process_id} cannot be looked at: {error}") from error
    if not any(c.status == psutil.CONN_LISTEN and str(c.laddr.port) == port for c in listening):
        raise DrillRefused(
            f"process {process_id} is not the leader {leader.master_id}: it does not listen on port {port}, "
            f"where that one answers ({leader.presence.query_address})"
        )
