"""The tables of Iceberg that a batch task reads: Spark has the rows that pyiceberg has, whatever became of columns, rows and versions."""

import datetime as dt
import json
import math
import random
import re
import uuid
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import types as t
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyroaring import BitMap
from pyspark.errors.exceptions.connect import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from eventflink.model.attempts import AttemptId, SourceSnapshot
from eventflink.model.batch_sink_document import BatchSinkDocument
from eventflink.model.batch_source_document import BatchSourceDocument
from eventflink.streams import iceberg_merge, iceberg_rows, iceberg_scan, iceberg_upkeep
from eventflink.streams.failures import SinkUnavailable, SourceUnavailable, TableUnusable
from eventflink.streams.iceberg_conditions import condition_of
from eventflink.streams.iceberg_rows import BY_IDS
from eventflink.streams.iceberg_scan import spark_path
from eventflink.streams.iceberg_table import IcebergTable, find_table
from eventflink.streams.iceberg_upkeep import Compaction, compact_table
from eventflink.taskexecutor.batch_sources import BatchSources
from eventflink.taskexecutor.iceberg_sink import write_to_iceberg
from tests.support.iceberg_tables import CATALOG, TABLE, catalog_in, loaded
from tests.support.spark_sessions import own_session
from tests.support.sql_conditions import COLUMNS, cases_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def session(spark: str) -> Iterator[SparkSession]:
    with own_session(spark) as session:
        yield session


class Lake:
    """A catalogue with one table, which pyiceberg writes and a source reads."""

    def __init__(self, session: SparkSession, directory: Path) -> None:
        self.session = session
        self.catalog = catalog_in(directory / "a lake+[1] 100%")
        self.sources = BatchSources([], [])

    def make(self, *fields: t.NestedField, by: Sequence[PartitionField] = (), **properties: str) -> Table:
        catalog = loaded(self.catalog)
        catalog.create_namespace_if_not_exists("shop")
        return catalog.create_table(TABLE, Schema(*fields), partition_spec=PartitionSpec(*by), properties=properties)

    @property
    def table(self) -> Table:
        return loaded(self.catalog).load_table(TABLE)

    def append(self, *rows: dict[str, Any]) -> Table:
        table = self.table
        table.append(pa.Table.from_pylist(list(rows), schema=table.schema().as_arrow()))
        return self.table

    def read(self, parameters: dict[str, Any] | None = None, **declared: Any) -> DataFrame:
        written = {"table": {"catalog": CATALOG, "name": TABLE, **declared}, "format": "iceberg"}
        source = BatchSourceDocument.model_validate(written).to_record("sales")
        self.sources = BatchSources([source], [self.catalog])
        return self.sources.readers(lambda: self.session, parameters or {})["sales"]()

    def rows(self, parameters: dict[str, Any] | None = None, **declared: Any) -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in self.read(parameters, **declared).collect()]

    def numbers(self, parameters: dict[str, Any] | None = None, **declared: Any) -> list[int]:
        return sorted(row["number"] for row in self.rows(parameters, **declared))


@pytest.fixture
def lake(session: SparkSession, tmp_path: Path) -> Lake:
    return Lake(session, tmp_path)


def field(number: int, name: str, kind: t.IcebergType) -> t.NestedField:
    return t.NestedField(number, name, kind, required=False)


MAPPING = json.dumps([{"field-id": 1, "names": ["number"]}, {"field-id": 2, "names": ["half"]}])
CASES = 60
"""Of each column, which Spark is asked about."""

NUMBER = field(1, "number", t.LongType())
DAY = field(2, "day", t.DateType())
BY_DAY = PartitionField(2, 1_000, IdentityTransform(), "day")

KINDS: dict[str, tuple[t.IcebergType, Any]] = {
    "bo": (t.BooleanType(), True),
    "it": (t.IntegerType(), -1),
    "lo": (t.LongType(), 2**40),
    "fl": (t.FloatType(), 0.5),
    "do": (t.DoubleType(), -0.25),
    "de": (t.DecimalType(9, 2), Decimal("1.25")),
    "di": (t.DecimalType(30, 4), Decimal("123456789012345678.1234")),
    "st": (t.StringType(), "ü"),
    "bi": (t.BinaryType(), b"\0\xff"),
    "fi": (t.FixedType(4), b"abcd"),
    "da": (t.DateType(), dt.date(1, 1, 1)),
    "ts": (t.TimestampType(), dt.datetime(2026, 1, 1, 1, 2, 3, 4)),  # noqa: DTZ001 - it has no zone
    "uu": (t.UUIDType(), uuid.UUID("00000000-1111-2222-3333-0123456789ab")),
    "ti": (t.TimeType(), dt.time(1, 2, 3, 4)),
}
SHOWN = {"uu": "00000000-1111-2222-3333-0123456789ab", "ti": "01:02:03.000004"}
AT = dt.datetime(2026, 1, 1, 1, 2, 3, 4, dt.UTC)


