"""Writing to Kafka: a master's log by one idempotent producer, its effects by another, and by a patient one what has time, as snapshots.

A decision that cannot be delivered within the lease ends the leadership (P2): the first delivery report that says so purges
what is queued behind it. What librdkafka had sent by then may still arrive; the fold rejects it by its sequence (P1).
"""

import logging
import threading
import time
from contextlib import suppress
from typing import Final, NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException, Message

from eventflink.events.topics import Topic, topic_name
from eventflink.leadership.ports import AppendFailed
from eventflink.log.clients import new_producer
from eventflink.log.refusals import explain
from eventflink.model.cluster_access import ClusterAccess
from eventflink.processes.trace import stamp

_logger = logging.getLogger(__name__)
_EFFECT_TIMEOUT_MS: Final = 30_000
_ASK_TIMEOUT_S: Final = 5.0
_MOST_HELD: Final = 10_000

PATIENCE_S: Final = 60.0
"""For how long who has time waits for Kafka to take a record."""


class NotDelivered(Exception):
    """Kafka did not take a record in time; the message names the topic and the reason."""


class LogAppender:
    """Appends decisions to the log, in order, without waiting."""

    def __init__(self, access: ClusterAccess, lease_timeout_ms: int) -> None:
        """Open a producer whose records live no longer than the lease."""
        self._access = access
        self._topic = topic_name(access.cluster_id, Topic.LOG)
        self._key = access.cluster_id.encode()
        self._failure: str | None = None
        self._producer = new_producer(access.kafka, lease_timeout_ms, {"request.timeout.ms": lease_timeout_ms})

    def connect(self, timeout_s: float = 5.0) -> None:
        """Learn where the log is, so that the first record need not wait for that.

        Raises:
            KafkaException: Kafka does not answer in time.

        """
        self._producer.list_topics(self._topic, timeout=timeout_s)

    def append_decision(self, value: bytes) -> None:
        """Queue a record.

        Raises:
            AppendFailed: an earlier one failed, or the queue is full.

        """
        try:
            self._producer.produce(self._topic, key=self._key, value=value, partition=0, on_delivery=self._delivered)
        except (BufferError, KafkaException) as error:
            self._failure = self._failure or str(error)
        self.poll()

    def poll(self) -> None:
        """Serve delivery reports.

        Raises:
            AppendFailed: a record was not delivered.

        """
        try:
            self._producer.poll(0)
        except KafkaException as error:  # A fatal one is raised where no record waits that it could be told of.
            self._failure = self._failure or str(error)
        if self._failure is not None:
            self._producer.purge()
            raise AppendFailed(f"a decision could not be appended: {self._failure}")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            stamp("delivered", Topic.LOG, offset=message.offset() or 0)
        elif self._failure is None:
            self._failure = explain(error, self._access.kafka, "Write", self._topic)

    def close(self, timeout_s: float) -> None:
        """Wait for what is queued, at most `timeout_s`, and drop the rest."""
        if timeout_s > 0:
            self._producer.flush(timeout_s)
        self._producer.purge()
        self._producer.flush(0)


class _Effect(NamedTuple):
    """A record of an outbound topic, by its name in Kafka."""

    topic: str
    key: bytes
    value: bytes
    partition: int


