"""The demands on topics: what they are created with passes, and each wrong thing is named."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from eventflink.events.topics import SPECIFICATIONS, Topic
from eventflink.local.broker_properties import MAX_MESSAGE_BYTES, render_server_properties
from eventflink.log.topic_checks import find_durability_faults, find_fault, wanted_configuration


@pytest.mark.parametrize("topic", list(Topic))
@pytest.mark.parametrize("replication_factor", [1, 3])
def test_what_is_created_is_accepted(topic: Topic, replication_factor: int) -> None:
    configuration = wanted_configuration(topic, replication_factor)
    assert find_fault(topic, "name", SPECIFICATIONS[topic].partitions, configuration) is None
    if replication_factor >= 3:
        assert find_durability_faults(topic, "name", replication_factor, configuration) == []


@pytest.mark.parametrize(
    ("topic", "change", "key"),
    [
        (Topic.LOG, {"cleanup.policy": "compact"}, "cleanup.policy"),
        (Topic.SUBMISSIONS, {"cleanup.policy": "compact,delete"}, "cleanup.policy"),
        (Topic.SNAPSHOTS, {"cleanup.policy": "delete"}, "cleanup.policy"),
        (Topic.SNAPSHOTS, {"cleanup.policy": "compact,delete"}, "cleanup.policy"),
        (Topic.LOG, {"retention.ms": "604800000"}, "retention.ms"),
        (Topic.LOG, {"message.timestamp.type": "CreateTime"}, "message.timestamp.type"),
        (Topic.DEPLOYMENTS, {"message.timestamp.type": "CreateTime"}, "message.timestamp.type"),
        (Topic.TASKMANAGERS, {"message.timestamp.type": "CreateTime"}, "message.timestamp.type"),
        (Topic.LOG, {"retention.bytes": "1000"}, "retention.bytes"),
        (Topic.DEPLOYMENTS, {"max.message.bytes": "1000"}, "max.message.bytes"),
    ],
)
def test_a_wrong_key_is_named(topic: Topic, change: Mapping[str, str], key: str) -> None:
    fault = find_fault(topic, "name", SPECIFICATIONS[topic].partitions, wanted_configuration(topic, 1) | dict(change))
    assert fault is not None
    assert fault.key == key
    assert fault.found == change[key]


def test_a_broker_that_knows_no_such_keys_is_no_fault() -> None:
    assert find_fault(Topic.LOG, "name", 1, {}) is None
    assert find_durability_faults(Topic.LOG, "name", 3, {}) == []


@pytest.mark.rule("P5")
def test_every_durability_fault_is_found() -> None:
    configuration = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true", "retention.ms": "1000"}
    keys = [fault.key for fault in find_durability_faults(Topic.LOG, "name", 1, configuration)]
    assert keys == ["replication factor", "min.insync.replicas", "unclean.leader.election.enable", "retention.ms"]


def test_the_embedded_broker_takes_the_largest_record_of_any_topic() -> None:
    assert max(specification.max_message_bytes for specification in SPECIFICATIONS.values()) <= MAX_MESSAGE_BYTES


def test_paths_are_escaped_as_java_reads_them() -> None:
    text = render_server_properties(Path("/data/é\\x"), 1, 2)
    assert "log.dirs=/data/\\u00e9\\\\x\n" in text
    with pytest.raises(ValueError, match="comma"):
        render_server_properties(Path("/a,b"), 1, 2)


def test_a_broker_listens_where_it_is_told_besides() -> None:
    text = render_server_properties(Path("/data"), 1, 2, {"listeners": "SSL://127.0.0.1:3", "super.users": "User:a"})
    assert "listeners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2,SSL://127.0.0.1:3\n" in text
    assert "super.users=User:a\n" in text
