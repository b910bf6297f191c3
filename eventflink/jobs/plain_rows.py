"""The rows of a result as values of Python; how JSON and tables show those is `model/plain_values.py`.

The rule: no value makes a row unreadable. What Python has no value for is its text.
"""

import datetime as dt
import json
from collections.abc import Hashable
from typing import Any, Final

import pyarrow as pa

SPARK_SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"
"""Under which key of a file Spark says which types its columns have."""
_VARIANT: Final = "variant"
_INTERVAL: Final = "interval "
"""How Spark's names of intervals begin, such as `interval day to second`."""


def python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as Python's values; a map is a dict, and a date or time outside of the years 1 to 9999 is its text."""
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*python_columns(table), strict=True)]


def python_columns(table: pa.Table) -> list[list[Any]]:
    """Return the values of each column, as `python_rows` has them."""
    kinds = _kinds_of_spark(table.schema.metadata or {})
    return [
        [_as_spark_has_it(value, kinds[name]) for value in python_values(column)] if name in kinds else python_values(column)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]


def _kinds_of_spark(metadata: dict[bytes, bytes]) -> dict[str, Any]:
    """Return the types, as Spark's JSON has them, of the columns in which there is what Parquet has no type for.

    To Parquet a variant is a struct of bytes, and an interval a number of months or microseconds.
    """
    schema = metadata.get(SPARK_SCHEMA, b"{}").decode()
    marks = f'"{_VARIANT}"', f'"{_INTERVAL}'
    if not any(mark in schema for mark in marks):
        return {}
    kinds = {field["name"]: field["type"] for field in json.loads(schema)["fields"]}
    return {name: kind for name, kind in kinds.items() if any(mark in json.dumps(kind) for mark in marks)}


def _as_spark_has_it(value: Any, kind: Any) -> Any:
    """Return a value of a type of Spark with what its variants and intervals are."""
    if value is None:
        return None
    if isinstance(kind, str):
        return _variant_value(value) if kind == _VARIANT else _interval(value, kind) if kind.startswith(_INTERVAL) else value
    match kind["type"]:
        case "struct":
            kinds = {field["name"]: field["type"] for field in kind["fields"]}
            return {name: _as_spark_has_it(each, kinds[name]) if name in kinds else each for name, each in value.items()}
        case "array":
            return [_as_spark_has_it(each, kind["elementType"]) for each in value]
        case "map" if isinstance(value, dict):
            return {_as_spark_has_it(key, kind["keyType"]): _as_spark_has_it(each, kind["valueType"]) for key, each in value.items()}
    return value


def _interval(count: int, kind: str) -> Any:
    """Return months as a text, and microseconds as a duration."""
    return f"{count} months" if "year" in kind or "month" in kind else dt.timedelta(microseconds=count)


def _variant_value(stored: dict[str, Any]) -> Any:
    if set(stored) != {"value", "metadata"}:  # Somebody else's file, whose parts are columns of their own.
        return stored
    from pyspark.sql.variant_utils import VariantUtils  # noqa: PLC0415 - few results have one

    try:
        return VariantUtils.to_python(stored["value"], stored["metadata"])
    except Exception:  # noqa: BLE001 - whatever is wrong with its bytes: they are shown
        return stored


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column, as `python_rows` has them."""
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
        if pa.types.is_interval(column.type):
            return [value and f"{value.months} months {value.days} days {value.nanoseconds} ns" for value in values]
    except (ValueError, OverflowError, TypeError, KeyError):  # Of one value; all others are as ever.
        return [_python_value(scalar) for scalar in column]
    return values


def _python_value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py(maps_as_pydicts="strict")
    except (ValueError, OverflowError, TypeError, KeyError):
        pass
    match scalar:
        case pa.MapScalar():
            pairs = [(_python_value(entry["key"]), _python_value(entry["value"])) for entry in scalar.values]
            value: Any = dict(pairs) if all(isinstance(key, Hashable) for key, _ in pairs) else pairs
        case pa.ListScalar() | pa.LargeListScalar():
            value = [_python_value(each) for each in scalar.values]
        case pa.StructScalar():
            value = {name: _python_value(scalar[name]) for name in scalar}
        case pa.Date32Scalar():
            value = _date_text(scalar.value)
        case pa.TimestampScalar():
            value = _time_text(scalar.value, scalar.type)
        case _:
            value = str(scalar)
    return value


def _time_text(count: int, kind: pa.TimestampType) -> str:
    seconds, parts = divmod(count, _PER_SECOND[kind.unit])
    days, seconds = divmod(seconds, _SECONDS_OF_A_DAY)
    time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    fraction = f".{parts:0{len(str(_PER_SECOND[kind.unit])) - 1}}" if parts else ""
    return f"{_date_text(days)}T{time}{fraction}{'+00:00' if kind.tz else ''}"


_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_SECONDS_OF_A_DAY: Final = 86_400
_DAYS_OF_400_YEARS: Final = 146_097


def _date_text(days: int) -> str:
    """Return the date so many days after 1970-01-01, of any year: the calendar repeats itself after 400 of them."""
    periods, day = divmod(days, _DAYS_OF_400_YEARS)
    date = dt.date(2000, 1, 1) + dt.timedelta(days=(day - 10_957) % _DAYS_OF_400_YEARS)  # 2000 began 10,957 days after 1970.
    year = date.year + 400 * periods - (400 if day < 10_957 else 0)  # noqa: PLR2004 - likewise
    return f"{'-' if year < 0 else ''}{abs(year):04}-{date:%m-%d}"
