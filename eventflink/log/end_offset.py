"""Where the log ends now, asked as often as somebody reads: one connection that stays open between the questions."""

import logging
import threading
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from eventflink.events.topics import Topic, topic_name
from eventflink.log.replay import consumer_settings

DEFAULT_TIMEOUT_S: Final = 5.0

# What librdkafka would log of each failed connection comes back as the error of the question.
_librdkafka_logger = logging.getLogger(f"{__name__}.librdkafka")
_librdkafka_logger.setLevel(logging.CRITICAL)


class EndOffset:
    """Asks Kafka for the end of a cluster's log. For any thread, one question at a time."""

    def __init__(self, bootstrap: str, cluster_id: str) -> None:
        """Connect with the first question."""
        self._bootstrap = bootstrap
        self._partition = TopicPartition(topic_name(cluster_id, Topic.LOG), 0)
        self._consumer: Consumer | None = None
        self._lock = threading.Lock()

    def fetch(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> int:
        """Return the offset that the next record of the log gets.

        Raises:
            KafkaException: Kafka does not answer in time.

        """
        with self._lock:
            if self._consumer is None:
                self._consumer = Consumer(consumer_settings(self._bootstrap), logger=_librdkafka_logger)
            _, end_offset = self._consumer.get_watermark_offsets(self._partition, timeout=timeout_s, cached=False)
            return int(end_offset)

    def close(self) -> None:
        """Let the connection go; a question under way is waited for."""
        with self._lock:
            consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()
