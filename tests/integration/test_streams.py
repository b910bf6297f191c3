"""Streams on a real cluster: they run, survive what is killed, and what they commit counts each record once."""

import json
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.events.log_events import CheckpointAcknowledged, CheckpointCompleted, SparkEnded, StreamStarted
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.jobs.result import read_result
from eventflink.model.job_graph import StreamDefinition, StreamSink, StreamSource
from eventflink.model.places import Place
from eventflink.model.statuses import JobStatus, StreamConnector, StreamTrigger
from eventflink.model.stream_progress import StreamProgress
from eventflink.streams.client_watch import SESSION_TIMEOUT_S
from eventflink.streams.progress import last_committed_batch
from eventflink.streams.query import start_query
from eventflink.taskexecutor.task_spark import open_session, session_address
from tests.support import stream_tasks
from tests.support.running_cluster import EAGER, RunningCluster, descendants, running_cluster, wait_until
from tests.support.spark_work import sink_workers
from tests.support.topics import CommittedReader, create_topic, feed

pytestmark = pytest.mark.slow(first=True)

CODE = Path(stream_tasks.__file__)
SPARK_TIMEOUT_S = 360


@pytest.fixture(scope="module")
def checkpoint_of_nobody(spark: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint directory of a stream whose client is gone: the first test begins it, since it goes on for a minute."""
    directory = tmp_path_factory.mktemp("nobody")
    client = (
        "import sys, os\n"
        "from pyspark.sql import SparkSession\n"
        "rows = SparkSession.builder.remote(sys.argv[1]).create().readStream.format('rate').load()\n"
        "writer = rows.writeStream.option('checkpointLocation', sys.argv[2]).format('noop')\n"
        "writer.trigger(processingTime='2 seconds').start()\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", client, session_address(spark, str(uuid.uuid4())), str(directory)], check=True, timeout=120)
    return directory


@pytest.fixture(scope="module")
def cluster(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path_factory.mktemp("streams"), **EAGER) as running:
        running.start_master("master-1")
        running.start_standby("master-2")
        running.start_task_executor()
        yield running


def stream_of(source: str, sink: dict[str, Any], *, schema: str = "key STRING, number BIGINT", **more: Any) -> dict[str, Any]:
    return {"sources": {"source": {"kafka": {"topic": source}, "format": "json", "schema": schema}}, "sink": sink, **more}


def submit(cluster: RunningCluster, function: str, stream: dict[str, Any], *, restarts: int = 0, **more: Any) -> str:
    vertex = {"id": "stream", "python": f"stream_tasks:{function}", "stream": stream}
    strategy = {"type": "fixed-delay", "attempts": restarts, "delay_ms": 100} if restarts else {"type": "none"}
    graph = cluster.graph(vertex, restart_strategy=strategy, code_archives=[cluster.user_code(CODE)], **more)
    return cluster.submit(graph)


def records(first: int, last: int) -> list[dict[str, Any]]:
    return [{"key": f"k{number % 7}", "number": number} for number in range(first, last)]


@pytest.mark.usefixtures("checkpoint_of_nobody")
def test_a_bounded_stream_copies_a_topic_and_finishes(cluster: RunningCluster) -> None:
    source, target = create_topic(cluster.bootstrap), create_topic(cluster.bootstrap)
    feed(cluster.bootstrap, source, records(0, 1_000))
    sink = {"kafka": {"topic": target, "key": ["key"]}, "format": "json"}
    job_id = submit(cluster, "copy", stream_of(source, sink, trigger={"available_now": True}))
    cluster.wait_for_status(job_id, JobStatus.FINISHED, SPARK_TIMEOUT_S)
    reader = CommittedReader(cluster.bootstrap, target)
    rows = reader.read_until(lambda rows: len(rows) >= 1_000)
    assert sorted(row["number"] for row in rows) == list(range(1_000))
    reader.close()
    mark = mark_of(cluster, job_id, target)
    assert (mark.offset, bool(re.fullmatch(r"1\.1 [0-9a-f]{16}", mark.metadata))) == (1, True), (
        "the next batch; who wrote, and what was read"
    )


def test_a_stream_and_what_is_chained_to_it_are_given_the_parameters_of_the_job(cluster: RunningCluster) -> None:
    source, target = create_topic(cluster.bootstrap), create_topic(cluster.bootstrap)
    feed(cluster.bootstrap, source, records(0, 100))
    sink, trigger = {"kafka": {"topic": target}, "format": "json"}, {"available_now": True}
    reads = {**stream_of(source, sink, trigger=trigger)}
    del reads["sink"]
    graph = cluster.graph(
        {"id": "first", "sql": "SELECT key, number FROM source WHERE number < :below", "stream": reads},
        {"id": "second", "python": "stream_tasks:from_the_least", "stream": {"trigger": trigger}},
        {"id": "third", "sql": "SELECT number, :day AS day FROM second", "stream": {"trigger": trigger, "sink": sink}},
        edges=[
            {"from": one, "to": other, "ship": "forward", "schema": "key STRING, number BIGINT", "chain": True}
            for one, other in (("first", "second"), ("second", "third"))
        ],
        parameters={
            "below": {"type": "integer", "value": 12},
            "least": {"type": "integer", "value": 10},
            "day": {"type": "date", "value": "2026-11-25"},
        },
        code_archives=[cluster.user_code(CODE)],
    )
    assert len(graph.vertices) == 1
    job_id = cluster.submit(graph)
    cluster.wait_for_status(job_id, JobStatus.FINISHED, SPARK_TIMEOUT_S)
    reader = CommittedReader(cluster.bootstrap, target)
    rows = reader.read_until(lambda rows: len(rows) >= 2)
    reader.close()
    assert sorted(rows, key=lambda row: row["number"]) == [{"number": number, "day": "2026-11-25"} for number in (10, 11)]


def mark_of(cluster: RunningCluster, job_id: str, topic: str) -> Any:
    """Return what the sink of a job's only subtask has committed beside its batches."""
    group = f"{cluster.cluster_id}/{job_id}/stream/0"
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    [mark] = consumer.committed([TopicPartition(topic, 0)], timeout=60)
    consumer.close()
    return mark


@pytest.fixture
def running_copy(cluster: RunningCluster) -> Iterator["RunningCopy"]:
    copy = RunningCopy(cluster)
    yield copy
    copy.end()


class RunningCopy:
    """A stream that copies a topic, fed and read by the test."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.cluster = cluster
        self.source, self.target = create_topic(cluster.bootstrap), create_topic(cluster.bootstrap)
        self.reader = CommittedReader(cluster.bootstrap, self.target)
        self.fed = 0
        self.feed()
        sink = {"kafka": {"topic": self.target, "key": ["key"]}, "format": "json"}
        self.job_id = submit(cluster, "copy", stream_of(self.source, sink), restarts=20)
        self.wait_until_copied()

    def feed(self) -> None:
        feed(self.cluster.bootstrap, self.source, records(self.fed, self.fed + 300))
        self.fed += 300

    def wait_until_copied(self) -> None:
        self.reader.read_until(lambda rows: len({row["number"] for row in rows}) >= self.fed, SPARK_TIMEOUT_S)

    def check(self) -> None:
        """Everything that was fed is committed once, also after what may come late."""
        self.wait_until_copied()
        self.reader.read(1.0)
        assert sorted(row["number"] for row in self.reader.rows) == list(range(self.fed))

    def attempt(self) -> int:
        [subtask] = self.cluster.job(self.job_id).execution_graph.subtasks()
        return subtask.attempt

    def task_process(self) -> psutil.Process:
        return self.cluster.wait_for_task_process(self.job_id)

    def end(self) -> None:
        cancel(self.cluster, self.job_id)
        self.reader.close()


def cancel(cluster: RunningCluster, job_id: str) -> None:
    with DispatcherGateway(cluster.access) as gateway:
        gateway.cancel_job(job_id)
    cluster.wait_for_status(job_id, JobStatus.CANCELED)


def started(cluster: RunningCluster, job_id: str, attempt: int) -> bool:
    """Tell whether the query of an attempt has started."""
    return any(isinstance(event, StreamStarted) and event.attempt == attempt for event in cluster.events_of(job_id))


@pytest.mark.rule("S1")
def test_a_task_that_is_killed_in_the_middle_is_followed_and_nothing_is_lost_or_repeated(running_copy: RunningCopy) -> None:
    attempt = running_copy.attempt()
    running_copy.feed()
    time.sleep(0.2)
    running_copy.task_process().send_signal(signal.SIGKILL)
    running_copy.feed()
    running_copy.wait_until_copied()  # The query of the one that was killed may have done it.
    wait_until(lambda: running_copy.attempt() > attempt, "the next attempt")
    running_copy.check()


def the_sink_worker(cluster: RunningCluster) -> psutil.Process:
    """Return the only process that writes a sink: that of an earlier test may end late."""

    def find() -> psutil.Process | None:
        found = sink_workers(cluster.spark_processes())
        return found[0] if len(found) == 1 else None

    worker: psutil.Process = wait_until(find, "one process writes the sink")
    return worker


@pytest.mark.rule("S1")
def test_the_process_that_writes_the_sink_is_killed(running_copy: RunningCopy, cluster: RunningCluster) -> None:
    running_copy.feed()
    time.sleep(0.1)
    sink = the_sink_worker(cluster)
    sink.kill()
    running_copy.feed()
    running_copy.check()


@pytest.mark.rule("S1")
def test_spark_is_killed_and_a_topic_and_a_directory_have_each_record_once(
    running_copy: RunningCopy, cluster: RunningCluster, tmp_path: Path
) -> None:
    sink = {"files": {"path": str(tmp_path / "out")}, "format": "parquet"}
    job_id = submit(cluster, "copy", stream_of(running_copy.source, sink), restarts=20)
    wait_until(lambda: numbers_in(tmp_path / "out") == list(range(300)), "the first batch", SPARK_TIMEOUT_S)
    cluster.wait_for_task_process(job_id).kill()
    running_copy.feed()
    wait_until(lambda: started(cluster, job_id, 2), "the next attempt", SPARK_TIMEOUT_S)
    running_copy.feed()
    for process in cluster.spark_processes("SparkConnectServer"):
        process.kill()
    running_copy.feed()
    running_copy.check()
    wait_until(lambda: numbers_in(tmp_path / "out") == list(range(running_copy.fed)), "all records", SPARK_TIMEOUT_S)
    cancel(cluster, job_id)
    told = [event for _, decision in cluster.decisions() for event in decision.events if isinstance(event, SparkEnded)]
    assert {event.reason for event in told} == {"it was ended from outside, by signal 9 (Killed)"}
    sql = f"SELECT count(*) AS rows, count(DISTINCT number) AS numbers FROM parquet.`{tmp_path / 'out'}`"
    counting = cluster.submit(cluster.graph({"id": "count", "sql": sql}))
    [subtask] = cluster.wait_for_status(counting, JobStatus.FINISHED, SPARK_TIMEOUT_S).execution_graph.subtasks()
    assert read_result(subtask.outputs, 10).to_pylist() == [{"rows": running_copy.fed, "numbers": running_copy.fed}]


def numbers_in(directory: Path) -> list[int]:
    """Return the numbers in the files of a sink, those of each batch that its log has: the latest of the log may be a summary of all."""
    logged: dict[str, None] = {}
    for log in (directory / "_spark_metadata").glob("[0-9]*"):
        logged |= dict.fromkeys(json.loads(line)["path"] for line in log.read_text().splitlines()[1:])
    files = [Path(urlsplit(path).path) for path in logged]
    return sorted(number for file in files for number in pq.read_table(file, columns=["number"])["number"].to_pylist())


def test_the_leader_is_killed_and_no_query_notices(running_copy: RunningCopy, cluster: RunningCluster) -> None:
    attempt = running_copy.attempt()
    cluster.kill("master-1")
    for _ in range(5):
        running_copy.feed()
        time.sleep(0.3)
    running_copy.check()
    assert running_copy.attempt() == attempt
    cluster.start_standby("master-1")
    running_copy.check()


@pytest.mark.rule("S1")
def test_the_task_executor_is_killed(running_copy: RunningCopy, cluster: RunningCluster) -> None:
    running_copy.feed()
    cluster.kill("tm")
    running_copy.feed()
    cluster.start_task_executor()
    running_copy.check()


def test_checkpoints_go_on_under_the_next_leader_and_a_new_attempt_goes_on_where_they_say(cluster: RunningCluster) -> None:
    source, target = create_topic(cluster.bootstrap), create_topic(cluster.bootstrap, 1)
    feed(cluster.bootstrap, source, records(0, 500))
    sink = {"kafka": {"topic": target}, "format": "json"}
    job_id = submit(cluster, "count_by_key", stream_of(source, sink, output_mode="update"), restarts=3, checkpointing={"interval_ms": 300})

    def completed() -> list[int]:
        return [e.checkpoint_id for e in cluster.events_of(job_id) if isinstance(e, CheckpointCompleted)]

    def acknowledged() -> list[CheckpointAcknowledged]:
        return [e for e in cluster.events_of(job_id) if isinstance(e, CheckpointAcknowledged)]

    wait_until(lambda: acknowledged() and acknowledged()[-1].progress.state_rows == 7, "the state of seven keys", SPARK_TIMEOUT_S)
    progress = acknowledged()[-1].progress
    [position] = progress.sources
    assert sum(json.loads(position.end_offset)[source].values()) == 500
    assert (position.name, position.records_behind, progress.input_rows, progress.rows_read) == ("source", 0, 500, 500)
    before = completed()
    cluster.kill("master-1")
    wait_until(lambda: len(completed()) > len(before) + 3, "checkpoints under the next leader")
    numbers = completed()
    assert sorted(set(numbers)) == numbers
    cluster.start_standby("master-1")
    cluster.wait_for_task_process(job_id).kill()
    wait_until(lambda: started(cluster, job_id, 2), "the next attempt")
    first, second = [e for e in cluster.events_of(job_id) if isinstance(e, StreamStarted)]
    assert (first.restored_batch_id, second.restored_batch_id) == (-1, progress.batch_id)
    assert (first.query_id == second.query_id, first.run_id == second.run_id) == (True, False)
    feed(cluster.bootstrap, source, records(500, 507))
    reader = CommittedReader(cluster.bootstrap, target)
    counts = {f"k{key}": len([n for n in range(507) if n % 7 == key]) for key in range(7)}
    reader.read_until(lambda rows: {row["key"]: row["count"] for row in rows} == counts)
    for key in counts:
        seen = [row["count"] for row in reader.rows if row["key"] == key]
        assert seen == sorted(set(seen))
    reader.close()
    cancel(cluster, job_id)


def test_a_stream_that_is_behind_tells_by_how_much_it_is_in_each_partition(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = create_topic(cluster.bootstrap), create_topic(cluster.bootstrap)
    feed(cluster.bootstrap, source, records(0, 500))
    stream = stream_of(source, {"kafka": {"topic": target}, "format": "json"}, trigger={"processing_time_ms": 3_600_000})
    stream["sources"]["source"]["kafka"]["max_offsets_per_trigger"] = 100
    job_id = submit(cluster, "copy", stream, checkpointing={"interval_ms": 300})

    def told() -> list[StreamProgress]:
        answers = [e.progress for e in cluster.events_of(job_id) if isinstance(e, CheckpointAcknowledged)]
        return [progress for progress in answers if progress.sources]

    wait_until(told, "the first batch, which the second follows in an hour", SPARK_TIMEOUT_S)
    progress = told()[0]
    [position] = progress.sources
    behind = {number: end - json.loads(position.end_offset)[source][str(number)] for number, end in end_offsets(cluster, source).items()}
    assert {lag.partition: lag.records_behind for lag in progress.partition_lags} == {n: lag for n, lag in behind.items() if lag}
    assert {(lag.source, lag.topic) for lag in progress.partition_lags} == {("source", source)}
    assert (position.records_behind, progress.input_rows) == (sum(behind.values()), 500 - sum(behind.values()))
    assert progress.partitions_behind == len(progress.partition_lags) > 0
    assert run(["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id, "checkpoints", job_id]) == ExitCode.OK
    shown = capsys.readouterr().out
    assert [lag for lag in progress.partition_lags if not re.search(rf"{source}/{lag.partition}: {lag.records_behind}\b", shown)] == []
    cancel(cluster, job_id)


def end_offsets(cluster: RunningCluster, topic: str) -> dict[int, int]:
    """Return the end of each of the two partitions of a topic."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": uuid.uuid4().hex})
    ends = {number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=60)[1] for number in range(2)}
    consumer.close()
    return ends


