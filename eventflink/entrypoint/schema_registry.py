"""Schemas of a Confluent-compatible registry, for inbound records in its wire format: which are known, and which are to be waited for.

Who writes to the registry need not mean well: a schema is read within a bound, and used only where what it decodes has one (P10). It is
fetched once, before its first record is decoded, while only that record's topic waits. The rule: an input is refused for what
the registry says, and never because it says nothing: while it does not answer, the topic waits. What it does not know is remembered for a
while, so that a flood of bad records does not become a flood of requests.
"""

import asyncio
import json
import logging
import time
from collections import OrderedDict
from typing import Any, Final

import fastavro

from eventflink.events.codec import UndecodableRecord
from eventflink.leadership.inbound import no_registry
from eventflink.model.avro_schema import CONFLUENT_HEADER_LENGTH, CONFLUENT_MAGIC
from eventflink.model.bounded_schema import MAX_SCHEMA_BYTES, bounded_schema
from eventflink.streams.avro_registry import UnknownSchema, ask_registry, avro_of
from eventflink.streams.failures import RegistryUnavailable

TIMEOUT_S: Final = 5.0
RETRY_S: Final = 1.0
REMEMBER_FAILURE_S: Final = 30.0
MAX_SCHEMAS: Final = 10_000
"""Those that were needed last are kept: more than the records that wait in an inbox."""

MAX_FAULTS: Final = 60
"""How often the registry may answer to a schema with a fault of its own: what breaks it is refused in the end."""

_NO_SCHEMA: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError, fastavro.schema.SchemaParseException)

_logger = logging.getLogger(__name__)


class SchemaRegistryClient:
    """The schemas by id."""

    def __init__(self, url: str, retry_s: float = RETRY_S) -> None:
        """Ask the registry at `url`, again after `retry_s` where it does not answer; empty: there is none."""
        self._url = url.rstrip("/")
        self._retry_s = retry_s
        self._schemas: OrderedDict[int, Any] = OrderedDict()
        self._failures: OrderedDict[int, tuple[float, str]] = OrderedDict()

    def needs(self, value: bytes | None) -> int | None:
        """Return the schema id that must be fetched before the record can be decoded, or None."""
        if not self._url or value is None or len(value) < CONFLUENT_HEADER_LENGTH or value[0] != CONFLUENT_MAGIC:
            return None
        schema_id = int.from_bytes(value[1:CONFLUENT_HEADER_LENGTH], "big")
        if schema_id in self._schemas:
            self._schemas.move_to_end(schema_id)
            return None
        failed_at, _ = self._failures.get(schema_id, (-REMEMBER_FAILURE_S, ""))
        return None if time.monotonic() - failed_at < REMEMBER_FAILURE_S else schema_id

    async def fetch(self, schema_id: int) -> None:
        """Fetch a schema, however long the registry does not answer; what it says against it is told when a record needs it."""
        faults = 0
        while True:
            try:
                self._keep(self._schemas, schema_id, await self._ask(schema_id))
            except RegistryUnavailable as error:
                faults += error.state == "faulty"
                if error.state == "refusing" or faults >= MAX_FAULTS:
                    self._keep(self._failures, schema_id, (time.monotonic(), str(error)))
                    return
                _logger.warning("SchemaRegistryUnanswered schema=%d retry_s=%g error=%s", schema_id, self._retry_s, error)
                await asyncio.sleep(self._retry_s)
            except UnknownSchema as error:
                self._keep(self._failures, schema_id, (time.monotonic(), str(error)))
                return
            except _NO_SCHEMA as error:
                self._keep(self._failures, schema_id, (time.monotonic(), f"{type(error).__name__}: {error}"))
                return
            else:
                self._failures.pop(schema_id, None)
                return

    async def _ask(self, schema_id: int) -> Any:
        """Return a parsed schema; raises as `ask_registry`, and otherwise what is wrong with it."""
        path = f"/schemas/ids/{schema_id}"
        answer = await ask_registry(self._url, path, timeout_s=TIMEOUT_S, most_bytes=MAX_SCHEMA_BYTES)
        return fastavro.parse_schema(bounded_schema(json.loads(avro_of(answer, f"schema {schema_id}"))), named_schemas={})

    @staticmethod
    def _keep(known: "OrderedDict[int, Any]", schema_id: int, value: Any) -> None:
        known[schema_id] = value
        known.move_to_end(schema_id)
        if len(known) > MAX_SCHEMAS:
            known.popitem(last=False)

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
