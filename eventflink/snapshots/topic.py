"""The topic `snapshots`: its records and their keys, written, read, listed and taken away.

The topic is compacted, and every record has a key of its own, `<snapshot id>/<number>` or `<snapshot id>/manifest`: a record goes only by a
tombstone. The rule: a manifest is written only when Kafka has all the chunks, and taken away before they are.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from eventflink.events.codec import PayloadCodec, UndecodableRecord
from eventflink.events.seal import seals_of
from eventflink.events.snapshot_records import SnapshotChunk, SnapshotManifest
from eventflink.events.topics import Topic
from eventflink.log.producers import PatientProducer
from eventflink.log.stored_topic import StoredTopic
from eventflink.model.cluster_access import ClusterAccess
from eventflink.snapshots.search import ENVELOPE, MANIFEST, record_key, split_key

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class StoredSnapshot:
    """What `snapshots` holds of one snapshot."""

    snapshot_id: str
    manifest: SnapshotManifest | None = None
    """None: it was never finished, or its manifest cannot be read."""
    keys: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Tell whether all its records are there; what they hold was not looked at."""
        manifest = self.manifest
        return manifest is not None and {record_key(self.snapshot_id, index) for index in range(manifest.chunk_count)} < set(self.keys)


def write_snapshot(access: ClusterAccess, manifest: SnapshotManifest, chunks: Iterable[SnapshotChunk]) -> None:
    """Write the chunks and, once Kafka has them all, the manifest.

    Raises:
        NotDelivered: Kafka did not take a record in time.

    """
    codec = PayloadCodec(ENVELOPE, seal=seals_of(access).of(Topic.SNAPSHOTS))
    with PatientProducer(access, Topic.SNAPSHOTS) as producer:
        for chunk in chunks:
            producer.produce(record_key(manifest.snapshot_id, chunk.chunk_index), codec.encode(chunk))
        producer.flush()
        producer.produce(record_key(manifest.snapshot_id, MANIFEST), codec.encode(manifest))
        producer.flush()


def remove_snapshots(access: ClusterAccess, snapshots: Iterable[StoredSnapshot]) -> None:
    """Put a tombstone on every record of these snapshots, the manifests first.

    Raises:
        NotDelivered: Kafka did not take one in time; what is left of a snapshot counts for nothing.

    """
    with PatientProducer(access, Topic.SNAPSHOTS) as producer:
        for snapshot in snapshots:
            manifest_key = record_key(snapshot.snapshot_id, MANIFEST)
            producer.produce(manifest_key, None)
            producer.flush()
            for key in snapshot.keys:
                if key != manifest_key:
                    producer.produce(key, None)
            producer.flush()
            _logger.info("SnapshotRemoved snapshot=%s records=%d", snapshot.snapshot_id, len(snapshot.keys))


def list_snapshots(access: ClusterAccess) -> list[StoredSnapshot]:
    """Return what `snapshots` holds, in the order in which it was begun; unfinished and unreadable ones as well.

    Raises:
        KafkaException, ReplayStalled: Kafka does not give it.

    """
    codec = PayloadCodec(ENVELOPE, seal=seals_of(access).of(Topic.SNAPSHOTS))
    live: dict[str, tuple[str, bytes | None]] = {}
    with StoredTopic(access, Topic.SNAPSHOTS) as topic:
        low, high = topic.bounds()
        for key, value in topic.read(low, high) if high > low else ():
            snapshot_id, name = split_key(key)
            if value is not None and key in live and codec.seal is not None and not codec.seal.is_genuine(value):
                continue  # It takes nothing from the record before it, as in `SnapshotSearch`.
            live.pop(key, None)
            if value is not None:
                live[key] = (snapshot_id, value if name == MANIFEST else None)
    found: dict[str, StoredSnapshot] = {}
    for key, (snapshot_id, manifest) in live.items():
        stored = found.setdefault(snapshot_id, StoredSnapshot(snapshot_id))
        stored.keys.append(key)
        if manifest is not None:
            stored.manifest = _read_manifest(codec, manifest)
    return list(found.values())


def _read_manifest(codec: PayloadCodec, value: bytes) -> SnapshotManifest | None:
    try:
        payload, _ = codec.decode(value)
    except UndecodableRecord:
        return None
    return payload if isinstance(payload, SnapshotManifest) else None
