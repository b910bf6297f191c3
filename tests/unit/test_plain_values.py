"""Whatever a row holds, it is shown: as a value of Python, as valid JSON, and in a table."""

import datetime as dt
import decimal
import json
import math
from typing import Any, NoReturn

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventflink.jobs.plain_rows import python_columns, python_rows
from eventflink.jobs.result import pandas_frame
from eventflink.model.plain_values import cell_text, json_text

_MICROSECONDS = st.integers(-(2**63) + 1, 2**63 - 1)
_DAYS = st.integers(-(2**31), 2**31 - 1)
_LEAVES = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats()),
    (pa.string(), st.text()),
    (pa.binary(), st.binary()),
    (pa.bool_(), st.booleans()),
    (pa.date32(), _DAYS),
    (pa.timestamp("us"), _MICROSECONDS),
    (pa.timestamp("us", "UTC"), _MICROSECONDS),
    (pa.timestamp("us", "Europe/Vienna"), _MICROSECONDS),
    (pa.duration("us"), _MICROSECONDS),
    (pa.decimal128(38, 18), st.decimals(-(10**19), 10**19, places=18)),
    (pa.month_day_nano_interval(), st.tuples(*[st.integers(-(2**31), 2**31 - 1)] * 3)),
    (pa.null(), st.none()),
]


def _nested(inner: st.SearchStrategy[tuple[pa.DataType, Any]]) -> st.SearchStrategy[tuple[pa.DataType, Any]]:
    def in_list(typed: tuple[pa.DataType, Any]) -> tuple[pa.DataType, Any]:
        return pa.list_(typed[0]), st.lists(st.none() | typed[1], max_size=3)

    def in_struct(typed: tuple[pa.DataType, Any]) -> tuple[pa.DataType, Any]:
        return pa.struct([("a", typed[0])]), st.fixed_dictionaries({"a": st.none() | typed[1]})

    def in_map(typed: tuple[pa.DataType, Any]) -> tuple[pa.DataType, Any]:
        return pa.map_(pa.string(), typed[0]), st.dictionaries(st.text(), st.none() | typed[1], max_size=3).map(lambda d: list(d.items()))

    return inner.map(in_list) | inner.map(in_struct) | inner.map(in_map)


_TYPED = st.recursive(st.sampled_from(_LEAVES), _nested, max_leaves=3)


def _no_constant(text: str) -> NoReturn:
    raise AssertionError(text)


@settings(max_examples=300)
@given(st.data())
def test_no_value_of_any_type_makes_a_row_unreadable(data: st.DataObject) -> None:
    kind, values = data.draw(_TYPED)
    column = data.draw(st.lists(st.none() | values, min_size=1, max_size=4))
    table = pa.table({"v": pa.array(column, kind)})
    rows = python_rows(table)
    assert [row["v"] is None for row in rows] == [value is None for value in column]
    assert [[row["v"] for row in rows]] == python_columns(table) or "nan" in str(rows).lower()
    text = json_text(rows)
    assert text.isprintable() or all(c.isprintable() or c in "\u200c\u200d" or not c.isascii() for c in text)
    assert len(json.loads(text, parse_constant=_no_constant)) == len(column)
    assert all(isinstance(cell_text(row["v"]), str) for row in rows)
    assert pandas_frame(table).shape == (len(column), 1)


@pytest.mark.parametrize(
    ("kind", "stored", "says"),
    [
        (pa.date32(), 2_932_897, "10000-01-01"),
        (pa.date32(), -719_163, "0000-12-31"),
        (pa.date32(), -719_529, "-0001-12-31"),
        (pa.date32(), -(2**31), "-5877641-06-23"),
        (pa.timestamp("us"), 253_402_300_800_000_000, "10000-01-01T00:00:00"),
        (pa.timestamp("us", "UTC"), 253_402_300_800_000_001, "10000-01-01T00:00:00.000001+00:00"),
        (pa.timestamp("us"), -62_135_596_800_000_001, "0000-12-31T23:59:59.999999"),
    ],
)
def test_a_date_that_python_does_not_have_is_its_text(kind: pa.DataType, stored: int, says: str) -> None:
    assert python_rows(pa.table({"v": pa.array([stored, 0, None], kind)}))[0] == {"v": says}


