"""Tables of Delta Lake as sources: a batch task reads one version whatever is written meanwhile, a stream each row that is appended."""

import datetime as dt
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from eventflink.model.batch_source_document import BatchSourceDocument
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.places import Place
from eventflink.model.stream_document import StreamSourceDocument
from eventflink.streams import delta_source
from eventflink.streams.failures import TableUnusable
from eventflink.streams.sources import SubtaskShare, read_source
from eventflink.taskexecutor.batch_sources import BatchSources
from tests.support.delta_tables import numbers_of
from tests.support.spark_sessions import own_session

pytestmark = pytest.mark.slow

FIRST_DAY = dt.date(2026, 11, 1)


@pytest.fixture(scope="module")
def session(delta_spark: str) -> Iterator[SparkSession]:
    with own_session(delta_spark) as session:
        yield session


class Shop:
    """A table of sales, a day's in each version, from 0 on."""

    def __init__(self, session: SparkSession, path: Path) -> None:
        self.session = session
        self.path = path

    def sell(self, *numbers: int) -> None:
        """Append rows, each of the day of its number."""
        rows = [(number, FIRST_DAY + dt.timedelta(number), Decimal(number) / 4) for number in numbers]
        sales = self.session.createDataFrame(rows, "number BIGINT, day DATE, amount DECIMAL(10,2)")
        sales.coalesce(1).write.format("delta").mode("append").save(str(self.path))

    def read(self, parameters: dict[str, Any] | None = None, **table: Any) -> DataFrame:
        """Return the rows of a source as a task gets them."""
        return self.sources(**table).readers(lambda: self.session, parameters or {})["sales"]()

    def sources(self, **table: Any) -> BatchSources:
        document = BatchSourceDocument.model_validate({"table": {"path": str(self.path), **table}, "format": "delta"})
        return BatchSources([document.to_record("sales")], [])

    def numbers(self, parameters: dict[str, Any] | None = None, **table: Any) -> list[int]:
        return sorted(row.number for row in self.read(parameters, **table).collect())

    def stream(self, directory: Path, **source: Any) -> list[int]:
        """Have a stream read all that is there, and return what it has read so far; it goes on where it ended."""
        document = StreamSourceDocument.model_validate(
            {"table": {"path": str(self.path), **source.pop("table", {})}, "format": "delta"} | source
        )
        one, of = SubtaskShare(0, 1), document.to_record("sales")
        rows = read_source(self.session, of, one, KafkaAccess(""), lambda _: lambda: None, Place(str(directory / "checkpoint"))).rows
        read = directory / "read"
        writing = rows.writeStream.format("delta").option("checkpointLocation", str(directory / "checkpoint"))
        query = writing.trigger(availableNow=True).start(str(read))
        try:
            assert query.awaitTermination(360)
        finally:
            query.stop()
        return numbers_of(read)


@pytest.fixture
def shop(session: SparkSession, tmp_path: Path) -> Shop:
    shop = Shop(session, tmp_path / "sales")
    for number in range(3):
        shop.sell(number)
    return shop


def test_a_table_is_read_as_it_is_or_as_it_was_at_a_version_or_a_time(shop: Shop) -> None:
    history = (
        shop.session.sql(f"DESCRIBE HISTORY delta.`{shop.path}`").select("version", f.unix_micros("timestamp").alias("at_us")).collect()
    )
    times = {row.version: dt.datetime.fromtimestamp(row.at_us / 1_000_000, dt.UTC) for row in history}
    assert shop.numbers() == [0, 1, 2]
    assert shop.numbers(version=0) == [0]
    assert shop.numbers(as_of=times[1].isoformat()) == [0, 1]
    assert shop.numbers(as_of=(times[1] - dt.timedelta(microseconds=1)).isoformat()) == [0]
    assert shop.numbers(as_of=(times[2] + dt.timedelta(days=365)).isoformat()) == [0, 1, 2]


