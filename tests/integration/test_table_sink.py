"""The sink of a batch task into a table of Delta Lake: whatever is killed, however late an attempt is, its rows are there once."""

import datetime as dt
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from eventflink.model.attempts import AttemptId
from eventflink.model.batch_sink_document import BatchSinkDocument
from eventflink.model.sql_script import statements_of
from eventflink.streams.failures import SinkFenced, SinkTaken, TableUnusable
from eventflink.taskexecutor.io_metrics import TableCommit
from eventflink.taskexecutor.sql_faults import explain
from eventflink.taskexecutor.table_sink import write_to_table
from tests.support.delta_tables import numbers_of
from tests.support.running_cluster import wait_until
from tests.support.spark_sessions import own_session

pytestmark = pytest.mark.slow

TIMEOUT_S = 360


@pytest.fixture(scope="module")
def session(delta_spark: str) -> Iterator[SparkSession]:
    with own_session(delta_spark) as session:
        yield session


class Subtask:
    """The subtask of a batch vertex whose attempts write to a table."""

    def __init__(self, session: SparkSession, directory: Path) -> None:
        self.session = session
        self.table = directory / "table"
        self.job_id = uuid.uuid4().hex

    def rows(self, *numbers: int, day: int = 1) -> DataFrame:
        return self.session.range(len(numbers)).select(
            f.element_at(f.array(*[f.lit(n).cast("bigint") for n in (*numbers, 0)]), f.col("id").cast("int") + 1).alias("number"),
            f.lit(day).alias("day"),
        )

    def slow_rows(self, number: int, begun: Path, go_on: Path) -> DataFrame:
        """Return a row that says that it is computed, and comes when a file is there."""

        def wait(number: int) -> int:
            begun.touch()
            deadline_s = time.monotonic() + 120
            while not go_on.exists() and time.monotonic() < deadline_s:
                time.sleep(0.02)
            return number

        # Unless it is told, a UDF asks the first session of the process whether it is to use Arrow, and that one may be closed.
        return self.rows(number).withColumn("number", f.udf(wait, "bigint", useArrow=False)("number"))

    def write(self, attempt: int, rows: DataFrame, **table: Any) -> TableCommit:
        sink = BatchSinkDocument.model_validate({"table": {"path": str(self.table), **table}, "format": "delta"})
        return write_to_table(rows, sink.to_record(), "cluster", AttemptId(self.job_id, "vertex", 0, attempt))

    def next_job(self) -> None:
        self.job_id = uuid.uuid4().hex

    def there(self) -> list[int]:
        return numbers_of(self.table)

    def by_day(self) -> list[tuple[int, int]]:
        rows = DeltaTable(str(self.table)).to_pyarrow_table(columns=["day", "number"]).to_pylist()
        return sorted((row["day"], row["number"]) for row in rows)


def started(write: Callable[[], TableCommit]) -> tuple[threading.Thread, list[str]]:
    """Write in a thread; return that, and by what it has ended, once it has."""
    ended: list[str] = []

    def run() -> None:
        try:
            write()
            ended.append("written")
        except Exception as error:  # noqa: BLE001 - the test looks at it
            ended.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=run)
    thread.start()
    return thread, ended


@pytest.fixture(scope="module")
def old_session(delta_spark: str) -> Iterator[SparkSession]:
    """The session of an attempt that is not known to be alive."""
    with own_session(delta_spark) as session:
        yield session


@pytest.fixture
def subtask(session: SparkSession, tmp_path: Path) -> Subtask:
    return Subtask(session, tmp_path)


@pytest.mark.rule("P17")
def test_rows_of_the_first_attempt_that_commits_are_there_once_and_the_next_job_appends_its_own(subtask: Subtask) -> None:
    first = subtask.write(1, subtask.rows(1, 2))
    assert (first.rows, first.size_bytes > 0) == (2, True)
    assert subtask.write(2, subtask.rows(3, 4, 5)) == first
    assert subtask.there() == [1, 2]
    with pytest.raises(SinkTaken, match=r"the table .* has the rows of cluster/.*/vertex/0 already, from another job of the same id"):
        subtask.write(1, subtask.rows(6))
    subtask.next_job()
    assert subtask.write(3, subtask.rows(7)).rows == 1
    with pytest.raises(SinkFenced, match="from attempt 3, which is newer than attempt 2"):
        subtask.write(2, subtask.rows(8))
    assert subtask.there() == [1, 2, 7]


