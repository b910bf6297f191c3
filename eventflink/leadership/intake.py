"""What waits at a master: the sans-I/O half of its tail, which outlives the terms that it feeds, and what shows that a leader stalls.

Every record that a tail reads is handed in here. The log waits in a queue, and inputs in the inbox of their topic, from the first that no
accepted decision answers; a full inbox pauses its topic, and Kafka keeps the rest (L3). Heartbeats and what masters tell each other go to
the participant of the present term; between two terms heartbeats go to nobody, and the last of what masters said waits for the next one.

A record that was decided stays in its inbox until its decision was accepted: a leadership may end before, and then it is decided again
(P6). So a master that was deposed, or never led, begins to decide from memory. A standby sees here since when an input waits that the
leader does not decide, and that records of the log do not arrive (L1).
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from eventflink.events.schemas import MARKER
from eventflink.events.topics import INBOUND, Topic
from eventflink.leadership.fold import Fold, LogBehind
from eventflink.leadership.log_lines import one_line
from eventflink.model.texts import is_told

_logger = logging.getLogger(__name__)

MAX_BYTES: Final = 32 * 1024 * 1024
"""Of the records that an inbox holds."""

MAX_QUEUED_RECORDS: Final = 200_000
"""Records of the log that may wait while the state is rebuilt; beyond, a new tail is opened behind the rebuilt state."""

MAX_QUEUED_BYTES: Final = 256 * 1024 * 1024
"""What they may have: as much as 200,000 records of 1.3 KiB, or 512 of the largest decisions (P10a). Beyond, the same is done."""

HEARD_BACK_RECORDS: Final = 64
"""So many records of `leadership` before its end a tail reads as well: the last leader's resignation or death may be among them (L2a)."""

BEHIND_LEASES: Final = 10
"""A standby to which nothing of the log comes for so long, although the leader has read more of it, ends its term."""


@dataclass(slots=True)
class InboundRecord:
    """One record of an inbound topic, not decoded yet."""

    topic: str
    offset: int
    key: bytes | None
    value: bytes | None
    rebound_count: int = 0
    """How often the cursor of the topic was bound anew before this record was read."""

    def __len__(self) -> int:
        """Return what it weighs in bytes."""
        return len(self.value or b"") + len(self.key or b"")

    @property
    def name(self) -> str:
        """Return what it is called where it is suspected (P10)."""
        return f"{self.topic}@{self.offset}"


@dataclass(slots=True)
class PartitionInbox:
    """The records of one partition: those that wait, and before them those that were decided and are not accepted yet."""

    capacity: int
    waiting: deque[InboundRecord] = field(default_factory=deque)
    decided: deque[InboundRecord] = field(default_factory=deque)
    byte_count: int = 0
    last_offset: int = -1
    next_offset: int = 0
    """Everything before it was answered by accepted decisions; such a record would fill the inbox, and nothing would take it out."""

    def enqueue(self, record: InboundRecord) -> None:
        """Take a record; one that came before is a redelivery, and one that was answered before it came is done."""
        if record.offset <= self.last_offset:
            return
        self.last_offset = record.offset
        if record.offset < self.next_offset:
            return
        self.waiting.append(record)
        self.byte_count += len(record)

    def head_from(self, next_offset: int) -> InboundRecord | None:
        """Return the first record that the cursor has not passed; those before it are held for decided."""
        while self.waiting:
            if self.waiting[0].offset >= next_offset:
                return self.waiting[0]
            self.decided.append(self.waiting.popleft())
        return None

    def accepted(self, next_offset: int) -> None:
        """Drop the records that an accepted decision answers."""
        self.next_offset = max(self.next_offset, next_offset)
        for records in (self.decided, self.waiting):
            while records and records[0].offset < next_offset:
                self.byte_count -= len(records.popleft())

    def rewind(self) -> None:
        """Let everything wait again: the decisions that were not accepted are void."""
        self.waiting.extendleft(reversed(self.decided))
        self.decided.clear()

    @property
    def last_waiting_offset(self) -> int:
        """The offset of the newest record that waits; -1: none does."""
        return self.waiting[-1].offset if self.waiting else -1

    @property
    def is_full(self) -> bool:
        """Tell whether reading has to pause."""
        return len(self.waiting) + len(self.decided) >= self.capacity or self.byte_count >= MAX_BYTES

    @property
    def has_room(self) -> bool:
        """Tell whether reading may be resumed."""
        return 2 * (len(self.waiting) + len(self.decided)) <= self.capacity and 2 * self.byte_count <= MAX_BYTES


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
    is_rewound: bool = False
    """It ends before its cursor, and an operator said that the cursor is to be bound to its end (P9)."""


