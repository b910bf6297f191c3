"""The `where` of a source of Iceberg: from text to a condition on the columns of a table, by which pyiceberg plans and Spark filters.

It is pyiceberg's language, with what Spark's SQL writes besides: `DATE '…'`, `TIMESTAMP '…'`, names in backquotes, parameters of the task.
The rule it keeps: both sides are given the same condition, and none is parsed twice; so a file that is left out has no row of the result.
"""

import datetime as dt
import re
from collections.abc import Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

from eventflink.model.packages import needs
from eventflink.model.texts import beginning_of, did_you_mean

with needs("iceberg", "a table of Iceberg"):
    from pyiceberg.expressions import (
        AlwaysFalse,
        AlwaysTrue,
        And,
        BooleanExpression,
        LiteralPredicate,
        Not,
        Or,
        Reference,
        SetPredicate,
        UnboundPredicate,
    )
    from pyiceberg.expressions.literals import BooleanLiteral, DecimalLiteral, DoubleLiteral, Literal, LongLiteral, StringLiteral
    from pyiceberg.expressions.parser import parse
    from pyiceberg.expressions.visitors import BooleanExpressionVisitor, rewrite_not, visit
    from pyiceberg.schema import Schema
    from pyiceberg.types import (
        BooleanType,
        DateType,
        DecimalType,
        DoubleType,
        FloatType,
        IcebergType,
        IntegerType,
        LongType,
        StringType,
        TimestampType,
        TimestamptzType,
        TimeType,
        UUIDType,
    )

_PART: Final = re.compile(
    r"""(?P<text>'(?:[^'\\]|''|\\.)*')|(?P<quoted>"[^"]*")|`(?P<name>[^`"]*)`|(?P<typed>\b(?:DATE|TIME|TIMESTAMP(?:_NTZ|_LTZ)?)\s*)(?=')"""
    r"|(?P<like>\bLIKE\s*)?(?<![\w:]):(?P<parameter>[A-Za-z_]\w*)",
    re.IGNORECASE | re.DOTALL,
)
"""What pyiceberg does not know, and the parts in which it may stand as text."""
_PLAIN_WITH_DOTS: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_DIGITS: Final = Context(prec=100)
_GIVEN: Final = "\x01"
"""With what a text begins that stands for a parameter."""


class InvalidCondition(Exception):
    """A condition that cannot be parsed, or does not fit the columns of the table."""


def condition_of(text: str, schema: Schema, parameters: Mapping[str, Any]) -> BooleanExpression:
    """Return the condition on columns of a table that a text says, without any NOT.

    Args:
        text: of the `where`.
        schema: the columns.
        parameters: of the task, by name.

    Raises:
        InvalidCondition: the message says what is wrong.

    """
    if _GIVEN in text:
        raise InvalidCondition("it has a control character")
    written = _PART.sub(lambda part: _rewritten(part, parameters), text)
    try:
        parsed = parse(written)
    except Exception as error:  # the parser raises errors of its own, of pyparsing, and of Python
        why = f": {error}" if type(error) is ValueError else ""  # the others say it by a grammar, or by classes
        raise InvalidCondition(
            f"'{beginning_of(text)}' cannot be parsed{why}; it compares columns with values, such as day >= DATE '2026-11-01' AND "
            "country IN ('de', 'fr') AND NOT note IS NULL, and has no functions and no arithmetic"
        ) from error
    try:
        return visit(rewrite_not(parsed), _Typed(schema, parameters))
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidCondition(f"'{beginning_of(text)}': {error}") from error


def _rewritten(part: re.Match[str], parameters: Mapping[str, Any]) -> str:
    """Return what pyiceberg calls a part of a condition."""
    if part["name"] is not None:
        # In quotes its parser takes no dot.
        return part["name"] if _PLAIN_WITH_DOTS.fullmatch(part["name"]) else f'"{part["name"]}"'
    if part["typed"] is not None:
        return ""
    if (name := part["parameter"]) is None:
        return part[0]
    if part["like"] is not None:
        raise InvalidCondition(f"the parameter :{name} stands behind LIKE, where a text has to be")
    if name not in parameters:
        raise InvalidCondition(
            f"parameter not found: ':{name}'{did_you_mean(name, parameters)}; the task has {', '.join(parameters) or 'none'}"
        )
    return f"'{_GIVEN}{name}'"


