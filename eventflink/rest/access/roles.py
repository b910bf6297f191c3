"""Which role each route needs: the one table, and its enforcement. The rule: a route that is not in it cannot be served.

What reads is for viewers. What orders something that stands in the log is for operators, and such are reads of TaskManagers' files, which
travel as orders; so are rows of results, which are the users' data. What shows how processes are configured, removes data for good, or ends
the cluster is for admins.
"""

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.params import Depends

from eventflink.events.inputs import (
    BlockTaskManager,
    CancelBackfill,
    CancelJob,
    DeleteSchedule,
    DismissJobFailure,
    FireSchedule,
    PauseSchedule,
    PutSchedule,
    ReleaseParkedInput,
    Request,
    RequestFileUpload,
    RequestTaskManagerFileUpload,
    RerunJob,
    RescaleJob,
    ResumeJob,
    ResumeSchedule,
    ShutDownCluster,
    StartBackfill,
    SuspendJob,
    TriggerCheckpoint,
    TriggerSavepoint,
    UnblockTaskManager,
)
from eventflink.rest.access.browsers import refuse_foreign_order
from eventflink.rest.access.identity import AccessRole, Identity
from eventflink.rest.errors import RestError

PUBLIC: Final = frozenset(
    {"GET /", "GET /ui/{path:path}", "HEAD /ui/{path:path}", "POST /eventflink/v1/login", "POST /eventflink/v1/logout"}
)
"""What nobody has to have a token for: logging in, and pages and scripts, which are the same for everybody and have no data."""

