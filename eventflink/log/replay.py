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

from confluent_kafka import OFFSET_BEGINNING, Message

from eventflink.events.codec import DecisionCodec
from eventflink.events.seal import seals_of
from eventflink.events.topics import Topic, topic_name
from eventflink.leadership.fold import Fold, check_believed
from eventflink.leadership.known_log import KnownLog
from eventflink.log.pulled_partition import BATCH, PulledPartition
from eventflink.master.master import Master
from eventflink.master.settings import MasterSettings
from eventflink.model.cluster_access import ClusterAccess

_logger = logging.getLogger(__name__)

GC_THRESHOLD = 200_000
DEFAULT_STALL_TIMEOUT_S = 30.0
END_OFFSET_TIMEOUT_S = 5.0

_POLL_S = 0.2


class ReplayStalled(Exception):
    """Kafka gave no more records before the end of the log was reached."""


def new_fold(access: ClusterAccess, settings: MasterSettings | None = None) -> Fold:
    """Return the state before the first record."""
    return Fold(Master(settings or MasterSettings()), log_codec(access))


def log_codec(access: ClusterAccess) -> DecisionCodec:
    """Return what reads the log of a cluster: where this process has the cluster's secret, no record counts without its seal (P3a)."""
    return DecisionCodec(seal=seals_of(access).of(Topic.LOG), sealed_from_offset=access.sealed_from_offset)


def log_bounds(access: ClusterAccess, timeout_s: float = 10.0) -> tuple[int, int]:
    """Return the first offset of the log and the offset after its last record.

    Raises:
        KafkaException: the broker cannot be reached, or the cluster has no log.

    """
    with PulledPartition(access.kafka, topic_name(access.cluster_id, Topic.LOG)) as log:
        return log.bounds(timeout_s)


class EndOffset:
    """Asks Kafka for the end of a cluster's log, by one connection that stays open. For any thread, one question at a time."""

    def __init__(self, access: ClusterAccess) -> None:
        """Connect with the first question."""
        self._access, self._topic = access, topic_name(access.cluster_id, Topic.LOG)
        self._log: PulledPartition | None = None
        self._lock = threading.Lock()

    def fetch(self, timeout_s: float = END_OFFSET_TIMEOUT_S) -> int:
        """Return the offset that the next record of the log gets.

        Raises:
            KafkaException: Kafka does not answer in time.

        """
        with self._lock:
            if self._log is None:
                self._log = PulledPartition(self._access.kafka, self._topic)
            return self._log.bounds(timeout_s)[1]

    def close(self) -> None:
        """Let the connection go; a question under way is waited for."""
        with self._lock:
            log, self._log = self._log, None
        if log is not None:
            log.close()


def read_log(
    access: ClusterAccess, first_offset: int, end_offset: int, stall_timeout_s: float = DEFAULT_STALL_TIMEOUT_S
) -> Iterator[tuple[int, int, bytes]]:
    """Yield (offset, timestamp, value) of the records from `first_offset` up to, without, `end_offset`; no value where there is none.

    Raises:
        ReplayStalled: no record came for `stall_timeout_s`.
        KafkaException: the broker reports an error that does not pass.

    """
    if first_offset >= end_offset:
        return
    with PulledPartition(access.kafka, topic_name(access.cluster_id, Topic.LOG), is_dense=True) as log:
        # Connected first: librdkafka asks half a second later for a beginning that it could not ask for at once.
        log.bounds(stall_timeout_s)
        log.seek(first_offset if first_offset > 0 else OFFSET_BEGINNING)
        for message in read_to(log, end_offset, stall_timeout_s):
            yield message.offset() or 0, message.timestamp()[1], message.value() or b""


def read_to(reader: PulledPartition, end_offset: int, stall_timeout_s: float = DEFAULT_STALL_TIMEOUT_S) -> Iterator[Message]:
    """Yield the records from where a reader stands up to, without, `end_offset`.

    Raises:
        ReplayStalled: no record came for `stall_timeout_s`.
        KafkaException: as `PulledPartition.read`.

    """
    deadline = time.monotonic() + stall_timeout_s
    while reader.position < end_offset:
        # Never more than there is: a batch that cannot be filled would wait for its timeout. Only a dense partition fills it; many records
        # at a time are read in less time than those of each fetch, where processors are busy.
        most = min(BATCH, end_offset - reader.position)
        for message in (messages := reader.read(_POLL_S, most, waits_for_all=reader.is_dense)):
            if (message.offset() or 0) >= end_offset:
                return
            yield message
        if messages:
            deadline = time.monotonic() + stall_timeout_s
        elif reader.reached is not None and not reader.is_dense:
            return  # The last records of a compacted topic may be gone, or be no records.
        elif time.monotonic() > deadline:
            raise ReplayStalled(f"{reader.topic} gave no record for {stall_timeout_s:.0f} s before offset {end_offset}")


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
    access: ClusterAccess,
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
    _, high = log_bounds(access)
    end = high if end_offset is None else min(end_offset, high)
    started = time.monotonic()
    with collecting_rarely():
        for offset, timestamp_ms, value in read_log(access, fold.last_offset + 1, end):
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
