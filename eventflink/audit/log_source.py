"""Where an auditor gets records from: the log in Kafka, from an offset to an end, or on and on.

Nothing is judged or decoded here.
"""

from collections.abc import Iterator
from typing import Final

from confluent_kafka import KafkaError, Message

from eventflink.audit.entries import Record
from eventflink.events.topics import Topic, topic_name
from eventflink.log.pulled_partition import PulledPartition
from eventflink.log.replay import log_bounds, read_log
from eventflink.model.cluster_access import ClusterAccess

_POLL_S: Final = 0.2
_BATCH: Final = 1_000


class KafkaLog:
    """The log of a cluster."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access

    def bounds(self) -> tuple[int, int]:
        """Return the first offset that is kept and the one after the last record.

        Raises:
            KafkaException: the broker cannot be reached, or the cluster has no log.

        """
        return log_bounds(self._access)

    def read(self, first_offset: int, end_offset: int) -> Iterator[Record]:
        """Yield the records from `first_offset` up to, without, `end_offset`.

        Raises:
            ReplayStalled, KafkaException: Kafka does not give them.

        """
        return read_log(self._access, first_offset, end_offset)

    def follow(self, first_offset: int) -> Iterator[Record | None]:
        """Yield the records from `first_offset` on as they come, for ever; None after each wait in which none came.

        Raises:
            KafkaException: the broker reports an error that does not pass.

        """
        topic = topic_name(self._access.cluster_id, Topic.LOG)
        with PulledPartition(self._access.kafka, topic, is_dense=True, passes=_passes) as log:
            log.seek(first_offset)
            while True:
                messages = log.read(_POLL_S, _BATCH)
                for message in messages:
                    yield message.offset() or 0, message.timestamp()[1], message.value() or b""
                if not messages:
                    yield None


_LASTING: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART})  # noqa: SLF001 - the client's own name for it
"""Errors that waiting does not cure; librdkafka retries by itself after any other."""


def _passes(message: Message) -> bool:
    error = message.error()
    return error is not None and not error.fatal() and error.code() not in _LASTING
