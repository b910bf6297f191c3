"""The smaller pages of one job: bars, failures, checkpoints, the document, the result."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query

from eventflink.documents.checkpoints import CheckpointsPage
from eventflink.documents.failures import ExceptionsPage
from eventflink.documents.job_parts import BarsPage, ResultPage, ResultRows
from eventflink.documents.one_job import DocumentPage
from eventflink.documents.plain import part_of
from eventflink.model.attempts import OutputLocation
from eventflink.rest.own.moments import Moment, MomentsOfRequest, PagesOfRequest
from eventflink.rest.own.one_job import PREFIX, JobId
from eventflink.rest.own.windows import MAX_LIMIT, First, Limit
from eventflink.rest.reading import ServicesOfRequest
from eventflink.rest.result_reads import MAX_ROWS
from eventflink.views.job_document import document_view
from eventflink.views.pages.bars import archived_bars_page, bars_page
from eventflink.views.pages.job_parts import (
    archived_checkpoints_page,
    archived_exceptions_page,
    archived_result_page,
    checkpoints_page,
    exceptions_page,
    result_page,
)

router = APIRouter(prefix=PREFIX)
rows_router = APIRouter(prefix=PREFIX)
"""What is read where outputs lie."""


@router.get("/bars")
async def bars(pages: PagesOfRequest, job_id: JobId, first: First = 0, limit: Limit = 1_000) -> Moment[BarsPage]:
    """Return the attempts of a job as bars over time."""
    return await pages.page(bars_page, job_id, first, limit, from_archive=archived_bars_page)


@router.get("/exceptions")
async def exceptions(pages: PagesOfRequest, job_id: JobId, limit: Limit = 100) -> Moment[ExceptionsPage]:
    """Return the newest failures of a job, each with its cause and with what it led to."""
    return await pages.page(exceptions_page, job_id, limit, from_archive=archived_exceptions_page)


@router.get("/checkpoints")
async def checkpoints(pages: PagesOfRequest, job_id: JobId) -> Moment[CheckpointsPage]:
    """Return the checkpoints and savepoints of a job with their history."""
    return await pages.page(checkpoints_page, job_id, from_archive=archived_checkpoints_page)


@router.get("/document")
async def document(pages: PagesOfRequest, job_id: JobId) -> Moment[DocumentPage]:
    """Return the job graph as it was submitted, without secrets."""
    return await pages.page(document_view, job_id, from_archive=lambda archive: archive.document)


@router.get("/result")
async def result(
    pages: PagesOfRequest,
    job_id: JobId,
    vertex_id: Annotated[str, Query(max_length=200, description="Of this vertex alone.")] = "",
    output: Annotated[str, Query(max_length=200, description="Outputs of this name alone.")] = "",
    first: First = 0,
    limit: Limit = 100,
) -> Moment[ResultPage]:
    """Return how a job ended, and where its subtasks left their outputs."""
    return await pages.page(result_page, job_id, vertex_id, output, first, limit, from_archive=archived_result_page)


@rows_router.get("/result/rows")
async def rows(
    moments: MomentsOfRequest,
    services: ServicesOfRequest,
    job_id: JobId,
    vertex_id: Annotated[str, Query(max_length=200, description="Whose output it is.")],
    output: Annotated[str, Query(max_length=200)] = "default",
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS)] = 20,
) -> Moment[ResultRows]:
    """Return the first rows of an output, if they can be read from this host. They are read now, whatever `at` is."""
    moment = await moments.page(result_page, job_id, vertex_id, output, 0, MAX_LIMIT, from_archive=archived_result_page, is_whole=False)
    outputs = [part_of(OutputLocation, each) for each in moment.body.outputs]
    found = ResultRows(job_id=job_id, vertex_id=vertex_id, output=output)
    if not outputs:
        nothing = replace(found, unreadable=f"vertex '{vertex_id}' has left no output '{output}'")
        return moment.model_copy(update={"body": nothing})
    return moment.model_copy(update={"body": await services.results.rows(found, outputs, limit)})
