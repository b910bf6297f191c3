"""Pipelined edges on a real cluster: rows go from stream to stream once each, and the topics come and go with their job."""

import json
import signal
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from eventflink.documents.checkpoints import CompletedCheckpoint
from eventflink.events.log_events import StreamStarted
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import CheckpointFailed, RequestRefused
from eventflink.log.admin_connection import AdminConnection
from eventflink.model.job_graph import StreamSource
from eventflink.model.pipelined_edges import edge_topic
from eventflink.model.places import Place
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, JobStatus, StreamConnector
from eventflink.streams.edges import edges_of, records_of, rows_of
from eventflink.streams.failures import StreamUnusable
from eventflink.streams.progress import last_begun_batch
from eventflink.taskexecutor.task_spark import open_session, session_address
from tests.support import stream_tasks
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until
from tests.support.topics import CommittedReader, create_topic, feed

pytestmark = pytest.mark.slow

SPARK_TIMEOUT_S = 360
NOT_READY = "StreamsNotReady"
SCHEMA = "key STRING, number BIGINT, at TIMESTAMP"


@pytest.fixture(scope="module")
def cluster(bootstrap: str, spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path_factory.mktemp("edges"), **{"spark.remote": spark}) as running:
        running.start_master("master-1")
        running.start_standby("master-2")
        running.start_task_executor(slots=4)
        yield running


@pytest.fixture(autouse=True)
def no_job_is_left(cluster: RunningCluster) -> Iterator[None]:
    """Give the slots back of a job whose test has failed."""
    yield
    for job in cluster.state().master.dispatcher.jobs.values():
        if job.status not in TERMINAL_JOB_STATUSES:
            with DispatcherGateway(cluster.access) as gateway:
                gateway.cancel_job(job.job_id)
            cluster.wait_for_status(job.job_id, JobStatus.CANCELED)


