"""The `where` of a source of Iceberg: from text to a condition on the columns of a table, by which pyiceberg plans and Spark filters.

It is pyiceberg's language, with what Spark's SQL writes besides: `DATE '…'`, `TIMESTAMP '…'`, names in backquotes, parameters of the task.
The rule it keeps: both sides are given the same condition, and none is parsed twice; so a file that is left out has no row of the result.
"""

import datetime as dt
import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
        EqualTo,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        IsNaN,
        IsNull,
        LessThan,
        LessThanOrEqual,
        LiteralPredicate,
        Not,
        NotEqualTo,
        NotNull,
        NotStartsWith,
        Or,
        Reference,
        SetPredicate,
        StartsWith,
        UnboundPredicate,
    )
    from pyiceberg.expressions.literals import (
        BooleanLiteral,
        DecimalLiteral,
        DoubleLiteral,
        FloatLiteral,
        Literal,
        LongLiteral,
        StringLiteral,
    )
    from pyiceberg.expressions.parser import parse
    from pyiceberg.expressions.visitors import BooleanExpressionVisitor, bind, rewrite_not, visit
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table
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
    r"""(?:\b(?P<word>LIKE|DATE|TIME|TIMESTAMP(?:_NTZ|_LTZ)?)\s*)?(?P<text>'(?:[^'\\]|''|\\.)*')|(?P<quoted>"[^"]*")|`(?P<name>[^`"]*)`"""
    r"|(?P<like>\bLIKE\s*)?(?<![\w:]):(?P<parameter>[A-Za-z_]\w*)",
    re.IGNORECASE | re.DOTALL,
)
"""What pyiceberg does not know, or reads otherwise than Spark, and the parts in which it may stand as text."""
_PLAIN_WITH_DOTS: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_PATTERN: Final = re.compile(r"((?:[^%_\\]|\\[%_])*)(%?)", re.DOTALL)
"""What may stand behind LIKE."""
_DIGITS: Final = Context(prec=100)


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
    said = list[_Said]()
    written = _PART.sub(lambda part: _rewritten(part, parameters, said), text)
    try:
        parsed = parse(written)
    except Exception as error:  # the parser raises errors of its own, of pyparsing, and of Python
        raise InvalidCondition(
            f"'{beginning_of(text)}' cannot be parsed; it compares columns with values, such as day >= DATE '2026-11-01' AND "
            "country IN ('de', 'fr') AND NOT note IS NULL, and has no functions and no arithmetic"
        ) from error
    try:
        condition = visit(rewrite_not(parsed), _Typed(schema, said))
        bind(schema, condition, case_sensitive=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidCondition(f"'{beginning_of(text)}': {error}") from error
    return condition


@dataclass(frozen=True, slots=True)
class _Said:
    """A value of a condition that pyiceberg is told by a number."""

    value: Any
    word: str = ""
    """What stands before a text, such as DATE."""


def _rewritten(part: re.Match[str], parameters: Mapping[str, Any], said: list[_Said]) -> str:
    """Return what pyiceberg calls a part of a condition; a value is the text of its position in what is `said`."""
    if part["name"] is not None:
        # In quotes its parser takes no dot.
        return part["name"] if _PLAIN_WITH_DOTS.fullmatch(part["name"]) else f'"{part["name"]}"'
    if part["text"] is not None:
        word, text = (part["word"] or "").upper(), part["text"][1:-1].replace("''", "'")
        if word == "LIKE" and not _PATTERN.fullmatch(text):
            raise InvalidCondition(
                f"invalid LIKE {part['text']}: a % at its end is the one wildcard that it may have; \\% and \\_ stand for the characters"
            )
        if word != "LIKE" and "\\" in text:
            raise InvalidCondition(f"invalid text {part['text']}: it has a backslash; give it by a parameter")
        said.append(_Said(text, word))
    elif (name := part["parameter"]) is None:
        return part[0]
    elif part["like"] is not None:
        raise InvalidCondition(f"the parameter :{name} stands behind LIKE, where a text has to be")
    elif name not in parameters:
        raise InvalidCondition(
            f"parameter not found: ':{name}'{did_you_mean(name, parameters)}; the task has {', '.join(parameters) or 'none'}"
        )
    else:
        said.append(_Said(parameters[name]))
    return f"{'LIKE ' if said[-1].word == 'LIKE' else ''}'{len(said) - 1}'"


def files_with(table: Table, condition: BooleanExpression, snapshot_id: int, schema: Schema | None = None) -> list[FileScanTask]:
    """Return the files of a version of a table that may have rows which fulfil a condition without NOT.

    Args:
        table: whose files they are.
        condition: on columns.
        snapshot_id: the version.
        schema: the columns, if they are not those that the table has now.

    """
    if schema is not None and schema.schema_id != table.metadata.current_schema_id:
        # A scan finds columns by the names that they have now, whatever they were called in the version.
        metadata = table.metadata.model_copy(update={"current_schema_id": schema.schema_id})
        table = Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)
    return _files_with(table, _plannable(condition, table.schema(), _unknown_in_partitions(table)), snapshot_id)


