"""The sink of a batch task into a table of Iceberg: whatever is killed, however late an attempt is, its rows are there once."""

import datetime as dt
import json
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from eventflink.model.attempts import AttemptId
from eventflink.model.batch_sink_document import BatchSinkDocument
from eventflink.model.statuses import JobStatus
from eventflink.streams import iceberg_table
from eventflink.streams.failures import SinkFenced, SinkTaken, SinkUnavailable, TableUnusable
from eventflink.taskexecutor.iceberg_sink import write_to_iceberg
from eventflink.taskexecutor.io_metrics import TableCommit
from eventflink.taskexecutor.task_spark import session_address
from tests.support import table_tasks
from tests.support.iceberg_tables import CATALOG, TABLE, catalog_in, configured, loaded, numbers_of, rows_of, table_of
from tests.support.running_cluster import running_cluster, wait_until
from tests.support.spark_sessions import own_session

pytestmark = pytest.mark.slow

TIMEOUT_S = 360
LONG = pytest.mark.soak("eventflink.streams", "eventflink.taskexecutor")
"""Of a test that shows for one more value what another test shows each time."""


@pytest.fixture(scope="module")
def session(spark: str) -> Iterator[SparkSession]:
    with own_session(spark) as session:
        yield session


class Subtask:
    """The subtask of a batch vertex whose attempts write to a table."""

    def __init__(self, session: SparkSession, directory: Path) -> None:
        self.session = session
        self.directory = directory
        self.catalog = catalog_in(directory)
        self.job_id = uuid.uuid4().hex

    def rows(self, *numbers: int, day: int = 1) -> DataFrame:
        values = ", ".join(f"({number}L, {day})" for number in numbers)
        return self.session.sql(f"SELECT * FROM VALUES {values or '(0L, 0)'} AS t(number, day) WHERE {bool(numbers)}")

    def write(self, attempt: int, rows: DataFrame, *, subtask_index: int = 0, **table: Any) -> TableCommit:
        sink = BatchSinkDocument.model_validate({"table": {"catalog": CATALOG, "name": TABLE, **table}, "format": "iceberg"})
        attempt_id = AttemptId(self.job_id, "vertex", subtask_index, attempt)
        return write_to_iceberg(rows, sink.to_record(), [self.catalog], "cluster", attempt_id)

    def next_job(self) -> None:
        self.job_id = uuid.uuid4().hex

    def there(self) -> list[int]:
        return numbers_of(self.catalog)

    def by_day(self) -> list[tuple[int, int]]:
        return sorted((row["day"], row["number"]) for row in rows_of(self.catalog))

    def table(self) -> Table:
        return table_of(self.catalog)

    def data_files(self) -> set[str]:
        return {str(path) for path in (self.directory / "warehouse").rglob("*.parquet")}

    def left_over_files(self) -> set[str]:
        """Return the files that no version of the table has."""
        table = self.table()
        known = [task.file.file_path for each in table.snapshots() for task in table.scan(snapshot_id=each.snapshot_id).plan_files()]
        return self.data_files() - {path.removeprefix("file://") for path in known}


@pytest.fixture
def subtask(session: SparkSession, tmp_path: Path) -> Subtask:
    return Subtask(session, tmp_path)


