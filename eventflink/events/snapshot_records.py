"""What stands on `snapshots`: the chunks of a snapshot, each under a key of its own, and behind them its manifest.

These classes mirror the schemas of the same names; a test holds the two together.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class SnapshotChunk:
    """A piece of a snapshot's data."""

    snapshot_id: str
    chunk_index: int
    data: bytes
    crc32: int


@dataclass(slots=True, kw_only=True)
class SnapshotManifest:
    """A snapshot that is complete: what it holds, and how its data is checked."""

    snapshot_id: str
    format_version: int
    feature_level: int
    log_topic_id: str
    log_offset: int
    epoch: int
    sequence: int
    leader_id: str
    running_hash: bytes
    last_decided_at_ms: int
    last_timestamp_ms: int
    digest: str
    chunk_count: int
    byte_count: int
    document_byte_count: int
    sha256: bytes
    taken_by: str


SnapshotPayload = SnapshotChunk | SnapshotManifest
