"""Kafka topics of a test: made, fed and read, with the records as a person would write them.

A topic is read from its beginning each time, by assignment and without a group, so that two looks see the same and leave no trace.
The rule: a wait has a timeout, and its error says what was there.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, TIMESTAMP_NOT_AVAILABLE, KafkaError, Message, TopicPartition
from confluent_kafka.admin import NewTopic

from eventflink.gateways.kafka_clients import make_producer
from eventflink.log.admin_connection import AdminConnection, AdministrationError
from eventflink.log.clients import new_consumer
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.testing.failures import Unexpected

MAX_COLLECTED: Final = 1_000_000
"""More records than that are too many for a test to hold."""

_DELIVERY_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.1
_BATCH: Final = 10_000
_SHOWN: Final = 10
_SHOWN_CHARACTERS: Final = 200


@dataclass(frozen=True)
class Record:
    """A record of a topic: what is fed, or what was collected."""

    value: bytes | str | Mapping[str, Any] | None
    """Bytes as they are, text as UTF-8, a mapping as JSON; None: a tombstone. What was collected is bytes or None."""
    key: bytes | str | None = None
    timestamp_ms: int | None = None
    """Kafka's timestamp, which is the event time of a stream that takes it; None: that of the moment."""
    partition: int | None = None
    """None: by the key, or without one as the producer likes."""
    offset: int | None = None
    """Of a record that was collected."""
    headers: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def json(self) -> Any:
        """The value as JSON; raises ValueError if it is none."""
        if isinstance(self.value, bytes | str):
            return json.loads(self.value)
        return self.value

    def __str__(self) -> str:
        value = self.value.decode("utf-8", "replace") if isinstance(self.value, bytes) else str(self.value)
        key = self.key.decode("utf-8", "replace") if isinstance(self.key, bytes) else self.key
        shown = value if len(value) <= _SHOWN_CHARACTERS else f"{value[:_SHOWN_CHARACTERS]}…"
        return f"partition {self.partition} offset {self.offset}: {f'{key} = ' if key is not None else ''}{shown}"