class Meanwhile:
    """Has something happen when a commit is about to be made, once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.tries = 0

    def before_a_commit(self, happens: Any) -> None:
        commit, once = iceberg_table.IcebergTable.commit, [happens]

        def interrupted(table: Any, *arguments: Any) -> None:
            self.tries += 1
            if once:
                once.pop()()
            commit(table, *arguments)

        self._monkeypatch.setattr(iceberg_table.IcebergTable, "commit", interrupted)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    return Meanwhile(monkeypatch)


@pytest.mark.rule("P17")
def test_rows_of_the_first_attempt_that_commits_are_there_once_and_the_next_job_appends_its_own(subtask: Subtask) -> None:
    first = subtask.write(1, subtask.rows(1, 2))
    assert (first.rows, first.size_bytes > 0) == (2, True)
    assert subtask.write(2, subtask.rows(3, 4, 5)) == first
    assert subtask.there() == [1, 2]
    with pytest.raises(
        SinkTaken, match=r"the table lake.shop.sales has the rows of cluster/.*/vertex/0 already, from another job of the same"
    ):
        subtask.write(1, subtask.rows(6))
    subtask.next_job()
    assert subtask.write(3, subtask.rows(7)).rows == 1
    with pytest.raises(SinkFenced, match="from attempt 3, which is newer than attempt 2"):
        subtask.write(2, subtask.rows(8))
    assert subtask.write(3, subtask.rows(9), subtask_index=1).rows == 1
    assert subtask.there() == [1, 2, 7, 9]
    assert subtask.left_over_files() == set()


@pytest.mark.rule("P17")
@pytest.mark.parametrize("mode", ["append", pytest.param("overwrite", marks=LONG), "overwrite-partitions", "merge"])
def test_of_an_old_attempt_and_a_new_one_that_commit_at_the_same_moment_one_does(subtask: Subtask, meanwhile: Meanwhile, mode: str) -> None:
    table: dict[str, Any] = {"mode": mode, "partition_by": ["day"], "keys": ["number"] if mode == "merge" else []}
    subtask.write(1, subtask.rows(0), **table)
    subtask.next_job()
    meanwhile.before_a_commit(lambda: subtask.write(2, subtask.rows(2, 3), **table))
    with pytest.raises(SinkFenced):
        subtask.write(1, subtask.rows(1), **table)
    assert subtask.there() == ([0, 2, 3] if mode in ("append", "merge") else [2, 3])
    assert subtask.left_over_files() == set()


OLD = "SELECT * FROM VALUES (1, 'a', 10), (1, 'b', 20), (2, 'c', 30), (NULL, 'd', 40), (3, 'e', 50) AS t(day, who, amount)"


@pytest.mark.parametrize(("partition_by", "keys"), [([], ["who", "day"]), (["day"], ["DAY", "who"]), (["day"], ["who"])])
def test_a_merge_replaces_the_rows_with_the_keys_of_new_ones_and_inserts_the_others(
    subtask: Subtask, partition_by: list[str], keys: list[str]
) -> None:
    merge: dict[str, Any] = {"mode": "merge", "keys": keys, "partition_by": partition_by}
    subtask.write(1, subtask.session.sql(OLD).coalesce(1), **merge)
    subtask.next_job()
    new = subtask.session.sql("SELECT * FROM VALUES (1, 'b', 21), (NULL, 'd', 41), (4, NULL, 60), (4, 'f', 70) AS t(day, who, amount)")
    assert subtask.write(1, new, **merge).rows == 4
    expected = {("a", 1, 10), ("b", 1, 21), ("c", 2, 30), ("d", None, 41), ("e", 3, 50), (None, 4, 60), ("f", 4, 70)}
    assert {(row["who"], row["day"], row["amount"]) for row in rows_of(subtask.catalog)} == expected
    assert len(rows_of(subtask.catalog)) == len(expected)
    subtask.next_job()
    again = subtask.session.sql("SELECT 'b' AS who, 1 AS day, 22 AS amount UNION ALL SELECT NULL, 4, 61 UNION ALL SELECT NULL, 4, 61")
    with pytest.raises(
        TableUnusable, match=r"cannot be merged into the table lake\.shop\.sales: several have the keys of one that is there"
    ):
        subtask.write(1, again, **merge)
    assert len(rows_of(subtask.catalog)) == len(expected)
    assert subtask.left_over_files() == set()


def test_a_merge_leaves_the_columns_that_its_rows_lack_and_the_files_without_its_keys(subtask: Subtask) -> None:
    """Whatever a column was called when a file was written."""
    merge: dict[str, Any] = {"mode": "merge", "keys": ["who"]}
    for day in (1, 2):
        subtask.write(1, subtask.session.sql(f"SELECT * FROM ({OLD}) WHERE day = {day}").coalesce(1))
        subtask.next_job()
    untouched = {task.file.file_path for task in subtask.table().scan(row_filter="day = 2").plan_files()}
    with subtask.table().update_schema() as change:
        change.rename_column("amount", "total")
    subtask.write(1, subtask.session.sql("SELECT 'b' AS who, 9 AS day UNION ALL SELECT 'x', 8 UNION ALL SELECT 'x', 8"), **merge)
    rows = sorted(((row["who"], row["day"], row["total"]) for row in rows_of(subtask.catalog)), key=str)
    assert rows == [("a", 1, 10), ("b", 9, 20), ("c", 2, 30), ("x", 8, None), ("x", 8, None)]
    assert untouched <= {task.file.file_path for task in subtask.table().scan().plan_files()}
    assert subtask.left_over_files() == set()
    subtask.next_job()
    with pytest.raises(TableUnusable, match="keys of the sink names column 'who', which the rows do not have: day"):
        subtask.write(1, subtask.session.sql("SELECT 1 AS day"), **merge)


@pytest.mark.parametrize("partition_by", [[], ["day"]])
def test_a_merge_of_changes_takes_the_latest_of_each_and_deletes_where_that_says_so(subtask: Subtask, partition_by: list[str]) -> None:
    merge: dict[str, Any] = {"mode": "merge", "keys": ["who", "day"], "partition_by": partition_by, "latest_by": "amount"}
    subtask.write(1, subtask.session.sql(OLD).coalesce(1), **merge)
    subtask.next_job()
    changes = "(1, 'a', 9, true), (1, 'b', 21, true), (1, 'b', 20, false), (NULL, 'd', 41, true), (3, 'e', 51, NULL), (4, 'f', 1, true)"
    new = subtask.session.sql(f"SELECT * FROM VALUES {changes} AS t(day, who, amount, `is gone`)")
    assert subtask.write(1, new, **merge, delete_when="is gone").rows == 1
    rows = sorted((row["who"], row["day"], row["amount"]) for row in rows_of(subtask.catalog))
    assert rows == [("a", 1, 10), ("c", 2, 30), ("e", 3, 51)]
    assert subtask.left_over_files() == set()


@pytest.mark.parametrize("deletes", [{}, {"delete_when": "gone"}])
def test_rows_with_parts_in_lists_and_maps_are_merged(subtask: Subtask, deletes: dict[str, str]) -> None:
    merge: dict[str, Any] = {"mode": "merge", "keys": ["id"], **deletes}
    for x in (1, 2):
        parts = f"array(named_struct('x', {x}, 'y', named_struct('z', {x}))) AS items, map('k', named_struct('x', {x})) AS m"
        rows = f"SELECT {x} AS id, {parts} UNION ALL SELECT 7 AS id, {parts}"
        subtask.write(1, subtask.session.sql(f"SELECT *{', false AS gone' if deletes else ''} FROM ({rows})"), **merge)
        subtask.next_job()
    there = sorted((row["id"], row["items"][0]["x"], row["items"][0]["y"]["z"], row["m"][0][1]["x"]) for row in rows_of(subtask.catalog))
    assert there == [(1, 1, 1, 1), (2, 2, 2, 2), (7, 2, 2, 2)]


def test_columns_that_spark_takes_for_one_are_refused_before_a_table_is_made_or_written(subtask: Subtask) -> None:
    with pytest.raises(TableUnusable, match="cannot be made: columns 'a' and 'A' of the rows are one for Spark"):
        subtask.write(1, subtask.session.range(1).toDF("a").selectExpr("a", "a AS A"))
    catalog = loaded(subtask.catalog)
    catalog.create_namespace_if_not_exists("shop")
    catalog.create_table(TABLE, pa.schema([("a", pa.int64()), ("A", pa.int64())]))
    with pytest.raises(TableUnusable, match="columns 'a' and 'A' of the table are one for Spark"):
        subtask.write(1, subtask.session.sql("SELECT 7L AS a"))


def test_nulls_are_looked_for_in_the_column_that_is_required_whatever_its_name(subtask: Subtask) -> None:
    catalog = loaded(subtask.catalog)
    catalog.create_namespace_if_not_exists("shop")
    columns = [pa.field("user.id", pa.int64(), nullable=False), pa.field("a", pa.int64(), nullable=False), pa.field("a.x", pa.int64())]
    catalog.create_table(TABLE, pa.schema(columns))
    with pytest.raises(TableUnusable, match=r"column 'user\.id' is null in some, and required there"):
        subtask.write(1, subtask.session.sql("SELECT CAST(NULL AS BIGINT) AS `user.id`, 1L AS a, 1L AS `a.x`"))
    subtask.write(1, subtask.session.sql("SELECT 1L AS `user.id`, 1L AS a, CAST(NULL AS BIGINT) AS `a.x`"))
    assert rows_of(subtask.catalog) == [{"user.id": 1, "a": 1, "a.x": None}]
    assert subtask.left_over_files() == set()


def test_an_empty_list_is_no_null_and_a_null_one_is_refused_where_it_is_required(subtask: Subtask) -> None:
    catalog = loaded(subtask.catalog)
    catalog.create_namespace_if_not_exists("shop")
    of_map = pa.field("m", pa.map_(pa.string(), pa.int64()), nullable=False)
    catalog.create_table(TABLE, pa.schema([pa.field("l", pa.list_(pa.int64()), nullable=False), of_map]))
    subtask.write(1, subtask.session.sql("SELECT CAST(array() AS ARRAY<BIGINT>) AS l, map('k', CAST(NULL AS BIGINT)) AS m"))
    assert rows_of(subtask.catalog) == [{"l": [], "m": [("k", None)]}]
    subtask.next_job()
    with pytest.raises(TableUnusable, match="column 'l' is null in some, and required there"):
        subtask.write(1, subtask.session.sql("SELECT CAST(NULL AS ARRAY<BIGINT>) AS l, map('k', 1L) AS m"))


def test_names_that_would_be_lost_to_the_sink_are_refused(subtask: Subtask) -> None:
    with pytest.raises(TableUnusable, match="column 'EventFlink__partition' of the rows begins as the sink's own do"):
        subtask.write(1, subtask.session.sql("SELECT 1 AS id, 'x' AS EventFlink__partition"))
    subtask.write(1, subtask.session.sql("SELECT 1 AS id, false AS gone"))
    subtask.next_job()
    with pytest.raises(TableUnusable, match="delete_when of the sink names column 'Gone', which the table lake"):
        subtask.write(1, subtask.session.sql("SELECT 1 AS id, true AS gone"), mode="merge", keys=["id"], delete_when="Gone")
    assert len(rows_of(subtask.catalog)) == 1


def test_a_task_without_rows_leaves_no_file(subtask: Subtask) -> None:
    subtask.write(1, subtask.rows())
    assert not subtask.data_files()


@pytest.mark.parametrize("deletes", [{}, {"delete_when": "gone"}])
def test_a_merge_finds_its_rows_in_partitions_of_several_columns(subtask: Subtask, deletes: dict[str, str]) -> None:
    merge: dict[str, Any] = {"mode": "merge", "keys": ["day", "country", "id"], "partition_by": ["day", "country"], **deletes}
    gone = ", false AS gone" if deletes else ""
    all_rows = "SELECT CAST(d.id AS INT) AS day, CASE c.id WHEN 0 THEN NULL ELSE CAST(c.id AS STRING) END AS country, 1 AS id"
    subtask.write(1, subtask.session.sql(f"{all_rows}, 1 AS v{gone} FROM range(2) d, range(2) c"), **merge)
    subtask.next_job()
    subtask.write(1, subtask.session.sql(f"{all_rows}, 2 AS v{gone} FROM range(2) d, range(2) c WHERE d.id = c.id"), **merge)
    there = {(row["day"], row["country"]): row["v"] for row in rows_of(subtask.catalog)}
    assert there == {(0, None): 2, (0, "1"): 1, (1, None): 1, (1, "1"): 2}
    assert len(rows_of(subtask.catalog)) == 4


@pytest.mark.parametrize("value", ["DATE'10000-01-01'", "TIMESTAMP_NTZ'10000-01-01'", "DATE'-0001-01-01'", "CAST(X'FF' AS STRING)"])
def test_a_value_that_python_does_not_have_is_written_without_bounds_and_refused_where_it_is_a_partition(
    subtask: Subtask, value: str
) -> None:
    rows = subtask.session.sql(f"SELECT {value} AS odd, 1L AS number")
    subtask.write(1, rows)
    [written] = [task.file for task in subtask.table().scan().plan_files()]
    assert (written.record_count, written.lower_bounds) == (1, {})
    again = Subtask(subtask.session, subtask.directory / "again")
    with pytest.raises(TableUnusable, match=r"a value by which it is partitioned \(odd\) cannot be told to its catalogue"):
        again.write(1, rows, partition_by=["odd"])
    assert not again.data_files()


def test_a_merge_is_committed_beside_the_rows_that_it_has_compared_or_not_at_all(subtask: Subtask, meanwhile: Meanwhile) -> None:
    merge: dict[str, Any] = {"mode": "merge", "keys": ["day", "number"], "partition_by": ["day"]}
    subtask.write(1, subtask.rows(1, day=1).union(subtask.rows(1, day=2)), **merge)
    another = Subtask(subtask.session, subtask.directory)
    subtask.next_job()
    meanwhile.before_a_commit(lambda: another.write(1, subtask.rows(7, day=3)))
    assert subtask.write(1, subtask.rows(1, 2, day=1), **merge).rows == 2
    assert meanwhile.tries == 3
    for job in (subtask, another):
        job.next_job()
    meanwhile.before_a_commit(lambda: another.write(1, subtask.rows(8, day=1)))
    with pytest.raises(SinkUnavailable, match="another writer changed at the same time what is replaced"):
        subtask.write(1, subtask.rows(8, day=1), **merge)
    assert subtask.by_day() == [(1, 1), (1, 2), (1, 8), (2, 1), (3, 7)]
    assert subtask.write(2, subtask.rows(8, day=1), **merge).rows == 1
    assert subtask.by_day() == [(1, 1), (1, 2), (1, 8), (2, 1), (3, 7)]
    assert subtask.left_over_files() == set()


def test_an_attempt_without_rows_keeps_an_old_one_from_writing(subtask: Subtask) -> None:
    assert subtask.write(2, subtask.rows()) == TableCommit(0, 0)
    with pytest.raises(SinkFenced):
        subtask.write(1, subtask.rows(1))
    assert subtask.there() == []


def test_overwrite_leaves_the_new_rows_alone_and_overwrite_partitions_the_old_ones_of_other_partitions(subtask: Subtask) -> None:
    by_day: dict[str, Any] = {"partition_by": ["day"]}
    subtask.write(1, subtask.rows(1, day=1).union(subtask.rows(2, day=2)).union(subtask.session.sql("SELECT 9L, NULL")), **by_day)
    subtask.next_job()
    new = subtask.rows(3, day=2).union(subtask.rows(4, day=3)).union(subtask.session.sql("SELECT 8L, NULL"))
    assert subtask.write(1, new, mode="overwrite-partitions", **by_day).rows == 3
    subtask.write(2, subtask.rows(99, day=1), mode="overwrite-partitions", **by_day)
    assert sorted((row["number"], row["day"]) for row in rows_of(subtask.catalog)) == [(1, 1), (3, 2), (4, 3), (8, None)]
    assert [str(field.transform) for field in subtask.table().spec().fields] == ["identity"]
    snapshots = len(subtask.table().snapshots())
    subtask.next_job()
    subtask.write(1, subtask.rows(), mode="overwrite-partitions", **by_day)
    subtask.next_job()
    assert len(rows_of(subtask.catalog)) == 4
    subtask.write(1, subtask.rows(5, day=2), mode="overwrite")
    assert subtask.by_day() == [(2, 5)]
    assert len(subtask.table().snapshots()) == snapshots + 2, "one for each commit"
    subtask.next_job()
    subtask.write(1, subtask.rows(), mode="overwrite")
    assert subtask.by_day() == []


def test_what_others_append_meanwhile_stays_and_what_they_change_of_what_is_replaced_lets_nothing_be_written(
    subtask: Subtask, meanwhile: Meanwhile
) -> None:
    def foreign(number: int, day: int) -> None:
        rows = pa.table({"number": pa.array([number], pa.int64()), "day": pa.array([day], pa.int32())})
        subtask.table().append(rows)

    by_day: dict[str, Any] = {"partition_by": ["day"]}
    subtask.write(1, subtask.rows(1, day=1), **by_day)
    subtask.next_job()
    meanwhile.before_a_commit(lambda: foreign(2, 2))
    subtask.write(1, subtask.rows(3, day=1))
    assert (subtask.there(), meanwhile.tries) == ([1, 2, 3], 2)
    subtask.next_job()
    meanwhile.before_a_commit(lambda: foreign(4, 3))
    subtask.write(1, subtask.rows(5, day=1), mode="overwrite-partitions", **by_day)
    assert subtask.there() == [2, 4, 5]
    for mode in ("overwrite", "overwrite-partitions"):
        subtask.next_job()
        before = subtask.there()
        meanwhile.before_a_commit(lambda: foreign(7, 1))
        with pytest.raises(
            SinkUnavailable, match=r"nothing was written to the table lake\.shop\.sales: another writer changed at the same"
        ):
            subtask.write(1, subtask.rows(6, day=1), mode=mode, **by_day)
        assert subtask.there() == [*before, 7]
        assert subtask.left_over_files() == set()


def test_a_commit_whose_answer_is_lost_counts_and_one_that_was_not_made_fails_until_the_next_attempt(
    subtask: Subtask, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Table._do_commit

    def lose_the_answer(table: Table, **what: Any) -> None:
        commit(table, **what)
        raise ConnectionError("it was lost")

    def lose_the_request(_table: Table, **_what: Any) -> None:
        raise ConnectionError("nobody answers")

    subtask.write(1, subtask.rows(1))
    subtask.next_job()
    monkeypatch.setattr(Table, "_do_commit", lose_the_answer)
    assert subtask.write(1, subtask.rows(2)).rows == 1
    monkeypatch.setattr(Table, "_do_commit", lose_the_request)
    subtask.next_job()
    with pytest.raises(SinkUnavailable, match="does not have what was to be committed: ConnectionError: nobody answers; the next attempt"):
        subtask.write(1, subtask.rows(3))
    monkeypatch.setattr(Table, "_do_commit", commit)
    subtask.write(2, subtask.rows(4))
    assert subtask.there() == [1, 2, 4]


def test_subtasks_that_make_the_table_and_append_to_it_at_the_same_time_have_all_their_rows_there(subtask: Subtask) -> None:
    ended: list[int] = []

    def write(number: int) -> None:
        ended.append(subtask.write(1, subtask.rows(number), subtask_index=number).rows)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert ended == [1] * 4
    assert subtask.there() == [0, 1, 2, 3]


ALL_TYPES = """
SELECT true AS bo, 1Y AS by, 2S AS sh, 3 AS i, 4L AS lo, 0.5F AS fl, -0.0D AS do, 12.34BD AS de, 'ü' AS st, X'00ff' AS bi,
       DATE '0001-01-01' AS da, TIMESTAMP '2026-11-29 02:30:00.123456Z' AS ti, TIMESTAMP_NTZ '2026-11-29 02:30:00.123456' AS tn
