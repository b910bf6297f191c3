"""What each role needs of Kafka, and no more: the rights that `eventflink topics --acls` prints and creates.

Plain values; who carries them to Kafka is `AdminConnection.grant`. The rule: topics are named one by one, since a prefix would reach into
clusters whose id begins with this one's; prefixes are left to what jobs make while they run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from eventflink.events.topics import Topic, topic_name


class Grantee(StrEnum):
    """For whom rights are granted."""

    CLIENT = "client"
    AUDITOR = "auditor"
    TASKEXECUTOR = "taskexecutor"
    MASTER = "master"
    OPERATOR = "operator"
    NOTIFIER = "notifier"


class ResourceKind(StrEnum):
    """What a right is about, as Kafka names it."""

    TOPIC = "Topic"
    GROUP = "Group"
    TRANSACTIONAL_ID = "TransactionalId"
    CLUSTER = "Cluster"


@dataclass(frozen=True, slots=True)
class Right:
    """Operations on one resource, as Kafka names them: `Read`, `DescribeConfigs`."""

    kind: ResourceKind
    name: str
    operations: tuple[str, ...]
    is_prefix: bool = False


NOTIFY_GROUPS: Final = ".notify."
"""Between the cluster's id and a receiver's name: the group that keeps its place in the log."""

_READ: Final = "Read"
_WRITE: Final = "Write"
_LOOK: Final = ("Describe", "DescribeConfigs")
_KAFKA: Final = "kafka-cluster"
"""How Kafka calls itself as a resource."""

# Read and Write imply Describe.
_CLIENT: Final[dict[Topic, tuple[str, ...]]] = {
    Topic.SUBMISSIONS: (_WRITE,),
    Topic.COMMANDS: (_WRITE,),
    Topic.REPLIES: (_READ,),
    Topic.LEADERSHIP: (_READ,),
    Topic.LOG: (_READ,),
    Topic.SNAPSHOTS: (_READ,),  # Where no REST process answers, it folds the log from the newest one on.
}

_AUDITED: Final = (Topic.LOG, Topic.SNAPSHOTS, Topic.LEADERSHIP, Topic.HEARTBEATS, Topic.DEAD_LETTERS)

_AUDITOR: Final[dict[Topic, tuple[str, ...]]] = {topic: (_READ, "DescribeConfigs") if topic in _AUDITED else _LOOK for topic in Topic}

_TASKEXECUTOR: Final[dict[Topic, tuple[str, ...]]] = {
    Topic.TASKMANAGERS: (_WRITE,),
    Topic.HEARTBEATS: (_WRITE,),
    Topic.DEPLOYMENTS: (_READ,),
}

_MASTER_DOES: Final[dict[Topic, tuple[str, ...]]] = {
    Topic.SUBMISSIONS: (_READ,),
    Topic.COMMANDS: (_READ, _WRITE),  # Its snapshotter reports there.
    Topic.TASKMANAGERS: (_READ,),
    Topic.HEARTBEATS: (_READ, _WRITE),
    Topic.LOG: (_READ, _WRITE),
    Topic.DEPLOYMENTS: (_WRITE, "Alter"),  # It adds partitions for a fleet that grows.
    Topic.REPLIES: (_WRITE,),
    Topic.LEADERSHIP: (_READ, _WRITE),
    Topic.SNAPSHOTS: (_READ, _WRITE),
    Topic.DEAD_LETTERS: (_WRITE,),
}

_MASTER: Final[dict[Topic, tuple[str, ...]]] = {topic: (*does, "Create", "DescribeConfigs") for topic, does in _MASTER_DOES.items()}

_BY_TOPIC: Final[Mapping[Grantee, Mapping[Topic, tuple[str, ...]]]] = {
    Grantee.CLIENT: _CLIENT,
    Grantee.AUDITOR: _AUDITOR,
    Grantee.TASKEXECUTOR: _TASKEXECUTOR,
    Grantee.MASTER: _MASTER,
    Grantee.NOTIFIER: dict.fromkeys((Topic.LOG, Topic.SNAPSHOTS, Topic.LEADERSHIP), (_READ,)),
    Grantee.OPERATOR: {topic: tuple(dict.fromkeys((*_CLIENT.get(topic, ()), *_AUDITOR[topic]))) for topic in Topic},
}


def rights_of(role: Grantee, cluster_id: str, *, trims_log: bool = False) -> tuple[Right, ...]:
    """Return what a role needs.

    Args:
        role: for whom.
        cluster_id: whose topics.
        trims_log: whether masters delete what a confirmed snapshot holds (`snapshots.trim-log`), for which Kafka wants Delete on the log.

    """
    rights = [
        Right(ResourceKind.TOPIC, topic_name(cluster_id, topic), (*does, "Delete") if _is_trimmed(role, topic, trims_log) else does)
        for topic, does in _BY_TOPIC[role].items()
    ]
    # Consumers are assigned and join no group, but librdkafka asks who coordinates the one that it makes them name.
    rights.append(Right(ResourceKind.GROUP, "eventflink-", ("Describe",), is_prefix=True))
    edges = f"{cluster_id}.edge."
    if role is Grantee.TASKEXECUTOR:
        rights += [
            Right(ResourceKind.TOPIC, edges, ("Create", _READ, _WRITE, "Delete"), is_prefix=True),
            Right(ResourceKind.GROUP, f"{cluster_id}/", (_READ,), is_prefix=True),
            Right(ResourceKind.TRANSACTIONAL_ID, f"{cluster_id}/", (_WRITE,), is_prefix=True),
        ]
    elif role is Grantee.MASTER:
        rights += [
            Right(ResourceKind.TOPIC, edges, ("Delete", "Describe"), is_prefix=True),
            Right(ResourceKind.CLUSTER, _KAFKA, ("DescribeConfigs",)),  # Whether brokers bound transactions is looked up at each start.
        ]
    elif role is Grantee.OPERATOR:
        rights += [
            # Who may Alter the Kafka cluster could grant itself the Write: it is here so that ending a transaction works at once.
            Right(ResourceKind.TRANSACTIONAL_ID, "*", ("Describe", _WRITE)),
            Right(ResourceKind.CLUSTER, _KAFKA, (*_LOOK, "Alter")),
        ]
    elif role is Grantee.NOTIFIER:
        rights.append(Right(ResourceKind.GROUP, f"{cluster_id}{NOTIFY_GROUPS}", (_READ,), is_prefix=True))
    return tuple(rights)


def _is_trimmed(role: Grantee, topic: Topic, trims_log: bool) -> bool:  # noqa: FBT001 - of one caller
    return trims_log and role is Grantee.MASTER and topic is Topic.LOG


def find_grant(topic: str, operation: str, own: Grantee = Grantee.CLIENT) -> tuple[str, Grantee] | None:
    """Return of which cluster a topic is, and which role may do this to it: the asker's own, or else the first.

    None: it is no topic of a cluster, or nobody may.
    """
    for known in Topic:
        if topic.endswith(f".{known}"):
            roles: Sequence[Grantee] = [role for role, topics in _BY_TOPIC.items() if operation in topics.get(known, ())]
            return (topic.removesuffix(f".{known}"), own if own in roles else roles[0]) if roles else None
    cluster_id, is_edge, _ = topic.partition(".edge.")
    return (cluster_id, Grantee.TASKEXECUTOR) if is_edge else None
