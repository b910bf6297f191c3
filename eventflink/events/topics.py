"""The topics of a cluster: names, codecs, and the configuration each must have."""

import zlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS

MAX_INBOUND_BYTES: Final = 256 * 1024
"""The largest inbound record that is decoded, but for requests with graphs; a longer one is refused before decoding (P10)."""

MAX_REQUEST_BYTES: Final = 2 * 1024 * 1024
"""The largest request that is decoded: a graph of many vertices (`events/request_sizes.py`)."""

MAX_DECISION_BYTES: Final = 3 * 1024 * 1024
"""The largest decision (P10a): the log has the whole of a graph, and there is room for what else its submission leads to."""

_MAX_GRAPH_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""The largest record of a topic for graphs: our Kafka clients send as much, and an embedded broker takes it."""

MAX_DEPLOYMENT_PARTITIONS: Final = 1_000
"""So many partitions `deployments` may have."""

MAX_SNAPSHOT_CHUNK_BYTES: Final = 512 * 1024
"""The most data of one record of `snapshots`."""


class Topic(StrEnum):
    """The topics, without the cluster's prefix."""

    SUBMISSIONS = "submissions"
    COMMANDS = "commands"
    TASKMANAGERS = "taskmanagers"
    HEARTBEATS = "heartbeats"
    LOG = "log"
    DEPLOYMENTS = "deployments"
    REPLIES = "replies"
    LEADERSHIP = "leadership"
    SNAPSHOTS = "snapshots"
    DEAD_LETTERS = "dead-letters"


INBOUND: Final = (Topic.SUBMISSIONS, Topic.COMMANDS, Topic.TASKMANAGERS)
"""The topics whose every record is answered by a decision; each has a cursor in the state (P6, P7)."""


@dataclass(frozen=True, slots=True)
class TopicSpecification:
    """What a topic must look like."""

    partitions: int
    """The number of partitions at its creation. That of `deployments` may be configured, and leaders add partitions."""
    retention_ms: int
    max_message_bytes: int = 1024 * 1024
    cleanup_policy: str = "delete"


SPECIFICATIONS: Final = {
    Topic.SUBMISSIONS: TopicSpecification(1, 7 * _DAY_MS, _MAX_GRAPH_MESSAGE_BYTES),
    Topic.COMMANDS: TopicSpecification(1, 7 * _DAY_MS, _MAX_GRAPH_MESSAGE_BYTES),
    Topic.TASKMANAGERS: TopicSpecification(1, 7 * _DAY_MS),
    Topic.HEARTBEATS: TopicSpecification(1, _DAY_MS),
    Topic.LOG: TopicSpecification(1, -1, _MAX_GRAPH_MESSAGE_BYTES),
    Topic.DEPLOYMENTS: TopicSpecification(4, 7 * _DAY_MS),
    Topic.REPLIES: TopicSpecification(4, _DAY_MS),
    Topic.LEADERSHIP: TopicSpecification(1, _HOUR_MS),
    # Compacted, by keys of which each record has its own: a snapshot is kept until somebody takes it away with tombstones.
    Topic.SNAPSHOTS: TopicSpecification(1, -1, cleanup_policy="compact"),
    Topic.DEAD_LETTERS: TopicSpecification(1, 30 * _DAY_MS),
}


def topic_name(cluster_id: str, topic: Topic) -> str:
    """Return the name of a cluster's topic in Kafka."""
    return f"{cluster_id}.{topic}"


def deployment_partition(task_manager_id: str, partitions: int) -> int:
    """Return which partition of `deployments` a TaskManager chooses, where there are so many; it tells it when it registers."""
    return zlib.crc32(task_manager_id.encode()) % partitions
