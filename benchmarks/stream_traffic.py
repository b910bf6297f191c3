"""What goes into a benchmark's stream and what comes out of it: numbered records at a steady rate, and committed records as they arrive.

Each record is a JSON object with its number and the time when it was fed, of the monotonic clock. The rule it keeps: a producer's
repetition is no repetition of a stream, so producers are idempotent; who reads, reads committed records only.
"""

import contextlib
import hashlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from benchmarks.failover_watch import NotSeen
from benchmarks.stream_counts import Arrival
from eventflink.gateways.kafka_clients import make_producer
from eventflink.log.admin_connection import AdminConnection
from eventflink.log.clients import consumer_settings
from eventflink.model.kafka_settings import KafkaAccess

PARTITIONS: Final = 4
SCHEMA: Final = "number BIGINT, fed_ns BIGINT, text STRING"

_TICK_S: Final = 0.005
_POLL_S: Final = 0.1
_BATCH: Final = 10_000
_TIMEOUT_S: Final = 60.0
_TEXT_LENGTH: Final = 88


class TrafficFailed(Exception):
    """Records could not be fed or read; figures would mean nothing."""


@dataclass(frozen=True, slots=True)
class StreamTopics:
    """Where a stream reads and where it writes."""

    source: str
    target: str


@contextlib.contextmanager
def stream_topics(bootstrap: str) -> Iterator[StreamTopics]:
    """Make two topics of new names, and delete them at last."""
    admin = AdminConnection(KafkaAccess(bootstrap))
    name = f"bench-{uuid.uuid4().hex[:12]}"
    topics = StreamTopics(f"{name}-source", f"{name}-target")
    names = [topics.source, topics.target]
    admin.create_topics([NewTopic(each, PARTITIONS, 1) for each in names])
    try:
        admin.wait_for_topics(names)
        yield topics
    finally:
        admin.delete_topics(names)


class Feed:
    """Appends numbered records; the partition is the number modulo how many there are."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        """Connect; nothing is fed yet."""
        self._topic = topic
        self._producer: Producer = make_producer(KafkaAccess(bootstrap))
        self._failed: KafkaError | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.fed = 0

    def fill(self, count: int) -> None:
        """Append so many records as fast as they go."""
        for _ in range(count):
            self._produce()
        self._flush()

    def start(self, records_per_s: float) -> None:
        """Append records at a steady rate until `stop`; what was due while this thread had no processor follows at once."""
        self._thread = threading.Thread(target=self._run, args=(records_per_s,), name="feed", daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """Feed no more, and return how many records are in the topic.

        Raises:
            TrafficFailed: one of them could not be appended.

        """
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_TIMEOUT_S)
        self._flush()
        return self.fed

    def _run(self, records_per_s: float) -> None:
        began_s, before = time.monotonic(), self.fed
        while not self._stopping.wait(_TICK_S):
            due = before + int((time.monotonic() - began_s) * records_per_s)
            while self.fed < due:
                self._produce()
            self._producer.poll(0)

    def _produce(self) -> None:
        # The same text in each record would compress to next to nothing.
        text = hashlib.sha512(self.fed.to_bytes(8)).hexdigest()[:_TEXT_LENGTH]
        value = json.dumps({"number": self.fed, "fed_ns": time.monotonic_ns(), "text": text})
        while True:
            try:
                self._producer.produce(self._topic, value, partition=self.fed % PARTITIONS, on_delivery=self._note)
                break
            except BufferError:
                self._producer.poll(_POLL_S)
        self.fed += 1

    def _note(self, error: KafkaError | None, _message: Message) -> None:
        self._failed = self._failed or error

    def _flush(self) -> None:
        left = self._producer.flush(_TIMEOUT_S)
        if self._failed is not None or left:
            raise TrafficFailed(f"'{self._topic}' did not take all records: {self._failed.str() if self._failed else f'{left} are left'}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_TIMEOUT_S)


class Arrivals:
    """Reads what is committed of a topic as it comes, in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        """Begin with the first record."""
        self._consumer = _assigned(bootstrap, topic, {"isolation.level": "read_committed", "fetch.wait.max.ms": 500})
        self._stopping = threading.Event()
        self._arrivals: list[Arrival] = []
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="arrivals", daemon=True)
        self._thread.start()

    def seen(self) -> list[Arrival]:
        """Return what has arrived so far, in that order.

        Raises:
            TrafficFailed: the topic could not be read.

        """
        if self._failure is not None:
            raise TrafficFailed(f"the target could not be read: {self._failure}") from self._failure
        return list(self._arrivals)

    def wait_for(self, condition: Callable[[list[Arrival]], Any], what: str, timeout_s: float) -> list[Arrival]:
        """Return the arrivals when the condition holds of them.

        Raises:
            NotSeen: it did not in time.

        """
        deadline_s = time.monotonic() + timeout_s
        while not condition(seen := self.seen()):
            if time.monotonic() > deadline_s:
                raise NotSeen(f"{what}: not within {timeout_s:.0f} s; {len(seen)} records are committed")
            time.sleep(_POLL_S)
        return seen

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                first = self._consumer.poll(_POLL_S)
                if first is None:
                    continue
                now_ns = time.monotonic_ns()
                for message in [first, *self._consumer.consume(_BATCH, 0)]:
                    if (value := _value_of(message)) is not None:
                        record = json.loads(value)
                        self._arrivals.append(Arrival(record["number"], record["fed_ns"], now_ns))
        except Exception as error:  # noqa: BLE001 - it is raised again where somebody waits
            self._failure = error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stopping.set()
        self._thread.join(_TIMEOUT_S)
        self._consumer.close()


def read_numbers(bootstrap: str, topic: str, *, committed: bool) -> list[int]:
    """Return the numbers of all records that the topic holds now.

    Args:
        bootstrap: where Kafka is.
        topic: what is read.
        committed: without the records of transactions that were aborted.

    Raises:
        TrafficFailed: it was not read to its end in time.

    """
    isolation = "read_committed" if committed else "read_uncommitted"
    consumer = _assigned(bootstrap, topic, {"isolation.level": isolation, "enable.partition.eof": True})
    numbers: list[int] = []
    ended: set[int] = set()
    deadline_s = time.monotonic() + _TIMEOUT_S
    try:
        while len(ended) < PARTITIONS:
            if time.monotonic() > deadline_s:
                raise TrafficFailed(f"'{topic}' could not be read to its end within {_TIMEOUT_S:.0f} s")
            for message in consumer.consume(_BATCH, _POLL_S):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - a public name of librdkafka's code
                    ended.add(message.partition() or 0)
                elif (value := _value_of(message)) is not None:
                    numbers.append(json.loads(value)["number"])
    finally:
        consumer.close()
    return numbers


def _assigned(bootstrap: str, topic: str, settings: dict[str, Any]) -> Consumer:
    consumer = Consumer(consumer_settings(KafkaAccess(bootstrap)) | {"log_level": 0} | settings)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    return consumer


def _value_of(message: Message) -> bytes | None:
    """Return the record; None where the message says what passes, such as a broker that is away.

    Raises:
        KafkaException: it does not pass.

    """
    error = message.error()
    if error is None:
        value: bytes | None = message.value()
        return value
    if error.fatal() or error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - as above
        raise KafkaException(error)
    return None
