"""Schemas of a Confluent-compatible registry, for inbound records in its wire format.

Who writes to the registry need not mean well: a schema is read within a bound, and used only where what it decodes has one (P10). A
schema is fetched once, before its first record is decoded, while only that record's topic waits. An id that the registry
does not know is remembered for a while, so that a flood of bad records does not become a flood of requests.
"""

import json
import time
from typing import Any

import aiohttp
import fastavro

from eventflink.events.codec import UndecodableRecord
from eventflink.leadership.inbound import no_registry
from eventflink.model.avro_schema import CONFLUENT_HEADER_LENGTH, CONFLUENT_MAGIC
from eventflink.model.bounded_schema import MAX_SCHEMA_BYTES, bounded_schema

TIMEOUT_S = 5.0
REMEMBER_FAILURE_S = 30.0
MAX_SCHEMAS = 10_000


_NO_SCHEMA = (ValueError, KeyError, TypeError, AttributeError, RecursionError, fastavro.schema.SchemaParseException)


class SchemaRegistryClient:
    """The schemas by id."""

    def __init__(self, url: str) -> None:
        """Ask the registry at `url`; empty: there is none."""
        self._url = url.rstrip("/")
        self._schemas: dict[int, Any] = {}
        self._failures: dict[int, tuple[float, str]] = {}

    def needs(self, value: bytes | None) -> int | None:
        """Return the schema id that must be fetched before the record can be decoded, or None."""
        if not self._url or value is None or len(value) < CONFLUENT_HEADER_LENGTH or value[0] != CONFLUENT_MAGIC:
            return None
        schema_id = int.from_bytes(value[1:CONFLUENT_HEADER_LENGTH], "big")
        failed_at, _ = self._failures.get(schema_id, (-REMEMBER_FAILURE_S, ""))
        known = schema_id in self._schemas or time.monotonic() - failed_at < REMEMBER_FAILURE_S
        return None if known else schema_id

    async def fetch(self, schema_id: int) -> None:
        """Fetch a schema; what goes wrong is said when a record needs it."""
        if len(self._failures) + len(self._schemas) > MAX_SCHEMAS:
            self._failures.clear()
            self._schemas.clear()
        try:
            timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(f"{self._url}/schemas/ids/{schema_id}") as response:
                response.raise_for_status()
                document = json.loads(await _read_bounded(response.content))
            self._schemas[schema_id] = fastavro.parse_schema(bounded_schema(json.loads(document["schema"])), named_schemas={})
            self._failures.pop(schema_id, None)
        except (TimeoutError, aiohttp.ClientError, *_NO_SCHEMA) as error:
            self._failures[schema_id] = (time.monotonic(), f"{type(error).__name__}: {error}")

    def schema(self, schema_id: int) -> Any:
        """Return a schema.

        Raises:
            UndecodableRecord: the registry did not give it; the message says why.

        """
        if not self._url:
            return no_registry(schema_id)
        if schema_id in self._schemas:
            return self._schemas[schema_id]
        _, reason = self._failures.get(schema_id, (0.0, "it was not asked"))
        raise UndecodableRecord(f"the schema registry gave no schema for id {schema_id}: {reason}")


async def _read_bounded(content: aiohttp.StreamReader) -> bytes:
    """Read the whole of an answer.

    Raises:
        ValueError: it is longer than any that is used.

    """
    read = bytearray()
    async for chunk in content.iter_any():
        read += chunk
        if len(read) > MAX_SCHEMA_BYTES:
            raise ValueError(f"the answer has more than {MAX_SCHEMA_BYTES} bytes")
    return bytes(read)
