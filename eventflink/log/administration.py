"""The topics and consumer groups of a cluster, as a master and the commands need them.

The calls are in `admin_connection`, the demands on topics in `topic_checks`. The rule: what is missing is created rightly, what exists
is never changed, but for partitions that are added to `deployments`, and what exists wrongly is refused by name.
"""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka.admin import NewTopic

from eventflink.events.topics import SPECIFICATIONS, Topic, topic_name
from eventflink.leadership.known_log import LogTruncated
from eventflink.local.broker_properties import TRANSACTION_MAX_TIMEOUT_MS
from eventflink.log.admin_connection import (
    DEFAULT_TIMEOUT_S,
    AccessRefused,
    AdminConnection,
    AdministrationError,
    FoundTopic,
    KafkaUnreachable,
)
from eventflink.log.topic_checks import (
    DURABLE_REPLICATION_FACTOR,
    DURABLE_TOPICS,
    Fault,
    find_durability_faults,
    find_fault,
    wanted_configuration,
)
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.pipelined_edges import edge_topic

__all__ = [
    "AdministrationError",
    "KafkaUnreachable",
    "NotDurable",
    "TopicMisconfigured",
    "TopicRow",
    "check_durability",
    "check_transaction_bound",
    "check_was_never_written",
    "delete_topics",
    "describe_topics",
    "ensure_topics",
    "grow_deployments",
    "log_topic_id",
    "remove_edges",
    "topic_ids",
    "trim_log",
]

WRITTEN_BY_LEADERS = (Topic.DEPLOYMENTS, Topic.REPLIES, Topic.DEAD_LETTERS, Topic.SNAPSHOTS)
"""They have records only of what the log had before."""

_CREATION_S = 2.0
"""How long the creation of a cluster's topics by another process may take until all of them are visible."""

_POLL_S = 0.1

_GROWTH_S = 10.0
"""For so long a master that ends may have to wait for it."""

_LOGGER = logging.getLogger(__name__)


class TopicMisconfigured(AdministrationError):
    """A topic exists and is not as it must be; it is left as it is."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault}; correct it with the tools of your Kafka cluster")
        self.topic_name = fault.topic_name
        self.key = fault.key
        self.found = fault.found
        self.wanted = fault.wanted


class NotDurable(AdministrationError):
    """A replicated cluster could lose accepted decisions; the message names everything that is wrong."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("the cluster is configured as replicated but could lose accepted decisions: " + "; ".join(map(str, faults)))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic as a person wants to see it."""

    topic: Topic
    name: str
    partitions: int
    replicas: int
    messages: int
    """How many offsets are kept, over all partitions; markers of transactions count too."""
    end_offset: int | None
    """The offset after the last record, of a topic with one partition."""
    retention_ms: int
    """-1: kept for ever."""
    max_message_bytes: int
    cleanup_policy: str


def _names(cluster_id: str) -> dict[Topic, str]:
    return {topic: topic_name(cluster_id, topic) for topic in SPECIFICATIONS}


def ensure_topics(
    access: ClusterAccess,
    replication_factor: int = 1,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    *,
    deployment_partitions: int = SPECIFICATIONS[Topic.DEPLOYMENTS].partitions,
) -> list[Topic]:
    """Create the topics that are missing, wait until all are visible, check every one, and return those that were created.

    A log that is missing is created only for a cluster of which no other topic ever had a record: a new log beside old inputs would have
    all of them decided again.

    Raises:
        LogTruncated: the log is missing, and others of its topics have had records.
        TopicMisconfigured: a topic is not as it must be.
        KafkaUnreachable: no broker answered within `timeout_s`.
        AdministrationError: a topic could not be created, or had no leader within `timeout_s`.

    """
    connection = AdminConnection(access.kafka, timeout_s)
    names = _names(access.cluster_id)
    created: dict[Topic, None] = {}

    def create(_absent: list[str]) -> None:
        """Create what is missing: at once, or when the broker has noticed that a topic was deleted."""
        existing = _find_topics_with_log(connection, names)
        missing = [topic for topic, name in names.items() if name not in existing]
        if not missing:
            return
        _check_brokers_suffice(connection, access.kafka, replication_factor)
        partitions = {topic: deployment_partitions if topic is Topic.DEPLOYMENTS else SPECIFICATIONS[topic].partitions for topic in missing}
        connection.create_topics(
            NewTopic(names[topic], partitions[topic], replication_factor, config=wanted_configuration(topic, replication_factor))
            for topic in missing
        )
        created.update(dict.fromkeys(missing))
        _LOGGER.info("TopicsCreated cluster=%s topics=%s replication_factor=%s", access.cluster_id, ",".join(missing), replication_factor)

    found = connection.wait_for_topics(names.values(), create)
    configurations = connection.read_configurations(names.values())
    for topic, name in names.items():
        fault = find_fault(topic, name, found[name].partitions, configurations[name])
        if fault is not None:
            raise TopicMisconfigured(fault)
    return list(created)