@pytest.mark.rule("S2")
def test_a_task_executor_that_was_frozen_and_comes_back_writes_nothing_twice(running_copy: RunningCopy, cluster: RunningCluster) -> None:
    """As one that was cut off from Kafka: it is declared lost, and another runs the next attempt; its query goes on until then."""
    cluster.start_task_executor("tm-2")
    attempt, spark = running_copy.attempt(), cluster.spark_processes()
    tree = [psutil.Process(cluster.processes["tm"].pid), *descendants(cluster.processes["tm"])]
    frozen = [process for process in tree if process not in spark]
    for process in frozen:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    running_copy.feed()
    cluster.wait_for(lambda fold: "tm" not in fold.master.resource_manager.task_managers, "it is declared lost")
    running_copy.feed()
    running_copy.wait_until_copied()
    wait_until(lambda: running_copy.attempt() > attempt, "the next attempt")
    for process in frozen:
        with suppress(psutil.NoSuchProcess):
            process.resume()
    running_copy.feed()
    cluster.wait_for(lambda fold: "tm" in fold.master.resource_manager.task_managers, "it is back")
    running_copy.check()
    assert running_copy.attempt() > attempt


def test_a_query_begins_where_an_older_one_was_cut_while_it_noted_its_first_batch(spark: str, tmp_path: Path) -> None:
    location = tmp_path / "checkpoint"
    for notes in ("offsets", "commits"):
        (location / notes).mkdir(parents=True)
        (location / notes / ".0.6f2a.tmp").touch()
    session = open_session(session_address(spark, str(uuid.uuid4())), None)
    source = StreamSource(name="source", connector=StreamConnector.RATE, location="10")
    sink = StreamSink(connector=StreamConnector.FILES, location=str(tmp_path / "out"))
    stream = StreamDefinition(sources=(source,), sinks=(sink,), trigger=StreamTrigger.PROCESSING_TIME)
    try:
        rows = session.readStream.format("rate").load().writeStream.format("parquet").option("path", sink.location)
        query = start_query(rows, stream, Place(str(location)), "cut")
        wait_until(lambda: query.has_ended or last_committed_batch(Place(str(location))) >= 0, "the first batch")
        assert not query.has_ended
        query.stop()
    finally:
        session.stop()


