"""The exactly-once sink for Kafka: each batch of a stream is one transaction, which holds the number of the next batch as well.

It runs where Spark calls `foreachBatch`: in a process beside the Spark server, one for each query, as long as that runs. Spark repeats the
batch that it had not noted as done when it was ended. What is done with it is decided in `sink_protocol.py`; here it is carried out: the
mark is the offset of a consumer group that is named as the subtask, with `ATTEMPT.QUERY FINGERPRINT` as its metadata.

So a record counts once for whoever reads committed records, whatever was killed, and whether or not a repeated batch has its rows in the
same order and partitions.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from eventflink.log.refusals import explain
from eventflink.model.kafka_settings import client_settings
from eventflink.model.places import Place
from eventflink.streams.client_watch import ClientWatch
from eventflink.streams.failures import SinkFenced, SinkUnavailable
from eventflink.streams.progress import offsets_fingerprint
from eventflink.streams.sink_protocol import (
    BeginTransaction,
    Commit,
    ComputeBatch,
    FenceOlder,
    KafkaSinkSettings,
    Mark,
    ReadMark,
    SendMark,
    SinkProtocol,
    SinkStep,
    WriteRecords,
    next_step,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

KEY: Final = "key"
VALUE: Final = "value"
TOPIC: Final = "topic"
_MAX_RECORD_BYTES: Final = 100 * 1024 * 1024
"""How large a record may be at the most is the topic's business."""

BATCHING: Final = {"linger.ms": 5, "compression.type": "lz4"}
"""How the producer packs records; a comparison with another sink needs it to do the same."""

_ANY_PARTITION: Final = -1
_CALL_TIMEOUT_S: Final = 30.0
_QUEUE_POLL_S: Final = 0.1
_RETRY_S: Final = 0.1
_FENCED: Final = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)  # noqa: SLF001 - its public name
_PURGED: Final = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)  # noqa: SLF001 - their public names
"""What an abort says of each record."""

_PASSING: Final = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
)
"""What a broker says that has just started, or still ends the transaction of another; librdkafka does not call all of it retriable."""


