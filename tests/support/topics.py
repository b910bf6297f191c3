"""Topics of tests: made, fed with records, and read as whoever reads committed records sees them."""

import itertools
import json
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from eventflink.log.admin_connection import AdminConnection
from eventflink.model.kafka_settings import KafkaAccess

TIMEOUT_S = 120.0
PARTITION_UA = -1
"""What librdkafka calls the partition that a record finds for itself."""


def create_topic(bootstrap: str, partitions: int = 2) -> str:
    """Create a topic of a new name and return that."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    connection = AdminConnection(KafkaAccess(bootstrap), TIMEOUT_S)
    connection.wait_for_topics([name], lambda _: connection.create_topics([NewTopic(name, partitions, 1)]))
    return name


def add_partitions(bootstrap: str, topic: str, count: int) -> None:
    """Let a topic have so many partitions; return when the broker tells of them all, which may be later than it says that it is done."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(TIMEOUT_S)
    deadline = time.monotonic() + TIMEOUT_S
    while len(admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions) != count:
        assert time.monotonic() < deadline, f"topic {topic} does not have {count} partitions within {TIMEOUT_S} s"
        time.sleep(0.05)


def feed(
    bootstrap: str, topic: str, records: Iterable[dict[str, Any] | bytes], partitions: Iterable[int] = itertools.repeat(PARTITION_UA)
) -> None:
    """Append records, each to the partition that is named beside it, or to one of its own choice: a dict as JSON."""
    # Otherwise all that is appended within ten milliseconds goes to one partition, and whoever reads another has nothing.
    producer = Producer({"bootstrap.servers": bootstrap, "sticky.partitioning.linger.ms": 0, "enable.idempotence": True})
    lost: list[str] = []

    def note(error: KafkaError | None, record: Message) -> None:
        if error is not None:
            lost.append(f"a record for partition {record.partition()}: {error}")

    for record, partition in zip(records, partitions):  # noqa: B905 - there are as many partitions as are wanted
        value = record if isinstance(record, bytes) else json.dumps(record).encode()
        producer.produce(topic, value, partition=partition, on_delivery=note)
    assert producer.flush(TIMEOUT_S) == 0
    assert lost == []


class CommittedReader:
    """Reads what is committed of a topic, from its first record on."""

    def __init__(self, bootstrap: str, topic: str, partitions: int = 2) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "isolation.level": "read_committed"}
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        self.rows: list[dict[str, Any]] = []
        """Everything that was read, as JSON."""

    def read_until(self, condition: Callable[[list[dict[str, Any]]], object], timeout_s: float = TIMEOUT_S) -> list[dict[str, Any]]:
        """Read until the condition holds of all rows."""
        deadline = time.monotonic() + timeout_s
        while not condition(self.rows):
            assert time.monotonic() < deadline, f"not within {timeout_s} s; {len(self.rows)} rows, the last {self.rows[-3:]}"
            self.read(0.5)
        return self.rows

    def read(self, timeout_s: float) -> None:
        """Read what comes within a time."""
        self.rows += [json.loads(record.value() or b"") for record in self._consume(timeout_s)]

    def read_records(self, count: int) -> list[Message]:
        """Read so many records as they are."""
        records: list[Message] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(records) < count and time.monotonic() < deadline:
            records += self._consume(0.5)
        return records

    def _consume(self, timeout_s: float) -> list[Message]:
        messages: list[Message] = self._consumer.consume(10_000, timeout_s)
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
        return messages

    def close(self) -> None:
        """Leave Kafka."""
        self._consumer.close()