ROLES: Final[dict[str, AccessRole]] = {
    route: role
    for role, routes in {
        AccessRole.VIEWER: (
            "GET /applications/overview",
            "GET /applications/{applicationid}",
            "GET /applications/{applicationid}/exceptions",
            "GET /config",
            "GET /datasets",
            "GET /datasets/delete/{triggerid}",
            "GET /eventflink/v1/archives",
            "GET /eventflink/v1/archives/{clusterid}/{jobid}",
            "GET /eventflink/v1/changes",
            "GET /eventflink/v1/cluster",
            "GET /eventflink/v1/dead-letters",
            "GET /eventflink/v1/diff",
            "GET /eventflink/v1/identity",
            "GET /eventflink/v1/jobs",
            "GET /eventflink/v1/jobs/{job_id}",
            "GET /eventflink/v1/jobs/{job_id}/bars",
            "GET /eventflink/v1/jobs/{job_id}/checkpoints",
            "GET /eventflink/v1/jobs/{job_id}/document",
            "GET /eventflink/v1/jobs/{job_id}/exceptions",
            "GET /eventflink/v1/jobs/{job_id}/life/bounds",
            "GET /eventflink/v1/jobs/{job_id}/life/histogram",
            "GET /eventflink/v1/jobs/{job_id}/life/position",
            "GET /eventflink/v1/jobs/{job_id}/life/steps",
            "GET /eventflink/v1/jobs/{job_id}/result",
            "GET /eventflink/v1/jobs/{job_id}/story",
            "GET /eventflink/v1/jobs/{job_id}/vertices/{vertex_id}/subtasks",
            "GET /eventflink/v1/log/bounds",
            "GET /eventflink/v1/log/events",
            "GET /eventflink/v1/log/flow",
            "GET /eventflink/v1/log/histogram",
            "GET /eventflink/v1/log/position",
            "GET /eventflink/v1/log/steps",
            "GET /eventflink/v1/log/{offset}",
            "GET /eventflink/v1/masters",
            "GET /eventflink/v1/masters/present",
            "GET /eventflink/v1/names",
            "GET /eventflink/v1/openapi.json",
            "GET /eventflink/v1/parked",
            "GET /eventflink/v1/runs",
            "GET /eventflink/v1/schedules",
            "GET /eventflink/v1/schedules/{schedule_id}",
            "GET /eventflink/v1/snapshots",
            "GET /eventflink/v1/state/{path:path}",
            "GET /eventflink/v1/task_managers",
            "GET /eventflink/v1/task_managers/{task_manager_id}",
            "GET /eventflink/v1/topics",
            "GET /eventflink/v1/catalogue",
            "GET /eventflink/v1/waits",
            "GET /eventflink/v1/why/{thing:path}",
            "GET /jars",
            "GET /jars/{jarid}/plan",
            "GET /jobmanager/log",
            "GET /jobmanager/logs",
            "GET /jobmanager/logs/{name}",
            "GET /jobmanager/metrics",
            "GET /jobmanager/stdout",
            "GET /jobs",
            "GET /jobs/metrics",
            "GET /jobs/overview",
            "GET /jobs/{jobid}",
            "GET /jobs/{jobid}/accumulators",
            "GET /jobs/{jobid}/checkpoints",
            "GET /jobs/{jobid}/checkpoints/config",
            "GET /jobs/{jobid}/checkpoints/details/{checkpointid}",
            "GET /jobs/{jobid}/checkpoints/details/{checkpointid}/subtasks/{vertexid}",
            "GET /jobs/{jobid}/checkpoints/{triggerid}",
            "GET /jobs/{jobid}/config",
            "GET /jobs/{jobid}/exceptions",
            "GET /jobs/{jobid}/execution-result",
            "GET /jobs/{jobid}/jobmanager/log-url",
            "GET /jobs/{jobid}/metrics",
            "GET /jobs/{jobid}/plan",
            "GET /jobs/{jobid}/rescales/config",
            "GET /jobs/{jobid}/rescales/details/{rescaleuuid}",
            "GET /jobs/{jobid}/rescales/history",
            "GET /jobs/{jobid}/rescales/overview",
            "GET /jobs/{jobid}/rescales/summary",
            "GET /jobs/{jobid}/rescaling/{triggerid}",
            "GET /jobs/{jobid}/resource-requirements",
            "GET /jobs/{jobid}/savepoints/{triggerid}",
            "GET /jobs/{jobid}/status",
            "GET /jobs/{jobid}/taskmanagers/{taskmanagerid}/log-url",
            "GET /jobs/{jobid}/vertices/{vertexid}",
            "GET /jobs/{jobid}/vertices/{vertexid}/accumulators",
            "GET /jobs/{jobid}/vertices/{vertexid}/backpressure",
            "GET /jobs/{jobid}/vertices/{vertexid}/flamegraph",
            "GET /jobs/{jobid}/vertices/{vertexid}/jm-operator-metrics",
            "GET /jobs/{jobid}/vertices/{vertexid}/metrics",
            "GET /jobs/{jobid}/vertices/{vertexid}/subtasks/accumulators",
            "GET /jobs/{jobid}/vertices/{vertexid}/subtasks/metrics",
            "GET /jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}",
            "GET /jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/attempts/{attempt}",
            "GET /jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/attempts/{attempt}/accumulators",
            "GET /jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/metrics",
            "GET /jobs/{jobid}/vertices/{vertexid}/subtasktimes",
            "GET /jobs/{jobid}/vertices/{vertexid}/taskmanagers",
            "GET /jobs/{jobid}/vertices/{vertexid}/watermarks",
            "GET /overview",
            "GET /savepoint-disposal/{triggerid}",
            "GET /taskmanagers",
            "GET /taskmanagers/metrics",
            "GET /taskmanagers/{taskmanagerid}",
            "GET /taskmanagers/{taskmanagerid}/metrics",
        ),
        AccessRole.OPERATOR: (
            "DELETE /datasets/{datasetid}",
            "DELETE /jars/{jarid}",
            "GET /eventflink/v1/jobs/{job_id}/result/rows",
            "GET /eventflink/v1/jobs/{job_id}/vertices/{vertex_id}/subtasks/{subtask_index}/attempts/{attempt}/files/{file}",
            "GET /jobmanager/thread-dump",
            "GET /jobs/{jobid}/yarn-cancel",
            "GET /taskmanagers/{taskmanagerid}/log",
            "GET /taskmanagers/{taskmanagerid}/logs",
            "GET /taskmanagers/{taskmanagerid}/logs/{name}",
            "GET /taskmanagers/{taskmanagerid}/stdout",
            "GET /taskmanagers/{taskmanagerid}/thread-dump",
            "PATCH /jobs/{jobid}",
            "PATCH /jobs/{jobid}/clientHeartbeat",
            "PATCH /jobs/{jobid}/rescaling",
            "POST /applications/{applicationid}/cancel",
            "POST /eventflink/v1/commands",
            "POST /eventflink/v1/jobs",
            "POST /eventflink/v1/dry-run",
            "POST /eventflink/v1/jobs/validate",
            "POST /jars/upload",
            "POST /jars/{jarid}/plan",
            "POST /jars/{jarid}/run",
            "POST /jars/{jarid}/run-application",
            "POST /jobs",
            "POST /jobs/{jobid}/checkpoints",
            "POST /jobs/{jobid}/savepoints",
            "POST /jobs/{jobid}/stop",
            "PUT /jobs/{jobid}/resource-requirements",
        ),
        AccessRole.ADMIN: (
            "DELETE /cluster",
            "GET /applications/{applicationid}/jobmanager/config",
            "GET /jobmanager/config",
            "GET /jobmanager/environment",
            "GET /jobs/{jobid}/jobmanager/config",
            "GET /jobs/{jobid}/jobmanager/environment",
            "POST /savepoint-disposal",
        ),
    }.items()
    for route in routes
}
"""By method and path, Flink's without `/v1`."""