class KafkaSink:
    """What Spark calls with each batch, of the columns `value`, `key` and `topic`, in this order.

    The last may be missing, or the last two: then there is one topic, or there are no keys.
    """

    def __init__(self, settings: KafkaSinkSettings) -> None:
        """Connect to nothing: the object is pickled, and works in another process."""
        self._settings = settings
        self._producer: Producer | None = None
        self._group: Any = None
        self._protocol = SinkProtocol(settings)
        self._refusal: KafkaError | None = None
        """Why Kafka did not take a record of the batch."""
        self._refused_topic = settings.topic
        self._begun_at_s: float | None = None
        """When the first record of the batch was produced."""
        self._watch = ClientWatch()

    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        """Write a batch in one transaction, or only compute it if it was written before.

        Raises:
            SinkFenced: a newer attempt writes.
            SinkUnavailable: Kafka did not take it, or did not say so in time.
            CheckpointLost: batches beyond the next one were written before.
            ClientSilent: nobody waits for this stream any more.

        """
        self._watch.check(batch.sparkSession)
        try:
            self._write(batch, batch_id)
        except KafkaException as error:
            raise self._explain(error.args[0], batch_id) from error

    def settle(self, next_batch_id: int) -> int:
        """Let no older query write any more, and return the number of the batch that the topic has not got yet.

        Args:
            next_batch_id: the first batch that the checkpoint directory does not have as done.

        Raises:
            SinkFenced: a newer attempt writes.
            SinkUnavailable: Kafka does not say so.
            CheckpointLost: the checkpoint directory is behind what was written.

        """
        steps = self._protocol.settling(next_batch_id, self._offsets_of(next_batch_id), self._offsets_of(next_batch_id - 1))
        try:
            self._carry_out_all(steps, None, next_batch_id)
        except KafkaException as error:
            raise self._explain(error.args[0], self._protocol.next_batch_id) from error
        return self._protocol.next_batch_id

    def _write(self, batch: "DataFrame", batch_id: int) -> None:
        self._refusal = self._begun_at_s = None
        self._carry_out_all(self._protocol.steps(batch_id, self._offsets_of(batch_id), self._offsets_of(batch_id - 1)), batch, batch_id)

    def _carry_out_all(self, steps: Generator[SinkStep, Mark | None, None], batch: "DataFrame | None", batch_id: int) -> None:
        step, is_begun = next_step(steps, None), False
        try:
            while step is not None:
                found = self._carry_out(step, batch, batch_id)
                is_begun = is_begun or isinstance(step, BeginTransaction)
                step = next_step(steps, found)
        except BaseException:
            if is_begun:
                with contextlib.suppress(KafkaException):  # What cannot be aborted is aborted by Kafka.
                    self._open_producer.abort_transaction(_CALL_TIMEOUT_S)
            raise

    def _carry_out(self, step: SinkStep, batch: "DataFrame | None", batch_id: int) -> Mark | None:
        match step:
            case ReadMark(awaits_transactions=awaits_transactions):
                return self._read_mark("read_committed" if awaits_transactions else "read_uncommitted")
            case FenceOlder():
                self._producer = self._new_producer()
                _retry(lambda: self._open_producer.init_transactions(_CALL_TIMEOUT_S))
            case ComputeBatch():
                assert batch is not None  # noqa: S101 - who settles has no batch, and computes none
                logger.info("BatchRepeated writer=%s batch=%d", self._settings.writer_id, batch_id)
                batch.write.format("noop").mode("overwrite").save()
            case BeginTransaction():
                self._open_producer.begin_transaction()
            case WriteRecords():
                self._produce(self._open_producer, batch)
            case SendMark(mark=mark):
                offset = TopicPartition(self._settings.topic, 0, mark.next_batch_id, f"{mark.attempt}.{mark.query} {mark.offsets}")
                self._open_producer.send_offsets_to_transaction([offset], self._group, _CALL_TIMEOUT_S)
            case Commit():
                _retry(lambda: self._open_producer.commit_transaction(_CALL_TIMEOUT_S))
        return None

    @property
    def _open_producer(self) -> Producer:
        assert self._producer is not None  # noqa: S101 - older attempts are fenced before anything is written
        return self._producer

    def _produce(self, producer: Producer, batch: "DataFrame") -> None:
        topic, fixed = self._settings.topic, dict(self._settings.fixed_partitions)
        for record in _records(batch):
            value, key, to = record + (None, None, topic)[len(record) :]
            self._begun_at_s = self._begun_at_s or time.monotonic()
            while True:
                try:
                    producer.produce(to, value, key, fixed.get(to, _ANY_PARTITION))
                    break
                except BufferError:
                    producer.poll(_QUEUE_POLL_S)
        producer.flush(_CALL_TIMEOUT_S)

    def _note_refusal(self, error: KafkaError, record: Message) -> None:
        if error.code() not in _PURGED and self._refusal is None:
            self._refusal, self._refused_topic = error, record.topic() or self._settings.topic

    def _new_producer(self) -> Producer:
        settings = self._settings
        return Producer(
            self._connection
            | BATCHING
            | {
                "transactional.id": settings.transactional_id,
                "transaction.timeout.ms": settings.transaction_timeout_ms,
                "delivery.report.only.error": True,
                "on_delivery": self._note_refusal,
                "message.max.bytes": _MAX_RECORD_BYTES,
                "partitioner": "murmur2_random",  # As Kafka's own clients have it.
            }
        )

    @property
    def _connection(self) -> dict[str, Any]:
        return client_settings(self._settings.kafka, {"client.id": self._settings.writer_id})

    def _read_mark(self, isolation_level: str) -> Mark | None:
        """Return the mark; one that is read committed is waited for while a transaction that moves it is open."""
        # The group has no members: it is the place of a number.
        group = {"group.id": self._settings.writer_id, "enable.auto.commit": False, "isolation.level": isolation_level}
        consumer = Consumer(self._connection | group)
        try:
            offset = _retry(lambda: _committed(consumer, self._settings.topic))
            self._group = consumer.consumer_group_metadata()
        finally:
            consumer.close()
        if offset.offset < 0:
            return None
        writer, _, offsets = (offset.metadata or "0").partition(" ")
        attempt, _, query = writer.partition(".")
        return Mark(offset.offset, int(attempt), offsets, int(query or 1))

    def _offsets_of(self, batch_id: int) -> str:
        return offsets_fingerprint(Place(self._settings.location), batch_id)

    def _explain(self, error: KafkaError, batch_id: int) -> Exception:
        settings = self._settings
        if error.code() in _FENCED:
            took_s = time.monotonic() - (self._begun_at_s or time.monotonic())
            if took_s * 1000 >= settings.transaction_timeout_ms:
                return SinkUnavailable(
                    f"batch {batch_id} took {took_s:.0f} s, and Kafka ends a transaction after transaction_timeout_ms, "
                    f"{settings.transaction_timeout_ms}: raise that, or lower max_offsets_per_trigger of the sources"
                )
            return SinkFenced(f"a newer attempt of {settings.writer_id} writes to '{settings.topic}': batch {batch_id} was not written")
        # That the transaction cannot go on says less than why.
        reason = explain(
            self._refusal or error,
            settings.kafka,
            "Write",
            self._refused_topic,
            group=settings.writer_id,
            transactional_id=settings.transactional_id,
        )
        return SinkUnavailable(
            f"Kafka at {settings.kafka.bootstrap} did not take batch {batch_id} for topic '{self._refused_topic}': {reason}"
        )


def _committed(consumer: Consumer, topic: str) -> TopicPartition:
    [mark] = consumer.committed([TopicPartition(topic, 0)], timeout=_CALL_TIMEOUT_S)
    if mark.error is not None:
        raise KafkaException(mark.error)
    return mark


def _records(batch: "DataFrame") -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the batch as they come, without a `Row` for each as `toLocalIterator` makes: that costs half of the throughput."""
    from pyspark.sql.connect.dataframe import DataFrame as RemoteDataFrame  # noqa: PLC0415 - where Spark calls, it is loaded

    assert isinstance(batch, RemoteDataFrame)  # noqa: S101 - in a server of Spark Connect there are no others
    plan, client = batch._plan, batch._session.client  # noqa: SLF001 - pyspark is pinned, and offers nothing else that is bounded
    for part in client.to_table_as_iterator(plan.to_proto(client), plan.observations):
        if isinstance(part, pa.Table):
            yield from zip(*[column.to_pylist() for column in part.columns], strict=True)


_T = TypeVar("_T")


def _retry(call: Callable[[], _T]) -> _T:
    """Repeat what Kafka asks to be repeated; a call that took as long as it may is resumed once."""
    deadline_s = time.monotonic() + 2 * _CALL_TIMEOUT_S
    while True:
        try:
            return call()
        except KafkaException as error:
            problem = error.args[0]
            if not (problem.retriable() or problem.code() in _PASSING) or time.monotonic() >= deadline_s:
                raise
            time.sleep(_RETRY_S)
