"""Streams into tables of Delta Lake: whatever is killed, however late an attempt is, a batch is in the table once.

The cluster is that of batch jobs into tables as well, of Delta and of Iceberg.
"""

import contextlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.jobs.result import read_result
from eventflink.model.iceberg_catalogs import IcebergCatalog
from eventflink.model.places import Place
from eventflink.model.statuses import JobStatus
from eventflink.streams.delta_sink import DeltaSink, DeltaSinkSettings
from eventflink.streams.delta_table import TableMark, make_table, read_mark
from eventflink.streams.failures import CheckpointLost, SinkFenced, StreamUnusable, TableUnusable
from eventflink.streams.merging import MergeBy
from eventflink.streams.progress import begun_batch_place
from eventflink.streams.savepoint import read_savepoint
from eventflink.taskexecutor.task_spark import session_address
from tests.support import iceberg_tables, stream_tasks, table_tasks
from tests.support.delta_tables import numbers_of
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until
from tests.support.spark_sessions import own_session
from tests.support.spark_work import sink_workers
from tests.support.topics import create_topic, feed

pytestmark = pytest.mark.slow

TIMEOUT_S = 360


@pytest.fixture(scope="module")
def session(delta_spark: str) -> Iterator[SparkSession]:
    with own_session(delta_spark) as session:
        yield session


class Subtask:
    """The subtask of a stream: its batches, and the sinks of its attempts, which append to a table."""

    def __init__(self, session: SparkSession, directory: Path) -> None:
        self.session = session
        self.table = directory / "table"
        self.location = directory / "checkpoint"
        self.writer_id = f"cluster/{uuid.uuid4().hex}/stream/0"
        make_table(self.rows(0), str(self.table), [])

    def sink(self, attempt: int, first_batch_id: int = 0) -> DeltaSink:
        return DeltaSink(DeltaSinkSettings(str(self.table), self.writer_id, attempt, str(self.location), first_batch_id))

    def rows(self, batch_id: int) -> DataFrame:
        """Return ten rows of the batch's own."""
        return self.session.range(10 * batch_id, 10 * batch_id + 10, 1, 1).withColumnRenamed("id", "number")

    def slow_rows(self, batch_id: int, begun: Path, go_on: Path) -> DataFrame:
        """Return the same, which say that they are computed, and come when a file is there."""

        def wait(number: int) -> int:
            begun.touch()
            deadline_s = time.monotonic() + 120
            while not go_on.exists() and time.monotonic() < deadline_s:
                time.sleep(0.02)
            return number

        return self.rows(batch_id).select(f.udf(wait, "bigint")("number").alias("number"))

    def write(self, sink: DeltaSink, batch_id: int) -> None:
        sink(self.rows(batch_id), batch_id)

    def committed(self) -> list[int]:
        return numbers_of(self.table)

    def mark(self) -> TableMark | None:
        return read_mark(self.session, str(self.table), self.writer_id)

    def note(self, batch_id: int, offsets: str) -> None:
        """Note in the checkpoint directory what a batch reads."""
        path = begun_batch_place(Place(str(self.location)), batch_id).path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"v1\n{{}}\n{offsets}\n")


@pytest.fixture
def subtask(session: SparkSession, tmp_path: Path) -> Subtask:
    return Subtask(session, tmp_path)


@pytest.fixture
def checkpointed(subtask: Subtask) -> Subtask:
    """The same, and each commit makes a checkpoint of the table's log, which says less of it than the commit."""
    subtask.session.sql(f"ALTER TABLE delta.`{subtask.table}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')").collect()
    return subtask


def test_what_was_taken_back_is_known_though_the_log_has_a_checkpoint_of_it(checkpointed: Subtask) -> None:
    first = checkpointed.sink(1)
    checkpointed.write(first, 0)
    assert checkpointed.sink(1).settle(checkpointed.session, 0) == 1
    assert checkpointed.sink(1).settle(checkpointed.session, 1) == 1
    mark = checkpointed.mark()
    assert mark is not None
    assert mark.said["taken_back"]
    with pytest.raises(SinkFenced, match="batch 1 was not written"):
        checkpointed.write(first, 1)
    checkpointed.write(checkpointed.sink(2), 1)
    assert checkpointed.committed() == list(range(20))


@pytest.mark.rule("S1")
def test_a_batch_that_the_next_attempt_repeats_is_not_in_the_table_twice(subtask: Subtask) -> None:
    first = subtask.sink(1)
    subtask.write(first, 0)
    subtask.write(first, 1)
    second = subtask.sink(2)
    subtask.write(second, 1)
    subtask.write(second, 2)
    assert subtask.committed() == list(range(30))


