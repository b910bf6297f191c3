"""A copy of a cluster's log under another cluster id: the same bytes at the same offsets, which a reading of both proves.

The source is only read. The newest snapshot comes along, told whose log it belongs to now, so that a master starts on the copy as it
would on the log. The copy of a log that was trimmed is filled with empty records up to where that one begins, which are trimmed away again.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from eventflink.events.topics import Topic, topic_name
from eventflink.leadership.snapshot import take_snapshot
from eventflink.log.administration import log_topic_id, trim_log
from eventflink.log.producers import producer_settings
from eventflink.log.replay import log_bounds, read_log
from eventflink.log.snapshot_topic import write_snapshot
from eventflink.log.snapshots import LoadedSnapshot, find_snapshot

DELIVERY_TIMEOUT_S: Final = 120.0
SAY_EVERY: Final = 100_000

_logger = logging.getLogger(__name__)


class CopyFailed(Exception):
    """The copy could not be made, or is not one; the message says why."""


@dataclass(frozen=True, slots=True)
class CopiedLog:
    """What was copied."""

    first_offset: int
    end_offset: int
    byte_count: int
    sha256: str
    """Of all values, each with its offset and length."""
    seconds: float


class LogWriter:
    """Writes records to a log that no master writes. Use `append_all`."""

    def __init__(self, bootstrap: str, cluster_id: str) -> None:
        """Open the producer."""
        settings = producer_settings(bootstrap, int(DELIVERY_TIMEOUT_S * 1000)) | {"linger.ms": 5}
        self._topic = topic_name(cluster_id, Topic.LOG)
        self._key = cluster_id.encode()
        self._failure = ""
        self._producer = Producer(settings, logger=_logger)

    def append_all(self, values: Iterable[bytes]) -> int:
        """Append records in order and wait until Kafka has them; return how many there were.

        Raises:
            CopyFailed: Kafka did not take one in time.

        """
        count = 0
        for value in values:
            self._append(value)
            count += 1
            if self._failure:
                break
        left = self._producer.flush(DELIVERY_TIMEOUT_S)
        if left or self._failure:
            self._producer.purge()
            raise CopyFailed(f"{self._topic}: {self._failure or f'{left} records are not delivered after {DELIVERY_TIMEOUT_S:.0f} s'}")
        return count

    def _append(self, value: bytes) -> None:
        deadline = time.monotonic() + DELIVERY_TIMEOUT_S
        while True:
            try:
                self._producer.produce(self._topic, key=self._key, value=value, partition=0, on_delivery=self._delivered)
            except BufferError:
                if time.monotonic() > deadline:
                    raise CopyFailed(f"{self._topic}: Kafka took nothing for {DELIVERY_TIMEOUT_S:.0f} s") from None
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failure = self._failure or error.str()


def copy_log(bootstrap: str, source: str, target: str, say: Callable[[str], None]) -> CopiedLog:
    """Copy the log of the cluster `source`, up to its present end, into the empty log of the cluster `target`.

    Raises:
        CopyFailed: the copy could not be made, or is not equal.
        KafkaException, ReplayStalled, AdministrationError: Kafka does not answer.

    """
    started = time.monotonic()
    first_offset, end_offset = log_bounds(bootstrap, source)
    if log_bounds(bootstrap, target) != (0, 0):
        raise CopyFailed(f"the log of '{target}' is not empty")
    writer = LogWriter(bootstrap, target)
    snapshot = find_snapshot(bootstrap, source, wanted=lambda manifest: manifest.log_offset < end_offset)
    if first_offset:
        if snapshot is None:
            raise CopyFailed(f"the log of '{source}' begins at offset {first_offset}, and no snapshot that can be used reaches there")
        writer.append_all(b"" for _ in range(first_offset))
        trim_log(bootstrap, target, first_offset)
    read = _Sum()
    writer.append_all(_watched(bootstrap, source, first_offset, end_offset, read, say))
    written = _Sum()
    for offset, _, value in read_log(bootstrap, target, first_offset, end_offset):
        written.add(offset, value)
    if (read.count, read.hexdigest) != (written.count, written.hexdigest) or log_bounds(bootstrap, target) != (first_offset, end_offset):
        raise CopyFailed(f"the log of '{target}' is not what was read of '{source}': somebody else writes to one of them")
    if snapshot is not None:
        _copy_snapshot(bootstrap, snapshot, target)
    return CopiedLog(first_offset, end_offset, read.byte_count, read.hexdigest, time.monotonic() - started)


class _Sum:
    """A hash over records."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.count = 0
        self.byte_count = 0

    def add(self, offset: int, value: bytes) -> None:
        self._hash.update(f"{offset}:{len(value)}:".encode())
        self._hash.update(value)
        self.count += 1
        self.byte_count += len(value)

    @property
    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def _watched(
    bootstrap: str, cluster_id: str, first_offset: int, end_offset: int, total: _Sum, say: Callable[[str], None]
) -> Iterable[bytes]:
    for offset, _, value in read_log(bootstrap, cluster_id, first_offset, end_offset):
        total.add(offset, value)
        if total.count % SAY_EVERY == 0:
            say(f"{total.count:,} of {end_offset - first_offset:,} records copied")
        yield value


def _copy_snapshot(bootstrap: str, snapshot: LoadedSnapshot, target: str) -> None:
    """Write a snapshot anew, as one of the target's log."""
    manifest = snapshot.manifest
    copied, chunks = take_snapshot(snapshot.fold, manifest.snapshot_id, manifest.taken_by, log_topic_id(bootstrap, target))
    if copied.digest != manifest.digest:
        raise CopyFailed(f"the snapshot {manifest.snapshot_id} holds a state with the digest {copied.digest}, not {manifest.digest}")
    write_snapshot(bootstrap, target, copied, chunks)
