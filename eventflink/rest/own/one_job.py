"""The pages of one job; of one that has left the memory they are made of its archive, for the present alone."""

from typing import Annotated, Final

from fastapi import APIRouter, Path, Query

from eventflink.documents.one_job import JobPage, SubtasksPage
from eventflink.model.statuses import ExecutionState
from eventflink.rest.own.moments import Moment, PagesOfRequest
from eventflink.rest.own.windows import First, Limit
from eventflink.views.pages.one_job import archived_job_page, job_page
from eventflink.views.pages.subtasks import SubtaskOrder, archived_subtasks_page, subtasks_page

PREFIX: Final = "/jobs/{job_id}"

router = APIRouter(prefix=PREFIX)

JobId = Annotated[str, Path(description="The whole id.")]
VertexId = Annotated[str, Path()]


@router.get("")
async def one_job(pages: PagesOfRequest, job_id: JobId) -> Moment[JobPage]:
    """Return a job with its vertices, without their subtasks."""
    return await pages.page(job_page, job_id, from_archive=archived_job_page)


@router.get("/vertices/{vertex_id}/subtasks")
async def subtasks(
    pages: PagesOfRequest,
    job_id: JobId,
    vertex_id: VertexId,
    state: Annotated[list[ExecutionState] | None, Query(max_length=len(ExecutionState), description="Repeat the parameter.")] = None,
    sort: SubtaskOrder = SubtaskOrder.INDEX,
    first: First = 0,
    limit: Limit = 100,
) -> Moment[SubtasksPage]:
    """Return the subtasks of a vertex with their attempts."""
    wanted = (vertex_id, tuple(state or ()), sort, first, limit)
    return await pages.page(subtasks_page, job_id, *wanted, from_archive=archived_subtasks_page)