def _find_topics_with_log(connection: AdminConnection, names: dict[Topic, str]) -> dict[str, FoundTopic]:
    """Return every topic there is, the log among them unless it never was there.

    Raises:
        LogTruncated: the log is missing, and was there.
        AccessRefused: it cannot be seen.

    """
    deadline = time.monotonic() + _CREATION_S
    while True:
        existing = connection.find_topics()
        if names[Topic.LOG] in existing:
            return existing
        used = _find_used(connection, {topic: name for topic, name in names.items() if name in existing}, existing)
        if not used:
            return existing
        if time.monotonic() > deadline:
            _check_is_missing(connection, names[Topic.LOG])
            raise LogTruncated(Topic.LOG, f"the topic {names[Topic.LOG]} is missing, and records were written to {', '.join(used)}")
        time.sleep(_POLL_S)  # Another process may be creating them all, and have written to some already.


def _check_is_missing(connection: AdminConnection, name: str) -> None:
    """Raise `AccessRefused` if a topic is not listed because its existence may not be known."""
    try:
        connection.read_topic_ids([name])
    except AccessRefused:
        raise
    except AdministrationError:
        return


def _find_used(connection: AdminConnection, names: dict[Topic, str], existing: dict[str, FoundTopic]) -> list[Topic]:
    """Return which topics have ever had a record: retention leaves their end offsets."""
    partitions = [(topic, (name, number)) for topic, name in names.items() for number in range(existing[name].partitions)]
    offsets = connection.read_watermarks(partition for _, partition in partitions)
    return list(dict.fromkeys(topic for topic, partition in partitions if offsets[partition].high))


