"""From the bytes of Avro records to the columns of a stream, and back: what Spark's Python workers run for sources and sinks.

Values are read and written as Avro stores them, and are dates and times in Arrow alone: Python's objects cost more, and have the years 1
to 9999 only. It does not depend on which of two schemas says so either; a writer whose times mean something else than the reader's is
refused. The rule it keeps: what is wrong with one record is said of that record alone, in the place of its row.
"""

import functools
import io
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import fastavro
import fastavro.write
import pyarrow as pa

from eventflink.model.avro_schema import (
    CONFLUENT_HEADER_LENGTH,
    CONFLUENT_MAGIC,
    expand,
    kind_of,
    logical_type_of,
    without_null,
)
from eventflink.streams.avro_registry import SchemaRegistry, UnknownSchema
from eventflink.streams.failures import RegistryUnavailable, RowUnusable

ROW: Final = "row"
PROBLEM: Final = "problem"
_REASON_LIMIT: Final = 200
_MILLIS: Final = "eventflink-millis"
"""A logical type whose values are microseconds where they come from, and milliseconds where they are written."""

fastavro.write.LOGICAL_WRITERS[f"long-{_MILLIS}"] = lambda value, _schema: value // 1_000
_TRUTH: Final = "eventflink-truth"
"""A logical type whose value is true or false: fastavro writes whatever is not true as false, a null as well."""


class _Neither:
    """What stands for a value that is no boolean: no branch of a union, and nothing that can be written."""

    def __bool__(self) -> bool:
        raise ValueError("a BOOLEAN is null where the schema has no null")


fastavro.write.LOGICAL_WRITERS[f"boolean-{_TRUTH}"] = lambda value, _schema: value if isinstance(value, bool) else _Neither()
_READ: Final = {"decimal": "decimal"}
"""What fastavro makes of what is stored."""

_WRITTEN: Final = _READ | dict.fromkeys(("timestamp-millis", "local-timestamp-millis"), _MILLIS)
_ARROW_TYPES: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "enum": pa.string(),
    "int date": pa.date32(),
    "long timestamp-millis": pa.timestamp("ms", "UTC"),
    "long timestamp-micros": pa.timestamp("us", "UTC"),
    "long local-timestamp-millis": pa.timestamp("ms"),
    "long local-timestamp-micros": pa.timestamp("us"),
    "string uuid": pa.string(),
}


def decoder(schema: str, registry_url: str) -> Callable[[pa.Array], pa.Array]:
    """Return what Spark calls with the values of records: each becomes its `ROW`, or the `PROBLEM` with it.

    Args:
        schema: of the columns, as JSON.
        registry_url: of the registry in which records name the schema they were written with; empty: it is `schema`, and they name none.

    """

    def decode(values: pa.Array) -> pa.Array:
        return _reader_of(schema, registry_url).decode(values)

    return decode


def encoder(schema: str, schema_id: int | None) -> Callable[[pa.Array], pa.Array]:
    """Return what Spark calls with rows: each becomes the value of a record.

    Args:
        schema: of the rows, as JSON.
        schema_id: of the registry, if records are to name it.

    """

    def encode(rows: pa.Array) -> pa.Array:
        return _encode(rows, schema, schema_id)

    return encode


@functools.lru_cache(maxsize=64)
def _reader_of(schema: str, registry_url: str) -> "_Reader":
    return _Reader(schema, registry_url)


