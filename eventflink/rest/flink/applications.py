"""Applications, as Flink 2.3 has them: each job is one of its own, under the job's id.

Flink's dashboard and clients begin with applications; what runs an entry point here (application mode) is no process of its own, and has
none. So whatever is asked of an application is answered of its job.
"""

from collections import Counter
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from fastapi import APIRouter
from pydantic import Field

from eventflink.documents.jobs import JobRow
from eventflink.documents.plain import part_of
from eventflink.model.statuses import JobStatus
from eventflink.rest.commanding import CommandsOfRequest
from eventflink.rest.flink.job_commands import cancel_job
from eventflink.rest.flink.job_lists import MAX_JOBS, JobDetails, job_details
from eventflink.rest.flink.job_manager import ConfigurationInfoEntry, configuration_entries
from eventflink.rest.flink.job_reads import JobReads
from eventflink.rest.flink.shapes import Empty, Shape, epoch_ms
from eventflink.rest.reading import ReadsOfRequest, ServicesOfRequest
from eventflink.views.jobs_and_cluster import jobs_view

_OTHER_NAMES: Final = {
    JobStatus.FAILING: "FAILING",
    JobStatus.CANCELLING: "CANCELING",
    JobStatus.FAILED: "FAILED",
    JobStatus.CANCELED: "CANCELED",
    JobStatus.FINISHED: "FINISHED",
}
"""How Flink calls where an application stands; in every other status of its job it is running."""

_RUNNING: Final = "RUNNING"
_STATES: Final = ("CREATED", _RUNNING, "FAILING", "FAILED", "CANCELING", "CANCELED", "FINISHED")

router = APIRouter()


class ApplicationRow(Shape):
    """What a row and the details of an application have in common."""

    id: str
    name: str
    start_time: int = Field(serialization_alias="start-time")
    end_time: int = Field(serialization_alias="end-time")
    duration: int
    status: str


class ApplicationDetails(ApplicationRow):
    """An application as a row."""

    jobs: dict[str, int]
    """How many of its jobs have which status."""


class MultipleApplicationsDetails(Shape):
    """The applications as rows, the newest last."""

    applications: list[ApplicationDetails]


class ApplicationDetailsInfo(ApplicationRow):
    """An application with its job."""

    timestamps: dict[str, int]
    """When it came to each state that the state of the cluster tells; 0: never, or not told."""
    jobs: list[JobDetails]


class ApplicationExceptionInfo(Shape):
    """Why an application failed."""

    exception_name: str = Field(serialization_alias="exceptionName")
    stacktrace: str
    timestamp: int
    job_id: str = Field(serialization_alias="jobId")


class ApplicationExceptionHistory(Shape):
    """Why an application failed, if it did."""

    entries: list[ApplicationExceptionInfo]


class ApplicationExceptionsInfoWithHistory(Shape):
    """Why an application failed, if it did."""

    exception_history: ApplicationExceptionHistory = Field(serialization_alias="exceptionHistory")


@router.get("/applications/overview")
async def applications_overview(reads: ReadsOfRequest) -> MultipleApplicationsDetails:
    """Return a row of each job as an application."""
    rows = (await reads.state(lambda fold: jobs_view(fold, (), MAX_JOBS))).jobs
    return applications_of(job_details(row) for row in rows)


@router.get("/applications/{applicationid}")
async def application_details(applicationid: str, reads: ReadsOfRequest) -> ApplicationDetailsInfo:
    """Return a job as an application."""
    job = await JobReads(applicationid, reads).job()
    details = job_details(part_of(JobRow, job))
    row = _row(details)
    timestamps = dict.fromkeys(_STATES, 0) | {"CREATED": row.start_time, _RUNNING: row.start_time}
    if row.status != _RUNNING:
        timestamps[row.status] = epoch_ms(job.status_since, 0)
    return ApplicationDetailsInfo(**row.model_dump(), timestamps=timestamps, jobs=[details])


@router.post("/applications/{applicationid}/cancel", status_code=HTTPStatus.ACCEPTED)
async def cancel_application(applicationid: str, commands: CommandsOfRequest) -> Empty:
    """Ask for the end of a job; it ends later."""
    return await cancel_job(applicationid, commands)


@router.get("/applications/{applicationid}/exceptions")
async def application_exceptions(applicationid: str, reads: ReadsOfRequest) -> ApplicationExceptionsInfoWithHistory:
    """Return why a job failed."""
    job = await JobReads(applicationid, reads).job()
    entries = []
    if (cause := job.cause) is not None:
        trace = cause.stack_trace or f"{cause.failure_type}: {cause.message}"
        at_ms = epoch_ms(job.status_since, 0)
        entries.append(ApplicationExceptionInfo(exception_name=cause.failure_type, stacktrace=trace, timestamp=at_ms, job_id=job.job_id))
    return ApplicationExceptionsInfoWithHistory(exception_history=ApplicationExceptionHistory(entries=entries))


@router.get("/applications/{applicationid}/jobmanager/config")
async def application_configuration(applicationid: str, reads: ReadsOfRequest, services: ServicesOfRequest) -> list[ConfigurationInfoEntry]:
    """Return what `/jobmanager/config` returns: a job has no JobManager of its own."""
    await JobReads(applicationid, reads).job()
    return configuration_entries(services)


def applications_of(jobs: Iterable[JobDetails]) -> MultipleApplicationsDetails:
    """Return jobs as applications."""
    return MultipleApplicationsDetails(
        applications=[ApplicationDetails(**_row(job).model_dump(), jobs=Counter([str(job.state)])) for job in jobs]
    )


def _row(job: JobDetails) -> ApplicationRow:
    return ApplicationRow(
        id=job.jid,
        name=f"SingleJobApplication({job.name})",
        start_time=job.start_time,
        end_time=job.end_time,
        duration=job.duration,
        status=_OTHER_NAMES.get(job.state, _RUNNING),
    )
