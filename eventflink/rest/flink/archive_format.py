"""What Flink's REST API answers about a job that has ended, path by path, as Flink's JobManager archives it.

Each answer is made by the route that would give it, over the archive of the job, so that there is one shape of each. Left out are the
paths that tell of the JobManager's process: an archive knows nothing of it.
"""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

from eventflink.documents.jobs import JobRow
from eventflink.documents.one_job import JobArchive, SubtaskInfo
from eventflink.documents.plain import part_of
from eventflink.leadership.fold import Fold
from eventflink.rest.errors import RestError
from eventflink.rest.flink import accumulators, checkpoints, exceptions, jobs, subtasks, vertices
from eventflink.rest.flink.job_lists import MultipleJobsDetails, job_details
from eventflink.rest.flink.job_reads import JobReads
from eventflink.rest.flink.shapes import Shape
from eventflink.views.plain import MAX_EXCEPTIONS

T = TypeVar("T")

Answer = Coroutine[Any, Any, Shape]

_OF_JOB: Final[dict[str, Callable[[JobReads], Answer]]] = {
    "": jobs.job_details,
    "/plan": jobs.job_plan,
    "/config": jobs.job_config,
    "/accumulators": accumulators.of_job,
    "/checkpoints": checkpoints.checkpoints,
    "/checkpoints/config": checkpoints.checkpoint_config,
}
_OF_VERTEX: Final[dict[str, Callable[[JobReads, str], Answer]]] = {
    "": vertices.vertex_details,
    "/subtasktimes": vertices.subtask_times,
    "/taskmanagers": vertices.vertex_task_managers,
    "/accumulators": accumulators.of_vertex,
    "/subtasks/accumulators": accumulators.of_subtasks,
}


class ArchiveReads:
    """The reads of a job from its archive, which is there already."""

    def __init__(self, archive: JobArchive) -> None:
        """Take the archive."""
        self._archive = archive

    async def state(self, compute: Callable[[Fold], Any]) -> Any:
        """Refuse: there is no cluster."""
        raise TypeError(f"{compute} is about a cluster, and an archive is of a job")

    async def job(self, compute: Callable[[Fold], T], from_archive: Callable[[JobArchive], T]) -> T:  # noqa: ARG002 - as all reads
        """Return what the archive says."""
        return from_archive(self._archive)


def flink_archive(archive: JobArchive) -> Iterator[tuple[str, str]]:
    """Yield the paths that Flink archives, and their JSON, from our archive of a job."""
    job = archive.job
    yield "/jobs/overview", MultipleJobsDetails(jobs=[job_details(part_of(JobRow, job))]).model_dump_json(by_alias=True)
    for path, answer in _answers(archive):
        try:
            shape = _result_of(answer)
        except RestError:
            continue  # The job has no such thing: no checkpoints, for one.
        yield f"/jobs/{job.job_id}{path}", shape.model_dump_json(by_alias=True)


def _result_of(answer: Answer) -> Shape:
    """Return what a route makes of an archive that is there: it waits for nothing, so no event loop has to turn for each of thousands."""
    try:
        answer.send(None)
    except StopIteration as end:
        shape: Shape = end.value
        return shape
    answer.close()
    raise AssertionError("the route waits for something else than the archive")


def _answers(archive: JobArchive) -> Iterator[tuple[str, Answer]]:
    job, reads = archive.job, JobReads(archive.job_id, ArchiveReads(archive))
    for path, of_job in _OF_JOB.items():
        yield path, of_job(reads)
    yield "/exceptions", exceptions.exceptions(reads, MAX_EXCEPTIONS)
    for vertex in job.vertices:
        vertex_id = vertex.vertex_id
        for path, of_vertex in _OF_VERTEX.items():
            yield f"/vertices/{vertex_id}{path}", of_vertex(reads, vertex_id)
        for subtask in vertex.subtasks:
            yield from _answers_of_subtask(reads, vertex_id, subtask)
    for row in archive.checkpoints.history:
        number = row.checkpoint_id
        yield f"/checkpoints/details/{number}", checkpoints.checkpoint_details(reads, number)
        for vertex in job.vertices:
            path = f"/checkpoints/details/{number}/subtasks/{vertex.vertex_id}"
            yield path, checkpoints.checkpoint_subtasks(reads, number, vertex.vertex_id)


def _answers_of_subtask(reads: JobReads, vertex_id: str, subtask: SubtaskInfo) -> Iterator[tuple[str, Answer]]:
    index = subtask.subtask_index
    path = f"/vertices/{vertex_id}/subtasks/{index}"
    yield path, subtasks.current_attempt(reads, vertex_id, index)
    current = subtasks.current_attempt_of(subtask)
    for number in sorted({subtasks.number_of(row) for row in [*subtask.attempts, current]}):
        yield f"{path}/attempts/{number}", subtasks.one_attempt(reads, vertex_id, index, number)
        yield f"{path}/attempts/{number}/accumulators", accumulators.of_attempt(reads, vertex_id, index, number)
