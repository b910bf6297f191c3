"""Which rows fulfil the `where` of a source of Iceberg, and that the files of none of them are left out.

What is right says `Case.holds`: SQL's logic of three values on the values of Python. It knows nothing of the conditions of pyiceberg.
"""

import datetime as dt
import math
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyiceberg import types as t
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import BoundBooleanExpressionVisitor, bind, visit
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, time_to_micros

from eventflink.streams.iceberg_conditions import condition_of, files_with
from tests.support.iceberg_tables import TABLE, catalog_in, loaded
from tests.support.sql_conditions import COLUMNS, cases_of, random_cases

SCHEMA = Schema(*[t.NestedField(number, name, each.kind, required=False) for number, (name, each) in enumerate(COLUMNS.items(), 1)])


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


class InSql(BoundBooleanExpressionVisitor[bool | None]):  # type: ignore[misc] # pyiceberg may be missing
    """A condition without NOT on one row as Spark reads it; None is null."""

    def __init__(self, row: Record) -> None:
        self._row = row

    def _compared(self, term: Any, value: Any, compare: Callable[[Any, Any], bool]) -> bool | None:
        found = term.eval(self._row)
        if isinstance(found, float):
            found, value = ((math.isnan(each), 0.0 if math.isnan(each) else each) for each in (found, value))
        return None if found is None else compare(found, value)

    def visit_equal(self, term: Any, literal: Any) -> bool | None:
        return self._compared(term, literal.value, lambda a, b: a == b)

    def visit_not_equal(self, term: Any, literal: Any) -> bool | None:
        return self._compared(term, literal.value, lambda a, b: a != b)

    def visit_less_than(self, term: Any, literal: Any) -> bool | None:
        return self._compared(term, literal.value, lambda a, b: a < b)

    def visit_less_than_or_equal(self, term: Any, literal: Any) -> bool | None:
        return self._compared(term, literal.value, lambda a, b: a <= b)

    def visit_greater_than(self, term: Any, literal: Any) -> bool | None:
        return self._compared(term, literal.value, lambda a, b: a > b)

    def visit_greater_than_or_equal(self, term: Any, literal: Any) -> bool | None:
        return self._compared(term, literal.value, lambda a, b: a >= b)

    def visit_in(self, term: Any, literals: Any) -> bool | None:
        return self._compared(term, 0.0, lambda _a, _b: term.eval(self._row) in literals)

    def visit_not_in(self, term: Any, literals: Any) -> bool | None:
        return self._compared(term, 0.0, lambda _a, _b: term.eval(self._row) not in literals)

    def visit_starts_with(self, term: Any, literal: Any) -> bool | None:
        return self._compared(term, literal.value, lambda a, b: a.startswith(b))

    def visit_not_starts_with(self, term: Any, literal: Any) -> bool | None:
        return self._compared(term, literal.value, lambda a, b: not a.startswith(b))

    def visit_is_nan(self, term: Any) -> bool:
        return is_nan(term.eval(self._row))

    def visit_not_nan(self, term: Any) -> bool:
        return not is_nan(term.eval(self._row))

    def visit_is_null(self, term: Any) -> bool:
        return term.eval(self._row) is None

    def visit_not_null(self, term: Any) -> bool:
        return term.eval(self._row) is not None

    def visit_true(self) -> bool:
        return True

    def visit_false(self) -> bool:
        return False

    def visit_not(self, child_result: bool | None) -> bool | None:  # noqa: FBT001 - the method of pyiceberg
        raise AssertionError(f"a condition has no NOT: {child_result}")

    def visit_and(self, left_result: bool | None, right_result: bool | None) -> bool | None:  # noqa: FBT001 - likewise
        return False if False in {left_result, right_result} else None if None in {left_result, right_result} else True

    def visit_or(self, left_result: bool | None, right_result: bool | None) -> bool | None:  # noqa: FBT001 - likewise
        return True if True in {left_result, right_result} else None if None in {left_result, right_result} else False


def as_pyiceberg_has_it(value: Any) -> Any:
    match value:
        case dt.datetime():
            return datetime_to_micros(value.replace(tzinfo=None))
        case dt.date():
            return date_to_days(value)
        case dt.time():
            return time_to_micros(value)
        case uuid.UUID():
            return value.bytes
    return value


def fulfilled(bound: BooleanExpression, row: dict[str, Any]) -> bool:
    return bool(visit(bound, InSql(Record(*[as_pyiceberg_has_it(row.get(name)) for name in COLUMNS]))))


@pytest.mark.parametrize("column", COLUMNS)
def test_a_comparison_holds_for_the_rows_of_sql_whatever_the_value_and_its_negation(column: str) -> None:
    for case in cases_of(column):
        bound = bind(SCHEMA, condition_of(case.text, SCHEMA, {}), case_sensitive=False)
        for value in COLUMNS[column].values:
            row = {column: value}
            assert fulfilled(bound, row) == (case.holds(row) is True), (case.text, row, bound)


