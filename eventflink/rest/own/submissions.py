"""Submissions: a document that describes a job, and the code that its tasks import.

Code goes to the leader's blob server before the submission goes to the log, as every client's does.
"""

import asyncio
import functools
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import IO, Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from eventflink.jobs.archive import ArchiveError, Opened, is_left_behind, is_safe_name, write_archive
from eventflink.model.document_text import read_json
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_parameters import MAX_PARAMETERS
from eventflink.rest.access.guard import is_form
from eventflink.rest.errors import RestError
from eventflink.rest.own.moments import OwnShape
from eventflink.rest.requests import graph_of, json_of, submission_of
from eventflink.rest.submitting import Submitting, SubmittingOfRequest
from eventflink.rest.uploads import TurnsOfRequest, files_of, form_of

router = APIRouter()

MAX_CODE_FILES: Final = 100
_CODE: Final = "code"
_B = TypeVar("_B", bound=BaseModel)

Document = Annotated[str | dict[str, Any], Field(description="What describes the job: text, JSON or YAML, or an object.")]


def _read_parameters(value: object) -> object:
    return read_json(value) if isinstance(value, str) else value


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SubmissionBody(_Body):
    """A job, and where it begins."""

    document: Document
    parameters: Annotated[dict[str, Any], BeforeValidator(_read_parameters), Field(max_length=MAX_PARAMETERS)] = Field(default_factory=dict)
    """Values of the parameters that it declares, by name; in a form the text of a JSON object."""
    job_id: Annotated[str, Field(max_length=128)] | None = None
    savepoint_path: Annotated[str, Field(max_length=4_096)] | None = None
    allow_non_restored_state: bool = False


class ValidationBody(_Body):
    """A document to look at."""

    document: Document


def _request_schema() -> dict[str, Any]:
    """Return how OpenAPI shows a submission: one document, or a form with the same fields, whose files are the code."""
    schema = SubmissionBody.model_json_schema()
    code = {"type": "array", "items": {"type": "string", "format": "binary"}, "maxItems": MAX_CODE_FILES}
    fields = schema["properties"] | {"document": {"type": "string"}, "parameters": {"type": "string"}, _CODE: code}
    content = {"application/json": {"schema": schema}, "multipart/form-data": {"schema": schema | {"properties": fields}}}
    return {"requestBody": {"required": True, "content": content}}


_JSON_VALIDATION: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": ValidationBody.model_json_schema()}}}
}


class Submitted(OwnShape):
    """The leader has accepted a job."""

    job_id: str
    request_id: str
    offset: int


class VertexSummary(OwnShape):
    """A vertex of a document."""

    vertex_id: str
    type: str
    parallelism: int
    stream: bool


class EdgeSummary(OwnShape):
    """An edge of a document."""

    source: str
    target: str
    ship: str


class ParameterSummary(OwnShape):
    """A parameter that a document declares."""

    name: str
    type: str
    value: str | None
    """What it is where nobody says otherwise; null: it has to be given."""
    description: str


class GraphSummary(OwnShape):
    """What a document describes."""

    name: str
    vertices: list[VertexSummary]
    edges: list[EdgeSummary]
    parameters: list[ParameterSummary]


class Validation(OwnShape):
    """Whether a document describes a job."""

    valid: bool
    problems: list[str]
    graph: GraphSummary | None


@router.post("/jobs/validate", openapi_extra=_JSON_VALIDATION)
async def validate(request: Request) -> Validation:
    """Look at a document without submitting it."""
    body = checked(ValidationBody, json_of(await request.body()))
    try:
        graph = await asyncio.to_thread(graph_of, body.document)
    except RestError as error:
        return Validation(valid=False, problems=[str(error)], graph=None)
    return Validation(valid=True, problems=[], graph=_summary_of(graph))


@router.post("/jobs", openapi_extra=_request_schema())
async def submit(request: Request, submitting: SubmittingOfRequest, turns: TurnsOfRequest) -> Submitted:
    """Submit a job; it is in the log when this is answered. With code it is a form, whose files tasks import by their names' paths."""
    if not is_form(request.headers):
        said = json_of(await request.body())
        return await _submit(checked(SubmissionBody, said), {}, submitting)
    with turns.take():
        async with form_of(request, max_files=MAX_CODE_FILES) as form:
            files = files_of(form)
            fields: dict[str, Any] = {name: value for name, value in form.multi_items() if isinstance(value, str)}
            strangers = {name: None for name, _ in files if name != _CODE}
            body = checked(SubmissionBody, fields | strangers)
            return await _submit(body, _members_of([(file.filename or "", file.file) for _, file in files]), submitting)


async def _submit(body: SubmissionBody, code: Mapping[str, Opened], submitting: Submitting) -> Submitted:
    submission = await asyncio.to_thread(submission_of, body.document, body.parameters, body.job_id, submitting.actor)
    accepted = await submitting.submit(
        submission,
        functools.partial(_write, code) if code else None,
        body.savepoint_path,
        allow_non_restored_state=body.allow_non_restored_state,
    )
    return Submitted(job_id=accepted.subject, request_id=accepted.request_id, offset=accepted.log_offset)


def checked(model: type[_B], said: Any) -> _B:
    """Return what a body says as a model.

    Raises:
        RequestValidationError: it does not fit; the message names the place.

    """
    try:
        return model.model_validate(said)
    except ValidationError as error:
        raise RequestValidationError([{**problem, "loc": ("body", *problem["loc"])} for problem in error.errors()]) from error


def _members_of(files: Sequence[tuple[str, IO[bytes]]]) -> dict[str, Opened]:
    """Return the members of a code archive, but for what tools leave behind.

    Raises:
        RestError: 400, one has no name of a file there, or that of another one.

    """
    members: dict[str, Opened] = {}
    directories: set[str] = set()
    for number, (name, stream) in enumerate(files):
        if not is_safe_name(name) or name == "__init__.py":
            raise RestError(HTTPStatus.BAD_REQUEST, f"{_CODE}.{number}: '{name}' is not a path below the job's code")
        path = PurePosixPath(name)
        above = {parent.as_posix() for parent in path.parents}
        if path.as_posix() in members or path.as_posix() in directories or not above.isdisjoint(members):
            raise RestError(HTTPStatus.BAD_REQUEST, f"{_CODE}.{number}: '{name}': another file is in its place")
        directories |= above
        members[path.as_posix()] = functools.partial(_from_begin, stream)
    return {name: opened for name, opened in members.items() if not is_left_behind(name)}


def _from_begin(stream: IO[bytes]) -> IO[bytes]:
    stream.seek(0)
    return stream


def _write(members: Mapping[str, Opened], target: IO[bytes]) -> None:
    try:
        write_archive(target, members)
    except ArchiveError as error:
        raise RestError(HTTPStatus.BAD_REQUEST, f"{_CODE}: {error}") from error


def _summary_of(graph: JobGraph) -> GraphSummary:
    return GraphSummary(
        name=graph.name,
        vertices=[
            VertexSummary(vertex_id=v.vertex_id, type=v.task_type, parallelism=v.parallelism, stream=v.stream is not None)
            for v in graph.vertices
        ],
        edges=[EdgeSummary(source=edge.source, target=edge.target, ship=edge.ship) for edge in graph.edges],
        parameters=[
            ParameterSummary(name=each.name, type=each.parameter_type, value=each.value, description=each.description)
            for each in graph.parameters
        ],
    )
