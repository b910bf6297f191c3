"""Making a leader crash, freeze or step down: by a command, obeyed only where drills are allowed, or by a signal to its process."""

import contextlib
import os
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

import psutil

from eventflink.drills import DrillRefused
from eventflink.drills.log_watch import DrillWatch
from eventflink.events.inputs import DrillStep
from eventflink.events.log_events import DrillStepOrdered, RequestRejected
from eventflink.gateways.errors import GatewayError
from eventflink.gateways.follow import LoggedDecision
from eventflink.gateways.reads import KnownMaster
from eventflink.gateways.request_channel import RequestChannel
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.statuses import DrillStepType

ORDER_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class LeadershipEnd:
    """When a leader was made to crash, freeze or step down."""

    at_s: float
    """The order was seen accepted, or the signal was sent; monotonic seconds."""
    offset: int | None = None
    """The accepted order in the log; None: it was a signal."""
    timestamp_ms: int | None = None
    """Kafka's, of the order."""


class Order(Protocol):
    """A way to end a leadership. Use it as a context manager: leaving it undoes what it may still hold."""

    def give(self, watch: DrillWatch) -> LeadershipEnd:
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

    access: ClusterAccess
    drill_id: str
    step: DrillStepType
    master_id: str
    duration_ms: int
    actor: str

    def give(self, watch: DrillWatch) -> LeadershipEnd:
        """Put the command where the leader reads it and wait for the decision: the log answers, for a leader that was killed cannot."""
        step = DrillStep(
            request_id=self.drill_id,
            actor=self.actor,
            drill_id=self.drill_id,
            step=self.step,
            master_id=self.master_id,
            duration_ms=self.duration_ms,
        )
        try:
            channel = RequestChannel(self.access)
            try:
                channel.tell(channel.encode(step, wants_reply=False), ORDER_TIMEOUT_S)
            finally:
                channel.close()
        except GatewayError as error:
            raise DrillRefused(f"the order was not delivered: {error}") from error
        seen = watch.wait_for(self._find, f"the leader's answer to the drill {self.drill_id}", ORDER_TIMEOUT_S)
        if isinstance(seen.found, RequestRejected):
            raise DrillRefused(f"{seen.found.message} ({seen.found.code})")
        return LeadershipEnd(seen.seen_s, seen.offset, seen.timestamp_ms)

    def _find(self, logged: LoggedDecision) -> DrillStepOrdered | RequestRejected | None:
        for event in logged.decision.events:
            if isinstance(event, DrillStepOrdered) and event.drill_id == self.drill_id:
                return event
            if isinstance(event, RequestRejected) and event.request_id == self.drill_id:
                return event
        return None

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

    def give(self, _watch: DrillWatch) -> LeadershipEnd:
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
        return LeadershipEnd(at_s)

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
