"""The sink that remembers its batches, before a real PostgreSQL: whatever is killed, however late an attempt is, a batch counts once."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg.rows import dict_row, namedtuple_row
from pyspark.sql import DataFrame, SparkSession

from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.model.statuses import JobStatus
from eventflink.streams.database_sink import DatabaseSink, DatabaseSinkSettings
from eventflink.streams.failures import CheckpointLost, SinkFenced, StreamUnusable
from eventflink.streams.savepoint import read_savepoint
from eventflink.taskexecutor.task_spark import session_address
from tests.support import database_tasks
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until
from tests.support.spark_sessions import own_session
from tests.support.spark_work import sink_workers
from tests.support.topics import create_topic, feed

pytestmark = pytest.mark.slow

TIMEOUT_S = 360


USER = "postgres"
"""Whom root becomes: PostgreSQL refuses to run as root."""


def find_binaries() -> Path | None:
    """Return where `initdb` and `postgres` are; Debian leaves them off the path."""
    found = [*sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")), shutil.which("initdb")]
    return next((Path(initdb).parent for initdb in found if initdb is not None), None)


@contextmanager
def postgresql(binaries: Path) -> Iterator[str]:
    """Run a server; yield what a client connects with."""
    directory = Path(tempfile.mkdtemp(prefix="eventflink-postgresql-"))
    as_user: dict[str, Any] = {"cwd": directory, "stdout": subprocess.DEVNULL}
    if os.geteuid() == 0:
        shutil.chown(directory, USER, USER)
        as_user |= {"user": USER, "group": USER, "extra_groups": []}
    data, conninfo = directory / "data", f"host={directory} user={USER} dbname={USER}"
    subprocess.run([binaries / "initdb", "-D", data, "-U", USER, "-A", "trust", "--no-sync"], check=True, **as_user)
    with subprocess.Popen([binaries / "postgres", "-D", data, "-k", directory, "-h", ""], **as_user) as server:
        try:
            wait_until(lambda: server.poll() is not None or _answers(conninfo), "PostgreSQL")
            yield conninfo
        finally:
            server.send_signal(signal.SIGQUIT)  # It waits for no client.
    shutil.rmtree(directory)


def _answers(conninfo: str) -> bool:
    try:
        psycopg.connect(conninfo).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """What connects to a PostgreSQL of this module's own."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (Debian's package is postgresql)")
    with postgresql(binaries) as conninfo:
        yield conninfo


@pytest.fixture(scope="module")
def session(spark: str) -> Iterator[SparkSession]:
    with own_session(spark) as session:
        yield session


class Subtask:
    """The subtask of a stream: its batches, and the sinks of its attempts, which append to a table."""

    def __init__(self, database: str, session: SparkSession) -> None:
        self.database = database
        self._session = session
        self.writer_id = uuid.uuid4().hex
        self.table = f"table_{self.writer_id}"
        with psycopg.connect(database) as connection:
            connection.execute(f"CREATE TABLE {self.table} (id BIGINT)")

    def sink(
        self, attempt: int, write: Callable[[Any, DataFrame], Any] | None = None, query: int = 0, first_batch_id: int = 0, **options: Any
    ) -> DatabaseSink:
        sink = DatabaseSink(lambda: psycopg.connect(self.database, **options), write or self.append)
        return sink.of(DatabaseSinkSettings(self.writer_id, attempt, query, "", first_batch_id))

    def append(self, connection: Any, batch: DataFrame) -> None:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {self.table} VALUES (%s)", [(row.id,) for row in batch.collect()])

    def write(self, sink: DatabaseSink, batch_id: int) -> None:
        """Write ten rows of the batch's own."""
        sink(self._session.range(10 * batch_id, 10 * batch_id + 10), batch_id)

    def committed(self) -> list[int]:
        with psycopg.connect(self.database) as connection:
            return [number for (number,) in connection.execute(f"SELECT id FROM {self.table} ORDER BY id")]


@pytest.fixture
def subtask(database: str, session: SparkSession) -> Subtask:
    return Subtask(database, session)


@pytest.mark.rule("S1")
def test_a_batch_that_the_next_attempt_repeats_is_not_written_to_the_database_again(subtask: Subtask) -> None:
    first = subtask.sink(1)
    subtask.write(first, 0)
    subtask.write(first, 1)
    second = subtask.sink(2)
    subtask.write(second, 1)
    subtask.write(second, 2)
    assert subtask.committed() == list(range(30))


