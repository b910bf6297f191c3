"""The smaller pages of one job: its failures, its checkpoints, its result.

Of a job that has left the memory they are made of its archive.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

from eventflink.documents.checkpoints import CheckpointsPage
from eventflink.documents.failures import ExceptionsPage, FailureOfJob, JobExceptions, RootFailure
from eventflink.documents.plain import part_of
from eventflink.leadership.fold import Fold
from eventflink.model.failure_types import kind_of
from eventflink.views.archive import archived_checkpoints, archived_exceptions, archived_job, archived_result
from eventflink.views.checkpoints import checkpoints_page_of
from eventflink.views.exceptions import exceptions_view
from eventflink.views.failures import failure_sentence
from eventflink.views.jobs_and_cluster import JobNotFound
from eventflink.views.plain import View, fields_of
from eventflink.views.queries import job_of, job_result


def exceptions_page(fold: Fold, job_id: str, limit: int) -> ExceptionsPage:
    """Return the newest failures of a job, each with what it led to; raises `JobNotFound`."""
    return _exceptions(exceptions_view(job_of(fold, job_id), limit))


def archived_exceptions_page(archive: View, limit: int) -> ExceptionsPage:
    """Return the same from the archive of a job."""
    return _exceptions(archived_exceptions(archive, limit))


def _exceptions(view: JobExceptions) -> ExceptionsPage:
    return ExceptionsPage(**fields_of(view) | {"exceptions": [with_words(each) for each in view.exceptions]})


def with_words(exception: FailureOfJob) -> RootFailure:
    """Return a failure, as `exception_view` shows it, with whose it is and in one sentence."""
    return RootFailure(**fields_of(exception), kind=kind_of(exception.cause), sentence=failure_sentence(exception))


def checkpoints_page(fold: Fold, job_id: str) -> CheckpointsPage:
    """Return the checkpoints of a job, without its subtasks: these have their progress with them. Raises `JobNotFound`."""
    return checkpoints_page_of(job_of(fold, job_id))


def archived_checkpoints_page(archive: View) -> CheckpointsPage:
    """Return the same from the archive of a job."""
    return part_of(CheckpointsPage, archived_checkpoints(archive))


def archived_document(archive: View) -> View:
    """Return the document of a job from its archive; raises `JobNotFound` where that is of a version without."""
    document: View | None = archive.get("document")
    if document is None:
        raise JobNotFound(f"the archive of job '{archive['job_id']}' was written without its document")
    return document


def result_page(fold: Fold, job_id: str, vertex_id: str, output: str, first: int, limit: int) -> View:
    """Return how a job ended, and where its subtasks left what they published; raises `JobNotFound`.

    The outputs are those of one vertex and of one name, where these are not empty, from the `first`-th on.
    """
    job = job_of(fold, job_id)
    outputs = (
        (vertex_id, subtask.subtask_index, subtask.attempt, dataclasses.asdict(each))
        for vertex_id, vertex in job.execution_graph.vertices.items()
        for subtask in vertex.subtasks
        for each in subtask.outputs
    )
    sources = {edge.source for edge in job.execution_graph.graph.edges}
    sinks = [vertex_id for vertex_id in job.execution_graph.vertices if vertex_id not in sources]
    return _result(job_result(fold, job_id), sinks, outputs, (vertex_id, output, first, limit))


def archived_result_page(archive: View, vertex_id: str, output: str, first: int, limit: int) -> View:
    """Return the same from the archive of a job."""
    job = archived_job(archive)
    outputs = (
        (vertex["vertex_id"], subtask["subtask_index"], subtask["attempt"], each)
        for vertex in job["vertices"]
        for subtask in vertex["subtasks"]
        for each in subtask["outputs"].values()
    )
    sources = {edge["source"] for edge in job["edges"]}
    sinks = [vertex["vertex_id"] for vertex in job["vertices"] if vertex["vertex_id"] not in sources]
    return _result(archived_result(archive), sinks, outputs, (vertex_id, output, first, limit))


_FIELDS = ("vertex_id", "subtask_index", "attempt")


def _result(result: View, sinks: list[str], outputs: Iterator[tuple[Any, ...]], wanted: tuple[str, str, int, int]) -> View:
    vertex_id, output, first, limit = wanted
    matching = [each for each in outputs if (not vertex_id or each[0] == vertex_id) and (not output or each[3]["output"] == output)]
    shown = [dict(zip(_FIELDS, subtask, strict=True)) | left for *subtask, left in matching[first : first + limit]]
    return {**result, "sinks": sinks, "outputs": shown, "outputs_matching": len(matching)}
