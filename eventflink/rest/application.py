"""The application that a REST process serves: its routes, who may ask, and its bounds.

Flink's API is at the paths that Flink gives it, with and without `/v1`. The rule for browsers: a page of another site may neither read nor
command, so a request whose Host is not one of this process, or that changes something and comes from another origin, is refused.
"""

from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import APIRouter, FastAPI, Request, Response

from eventflink.model.configuration_keys.rest_keys import LOOPBACK
from eventflink.rest import dashboard_files
from eventflink.rest.errors import Errors, answer_errors, error_response
from eventflink.rest.flink import (
    accumulators,
    applications,
    back_pressure,
    checkpoints,
    cluster,
    cluster_metrics,
    exceptions,
    java_only,
    job_commands,
    job_lists,
    job_manager,
    job_metrics,
    jobs,
    refused_reads,
    resource_requirements,
    savepoint_disposal,
    savepoint_operations,
    subtasks,
    task_manager_files,
    task_managers,
    vertices,
)
from eventflink.rest.own import attempt_files, changes, commands, pages, submissions, topics
from eventflink.rest.own.moments import NotModified, not_modified
from eventflink.rest.reading import Reads, StateReads
from eventflink.rest.services import Services

MAX_BODY_BYTES: Final = 1024 * 1024
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_ROUTERS: Final = (
    applications.router,
    cluster.router,
    cluster_metrics.router,
    task_managers.router,
    task_manager_files.router,
    job_manager.router,
    job_lists.router,
    job_metrics.jobs_router,
    jobs.router,
    job_manager.of_job_router,
    job_metrics.router,
    exceptions.router,
    checkpoints.router,
    accumulators.router,
    vertices.router,
    back_pressure.router,
    subtasks.router,
    refused_reads.router,
    java_only.router,
    job_commands.router,
    resource_requirements.router,
    savepoint_disposal.router,
    savepoint_operations.router,
)
"""A path that is written out comes before one that has a parameter in its place."""
_OWN_ROUTERS: Final = (
    attempt_files.router,
    changes.router,
    commands.router,
    submissions.router,
    topics.router,
    *pages.ROUTERS,
)
OWN_PREFIX: Final = "/eventflink/v1"
ERRORS: Final[dict[int | str, dict[str, Any]]] = {status: {"model": Errors} for status in (400, 404, 409, 503)}
OWN_ERRORS: Final = ERRORS | {410: {"model": Errors}}
"""A page may be of a moment before the history begins."""

Next = Callable[[Request], Awaitable[Response]]


def build_application(services: Services) -> FastAPI:
    """Return the application; it answers from when there is a state."""
    application = assemble(_ROUTERS, _OWN_ROUTERS, lambda _, response, min_offset: StateReads(services, response, min_offset))
    application.state.services = services
    application.include_router(dashboard_files.router)
    return application


def assemble(routers: Iterable[APIRouter], own_routers: Iterable[APIRouter], reads: Callable[[Request, Response, int], Reads]) -> FastAPI:
    """Return an application with routes of Flink's API and of our own, and what all have in common; `reads` says what a request reads."""
    application = FastAPI(
        title="eventflink", version=version("eventflink"), docs_url=None, redoc_url=None, openapi_url=f"{OWN_PREFIX}/openapi.json"
    )
    application.state.reads = reads
    answer_errors(application)
    for router in routers:
        application.include_router(router, prefix="/v1", responses=ERRORS)
        application.include_router(router, include_in_schema=False)
    for router in own_routers:
        application.include_router(router, prefix=OWN_PREFIX, responses=OWN_ERRORS)
    application.add_exception_handler(NotModified, not_modified)
    application.middleware("http")(_guard)
    return application


async def _guard(request: Request, call_next: Next) -> Response:
    """Refuse what another site's page may have sent, and bodies without bounds."""
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname
    if host not in LOOPBACK:
        return error_response(HTTPStatus.FORBIDDEN, f"the Host of the request is '{host}': this process answers for localhost alone")
    origin = request.headers.get("origin")
    if origin and request.method not in _READING and urlsplit(origin).netloc != request.headers.get("host"):
        return error_response(HTTPStatus.FORBIDDEN, f"the request comes from a page of {origin[:200]}, which may not command this cluster")
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > MAX_BODY_BYTES or "transfer-encoding" in request.headers:
        message = f"the body is longer than {MAX_BODY_BYTES} bytes, or does not say how long it is"
        return error_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
    return await call_next(request)