class Listener(Protocol):
    """Takes the records that count only when they arrive."""

    @property
    def decides(self) -> bool:
        """Whether inputs are decided by this master now."""

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
    """Records of the log that wait to be folded: offset, Kafka's timestamp, value; of one that no master wrote (P3b) the offset will do."""
    log_bytes: int = 0
    """What they have."""
    is_paused: set[Topic] = field(default_factory=set)
    listener: Listener | None = None
    """The participant of the present term."""
    said: deque[tuple[int, bytes | None]] = field(default_factory=lambda: deque(maxlen=HEARD_BACK_RECORDS))
    """The last records of `leadership` that came between two terms: offset, value."""
    _unreadable: int = 0
    _has_overflowed: bool = False
    _has_had_term: bool = False

    def __post_init__(self) -> None:
        self.inboxes = {str(topic): PartitionInbox(self.capacity) for topic in INBOUND}

    def on_record(self, topic: Topic, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None, now_ms: int) -> bool:
        """Take one record; tell whether a turn may have something to do for it."""
        if topic is Topic.LOG:
            self._has_overflowed = self._has_overflowed or len(self.log) >= MAX_QUEUED_RECORDS or self.log_bytes >= MAX_QUEUED_BYTES
            if self._has_overflowed:
                return False
            kept = value if value is not None and value.startswith(MARKER) else b""
            self.log.append((offset, timestamp_ms, kept))
            self.log_bytes += len(kept)
            return True
        if topic is Topic.HEARTBEATS:
            if self.listener is not None:
                self.listener.on_heartbeat(value, now_ms)
            return False
        if topic is Topic.LEADERSHIP:
            self.said.append((offset, value))
            self._hear(now_ms)
            # A resignation, or the own presence, may have made it time to campaign.
            return self.listener is not None and not self.listener.decides
        self.enqueue(InboundRecord(str(topic), offset, key, value))
        return self.listener is not None and self.listener.decides  # A standby only holds it.

    def take_log_record(self) -> tuple[int, int, bytes]:
        """Take out the first record of the log that waits."""
        record = self.log.popleft()
        self.log_bytes -= len(record[2])
        return record

    def listen(self, listener: Listener, now_ms: int) -> None:
        """Hand the records that count only when they arrive to the participant of a term that begins, and what masters said before it."""
        self.listener = listener
        self._hear(now_ms)

    def _hear(self, now_ms: int) -> None:
        while self.listener is not None and self.said:
            offset, value = self.said.popleft()
            if error := self.listener.on_leadership(value, now_ms):
                self._unreadable += 1
                if is_told(self._unreadable):
                    _logger.warning("LeadershipRecordUnreadable offset=%d count=%d error=%s", offset, self._unreadable, one_line(error))

    def enqueue(self, record: InboundRecord) -> None:
        """Take a record of an inbound topic."""
        inbox, topic = self.inboxes[record.topic], Topic(record.topic)
        inbox.enqueue(record)
        if inbox.is_full and topic not in self.is_paused:
            self._pause(topic)

    def take_rewound(self) -> set[str]:
        """Return the topics whose cursors are to be bound to their ends; in the first term of a tail alone: a later one finds it done.

        A tail has a second term only where its first one led and was deposed. By then its own decision, or that of its successor, who was
        told the same, has bound them.
        """
        is_first, self._has_had_term = not self._has_had_term, True
        return {topic for topic, found in self.topics.items() if found.is_rewound} if is_first else set()

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
        for topic in INBOUND:  # In an order of its own: that of a set differs from process to process.
            if topic in self.is_paused and self.inboxes[topic].has_room:
                self._resume(topic)

    def check(self) -> None:
        """Raise `TailFailed` if records of the log were left out."""
        if self._has_overflowed:
            limit = f"{MAX_QUEUED_RECORDS} records, or {MAX_QUEUED_BYTES} bytes,"
            raise TailFailed(f"more than {limit} of the log arrived while the state was rebuilt")

    def _pause(self, topic: Topic) -> None:
        self.is_paused.add(topic)
        self.pause(topic)

    def _resume(self, topic: Topic) -> None:
        self.is_paused.discard(topic)
        self.resume(topic)


@dataclass(slots=True)
class _Stall:
    next_offset: int
    since_ms: int


@dataclass(slots=True)
class Stalls:
    """What is stalled for one standby, and since when."""

    fold: Fold
    intake: Intake
    lease_timeout_ms: int
    leader_log_offset: int = -1
    """The last record of the log that the leader says to have read."""
    _stuck: dict[str, _Stall] = field(default_factory=dict)
    """By topic, since when the cursor has not moved although an input waits."""
    _behind: _Stall | None = None

    def new_leader(self) -> None:
        """Give a new leader time of its own to move the cursors."""
        self._stuck.clear()

    def check_progress(self, now_ms: int) -> None:
        """End the term of a standby that does not reach the offset that the leader says to have read.

        A hole is noticed by the record behind it, and behind the last record there is none: without this, a standby that missed the last
        one would not notice until the next is written.

        Raises:
            LogBehind: nothing of the log came for as long as `BEHIND_LEASES`, and something is there.

        """
        last_offset = self.fold.last_offset
        if self.leader_log_offset <= last_offset:
            self._behind = None
        elif self._behind is None or self._behind.next_offset != last_offset + 1:
            self._behind = _Stall(last_offset + 1, now_ms)
        elif now_ms - self._behind.since_ms >= BEHIND_LEASES * self.lease_timeout_ms:
            raise LogBehind(
                f"the leader has read log@{self.leader_log_offset}, and nothing came here behind log@{last_offset} "
                f"for {now_ms - self._behind.since_ms} ms"
            )

    def stuck_since(self, now_ms: int) -> int | None:
        """Return since when some input waits that the leader does not decide; only a standby at the end of the log can tell."""
        if self.leader_log_offset > self.fold.last_offset:
            self._stuck.clear()
            return None
        for topic, cursor in self.fold.master.requests.cursors.items():
            waits = self.intake.inboxes[topic].last_waiting_offset >= cursor.next_offset
            before = self._stuck.get(topic)
            if not waits:
                self._stuck.pop(topic, None)
            elif before is None or before.next_offset != cursor.next_offset:
                self._stuck[topic] = _Stall(cursor.next_offset, now_ms)
        return min((s.since_ms for s in self._stuck.values()), default=None)
