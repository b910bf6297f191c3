"""One connection to a Kafka cluster's administration: calls with timeouts, and errors that a person understands.

What a cluster of ours needs is said in `administration`; here are only the calls. The rule: every call ends within the timeout, with a
result or with an AdministrationError that names the brokers; only to learn why nobody answers takes up to three seconds more.
"""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from eventflink.log.access_rights import ResourceKind, Right
from eventflink.log.refusals import explain, find_refusal, is_denied
from eventflink.model.kafka_settings import KafkaAccess, client_settings

DEFAULT_TIMEOUT_S: Final = 30.0
_FENCED_S: Final = 10.0
"""How long missing brokers are waited for: Kafka leaves out a broker whose host stood still for some seconds."""
_POLL_S: Final = 0.05
_NOT_THERE: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._NOENT)  # noqa: SLF001 - a public name of librdkafka's code: no leaders
_LEADER_NOT_READY: Final = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
)
_NO_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""How a topic id of 16 zero bytes is written: what a broker says that has none."""


class AdministrationError(Exception):
    """A call to the cluster's administration failed; the message names the brokers and the cause."""


class KafkaUnreachable(AdministrationError):
    """No broker answered within the timeout, or it takes no connection of ours; the message says which."""


class AccessRefused(AdministrationError):
    """Kafka knows who asks, and refuses; the message says what would grant it."""


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """What the cluster's metadata say of a topic."""

    name: str
    partitions: int
    replicas: int
    """The fewest that any of its partitions has."""
    has_leaders: bool
    """Whether every partition can be written to now."""


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The offsets of a partition: the first that is kept, and the one after the last."""

    low: int
    high: int


class AdminConnection:
    """An AdminClient, kept for as long as its calls go on (one that is collected cancels them)."""

    def __init__(self, kafka: KafkaAccess, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Connect lazily: an address that nobody answers shows with the first call."""
        self._kafka = kafka
        self.timeout_s = timeout_s
        # Its own log would repeat on stderr, once a second, what the error says.
        self._client = AdminClient(client_settings(kafka, {"log_level": 0, "socket.connection.setup.timeout.ms": 5000}))

    def _meet_brokers(self, what: str) -> list[int]:
        """Return the brokers' numbers; from then on there is a connection to one of them.

        A client that has none when it is to find the leaders of partitions looks again only after three seconds, and one that is to list
        topics after 50 ms: it is not woken by the connection. This call is.
        """
        future = self._client.describe_cluster(request_timeout=self.timeout_s)
        return [node.id for node in self._result(what, future, "Describe").nodes]

    def find_topics(self) -> dict[str, FoundTopic]:
        """Return every topic of the cluster, by name."""
        self._meet_brokers("list topics")
        try:
            metadata = self._client.list_topics(timeout=self.timeout_s)
        except KafkaException as error:
            raise self._explain("list topics", error, "Describe") from error
        return {name: _read_topic(name, topic) for name, topic in metadata.topics.items() if topic.error is None}

    def count_brokers(self, wanted: int = 0) -> int:
        """Return how many brokers the cluster has; fewer than wanted are counted again for some seconds."""
        deadline = time.monotonic() + min(_FENCED_S, self.timeout_s)
        while (count := len(self._meet_brokers("list brokers"))) < wanted and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return count

    def wait_for_topics(self, names: Iterable[str], create: Callable[[list[str]], None] = lambda _: None) -> dict[str, FoundTopic]:
        """Wait until each named topic has a leader for every partition, which really answers, and return all topics.

        Args:
            names: the names of the topics.
            create: creates topics that do not exist; it gets each name at most once. A broker goes on naming a deleted topic for a moment,
                so that a name may come later than the first time that topics are listed.

        Raises:
            AdministrationError: a topic was not there in time, or could not be created.

        """
        deadline = time.monotonic() + self.timeout_s
        wanted, uncreated = set(names), set(names)
        while True:
            topics = self.find_topics()
            if absent := sorted(uncreated - topics.keys()):
                uncreated -= set(absent)
                create(absent)
            missing = sorted(name for name in wanted if name not in topics or not topics[name].has_leaders)
            if not missing:
                try:  # The metadata name a leader shortly before it knows that it is one.
                    self.read_watermarks((name, partition) for name in wanted for partition in range(topics[name].partitions))
                except AdministrationError as error:
                    if not _has_code(error, *_NOT_THERE) or time.monotonic() > deadline:
                        raise
                else:
                    return topics
            elif time.monotonic() > deadline:
                raise AdministrationError(
                    f"{self._kafka.bootstrap}: after {self.timeout_s:.0f} s not visible or without a leader: {', '.join(missing)}"
                )
            time.sleep(_POLL_S)

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        """Create topics; one that somebody else has created meanwhile is left as it is. Missing brokers are waited for some seconds."""
        deadline = time.monotonic() + min(_FENCED_S, self.timeout_s)
        uncreated = {topic.topic: topic for topic in topics}
        while uncreated:
            futures = self._client.create_topics([*uncreated.values()], operation_timeout=self.timeout_s, request_timeout=self.timeout_s)
            for name, future in futures.items():
                try:
                    self._result(f"create topic {name}", future, "Create", name)
                except AdministrationError as error:
                    if _has_code(error, KafkaError.INVALID_REPLICATION_FACTOR) and time.monotonic() < deadline:
                        continue
                    if not _has_code(error, KafkaError.TOPIC_ALREADY_EXISTS):
                        raise
                del uncreated[name]
            if uncreated:
                time.sleep(_POLL_S)

    def create_partitions(self, name: str, partitions: int) -> None:
        """Let a topic have so many partitions; one to which somebody else has added as many meanwhile is left as it is."""
        futures = self._client.create_partitions(
            [NewPartitions(name, partitions)], operation_timeout=self.timeout_s, request_timeout=self.timeout_s
        )
        (future,) = futures.values()
        try:
            self._result(f"add partitions to {name}", future, "Alter", name)
        except AdministrationError as error:
            if not _has_code(error, KafkaError.INVALID_PARTITIONS):
                raise

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics; one that is not there is no error."""
        wanted = list(names)
        if not wanted:
            return
        futures = self._client.delete_topics(wanted, operation_timeout=self.timeout_s, request_timeout=self.timeout_s)
        for name, future in futures.items():
            try:
                self._result(f"delete topic {name}", future, "Delete", name)
            except AdministrationError as error:
                if not _has_code(error, KafkaError.UNKNOWN_TOPIC_OR_PART):
                    raise

    def read_configurations(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the effective configuration of each topic, only with the keys that this broker has."""
        return {name: self._read_configuration(name) for name in names}

    def _read_configuration(self, name: str) -> dict[str, str]:
        deadline = time.monotonic() + self.timeout_s
        while True:
            resource = ConfigResource(ConfigResource.Type.TOPIC, name)
            (future,) = self._client.describe_configs([resource], request_timeout=self.timeout_s).values()
            try:
                entries = self._result(f"describe topic {name}", future, "DescribeConfigs", name)
            except AdministrationError as error:
                # The broker that was asked may not have heard yet of a topic that another has just created.
                if not _has_code(error, KafkaError.UNKNOWN_TOPIC_OR_PART) or time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)
            else:
                return {key: entry.value for key, entry in entries.items() if entry.value is not None}

    def read_broker_value(self, key: str) -> dict[int, str | None]:
        """Return a key of each broker's configuration, by the broker's number; None where it has no such key."""
        resources = [ConfigResource(ConfigResource.Type.BROKER, str(broker)) for broker in self._meet_brokers("list brokers")]
        futures = self._client.describe_configs(resources, request_timeout=self.timeout_s)
        found = {
            int(resource.name): self._result(f"describe broker {resource.name}", future, "DescribeConfigs")
            for resource, future in futures.items()
        }
        return {broker: entries[key].value if key in entries else None for broker, entries in found.items()}

    def read_topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Return each topic's id (22 characters), empty where the broker gives none."""
        return {name: topic_id for name, (topic_id, _) in self.read_topics(names).items()}

    def read_topics(self, names: Iterable[str]) -> dict[str, tuple[str, int]]:
        """Return each topic's id, as `read_topic_ids` does, and the number of its partitions."""
        futures = self._client.describe_topics(TopicCollection(list(names)), request_timeout=self.timeout_s)
        found = {}
        for name, future in futures.items():
            description = self._result(f"describe topic {name}", future, "Describe", name)
            text = "" if description.topic_id is None else str(description.topic_id)
            found[name] = "" if text == _NO_TOPIC_ID else text, len(description.partitions)
        return found

    def read_watermarks(self, partitions: Iterable[tuple[str, int]], *, is_committed: bool = False) -> dict[tuple[str, int], Watermarks]:
        """Return the offsets of partitions, given as (topic name, partition); records of open transactions count, unless `is_committed`.

        A partition that is just getting its leader is waited for.
        """
        self._meet_brokers("read offsets")
        wanted, level = list(partitions), IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED
        low, high = (self._list_offsets(wanted, which, level) for which in (OffsetSpec.earliest, OffsetSpec.latest))
        return {partition: Watermarks(low[partition], high[partition]) for partition in wanted}

    def read_offsets_at(self, partitions: Iterable[tuple[str, int]], time_ms: int) -> dict[tuple[str, int], int | None]:
        """Return of each partition the first offset whose record is not older than a time; None: all are older, or none is committed."""
        found = self._list_offsets(list(partitions), lambda: OffsetSpec.for_timestamp(time_ms), IsolationLevel.READ_COMMITTED)
        return {partition: offset if offset >= 0 else None for partition, offset in found.items()}

    def _list_offsets(
        self, partitions: list[tuple[str, int]], specification: Callable[[], OffsetSpec], level: IsolationLevel
    ) -> dict[tuple[str, int], int]:
        deadline = time.monotonic() + self.timeout_s
        offsets: dict[tuple[str, int], int] = {}
        while len(offsets) < len(partitions):
            request = {TopicPartition(*partition): specification() for partition in partitions if partition not in offsets}
            futures = self._client.list_offsets(request, isolation_level=level, request_timeout=self.timeout_s)
            for partition, future in futures.items():
                try:
                    result = self._result(f"read offsets of {partition.topic}", future, "Describe", partition.topic)
                except AdministrationError as error:
                    if not _has_code(error, *_LEADER_NOT_READY) or time.monotonic() > deadline:
                        raise
                    time.sleep(_POLL_S)
                else:
                    offsets[partition.topic, partition.partition] = result.offset
        return offsets

    def delete_records(self, name: str, partition: int, first_kept_offset: int) -> int:
        """Delete the records of a partition before an offset; return the first offset that it has afterwards."""
        self._meet_brokers(f"delete records of {name} before {first_kept_offset}")
        request = [TopicPartition(name, partition, first_kept_offset)]
        futures = self._client.delete_records(request, request_timeout=self.timeout_s, operation_timeout=self.timeout_s)
        (future,) = futures.values()
        low_watermark: int = self._result(f"delete records of {name} before {first_kept_offset}", future, "Delete", name).low_watermark
        return low_watermark

    def check_group(self, group: str, topic: str) -> None:
        """Check that a group of readers of a topic may be asked about; raises AccessRefused."""
        (future,) = self._client.describe_consumer_groups([group], request_timeout=self.timeout_s).values()
        self._result(f"describe group {group}", future, "Read", topic, group)

    def grant(self, rights: Iterable[Right], principal: str) -> None:
        """Let a principal do this, from any host; what it may do already stays."""
        bindings = [
            AclBinding(
                ResourceType[_constant(right.kind) if right.kind is not ResourceKind.CLUSTER else "BROKER"],
                right.name,
                ResourcePatternType.PREFIXED if right.is_prefix else ResourcePatternType.LITERAL,
                principal,
                "*",
                AclOperation[_constant(operation)],
                AclPermissionType.ALLOW,
            )
            for right in rights
            for operation in right.operations
        ]
        for binding, future in self._client.create_acls(bindings, request_timeout=self.timeout_s).items():
            self._result(f"grant {principal} {binding.operation.name} on {binding.name}", future, "Alter")

    def _result(self, what: str, future: "Future[Any]", operation: str, topic: str = "", group: str = "") -> Any:
        try:
            return future.result(self.timeout_s)
        except KafkaException as error:
            raise self._explain(what, error, operation, topic, group) from error
        except FutureTimeoutError as error:
            refusal = find_refusal(self._kafka)
            raise KafkaUnreachable(
                refusal or f"{self._kafka.bootstrap}: {what}: no Kafka broker answered within {self.timeout_s:.0f} s"
            ) from error

    def _explain(self, what: str, error: KafkaException, operation: str, topic: str = "", group: str = "") -> AdministrationError:
        cause = error.args[0]
        if cause.code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE):  # noqa: SLF001 - public names of librdkafka's codes
            return KafkaUnreachable(
                find_refusal(self._kafka)
                or f"{self._kafka.bootstrap}: {what}: no Kafka broker answered within {self.timeout_s:.0f} s ({cause.str()})"
            )
        if is_denied(cause):
            return AccessRefused(explain(cause, self._kafka, operation, topic, group=group))
        return AdministrationError(f"{self._kafka.bootstrap}: {what}: {cause.str()} ({cause.name()})")


def _constant(name: str) -> str:
    """Return what librdkafka calls what Kafka calls so: `DESCRIBE_CONFIGS` for `DescribeConfigs`."""
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in name).lstrip("_").upper()


def _has_code(error: AdministrationError, *codes: int) -> bool:
    cause = error.__cause__
    return isinstance(cause, KafkaException) and cause.args[0].code() in codes


def _read_topic(name: str, topic: Any) -> FoundTopic:
    partitions = list(topic.partitions.values())
    return FoundTopic(
        name=name,
        partitions=len(partitions),
        replicas=min((len(partition.replicas) for partition in partitions), default=0),
        has_leaders=bool(partitions) and all(partition.leader >= 0 for partition in partitions),
    )
