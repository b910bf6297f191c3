"""The Avro schemas: where the files are, the envelopes built from them, and their fingerprints.

`schemas/` holds one file per record, named by its full name; an envelope's references are resolved by file name. Everything
ever released stays readable: `schemas/released/` holds each released envelope whole, and `SchemaRegistry` knows those too.
"""

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import fastavro
from fastavro.schema import expand_schema, fingerprint, to_parsing_canonical_form

NAMESPACE = "eventflink"
MARKER: Final = b"\xc3\x01"
"""How a record in Avro's single-object encoding begins; the fingerprint of its schema follows."""

Schema = Any
"""A parsed Avro schema as fastavro holds it."""


def schema_directory() -> Path:
    """Return the folder of the .avsc files: inside the installed package, or at the top of a checkout."""
    package = Path(__file__).parent.parent
    for folder in (package / "_schemas", package.parent / "schemas"):
        if folder.is_dir():
            return folder
    message = f"the Avro schemas are missing: neither {package / '_schemas'} nor {package.parent / 'schemas'} exists"
    raise FileNotFoundError(message)


def fingerprint_of(schema: Schema) -> bytes:
    """Return the CRC-64-AVRO fingerprint of a schema as single-object encoding writes it (little endian, 8 bytes)."""
    return bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


@cache
def load_envelope(name: str) -> Schema:
    """Load the current envelope `name`, such as `Decision`, with everything that it refers to."""
    return fastavro.parse_schema(_assembled(f"{NAMESPACE}.{name}", schema_directory(), set()), named_schemas={})


def _assembled(part: Any, directory: Path, seen: set[str]) -> Any:
    """Return a part of a schema with each named type in full where it comes first.

    As fastavro's `load_schema`, which copies the whole once more for each name: a start waits a tenth of a second for that.
    """
    if isinstance(part, str):
        if not part.startswith(f"{NAMESPACE}.") or part in seen:
            return part
        seen.add(part)
        part = json.loads((directory / f"{part}.avsc").read_text(encoding="utf-8"))
    if isinstance(part, list):
        return [_assembled(member, directory, seen) for member in part]
    return part | {key: _assembled(part[key], directory, seen) for key in ("type", "items", "values", "fields") if key in part}


@cache
def load_released(name: str, number: int) -> Schema:
    """Load an envelope as release `number` wrote it."""
    path = schema_directory() / "released" / f"{NAMESPACE}.{name}.{number}.avsc"
    return fastavro.parse_schema(json.loads(path.read_text(encoding="utf-8")), named_schemas={})


def self_contained(schema: Schema) -> Schema:
    """Return a loaded schema with every named type in full where it is used; none of ours refers to itself."""
    return expand_schema(schema) | {"__fastavro_parsed": True, "__named_schemas": {}}


@dataclass(slots=True, eq=False)
class SchemaRegistry:
    """The writer's schemas of one envelope by fingerprint: today's and every released one."""

    name: str
    current: Schema
    releases: tuple[Schema, ...]
    """The released ones, the oldest first."""
    current_fingerprint: bytes = field(init=False)
    by_fingerprint: dict[bytes, Schema] = field(init=False)
    """Self-contained: what records are written and read with."""

    def __post_init__(self) -> None:
        """Compute the fingerprints."""
        self.current_fingerprint = fingerprint_of(self.current)
        self.by_fingerprint = {fingerprint_of(schema): self_contained(schema) for schema in (*self.releases, self.current)}


@cache
def registry_of(name: str) -> SchemaRegistry:
    """Return the registry of an envelope as the files have it; it is never changed."""
    count = len(list((schema_directory() / "released").glob(f"{NAMESPACE}.{name}.*.avsc")))
    return SchemaRegistry(name, load_envelope(name), tuple(load_released(name, number) for number in range(1, count + 1)))