DIES = """
import os, signal, sys, threading, time
from pathlib import Path
from pyspark.sql import SparkSession, functions as f
from eventflink.streams.delta_sink import DeltaSink, DeltaSinkSettings

moment, remote, table, writer_id, location, begun, go_on = sys.argv[1:]

class Dies(DeltaSink):
    def _commit(self, *arguments, **more):
        text = super()._commit(*arguments, **more)
        os.kill(os.getpid(), signal.SIGKILL)

def wait(number):
    Path(begun).touch()
    while not Path(go_on).exists():
        time.sleep(0.02)
    return number

def die():
    while not Path(begun).exists():
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)

spark = SparkSession.builder.remote(remote).create()
rows = spark.range(0, 10, 1, 1).withColumnRenamed("id", "number")
if moment == "in the middle":
    rows = rows.select(f.udf(wait, "bigint")("number").alias("number"))
    threading.Thread(target=die).start()
Dies(DeltaSinkSettings(table, writer_id, 1, location))(rows, 0)
"""


@pytest.mark.rule("S1")
@pytest.mark.parametrize("moment", ["in the middle", "after"])
def test_a_process_that_is_killed_when_it_commits_to_a_table_has_written_its_batch_once_or_not(
    subtask: Subtask, delta_spark: str, tmp_path: Path, moment: str
) -> None:
    remote, go_on = session_address(delta_spark, str(uuid.uuid4())), tmp_path / "go-on"
    arguments = [moment, remote, str(subtask.table), subtask.writer_id, str(subtask.location), str(tmp_path / "begun"), str(go_on)]
    killed = subprocess.run([sys.executable, "-c", DIES, *arguments], check=False, timeout=TIMEOUT_S)
    assert killed.returncode == -signal.SIGKILL
    assert subtask.committed() == (list(range(10)) if moment == "after" else [])
    second = subtask.sink(2)
    subtask.write(second, 0)
    go_on.touch()  # What the one that was killed has begun goes on in Spark.
    subtask.write(second, 1)
    time.sleep(2.0)
    assert subtask.committed() == list(range(20))


def write_slowly(subtask: Subtask, sink: DeltaSink, batch_id: int, directory: Path) -> tuple[threading.Thread, list[str]]:
    """Begin to write a batch that comes when the file `go-on` is there; return what waits for its end, and how it ended."""
    ended: list[str] = []
    begun = directory / "begun"

    def write() -> None:
        try:
            sink(subtask.slow_rows(batch_id, begun, directory / "go-on"), batch_id)
            ended.append("written")
        except Exception as error:  # noqa: BLE001 - the test looks at it
            ended.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=write)
    thread.start()
    wait_until(begun.exists, "the batch is computed", TIMEOUT_S)
    return thread, ended


@pytest.mark.rule("S1")
def test_of_two_attempts_that_write_a_batch_at_the_same_time_one_does(subtask: Subtask, tmp_path: Path) -> None:
    thread, ended = write_slowly(subtask, subtask.sink(1), 0, tmp_path)
    second = subtask.sink(2)
    subtask.write(second, 0)
    (tmp_path / "go-on").touch()
    thread.join(TIMEOUT_S)
    [how] = ended
    assert "DELTA_CONCURRENT_TRANSACTION" in how
    subtask.write(second, 1)
    assert subtask.committed() == list(range(20))


@pytest.mark.rule("S3")
def test_what_a_stopped_query_has_begun_is_left_out_once_its_attempt_settles_and_the_next_query_writes_it(
    subtask: Subtask, tmp_path: Path
) -> None:
    first = subtask.sink(1)
    subtask.write(first, 0)
    thread, ended = write_slowly(subtask, first, 1, tmp_path)
    assert subtask.sink(1).settle(subtask.session, 1) == 1
    (tmp_path / "go-on").touch()
    thread.join(TIMEOUT_S)
    [how] = ended
    assert "DELTA_CONCURRENT_TRANSACTION" in how
    assert subtask.committed() == list(range(10))
    third = subtask.sink(1)
    subtask.write(third, 1)
    assert third.settle(subtask.session, 2) == 2
    assert subtask.sink(1).settle(subtask.session, 2) == 2
    subtask.write(subtask.sink(2), 2)
    assert subtask.committed() == list(range(30))


@pytest.mark.rule("S2")
def test_a_query_that_comes_late_to_a_batch_that_was_taken_back_ends_and_does_not_note_it_as_done(subtask: Subtask) -> None:
    late = subtask.sink(1)
    subtask.write(late, 0)
    assert subtask.sink(2).settle(subtask.session, 1) == 1
    with pytest.raises(SinkFenced, match=r"a newer query of .* writes to the table .*: batch 1 was not written"):
        subtask.write(late, 1)
    subtask.write(subtask.sink(2), 1)
    with pytest.raises(SinkFenced, match="batch 1 was not written"):
        subtask.write(late, 1)
    assert subtask.committed() == list(range(20))


