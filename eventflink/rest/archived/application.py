"""The application that a history server serves: the routes of jobs that a REST process has, over archives, and the lists of what there is.

Flink's paths are those of Flink's own history server, and more. Nothing here commands, and there is no cluster to tell of.
"""

import asyncio
import json
from collections import Counter
from itertools import islice
from typing import Annotated, Final

from fastapi import APIRouter, FastAPI, Query, Request, Response

from eventflink.documents.plain import plain
from eventflink.documents.runs import RunOfJob
from eventflink.model.statuses import ExecutionState, JobStatus
from eventflink.reader.archives.index import ArchivedJob, Known
from eventflink.rest.access.guard import Admission
from eventflink.rest.application import assemble, serve_dashboard
from eventflink.rest.archived import pages
from eventflink.rest.archived.reads import ArchivedReads, ArchiveReader, ReaderOfRequest
from eventflink.rest.archived.runs import archived_runs
from eventflink.rest.dashboard_files import dashboard_router
from eventflink.rest.flink import applications, of_a_job
from eventflink.rest.flink.applications import MultipleApplicationsDetails, applications_of
from eventflink.rest.flink.cluster import DashboardConfiguration, Features, configuration_of
from eventflink.rest.flink.job_lists import (
    MAX_JOBS,
    JobDetails,
    JobIdsWithStatusOverview,
    JobIdWithStatus,
    MultipleJobsDetails,
    job_details,
)
from eventflink.rest.own import identity, runs
from eventflink.rest.own.moments import OwnShape
from eventflink.rest.own.pages import OF_A_JOB
from eventflink.rest.own.windows import First

MAX_ROWS: Final = 1_000
DEFAULT_ROWS: Final = 100
MAX_CLUSTERS: Final = 1_000
MAX_SKIPPED: Final = 100
"""Of the archives that cannot be read, so many are named."""

FEATURES: Final = Features(web_cancel=False, web_rescale=False, web_history=True)

lists = APIRouter()
own = APIRouter(prefix="/archives")

Cluster = Annotated[str | None, Query(max_length=128, description="Of this cluster alone.")]


class ArchivedJobRow(OwnShape):
    """A job that has an archive."""

    cluster_id: str
    job_id: str
    name: str
    status: JobStatus
    submitted_at: str | None
    ended_at: str | None
    duration_ms: int
    tasks: int
    tasks_by_state: dict[ExecutionState, int]
    location: str


class SkippedArchive(OwnShape):
    """An archive that cannot be read."""

    location: str
    reason: str


class ArchivePage(OwnShape):
    """Some of the jobs that have archives, the one that ended last first."""

    jobs: list[ArchivedJobRow]
    total: int
    """How many there are that are asked for, on all pages."""
    by_status: dict[JobStatus, int]
    """Of the jobs that are asked for but for their status."""
    by_cluster: dict[str, int]
    """Of all jobs, by cluster, of the first 1,000 clusters by name."""
    next: str | None
    """What `after` is to be for the next page; null: this is the last one."""
    skipped: list[SkippedArchive]
    skipped_total: int
    missing: str
    """Which archives may be there that are not known, in words; empty: none."""


def build_history_application(reader: ArchiveReader, refresh_interval_ms: int, admission: Admission) -> FastAPI:
    """Return the application; a dashboard is told to ask so often, and `admission` says who may ask at all."""
    application = assemble(
        (lists, _of_applications(), *of_a_job.ROUTERS),
        (identity.router, own, runs.router, *OF_A_JOB, pages.router),
        lambda request, _response, _min_offset: ArchivedReads(reader, request),
        admission,
    )
    application.state.pages = pages.archived_pages
    application.state.runs = archived_runs
    application.state.reader = reader
    application.state.refresh_interval_ms = refresh_interval_ms
    serve_dashboard(application, dashboard_router({"source": "archives", "refresh-ms": refresh_interval_ms}))
    return application


def _of_applications() -> APIRouter:
    """Return those routes of applications that only read a job."""
    router = APIRouter()
    router.get("/applications/{applicationid}")(applications.application_details)
    router.get("/applications/{applicationid}/exceptions")(applications.application_exceptions)
    return router


