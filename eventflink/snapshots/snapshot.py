"""A snapshot: a fold cut into records that can be checked one by one, and put together again.

A manifest says what the chunks hold and is written behind them, so what lacks it was never finished. Nothing here reads or writes
Kafka. The rule: a snapshot is used whole and unharmed or not at all, and its data is never executed: it is JSON, compressed.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from eventflink.events.codec import DecisionCodec, UndecodableRecord
from eventflink.events.columns import ColumnsUnreadable
from eventflink.events.snapshot_records import SnapshotChunk, SnapshotManifest
from eventflink.events.topics import MAX_SNAPSHOT_CHUNK_BYTES, Topic
from eventflink.leadership.acceptance import is_grant
from eventflink.leadership.fold import Fold, next_hash
from eventflink.leadership.known_log import LogTruncated, missing
from eventflink.master.canonical import InvariantBroken
from eventflink.master.master import Master
from eventflink.model.features import FEATURE_LEVEL
from eventflink.snapshots.state_codec import FORMAT_VERSION, document_of, restore_fold

MAX_BYTES: Final = 1024 * 1024 * 1024
"""The largest snapshot that is read, compressed."""

MAX_DOCUMENT_BYTES: Final = 4 * 1024 * 1024 * 1024
"""The same, not compressed."""

_FASTEST: Final = 1
"""zlib's level: the columns shrink to a tenth at once, and higher levels take longer for little."""


class SnapshotUnusable(Exception):
    """A snapshot cannot be used; the message names it and says why."""

    def __init__(self, manifest: SnapshotManifest, reason: str) -> None:
        super().__init__(f"snapshot {manifest.snapshot_id} at offset {manifest.log_offset}: {reason}")
        self.snapshot_id = manifest.snapshot_id
        self.reason = reason


@dataclass(frozen=True, slots=True)
class LogRange:
    """Of which log a snapshot must be, to be of use."""

    topic_id: str
    """Kafka's id of the log's topic; empty: not known."""
    first_offset: int
    """The first record that the log still has."""
    end_offset: int
    """The offset after its last record."""


ANY_LOG: Final = LogRange("", 0, 1 << 62)
"""For who wants a snapshot whatever has become of the log."""


def encode_fold(fold: Fold) -> bytes:
    """Return the document of a fold as UTF-8; equal folds have equal documents, byte for byte."""
    return json.dumps(document_of(fold), separators=(",", ":"), ensure_ascii=False).encode()