def arrow_of(kind: t.IcebergType, value: Any) -> pa.Array:
    """Return a column of one value; Arrow makes no UUIDs of Python's."""
    match kind:
        case t.UUIDType():
            return pa.ExtensionArray.from_storage(pa.uuid(), pa.array([value.bytes], pa.binary(16)))
        case t.StructType():
            return pa.StructArray.from_arrays(
                [arrow_of(each.field_type, value[each.name]) for each in kind.fields], [each.name for each in kind.fields]
            )
        case t.ListType():
            return pa.LargeListArray.from_arrays([0, 1], arrow_of(kind.element_type, value[0]))
        case t.MapType():
            [(key, item)] = value.items()
            return pa.MapArray.from_arrays([0, 1], arrow_of(kind.key_type, key), arrow_of(kind.value_type, item))
    return pa.array([value], schema_to_pyarrow(kind))


def test_columns_of_each_type_are_what_pyiceberg_reads_also_within_structs_lists_and_maps(lake: Lake) -> None:
    values = {name: value for name, (_, value) in KINDS.items()}
    inner = t.StructType(*[field(100 + n, name, kind) for n, (name, (kind, _)) in enumerate(KINDS.items())])
    listed = t.ListType(301, t.StructType(field(302, "u", t.UUIDType())), element_required=False)
    mapped = t.MapType(303, t.UUIDType(), 304, t.ListType(305, t.TimeType(), element_required=False), value_required=False)
    kinds: dict[str, tuple[t.IcebergType, Any]] = KINDS | {
        "tz": (t.TimestamptzType(), AT),
        "ne": (inner, values),
        "li": (listed, [{"u": values["uu"]}]),
        "ma": (mapped, {values["uu"]: [values["ti"]]}),
    }
    lake.make(*[field(n, name, kind) for n, (name, (kind, _)) in enumerate(kinds.items(), 1)])
    lake.table.append(pa.table({each.name: arrow_of(each.field_type, kinds[each.name][1]) for each in lake.table.schema().fields}))
    lake.table.append(pa.table({"bo": pa.array([None], pa.bool_())}))
    [there] = [row for row in lake.table.scan().to_arrow().to_pylist() if row["bo"]]
    assert {name: there[name] for name in values} == values, "as pyiceberg reads it"
    rows = lake.read().withColumn("tz", f.col("tz").cast("string")).collect()
    [full] = [row.asDict(recursive=True) for row in rows if row.bo]
    shown = values | SHOWN
    more = {"tz": "2026-01-01 01:02:03.000004", "ne": shown, "li": [{"u": SHOWN["uu"]}], "ma": {SHOWN["uu"]: [SHOWN["ti"]]}}
    assert full == shown | more
    [nothing] = [row.asDict(recursive=True) for row in rows if not row.bo]
    assert nothing == dict.fromkeys(kinds)
    types = dict(lake.read().dtypes)
    assert [types[name] for name in ("de", "ts", "tz", "uu", "fi")] == ["decimal(9,2)", "timestamp_ntz", "timestamp", "string", "binary"]
    assert all(not column.metadata for column in lake.read().schema.fields)


def test_a_table_without_rows_or_without_a_version_has_its_columns(lake: Lake) -> None:
    lake.make(NUMBER, DAY, field(3, "id", t.UUIDType()))
    assert lake.read().dtypes == [("number", "bigint"), ("day", "date"), ("id", "string")]
    assert (lake.rows(), lake.sources.newest) == ([], {f"{CATALOG}.{TABLE}": None})
    lake.append()
    assert lake.rows(where="number > 1") == []
    lake.append({"number": 1})
    lake.table.delete()
    assert lake.rows() == []


def test_columns_that_were_renamed_added_dropped_widened_and_moved_are_found_by_their_ids(lake: Lake) -> None:
    nested = field(5, "ne", t.StructType(field(6, "x", t.IntegerType()), field(7, "y", t.StringType())))
    lake.make(
        field(1, "a", t.IntegerType()),
        field(2, "b", t.FloatType()),
        field(3, "c", t.DecimalType(9, 2)),
        field(4, "d", t.StringType()),
        nested,
    )
    table = lake.append({"a": 1, "b": 0.5, "c": Decimal("1.25"), "d": "old", "ne": {"x": 7, "y": "inner"}})
    with table.update_schema() as update:
        update.rename_column("a", "z")
        update.update_column("a", t.LongType())
        update.update_column("b", t.DoubleType())
        update.update_column("c", t.DecimalType(20, 2))
        update.delete_column("d")
        update.rename_column("ne.x", "renamed")
        update.update_column("ne.x", t.LongType())
        update.add_column(("ne", "more"), t.LongType())
    with lake.table.update_schema() as update:
        update.add_column("d", t.StringType())
        update.add_column("a", t.StringType())
        update.move_first("d")
    lake.append({"d": "new", "z": 2**40, "b": 0.1, "c": Decimal("9.99"), "ne": {"renamed": 2**40, "y": "i", "more": 1}, "a": "text"})
    assert sorted(lake.rows(), key=lambda row: row["z"]) == sorted(lake.table.scan().to_arrow().to_pylist(), key=lambda row: row["z"])
    assert min(lake.rows(), key=lambda row: row["z"]) == {
        "d": None,
        "z": 1,
        "b": 0.5,
        "c": Decimal("1.25"),
        "ne": {"renamed": 7, "y": "inner", "more": None},
        "a": None,
    }
    assert sorted(row["z"] for row in lake.rows(where="z = 1 OR ne.renamed > 2147483647 AND a LIKE 'te%'")) == [1, 2**40]
    first = lake.table.snapshots()[0].snapshot_id
    assert lake.rows(snapshot=first) == [{"a": 1, "b": 0.5, "c": Decimal("1.25"), "d": "old", "ne": {"x": 7, "y": "inner"}}]


