"""The place of a reader in the log, kept in Kafka as the offset that a consumer group has committed.

The group has no members: who reads is assigned its partition and commits by itself. So tools that show the lag of groups show this one too.
"""

from typing import Final

from confluent_kafka import KafkaException, TopicPartition

from eventflink.events.topics import Topic, topic_name
from eventflink.log.clients import new_consumer
from eventflink.model.cluster_access import ClusterAccess

TIMEOUT_S: Final = 10.0


class GroupOffset:
    """Which record of the log a group wants next. For one thread."""

    def __init__(self, access: ClusterAccess, group_id: str) -> None:
        """Make the client, which connects when it is first asked."""
        self._topic = topic_name(access.cluster_id, Topic.LOG)
        self._consumer = new_consumer(access.kafka, {"group.id": group_id})

    def read(self) -> int | None:
        """Return the committed offset; None: none was ever committed, or it has expired.

        Raises:
            KafkaException: Kafka does not answer, or does not let this process read the group.

        """
        [place] = self._consumer.committed([TopicPartition(self._topic, 0)], timeout=TIMEOUT_S)
        if place.error is not None:
            raise KafkaException(place.error)
        return int(place.offset) if place.offset >= 0 else None

    def commit(self, offset: int) -> None:
        """Commit that the record at `offset` is the next one; returns when Kafka has it.

        Raises:
            KafkaException: Kafka does not take it.

        """
        self._consumer.commit(offsets=[TopicPartition(self._topic, 0, offset)], asynchronous=False)

    def close(self) -> None:
        """Let the connection go."""
        self._consumer.close()
