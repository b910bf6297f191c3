"""A schema registry of Confluent's interface: one request with bounds, and what streams ask: for schemas by id, for a subject's newest one.

Masters put their requests with the same function (`entrypoint/schema_registry.py`). What records mean is in `avro_records.py`. The rule it
keeps: that the registry does not answer is no property of a record, so it fails the attempt; only that it does not know an id is one.

Confluent's own client (`confluent_kafka.schema_registry`) reads an answer whole, however long it is, and its time-out is for each step of a
request. Who writes to a registry need not mean well: here both are bounded.
"""

import asyncio
import json
import time
import urllib.parse
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from eventflink.streams.failures import RegistryUnavailable

if TYPE_CHECKING:
    import aiohttp

_TIMEOUT_S: Final = 10.0
_REMEMBER_UNKNOWN_S: Final = 30.0
_MAX_IDS: Final = 10_000
_MAX_ANSWER_BYTES: Final = 1024 * 1024
_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_REFUSALS: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY)


class UnknownSchema(Exception):
    """The registry has no such schema, or none of Avro."""


async def ask_registry(
    url: str, path: str, body: dict[str, Any] | None = None, *, timeout_s: float = _TIMEOUT_S, most_bytes: int = _MAX_ANSWER_BYTES
) -> dict[str, Any]:
    """Put one request to the registry at `url`, a question or, with a body, something to take; return its answer.

    Raises:
        UnknownSchema: it does not have, or does not take, what this is about.
        RegistryUnavailable: it did not answer within `timeout_s` ("silent"), with a fault of its own ("faulty"), or with another refusal,
            more than `most_bytes` or no JSON object ("refusing").

    """
    import aiohttp  # noqa: PLC0415 - half a second, in each process of a stream, for those whose records need it

    said = f"the schema registry at {url}"
    try:
        timeout, headers = aiohttp.ClientTimeout(total=timeout_s), {"Content-Type": _CONTENT_TYPE}
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.request("GET" if body is None else "POST", url + path, json=body) as response,
        ):
            if (status := response.status) >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS:
                # Whatever its body says, and however long.
                raise RegistryUnavailable(f"{said} answers {path} with {status}", "faulty")
            content = await _read_bounded(response.content, most_bytes)
    except (OSError, aiohttp.ClientConnectionError) as error:
        raise RegistryUnavailable(f"{said} does not answer: {str(error) or type(error).__name__}") from error
    except aiohttp.ClientPayloadError as error:
        raise RegistryUnavailable(f"{said} breaks off its answer to {path}: {error}", "faulty") from error
    except (aiohttp.ClientError, ValueError) as error:
        raise RegistryUnavailable(f"{said} does not answer {path}: {error}", "refusing") from error
    if status in _REFUSALS:
        raise UnknownSchema(f"the schema registry refuses {path}: {status} {_reason_of(content)}".rstrip())
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        answer = None
    if status != HTTPStatus.OK or not isinstance(answer, dict):
        raise RegistryUnavailable(f"{said} answers {path} with {status if status != HTTPStatus.OK else 'no object'}", "refusing")
    return answer


async def _read_bounded(content: "aiohttp.StreamReader", most_bytes: int) -> bytes:
    """Read the whole of an answer.

    Raises:
        ValueError: it is longer than any that is used.

    """
    read = bytearray()
    async for chunk in content.iter_any():
        read += chunk
        if len(read) > most_bytes:
            raise ValueError(f"the answer has more than {most_bytes} bytes")
    return bytes(read)


class SchemaRegistry:
    """The registry at one address; what it has said of ids is remembered."""

    def __init__(self, url: str) -> None:
        """Ask nothing yet."""
        self._url = url.rstrip("/")
        self._schemas: dict[int, str] = {}
        self._unknown: dict[int, float] = {}

    def schema_of(self, schema_id: int) -> str:
        """Return the schema with an id, as JSON.

        Raises:
            UnknownSchema: there is none.
            RegistryUnavailable: the registry did not answer.

        """
        if schema_id in self._schemas:
            return self._schemas[schema_id]
        if time.monotonic() - self._unknown.get(schema_id, -_REMEMBER_UNKNOWN_S) < _REMEMBER_UNKNOWN_S:
            raise UnknownSchema(f"schema not found in the schema registry: {schema_id}")
        if len(self._schemas) + len(self._unknown) >= _MAX_IDS:
            self._schemas.clear()
            self._unknown.clear()
        try:
            schema = avro_of(self._ask(f"/schemas/ids/{schema_id}"), f"schema {schema_id}")
        except UnknownSchema:
            self._unknown[schema_id] = time.monotonic()
            raise
        self._schemas[schema_id] = schema
        return schema

    def newest(self, subject: str) -> tuple[int, str]:
        """Return the id and the schema that a subject has now.

        Raises:
            UnknownSchema: it has none.
            RegistryUnavailable: the registry did not answer.

        """
        answer = self._ask(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest")
        return _id_of(answer, self._url), avro_of(answer, f"subject '{subject}'")

    def register(self, subject: str, schema: str) -> int:
        """Return the id of a schema, which becomes the subject's newest version unless it is one of its versions already.

        Raises:
            UnknownSchema: the registry refuses it, as one that does not fit the versions before.
            RegistryUnavailable: the registry did not answer.

        """
        answer = self._ask(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions", {"schema": schema})
        return _id_of(answer, self._url)

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        return asyncio.run(ask_registry(self._url, path, body))


def _reason_of(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])[:200]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def _id_of(answer: dict[str, Any], url: str) -> int:
    if not isinstance(answer.get("id"), int):
        raise RegistryUnavailable(f"the schema registry at {url} answered without an id")
    return int(answer["id"])


def avro_of(answer: dict[str, Any], what: str) -> str:
    """Return the schema in an answer, as JSON.

    Raises:
        UnknownSchema: it is none of Avro, or is not all of it.

    """
    kind = answer.get("schemaType", "AVRO")
    if kind != "AVRO" or answer.get("references"):
        raise UnknownSchema(
            f"{what} of the schema registry is {kind}{' with references' if answer.get('references') else ''}, not plain Avro"
        )
    return str(answer.get("schema"))