COMMAND_ROLES: Final[dict[type[Request], AccessRole]] = {
    BlockTaskManager: AccessRole.ADMIN,
    CancelBackfill: AccessRole.OPERATOR,
    CancelJob: AccessRole.OPERATOR,
    DeleteSchedule: AccessRole.OPERATOR,
    DismissJobFailure: AccessRole.OPERATOR,
    FireSchedule: AccessRole.OPERATOR,
    PauseSchedule: AccessRole.OPERATOR,
    PutSchedule: AccessRole.OPERATOR,
    ReleaseParkedInput: AccessRole.OPERATOR,
    RequestFileUpload: AccessRole.OPERATOR,
    RequestTaskManagerFileUpload: AccessRole.OPERATOR,
    RerunJob: AccessRole.OPERATOR,
    RescaleJob: AccessRole.OPERATOR,
    ResumeJob: AccessRole.OPERATOR,
    ResumeSchedule: AccessRole.OPERATOR,
    ShutDownCluster: AccessRole.ADMIN,
    StartBackfill: AccessRole.OPERATOR,
    SuspendJob: AccessRole.OPERATOR,
    TriggerCheckpoint: AccessRole.OPERATOR,
    TriggerSavepoint: AccessRole.OPERATOR,
    UnblockTaskManager: AccessRole.ADMIN,
}
"""Which role a command needs that comes as a document, whatever the role of its route; what is not here is no command for clients."""

_ANY_PATH: Final = "{path:path}"
_PUBLIC_PLACES: Final = tuple(route.removesuffix(_ANY_PATH) for route in PUBLIC if route.endswith(_ANY_PATH))


def is_public(method: str, path: str) -> bool:
    """Tell whether nobody has to have a token for this."""
    asked = f"{method} {path}"
    return asked in PUBLIC or f"{asked}/" in _PUBLIC_PLACES or asked.startswith(_PUBLIC_PLACES)


class RouteWithoutRole(Exception):
    """A route is not in the table; the message names it."""


async def identity_of(request: HttpRequest) -> Identity:
    """Return who asks; only behind the guard, which lets nobody else through to a route that is not public."""
    identity: Identity | None = request.scope["state"]["identity"]
    if identity is None:
        raise RestError(HTTPStatus.UNAUTHORIZED, "this needs a token")
    return identity


IdentityOfRequest = Annotated[Identity, Depends(identity_of)]


def require(identity: Identity, role: AccessRole) -> None:
    """Refuse somebody whose role does not cover this one.

    Raises:
        RestError: 403, which names the role that it takes.

    """
    if not identity.role.covers(role):
        raise RestError(HTTPStatus.FORBIDDEN, f"this needs the role {role}, and {identity.name} is {identity.role}")


def allowed_by_role(router: APIRouter, prefix: str = "", table_prefix: str = "") -> Depends:
    """Return what lets only those through to the routes of a router, included under a prefix, whose role covers that of the table.

    Raises:
        RouteWithoutRole: a route is not in the table, or is nothing that this guards.

    """
    needed: dict[tuple[str, str], AccessRole | None] = {}
    for route in router.routes:
        path, methods = getattr(route, "path", ""), getattr(route, "methods", None)
        if not methods or not path:
            raise RouteWithoutRole(f"{route!r} is not a route of an API: nothing can tell who may use it")
        for method in methods:
            name = f"{method} {table_prefix}{path}"
            if name not in ROLES and name not in PUBLIC:
                raise RouteWithoutRole(f"{name} has no role: name it in eventflink/rest/access/roles.py")
            needed[method, path] = ROLES.get(name)

    async def check(request: HttpRequest) -> None:
        path: str = request.scope["route"].path
        role = needed[request.method, path if (request.method, path) in needed else path.removeprefix(prefix)]
        if role is None:
            return
        require(await identity_of(request), role)
        if role is not AccessRole.VIEWER:
            refuse_foreign_order(request.scope)

    return Depends(check)
