"""The inbox of a master: records of the inbound topics that wait to be decided, in offset order, within bounds.

Whoever fills it asks `is_full` and stops reading that partition until `has_room`: Kafka keeps the rest (L3).
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
    """The waiting records of one partition."""

    capacity: int
    records: deque[InboundRecord] = field(default_factory=deque)
    byte_count: int = 0
    last_offset: int = -1

    def put(self, record: InboundRecord) -> None:
        """Take a record; one that came before is a redelivery."""
        if record.offset <= self.last_offset:
            return
        self.last_offset = record.offset
        self.records.append(record)
        self.byte_count += len(record)

    def head_from(self, next_offset: int) -> InboundRecord | None:
        """Return the first record that the cursor has not passed; those before it are dropped."""
        while self.records:
            if self.records[0].offset >= next_offset:
                return self.records[0]
            self.byte_count -= len(self.records.popleft())
        return None

    @property
    def is_full(self) -> bool:
        """Tell whether reading has to pause."""
        return len(self.records) >= self.capacity or self.byte_count >= MAX_BYTES

    @property
    def has_room(self) -> bool:
        """Tell whether reading may go on."""
        return 2 * len(self.records) <= self.capacity and 2 * self.byte_count <= MAX_BYTES
