"""The reading half of a simulated master, as `entrypoint/tail.py` is of a real one: it outlives terms, and only enqueues."""

from collections import deque
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from eventflink.events.topics import INBOUND, Topic
from eventflink.leadership.fold import Fold
from eventflink.leadership.inbox import InboundRecord, PartitionInbox
from eventflink.leadership.participant import InboundTopic
from eventflink.simulation.broker import Broker, BrokerRecord, Link
from eventflink.simulation.consumer import SimulatedConsumer
from eventflink.simulation.process import Process

if TYPE_CHECKING:
    from eventflink.simulation.master_host import MasterHost


class SimulatedTail:
    """All topics that a master reads."""

    def __init__(self, host: "MasterHost", broker: Broker, process: Process, link: Link, rng: Random, inbox_size: int, fold: Fold) -> None:
        """Begin to read: the log behind the fold, the inputs at its cursors, beats at their end."""
        self._host = host
        self.inboxes = {str(topic): PartitionInbox(inbox_size) for topic in INBOUND}
        self.topics = {str(topic): InboundTopic(f"id-of-{topic}", broker.partition(topic).low_offset) for topic in INBOUND}
        self.log: deque[tuple[int, int, bytes]] = deque()
        self.consumers: dict[Topic, SimulatedConsumer] = {}
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
        participant = self._host.participant
        if topic is Topic.LOG:
            self.log.append((record.offset, record.timestamp_ms, record.value or b""))
        elif topic is Topic.HEARTBEATS:
            if participant is not None:
                participant.on_heartbeat(record.value, self._host.clock.monotonic_ms())
            return
        elif topic is Topic.LEADERSHIP:
            if participant is not None:
                participant.on_leadership(record.value, self._host.clock.monotonic_ms())
            return
        else:
            inbound = InboundRecord(str(topic), record.offset, record.timestamp_ms, record.key, record.value)
            if participant is not None:
                participant.on_inbound(inbound)
            else:
                self.inboxes[topic].put(inbound)
        self._host.schedule()
