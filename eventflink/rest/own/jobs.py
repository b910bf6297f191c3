"""The page of all jobs."""

from typing import Annotated

from fastapi import APIRouter, Query

from eventflink.model.statuses import ExecutionState, JobStatus, SchedulerType
from eventflink.rest.own.moments import Moment, MomentsOfRequest, OwnShape
from eventflink.rest.own.page_shapes import First, Limit
from eventflink.views.pages.jobs import JobOrder, jobs_page

router = APIRouter()


class JobRow(OwnShape):
    """A job in a list."""

    job_id: str
    name: str
    status: JobStatus
    scheduler: SchedulerType
    has_streams: bool
    tasks: int
    tasks_finished: int
    tasks_by_state: dict[ExecutionState, int]
    restarts: int
    submitted_at: str
    ended_at: str | None
    status_since: str
    duration_ms: int
    """Up to its end, or to where the log's time stands."""
    actor: str
    rerun_of: str | None = None
    """The ended job that it runs again."""
    failure_is_dismissed: bool = False
    """Whether somebody has dismissed the failure of this job."""
    run_again_by: str | None = None
    """The newest job that runs it again."""


class ListedJob(JobRow):
    """A job in the list of all jobs, with why it does not run."""

    why: str | None
    """The sentence of its first wait: trouble first, then the longest; of a job that failed, what it failed of."""
    stream: bool


class Anchor(OwnShape):
    """Where a job stands in a list."""

    job_id: str
    index: int | None
    """null: it is not one of those that fit."""


class JobsPage(OwnShape):
    """A window of the jobs that fit."""

    total: int
    """How many jobs are in memory."""
    matching: int
    by_status: dict[JobStatus, int]
    """Of the jobs that fit by name and actor."""
    jobs: list[ListedJob]
    anchor: Anchor | None
    """The job that was asked about."""


@router.get("/jobs")
async def jobs(
    moments: MomentsOfRequest,
    status: Annotated[list[JobStatus] | None, Query(max_length=len(JobStatus), description="One of these; repeat the parameter.")] = None,
    name: Annotated[str, Query(max_length=200, description="A part of the name, or how the id begins, in any case.")] = "",
    actor: Annotated[str, Query(max_length=200, description="Who submitted it.")] = "",
    sort: JobOrder = JobOrder.NEWEST,
    first: First = 0,
    limit: Limit = 100,
    anchor: Annotated[str, Query(max_length=1024, description="A job: the answer says where in the list it stands.")] = "",
) -> Moment[JobsPage]:
    """Return jobs as rows. What is in trouble comes first with `sort=trouble`, otherwise the newest of equals."""
    return await moments.page(
        jobs_page, tuple(status or ()), name, actor, sort, first, limit, anchor, of_all_jobs=sort is not JobOrder.NEWEST
    )