@lists.get("/config")
async def dashboard_configuration(request: Request) -> DashboardConfiguration:
    """Return the configuration of a dashboard: it shows history, and offers no command."""
    return configuration_of(request.app.state.refresh_interval_ms, FEATURES)


@lists.get("/jobs")
async def job_ids(reader: ReaderOfRequest, cluster: Cluster = None) -> JobIdsWithStatusOverview:
    """Return the ids of the jobs, and how each ended."""
    listed = _listed(reader.index.known, cluster)
    return JobIdsWithStatusOverview(jobs=[JobIdWithStatus(id=run.job_id, status=run.status) for run in listed])


@lists.get("/jobs/overview")
async def jobs_overview(reader: ReaderOfRequest, cluster: Cluster = None) -> MultipleJobsDetails:
    """Return a row of each job."""
    return MultipleJobsDetails(jobs=await asyncio.to_thread(_details, reader.index.known, cluster))


@lists.get("/applications/overview")
async def applications_overview(reader: ReaderOfRequest, cluster: Cluster = None) -> MultipleApplicationsDetails:
    """Return a row of each job as an application."""
    return applications_of(await asyncio.to_thread(_details, reader.index.known, cluster))


@own.get("")
async def archived_jobs(
    reader: ReaderOfRequest,
    cluster: Cluster = None,
    status: Annotated[list[JobStatus] | None, Query(max_length=len(JobStatus), description="Of those that ended so; repeat it.")] = None,
    name: Annotated[str, Query(max_length=256, description="Of those whose name or id has this in it, in any case.")] = "",
    after: Annotated[str, Query(max_length=512, description="The `next` of the page before.")] = "",
    first: First = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS)] = DEFAULT_ROWS,
) -> ArchivePage:
    """Return a page of the jobs that have archives, and what is wrong with those that cannot be read."""
    known = reader.index.known
    of_cluster = [job for job in known.newest_first if cluster in (None, job.cluster_id)]
    wanted = name.lower()
    named = [job for job in of_cluster if wanted in job.run.name.lower() or wanted in job.job_id.lower()]
    found = [job for job in named if job.run.status in status] if status else named
    rest = [job for job in found if job.order < after] if after else found
    page = rest[first : first + limit]
    clusters = Counter(job.cluster_id for job in known.newest_first)
    skipped = list(known.skipped.values())
    return ArchivePage(
        jobs=[_row(reader, job) for job in page],
        total=len(found),
        by_status=Counter(job.run.status for job in named),
        by_cluster={name: clusters[name] for name in sorted(clusters)[:MAX_CLUSTERS]},
        next=page[-1].order if page and len(rest) > first + len(page) else None,
        skipped=[SkippedArchive(location=each.location, reason=each.reason) for each in skipped[:MAX_SKIPPED]],
        skipped_total=len(skipped),
        missing=reader.index.missing(),
    )


@own.get("/{clusterid}/{jobid}")
async def archive(reader: ReaderOfRequest, clusterid: str, jobid: str) -> Response:
    """Return an archive as it is: more than Flink's answers tell of the job."""
    found = await reader.read(jobid, clusterid)
    # In a thread, as it may be long; and as Python writes it, for nothing in it has to be converted.
    return Response(await asyncio.to_thread(lambda: json.dumps(plain(found), ensure_ascii=False).encode()), media_type="application/json")


def _listed(known: Known, cluster_id: str | None) -> list[RunOfJob]:
    """Return the newest jobs, the newest last."""
    return [job.run for job in islice(known.answered_for(cluster_id), MAX_JOBS)][::-1]


def _details(known: Known, cluster_id: str | None) -> list[JobDetails]:
    """Return the newest jobs as Flink's rows, the newest last; of ten thousand it is a tenth of a second."""
    return [job_details(run) for run in _listed(known, cluster_id)]


def _row(reader: ArchiveReader, job: ArchivedJob) -> ArchivedJobRow:
    run = job.run
    return ArchivedJobRow(
        cluster_id=job.cluster_id,
        job_id=job.job_id,
        name=run.name,
        status=run.status,
        submitted_at=run.submitted_at,
        ended_at=run.ended_at,
        duration_ms=run.duration_ms,
        tasks=run.tasks,
        tasks_by_state=run.tasks_by_state,
        location=reader.index.location_of(job),
    )