def test_columns_of_partitions_are_the_same_in_upper_and_lower_case(subtask: Subtask) -> None:
    subtask.write(1, subtask.rows(1), partition_by=["DAY"])
    assert DeltaTable(str(subtask.table)).metadata().partition_columns == ["day"]
    subtask.next_job()
    subtask.write(1, subtask.rows(2, day=2).withColumnRenamed("day", "dAY"), partition_by=["Day"])
    subtask.next_job()
    subtask.write(1, subtask.rows(3), partition_by=["dAy"], mode="overwrite-partitions")
    assert subtask.by_day() == [(1, 3), (2, 2)]


@pytest.mark.rule("P17")
@pytest.mark.parametrize("mode", ["append", "overwrite", "merge"])
def test_of_an_old_attempt_and_a_new_one_that_write_at_the_same_time_one_does(
    subtask: Subtask, old_session: SparkSession, tmp_path: Path, mode: str
) -> None:
    old = Subtask(old_session, tmp_path)
    old.job_id = subtask.job_id
    table: dict[str, Any] = {"mode": mode, "keys": ["number"]} if mode == "merge" else {"mode": mode}
    slow_rows = old.slow_rows(1, tmp_path / "begun", tmp_path / "go-on")
    thread, ended = started(lambda: old.write(1, slow_rows, **table))
    wait_until(lambda: (tmp_path / "begun").exists() or ended, "the rows are computed", TIMEOUT_S)
    assert ended == []
    assert subtask.write(2, subtask.rows(2, 3), **table).rows == 2
    (tmp_path / "go-on").touch()
    thread.join(TIMEOUT_S)
    [how] = ended
    assert how.startswith("SinkFenced: ")
    assert subtask.there() == [2, 3]


def test_an_attempt_that_had_nothing_to_merge_keeps_an_old_one_from_merging(subtask: Subtask) -> None:
    subtask.write(2, subtask.rows(), mode="merge", keys=["number"])
    with pytest.raises(SinkFenced):
        subtask.write(1, subtask.rows(1), mode="merge", keys=["number"])
    assert subtask.there() == []


def test_overwrite_leaves_the_new_rows_alone_and_overwrite_partitions_the_old_ones_of_other_partitions(subtask: Subtask) -> None:
    by_day = {"partition_by": ["day"]}
    subtask.write(1, subtask.rows(1, day=1).union(subtask.rows(2, day=2)), **by_day)
    subtask.next_job()
    assert subtask.write(1, subtask.rows(3, day=2).union(subtask.rows(4, day=3)), mode="overwrite-partitions", **by_day).rows == 2
    subtask.write(2, subtask.rows(99, day=1), mode="overwrite-partitions", **by_day)
    assert subtask.by_day() == [(1, 1), (2, 3), (3, 4)]
    assert DeltaTable(str(subtask.table)).metadata().partition_columns == ["day"]
    versions = DeltaTable(str(subtask.table)).version()
    subtask.next_job()
    subtask.session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    subtask.write(1, subtask.rows(5, day=2), mode="overwrite", **by_day)
    assert subtask.by_day() == [(2, 5)]
    assert DeltaTable(str(subtask.table)).version() == versions + 1
    subtask.next_job()
    subtask.write(1, subtask.rows(), mode="overwrite")
    assert subtask.by_day() == []


def test_a_merge_replaces_the_rows_that_have_its_keys_and_inserts_the_others(subtask: Subtask) -> None:
    subtask.write(1, subtask.rows(1, 2, day=1).withColumn("note", f.lit("old")))
    subtask.next_job()
    assert subtask.write(1, subtask.rows(2, 3, day=5), mode="merge", keys=["NUMBER"]).rows == 2
    assert subtask.write(2, subtask.rows(4, day=6), mode="merge", keys=["NUMBER"]).rows == 2
    rows = DeltaTable(str(subtask.table)).to_pyarrow_table().sort_by("number").to_pylist()
    assert [(row["number"], row["day"], row["note"]) for row in rows] == [(1, 1, "old"), (2, 5, "old"), (3, 5, None)]