class Work:
    """Two streams joined by an edge, fed and read by the test."""

    def __init__(
        self,
        cluster: RunningCluster,
        reader: str,
        edge: dict[str, Any],
        *,
        parallelism: int = 1,
        between: str = "",
        gate: Path | None = None,
        **trigger: Any,
    ) -> None:
        """Feed the first stream; a second one that reads no edge as well; with a gate the second one alone, which that holds up."""
        self.cluster = cluster
        self.source, self.target = create_topic(cluster.bootstrap), create_topic(cluster.bootstrap)
        self.rows = CommittedReader(cluster.bootstrap, self.target)
        self.fed = 0
        self.feed()
        source = {"kafka": {"topic": self.source}, "format": "json", "schema": "key STRING, number BIGINT"}
        sink = {"kafka": {"topic": self.target}, "format": "json"}
        mode = "update" if reader == "count_numbers" else "append"
        settings = {"spark.sql.shuffle.partitions": 2}
        streams = {
            "parse": {"sources": {"source": source}, "settings": settings, **trigger},
            "stream": {"sources": {}, "sink": sink, "output_mode": mode, "settings": settings, **trigger},
        }
        vertices = [
            {"id": "parse", "python": "stream_tasks:parse", "stream": streams["parse"], "parallelism": edge.pop("writers", 1)},
            {"id": "stream", "python": f"stream_tasks:{reader}", "stream": streams["stream"], "parallelism": parallelism},
        ]
        if gate is not None or reader == "copy":
            streams["stream"]["sources"] = {"source": source}
        if gate is not None:
            streams["parse"]["sources"] = {"source": source | {"kafka": {"topic": create_topic(cluster.bootstrap)}}}
            vertices[1]["parameters"] = {"gate": str(gate)}
        self.vertices, self.edges = vertices, [{"from": "parse", "to": "stream", "schema": SCHEMA, **edge}]
        if between:
            stream = {"settings": settings, **trigger}
            self.vertices.insert(1, {"id": "between", "sql": between, "parameters": {"first": 0}, "stream": stream})
            to_between = self.edges[0] | {"to": "between"}
            self.edges = [to_between, self.edges[0] | {"from": "between", "name": "parse"}]
        self.submit()

    def submit(self, **more: Any) -> None:
        graph = self.cluster.graph(
            *self.vertices,
            edges=self.edges,
            restart_strategy={"type": "fixed-delay", "attempts": 30, "delay_ms": 100},
            code_archives=[self.cluster.user_code(Path(stream_tasks.__file__))],
            checkpointing={"interval_ms": 500},
            **more,
        )
        self.job_id = self.cluster.submit(graph)
        self.topic = edge_topic(self.cluster.cluster_id, self.job_id, "stream.parse")

    def feed(self, count: int = 300) -> None:
        feed(self.cluster.bootstrap, self.source, ({"key": f"k{n % 7}", "number": n} for n in range(self.fed, self.fed + count)))
        self.fed += count

    def read_more(self) -> None:
        """Wait until the job has written more than it had."""
        seen = len(self.rows.rows)
        self.rows.read_until(lambda rows: len(rows) > seen + 200, SPARK_TIMEOUT_S)

    def check(self) -> None:
        """Every record that was fed is there, and once."""
        self.rows.read_until(lambda rows: len({row["number"] for row in rows}) >= self.fed, SPARK_TIMEOUT_S)
        self.rows.read(1.0)
        assert sorted(row["number"] for row in self.rows.rows) == list(range(self.fed))

    def kill(self, vertex_id: str) -> None:
        self.cluster.wait_for_task_process(self.job_id, vertex_id).send_signal(signal.SIGKILL)

    def starts_of(self, *vertex_ids: str) -> int:
        return sum(isinstance(e, StreamStarted) and e.vertex_id in vertex_ids for e in self.cluster.events_of(self.job_id))

    def wait_for_starts(self, count: int) -> None:
        """Wait until the queries have started so often in all, each subtask's as often as the others: one may have failed meanwhile."""
        subtasks: int = sum(vertex.get("parallelism", 1) for vertex in self.vertices if vertex["id"] in ("parse", "stream"))

        def started() -> bool:
            events = [e for e in self.cluster.events_of(self.job_id) if isinstance(e, StreamStarted) and e.vertex_id in ("parse", "stream")]
            starts = Counter((e.vertex_id, e.subtask_index) for e in events)
            return len(starts) == subtasks and min(starts.values()) * subtasks >= count

        wait_until(started, f"{count} queries started", SPARK_TIMEOUT_S)

    def take(self, take: Callable[[], CompletedCheckpoint]) -> CompletedCheckpoint:
        """Take a savepoint; one that a stream declines, or is not ready for, because it has just failed, is taken again when it runs."""
        deadline = time.monotonic() + SPARK_TIMEOUT_S
        while True:
            try:
                return take()
            except CheckpointFailed:
                if time.monotonic() > deadline:
                    raise
            except RequestRefused as error:
                if error.code != NOT_READY or time.monotonic() > deadline:
                    raise
            time.sleep(1)
            self.cluster.wait_for_running(self.job_id)

    def has_topic(self) -> bool:
        return self.topic in AdminClient({"bootstrap.servers": self.cluster.bootstrap}).list_topics(timeout=60).topics

    def cancel(self) -> None:
        with DispatcherGateway(self.cluster.access) as gateway:
            gateway.cancel_job(self.job_id)
        self.cluster.wait_for_status(self.job_id, JobStatus.CANCELED)
        self.rows.close()


def test_rows_go_over_an_edge_once_each_whatever_is_killed_and_its_topic_goes_with_the_job(cluster: RunningCluster) -> None:
    work = Work(cluster, "count_numbers", {"ship": "hash", "keys": ["key"], "partitions": 3}, parallelism=2)
    work.check()
    for vertex_id in ("parse", "stream"):
        starts = work.starts_of(vertex_id)
        work.feed()
        time.sleep(0.2)
        work.kill(vertex_id)
        work.feed()
        work.check()
        wait_until(lambda: work.starts_of(vertex_id) > starts, "the next attempt", SPARK_TIMEOUT_S)  # noqa: B023 - called now
    cluster.kill("master-1")
    work.feed()
    work.check()
    assert {row["count"] for row in work.rows.rows} == {1}

    connection = AdminConnection(cluster.access.kafka)
    partitions = [(work.topic, number) for number in range(3)]
    wait_until(lambda: any(m.low > 0 for m in connection.read_watermarks(partitions).values()), "the topic is trimmed", SPARK_TIMEOUT_S)
    work.cancel()
    wait_until(lambda: not work.has_topic(), "the topic is removed")


