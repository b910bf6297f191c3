"""Requests that come by HTTP: the documents that clients write to Kafka's topics, met by the same checks.

What a client may ask is a part of that: what masters tell themselves is nobody else's. The errors of a document name the place in it.
"""

import uuid
from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any, Final

import fastapi
from fastapi.routing import APIRoute
from starlette.datastructures import MutableHeaders

from eventflink.events.codec import UndecodableRecord
from eventflink.events.inputs import JobSubmission, Request
from eventflink.leadership.inbound import InvalidRequest, read_command
from eventflink.model.document_text import InvalidText, read_json
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import InvalidJobGraph, bind_parameters, is_valid_job_id, parse_job_graph
from eventflink.rest.access.roles import COMMAND_ROLES
from eventflink.rest.errors import RestError

COMMAND_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "A command, as clients write it to the topic `commands`.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {"type": {"type": "string", "enum": [cls.__name__ for cls in COMMAND_ROLES]}},
                    "required": ["type"],
                }
            }
        },
    }
}
"""How OpenAPI shows a command; its fields are those of docs/submitting.md."""


def json_of(body: bytes) -> Any:
    """Return what a body says as JSON.

    Raises:
        RestError: 400, it is none; the message names the line and column.

    """
    try:
        return read_json(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise RestError(HTTPStatus.BAD_REQUEST, f"body: not UTF-8: {error.reason} at byte {error.start}") from error
    except InvalidText as error:
        raise RestError(HTTPStatus.BAD_REQUEST, f"body: {error}") from error


class BodyRoute(APIRoute):
    """A route whose body is JSON, and read as all documents are, whatever its Content-Type says: `curl -d` calls each body a form."""

    def get_route_handler(self) -> Callable[[fastapi.Request], Coroutine[Any, Any, fastapi.Response]]:
        """Return what answers a request; a body that is no JSON is a RestError of it."""
        answer = super().get_route_handler()

        async def read(request: fastapi.Request) -> fastapi.Response:
            asked = _ReadRequest(request.scope, request.receive)
            if self.body_field is not None and (body := await asked.body()):
                asked.document = json_of(body)
                MutableHeaders(scope=asked.scope)["content-type"] = "application/json"
            return await answer(asked)

        return read


class _ReadRequest(fastapi.Request):
    """A request whose body has been read."""

    document: Any

    async def json(self) -> Any:
        return self.document


def command_of(body: bytes, actor: str) -> Request:
    """Return the command that a body says; `actor` is who asks, whatever the body says.

    Raises:
        RestError: 400, it says none, or an impossible one; 403, it is none for clients.

    """
    try:
        request = read_command(body, uuid.uuid4().hex)
    except (UndecodableRecord, InvalidRequest) as error:
        raise RestError(HTTPStatus.BAD_REQUEST, str(error)) from error
    if not isinstance(request, tuple(COMMAND_ROLES)):
        raise RestError(HTTPStatus.FORBIDDEN, f"type: {type(request).__name__} is what masters tell themselves, and no command for clients")
    request.actor = actor
    return request


def graph_of(document: str | Mapping[str, Any]) -> JobGraph:
    """Return the graph that a document describes: text, JSON or YAML, or a mapping.

    Raises:
        RestError: 400, it describes none; the message names the place.

    """
    try:
        return parse_job_graph(document, "document")
    except InvalidJobGraph as error:
        raise RestError(HTTPStatus.BAD_REQUEST, str(error)) from error


def submission_of(document: str | Mapping[str, Any], parameters: Mapping[str, object], job_id: str | None, actor: str) -> JobSubmission:
    """Return the submission of a document; raises as `graph_of` and `submission_of_graph` do."""
    return submission_of_graph(graph_of(document), parameters, job_id, actor)


def submission_of_graph(graph: JobGraph, parameters: Mapping[str, object], job_id: str | None, actor: str) -> JobSubmission:
    """Return the submission of a graph with these values of its parameters, under this id or a new one.

    Raises:
        RestError: 400, the id is none, or the parameters are not those that the graph declares.

    """
    try:
        graph = bind_parameters(graph, parameters)
    except InvalidJobGraph as error:
        raise RestError(HTTPStatus.BAD_REQUEST, str(error)) from error
    if job_id is not None and not is_valid_job_id(job_id):
        rule = "letters, digits, '.', '_' and '-', beginning with a letter or digit"
        raise RestError(HTTPStatus.BAD_REQUEST, f"invalid job_id: '{job_id[:128]}'; use {rule}")
    return JobSubmission(job_id=job_id or uuid.uuid4().hex, job_graph=graph, request_id=uuid.uuid4().hex, actor=actor)
