"""What a job is told of its records is what Spark reads: all that were committed, of each partition, and none of those of the next job."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from eventflink.entrypoint.outside_watching import KafkaLook
from eventflink.log.admin_connection import AdministrationError
from eventflink.model.cluster_access import access_to
from eventflink.model.schedule_document import check_schedule
from eventflink.model.schedules import OffsetRange, PartitionOffset, graph_for, records_behind, take_records
from tests.support.running_cluster import wait_until
from tests.support.spark_sessions import own_session
from tests.support.topics import create_topic

pytestmark = pytest.mark.slow
WAIT_S = 120
TOLD = {"assign": "partitions", "startingOffsets": "starting-offsets", "endingOffsets": "ending-offsets"}


@pytest.fixture(scope="module")
def session(spark: str) -> Iterator[SparkSession]:
    with own_session(spark) as session:
        yield session


def write(bootstrap: str, topic: str, values: range, transaction: str = "") -> Producer:
    """Write numbers to two partitions in turns, as a transaction that stays open if it has a name."""
    producer = Producer({"bootstrap.servers": bootstrap} | ({"transactional.id": f"{topic}-{transaction}"} if transaction else {}))
    if transaction:
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
    for value in values:
        producer.produce(topic, str(value).encode(), partition=value % 2)
    assert producer.flush(WAIT_S) == 0
    return producer


def test_spark_reads_the_records_of_a_job_and_no_others(bootstrap: str, session: SparkSession) -> None:
    topic, look = create_topic(bootstrap, partitions=3), KafkaLook(access_to(bootstrap, "own"))
    job = {"name": "take", "vertices": [{"id": "take", "python": "take:take"}], "parameters": {name: {"type": "string"} for name in TOLD}}
    definition = check_schedule({"records": {"topic": topic, "at_most": 15}, "instant_parameters": TOLD, "job": job})
    cursor: dict[int, int] = {}

    def take() -> list[int]:
        """Return what Spark reads of the next records."""
        ranges = take_records(records_behind(cursor, look.topics([topic])[topic].bounds), 15)
        if not ranges:  # The end of a transaction shows a moment later.
            return []
        cursor.update({each.partition: each.end_offset for each in ranges})
        told = {each.name: str(each.value) for each in graph_for(definition, 0, {}, records=ranges).parameters}
        kafka = {"kafka.bootstrap.servers": bootstrap, "kafka.isolation.level": "read_committed"}
        rows = session.read.format("kafka").options(**kafka, **told).load().selectExpr("CAST(CAST(value AS STRING) AS INT) AS value")
        return sorted(row["value"] for row in rows.collect())

    write(bootstrap, topic, range(20))
    first = take()
    assert len(first) == 15
    assert sorted([*first, *take()]) == [*range(20)]
    write(bootstrap, topic, range(100, 104), "aborted").abort_transaction(WAIT_S)
    held = write(bootstrap, topic, range(200, 204), "open")
    write(bootstrap, topic, range(300, 302))
    assert take() == [], "those behind an open transaction wait for its end"
    held.commit_transaction(WAIT_S)
    taken: list[int] = []

    def take_more() -> bool:
        taken.extend(take())
        return len(taken) >= 6

    wait_until(take_more, "the records of the transaction")
    assert sorted(taken) == [200, 201, 202, 203, 300, 301]


def test_a_topic_that_is_not_there_is_named(bootstrap: str) -> None:
    with pytest.raises(AdministrationError, match="none-of-this-name"):
        KafkaLook(access_to(bootstrap, "own")).topics(["none-of-this-name"])


def test_a_topic_without_records_has_its_partitions(bootstrap: str) -> None:
    topic = create_topic(bootstrap, partitions=2)
    seen = KafkaLook(access_to(bootstrap, "own")).topics([topic])[topic]
    assert len(seen.topic_id) == 22
    assert seen.bounds == (OffsetRange(0, 0, 0), OffsetRange(1, 0, 0))


def test_records_are_found_by_their_age(bootstrap: str) -> None:
    topic, look = create_topic(bootstrap, partitions=2), KafkaLook(access_to(bootstrap, "own"))
    producer = Producer({"bootstrap.servers": bootstrap})
    for time_ms in (1_000, 2_000, 3_000):
        producer.produce(topic, b"a record", partition=1, timestamp=time_ms)
    assert producer.flush(WAIT_S) == 0
    bounds = look.topics([topic])[topic].bounds
    at = {time_ms: look.offsets_at(bounds, topic, time_ms) for time_ms in (1_000, 1_500, 3_001)}
    assert at == {time_ms: (PartitionOffset(0, 0), PartitionOffset(1, offset)) for time_ms, offset in ((1_000, 0), (1_500, 1), (3_001, 3))}


def test_a_topic_of_the_cluster_itself_is_not_looked_at(bootstrap: str) -> None:
    with pytest.raises(AdministrationError, match=r"own\.log is the cluster's own"):
        KafkaLook(access_to(bootstrap, "own")).topics(["own.log"])
