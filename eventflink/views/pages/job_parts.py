"""The smaller pages of one job: its failures, its checkpoints, its result.

Of a job that has left the memory they are made of its archive.
"""

from collections.abc import Iterable, Iterator

from eventflink.documents.checkpoints import CheckpointsPage
from eventflink.documents.failures import ExceptionsPage, ExplainedFailure, FailureOfJob, JobExceptions
from eventflink.documents.job_parts import OutputOfSubtask, ResultPage
from eventflink.documents.one_job import JobArchive, JobOutcome
from eventflink.documents.plain import part_of
from eventflink.leadership.fold import Fold
from eventflink.model.attempts import OutputLocation
from eventflink.model.failure_types import kind_of
from eventflink.model.job_graph import JobEdge, RowCondition
from eventflink.views.archive import archived_exceptions
from eventflink.views.checkpoints import checkpoints_page_of
from eventflink.views.exceptions import exceptions_view
from eventflink.views.failures import failure_sentence
from eventflink.views.plain import fields_of
from eventflink.views.queries import job_of, job_result


def exceptions_page(fold: Fold, job_id: str, limit: int) -> ExceptionsPage:
    """Return the newest failures of a job, each with what it led to; raises `JobNotFound`."""
    return _exceptions(exceptions_view(job_of(fold, job_id), limit))


def archived_exceptions_page(archive: JobArchive, limit: int) -> ExceptionsPage:
    """Return the same from the archive of a job."""
    return _exceptions(archived_exceptions(archive, limit))


def _exceptions(view: JobExceptions) -> ExceptionsPage:
    return ExceptionsPage(**fields_of(view) | {"exceptions": [with_words(each) for each in view.exceptions]})


def with_words(exception: FailureOfJob) -> ExplainedFailure:
    """Return a failure, as `exception_view` shows it, with whose it is and in one sentence."""
    return ExplainedFailure(**fields_of(exception), kind=kind_of(exception.cause), sentence=failure_sentence(exception))


def checkpoints_page(fold: Fold, job_id: str) -> CheckpointsPage:
    """Return the checkpoints of a job, without its subtasks: these have their progress with them. Raises `JobNotFound`."""
    return checkpoints_page_of(job_of(fold, job_id))


def archived_checkpoints_page(archive: JobArchive) -> CheckpointsPage:
    """Return the same from the archive of a job."""
    return part_of(CheckpointsPage, archive.checkpoints)


def result_page(fold: Fold, job_id: str, vertex_id: str, output: str, first: int, limit: int) -> ResultPage:
    """Return how a job ended, and where its subtasks left what they published; raises `JobNotFound`.

    The outputs are those of one vertex and of one name, where these are not empty, from the `first`-th on.
    """
    graph = job_of(fold, job_id).execution_graph
    outputs = (
        (vertex_id, subtask.subtask_index, subtask.attempt, each)
        for vertex_id, vertex in graph.vertices.items()
        for subtask in vertex.subtasks
        for each in subtask.outputs
    )
    ran = [name for name, each in graph.vertices.items() if not each.vertex.is_closing and each.skip is None]
    sinks = _sinks(ran, graph.graph.edges, (each.condition for each in graph.graph.vertices))
    return _result(job_result(fold, job_id), sinks, outputs, (vertex_id, output, first, limit))


def archived_result_page(archive: JobArchive, vertex_id: str, output: str, first: int, limit: int) -> ResultPage:
    """Return the same from the archive of a job."""
    job = archive.job
    outputs = (
        (vertex.vertex_id, subtask.subtask_index, subtask.attempt, each)
        for vertex in job.vertices
        for subtask in vertex.subtasks
        for each in subtask.outputs.values()
    )
    ran = [vertex.vertex_id for vertex in job.vertices if vertex.runs is None and vertex.skipped is None]
    sinks = _sinks(ran, job.edges, (vertex.condition for vertex in job.vertices))
    return _result(archive.result, sinks, outputs, (vertex_id, output, first, limit))


def _sinks(vertices: Iterable[str], edges: Iterable[JobEdge], conditions: Iterable[RowCondition | None]) -> list[str]:
    sources = {edge.source for edge in edges} | {each.source for each in conditions if each is not None}
    return [vertex_id for vertex_id in vertices if vertex_id not in sources]


def _result(
    result: JobOutcome, sinks: list[str], outputs: Iterator[tuple[str, int, int, OutputLocation]], wanted: tuple[str, str, int, int]
) -> ResultPage:
    vertex_id, output, first, limit = wanted
    matching = [each for each in outputs if (not vertex_id or each[0] == vertex_id) and (not output or each[3].output == output)]
    shown = [
        OutputOfSubtask(vertex_id=name, subtask_index=index, attempt=attempt, **fields_of(left))
        for name, index, attempt, left in matching[first : first + limit]
    ]
    return ResultPage(**fields_of(result), sinks=sinks, outputs=shown, outputs_matching=len(matching))
