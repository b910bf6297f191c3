"""Streams of Avro on a real Kafka and Spark: with the schema in the graph, and with a schema registry."""

import datetime as dt
import io
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from eventflink.model.statuses import JobStatus
from tests.support import stream_tasks
from tests.support.running_cluster import RunningCluster, running_cluster
from tests.support.schema_registry import Registry, running_registry
from tests.support.topics import CommittedReader, create_topic, feed

pytestmark = pytest.mark.slow

TIMEOUT_S = 360
FIELDS: list[dict[str, Any]] = [
    {"name": "customer", "type": "string"},
    {"name": "amount", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}}},
    {"name": "labels", "type": {"type": "map", "values": "string"}},
]
ORDER = {"type": "record", "name": "Order", "fields": FIELDS}
OLD_ORDER = {"type": "record", "name": "Order", "fields": FIELDS[:-1]}
NEW_ORDER = {"type": "record", "name": "Order", "fields": [*FIELDS[:-1], FIELDS[-1] | {"default": {}}]}
NOON = dt.datetime(2026, 11, 23, 12, tzinfo=dt.UTC)


def order(number: int) -> dict[str, Any]:
    amount = None if number % 5 == 0 else Decimal(number) / 4
    at = NOON + dt.timedelta(milliseconds=number)
    return {"customer": f"c{number}", "amount": amount, "at": at, "lines": [{"n": number}], "labels": {"k": str(number)}}


def encoded(schema: dict[str, Any], row: dict[str, Any], header: bytes = b"") -> bytes:
    stream = io.BytesIO(header)
    stream.seek(len(header))
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema, named_schemas={}), row)
    return stream.getvalue()


