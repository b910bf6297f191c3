"""Accumulators: what the code of tasks that have finished has counted, in Flink's words for it.

Those of a job and of a vertex are sums over the current attempts. The serialized form is that of Flink's `OptionalFailure`.
"""

import base64
from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from eventflink.documents.one_job import AccumulatorInfo, SubtaskInfo
from eventflink.rest.flink.attempts import UNASSIGNED
from eventflink.rest.flink.java_throwables import serialized_accumulator
from eventflink.rest.flink.job_reads import ONE_JOB, JobReadsOfRequest
from eventflink.rest.flink.shapes import Shape
from eventflink.rest.flink.subtasks import attempt_of, current_attempt_of, number_of
from eventflink.views.accumulators import added_up

router = APIRouter(prefix=ONE_JOB)


class UserAccumulator(Shape):
    """An accumulator; the value is a text."""

    name: str
    type: str
    value: str


Accumulators = list[UserAccumulator]


class JobAccumulatorsInfo(Shape):
    """The accumulators of a job."""

    job_accumulators: Accumulators = Field(default=[], serialization_alias="job-accumulators")
    """Always empty, as in Flink."""
    user_task_accumulators: Accumulators = Field(serialization_alias="user-task-accumulators")
    serialized: dict[str, str] = Field(default={}, serialization_alias="serialized-user-task-accumulators")


class JobVertexAccumulatorsInfo(Shape):
    """The accumulators of a vertex."""

    id: str
    user_accumulators: Accumulators = Field(serialization_alias="user-accumulators")


class SubtaskAccumulatorsInfo(Shape):
    """The accumulators of a subtask."""

    subtask: int
    attempt: int
    endpoint: str
    user_accumulators: Accumulators = Field(serialization_alias="user-accumulators")


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
    user_accumulators: Accumulators = Field(serialization_alias="user-accumulators")


@router.get("/accumulators")
async def of_job(
    reads: JobReadsOfRequest,
    include_serialized: Annotated[bool, Query(alias="includeSerializedValue")] = False,  # noqa: FBT002 - a parameter of the query
) -> JobAccumulatorsInfo:
    """Return the accumulators of a job."""
    job = await reads.job()
    rows = _of_subtasks(subtask for vertex in job.vertices for subtask in vertex.subtasks)
    return JobAccumulatorsInfo(user_task_accumulators=_infos(rows), serialized=serialized(rows) if include_serialized else {})


@router.get("/vertices/{vertexid}/accumulators")
async def of_vertex(reads: JobReadsOfRequest, vertexid: str) -> JobVertexAccumulatorsInfo:
    """Return the accumulators of a vertex."""
    _, vertex = await reads.vertex(vertexid)
    return JobVertexAccumulatorsInfo(id=vertex.vertex_id, user_accumulators=_infos(_of_subtasks(vertex.subtasks)))


@router.get("/vertices/{vertexid}/subtasks/accumulators")
async def of_subtasks(reads: JobReadsOfRequest, vertexid: str) -> SubtasksAllAccumulatorsInfo:
    """Return the accumulators of all subtasks of a vertex."""
    _, vertex = await reads.vertex(vertexid)
    subtasks = [_of_subtask(subtask) for subtask in vertex.subtasks]
    return SubtasksAllAccumulatorsInfo(id=vertex.vertex_id, parallelism=vertex.parallelism, subtasks=subtasks)


@router.get("/vertices/{vertexid}/subtasks/{subtaskindex}/attempts/{attempt}/accumulators")
async def of_attempt(reads: JobReadsOfRequest, vertexid: str, subtaskindex: int, attempt: int) -> SubtaskExecutionAttemptAccumulatorsInfo:
    """Return the accumulators of an attempt."""
    _, subtask = await reads.subtask(vertexid, subtaskindex)
    row = attempt_of(subtask, attempt)
    name = f"{reads.job_id}_{vertexid}_{subtaskindex}_{attempt}"
    return SubtaskExecutionAttemptAccumulatorsInfo(
        subtask=subtaskindex, attempt=attempt, id=name, user_accumulators=_infos(row.accumulators)
    )


def serialized(counted: Iterable[AccumulatorInfo]) -> dict[str, str]:
    """Return accumulators by name as Flink's Java clients read them, in base 64."""
    return {each.name: base64.b64encode(serialized_accumulator(each.value)).decode() for each in counted}


def _of_subtask(subtask: SubtaskInfo) -> SubtaskAccumulatorsInfo:
    row = current_attempt_of(subtask)
    place = subtask.task_manager_id or UNASSIGNED
    return SubtaskAccumulatorsInfo(
        subtask=subtask.subtask_index, attempt=number_of(row), endpoint=place, user_accumulators=_infos(row.accumulators)
    )


def _of_subtasks(subtasks: Iterable[SubtaskInfo]) -> list[AccumulatorInfo]:
    return added_up(current_attempt_of(subtask).accumulators for subtask in subtasks)


def _infos(counted: Iterable[AccumulatorInfo]) -> Accumulators:
    return [UserAccumulator(name=each.name, type=each.type, value=str(each.value)) for each in counted]