def _unknown_in_partitions(table: Table) -> set[int]:
    """Return the columns whose values in partitions pyiceberg does not know: it reads doubles as singles, and a UUID is equal to none."""
    sources = {field.source_id for spec in table.specs().values() for field in spec.fields}
    kinds = [(source, schema, schema.find_column_name(source)) for schema in table.schemas().values() for source in sources]
    return {source for source, schema, name in kinds if name and isinstance(schema.find_field(name).field_type, DoubleType | UUIDType)}


def _plannable(condition: BooleanExpression, schema: Schema, unknown: set[int]) -> BooleanExpression:
    """Return a condition that holds for all rows for which another does, and asks for no values that are not known."""
    match condition:
        case And() | Or():
            return type(condition)(*[_plannable(each, schema, unknown) for each in (condition.left, condition.right)])
        case UnboundPredicate() if schema.find_field(_name_of(condition), case_sensitive=False).field_id in unknown:
            return AlwaysTrue()
    return condition


def _files_with(table: Table, condition: BooleanExpression, snapshot_id: int) -> list[FileScanTask]:
    """Return what pyiceberg plans by a condition, or by as much of it as it can."""
    try:
        return list(table.scan(row_filter=condition, snapshot_id=snapshot_id, case_sensitive=False).plan_files())
    except (TypeError, ValueError, OverflowError):
        # It compares null, if another part of the condition let that through, takes 0 for null in buckets, and goes beyond the last day.
        match condition:
            case And() | Or():
                left, right = (_files_with(table, part, snapshot_id) for part in (condition.left, condition.right))
                paths = {task.file.file_path for task in left}
                if isinstance(condition, And):
                    return [task for task in right if task.file.file_path in paths]
                return left + [task for task in right if task.file.file_path not in paths]
            case AlwaysTrue():
                raise
        return _files_with(table, AlwaysTrue(), snapshot_id)


class _Typed(BooleanExpressionVisitor[BooleanExpression]):  # type: ignore[misc] # pyiceberg may be missing
    """Gives the values of a condition the types of the columns that they are compared with."""

    def __init__(self, schema: Schema, said: Sequence[_Said]) -> None:
        self._schema = schema
        self._said = said

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
        name = _name_of(predicate)
        try:
            field = self._schema.find_field(name, case_sensitive=False)
        except ValueError as error:
            there = self._schema.column_names
            raise ValueError(f"column not found: '{name}'{did_you_mean(name, there)}; the table has {', '.join(there)}") from error
        if isinstance(predicate, IsNull | NotNull) and field.required and field not in self._schema.fields:
            raise ValueError(
                f"column '{name}' may not be null in its struct, and nothing can be asked of a struct: compare it with a value"
            )
        if isinstance(predicate, LiteralPredicate):
            return self._compared(predicate, name, field.field_type)
        if isinstance(predicate, SetPredicate):
            found = [self._typed(name, field.field_type, each) for each in predicate.literals]
            there = {value for value, side in found if side == 0}
            if there or isinstance(predicate, In):
                return type(predicate)(predicate.term, there)
            return _any_value(predicate.term, found[0][0])
        return predicate

    def _compared(self, predicate: LiteralPredicate, name: str, kind: IcebergType) -> BooleanExpression:
        """Return a comparison with a value that the column may have, which null does not fulfil."""
        term, compare = predicate.term, type(predicate)
        if (said := self._said_by(predicate.literal)).word == "LIKE":
            if not isinstance(kind, StringType):
                raise ValueError(f"LIKE compares texts, and column '{name}' is {kind}")
            text, any_end = _PATTERN.fullmatch(said.value).groups()  # type: ignore[union-attr] # `_rewritten` asked
            if any_end:
                compare = StartsWith if compare is EqualTo else NotStartsWith
            return compare(term, StringLiteral(re.sub(r"\\(.)", r"\1", text)))
        value, side = self._typed(name, kind, predicate.literal)
        if side and compare is EqualTo:
            return AlwaysFalse()
        if side and compare is NotEqualTo:
            return _any_value(term, value)
        is_less = compare in {LessThan, LessThanOrEqual}
        if side:  # The value is the one next to what is said: no other of the column is between the two.
            compare = (LessThanOrEqual if side < 0 else LessThan) if is_less else (GreaterThan if side < 0 else GreaterThanOrEqual)
        found = compare(term, value)
        # What is not a number is above all numbers for Spark, and statistics leave it out.
        is_above = isinstance(kind, FloatType | DoubleType) and compare in {GreaterThan, GreaterThanOrEqual}
        return Or(found, IsNaN(term)) if is_above else found

    def _said_by(self, literal: Literal[Any]) -> _Said:
        return self._said[int(literal.value)] if isinstance(literal, StringLiteral) else _Said(literal.value)

    def _typed(self, column: str, kind: IcebergType, literal: Literal[Any]) -> tuple[Literal[Any], int]:
        """Return a value that the column may have, and on which side of what is said it is: below (-1), above (1), or the same (0)."""
        said = self._said_by(literal)
        try:
            if (found := _literal_of(kind, said)) is not None:
                return found
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{said.value!r} is no value of column '{column}', which is {kind}: {error}") from error
        raise ValueError(f"{said.value!r} is no value of column '{column}', which is {kind}")


