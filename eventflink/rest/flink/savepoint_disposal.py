"""Removing savepoints: the files are removed by this process, with its rights, so what became of it is known to it alone."""

from http import HTTPStatus

from fastapi import APIRouter
from pydantic import Field

from eventflink.gateways.errors import RequestRefused
from eventflink.rest.errors import RestError, not_found
from eventflink.rest.flink.asynchronous import (
    COMPLETED,
    IN_PROGRESS,
    Body,
    FailedOperation,
    Place,
    QueueStatus,
    ThrowableInfo,
    TriggerResponse,
    failure_cause,
)
from eventflink.rest.flink.shapes import Shape
from eventflink.rest.operations import TooManyOperations
from eventflink.rest.reading import ServicesOfRequest
from eventflink.rest.requests import BodyRoute

router = APIRouter(route_class=BodyRoute)


class SavepointDisposalRequest(Body):
    """Which savepoint is to be removed."""

    savepoint_path: Place = Field(alias="savepoint-path", min_length=1)


class DisposalStatus(Shape):
    """What became of it; without a cause of failure it is removed."""

    status: QueueStatus
    operation: FailedOperation | None


@router.post("/savepoint-disposal")
async def dispose_savepoint(body: SavepointDisposalRequest, services: ServicesOfRequest) -> TriggerResponse:
    """Remove a savepoint."""
    try:
        trigger_id = services.operations.start(services.dispatcher.dispose_savepoint(body.savepoint_path))
    except TooManyOperations as error:
        raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from error
    return TriggerResponse(request_id=trigger_id)


@router.get("/savepoint-disposal/{triggerid}")
async def disposal_status(triggerid: str, services: ServicesOfRequest) -> DisposalStatus:
    """Return what became of a removal that this process was asked for."""
    task = services.operations.tasks.get(triggerid.lower())
    if task is None:
        raise not_found(f"this process knows of no savepoint disposal '{triggerid[:128]}'")
    if not task.done():
        return DisposalStatus(status=IN_PROGRESS, operation=None)
    return DisposalStatus(status=COMPLETED, operation=FailedOperation(failure_cause=_cause_of(task.exception())))


def _cause_of(error: BaseException | None) -> ThrowableInfo | None:
    if error is None:
        return None
    if isinstance(error, RequestRefused):
        return failure_cause(error.code, error.message)
    return failure_cause(type(error).__name__, str(error))
