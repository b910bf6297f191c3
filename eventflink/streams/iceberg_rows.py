"""The rows of a table of Iceberg as a DataFrame of Spark, which reads the files that were planned (`iceberg_scan.py`).

What differs from file to file (how columns are found, which rows are deleted, which values stand in the table alone) makes groups of files,
each read by one relation. The rule it keeps: where Spark has to know which file a row is from, a row whose file is not known fails the
query; so a file that Spark calls otherwise never brings back rows that are deleted.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from eventflink.model.packages import needs
from eventflink.model.sql_script import quoted
from eventflink.streams.iceberg_scan import Scan, ScannedFile, place_key, spark_path

with needs("iceberg", "a table of Iceberg"):
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression, BoundTerm
    from pyiceberg.expressions.visitors import BoundBooleanExpressionVisitor, visit
    from pyiceberg.schema import Schema
    from pyiceberg.types import (
        BinaryType,
        DateType,
        DecimalType,
        FixedType,
        FloatType,
        IcebergType,
        ListType,
        MapType,
        StructType,
        TimestampType,
        TimestamptzType,
        TimeType,
        UUIDType,
    )

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

BY_IDS: Final = "spark.sql.parquet.fieldId.read.enabled"
"""Has Spark find the columns of Parquet by their ids, where the schema that it is told has some. It stays in the session: Spark looks at it
when a query runs."""

_FILE: Final = "eventflink__file"
_KEY: Final = "eventflink__key"
_POSITION: Final = "eventflink__position"
_FILLED: Final = "eventflink__filled_"
_MICROS: Final = 1_000_000


def read_scan(spark: "SparkSession", scan: Scan, *, path_column: str = "") -> "DataFrame":
    """Return the rows of a scan, with its columns, and with the `place_key` of its file in one more, where that has a name."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    spark.conf.set(BY_IDS, "true")
    groups: dict[tuple[str, tuple[int, ...], bool, bool], list[ScannedFile]] = {}
    for file in scan.files:
        groups.setdefault((file.columns.json(), tuple(file.filled), bool(file.deleted), file.is_plain), []).append(file)
    parts = [_read_group(spark, scan, files, path_column) for files in groups.values()]
    nothing = scan.columns.add(path_column, "string") if path_column and not parts else scan.columns
    raw = functools.reduce(lambda one, other: one.union(other), parts) if parts else spark.createDataFrame([], nothing)
    if scan.has_condition:
        raw = raw.where(fulfils(scan.condition, scan.schema))
    shown = [_shown(f.col(quoted(each.name)), each.field_type).alias(each.name, metadata={}) for each in scan.schema.fields]
    return raw.select(*shown, *([path_column] if path_column else []))


def fulfils(condition: BooleanExpression, schema: Schema) -> "Column":
    """Return whether rows fulfil a condition without NOT that is bound to their columns."""
    found: Column = visit(condition, _OnColumns(schema))
    return found