def days(*numbers: int) -> list[dict[str, Any]]:
    return [{"number": n, "day": dt.date(2026, 11, n)} for n in numbers]


def test_a_table_is_read_as_it_was_at_a_snapshot_a_time_a_branch_and_a_tag(lake: Lake) -> None:
    lake.make(NUMBER, DAY)
    for number in (1, 2, 3):
        lake.append(*days(number))
    snapshots = lake.table.snapshots()
    with lake.table.manage_snapshots() as manage:
        manage.create_tag(snapshots[0].snapshot_id, "first").create_branch(snapshots[1].snapshot_id, "audited")
    assert lake.numbers() == [1, 2, 3]
    assert lake.sources.newest == {f"{CATALOG}.{TABLE}": snapshots[2].snapshot_id}
    assert lake.numbers(snapshot=snapshots[1].snapshot_id) == [1, 2]
    assert lake.sources.newest == {}
    assert [lake.numbers(ref=ref) for ref in ("first", "audited", "main")] == [[1], [1, 2], [1, 2, 3]]
    at = dt.datetime.fromtimestamp(snapshots[1].timestamp_ms / 1_000, dt.UTC)
    assert lake.numbers(as_of=at.isoformat()) == [1, 2]
    assert lake.numbers(as_of="2100-01-01T00:00:00") == [1, 2, 3]
    rows = lake.read()
    lake.append(*days(4))
    assert rows.count() == 3, "the version is that of when it was read"
    with pytest.raises(TableUnusable, match=r"snapshot not found: 5 of the table lake\.shop\.sales; it may .* has \d+, \d+, \d+, \d+$"):
        lake.read(snapshot=5)
    with pytest.raises(
        TableUnusable,
        match=r"branch or tag not found: 'frist' of the table lake\.shop\.sales \(did you mean 'first'\?\); it has audited, first, main",
    ):
        lake.read(ref="frist")
    with pytest.raises(
        TableUnusable, match=r"snapshot not found: as of 2001-01-01T00:00:00\+00:00 the table lake\.shop\.sales had none; its"
    ):
        lake.read(as_of="2001-01-01T00:00:00")


@pytest.mark.parametrize(
    ("where", "numbers", "files"),
    [
        ("day >= DATE '2026-11-03'", [3, 4], 2),
        ("DAY = '2026-11-03'", [3], 1),
        ("`day` < :day", [1, 2], 2),
        ("number > 3 AND day IS NOT NULL", [4], 1),
        ("NOT (number > 1 OR day IS NULL)", [1], 1),
        ("number BETWEEN 2 AND 3", [2, 3], 2),
        ("number NOT IN (1, 2)", [3, 4, 5], 5),
        ("day != DATE '2026-11-01'", [2, 3, 4], 4),
        ("day IS NULL", [5], 1),
        ("number > 100", [], 0),
        ("number = :number", [2], 1),
        ("true", [1, 2, 3, 4, 5], 5),
        # The day of one file is null.
        ("day < DATE '2026-11-02' OR number = 5", [1, 5], 2),
    ],
)
def test_where_leaves_out_the_rows_and_does_not_even_read_files_that_have_none(
    lake: Lake, where: str, numbers: list[int], files: int
) -> None:
    lake.make(NUMBER, DAY, by=[BY_DAY])
    lake.append(*days(1, 2, 3, 4), {"number": 5})
    rows = lake.read({"day": dt.date(2026, 11, 3), "number": 2}, where=where)
    assert sorted(row.number for row in rows.collect()) == numbers
    assert len(rows.inputFiles()) == files


def test_where_leaves_out_files_of_an_older_version_by_the_columns_that_it_has(lake: Lake) -> None:
    lake.make(NUMBER, field(2, "other", t.LongType()))
    version = lake.append({"number": 1, "other": 100}).current_snapshot()
    assert version is not None
    for old, new in (("number", "renamed"), ("other", "number")):
        with lake.table.update_schema() as update:
            update.rename_column(old, new)
    lake.append({"renamed": 1, "number": 100})
    assert lake.rows(snapshot=version.snapshot_id, where="number = 1") == [{"number": 1, "other": 100}]
    assert lake.rows(snapshot=version.snapshot_id, where="number = 100") == []


