"""Which columns an Avro schema describes, and how a record names its schema; nothing is decoded here.

The rule it keeps: a schema is refused with the place in it before a job runs, never with its first record.
"""

import json
import zipfile
from pathlib import Path
from typing import Any, Final, NamedTuple

from fastavro.schema import SchemaParseException, expand_schema, parse_schema

from eventflink.model.sql_script import quoted

CONFLUENT_MAGIC: Final = 0
CONFLUENT_HEADER_LENGTH: Final = 5
"""The magic byte, and the id of the schema as four bytes, the highest first."""

SCHEMA_SUFFIX: Final = ".avsc"
_MAX_SCHEMA_BYTES: Final = 65_536
_MAX_PRECISION: Final = 38
_MAX_DEPTH: Final = 64
MAX_COLUMNS_LENGTH: Final = 4 * _MAX_SCHEMA_BYTES
"""Of all columns as DDL. They are shorter than their schema where no type is used twice, so each may be used four times and more."""

_HINTS: Final = frozenset({"__fastavro_parsed", "__named_schemas"})
"""What makes fastavro believe that it has seen a schema before."""

_COLUMN_TYPES: Final = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "bytes": "BINARY",
    "fixed": "BINARY",
    "enum": "STRING",
    "int date": "DATE",
    "long timestamp-millis": "TIMESTAMP",
    "long timestamp-micros": "TIMESTAMP",
    "long local-timestamp-millis": "TIMESTAMP_NTZ",
    "long local-timestamp-micros": "TIMESTAMP_NTZ",
    "string uuid": "STRING",
}
"""Spark's type of each type of Avro, the logical type behind it."""


def spark_columns(schema: str) -> str:
    """Return the columns of an Avro record as Spark's DDL; what they cost is bounded by the length of the schema.

    Raises:
        ValueError: the schema is none, or has what Spark has no columns for, or too much of it; names the field.

    """
    named: dict[str, Any] = {}
    record = _parsed(schema, named)
    if not isinstance(record, dict) or record["type"] not in ("record", "error"):
        raise ValueError("an Avro record is expected, whose fields are the columns")
    return ", ".join(f"{quoted(name)} {column.written}" for name, column in _Columns(named).fields_of(record, "", 0))


def expand(schema: str) -> Any:
    """Return an Avro schema in which names stand for themselves only where it is recursive.

    Whoever looks at all of it may look at types that use each other a thousand times a thousand times: `spark_columns` refuses such a one.

    Raises:
        ValueError: it is none.

    """
    _parsed(schema, {})
    return expand_schema(_document(schema))


def _parsed(schema: str, named: dict[str, Any]) -> Any:
    """Return an Avro schema in which types stand once and then by their full names, by which they are put into `named`."""
    try:
        return parse_schema(_document(schema), named_schemas=named)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, SchemaParseException) as error:
        raise ValueError(f"invalid Avro schema: {type(error).__name__}: {str(error)[:200]}") from error


def _document(schema: str) -> Any:
    document = json.loads(schema)
    return {key: value for key, value in document.items() if key not in _HINTS} if isinstance(document, dict) else document


def kind_of(schema: Any) -> str:
    """Return the name of a type of an expanded schema."""
    return str(schema["type"] if isinstance(schema, dict) else schema)


def logical_type_of(schema: Any) -> str:
    """Return what the values of an expanded schema mean; empty: themselves."""
    return str(schema.get("logicalType") or "") if isinstance(schema, dict) else ""


def without_null(schema: Any, place: str) -> Any:
    """Return the other type of a union with null, and any other schema as it is.

    Raises:
        ValueError: it is a union of several types.

    """
    if not isinstance(schema, list):
        return schema
    others = [each for each in schema if kind_of(each) != "null"]
    if len(others) != 1:
        raise ValueError(
            f"invalid field '{place}': a union of {', '.join(map(kind_of, schema))} cannot be a column; use one type, with or without null"
        )
    return others[0]


class _Column(NamedTuple):
    """What a type is as a column."""

    written: str
    """As Spark's DDL."""
    height: int
    """How deeply types nest in it."""


_UNNESTED: Final = {kind: _Column(written, 0) for kind, written in _COLUMN_TYPES.items()}


