"""Reading what a topic holds now, stretch by stretch: snapshots from the newest backwards, and what masters said last.

Unlike the log, such a topic may have gaps: records that were compacted away, and markers of transactions. Following a topic is the business
of `topic_reader`.
"""

from collections.abc import Iterator
from typing import Final, Self

from confluent_kafka import KafkaError, KafkaException

from eventflink.events.topics import Topic, topic_name
from eventflink.log.pulled_partition import PulledPartition
from eventflink.log.replay import read_to
from eventflink.model.cluster_access import ClusterAccess

_CONNECT_TIMEOUT_S: Final = 10.0


class StoredTopic:
    """A reader of partition 0 of a topic: any stretch of it, as often as is asked."""

    def __init__(self, access: ClusterAccess, topic: Topic) -> None:
        self._reader = PulledPartition(access.kafka, topic_name(access.cluster_id, topic))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._reader.close()

    def bounds(self) -> tuple[int, int]:
        """Return the first offset and the one after the last; (0, 0) where there is no such topic."""
        try:
            return self._reader.bounds(_CONNECT_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() in (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART):  # noqa: SLF001 - public names of librdkafka's codes
                return 0, 0
            raise

    def read(self, first: int, end: int) -> Iterator[tuple[str, bytes | None]]:
        """Yield (key, value) of the records that are left from `first` up to, without, `end`, in order.

        Raises:
            KafkaException, ReplayStalled: Kafka does not give them.

        """
        self._reader.seek(first)
        for message in read_to(self._reader, end):
            yield (message.key() or b"").decode("utf-8", "replace"), message.value()


def read_last(access: ClusterAccess, topic: Topic, count: int) -> list[bytes | None]:
    """Return the values of the last records of a topic, at most `count`; none where there is no such topic.

    Raises:
        KafkaException, ReplayStalled: Kafka does not give them.

    """
    with StoredTopic(access, topic) as stored:
        low, high = stored.bounds()
        return [value for _, value in stored.read(max(low, high - count), high)] if high > low else []
