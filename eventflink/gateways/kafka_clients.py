"""How gateways talk to Kafka: the settings of their consumer and producer, and reading a partition from an offset.

Consumers here are assigned, never subscribed: they belong to no group and commit nothing. Every call has a timeout, and Kafka's
errors come out as the gateways' own.
"""

import logging
import time
import uuid
from collections.abc import Callable
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from eventflink.events.topics import Topic, topic_name
from eventflink.gateways.errors import AccessDenied, ClusterNotFound, ClusterUnreachable, LogUnreadable
from eventflink.log.dense_reader import DenseReader
from eventflink.log.refusals import explain, find_refusal, is_denied
from eventflink.model.kafka_settings import client_settings

DEFAULT_CONNECT_TIMEOUT_S: Final = 10.0
_BATCH: Final = 1000
_RETRY_S: Final = 0.05
_NOT_READY: Final = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.OFFSET_NOT_AVAILABLE})
T = TypeVar("T")

# librdkafka reports every failed connection attempt; what matters of that comes back as an error of the call that failed.
_librdkafka_logger = logging.getLogger(f"{__name__}.librdkafka")
_librdkafka_logger.setLevel(logging.CRITICAL)


def _common_settings(bootstrap: str) -> dict[str, Any]:
    own = {
        "client.id": "eventflink-gateway",
        "socket.nagle.disable": True,
        "reconnect.backoff.max.ms": 1000,
        "allow.auto.create.topics": False,
    }
    return client_settings(bootstrap, own)


def make_producer(bootstrap: str, *, idempotent: bool = True) -> Producer:
    """Return a producer that sends at once (acks=all, no linger).

    An idempotent one keeps the order of records that are in flight together, and sends its first record up to half a second late:
    librdkafka asks for the id that it needs before it is connected, and again only after that.
    """
    settings = _common_settings(bootstrap) | {
        "enable.idempotence": idempotent,
        "acks": "all",
        "linger.ms": 0,
        "message.timeout.ms": 30_000,
        "queue.buffering.max.messages": 100_000,
    }
    # Only consumers may be told not to create topics; for a producer it is the broker's setting.
    del settings["allow.auto.create.topics"]
    return Producer(settings, logger=_librdkafka_logger)


class PartitionReader:
    """Reads one partition of one of a cluster's topics, from an offset on. For one thread."""

    def __init__(self, bootstrap: str, cluster_id: str, topic: Topic, *, connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S) -> None:
        """Connect and learn how many partitions the topic has.

        Raises:
            ClusterUnreachable: Kafka did not answer within `connect_timeout_s`.
            ClusterNotFound: there is no such topic.

        """
        self._bootstrap = bootstrap
        self._cluster_id = cluster_id
        self._timeout_s = connect_timeout_s
        self.topic = topic_name(cluster_id, topic)
        self._is_log = topic is Topic.LOG
        self._place = TopicPartition(self.topic, 0)
        self._dense: DenseReader | None = None
        settings = self._settings = _common_settings(bootstrap) | {
            "group.id": f"eventflink-gateway-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            # No topic that gateways read is written in transactions, but by strangers (P11).
            "isolation.level": "read_uncommitted",
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 50,
        }
        try:
            self._consumer = Consumer(settings, logger=_librdkafka_logger)
        except KafkaException as error:
            raise ClusterUnreachable(f"'{bootstrap}' is not a usable list of Kafka brokers: {error.args[0].str()}") from error
        try:
            self.partition_count = self._count_partitions()
        except BaseException:
            self._consumer.close()
            raise

    def _count_partitions(self) -> int:
        metadata = self._ask(self._read_metadata)
        if metadata.error is not None and is_denied(metadata.error):
            raise AccessDenied(explain(metadata.error, self._bootstrap, "Read", self.topic))
        if metadata.error is not None or not metadata.partitions:
            raise ClusterNotFound(
                f"topic not found: '{self.topic}' at {self._bootstrap}; is '{self._cluster_id}' the id of the cluster, "
                "and has a master of it ever been started?"
            )
        return len(metadata.partitions)

    def _read_metadata(self, timeout_s: float) -> Any:
        metadata = self._consumer.list_topics(self.topic, timeout=timeout_s).topics[self.topic]
        if metadata.error is not None and metadata.error.code() == KafkaError.LEADER_NOT_AVAILABLE:
            raise KafkaException(metadata.error)
        return metadata

    def _ask(self, call: Callable[[float], T], timeout_s: float | None = None) -> T:
        """Return what a call of Kafka returns, asked again while it says that it is not ready: as for a topic that is just being made.

        Raises:
            ClusterUnreachable: Kafka did not answer in time, or with something else.

        """
        deadline = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        while True:
            try:
                return call(max(0.1, deadline - time.monotonic()))
            except KafkaException as error:
                cause = error.args[0]
                if is_denied(cause):
                    raise AccessDenied(explain(cause, self._bootstrap, "Read", self.topic)) from error
                if cause.code() not in _NOT_READY or time.monotonic() >= deadline:
                    refusal = find_refusal(self._bootstrap)
                    raise ClusterUnreachable(refusal or f"Kafka at {self._bootstrap} does not answer: {cause.str()}") from error
            time.sleep(_RETRY_S)

    def offsets(self, partition: int, timeout_s: float | None = None) -> tuple[int, int]:
        """Return the first offset that is kept and the one that the next record will get; None: as long as to connect.

        Raises:
            ClusterUnreachable: Kafka did not answer in time.

        """
        place = TopicPartition(self.topic, partition)
        low, high = self._ask(lambda left_s: self._consumer.get_watermark_offsets(place, timeout=left_s, cached=False), timeout_s)
        return int(low), int(high)

    def seek(self, partition: int, offset: int) -> None:
        """Read on from this offset of this partition."""
        self._place = TopicPartition(self.topic, partition, offset)
        self._consumer.assign([self._place])
        self._dense = DenseReader(self._settings, self._place, offset) if self._is_log else None

    def read(self, timeout_s: float) -> list[Message]:
        """Return what there is, with an empty record for each offset of the log that has none; wait up to `timeout_s` for the first record.

        Raises:
            LogUnreadable: the offset to read is not kept any more.
            ClusterUnreachable: Kafka refuses for good.

        """
        # consume() would wait for the whole timeout as long as the batch is not full.
        first = self._consumer.poll(timeout_s)
        messages = [] if first is None else [first, *self._consumer.consume(_BATCH, 0)]
        records = [message for message in messages if self._is_record(message)]
        if (dense := self._dense) is None:
            return records
        position = self._consumer.position([self._place])[0].offset
        return self._ask(lambda _: dense.fill(records, position))

    def _is_record(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - that is its public name
            raise LogUnreadable(f"{self.topic}: the offset to read was not found; its record may have been deleted: {error.str()}")
        if is_denied(error):
            raise AccessDenied(explain(error, self._bootstrap, "Read", self.topic))
        if error.fatal():
            raise ClusterUnreachable(f"{self.topic} at {self._bootstrap}: {error.str()}")
        return False  # Transient: librdkafka retries by itself, and the caller's deadline bounds it.

    def close(self) -> None:
        """Let the connections go."""
        self._consumer.close()