DIES_WHEN_IT_COMMITS = """
import os, signal, sys
import psycopg
from pyspark.sql import SparkSession
from eventflink.streams.database_sink import DatabaseSink, DatabaseSinkSettings

moment, remote, batch_id, database, writer_id, table = sys.argv[1:]
written = []

class Dies(psycopg.Connection):
    def commit(self):
        if not written or moment == "after":
            super().commit()
        if written:
            os.kill(os.getpid(), signal.SIGKILL)

def write(connection, batch):
    with connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table} VALUES (%s)", [(row.id,) for row in batch.collect()])
    written.append(True)

sink = DatabaseSink(lambda: Dies.connect(database), write).of(DatabaseSinkSettings(writer_id, 1, 0, ""))
first = 10 * int(batch_id)
sink(SparkSession.builder.remote(remote).create().range(first, first + 10), int(batch_id))
"""


@pytest.mark.rule("S1")
@pytest.mark.parametrize("batch_id", [0, 1])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_process_that_is_killed_when_it_commits_to_the_database_has_written_its_batch_once_or_not(
    subtask: Subtask, spark: str, moment: str, batch_id: int
) -> None:
    for earlier in range(batch_id):
        subtask.write(subtask.sink(1), earlier)
    remote = session_address(spark, str(uuid.uuid4()))
    arguments = [moment, remote, str(batch_id), subtask.database, subtask.writer_id, subtask.table]
    killed = subprocess.run([sys.executable, "-c", DIES_WHEN_IT_COMMITS, *arguments], check=False, timeout=TIMEOUT_S)
    assert killed.returncode == -signal.SIGKILL
    assert subtask.committed() == list(range(10 * batch_id + (10 if moment == "after" else 0)))
    second = subtask.sink(2)
    subtask.write(second, batch_id)
    subtask.write(second, batch_id + 1)
    assert subtask.committed() == list(range(10 * batch_id + 20))


@pytest.mark.rule("S2")
def test_what_an_older_attempt_has_written_is_rolled_back_once_a_newer_one_has_begun(subtask: Subtask) -> None:
    sent, go_on = threading.Event(), threading.Event()
    ended: list[str] = []

    def append_and_wait(connection: Any, batch: DataFrame) -> None:
        subtask.append(connection, batch)
        sent.set()
        assert go_on.wait(60)

    def write() -> None:
        try:
            subtask.write(subtask.sink(1, append_and_wait), 0)
        except SinkFenced as error:
            ended.append(str(error))

    thread = threading.Thread(target=write)
    thread.start()
    assert sent.wait(60)
    second = subtask.sink(2)
    subtask.write(second, 0)
    go_on.set()
    thread.join(60)
    assert ended == [f"a newer query of {subtask.writer_id} writes to the database: batch 0 was not written"]
    subtask.write(second, 1)
    assert subtask.committed() == list(range(20))


@pytest.mark.rule("S3")
def test_what_a_stopped_query_has_sent_is_rolled_back_once_its_attempt_settles_and_the_next_query_goes_on(subtask: Subtask) -> None:
    sent, go_on = threading.Event(), threading.Event()
    ended: list[str] = []

    def append_and_wait(connection: Any, batch: DataFrame) -> None:
        subtask.append(connection, batch)
        sent.set()
        assert go_on.wait(60)

    def write() -> None:
        try:
            subtask.write(subtask.sink(1, append_and_wait, query=2), 1)
        except SinkFenced as error:
            ended.append(str(error))

    subtask.write(subtask.sink(1, query=1), 0)
    thread = threading.Thread(target=write)
    thread.start()
    assert sent.wait(60)
    assert subtask.sink(1, query=3).settle(1) == 1
    go_on.set()
    thread.join(60)
    assert ended == [f"a newer query of {subtask.writer_id} writes to the database: batch 1 was not written"]
    subtask.write(subtask.sink(1, query=4), 1)
    assert subtask.sink(1, query=5).settle(2) == 2
    assert subtask.committed() == list(range(20))


