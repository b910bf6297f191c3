"""The page of all jobs."""

from typing import Annotated

from fastapi import APIRouter, Query

from eventflink.documents.jobs import JobsPage
from eventflink.model.job_about import MAX_LABELS
from eventflink.model.statuses import JobStatus
from eventflink.rest.own.moments import Moment, MomentsOfRequest
from eventflink.rest.own.windows import First, Limit
from eventflink.views.pages.jobs import JobOrder, jobs_page

router = APIRouter()


@router.get("/jobs")
async def jobs(
    moments: MomentsOfRequest,
    status: Annotated[list[JobStatus] | None, Query(max_length=len(JobStatus), description="One of these; repeat the parameter.")] = None,
    name: Annotated[str, Query(max_length=200, description="A part of the name, or how the id begins, in any case.")] = "",
    actor: Annotated[str, Query(max_length=200, description="Who submitted it.")] = "",
    label: Annotated[list[str] | None, Query(max_length=MAX_LABELS, description="`team=finance`, or `team` with any value.")] = None,
    sort: JobOrder = JobOrder.NEWEST,
    first: First = 0,
    limit: Limit = 100,
    anchor: Annotated[str, Query(max_length=1024, description="A job: the answer says where in the list it stands.")] = "",
) -> Moment[JobsPage]:
    """Return jobs as rows. What is in trouble comes first with `sort=trouble`, otherwise the newest of equals."""
    return await moments.page(
        jobs_page, tuple(status or ()), name, actor, sort, first, limit, anchor, tuple(label or ()), of_all_jobs=sort is not JobOrder.NEWEST
    )
