"""One vertex of a job: its subtasks, their times, and the TaskManagers that they are on."""

from collections.abc import Sequence

from fastapi import APIRouter
from pydantic import Field

from eventflink.documents.one_job import SubtaskInfo
from eventflink.model.statuses import ExecutionState
from eventflink.rest.flink.attempts import UNASSIGNED, current_row, current_times, now_of, span_ms, standing_of, times_of
from eventflink.rest.flink.io_metrics import AggregatedTaskDetailsInfo, IOMetricsInfo, aggregated, io_metrics_of
from eventflink.rest.flink.job_reads import ONE_JOB, JobReadsOfRequest
from eventflink.rest.flink.shapes import Shape
from eventflink.rest.flink.subtasks import SubtaskExecutionAttemptDetailsInfo, attempt_details, current_attempt_of

router = APIRouter(prefix=ONE_JOB)


class JobVertexDetailsInfo(Shape):
    """A vertex with the current attempts of its subtasks."""

    id: str
    name: str
    parallelism: int
    max_parallelism: int = Field(serialization_alias="maxParallelism")
    now: int
    subtasks: list[SubtaskExecutionAttemptDetailsInfo]
    aggregated: AggregatedTaskDetailsInfo


class SubtaskTimeInfo(Shape):
    """When the current attempt of a subtask was where."""

    subtask: int
    endpoint: str
    duration: int
    timestamps: dict[str, int]


class SubtasksTimesInfo(Shape):
    """When the current attempts of a vertex were where."""

    id: str
    name: str
    now: int
    subtasks: list[SubtaskTimeInfo]


class JobVertexTaskManagerInfo(Shape):
    """Where the subtasks of a vertex stand that are on one TaskManager."""

    endpoint: str
    status: ExecutionState
    start_time: int = Field(serialization_alias="start-time")
    end_time: int = Field(serialization_alias="end-time")
    duration: int
    metrics: IOMetricsInfo
    status_counts: dict[str, int] = Field(serialization_alias="status-counts")
    taskmanager_id: str = Field(serialization_alias="taskmanager-id")
    aggregated: AggregatedTaskDetailsInfo


class JobVertexTaskManagersInfo(Shape):
    """The TaskManagers that the subtasks of a vertex are on."""

    id: str
    name: str
    now: int
    taskmanagers: list[JobVertexTaskManagerInfo]


class VertexFlameGraph(Shape):
    """What Flink answers where flame graphs are disabled; its dashboard says so then."""

    end_timestamp: int = Field(default=-2, serialization_alias="endTimestamp")


@router.get("/vertices/{vertexid}")
async def vertex_details(reads: JobReadsOfRequest, vertexid: str) -> JobVertexDetailsInfo:
    """Return a vertex with the current attempts of its subtasks."""
    job, vertex = await reads.vertex(vertexid)
    now = now_of(job)
    return JobVertexDetailsInfo(
        id=vertex.vertex_id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        now=now,
        subtasks=[attempt_details(subtask, current_attempt_of(subtask), now) for subtask in vertex.subtasks],
        aggregated=_aggregated(vertex.subtasks, now),
    )


@router.get("/vertices/{vertexid}/subtasktimes")
async def subtask_times(reads: JobReadsOfRequest, vertexid: str) -> SubtasksTimesInfo:
    """Return when the current attempts of a vertex were where."""
    job, vertex = await reads.vertex(vertexid)
    now = now_of(job)
    subtasks = [_times(subtask, now) for subtask in vertex.subtasks]
    return SubtasksTimesInfo(id=vertex.vertex_id, name=vertex.name, now=now, subtasks=subtasks)


@router.get("/vertices/{vertexid}/taskmanagers")
async def vertex_task_managers(reads: JobReadsOfRequest, vertexid: str) -> JobVertexTaskManagersInfo:
    """Return the TaskManagers that the current attempts of a vertex are on."""
    job, vertex = await reads.vertex(vertexid)
    now, found = now_of(job), dict[str, list[SubtaskInfo]]()
    for subtask in vertex.subtasks:
        found.setdefault(subtask.task_manager_id or UNASSIGNED, []).append(subtask)
    rows = [_on_task_manager(place, subtasks, now) for place, subtasks in found.items()]
    return JobVertexTaskManagersInfo(id=vertex.vertex_id, name=vertex.name, now=now, taskmanagers=rows)


@router.get("/vertices/{vertexid}/flamegraph")
async def flame_graph(reads: JobReadsOfRequest, vertexid: str) -> VertexFlameGraph:
    """Return that there are no flame graphs: stacks of tasks are not sampled."""
    await reads.vertex(vertexid)
    return VertexFlameGraph()


def _times(subtask: SubtaskInfo, now_ms: int) -> SubtaskTimeInfo:
    times = current_times(subtask)
    return SubtaskTimeInfo(
        subtask=subtask.subtask_index,
        endpoint=subtask.task_manager_id or UNASSIGNED,
        duration=span_ms(times.scheduled_ms, times.ended_ms, now_ms),
        timestamps=times.timestamps(subtask.state),
    )


def _on_task_manager(place: str, subtasks: list[SubtaskInfo], now_ms: int) -> JobVertexTaskManagerInfo:
    standing = standing_of(subtasks, now_ms)
    return JobVertexTaskManagerInfo(
        endpoint=place,
        status=standing.state,
        start_time=standing.start_ms,
        end_time=standing.end_ms,
        duration=standing.duration_ms,
        metrics=io_metrics_of(current_row(subtask) for subtask in subtasks),
        status_counts=standing.counts,
        taskmanager_id=place,
        aggregated=_aggregated(subtasks, now_ms),
    )


def _aggregated(subtasks: Sequence[SubtaskInfo], now_ms: int) -> AggregatedTaskDetailsInfo:
    rows = [current_row(subtask) for subtask in subtasks]
    return aggregated([times_of(row).status_durations(now_ms) for row in rows], [io_metrics_of([row]) for row in rows])
