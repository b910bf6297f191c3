"""Which columns an Avro schema describes, and how a record names its schema; nothing is decoded here.

The rule it keeps: a schema is refused with the place in it before a job runs, never with its first record.
"""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fastavro.schema import SchemaParseException, expand_schema, parse_schema

CONFLUENT_MAGIC: Final = 0
CONFLUENT_HEADER_LENGTH: Final = 5
"""The magic byte, and the id of the schema as four bytes, the highest first."""

SCHEMA_SUFFIX: Final = ".avsc"
_MAX_SCHEMA_BYTES: Final = 65_536
_MAX_PRECISION: Final = 38
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
    """Return the columns of an Avro record as Spark's DDL.

    Raises:
        ValueError: the schema is none, or has what Spark has no columns for; names the field.

    """
    expanded = expand(schema)
    if not isinstance(expanded, dict) or expanded["type"] not in ("record", "error"):
        raise ValueError("an Avro record is expected, whose fields are the columns")
    return ", ".join(f"{_quoted(name)} {column}" for name, column in _fields_of(expanded, ""))


def expand(schema: str) -> Any:
    """Return an Avro schema in which names stand for themselves only where it is recursive.

    Raises:
        ValueError: it is none.

    """
    try:
        document = json.loads(schema)
        parse_schema(document, named_schemas={})
        return expand_schema(document)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, SchemaParseException) as error:
        raise ValueError(f"no Avro schema: {type(error).__name__}: {str(error)[:200]}") from error


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
        raise ValueError(f"field '{place}': a union of {', '.join(map(kind_of, schema))} is no column; one type, and null, may be")
    return others[0]


def _fields_of(record: dict[str, Any], place: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of a record with their types in Spark."""
    seen: set[str] = set()
    if not record["fields"]:
        raise ValueError(f"field '{place}': a record has no fields" if place else "it has no fields")
    for field in record["fields"]:
        name = field["name"]
        inner = f"{place}.{name}" if place else name
        if name.lower() in seen:
            raise ValueError(f"field '{inner}' is there twice, and upper and lower case are the same to Spark")
        seen.add(name.lower())
        column = _column_type(field["type"], inner)
        if field.get("default") is not None and column.startswith(("BINARY", "DECIMAL")):
            raise ValueError(f"field '{inner}': bytes have no default but null here")
        yield name, column


def _column_type(schema: Any, place: str) -> str:
    schema = without_null(schema, place)
    kind, logical = kind_of(schema), logical_type_of(schema)
    match kind, logical:
        case (("record" | "error"), ""):
            return f"STRUCT<{', '.join(f'{_quoted(name)}: {column}' for name, column in _fields_of(schema, place))}>"
        case "array", "":
            return f"ARRAY<{_column_type(schema['items'], f'{place}[]')}>"
        case "map", "":
            return f"MAP<STRING, {_column_type(schema['values'], f'{place}[]')}>"
        case (("bytes" | "fixed"), "decimal"):
            return _decimal_type(schema, place)
    written = f"{kind} {logical}".rstrip()
    if written not in _COLUMN_TYPES:
        raise ValueError(
            f"field '{place}': {written} has no columns here; supported are {', '.join(_COLUMN_TYPES)}, bytes decimal, fixed decimal, "
            f"record (but not within itself), array, map, and a union of one of them and null"
        )
    return _COLUMN_TYPES[written]


def _decimal_type(schema: dict[str, Any], place: str) -> str:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= _MAX_PRECISION and precision > 0):
        raise ValueError(f"field '{place}': a decimal has a precision of 1 to {_MAX_PRECISION}, and a scale up to that")
    return f"DECIMAL({precision}, {scale})"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


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