class _Columns:
    """The columns of the types of one schema: a record that is used by its name is looked at once, and no more is written than may be."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._written: dict[str, _Column | None] = {}
        """Of records by their names; None: it holds the place where the walk is."""

    def fields_of(self, record: dict[str, Any], place: str, depth: int) -> list[tuple[str, _Column]]:
        """Return the fields of a record with their types in Spark."""
        self._written[record["name"]] = None
        fields: list[tuple[str, _Column]] = []
        seen: set[str] = set()
        length = 0
        if not record["fields"]:
            raise ValueError(f"field '{place}': a record has no fields" if place else "it has no fields")
        for field in record["fields"]:
            name = field["name"]
            inner = f"{place}.{name}" if place else name
            if name.lower() in seen:
                raise ValueError(f"field '{inner}' is there twice, and upper and lower case are the same to Spark")
            seen.add(name.lower())
            column = self._column(field["type"], inner, depth + 1)
            if field.get("default") is not None and column.written.startswith(("BINARY", "DECIMAL")):
                raise ValueError(f"field '{inner}': bytes have no default but null here")
            length += len(name) + len(column.written)
            if length > MAX_COLUMNS_LENGTH:
                raise ValueError(f"field '{inner}': up to here the columns have more than {MAX_COLUMNS_LENGTH} characters, written out")
            fields.append((name, column))
        return fields

    def _column(self, schema: Any, place: str, depth: int) -> _Column:
        if depth > _MAX_DEPTH:
            raise ValueError(f"field '{place}': types nest more than {_MAX_DEPTH} deep")
        branches = [self._resolved(each) for each in schema] if isinstance(schema, list) else self._resolved(schema)
        schema = without_null(branches, place)
        kind, logical = kind_of(schema), logical_type_of(schema)
        match kind, logical:
            case (("record" | "error"), ""):
                return self._struct(schema, place, depth)
            case "array", "":
                item = self._column(schema["items"], f"{place}[]", depth + 1)
                return _Column(f"ARRAY<{item.written}>", item.height + 1)
            case "map", "":
                value = self._column(schema["values"], f"{place}[]", depth + 1)
                return _Column(f"MAP<STRING, {value.written}>", value.height + 1)
            case (("bytes" | "fixed"), "decimal"):
                return _Column(_decimal_type(schema, place), 0)
        written = f"{kind} {logical}".rstrip()
        if written not in _UNNESTED:
            raise ValueError(
                f"field '{place}': {written} has no columns here; supported are {', '.join(_COLUMN_TYPES)}, bytes decimal, fixed decimal, "
                f"record (but not within itself), array, map, and a union of one of them and null"
            )
        return _UNNESTED[written]

    def _resolved(self, schema: Any) -> Any:
        """Return the type that a name stands for; a type within itself is its name."""
        if not isinstance(schema, str) or self._written.get(schema, schema) is None:
            return schema
        return self._named.get(schema, schema)

    def _struct(self, record: dict[str, Any], place: str, depth: int) -> _Column:
        name = record["name"]
        if (known := self._written.get(name)) is None:
            fields = self.fields_of(record, place, depth)
            written = f"STRUCT<{', '.join(f'{quoted(name)}: {column.written}' for name, column in fields)}>"
            self._written[name] = known = _Column(written, 1 + max(column.height for _, column in fields))
        if depth + known.height > _MAX_DEPTH:
            raise ValueError(f"field '{place}': types nest more than {_MAX_DEPTH} deep")
        return known


def _decimal_type(schema: dict[str, Any], place: str) -> str:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= _MAX_PRECISION and precision > 0):
        raise ValueError(f"field '{place}': a decimal has a precision of 1 to {_MAX_PRECISION}, and a scale up to that")
    return f"DECIMAL({precision}, {scale})"


# -- schemas in files -------------------------------------------------------------------------------------------------


Directory = Path | zipfile.Path


def with_schema_files(document: Any, directory: Directory) -> Any:
    """Return a JobGraph document in which the contents of .avsc files stand for their paths, which are relative to a directory.

    Raises:
        ValueError: a file cannot be read; names the place in the document.

    """
    return _with_files(document, directory, "")


def _with_files(value: Any, directory: Directory, place: str) -> Any:
    if isinstance(value, list):
        return [_with_files(inner, directory, f"{place}[{number}]") for number, inner in enumerate(value)]
    if not isinstance(value, dict):
        return value
    made = {key: _with_files(inner, directory, f"{place}.{key}".lstrip(".")) for key, inner in value.items() if key != "parameters"}
    if "parameters" in value:  # They are the task's.
        made["parameters"] = value["parameters"]
    schema = made.get("schema")
    if made.get("format") == "avro" and isinstance(schema, str) and schema.endswith(SCHEMA_SUFFIX):
        made["schema"] = _read_schema(directory / schema, f"{place}.schema")
    return made


def _read_schema(path: Directory, place: str) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_SCHEMA_BYTES + 1).decode()
    except (OSError, ValueError) as error:
        reason = error.strerror or type(error).__name__ if isinstance(error, OSError) else error
        raise ValueError(f"{place}: {path}: {reason}") from error
    if len(text) > _MAX_SCHEMA_BYTES:
        raise ValueError(f"{place}: {path}: longer than {_MAX_SCHEMA_BYTES} bytes")
    return text
