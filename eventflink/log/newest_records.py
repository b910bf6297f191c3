"""The newest records of a topic, for somebody who looks in: read once, bounded in number and in time."""

import time
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from eventflink.events.topics import Topic, topic_name
from eventflink.log.replay import consumer_settings, watermark_offsets

TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class RecordRead:
    """A record of Kafka."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def newest_records(bootstrap: str, cluster_id: str, topic: Topic, count: int, timeout_s: float = TIMEOUT_S) -> tuple[list[RecordRead], int]:
    """Return the newest `count` records of a topic's first partition, the newest first, and how many offsets it keeps in all.

    Raises:
        KafkaException: the broker cannot be reached, or has no such topic.

    """
    deadline = time.monotonic() + timeout_s
    consumer = Consumer(consumer_settings(bootstrap))
    try:
        partition = TopicPartition(topic_name(cluster_id, topic), 0)
        low, high = watermark_offsets(consumer, partition, timeout_s)
        partition.offset = max(low, high - count)
        found: list[RecordRead] = []
        if partition.offset < high:
            consumer.assign([partition])
        # The last offsets may be markers of transactions, which nobody is given: so it is the position that tells the end.
        while partition.offset < high and (left_s := deadline - time.monotonic()) > 0:
            message = consumer.poll(min(left_s, 0.2))
            if message is not None:
                error = message.error()
                if error is not None and not error.retriable():
                    raise KafkaException(error)
                if error is None:
                    found.append(RecordRead(message.offset() or 0, message.timestamp()[1], message.key(), message.value()))
            [position] = consumer.position([partition])
            partition.offset = max(partition.offset, position.offset)
        return found[::-1], high - low
    finally:
        consumer.close()
