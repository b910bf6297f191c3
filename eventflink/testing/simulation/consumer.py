"""A consumer of one partition, by assignment: in order, in batches, late at times; it can be set back, and it can lose records.

Setting it back is what a lost session does, and the reader has to know a redelivery; a hole is what must not be, and the reader of the
log has to notice it. By the real rule it tells a hole from an offset that has no record. Where a partition ends before its position, it
fails, as one without a reset policy does.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from eventflink.events.topics import INBOUND, Topic
from eventflink.leadership.fold import Fold
from eventflink.leadership.intake import HEARD_BACK_RECORDS, InboundTopic, Intake
from eventflink.leadership.known_log import place_inbound
from eventflink.leadership.offset_gaps import OffsetGaps
from eventflink.testing.simulation.broker import Broker, BrokerRecord, Link
from eventflink.testing.simulation.process import Process

_LARGEST_BATCH: Final = 64


class SimulatedConsumer:
    """Reads one partition for one process."""

    def __init__(
        self,
        broker: Broker,
        process: Process,
        link: Link,
        rng: Random,
        topic: Topic,
        position: int,
        on_record: Callable[[BrokerRecord], None],
        partition: int = 0,
    ) -> None:
        self._broker = broker
        self._process = process
        self._link = link
        self._rng = rng
        self._topic = topic
        self._partition = broker.partition(topic, partition)
        self._on_record = on_record
        self._gaps = OffsetGaps(position, self._partition.stretch) if topic is Topic.LOG else None
        self._is_scheduled = False
        self._is_closed = False
        self.position = position
        self.is_paused = False
        self.loses_next = False
        self.failure = ""
        """Why nothing more comes; empty while something may."""
        self._partition.listeners.append(self.poke)
        link.on_heal.append(self.poke)
        self.poke()

    def poke(self) -> None:
        """Fetch soon, if there is something and it may be read."""
        if self._is_scheduled or self._is_closed or self.is_paused or self.position == self._partition.end_offset:
            return
        self._is_scheduled = True
        self._broker.scheduler.after(self._broker.latency_us(), self._arrive)

    def pause(self) -> None:
        """Fetch nothing more."""
        self.is_paused = True

    def resume(self) -> None:
        """Fetch again."""
        self.is_paused = False
        self.poke()

    def close(self) -> None:
        """End."""
        self._is_closed = True
        if self.poke in self._partition.listeners:
            self._partition.listeners.remove(self.poke)
        if self.poke in self._link.on_heal:
            self._link.on_heal.remove(self.poke)

    def _arrive(self) -> None:
        self._is_scheduled = False
        if not self._process.is_alive:
            self.close()
        elif self._link.can_receive(self._topic):
            self._process.deliver(self._fetch)

    def _fetch(self) -> None:
        if self._is_closed or self.is_paused:
            return
        if self.position > self._partition.end_offset:
            self.failure = f"{self._topic}: the offset {self.position} is out of range"
            self.close()
            return
        count = 1 + int(self._rng.random() * _LARGEST_BATCH)
        for record in self._partition.read(self.position, count):
            self.position = record.offset + 1
            if record.is_marker:
                continue
            if self.loses_next:
                self.loses_next = False
                continue
            self._fill(record.offset)
            self._on_record(record)
            if self._gaps is not None:
                self._gaps.give(record.offset)
            if self._is_closed or self.is_paused:
                return
        self._fill(self.position)
        self.poke()

    def _fill(self, offset: int) -> None:
        """Hand on an empty record for each offset up to this one that has none, as the reader of a real log does."""
        for empty in self._gaps.before(offset) if self._gaps is not None else ():
            self._on_record(BrokerRecord(empty, 0, None, None))


class SimulatedTail:
    """All topics that a master reads, as `entrypoint/tail.py` does for a real one: their records go to an `Intake`."""

    def __init__(
        self, broker: Broker, process: Process, link: Link, rng: Random, inbox_size: int, fold: Fold, on_progress: Callable[[], None]
    ) -> None:
        """Begin to read: the log behind the fold, the inputs at its cursors, heartbeats at their end, `leadership` a little before.

        Raises:
            LogTruncated: an inbound topic ends before its cursor.

        """
        self._clock = process.clock
        self._on_progress = on_progress
        cursors, topics = fold.master.requests.cursors, {}
        positions: dict[Topic, int] = {Topic.LOG: fold.last_offset + 1}
        for topic in INBOUND:
            partition = broker.partition(topic)
            found = InboundTopic(f"id-of-{topic}", partition.low_offset, partition.end_offset)
            topics[str(topic)], positions[topic] = place_inbound(topic, cursors.get(topic), found, may_rebind=False)
        self.consumers: dict[Topic, SimulatedConsumer] = {}
        self.intake = Intake(topics, inbox_size, lambda topic: self.consumers[topic].pause(), lambda topic: self.consumers[topic].resume())
        said = broker.partition(Topic.LEADERSHIP)
        positions[Topic.LEADERSHIP] = max(said.low_offset, said.end_offset - HEARD_BACK_RECORDS)
        positions[Topic.HEARTBEATS] = broker.partition(Topic.HEARTBEATS).end_offset
        for topic, position in positions.items():
            on_record = partial(self._on_record, topic)
            self.consumers[topic] = SimulatedConsumer(broker, process, link, rng, topic, position, on_record)

    @property
    def failure(self) -> str:
        """Why nothing more is to be expected; empty while it is."""
        return next((consumer.failure for consumer in self.consumers.values() if consumer.failure), "")

    def close(self) -> None:
        """Read nothing more."""
        for consumer in self.consumers.values():
            consumer.close()

    def _on_record(self, topic: Topic, record: BrokerRecord) -> None:
        now_ms = self._clock.monotonic_ms()
        if self.intake.on_record(topic, record.offset, record.timestamp_ms, record.key, record.value, now_ms):
            self._on_progress()
