"""Metrics of jobs, vertices and subtasks: the names, or the values of those that `get` names, as of the last checkpoint."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Query

from eventflink.documents.checkpoints import JobCheckpoints
from eventflink.documents.one_job import VertexInfo
from eventflink.rest.errors import RestError
from eventflink.rest.flink.job_lists import MAX_JOBS
from eventflink.rest.flink.job_reads import ONE_JOB, JobReadsOfRequest, subtask_of
from eventflink.rest.flink.metrics import AggregatedMetric, MetricInfo, Modes, Names, aggregate, aggregation_modes, metrics_of
from eventflink.rest.flink.progress import WATERMARK, Metrics, answers_of, metrics_of_job, metrics_of_restarts, metrics_of_subtask
from eventflink.rest.reading import ReadsOfRequest
from eventflink.views.jobs_and_cluster import jobs_view

MAX_RANGES: Final = 1_000
"""Of subtasks, in one request."""

jobs_router = APIRouter()
router = APIRouter(prefix=ONE_JOB)


@jobs_router.get("/jobs/metrics", response_model_exclude_none=True)
async def metrics_of_jobs(
    reads: ReadsOfRequest,
    names: Names = None,
    modes: Modes = None,
    ids: Annotated[str | None, Query(alias="jobs", description="Comma-separated list of jobs; default: the newest.")] = None,
) -> list[AggregatedMetric]:
    """Return what metrics of jobs add up to."""
    wanted_modes = aggregation_modes(modes)
    rows = (await reads.state(lambda fold: jobs_view(fold, (), MAX_JOBS))).jobs
    wanted = set(ids.split(",")) if ids else None
    return aggregate([metrics_of_restarts(row.restarts) for row in rows if wanted is None or row.job_id in wanted], names, wanted_modes)


@router.get("/metrics", response_model_exclude_none=True)
async def job_metrics(reads: JobReadsOfRequest, names: Names = None) -> list[MetricInfo]:
    """Return metrics of a job."""
    return metrics_of(metrics_of_job(*await reads.job_and_checkpoints()), names)


@router.get("/vertices/{vertexid}/metrics", response_model_exclude_none=True)
async def vertex_metrics(reads: JobReadsOfRequest, vertexid: str, names: Names = None) -> list[MetricInfo]:
    """Return metrics of a vertex: those of its subtasks, each name behind the subtask's index."""
    return metrics_of(_by_subtask(*await reads.vertex_and_checkpoints(vertexid)), names)


@router.get("/vertices/{vertexid}/watermarks", response_model_exclude_none=True)
async def watermarks(reads: JobReadsOfRequest, vertexid: str) -> list[MetricInfo]:
    """Return the watermarks of the subtasks of a vertex; of one without any, none."""
    found = _by_subtask(*await reads.vertex_and_checkpoints(vertexid))
    return [MetricInfo(id=name, value=str(value)) for name, value in found.items() if name.endswith(f".{WATERMARK}")]


@router.get("/vertices/{vertexid}/subtasks/metrics", response_model_exclude_none=True)
async def subtasks_metrics(
    reads: JobReadsOfRequest,
    vertexid: str,
    names: Names = None,
    modes: Modes = None,
    subtasks: Annotated[
        str | None, Query(description='Comma-separated list of indexes and ranges, such as "1,3,5-9"; default: all.')
    ] = None,
) -> list[AggregatedMetric]:
    """Return what metrics of the subtasks of a vertex add up to."""
    wanted_modes, is_wanted = aggregation_modes(modes), _ranges(subtasks)
    vertex, checkpoints = await reads.vertex_and_checkpoints(vertexid)
    rows = [row for row in answers_of(checkpoints, vertex.vertex_id) if is_wanted(row.subtask_index)]
    return aggregate([metrics_of_subtask(row) for row in rows], names, wanted_modes)


@router.get("/vertices/{vertexid}/subtasks/{subtaskindex}/metrics", response_model_exclude_none=True)
async def subtask_metrics(reads: JobReadsOfRequest, vertexid: str, subtaskindex: int, names: Names = None) -> list[MetricInfo]:
    """Return metrics of a subtask."""
    vertex, checkpoints = await reads.vertex_and_checkpoints(vertexid)
    subtask_of(vertex, subtaskindex)
    rows = [row for row in answers_of(checkpoints, vertex.vertex_id) if row.subtask_index == subtaskindex]
    return metrics_of(metrics_of_subtask(rows[0]) if rows else {}, names)


def _by_subtask(vertex: VertexInfo, checkpoints: JobCheckpoints) -> Metrics:
    return {
        f"{row.subtask_index}.{name}": value
        for row in answers_of(checkpoints, vertex.vertex_id)
        for name, value in metrics_of_subtask(row).items()
    }


def _ranges(text: str | None) -> Callable[[int], bool]:
    """Return what tells whether an index is among those that a text names.

    Raises:
        RestError: 400, it names none.

    """
    if not text:
        return lambda _: True
    parts = text.split(",")
    try:
        bounds = [(int(first), int(last or first)) for first, _, last in (part.partition("-") for part in parts)]
    except ValueError as error:
        raise RestError(HTTPStatus.BAD_REQUEST, f"invalid subtasks: '{text[:128]}'; give a list such as 1,3,5-9") from error
    if len(bounds) > MAX_RANGES:
        raise RestError(HTTPStatus.BAD_REQUEST, f"subtasks: {len(bounds)} ranges are more than {MAX_RANGES}")
    return lambda index: any(first <= index <= last for first, last in bounds)