def test_a_batch_that_is_there_before_its_query_is_settled_is_told(subtask: Subtask) -> None:
    subtask.write(subtask.sink(1), 0)
    assert subtask.sink(1).settle(subtask.session, 0) == 1
    assert subtask.committed() == list(range(10))


def test_the_next_job_leaves_out_the_batches_that_its_savepoint_says_are_in_the_table(subtask: Subtask) -> None:
    restored = subtask.sink(1, first_batch_id=3)
    subtask.write(restored, 2)
    subtask.write(restored, 3)
    subtask.write(subtask.sink(2, first_batch_id=3), 3)
    assert subtask.committed() == list(range(30, 40))


@pytest.mark.rule("S1")
def test_a_checkpoint_directory_that_does_not_fit_the_table_is_refused(subtask: Subtask) -> None:
    first = subtask.sink(1)
    for batch_id in range(3):
        subtask.note(batch_id, f'{{"orders": {batch_id}}}')
        subtask.write(first, batch_id)
    with pytest.raises(CheckpointLost, match=r"batch 0 is to be written to the table .*, and batch 2 was written before: "):
        subtask.write(subtask.sink(2), 0)
    with pytest.raises(CheckpointLost, match=r"batch 4 is to be written to the table .*, and batch 3 is not there: "):
        subtask.write(subtask.sink(2), 4)
    subtask.note(2, '{"orders": 99}')
    for batch_id in (2, 3):
        with pytest.raises(CheckpointLost, match=r"batch 2 was written to the table .* before, and had read up to other offsets: "):
            subtask.write(subtask.sink(2), batch_id)
    subtask.note(2, '{"orders": 2}')
    subtask.write(subtask.sink(2), 3)
    assert subtask.committed() == list(range(40))


def test_a_mark_is_found_in_a_checkpoint_of_the_tables_log_when_its_commit_is_gone(subtask: Subtask) -> None:
    subtask.write(subtask.sink(1), 0)
    for batch_id in range(10):  # Delta makes a checkpoint of every tenth commit.
        other = DeltaSink(DeltaSinkSettings(str(subtask.table), "another", 1, str(subtask.location)))
        other(subtask.rows(100 + batch_id), 0) if not batch_id else subtask.rows(100 + batch_id).write.format("delta").mode("append").save(
            str(subtask.table)
        )
    log = subtask.table / "_delta_log"
    [checkpoint] = log.glob("*.checkpoint.parquet")
    for commit in log.glob("*.json"):
        if commit.stem < checkpoint.name[:20]:
            commit.unlink()
    assert subtask.mark() == TableMark(0)
    second = subtask.sink(2)
    subtask.write(second, 0)
    subtask.write(second, 1)
    assert subtask.committed() == [*range(20), *range(1_000, 1_100)]