class Topics:
    """The topics that a test made, and any other of the same Kafka.

    Examples:
        >>> def test_what_is_fed_is_there(eventflink_cluster):
        ...     topic = eventflink_cluster.create_topic(eventflink_cluster.unique("orders"))
        ...     eventflink_cluster.feed(topic, [{"customer": "ada", "amount": 42}], key="customer")
        ...     assert [record.json for record in eventflink_cluster.collect(topic, 1)] == [{"customer": "ada", "amount": 42}]

    """

    def __init__(self, kafka: KafkaAccess, describe: Callable[[], str]) -> None:
        """Connect to nothing yet; `describe` says what else there is to know when records do not come."""
        self._kafka = kafka
        self._describe = describe
        self._admin = AdminConnection(kafka)
        self._made: set[str] = set()

    def create(self, name: str, partitions: int, configuration: Mapping[str, str]) -> None:
        """Make a topic and wait until it can be written to; raises ValueError if it is there already."""
        if name in self._admin.find_topics():
            raise ValueError(f"the topic '{name}' is there already, at {self._kafka.bootstrap}: take another name, or delete it")
        self._admin.create_topics([NewTopic(name, partitions, 1, config=dict(configuration))])
        self._made.add(name)
        self._admin.wait_for_topics([name])

    def delete_all(self) -> None:
        """Delete the topics that were made here."""
        self._admin.delete_topics(self._made)
        self._made.clear()

    def partitions_of(self, topic: str) -> int:
        """Return how many partitions a topic has; raises ValueError if there is no such topic."""
        topics = self._admin.find_topics()
        if topic not in topics:
            raise ValueError(f"topic not found: '{topic}' at {self._kafka.bootstrap}; create_topic makes one")
        return topics[topic].partitions

    def feed(self, topic: str, records: Iterable[Record]) -> None:
        """Append records, and return when Kafka has all of them."""
        self.partitions_of(topic)
        producer = make_producer(self._kafka)
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failed.append(error)

        try:
            for record in records:
                _produce(producer, topic, record, delivered)
            left = producer.flush(_DELIVERY_TIMEOUT_S)
        finally:
            producer.purge()
        if failed or left:
            reason = failed[0].str() if failed else f"no answer within {_DELIVERY_TIMEOUT_S:g} s"
            raise Unexpected(f"{len(failed) + left} records did not reach '{topic}' at {self._kafka.bootstrap}: {reason}")

    def collect_until(
        self, topic: str, condition: Callable[[list[Record]], Any], wanted: str, timeout_s: float, *, committed: bool
    ) -> list[Record]:
        """Return all that the topic holds, once it is as wanted; in the order of their offsets within a partition."""
        partitions = range(self.partitions_of(topic))
        isolation = "read_committed" if committed else "read_uncommitted"
        consumer = new_consumer(self._kafka, {"enable.partition.eof": True}, isolation=isolation)
        held = _Held()
        deadline = time.monotonic() + timeout_s
        try:
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
            while True:
                for message in consumer.consume(_BATCH, _POLL_S):
                    held.take(message)
                # To the end: what should not be there, such as a repeated record, is behind what is waited for.
                if len(held.ends) == len(partitions) and condition(held.records):
                    return held.records
                if len(held.records) > MAX_COLLECTED:
                    raise Unexpected(f"'{topic}' holds more than {MAX_COLLECTED} records")
                if time.monotonic() > deadline:
                    raise Unexpected(f"'{topic}' did not have {wanted} within {timeout_s:g} s: {self._describe_held(topic, held)}")
        finally:
            consumer.close()

    def _describe_held(self, topic: str, held: "_Held") -> str:
        records = held.records
        lines = [f"it has {len(records)} records{', the last of which:' if records else ''}"]
        lines += [f"  {record}" for record in records[-_SHOWN:]]
        if held.error:
            lines.append(f"  reading it says: {held.error}")
        try:
            marks = self._admin.read_watermarks([(topic, partition) for partition in held.ends])
        except AdministrationError as error:
            lines.append(f"  {error}")
        else:
            if is_open := sum(marks[topic, partition].high - end for partition, end in held.ends.items()):
                lines.append(f"  and {is_open} offsets behind them that belong to transactions which nobody has committed or aborted yet")
        return "\n".join([*lines, self._describe()])


@dataclass
class _Held:
    """What was read of a topic so far."""

    records: list[Record] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    """The end of each partition that is read to its end: to its first open transaction, where only what is committed is read."""
    error: str = ""

    def take(self, message: Message) -> None:
        error, partition = message.error(), message.partition()
        if error is None:
            self.ends.pop(partition, None)
            self.records.append(_collected(message))
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - a public name of librdkafka's code
            self.ends[partition] = message.offset()
        else:
            self.error = error.str()


def records_of(rows: Iterable[Any], key: str | None) -> Iterable[Record]:
    """Yield each row as a record; `key` names the field of a mapping that is the record's key."""
    for row in rows:
        if isinstance(row, Record):
            yield row
        elif isinstance(row, Mapping):
            yield Record(row, key=None if key is None else _text(row[key]))
        elif isinstance(row, bytes | str):
            yield Record(row)
        else:
            raise TypeError(f"a record is a mapping, bytes, text or a Record, not {type(row).__name__}: {row!r}"[:500])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _to_json(value)


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r} has no JSON form; dates and times have, and what JSON knows")


def _produce(producer: Any, topic: str, record: Record, delivered: Callable[[KafkaError | None, Message], None]) -> None:
    value = _to_json(record.value) if isinstance(record.value, Mapping) else record.value
    optional = {"timestamp": record.timestamp_ms, "partition": record.partition}
    given = {name: number for name, number in optional.items() if number is not None}
    while True:
        try:
            producer.produce(topic, value, record.key, headers=list(record.headers.items()), on_delivery=delivered, **given)
        except BufferError:
            producer.poll(_POLL_S)
        else:
            producer.poll(0)
            return


def _collected(message: Message) -> Record:
    kind, timestamp_ms = message.timestamp()
    known_ms = None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms
    return Record(message.value(), message.key(), known_ms, message.partition(), message.offset(), dict(message.headers() or []))