@pytest.mark.parametrize("ship", [pytest.param("forward", marks=pytest.mark.soak("eventflink.streams")), "broadcast"])
def test_each_subtask_reads_what_is_shipped_to_it(cluster: RunningCluster, ship: str) -> None:
    chain = {"chain": False} if ship == "forward" else {}
    work = Work(cluster, "copy_parsed", {"ship": ship, "writers": 2, **chain}, parallelism=2)
    copies = 2 if ship == "broadcast" else 1
    work.rows.read_until(lambda rows: len(rows) >= copies * work.fed, SPARK_TIMEOUT_S)
    work.rows.read(1.0)
    read_by = defaultdict(list)
    for row in work.rows.rows:
        read_by[row["number"]].append(row["subtask"])
    assert {len(subtasks) for subtasks in read_by.values()} == {copies}
    assert {index for subtasks in read_by.values() for index in subtasks} == {0, 1}
    work.cancel()


def test_streams_that_a_forward_edge_joins_are_one_query_without_a_topic(cluster: RunningCluster) -> None:
    work = Work(cluster, "copy_parsed", {"ship": "forward"}, between="SELECT * FROM parse WHERE number >= :first")
    work.check()
    work.kill("parse")
    work.feed()
    work.check()
    with DispatcherGateway(cluster.access) as gateway:
        assert [vertex.name for vertex in gateway.request_job(work.job_id).vertices] == ["parse -> between -> stream"]
    assert not work.has_topic()
    work.cancel()


def test_a_bounded_stream_reads_an_edge_when_all_was_written(cluster: RunningCluster) -> None:
    work = Work(cluster, "count_numbers", {"writers": 2}, trigger={"available_now": True})
    cluster.wait_for_status(work.job_id, JobStatus.FINISHED, SPARK_TIMEOUT_S)
    work.check()
    wait_until(lambda: not work.has_topic(), "the topic is removed")


@pytest.mark.soak("eventflink.streams", "eventflink.taskexecutor")
@pytest.mark.rule("S3")
def test_jobs_one_after_the_other_begin_in_savepoints_and_what_was_on_the_edge_counts_once(cluster: RunningCluster, tmp_path: Path) -> None:
    """Each is stopped in the middle of its batches, wherever that is, the first after a savepoint with which it went on."""
    work = Work(cluster, "count_numbers", {"ship": "hash", "keys": ["key"], "partitions": 3}, parallelism=2)
    ended = threading.Event()

    def feed_on() -> None:
        while not ended.wait(0.2):
            work.feed(40)

    feeding = threading.Thread(target=feed_on)
    feeding.start()
    try:
        for drain in (False, True):
            work.wait_for_starts(3)
            work.read_more()
            with DispatcherGateway(cluster.access) as gateway:
                if not drain:
                    work.take(partial(gateway.trigger_savepoint, work.job_id, str(tmp_path)))
                    work.wait_for_starts(6)
                    work.read_more()
                taken = work.take(partial(gateway.stop_with_savepoint, work.job_id, str(tmp_path), drain=drain))
            cluster.wait_for_status(work.job_id, JobStatus.FINISHED)
            wait_until(lambda: not work.has_topic(), "the topic is removed")
            work.submit(restore={"savepoint": taken.savepoint_path})
    finally:
        ended.set()
        feeding.join()
    work.check()
    assert {row["count"] for row in work.rows.rows} == {1}
    work.cancel()


@pytest.mark.rule("S3")
def test_a_reader_whose_next_batch_is_far_away_reads_the_rest_when_its_job_stops(cluster: RunningCluster, tmp_path: Path) -> None:
    work = Work(cluster, "count_numbers", {}, trigger={"processing_time_ms": 3_600_000})
    work.wait_for_starts(2)
    work.feed()
    with DispatcherGateway(cluster.access) as gateway:
        work.take(partial(gateway.stop_with_savepoint, work.job_id, str(tmp_path), drain=True))
    cluster.wait_for_status(work.job_id, JobStatus.FINISHED)
    work.check()
    work.rows.close()


