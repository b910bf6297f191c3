"""Avro records become the columns that their schema describes, and rows become records; what does not fit is said of its record alone."""

import datetime as dt
import io
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from eventflink.model.avro_schema import MAX_COLUMNS_LENGTH, spark_columns
from eventflink.streams.avro_records import PROBLEM, ROW, decoder, encoder
from eventflink.streams.avro_registry import SchemaRegistry, UnknownSchema
from eventflink.streams.failures import RegistryUnavailable, RowUnusable
from tests.support.schema_registry import Registry, running_registry


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


NOON = dt.datetime(2026, 11, 23, 12, 0, 0, 123_000, tzinfo=dt.UTC)
EVERYTHING = [
    (field("b", "boolean"), "BOOLEAN", True),
    (field("i", "int"), "INT", -(2**31)),
    (field("l", "long"), "BIGINT", 2**63 - 1),
    (field("f", "float"), "FLOAT", 0.5),
    (field("d", "double"), "DOUBLE", 1e300),
    (field("s", "string"), "STRING", "straße"),
    (field("y", "bytes"), "BINARY", b"\0\xff"),
    (field("x", {"type": "fixed", "name": "X", "size": 2}), "BINARY", b"ab"),
    (field("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}), "STRING", "B"),
    (field("day", {"type": "int", "logicalType": "date"}), "DATE", dt.date(1969, 12, 31)),
    (field("ms", {"type": "long", "logicalType": "timestamp-millis"}), "TIMESTAMP", NOON),
    (field("us", ["null", {"type": "long", "logicalType": "timestamp-micros"}]), "TIMESTAMP", NOON),
    (field("lms", {"type": "long", "logicalType": "local-timestamp-millis"}), "TIMESTAMP_NTZ", NOON.replace(tzinfo=None)),
    (field("lus", {"type": "long", "logicalType": "local-timestamp-micros"}), "TIMESTAMP_NTZ", NOON.replace(tzinfo=None)),
    (field("u", {"type": "string", "logicalType": "uuid"}), "STRING", str(uuid.UUID(int=7))),
    (field("m", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}), "DECIMAL(9, 2)", Decimal("-1234567.89")),
    (
        field("mf", ["null", {"type": "fixed", "name": "M", "size": 4, "logicalType": "decimal", "precision": 5}]),
        "DECIMAL(5, 0)",
        Decimal(99999),
    ),
    (field("a", {"type": "array", "items": ["null", "long"]}), "ARRAY<BIGINT>", [1, None]),
    (
        field("map", {"type": "map", "values": {"type": "long", "logicalType": "timestamp-millis"}}),
        "MAP<STRING, TIMESTAMP>",
        {"k": NOON},
    ),
]
SCHEMA = json.dumps(record(*[each for each, _, _ in EVERYTHING]))
ROW_OF_EVERYTHING = {each["name"]: value for each, _, value in EVERYTHING}


def written(schema: str | dict[str, Any], *rows: dict[str, Any]) -> list[bytes]:
    parsed = fastavro.parse_schema(json.loads(schema) if isinstance(schema, str) else schema, named_schemas={})
    values = []
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, row)
        values.append(stream.getvalue())
    return values


def decoded(values: list[bytes], schema: str | dict[str, Any], url: str = "") -> list[tuple[Any, str | None]]:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    column = decoder(text, url)(pa.array(values, pa.binary()))
    return [(each[ROW], each[PROBLEM]) for each in column.to_pylist(maps_as_pydicts="strict")]


@pytest.mark.parametrize(("declared", "column"), [(each, column) for each, column, _ in EVERYTHING])
def test_each_supported_type_is_a_column(declared: dict[str, Any], column: str) -> None:
    assert spark_columns(json.dumps(record(declared))) == f"`{declared['name']}` {column}"


