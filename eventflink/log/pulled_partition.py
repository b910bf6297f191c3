"""One partition of a topic, read by whoever asks for its records, from an offset on.

It is the one reader that is pulled. The log, stored topics, gateways and the audit read with it; `topic_reader` is the same in a thread of
its own, which pushes. Where a partition ends, and what is a gap in it, is found here; what an error means to a caller is not.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import TopicMetadata

from eventflink.log.clients import new_consumer
from eventflink.log.dense_reader import DenseReader
from eventflink.model.kafka_settings import KafkaAccess

BATCH: Final = 10_000
"""Records of one reading at most."""

_RETRY_S: Final = 0.05
_NOT_READY: Final = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.OFFSET_NOT_AVAILABLE})


def is_retriable(message: Message) -> bool:
    """Return whether an error passes: by librdkafka's own word."""
    error = message.error()
    return error is not None and bool(error.retriable())


class PulledPartition:
    """Reads a partition of one topic. For one thread; close it, or use it as a context manager."""

    def __init__(
        self,
        kafka: KafkaAccess,
        topic: str,
        *,
        isolation: str = "read_uncommitted",
        is_dense: bool = False,
        own_settings: Mapping[str, Any] = {},
        passes: Callable[[Message], bool] = is_retriable,
    ) -> None:
        """Make the consumer, which connects when it is first asked for something.

        Args:
            kafka: the Kafka cluster.
            topic: the name of the topic.
            isolation: "read_committed", where open and aborted transactions are not to be read.
            is_dense: whether an empty record stands for each offset that has none, as in the log (P3b).
            own_settings: what this consumer wants beside `consumer_settings`.
            passes: tells of a message that is an error whether librdkafka goes on after it by itself.

        Raises:
            KafkaException: librdkafka takes no such settings.

        """
        self.topic = topic
        self.position = 0
        """The offset up to which everything was read."""
        self.reached: int | None = None
        """The end at which the last reading found nothing more; None: records came since then."""
        self.is_dense = is_dense
        self._kafka = kafka
        self._passes = passes
        self._place = TopicPartition(topic, 0)
        self._dense: DenseReader | None = None
        self._consumer: Consumer = new_consumer(kafka, {**own_settings, "enable.partition.eof": True}, isolation=isolation)

    def metadata(self, timeout_s: float) -> TopicMetadata:
        """Return what Kafka says of the topic.

        Raises:
            KafkaException: Kafka does not answer in time.

        """
        return self._consumer.list_topics(self.topic, timeout=timeout_s).topics[self.topic]

    def bounds(self, timeout_s: float, partition: int = 0) -> tuple[int, int]:
        """Return the first offset of a partition and the one after its last record; a leader that is just being elected is waited for.

        Raises:
            KafkaException: the broker cannot be reached, does not have the partition, or elects no leader for it in time.

        """
        deadline = time.monotonic() + timeout_s
        place = TopicPartition(self.topic, partition)
        while True:
            try:
                left_s = max(0.1, deadline - time.monotonic())
                low, high = self._consumer.get_watermark_offsets(place, timeout=left_s, cached=False)
            except KafkaException as error:
                if time.monotonic() >= deadline or not self._is_passing(error.args[0].code(), partition, left_s):
                    raise
                time.sleep(_RETRY_S)
            else:
                return int(low), int(high)

    def _is_passing(self, code: int, partition: int, timeout_s: float) -> bool:
        """Tell whether the same question may have an answer soon: of a partition that Kafka has, the client may not have heard yet."""
        if code == KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001 - a public name of librdkafka's code
            return partition in self.metadata(timeout_s).partitions
        return code in _NOT_READY

    def known_end(self) -> int | None:
        """Return the end of the partition by the last answer to a fetch; None: there was none yet."""
        _, end = self._consumer.get_watermark_offsets(self._place, cached=True)
        return int(end) if end >= 0 else None

    def seek(self, offset: int, partition: int = 0) -> None:
        """Read on from this offset of this partition; `OFFSET_BEGINNING`: from its first record, whichever that is."""
        self._place = TopicPartition(self.topic, partition, offset)
        self._consumer.assign([self._place])
        self.position, self.reached = max(0, offset), None
        self._dense = DenseReader(self._kafka, self._place, self.position) if self.is_dense else None

    def read(self, timeout_s: float, most: int = BATCH, *, waits_for_all: bool = False) -> list[Message]:
        """Return the records that are there, at most so many; wait up to `timeout_s` for the first, or for all.

        Raises:
            KafkaException: the offset is not there any more, or Kafka reports another error that does not pass.

        """
        # consume() alone would wait for its whole timeout as long as the batch is not full.
        first = None if waits_for_all else self._consumer.poll(timeout_s)
        rest = (
            self._consumer.consume(most, timeout_s) if waits_for_all else self._consumer.consume(most - 1, 0) if first is not None else []
        )
        records: list[Message] = []
        for message in rest if first is None else [first, *rest]:
            error = message.error()
            if error is None:
                records.append(message)
                self.reached = None
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name for it
                self.reached = message.offset()
            elif not self._passes(message):
                raise KafkaException(error)
        # The last offsets may be markers of transactions, which nobody is given: so it is the position that tells what was read.
        position = self._consumer.position([self._place])[0].offset
        if self._dense is None:
            self.position = max(self.position, position)
            return records
        filled = self._dense.fill(records, position)
        self.position = self._dense.gaps.next_offset
        return filled

    def close(self) -> None:
        """Let the connections go."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
