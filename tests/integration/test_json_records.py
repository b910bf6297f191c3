"""What a JSON record says is what its row has, or the record is bad: no text or number is taken for something that it does not say."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from eventflink.streams.json_records import column_of, is_bad, parsed_of
from eventflink.streams.sources import columns_of
from tests.support.spark_sessions import own_session

pytestmark = pytest.mark.slow

BAD = "bad"


@pytest.fixture(scope="module")
def session(spark: str) -> Iterator[SparkSession]:
    with own_session(spark) as session:
        session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        yield session


def read(session: SparkSession, kind: str, values: list[str]) -> dict[str, Any]:
    """Return the value of each record as a text, by the JSON of its only field; `BAD`: the record is bad."""
    columns = columns_of(session, f"v {kind}, other STRING", "the test")
    records = session.createDataFrame([(value, f'{{"v": {value}}}') for value in values], "value STRING, text STRING")
    rows = records.withColumn("parsed", parsed_of(f.col("text"), columns))
    bad, value = is_bad(f.col("text"), f.col("parsed"), columns), column_of(f.col("parsed"), columns[0])
    shown = f.when(bad, f.lit(BAD)).otherwise(value.cast("string"))
    return {row[0]: row[1] for row in rows.select("value", shown).collect()}


READ: dict[str, dict[str, str | None]] = {
    "DATE": {
        **dict.fromkeys(('"2024-01-02"', '"2024-1-2"', '"2024-01-02T23:30:00Z"', '"2024-01-02 23:30"'), "2024-01-02"),
        **dict.fromkeys(('"2024-01"', '"2024"', r'"\t+2024-1-1 "', r'"202\u0034-1-1"'), "2024-01-01"),
        '"0001-01-01"': "0001-01-01",
        '"9999-12-31"': "9999-12-31",
        "null": None,
        **dict.fromkeys(('"20240102"', '"00000012"', '"12"', '"-5"', "20240102", "2024", "true"), BAD),
        **dict.fromkeys(
            ('"2024-01-02 garbage"', '"2024-01-02Tgarbage"', '"2024-01-02T25:00"', r'"\u0031\u0032"', r'"\n12"', '"2024-02-30"'), BAD
        ),
        **dict.fromkeys(('"0000-12-31"', '"-0001-01-01"', '"+10000-01-01"', '"99999999999"', '""'), BAD),
    },
    "TIMESTAMP": {
        **dict.fromkeys(
            ('"2024-01-02T10:30:00Z"', '"2024-01-02 11:30"', '"2024-01-02T10:30:00+00:00"', "1704191400"), "2024-01-02 11:30:00"
        ),
        '"2024-01-02T10:30:00.123456Z"': "2024-01-02 11:30:00.123456",
        '"2024-01-02"': "2024-01-02 00:00:00",
        "0": "1970-01-01 01:00:00",
        "253402300799": "+10000-01-01 00:59:59",
        **dict.fromkeys(('"12:30"', '"T12:30"', '"12:30:00-08:00"', r'"\u0031\u0032:30"', r'"12\u003a30"', r'"\n12:30"'), BAD),
        **dict.fromkeys(("1700000000000", "1700000000000000", "1700000000000000000", "99999999999999", "-1700000000000000000"), BAD),
        **dict.fromkeys(("253402300800", "-62135596801", "9300000000000", "18446744075409", "1.5"), BAD),
        **dict.fromkeys(('"170000"', '"+10000-01-02T00:00:00Z"', '"0000-01-01T00:00:00Z"'), BAD),
    },
    "TIMESTAMP_NTZ": {
        '"2024-01-02T10:30:00"': "2024-01-02 10:30:00",
        **dict.fromkeys(('"12:30"', "1704191400", '"+10000-01-01T00:00:00"', '"0000-01-01T00:00:00"'), BAD),
    },
    "DECIMAL(10,2)": {
        **dict.fromkeys(("12.5", '"12.50"', "1.25e1", '"125E-1"', '"1250e-0000000000002"'), "12.50"),
        "12.505": "12.51",
        "1e-9999": "0.00",
        **dict.fromkeys(('"12,50"', '"1,2,3"', '",5"', '"5,"', r'"12\u002c50"', r'"\u0031,5"', "1e20", '" 5"', '"five"'), BAD),
    },
    "DECIMAL(38,18)": {value: f"{value}0" for value in ("12345678901234567890.12345678901234567", "1.10000000000000001")},
    "STRUCT<a: ARRAY<MAP<STRING, DATE>>, b: MAP<STRING, TIMESTAMP>, c: ARRAY<DECIMAL(10,2)>>": {
        '{"a": [{"k": "2024-01-02"}], "b": {"k": 0}, "c": ["1.5", 2]}': "{[{k -> 2024-01-02}], {k -> 1970-01-01 01:00:00}, [1.50, 2.00]}",
        **dict.fromkeys(
            ('{"a": [null, {"k": "12"}]}', '{"b": {"j": 0, "k": "12:30"}}', '{"b": {"k": 9300000000000}}', '{"c": ["1,5"]}'), BAD
        ),
    },
    "STRUCT<a: TINYINT NOT NULL, b: ARRAY<STRUCT<c: INT NOT NULL>> NOT NULL> NOT NULL": {
        '{"a": 1, "b": [{"c": 2}, {}]}': "{1, [{2}, {null}]}",
        "{}": "{null, null}",
        "null": None,
        '{"a": 200}': BAD,
    },
}


@pytest.mark.parametrize("kind", READ)
def test_a_value_is_read_as_what_it_says_or_its_record_is_bad(session: SparkSession, kind: str) -> None:
    assert read(session, kind, list(READ[kind])) == READ[kind]


def test_a_number_whose_digits_take_long_to_write_out_is_bad_at_once(session: SparkSession) -> None:
    bombs = ["1e10000000", "-1.5E+10000000", "1e-10000000", "1e0010000000", '"1e10000000"', r'"1\u006510000000"']
    bombs += [
        '"1e\N{FULLWIDTH DIGIT ONE}' + "\N{FULLWIDTH DIGIT ZERO}" * 7 + '"',
        '"' + "1" * 1_000_000 + '"',
        '"1e10000000", "w": x',
        '0, "w": 1e10000000',
    ]
    columns, others = "DECIMAL(10,2)", {'"1e9999"': BAD, "1e-9999": "0.00", '0, "other": "1e10000000"': "0.00", "true": BAD}
    # Many escapes: a regular expression has to come to their end without a stack that is as deep.
    others["1.5, " + r'"other": "' + r"\"1e10000000 " * 50_000 + '"'] = "1.50"
    started_s = time.monotonic()
    assert read(session, columns, [*bombs, *others]) == dict.fromkeys(bombs, BAD) | others
    assert time.monotonic() - started_s < 60, "one of them written out takes tens of seconds"
    assert read(session, "STRING", [json.dumps("1e10000000")]) == {json.dumps("1e10000000"): "1e10000000"}
