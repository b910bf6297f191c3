"""Savepoints and checkpoints that somebody asks for, and what became of them.

The id of a trigger is the request id of the command in the log. So any REST process answers for any trigger, whoever took it; and a POST
that is repeated under the same id is answered as before and does nothing twice (P8). What became of it is in the checkpoints of the job,
for as long as those are kept. A refusal comes at once, where Flink first accepts and then has it as the outcome.
"""

import uuid
from collections.abc import Awaitable, Callable
from enum import StrEnum
from http import HTTPStatus

from fastapi import APIRouter
from pydantic import Field

from eventflink.documents.checkpoints import CheckpointRow
from eventflink.gateways.request_channel import Accepted
from eventflink.model.statuses import CheckpointStatus, SavepointMode
from eventflink.rest.commanding import Commands, CommandsOfRequest
from eventflink.rest.errors import RestError, not_found
from eventflink.rest.flink.asynchronous import (
    COMPLETED,
    IN_PROGRESS,
    Body,
    FailedOperation,
    Place,
    QueueStatus,
    TriggerId,
    TriggerResponse,
    failure_cause,
)
from eventflink.rest.flink.job_reads import ONE_JOB, JobReads, JobReadsOfRequest
from eventflink.rest.flink.shapes import Shape
from eventflink.rest.requests import BodyRoute

router = APIRouter(prefix=ONE_JOB, route_class=BodyRoute)


class SavepointFormatType(StrEnum):
    """In which format Flink writes a savepoint; here there is one."""

    CANONICAL = "CANONICAL"
    NATIVE = "NATIVE"


class CheckpointType(StrEnum):
    """How much a checkpoint of Flink writes; here none writes what an earlier one has."""

    CONFIGURED = "CONFIGURED"
    FULL = "FULL"
    INCREMENTAL = "INCREMENTAL"


class SavepointTriggerRequestBody(Body):
    """What becomes of the job, and where the savepoint goes; null: where the configuration says."""

    target_directory: Place | None = Field(default=None, alias="target-directory")
    cancel_job: bool | None = Field(default=None, alias="cancel-job")
    format_type: SavepointFormatType | None = Field(default=None, alias="formatType")
    trigger_id: TriggerId | None = Field(default=None, alias="triggerId")


class StopWithSavepointRequestBody(Body):
    """Whether what the sources have is read first, and where the savepoint goes."""

    target_directory: Place | None = Field(default=None, alias="targetDirectory")
    drain: bool | None = Field(default=None)
    format_type: SavepointFormatType | None = Field(default=None, alias="formatType")
    trigger_id: TriggerId | None = Field(default=None, alias="triggerId")


class CheckpointTriggerRequestBody(Body):
    """What checkpoint is wanted."""

    checkpoint_type: CheckpointType | None = Field(default=None, alias="checkpointType")
    trigger_id: TriggerId | None = Field(default=None, alias="triggerId")


class SavepointInfo(Shape):
    """Where a savepoint is."""

    location: str


class CheckpointInfo(Shape):
    """Which checkpoint it was."""

    checkpoint_id: int = Field(serialization_alias="checkpointId")


class SavepointStatus(Shape):
    """What became of a savepoint."""

    status: QueueStatus
    operation: SavepointInfo | FailedOperation | None


class CheckpointTriggerStatus(Shape):
    """What became of a checkpoint."""

    status: QueueStatus
    operation: CheckpointInfo | FailedOperation | None


@router.post("/savepoints", status_code=HTTPStatus.ACCEPTED)
async def trigger_savepoint(jobid: str, commands: CommandsOfRequest, body: SavepointTriggerRequestBody | None = None) -> TriggerResponse:
    """Take a savepoint, after which the job goes on, or is cancelled."""
    wanted = body or SavepointTriggerRequestBody()
    mode = SavepointMode.CANCEL if wanted.cancel_job else SavepointMode.CONTINUE
    return await _take_savepoint(commands, jobid, wanted.trigger_id, wanted.target_directory, mode)