def test_where_compares_values_of_each_type_as_sql_does_whatever_the_statistics(lake: Lake) -> None:
    lake.make(*[field(n, name, kind) for n, (name, (kind, _)) in enumerate(KINDS.items(), 1)], field(50, "tz", t.TimestamptzType()))
    values = {name: value for name, (_, value) in KINDS.items()}
    row = values | {"uu": values["uu"].bytes, "tz": AT}
    lake.append(row, dict.fromkeys(row), row | {"do": math.nan, "st": "it's 100% :name"})
    for where, count in {
        "de = 1.25 and de < 2 and de > 1.2": 2,
        "di >= 123456789012345678.1234": 2,
        "do > 0": 1,
        "do is nan": 1,
        "do != 5": 2,
        "fl = 0.5": 2,
        "bo = true": 2,
        "st like 'ü%'": 1,
        "st not like 'ü%'": 1,
        "st = 'it''s 100% :name'": 1,
        "da = DATE '0001-01-01'": 2,
        "ts < TIMESTAMP '2026-01-01 01:02:03.000005'": 2,
        "ts < '2026-01-01 01:02:03.000004'": 0,
        "tz = TIMESTAMP '2026-01-01 02:02:03.000004+01:00'": 2,
        "tz <= '2026-01-01 01:02:03.000004'": 2,
        "ti > '01:02'": 2,
        "uu = '00000000-1111-2222-3333-0123456789ab'": 2,
        "bi is null": 1,
        "tz > :at": 2,
    }.items():
        assert len(lake.rows({"at": AT - dt.timedelta(seconds=1)}, where=where)) == count, where


@pytest.mark.parametrize("column", [name for name, each in COLUMNS.items() if not isinstance(each.kind, t.TimeType | t.UUIDType)])
def test_a_condition_holds_for_the_rows_for_which_spark_sql_says_so(session: SparkSession, column: str) -> None:
    schema, values = Schema(field(1, column, COLUMNS[column].kind)), COLUMNS[column].values
    rows = session.createDataFrame(pa.table({column: pa.array(values, schema.as_arrow().field(0).type)}))
    cases = list(cases_of(column))
    if isinstance(COLUMNS[column].kind, t.IntegerType | t.LongType):
        # Spark takes a comparison with more than a long for true or false even of null.
        cases = [case for case in cases if all(-(2**63) <= int(each) < 2**63 for each in re.findall(r"-?\d+", case.text))]
    cases = random.Random(3).sample(cases, min(len(cases), CASES))
    found = []
    for case in cases:
        bound = bind(schema, condition_of(case.text, schema, {}), case_sensitive=False)
        said = re.sub(r"(\w+) IS NAN", r"isnan(\1)", case.text)
        found.append(f.struct(*[f.coalesce(each, f.expr("false")) for each in (f.expr(said), iceberg_rows.fulfils(bound, schema))]))
    session.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        answers = rows.select(column, *[each.alias(f"c{number}") for number, each in enumerate(found)]).collect()
    finally:
        session.conf.unset("spark.sql.session.timeZone")
    for value, *of_row in answers:
        for case, (said_by_spark, is_found) in zip(cases, of_row, strict=True):
            assert said_by_spark == is_found, (case.text, value)


def test_a_where_that_is_no_condition_on_the_columns_is_refused_with_the_table_and_the_reason(lake: Lake) -> None:
    lake.make(NUMBER, DAY)
    says = r"invalid where of the source, which is the table lake\.shop\.sales: 'dya > 1': column not found: 'dya' \(did you mean 'day'"
    with pytest.raises(TableUnusable, match=says):
        lake.read(where="dya > 1")


def delete_by_position(
    table: Table, *deleted: tuple[str, int], by_value: bool = False, day: dt.date | None = None, partition: int | None = None
) -> None:
    """Commit a file that says which rows are deleted, as engines write it that leave the files of a table as they are."""
    path = f"{table.location()}/data/{uuid.uuid4().hex}.parquet"
    rows = {"file_path": pa.array([file for file, _ in deleted]), "pos": pa.array([position for _, position in deleted], pa.int64())}
    with table.io.new_output(path).create() as stream:
        pq.write_table(pa.table(rows), stream)
    file = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES if by_value else DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(partition) if partition is not None else Record() if day is None else Record((day - dt.date(1970, 1, 1)).days),
        record_count=len(deleted),
        file_size_in_bytes=len(table.io.new_input(path)),
        spec_id=table.spec().spec_id,
        equality_ids=[1] if by_value else None,
    )
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as appending:
        appending.append_data_file(file)


