"""Bulk replay: the log from where a fold stands to its end, folded as fast as one core does it.

It reads with confluent-kafka by assignment (no group, no commits). Where it stops, a tail continues from exactly there. Where it
begins, at a snapshot or before the first record, is decided in `snapshots`.
"""

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from eventflink.events.codec import DecisionCodec
from eventflink.events.seal import seals_of
from eventflink.events.topics import Topic, topic_name
from eventflink.leadership.fold import Fold, check_believed
from eventflink.leadership.known_log import KnownLog
from eventflink.log.dense_reader import DenseReader
from eventflink.master.master import Master
from eventflink.master.settings import MasterSettings
from eventflink.model.cluster_secret import sealed_from_offset
from eventflink.model.kafka_settings import client_settings

_logger = logging.getLogger(__name__)

# What librdkafka would log of each failed connection comes back as the error of the question.
_librdkafka_logger = logging.getLogger(f"{__name__}.librdkafka")
_librdkafka_logger.setLevel(logging.CRITICAL)

BATCH = 10_000
GC_THRESHOLD = 200_000
DEFAULT_STALL_TIMEOUT_S = 30.0


END_OFFSET_TIMEOUT_S = 5.0

_LEADERLESS = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
_LEADER_RETRY_S = 0.1


class ReplayStalled(Exception):
    """Kafka gave no more records before the end of the log was reached."""


def new_fold(settings: MasterSettings | None = None, cluster_id: str = "") -> Fold:
    """Return the state before the first record."""
    return Fold(Master(settings or MasterSettings()), log_codec(cluster_id))


def log_codec(cluster_id: str) -> DecisionCodec:
    """Return what reads the log of a cluster: where this process has the cluster's secret, no record counts without its seal (P3a)."""
    return DecisionCodec(seal=seals_of(cluster_id).of(Topic.LOG), sealed_from_offset=sealed_from_offset(cluster_id))


def consumer_settings(bootstrap: str, *, isolation: str = "read_uncommitted") -> dict[str, Any]:
    """Return the settings of a consumer that reads an assigned partition, from where it is told, for itself alone.

    What others write in transactions is read as it comes, unless `isolation` says otherwise: who reads what masters and TaskExecutors say
    waits for nobody else (P11).
    """
    own = {
        "group.id": "eventflink-reader",  # never joined, nothing is committed: librdkafka wants a name
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": isolation,
        "allow.auto.create.topics": False,
        "enable.partition.eof": False,
        "queued.max.messages.kbytes": 65_536,
        "fetch.wait.max.ms": 100,
        "fetch.message.max.bytes": 4 * 1024 * 1024,
        "check.crcs": True,
    }
    return client_settings(bootstrap, own)


def log_bounds(bootstrap: str, cluster_id: str, timeout_s: float = 10.0) -> tuple[int, int]:
    """Return the first offset of the log and the offset after its last record.

    Raises:
        KafkaException: the broker cannot be reached, or the cluster has no log.

    """
    consumer = Consumer(consumer_settings(bootstrap))
    try:
        return watermark_offsets(consumer, TopicPartition(topic_name(cluster_id, Topic.LOG), 0), timeout_s)
    finally:
        consumer.close()


def watermark_offsets(consumer: Consumer, partition: TopicPartition, timeout_s: float) -> tuple[int, int]:
    """Return the first offset of a partition and the one after its last record; a leader that is just being elected is waited for.

    Raises:
        KafkaException: the broker cannot be reached, does not have the partition, or elects no leader for it in time.

    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            low, high = consumer.get_watermark_offsets(partition, timeout=timeout_s, cached=False)
        except KafkaException as error:
            if error.args[0].code() not in _LEADERLESS or time.monotonic() >= deadline:
                raise
            time.sleep(_LEADER_RETRY_S)
        else:
            return int(low), int(high)


class EndOffset:
    """Asks Kafka for the end of a cluster's log, by one connection that stays open. For any thread, one question at a time."""

    def __init__(self, bootstrap: str, cluster_id: str) -> None:
        """Connect with the first question."""
        self._bootstrap = bootstrap
        self._partition = TopicPartition(topic_name(cluster_id, Topic.LOG), 0)
        self._consumer: Consumer | None = None
        self._lock = threading.Lock()

    def fetch(self, timeout_s: float = END_OFFSET_TIMEOUT_S) -> int:
        """Return the offset that the next record of the log gets.

        Raises:
            KafkaException: Kafka does not answer in time.

        """
        with self._lock:
            if self._consumer is None:
                self._consumer = Consumer(consumer_settings(self._bootstrap), logger=_librdkafka_logger)
            _, end_offset = self._consumer.get_watermark_offsets(self._partition, timeout=timeout_s, cached=False)
            return int(end_offset)

    def close(self) -> None:
        """Let the connection go; a question under way is waited for."""
        with self._lock:
            consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()


