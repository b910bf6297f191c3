"""Conditions of SQL on columns of each type, with the rows for which they hold, by its logic of three values."""

import datetime as dt
import itertools
import math
import operator
import random
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyiceberg import types as t

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Values:
    """The type of a column, some values of it, and some with which it is compared, by their texts."""

    kind: t.IcebergType
    values: Sequence[Any]
    said: Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A condition, and whether it holds for a row; None: that is null."""

    text: str
    holds: Callable[[Row], bool | None]


def _single(value: float) -> float:
    found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return found


def _numbers(*texts: str) -> dict[str, Any]:
    return {text: Decimal(text) for text in texts}


def _doubles(*texts: str) -> dict[str, Any]:
    return {text: float(text) for text in texts}


_at = dt.datetime.fromisoformat
_LARGEST = (2 - 2**-23) * 2.0**127
_DAY = dt.date(2026, 11, 29)
_TIME = _at("2026-11-29 02:30:00.000005")

COLUMNS: dict[str, Values] = {
    "boolean_": Values(t.BooleanType(), [None, True, False], {"true": True, "false": False}),
    "int_": Values(
        t.IntegerType(),
        [None, -(2**31), -11, -1, 0, 1, 9, 10, 2**31 - 1],
        _numbers("-2147483649", "-2147483648", "-11", "-1", "0", "1", "10", "2147483647", "2147483648", "3000000000", "9" * 30),
    ),
    "long_": Values(
        t.LongType(),
        [None, -(2**63), -(2**31) - 1, -1, 0, 1, 2**53 + 1, 2**63 - 1],
        _numbers("-9223372036854775809", "-9223372036854775808", "0", "9007199254740993", "9223372036854775807", "9223372036854775808"),
    ),
    "float_": Values(
        t.FloatType(),
        [None, math.nan, -math.inf, -_LARGEST, -_single(0.1), -0.0, _single(0.1), 0.5, 16777216.0, _LARGEST, math.inf],
        _doubles("0", "0.0", "0.5", "0.1", "-0.1", "16777216", "16777217", "9" * 38, "-" + "9" * 38, "0." + "0" * 36 + "1"),
    ),
    "double_": Values(
        t.DoubleType(),
        [None, math.nan, -math.inf, -0.25, 0.0, 0.1, 2.0**53, 2.0**53 + 2, math.inf],
        _doubles("0", "-0.25", "0.1", "0.10000000000000001", "9007199254740993", "9" * 38),
    ),
    "decimal_": Values(
        t.DecimalType(9, 2),
        [None, *map(Decimal, ("-9999999.99", "-1.50", "-0.01", "0.00", "0.07", "1.50", "9999999.99"))],
        _numbers("-10000000", "-9999999.99", "-1.5", "0", "0.07", "1", "1.50", "9999999.99", "10000000", "10000000000.00"),
    ),
    "wide": Values(
        t.DecimalType(38, 0),
        [None, *map(Decimal, ("-" + "9" * 38, "-1", "0", "9" * 38))],
        _numbers("-" + "9" * 38, "0", "1", "9" * 38),
    ),
    "string_": Values(
        t.StringType(),
        [None, "", "A", "A_1", "A_1x", "AB1y", "it's 100%", "ü", "\U0001f600"],
        {"''": "", "'A'": "A", "'A_1'": "A_1", "'it''s 100%'": "it's 100%", "'ü'": "ü", "'\U0001f600'": "\U0001f600", "'a\tb'": "a\tb"},
    ),
    "date_": Values(
        t.DateType(),
        [None, dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), _DAY, dt.date(9999, 12, 31)],
        {f"DATE '{each}'": each for each in (dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), _DAY, dt.date(9999, 12, 31))}
        | {"'2026-11-29'": _DAY},
    ),
    "timestamp_": Values(
        t.TimestampType(),
        [None, _at("1969-12-31 23:59:59.999999"), _at("1970-01-01"), _at("2026-11-29"), _TIME],
        {
            "TIMESTAMP_NTZ '1969-12-31 23:59:59.999999'": _at("1969-12-31 23:59:59.999999"),
            "TIMESTAMP_NTZ '2026-11-29 02:30:00.000005'": _TIME,
            "'2026-11-29 02:30:00.0000059'": _TIME,
            "DATE '2026-11-29'": _at("2026-11-29"),
            "TIMESTAMP_NTZ '2026-11-29 02:30:00'": _at("2026-11-29 02:30"),
        },
    ),
    "timestamptz_": Values(
        t.TimestamptzType(),
        [None, dt.datetime(1969, 12, 31, 23, tzinfo=dt.UTC), dt.datetime(1970, 1, 1, tzinfo=dt.UTC), _TIME.replace(tzinfo=dt.UTC)],
        {
            "TIMESTAMP '1970-01-01 00:00:00'": dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
            "TIMESTAMP '2026-11-29 03:30:00.000005+01:00'": _TIME.replace(tzinfo=dt.UTC),
            "DATE '2026-11-29'": dt.datetime(2026, 11, 29, tzinfo=dt.UTC),
        },
    ),
    "time_": Values(
        t.TimeType(),
        [None, dt.time(0), dt.time(2, 30), dt.time(23, 59, 59, 999_999)],
        {"TIME '02:30'": dt.time(2, 30), "'23:59:59.999999'": dt.time(23, 59, 59, 999_999), "TIME '00:00:00.000001'": dt.time(0, 0, 0, 1)},
    ),
    "uuid_": Values(
        t.UUIDType(),
        [None, uuid.UUID(int=0), uuid.UUID(int=5), uuid.UUID(int=2**128 - 1)],
        {f"'{each}'": each for each in (uuid.UUID(int=0), uuid.UUID(int=6), uuid.UUID(int=2**128 - 1))},
    ),
}

_PATTERNS: dict[str, Callable[[str], bool]] = {
    r"'A\_1%'": lambda text: text.startswith("A_1"),
    r"'A\_1'": lambda text: text == "A_1",
    r"'it''s 100\%'": lambda text: text == "it's 100%",
    "'A%'": lambda text: text.startswith("A"),
    "'ü%'": lambda text: text.startswith("ü"),
    "'%'": lambda _: True,
    "''": lambda text: not text,
}
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TURNED = {"=": "=", "!=": "!=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _comparable(value: Any) -> Any:
    """Return a value that is compared with others as Spark compares it: what is not a number is above all numbers."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def _unless_null(column: str, holds: Callable[[Any], bool]) -> Callable[[Row], bool | None]:
    return lambda row: None if row[column] is None else holds(row[column])


