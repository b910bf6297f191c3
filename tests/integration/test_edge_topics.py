"""The topics of pipelined edges on a real broker: made, noted of, and gone with what was noted."""

import dataclasses
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from eventflink.log.admin_connection import AdminConnection, Watermarks
from eventflink.log.administration import remove_edges
from eventflink.model.cluster_access import access_to
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.pipelined_edges import edge_topic
from eventflink.model.places import Place
from eventflink.model.statuses import ShipStrategy
from eventflink.streams import edges
from eventflink.streams.edges import Edge, UnreadRecords, create_edges, discard_read, has_ended, note_end, wait_for_writers
from eventflink.streams.failures import StreamUnusable
from tests.support.running_cluster import wait_until

LOCATIONS = ("stream.orders", "stream.orders_eu", "stream_orders.eu")


def edge(cluster_id: str, location: str, job_id: str = "job") -> Edge:
    return Edge(
        topic=edge_topic(cluster_id, job_id, location),
        writer_group=f"{cluster_id}/{job_id}/writer",
        writers=1,
        ship=ShipStrategy.REBALANCE,
        keys=(),
        partitions=2,
        row_schema="id BIGINT",
        event_time="",
        watermark_delay_ms=0,
    )


@pytest.fixture
def two(bootstrap: str, cluster_id: str) -> Iterator[list[Edge]]:
    """Two edges of one writer."""
    found = [edge(cluster_id, location) for location in LOCATIONS[:2]]
    create_edges(found, KafkaAccess(bootstrap), 1)
    yield found
    remove_edges(access_to(bootstrap, cluster_id), "job", LOCATIONS)


def test_edges_whose_names_differ_in_dots_and_underscores_alone_have_topics_of_their_own(bootstrap: str, cluster_id: str) -> None:
    made = [edge(cluster_id, location, job_id) for job_id in ("job.1", "job_1") for location in LOCATIONS]
    for each in made:
        create_edges([each], KafkaAccess(bootstrap), 1)
    for job_id in ("job.1", "job_1"):
        remove_edges(access_to(bootstrap, cluster_id), job_id, LOCATIONS)


def test_an_edge_that_kafka_does_not_take_is_explained(bootstrap: str, cluster_id: str) -> None:
    with pytest.raises(StreamUnusable, match=r"the topics of its edges cannot be made: .*create topic .*INVALID_REPLICATION_FACTOR"):
        create_edges([edge(cluster_id, "b.a")], KafkaAccess(bootstrap), 7)


def test_a_topic_that_something_else_made_is_not_taken_for_the_edge(bootstrap: str, two: list[Edge]) -> None:
    with pytest.raises(StreamUnusable, match="has 2 partitions, not 3: it is not of this job, but perhaps of an earlier one of the same"):
        create_edges([dataclasses.replace(two[0], partitions=3)], KafkaAccess(bootstrap), 1)


def test_a_bounded_subtask_has_ended_on_all_its_edges_or_on_none(bootstrap: str, two: list[Edge], monkeypatch: pytest.MonkeyPatch) -> None:
    class OnceConsumer(Consumer):  # type: ignore[misc]  # confluent_kafka says nothing of its types
        """Kafka goes away when something was noted."""

        commits = 0

        def commit(self, **arguments: Any) -> Any:
            if OnceConsumer.commits:
                raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))
            OnceConsumer.commits += 1
            return super().commit(**arguments)

    monkeypatch.setattr(edges, "Consumer", OnceConsumer)
    try:
        note_end(two, 0, KafkaAccess(bootstrap))
    except (KafkaException, StreamUnusable):
        assert not any(has_ended([each], 0, KafkaAccess(bootstrap)) for each in two)
    else:
        assert all(has_ended([each], 0, KafkaAccess(bootstrap)) for each in two)


def test_of_an_edge_that_is_read_twice_in_a_query_the_lesser_place_counts(bootstrap: str, two: list[Edge], tmp_path: Path) -> None:
    [read, _] = two
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        producer.produce(read.topic, str(number).encode(), partition=0)
    assert producer.flush(30) == 0
    for batch_id, at in enumerate([5, 6]):
        for directory in ("offsets", "commits"):
            (tmp_path / directory).mkdir(exist_ok=True)
            places = [json.dumps({read.topic: {"0": offset, "1": 0}}) for offset in (at, at + 2)]
            (tmp_path / directory / str(batch_id)).write_text("\n".join(["v1", "{}", *places]))
    location = Place(str(tmp_path))
    discard_read([read], location, KafkaAccess(bootstrap), ("reader", 0, 1))
    assert AdminConnection(KafkaAccess(bootstrap)).read_watermarks([(read.topic, 0)]) == {(read.topic, 0): Watermarks(5, 10)}
    assert UnreadRecords([(read, [0, 1])], location, KafkaAccess(bootstrap)).count() == 4


def test_a_bounded_reader_begins_when_the_last_transaction_of_its_writers_has_ended(bootstrap: str, two: list[Edge]) -> None:
    """Kafka says that it is committed before its partitions do."""
    [read, _] = two
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": read.topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(read.topic, b"{}", partition=1)
    assert producer.flush(30) == 0
    note_end([read], 0, KafkaAccess(bootstrap))
    begins = threading.Event()

    def wait() -> None:
        wait_for_writers([(read, [0, 1])], KafkaAccess(bootstrap))
        begins.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    try:
        assert not begins.wait(3.0)
    finally:
        producer.commit_transaction()
        waiting.join(60)
    assert begins.is_set()


def test_a_job_that_is_called_like_an_earlier_one_finds_nothing_noted(bootstrap: str, cluster_id: str, two: list[Edge]) -> None:
    note_end(two, 0, KafkaAccess(bootstrap))
    assert has_ended(two, 0, KafkaAccess(bootstrap))
    remove_edges(access_to(bootstrap, cluster_id), "job", LOCATIONS)
    create_edges(two, KafkaAccess(bootstrap), 1)
    wait_until(lambda: not any(has_ended([each], 0, KafkaAccess(bootstrap)) for each in two), "what was noted goes with the topic")


def test_topics_that_a_broker_names_after_they_were_deleted_are_made_again(
    bootstrap: str, cluster_id: str, two: list[Edge], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = AdminConnection(KafkaAccess(bootstrap)).find_topics()
    remove_edges(access_to(bootstrap, cluster_id), "job", LOCATIONS)
    wait_until(
        lambda: not {each.topic for each in two} & AdminConnection(KafkaAccess(bootstrap)).find_topics().keys(), "the topics are gone"
    )
    outdated, find_topics = [before, before], AdminConnection.find_topics
    monkeypatch.setattr(AdminConnection, "find_topics", lambda self: outdated.pop() if outdated else find_topics(self))
    create_edges(two, KafkaAccess(bootstrap), 1)
    assert not outdated
    assert {each.topic for each in two} <= AdminConnection(KafkaAccess(bootstrap)).find_topics().keys()
