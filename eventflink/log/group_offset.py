"""The place of a reader in the log, kept in Kafka as the offset that a consumer group has committed.

The group has no members: who reads is assigned its partition, and says by itself how far it is. So what shows the lag of groups shows this
one too, and what sets the offsets of groups sets this one. Beside the offset, as its metadata, stands the first place that the reader had.
"""

import re
from typing import Final

from confluent_kafka import KafkaException, TopicPartition

from eventflink.events.topics import Topic, topic_name
from eventflink.log.admin_connection import AdminConnection
from eventflink.log.clients import new_consumer
from eventflink.model.cluster_access import ClusterAccess

_TIMEOUT_S: Final = 10.0
_FIRST: Final = re.compile(r"first=([0-9]{1,19})", re.ASCII)


class GroupOffset:
    """Which record of the log a group wants next. For one thread at a time."""

    def __init__(self, access: ClusterAccess, group: str) -> None:
        """Make the client, which connects when it is first asked."""
        self.first_offset: int | None = None
        """The record with which the reader began. None: nothing was read or begun, or the offset was set by somebody else."""
        self._access, self._group = access, group
        self._topic = topic_name(access.cluster_id, Topic.LOG)
        self._consumer = new_consumer(access.kafka, {"group.id": group})

    def read(self) -> int | None:
        """Return the committed offset; None: none was ever committed, or Kafka has forgotten it. It is read before the first commit.

        Raises:
            KafkaException: Kafka does not answer.
            AdministrationError: this process may not read the group.

        """
        try:
            [place] = self._consumer.committed([TopicPartition(self._topic, 0)], timeout=_TIMEOUT_S)
        except KafkaException:  # Without the right to read the group the client gets no answer, and runs into its timeout.
            AdminConnection(self._access.kafka, _TIMEOUT_S).check_group(self._group, self._topic)
            raise
        if place.error is not None:
            raise KafkaException(place.error)
        if place.offset < 0:
            return None
        first = _FIRST.fullmatch(place.metadata or "")
        self.first_offset = int(first[1]) if first is not None else None
        return int(place.offset)

    def begin(self, offset: int) -> None:
        """Commit that the record at `offset` is the first one that the reader wants; returns when Kafka has it; raises as `commit`."""
        self.first_offset = offset
        self.commit(offset)

    def commit(self, offset: int) -> None:
        """Commit that the record at `offset` is the next one; returns when Kafka has it.

        Raises:
            KafkaException: Kafka does not take it.

        """
        metadata = f"first={self.first_offset}" if self.first_offset is not None else ""
        self._consumer.commit(offsets=[TopicPartition(self._topic, 0, offset, metadata)], asynchronous=False)

    def close(self) -> None:
        """Let the connection go."""
        self._consumer.close()