class _Typed(BooleanExpressionVisitor[BooleanExpression]):  # type: ignore[misc] # pyiceberg may be missing
    """Gives the values of a condition the types of the columns that they are compared with."""

    def __init__(self, schema: Schema, parameters: Mapping[str, Any]) -> None:
        self._schema = schema
        self._parameters = parameters

    def visit_true(self) -> BooleanExpression:
        return AlwaysTrue()

    def visit_false(self) -> BooleanExpression:
        return AlwaysFalse()

    def visit_not(self, child_result: BooleanExpression) -> BooleanExpression:
        return Not(child_result)

    def visit_and(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return And(left_result, right_result)

    def visit_or(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return Or(left_result, right_result)

    def visit_bound_predicate(self, predicate: Any) -> BooleanExpression:
        raise TypeError(f"{predicate} is bound already")

    def visit_unbound_predicate(self, predicate: UnboundPredicate) -> BooleanExpression:
        name = predicate.term.name if isinstance(predicate.term, Reference) else str(predicate.term)
        try:
            field = self._schema.find_field(name, case_sensitive=False)
        except ValueError as error:
            there = self._schema.column_names
            raise ValueError(f"column not found: '{name}'{did_you_mean(name, there)}; the table has {', '.join(there)}") from error
        kind: IcebergType = field.field_type
        if isinstance(predicate, LiteralPredicate):
            typed: BooleanExpression = type(predicate)(predicate.term, self._typed(name, kind, predicate.literal))
            return typed
        if isinstance(predicate, SetPredicate):
            return type(predicate)(predicate.term, {self._typed(name, kind, each) for each in predicate.literals})
        return predicate

    def _typed(self, column: str, kind: IcebergType, said: Literal[Any]) -> Literal[Any]:
        value = said.value
        if isinstance(value, str) and value.startswith(_GIVEN):
            value = self._parameters[value.removeprefix(_GIVEN)]
        try:
            found = _literal_of(kind, value)
        except ValueError as error:
            raise ValueError(f"{value!r} is no value of column '{column}', which is {kind}: {error}") from error
        if found is None:
            raise ValueError(f"{value!r} is no value of column '{column}', which is {kind}")
        return found


def _literal_of(kind: IcebergType, value: object) -> Literal[Any] | None:
    """Return a value of a type; None: it is none.

    Raises:
        ValueError: it is none, and why.

    """
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    found: Literal[Any] | None = None
    match kind:
        case BooleanType() if isinstance(value, bool):
            found = BooleanLiteral(value)
        case IntegerType() | LongType() if is_number and isinstance(value, int):
            found = LongLiteral(value)
        case FloatType() | DoubleType() if is_number:
            found = DoubleLiteral(float(value))  # type: ignore[arg-type] # it is a number
        case DecimalType() if is_number:
            found = DecimalLiteral(_scaled(Decimal(str(value)), kind.scale))
        case StringType() | UUIDType() if isinstance(value, str):
            found = StringLiteral(value)
        case DateType() | TimestampType() | TimestamptzType() | TimeType():
            text = _time_text(kind, value)
            found = StringLiteral(text) if text is not None else None
    return found


def _time_text(kind: IcebergType, value: object) -> str | None:
    """Return a date or a time as pyiceberg reads it for a column; None: it is none. One without an offset is in UTC."""
    is_text, text = isinstance(value, str), str(value)
    found: dt.date | dt.time | None = None
    match kind:
        case DateType() if is_text:
            found = dt.date.fromisoformat(text)
        case DateType() if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            found = value
        case TimeType() if is_text:
            found = dt.time.fromisoformat(text)
        case TimestampType() | TimestamptzType() if is_text or isinstance(value, dt.datetime):
            time = dt.datetime.fromisoformat(text)
            if isinstance(kind, TimestampType) and is_text and time.tzinfo is not None:
                raise ValueError("it has an offset, and the times of the column have none")
            time = time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC)
            found = time.replace(tzinfo=None) if isinstance(kind, TimestampType) else time
    return found.isoformat() if found is not None else None


def _scaled(value: Decimal, scale: int) -> Decimal:
    try:
        scaled = value.quantize(Decimal(1).scaleb(-scale), context=_DIGITS)
    except InvalidOperation as error:
        raise ValueError("it is too large") from error
    if scaled != value:
        raise ValueError(f"it has more than {scale} digits behind the point")
    return scaled