def test_rows_that_are_deleted_by_their_position_are_left_out_also_where_groups_of_rows_are_skipped(lake: Lake) -> None:
    lake.make(NUMBER, DAY, **{TableProperties.PARQUET_ROW_GROUP_LIMIT: "3"})
    table = lake.append(*days(*range(1, 13)))
    table = lake.append(*days(*range(13, 19)))
    lake.append(*days(20))
    files = {task.file.record_count: task.file.file_path for task in table.scan().plan_files()}
    delete_by_position(lake.table, (files[12], 0), (files[12], 7), (files[12], 11))
    assert lake.numbers() == [2, 3, 4, 5, 6, 7, *range(9, 12), *range(13, 19), 20]
    assert [(each.rows, each.size_bytes > 0) for each in lake.sources.read] == [(16, True)]
    delete_by_position(lake.table, (files[6], 5), (files[12], 7), (files[12], 8))
    assert lake.numbers() == sorted(lake.table.scan().to_arrow()["number"].to_pylist())
    assert lake.numbers() == [2, 3, 4, 5, 6, 7, 10, 11, *range(13, 18), 20]
    assert lake.numbers(where="number > 7 and number < 14") == [10, 11, 13]


MAGIC = b"PFA1"


def delete_by_vector(table: Table, file: str, *positions: int, claims: int | None = None) -> None:
    """Commit a deletion vector of a file, in a Puffin file as the specification has it; it claims to have so many positions."""
    bitmap = BitMap(positions).serialize()
    vector = b"\xd1\xd3\x39\x64" + (1).to_bytes(8, "little") + (0).to_bytes(4, "little") + bitmap
    blob = len(vector).to_bytes(4, "big") + vector + zlib.crc32(vector).to_bytes(4, "big")
    about = {"referenced-data-file": file, "cardinality": str(len(positions))}
    place = {"type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1, "offset": 4, "length": len(blob)}
    footer = json.dumps({"blobs": [place | {"properties": about}]}).encode()
    path = f"{table.location()}/data/{uuid.uuid4().hex}.puffin"
    with table.io.new_output(path).create() as stream:
        stream.write(MAGIC + blob + MAGIC + footer + len(footer).to_bytes(4, "little") + bytes(4) + MAGIC)
    deletes = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PUFFIN,
        partition=Record(),
        record_count=len(positions) if claims is None else claims,
        file_size_in_bytes=len(table.io.new_input(path)),
        spec_id=table.spec().spec_id,
    )
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as appending:
        appending.append_data_file(deletes)


def test_rows_that_are_deleted_by_a_vector_are_left_out_and_one_that_is_not_whole_is_refused(lake: Lake) -> None:
    lake.make(NUMBER, DAY)
    [task] = lake.append(*days(1, 2, 3, 4, 5)).scan().plan_files()
    delete_by_vector(lake.table, task.file.file_path, 0, 3)
    assert lake.numbers() == [2, 3, 5]
    assert lake.numbers(where="number > 3") == [5]
    delete_by_vector(lake.table, task.file.file_path, 1, claims=2)
    with pytest.raises(TableUnusable, match=r"the table lake\.shop\.sales has 2 deleted rows of .*\.parquet, and .*\.puffin has 1: re"):
        lake.read()


def test_a_table_with_more_deleted_rows_or_files_than_can_be_told_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.make(NUMBER, DAY)
    [task] = lake.append(*days(1, 2, 3)).scan().plan_files()
    delete_by_position(lake.table, (task.file.file_path, 0), (task.file.file_path, 1))
    monkeypatch.setattr(iceberg_scan, "MAX_DELETED", 1)
    with pytest.raises(TableUnusable, match="has 2 deleted rows in the files to be read; at most 1 can be left out: rewrite"):
        lake.read()
    monkeypatch.setattr(iceberg_scan, "MAX_FILES", 0)
    with pytest.raises(TableUnusable, match=r"has 1 files to be read; at most 0 can be: rewrite its files .*'where'"):
        lake.read()


