"""A schema registry as streams ask it: for a schema by its id, for the newest of a subject, and to take one.

What records mean is in `avro_records.py`. The rule it keeps: that the registry does not answer is no property of a record, so it fails the
attempt; only that it does not know an id is one.
"""

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from http import HTTPStatus
from typing import Any, Final

from eventflink.streams.failures import RegistryUnavailable

_TIMEOUT_S: Final = 10.0
_REMEMBER_UNKNOWN_S: Final = 30.0
_MAX_IDS: Final = 10_000
_MAX_ANSWER_BYTES: Final = 1024 * 1024
_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class UnknownSchema(Exception):
    """The registry has no such schema, or none of Avro."""


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
            schema = _avro_of(self._ask(f"/schemas/ids/{schema_id}"), f"schema {schema_id}")
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
        return _id_of(answer, self._url), _avro_of(answer, f"subject '{subject}'")

    def register(self, subject: str, schema: str) -> int:
        """Return the id of a schema, which becomes the subject's newest version unless it is one of its versions already.

        Raises:
            UnknownSchema: the registry refuses it, as one that does not fit the versions before.
            RegistryUnavailable: the registry did not answer.

        """
        answer = self._ask(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions", {"schema": schema})
        return _id_of(answer, self._url)

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": _CONTENT_TYPE})  # noqa: S310 - the graph's, of HTTP
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310 - as above
                answer = json.loads(response.read(_MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                if error.code in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY):
                    raise UnknownSchema(f"the schema registry refuses {path}: {error.code} {_reason_of(error)}".rstrip()) from error
                raise RegistryUnavailable(f"the schema registry at {self._url} answers {path} with {error.code}") from error
        except (OSError, ValueError) as error:
            raise RegistryUnavailable(f"the schema registry at {self._url} does not answer: {error}") from error
        if not isinstance(answer, dict):
            raise RegistryUnavailable(f"the schema registry at {self._url} answers {path} with no object")
        return answer


def _reason_of(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(_MAX_ANSWER_BYTES))["message"])[:200]
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _id_of(answer: dict[str, Any], url: str) -> int:
    if not isinstance(answer.get("id"), int):
        raise RegistryUnavailable(f"the schema registry at {url} answered without an id")
    return int(answer["id"])


def _avro_of(answer: dict[str, Any], what: str) -> str:
    kind = answer.get("schemaType", "AVRO")
    if kind != "AVRO" or answer.get("references"):
        raise UnknownSchema(
            f"{what} of the schema registry is {kind}{' with references' if answer.get('references') else ''}, not plain Avro"
        )
    return str(answer.get("schema"))