def _read_group(spark: "SparkSession", scan: Scan, files: Sequence[ScannedFile], path_column: str) -> "DataFrame":
    """Return the rows of files whose columns are found alike, without those that are deleted."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    first, fields = files[0], scan.schema.fields
    rows = spark.read.schema(first.columns).parquet(*[spark_path(file.path, scan.table) for file in files])
    if path_column or not first.is_plain:
        rows = _with_files(spark, rows, files, scan)
    if first.deleted:
        deleted = pa.table(
            {
                _FILE: pa.concat_arrays([pa.array([n] * len(array), pa.int32()) for n, file in enumerate(files) for array in file.deleted]),
                _POSITION: pa.concat_arrays([array for file in files for array in file.deleted]),
            }
        )
        rows = rows.join(spark.createDataFrame(deleted), [_FILE, _POSITION], "left_anti")
    selected = []
    for number, (there, wanted, field) in enumerate(zip(first.columns.fields, scan.columns.fields, fields, strict=True)):
        column = _value_of(f.col(f"{_FILLED}{number}"), field.field_type) if number in first.filled else f.col(quoted(there.name))
        selected.append(column.cast(wanted.dataType).alias(wanted.name))
    if path_column:
        selected.append(f.col(_KEY).alias(path_column))
    return rows.select(*selected)


def _with_files(spark: "SparkSession", rows: "DataFrame", files: Sequence[ScannedFile], scan: Scan) -> "DataFrame":
    """Return rows with the number of their file, their position in it, and what the table alone knows of all rows of the file."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    told = {_KEY: pa.array([place_key(file.path) for file in files]), _FILE: pa.array(range(len(files)), pa.int32())}
    for number in files[0].filled:
        kind = scan.schema.fields[number].field_type
        told[f"{_FILLED}{number}"] = pa.array([_told(file.filled[number], kind) for file in files], _told_type(kind))
    # Spark writes the names of files as URIs, in which a + is one.
    path = f.url_decode(f.replace(f.col("_metadata.file_path"), f.lit("+"), f.lit("%2B")))
    key = f.regexp_replace(path, r"^([A-Za-z][A-Za-z0-9+.-]*:)?/+", "")
    rows = rows.select("*", key.alias(_KEY), f.col("_metadata.row_index").alias(_POSITION))
    rows = rows.join(f.broadcast(spark.createDataFrame(pa.table(told))), _KEY, "left")
    unknown = f.concat(f.lit(f"the table {scan.table} has no file that Spark calls "), f.col(_KEY))
    return rows.withColumn(_FILE, f.coalesce(f.col(_FILE), f.raise_error(unknown).cast("int")))


def _told_type(kind: IcebergType) -> Any:
    """Return how Spark is told values of a type: `_value_of` makes them of that."""
    match kind:
        case DateType():
            return pa.int32()
        case TimestamptzType() | TimeType():
            return pa.int64()
        case UUIDType() | FixedType() | BinaryType():
            return pa.binary()
        case DecimalType() | TimestampType():
            return pa.string()
        case _:
            return None


def _told(value: Any, kind: IcebergType) -> Any:
    """Return a value, as pyiceberg has it, as Spark is told it."""
    if value is None:
        return None
    match kind:
        case UUIDType():
            return getattr(value, "bytes", value)
        case DecimalType():
            return str(value)
        case TimestampType():
            days, rest = divmod(value, 86_400 * _MICROS)
            return f"{_day(days)}T{_time(rest)}"
        case _:
            return value


def _day(days: int) -> str:
    import datetime as dt  # noqa: PLC0415

    return (dt.date(1970, 1, 1) + dt.timedelta(days)).isoformat()


def _time(micros: int) -> str:
    seconds, rest = divmod(micros, _MICROS)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:06}"


def _value_of(told: "Column", kind: IcebergType) -> "Column":
    """Return what Spark was told of a value as files have it."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    match kind:
        case DateType():
            return f.date_from_unix_date(told)
        case TimestamptzType():
            return f.timestamp_micros(told)
        case TimestampType():
            return told.cast("timestamp_ntz")
        case DecimalType():
            return told.cast(f"decimal({kind.precision}, {kind.scale})")
        case FloatType():
            return told.cast("float")
        case _:
            return told


def _shown(column: "Column", kind: IcebergType) -> "Column":
    """Return a column as people know it: a UUID and a time of day as texts, wherever they stand in it."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    found = column
    match kind if _is_shown_otherwise(kind) else None:
        case UUIDType():
            digits = f.lower(f.hex(column))
            parts = [digits.substr(start, length) for start, length in ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))]
            found = f.when(column.isNotNull(), f.concat_ws("-", *parts))
        case TimeType():
            found = _shown_time(column)
        case StructType():
            shown = [_shown(column.getField(each.name), each.field_type).alias(each.name) for each in kind.fields]
            found = f.when(column.isNotNull(), f.struct(*shown))
        case ListType():
            element = kind.element_type
            found = f.transform(column, lambda each: _shown(each, element))
        case MapType():
            key, value = kind.key_type, kind.value_type
            found = f.transform_values(f.transform_keys(column, lambda k, _: _shown(k, key)), lambda _, v: _shown(v, value))
    return found