def test_a_file_that_spark_calls_otherwise_fails_the_query_and_brings_no_deleted_row_back(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.make(NUMBER, DAY)
    [task] = lake.append(*days(1, 2, 3)).scan().plan_files()
    delete_by_position(lake.table, (task.file.file_path, 0))
    monkeypatch.setattr(iceberg_rows, "place_key", lambda path: path)
    rows = lake.read()
    with pytest.raises(SparkRuntimeException, match=r"the table lake\.shop\.sales has no file that Spark calls tmp/"):
        rows.collect()


def test_what_is_replaced_is_what_was_read_though_the_sink_looks_at_the_table_later(lake: Lake, tmp_path: Path) -> None:
    lake.catalog = catalog_in(tmp_path / "plain")
    lake.make(NUMBER, DAY)
    lake.append(*days(1, 2))
    rows, read = lake.read(), lake.sources.newest
    lake.append(*days(3))
    written = {"table": {"catalog": CATALOG, "name": TABLE, "mode": "overwrite"}, "format": "iceberg"}
    sink = BatchSinkDocument.model_validate(written).to_record()
    with pytest.raises(SinkUnavailable, match="another writer changed at the same time what is replaced"):
        write_to_iceberg(rows, sink, [lake.catalog], "cluster", AttemptId("job", "vertex", 0, 1), read)
    assert lake.numbers() == [1, 2, 3]
    rows, read = lake.read(), lake.sources.newest
    assert write_to_iceberg(rows, sink, [lake.catalog], "cluster", AttemptId("job", "vertex", 0, 2), read).rows == 3
    assert lake.numbers() == [1, 2, 3]


def test_a_merge_brings_no_deleted_row_back(lake: Lake) -> None:
    lake.make(NUMBER, DAY)
    [task] = lake.append(*days(1, 2, 3)).scan().plan_files()
    delete_by_position(lake.table, (task.file.file_path, 0), (task.file.file_path, 2))
    merged = {"table": {"catalog": CATALOG, "name": TABLE, "mode": "merge", "keys": ["number"]}, "format": "iceberg"}
    sink, attempt = BatchSinkDocument.model_validate(merged).to_record(), AttemptId("job", "vertex", 0, 1)
    rows = lake.session.sql("SELECT number, DATE '2026-02-01' AS day FROM VALUES (2L), (3L), (3L) AS t(number)")
    assert write_to_iceberg(rows, sink, [lake.catalog], "cluster", attempt).rows == 3
    assert lake.numbers() == [2, 3, 3]
    assert lake.numbers(where="day = DATE '2026-02-01'") == [2, 3, 3]


def compacted(lake: Lake, where: str | None = None, **parameters: Any) -> Compaction:
    return compact_table(lake.session, find_table(loaded(lake.catalog), TABLE), where, parameters, 3)


def files_by_day(table: Table) -> dict[int, int]:
    return Counter(task.file.partition[0] for task in table.scan().plan_files())


def by_two_days(lake: Lake) -> None:
    """Make a table with four files of one day, two of another, and one of a third with a deleted row."""
    lake.make(NUMBER, field(2, "day", t.IntegerType()), by=[BY_DAY])
    for number, day in enumerate((1, 1, 1, 1, 2, 2)):
        lake.append({"number": number, "day": day})
    lake.append({"number": 6, "day": 3}, {"number": 7, "day": 3})
    [task] = lake.table.scan(row_filter="day = 3").plan_files()
    delete_by_position(lake.table, (task.file.file_path, 1), partition=3)


def test_a_compaction_replaces_what_is_small_or_has_deleted_rows_and_no_row_is_lost_or_comes_back(lake: Lake) -> None:
    by_two_days(lake)
    lake.append({"number": 7, "day": 4})
    [task] = lake.table.scan(row_filter="day = 4").plan_files()
    delete_by_position(lake.table, (task.file.file_path, 0), partition=4)
    done = compacted(lake)
    assert (done.partitions, done.files_before, done.files_after, done.rows, done.bytes_after > 0) == (3, 6, 2, 5, True)
    assert (files_by_day(lake.table), lake.numbers()) == ({1: 1, 2: 2, 3: 1}, list(range(7)))
    assert not any(task.delete_files for task in lake.table.scan().plan_files())
    assert sorted(lake.table.scan().to_arrow()["number"].to_pylist()) == list(range(7))
    assert compacted(lake).partitions == 0
    for number in (8, 9):
        lake.append({"number": number, "day": 1}, {"number": number, "day": 2})
    assert compacted(lake, "DAY = :day", day=2).partitions == 1
    assert files_by_day(lake.table) == {1: 3, 2: 1, 3: 1}


def test_a_compaction_leaves_the_partitions_that_others_change_meanwhile(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    by_two_days(lake)
    commit = IcebergTable.replace_files
    changes = [lambda: lake.table.overwrite(arrow(lake, number=99, day=1), "day = 1"), lambda: lake.append({"number": 7, "day": 3})]

    def interrupted(table: IcebergTable, *arguments: Any) -> None:
        if changes:
            changes.pop(0)()
        commit(table, *arguments)

    monkeypatch.setattr(IcebergTable, "replace_files", interrupted)
    done = compacted(lake)
    assert (done.partitions, done.files_before, done.rows) == (1, 1, 1)
    assert (files_by_day(lake.table), lake.numbers()) == ({1: 1, 2: 2, 3: 2}, [4, 5, 6, 7, 99])
    there = {Path(task.file.file_path.removeprefix("file://")) for task in lake.table.scan().plan_files()}
    assert set(Path(lake.table.location().removeprefix("file://")).glob("data/eventflink-*/**/*.parquet")) <= there


def test_nothing_is_compacted_or_merged_if_spark_reads_another_number_of_rows(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    by_two_days(lake)
    read = iceberg_rows.read_scan

    def read_less(*arguments: Any, path_column: str = "") -> DataFrame:
        rows = read(*arguments, path_column=path_column)
        return rows if path_column else rows.where("number != 3")

    for module in (iceberg_upkeep, iceberg_merge):
        monkeypatch.setattr(module, "read_scan", read_less)
    with pytest.raises(
        TableUnusable, match=r"the table lake\.shop\.sales was not compacted: its files have 4 rows by the catalogue, such as .*"
    ):
        compacted(lake)
    merged = {"table": {"catalog": CATALOG, "name": TABLE, "mode": "merge", "keys": ["day"], "partition_by": ["day"]}, "format": "iceberg"}
    sink, attempt = BatchSinkDocument.model_validate(merged).to_record(), AttemptId("job", "vertex", 0, 1)
    with pytest.raises(
        TableUnusable, match=r"nothing was merged into the table lake\.shop\.sales: of 4 rows in the files to be replaced, .* 3"
    ):
        write_to_iceberg(lake.session.sql("SELECT 9L AS number, 1 AS day"), sink, [lake.catalog], "cluster", attempt)
    assert lake.numbers() == list(range(7))


def arrow(lake: Lake, **row: Any) -> pa.Table:
    return pa.Table.from_pylist([row], schema=lake.table.schema().as_arrow())


def test_a_compaction_that_cannot_be_done_is_refused(lake: Lake) -> None:
    lake.make(NUMBER, field(2, "id", t.UUIDType()))
    assert compacted(lake).partitions == 0
    for number in range(3):
        lake.append({"number": number})
    with pytest.raises(
        TableUnusable, match=r"invalid where of a compaction of the table lake\.shop\.sales: 'nubmer = 1': column not found"
    ):
        compacted(lake, "nubmer = 1")
    with pytest.raises(
        TableUnusable, match=r"the rows of the table lake\.shop\.sales cannot be written again: Spark has no such type as uuid"
    ):
        compacted(lake)


def test_the_log_of_an_attempt_says_which_version_it_read(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    lake.make(NUMBER, DAY)
    snapshot = lake.append(*days(1, 2)).snapshots()[0].snapshot_id
    with caplog.at_level("INFO"):
        lake.read()
    assert [each.snapshot for each in lake.sources.read] == [SourceSnapshot("sales", snapshot)]
    assert f"TableRead source=sales table=lake.shop.sales snapshot={snapshot} files=1 bytes=" in caplog.text


def test_files_that_spark_does_not_read_are_refused(lake: Lake) -> None:
    lake.make(NUMBER, by=[PartitionField(1, 1_000, IdentityTransform(), "number")])
    add_file(lake.table, Path(__file__), 1, 1, FileFormat.ORC)
    with pytest.raises(TableUnusable, match=r"the table lake\.shop\.sales has files of ORC, such as .*, and sources read those of P"):
        lake.read()


def test_rows_that_are_deleted_by_their_values_let_the_table_be_refused(lake: Lake) -> None:
    lake.make(NUMBER, DAY)
    lake.append(*days(1, 2))
    delete_by_position(lake.table, ("x", 1), by_value=True)
    with pytest.raises(
        TableUnusable, match=r"the table lake\.shop\.sales has rows that are deleted by their values .*: rewrite its files by a com"
    ):
        lake.read()


def test_files_without_ids_are_read_by_the_mapping_of_names_and_lack_what_stands_in_the_table_alone(lake: Lake, tmp_path: Path) -> None:
    nested = field(4, "ne", t.StructType(field(5, "x", t.LongType())))
    listed = field(6, "li", t.ListType(7, t.StructType(field(8, "v", t.LongType())), element_required=False))
    lake.make(NUMBER, DAY, nested, listed, by=[BY_DAY])
    plain = tmp_path / "plain+1.parquet"
    columns = {
        "number": [1, 2],
        "day": [dt.date(2026, 11, 1)] * 2,
        "ne": [{"x": 5}, None],
        "li": [[{"v": 3}, None], None],
        "unknown": ["u", "u"],
    }
    kind = pa.schema(
        [
            ("number", pa.int32()),
            ("day", pa.date32()),
            ("ne", pa.struct([("x", pa.int32())])),
            ("li", pa.list_(pa.struct([("v", pa.int32())]))),
        ]
    )
    pq.write_table(pa.table({name: columns[name] for name in kind.names}, schema=kind), plain)
    lake.table.add_files([str(plain)])
    with lake.table.update_schema() as update:
        update.rename_column("number", "renamed")
        update.rename_column("ne.x", "y")
        update.rename_column("li.element.v", "w")
        update.add_column("more", t.LongType())
    # What a migration of a table of Hive leaves: the values of the partition stand in the names of directories, and in the table.
    pq.write_table(pa.table({"number": pa.array([3, 4]), "unknown": ["u", "u"]}), plain.with_name("of hive.parquet"))
    add_file(lake.table, plain.with_name("of hive.parquet"), (dt.date(2026, 11, 7) - dt.date(1970, 1, 1)).days, 2)
    lake.append({"renamed": 9, "day": dt.date(2026, 11, 9), "more": 90})
    rows = sorted(lake.rows(), key=lambda row: row["renamed"])
    assert [(row["renamed"], row["day"].day, row["more"]) for row in rows] == [
        (1, 1, None),
        (2, 1, None),
        (3, 7, None),
        (4, 7, None),
        (9, 9, 90),
    ]
    assert (rows[0]["ne"], rows[0]["li"], rows[1]["ne"], rows[2]["ne"]) == ({"y": 5}, [{"w": 3}, None], None, None)
    assert [row["renamed"] for row in lake.rows(where="day = '2026-11-07' and renamed > 3")] == [4]
    delete_by_position(lake.table, (str(plain), 0), day=dt.date(2026, 11, 1))
    delete_by_position(lake.table, (str(plain.with_name("of hive.parquet")), 1), day=dt.date(2026, 11, 7))
    assert sorted(row["renamed"] for row in lake.rows()) == [2, 3, 9]


def test_a_double_that_stands_in_the_table_alone_is_refused(lake: Lake, tmp_path: Path) -> None:
    half = field(2, "half", t.DoubleType())
    lake.make(NUMBER, half, by=[PartitionField(2, 1_000, IdentityTransform(), "half")], **{TableProperties.DEFAULT_NAME_MAPPING: MAPPING})
    path = tmp_path / "of hive.parquet"
    pq.write_table(pa.table({"number": pa.array([3, 4])}), path)
    add_file(lake.table, path, 0.1, 2)
    with pytest.raises(TableUnusable, match=r"has the file .*of hive.parquet without column 'half', a double by which the table is part"):
        lake.read()


def add_file(table: Table, path: Path, value: float, rows: int, kind: FileFormat = FileFormat.PARQUET) -> None:
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=str(path),
        file_format=kind,
        partition=Record(value),
        record_count=rows,
        file_size_in_bytes=path.stat().st_size,
        spec_id=table.spec().spec_id,
    )
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as appending:
        appending.append_data_file(file)


def test_a_table_partitioned_by_what_is_made_of_columns_is_read_as_any_other(lake: Lake, tmp_path: Path) -> None:
    table = lake.make(NUMBER, field(2, "at", t.TimestampType()), by=[PartitionField(2, 1_000, DayTransform(), "of_day")])
    for number in range(1, 8):
        path, at = tmp_path / f"{number}.parquet", dt.datetime(2026, 11, number, 12)  # noqa: DTZ001 - it has no zone
        pq.write_table(pa.Table.from_pylist([{"number": number, "at": at}], schema=table.schema().as_arrow()), path)
        add_file(lake.table, path, (at.date() - dt.date(1970, 1, 1)).days, 1)
    with lake.table.update_spec() as update:
        update.remove_field("of_day")
    lake.append({"number": 8, "at": dt.datetime(2026, 11, 8)})  # noqa: DTZ001 - likewise
    assert lake.numbers() == list(range(1, 9))
    rows = lake.read(where="at >= '2026-11-06' and number != 7")
    assert (sorted(row.number for row in rows.collect()), len(rows.inputFiles())) == ([6, 8], 3)


def test_what_the_session_reads_besides_is_read_as_ever(lake: Lake, tmp_path: Path) -> None:
    lake.make(NUMBER)
    lake.append({"number": 1})
    assert lake.numbers() == [1]
    assert lake.session.conf.get(BY_IDS) == "true"
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "f.parquet")
    assert lake.session.read.parquet(str(tmp_path / "f.parquet")).collect() == [(1, "x")]
    [task] = lake.table.scan().plan_files()
    read = lake.session.read.parquet(spark_path(task.file.file_path, TABLE))
    assert (read.collect(), [column.metadata for column in read.schema.fields]) == ([(1,)], [{}])


def test_what_is_not_there_is_named_with_what_is(lake: Lake) -> None:
    lake.make(NUMBER)
    with pytest.raises(TableUnusable, match="catalogue of Iceberg 'sea' not found: this TaskExecutor has lake; name one of these, or add"):
        lake.read(catalog="sea")
    with pytest.raises(
        TableUnusable, match=r"table of Iceberg not found: 'shop.sale' in the catalogue 'lake' \(did you mean 'shop.sales'\?\); its"
    ):
        lake.read(name="shop.sale")
    with pytest.raises(
        TableUnusable, match=r"table of Iceberg not found: 'bar.sales' in the catalogue 'lake'; its namespace has none: name"
    ):
        lake.read(name="bar.sales")


def test_a_catalogue_that_does_not_answer_is_asked_again_and_then_blamed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.make(NUMBER)
    lake.append({"number": 1})
    load, tries = SqlCatalog.load_table, [0]

    def fails_twice(catalog: SqlCatalog, identifier: str) -> Table:
        tries[0] += 1
        if tries[0] < 3:
            raise ConnectionError("nobody answers")
        return load(catalog, identifier)

    monkeypatch.setattr(SqlCatalog, "load_table", fails_twice)
    assert (lake.numbers(), tries) == ([1], [3])
    tries[0] = -100
    with pytest.raises(
        SourceUnavailable, match=r"source 'sales', the table lake\.shop\.sales, was not read: the catalogue of Iceberg 'lake' fa"
    ):
        lake.read()
