"""Following the log from a decision that is known to be accepted, for callers who want to see what becomes of a request.

Nothing is folded here: a follower tells only which decisions count (P1) and that none is missing (P3). Who needs state
replays the log from its beginning.
"""

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Self

from confluent_kafka import Message

from eventflink.events.codec import DecisionCodec, UndecodableRecord
from eventflink.events.decision import Decision
from eventflink.events.topics import Topic
from eventflink.gateways.errors import GatewayError, LogUnreadable
from eventflink.gateways.kafka_clients import DEFAULT_CONNECT_TIMEOUT_S, PartitionReader
from eventflink.leadership.acceptance import Acceptance, LogNotDense, check_density, is_grant

_POLL_S: Final = 0.2


class FollowTimedOut(GatewayError):
    """The time that the caller gave is over."""


@dataclass(frozen=True, slots=True)
class LoggedDecision:
    """A decision and where it stands; one that is not accepted has no effect on anyone."""

    offset: int
    timestamp_ms: int
    decision: Decision
    accepted: bool


class LogFollower:
    """Reads the log from `from_offset` on. For one thread; close it, or use it as a context manager.

    Offset 0 begins with an empty state; the record at any other offset must be one that was accepted, such as the one that
    `Accepted.log_offset` names. Who has folded the log up to the offset gives the `acceptance` where the fold stands.
    """

    def __init__(
        self,
        bootstrap: str,
        cluster_id: str,
        from_offset: int,
        *,
        acceptance: Acceptance | None = None,
        connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S,
    ) -> None:
        """Connect and stand at the offset; raises as `PartitionReader` does."""
        self._codec = DecisionCodec()
        self._acceptance = Acceptance() if from_offset == 0 else copy.copy(acceptance)
        self._last_offset = from_offset - 1
        self._reader = PartitionReader(bootstrap, cluster_id, Topic.LOG, connect_timeout_s=connect_timeout_s)
        self._reader.seek(0, from_offset)

    def end_offset(self) -> int:
        """Return the offset that the next record of the log will get."""
        return self._reader.offsets(0)[1]

    def poll(self, timeout_s: float) -> list[LoggedDecision]:
        """Return the decisions that are there; wait up to `timeout_s` for the first.

        Raises:
            LogUnreadable: a record is missing or is not a decision.
            ClusterUnreachable: Kafka refuses for good.

        """
        decisions = (self._take(message) for message in self._reader.read(timeout_s))
        return [decision for decision in decisions if decision is not None]

    def _take(self, message: Message) -> LoggedDecision | None:
        offset = message.offset() or 0
        try:
            if not check_density(self._last_offset, offset):
                return None
            decision = self._codec.decode(message.value() or b"")
        except (LogNotDense, UndecodableRecord) as error:
            raise LogUnreadable(f"{self._reader.topic} offset {offset}: {error}") from error
        self._last_offset = offset
        return LoggedDecision(offset, message.timestamp()[1], decision, self._accept(decision))

    def _accept(self, decision: Decision) -> bool:
        epoch, sequence, leader_id = decision.epoch, decision.sequence, decision.leader_id
        if self._acceptance is None:
            self._acceptance = Acceptance(epoch, sequence, leader_id)
            return True
        accepted = self._acceptance.accepts(epoch, sequence, leader_id, grant=is_grant(decision))
        if accepted:
            self._acceptance.advance(epoch, sequence, leader_id)
        return accepted

    def close(self) -> None:
        """Let the connections go."""
        self._reader.close()

    def __enter__(self) -> Self:
        """Return the follower."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close it."""
        self.close()


def follow_log(
    bootstrap: str,
    cluster_id: str,
    from_offset: int,
    *,
    timeout_s: float | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[LoggedDecision]:
    """Yield every decision from `from_offset` on, as they come, until `stop` says so or the caller leaves.

    Raises:
        FollowTimedOut: `timeout_s` is over.
        LogUnreadable: a record is missing or is not a decision.
        ClusterUnreachable: Kafka does not answer.

    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    with LogFollower(bootstrap, cluster_id, from_offset) as follower:
        while not stop():
            yield from follower.poll(_POLL_S)
            if deadline is not None and time.monotonic() >= deadline:
                raise FollowTimedOut(f"the log was followed for {timeout_s:g} s")
