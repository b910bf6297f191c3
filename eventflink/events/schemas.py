"""The Avro schemas: where the files are, the envelopes in them, and their fingerprints.

`schemas/` holds each envelope as it was released, whole; the newest is what is written today. They are made of the classes of the
records, by `docs/generate/schemas.py`. Everything ever released stays readable: a `WriterSchemas` knows all of an envelope.
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
def load_released(name: str, number: int) -> Schema:
    """Load an envelope as release `number` wrote it."""
    path = schema_directory() / f"{NAMESPACE}.{name}.{number}.avsc"
    return fastavro.parse_schema(json.loads(path.read_text(encoding="utf-8")), named_schemas={})


def self_contained(schema: Schema) -> Schema:
    """Return a loaded schema with every named type in full where it is used; none of ours refers to itself."""
    return expand_schema(schema) | {"__fastavro_parsed": True, "__named_schemas": {}}


@dataclass(slots=True, eq=False)
class WriterSchemas:
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
def registry_of(name: str) -> WriterSchemas:
    """Return the registry of an envelope as the files have it; it is never changed."""
    count = len(list(schema_directory().glob(f"{NAMESPACE}.{name}.*.avsc")))
    releases = tuple(load_released(name, number) for number in range(1, count + 1))
    return WriterSchemas(name, releases[-1], releases)