def test_a_writer_that_changes_what_is_overwritten_meanwhile_lets_nothing_be_written(subtask: Subtask, tmp_path: Path) -> None:
    subtask.write(1, subtask.rows(1))
    subtask.next_job()
    slow_rows = subtask.slow_rows(2, tmp_path / "begun", tmp_path / "go-on")
    thread, ended = started(lambda: subtask.write(1, slow_rows, mode="overwrite"))
    wait_until(lambda: (tmp_path / "begun").exists() or ended, "the rows are computed", TIMEOUT_S)
    assert ended == []
    subtask.session.sql(f"DELETE FROM delta.`{subtask.table}`").collect()
    (tmp_path / "go-on").touch()
    thread.join(TIMEOUT_S)
    [how] = ended
    assert how.startswith(f"SinkUnavailable: nothing was written to the table {subtask.table}: another writer changed it")
    assert subtask.there() == []


def test_rows_that_do_not_fit_are_refused_with_the_table_and_the_column(subtask: Subtask) -> None:
    says = rf"the rows do not fit the table {subtask.table}: the table has no column 'more'; column 'day' is string, and int in the table"
    subtask.write(1, subtask.rows(1))
    subtask.next_job()
    with pytest.raises(TableUnusable, match=says):
        subtask.write(1, subtask.rows(2).selectExpr("number", "'x' AS day", "1 AS more"))
    with pytest.raises(TableUnusable, match="keys of the sink names column 'id', which the rows do not have: number, day"):
        subtask.write(1, subtask.rows(2), mode="merge", keys=["id"])
    assert subtask.there() == [1]


ARGUMENTS: list[tuple[Any, str]] = [
    (5, "int"),
    (-(2**31), "int"),
    (2**63 - 1, "bigint"),
    (-0.1, "double"),
    (float("inf"), "double"),
    ("it's a \\\\n :v /* -- \\n ü", "string"),
    ("", "string"),
    (True, "boolean"),
    (None, "void"),
    (Decimal("12.50"), "decimal(10,2)"),
    (dt.date(1, 1, 1), "date"),
    (dt.date(9999, 12, 31), "date"),
    (dt.datetime(2026, 11, 29, 2, 30, 0, 123456), "timestamp"),  # noqa: DTZ001 - Spark's client gives it without a zone
]


def test_statements_have_their_arguments_though_delta_s_parser_drops_them(session: SparkSession) -> None:
    names = ", ".join(f":v{number} AS v{number}, typeof(:v{number}) AS t{number}" for number in range(len(ARGUMENTS)))
    text = f"SELECT {names}, ':v0 ''' AS untouched FROM range(:rows) WHERE id >= :`rows` - 1"
    given = {f"v{number}": value for number, (value, _) in enumerate(ARGUMENTS)}
    [row] = session.sql(text, args=given | {"rows": 3, "unused": "x"}).collect()
    assert [(row[f"v{number}"], row[f"t{number}"]) for number in range(len(ARGUMENTS))] == ARGUMENTS
    assert row.untouched == ":v0 '"
    assert session.sql("SELECT ? + ? AS sum", args=[1, 2]).first() == (3,)
    assert session.cloneSession().sql("SELECT :day AS day", args={"day": 7}).first() == (7,)
    rows = session.range(2)
    assert session.sql("SELECT count(*) AS c FROM {rows} WHERE id < :most", args={"most": 1}, rows=rows).first() == (1,)
    session.sql("CREATE OR REPLACE TEMP VIEW of_day AS SELECT 1 AS day")
    assert session.sql("SELECT * FROM of_day WHERE day = :day", args={"day": 1}).where("day > 0").count() == 1


def test_an_argument_that_has_no_literal_fails_as_spark_says_and_why(session: SparkSession) -> None:
    [statement] = statements_of("SELECT :days AS day")
    with pytest.raises(AnalysisException, match="UNBOUND_SQL_PARAMETER") as raised:
        session.sql(statement.text, args={"days": f.array(f.lit(1))}).collect()
    explain(raised.value, statement, (), {"days": [1]})
    note, *_ = raised.value.__notes__
    assert note.startswith("the statement was given 'days': where 'spark.tables: delta' is set, Delta's parser drops what is no")
