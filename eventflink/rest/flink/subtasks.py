"""Attempts of subtasks: `/jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}`, and each attempt below it.

Flink's attempts count from 0, ours from 1; its dashboard shows them from 1 as well. The newest of each subtask are remembered.
"""

from fastapi import APIRouter
from pydantic import Field

from eventflink.documents.one_job import AttemptInfo, SubtaskInfo
from eventflink.model.statuses import ExecutionState
from eventflink.rest.errors import not_found
from eventflink.rest.flink.attempts import UNASSIGNED, attempt_row, current_row, now_of, times_of
from eventflink.rest.flink.io_metrics import IOMetricsInfo, io_metrics_of
from eventflink.rest.flink.job_reads import ONE_JOB, JobReadsOfRequest
from eventflink.rest.flink.shapes import Shape

router = APIRouter(prefix=ONE_JOB)


class SubtaskExecutionAttemptDetailsInfo(Shape):
    """An attempt of a subtask; there is never another one at the same time."""

    subtask: int
    status: ExecutionState
    attempt: int
    endpoint: str
    """The TaskManager's id; the log knows no port."""
    start_time: int = Field(serialization_alias="start-time")
    compatible_start_time: int = Field(serialization_alias="start_time")
    """The same, as older clients call it."""
    end_time: int = Field(serialization_alias="end-time")
    duration: int
    metrics: IOMetricsInfo
    taskmanager_id: str = Field(serialization_alias="taskmanager-id")
    status_duration: dict[str, int] = Field(serialization_alias="status-duration")


@router.get("/vertices/{vertexid}/subtasks/{subtaskindex}")
async def current_attempt(reads: JobReadsOfRequest, vertexid: str, subtaskindex: int) -> SubtaskExecutionAttemptDetailsInfo:
    """Return the current attempt of a subtask."""
    job, subtask = await reads.subtask(vertexid, subtaskindex)
    return attempt_details(subtask, current_attempt_of(subtask), now_of(job))


@router.get("/vertices/{vertexid}/subtasks/{subtaskindex}/attempts/{attempt}")
async def one_attempt(reads: JobReadsOfRequest, vertexid: str, subtaskindex: int, attempt: int) -> SubtaskExecutionAttemptDetailsInfo:
    """Return an attempt of a subtask."""
    job, subtask = await reads.subtask(vertexid, subtaskindex)
    return attempt_details(subtask, attempt_of(subtask, attempt), now_of(job))


def current_attempt_of(subtask: SubtaskInfo) -> AttemptInfo:
    """Return the current attempt of a subtask; before it is scheduled it is nowhere."""
    return current_row(subtask) or AttemptInfo(attempt=subtask.attempt, state=subtask.state)


def attempt_of(subtask: SubtaskInfo, number: int) -> AttemptInfo:
    """Return an attempt by Flink's number; raises 404."""
    current = current_attempt_of(subtask)
    row = current if number == number_of(current) else attempt_row(subtask, number + 1)
    if row is None:
        raise not_found(f"Could not find attempt {number} of subtask {subtask.subtask_index}: it is at attempt {number_of(current)}")
    return row


def number_of(row: AttemptInfo) -> int:
    """Return Flink's number of an attempt."""
    return row.attempt - 1


def attempt_details(subtask: SubtaskInfo, row: AttemptInfo, now_ms: int) -> SubtaskExecutionAttemptDetailsInfo:
    """Return the answer of one attempt; `row` is what `attempt_of` or `current_attempt_of` returns."""
    times = times_of(row)
    place = row.task_manager_id or UNASSIGNED
    return SubtaskExecutionAttemptDetailsInfo(
        subtask=subtask.subtask_index,
        status=subtask.state if row.attempt == subtask.attempt else row.state,
        attempt=number_of(row),
        endpoint=place,
        start_time=times.deployed_ms,
        compatible_start_time=times.deployed_ms,
        end_time=times.ended_ms,
        duration=times.duration_ms(now_ms),
        metrics=io_metrics_of([row]),
        taskmanager_id=place,
        status_duration=times.status_durations(now_ms),
    )
