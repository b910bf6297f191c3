"""The topic `snapshots`: its records and their keys, written, read, listed and taken away.

The topic is compacted, and every record has a key of its own, `<snapshot id>/<number>` or `<snapshot id>/manifest`: a record goes only by a
tombstone. The rule: a manifest is written only when Kafka has all the chunks, and taken away before they are.
"""

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from eventflink.events.codec import PayloadCodec, UndecodableRecord
from eventflink.events.snapshot_records import SnapshotChunk, SnapshotManifest
from eventflink.events.topics import Topic, topic_name
from eventflink.log.patient_producer import PatientProducer
from eventflink.log.replay import DEFAULT_STALL_TIMEOUT_S, ReplayStalled, consumer_settings, watermark_offsets
from eventflink.snapshots.search import ENVELOPE, MANIFEST, record_key, split_key

_logger = logging.getLogger(__name__)

_BATCH: Final = 64
_CONNECT_TIMEOUT_S: Final = 10.0


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


def write_snapshot(bootstrap: str, cluster_id: str, manifest: SnapshotManifest, chunks: Iterable[SnapshotChunk]) -> None:
    """Write the chunks and, once Kafka has them all, the manifest.

    Raises:
        NotDelivered: Kafka did not take a record in time.

    """
    codec = PayloadCodec(ENVELOPE)
    with PatientProducer(bootstrap, cluster_id, Topic.SNAPSHOTS) as producer:
        for chunk in chunks:
            producer.produce(record_key(manifest.snapshot_id, chunk.chunk_index), codec.encode(chunk))
        producer.flush()
        producer.produce(record_key(manifest.snapshot_id, MANIFEST), codec.encode(manifest))
        producer.flush()


def remove_snapshots(bootstrap: str, cluster_id: str, snapshots: Iterable[StoredSnapshot]) -> None:
    """Put a tombstone on every record of these snapshots, the manifests first.

    Raises:
        NotDelivered: Kafka did not take one in time; what is left of a snapshot counts for nothing.

    """
    with PatientProducer(bootstrap, cluster_id, Topic.SNAPSHOTS) as producer:
        for snapshot in snapshots:
            manifest_key = record_key(snapshot.snapshot_id, MANIFEST)
            producer.produce(manifest_key, None)
            producer.flush()
            for key in snapshot.keys:
                if key != manifest_key:
                    producer.produce(key, None)
            producer.flush()
            _logger.info("SnapshotRemoved snapshot=%s records=%d", snapshot.snapshot_id, len(snapshot.keys))


class SnapshotTopic:
    """A reader of `snapshots`: any stretch of it, as often as is asked."""

    def __init__(self, bootstrap: str, cluster_id: str) -> None:
        self._name = topic_name(cluster_id, Topic.SNAPSHOTS)
        self._consumer = Consumer(consumer_settings(bootstrap) | {"enable.partition.eof": True})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._consumer.close()

    def bounds(self) -> tuple[int, int]:
        """Return the first offset and the one after the last; (0, 0) where there is no such topic."""
        try:
            low, high = watermark_offsets(self._consumer, TopicPartition(self._name, 0), _CONNECT_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() in (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART):  # noqa: SLF001 - public names of librdkafka's codes
                return 0, 0
            raise
        return low, high

    def read(self, first: int, end: int) -> Iterator[tuple[str, bytes | None]]:
        """Yield (key, value) of the records that are left from `first` up to, without, `end`, in order.

        Raises:
            KafkaException, ReplayStalled: Kafka does not give them.

        """
        self._consumer.assign([TopicPartition(self._name, 0, first)])
        deadline = time.monotonic() + DEFAULT_STALL_TIMEOUT_S
        while True:
            # consume() alone would wait for its whole timeout as long as the batch is not full.
            first_message = self._consumer.poll(0.2)
            messages = [] if first_message is None else [first_message, *self._consumer.consume(_BATCH, 0)]
            for message in messages:
                error = message.error()
                if error is None:
                    if (message.offset() or 0) >= end:
                        return
                    yield (message.key() or b"").decode("utf-8", "replace"), message.value()
                    if message.offset() == end - 1:
                        return
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name for it
                    return  # The last records of a compacted topic may be gone.
                elif not error.retriable():
                    raise KafkaException(error)
            if messages:
                deadline = time.monotonic() + DEFAULT_STALL_TIMEOUT_S
            elif time.monotonic() > deadline:
                raise ReplayStalled(f"{self._name} gave no record for {DEFAULT_STALL_TIMEOUT_S:.0f} s before offset {end}")


def list_snapshots(bootstrap: str, cluster_id: str) -> list[StoredSnapshot]:
    """Return what `snapshots` holds, in the order in which it was begun; unfinished and unreadable ones as well.

    Raises:
        KafkaException, ReplayStalled: Kafka does not give it.

    """
    codec = PayloadCodec(ENVELOPE)
    live: dict[str, tuple[str, bytes | None]] = {}
    with SnapshotTopic(bootstrap, cluster_id) as topic:
        low, high = topic.bounds()
        for key, value in topic.read(low, high) if high > low else ():
            snapshot_id, name = split_key(key)
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