def _name_of(predicate: UnboundPredicate) -> str:
    return predicate.term.name if isinstance(predicate.term, Reference) else str(predicate.term)


def _any_value(term: Any, value: Literal[Any]) -> BooleanExpression:
    """Return what each value fulfils, and null does not, by one of them."""
    is_fraction = isinstance(value, FloatLiteral | DoubleLiteral)
    return Or(LessThanOrEqual(term, value), GreaterThan(term, value), *([IsNaN(term)] if is_fraction else []))


def _literal_of(kind: IcebergType, said: _Said) -> tuple[Literal[Any], int] | None:
    """Return the value of a type that is next to a value, and on which side of it it is; None: the value is none of such a type.

    Raises:
        ValueError: it is none, and why.
        OverflowError: likewise.

    """
    value, found = said.value, None
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    is_text = isinstance(value, str) and not said.word
    match kind:
        case BooleanType() if isinstance(value, bool):
            found = BooleanLiteral(value), 0
        case IntegerType() | LongType() if is_number and isinstance(value, int):
            found = _beside(LongLiteral(min(max(value, kind.min), kind.max)), value)
        case FloatType() | DoubleType() | DecimalType() if is_number:
            found = _fraction_of(kind, value)
        case StringType() | UUIDType() if is_text:
            found = StringLiteral(value).to(kind), 0
        case DateType() | TimestampType() | TimestamptzType() | TimeType():
            text = _time_text(kind, said)
            found = (StringLiteral(text), 0) if text is not None else None
    return found


def _fraction_of(kind: IcebergType, value: float | Decimal) -> tuple[Literal[Any], int]:
    if value != value:  # noqa: PLR0124 - it is what is not a number
        raise ValueError("ask for it by IS NAN")
    if isinstance(kind, DecimalType):
        exact = _scaled(Decimal(str(value)), kind.scale)
        highest = Decimal((0, (9,) * kind.precision, -kind.scale))
        return _beside(DecimalLiteral(max(min(exact, highest), highest.copy_negate())), exact)
    double = float(value)
    if math.isinf(double) and not isinstance(value, float):
        raise ValueError("it is too large")
    if isinstance(kind, DoubleType):
        return DoubleLiteral(double), 0
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", double))
    except OverflowError:
        single = math.copysign(math.inf, double)
    return _beside(FloatLiteral(single), double)


def _beside(found: Literal[Any], value: float | Decimal) -> tuple[Literal[Any], int]:
    return found, (found.value > value) - (found.value < value)


def _time_text(kind: IcebergType, said: _Said) -> str | None:
    """Return a date or a time as pyiceberg reads it for a column; None: it is none. One without an offset is in UTC."""
    value, is_text, text = said.value, isinstance(said.value, str), str(said.value)
    if said.word and (said.word == "TIME") != isinstance(kind, TimeType):
        return None
    found: dt.date | dt.time | None = None
    match kind:
        case DateType() if is_text:
            found = dt.date.fromisoformat(text)
        case DateType() if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            found = value
        case TimeType() if is_text:
            found = dt.time.fromisoformat(text)
            if found.tzinfo is not None:
                raise ValueError("it has an offset, and the times of the column have none")
        case TimestampType() | TimestamptzType() if is_text or isinstance(value, dt.datetime):
            time = dt.datetime.fromisoformat(dt.date.fromisoformat(text).isoformat() if said.word == "DATE" else text)
            if is_text and time.tzinfo is not None and (isinstance(kind, TimestampType) or said.word == "TIMESTAMP_NTZ"):
                raise ValueError(f"it has an offset, and {'TIMESTAMP_NTZ' if said.word else 'the times of the column'} have none")
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
