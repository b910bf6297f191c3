"""What the topics of a cluster must be configured with, and whether those that were found are.

Pure: nothing is asked of Kafka here. The rule: a topic that could lose or refuse what the protocol relies on is refused by name, with what
was found and what is wanted; a key that a broker does not know (Redpanda has none for minimum in-sync replicas, its Raft needs none) is
no fault.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from eventflink.events.topics import INBOUND, SPECIFICATIONS, Topic, TopicSpecification

DURABLE_REPLICATION_FACTOR: Final = 3
"""From here on a cluster is replicated, and held to P5."""

MIN_INSYNC_REPLICAS: Final = 2
DURABLE_TOPICS: Final = (Topic.LOG, Topic.SNAPSHOTS, *INBOUND)
"""The topics whose loss would be the loss of an accepted decision (a trimmed log has the early ones in a snapshot) or of an input."""

_STAMPED_BY_BROKER: Final = (Topic.LOG, Topic.DEPLOYMENTS, *INBOUND)

_COMPACTION: Final = {
    # The segment that is written to is never compacted, and the defaults (1 GiB, half of it stale) would keep old snapshots for ever.
    "segment.bytes": str(64 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing about a topic that is not as it must be."""

    topic_name: str
    key: str
    found: str
    wanted: str

    def __str__(self) -> str:
        return f"topic {self.topic_name}: {self.key} is {self.found}, must be {self.wanted}"


def wanted_configuration(topic: Topic, replication_factor: int) -> dict[str, str]:
    """Return the configuration that a topic is created with."""
    specification = SPECIFICATIONS[topic]
    configuration = {
        "cleanup.policy": specification.cleanup_policy,
        "retention.ms": str(specification.retention_ms),
        "max.message.bytes": str(specification.max_message_bytes),
    }
    if topic in _STAMPED_BY_BROKER:
        # Retention goes by these stamps, and so may how long nobody led (P20): a producer could write any time into them.
        configuration["message.timestamp.type"] = "LogAppendTime"
    if topic is Topic.LOG:
        configuration["retention.bytes"] = "-1"
    if specification.cleanup_policy == "compact":
        configuration.update(_COMPACTION)
    if replication_factor >= DURABLE_REPLICATION_FACTOR:
        configuration["min.insync.replicas"] = str(MIN_INSYNC_REPLICAS)
    return configuration


def find_fault(topic: Topic, name: str, partitions: int, configuration: Mapping[str, str]) -> Fault | None:
    """Return the first thing that is wrong with an existing topic, or None."""
    specification = SPECIFICATIONS[topic]
    # TaskExecutors are divided among as many partitions as the topic has got.
    if partitions != specification.partitions and topic is not Topic.DEPLOYMENTS:
        return Fault(name, "number of partitions", str(partitions), str(specification.partitions))
    policy = configuration.get("cleanup.policy", specification.cleanup_policy)
    # Compaction would drop records that share a key, as all records of one job do; deletion would drop a snapshot that is still needed.
    if policy != specification.cleanup_policy:
        return Fault(name, "cleanup.policy", policy, specification.cleanup_policy)
    return (
        _find_size_fault(name, specification, configuration)
        or _find_retention_fault(topic, name, configuration)
        or _find_timestamp_fault(topic, name, configuration)
    )


def _find_timestamp_fault(topic: Topic, name: str, configuration: Mapping[str, str]) -> Fault | None:
    stamped_by = configuration.get("message.timestamp.type", "LogAppendTime")
    if topic in _STAMPED_BY_BROKER and stamped_by != "LogAppendTime":
        return Fault(name, "message.timestamp.type", stamped_by, "LogAppendTime")
    return None


def _find_size_fault(name: str, specification: TopicSpecification, configuration: Mapping[str, str]) -> Fault | None:
    found = configuration.get("max.message.bytes")
    if found is not None and int(found) < specification.max_message_bytes:
        return Fault(name, "max.message.bytes", found, f"at least {specification.max_message_bytes}")
    return None


def _find_retention_fault(topic: Topic, name: str, configuration: Mapping[str, str]) -> Fault | None:
    """Check that the log is kept; how long the others are kept is the operator's to choose."""
    if topic is not Topic.LOG:
        return None
    for key in ("retention.ms", "retention.bytes"):
        found = configuration.get(key, "-1")
        if found != "-1":
            return Fault(name, key, found, "-1 (nothing of the log may be dropped)")
    return None


def find_durability_faults(topic: Topic, name: str, replicas: int, configuration: Mapping[str, str]) -> list[Fault]:
    """Return everything about a topic of a replicated cluster that breaks P5."""
    faults = []
    if replicas < DURABLE_REPLICATION_FACTOR:
        faults.append(Fault(name, "replication factor", str(replicas), f"at least {DURABLE_REPLICATION_FACTOR}"))
    in_sync = configuration.get("min.insync.replicas")
    if in_sync is not None and int(in_sync) < MIN_INSYNC_REPLICAS:
        faults.append(Fault(name, "min.insync.replicas", in_sync, f"at least {MIN_INSYNC_REPLICAS}"))
    unclean = configuration.get("unclean.leader.election.enable", "false")
    if unclean != "false":
        faults.append(Fault(name, "unclean.leader.election.enable", unclean, "false"))
    retention = _find_retention_fault(topic, name, configuration)
    return faults if retention is None else [*faults, retention]
