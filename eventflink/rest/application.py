"""The application that a REST process serves: its routes, each with the role that it needs, behind the guard.

Flink's API is at the paths that Flink gives it, with and without `/v1`; our own is below `/eventflink/v1`.
"""

from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request, Response

from eventflink.rest.access.guard import Admission, Guard
from eventflink.rest.access.roles import allowed_by_role
from eventflink.rest.answers import AlreadyAnswered, Remember, answered
from eventflink.rest.dashboard_files import dashboard_router
from eventflink.rest.description import AN_ERROR, DescribedApplication, Description
from eventflink.rest.errors import answer_errors
from eventflink.rest.flink import (
    applications,
    cluster,
    cluster_metrics,
    jars,
    java_only,
    job_commands,
    job_lists,
    job_manager,
    job_metrics,
    of_a_job,
    resource_requirements,
    savepoint_disposal,
    savepoint_operations,
    task_manager_files,
    task_managers,
)
from eventflink.rest.own import (
    attempt_files,
    changes,
    commands,
    dry_runs,
    identity,
    log,
    pages,
    present_masters,
    state,
    submissions,
    topics,
)
from eventflink.rest.own.moments import Moments, NotModified, not_modified
from eventflink.rest.own.runs import RunsOfState
from eventflink.rest.reading import ObservedReads, RequestReads
from eventflink.rest.services import Services

_ROUTERS: Final = (
    applications.router,
    cluster.router,
    cluster_metrics.router,
    task_managers.router,
    task_manager_files.router,
    job_manager.router,
    job_lists.router,
    job_metrics.jobs_router,
    *of_a_job.ROUTERS,
    job_manager.of_job_router,
    jars.router,
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
    dry_runs.router,
    identity.router,
    log.router,
    present_masters.router,
    state.router,
    submissions.router,
    topics.router,
    *pages.ROUTERS,
)
OWN_PREFIX: Final = "/eventflink/v1"
ERRORS: Final[dict[int | str, dict[str, Any]]] = dict.fromkeys((400, 401, 403, 404, 409, 429, 503), AN_ERROR)
OWN_ERRORS: Final = ERRORS | {410: AN_ERROR}
"""A page may be of a moment before the history begins."""


def build_application(services: Services) -> FastAPI:
    """Return the application; it answers from when there is a state."""

    def reads(request: Request, response: Response, min_offset: int) -> ObservedReads:
        return ObservedReads(services, request, response, min_offset)

    application = assemble(_ROUTERS, _OWN_ROUTERS, reads, services.admission)
    application.state.services = services
    application.state.pages = lambda request, *asked: Moments(request, services, *asked)
    application.state.runs = lambda request, *asked: RunsOfState(Moments(request, services, *asked), services)
    application.add_exception_handler(AlreadyAnswered, answered)
    application.add_middleware(Remember, cache=services.cache)
    serve_dashboard(application, dashboard_router({"spark-ui-port": services.configuration.spark_ui_port}))
    return application


def serve_dashboard(application: FastAPI, router: APIRouter) -> None:
    """Serve the files of the dashboard."""
    application.include_router(router, dependencies=[allowed_by_role(router)])


def assemble(
    routers: Iterable[APIRouter],
    own_routers: Iterable[APIRouter],
    reads: Callable[[Request, Response, int], RequestReads],
    admission: Admission | None = None,
) -> FastAPI:
    """Return an application with routes of Flink's API and of our own, and what all have in common.

    `reads` says what a request reads, `admission` who may ask; without it whoever is on this machine.

    Raises:
        RouteWithoutRole: nobody has said who may use a route.

    """
    application = DescribedApplication(title="eventflink", version=version("eventflink"), openapi_url=None)
    application.state.reads = reads
    application.state.authentication = (admission := admission or Admission()).authentication
    answer_errors(application)
    for router in routers:
        application.include_router(router, prefix="/v1", responses=ERRORS, dependencies=[allowed_by_role(router, "/v1")])
        application.include_router(router, include_in_schema=False, dependencies=[allowed_by_role(router)])
    for router in own_routers:
        allowed = allowed_by_role(router, OWN_PREFIX, OWN_PREFIX)
        application.include_router(router, prefix=OWN_PREFIX, responses=OWN_ERRORS, dependencies=[allowed])
    application.add_route(f"{OWN_PREFIX}/openapi.json", Description(application).answer, include_in_schema=False)
    application.add_exception_handler(NotModified, not_modified)
    application.add_middleware(Guard, admission=admission)
    return application
