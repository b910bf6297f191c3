"""What a master has read and not taken yet: the sans-I/O half of its tail, which outlives the terms that it feeds.

Every record that a tail reads is handed in here. The log waits in a queue and inputs in their inboxes, of which a full one pauses its
topic (L3); heartbeats and what masters tell each other go to the participant of the present term, or to nobody.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from eventflink.events.topics import INBOUND, Topic
from eventflink.leadership.inbox import InboundRecord, PartitionInbox
from eventflink.leadership.log_lines import one_line

_logger = logging.getLogger(__name__)

MAX_QUEUED_RECORDS: Final = 200_000
"""Records of the log that may wait while the state is rebuilt; beyond, a new tail is opened behind the rebuilt state."""


class TopicReplaced(Exception):
    """An inbound topic is not the one that its cursor was bound to (P9)."""


class TailFailed(Exception):
    """Nothing can be read through this tail any more."""


@dataclass(frozen=True, slots=True)
class InboundTopic:
    """What a master found when it began to read an inbound topic."""

    topic_id: str
    low_offset: int
    high_offset: int = 0
    """Behind the last record that was there."""
    is_rebound: bool = False
    """An operator said that the cursor is to be bound to this topic, from its first record on (P9)."""


class Listener(Protocol):
    """Takes the records that count only when they arrive."""

    def on_heartbeat(self, value: bytes | None, now_ms: int) -> None:
        """Take a record of `heartbeats`."""

    def on_leadership(self, value: bytes | None, now_ms: int) -> str:
        """Take a record of `leadership`; return why it cannot be read, or nothing."""


@dataclass(slots=True)
class Intake:
    """The records of one tail. `pause` and `resume` stop and continue the reading of an inbound topic; neither waits."""

    topics: Mapping[str, InboundTopic]
    capacity: int
    """Records that an inbox holds at most."""
    pause: Callable[[Topic], None]
    resume: Callable[[Topic], None]
    inboxes: dict[str, PartitionInbox] = field(init=False)
    log: deque[tuple[int, int, bytes]] = field(default_factory=deque)
    """Records of the log that wait to be folded: offset, Kafka's timestamp, value."""
    is_paused: set[Topic] = field(default_factory=set)
    listener: Listener | None = None
    """The participant of the present term."""
    _has_overflowed: bool = False

    def __post_init__(self) -> None:
        """Begin with empty inboxes."""
        self.inboxes = {str(topic): PartitionInbox(self.capacity) for topic in INBOUND}

    def on_record(self, topic: Topic, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None, now_ms: int) -> bool:
        """Take one record; tell whether a turn may have something to do for it."""
        if topic is Topic.LOG:
            if len(self.log) >= MAX_QUEUED_RECORDS:
                self._has_overflowed = True
                return False
            self.log.append((offset, timestamp_ms, value or b""))
            return True
        if topic is Topic.HEARTBEATS:
            if self.listener is not None:
                self.listener.on_heartbeat(value, now_ms)
            return False
        if topic is Topic.LEADERSHIP:
            if self.listener is not None and (error := self.listener.on_leadership(value, now_ms)):
                _logger.warning("LeadershipRecordUnreadable offset=%d error=%s", offset, one_line(error))
            return False
        self.put(InboundRecord(str(topic), offset, timestamp_ms, key, value))
        return True

    def put(self, record: InboundRecord) -> None:
        """Take a record of an inbound topic."""
        inbox, topic = self.inboxes[record.topic], Topic(record.topic)
        inbox.put(record)
        if inbox.is_full and topic not in self.is_paused:
            self._pause(topic)

    def rewind(self, topic: Topic, next_offset: int | None) -> None:
        """Let everything of a topic wait again that is not before its cursor, and read on if there is room: a term begins.

        What the term before decided and did not see accepted is void (P6).
        """
        inbox = self.inboxes[topic]
        inbox.rewind()
        if next_offset is not None:
            inbox.accepted(next_offset)
        if inbox.is_full:
            self._pause(topic)
        else:
            self._resume(topic)

    def resume_what_has_room(self) -> None:
        """Read on where an inbox was full and is half empty now."""
        for topic in [t for t in self.is_paused if self.inboxes[t].has_room]:
            self._resume(topic)

    def check(self) -> None:
        """Raise `TailFailed` if records of the log were left out."""
        if self._has_overflowed:
            raise TailFailed(f"more than {MAX_QUEUED_RECORDS} records of the log arrived while the state was rebuilt")

    def _pause(self, topic: Topic) -> None:
        self.is_paused.add(topic)
        self.pause(topic)

    def _resume(self, topic: Topic) -> None:
        self.is_paused.discard(topic)
        self.resume(topic)
