"""The reading half of a simulated master, as `entrypoint/tail.py` is of a real one: its records go to an `Intake`."""

from collections.abc import Callable
from functools import partial
from random import Random

from eventflink.events.topics import INBOUND, Topic
from eventflink.lab.simulation.broker import Broker, BrokerRecord, Link
from eventflink.lab.simulation.consumer import SimulatedConsumer
from eventflink.lab.simulation.process import Process
from eventflink.leadership.fold import Fold
from eventflink.leadership.intake import InboundTopic, Intake


class SimulatedTail:
    """All topics that a master reads."""

    def __init__(
        self, broker: Broker, process: Process, link: Link, rng: Random, inbox_size: int, fold: Fold, on_progress: Callable[[], None]
    ) -> None:
        """Begin to read: the log behind the fold, the inputs at its cursors, heartbeats at their end."""
        self._clock = process.clock
        self._on_progress = on_progress
        topics = {str(topic): InboundTopic(f"id-of-{topic}", broker.partition(topic).low_offset) for topic in INBOUND}
        self.consumers: dict[Topic, SimulatedConsumer] = {}
        self.intake = Intake(topics, inbox_size, lambda topic: self.consumers[topic].pause(), lambda topic: self.consumers[topic].resume())
        cursors = fold.master.requests.cursors
        positions = {Topic.LOG: fold.last_offset + 1}
        positions |= {topic: broker.partition(topic).end_offset for topic in (Topic.HEARTBEATS, Topic.LEADERSHIP)}
        positions |= {topic: cursors[topic].next_offset if topic in cursors else broker.partition(topic).low_offset for topic in INBOUND}
        for topic, position in positions.items():
            on_record = partial(self._on_record, topic)
            self.consumers[topic] = SimulatedConsumer(broker, process, link, rng, topic, position, on_record)

    def close(self) -> None:
        """Read nothing more."""
        for consumer in self.consumers.values():
            consumer.close()

    def _on_record(self, topic: Topic, record: BrokerRecord) -> None:
        now_ms = self._clock.monotonic_ms()
        if self.intake.on_record(topic, record.offset, record.timestamp_ms, record.key, record.value, now_ms):
            self._on_progress()