def test_the_outputs_of_one_stream_have_each_record_once_whatever_is_killed(cluster: RunningCluster) -> None:
    source, *targets = [create_topic(cluster.bootstrap) for _ in range(3)]
    readers = [CommittedReader(cluster.bootstrap, target) for target in targets]
    feed(cluster.bootstrap, source, records(0, 300))
    sinks = {name: {"kafka": {"topic": target}, "format": "json"} for name, target in zip(("even", "odd"), targets, strict=True)}
    stream = {key: value for key, value in stream_of(source, {}).items() if key != "sink"}
    job_id = submit(cluster, "split", {**stream, "sinks": sinks}, restarts=20)

    def check(fed: int) -> None:
        for remainder, reader in enumerate(readers):
            wanted = list(range(remainder, fed, 2))
            reader.read_until(lambda rows: len({row["number"] for row in rows}) >= len(wanted), SPARK_TIMEOUT_S)  # noqa: B023 - called now
            reader.read(1.0)
            assert sorted(row["number"] for row in reader.rows) == wanted

    check(300)
    feed(cluster.bootstrap, source, records(300, 600))
    time.sleep(0.1)
    sink = the_sink_worker(cluster)
    sink.kill()
    check(600)
    wait_until(lambda: started(cluster, job_id, 2), "the next attempt", SPARK_TIMEOUT_S)  # The batch may have been committed before.
    feed(cluster.bootstrap, source, records(600, 900))
    time.sleep(0.2)
    cluster.wait_for_task_process(job_id).kill()
    check(900)
    assert [set(reader.rows[0]) for reader in readers] == [{"key", "number"}, {"number"}]
    cancel(cluster, job_id)
    for reader in readers:
        reader.close()


@pytest.mark.rule("P15")
def test_a_stream_whose_client_is_gone_ends_by_itself(checkpoint_of_nobody: Path) -> None:
    """The last of its file: the minute that it takes has passed."""

    def batches() -> int:
        commits = checkpoint_of_nobody / "commits"
        return len(list(commits.iterdir())) if commits.is_dir() else 0

    wait_until(lambda: batches() > 3, "it goes on without its client")

    def stands_still() -> bool:
        before = batches()
        time.sleep(5)
        return batches() == before

    wait_until(stands_still, "its session is closed", 3 * SESSION_TIMEOUT_S)
