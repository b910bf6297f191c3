"""The `where` of a source of Iceberg becomes a condition with values of the columns' types, or is refused with the reason."""

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pytest
from pyiceberg import types as t
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)
from pyiceberg.expressions.literals import DecimalLiteral, DoubleLiteral, FloatLiteral
from pyiceberg.schema import Schema

from eventflink.streams.iceberg_conditions import InvalidCondition, condition_of

KINDS: dict[str, t.IcebergType] = {
    "number": t.LongType(),
    "day": t.DateType(),
    "amount": t.DecimalType(9, 2),
    "big": t.DecimalType(38, 4),
    "half": t.DoubleType(),
    "note": t.StringType(),
    "at": t.TimestampType(),
    "in_utc": t.TimestamptzType(),
    "clock": t.TimeType(),
    "is_new": t.BooleanType(),
    "file": t.BinaryType(),
    "w.x": t.LongType(),
    "id": t.UUIDType(),
    "single": t.FloatType(),
    "part": t.StructType(t.NestedField(100, "is_there", t.IntegerType(), required=True)),
}
SCHEMA = Schema(*[t.NestedField(number, name, kind, required=False) for number, (name, kind) in enumerate(KINDS.items(), 1)])
AT = dt.datetime(2026, 11, 29, 2, 30, tzinfo=dt.timezone(dt.timedelta(hours=1)))
PARAMETERS: dict[str, Any] = {"day": dt.date(2026, 11, 29), "text": "it's :day", "least": 5, "at": AT, "huge": 1e99, "half": 0.5}
PARAMETERS["nan"] = math.nan
PARAMETERS["path"] = "C:\\a\tb"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("true", AlwaysTrue()),
        ("day >= DATE '2026-11-01'", GreaterThanOrEqual("day", "2026-11-01")),
        ("date '2026-11-01' > day", LessThan("day", "2026-11-01")),
        ("day = :day", EqualTo("day", "2026-11-29")),
        ("`day` IN (DATE '2026-11-01', :day)", In("day", {"2026-11-01", "2026-11-29"})),
        ("`w.x` = 1 OR w.x = 2", Or(EqualTo("w.x", 1), EqualTo("w.x", 2))),
        ("note = :text", EqualTo("note", "it's :day")),
        ("note = 'it''s DATE ''x'' and :none'", EqualTo("note", "it's DATE 'x' and :none")),
        ("note LIKE 'a%' OR NOT note LIKE 'b%'", Or(StartsWith("note", "a"), NotStartsWith("note", "b"))),
        ("NOT (number < :least AND day IS NOT NULL)", Or(GreaterThanOrEqual("number", 5), IsNull("day"))),
        (
            "number BETWEEN 1 AND 3 AND is_new != true",
            And(And(GreaterThanOrEqual("number", 1), LessThanOrEqual("number", 3)), NotEqualTo("is_new", True)),  # noqa: FBT003
        ),
        ("amount > 1", GreaterThan("amount", DecimalLiteral(Decimal("1.00")))),
        ("amount > :half", GreaterThan("amount", DecimalLiteral(Decimal("0.50")))),
        ("big = 1234567890123456789012345678901234.5", EqualTo("big", DecimalLiteral(Decimal("1234567890123456789012345678901234.5000")))),
        ("half = 1", EqualTo("half", DoubleLiteral(1.0))),
        ("at < TIMESTAMP '2026-11-29 02:30:00'", LessThan("at", "2026-11-29T02:30:00")),
        ("at < :at", LessThan("at", "2026-11-29T01:30:00")),
        ("in_utc < TIMESTAMP_NTZ '2026-11-29 02:30:00'", LessThan("in_utc", "2026-11-29T02:30:00+00:00")),
        ("in_utc < :at", LessThan("in_utc", "2026-11-29T01:30:00+00:00")),
        ("clock > TIME '02:30'", GreaterThan("clock", "02:30:00")),
        ("file IS NOT NULL", NotNull("file")),
        (r"note LIKE '100\%\_%' OR note = :path", Or(StartsWith("note", "100%_"), EqualTo("note", "C:\\a\tb"))),
        ("number IN (1, 10000000000000000000)", EqualTo("number", 1)),
        ("number = 10000000000000000000 OR half IN (1, 2)", In("half", {DoubleLiteral(1.0), DoubleLiteral(2.0)})),
        ("number < 10000000000000000000", LessThanOrEqual("number", 2**63 - 1)),
        ("single <= 400000000000000000000000000000000000000", LessThan("single", FloatLiteral(math.inf))),
        ("half >= 0", Or(GreaterThanOrEqual("half", DoubleLiteral(0.0)), IsNaN("half"))),
        ("part.is_there = 1", EqualTo("part.is_there", 1)),
    ],
)
def test_a_condition_has_values_of_the_types_of_its_columns(where: str, expected: BooleanExpression) -> None:
    found = condition_of(where, SCHEMA, PARAMETERS)
    assert str(found) == str(expected)
    assert found == expected


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("dya > 1", r"'dya > 1': column not found: 'dya' \(did you mean 'day'\?\); the table has number, day, amount"),
        ("day >", "'day >' cannot be parsed; it compares columns with values, such as day >= DATE '2026-11-01' AND country IN"),
        ("sum(number) > 1", r"'sum\(number\) > 1' cannot be parsed; .* has no functions and no arithmetic"),
        ("true AND number = 1", "cannot be parsed;|'true AND number = 1': "),
        ("note LIKE 'a%b'", "invalid LIKE 'a%b': a % at its end is the one wildcard that it may have"),
        ("note LIKE 'a_b%'", "invalid LIKE 'a_b%': "),
        (r"note NOT LIKE 'a\\%'", r"invalid LIKE 'a\\\\%': "),
        (r"note = 'a\n'", r"invalid text 'a\\n': it has a backslash; give it by a parameter"),
        ("day LIKE '2026-11-01'", "LIKE compares texts, and column 'day' is date"),
        ("note < DATE '2026-11-01'", "'2026-11-01' is no value of column 'note', which is string"),
        ("clock > DATE '2026-11-01'", "is no value of column 'clock', which is time"),
        ("clock > '02:30+01:00'", "is no value of column 'clock', which is time: it has an offset, and the"),
        ("at > DATE '2026-11-01 05:00'", "is no value of column 'at', which is timestamp: "),
        ("in_utc > TIMESTAMP_NTZ '2026-11-01 05:00Z'", "it has an offset, and TIMESTAMP_NTZ have none"),
        ("in_utc > '0001-01-01 00:00:00+05:00'", "is no value of column 'in_utc', which is timestamptz: "),
        ("half < 1" + "0" * 400, "is no value of column 'half', which is double: "),
        ("half = :nan", "nan is no value of column 'half', which is double: ask for it by IS NAN"),
        ("id = 'x'", "'x' is no value of column 'id', which is uuid: "),
        ("part.is_there IS NULL", "column 'part.is_there' may not be null in its struct"),
        ("note LIKE :text", "the parameter :text stands behind LIKE, where a text has to be"),
        ("number = 'x'", "'x' is no value of column 'number', which is long"),
        ("number = 1.5", "no value of column 'number', which is long"),
        ("day = '2026-13-01'", "'2026-13-01' is no value of column 'day', which is date: month must be in"),
        ("day = :at", "is no value of column 'day', which is date"),
        (
            "at = '2026-11-29T02:30:00Z'",
            "is no value of column 'at', which is timestamp: it has an offset, and the",
        ),
        ("amount = 1.234", r"no value of column 'amount', which is decimal\(9, 2\): it has more than 2 digits behind the point"),
        ("amount = :huge", r"1e\+99 is no value of column 'amount', which is decimal\(9, 2\): it is too large"),
        ("file = 'x'", "'x' is no value of column 'file', which is binary"),
        ("number = :lest", r"parameter not found: ':lest' \(did you mean 'least'\?\); the task has day, text, least"),
    ],
)
def test_what_is_no_condition_on_the_columns_is_refused_with_the_reason(where: str, says: str) -> None:
    with pytest.raises(InvalidCondition, match=says):
        condition_of(where, SCHEMA, PARAMETERS)
