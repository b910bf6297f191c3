"""Submissions: a document that describes a job, and the code that its tasks import.

Code goes to the leader's blob server before the submission goes to the log, as every client's does.
"""

import asyncio
import base64
import binascii
import dataclasses
import tempfile
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from eventflink.blob import BlobError
from eventflink.blob.client import put_blob
from eventflink.blob.tls import tls_files
from eventflink.gateways.steps import ask
from eventflink.jobs.archive import ArchiveError, build_archive
from eventflink.model.job_graph import JobGraph
from eventflink.rest.commanding import CommandsOfRequest
from eventflink.rest.errors import RestError
from eventflink.rest.own.moments import OwnShape
from eventflink.rest.own.requests import graph_of, submission_of
from eventflink.rest.reading import READ_TIMEOUT_S, ServicesOfRequest
from eventflink.rest.services import Services

router = APIRouter()

MAX_CODE_FILES: Final = 100
STEP_TIMEOUT_S: Final = 60.0
"""For an upload, and for looking at a savepoint."""

Document = Annotated[str | dict[str, Any], Field(description="What describes the job: text, JSON or YAML, or an object.")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CodeFile(_Body):
    """A file that the tasks of a job can import."""

    name: Annotated[str, Field(min_length=1, max_length=255)]
    """Its path, by which it is imported: `load.py`, `package/__init__.py`."""
    content: str
    """In base 64."""


class SubmissionBody(_Body):
    """A job, and where it begins."""

    document: Document
    code: Annotated[list[CodeFile], Field(max_length=MAX_CODE_FILES)] = []
    job_id: Annotated[str, Field(max_length=128)] | None = None
    savepoint_path: Annotated[str, Field(max_length=4_096)] | None = None
    allow_non_restored_state: bool = False


class ValidationBody(_Body):
    """A document to look at."""

    document: Document


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


class GraphSummary(OwnShape):
    """What a document describes."""

    name: str
    vertices: list[VertexSummary]
    edges: list[EdgeSummary]


class Validation(OwnShape):
    """Whether a document describes a job."""

    valid: bool
    problems: list[str]
    graph: GraphSummary | None


@router.post("/jobs/validate")
async def validate(body: ValidationBody) -> Validation:
    """Look at a document without submitting it."""
    try:
        graph = await asyncio.to_thread(graph_of, body.document)
    except RestError as error:
        return Validation(valid=False, problems=[str(error)], graph=None)
    return Validation(valid=True, problems=[], graph=_summary_of(graph))


@router.post("/jobs")
async def submit(body: SubmissionBody, commands: CommandsOfRequest, services: ServicesOfRequest) -> Submitted:
    """Submit a job; it is in the log when this is answered."""
    submission = await asyncio.to_thread(submission_of, body.document, body.job_id, commands.actor)
    graph = submission.job_graph
    if body.savepoint_path is not None or graph.restore is not None:
        graph = await _begun_in_savepoint(graph, body)
    if body.code:
        graph = dataclasses.replace(graph, code_archives=(*graph.code_archives, await _upload(body.code, services)))
    accepted = await commands.decided(commands.dispatcher.run(ask(dataclasses.replace(submission, job_graph=graph))))
    return Submitted(job_id=accepted.subject, request_id=accepted.request_id, offset=accepted.log_offset)


async def _begun_in_savepoint(graph: JobGraph, body: SubmissionBody) -> JobGraph:
    from eventflink.streams.failures import StreamUnusable  # noqa: PLC0415 - streams load Arrow, and few jobs begin in a savepoint
    from eventflink.streams.savepoint_restore import begin_in_savepoint  # noqa: PLC0415 - see above

    allow = body.allow_non_restored_state
    try:
        async with asyncio.timeout(STEP_TIMEOUT_S):
            return await asyncio.to_thread(begin_in_savepoint, graph, body.savepoint_path, allow_non_restored_state=allow)
    except StreamUnusable as error:
        raise RestError(HTTPStatus.BAD_REQUEST, str(error)) from error
    except TimeoutError:
        raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, f"the savepoint cannot be read within {STEP_TIMEOUT_S:g} s") from None


async def _upload(code: list[CodeFile], services: Services) -> str:
    """Put the code into the leader's blob store; return its key."""
    archive = await asyncio.to_thread(_archive_of, code)
    leader = await services.state.read(lambda fold: fold.master.leader.blob_address, timeout_s=READ_TIMEOUT_S)
    if not leader.value:
        raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, "nobody leads, so nobody takes the code: try again later")
    try:
        async with asyncio.timeout(STEP_TIMEOUT_S):
            return await asyncio.to_thread(put_blob, leader.value, archive, tls=tls_files(services.configuration))
    except (BlobError, TimeoutError) as error:
        message = f"the code cannot be stored: {error or f'not within {STEP_TIMEOUT_S:g} s'}"
        raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, message) from error


def _archive_of(code: list[CodeFile]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="eventflink-code-") as directory:
        for number, file in enumerate(code):
            path = PurePosixPath(file.name)
            if path.is_absolute() or ".." in path.parts or not file.name.isprintable() or "\\" in file.name or file.name == "__init__.py":
                raise RestError(HTTPStatus.BAD_REQUEST, f"code.{number}.name: '{file.name}' is no path below the job's code")
            try:
                content = base64.b64decode(file.content, validate=True)
            except binascii.Error as error:
                raise RestError(HTTPStatus.BAD_REQUEST, f"code.{number}.content: not in base 64: {error}") from error
            target = Path(directory, path)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as stream:
                    stream.write(content)
            except OSError as error:
                raise RestError(HTTPStatus.BAD_REQUEST, f"code.{number}.name: '{file.name}': {error.strerror}") from error
        try:
            return build_archive([Path(directory)])
        except ArchiveError as error:
            raise RestError(HTTPStatus.BAD_REQUEST, f"code: {error}") from error


def _summary_of(graph: JobGraph) -> GraphSummary:
    return GraphSummary(
        name=graph.name,
        vertices=[
            VertexSummary(vertex_id=v.vertex_id, type=v.task_type, parallelism=v.parallelism, stream=v.stream is not None)
            for v in graph.vertices
        ],
        edges=[EdgeSummary(source=edge.source, target=edge.target, ship=edge.ship) for edge in graph.edges],
    )
