"""The lists of jobs: `/jobs` and `/jobs/overview`, as Flink's JobsOverview handlers answer them. One job is for `jobs.py`."""

from typing import Final

from fastapi import APIRouter
from pydantic import Field

from eventflink.documents.jobs import JobRow
from eventflink.model.statuses import JobStatus, SchedulerType
from eventflink.rest.flink.plans import job_type_of
from eventflink.rest.flink.shapes import Shape, count_of_tasks, epoch_ms
from eventflink.rest.reading import ReadsOfRequest
from eventflink.views.jobs_and_cluster import jobs_view
from eventflink.views.queries import MAX_LISTED_JOBS, job_statuses

MAX_JOBS: Final = 10_000
"""The newest so many are in an overview: Flink has no pages, and its own clients read it whole."""

router = APIRouter()


class JobIdWithStatus(Shape):
    """A job and where it stands."""

    id: str
    status: JobStatus


class JobIdsWithStatusOverview(Shape):
    """All jobs that are in memory, the newest last; of more than 100,000 the newest."""

    jobs: list[JobIdWithStatus] = Field(max_length=MAX_LISTED_JOBS)


class JobDetails(Shape):
    """A job as a row."""

    jid: str
    name: str
    start_time: int = Field(serialization_alias="start-time")
    end_time: int = Field(serialization_alias="end-time")
    duration: int
    state: JobStatus
    last_modification: int = Field(serialization_alias="last-modification")
    tasks: dict[str, int]
    """By state in small letters, and in all as `total`."""
    job_type: str = Field(serialization_alias="jobType")
    scheduler_type: str = Field(serialization_alias="schedulerType")
    pending_operators: int = Field(default=0, serialization_alias="pending-operators")


class MultipleJobsDetails(Shape):
    """The jobs as rows, the newest last."""

    jobs: list[JobDetails]


@router.get("/jobs")
async def job_ids(reads: ReadsOfRequest) -> JobIdsWithStatusOverview:
    """Return the ids of all jobs, and where each stands."""
    listed = (await reads.state(job_statuses)).jobs
    return JobIdsWithStatusOverview(jobs=[JobIdWithStatus(id=job_id, status=status) for job_id, status in listed])


@router.get("/jobs/overview")
async def jobs_overview(reads: ReadsOfRequest) -> MultipleJobsDetails:
    """Return a row of each job."""
    rows = (await reads.state(lambda fold: jobs_view(fold, (), MAX_JOBS))).jobs
    return MultipleJobsDetails(jobs=[job_details(row) for row in rows])


def job_details(row: JobRow) -> JobDetails:
    """Return the row of a job from that of `job_row`."""
    states = {state.lower(): count for state, count in count_of_tasks(row.tasks_by_state).items()}
    return JobDetails(
        jid=row.job_id,
        name=row.name,
        start_time=epoch_ms(row.submitted_at),
        end_time=epoch_ms(row.ended_at),
        duration=row.duration_ms,
        state=row.status,
        last_modification=epoch_ms(row.status_since),
        tasks={"total": row.tasks, **states},
        job_type=job_type_of(has_streams=row.has_streams),
        scheduler_type=scheduler_type_of(row.scheduler),
    )


def scheduler_type_of(scheduler: SchedulerType) -> str:
    """Return Flink's name of what schedules a job."""
    return "Adaptive" if scheduler is SchedulerType.ADAPTIVE else "Default"
