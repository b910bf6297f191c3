"""The end of a job that somebody asks for, as Flink's JobCancellationHandler answers."""

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Query

from eventflink.rest.commanding import CommandsOfRequest
from eventflink.rest.errors import RestError
from eventflink.rest.flink.shapes import Empty

_CANCEL: Final = "cancel"
_STOP: Final = "stop"

router = APIRouter()


@router.patch("/jobs/{jobid}", status_code=HTTPStatus.ACCEPTED)
async def cancel_job(jobid: str, commands: CommandsOfRequest, mode: Annotated[str, Query()] = _CANCEL) -> Empty:
    """Ask for a job's end; it ends later."""
    if mode.lower() == _STOP:
        message = "the mode 'stop' has been removed: use 'cancel', or POST /jobs/:jobid/stop for a stop with a savepoint"
        raise RestError(HTTPStatus.PERMANENT_REDIRECT, message)
    if mode.lower() != _CANCEL:
        raise RestError(HTTPStatus.BAD_REQUEST, f"unknown mode: '{mode[:128]}'; known: {_CANCEL}")
    await commands.decided(commands.dispatcher.cancel_job(jobid, actor=commands.actor))
    return Empty()


@router.get("/jobs/{jobid}/yarn-cancel", status_code=HTTPStatus.ACCEPTED)
async def cancel_job_by_get(jobid: str, commands: CommandsOfRequest) -> Empty:
    """Ask for a job's end as Flink's dashboard does, which cannot send a PATCH through every proxy."""
    return await cancel_job(jobid, commands)