class _Reader:
    """What a worker has learnt of one source."""

    def __init__(self, schema: str, registry_url: str) -> None:
        self._text = schema
        self._schema = _stored(schema)
        self._expanded = expand(schema)
        self._registry = SchemaRegistry(registry_url) if registry_url else None
        self._writers: dict[str, Any] = {}
        # As it is stored, and as Spark has it.
        self._stored_type, self._type = _arrow_type(self._expanded, is_stored=True), _arrow_type(self._expanded, is_stored=False)

    def decode(self, values: pa.Array) -> pa.Array:
        """Decode some values."""
        rows: list[dict[str, Any] | None] = []
        problems: list[str | None] = []
        for value in values.to_pylist():
            row, problem = None, None
            try:
                row = self._read(value)
            except RegistryUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - of bytes that are no record, fastavro raises whatever came of them
                problem = _reason_of(error)
            rows.append(row)
            problems.append(problem)
        try:
            column = self._columns(rows)
        except (pa.ArrowException, OverflowError):
            self._sort_out(rows, problems)
            column = self._columns(rows)
        return pa.StructArray.from_arrays([column, pa.array(problems, pa.string())], [ROW, PROBLEM])

    def _columns(self, rows: list[dict[str, Any] | None]) -> pa.Array:
        return pa.array(rows, self._stored_type).cast(self._type)

    def _sort_out(self, rows: list[dict[str, Any] | None], problems: list[str | None]) -> None:
        """Find the rows that have no place in the columns."""
        for number, row in enumerate(rows):
            try:
                self._columns([row])
            except (pa.ArrowException, OverflowError) as error:
                rows[number], problems[number] = None, _reason_of(error)

    def _read(self, value: bytes) -> dict[str, Any]:
        stream = io.BytesIO(value)
        writer, reader = self._schema, None
        if self._registry is not None:
            if len(value) < CONFLUENT_HEADER_LENGTH or value[0] != CONFLUENT_MAGIC:
                raise ValueError("it does not begin as the registry's wire format does, with a zero and the id of its schema")
            written = self._registry.schema_of(int.from_bytes(value[1:CONFLUENT_HEADER_LENGTH], "big"))
            stream.seek(CONFLUENT_HEADER_LENGTH)
            if written != self._text:
                writer, reader = self._writer_of(written), self._schema
        row: dict[str, Any] = fastavro.schemaless_reader(stream, writer, reader)
        if left := len(value) - stream.tell():
            raise ValueError(f"{left} bytes are left over behind it")
        return row

    def _writer_of(self, schema: str) -> Any:
        if schema not in self._writers:
            if other := _other_meaning(expand(schema), self._expanded, ""):
                raise ValueError(other)
            self._writers[schema] = _stored(schema)
        return self._writers[schema]


def _reason_of(error: Exception) -> str:
    told = str(error).splitlines()
    return (told[0] if isinstance(error, ValueError | UnknownSchema) and told else f"{type(error).__name__} {error}")[:_REASON_LIMIT]


def _stored(schema: str) -> Any:
    """Return a schema for fastavro which reads values as they are stored, decimals excepted."""
    return fastavro.parse_schema(_with_meanings(json.loads(schema), _READ), named_schemas={})


def _with_meanings(schema: Any, meanings: Mapping[str, str]) -> Any:
    """Return a schema with these logical types, called so, and no others."""
    if isinstance(schema, list):
        return [_with_meanings(each, meanings) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: inner if key == "default" else _with_meanings(inner, meanings) for key, inner in schema.items() if key != "logicalType"}
    meaning = schema.get("logicalType")
    return found | ({"logicalType": meanings[meaning]} if isinstance(meaning, str) and meaning in meanings else {})


def _other_meaning(writer: Any, reader: Any, place: str) -> str:
    """Say where numbers of the writer mean something else than the reader takes them for; empty: nowhere."""
    reader = without_null(reader, place)
    for branch in writer if isinstance(writer, list) else [writer]:
        if kind_of(branch) == kind_of(reader) == "record":
            by_name = {field["name"]: field["type"] for field in branch["fields"]}
            for field in reader["fields"]:
                written = next((by_name[name] for name in (field["name"], *field.get("aliases", ())) if name in by_name), None)
                if written is not None and (other := _other_meaning(written, field["type"], f"{place}.{field['name']}".lstrip("."))):
                    return other
        elif kind_of(branch) == kind_of(reader) and kind_of(reader) in ("array", "map"):
            key = "items" if kind_of(reader) == "array" else "values"
            if other := _other_meaning(branch[key], reader[key], f"{place}[]"):
                return other
        elif kind_of(branch) in ("int", "long", "bytes", "fixed") and logical_type_of(branch) != logical_type_of(reader):
            meant, taken = logical_type_of(branch) or kind_of(branch), logical_type_of(reader) or kind_of(reader)
            return f"field '{place}' was written as {meant}, and the source's schema has {taken}"
    return ""