def test_a_record_within_a_record_is_a_struct_wherever_its_name_stands() -> None:
    inner = record(field("n", "int"), name="In")
    schema = record(field("one", inner), field("two", ["null", "In"]), field("many", {"type": "array", "items": "In"}))
    assert spark_columns(json.dumps(schema)) == "`one` STRUCT<`n`: INT>, `two` STRUCT<`n`: INT>, `many` ARRAY<STRUCT<`n`: INT>>"
    row = {"one": {"n": 1}, "two": None, "many": [{"n": 2}]}
    assert decoded(written(schema, row), schema) == [(row, None)]


def _using_each_other(levels: int, times: int) -> dict[str, Any]:
    """A record whose fields use the record before it so many times."""
    made = record(field("n", "int"), name="L0")
    for level in range(1, levels):
        fields = [field(f"f{number}", f"L{level - 1}") for number in range(1, times)]
        made = record(field("f0", made), *fields, name=f"L{level}")
    return made


def _holding_each_other(count: int) -> dict[str, Any]:
    """Records side by side, each but the first with the one before it."""
    records = [record(field("n", "int"), name="C0"), *(record(field("n", f"C{n}"), name=f"C{n + 1}") for n in range(count - 1))]
    return record(*[field(f"f{number}", each) for number, each in enumerate(records)])


def test_types_that_use_each_other_are_bounded_before_they_are_written_out() -> None:
    """Of the last but one, three kilobytes are a billion columns; of the last one, a name is written a thousand times."""
    for schema, place in (
        (_using_each_other(6, 10), "f1"),
        (_using_each_other(10, 10), "f0.f0.f0.f0.f1"),
        (record(field("a", record(field("n" * 30_000, "int"), name="I")), *[field(f"b{number}", "I") for number in range(1_000)]), "b7"),
    ):
        with pytest.raises(ValueError, match=f"^field '{place}': up to here the columns have more than {MAX_COLUMNS_LENGTH} characters"):
            spark_columns(json.dumps(schema))
    assert spark_columns(json.dumps(_using_each_other(4, 10))).count("INT") == 1_000


def test_types_nest_as_deeply_as_others_can_follow() -> None:
    nested: Any = "int"
    for _ in range(70):
        nested = {"type": "array", "items": nested}
    for schema, place in ((record(field("a", nested)), r"a(\[\])+"), (_holding_each_other(70), r"f63\.n")):
        with pytest.raises(ValueError, match=f"^field '{place}': types nest more than 64 deep$"):
            spark_columns(json.dumps(schema))
    assert spark_columns(json.dumps(_holding_each_other(60))).count("INT") == 60


def test_a_record_within_itself_is_no_column() -> None:
    within = record(field("a", record(field("b", ["null", "R"]), name="In")))
    with pytest.raises(ValueError, match=r"^field 'a.b': R has no columns here; .*record \(but not within itself\)"):
        spark_columns(json.dumps(within))


def test_a_schema_that_says_it_was_parsed_is_parsed() -> None:
    noted = record(field("a", "In")) | {"__fastavro_parsed": True, "__named_schemas": {"In": {"type": "record", "name": "In"}}}
    with pytest.raises(ValueError, match="invalid Avro schema: UnknownType: In"):
        spark_columns(json.dumps(noted))


def test_a_record_is_read_as_it_was_written() -> None:
    other = ROW_OF_EVERYTHING | {"us": None, "mf": None, "a": [], "map": {}}
    assert decoded(written(SCHEMA, ROW_OF_EVERYTHING, other), SCHEMA) == [(ROW_OF_EVERYTHING, None), (other, None)]


def test_a_row_is_written_as_another_reads_it() -> None:
    rows = decoder(SCHEMA, "")(pa.array(written(SCHEMA, ROW_OF_EVERYTHING), pa.binary())).field(ROW)
    assert encoder(SCHEMA, None)(rows).to_pylist() == written(SCHEMA, ROW_OF_EVERYTHING)
    [value] = encoder(SCHEMA, 258)(rows).to_pylist()
    assert value[:5] == b"\0\0\0\1\2"


