"""Makes dense what a consumer of the log is given: an empty record for each offset at which Kafka has none (P3b).

Kafka is asked by a consumer of its own, which has read nothing before. What a gap means is decided in `leadership/offset_gaps.py`.
"""

import time
from collections.abc import Iterable
from typing import Final

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, KafkaException, Message, TopicPartition

from eventflink.leadership.offset_gaps import OffsetGaps, Stretch
from eventflink.log.clients import new_consumer
from eventflink.model.kafka_settings import KafkaAccess

TIMEOUT_S: Final = 5.0
"""For an answer of Kafka."""

MAX_ANSWERED: Final = 10_000
"""Records that one question looks at: behind one gap there are often others."""


class DenseReader:
    """Makes dense what one consumer of a partition is given."""

    def __init__(self, kafka: KafkaAccess, partition: TopicPartition, next_offset: int) -> None:
        """Begin before `next_offset`."""
        self._topic, self._number = partition.topic, partition.partition
        self._last: Message | None = None
        """The last record that was given: an empty one, whose time is not known, has its timestamp."""
        self.gaps = OffsetGaps(next_offset, lambda offset: ask_kafka(kafka, TopicPartition(self._topic, self._number, offset)))

    def fill(self, messages: Iterable[Message], position: int) -> list[Message]:
        """Return the records with empty ones in the gaps before, between and, up to the consumer's `position`, behind them.

        Raises:
            KafkaException: Kafka does not say what is in a gap.

        """
        filled, gaps = list[Message](), self.gaps
        for message in messages:
            offset = message.offset() or 0
            if offset > gaps.next_offset:
                filled += map(self._empty, gaps.before(offset))
            gaps.give(offset)
            self._last = message
            filled.append(message)
        filled += map(self._empty, gaps.before(position))
        return filled

    def _empty(self, offset: int) -> Message:
        timestamp = (TIMESTAMP_NOT_AVAILABLE, 0) if self._last is None else self._last.timestamp()
        return Message(topic=self._topic, partition=self._number, offset=offset, timestamp=timestamp)


def ask_kafka(kafka: KafkaAccess, partition: TopicPartition) -> Stretch:
    """Ask, by a consumer of its own, what there is from the partition's offset on.

    Raises:
        KafkaException: Kafka does not say within `TIMEOUT_S`.

    """
    consumer = new_consumer(kafka, {"enable.partition.eof": True, "fetch.wait.max.ms": 10})
    try:
        consumer.assign([partition])
        deadline = time.monotonic() + TIMEOUT_S
        while (left_s := deadline - time.monotonic()) > 0:
            first = consumer.poll(left_s)
            present: set[int] = set()
            for message in [] if first is None else [first, *consumer.consume(MAX_ANSWERED, 0)]:
                offset, error = message.offset() or 0, message.error()
                if error is None:
                    present.add(offset)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name for it
                    return Stretch(partition.offset, offset, frozenset(present))
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - as above
                    return Stretch(partition.offset, partition.offset, frozenset())  # It is not there any more: who can tell?
                elif not error.retriable():
                    raise KafkaException(error)
            if present:
                return Stretch(partition.offset, max(present) + 1, frozenset(present))
    finally:
        consumer.close()
    reason = f"{partition.topic}: no answer within {TIMEOUT_S:.0f} s to what is at the offset {partition.offset}"
    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))  # noqa: SLF001 - as above