def _arrow_type(schema: Any, *, is_stored: bool) -> pa.DataType:
    schema = without_null(schema, "")
    match kind_of(schema), logical_type_of(schema):
        case (("record" | "error"), _):
            return pa.struct([(field["name"], _arrow_type(field["type"], is_stored=is_stored)) for field in schema["fields"]])
        case "array", _:
            return pa.list_(_arrow_type(schema["items"], is_stored=is_stored))
        case "map", _:
            return pa.map_(pa.string(), _arrow_type(schema["values"], is_stored=is_stored))
        case _, "decimal":
            return pa.decimal128(schema["precision"], schema.get("scale", 0))
        case kind, logical:
            found = _ARROW_TYPES[f"{kind} {logical}".rstrip()]
            return pa.timestamp("us", found.tz) if pa.types.is_timestamp(found) and not is_stored else found


@functools.lru_cache(maxsize=64)
def _writer_schema(schema: str) -> Any:
    return fastavro.parse_schema(_with_truth(_with_meanings(json.loads(schema), _WRITTEN)), named_schemas={})


def _with_truth(schema: Any) -> Any:
    """Return a schema whose booleans are checked when they are written."""
    if schema == "boolean":
        return {"type": "boolean", "logicalType": _TRUTH}
    if isinstance(schema, list):
        return [_with_truth(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "boolean" and "name" not in schema:
        return schema | {"logicalType": _TRUTH}
    return {key: _with_truth(inner) if key in ("type", "items", "values", "fields") else inner for key, inner in schema.items()}


def _encode(rows: pa.Array, schema: str, schema_id: int | None) -> pa.Array:
    writer = _writer_schema(schema)
    header = b"" if schema_id is None else bytes([CONFLUENT_MAGIC]) + schema_id.to_bytes(CONFLUENT_HEADER_LENGTH - 1, "big")
    values = []
    for row in _rows_of(rows):
        stream = io.BytesIO()
        stream.write(header)
        try:
            fastavro.schemaless_writer(stream, writer, row)
        except Exception as error:
            raise RowUnusable(f"a row does not fit the sink's Avro schema: {_reason_of(error)}: {str(row)[:_REASON_LIMIT]}") from error
        values.append(stream.getvalue())
    return pa.array(values, pa.binary())


def _rows_of(rows: pa.Array) -> list[dict[str, Any]]:
    """Return rows with days and microseconds for dates and times, of which Python has only those of the years 1 to 9999."""
    try:
        found: list[dict[str, Any]] = rows.cast(_with_numbers(rows.type)).to_pylist(maps_as_pydicts="strict")
    except (ValueError, KeyError) as error:  # A text of Spark may be any bytes, and a map may have a key twice.
        raise RowUnusable(f"a row does not fit the sink's Avro schema: {_reason_of(error)}") from error
    return found


def _with_numbers(kind: pa.DataType) -> pa.DataType:
    match kind:
        case pa.StructType():
            return pa.struct([field.with_type(_with_numbers(field.type)) for field in kind])
        case pa.ListType():
            return pa.list_(kind.value_field.with_type(_with_numbers(kind.value_type)))
        case pa.MapType():
            return pa.map_(kind.key_field, kind.item_field.with_type(_with_numbers(kind.item_type)))
        case pa.TimestampType():
            return pa.int64()
        case _:
            return pa.int32() if pa.types.is_date32(kind) else kind
