"""Records that are JSON as the rows of a stream, and rows as JSON.

What Spark's `from_json` lets pass is refused here: more than one document, quotes and numbers that JSON does not have, texts that are not
Unicode, numbers that do not fit their column, texts that it takes for a number, a day or a time which they do not say. The rule it keeps: a
record is one JSON document or it is bad, and what is written is JSON whose numbers are numbers.
"""

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from eventflink.model.sql_script import quoted
from eventflink.model.stream_document import BAD_RECORD

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField

    _Test = Callable[[Column, DataType], Column | None]

_STRICT: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": BAD_RECORD,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
_FLAT_DOCUMENT: Final = r"^[ \t\r\n]*+\{[^{}]*+\}[ \t\r\n]*+$"
"""An object without braces in it: of a text that begins with an object it says that nothing follows, and costs less than parsing."""

_LONE_SURROGATE: Final = r"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]"
"""Half of a pair, in a text that has no escaped backslash."""

_INFINITY: Final = "Infinity"

_BOUNDS: Final = {
    "byte": ("-128", "127"),
    "date": ("0001-01-01", "9999-12-31"),
    "timestamp": ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"),
    "timestamp_ntz": ("0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"),
}
"""The least and the greatest value of a type, where the type that is parsed has others."""

_TIME: Final = r"[T ]([01]?[0-9]|2[0-3])(:[0-5]?[0-9]){1,2}(\.[0-9]+)?(Z|[+-][0-9:]+)?"
_MISREAD: Final = {
    # Spark takes commas out of a decimal, and writes out each digit of it.
    "decimal": r",|[eE][+-]?0*+\p{Nd}{5}|.{1001}",
    # A text that is no day, or goes on behind it with anything, it takes for a number of days, or for the day that it begins with.
    "date": rf"^(?!\s*+\+?[0-9]{{4}}(-[0-9]{{1,2}}(-[0-9]{{1,2}}({_TIME})?)?)?\s*+$)",
    # It gives a time without a day the day of today, and lets seconds that are too many for 64 bits of microseconds begin anew.
    "timestamp": r"^[^-]*:|^-?[0-9]{13}",
}
"""Which texts and numbers, as the text that Spark makes of them, it takes for something else, by the type that it parses."""

_DOUBTFUL: Final = {
    "decimal": r'"(?!,")[^"\s:\[\]{}]*,[^"\s:\[\]{}]*"|\\u00[2346]|[\p{Nd}.][eE][+-]?\p{Nd}{5}|"[^"\s]{1001}',
    "date": r'"(?![0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]+Z)?")(\s|\\.)*+[+-]?[0-9]',
    "timestamp": r'"[^"-]*[0-9]:|[:,\[]\s*+-?[0-9]{13}|\\u003',
}
"""Found in each record that may have such a one, which costs less than parsing it as texts; also in others."""

_LONG_EXPONENT: Final = r'^([^"eE]++|"([^"\\]++|\\.)*+"|[eE](?![+-]?0*+[1-9][0-9]{4}))*+[eE]'
"""A number with an exponent of five digits, outside of texts: as a text, Spark has it as 0 or Infinity."""


def parsed_of(text: "Column", columns: "Sequence[StructField]") -> "Column":
    """Return what Spark makes of a text: the columns, of which `column_of` takes one, and `BAD_RECORD`."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    is_misread = functools.reduce(operator.or_, [_is_misread(text, columns, kind) for kind in _MISREAD])
    parsed = _parsed(f.when(~is_misread, text), columns, _parsed_leaf)
    # Spark parses again for each use of what it takes for deterministic.
    return f.when(f.spark_partition_id() >= 0, parsed)


def column_of(parsed: "Column", column: "StructField") -> "Column":
    """Return a column of a good record; any part of it may be null, also one that is declared otherwise, as in what Spark parses."""
    value, kind = parsed[column.name], _with_leaves(column.dataType, lambda leaf: leaf)
    return value if _with_leaves(kind, _parsed_leaf) == kind else value.cast(kind)


def is_bad(text: "Column", parsed: "Column", columns: "Sequence[StructField]") -> "Column":
    """Tell whether a text is anything else than one JSON document that its columns fit."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    # Both are true only of a text with nothing behind its document: what ends the array does not end the object.
    is_one_element = f.json_array_length(f.concat(f.lit("["), text, f.lit("]"))) == 1
    is_one_member = f.json_object_keys(f.concat(f.lit('{"":'), text, f.lit("}"))) == f.array(f.lit(""))
    is_one = text.rlike(_FLAT_DOCUMENT) | (f.coalesce(is_one_element & is_one_member, f.lit(False)))  # noqa: FBT003 - a literal of SQL
    is_lone = f.contains(text, f.lit("\\u")) & f.replace(text, f.lit("\\\\"), f.lit("")).rlike(_LONE_SURROGATE)
    is_unparsed = parsed.isNull() | parsed[BAD_RECORD].isNotNull()
    no_places = [found for each in columns if (found := _any(parsed[each.name], each.dataType, _misfits)) is not None]
    # As a text, Spark gives a number that is too large for a double this name, which the document would have to spell.
    texts = [found for each in columns if (found := _any(parsed[each.name], each.dataType, _names_infinity)) is not None]
    is_unspelled = ~f.contains(text, f.lit(_INFINITY)) & ~f.contains(text, f.lit("\\u"))
    too_large = [functools.reduce(operator.or_, texts) & is_unspelled] if texts else []
    return functools.reduce(operator.or_, [is_unparsed, ~f.is_valid_utf8(text), ~is_one, is_lone, *no_places, *too_large])