def test_an_attempt_reads_one_version_and_says_which_whatever_is_written_meanwhile(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    sources = shop.sources()
    with caplog.at_level("INFO"):
        rows = sources.readers(lambda: shop.session, {})["sales"]()
    shop.sell(3)
    assert rows.count() == 3
    assert [read.snapshot.snapshot_id for read in sources.read] == [2]
    assert f"TableRead source=sales table={shop.path} version=2" in caplog.messages


@pytest.mark.parametrize(
    ("where", "parameters", "numbers"),
    [
        ("day >= DATE '2026-11-02'", {}, [1, 2]),
        ("day = :day", {"day": dt.date(2026, 11, 3), "others": [1, 2]}, [2]),
        ("amount > :least AND number < :most", {"least": 0.0, "most": 2}, [1]),
        ("number = 1 OR number = 2 -- or none", {}, [1, 2]),
        ("year(day) = 2027", {}, []),
    ],
)
def test_where_is_any_condition_of_sql_with_the_parameters_of_the_task(
    shop: Shop, where: str, parameters: dict[str, Any], numbers: list[int]
) -> None:
    assert shop.numbers(parameters, where=where) == numbers


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"version": 3}, "version not found: in the table {path} of source 'sales': [DELTA_VERSION_NOT_FOUND]"),
        (
            {"as_of": "2020-01-01T00:00:00"},
            "version not found: as of 2020-01-01T00:00:00+00:00 the table {path} of source 'sales' had none",
        ),
        ({"path": "/none/at/all"}, "table of Delta not found: '/none/at/all' of source 'sales'"),
        ({"path": "/none", "version": 1}, "table of Delta not found: '/none' of source 'sales'"),
        ({"path": "/none", "where": "number = 1"}, "table of Delta not found: '/none' of source 'sales'"),
        ({"where": "number >"}, "invalid where of source 'sales', the table {path}: [PARSE_SYNTAX_ERROR]"),
        ({"where": "price > 1"}, "invalid where of source 'sales', the table {path}: [UNRESOLVED_COLUMN"),
        ({"where": "number > :least"}, "invalid where of source 'sales', the table {path}: [UNBOUND_SQL_PARAMETER]"),
    ],
)
def test_what_is_not_there_is_refused_with_the_source_and_the_table(shop: Shop, table: dict[str, Any], says: str) -> None:
    with pytest.raises(TableUnusable, match=f"^{re.escape(says.format(path=shop.path))}"):
        shop.read(**table)


def test_a_spark_without_tables_of_delta_says_which_setting_brings_them(spark: str, tmp_path: Path) -> None:
    with own_session(spark) as session, pytest.raises(TableUnusable, match=r"set 'spark\.tables: delta' where TaskExecutors"):
        Shop(session, tmp_path / "sales").read()


def test_a_stream_reads_what_is_there_and_goes_on_with_what_is_appended(shop: Shop, tmp_path: Path) -> None:
    assert shop.stream(tmp_path / "a", table={"max_files_per_trigger": 1}) == [0, 1, 2]
    shop.sell(3)
    assert shop.stream(tmp_path / "a", table={"max_files_per_trigger": 1}) == [0, 1, 2, 3]
    assert shop.stream(tmp_path / "b", table={"starting_version": 2}) == [2, 3]


def test_a_version_that_changes_rows_ends_a_stream_or_is_left_out(shop: Shop, tmp_path: Path) -> None:
    for name, more in (("fail", {}), ("skip", {"changed_rows": "skip"})):
        assert shop.stream(tmp_path / name, table=more) == [0, 1, 2]
    shop.session.sql(f"UPDATE delta.`{shop.path}` SET number = 10 WHERE number = 0").collect()
    shop.sell(4)
    with pytest.raises(StreamingQueryException, match="DELTA_SOURCE_TABLE_IGNORE_CHANGES"):
        shop.stream(tmp_path / "fail")
    assert shop.stream(tmp_path / "skip", table={"changed_rows": "skip"}) == [0, 1, 2, 4]


@pytest.mark.parametrize("is_one_batch", [True, False])
def test_of_the_rows_that_are_there_when_a_stream_begins_none_is_late_since_they_are_one_batch(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_one_batch: bool
) -> None:
    """A file for each row, which Delta gives in any order: of eight batches some would have late rows (but for one time in 40,320).

    Where files come in the order in which they are written, as on a slow host, the newest row is the first.
    """
    if not is_one_batch:
        monkeypatch.setattr(delta_source, "_ALL_FILES", 1)
    shop, count, checkpoint = Shop(session, tmp_path / "sales"), 8, Place(str(tmp_path / "checkpoint"))
    at = f.timestamp_seconds((count - f.col("id")) * 86_400).alias("at")
    session.range(0, count, 1, count).select(f.col("id").alias("number"), at).write.format("delta").save(str(shop.path))
    document = {"table": {"path": str(shop.path)}, "format": "delta", "event_time": "at", "watermark_delay_ms": 1_000}
    of = StreamSourceDocument.model_validate(document).to_record("sales")
    rows = read_source(session, of, SubtaskShare(0, 1), KafkaAccess(""), lambda _: lambda: None, checkpoint).rows
    once = rows.dropDuplicatesWithinWatermark(["number"]).writeStream.format("delta").option("checkpointLocation", str(checkpoint))
    query = once.trigger(availableNow=True).start(str(tmp_path / "read"))
    try:
        assert query.awaitTermination(360)
    finally:
        query.stop()
    assert (numbers_of(tmp_path / "read") == list(range(count))) is is_one_batch


def test_a_stream_of_a_table_that_is_not_there_is_refused(shop: Shop, tmp_path: Path) -> None:
    for path in ("/none/at/all", str(tmp_path)):
        with pytest.raises(TableUnusable, match=f"^table of Delta not found: '{re.escape(path)}' of source 'sales'"):
            shop.stream(tmp_path / "c", table={"path": path})