class EffectProducer:
    """Produces replies, deployments, heartbeats and dead letters: at least once, for each receiver in order."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._producer = new_producer(access.kafka, _EFFECT_TIMEOUT_MS)
        self.failed_count = 0
        self._held: list[_Effect] = []
        """Those whose partition the client does not know."""
        self._asking: threading.Thread | None = None
        """Has the client hear of it."""

    def produce(self, topic: Topic, key: str, value: bytes, partition: int = 0) -> None:
        """Queue a record, without waiting: who calls this has a lease to keep.

        A record that finds the queue full, or that is too large to be sent at all, counts as one that was not delivered: it must not end
        the leadership, since the next leader would have to send the same. One for a partition that the client has not heard of waits
        until it has asked: the topic may have grown since.
        """
        record = _Effect(topic_name(self._access.cluster_id, topic), key.encode(), value, partition)
        is_behind = any((held.topic, held.partition) == (record.topic, partition) for held in self._held)
        if is_behind or not self._send(record):
            self._hold(record)
        self.poll()

    def _send(self, record: _Effect) -> bool:
        """Queue a record, or count it as not delivered; tell whether the client knows the partition."""
        topic, key, value, partition = record
        try:
            self._producer.produce(topic, key=key, value=value, partition=partition, on_delivery=self._delivered)
        except (BufferError, KafkaException) as error:
            if isinstance(error, KafkaException) and error.args[0].code() == KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001 - public, named so
                return False
            self._note_failure(topic, str(error))
        return True

    def _hold(self, record: _Effect) -> None:
        if len(self._held) >= _MOST_HELD:
            self._note_failure(record.topic, f"{_MOST_HELD} records wait for partitions that were not known")
            return
        self._held.append(record)
        if self._asking is None:
            self._asking = threading.Thread(target=self._ask_for_partitions, args=(record.topic,), name="partitions", daemon=True)
            self._asking.start()

    def _ask_for_partitions(self, topic: str) -> None:
        with suppress(KafkaException):  # What Kafka does not tell now, the record that waits for it says.
            self._producer.list_topics(topic, timeout=_ASK_TIMEOUT_S)

    def _send_held(self) -> None:
        self._asking = None
        held, self._held = self._held, []
        for record in held:
            if not self._send(record):
                self._note_failure(record.topic, f"partition not found: {record.partition}")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            topic = str(message.topic())
            self._note_failure(topic, explain(error, self._access.kafka, "Write", topic))

    def _note_failure(self, name: str, error: str) -> None:
        """Count it. Nothing is lost: what the state still misses is sent again, and a client repeats its request."""
        self.failed_count += 1
        _logger.warning("EffectNotDelivered topic=%s error=%s", name, error)

    def poll(self) -> None:
        """Serve delivery reports, and send what has waited for its partition."""
        if self._asking is not None and not self._asking.is_alive():
            self._send_held()
        try:
            self._producer.poll(0)
        except KafkaException as error:  # As of the log's.
            self._note_failure("", str(error))

    def close(self, timeout_s: float) -> bool:
        """Wait for what is queued, at most `timeout_s`; tell whether Kafka has all of it."""
        failed_before = self.failed_count
        return not self._producer.flush(timeout_s) and not self._held and self.failed_count == failed_before


class PatientProducer:
    """Writes records of one topic's first partition; use it as a context manager, which drops what was not flushed."""

    def __init__(self, access: ClusterAccess, topic: Topic, *, linger_ms: int = 0, patience_s: float = PATIENCE_S) -> None:
        """Open the producer; records wait up to `linger_ms` for company, and up to `patience_s` for Kafka."""
        self._access, self._topic = access, topic_name(access.cluster_id, topic)
        self._patience_s = patience_s
        self._producer = new_producer(access.kafka, int(patience_s * 1000), {"linger.ms": linger_ms})
        self._failure = ""

    def produce(self, key: str, value: bytes | None) -> None:
        """Queue a record, behind all earlier ones.

        Raises:
            NotDelivered: an earlier one failed, or Kafka took nothing for as long as it has patience.

        """
        deadline = time.monotonic() + self._patience_s
        while not self._failure:
            try:
                self._producer.produce(self._topic, key=key.encode(), value=value, partition=0, on_delivery=self._delivered)
            except BufferError:
                if time.monotonic() > deadline:
                    raise NotDelivered(f"{self._topic}: Kafka took nothing for {self._patience_s:.0f} s") from None
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
        left = self._producer.flush(self._patience_s)
        if self._failure or left:
            reason = self._failure or f"{left} records are not delivered after {self._patience_s:.0f} s"
            raise NotDelivered(f"{self._topic}: {reason}")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failure = self._failure or explain(error, self._access.kafka, "Write", self._topic)

    def close(self) -> None:
        """Drop what is queued, and every connection."""
        self._producer.purge()
        self._producer.flush(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