"""
VALUES: dict[str, Any] = {
    "bo": True,
    "by": 1,
    "sh": 2,
    "i": 3,
    "lo": 4,
    "fl": 0.5,
    "do": 0.0,
    "de": Decimal("12.34"),
    "st": "ü",
    "bi": b"\x00\xff",
    "da": dt.date(1, 1, 1),
    "ti": dt.datetime(2026, 11, 29, 2, 30, 0, 123456, dt.UTC),
    "tn": dt.datetime(2026, 11, 29, 2, 30, 0, 123456),  # noqa: DTZ001 - it has no zone
}
NESTED = ", named_struct('x', 1, 'y', named_struct('z', 'deep')) AS ne"
LISTS = ", array(1L, NULL) AS li, map('k', array(named_struct('v', 1))) AS ma"


@pytest.mark.parametrize("more", [NESTED, NESTED + LISTS], ids=["found by ids", "found by names"])
def test_columns_of_each_type_are_as_they_were_with_statistics_and_found_when_the_table_renames_them(subtask: Subtask, more: str) -> None:
    query = ALL_TYPES + more
    for text in (
        query,
        f"SELECT * FROM ({query}) UNION ALL SELECT {', '.join(['NULL'] * len(VALUES))}, NULL{', NULL' * 2 * (LISTS in more)}",
    ):
        subtask.write(1, subtask.session.sql(text))
        subtask.next_job()
    nested = {"ne": {"x": 1, "y": {"z": "deep"}}} | ({"li": [1, None], "ma": [("k", [{"v": 1}])]} if LISTS in more else {})
    assert [row for row in rows_of(subtask.catalog) if row["i"] is not None] == [VALUES | nested] * 2
    files = [task.file for task in subtask.table().scan().plan_files()]
    number = subtask.table().schema().find_field("lo").field_id
    assert sum((file.null_value_counts or {})[number] for file in files) == 1
    assert {(file.lower_bounds or {}).get(number) for file in files} >= {(4).to_bytes(8, "little")}
    for each, wanted in (("lo = 5", 0), ("lo = 4", 2), ("st is null", 1), ("de < 12.34", 0)):
        assert subtask.table().scan(row_filter=each).to_arrow().num_rows == wanted, each
    with subtask.table().update_schema() as update:
        update.rename_column("lo", "renamed")
        update.rename_column("ne.x", "renamed")
    row = next(row for row in rows_of(subtask.catalog) if row["i"] is not None)
    assert (row["renamed"], row["ne"]["renamed"]) == (4, 1)
    again = subtask.session.sql(query.replace("4L AS lo", "5L AS renamed").replace("'x', 1", "'renamed', 6"))
    subtask.write(1, again)
    assert sorted(row["renamed"] for row in rows_of(subtask.catalog) if row["i"]) == [4, 4, 5]


def test_a_text_that_is_cut_in_the_statistics_is_found_whatever_character_stands_there(subtask: Subtask) -> None:
    begins = ("a" * 15, "a" * 14 + "\ud7ff", "\U0010ffff" * 15)
    texts = [begin + character + end for begin in begins for character in "\ud7fe\ud7ff\ue000\uffff\U0010ffff" for end in ("", "z")]
    subtask.write(1, subtask.session.createDataFrame(list(enumerate(texts)), "number BIGINT, text STRING"), partition_by=["number"])
    table = subtask.table()
    for task in table.scan().plan_files():
        text, column = texts[task.file.partition[0]], table.schema().find_field("text").field_id
        upper = (task.file.upper_bounds or {}).get(column)
        assert (task.file.lower_bounds or {})[column] <= text.encode()
        # The next character is a surrogate, or there is none.
        has_no_bound = len(text) > 16 and text[:16].rstrip("\U0010ffff")[-1:] in ("", "\ud7ff")
        assert upper is None if has_no_bound else upper is not None and upper >= text.encode(), ascii(text)
    for number, text in enumerate(texts):
        assert table.scan(row_filter=EqualTo("text", text)).to_arrow().to_pylist() == [{"number": number, "text": text}], ascii(text)


PARTITIONED_BY = {
    "st": ["''", "NULL", "'a/b=c%'", f"'{'long' * 200}'", "'__HIVE_DEFAULT_PARTITION__'"],
    "ti": ["TIMESTAMP '2026-10-25 00:30:00.000001Z'", "TIMESTAMP '2026-10-25 01:30:00.000001Z'", "NULL"],
    "tn": ["TIMESTAMP_NTZ '2026-10-25 00:30:00.000001'", "TIMESTAMP_NTZ '2026-10-25 00:30:00.000002'"],
    "da": ["DATE '0001-01-01'", "DATE '9999-12-31'"],
    "de": ["12.34BD", "12.35BD"],
    "bo": ["true", "false", "NULL"],
    "bi": ["X''", "X'00'", "NULL"],
}


@pytest.mark.parametrize("column", ["st", *[pytest.param(column, marks=LONG) for column in PARTITIONED_BY if column != "st"]])
def test_a_partition_has_the_rows_of_its_value_alone_whatever_the_value(subtask: Subtask, column: str) -> None:
    values = PARTITIONED_BY[column]
    rows = subtask.session.sql(" UNION ALL ".join(f"SELECT {n}L AS number, {value} AS {column}" for n, value in enumerate(values)))
    subtask.write(1, rows.union(rows), partition_by=[column])
    before = {row["number"]: row[column] for row in rows_of(subtask.catalog)}
    assert sorted(before) == list(range(len(values)))
    assert len({str(task.file.partition) for task in subtask.table().scan().plan_files()}) == len(values)
    subtask.next_job()
    subtask.write(
        1, rows.where("number = 0").withColumn("number", f.lit(100).cast("bigint")), mode="overwrite-partitions", partition_by=[column]
    )
    assert subtask.there() == sorted([*list(range(1, len(values))) * 2, 100])
    assert {row["number"]: row[column] for row in rows_of(subtask.catalog)} == {(n or 100): value for n, value in before.items()}


def test_rows_that_do_not_fit_are_refused_with_the_table_and_the_column_and_nothing_is_written(subtask: Subtask) -> None:
    says = r"the rows do not fit the table lake\.shop\.sales: the table has no column 'more'; column 'day' is string, and int in the table"
    subtask.write(1, subtask.rows(1))
    subtask.next_job()
    files = subtask.data_files()
    with pytest.raises(TableUnusable, match=says):
        subtask.write(1, subtask.rows(2).selectExpr("number", "'x' AS day", "1 AS more"))
    with pytest.raises(TableUnusable, match="partition_by names day, and the table has no partitions"):
        subtask.write(1, subtask.rows(2), partition_by=["day"])
    assert (subtask.there(), subtask.data_files()) == ([1], files)
    assert subtask.write(1, subtask.session.sql("SELECT 2L AS NUMBER")).rows == 1
    assert sorted((row["number"], row["day"]) for row in rows_of(subtask.catalog)) == [(1, 1), (2, None)]


def make_table(subtask: Subtask, *fields: NestedField, by: Sequence[PartitionField] = ()) -> None:
    catalog = loaded(subtask.catalog)
    catalog.create_namespace_if_not_exists("shop")
    catalog.create_table(TABLE, Schema(*fields), partition_spec=PartitionSpec(*by))


def test_a_table_that_the_sink_cannot_write_is_refused_with_the_reason(subtask: Subtask) -> None:
    number = NestedField(1, "number", LongType(), required=False)
    make_table(subtask, number, by=[PartitionField(1, 1_000, BucketTransform(4), "bucket")])
    with pytest.raises(
        TableUnusable, match=r"the table is partitioned by bucket\[4\] of 'number', and the sink knows partitions by the val"
    ):
        subtask.write(1, subtask.session.sql("SELECT 1L AS number"))
    loaded(subtask.catalog).drop_table(TABLE)
    make_table(subtask, NestedField(1, "half", DoubleType(), required=False), by=[PartitionField(1, 1_000, IdentityTransform(), "half")])
    with pytest.raises(TableUnusable, match="the sink knows no partitions by 'half', which is double"):
        subtask.write(1, subtask.session.sql("SELECT 0.5D AS half"))
    with pytest.raises(
        TableUnusable, match=r"the table lake\.shop\.other cannot be made: column 'gap' is interval day, which a table of Ice"
    ):
        subtask.write(1, subtask.session.sql("SELECT INTERVAL '1' DAY AS gap"), name="shop.other")
    with pytest.raises(TableUnusable, match="partition_by of the sink names column 'day', which the rows do not have: number"):
        subtask.write(1, subtask.session.sql("SELECT 1L AS number"), name="shop.other", partition_by=["day"])


def test_a_column_that_is_required_has_no_nulls_and_is_not_left_out(subtask: Subtask) -> None:
    make_table(subtask, NestedField(1, "number", LongType(), required=True), NestedField(2, "note", StringType(), required=False))
    with pytest.raises(TableUnusable, match="column 'number' is null in some, and required there"):
        subtask.write(1, subtask.session.sql("SELECT * FROM VALUES (1L, 'x'), (NULL, 'y') AS t(number, note)"))
    with pytest.raises(TableUnusable, match="the table needs column 'number', and the rows do not have it"):
        subtask.write(1, subtask.session.sql("SELECT 'x' AS note"))
    subtask.write(1, subtask.session.sql("SELECT 1L AS number"))
    assert rows_of(subtask.catalog) == [{"number": 1, "note": None}]
    assert subtask.left_over_files() == set()


def test_marks_of_long_ago_are_removed_and_one_whose_property_is_gone_is_found_in_its_snapshot(
    subtask: Subtask, monkeypatch: pytest.MonkeyPatch
) -> None:
    subtask.write(1, subtask.rows(1))
    [name] = [name for name in subtask.table().properties if name.startswith("eventflink.")]
    with subtask.table().transaction() as transaction:
        transaction.remove_properties(name)
    assert subtask.write(2, subtask.rows(2)).rows == 1
    assert subtask.there() == [1]
    monkeypatch.setattr(iceberg_table, "_KEPT_MS", -1_000)
    subtask.next_job()
    subtask.write(1, subtask.rows(3))
    subtask.next_job()
    subtask.write(1, subtask.rows(4))
    [text] = [text for name, text in subtask.table().properties.items() if name.startswith("eventflink.")]
    assert json.loads(text)["writer"] == f"cluster/{subtask.job_id}/vertex/0"
    assert subtask.there() == [1, 3, 4]


DIES = """
import os, signal, sys
from pathlib import Path
from pyspark.sql import SparkSession
from eventflink.streams.iceberg_table import IcebergTable
from tests.integration.test_iceberg_sink import Subtask