def check_was_never_written(access: ClusterAccess, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
    """Check, of a log that has no record, that it never had one (P5a): what leaders write elsewhere follows from records of it.

    Raises:
        LogTruncated: it had some.
        AdministrationError: no broker answered.

    """
    connection = AdminConnection(access.kafka, timeout_s)
    existing = connection.find_topics()
    names = {topic: name for topic, name in _names(access.cluster_id).items() if topic in WRITTEN_BY_LEADERS and name in existing}
    if used := _find_used(connection, names, existing):
        raise LogTruncated(Topic.LOG, f"it is empty, and leaders have written to {', '.join(used)}")


def _check_brokers_suffice(connection: AdminConnection, kafka: KafkaAccess, replication_factor: int) -> None:
    brokers = connection.count_brokers(replication_factor)
    if replication_factor > brokers:
        raise AdministrationError(
            f"{kafka.bootstrap}: topics.replication-factor is {replication_factor}, but the Kafka cluster has {brokers} broker(s) now"
        )


def grow_deployments(access: ClusterAccess, partitions: int, timeout_s: float = _GROWTH_S) -> None:
    """See to it that `deployments` has at least so many partitions.

    Raises:
        AdministrationError: the topic does not exist, the broker refuses, or none answered.

    """
    name = topic_name(access.cluster_id, Topic.DEPLOYMENTS)
    connection = AdminConnection(access.kafka, timeout_s)
    _, found = connection.read_topics([name])[name]
    if found < partitions:
        connection.create_partitions(name, partitions)
        _LOGGER.info("PartitionsAdded topic=%s before=%d partitions=%d", name, found, partitions)


def remove_edges(access: ClusterAccess, job_id: str, edges: Iterable[str]) -> None:
    """Remove the topics of a job's pipelined edges.

    Raises:
        AdministrationError: a topic could not be removed, or no broker answered.

    """
    topics = [edge_topic(access.cluster_id, job_id, edge) for edge in edges]
    AdminConnection(access.kafka).delete_topics(topics)
    _LOGGER.info("EdgesRemoved job=%s topics=%s", job_id, ",".join(topics))


def topic_ids(access: ClusterAccess, timeout_s: float = DEFAULT_TIMEOUT_S) -> dict[Topic, str]:
    """Return the id that Kafka gave each topic when it was created; empty where the broker has no such ids.

    Raises:
        AdministrationError: a topic does not exist, or no broker answered.

    """
    names = _names(access.cluster_id)
    ids = AdminConnection(access.kafka, timeout_s).read_topic_ids(names.values())
    return {topic: ids[name] for topic, name in names.items()}


def log_topic_id(access: ClusterAccess, timeout_s: float = DEFAULT_TIMEOUT_S) -> str:
    """Return the id of the log's topic; empty where the broker has no such ids.

    Raises:
        AdministrationError: there is no log, or no broker answered.

    """
    name = topic_name(access.cluster_id, Topic.LOG)
    return AdminConnection(access.kafka, timeout_s).read_topic_ids([name])[name]


def trim_log(access: ClusterAccess, first_kept_offset: int, timeout_s: float = DEFAULT_TIMEOUT_S) -> int:
    """Delete the records of the log before an offset, for ever, and return where the log begins now.

    Who calls this has made sure that a confirmed snapshot holds what they led to (P18).

    Raises:
        AdministrationError: the offset is beyond the end, the broker refuses, or none answered.

    """
    name = topic_name(access.cluster_id, Topic.LOG)
    first_offset = AdminConnection(access.kafka, timeout_s).delete_records(name, 0, first_kept_offset)
    _LOGGER.info("LogTrimmed cluster=%s first_offset=%d", access.cluster_id, first_offset)
    return first_offset


def delete_topics(access: ClusterAccess, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
    """Delete all topics of a cluster, and with them everything it knows. For clusters that were only tried out.

    Raises:
        AdministrationError: the broker refuses, or none answered.

    """
    connection = AdminConnection(access.kafka, timeout_s)
    existing = connection.find_topics()
    connection.delete_topics(name for name in _names(access.cluster_id).values() if name in existing)


def describe_topics(access: ClusterAccess, timeout_s: float = DEFAULT_TIMEOUT_S) -> list[TopicRow]:
    """Return a row for each topic of the cluster that exists, in the order in which they are specified.

    Raises:
        AdministrationError: no broker answered.

    """
    connection = AdminConnection(access.kafka, timeout_s)
    existing = connection.find_topics()
    names = {topic: name for topic, name in _names(access.cluster_id).items() if name in existing}
    configurations = connection.read_configurations(names.values())
    offsets = connection.read_watermarks((name, partition) for name in names.values() for partition in range(existing[name].partitions))
    return [
        TopicRow(
            topic=topic,
            name=name,
            partitions=existing[name].partitions,
            replicas=existing[name].replicas,
            messages=sum(marks.high - marks.low for (of_topic, _), marks in offsets.items() if of_topic == name),
            end_offset=offsets[name, 0].high if existing[name].partitions == 1 else None,
            retention_ms=int(configurations[name].get("retention.ms", "-1")),
            max_message_bytes=int(configurations[name].get("max.message.bytes", "0")),
            cleanup_policy=configurations[name].get("cleanup.policy", ""),
        )
        for topic, name in names.items()
    ]


def check_durability(access: ClusterAccess, replication_factor: int, timeout_s: float = DEFAULT_TIMEOUT_S) -> list[str]:
    """Check that no accepted decision can be lost (P5), and return warnings for people; the topics must exist.

    Below a replication factor of three the cluster is single-node: that is a warning and nothing else is asked.

    Raises:
        NotDurable: three or more replicas are configured, and the log or an inbound topic has fewer, could be acknowledged by one
            replica only, could elect a replica that lacks records, or has a limited log.
        AdministrationError: a topic does not exist, or no broker answered.

    """
    connection = AdminConnection(access.kafka, timeout_s)
    if replication_factor < DURABLE_REPLICATION_FACTOR:
        return [_warn_of_single_node(replication_factor, connection.count_brokers())]
    names = {topic: topic_name(access.cluster_id, topic) for topic in DURABLE_TOPICS}
    found = connection.wait_for_topics(names.values())
    configurations = connection.read_configurations(names.values())
    faults = [
        fault for topic, name in names.items() for fault in find_durability_faults(topic, name, found[name].replicas, configurations[name])
    ]
    if faults:
        raise NotDurable(faults)
    return []


def check_transaction_bound(kafka: KafkaAccess, timeout_s: float = DEFAULT_TIMEOUT_S) -> list[str]:
    """Return a warning for each broker that lets a client's transaction hold readers up for longer than ours does.

    Raises:
        AdministrationError: the brokers do not tell, or none answered within `timeout_s`.

    """
    key = "transaction.max.timeout.ms"
    return [
        f"broker {broker}: {key} is {value}; a client's hanging transaction holds its topic up for so long. Set it to {wanted} or less"
        for wanted in [TRANSACTION_MAX_TIMEOUT_MS]
        for broker, value in AdminConnection(kafka, timeout_s).read_broker_value(key).items()
        if value is not None and int(value) > wanted
    ]


def _warn_of_single_node(replication_factor: int, brokers: int) -> str:
    warning = f"single-node mode: topics.replication-factor is {replication_factor}; who loses a broker's disk loses accepted decisions"
    if brokers >= DURABLE_REPLICATION_FACTOR:
        warning += (
            f". This Kafka cluster has {brokers} brokers: create the topics with a replication factor of {DURABLE_REPLICATION_FACTOR}"
        )
    return warning