def _compared(column: str, name: str, value: Any) -> Callable[[Row], bool | None]:
    compare, right = _OPERATORS[name], _comparable(value)
    return _unless_null(column, lambda left: compare(_comparable(left), right))


def negated(case: Case) -> Case:
    """Return what holds where a condition is false."""

    def holds(row: Row) -> bool | None:
        found = case.holds(row)
        return None if found is None else not found

    return Case(f"NOT ({case.text})", holds)


def both(one: Case, other: Case) -> Case:
    """Return what holds where two conditions hold."""

    def holds(row: Row) -> bool | None:
        found = {one.holds(row), other.holds(row)}
        return False if False in found else None if None in found else True

    return Case(f"({one.text}) AND ({other.text})", holds)


def either(one: Case, other: Case) -> Case:
    """Return what holds where one of two conditions holds."""
    return Case(f"({one.text}) OR ({other.text})", negated(both(negated(one), negated(other))).holds)


def cases_of(column: str) -> Iterator[Case]:
    """Return each comparison of a column with the values that are said of it, and its negation."""
    for case in _plain_cases(column):
        yield case
        yield negated(case)


def _plain_cases(column: str) -> Iterator[Case]:
    said = COLUMNS[column].said
    for (text, value), name in itertools.product(said.items(), _OPERATORS):
        yield Case(f"{column} {name} {text}", _compared(column, name, value))
        yield Case(f"{text} {_TURNED[name]} {column}", _compared(column, name, value))
    for (one, value), (other, second) in itertools.pairwise([*said.items(), next(iter(said.items()))]):
        least, most = Case("", _compared(column, ">=", value)), Case("", _compared(column, "<=", second))
        yield Case(f"{column} BETWEEN {one} AND {other}", both(least, most).holds)
        if ("." in one) == ("." in other) or "'" in one:
            found = either(Case("", _compared(column, "=", value)), Case("", _compared(column, "=", second)))
            yield Case(f"{column} IN ({one}, {other})", found.holds)
            yield Case(f"{column} NOT IN ({one}, {other})", negated(found).holds)
    yield Case(f"{column} IS NULL", lambda row: row[column] is None)
    yield Case(f"{column} IS NOT NULL", lambda row: row[column] is not None)
    if isinstance(COLUMNS[column].kind, t.FloatType | t.DoubleType):
        yield Case(f"{column} IS NAN", lambda row: row[column] is not None and math.isnan(row[column]))
    if isinstance(COLUMNS[column].kind, t.StringType):
        for pattern, matches in _PATTERNS.items():
            yield Case(f"{column} LIKE {pattern}", _unless_null(column, matches))
            yield Case(f"{column} NOT LIKE {pattern}", negated(Case("", _unless_null(column, matches))).holds)


def random_cases(draw: random.Random, columns: Sequence[str], count: int) -> Iterator[Case]:
    """Return conditions of several comparisons."""
    there = {column: list(cases_of(column)) for column in columns}

    def drawn(depth: int) -> Case:
        if depth == 0 or draw.random() < 0.2:
            return draw.choice(there[draw.choice(columns)])
        joined = draw.choice((both, either))(drawn(depth - 1), drawn(depth - 1))
        return negated(joined) if draw.random() < 0.3 else joined

    for _ in range(count):
        yield drawn(3)
