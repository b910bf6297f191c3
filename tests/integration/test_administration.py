"""Topics and groups on a real broker: created rightly, found wrong by name, offsets as Kafka has them."""

import time

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from eventflink.cli.failures import ExitCode
from eventflink.cli.finding import Verdict
from eventflink.cli.main import run
from eventflink.cli.transactions import transaction_findings
from eventflink.events.topics import SPECIFICATIONS, Topic, topic_name
from eventflink.leadership.known_log import LogTruncated
from eventflink.log import administration
from eventflink.log.admin_connection import AdminConnection, Watermarks
from eventflink.log.administration import (
    AdministrationError,
    KafkaUnreachable,
    NotDurable,
    TopicMisconfigured,
    check_durability,
    check_transaction_bound,
    check_was_never_written,
    delete_topics,
    describe_topics,
    ensure_topics,
    topic_ids,
)
from eventflink.log.topic_checks import wanted_configuration
from eventflink.log.transactions import find_open_transactions
from eventflink.model.cluster_access import access_to
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.snapshots.loading import read_state
from tests.support.running_cluster import wait_until


def create(bootstrap: str, name: str, partitions: int, configuration: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=configuration)])[name].result(120)


def produce(bootstrap: str, name: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(count):
        producer.produce(name, str(number).encode(), partition=0)
    assert producer.flush(10) == 0


def test_missing_topics_are_created_once_and_are_visible_at_once(bootstrap: str, cluster_id: str) -> None:
    assert ensure_topics(access_to(bootstrap, cluster_id), 1) == list(SPECIFICATIONS)
    assert ensure_topics(access_to(bootstrap, cluster_id), 1) == []
    rows = describe_topics(access_to(bootstrap, cluster_id))
    assert [row.topic for row in rows] == list(SPECIFICATIONS)
    for row in rows:
        specification = SPECIFICATIONS[row.topic]
        assert row.name == topic_name(cluster_id, row.topic)
        assert (row.partitions, row.retention_ms, row.max_message_bytes) == (
            specification.partitions,
            specification.retention_ms,
            specification.max_message_bytes,
        )
        assert (row.messages, row.replicas, row.cleanup_policy) == (0, 1, specification.cleanup_policy)


def test_a_cluster_from_before_a_topic_was_known_gets_it(bootstrap: str, cluster_id: str) -> None:
    older = [topic for topic in SPECIFICATIONS if topic is not Topic.SNAPSHOTS]
    for topic in older:
        create(bootstrap, topic_name(cluster_id, topic), SPECIFICATIONS[topic].partitions, wanted_configuration(topic, 1))
    AdminConnection(KafkaAccess(bootstrap)).wait_for_topics([topic_name(cluster_id, topic) for topic in older])
    assert ensure_topics(access_to(bootstrap, cluster_id), 1) == [Topic.SNAPSHOTS]
    assert {row.topic: row.cleanup_policy for row in describe_topics(access_to(bootstrap, cluster_id))}[Topic.SNAPSHOTS] == "compact"


def test_a_topic_deleted_by_somebody_is_created_again_with_another_id(bootstrap: str, cluster_id: str) -> None:
    ensure_topics(access_to(bootstrap, cluster_id), 1)
    before = topic_ids(access_to(bootstrap, cluster_id))
    assert set(before) == set(SPECIFICATIONS)
    assert topic_ids(access_to(bootstrap, cluster_id)) == before
    name = topic_name(cluster_id, Topic.SUBMISSIONS)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([name], operation_timeout=10)[name].result(120)
    wait_until(lambda: name not in AdminConnection(KafkaAccess(bootstrap)).find_topics(), "the topic is gone")
    assert ensure_topics(access_to(bootstrap, cluster_id), 1) == [Topic.SUBMISSIONS]
    after = topic_ids(access_to(bootstrap, cluster_id))
    if before[Topic.SUBMISSIONS]:
        assert after[Topic.SUBMISSIONS] != before[Topic.SUBMISSIONS]
    assert after[Topic.LOG] == before[Topic.LOG]


@pytest.mark.rule("P5a")
def test_a_log_that_is_missing_beside_topics_that_had_records_is_not_created_again(bootstrap: str, cluster_id: str) -> None:
    ensure_topics(access_to(bootstrap, cluster_id), 1)
    connection, log = AdminConnection(KafkaAccess(bootstrap)), topic_name(cluster_id, Topic.LOG)
    connection.delete_topics([log])
    wait_until(lambda: log not in connection.find_topics(), "the topic is gone")
    assert ensure_topics(access_to(bootstrap, cluster_id), 1) == [Topic.LOG]  # Nothing was ever written: nothing is lost.
    produce(bootstrap, topic_name(cluster_id, Topic.SUBMISSIONS), 1)
    connection.delete_topics([log])
    wait_until(lambda: log not in connection.find_topics(), "the topic is gone")
    with pytest.raises(LogTruncated, match=rf"the topic {log} is missing, and records were written to submissions"):
        ensure_topics(access_to(bootstrap, cluster_id), 1)
    assert log not in connection.find_topics()


@pytest.mark.rule("P5a")
def test_an_empty_log_beside_what_leaders_wrote_is_no_new_cluster(bootstrap: str, cluster_id: str) -> None:
    ensure_topics(access_to(bootstrap, cluster_id), 1)
    produce(bootstrap, topic_name(cluster_id, Topic.SUBMISSIONS), 1)
    check_was_never_written(access_to(bootstrap, cluster_id))
    produce(bootstrap, topic_name(cluster_id, Topic.REPLIES), 1)
    with pytest.raises(LogTruncated, match="it is empty, and leaders have written to replies"):
        read_state(access_to(bootstrap, cluster_id))


@pytest.mark.rule("P9")
@pytest.mark.parametrize(
    ("topic", "partitions", "configuration", "key", "found"),
    [
        (Topic.LOG, 1, {"cleanup.policy": "compact", "retention.ms": "-1"}, "cleanup.policy", "compact"),
        (Topic.LOG, 1, {"retention.ms": "3600000"}, "retention.ms", "3600000"),
        (Topic.SNAPSHOTS, 1, {"cleanup.policy": "delete"}, "cleanup.policy", "delete"),
        (Topic.COMMANDS, 3, {}, "number of partitions", "3"),
        (Topic.COMMANDS, 1, {"message.timestamp.type": "CreateTime"}, "message.timestamp.type", "CreateTime"),
        (Topic.DEAD_LETTERS, 1, {"max.message.bytes": "5000"}, "max.message.bytes", "5000"),
    ],
)
def test_a_topic_that_is_wrong_is_refused_by_name_and_left_alone(
    bootstrap: str, cluster_id: str, topic: Topic, partitions: int, configuration: dict[str, str], key: str, found: str
) -> None:
    name = topic_name(cluster_id, topic)
    create(bootstrap, name, partitions, configuration)
    for _ in range(2):
        with pytest.raises(TopicMisconfigured) as caught:
            ensure_topics(access_to(bootstrap, cluster_id), 1)
        assert (caught.value.topic_name, caught.value.key, caught.value.found) == (name, key, found)
        assert name in str(caught.value)
        assert caught.value.wanted in str(caught.value)


def test_watermarks_follow_what_is_produced_and_rows_count_it(bootstrap: str, cluster_id: str) -> None:
    ensure_topics(access_to(bootstrap, cluster_id), 1)
    name = topic_name(cluster_id, Topic.SUBMISSIONS)
    connection = AdminConnection(KafkaAccess(bootstrap))
    assert connection.read_watermarks([(name, 0)]) == {(name, 0): Watermarks(0, 0)}
    produce(bootstrap, name, 5)
    assert connection.read_watermarks([(name, 0)]) == {(name, 0): Watermarks(0, 5)}
    assert {row.topic: row.messages for row in describe_topics(access_to(bootstrap, cluster_id))}[Topic.SUBMISSIONS] == 5


@pytest.mark.rule("P5")
def test_a_cluster_below_three_replicas_is_said_to_be_single_node(bootstrap: str, cluster_id: str) -> None:
    ensure_topics(access_to(bootstrap, cluster_id), 1)
    (warning,) = check_durability(access_to(bootstrap, cluster_id), 1)
    assert "single-node" in warning


@pytest.mark.rule("P5")
def test_a_cluster_that_claims_to_be_replicated_and_is_not_is_refused(bootstrap: str, cluster_id: str) -> None:
    ensure_topics(access_to(bootstrap, cluster_id), 1)
    with pytest.raises(NotDurable) as caught:
        check_durability(access_to(bootstrap, cluster_id), 3)
    found = {(fault.topic_name, fault.key) for fault in caught.value.faults}
    for topic in (Topic.LOG, Topic.SUBMISSIONS, Topic.COMMANDS, Topic.TASKMANAGERS):
        assert (topic_name(cluster_id, topic), "replication factor") in found


def test_more_replicas_than_brokers_is_refused_before_anything_is_created(bootstrap: str, cluster_id: str) -> None:
    with pytest.raises(AdministrationError, match=r"topics\.replication-factor is 15"):
        ensure_topics(access_to(bootstrap, cluster_id), 15, timeout_s=5)
    assert describe_topics(access_to(bootstrap, cluster_id)) == []


def test_an_address_where_nobody_answers_is_named_in_time() -> None:
    started = time.monotonic()
    with pytest.raises(KafkaUnreachable, match=r"127\.0\.0\.1:1"):
        ensure_topics(access_to("127.0.0.1:1", "nobody"), 1, timeout_s=1.5)
    assert time.monotonic() - started < 25


def test_deleting_the_topics_of_a_cluster_leaves_none_and_can_be_repeated(bootstrap: str, cluster_id: str) -> None:
    ensure_topics(access_to(bootstrap, cluster_id), 1)
    delete_topics(access_to(bootstrap, cluster_id))
    delete_topics(access_to(bootstrap, cluster_id))
    names = {topic_name(cluster_id, topic) for topic in Topic}
    wait_until(lambda: not names & AdminConnection(KafkaAccess(bootstrap)).find_topics().keys(), "they are gone")


@pytest.mark.rule("P11")
def test_an_open_transaction_is_found_with_whose_it_is_and_ended_and_no_other_is(
    bootstrap: str, cluster_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """P11: what stands behind it is read again once it is aborted, and its producer can commit nothing any more."""
    ensure_topics(access_to(bootstrap, cluster_id), 1)
    names = {topic: topic_name(cluster_id, topic) for topic in Topic}
    hanging, elsewhere = (Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{cluster_id}-{n}"}) for n in (1, 2))
    create(bootstrap, f"{cluster_id}-foreign", 1, {})
    for producer, topic in ((hanging, names[Topic.SUBMISSIONS]), (elsewhere, f"{cluster_id}-foreign")):
        producer.init_transactions(10)
        producer.begin_transaction()
        producer.produce(topic, b"half a thought", partition=0)
        assert producer.flush(10) == 0
    produce(bootstrap, names[Topic.SUBMISSIONS], 3)
    [found] = find_open_transactions(KafkaAccess(bootstrap), names.values(), 10)
    assert (found.transactional_id, found.topics, found.timeout_ms) == (f"{cluster_id}-1", (names[Topic.SUBMISSIONS],), 60_000)
    assert abs(found.began_at_ms / 1000 - time.time()) < 60
    [finding] = transaction_findings(access_to(bootstrap, cluster_id))
    assert finding.verdict is not Verdict.OK
    assert all(said in finding.detail for said in (names[Topic.SUBMISSIONS], f"'{cluster_id}-1' of producer {found.producer_id}", " UTC"))
    options = ["--bootstrap", bootstrap, "--cluster-id", cluster_id, "doctor", "--abort-transaction"]
    assert run([*options, f"{cluster_id}-2"]) == ExitCode.NEGATIVE, "it is of no concern to this cluster"
    assert run([*options, f"{cluster_id}-1"]) == ExitCode.OK
    assert f"'{cluster_id}-1' of producer {found.producer_id} is aborted" in capsys.readouterr().out
    committed = AdminConnection(KafkaAccess(bootstrap)).read_watermarks([(names[Topic.SUBMISSIONS], 0)], is_committed=True)
    assert committed[names[Topic.SUBMISSIONS], 0].high >= 4
    assert find_open_transactions(KafkaAccess(bootstrap), names.values(), 10) == []
    with pytest.raises(KafkaException):
        hanging.commit_transaction(10)
    elsewhere.commit_transaction(10)


@pytest.mark.rule("P11")
def test_a_broker_that_lets_transactions_hang_for_long_is_named_and_ours_does_not(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_transaction_bound(KafkaAccess(bootstrap)) == []
    monkeypatch.setattr(administration, "TRANSACTION_MAX_TIMEOUT_MS", 59_999)
    [warning] = check_transaction_bound(KafkaAccess(bootstrap))
    assert warning.startswith("broker 1: transaction.max.timeout.ms is 60000; ")
    assert AdminConnection(KafkaAccess(bootstrap)).read_broker_value("transaction.max.timeout.ms") == {1: "60000"}
    assert AdminConnection(KafkaAccess(bootstrap)).read_broker_value("no.such.key") == {1: None}


def test_a_new_connection_that_asks_for_offsets_first_does_not_wait_for_the_client_to_look_again(bootstrap: str, cluster_id: str) -> None:
    """Of librdkafka's own, one in ten waits for three seconds, until its next look for the leaders."""
    ensure_topics(access_to(bootstrap, cluster_id))
    wanted = [(topic_name(cluster_id, topic), 0) for topic in SPECIFICATIONS]
    took_s = []
    for _ in range(40):
        connection = AdminConnection(KafkaAccess(bootstrap))
        began_s = time.monotonic()
        assert connection.read_watermarks(wanted) == dict.fromkeys(wanted, Watermarks(0, 0))
        took_s.append(time.monotonic() - began_s)
    assert sum(each > 2.5 for each in took_s) <= 1, "a busy broker may be late once"
