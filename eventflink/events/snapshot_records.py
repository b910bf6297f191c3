"""What stands on `snapshots`: the chunks of a snapshot, each under a key of its own, and behind them its manifest.

The schemas of the same names are made of these classes.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class SnapshotChunk:
    """A piece of a snapshot's data."""

    snapshot_id: str
    """Names the snapshot; each attempt to take one has an id of its own."""
    chunk_index: int
    """Which piece this is; the first is 0."""
    data: bytes
    """The piece, at most 512 KiB. All pieces together are one JSON document, compressed with zlib."""
    crc32: int
    """CRC-32 of `data`."""


@dataclass(slots=True, kw_only=True)
class SnapshotManifest:
    """A snapshot that is complete: written behind all its chunks."""

    snapshot_id: str
    """Names the snapshot."""
    format_version: int
    """The format of the document that the chunks hold."""
    feature_level: int
    """The feature level of the state; who reads up to a lower one leaves the snapshot alone."""
    log_topic_id: str
    """Kafka's id of the log's topic; empty where the broker has no such ids. A snapshot of another topic is not used."""
    log_offset: int
    """It holds the state after this record of the log."""
    epoch: int
    """The epoch of the last accepted decision."""
    sequence: int
    """Its sequence."""
    leader_id: str
    """Its leader."""
    running_hash: bytes
    """The running hash over all accepted records."""
    last_decided_at_ms: int
    """When the last accepted decision was made, by the log's clock."""
    last_timestamp_ms: int
    """Kafka's timestamp of the last accepted record."""
    digest: str
    """The state's canonical digest, in hexadecimal."""
    chunk_count: int
    """How many chunks there are."""
    byte_count: int
    """Their data together, compressed."""
    document_byte_count: int
    """The document, not compressed."""
    sha256: bytes
    """SHA-256 of the chunks' data in order."""
    taken_by: str
    """The master that took it."""


SnapshotPayload = SnapshotChunk | SnapshotManifest
