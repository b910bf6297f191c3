"""The newest records of a topic, for somebody who looks in: read once, bounded in number and in time."""

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from eventflink.events.topics import Topic, topic_name
from eventflink.log.pulled_partition import PulledPartition
from eventflink.log.replay import ReplayStalled, read_to
from eventflink.model.cluster_access import ClusterAccess

TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class RecordRead:
    """A record of Kafka."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def newest_records(access: ClusterAccess, topic: Topic, count: int, timeout_s: float = TIMEOUT_S) -> tuple[list[RecordRead], int]:
    """Return the newest `count` records of a topic's first partition, the newest first, and how many offsets it keeps in all.

    Raises:
        KafkaException: the broker cannot be reached, or has no such topic.

    """
    deadline = time.monotonic() + timeout_s
    with PulledPartition(access.kafka, topic_name(access.cluster_id, topic)) as reader:
        low, high = reader.bounds(timeout_s)
        reader.seek(max(low, high - count))
        found: list[RecordRead] = []
        with suppress(ReplayStalled):  # What came by then is what there is to see.
            for message in read_to(reader, high, deadline - time.monotonic()):
                found.append(RecordRead(message.offset() or 0, message.timestamp()[1], message.key(), message.value()))
                if time.monotonic() > deadline:
                    break
        return found[::-1], high - low
