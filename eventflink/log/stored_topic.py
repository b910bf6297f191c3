"""Reading what a topic holds now, stretch by stretch: snapshots from the newest backwards, and what masters said last.

Unlike the log, such a topic may have gaps: records that were compacted away, and markers of transactions. Following a topic is the business
of `topic_reader`.
"""

import time
from collections.abc import Iterator
from typing import Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from eventflink.events.topics import Topic, topic_name
from eventflink.log.replay import DEFAULT_STALL_TIMEOUT_S, ReplayStalled, consumer_settings, watermark_offsets

_BATCH: Final = 64
_CONNECT_TIMEOUT_S: Final = 10.0


class StoredTopic:
    """A reader of partition 0 of a topic: any stretch of it, as often as is asked."""

    def __init__(self, bootstrap: str, cluster_id: str, topic: Topic) -> None:
        self._name = topic_name(cluster_id, topic)
        self._consumer = Consumer(consumer_settings(bootstrap) | {"enable.partition.eof": True})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._consumer.close()

    def bounds(self) -> tuple[int, int]:
        """Return the first offset and the one after the last; (0, 0) where there is no such topic."""
        try:
            low, high = watermark_offsets(self._consumer, TopicPartition(self._name, 0), _CONNECT_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() in (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART):  # noqa: SLF001 - public names of librdkafka's codes
                return 0, 0
            raise
        return low, high

    def read(self, first: int, end: int) -> Iterator[tuple[str, bytes | None]]:
        """Yield (key, value) of the records that are left from `first` up to, without, `end`, in order.

        Raises:
            KafkaException, ReplayStalled: Kafka does not give them.

        """
        self._consumer.assign([TopicPartition(self._name, 0, first)])
        deadline = time.monotonic() + DEFAULT_STALL_TIMEOUT_S
        while True:
            # consume() alone would wait for its whole timeout as long as the batch is not full.
            first_message = self._consumer.poll(0.2)
            messages = [] if first_message is None else [first_message, *self._consumer.consume(_BATCH, 0)]
            for message in messages:
                error = message.error()
                if error is None:
                    if (message.offset() or 0) >= end:
                        return
                    yield (message.key() or b"").decode("utf-8", "replace"), message.value()
                    if message.offset() == end - 1:
                        return
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name for it
                    return  # The last records of a compacted topic may be gone, or be no records.
                elif not error.retriable():
                    raise KafkaException(error)
            if messages:
                deadline = time.monotonic() + DEFAULT_STALL_TIMEOUT_S
            elif time.monotonic() > deadline:
                raise ReplayStalled(f"{self._name} gave no record for {DEFAULT_STALL_TIMEOUT_S:.0f} s before offset {end}")


def read_last(bootstrap: str, cluster_id: str, topic: Topic, count: int) -> list[bytes | None]:
    """Return the values of the last records of a topic, at most `count`; none where there is no such topic.

    Raises:
        KafkaException, ReplayStalled: Kafka does not give them.

    """
    with StoredTopic(bootstrap, cluster_id, topic) as stored:
        low, high = stored.bounds()
        return [value for _, value in stored.read(max(low, high - count), high)] if high > low else []