def test_subtasks_that_make_a_table_at_the_same_time_make_one(session: SparkSession, tmp_path: Path) -> None:
    table, ended = tmp_path / "table", []

    def make(day: int) -> None:
        rows = session.range(1).selectExpr("id AS number", f"{day} AS day", "'x' AS note")
        make_table(rows, str(table), ["day"])
        ended.append(day)

    threads = [threading.Thread(target=make, args=(day,)) for day in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert sorted(ended) == [0, 1, 2]
    assert DeltaTable(str(table)).metadata().partition_columns == ["day"]
    lacking = session.sql("SELECT 7L AS number, 2 AS day")
    make_table(lacking, str(table), [])
    DeltaSink(DeltaSinkSettings(str(table), "writer", 1, str(tmp_path)))(lacking, 0)
    assert DeltaTable(str(table)).to_pyarrow_table().to_pylist() == [{"number": 7, "day": 2, "note": None}]
    make_table(lacking, str(table), ["DAY"])
    with pytest.raises(StreamUnusable, match="the table is partitioned by 'day', and the rows do not have it"):
        make_table(session.sql("SELECT 1L AS number"), str(table), [])
    with pytest.raises(StreamUnusable, match="partition_by names number, and the table has day"):
        make_table(session.sql("SELECT 1L AS number, 2 AS day"), str(table), ["number"])
    with pytest.raises(StreamUnusable, match="the table has no column 'more'; column 'number' is string, and bigint in the table"):
        make_table(session.sql("SELECT 'x' AS number, 2 AS day, 3 AS more"), str(table), [])


def test_a_spark_without_deltas_tables_says_which_setting_brings_them(spark: str, tmp_path: Path) -> None:
    says = r"the Spark that runs this task has none: set 'spark\.tables: delta' where TaskExecutors"
    with own_session(spark) as session, pytest.raises(StreamUnusable, match=says):
        make_table(session.range(1), str(tmp_path / "table"), [])


def test_a_table_that_is_removed_under_a_stream_is_not_made_again_without_its_partitions(session: SparkSession, tmp_path: Path) -> None:
    table, rows = tmp_path / "table", session.sql("SELECT 7L AS number, 2 AS day")
    make_table(rows, str(table), ["day"])
    sink = DeltaSink(DeltaSinkSettings(str(table), "writer", 1, str(tmp_path)))
    sink(rows, 0)
    shutil.rmtree(table)
    with pytest.raises(PySparkException):
        sink(rows, 1)
    assert not table.exists()


def test_keys_that_spark_cannot_compare_are_refused(session: SparkSession) -> None:
    rows = session.sql("SELECT map('a', 1) AS m, named_struct('m', map('a', 1)) AS s, 1 AS at")
    for column in ("m", "S"):
        with pytest.raises(TableUnusable, match=f"column '{column}' is .*, by which Spark cannot compare rows"):
            MergeBy((column,)).rows_of_table(rows)


# -- merging -----------------------------------------------------------------------------------------------------------


class Merging(Subtask):
    """The subtask of a stream whose batches are merged: prices of articles, each with the time of its change."""

    def __init__(self, session: SparkSession, directory: Path, latest_by: str | None = None, delete_when: str | None = None) -> None:
        super().__init__(session, directory)
        self.table = directory / "prices"
        self.by = MergeBy(("article",), latest_by, delete_when)
        make_table(self.prices(), str(self.table), [])

    def sink(self, attempt: int, first_batch_id: int = 0) -> DeltaSink:
        of_writer = (self.writer_id, attempt, str(self.location), first_batch_id)
        return DeltaSink(DeltaSinkSettings(str(self.table), *of_writer, self.by))

    def prices(self, *rows: tuple[str | None, int, int | None]) -> DataFrame:
        return self.session.createDataFrame(list(rows), "article STRING, price INT, at INT")

    def slow_rows(self, batch_id: int, begun: Path, go_on: Path) -> DataFrame:
        """Return a price that comes when a file is there."""

        def wait(price: int) -> int:
            begun.touch()
            deadline_s = time.monotonic() + 120
            while not go_on.exists() and time.monotonic() < deadline_s:
                time.sleep(0.02)
            return price

        return self.prices(("pen", 99, batch_id)).withColumn("price", f.udf(wait, "int", useArrow=False)("price"))

    def there(self) -> set[tuple[str | None, int, int | None]]:
        return {tuple(row) for row in self.session.read.format("delta").load(str(self.table)).collect()}

    def commits(self) -> list[str]:
        return [row.operation for row in self.session.sql(f"DESCRIBE HISTORY delta.`{self.table}`").collect()][::-1]


@pytest.mark.rule("S1")
def test_a_row_replaces_the_one_with_its_keys_and_each_batch_is_merged_once(session: SparkSession, tmp_path: Path) -> None:
    merging = Merging(session, tmp_path)
    first = merging.sink(1)
    first(merging.prices(("pen", 1, 1), (None, 7, 1)), 0)
    first(merging.prices(("pen", 2, 1), ("ink", 5, 1), (None, 8, 1)), 1)
    assert merging.there() == {("pen", 2, 1), ("ink", 5, 1), (None, 8, 1)}
    second = merging.sink(2)
    second(merging.prices(("pen", 99, 1)), 1)  # What another attempt has committed is not merged again, whatever it computes.
    second(merging.prices(), 2)
    second(merging.prices(("pen", 3, 1)), 3)
    assert merging.there() == {("pen", 3, 1), ("ink", 5, 1), (None, 8, 1)}
    assert merging.commits()[1:] == ["MERGE"] * 4
    mark = merging.mark()
    assert mark is not None
    assert mark.said["batch"] == 3


def test_the_latest_row_of_a_batch_counts_and_none_that_is_older_than_that_of_the_table(session: SparkSession, tmp_path: Path) -> None:
    merging = Merging(session, tmp_path, latest_by="at")
    sink = merging.sink(1)
    sink(merging.prices(("pen", 3, 30), ("pen", 1, 10), ("ink", 5, None), ("ink", 6, 1)), 0)
    assert merging.there() == {("pen", 3, 30), ("ink", 6, 1)}
    sink(merging.prices(("pen", 2, 20), ("ink", 4, None), ("nib", 9, None)), 1)
    assert merging.there() == {("pen", 3, 30), ("ink", 6, 1), ("nib", 9, None)}
    sink(merging.prices(("pen", 4, 30), ("nib", 8, 0)), 2)
    assert merging.there() == {("pen", 4, 30), ("ink", 6, 1), ("nib", 8, 0)}


def test_a_batch_with_two_rows_of_the_same_keys_of_which_none_is_the_latest_is_refused(session: SparkSession, tmp_path: Path) -> None:
    merging = Merging(session, tmp_path)
    sink = merging.sink(1)
    sink(merging.prices(("ink", 5, 1)), 0)
    with pytest.raises(
        PySparkException, match=r"has several rows with the same keys \(article=pen\): name in 'latest_by' which one counts"
    ):
        sink(merging.prices(("pen", 1, 1), ("pen", 2, 2)), 1)
    assert merging.there() == {("ink", 5, 1)}


def test_a_row_that_says_so_deletes_the_one_with_its_keys_unless_that_is_later(session: SparkSession, tmp_path: Path) -> None:
    merging = Merging(session, tmp_path, latest_by="at", delete_when="GONE")
    sink = merging.sink(1)

    def changes(*rows: tuple[str | None, int | None, int | None, bool | None]) -> DataFrame:
        return session.createDataFrame(list(rows), "article STRING, price INT, at INT, gone BOOLEAN")

    sink(changes(("pen", 1, 10, False), ("ink", 5, 10, None), (None, 7, 10, False), ("nib", 9, 10, True)), 0)
    assert merging.there() == {("pen", 1, 10), ("ink", 5, 10), (None, 7, 10)}
    sink(changes(("pen", None, 20, True), ("ink", None, 9, True), (None, None, 20, False), (None, None, 21, True), ("new", 1, 1, False)), 1)
    assert merging.there() == {("ink", 5, 10), ("new", 1, 1)}
    with pytest.raises(TableUnusable, match=r"delete_when of the sink names column 'gone', which is int: it has to be boolean"):
        merging.by.rows_of_table(session.sql("SELECT 'pen' AS article, 1 AS at, 1 AS gone"))
    with pytest.raises(TableUnusable, match=r"delete_when of the sink names column 'GONE', which the rows do not have: article, at"):
        merging.by.rows_of_table(session.sql("SELECT 'pen' AS article, 1 AS at"))


@pytest.mark.rule("S3")
def test_what_a_stopped_query_that_merges_has_begun_is_left_out(session: SparkSession, tmp_path: Path) -> None:
    merging = Merging(session, tmp_path)
    old = merging.sink(1)
    old(merging.prices(("pen", 1, 1)), 0)
    assert merging.sink(2).settle(session, 1) == 1
    with pytest.raises(SinkFenced):
        old(merging.prices(("pen", 99, 1)), 1)
    merging.sink(2, 1)(merging.prices(("pen", 2, 1)), 1)
    assert merging.there() == {("pen", 2, 1)}


@pytest.mark.rule("S3")
def test_a_merge_that_is_late_is_done_under_no_other_mark_though_the_next_query_merges_in_its_session(
    session: SparkSession, tmp_path: Path
) -> None:
    merging = Merging(session, tmp_path)
    first = merging.sink(1)
    first(merging.prices(("pen", 1, 0)), 0)
    thread, ended = write_slowly(merging, first, 1, tmp_path)
    assert merging.sink(1).settle(session, 1) == 1
    following = merging.sink(1, 1)
    following(merging.prices(("pen", 2, 1)), 1)
    following(merging.prices(("pen", 3, 2)), 2)
    (tmp_path / "go-on").touch()
    thread.join(TIMEOUT_S)
    assert ended != ["written"]
    assert merging.there() == {("pen", 3, 2)}
    following(merging.prices(("ink", 5, 3)), 3)
    assert merging.there() == {("pen", 3, 2), ("ink", 5, 3)}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> IcebergCatalog:
    return iceberg_tables.catalog_in(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def cluster(bootstrap: str, tmp_path_factory: pytest.TempPathFactory, catalog: IcebergCatalog) -> Iterator[RunningCluster]:
    """A cluster whose tasks write tables of both formats."""
    settings = {"spark.tables": "delta", **iceberg_tables.configured(catalog)}
    with running_cluster(bootstrap, tmp_path_factory.mktemp("tables"), **settings) as running:
        running.start_master()
        running.start_task_executor(slots=3)
        yield running


def submit(cluster: RunningCluster, topic: str, table: Path, *, parallelism: int = 1, **more: Any) -> str:
    stream = {
        "sources": {"source": {"kafka": {"topic": topic}, "format": "json", "schema": "key STRING, number BIGINT"}},
        "sink": {"table": {"path": str(table), "partition_by": ["key"]}, "format": "delta"},
    }
    vertex = {"id": "stream", "python": "stream_tasks:copy", "stream": stream, "parallelism": parallelism}
    strategy = {"type": "fixed-delay", "attempts": 50, "delay_ms": 100}
    archive = cluster.user_code(Path(stream_tasks.__file__))
    return cluster.submit(cluster.graph(vertex, restart_strategy=strategy, code_archives=[archive], **more))


def records(first: int, last: int) -> list[dict[str, Any]]:
    return [{"key": f"k{number % 3}", "number": number} for number in range(first, last)]


def wait_for_numbers(table: Path, count: int, what: str) -> None:
    """Wait until so many are in the table, whose reading costs more than all other waiting."""
    wait_until(lambda: len(set(numbers_of(table))) >= count, what, TIMEOUT_S, interval_s=0.5)


def cancel(cluster: RunningCluster, job_id: str) -> None:
    with DispatcherGateway(cluster.access) as gateway:
        gateway.cancel_job(job_id)
    cluster.wait_for_status(job_id, JobStatus.CANCELED)


@pytest.mark.rule("S1")
def test_a_table_has_each_record_once_though_the_task_its_sink_and_spark_are_killed(cluster: RunningCluster, tmp_path: Path) -> None:
    topic, table, fed = create_topic(cluster.bootstrap, partitions=2), tmp_path / "table", 0

    def feed_on() -> None:
        nonlocal fed
        feed(cluster.bootstrap, topic, records(fed, fed + 300))
        fed += 300

    feed_on()
    job_id = submit(cluster, topic, table, parallelism=2)
    wait_for_numbers(table, fed, "the first records")
    for victim in ("sink", "spark", "task"):
        feed_on()
        time.sleep(0.5)
        match victim:
            case "task":
                cluster.wait_for_task_process(job_id).kill()
            case "sink":
                wait_until(lambda: sink_workers(cluster.spark_processes()), "the sink's process", TIMEOUT_S)[0].kill()
            case "spark":
                for process in cluster.spark_processes("SparkConnectServer"):
                    process.kill()
        feed_on()
        wait_for_numbers(table, fed, f"all records after the {victim} was killed")
    time.sleep(2.0)
    assert numbers_of(table) == list(range(fed))
    assert sum(subtask.attempt - 1 for subtask in cluster.job(job_id).execution_graph.subtasks()) >= 3
    assert DeltaTable(str(table)).metadata().partition_columns == ["key"]
    cancel(cluster, job_id)
    sql = f"SELECT count(*) AS rows, count(DISTINCT number) AS numbers FROM delta.`{table}`"
    counting = cluster.submit(cluster.graph({"id": "count", "sql": sql}))
    [counted] = cluster.wait_for_status(counting, JobStatus.FINISHED, TIMEOUT_S).execution_graph.subtasks()
    assert read_result(counted.outputs, 10).to_pylist() == [{"rows": fed, "numbers": fed}]


def test_a_table_is_compacted_and_loses_its_old_files_by_two_statements(cluster: RunningCluster, tmp_path: Path) -> None:
    table = tmp_path / "table"
    for number in range(2):
        write_deltalake(str(table), pa.table({"number": [number]}), mode="append")
    sql = f"OPTIMIZE delta.`{table}`; VACUUM delta.`{table}` RETAIN 168 HOURS"
    job_id = cluster.submit(cluster.graph({"id": "upkeep", "sql": sql}))
    cluster.wait_for_status(job_id, JobStatus.FINISHED, TIMEOUT_S)
    assert (len(DeltaTable(str(table)).file_uris()), numbers_of(table)) == (1, [0, 1])


@pytest.mark.soak("eventflink.streams", "eventflink.taskexecutor")
@pytest.mark.rule("S1")
def test_a_table_has_the_newest_total_of_each_key_though_the_task_and_spark_are_killed(cluster: RunningCluster, tmp_path: Path) -> None:
    topic, table, fed = create_topic(cluster.bootstrap), tmp_path / "totals", 0

    def feed_on() -> None:
        nonlocal fed
        feed(cluster.bootstrap, topic, records(fed, fed + 300))
        fed += 300

    def totals() -> list[dict[str, Any]]:
        expected = [(f"k{key}", numbers) for key in range(3) if (numbers := [n for n in range(fed) if n % 3 == key])]
        return [{"key": key, "rows": len(numbers), "total": sum(numbers)} for key, numbers in expected]

    def there() -> list[dict[str, Any]]:
        with contextlib.suppress(TableNotFoundError):
            return sorted(DeltaTable(str(table)).to_pyarrow_table().to_pylist(), key=lambda row: str(row["key"]))
        return []

    feed_on()
    stream = {
        "sources": {"source": {"kafka": {"topic": topic}, "format": "json", "schema": "key STRING, number BIGINT"}},
        "sink": {"table": {"path": str(table), "mode": "merge", "keys": ["key"]}, "format": "delta"},
        "output_mode": "update",
        "settings": {"spark.sql.shuffle.partitions": 2},
    }
    sql = "SELECT key, count(*) AS rows, sum(number) AS total FROM source GROUP BY key"
    strategy = {"type": "fixed-delay", "attempts": 50, "delay_ms": 100}
    job_id = cluster.submit(cluster.graph({"id": "stream", "sql": sql, "stream": stream}, restart_strategy=strategy))
    wait_until(lambda: there() == totals(), "the first totals", TIMEOUT_S, interval_s=0.5)
    for victim in ("task", "spark"):
        feed_on()
        time.sleep(0.5)
        for process in [cluster.wait_for_task_process(job_id)] if victim == "task" else cluster.spark_processes("SparkConnectServer"):
            process.kill()
        feed_on()
        wait_until(lambda: there() == totals(), f"all totals after the {victim} was killed", TIMEOUT_S, interval_s=0.5)
    cancel(cluster, job_id)


@pytest.mark.rule("S3")
def test_what_is_fed_all_the_time_is_in_the_table_once_though_two_jobs_stop_in_the_middle(cluster: RunningCluster, tmp_path: Path) -> None:
    topic, table, fed, ended = create_topic(cluster.bootstrap), tmp_path / "table", 0, threading.Event()
    restore: dict[str, Any] = {}

    def feed_on() -> None:
        nonlocal fed
        while not ended.wait(0.2):
            feed(cluster.bootstrap, topic, records(fed, fed + 40))
            fed += 40

    feeding = threading.Thread(target=feed_on)
    feeding.start()
    try:
        for _ in range(2):
            job_id, seen = submit(cluster, topic, table, **restore), len(numbers_of(table))
            wait_for_numbers(table, seen + 101, "it writes")
            with DispatcherGateway(cluster.access) as gateway:
                path = gateway.stop_with_savepoint(job_id, str(tmp_path)).savepoint_path
            cluster.wait_for_status(job_id, JobStatus.FINISHED, TIMEOUT_S)
            [part] = read_savepoint(path).parts
            assert part.next_sink_batch_id in (part.batch_id + 1, part.batch_id + 2)
            restore = {"restore": {"savepoint": path}}
    finally:
        ended.set()
        feeding.join()
    job_id = submit(cluster, topic, table, **restore)
    wait_for_numbers(table, fed, "all records are in the table")
    time.sleep(2.0)
    assert numbers_of(table) == list(range(fed))
    cancel(cluster, job_id)


@pytest.mark.rule("P17")
def test_subtasks_of_a_batch_job_that_die_after_their_commits_have_appended_once_and_a_stream_reads_that(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    table, copied = tmp_path / "table", tmp_path / "copied"
    archive = cluster.user_code(Path(table_tasks.__file__))
    sink = {"table": {"path": str(table)}, "format": "delta"}
    appending = {"id": "append", "python": "table_tasks:numbers_of_its_own", "parallelism": 2, "sink": sink}
    strategy = {"type": "fixed-delay", "attempts": 10, "delay_ms": 100}
    job_id = cluster.submit(cluster.graph(appending, restart_strategy=strategy, code_archives=[archive]))
    cluster.wait_for_status(job_id, JobStatus.FINISHED, TIMEOUT_S)
    subtasks = list(cluster.job(job_id).execution_graph.subtasks())
    assert [(subtask.attempt, subtask.outputs) for subtask in subtasks] == [(2, ()), (2, ())]
    assert [subtask.execution.io.write_records for subtask in subtasks if subtask.execution and subtask.execution.io] == [100, 100]
    assert numbers_of(table) == list(range(200))
    stream = {
        "sources": {"source": {"table": {"path": str(table)}, "format": "delta"}},
        "sink": {"table": {"path": str(copied)}, "format": "delta"},
        "trigger": {"available_now": True},
    }
    reading = cluster.submit(cluster.graph({"id": "stream", "sql": "SELECT number FROM source", "stream": stream}, code_archives=[archive]))
    cluster.wait_for_status(reading, JobStatus.FINISHED, TIMEOUT_S)
    assert numbers_of(copied) == list(range(200))
    source = {"table": {"path": str(table), "version": 1, "where": "number <> :left_out"}, "format": "delta"}
    read = {"sql": "SELECT number FROM numbers", "sources": {"numbers": source}, "parameters": {"left_out": 200}}
    older = {"id": "older", **read, "sink": {"table": {"path": str(copied), "mode": "overwrite"}, "format": "delta"}}
    count = {"id": "count", "sql": "SELECT count(*) AS rows FROM older"}
    counting = cluster.submit(cluster.graph(older, count, edges=[{"from": "older", "to": "count"}]))
    *_, counted = cluster.wait_for_status(counting, JobStatus.FINISHED, TIMEOUT_S).execution_graph.subtasks()
    assert read_result(counted.outputs, 10).to_pylist() == [{"rows": 100}]
    assert len(numbers_of(copied)) == 100
    replaced, *_ = cluster.job(counting).execution_graph.subtasks()
    assert replaced.execution is not None
    assert replaced.execution.io is not None
    assert [(each.source, each.snapshot_id) for each in replaced.execution.io.snapshots] == [("numbers", 1)]


@pytest.mark.rule("P17")
def test_subtasks_that_die_after_their_commits_to_a_table_of_iceberg_have_appended_once(
    cluster: RunningCluster, catalog: IcebergCatalog
) -> None:
    archive = cluster.user_code(Path(table_tasks.__file__))
    sink = {"table": {"catalog": catalog.name, "name": "shop.numbers"}, "format": "iceberg"}
    vertex = {"id": "append", "python": "table_tasks:numbers_in_iceberg", "parallelism": 2, "sink": sink}
    strategy = {"type": "fixed-delay", "attempts": 10, "delay_ms": 100}
    job_id = cluster.submit(cluster.graph(vertex, restart_strategy=strategy, code_archives=[archive]))
    cluster.wait_for_status(job_id, JobStatus.FINISHED, TIMEOUT_S)
    subtasks = list(cluster.job(job_id).execution_graph.subtasks())
    assert [(subtask.attempt, subtask.outputs) for subtask in subtasks] == [(2, ()), (2, ())]
    assert [subtask.execution.io.write_records for subtask in subtasks if subtask.execution and subtask.execution.io] == [100, 100]
    assert iceberg_tables.numbers_of(catalog, "shop.numbers") == list(range(200))


def test_a_job_reads_a_table_of_iceberg_that_it_has_written_and_replaces_it_by_what_it_has_read(
    cluster: RunningCluster, catalog: IcebergCatalog
) -> None:
    place = {"catalog": catalog.name, "name": "shop.read"}
    written = {"table": place | {"partition_by": ["odd"]}, "format": "iceberg"}
    write = {"id": "write", "sql": "SELECT id AS number, id % 2 AS odd FROM range(10)", "sink": written}
    odd, whole = ({"table": place | more, "format": "iceberg"} for more in ({"where": "odd = :odd"}, {}))
    total = {"id": "total", "sql": "SELECT sum(number) AS total FROM sales WHERE number > 3", "sources": {"sales": odd}}
    count = {"id": "count", "sql": "SELECT count(*) AS rows FROM Sales", "sources": {"sales": whole}}
    edges = [{"from": "write", "to": each} for each in ("total", "count")]
    job_id = cluster.submit(cluster.graph(write, total | {"parameters": {"odd": 1}}, count, edges=edges))
    cluster.wait_for_status(job_id, JobStatus.FINISHED, TIMEOUT_S)
    subtasks = {name: vertex.subtasks[0] for name, vertex in cluster.job(job_id).execution_graph.vertices.items()}
    assert [read_result(subtasks[name].outputs, 10).to_pylist() for name in ("total", "count")] == [[{"total": 21}], [{"rows": 10}]]
    execution = subtasks["count"].execution
    assert execution is not None
    assert execution.io is not None
    assert (execution.io.read_records, execution.io.read_bytes > 0) == (20, True), "by the edge and of the table"
    sink = {"table": place | {"mode": "overwrite"}, "format": "iceberg"}
    vertex = {"id": "again", "python": "table_tasks:raised_by_a_hundred", "sources": {"sales": whole}, "sink": sink}
    again = cluster.submit(cluster.graph(vertex, code_archives=[cluster.user_code(Path(table_tasks.__file__))]))
    cluster.wait_for_status(again, JobStatus.FINISHED, TIMEOUT_S)
    assert iceberg_tables.numbers_of(catalog, "shop.read") == list(range(100, 110))
    source = {"table": place | {"name": "shop.none"}, "format": "iceberg"}
    job_id = cluster.submit(cluster.graph({"id": "read", "sql": "SELECT * FROM sales", "sources": {"sales": source}}))
    cluster.wait_for_status(job_id, JobStatus.FAILED, TIMEOUT_S)
    cause = cluster.job(job_id).cause
    assert cause is not None
    says = "vertex 'read': table of Iceberg not found: 'shop.none' in the catalogue 'lake'"
    assert (cause.failure_type, cause.message[: len(says)]) == ("TableUnusable", says)


def test_a_catalogue_of_iceberg_that_is_not_there_is_refused_with_those_that_are(cluster: RunningCluster) -> None:
    sink = {"table": {"catalog": "pond", "name": "shop.sales"}, "format": "iceberg"}
    job_id = cluster.submit(cluster.graph({"id": "write", "sql": "SELECT 1 AS number", "sink": sink}))
    cluster.wait_for_status(job_id, JobStatus.FAILED, TIMEOUT_S)
    cause = cluster.job(job_id).cause
    assert cause is not None
    says = "vertex 'write': catalogue of Iceberg 'pond' not found: this TaskExecutor has lake; name one of these, or add iceberg.catalogs."
    assert (cause.failure_type, cause.message[: len(says)]) == ("TableUnusable", says)
