"""How gateways talk to Kafka: as everybody does, but every call has a timeout, and Kafka's errors come out as the gateways' own."""

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from eventflink.events.topics import Topic, topic_name
from eventflink.gateways.errors import AccessDenied, ClusterNotFound, ClusterUnreachable, LogUnreadable
from eventflink.log.clients import new_producer
from eventflink.log.pulled_partition import PulledPartition
from eventflink.log.refusals import explain, find_refusal, is_denied
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.kafka_settings import KafkaAccess

DEFAULT_CONNECT_TIMEOUT_S: Final = 10.0
_BATCH: Final = 1000
_CLIENT_ID: Final = "eventflink-gateway"
_MESSAGE_TIMEOUT_MS: Final = 30_000
_RETRY_S: Final = 0.05
_NOT_READY: Final = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.OFFSET_NOT_AVAILABLE})
T = TypeVar("T")


def make_producer(kafka: KafkaAccess, *, idempotent: bool = True) -> Producer:
    """Return a producer that sends at once; one that is not idempotent sends its first record sooner (`producer_settings`)."""
    return new_producer(kafka, _MESSAGE_TIMEOUT_MS, {"client.id": _CLIENT_ID, "enable.idempotence": idempotent})


class PartitionReader:
    """Reads one partition of one of a cluster's topics, from an offset on. For one thread."""

    def __init__(self, access: ClusterAccess, topic: Topic, *, connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S) -> None:
        """Connect and learn how many partitions the topic has.

        Raises:
            ClusterUnreachable: Kafka did not answer within `connect_timeout_s`.
            ClusterNotFound: there is no such topic.

        """
        self._access = access
        self._timeout_s = connect_timeout_s
        self.topic = topic_name(access.cluster_id, topic)
        try:
            # No topic that gateways read is written in transactions, but by strangers (P11).
            own = {"client.id": _CLIENT_ID}
            self._reader = PulledPartition(access.kafka, self.topic, is_dense=topic is Topic.LOG, own_settings=own, passes=_passes)
        except KafkaException as error:
            raise ClusterUnreachable(f"'{access.bootstrap}' is not a usable list of Kafka brokers: {error.args[0].str()}") from error
        try:
            self.partition_count = self._count_partitions()
        except BaseException:
            self._reader.close()
            raise

    def _count_partitions(self) -> int:
        metadata = self._ask(self._read_metadata)
        if metadata.error is not None and is_denied(metadata.error):
            raise AccessDenied(explain(metadata.error, self._access.kafka, "Read", self.topic))
        if metadata.error is not None or not metadata.partitions:
            raise ClusterNotFound(
                f"topic not found: '{self.topic}' at {self._access.bootstrap}; is '{self._access.cluster_id}' the id of the cluster, "
                "and has a master of it ever been started?"
            )
        return len(metadata.partitions)

    def _read_metadata(self, timeout_s: float) -> Any:
        metadata = self._reader.metadata(timeout_s)
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
                    raise AccessDenied(explain(cause, self._access.kafka, "Read", self.topic)) from error
                if cause.code() not in _NOT_READY or time.monotonic() >= deadline:
                    refusal = find_refusal(self._access.kafka)
                    raise ClusterUnreachable(refusal or f"Kafka at {self._access.bootstrap} does not answer: {cause.str()}") from error
            time.sleep(_RETRY_S)

    def offsets(self, partition: int, timeout_s: float | None = None) -> tuple[int, int]:
        """Return the first offset that is kept and the one that the next record will get; None: as long as to connect.

        Raises:
            ClusterUnreachable: Kafka did not answer in time.

        """
        return self._ask(lambda left_s: self._reader.bounds(left_s, partition), timeout_s)

    def seek(self, partition: int, offset: int) -> None:
        """Read on from this offset of this partition."""
        self._reader.seek(offset, partition)

    def read(self, timeout_s: float) -> list[Message]:
        """Return what there is, with an empty record for each offset of the log that has none; wait up to `timeout_s` for the first record.

        Raises:
            LogUnreadable: the offset to read is not kept any more.
            ClusterUnreachable: Kafka refuses for good.

        """
        try:
            return self._reader.read(timeout_s, _BATCH)
        except KafkaException as error:
            cause = error.args[0]
            if cause.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - that is its public name
                message = f"{self.topic}: the offset to read was not found; its record may have been deleted: {cause.str()}"
                raise LogUnreadable(message) from error
            if is_denied(cause):
                raise AccessDenied(explain(cause, self._access.kafka, "Read", self.topic)) from error
            raise ClusterUnreachable(f"{self.topic} at {self._access.bootstrap}: {cause.str()}") from error

    def close(self) -> None:
        """Let the connections go."""
        self._reader.close()


def _passes(message: Message) -> bool:
    """Return whether an error is left to librdkafka, which retries by itself; the caller's deadline bounds it."""
    error = message.error()
    return error is not None and not (error.fatal() or is_denied(error) or error.code() == KafkaError._AUTO_OFFSET_RESET)  # noqa: SLF001 - as above