def _shown_time(micros: "Column") -> "Column":
    from pyspark.sql import functions as f  # noqa: PLC0415 - likewise

    seconds = f.floor(micros / _MICROS)
    parts = [f.floor(seconds / 3_600), f.floor(seconds / 60) % 60, seconds % 60, micros % _MICROS]
    return f.when(micros.isNotNull(), f.format_string("%02d:%02d:%02d.%06d", *parts))


def _is_shown_otherwise(kind: IcebergType) -> bool:
    match kind:
        case UUIDType() | TimeType():
            return True
        case StructType():
            return any(_is_shown_otherwise(each.field_type) for each in kind.fields)
        case ListType():
            return _is_shown_otherwise(kind.element_type)
        case MapType():
            return _is_shown_otherwise(kind.key_type) or _is_shown_otherwise(kind.value_type)
        case _:
            return False


class _OnColumns(BoundBooleanExpressionVisitor["Column"]):  # type: ignore[misc] # pyiceberg may be missing
    """Makes a condition of Spark's of a bound one without NOT, as SQL has it: what is compared with null is not fulfilled."""

    def __init__(self, schema: Schema) -> None:
        from pyspark.sql import functions  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

        self._f = functions
        self._schema = schema

    def _column(self, term: BoundTerm) -> "Column":
        field = term.ref().field
        name = self._schema.find_column_name(field.field_id) or field.name
        if any(name == each.name for each in self._schema.fields):
            return self._f.col(quoted(name))
        first, *parts = name.split(".")
        return functools.reduce(lambda column, part: column.getField(part), parts, self._f.col(quoted(first)))

    def _value(self, term: BoundTerm, literal: Any) -> "Column":
        kind = term.ref().field.field_type
        return _value_of(self._f.lit(_told(getattr(literal, "value", literal), kind)), kind)

    def visit_in(self, term: BoundTerm, literals: Iterable[Any]) -> "Column":
        return self._column(term).isin(*[self._value(term, each) for each in literals])

    def visit_not_in(self, term: BoundTerm, literals: Iterable[Any]) -> "Column":
        return ~self.visit_in(term, literals)

    def visit_is_nan(self, term: BoundTerm) -> "Column":
        return self._f.isnan(self._column(term))

    def visit_not_nan(self, term: BoundTerm) -> "Column":
        return ~self._f.isnan(self._column(term))

    def visit_is_null(self, term: BoundTerm) -> "Column":
        return self._column(term).isNull()

    def visit_not_null(self, term: BoundTerm) -> "Column":
        return self._column(term).isNotNull()

    def visit_equal(self, term: BoundTerm, literal: Any) -> "Column":
        return self._column(term) == self._value(term, literal)

    def visit_not_equal(self, term: BoundTerm, literal: Any) -> "Column":
        return self._column(term) != self._value(term, literal)

    def visit_greater_than_or_equal(self, term: BoundTerm, literal: Any) -> "Column":
        return self._column(term) >= self._value(term, literal)

    def visit_greater_than(self, term: BoundTerm, literal: Any) -> "Column":
        return self._column(term) > self._value(term, literal)

    def visit_less_than(self, term: BoundTerm, literal: Any) -> "Column":
        return self._column(term) < self._value(term, literal)

    def visit_less_than_or_equal(self, term: BoundTerm, literal: Any) -> "Column":
        return self._column(term) <= self._value(term, literal)

    def visit_true(self) -> "Column":
        return self._f.lit(True)  # noqa: FBT003 - a value of SQL

    def visit_false(self) -> "Column":
        return self._f.lit(False)  # noqa: FBT003 - likewise

    def visit_not(self, child_result: "Column") -> "Column":
        return ~child_result

    def visit_and(self, left_result: "Column", right_result: "Column") -> "Column":
        return left_result & right_result

    def visit_or(self, left_result: "Column", right_result: "Column") -> "Column":
        return left_result | right_result

    def visit_starts_with(self, term: BoundTerm, literal: Any) -> "Column":
        return self._column(term).startswith(self._value(term, literal))

    def visit_not_starts_with(self, term: BoundTerm, literal: Any) -> "Column":
        return ~self.visit_starts_with(term, literal)
