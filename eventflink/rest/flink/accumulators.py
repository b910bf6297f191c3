"""Accumulators: tasks have none here, so every answer is the one that Flink gives for tasks without any."""

from typing import Any

from fastapi import APIRouter
from pydantic import Field

from eventflink.rest.flink.attempts import UNASSIGNED
from eventflink.rest.flink.job_reads import ONE_JOB, JobReadsOfRequest
from eventflink.rest.flink.shapes import Shape
from eventflink.rest.flink.subtasks import attempt_of, current_attempt_of, number_of
from eventflink.views.plain import View

router = APIRouter(prefix=ONE_JOB)

Accumulators = list[dict[str, Any]]


class JobAccumulatorsInfo(Shape):
    """The accumulators of a job."""

    job_accumulators: Accumulators = Field(default=[], serialization_alias="job-accumulators")
    user_task_accumulators: Accumulators = Field(default=[], serialization_alias="user-task-accumulators")
    serialized: dict[str, Any] = Field(default={}, serialization_alias="serialized-user-task-accumulators")


class JobVertexAccumulatorsInfo(Shape):
    """The accumulators of a vertex."""

    id: str
    user_accumulators: Accumulators = Field(default=[], serialization_alias="user-accumulators")


class SubtaskAccumulatorsInfo(Shape):
    """The accumulators of a subtask."""

    subtask: int
    attempt: int
    endpoint: str
    user_accumulators: Accumulators = Field(default=[], serialization_alias="user-accumulators")


class SubtasksAllAccumulatorsInfo(Shape):
    """The accumulators of all subtasks of a vertex."""

    id: str
    parallelism: int
    subtasks: list[SubtaskAccumulatorsInfo]


class SubtaskExecutionAttemptAccumulatorsInfo(Shape):
    """The accumulators of an attempt."""

    subtask: int
    attempt: int
    id: str
    user_accumulators: Accumulators = Field(default=[], serialization_alias="user-accumulators")


@router.get("/accumulators")
async def of_job(reads: JobReadsOfRequest) -> JobAccumulatorsInfo:
    """Return the accumulators of a job."""
    await reads.job()
    return JobAccumulatorsInfo()


@router.get("/vertices/{vertexid}/accumulators")
async def of_vertex(reads: JobReadsOfRequest, vertexid: str) -> JobVertexAccumulatorsInfo:
    """Return the accumulators of a vertex."""
    _, vertex = await reads.vertex(vertexid)
    return JobVertexAccumulatorsInfo(id=vertex["vertex_id"])


@router.get("/vertices/{vertexid}/subtasks/accumulators")
async def of_subtasks(reads: JobReadsOfRequest, vertexid: str) -> SubtasksAllAccumulatorsInfo:
    """Return the accumulators of all subtasks of a vertex."""
    _, vertex = await reads.vertex(vertexid)
    subtasks = [_of_subtask(subtask) for subtask in vertex["subtasks"]]
    return SubtasksAllAccumulatorsInfo(id=vertex["vertex_id"], parallelism=vertex["parallelism"], subtasks=subtasks)


@router.get("/vertices/{vertexid}/subtasks/{subtaskindex}/attempts/{attempt}/accumulators")
async def of_attempt(reads: JobReadsOfRequest, vertexid: str, subtaskindex: int, attempt: int) -> SubtaskExecutionAttemptAccumulatorsInfo:
    """Return the accumulators of an attempt."""
    _, subtask = await reads.subtask(vertexid, subtaskindex)
    attempt_of(subtask, attempt)
    name = f"{reads.job_id}_{vertexid}_{subtaskindex}_{attempt}"
    return SubtaskExecutionAttemptAccumulatorsInfo(subtask=subtaskindex, attempt=attempt, id=name)


def _of_subtask(subtask: View) -> SubtaskAccumulatorsInfo:
    number = number_of(current_attempt_of(subtask))
    return SubtaskAccumulatorsInfo(subtask=subtask["subtask_index"], attempt=number, endpoint=subtask["task_manager_id"] or UNASSIGNED)
