"""Which rows fulfil the `where` of a source of Iceberg.

What is right says `Case.holds`: SQL's logic of three values on the values of Python. It knows nothing of the conditions of pyiceberg.
"""

import datetime as dt
import math
import random
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg import types as t
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import BoundBooleanExpressionVisitor, bind, visit
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, time_to_micros

from eventflink.streams.iceberg_conditions import condition_of
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