moment, remote, directory, job_id = sys.argv[1:]

def dies(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

def dies_after(*arguments):
    commit(*arguments)
    dies()

commit = IcebergTable.commit
match moment:
    case "before":
        IcebergTable.commit = dies
    case "in the middle":
        from pyiceberg.catalog.sql import SqlCatalog
        write = SqlCatalog._write_metadata
        def dies_in_the_middle(*arguments, **more):
            write(*arguments, **more)
            dies()
        SqlCatalog._write_metadata = staticmethod(dies_in_the_middle)
    case "after":
        IcebergTable.commit = dies_after
subtask = Subtask(SparkSession.builder.remote(remote).create(), Path(directory))
subtask.job_id = job_id
subtask.write(1, subtask.rows(1, 2))
"""


@pytest.mark.rule("P17")
@pytest.mark.parametrize("moment", [pytest.param("before", marks=LONG), "in the middle", pytest.param("after", marks=LONG)])
def test_a_process_that_is_killed_when_it_commits_has_written_its_rows_once_or_not(subtask: Subtask, spark: str, moment: str) -> None:
    subtask.write(1, subtask.rows(0), subtask_index=1)  # The table is there, so its making is not what is killed.
    remote = session_address(spark, str(uuid.uuid4()))
    arguments = [moment, remote, str(subtask.directory), subtask.job_id]
    killed = subprocess.run([sys.executable, "-c", DIES, *arguments], check=False, timeout=TIMEOUT_S, cwd=Path(__file__).parents[2])
    assert killed.returncode == -signal.SIGKILL
    assert subtask.there() == ([0, 1, 2] if moment == "after" else [0])
    assert subtask.write(2, subtask.rows(3)).rows == (2 if moment == "after" else 1)
    assert subtask.there() == ([0, 1, 2] if moment == "after" else [0, 3])


@LONG
@pytest.mark.rule("P17")
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("victim", ["leader", "TaskExecutor"])
def test_a_table_has_rows_once_though_the_leader_or_the_taskexecutor_is_killed_when_they_are_committed(
    bootstrap: str, tmp_path: Path, victim: str, moment: str
) -> None:
    catalog = catalog_in(tmp_path / "lake")
    with running_cluster(bootstrap, tmp_path / "cluster", **configured(catalog)) as cluster:
        cluster.start_master("first")
        cluster.start_standby("second")
        cluster.start_task_executor("tm-1")
        sink = {"table": {"catalog": CATALOG, "name": TABLE, "mode": "overwrite"}, "format": "iceberg"}
        parameters = {"here": str(tmp_path), "moment": moment}
        vertex = {"id": "write", "python": "table_tasks:numbers_held", "parameters": parameters, "sink": sink}
        archive = cluster.user_code(Path(table_tasks.__file__))
        strategy = {"type": "fixed-delay", "attempts": 10, "delay_ms": 100}
        job_id = cluster.submit(cluster.graph(vertex, restart_strategy=strategy, code_archives=[archive]))
        wait_until((tmp_path / "held").exists, "the task commits", TIMEOUT_S)
        if victim == "leader":
            cluster.kill("first")
        else:
            cluster.kill("tm-1")
            cluster.start_task_executor("tm-2")
        (tmp_path / "go-on").touch()
        cluster.wait_for_status(job_id, JobStatus.FINISHED, TIMEOUT_S)
        [subtask] = cluster.job(job_id).execution_graph.subtasks()
        assert (subtask.attempt > 1) == (victim == "TaskExecutor")
    assert numbers_of(catalog) == list(range(100))
    assert len(table_of(catalog).snapshots()) == 1
