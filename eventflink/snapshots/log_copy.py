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

from eventflink.events.topics import Topic
from eventflink.log.administration import log_topic_id, trim_log
from eventflink.log.producers import PatientProducer
from eventflink.log.replay import log_bounds, read_log
from eventflink.model.cluster_access import ClusterAccess
from eventflink.snapshots.loading import LoadedSnapshot, find_snapshot, is_log_of
from eventflink.snapshots.snapshot import LogRange, take_snapshot
from eventflink.snapshots.topic import write_snapshot

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


def append_records(access: ClusterAccess, values: Iterable[bytes]) -> int:
    """Append records, in order, to a log that no master writes; return how many there were, once Kafka has them.

    Raises:
        NotDelivered: Kafka did not take one in time.

    """
    count = 0
    with PatientProducer(access, Topic.LOG, linger_ms=5) as producer:
        for value in values:
            producer.produce(access.cluster_id, value)
            count += 1
        producer.flush()
    return count


def copy_log(source: ClusterAccess, target: ClusterAccess, say: Callable[[str], None], end_offset: int | None = None) -> CopiedLog:
    """Copy the log of the cluster `source`, up to its present end or an earlier one, into the empty log of the cluster `target`.

    Raises:
        CopyFailed: the copy could not be made, or is not equal.
        KafkaException, NotDelivered, ReplayStalled, AdministrationError: Kafka does not answer.

    """
    started = time.monotonic()
    first_offset, present_end = log_bounds(source)
    end_offset = present_end if end_offset is None else min(end_offset, present_end)
    copied = LogRange(log_topic_id(source), first_offset, end_offset)
    if log_bounds(target) != (0, 0):
        raise CopyFailed(f"the log of '{target.cluster_id}' is not empty")
    snapshot = find_snapshot(source, wanted=lambda manifest: is_log_of(source, manifest, copied), log=copied)
    if first_offset:
        if snapshot is None:
            raise CopyFailed(
                f"the log of '{source.cluster_id}' begins at offset {first_offset}, and no snapshot that can be used reaches there"
            )
        _begin_at(target, first_offset)
    read = _Sum()
    append_records(target, _watched(source, first_offset, end_offset, read, say))
    written = _Sum()
    for offset, _, value in read_log(target, first_offset, end_offset):
        written.add(offset, value)
    if (read.count, read.hexdigest) != (written.count, written.hexdigest) or log_bounds(target) != (first_offset, end_offset):
        raise CopyFailed(
            f"the log of '{target.cluster_id}' is not what was read of '{source.cluster_id}': somebody else writes to one of them"
        )
    if snapshot is not None:
        _copy_snapshot(snapshot, target)
    return CopiedLog(first_offset, end_offset, read.byte_count, read.hexdigest, time.monotonic() - started)


def begin_with_snapshot(snapshot: LoadedSnapshot, target: ClusterAccess) -> None:
    """Let the empty log of the cluster `target` begin behind a snapshot, of which it gets a copy.

    Raises:
        CopyFailed: the log is not empty, or the copy is not equal.
        KafkaException, NotDelivered, AdministrationError: Kafka does not answer.

    """
    if log_bounds(target) != (0, 0):
        raise CopyFailed(f"the log of '{target.cluster_id}' is not empty")
    _begin_at(target, snapshot.manifest.log_offset + 1)
    _copy_snapshot(snapshot, target)


def _begin_at(target: ClusterAccess, first_offset: int) -> None:
    append_records(target, (b"" for _ in range(first_offset)))
    trim_log(target, first_offset)


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


def _watched(access: ClusterAccess, first_offset: int, end_offset: int, total: _Sum, say: Callable[[str], None]) -> Iterable[bytes]:
    for offset, _, value in read_log(access, first_offset, end_offset):
        total.add(offset, value)
        if total.count % SAY_EVERY == 0:
            say(f"{total.count:,} of {end_offset - first_offset:,} records copied")
        yield value


def _copy_snapshot(snapshot: LoadedSnapshot, target: ClusterAccess) -> None:
    """Write a snapshot again, as one of the target's log."""
    manifest = snapshot.manifest
    copied, chunks = take_snapshot(snapshot.fold, manifest.snapshot_id, manifest.taken_by, log_topic_id(target))
    if copied.digest != manifest.digest:
        raise CopyFailed(f"the snapshot {manifest.snapshot_id} holds a state with the digest {copied.digest}, not {manifest.digest}")
    write_snapshot(target, copied, chunks)
