"""Keys of different types come to one type without loss, or to none."""

import itertools

import pytest
from pyspark.sql import types as t

from eventflink.jobs.hash_keys import are_spelled_alike, common_type, is_brought_by_zone


def of_struct(**fields: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind in fields.items()])


FAMILIES: list[list[t.DataType]] = [
    [t.ByteType(), t.ShortType(), t.IntegerType(), t.LongType(), t.DecimalType(10, 2), t.DecimalType(12, 4), t.DecimalType(38, 18)],
    [t.FloatType(), t.DoubleType()],
    [t.DateType(), t.TimestampNTZType(), t.TimestampType()],
    [of_struct(a=t.IntegerType()), of_struct(a=t.LongType())],
    [of_struct(b=t.IntegerType())],
    [t.ArrayType(t.IntegerType())],
    [t.ArrayType(t.LongType())],
    [t.StringType()],
    [t.BinaryType()],
    [t.BooleanType()],
]
NONE: list[t.DataType] = [
    t.MapType(t.StringType(), t.IntegerType()),
    t.VariantType(),
    t.StringType("UTF8_LCASE"),
    of_struct(a=t.StringType("UNICODE_CI")),
    t.ArrayType(t.MapType(t.StringType(), t.IntegerType())),
]
"""Types that do not even come to one with themselves."""

ALL = [(number, kind) for number, family in enumerate(FAMILIES) for kind in family]


@pytest.mark.parametrize(("left", "right"), [*itertools.combinations_with_replacement(ALL, 2)])
def test_types_of_a_family_come_to_one_and_others_to_none(left: tuple[int, t.DataType], right: tuple[int, t.DataType]) -> None:
    (mine_is_of, mine), (other_is_of, other) = left, right
    found = common_type(mine, other)
    assert (found is not None) == (mine_is_of == other_is_of)
    assert found == common_type(other, mine)
    if found is None:
        assert not are_spelled_alike(mine, other)
    else:
        assert common_type(found, mine) == common_type(found, other) == found


@pytest.mark.parametrize(("left", "right"), [*itertools.product(NONE, [*(kind for _, kind in ALL), *NONE])])
def test_equal_keys_of_a_type_that_spark_hashes_differently_have_no_type(left: t.DataType, right: t.DataType) -> None:
    assert common_type(left, right) is None
    assert common_type(right, left) is None


def test_decimals_that_do_not_fit_into_one_are_refused() -> None:
    wide, fine = t.DecimalType(38, 0), t.DecimalType(38, 18)
    assert common_type(wide, fine) is None
    assert common_type(t.LongType(), fine) == fine


@pytest.mark.parametrize(
    ("left", "right", "alike"),
    [
        (t.IntegerType(), t.LongType(), True),
        (t.IntegerType(), t.DecimalType(10, 0), False),
        (t.DecimalType(10, 2), t.DecimalType(12, 2), True),
        (t.DecimalType(10, 2), t.DecimalType(12, 4), False),
        (t.FloatType(), t.DoubleType(), False),
        (t.DoubleType(), t.DoubleType(), True),
        (of_struct(a=t.DoubleType()), of_struct(a=t.DoubleType()), False),
        (t.DateType(), t.TimestampType(), False),
        (t.StringType(), t.StringType(), True),
    ],
)
def test_keys_of_pipelined_edges_meet_where_equal_ones_are_one_text(left: t.DataType, right: t.DataType, *, alike: bool) -> None:
    assert are_spelled_alike(left, right) is alike


@pytest.mark.parametrize(
    ("own", "common", "by_zone"),
    [
        (t.DateType(), t.TimestampType(), True),
        (t.TimestampNTZType(), t.TimestampType(), True),
        (t.TimestampType(), t.TimestampType(), False),
        (t.DateType(), t.TimestampNTZType(), False),
        (of_struct(a=of_struct(b=t.DateType())), of_struct(a=of_struct(b=t.TimestampType())), True),
        (of_struct(a=t.FloatType(), b=t.TimestampType()), of_struct(a=t.DoubleType(), b=t.TimestampType()), False),
        (t.ArrayType(t.TimestampType()), t.ArrayType(t.TimestampType()), False),
    ],
)
def test_times_with_a_zone_and_without_are_brought_together_by_the_time_zone(own: t.DataType, common: t.DataType, *, by_zone: bool) -> None:
    assert is_brought_by_zone(own, common) is by_zone
