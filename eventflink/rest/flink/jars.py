"""Jars, as Flink's clients upload and run them: what is one here is a job bundle (`jobs/bundle.py`), which may be called *.jar.

A bundle stays on this process's side; a job that runs from it has its code in the blob store, as every job has.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import IO, Annotated, Final, TypeVar

from fastapi import APIRouter, Depends, Request
from pydantic import Field

from eventflink.gateways.request_channel import Accepted
from eventflink.jobs.bundle import Bundle, BundleError
from eventflink.model.job_graph import JobGraph
from eventflink.rest.errors import RestError, not_found
from eventflink.rest.flink.jar_options import (
    JarOptions,
    JarPlanRequestBody,
    JarRunApplicationRequestBody,
    JarRunRequestBody,
    QueryOptionsOfRequest,
    options_of,
    with_options,
)
from eventflink.rest.flink.plans import JobPlanInfo, plan_of_graph
from eventflink.rest.flink.shapes import Empty, Shape
from eventflink.rest.jar_store import JarsFull, JarStore, NoSuchJar
from eventflink.rest.reading import ServicesOfRequest
from eventflink.rest.requests import BodyRoute, submission_of_graph
from eventflink.rest.submitting import Submitting, SubmittingOfRequest
from eventflink.rest.uploads import TurnsOfRequest, files_of, form_of

T = TypeVar("T")


async def _offered(services: ServicesOfRequest) -> JarStore:
    """Return the bundles.

    Raises:
        RestError: 404, this process takes none.

    """
    if not services.configuration.web_submit_enabled:
        raise not_found("jars are not taken here: web.submit.enable is false")
    return services.jars


JarsOfRequest = Annotated[JarStore, Depends(_offered)]
router = APIRouter(route_class=BodyRoute)


class JarEntryInfo(Shape):
    """A job of a bundle: the path of its document, which is what `entryClass` names, and what it is called."""

    name: str
    description: str | None


class JarFileInfo(Shape):
    """A bundle."""

    id: str
    name: str
    uploaded: int
    entry: list[JarEntryInfo]


class JarListInfo(Shape):
    """The bundles, the newest first, and where they are uploaded to."""

    address: str
    files: list[JarFileInfo]


class JarUploadResponseBody(Shape):
    """Where a bundle is; the name of the file is its id."""

    filename: str
    status: str = "success"


class JarRunResponseBody(Shape):
    """The job that runs."""

    jobid: str
    application_id: str = Field(serialization_alias="applicationId")


class JarRunApplicationResponseBody(Shape):
    """The application that runs."""

    applicationid: str


_UPLOAD: Final = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"jarfile": {"type": "string", "format": "binary", "description": "A job bundle."}},
                    "required": ["jarfile"],
                }
            }
        },
    }
}


@router.get("/jars")
async def all_jars(request: Request, jars: JarsOfRequest) -> JarListInfo:
    """Return the bundles with their jobs."""
    found = await _in_thread(jars.all)
    return JarListInfo(
        address=str(request.base_url).rstrip("/"),
        files=[
            JarFileInfo(
                id=jar.jar_id,
                name=jar.name,
                uploaded=jar.uploaded_ms,
                entry=[JarEntryInfo(name=job.entry, description=job.name) for job in jar.jobs],
            )
            for jar in found
        ],
    )


@router.post("/jars/upload", openapi_extra=_UPLOAD)
async def upload_jar(request: Request, jars: JarsOfRequest, turns: TurnsOfRequest) -> JarUploadResponseBody:
    """Take a bundle; as in Flink, the field of the file may have any name."""
    with turns.take():
        async with form_of(request, max_files=1) as form:
            files = files_of(form)
            if len(files) != 1:
                raise RestError(HTTPStatus.BAD_REQUEST, f"exactly 1 file must be sent, received {len(files)}")
            [(_, file)] = files
            path = await _in_thread(lambda: jars.add(file.filename or "", file.file))
            return JarUploadResponseBody(filename=str(path))


@router.delete("/jars/{jarid}")
async def delete_jar(jarid: str, jars: JarsOfRequest) -> Empty:
    """Remove a bundle."""
    await _of_jar(jarid, lambda: jars.remove(jarid))
    return Empty()


@router.get("/jars/{jarid}/plan")
async def plan_by_get(jarid: str, query: QueryOptionsOfRequest, jars: JarsOfRequest) -> JobPlanInfo:
    """Return the plan of a job of a bundle."""
    return await plan(jarid, query, jars)


@router.post("/jars/{jarid}/plan")
async def plan(jarid: str, query: QueryOptionsOfRequest, jars: JarsOfRequest, body: JarPlanRequestBody | None = None) -> JobPlanInfo:
    """Return the plan of a job of a bundle, as it would run with these options."""
    options = options_of(body, query)

    def read() -> JobGraph:
        with jars.open(jarid) as bundle:
            return _graph_of(bundle, options)

    return JobPlanInfo(plan=plan_of_graph(await _of_jar(jarid, read), options.job_id or uuid.uuid4().hex))


@router.post("/jars/{jarid}/run")
async def run(
    jarid: str, query: QueryOptionsOfRequest, jars: JarsOfRequest, submitting: SubmittingOfRequest, body: JarRunRequestBody | None = None
) -> JarRunResponseBody:
    """Submit a job of a bundle; it is in the log when this is answered."""
    accepted = await _run(jarid, options_of(body, query), jars, submitting)
    return JarRunResponseBody(jobid=accepted.subject, application_id=accepted.subject)


@router.post("/jars/{jarid}/run-application", status_code=HTTPStatus.ACCEPTED)
async def run_application(
    jarid: str,
    query: QueryOptionsOfRequest,
    jars: JarsOfRequest,
    submitting: SubmittingOfRequest,
    body: JarRunApplicationRequestBody | None = None,
) -> JarRunApplicationResponseBody:
    """Submit a job of a bundle, which is an application."""
    accepted = await _run(jarid, options_of(body, query), jars, submitting)
    return JarRunApplicationResponseBody(applicationid=accepted.subject)


async def _run(jarid: str, options: JarOptions, jars: JarStore, submitting: Submitting) -> Accepted:
    bundle = await _of_jar(jarid, lambda: jars.open(jarid))
    with bundle:
        graph, has_code = await _in_thread(lambda: (_graph_of(bundle, options), bundle.has_code()))

        def write_code(target: IO[bytes]) -> None:
            _checked(lambda: bundle.write_code(target))

        return await submitting.submit(
            submission_of_graph(graph, {}, options.job_id, submitting.actor),
            write_code if has_code else None,
            options.savepoint_path,
            allow_non_restored_state=options.allow_non_restored_state,
        )


def _graph_of(bundle: Bundle, options: JarOptions) -> JobGraph:
    entry, document = bundle.document(options.entry)
    return bundle.graph(entry, with_options(document, options))


async def _of_jar(jarid: str, act: Callable[[], T]) -> T:
    try:
        return await _in_thread(act)
    except NoSuchJar:
        raise not_found(f"jar not found: '{jarid[:256]}'") from None


def _in_thread(act: Callable[[], T]) -> Awaitable[T]:
    return asyncio.to_thread(_checked, act)


def _checked(act: Callable[[], T]) -> T:
    """Do something with a bundle.

    Raises:
        RestError: 400, it is not as it has to be; 409, there are too many; 503, the directory cannot be read or written.

    """
    try:
        return act()
    except BundleError as error:
        raise RestError(HTTPStatus.BAD_REQUEST, str(error)) from error
    except JarsFull as error:
        raise RestError(HTTPStatus.CONFLICT, str(error)) from error
    except OSError as error:
        raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, f"the directory of jars cannot be used: {error.strerror or error}") from error
