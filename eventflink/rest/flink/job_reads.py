"""What the routes of one job read: its views, of one offset each, from the state or from its archive.

Ids are whole ids: a program says what it means. What a job does not have is an error of 404, as Flink's NotFoundException.
"""

from typing import Annotated, Final

from fastapi import Depends

from eventflink.documents.checkpoints import JobCheckpoints
from eventflink.documents.failures import JobExceptions
from eventflink.documents.jobs import JobStanding
from eventflink.documents.one_job import JobInfo, JobOutcome, SubtaskInfo, VertexInfo
from eventflink.leadership.fold import Fold
from eventflink.rest.errors import not_found
from eventflink.rest.reading import ReadsOfRequest, RequestReads
from eventflink.views.archive import archived_exceptions, archived_status
from eventflink.views.checkpoints import checkpoints_view
from eventflink.views.exceptions import exceptions_view
from eventflink.views.jobs_and_cluster import job_view, not_in_memory
from eventflink.views.queries import job_result, job_status

ONE_JOB: Final = "/jobs/{jobid}"
"""Where the routes of one job are; `job_reads_of` takes the id."""


class JobReads:
    """The reads of one request about one job. Each raises what `RequestReads.job` raises."""

    def __init__(self, job_id: str, reads: RequestReads) -> None:
        """Take a job."""
        self.job_id = job_id
        self._reads = reads

    async def job(self) -> JobInfo:
        """Return the job."""
        return await self._reads.job(lambda fold: _job(fold, self.job_id), lambda archive: archive.job)

    async def status(self) -> JobStanding:
        """Return what `queries.job_status` says; it is known of a job without an archive as well."""
        return await self._reads.job(lambda fold: job_status(fold, self.job_id), archived_status)

    async def exceptions(self, limit: int) -> JobExceptions:
        """Return the newest failures, as `exceptions_view` shows them."""

        def compute(fold: Fold) -> JobExceptions:
            _require(fold, self.job_id)
            return exceptions_view(fold.master.dispatcher.jobs[self.job_id], limit)

        return await self._reads.job(compute, lambda archive: archived_exceptions(archive, limit))

    async def result(self) -> tuple[str, JobOutcome]:
        """Return the name, and what `queries.job_result` says; of a job without an archive that is known as well, but no name."""

        def compute(fold: Fold) -> tuple[str, JobOutcome]:
            forgotten = fold.master.dispatcher.forgotten.get(self.job_id)
            if forgotten is not None and not forgotten.archive_digest:
                return "", job_result(fold, self.job_id)
            return _job(fold, self.job_id).name, job_result(fold, self.job_id)

        return await self._reads.job(compute, lambda archive: (archive.job.name, archive.result))

    async def job_and_checkpoints(self) -> tuple[JobInfo, JobCheckpoints]:
        """Return the job and its checkpoints, both of one offset."""

        def compute(fold: Fold) -> tuple[JobInfo, JobCheckpoints]:
            return _job(fold, self.job_id), checkpoints_view(fold.master.dispatcher.jobs[self.job_id])

        return await self._reads.job(compute, lambda archive: (archive.job, archive.checkpoints))

    async def checkpoints(self) -> JobCheckpoints:
        """Return the checkpoints of the job."""

        def compute(fold: Fold) -> JobCheckpoints:
            _require(fold, self.job_id)
            return checkpoints_view(fold.master.dispatcher.jobs[self.job_id])

        return await self._reads.job(compute, lambda archive: archive.checkpoints)

    async def vertex(self, vertex_id: str) -> tuple[JobInfo, VertexInfo]:
        """Return a job and one of its vertices, both."""
        job = await self.job()
        return job, vertex_of(job, vertex_id)

    async def vertex_and_checkpoints(self, vertex_id: str) -> tuple[VertexInfo, JobCheckpoints]:
        """Return a vertex and the checkpoints of its job."""
        job, checkpoints = await self.job_and_checkpoints()
        return vertex_of(job, vertex_id), checkpoints

    async def subtask(self, vertex_id: str, subtask_index: int) -> tuple[JobInfo, SubtaskInfo]:
        """Return a job and one of its subtasks, both."""
        job, vertex = await self.vertex(vertex_id)
        return job, subtask_of(vertex, subtask_index)


async def job_reads_of(jobid: str, reads: ReadsOfRequest) -> JobReads:
    """Return the reads of the job that the path names."""
    return JobReads(jobid, reads)


JobReadsOfRequest = Annotated[JobReads, Depends(job_reads_of)]


def vertex_of(job: JobInfo, vertex_id: str) -> VertexInfo:
    """Return a vertex of a job; raises 404."""
    found = next((vertex for vertex in job.vertices if vertex.vertex_id == vertex_id), None)
    if found is None:
        raise not_found(f"JobVertex {vertex_id} not found in job '{job.job_id}'")
    return found


def subtask_of(vertex: VertexInfo, subtask_index: int) -> SubtaskInfo:
    """Return a subtask of a vertex; raises 404."""
    subtasks = vertex.subtasks
    if not 0 <= subtask_index < len(subtasks):
        raise not_found(f"Invalid subtask index for vertex {vertex.vertex_id}: {subtask_index}, it has {len(subtasks)} subtasks")
    return subtasks[subtask_index]


def _job(fold: Fold, job_id: str) -> JobInfo:
    _require(fold, job_id)
    return job_view(fold, job_id)


def _require(fold: Fold, job_id: str) -> None:
    if job_id not in fold.master.dispatcher.jobs:
        raise not_in_memory(fold, job_id)