def test_a_query_that_was_stopped_before_its_first_batch_begins_none_once_its_attempt_has_settled(subtask: Subtask) -> None:
    assert subtask.sink(1, query=2).settle(0) == 0
    with pytest.raises(SinkFenced, match=r"query 2 of attempt 1 of .* has written to the database: this is query 1 of attempt 1"):
        subtask.write(subtask.sink(1, query=1), 0)
    assert subtask.committed() == []


def test_the_next_job_leaves_out_the_batches_that_its_savepoint_says_are_there(subtask: Subtask) -> None:
    restored = subtask.sink(1, query=1, first_batch_id=3)
    subtask.write(restored, 2)
    subtask.write(restored, 3)
    subtask.write(subtask.sink(2, query=1, first_batch_id=3), 3)
    assert subtask.committed() == list(range(30, 40))
    with pytest.raises(CheckpointLost, match="batch 2 is to be written to the database, and batch 3 was written before"):
        subtask.sink(2, query=2, first_batch_id=3).settle(2)
    assert subtask.sink(2, query=2, first_batch_id=3).settle(4) == 4


@pytest.mark.rule("S2")
def test_an_older_attempt_that_comes_late_to_the_database_ends_and_leaves_the_newer_one_alone(subtask: Subtask) -> None:
    second = subtask.sink(2)
    subtask.write(second, 0)
    with pytest.raises(SinkFenced, match=r"query 0 of attempt 2 of .* has written to the database: this is query 0 of attempt 1"):
        subtask.write(subtask.sink(1), 1)
    subtask.write(second, 1)
    assert subtask.committed() == list(range(20))


def test_what_could_lose_or_double_a_batch_is_refused(subtask: Subtask) -> None:
    first = subtask.sink(1)
    for batch_id in range(3):
        subtask.write(first, batch_id)
    with pytest.raises(CheckpointLost, match=r"batch 0 is to be written to the database, and batch 2 was written before"):
        subtask.write(subtask.sink(2), 0)
    with pytest.raises(CheckpointLost, match=r"batch 4 is to be written to the database, and batch 3 was not: the database, or its table"):
        subtask.write(subtask.sink(3), 4)
    with pytest.raises(StreamUnusable, match="commits by itself"):
        subtask.write(subtask.sink(4, autocommit=True), 3)
    with pytest.raises(StreamUnusable, match="invalid DatabaseSink: it has no settings"):
        subtask.write(DatabaseSink(lambda: psycopg.connect(subtask.database), subtask.append), 3)

    def append_and_commit(connection: Any, batch: DataFrame) -> None:
        subtask.append(connection, batch)
        connection.commit()

    with pytest.raises(StreamUnusable, match="ends the transaction"):
        subtask.write(subtask.sink(5, append_and_commit), 3)
    assert subtask.committed() == list(range(30))
    subtask.write(subtask.sink(6), 3)
    assert subtask.committed() == list(range(40))


@pytest.mark.parametrize("row_factory", [dict_row, namedtuple_row])
def test_the_rows_of_the_connection_may_be_of_another_kind(subtask: Subtask, row_factory: Any) -> None:
    subtask.write(subtask.sink(1, row_factory=row_factory), 0)
    subtask.write(subtask.sink(2, row_factory=row_factory), 0)
    assert subtask.committed() == list(range(10))


def test_a_user_who_may_make_no_table_writes_with_the_marks_that_are_there(subtask: Subtask) -> None:
    subtask.write(subtask.sink(1), 0)
    user = f"user_{subtask.writer_id}"
    with psycopg.connect(subtask.database) as connection:
        connection.execute(f"CREATE ROLE {user} LOGIN")
        connection.execute(f"GRANT SELECT, INSERT, UPDATE ON stream_marks, {subtask.table} TO {user}")
    restricted = subtask.sink(2, user=user)
    subtask.write(restricted, 0)
    subtask.write(restricted, 1)
    assert subtask.committed() == list(range(20))


@pytest.fixture
def cluster(bootstrap: str, spark: str, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningCluster]:
    monkeypatch.setenv("LEDGER_CONNINFO", database)
    with running_cluster(bootstrap, tmp_path, **{"spark.remote": spark, "taskmanager.task.environment": "LEDGER_CONNINFO"}) as running:
        running.start_master()
        running.start_task_executor()
        yield running