def take_snapshot(fold: Fold, snapshot_id: str, taken_by: str, log_topic_id: str) -> tuple[SnapshotManifest, Iterator[SnapshotChunk]]:
    """Return the records of a snapshot of this fold, which may change as soon as this returns."""
    document = encode_fold(fold)
    data = zlib.compress(document, _FASTEST)
    manifest = SnapshotManifest(
        snapshot_id=snapshot_id,
        format_version=FORMAT_VERSION,
        feature_level=fold.master.upkeep.feature_level,
        log_topic_id=log_topic_id,
        log_offset=fold.last_offset,
        epoch=fold.acceptance.epoch,
        sequence=fold.acceptance.sequence,
        leader_id=fold.acceptance.leader_id,
        running_hash=fold.running_hash,
        last_decided_at_ms=fold.last_decided_at_ms,
        last_timestamp_ms=fold.last_timestamp_ms,
        digest=fold.master.digest(),
        chunk_count=-(-len(data) // MAX_SNAPSHOT_CHUNK_BYTES),
        byte_count=len(data),
        document_byte_count=len(document),
        sha256=hashlib.sha256(data).digest(),
        taken_by=taken_by,
    )
    return manifest, _cut(snapshot_id, data)


def _cut(snapshot_id: str, data: bytes) -> Iterator[SnapshotChunk]:
    for index, start in enumerate(range(0, len(data), MAX_SNAPSHOT_CHUNK_BYTES)):
        piece = data[start : start + MAX_SNAPSHOT_CHUNK_BYTES]
        yield SnapshotChunk(snapshot_id, index, piece, zlib.crc32(piece))


def check_manifest(manifest: SnapshotManifest, log: LogRange) -> None:
    """Check, before any chunk is looked at, that the snapshot can be read, and that the log begins before it.

    `log` was asked for after the snapshot was found, so that the log reached to the snapshot then (P5a).

    Raises:
        LogTruncated: the log does not reach to it any more, or is another one.
        SnapshotUnusable: it cannot be read, or the log begins behind it.

    """
    check_reached(manifest, log)
    reason = _find_fault(manifest)
    if not reason and manifest.log_offset + 1 < log.first_offset:
        reason = f"the log begins behind it, at {log.first_offset}"
    if reason:
        raise SnapshotUnusable(manifest, reason)


def check_reached(manifest: SnapshotManifest, log: LogRange) -> None:
    """Check that the log is the one of which the snapshot was taken, and still has the record at which it stands; raises `LogTruncated`."""
    what = f"of which the snapshot {manifest.snapshot_id} was taken"
    if log.topic_id and manifest.log_topic_id and manifest.log_topic_id != log.topic_id:
        reason = f"it is the topic {log.topic_id}, created after the topic {manifest.log_topic_id}, {what} at offset {manifest.log_offset}"
        raise LogTruncated(Topic.LOG, reason)
    if manifest.log_offset >= log.end_offset:
        raise LogTruncated(Topic.LOG, f"{missing(log.end_offset, manifest.log_offset)}, {what}")


def check_history(manifest: SnapshotManifest, log: LogRange, newest_first: Iterable[tuple[int, bytes]], codec: DecisionCodec) -> None:
    """Check that the log has the decision at which the snapshot stands: it may have lost its end, and have grown past the snapshot since.

    `newest_first` is what the log has from the snapshot's offset backwards, (offset, value); it is read as far as is needed. No two
    decisions have the same epoch, sequence and leader. Behind the one at which the snapshot stands nothing was accepted. A bid for the
    next epoch would have been, and leaders decide nothing before they have read their grant: so such a bid, or a decision of a later
    leadership or of another one in the same epoch, is of another log. A trimmed log in which nothing of this is left is believed.

    Raises:
        LogTruncated: the log has other records.

    """
    if not manifest.leader_id:
        return  # Nothing was accepted before it.
    for offset, value in newest_first:
        if codec.is_foreign(offset, value):
            continue
        try:
            decision = codec.decode(value)
        except UndecodableRecord:
            continue  # Whoever folds the log says so.
        is_bid = is_grant(decision)
        if (decision.epoch, decision.sequence, decision.leader_id) == (manifest.epoch, manifest.sequence, manifest.leader_id):
            # What stands in a bid as the hash before it is what the candidate had read, not what came before it.
            if is_bid or next_hash(decision.previous_hash, value) == manifest.running_hash:
                return
            break
        is_later = decision.epoch >= manifest.epoch and decision.leader_id != manifest.leader_id
        if decision.epoch == manifest.epoch + 1 if is_bid else is_later:
            break
    else:
        if log.first_offset:
            return
    what = f"than those of which the snapshot {manifest.snapshot_id} was taken"
    raise LogTruncated(Topic.LOG, f"up to the record {manifest.log_offset} it has other records {what}")


def _find_fault(manifest: SnapshotManifest) -> str:
    if manifest.log_offset < 0:
        return "it stands before the first record"
    if manifest.format_version != FORMAT_VERSION:
        return f"its format is {manifest.format_version}; this version reads {FORMAT_VERSION}"
    if manifest.feature_level > FEATURE_LEVEL:
        return f"its feature level is {manifest.feature_level}; this version reads up to {FEATURE_LEVEL}"
    if not 0 < manifest.byte_count <= MAX_BYTES or not 0 < manifest.document_byte_count <= MAX_DOCUMENT_BYTES:
        return f"its size, {manifest.byte_count} bytes ({manifest.document_byte_count} unpacked), is out of bounds"
    if manifest.chunk_count != -(-manifest.byte_count // MAX_SNAPSHOT_CHUNK_BYTES):
        return f"{manifest.chunk_count} chunks do not hold {manifest.byte_count} bytes"
    return ""


def restore_snapshot(manifest: SnapshotManifest, chunks: Mapping[int, SnapshotChunk], fold: Fold, *, verify: bool = False) -> None:
    """Bring a fresh fold to where the snapshot stands.

    That the data is what was written is checked always. With `verify` the state that it holds is checked as well, for its digest and its
    invariants: that takes longer than everything else.

    Raises:
        SnapshotUnusable: it is damaged; the fold is then of no use.

    """
    try:
        document = json.loads(_unpack(manifest, _join(manifest, chunks)))
        restore_fold(document, fold)
    except (ColumnsUnreadable, ValueError, TypeError, LookupError, AttributeError, RecursionError, MemoryError) as error:
        raise SnapshotUnusable(manifest, f"its data cannot be read: {error}") from error
    _check_restored(manifest, fold)
    if verify:
        _verify(manifest, fold.master)


def _verify(manifest: SnapshotManifest, master: Master) -> None:
    try:
        master.validate()
        digest = master.digest()
    except (InvariantBroken, LookupError, TypeError, AttributeError) as error:
        raise SnapshotUnusable(manifest, f"the state that it holds contradicts itself: {error}") from error
    if digest != manifest.digest:
        raise SnapshotUnusable(manifest, f"the state that it holds has the digest {digest}, not {manifest.digest}")


def _join(manifest: SnapshotManifest, chunks: Mapping[int, SnapshotChunk]) -> bytes:
    missing = [index for index in range(manifest.chunk_count) if index not in chunks]
    if missing:
        raise SnapshotUnusable(manifest, f"chunk {missing[0]} of {manifest.chunk_count} is missing")
    pieces = [chunks[index] for index in range(manifest.chunk_count)]
    for index, piece in enumerate(pieces):
        if piece.chunk_index != index or piece.snapshot_id != manifest.snapshot_id or zlib.crc32(piece.data) != piece.crc32:
            raise SnapshotUnusable(manifest, f"chunk {index} is damaged")
    data = b"".join([piece.data for piece in pieces])
    if len(data) != manifest.byte_count or hashlib.sha256(data).digest() != manifest.sha256:
        raise SnapshotUnusable(manifest, "its chunks together are not what was written: wrong SHA-256")
    return data


def _unpack(manifest: SnapshotManifest, data: bytes) -> bytes:
    """Decompress no more than the manifest says, however much there is."""
    unpacker = zlib.decompressobj()
    try:
        # One byte more: without room behind the data the end of the stream is not looked at.
        document = unpacker.decompress(data, manifest.document_byte_count + 1)
    except zlib.error as error:
        raise SnapshotUnusable(manifest, f"its data cannot be unpacked: {error}") from error
    if len(document) != manifest.document_byte_count or not unpacker.eof or unpacker.unused_data:
        raise SnapshotUnusable(manifest, f"its data does not unpack to {manifest.document_byte_count} bytes")
    return document


def _check_restored(manifest: SnapshotManifest, fold: Fold) -> None:
    acceptance = fold.acceptance
    found = (fold.last_offset, acceptance.epoch, acceptance.sequence, acceptance.leader_id, fold.running_hash)
    wanted = (manifest.log_offset, manifest.epoch, manifest.sequence, manifest.leader_id, manifest.running_hash)
    if found != wanted:
        raise SnapshotUnusable(manifest, "the state that it holds stands elsewhere in the log than its manifest says")
