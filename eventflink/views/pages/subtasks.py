"""The subtasks of one vertex: which of them is stuck, on which attempt, and what it said last.

Rows are made for those alone that are shown. Of a job that has left the memory they are made of its archive.
"""

from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any, Final, TypeVar

from eventflink.documents.checkpoints import StreamOfSubtask
from eventflink.documents.one_job import (
    JobArchive,
    LastFailure,
    SubtaskInfo,
    SubtaskRow,
    SubtasksPage,
    SubtaskWithAttempts,
    VertexInfo,
)
from eventflink.leadership.fold import Fold
from eventflink.master.exception_history import MESSAGE_LIMIT
from eventflink.model.failure_types import kind_of
from eventflink.model.statuses import ExecutionState
from eventflink.views.checkpoints import stream_view
from eventflink.views.jobs_and_cluster import VertexNotFound, subtask_view
from eventflink.views.plain import fields_of, one_sentence
from eventflink.views.queries import job_of
from eventflink.views.waits import Waits

T = TypeVar("T")

MAX_OUTPUTS: Final = 10
"""Of a subtask; the result of its job has all."""


class SubtaskOrder(StrEnum):
    """What subtasks are ordered by."""

    INDEX = "index"
    TROUBLE = "trouble"


_TROUBLE: Final = {
    state: rank
    for rank, state in enumerate(
        (
            ExecutionState.FAILED,
            ExecutionState.SCHEDULED,
            ExecutionState.CANCELING,
            ExecutionState.DEPLOYING,
            ExecutionState.INITIALIZING,
            ExecutionState.RECONCILING,
            ExecutionState.CREATED,
            ExecutionState.RUNNING,
            ExecutionState.CANCELED,
            ExecutionState.FINISHED,
        )
    )
}
"""In the order of trouble: what is furthest from its end first."""


def trouble_of(state: ExecutionState, attempt: int) -> tuple[int, int]:
    """Return what subtasks are ordered by where trouble comes first; of those in one state, those with more attempts."""
    return _TROUBLE[state], -attempt


def subtasks_page(fold: Fold, job_id: str, vertex_id: str, states: Collection[str], sort: str, first: int, limit: int) -> SubtasksPage:
    """Return the subtasks of a vertex from the `first`-th on of those in one of `states` (none: any), and how many these are.

    Raises:
        JobNotFound: there is no such job in memory.
        VertexNotFound: it has no such vertex.

    """
    job = job_of(fold, job_id)
    vertex = job.execution_graph.vertices.get(vertex_id)
    if vertex is None:
        raise no_such_vertex(job_id, vertex_id)
    matching = [subtask for subtask in vertex.subtasks if vertex.state_of(subtask) in states] if states else vertex.subtasks
    shown = _window(matching, sort, first, limit, lambda subtask: trouble_of(subtask.state, subtask.attempt))
    waits, stream, checkpoints = Waits(fold.master), vertex.vertex.stream, job.checkpoints
    words = checkpoints.last_words if checkpoints is not None else {}
    rows = []
    for subtask in shown:
        wait = waits.of_subtask(job, subtask)
        told = {"wait": one_sentence(wait.why), "waits_since": wait.since} if wait is not None else {}
        progress = stream_view(checkpoints, words, subtask.key, stream) if stream is not None and checkpoints is not None else None
        rows.append(_row(subtask_view(subtask, job), progress, **told))
    return SubtasksPage(job_id=job_id, vertex_id=vertex_id, total=len(vertex.subtasks), matching=len(matching), subtasks=rows)


def archived_subtasks_page(archive: JobArchive, vertex_id: str, states: Collection[str], sort: str, first: int, limit: int) -> SubtasksPage:
    """Return the same from the archive of a job; raises `VertexNotFound`."""
    job_id, subtasks = archive.job.job_id, archived_vertex(archive, vertex_id).subtasks
    progress = {row.subtask_index: row for row in archive.checkpoints.subtasks if row.vertex_id == vertex_id}
    matching = [subtask for subtask in subtasks if not states or subtask.state in states]
    shown = _window(matching, sort, first, limit, lambda subtask: trouble_of(subtask.state, subtask.attempt))
    rows = [_row(subtask, progress.get(subtask.subtask_index)) for subtask in shown]
    return SubtasksPage(job_id=job_id, vertex_id=vertex_id, total=len(subtasks), matching=len(matching), subtasks=rows)


def archived_vertex(archive: JobArchive, vertex_id: str) -> VertexInfo:
    """Return a vertex with its subtasks from the archive of a job; raises `VertexNotFound`."""
    found = next((vertex for vertex in archive.job.vertices if vertex.vertex_id == vertex_id), None)
    if found is None:
        raise no_such_vertex(archive.job.job_id, vertex_id)
    return found


def no_such_vertex(job_id: str, vertex_id: str) -> VertexNotFound:
    """Return the error for a vertex that a job does not have."""
    return VertexNotFound(f"vertex not found: '{vertex_id[:100]}' in job '{job_id}'")


def _window(matching: Sequence[T], sort: str, first: int, limit: int, trouble: Callable[[T], Any]) -> Sequence[T]:
    in_order = sorted(matching, key=trouble) if SubtaskOrder(sort) is SubtaskOrder.TROUBLE else matching
    return in_order[first : first + limit]


def _row(subtask: SubtaskInfo, progress: StreamOfSubtask | None, **told: str | None) -> SubtaskRow:
    """Return a subtask in short: the exceptions of its job have stack traces, and its result all outputs."""
    cause, failure = subtask.last_failure, None
    if cause is not None:
        failure = LastFailure(failure_type=cause.failure_type, message=cause.message[:MESSAGE_LIMIT], kind=kind_of(cause))
    outputs = dict(islice(subtask.outputs.items(), MAX_OUTPUTS))
    standing = fields_of(subtask, SubtaskWithAttempts) | told
    return SubtaskRow(**standing, last_failure=failure, outputs=outputs, outputs_total=len(subtask.outputs), progress=progress)