def read_log(
    bootstrap: str, cluster_id: str, first_offset: int, end_offset: int, stall_timeout_s: float = DEFAULT_STALL_TIMEOUT_S
) -> Iterator[tuple[int, int, bytes]]:
    """Yield (offset, timestamp, value) of the records from `first_offset` up to, without, `end_offset`; no value where there is none.

    Raises:
        ReplayStalled: no record came for `stall_timeout_s`.
        KafkaException: the broker reports an error that does not pass.

    """
    if first_offset >= end_offset:
        return
    settings = consumer_settings(bootstrap)
    consumer = Consumer(settings)
    try:
        partition = TopicPartition(topic_name(cluster_id, Topic.LOG), 0, first_offset if first_offset > 0 else OFFSET_BEGINNING)
        # Connected first: librdkafka asks half a second later for a beginning that it could not ask for at once.
        watermark_offsets(consumer, partition, stall_timeout_s)
        consumer.assign([partition])
        deadline = time.monotonic() + stall_timeout_s
        dense = DenseReader(settings, partition, first_offset)
        while True:
            # Never more than there is: a batch that cannot be filled would wait for its timeout.
            given = consumer.consume(min(BATCH, end_offset - dense.gaps.next_offset), timeout=0.2)
            errors = [error for message in given if (error := message.error()) is not None]
            for error in errors:
                if not error.retriable():
                    raise KafkaException(error)
            sound = [message for message in given if message.error() is None] if errors else given
            messages = dense.fill(sound, consumer.position([partition])[0].offset)
            for message in messages:
                if message.offset() >= end_offset:
                    return
                yield message.offset(), message.timestamp()[1], message.value() or b""
                if message.offset() == end_offset - 1:
                    return
            if messages:
                deadline = time.monotonic() + stall_timeout_s
            elif time.monotonic() > deadline:
                raise ReplayStalled(f"the log of {cluster_id} gave no record for {stall_timeout_s:.0f} s before offset {end_offset}")
    finally:
        consumer.close()


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Look for garbage cycles seldom: a growing state has none, and is walked through each time."""
    before = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def not_collecting() -> Iterator[None]:
    """Look for no garbage cycles at all: for work that makes many objects and no garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def replay(
    bootstrap: str,
    cluster_id: str,
    fold: Fold,
    end_offset: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    *,
    known: KnownLog | None = None,
) -> Fold:
    """Fold the log up to its present end (or `end_offset`) and return the fold.

    Raises:
        LogTruncated: the log has less than is `known` of it, or other records; only where it is read to its end.
        LogUnusable, LogDiverged, LogNotDense: the log is not one, or sealed with another secret; the message names the record.
        ReplayStalled, KafkaException: Kafka does not give it.

    """
    known = known or KnownLog()
    _, high = log_bounds(bootstrap, cluster_id)
    end = high if end_offset is None else min(end_offset, high)
    started = time.monotonic()
    with collecting_rarely():
        for offset, timestamp_ms, value in read_log(bootstrap, cluster_id, fold.last_offset + 1, end):
            fold.fold_record(offset, timestamp_ms, value)
            if offset == known.offset:
                known.check(fold)
            if on_progress is not None and offset % BATCH == 0:
                on_progress(offset, end)
    known.check(fold)
    check_believed(fold)
    elapsed = time.monotonic() - started
    _logger.info(
        "Replayed offset=%d accepted=%d rejected=%d events=%d seconds=%.3f",
        fold.last_offset,
        fold.accepted_count,
        fold.rejected_count,
        fold.event_count,
        elapsed,
    )
    return fold
