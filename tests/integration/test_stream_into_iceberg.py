"""Streams into tables of Iceberg: whatever is killed, however late an attempt is, a batch is in the table once."""

import signal
import subprocess
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.types import StringType
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from eventflink.events.log_events import CheckpointAcknowledged
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.model.iceberg_catalogs import IcebergCatalog
from eventflink.model.places import Place
from eventflink.model.references import resolve
from eventflink.model.statuses import JobStatus
from eventflink.streams import iceberg_sink, iceberg_table
from eventflink.streams.failures import CheckpointLost, SinkFenced, SinkTaken, SinkUnavailable, TableUnusable
from eventflink.streams.iceberg_sink import IcebergSink, IcebergSinkSettings
from eventflink.streams.merging import MergeBy
from eventflink.streams.progress import begun_batch_place
from eventflink.streams.savepoint import read_savepoint
from eventflink.taskexecutor.task_spark import session_address
from tests.support import stream_tasks
from tests.support.iceberg_tables import TABLE, catalog_in, configured, loaded, numbers_of, rows_of, table_of
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until
from tests.support.spark_sessions import own_session
from tests.support.spark_work import sink_workers
from tests.support.topics import create_topic, feed

pytestmark = pytest.mark.slow

TIMEOUT_S = 360
LONG = pytest.mark.soak("eventflink.streams")
"""Of a test that shows for one more value what another test shows each time."""


@pytest.fixture(scope="module")
def session(spark: str) -> Iterator[SparkSession]:
    with own_session(spark) as session:
        yield session


class Subtask:
    """The subtask of a stream: its batches, and the sinks of its queries, which append to a table."""

    def __init__(self, session: SparkSession, directory: Path, writer_id: str = "") -> None:
        self.session = session
        self.directory = directory
        self.catalog = catalog_in(directory)
        self.location = directory / "checkpoint"
        self.writer_id = writer_id or f"cluster/{uuid.uuid4().hex}/stream/0"
        self.sink(1).make_table(self.rows(0))

    def sink(self, attempt: int, query: int = 1, first_batch_id: int = 0, **more: Any) -> IcebergSink:
        who = {"writer_id": self.writer_id, "attempt": attempt, "query": query, "first_batch_id": first_batch_id}
        place = {"catalog": self.catalog, "name": TABLE, "partition_by": ("odd",), "location": str(self.location)}
        return IcebergSink(IcebergSinkSettings(**{**place, **who, **more}))

    def rows(self, batch_id: int, count: int = 10) -> DataFrame:
        """Return rows of the batch's own."""
        first = 10 * batch_id
        return self.session.range(first, first + count, 1, 1).selectExpr("id AS number", "id % 2 AS odd")

    def write(self, sink: IcebergSink, batch_id: int, count: int = 10) -> None:
        sink(self.rows(batch_id, count), batch_id)

    def committed(self) -> list[int]:
        return numbers_of(self.catalog)

    def table(self) -> Table:
        return table_of(self.catalog)

    def mark(self) -> dict[str, Any]:
        """Return what the table says of the writer, without which commit that was."""
        mark = iceberg_table.IcebergTable(self.table()).mark_of(self.writer_id)
        return {key: mark[key] for key in ("attempt", "query", "next_batch")} if mark is not None else {}

    def left_over_files(self) -> set[str]:
        """Return the files that no version of the table has."""
        table = self.table()
        known = [task.file.file_path for each in table.snapshots() for task in table.scan(snapshot_id=each.snapshot_id).plan_files()]
        there = {str(path) for path in (self.directory / "warehouse").rglob("*.parquet")}
        return there - {path.removeprefix("file://") for path in known}

    def note(self, batch_id: int, offsets: str) -> None:
        """Note in the checkpoint directory what a batch reads."""
        path = begun_batch_place(Place(str(self.location)), batch_id).path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"v1\n{{}}\n{offsets}\n")


