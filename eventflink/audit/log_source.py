"""Where an auditor gets records from: the log in Kafka, from an offset to an end, or on and on.

Nothing is judged or decoded here. Consumers are assigned: they join no group and commit nothing.
"""

from collections.abc import Iterator
from typing import Final, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from eventflink.audit.entries import Record
from eventflink.events.topics import Topic, topic_name
from eventflink.log.dense_reader import DenseReader
from eventflink.log.replay import consumer_settings, log_bounds, read_log

_POLL_S: Final = 0.2
_BATCH: Final = 1_000


class LogSource(Protocol):
    """The records of one log."""

    def bounds(self) -> tuple[int, int]:
        """Return the first offset that is kept and the one after the last record."""

    def read(self, first_offset: int, end_offset: int) -> Iterator[Record]:
        """Yield the records from `first_offset` up to, without, `end_offset`."""


class KafkaLog:
    """The log of a cluster."""

    def __init__(self, bootstrap: str, cluster_id: str) -> None:
        self._bootstrap = bootstrap
        self._cluster_id = cluster_id

    def bounds(self) -> tuple[int, int]:
        """Return the first offset that is kept and the one after the last record.

        Raises:
            KafkaException: the broker cannot be reached, or the cluster has no log.

        """
        return log_bounds(self._bootstrap, self._cluster_id)

    def read(self, first_offset: int, end_offset: int) -> Iterator[Record]:
        """Yield the records from `first_offset` up to, without, `end_offset`.

        Raises:
            ReplayStalled, KafkaException: Kafka does not give them.

        """
        return read_log(self._bootstrap, self._cluster_id, first_offset, end_offset)

    def follow(self, first_offset: int) -> Iterator[Record | None]:
        """Yield the records from `first_offset` on as they come, for ever; None after each wait in which none came.

        Raises:
            KafkaException: the broker reports an error that does not pass.

        """
        settings = consumer_settings(self._bootstrap)
        consumer = Consumer(settings)
        try:
            partition = TopicPartition(topic_name(self._cluster_id, Topic.LOG), 0, first_offset)
            consumer.assign([partition])
            dense = DenseReader(settings, partition, first_offset)
            while True:
                # consume() alone would wait for its whole timeout as long as the batch is not full.
                first = consumer.poll(_POLL_S)
                given = [] if first is None else [first, *consumer.consume(_BATCH, 0)]
                lasting = (e for m in given if (e := m.error()) is not None and (e.fatal() or e.code() in _LASTING))
                for error in lasting:
                    raise KafkaException(error)
                messages = dense.fill((m for m in given if m.error() is None), consumer.position([partition])[0].offset)
                for message in messages:
                    yield message.offset() or 0, message.timestamp()[1], message.value() or b""
                if not messages:
                    yield None
        finally:
            consumer.close()


_LASTING: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART})  # noqa: SLF001 - the client's own name for it
"""Errors that waiting does not cure; librdkafka retries by itself after any other."""