def test_a_frame_has_far_dates_as_pandas_has_dates_and_other_columns_as_ever() -> None:
    days = [pa.array([2_932_897, 0, None], pa.date32()), pa.array([0, 1, 2], pa.date32())]
    frame = pandas_frame(pa.table([*days, pa.array(["a", "b", "c"])], names=["far", "near", "far"]))
    assert list(frame.columns) == ["far", "near", "far"]
    assert [str(each) for each in frame.iloc[:2, 0]] == ["10000-01-01 00:00:00", "1970-01-01 00:00:00"]
    assert frame["near"].tolist() == [dt.date(1970, 1, day) for day in (1, 2, 3)]


@given(st.integers(-719_162, 2_932_896))
def test_a_date_is_the_same_text_by_python_s_calendar_and_by_ours(days: int) -> None:
    far = pa.array([2_932_897, days], pa.date32())
    assert json_text(python_rows(pa.table({"v": far}))[1]["v"]) == f'"{(dt.date(1970, 1, 1) + dt.timedelta(days)).isoformat()}"'


@pytest.mark.parametrize(
    ("value", "in_json", "in_a_cell"),
    [
        (None, "null", ""),
        (0.1 + 0.2, "0.30000000000000004", "0.30000000000000004"),
        (math.nan, '"NaN"', "NaN"),
        (-math.inf, '"-Infinity"', "-Infinity"),
        (b"\xff\0", '"/wA="', "/wA="),
        (decimal.Decimal("1E-10"), '"0.0000000001"', "0.0000000001"),
        ({1: [dt.date(2024, 1, 31)]}, '{"1": ["2024-01-31"]}', '{"1": ["2024-01-31"]}'),
        (dt.timedelta(seconds=1.5), '"1.5 s"', "1.5 s"),
        ("\x9b31m\u202e", '"\\u009b31m\\u202e"', "\x9b31m\u202e"),
        (True, "true", "true"),
    ],
)
def test_each_type_has_one_form(value: Any, in_json: str, in_a_cell: str) -> None:
    assert (json_text(value), cell_text(value)) == (in_json, in_a_cell)


def test_an_interval_of_spark_is_no_number() -> None:
    """Parquet has no intervals: the types are in what Spark says of the file."""
    day, month = "interval day to second", "interval year to month"
    of_map = {"type": "map", "keyType": month, "valueType": {"type": "array", "elementType": day}}
    of_struct = {"type": "struct", "fields": [{"name": "x", "type": month}, {"name": "n", "type": "long"}]}
    kinds = {"day": day, "month": month, "map": of_map, "struct": of_struct, "number": "long"}
    spark = json.dumps({"type": "struct", "fields": [{"name": name, "type": kind} for name, kind in kinds.items()]})
    columns = {
        "day": pa.array([1_500_000, -(2**63), None]),
        "month": pa.array([14, None, -1], pa.int32()),
        "map": pa.array([[(14, [0, None])], None, []], pa.map_(pa.int32(), pa.list_(pa.int64()))),
        "struct": pa.array([{"x": 1, "n": 2}, None, {"x": None, "n": None}]),
        "number": pa.array([1, 2, None]),
    }
    table = pa.table(columns).replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": spark})
    first, second, third = json.loads(json_text(python_rows(table)))
    assert first == {
        "day": "1.5 s",
        "month": "14 months",
        "map": {"14 months": ["0.0 s", None]},
        "struct": {"x": "1 months", "n": 2},
        "number": 1,
    }
    assert second == {"day": "-9223372036854.775 s", "month": None, "map": None, "struct": None, "number": 2}
    assert third == {"day": None, "month": "-1 months", "map": {}, "struct": {"x": None, "n": None}, "number": None}
