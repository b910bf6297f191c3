"""What becomes of the topics that a query reads, while it reads them: partitions that are added, and topics that are made again.

Spark is told which partitions a subtask reads when its query starts, and knows topics by their names only. The rule it keeps: a partition
that is added is read within `DISCOVERY_S`, and offsets of one topic are not taken for those of another.
"""

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eventflink.jobs.stored_files import read_if_there, write_whole
from eventflink.log.admin_connection import AdminConnection, AdministrationError
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.places import Place
from eventflink.streams.failures import StreamUnusable

logger = logging.getLogger(__name__)

DISCOVERY_S: Final = 10.0
"""Between two looks at the topics."""

_TIMEOUT_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class WatchedTopic:
    """A topic that a source reads."""

    kafka: KafkaAccess
    topic: str
    source: str
    fails_on_data_loss: bool


class TopicWatch:
    """Looks at the topics of a subtask now and then."""

    def __init__(self, topics: Sequence[WatchedTopic], notes: Place, *, is_assigned: bool) -> None:
        """Take what to look at, and connect to nothing yet.

        Args:
            topics: of all sources.
            notes: the file in which the ids of the topics are noted for later attempts.
            is_assigned: whether Spark reads the partitions that it is told, and not all that there are.

        """
        self._topics = topics
        self._notes = notes
        self._is_assigned = is_assigned
        self._connections = {each.kafka.bootstrap: AdminConnection(each.kafka, _TIMEOUT_S) for each in topics}
        self._counts: dict[WatchedTopic, int] = {}
        self._looks_at_s = 0.0
        self._noted: dict[str, str] | None = None
        """What is in the file, read once: while this attempt goes on, no other one notes anything there."""

    def begin(self) -> None:
        """Take what there is now for what the query reads; called before the query is made.

        Raises:
            StreamUnusable: a topic is another one than earlier attempts have read.

        """
        self._counts = self._count()
        self.check_ids()

    def has_grown(self) -> bool:
        """Tell whether there are partitions that nobody reads; most of the time it does not ask.

        Raises:
            StreamUnusable: a topic is another one than the query has read.

        """
        if time.monotonic() < self._looks_at_s:
            return False
        self.check_ids()
        if not self._is_assigned:
            return False
        counts = self._count()
        return any(count > self._counts.get(each, count) for each, count in counts.items())

    def check_ids(self) -> None:
        """Compare the ids of the topics with those that were noted, and note new ones; what Kafka does not say is passed over.

        Raises:
            StreamUnusable: one was deleted and made again.

        """
        self._looks_at_s = time.monotonic() + DISCOVERY_S
        try:
            found = {
                self._key(each): self._connections[each.kafka.bootstrap].read_topic_ids([each.topic])[each.topic] for each in self._topics
            }
        except AdministrationError as error:
            logger.warning("TopicsNotSeen error=%s", error)
            return
        if self._noted is None:
            self._noted = json.loads(read_if_there(self._notes) or "{}")
        noted = self._noted
        for each in self._topics:
            key = self._key(each)
            if noted.get(key) and found[key] and noted[key] != found[key]:
                lost = f"source '{each.source}': topic '{each.topic}' of Kafka at {each.kafka.bootstrap} was deleted and made again"
                if each.fails_on_data_loss:
                    raise StreamUnusable(f"{lost}: the stream's offsets are those of the old one; submit it as a new job to read this one")
                logger.warning("TopicReplaced topic=%s reason=%s", each.topic, lost)
        if (both := noted | found) != noted:
            write_whole(self._notes, json.dumps(both).encode())
            self._noted = both

    def _count(self) -> dict[WatchedTopic, int]:
        counts = {}
        try:
            by_kafka = {bootstrap: connection.find_topics() for bootstrap, connection in self._connections.items()}
        except AdministrationError as error:
            logger.warning("TopicsNotSeen error=%s", error)
            return {}
        for each in self._topics:
            if (topic := by_kafka[each.kafka.bootstrap].get(each.topic)) is not None:
                counts[each] = topic.partitions
        return counts

    @staticmethod
    def _key(topic: WatchedTopic) -> str:
        return f"{topic.kafka.bootstrap}/{topic.topic}"
