"""A producer for who has time: it writes records to one partition in order, waits while the queue is full, and says what failed.

For snapshots, copies and benchmarks. The log and the effects of a leader have producers of their own: those may not wait.
"""

import logging
import time
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaError, Message, Producer

from eventflink.events.topics import Topic, topic_name
from eventflink.log.producers import producer_settings
from eventflink.log.refusals import explain

DELIVERY_TIMEOUT_S: Final = 60.0

_client_logger = logging.getLogger(f"{__name__}.librdkafka")
_client_logger.setLevel(logging.CRITICAL)  # What it costs is told once, by the error.


class NotDelivered(Exception):
    """Kafka did not take a record in time; the message names the topic and the reason."""


class PatientProducer:
    """Writes records of one topic's first partition; use it as a context manager, which drops what was not flushed."""

    def __init__(self, bootstrap: str, cluster_id: str, topic: Topic, *, linger_ms: int = 0) -> None:
        """Open the producer; records wait up to `linger_ms` for company."""
        settings = producer_settings(bootstrap, int(DELIVERY_TIMEOUT_S * 1000)) | {"linger.ms": linger_ms}
        self._bootstrap, self._topic = bootstrap, topic_name(cluster_id, topic)
        self._producer = Producer(settings, logger=_client_logger)
        self._failure = ""

    def produce(self, key: str, value: bytes | None) -> None:
        """Queue a record, behind all earlier ones.

        Raises:
            NotDelivered: an earlier one failed, or Kafka took nothing for a minute.

        """
        deadline = time.monotonic() + DELIVERY_TIMEOUT_S
        while not self._failure:
            try:
                self._producer.produce(self._topic, key=key.encode(), value=value, partition=0, on_delivery=self._delivered)
            except BufferError:
                if time.monotonic() > deadline:
                    raise NotDelivered(f"{self._topic}: Kafka took nothing for {DELIVERY_TIMEOUT_S:.0f} s") from None
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return
        raise NotDelivered(f"{self._topic}: {self._failure}")

    def flush(self) -> None:
        """Wait until Kafka has everything.

        Raises:
            NotDelivered: it has not.

        """
        left = self._producer.flush(DELIVERY_TIMEOUT_S)
        if self._failure or left:
            reason = self._failure or f"{left} records are not delivered after {DELIVERY_TIMEOUT_S:.0f} s"
            raise NotDelivered(f"{self._topic}: {reason}")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failure = self._failure or explain(error, self._bootstrap, "Write", self._topic)

    def close(self) -> None:
        """Drop what is queued, and every connection."""
        self._producer.purge()
        self._producer.flush(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()
