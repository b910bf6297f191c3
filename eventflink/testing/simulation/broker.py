"""The simulated broker: partitions that keep what was appended until they are truncated, and the links that machines have to it.

A link can be cut for single topics, for each direction by itself: partitions have different leaders, and connections break one by one.
Producers and consumers are in modules of their own; here is what they share.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from eventflink.events.seal import NO_SEALS, Seals
from eventflink.events.topics import SPECIFICATIONS, Topic
from eventflink.leadership.offset_gaps import Stretch
from eventflink.testing.simulation.broker_clocks import BrokerClocks
from eventflink.testing.simulation.scheduler import MILLISECOND, Call, Scheduler

_USUAL_LATENCY_US: Final = 2 * MILLISECOND
_ODD_LATENCY_US: Final = 150 * MILLISECOND
_ODD_SHARE: Final = 0.01
_SLOW_LATENCY_US: Final = 600 * MILLISECOND
STALL_SHARE: Final = 0.004
"""Of the requests that producers send: how many are stuck on their way for up to seconds, longer than their producers wait."""

DUPLICATE_SHARE: Final = 0.002
"""Of the records that idempotent producers append: how many are appended twice all the same."""


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """One record of a partition, stamped by the broker."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    is_marker: bool = False
    """Whether it is where a transaction ended: no consumer is given it."""


@dataclass(slots=True)
class Partition:
    """One partition: dense, and kept for ever unless it is trimmed or truncated."""

    topic: Topic
    records: list[BrokerRecord] = field(default_factory=list)
    listeners: list[Call] = field(default_factory=list)
    low_offset: int = 0

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return len(self.records)

    def truncate(self, end_offset: int) -> None:
        """Lose the records from this offset on, as a broker does whose disk lost what was not flushed; readers notice."""
        del self.records[end_offset:]
        for listener in list(self.listeners):
            listener()

    def stretch(self, first_offset: int) -> Stretch:
        """Answer who asks what is there from this offset on; of what was trimmed nobody can tell whether it was there."""
        if first_offset < self.low_offset:
            return Stretch(first_offset, first_offset, frozenset())
        present = (record.offset for record in self.records[first_offset:] if not record.is_marker)
        return Stretch(first_offset, self.end_offset, frozenset(present))

    def read(self, first_offset: int, count: int) -> list[BrokerRecord]:
        """Return at most so many records from this offset on; none that was trimmed."""
        return self.records[max(first_offset, self.low_offset) : first_offset + count]


class Broker:
    """All partitions of a cluster."""

    def __init__(
        self, scheduler: Scheduler, rng: Random, clocks: BrokerClocks, seals: Seals = NO_SEALS, deployment_partitions: int = 4
    ) -> None:
        self.scheduler = scheduler
        self.seals = seals
        """What masters and TaskExecutors seal their records with."""
        self._rng = rng
        self._clocks = clocks
        counts = {topic: each.partitions for topic, each in SPECIFICATIONS.items()} | {Topic.DEPLOYMENTS: deployment_partitions}
        self._partitions = {(topic, n): Partition(topic) for topic, count in counts.items() for n in range(count)}
        self.slow_until_us = 0
        self.stall_share = STALL_SHARE
        self.duplicate_share = DUPLICATE_SHARE
        self.on_log_record: Callable[[BrokerRecord], None] = _ignore
        self.on_heartbeat: Callable[[BrokerRecord], None] = _ignore

    def partition(self, topic: Topic, number: int = 0) -> Partition:
        """Return a partition."""
        return self._partitions[topic, number]

    def count_partitions(self, topic: Topic) -> int:
        """Return how many partitions a topic has."""
        return sum(of is topic for of, _ in self._partitions)

    def grow(self, topic: Topic, partitions: int) -> None:
        """Add partitions to a topic until it has so many."""
        for number in range(self.count_partitions(topic), partitions):
            self._partitions[topic, number] = Partition(topic)

    def append(self, topic: Topic, number: int, key: bytes | None, value: bytes | None, *, is_marker: bool = False) -> int:
        """Append a record, and let those who read the partition know; return its timestamp."""
        partition = self._partitions[topic, number]
        record = BrokerRecord(partition.end_offset, self._clocks.stamp_ms(topic, number), key, value, is_marker)
        partition.records.append(record)
        if topic is Topic.LOG:
            self.on_log_record(record)
        elif topic is Topic.HEARTBEATS:
            self.on_heartbeat(record)
        for listener in partition.listeners:
            listener()
        return record.timestamp_ms

    def latency_us(self) -> int:
        """Return how long one way to the broker takes this time."""
        rng = self._rng
        if self.scheduler.now_us < self.slow_until_us:
            return int(_SLOW_LATENCY_US * rng.random())
        longest_us = _ODD_LATENCY_US if rng.random() < _ODD_SHARE else _USUAL_LATENCY_US
        return int(longest_us * rng.random()) + 200


@dataclass(slots=True)
class Link:
    """The connections of one machine to the broker."""

    sends_cut: dict[Topic, int] = field(default_factory=dict)
    """How many cuts hold each topic's records up on their way to the broker."""
    receives_cut: dict[Topic, int] = field(default_factory=dict)
    stalled_until_us: int = 0
    """Until then what is sent stays on its way: nothing is lost, and all of it is late."""
    on_heal: list[Call] = field(default_factory=list)

    def can_send(self, topic: Topic) -> bool:
        """Tell whether records of the topic reach the broker."""
        return not self.sends_cut.get(topic)

    def can_receive(self, topic: Topic) -> bool:
        """Tell whether records of the topic reach the machine."""
        return not self.receives_cut.get(topic)

    @property
    def is_cut_off(self) -> bool:
        """Whether nothing reaches any broker, or nothing comes back."""
        return all(map(self.sends_cut.get, Topic)) or all(map(self.receives_cut.get, Topic))

    def cut(self, sends: Iterable[Topic], receives: Iterable[Topic]) -> Call:
        """Cut these; return what undoes it."""
        cuts = [(self.sends_cut, tuple(sends)), (self.receives_cut, tuple(receives))]
        for counts, topics in cuts:
            for topic in topics:
                counts[topic] = counts.get(topic, 0) + 1

        def heal() -> None:
            for counts, topics in cuts:
                for topic in topics:
                    counts[topic] -= 1
            for call in list(self.on_heal):
                call()

        return heal


def _ignore(_record: BrokerRecord) -> None:
    """Take no note."""