@pytest.mark.rule("S1")
def test_a_stream_into_a_database_counts_each_record_once_though_its_sinks_process_is_killed(
    cluster: RunningCluster, database: str
) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE ledger (key TEXT, number BIGINT)")
    topic = create_topic(cluster.bootstrap)
    stream = {
        "sources": {"source": {"kafka": {"topic": topic}, "format": "json", "schema": "key STRING, number BIGINT"}},
        "sink": {"python": "database_tasks:ledger"},
    }
    strategy = {"type": "fixed-delay", "attempts": 20, "delay_ms": 100}
    archive = cluster.user_code(Path(database_tasks.__file__))
    vertex = {"id": "stream", "python": "database_tasks:copy", "stream": stream}
    job_id = cluster.submit(cluster.graph(vertex, restart_strategy=strategy, code_archives=[archive]))

    def numbers() -> list[int]:
        with psycopg.connect(database) as connection:
            return [number for (number,) in connection.execute("SELECT number FROM ledger ORDER BY number")]

    fed = 0
    for _ in range(3):
        if fed:
            [worker] = sink_workers(psutil.Process().children(recursive=True))
            worker.kill()
            worker.wait(TIMEOUT_S)
        feed(cluster.bootstrap, topic, [{"key": f"k{number % 7}", "number": number} for number in range(fed, fed + 300)])
        fed += 300
        wait_until(lambda: len(set(numbers())) >= fed, "all records are in the database", TIMEOUT_S)  # noqa: B023 - called here
    time.sleep(1.0)
    assert numbers() == list(range(fed))
    [subtask] = cluster.job(job_id).execution_graph.subtasks()
    assert subtask.attempt == 3
    with DispatcherGateway(cluster.access) as gateway:
        gateway.cancel_job(job_id)
    cluster.wait_for_status(job_id, JobStatus.CANCELED)


@pytest.mark.rule("S3")
def test_what_is_fed_all_the_time_is_in_the_database_once_though_three_jobs_stop_in_the_middle(
    cluster: RunningCluster, database: str, tmp_path: Path
) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("DROP TABLE IF EXISTS ledger")
        connection.execute("CREATE TABLE ledger (key TEXT, number BIGINT)")
    topic, fed, ended = create_topic(cluster.bootstrap), 0, threading.Event()
    archive = cluster.user_code(Path(database_tasks.__file__))
    path: str | None = None

    def feed_on() -> None:
        nonlocal fed
        while not ended.wait(0.2):
            feed(cluster.bootstrap, topic, [{"key": f"k{number % 7}", "number": number} for number in range(fed, fed + 40)])
            fed += 40

    def submit() -> str:
        stream = {
            "sources": {"source": {"kafka": {"topic": topic}, "format": "json", "schema": "key STRING, number BIGINT"}},
            "sink": {"python": "database_tasks:ledger"},
        }
        restore = {} if path is None else {"restore": {"savepoint": path}}
        vertex = {"id": "stream", "python": "database_tasks:copy", "stream": stream}
        return cluster.submit(cluster.graph(vertex, code_archives=[archive], **restore))

    def numbers() -> list[int]:
        with psycopg.connect(database) as connection:
            return [number for (number,) in connection.execute("SELECT number FROM ledger ORDER BY number")]

    feeding = threading.Thread(target=feed_on)
    feeding.start()
    try:
        for _ in range(3):
            job_id, seen = submit(), len(numbers())
            wait_until(lambda: len(numbers()) > seen + 300, "it writes", TIMEOUT_S)  # noqa: B023 - called here
            with DispatcherGateway(cluster.access) as gateway:
                path = gateway.stop_with_savepoint(job_id, str(tmp_path)).savepoint_path
            cluster.wait_for_status(job_id, JobStatus.FINISHED)
            [part] = read_savepoint(path).parts
            with psycopg.connect(database) as connection:
                marks = connection.execute("SELECT next_batch_id FROM stream_marks WHERE writer_id LIKE %s", (f"%/{job_id}/%",)).fetchall()
            assert marks == [(part.next_sink_batch_id,)]
    finally:
        ended.set()
        feeding.join()
    job_id = submit()
    wait_until(lambda: len(set(numbers())) >= fed, "all records are in the database", TIMEOUT_S)
    time.sleep(1.0)
    assert numbers() == list(range(fed))
    with DispatcherGateway(cluster.access) as gateway:
        gateway.cancel_job(job_id)
    cluster.wait_for_status(job_id, JobStatus.CANCELED)