def test_comparisons_that_are_joined_hold_for_the_rows_of_sql() -> None:
    draw = random.Random(1)
    for case in random_cases(draw, list(COLUMNS), 60):
        bound = bind(SCHEMA, condition_of(case.text, SCHEMA, {}), case_sensitive=False)
        for _ in range(10):
            row = {name: draw.choice(each.values) for name, each in COLUMNS.items()}
            assert fulfilled(bound, row) == (case.holds(row) is True), (case.text, row, bound)


TRANSFORMS: dict[str, Sequence[Transform[Any, Any]]] = {
    "int_": [TruncateTransform(8), BucketTransform(2)],
    "decimal_": [TruncateTransform(9)],
    "string_": [TruncateTransform(2), BucketTransform(2)],
    "date_": [YearTransform(), MonthTransform()],
    "timestamp_": [DayTransform(), HourTransform()],
    "timestamptz_": [MonthTransform()],
}


def tables(directory: Path) -> Iterator[tuple[str, Table, dict[str, set[int]]]]:
    """Return tables of a column and a number, by various partitions and by none, each with its files and the numbers in them."""
    catalog = loaded(catalog_in(directory))
    catalog.create_namespace("shop")
    for column, values in COLUMNS.items():
        fields = [t.NestedField(1, column, values.kind, required=False), t.NestedField(2, "number", t.LongType(), required=False)]
        for transform in (None, IdentityTransform(), *TRANSFORMS.get(column, [])):
            by = [PartitionField(1, 1_000, transform, "part")] if transform is not None else []
            table = catalog.create_table(TABLE, Schema(*fields), partition_spec=PartitionSpec(*by))
            there = list(map(as_pyiceberg_has_it, values.values))
            rows, files = list(enumerate(there)), dict[str, set[int]]()
            with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
                for part in [[each] for each in rows] if by else [rows[:2], rows[2:4], rows[4:]]:
                    partition = [transform.transform(values.kind)(part[0][1])] if transform is not None else []
                    columns = {1: [value for _, value in part], 2: [number for number, _ in part]}
                    file = data_file(f"{directory}/{len(files)}", Record(*partition), columns, fields)
                    append.append_data_file(file)
                    files[file.file_path] = {number for number, _ in part}
            yield column, table, files
            catalog.drop_table(TABLE)


def data_file(path: str, partition: Record, columns: dict[int, list[Any]], fields: Sequence[t.NestedField]) -> DataFile:
    """Return a file as the table knows it: it is never read."""
    known = {number: [each for each in values if each is not None and not is_nan(each)] for number, values in columns.items()}
    kinds = {field.field_id: field.field_type for field in fields}
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=len(columns[2]),
        file_size_in_bytes=1,
        value_counts={number: len(values) for number, values in columns.items()},
        null_value_counts={number: values.count(None) for number, values in columns.items()},
        lower_bounds={number: to_bytes(kinds[number], min(values)) for number, values in known.items() if values},
        upper_bounds={number: to_bytes(kinds[number], max(values)) for number, values in known.items() if values},
    )


def test_no_file_with_rows_that_fulfil_a_condition_is_left_out_by_its_partition_or_statistics(tmp_path: Path) -> None:
    draw, left_out = random.Random(2), 0
    for column, table, files in tables(tmp_path):
        snapshot = table.current_snapshot()
        assert snapshot is not None
        for case in draw.sample(list(cases_of(column)), 4):
            holding = {number for number, value in enumerate(COLUMNS[column].values) if case.holds({column: value})}
            for text, numbers in ((case.text, holding), (f"({case.text}) OR number = 1", holding | {1})):
                found = files_with(table, condition_of(text, table.schema(), {}), snapshot.snapshot_id)
                planned = {task.file.file_path for task in found}
                assert {path for path, there in files.items() if there & numbers} <= planned, (text, table.spec())
                left_out += len(files) - len(planned)
    assert left_out > 200


def test_a_version_is_planned_by_the_names_that_its_columns_had(tmp_path: Path) -> None:
    catalog = loaded(catalog_in(tmp_path))
    catalog.create_namespace("shop")
    fields = [t.NestedField(1, "int_", t.IntegerType(), required=False), t.NestedField(2, "number", t.LongType(), required=False)]
    table = catalog.create_table(TABLE, Schema(*fields))
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(data_file("1", Record(), {1: [1], 2: [100]}, fields))
    snapshot, schema = table.current_snapshot(), table.schema()
    assert snapshot is not None
    for old, new in (("int_", "gone"), ("number", "int_")):
        with table.update_schema() as update:
            update.rename_column(old, new)
    for text, count in {"int_ = 1": 1, "int_ = 100": 0, "number = 100": 1}.items():
        assert len(files_with(table, condition_of(text, schema, {}), snapshot.snapshot_id, schema)) == count
    assert len(files_with(table, condition_of("int_ = 100", table.schema(), {}), snapshot.snapshot_id)) == 1
