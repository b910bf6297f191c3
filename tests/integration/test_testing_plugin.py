"""The pytest plugin as its users see it: jobs run, records go in and come out, real processes are crashed and the test goes on."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

import eventflink
from eventflink.gateways.errors import ResultNotNamed
from eventflink.local.embedded_broker import EmbeddedBroker
from eventflink.model.statuses import JobStatus
from eventflink.streams.savepoint import SavepointUnusable
from eventflink.testing.failures import CannotCrash, Unexpected
from eventflink.testing.mini_cluster import Crashable, MiniCluster
from eventflink.testing.records import Record
from eventflink.testing.settings import MiniClusterSettings
from tests.support import kafka_tasks, stream_tasks, user_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow(first=True)
COUNT = 100


@pytest.fixture(scope="session")
def eventflink_settings() -> MiniClusterSettings:
    return MiniClusterSettings(masters=2, slots=2, configuration={"spark.start-early": "false"})


@pytest.fixture(scope="module", autouse=True)
def cluster_ends_with_its_tests(eventflink_cluster: MiniCluster) -> Iterator[None]:
    """No other file uses it: idle until the end of the session, it would take processor time from all others."""
    yield
    eventflink_cluster.close()


class Waiting:
    """A job of two subtasks that publishes the numbers up to COUNT when it is let."""

    def __init__(self, cluster: MiniCluster, gate: Path) -> None:
        task = {"id": "task", "python": "user_tasks:numbers_when_let", "parallelism": 2, "parameters": {"path": str(gate), "count": COUNT}}
        strategy = {"type": "fixed-delay", "attempts": 4, "delay_ms": 100}
        self._gate = gate
        self.job = cluster.submit({"name": "waiting", "vertices": [task], "restart_strategy": strategy}, code=[user_tasks])

    def finish(self) -> list[int]:
        """Let it, and return the attempt in which each subtask finished, when the result was seen to be whole."""
        self._gate.with_name("gate.go").touch()
        assert sorted(row["id"] for row in self.job.result()) == list(range(COUNT))
        return [subtask.attempt for vertex in self.job.details().vertices for subtask in vertex.subtasks]


@pytest.fixture
def waiting(eventflink_cluster: MiniCluster, tmp_path: Path) -> Iterator[Waiting]:
    running = Waiting(eventflink_cluster, tmp_path / "gate")
    with running.job:
        running.job.wait_until_running()
        yield running


# -- jobs and records ----------------------------------------------------------------------------------------------


def test_the_result_of_a_job_is_rows_and_is_there_for_spark(eventflink_cluster: MiniCluster, eventflink_spark: "SparkSession") -> None:
    vertices = [{"id": "one", "sql": "SELECT 6 AS a, 7 AS b"}, {"id": "product", "sql": "SELECT a * b AS answer FROM one"}]
    job = eventflink_cluster.submit({"name": "answer", "vertices": vertices, "edges": [{"from": "one", "to": "product"}]}, job_id="answer")
    assert job.result() == [{"answer": 42}]
    assert job.result("product") == [{"answer": 42}]
    assert (job.job_id, job.status, job.exceptions()) == ("answer", JobStatus.FINISHED, [])
    with eventflink.connect(eventflink_cluster.bootstrap, eventflink_cluster.cluster_id) as cluster:
        result = cluster.job("answer").result()
    assert result.to_pandas().to_dict("records") == result.to_arrow().to_pylist() == [{"answer": 42}]
    assert [row.answer for row in result.to_spark(eventflink_spark).collect()] == [42]
    with pytest.raises(ResultNotNamed, match=r"vertex not found: 'two' in job '.*'; it has one, product"):
        job.result("two")


def test_a_failed_job_says_why_with_the_lines_of_its_code(eventflink_cluster: MiniCluster) -> None:
    graph = {"name": "fails", "vertices": [{"id": "task", "python": "user_tasks:fail"}], "restart_strategy": {"type": "none"}}
    job = eventflink_cluster.submit(graph, code=[user_tasks])
    with pytest.raises(Unexpected, match=r"(?s)is FAILED, and was to be FINISHED.*task\[0\]#1 failed.*LookupError.*raise LookupError"):
        job.wait()
    assert [failure.cause.failure_type for failure in job.exceptions()] == ["LookupError"]


def test_a_wait_that_is_too_short_says_how_the_job_stands(waiting: Waiting) -> None:
    began = time.monotonic()
    with pytest.raises(Unexpected, match=r"(?s)was not FINISHED within 0.5 s\nit is RUNNING.*task\[1\]#1 RUNNING.*running: master-1"):
        waiting.job.wait(timeout_s=0.5)
    assert time.monotonic() - began < 60
    waiting.job.cancel()
    assert waiting.job.status is JobStatus.CANCELED
    waiting.job.cancel()


def test_records_go_through_a_job_and_only_what_is_committed_is_collected(eventflink_cluster: MiniCluster) -> None:
    cluster = eventflink_cluster
    source = cluster.create_topic(cluster.unique("words"), partitions=2)
    target = cluster.create_topic(cluster.unique("shouted"))
    cluster.feed(source, [{"word": "one"}, {"word": "two"}], key="word")
    cluster.feed(source, [b"bytes", "text", Record("late", key="k", timestamp_ms=1_000, partition=1)])
    cluster.advance_event_time(source, {"word": "end"})
    parameters = {"bootstrap": cluster.bootstrap, "source": source, "target": target, "partitions": 2, "count": 7}
    task = {"id": "task", "python": "kafka_tasks:copy_records", "parameters": parameters}
    cluster.submit({"name": "copies", "vertices": [task]}, code=[kafka_tasks]).wait()
    records = cluster.collect(target, 7, 20)
    expected = ['{"WORD":"ONE"}', '{"WORD":"TWO"}', "BYTES", "TEXT", "LATE", '{"WORD":"END"}', '{"WORD":"END"}']
    assert sorted(bytes(record.value).decode() for record in records) == sorted(expected)  # type: ignore[arg-type]
    assert {record.key: record.json for record in records if record.key and record.key != b"k"} == {
        b"one": {"WORD": "ONE"},
        b"two": {"WORD": "TWO"},
    }
    assert [record.timestamp_ms for record in records if record.key == b"k"] == [1_000]
    assert len(cluster.collect(target, 14, 20, committed=False)) == 14
    assert cluster.collect_until(target, lambda seen: any(record.value == b"TEXT" for record in seen), 20) == records
    with pytest.raises(ValueError, match="is there already"):
        cluster.create_topic(source)


def test_records_that_do_not_come_are_told_with_those_that_came(eventflink_cluster: MiniCluster) -> None:
    cluster = eventflink_cluster
    topic = cluster.create_topic(cluster.unique("totals"))
    cluster.feed(topic, [{"total": 1}])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(30)
    with pytest.raises(
        Unexpected,
        match=r'(?s)did not have 2 committed records within 1 s: it has 1 records.*offset 0: \{"total":1\}.*and 1 offsets behind',
    ):
        cluster.collect(topic, 2, 1)
    producer.abort_transaction(30)
    with pytest.raises(ValueError, match="topic not found: 'nothing'"):
        cluster.collect("nothing", 1, 1)


# -- streams -------------------------------------------------------------------------------------------------------


def order(customer: str, second: int) -> dict[str, object]:
    return {"customer": customer, "at": datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)}


def has_counts_of_ada(count: int, records: list[Record]) -> bool:
    return [record.json["customer"] for record in records].count("ada") >= count


@pytest.mark.timeout(600)
def test_a_stream_is_fed_moved_on_in_event_time_crashed_and_collected(eventflink_cluster: MiniCluster) -> None:
    cluster = eventflink_cluster
    source, target = cluster.create_topic(cluster.unique("orders"), 2), cluster.create_topic(cluster.unique("counts"))
    at = {"event_time": "at", "watermark_delay_ms": 0}
    stream = {
        "sources": {"orders": {"kafka": {"topic": source}, "format": "json", "schema": "customer STRING, at TIMESTAMP", **at}},
        "sink": {"kafka": {"topic": target, "key": ["customer"]}, "format": "json"},
        "settings": {"spark.sql.shuffle.partitions": 1},
    }
    sql = "SELECT customer, count(*) AS orders FROM orders GROUP BY window(at, '10 seconds'), customer"
    strategy = {"type": "fixed-delay", "attempts": 9, "delay_ms": 100}
    graph = {"name": "counts", "vertices": [{"id": "counts", "sql": sql, "stream": stream}], "restart_strategy": strategy}
    cluster.feed(source, [order("ada", 1), order("ada", 2), order("grace", 9)], key="customer")
    with cluster.submit(graph) as job:
        job.wait_until_running()
        cluster.advance_event_time(source, order("-", 19))
        first = cluster.collect(target, 2, 180)
        assert sorted((r.json["customer"], r.json["orders"]) for r in first) == [("ada", 2), ("grace", 1)]
        crashes: tuple[Crashable, ...] = ("task", "leader")
        for number, what in enumerate(crashes, 2):
            cluster.feed(source, [order("ada", 10 * number + 1)], key="customer")
            cluster.crash(what)
            cluster.feed(source, [order("ada", 10 * number + 2)], key="customer")
            cluster.advance_event_time(source, order("-", 10 * number + 10))
            cluster.collect_until(target, partial(has_counts_of_ada, number), 180)
        rows = cluster.collect(target, 5)
    assert sorted((r.json["customer"], r.json["orders"]) for r in rows if r.json["customer"] != "-") == [("ada", 2)] * 3 + [("grace", 1)]
    assert job.status is JobStatus.CANCELED


@pytest.mark.timeout(600)
def test_a_stream_goes_on_in_other_jobs_from_savepoints_and_is_crashed_in_the_middle_of_one(
    eventflink_cluster: MiniCluster, tmp_path: Path
) -> None:
    cluster = eventflink_cluster
    source, target = cluster.create_topic(cluster.unique("numbers"), 2), cluster.create_topic(cluster.unique("copies"))
    stream = {
        "sources": {"numbers": {"kafka": {"topic": source}, "format": "json", "schema": "number BIGINT"}},
        "sink": {"kafka": {"topic": target}, "format": "json"},
    }
    vertex = {"id": "copy", "sql": "SELECT number FROM numbers", "stream": stream}
    graph = {"name": "copies", "vertices": [vertex], "restart_strategy": {"type": "fixed-delay", "attempts": 9, "delay_ms": 100}}

    def feed(first: int) -> None:
        cluster.feed(source, [{"number": number} for number in range(first, first + COUNT)])

    feed(0)
    with cluster.submit(graph) as job:
        cluster.collect(target, COUNT, 180)
        assert Path(job.savepoint()).is_relative_to(cluster.savepoint_directory)
        feed(COUNT)
        cluster.crash("task", job=job)
        job.wait_until_running(attempt=2)
        with ThreadPoolExecutor(1) as threads:
            stopping = threads.submit(job.stop_with_savepoint, tmp_path)
            cluster.crash("leader")
            path = stopping.result(180)
        assert (job.status, Path(path).parent) == (JobStatus.FINISHED, tmp_path)
    feed(2 * COUNT)
    with cluster.submit(graph, savepoint=path) as job:
        cluster.collect(target, 3 * COUNT, 180)
        path = job.cancel_with_savepoint()
        assert job.status is JobStatus.CANCELED
    with cluster.submit(graph, savepoint=path) as job:
        feed(3 * COUNT)
        path = job.stop_with_savepoint(drain=True)
        records = cluster.collect(target, 4 * COUNT, 180)
    assert sorted(record.json["number"] for record in records) == list(range(4 * COUNT))
    renamed = graph | {"vertices": [vertex | {"id": "renamed"}]}
    with pytest.raises(SavepointUnusable, match="has the streams 'copy', which no stream of the job goes on with"):
        cluster.submit(renamed, savepoint=path)
    with cluster.submit(renamed, savepoint=path, allow_non_restored_state=True) as job:
        cluster.collect(target, 8 * COUNT, 180)


def test_the_broker_dies_in_the_middle_of_a_transaction_of_a_stream_and_each_record_counts_once(
    eventflink_cluster: MiniCluster, eventflink_embedded_broker: EmbeddedBroker | None, tmp_path: Path
) -> None:
    if eventflink_embedded_broker is None:
        pytest.skip("the broker is not ours to crash")
    cluster, gate = eventflink_cluster, tmp_path / "gate"
    source, target = cluster.create_topic(cluster.unique("numbers"), 2), cluster.create_topic(cluster.unique("copies"))
    stream = {
        "sources": {"source": {"kafka": {"topic": source}, "format": "json", "schema": "number BIGINT"}},
        "sink": {"kafka": {"topic": target}, "format": "json"},
    }
    vertex = {"id": "copy", "python": "stream_tasks:copy_when_let", "parameters": {"gate": str(gate)}, "stream": stream}
    graph = {"name": "copies", "vertices": [vertex], "restart_strategy": {"type": "fixed-delay", "attempts": 9, "delay_ms": 100}}
    cluster.feed(source, [Record({"number": number}, partition=number % 2) for number in range(COUNT)])
    with cluster.submit(graph, code=[stream_tasks]) as job:
        assert len(cluster.collect(target, COUNT // 2, 180, committed=False)) == COUNT // 2
        assert cluster.collect(target, 0) == [], "the transaction is open"
        cluster.crash("broker")
        gate.touch()
        cluster.feed(source, [Record({"number": number}, partition=number % 2) for number in range(COUNT, 2 * COUNT)])
        cluster.collect(target, 2 * COUNT, 180)
    records = cluster.collect(target, 2 * COUNT)
    assert sorted(record.json["number"] for record in records) == list(range(2 * COUNT))
    assert job.status is JobStatus.CANCELED


# -- crashes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["leader", "standby"])
def test_a_job_does_not_notice_that_a_master_dies(eventflink_cluster: MiniCluster, waiting: Waiting, what: Crashable) -> None:
    leader = eventflink_cluster.gateway.find_leader()
    killed = eventflink_cluster.crash(what)
    assert killed.startswith(f"{what} master-")
    after = eventflink_cluster.gateway.find_leader()
    assert (after.epoch == leader.epoch) is (what == "standby")
    assert waiting.finish() == [1, 1]


def test_a_task_that_dies_runs_again(eventflink_cluster: MiniCluster, waiting: Waiting) -> None:
    assert eventflink_cluster.crash("task", job=waiting.job, subtask=1).startswith("task task[1]#1 (process ")
    waiting.job.wait_until_running()
    assert waiting.finish() == [1, 2]
    assert [failure.cause.failure_type for failure in waiting.job.exceptions()] == ["TaskProcessDied"]


def test_tasks_of_a_task_executor_that_dies_run_again_on_the_new_one(eventflink_cluster: MiniCluster, waiting: Waiting) -> None:
    assert eventflink_cluster.crash("taskexecutor", job=waiting.job).startswith("taskexecutor tm-1")
    assert min(waiting.finish()) >= 2


def test_spark_dies_and_the_next_task_has_a_new_one(eventflink_cluster: MiniCluster, waiting: Waiting) -> None:
    with eventflink_cluster.spark_session() as session:
        assert session.range(3).count() == 3
        assert eventflink_cluster.crash("spark").startswith("spark (process ")
    assert waiting.finish() == [1, 1]
    with eventflink_cluster.spark_session() as session:
        assert session.range(4).count() == 4


def test_the_broker_dies_and_everything_goes_on(
    eventflink_cluster: MiniCluster, eventflink_embedded_broker: EmbeddedBroker | None, waiting: Waiting
) -> None:
    if eventflink_embedded_broker is None:
        pytest.skip("the broker is not ours to crash")
    topic = eventflink_cluster.create_topic(eventflink_cluster.unique("kept"))
    eventflink_cluster.feed(topic, [b"before"])
    assert eventflink_cluster.crash("broker").startswith("broker 127.0.0.1:")
    eventflink_cluster.feed(topic, [b"after"])
    assert [record.value for record in eventflink_cluster.collect(topic, 2)] == [b"before", b"after"]
    assert waiting.finish() == [1, 1]


def test_what_was_killed_without_a_restart_is_told_and_restarted_later(eventflink_cluster: MiniCluster, waiting: Waiting) -> None:
    eventflink_cluster.crash("taskexecutor", restart=False)
    with pytest.raises(Unexpected, match="killed by the test: tm-1"):
        waiting.job.wait(timeout_s=0.2)
    with pytest.raises(CannotCrash, match="no TaskExecutor of this cluster runs"):
        eventflink_cluster.crash("taskexecutor")
    eventflink_cluster.restart()
    assert min(waiting.finish()) >= 2