@router.post("/stop", status_code=HTTPStatus.ACCEPTED)
async def stop_with_savepoint(jobid: str, commands: CommandsOfRequest, body: StopWithSavepointRequestBody | None = None) -> TriggerResponse:
    """Take a savepoint, after which the streams of the job finish."""
    wanted = body or StopWithSavepointRequestBody()
    mode = SavepointMode.DRAIN if wanted.drain else SavepointMode.STOP
    return await _take_savepoint(commands, jobid, wanted.trigger_id, wanted.target_directory, mode)


@router.post("/checkpoints", status_code=HTTPStatus.ACCEPTED)
async def trigger_checkpoint(jobid: str, commands: CommandsOfRequest, body: CheckpointTriggerRequestBody | None = None) -> TriggerResponse:
    """Take a checkpoint."""
    wanted = body or CheckpointTriggerRequestBody()
    if wanted.checkpoint_type is CheckpointType.INCREMENTAL:
        raise RestError(HTTPStatus.BAD_REQUEST, "checkpointType: no checkpoint is incremental; ask for CONFIGURED or FULL")

    def ask(request_id: str) -> Awaitable[Accepted]:
        return commands.dispatcher.request_checkpoint(jobid, actor=commands.actor, request_id=request_id)

    return await _trigger(commands, jobid, wanted.trigger_id, ask)


@router.get("/savepoints/{triggerid}")
async def savepoint_status(triggerid: str, reads: JobReadsOfRequest) -> SavepointStatus:
    """Return what became of a savepoint: one that is complete is so before its job has ended."""
    found = await _find(reads, triggerid, is_savepoint=True)
    done = SavepointInfo(location=found.savepoint.path) if found.savepoint is not None and _is_complete(found) else None
    return SavepointStatus(status=_status_of(found), operation=_failure_of(found) or done)


@router.get("/checkpoints/{triggerid}")
async def checkpoint_status(triggerid: str, reads: JobReadsOfRequest) -> CheckpointTriggerStatus:
    """Return what became of a checkpoint."""
    found = await _find(reads, triggerid, is_savepoint=False)
    done = CheckpointInfo(checkpoint_id=found.checkpoint_id)
    return CheckpointTriggerStatus(status=_status_of(found), operation=_failure_of(found) or (done if _is_complete(found) else None))


async def _take_savepoint(
    commands: Commands, job_id: str, trigger_id: str | None, directory: str | None, mode: SavepointMode
) -> TriggerResponse:
    def ask(request_id: str) -> Awaitable[Accepted]:
        return commands.dispatcher.request_savepoint(job_id, directory or "", mode, actor=commands.actor, request_id=request_id)

    return await _trigger(commands, job_id, trigger_id, ask)


async def _trigger(commands: Commands, job_id: str, trigger_id: str | None, ask: Callable[[str], Awaitable[Accepted]]) -> TriggerResponse:
    accepted = await commands.decided(ask(trigger_id or uuid.uuid4().hex))
    if accepted.subject != job_id:
        raise RestError(HTTPStatus.CONFLICT, f"the trigger id {accepted.request_id} belongs to an operation of '{accepted.subject}'")
    return TriggerResponse(request_id=accepted.request_id)


async def _find(reads: JobReads, trigger_id: str, *, is_savepoint: bool) -> CheckpointRow:
    """Return the checkpoint that a trigger led to, which may be the request of another client, of any id; raises 404."""
    ids = {trigger_id, trigger_id.lower()}
    view = await reads.checkpoints()
    for row in (view.pending, *view.history, view.latest.completed, view.latest.savepoint, view.latest.failed):
        if row is not None and row.request_id in ids and (row.savepoint is not None) == is_savepoint:
            return row
    what = "savepoint" if is_savepoint else "checkpoint"
    raise not_found(f"job '{reads.job_id}' has no {what} of the trigger '{trigger_id[:128]}', or has it no longer")


def _status_of(row: CheckpointRow) -> QueueStatus:
    return IN_PROGRESS if row.status == CheckpointStatus.IN_PROGRESS else COMPLETED


def _is_complete(row: CheckpointRow) -> bool:
    return row.status is CheckpointStatus.COMPLETED


def _failure_of(row: CheckpointRow) -> FailedOperation | None:
    if row.status is not CheckpointStatus.FAILED:
        return None
    what = (row.reason or "").lower().replace("_", " ")
    return FailedOperation(failure_cause=failure_cause("CheckpointFailed", f"{what}: {row.message}"))