def test_rows_on_an_edge_that_no_query_reads_keep_no_savepoint_waiting(cluster: RunningCluster, tmp_path: Path) -> None:
    work = Work(cluster, "copy", {})
    work.check()
    connection = AdminConnection(cluster.access.kafka)
    wait_until(lambda: connection.read_watermarks([(work.topic, 0)])[work.topic, 0].high > 0, "rows are on the edge", SPARK_TIMEOUT_S)
    with DispatcherGateway(cluster.access) as gateway:
        work.take(partial(gateway.stop_with_savepoint, work.job_id, str(tmp_path)))
    cluster.wait_for_status(work.job_id, JobStatus.FINISHED)
    work.rows.close()


def test_a_reader_whose_first_batch_is_cut_begins_it_again_in_the_savepoint(cluster: RunningCluster, tmp_path: Path) -> None:
    """Nothing is on the edge, whose topic is another one in the next job."""
    gate = tmp_path / "gate"
    work = Work(cluster, "copy_both_when_let", {}, gate=gate)
    work.wait_for_starts(2)
    [location] = [Path(e.location) for e in cluster.events_of(work.job_id) if isinstance(e, StreamStarted) and e.vertex_id == "stream"]
    wait_until(lambda: last_begun_batch(Place(str(location))) == 0, "the first batch", SPARK_TIMEOUT_S)
    with DispatcherGateway(cluster.access) as gateway:
        taken = work.take(partial(gateway.stop_with_savepoint, work.job_id, str(tmp_path)))
    cluster.wait_for_status(work.job_id, JobStatus.FINISHED)
    gate.touch()
    work.submit(restore={"savepoint": taken.savepoint_path})
    work.check()
    work.cancel()


TYPED = [
    ("flag", "BOOLEAN", "true"),
    ("small", "TINYINT", "-1"),
    ("large", "BIGINT", "9223372036854775807"),
    ("ratio", "DOUBLE", "0.1"),
    ("price", "DECIMAL(20,4)", "1234567890123456.0001BD"),
    ("name", "STRING", "'a \"b\" ä'"),
    ("raw", "BINARY", "X'00FF'"),
    ("day", "DATE", "DATE'2026-02-28'"),
    ("at", "TIMESTAMP", "TIMESTAMP'2026-02-28 01:02:03.123456'"),
    ("early", "TIMESTAMP", "TIMESTAMP'1880-02-28 01:02:03.000001'"),
    ("local", "TIMESTAMP_NTZ", "TIMESTAMP_NTZ'2026-02-28 01:02:03.000001'"),
    ("numbers", "ARRAY<INT>", "array(1, null)"),
    ("names", "MAP<STRING, BIGINT>", "map('k', 1)"),
    ("`a b`", "STRUCT<x: DOUBLE, at: TIMESTAMP>", "named_struct('x', double('NaN'), 'at', TIMESTAMP'1999-12-31 23:59:59.999999')"),
    ("nothing", "STRING", "null"),
]


def test_every_type_comes_over_an_edge_as_it_was(spark: str) -> None:
    session = open_session(session_address(spark, str(uuid.uuid4())), None)
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        source = StreamSource(
            name="rows",
            connector=StreamConnector.EDGE,
            location="s.rows",
            row_schema=", ".join(f"{name} {kind}" for name, kind, _ in TYPED),
            options_json=json.dumps({"writer": "w", "writers": 1, "ship": "HASH", "keys": ["a b"], "partitions": 1}),
        )
        [edge] = edges_of([source], "c", "j").values()
        rows = session.sql(f"SELECT {', '.join(f'CAST({value} AS {kind}) AS {name}' for name, kind, value in TYPED)}")
        back = rows_of(records_of(rows, edge), edge)
        assert [str(row) for row in back.collect()] == [str(row) for row in rows.collect()]
        assert back.schema.simpleString() == rows.schema.simpleString()
        with pytest.raises(StreamUnusable, match="column 'flag' is string, and declared as boolean; column not found: 'small'"):
            records_of(session.sql("SELECT 'x' AS flag"), edge)
    finally:
        session.stop()