def framed(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big")


@pytest.fixture(scope="module")
def cluster(bootstrap: str, spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path_factory.mktemp("avro"), **{"spark.remote": spark}) as running:
        running.start_master()
        running.start_task_executor()
        yield running


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as registry:
        yield registry


def submit(cluster: RunningCluster, source: dict[str, Any], sink: dict[str, Any], **vertex: Any) -> str:
    task = {"sql": vertex["sql"]} if "sql" in vertex else {"python": "stream_tasks:copy"}
    stream = {"sources": {"source": {"format": "avro", **source}}, "sink": {"format": "avro", **sink}, "trigger": {"available_now": True}}
    vertices = {"id": "stream", "stream": stream, **task}
    return cluster.submit(
        cluster.graph(vertices, restart_strategy={"type": "none"}, code_archives=[cluster.user_code(Path(stream_tasks.__file__))])
    )


def finish(cluster: RunningCluster, job_id: str) -> None:
    cluster.wait_for_status(job_id, JobStatus.FINISHED, TIMEOUT_S)


def cause_of(cluster: RunningCluster, job_id: str) -> str:
    cause = cluster.wait_for_status(job_id, JobStatus.FAILED, TIMEOUT_S).cause
    assert cause is not None
    return f"{cause.failure_type}: {cause.message}"


def values_of(cluster: RunningCluster, topic: str, count: int) -> dict[bytes, bytes]:
    """Return the values of a topic by their keys."""
    reader = CommittedReader(cluster.bootstrap, topic)
    records = reader.read_records(count)
    reader.close()
    return {record.key(): record.value() or b"" for record in records}


def test_rows_of_a_schema_in_the_graph_are_copied_whole_and_a_bad_record_is_named_or_left_out_or_kept(cluster: RunningCluster) -> None:
    source, target = create_topic(cluster.bootstrap), create_topic(cluster.bootstrap)
    feed(cluster.bootstrap, source, [encoded(ORDER, order(number)) for number in range(100)])
    sink = {"kafka": {"topic": target, "key": ["customer"]}, "schema": ORDER}
    finish(cluster, submit(cluster, {"kafka": {"topic": source}, "schema": ORDER}, sink))
    expected = {f"c{number}".encode(): encoded(ORDER, order(number)) for number in range(100)}
    assert values_of(cluster, target, 100) == expected

    feed(cluster.bootstrap, source, [b"\x7f"])
    cause = cause_of(cluster, submit(cluster, {"kafka": {"topic": source}, "schema": ORDER}, sink))
    assert re.search(f"source 'source': the record at {source}-[01]@\\d+ is not what its schema says: ", cause)
    others = create_topic(cluster.bootstrap)
    skipping = {"kafka": {"topic": source, "bad_records": "skip"}, "schema": ORDER}
    finish(cluster, submit(cluster, skipping, {**sink, "kafka": {"topic": others, "key": ["customer"]}}))
    assert values_of(cluster, others, 100) == expected
    kept = create_topic(cluster.bootstrap)
    keeping = {"kafka": {"topic": source, "bad_records": "column"}, "schema": ORDER}
    sql = "SELECT hex(_bad_record) AS value, CAST(at AS STRING) AS key FROM source WHERE _bad_record IS NOT NULL OR customer = 'c7'"
    finish(cluster, submit(cluster, keeping, {"kafka": {"topic": kept}, "format": "bytes"}, sql=sql))
    assert sorted(values_of(cluster, kept, 2).values()) == [b"", b"7F"]


def test_records_of_a_registry_are_read_with_their_own_schemas_and_written_with_its_newest(
    cluster: RunningCluster, registry: Registry
) -> None:
    source, target = create_topic(cluster.bootstrap), create_topic(cluster.bootstrap)
    old_id, new_id = [registry.register("orders-value", json.dumps(schema)) for schema in (OLD_ORDER, NEW_ORDER)]
    old = [encoded(OLD_ORDER, order(number), framed(old_id)) for number in range(50)]
    feed(cluster.bootstrap, source, old + [encoded(NEW_ORDER, order(number), framed(new_id)) for number in range(50, 100)])
    where = {"registry": {"url": registry.url, "subject": "orders-value"}}
    finish(cluster, submit(cluster, {"kafka": {"topic": source}, **where}, {"kafka": {"topic": target, "key": ["customer"]}, **where}))
    labels = [{} if number < 50 else order(number)["labels"] for number in range(100)]
    rows = {f"c{number}".encode(): order(number) | {"labels": labels[number]} for number in range(100)}
    assert values_of(cluster, target, 100) == {key: encoded(NEW_ORDER, row, framed(new_id)) for key, row in rows.items()}

    # One that is declared as well is registered, and names itself.
    counted = create_topic(cluster.bootstrap)
    count = {"type": "record", "name": "Count", "fields": [{"name": "orders", "type": "long"}]}
    sink = {"kafka": {"topic": counted, "key": ["customer"]}, "schema": count}
    sink["registry"] = {"url": registry.url, "subject": "counts-value"}
    sql = "SELECT customer, bigint(lines[0].n) AS orders FROM source WHERE customer = 'c3'"
    finish(cluster, submit(cluster, {"kafka": {"topic": source}, **where}, sink, sql=sql))
    assert values_of(cluster, counted, 1) == {b"c3": encoded(count, {"orders": 3}, framed(registry.subjects["counts-value"][0]))}


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        (
            "SELECT 1 AS n FROM source",
            "StreamUnusable: .*the rows do not fit the sink's Avro schema: column 'n' is int, and its field bigint",
        ),
        ("SELECT 1L AS m FROM source", "column not found for field 'n'; column 'm' is not a field of the schema"),
        ("SELECT bigint(NULL) AS n FROM source", "RowUnusable: vertex 'stream': a row does not fit the sink's Avro schema: .*'n': None"),
    ],
)
def test_rows_that_are_no_records_of_the_sinks_schema_end_the_stream(cluster: RunningCluster, sql: str, says: str) -> None:
    source, target = create_topic(cluster.bootstrap), create_topic(cluster.bootstrap)
    feed(cluster.bootstrap, source, [encoded(ORDER, order(1))])
    sink = {"kafka": {"topic": target}, "schema": {"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]}}
    cause = cause_of(cluster, submit(cluster, {"kafka": {"topic": source}, "schema": ORDER}, sink, sql=sql))
    assert re.search(says, cause)


def test_a_registry_that_is_not_there_ends_the_stream_and_no_record_is_taken_for_a_bad_one(cluster: RunningCluster) -> None:
    source, target = create_topic(cluster.bootstrap), create_topic(cluster.bootstrap)
    feed(cluster.bootstrap, source, [encoded(ORDER, order(1), framed(1))])
    nowhere = {"registry": {"url": "http://127.0.0.1:9", "subject": "s"}}
    skipping = {"kafka": {"topic": source, "bad_records": "skip"}, "schema": ORDER, **nowhere}
    says = "RegistryUnavailable: vertex 'stream': the schema registry at http://127.0.0.1:9 does not answer"
    assert says in cause_of(cluster, submit(cluster, skipping, {"kafka": {"topic": target}, "schema": ORDER}))
    assert says in cause_of(cluster, submit(cluster, skipping | {"schema": ORDER}, {"kafka": {"topic": target}, **nowhere}))
