"""Following the log from a decision that is known to be accepted, for callers who want to see what becomes of a request.

Nothing is folded here: a follower tells only which decisions count (P1) and that none is missing (P3). Who needs state
replays the log from its beginning.
"""

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Self

from confluent_kafka import Message

from eventflink.events.codec import UndecodableRecord
from eventflink.events.decision import Decision
from eventflink.events.log_events import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointTriggered,
    FileUploaded,
    FileUploadRequested,
    LogEvent,
    TaskManagerFileUploadRequested,
)
from eventflink.events.topics import Topic
from eventflink.gateways.deadline import NEVER, Deadline
from eventflink.gateways.errors import LogUnreadable
from eventflink.gateways.kafka_clients import DEFAULT_CONNECT_TIMEOUT_S, PartitionReader
from eventflink.gateways.request_channel import Accepted
from eventflink.leadership.acceptance import Acceptance, LogNotDense, check_density, is_grant
from eventflink.log.replay import log_codec
from eventflink.model.cluster_access import ClusterAccess

_POLL_S: Final = 0.25
_FIRST_TIMEOUT_S: Final = 10.0


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
    `Accepted.log_offset` names. Who has folded the log up to the offset gives the `acceptance` where the fold stands. `at_the_beginning`
    stands at the first record that is kept: of a trimmed log that may be one that was rejected, which shows when the leader's next comes.
    """

    def __init__(
        self,
        access: ClusterAccess,
        from_offset: int,
        *,
        acceptance: Acceptance | None = None,
        connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S,
    ) -> None:
        """Connect and stand at the offset; raises as `PartitionReader` does."""
        self._codec = log_codec(access)
        self._acceptance = Acceptance() if from_offset == 0 else copy.copy(acceptance)
        self.is_trimmed = False
        """Whether it began at the first record of a log that has lost earlier ones."""
        self._last_offset = from_offset - 1
        self._reader = PartitionReader(access, Topic.LOG, connect_timeout_s=connect_timeout_s)
        self._reader.seek(0, from_offset)

    @classmethod
    def at_the_beginning(cls, access: ClusterAccess, deadline: Deadline = NEVER) -> Self:
        """Stand at the first record that the log still has; raises as `PartitionReader` does."""
        most_s = DEFAULT_CONNECT_TIMEOUT_S
        with contextlib.closing(PartitionReader(access, Topic.LOG, connect_timeout_s=deadline.left_s(most_s))) as reader:
            first_offset = reader.offsets(0, deadline.left_s(most_s))[0]
        follower = cls(access, first_offset, connect_timeout_s=deadline.left_s(most_s))
        follower.is_trimmed = first_offset > 0
        return follower

    @property
    def next_offset(self) -> int:
        """Where it stands."""
        return self._last_offset + 1

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

    def accepted_events(self, timeout_s: float) -> Iterator[LogEvent]:
        """Yield the events of the accepted decisions that are there; waits and raises as `poll` does."""
        for logged in self.poll(timeout_s):
            yield from logged.decision.events if logged.accepted else ()

    def _take(self, message: Message) -> LoggedDecision | None:
        offset, value = message.offset() or 0, message.value() or b""
        try:
            if not check_density(self._last_offset, offset):
                return None
            if self._codec.is_foreign(offset, value):
                self._last_offset = offset
                return None
            decision = self._codec.decode(value)
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
        if self.is_trimmed and not accepted and not is_grant(decision):
            # Only who leads appends anything but grants in the newest epoch.
            known = self._acceptance
            accepted = epoch >= known.epoch and (epoch, leader_id) != (known.epoch, known.leader_id)
        if accepted:
            self._acceptance.advance(epoch, sequence, leader_id)
        return accepted

    def close(self) -> None:
        """Let the connections go."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def follow_request(
    access: ClusterAccess, accepted: Accepted, is_done: Callable[[LogEvent], bool], deadline: Deadline = NEVER
) -> LogFollower:
    """Return a follower that stands where an accepted request was done, or at the log's beginning; raises as `LogFollower` does.

    The answer to a repeated request stands behind the first one, and perhaps behind what followed from it: then no event of its
    decision `is_done`, and the log is to be read from the first record that it still has.
    """
    connect_timeout_s = deadline.left_s(DEFAULT_CONNECT_TIMEOUT_S)
    with LogFollower(access, accepted.log_offset, connect_timeout_s=connect_timeout_s) as follower:
        first = follower.poll(deadline.left_s(_FIRST_TIMEOUT_S))[:1]
        is_here = any(is_done(event) for logged in first for event in logged.decision.events)
    if is_here:
        return LogFollower(access, accepted.log_offset, connect_timeout_s=deadline.left_s(DEFAULT_CONNECT_TIMEOUT_S))
    return LogFollower.at_the_beginning(access, deadline)


class RequestTrimmed(LogUnreadable):
    """What became of a request is not in the log any more; a new one is answered."""

    def __init__(self, accepted: Accepted) -> None:
        super().__init__(f"request {accepted.request_id} was done before the first record that the log still has: send it under another id")


def await_upload(
    access: ClusterAccess, accepted: Accepted, timeout_s: float, *, stop: Callable[[], bool] = lambda: False
) -> FileUploaded | None:
    """Return what became of a file that a TaskExecutor was asked to upload, or None when the time is over.

    Raises:
        LogUnreadable, ClusterUnreachable: the log cannot be followed.
        RequestTrimmed: the answer repeats an earlier one, and what followed from that is not in the log any more.

    """
    deadline = Deadline.after(timeout_s)
    request_id = accepted.request_id

    def is_done(event: LogEvent) -> bool:
        return isinstance(event, FileUploadRequested | TaskManagerFileUploadRequested) and event.request_id == request_id

    was_seen = False
    with follow_request(access, accepted, is_done, deadline) as follower:
        while not deadline.is_over() and not stop():
            for event in follower.accepted_events(deadline.left_s(_POLL_S)):
                was_seen = was_seen or is_done(event)
                if isinstance(event, FileUploaded) and event.request_id == request_id:
                    return event
            if not was_seen and follower.next_offset > accepted.log_offset:
                raise RequestTrimmed(accepted)
    return None


def await_checkpoint(
    access: ClusterAccess, accepted: Accepted, timeout_s: float, *, stop: Callable[[], bool] = lambda: False
) -> CheckpointCompleted | CheckpointAborted | None:
    """Return how a checkpoint ended that was asked for, or None when the time is over.

    Raises:
        LogUnreadable, ClusterUnreachable: the log cannot be followed.
        RequestTrimmed: the answer repeats an earlier one, and what followed from that is not in the log any more.

    """
    deadline = Deadline.after(timeout_s)
    checkpoint: tuple[str, int] | None = None

    def is_done(event: LogEvent) -> bool:
        return isinstance(event, CheckpointTriggered) and event.request_id == accepted.request_id

    with follow_request(access, accepted, is_done, deadline) as follower:
        while not deadline.is_over() and not stop():
            for event in follower.accepted_events(deadline.left_s(_POLL_S)):
                if isinstance(event, CheckpointTriggered) and is_done(event):
                    checkpoint = (event.job_id, event.checkpoint_id)
                elif isinstance(event, CheckpointCompleted | CheckpointAborted) and (event.job_id, event.checkpoint_id) == checkpoint:
                    return event
            if checkpoint is None and follower.next_offset > accepted.log_offset:
                raise RequestTrimmed(accepted)
    return None