@pytest.fixture
def subtask(session: SparkSession, tmp_path: Path) -> Subtask:
    return Subtask(session, tmp_path)


@pytest.fixture
def before_a_commit(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Have something happen when the next commit is about to be made, behind its look at the table."""

    def patch(happens: Callable[[], Any]) -> None:
        commit, once = iceberg_table.IcebergTable.commit, [happens]

        def interrupted(table: Any, *arguments: Any) -> None:
            if once:
                once.pop()()
            commit(table, *arguments)

        monkeypatch.setattr(iceberg_table.IcebergTable, "commit", interrupted)

    return patch


@pytest.mark.rule("S1")
def test_a_batch_that_the_next_attempt_repeats_is_in_the_table_once_and_each_batch_is_one_snapshot(subtask: Subtask) -> None:
    first = subtask.sink(1)
    subtask.write(first, 0)
    subtask.write(first, 1)
    assert len(subtask.table().snapshots()) == 2
    second = subtask.sink(2)
    subtask.write(second, 1)
    subtask.write(second, 2)
    assert subtask.committed() == list(range(30))
    assert sorted(row["odd"] for row in rows_of(subtask.catalog)) == [0] * 15 + [1] * 15
    assert (subtask.mark(), len(subtask.table().snapshots())) == ({"attempt": 2, "query": 1, "next_batch": 3}, 4)
    assert subtask.left_over_files() == set()


def test_a_batch_without_rows_makes_no_snapshot_and_those_around_it_are_there_once(subtask: Subtask) -> None:
    first = subtask.sink(1)
    subtask.write(first, 0)
    subtask.write(first, 1, count=0)
    assert (len(subtask.table().snapshots()), subtask.mark()["next_batch"]) == (1, 1)
    second = subtask.sink(2)
    subtask.write(second, 1, count=0)
    subtask.write(second, 2)
    assert subtask.mark()["next_batch"] == 3
    third = subtask.sink(3)
    subtask.write(third, 2)
    subtask.write(third, 3)
    assert subtask.committed() == [*range(10), *range(20, 40)]


DIES = """
import os, signal, sys
from pathlib import Path
from pyspark.sql import SparkSession
from eventflink.streams import iceberg_files
from eventflink.streams.iceberg_table import IcebergTable
from tests.integration.test_stream_into_iceberg import Subtask

moment, remote, directory, writer_id = sys.argv[1:]

def dies(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

def dies_after(*arguments):
    commit(*arguments)
    dies()

commit = IcebergTable.commit
match moment:
    case "before its files":
        iceberg_files.write_parquet = lambda *arguments, **more: dies()
    case "after its files":
        IcebergTable.commit = dies
    case "in the commit":
        from pyiceberg.catalog.sql import SqlCatalog
        write = SqlCatalog._write_metadata
        def dies_in_the_middle(*arguments, **more):
            write(*arguments, **more)
            dies()
        SqlCatalog._write_metadata = staticmethod(dies_in_the_middle)
    case "after the commit":
        IcebergTable.commit = dies_after
subtask = Subtask(SparkSession.builder.remote(remote).create(), Path(directory), writer_id)
subtask.write(subtask.sink(1), 0)
"""


@pytest.mark.rule("S1")
@pytest.mark.parametrize(
    "moment",
    [pytest.param("before its files", marks=LONG), "after its files", "in the commit", pytest.param("after the commit", marks=LONG)],
)
def test_a_process_that_is_killed_when_it_writes_a_batch_has_written_it_once_or_not(subtask: Subtask, spark: str, moment: str) -> None:
    remote = session_address(spark, str(uuid.uuid4()))
    arguments = [moment, remote, str(subtask.directory), subtask.writer_id]
    killed = subprocess.run([sys.executable, "-c", DIES, *arguments], check=False, timeout=TIMEOUT_S, cwd=Path(__file__).parents[2])
    assert killed.returncode == -signal.SIGKILL
    assert subtask.committed() == (list(range(10)) if moment == "after the commit" else [])
    second = subtask.sink(2)
    subtask.write(second, 0)
    subtask.write(second, 1)
    assert subtask.committed() == list(range(20))


@pytest.mark.rule("S2")
def test_an_old_attempt_that_commits_when_a_new_one_has_written_ends_and_its_files_are_gone(
    subtask: Subtask, before_a_commit: Callable[[Callable[[], Any]], None]
) -> None:
    first, second = subtask.sink(1), subtask.sink(2)
    subtask.write(first, 0)
    before_a_commit(lambda: subtask.write(second, 1))
    with pytest.raises(SinkFenced, match=r"a newer query of cluster/.*/stream/0 writes to the table lake\.shop\.sales: batch 1 was not"):
        subtask.write(first, 1)
    with pytest.raises(SinkFenced, match="batch 2 was not written"):
        subtask.write(first, 2)
    subtask.write(second, 2)
    with pytest.raises(SinkFenced, match=r"query 1 of attempt 2 of .* has written to the table lake\.shop\.sales: this is query 1 of att"):
        subtask.write(subtask.sink(1), 3)
    assert (subtask.committed(), subtask.left_over_files()) == (list(range(30)), set())


@pytest.mark.rule("S2")
def test_a_batch_that_an_old_attempt_commits_when_a_new_one_takes_the_mark_over_is_not_written_again(
    subtask: Subtask, before_a_commit: Callable[[Callable[[], Any]], None]
) -> None:
    first, second = subtask.sink(1), subtask.sink(2)
    subtask.write(first, 0)
    before_a_commit(lambda: subtask.write(first, 1))
    subtask.write(second, 1)
    subtask.write(second, 2)
    assert (subtask.committed(), subtask.left_over_files()) == (list(range(30)), set())


@pytest.mark.rule("S3")
def test_what_a_stopped_query_has_begun_is_not_committed_once_its_attempt_settles_and_the_next_query_writes_it(
    subtask: Subtask, before_a_commit: Callable[[Callable[[], Any]], None]
) -> None:
    first = subtask.sink(1, 1)
    subtask.write(first, 0)
    settled: list[int] = []
    before_a_commit(lambda: settled.append(subtask.sink(1, 2).settle(1)))
    with pytest.raises(SinkFenced, match="batch 1 was not written"):
        subtask.write(first, 1)
    assert (settled, subtask.committed()) == ([1], list(range(10)))
    assert subtask.mark() == {"attempt": 1, "query": 2, "next_batch": 1}
    with pytest.raises(SinkFenced, match="query 2 of attempt 1 of"):
        subtask.write(subtask.sink(1, 1), 1)  # A query that has written nothing yet.
    third = subtask.sink(1, 3)
    subtask.write(third, 1)
    assert subtask.sink(1, 4).settle(1) == 2, "the batch is there that the checkpoint directory does not have as done"
    assert subtask.sink(1, 4).settle(2) == 2
    subtask.write(subtask.sink(2), 2)
    assert (subtask.committed(), subtask.left_over_files()) == (list(range(30)), set())


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
    with pytest.raises(CheckpointLost, match=r"batch 0 is to be written to the table lake\.shop\.sales, and batch 2 was written before: "):
        subtask.write(subtask.sink(2), 0)
    subtask.note(2, '{"orders": 99}')
    for batch_id in (2, 3):
        with pytest.raises(CheckpointLost, match=r"batch 2 was written to the table lake\.shop\.sales before, and had read up to other"):
            subtask.write(subtask.sink(2), batch_id)
    subtask.note(2, '{"orders": 2}')
    subtask.write(subtask.sink(2), 3)
    assert subtask.committed() == list(range(40))


def test_a_commit_whose_answer_is_lost_counts_and_one_that_was_not_made_is_made_by_the_next_attempt(
    subtask: Subtask, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Table._do_commit

    def lose_the_answer(table: Table, **what: Any) -> None:
        commit(table, **what)
        raise ConnectionError("it was lost")

    def lose_the_request(_table: Table, **_what: Any) -> None:
        raise ConnectionError("nobody answers")

    first = subtask.sink(1)
    monkeypatch.setattr(Table, "_do_commit", lose_the_answer)
    subtask.write(first, 0)
    monkeypatch.setattr(Table, "_do_commit", lose_the_request)
    with pytest.raises(SinkUnavailable, match="does not have what was to be committed: ConnectionError: nobody answers"):
        subtask.write(first, 1)
    monkeypatch.setattr(Table, "_do_commit", commit)
    subtask.write(subtask.sink(2), 1)
    assert subtask.committed() == list(range(20))


def test_what_others_append_meanwhile_stays_and_columns_that_they_change_are_taken_by_the_next_batch(
    subtask: Subtask, before_a_commit: Callable[[Callable[[], Any]], None]
) -> None:
    sink = subtask.sink(1)
    rows = pa.table({"number": pa.array([77], pa.int64()), "odd": pa.array([1], pa.int64())})
    before_a_commit(lambda: subtask.table().append(rows))
    subtask.write(sink, 0)

    def rename() -> None:
        with subtask.table().update_schema() as update:
            update.rename_column("number", "count").add_column("note", StringType())

    before_a_commit(rename)
    with pytest.raises(SinkUnavailable, match=r"nothing was written to the table lake\.shop\.sales: its columns or partitions were"):
        subtask.write(sink, 1)
    second = subtask.sink(2)
    with pytest.raises(TableUnusable, match=r"the rows do not fit the table lake\.shop\.sales: the table has no column 'number'"):
        subtask.write(second, 1)
    second(subtask.rows(1).withColumnRenamed("number", "count"), 1)
    there = sorted(rows_of(subtask.catalog), key=lambda row: row["count"])
    assert there == [{"count": n, "odd": n % 2, "note": None} for n in (*range(20), 77)]
    assert subtask.left_over_files() == set()


def test_manifests_of_small_batches_are_merged_where_the_table_says_so_also_by_a_commit_that_is_tried_again(
    subtask: Subtask, before_a_commit: Callable[[Callable[[], Any]], None]
) -> None:
    with subtask.table().transaction() as transaction:
        transaction.set_properties({"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"})
    first, other = subtask.sink(1), subtask.sink(1, writer_id="another")
    subtask.write(first, 0)
    subtask.write(first, 1)
    before_a_commit(lambda: subtask.write(other, 5))
    subtask.write(first, 2)
    assert subtask.committed() == [*range(30), *range(50, 60)]
    table = subtask.table()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(table.io)) == 1


def test_a_table_that_was_made_anew_while_a_batch_was_written_has_none_of_its_files(
    subtask: Subtask, before_a_commit: Callable[[Callable[[], Any]], None]
) -> None:
    def make_anew() -> None:
        loaded(subtask.catalog).drop_table(TABLE)
        subtask.sink(1).make_table(subtask.rows(0).select("odd", "number"))

    sink = subtask.sink(1)
    subtask.write(sink, 0)
    before_a_commit(make_anew)
    with pytest.raises(SinkUnavailable, match="the catalogue of Iceberg 'lake' failed: ValueError: Table UUID does not match"):
        subtask.write(sink, 1)
    assert subtask.committed() == []
    loaded(subtask.catalog).drop_table(TABLE)
    with pytest.raises(TableUnusable, match=r"table of Iceberg not found: lake\.shop\.sales was there when the stream began"):
        subtask.write(subtask.sink(2), 1)


def test_rows_of_another_job_of_the_same_id_are_not_taken_for_the_streams(subtask: Subtask) -> None:
    table = iceberg_table.IcebergTable(subtask.table())
    table.commit(None, [], [], subtask.writer_id, {"attempt": 1, "commit": "x", "rows": 3})
    with pytest.raises(SinkTaken, match=r"the table lake\.shop\.sales has rows of .* that no stream has written, from another job of"):
        subtask.write(subtask.sink(1), 0)


def test_what_the_sink_raises_where_spark_logs_it_has_no_secret_of_the_catalogue(session: SparkSession, tmp_path: Path) -> None:
    secret = tmp_path / "uri"
    secret.write_text(f"sqlite:///{tmp_path}/sesame/catalog.db")
    secret.chmod(0o600)
    lake = IcebergCatalog("lake", {"type": "sql", "uri": f"${{file:{secret}}}", "warehouse": f"file://{tmp_path}"})
    subtask = Subtask(session, tmp_path)
    (tmp_path / "sesame").mkdir()
    sink = subtask.sink(1, catalog=lake)
    sink.make_table(subtask.rows(0))
    (tmp_path / "sesame" / "catalog.db").unlink()
    (tmp_path / "sesame").rmdir()
    with pytest.raises(SinkUnavailable, match="the catalogue of Iceberg 'lake' failed: OperationalError") as raised:
        subtask.write(sink, 0)
    assert "sesame" not in "".join(traceback.format_exception(raised.value))


def test_a_spark_without_pyiceberg_says_what_to_install_there(subtask: Subtask, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyiceberg"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    says = r"needs pyiceberg, which is not installed: pip install 'eventflink\[iceberg\]', where Spark servers are installed"
    with pytest.raises(TableUnusable, match=says):
        subtask.write(subtask.sink(1), 0)


# -- merging -----------------------------------------------------------------------------------------------------------


class Merging(Subtask):
    """The subtask of a stream whose batches are merged: prices of articles, each with the time of its change, and whether it is gone."""

    def rows(self, batch_id: int, count: int = 0) -> DataFrame:
        """Return that many rows which delete nothing, with the columns of changes."""
        return self.changes(*[(f"none {batch_id} {number}", 0, 0, True) for number in range(count)])

    def changes(self, *rows: tuple[str | None, int | None, int | None, bool | None]) -> DataFrame:
        return self.session.createDataFrame(list(rows), "article STRING, price INT, at INT, gone BOOLEAN")

    def sink(self, attempt: int, query: int = 1, first_batch_id: int = 0, **more: Any) -> IcebergSink:
        by = MergeBy(("article",), "at", "gone")
        return super().sink(attempt, query, first_batch_id, **{"merge_by": by, "partition_by": (), **more})

    def there(self) -> set[tuple[str | None, int, int | None]]:
        rows = [(row["article"], row["price"], row["at"]) for row in rows_of(self.catalog)]
        assert len(rows) == len(set(rows))
        return set(rows)


@pytest.mark.rule("S1")
@pytest.mark.parametrize("partition_by", [(), ("article",)])
def test_of_rows_with_the_same_keys_the_latest_is_in_the_table_or_has_deleted_it_and_each_batch_is_merged_once(
    session: SparkSession, tmp_path: Path, partition_by: tuple[str, ...]
) -> None:
    merging = Merging(session, tmp_path)
    merging.catalog = catalog_in(tmp_path / "own")
    first = merging.sink(1, partition_by=partition_by)
    first.make_table(merging.changes())
    first(merging.changes(("pen", 3, 30, False), ("pen", 1, 10, True), ("ink", 5, 10, None), (None, 7, 10, False), ("nib", 9, 9, True)), 0)
    assert merging.there() == {("pen", 3, 30), ("ink", 5, 10), (None, 7, 10)}
    first(merging.changes(("pen", 2, 20, False), ("ink", None, 9, True), (None, None, 11, True), ("cap", 1, 1, False)), 1)
    assert merging.there() == {("pen", 3, 30), ("ink", 5, 10), ("cap", 1, 1)}
    second = merging.sink(2, partition_by=partition_by)
    second(merging.changes(("pen", 99, 99, False)), 1)  # What another attempt has committed is not merged again, whatever it computes.
    second(merging.changes(), 2)
    snapshots = len(merging.table().snapshots())
    second(merging.changes(("pen", None, 31, True), ("ink", None, 31, True), ("cap", None, 31, True)), 3)
    assert merging.there() == set()
    assert merging.mark() == {"attempt": 2, "query": 1, "next_batch": 4}
    assert len(merging.table().snapshots()) == snapshots + 1
    with pytest.raises(SinkFenced):
        first(merging.changes(("ink", 1, 99, False)), 4)
    second(merging.changes(("pen", 4, 4, False)), 4)
    assert merging.there() == {("pen", 4, 4)}
    second(merging.changes(("nobody", None, 1, True)), 5)
    second(merging.changes(), 6)
    assert {path for path in merging.left_over_files() if str(tmp_path / "own") in path} == set()


def test_a_batch_without_a_column_that_says_which_row_counts_is_merged_if_each_has_keys_of_its_own(
    session: SparkSession, tmp_path: Path
) -> None:
    merging = Merging(session, tmp_path)
    sink = merging.sink(1, merge_by=MergeBy(("article",)))
    prices = [session.sql(f"SELECT * FROM VALUES {rows} AS t(article, price)") for rows in ("('pen', 1), ('ink', 5)", "('pen', 2)")]
    for batch_id, rows in enumerate(prices):
        sink(rows, batch_id)
    assert merging.there() == {("pen", 2, None), ("ink", 5, None)}
    with pytest.raises(
        PySparkException, match=r"batch 2 of .* has several rows with the same keys \(article=pen\): name in 'latest_by' which"
    ):
        sink(prices[0].union(prices[1]), 2)
    assert merging.there() == {("pen", 2, None), ("ink", 5, None)}
    assert merging.left_over_files() == set()


def test_what_others_change_while_a_batch_is_merged_is_merged_into_as_it_is_then(
    session: SparkSession, tmp_path: Path, before_a_commit: Callable[[Callable[[], Any]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    merging, other = Merging(session, tmp_path), Merging(session, tmp_path)
    sink = merging.sink(1)
    sink(merging.changes(("pen", 1, 1, False), ("ink", 5, 1, False)), 0)
    before_a_commit(lambda: other.sink(1)(merging.changes(("ink", 6, 6, False), ("cap", 7, 1, False)), 0))
    sink(merging.changes(("pen", 2, 2, False), ("ink", None, 5, True), ("cap", None, 2, True)), 1)
    assert merging.there() == {("pen", 2, 2), ("ink", 6, 6)}
    assert merging.left_over_files() == set()
    monkeypatch.setattr(iceberg_sink, "_MERGES", 1)
    before_a_commit(lambda: other.sink(1)(merging.changes(("ink", 8, 8, False)), 1))
    with pytest.raises(SinkUnavailable, match="others changed it each time"):
        sink(merging.changes(("pen", 3, 3, False)), 2)
    merging.sink(2)(merging.changes(("pen", 3, 3, False)), 2)
    assert merging.there() == {("pen", 3, 3), ("ink", 8, 8)}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> IcebergCatalog:
    """A catalogue whose place is a secret."""
    directory = tmp_path_factory.mktemp("lake")
    catalog, secret = catalog_in(directory), directory / "uri"
    secret.write_text(catalog.properties["uri"])
    secret.chmod(0o600)
    return IcebergCatalog(catalog.name, catalog.properties | {"uri": f"${{file:{secret}}}"})


@pytest.fixture(scope="module")
def cluster(bootstrap: str, tmp_path_factory: pytest.TempPathFactory, catalog: IcebergCatalog) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path_factory.mktemp("cluster"), **configured(catalog)) as running:
        running.start_master()
        running.start_task_executor(slots=3)
        yield running


def submit(cluster: RunningCluster, topic: str, name: str, *, parallelism: int = 1, **more: Any) -> str:
    stream = {
        "sources": {"source": {"kafka": {"topic": topic}, "format": "json", "schema": "key STRING, number BIGINT"}},
        "sink": {"table": {"catalog": "lake", "name": name, "partition_by": ["key"]}, "format": "iceberg"},
    }
    vertex = {"id": "stream", "python": "stream_tasks:copy", "stream": stream, "parallelism": parallelism}
    strategy = {"type": "fixed-delay", "attempts": 50, "delay_ms": 100}
    archive = cluster.user_code(Path(stream_tasks.__file__))
    return cluster.submit(cluster.graph(vertex, restart_strategy=strategy, code_archives=[archive], **more))


def records(first: int, last: int) -> list[dict[str, Any]]:
    return [{"key": f"k{number % 3}", "number": number} for number in range(first, last)]


def wait_for_numbers(catalog: IcebergCatalog, name: str, count: int, what: str) -> None:
    wait_until(lambda: len(set(numbers_of(catalog, name))) >= count, what, TIMEOUT_S, interval_s=0.5)


def cancel(cluster: RunningCluster, job_id: str) -> None:
    with DispatcherGateway(cluster.access) as gateway:
        gateway.cancel_job(job_id)
    cluster.wait_for_status(job_id, JobStatus.CANCELED)


@pytest.mark.rule("S1")
def test_a_table_has_each_record_once_though_the_task_its_sink_and_spark_are_killed(
    cluster: RunningCluster, catalog: IcebergCatalog
) -> None:
    topic, name, fed = create_topic(cluster.bootstrap, partitions=2), "shop.killed", 0

    def feed_on() -> None:
        nonlocal fed
        feed(cluster.bootstrap, topic, records(fed, fed + 300))
        fed += 300

    feed_on()
    job_id = submit(cluster, topic, name, parallelism=2)
    wait_for_numbers(catalog, name, fed, "the first records")
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
        wait_for_numbers(catalog, name, fed, f"all records after the {victim} was killed")
    time.sleep(2.0)
    assert sorted((row["number"], row["key"]) for row in rows_of(catalog, name)) == [(n, f"k{n % 3}") for n in range(fed)]
    assert sum(subtask.attempt - 1 for subtask in cluster.job(job_id).execution_graph.subtasks()) >= 3
    cancel(cluster, job_id)


@pytest.mark.rule("S3")
def test_what_is_fed_all_the_time_is_in_the_table_once_though_two_jobs_stop_in_the_middle(
    cluster: RunningCluster, catalog: IcebergCatalog, tmp_path: Path
) -> None:
    topic, name, fed, ended = create_topic(cluster.bootstrap), "shop.fed", 0, threading.Event()
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
            job_id, seen = submit(cluster, topic, name, **restore), len(numbers_of(catalog, name))
            wait_for_numbers(catalog, name, seen + 101, "it writes")
            with DispatcherGateway(cluster.access) as gateway:
                path = gateway.stop_with_savepoint(job_id, str(tmp_path)).savepoint_path
            cluster.wait_for_status(job_id, JobStatus.FINISHED, TIMEOUT_S)
            [part] = read_savepoint(path).parts
            assert part.next_sink_batch_id in (part.batch_id + 1, part.batch_id + 2)
            restore = {"restore": {"savepoint": path}}
    finally:
        ended.set()
        feeding.join()
    job_id = submit(cluster, topic, name, **restore)
    wait_for_numbers(catalog, name, fed, "all records are in the table")
    time.sleep(2.0)
    assert numbers_of(catalog, name) == list(range(fed))
    cancel(cluster, job_id)


@pytest.mark.rule("S1")
def test_a_table_of_changes_is_what_their_last_ones_say_though_the_sink_is_killed(cluster: RunningCluster, catalog: IcebergCatalog) -> None:
    topic, name = create_topic(cluster.bootstrap), "shop.changes"

    def feed_changes(round_number: int) -> dict[str, int]:
        """Feed a change of each of ten articles, of which every third one is gone in the round; return what the table has then."""
        changed = [(f"a{n}", 100 * round_number + n, (n + round_number) % 3 == 0) for n in range(10)]
        feed(
            cluster.bootstrap, topic, [{"article": a, "price": p, "at": round_number, "op": "d" if gone else "u"} for a, p, gone in changed]
        )
        return {article: price for article, price, gone in changed if not gone}

    def wait_for(expected: dict[str, int], what: str) -> None:
        wait_until(lambda: {row["article"]: row["price"] for row in rows_of(catalog, name)} == expected, what, TIMEOUT_S, interval_s=0.5)

    expected = feed_changes(0)
    source = {"kafka": {"topic": topic}, "format": "json", "schema": "article STRING, price BIGINT, at BIGINT, op STRING"}
    table = {"catalog": "lake", "name": name, "mode": "merge", "keys": ["article"], "latest_by": "at", "delete_when": "gone"}
    stream = {"sources": {"source": source}, "sink": {"table": table, "format": "iceberg"}}
    vertex = {"id": "stream", "sql": "SELECT article, price, at, op = 'd' AS gone FROM source", "stream": stream}
    job_id = cluster.submit(cluster.graph(vertex, restart_strategy={"type": "fixed-delay", "attempts": 50, "delay_ms": 100}))
    wait_for(expected, "the first changes")
    for round_number in (1, 2):
        expected = feed_changes(round_number)
        for worker in sink_workers(cluster.spark_processes()):
            worker.kill()
        wait_for(expected, f"the changes of round {round_number}")
    assert len(rows_of(catalog, name)) == len(expected)
    cancel(cluster, job_id)


def test_rows_that_do_not_fit_the_table_fail_the_stream_before_anything_is_written_and_the_written_ones_are_counted(
    cluster: RunningCluster, catalog: IcebergCatalog
) -> None:
    topic, name = create_topic(cluster.bootstrap), "shop.counted"
    feed(cluster.bootstrap, topic, records(0, 30))
    source = {"kafka": {"topic": topic}, "format": "json", "schema": "key STRING, number BIGINT"}
    sink = {"table": {"catalog": "lake", "name": name}, "format": "iceberg"}

    def run(sql: str) -> str:
        stream = {"sources": {"source": source}, "sink": sink}
        more = {"checkpointing": {"interval_ms": 300}, "restart_strategy": {"type": "none"}}
        return cluster.submit(cluster.graph({"id": "stream", "sql": sql, "stream": stream}, **more))

    job_id = run("SELECT number FROM source")

    def outputs() -> list[tuple[str, int]]:
        answers = [event.progress for event in cluster.events_of(job_id) if isinstance(event, CheckpointAcknowledged)]
        return [(output.location, output.rows_written) for output in answers[-1].outputs] if answers else []

    wait_until(lambda: sum(rows for _, rows in outputs()) >= 30, "the rows are counted", TIMEOUT_S)
    assert outputs() == [(f"lake.{name}", 30)]
    cancel(cluster, job_id)
    refused = run("SELECT number, key AS more FROM source")
    cluster.wait_for_status(refused, JobStatus.FAILED, TIMEOUT_S)
    cause = cluster.job(refused).cause
    assert cause is not None
    says = "vertex 'stream': the rows do not fit the table lake.shop.counted: the table has no column 'more'"
    assert (cause.failure_type, cause.message) == ("TableUnusable", says)
    assert numbers_of(catalog, name) == list(range(30))
    assert len(table_of(catalog, name).snapshots()) == 1
    secret = resolve("uri", catalog.properties["uri"]).encode()
    files = [path for path in cluster.directory.rglob("*") if path.is_file()]
    assert any(path.name == "spark.log" for path in files)
    assert [path for path in files if secret in path.read_bytes()] == [], "logs, checkpoints and all else that the cluster keeps"
