"""The inbox of a master: records of the inbound topics, from the first that no accepted decision answers, within bounds.

A record that was decided stays until its decision was accepted: a leadership may end before, and then it is decided again
(P6). So a master that was deposed, or never led, begins to decide from memory. The intake asks `is_full` and stops
reading that partition until `has_room`: Kafka keeps the rest (L3).
"""

from collections import deque
from dataclasses import dataclass, field

MAX_BYTES = 32 * 1024 * 1024


@dataclass(slots=True)
class InboundRecord:
    """One record of an inbound topic, not decoded yet."""

    topic: str
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None

    def __len__(self) -> int:
        """Return what it weighs in bytes."""
        return len(self.value or b"") + len(self.key or b"")


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

    def put(self, record: InboundRecord) -> None:
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