def test_dates_and_times_that_python_does_not_have_are_written_as_any_other() -> None:
    kinds = {"day": ("int", "date"), "us": ("long", "timestamp-micros"), "ms": ("long", "local-timestamp-millis")}
    fields = [field(name, ["null", {"type": kind, "logicalType": logical}]) for name, (kind, logical) in kinds.items()]
    schema = json.dumps(record(*fields, field("many", _many({"type": "long", "logicalType": "timestamp-millis"}))))
    stored = json.dumps(record(*[field(name, ["null", kind]) for name, (kind, _) in kinds.items()], field("many", _many("long"))))
    numbers: list[dict[str, Any]] = [
        {"day": 3_000_000, "us": 253_402_300_800_000_001, "ms": 300_000_000_000_999_999, "many": [-1, -62_135_596_800_000_001]},
        {"day": -800_000, "us": -62_135_596_800_000_001, "ms": None, "many": []},
    ]
    us, utc = pa.timestamp("us"), pa.timestamp("us", "UTC")
    columns = {"day": pa.int32(), "us": pa.int64(), "ms": pa.int64(), "many": pa.list_(pa.int64())}
    rows = pa.array(numbers, pa.struct(columns)).cast(pa.struct({"day": pa.date32(), "us": utc, "ms": us, "many": pa.list_(utc)}))
    millis = [row | {"ms": row["ms"] and row["ms"] // 1_000, "many": [each // 1_000 for each in row["many"]]} for row in numbers]
    values = encoder(schema, None)(rows)
    assert values.to_pylist() == written(stored, *millis)
    assert [row for row, _ in decoded(values.to_pylist(), stored)] == millis


def _many(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def test_a_text_that_is_none_fits_no_schema() -> None:
    text = pa.StructArray.from_arrays([pa.array([b"caf\xe9"], pa.binary()).view(pa.string())], ["s"])
    with pytest.raises(RowUnusable, match="a row does not fit the sink's Avro schema: 'utf-8' codec can't decode"):
        encoder(json.dumps(record(field("s", "string"))), None)(text)


def test_a_row_that_does_not_fit_is_named_with_its_reason() -> None:
    with pytest.raises(RowUnusable, match=r"a row does not fit the sink's Avro schema: .*'n': None"):
        encoder(json.dumps(record(field("n", "int"))), None)(pa.array([{"n": None}]))


NOT_NULL = [each for each, _, _ in EVERYTHING if not isinstance(each["type"], list)]


@pytest.mark.parametrize("within", ["a field", "an array", "a map", "a record"])
@pytest.mark.parametrize("declared", NOT_NULL, ids=lambda each: str(each["name"]))
def test_a_null_where_the_schema_has_none_is_never_written_as_something_else(declared: dict[str, Any], within: str) -> None:
    """fastavro takes it for false in a boolean."""
    column = {each.name: each.type for each in decoder(SCHEMA, "")(pa.array([], pa.binary())).type[ROW].type}[declared["name"]]
    kinds: dict[str, tuple[Any, pa.DataType, Any]] = {
        "a field": (declared["type"], column, None),
        "an array": (_many(declared["type"]), pa.list_(column), [None]),
        "a map": ({"type": "map", "values": declared["type"]}, pa.map_(pa.string(), column), [("k", None)]),
        "a record": (record(field("v", declared["type"]), name="Inner"), pa.struct([("v", column)]), {"v": None}),
    }
    kind, of_arrow, value = kinds[within]
    rows = pa.StructArray.from_arrays([pa.array([value], of_arrow)], ["c"])
    with pytest.raises(RowUnusable, match="a row does not fit the sink's Avro schema: "):
        encoder(json.dumps(record(field("c", kind))), None)(rows)


@pytest.mark.parametrize("kind", [["null", "boolean"], ["boolean", "null"], ["null", {"type": "boolean"}]])
def test_a_boolean_that_may_be_null_is_written_as_it_is(kind: Any) -> None:
    """Also where a field, or a symbol, is called as the type is."""
    schema = record(field("boolean", kind), field("e", {"type": "enum", "name": "boolean_", "symbols": ["boolean"]}), field("n", "boolean"))
    rows = [{"boolean": each, "e": "boolean", "n": bool(each)} for each in (True, False, None)]
    columns = pa.struct([("boolean", pa.bool_()), ("e", pa.string()), ("n", pa.bool_())])
    assert encoder(json.dumps(schema), None)(pa.array(rows, columns)).to_pylist() == written(schema, *rows)


def test_a_bad_record_leaves_the_others_alone() -> None:
    schema = record(field("n", "long"), field("m", {"type": "bytes", "logicalType": "decimal", "precision": 3}))
    good = {"n": 1, "m": Decimal(7)}
    wide = schema["fields"][0], field("m", {"type": "bytes", "logicalType": "decimal", "precision": 9})
    [first, last, too_wide] = [*written(schema, good, good), *written(record(*wide), {"n": 2, "m": Decimal(1234567)})]
    results = decoded([first, b"", first[:1], first + b"x", too_wide, last], schema)
    assert [row for row, _ in results] == [good, None, None, None, None, good]
    assert results[3][1] == "1 bytes are left over behind it"
    assert all(problem for row, problem in results if row is None)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as registry:
        yield registry


def framed(schema_id: int, value: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + value


def test_a_record_is_read_with_the_schema_it_was_written_with_which_is_asked_for_once(registry: Registry) -> None:
    old = record(field("customer", "string"), field("amount", "int"))
    new = record(field("amount", "long"), field("customer", "string"), field("country", "string", default="-"))
    old_id, new_id = registry.register("orders-value", json.dumps(old)), registry.register("orders-value", json.dumps(new))
    values = [framed(old_id, value) for value in written(old, {"customer": "a", "amount": 1}, {"customer": "b", "amount": 2})]
    values += [framed(new_id, value) for value in written(new, {"customer": "c", "amount": 3, "country": "AT"})]
    expected = [("a", 1, "-"), ("b", 2, "-"), ("c", 3, "AT")]
    for _ in range(2):
        rows = [row for row, _ in decoded(values, new, registry.url)]
        assert [(row["customer"], row["amount"], row["country"]) for row in rows] == expected
    assert registry.asked == 2
    assert SchemaRegistry(registry.url).newest("orders-value") == (new_id, json.dumps(new))
    assert SchemaRegistry(registry.url).register("orders-value", json.dumps(old)) == old_id


def test_times_that_were_written_otherwise_than_they_are_read_are_no_times(registry: Registry) -> None:
    def of(logical: str) -> dict[str, Any]:
        return record(field("at", ["null", {"type": "long", "logicalType": logical}]))

    schema_id = registry.register("s", json.dumps(of("timestamp-millis")))
    [value] = written(of("timestamp-millis"), {"at": NOON})
    [(row, problem)] = decoded([framed(schema_id, value)], of("timestamp-micros"), registry.url)
    assert (row, problem) == (None, "field 'at' was written as timestamp-millis, and the source's schema has timestamp-micros")


def test_a_record_without_a_schema_in_the_registry_is_bad_and_a_registry_that_is_silent_is_no_property_of_a_record(
    registry: Registry,
) -> None:
    schema = record(field("n", "int"))
    [value] = written(schema, {"n": 1})
    results = decoded([framed(77, value), value, b"\0\0"], schema, registry.url)
    assert [row for row, _ in results] == [None] * 3
    assert "/schemas/ids/77: 404 not found" in (results[0][1] or "")
    assert "does not begin as the registry's wire format does" in (results[1][1] or "")
    with pytest.raises(UnknownSchema, match="404"):
        SchemaRegistry(registry.url).newest("none")
    with pytest.raises(RegistryUnavailable, match="does not answer"):
        decoded([framed(1, value)], schema, "http://127.0.0.1:9")
