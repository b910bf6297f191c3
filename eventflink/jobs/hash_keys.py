"""Keys of hash edges: by which types rows are divided so that what Spark SQL calls equal meets in one subtask.

Two hash edges into one vertex bring rows together whose keys are equal by `=` of Spark SQL. Spark hashes 1 as INT and 1.00 as DECIMAL
differently, so the keys of all hash edges of a vertex are cast to one type before they are hashed. The rule: that type loses nothing, and
two keys are equal in it exactly when Spark calls them equal. Where there is no such type, the edges are refused.

Types that come to one: whole numbers and decimals; FLOAT and DOUBLE; dates and timestamps; structs of such; and any other type and itself,
but for maps, variants and texts whose collation is not binary, of which equal ones have different hashes in Spark. Numbers that are exact
never come to one type with those that are not: Spark compares them as DOUBLE, and 2^53 + 1 is 2^53 there. A date or a time without a zone
is a TIMESTAMP by the session's time zone, which each host and each statement may have otherwise: such keys are divided in UTC alone.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

_MAX_PRECISION: Final = 38
_DIGITS: Final = {"ByteType": 3, "ShortType": 5, "IntegerType": 10, "LongType": 20}
_TIMES: Final = ("DateType", "TimestampNTZType", "TimestampType")
"""Each comes to the next, as when Spark compares them."""

_INCOMPARABLE: Final = ("MapType", "VariantType", "UserDefinedType", "NullType")


def common_type(left: "DataType", right: "DataType") -> "DataType | None":
    """Return the type to which keys of both types are brought; None: there is none. Of a type and itself: how its own keys are hashed."""
    from pyspark.sql import types  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    names = left.__class__.__name__, right.__class__.__name__
    if all(name in _DIGITS or name == "DecimalType" for name in names):
        return _exact_number(left, right)
    if all(name in ("FloatType", "DoubleType") for name in names):
        return types.DoubleType()
    if all(name in _TIMES for name in names):
        return max(left, right, key=lambda each: _TIMES.index(each.__class__.__name__))
    if isinstance(left, types.ArrayType) and isinstance(right, types.ArrayType):
        # Spark itself compares no arrays of different types.
        return left if left == right and common_type(left.elementType, right.elementType) is not None else None
    if isinstance(left, types.StructType) and isinstance(right, types.StructType):
        return _struct(left, right)
    return None if any(name in _INCOMPARABLE for name in names) or _is_collated(left) or left != right else left


def _exact_number(left: "DataType", right: "DataType") -> "DataType | None":
    from pyspark.sql import types  # noqa: PLC0415 - as above

    sizes = [(_DIGITS.get(each.__class__.__name__) or each.precision - each.scale, getattr(each, "scale", 0)) for each in (left, right)]
    if not any(isinstance(each, types.DecimalType) for each in (left, right)):
        return types.LongType()
    digits, scale = max(size[0] for size in sizes), max(size[1] for size in sizes)
    return types.DecimalType(digits + scale, scale) if digits + scale <= _MAX_PRECISION else None


def _struct(left: "DataType", right: "DataType") -> "DataType | None":
    from pyspark.sql import types  # noqa: PLC0415 - as above

    if [field.name for field in left.fields] != [field.name for field in right.fields]:
        return None
    fields = [common_type(mine.dataType, other.dataType) for mine, other in zip(left.fields, right.fields, strict=True)]
    if None in fields:
        return None
    return types.StructType([types.StructField(field.name, kind) for field, kind in zip(left.fields, fields, strict=True)])


def is_brought_by_zone(own: "DataType", common: "DataType") -> bool:
    """Tell whether it depends on the session's time zone to which value of the common type a key comes."""
    if own.__class__.__name__ == "StructType":
        return any(is_brought_by_zone(mine.dataType, other.dataType) for mine, other in zip(own.fields, common.fields, strict=True))
    return bool(own != common) and common.__class__.__name__ == "TimestampType"


def _is_collated(data_type: "DataType") -> bool:
    return data_type.__class__.__name__ == "StringType" and str(data_type.collation) != "UTF8_BINARY"


def are_spelled_alike(left: "DataType", right: "DataType") -> bool:
    """Tell whether keys of both types that are equal are the same text in JSON, by which a pipelined edge divides them."""
    if common_type(left, right) is None or _has_floats_inside(left):
        return False
    names = {left.__class__.__name__, right.__class__.__name__}
    return names <= _DIGITS.keys() or left == right or (names == {"DecimalType"} and bool(left.scale == right.scale))


def _has_floats_inside(data_type: "DataType") -> bool:
    """Tell whether parts may be -0.0, which is written otherwise than 0.0; a key that is a number itself is brought to 0.0."""
    text = data_type.simpleString()
    return text not in ("float", "double") and ("float" in text or "double" in text)


def key_spelling(column: "Column", own: "DataType") -> "Column":
    """Return a key so that equal ones of one type are the same text in JSON: -0.0 becomes 0.0."""
    from pyspark.sql import functions  # noqa: PLC0415 - as above

    return column + functions.lit(0.0).cast(own) if own.__class__.__name__ in ("FloatType", "DoubleType") else column