def finite(rows: "DataFrame", names: Sequence[str], what: str) -> "DataFrame":
    """Return rows that fail the query when a number of these columns is none that JSON has.

    Args:
        rows: of the stream.
        names: of their columns that become JSON.
        what: the sink, for the message.

    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    wanted, found = set(names), []
    for each in rows.schema.fields:
        if each.name in wanted:
            has_one = _any(f.col(quoted(each.name)), each.dataType, _is_not_finite)
            found += [f.when(has_one, f.lit(each.name))] if has_one is not None else []
    if not found:
        return rows
    column = f.coalesce(*found)
    advice = "', which JSON cannot hold: make it null, or a text, before it is written"
    message = f.concat(f.lit(f"{what}: a row has NaN or an infinite number in column '"), column, f.lit(advice))
    return rows.where(f.when(column.isNotNull(), f.raise_error(message).cast("boolean")).otherwise(f.lit(True)))  # noqa: FBT003 - likewise


def _parsed(text: "Column", columns: "Sequence[StructField]", leaf: "Callable[[DataType], DataType]") -> "Column":
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them
    from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415 - likewise

    fields = [StructField(each.name, _with_leaves(each.dataType, leaf)) for each in columns]
    return f.from_json(text, StructType([*fields, StructField(BAD_RECORD, StringType())]), _STRICT)


def _is_misread(text: "Column", columns: "Sequence[StructField]", kind: str) -> "Column":
    """Tell whether Spark would take a text or a number of a record for another value of a type, which is none of the record's."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    def misreads(value: "Column", leaf: "DataType") -> "Column | None":
        return value.rlike(_MISREAD[kind]) if leaf.typeName() == kind else None

    concerned = [each for each in columns if _any(text, each.dataType, misreads) is not None]
    if not concerned:
        return f.lit(False)  # noqa: FBT003 - a literal of SQL

    def is_found(texts: "Column") -> "Column":
        tests = [_present(_any(texts[each.name], each.dataType, misreads)) for each in concerned]
        return functools.reduce(operator.or_, tests, texts[BAD_RECORD].isNotNull())

    # Spark parses again for each use of what it takes for deterministic, but not for those of a variable.
    found = f.exists(f.array(_parsed(text, concerned, _text_leaf)), is_found)
    return text.rlike(_DOUBTFUL[kind]) & (text.rlike(_LONG_EXPONENT) | found if kind == "decimal" else found)


def _with_leaves(kind: "DataType", leaf: "Callable[[DataType], DataType]") -> "DataType":
    """Return a type with other types in the place of those that have no parts."""
    from pyspark.sql import types as t  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    match kind:
        case t.ArrayType():
            return t.ArrayType(_with_leaves(kind.elementType, leaf))
        case t.MapType():
            return t.MapType(kind.keyType, _with_leaves(kind.valueType, leaf))
        case t.StructType():
            return t.StructType([t.StructField(each.name, _with_leaves(each.dataType, leaf)) for each in kind.fields])
        case _:
            return leaf(kind)


def _parsed_leaf(kind: "DataType") -> "DataType":
    """Return the type that Spark parses without loss: of a TINYINT, it takes 200 for -56."""
    from pyspark.sql import types as t  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    return t.ShortType() if isinstance(kind, t.ByteType) else kind


def _text_leaf(kind: "DataType") -> "DataType":
    from pyspark.sql import types as t  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    return t.StringType() if kind.typeName() in _MISREAD else kind


def _any(value: "Column", kind: "DataType", test: "_Test") -> "Column | None":
    """Tell whether a test is true of any part of a value; None: no part can be so."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them
    from pyspark.sql import types as t  # noqa: PLC0415 - likewise

    match kind:
        case t.StructType():
            parts = [part for each in kind.fields if (part := _any(value[each.name], each.dataType, test)) is not None]
            return functools.reduce(operator.or_, parts) if parts else None
        case t.ArrayType():
            if _any(value, kind.elementType, test) is None:
                return None
            found: Column | None = f.exists(value, lambda each: _present(_any(each, kind.elementType, test)))
        case t.MapType():
            return _any(f.map_values(value), t.ArrayType(kind.valueType), test)
        case _:
            found = test(value, kind)
    return None if found is None else f.coalesce(found, f.lit(False))  # noqa: FBT003 - a literal of SQL


def _present(column: "Column | None") -> "Column":
    assert column is not None  # noqa: S101 - that some part can be so was asked before
    return column


def _names_infinity(value: "Column", kind: "DataType") -> "Column | None":
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them
    from pyspark.sql import types as t  # noqa: PLC0415 - likewise

    if isinstance(kind, t.StringType):
        return f.contains(value, f.lit(_INFINITY))
    return f.contains(f.to_json(value), f.lit(_INFINITY)) if isinstance(kind, t.VariantType) else None


def _is_not_finite(value: "Column", kind: "DataType") -> "Column | None":
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them
    from pyspark.sql import types as t  # noqa: PLC0415 - likewise

    # To Spark, NaN is greater than any other number.
    return f.abs(value) >= f.lit(math.inf) if isinstance(kind, t.FloatType | t.DoubleType) else None


def _misfits(value: "Column", kind: "DataType") -> "Column | None":
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    if kind.typeName() in _BOUNDS:
        least, greatest = [f.lit(each).cast(kind) for each in _BOUNDS[kind.typeName()]]
        return ~value.between(least, greatest)
    # JSON has no infinite number: a finite one that is too large for its column was taken for that.
    return _is_not_finite(value, kind)
