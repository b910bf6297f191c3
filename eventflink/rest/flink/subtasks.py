"""Attempts of subtasks: `/jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}`, and each attempt below it.

Attempts count from 1 here. The newest of each subtask are remembered.
"""

from fastapi import APIRouter
from pydantic import Field

from eventflink.model.statuses import ExecutionState
from eventflink.rest.errors import not_found
from eventflink.rest.flink.attempts import UNASSIGNED, attempt_row, now_of, times_of
from eventflink.rest.flink.io_metrics import UNKNOWN_IO, IOMetricsInfo
from eventflink.rest.flink.job_reads import ONE_JOB, JobReadsOfRequest
from eventflink.rest.flink.shapes import Shape
from eventflink.views.plain import View

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
    return attempt_details(subtask, attempt_of(subtask, subtask["attempt"]), now_of(job))


@router.get("/vertices/{vertexid}/subtasks/{subtaskindex}/attempts/{attempt}")
async def one_attempt(reads: JobReadsOfRequest, vertexid: str, subtaskindex: int, attempt: int) -> SubtaskExecutionAttemptDetailsInfo:
    """Return an attempt of a subtask."""
    job, subtask = await reads.subtask(vertexid, subtaskindex)
    return attempt_details(subtask, attempt_of(subtask, attempt), now_of(job))


def attempt_of(subtask: View, attempt: int) -> View:
    """Return the row of an attempt; raises 404. The current one may have none yet: it has no TaskManager."""
    row = attempt_row(subtask, attempt)
    if row is not None:
        return row
    if attempt == subtask["attempt"]:
        return {"attempt": attempt, "task_manager_id": None}
    raise not_found(f"Could not find attempt {attempt} of subtask {subtask['subtask_index']}: it is at attempt {subtask['attempt']}")


def attempt_details(subtask: View, row: View, now_ms: int) -> SubtaskExecutionAttemptDetailsInfo:
    """Return the answer of one attempt; `row` is what `attempt_of` returns."""
    times = times_of(row)
    place = row["task_manager_id"] or UNASSIGNED
    return SubtaskExecutionAttemptDetailsInfo(
        subtask=subtask["subtask_index"],
        status=_state_of(subtask, row),
        attempt=row["attempt"],
        endpoint=place,
        start_time=times.deployed_ms,
        compatible_start_time=times.deployed_ms,
        end_time=times.ended_ms,
        duration=times.duration_ms(now_ms),
        metrics=UNKNOWN_IO,
        taskmanager_id=place,
        status_duration=times.status_durations(now_ms),
    )


def _state_of(subtask: View, row: View) -> ExecutionState:
    """Return the state of an attempt; how an earlier one ended is not known of every version's archives: it did not finish."""
    if row["attempt"] == subtask["attempt"]:
        return ExecutionState(subtask["state"])
    return ExecutionState(row.get("state") or ExecutionState.FAILED)
