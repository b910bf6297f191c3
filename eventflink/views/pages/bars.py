"""The attempts of a job as bars over time: when each was scheduled, deployed, running and over.

The bars of a vertex stand together, those of its worst subtask first; vertices are in the order of the document. Only the bars that are
shown are made.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from eventflink.documents.job_parts import Bar, BarsOfVertex, BarsPage
from eventflink.documents.one_job import JobArchive, VertexInfo
from eventflink.leadership.fold import Fold
from eventflink.master.execution_graph import ExecutionVertex
from eventflink.model.statuses import ExecutionState
from eventflink.views.jobs_and_cluster import attempt_fields
from eventflink.views.pages.subtasks import trouble_of
from eventflink.views.plain import fields_of, iso_time
from eventflink.views.queries import job_of


@dataclass(frozen=True, slots=True)
class _Row:
    """The bars of one vertex, made when they are asked for."""

    vertex_id: str
    count: int
    make: Callable[[slice], list[Bar]]


def bars_page(fold: Fold, job_id: str, first: int, limit: int) -> BarsPage:
    """Return the bars from the `first`-th on, and how many each vertex has; raises `JobNotFound`."""
    job = job_of(fold, job_id)
    rows = [
        _Row(vertex_id, sum(len(subtask.executions) for subtask in vertex.subtasks) + _retired(vertex), _maker(vertex))
        for vertex_id, vertex in job.execution_graph.vertices.items()
    ]
    return _page(job_id, iso_time(job.submitted_at_ms), iso_time(job.ended_at_ms), rows, first, limit)


def archived_bars_page(archive: JobArchive, first: int, limit: int) -> BarsPage:
    """Return the same from the archive of a job; attempts of subtasks that a vertex had before it was rescaled are not in it."""
    job = archive.job
    rows = [
        _Row(vertex.vertex_id, sum(len(subtask.attempts) for subtask in vertex.subtasks), _archived_maker(vertex))
        for vertex in job.vertices
    ]
    return _page(job.job_id, job.submitted_at, job.ended_at, rows, first, limit)


def _page(job_id: str, begins: str | None, ends: str | None, rows: Iterable[_Row], first: int, limit: int) -> BarsPage:
    """Put the window together of the vertices that reach into it."""
    vertices, bars, passed = [], list[Bar](), 0
    for row in rows:
        vertices.append(BarsOfVertex(vertex_id=row.vertex_id, first=passed, bars=row.count))
        skipped, room = max(0, first - passed), limit - len(bars)
        if room > 0 and skipped < row.count:
            bars += row.make(slice(skipped, skipped + room))
        passed += row.count
    return BarsPage(job_id=job_id, begins=begins, until=ends, total=passed, vertices=vertices, bars=bars)


def _retired(vertex: ExecutionVertex) -> int:
    return sum(map(len, vertex.retired_executions.values()))


def _maker(vertex: ExecutionVertex) -> Callable[[slice], list[Bar]]:
    def make(window: slice) -> list[Bar]:
        worst_first = sorted(vertex.subtasks, key=lambda subtask: trouble_of(subtask.state, subtask.attempt))
        attempts = [(s.subtask_index, each, s.state) for s in worst_first for each in s.executions]
        for index, executions in vertex.retired_executions.items():
            attempts += [(index, each, ExecutionState.CANCELED) for each in executions]
        return [_bar(vertex.vertex.vertex_id, index, attempt_fields(each, state)) for index, each, state in attempts[window]]

    return make


def _archived_maker(vertex: VertexInfo) -> Callable[[slice], list[Bar]]:
    def make(window: slice) -> list[Bar]:
        worst_first = sorted(vertex.subtasks, key=lambda subtask: trouble_of(subtask.state, subtask.attempt))
        attempts = [(s.subtask_index, each) for s in worst_first for each in s.attempts]
        return [_bar(vertex.vertex_id, index, fields_of(each)) for index, each in attempts[window]]

    return make


def _bar(vertex_id: str, subtask_index: int, attempt: dict[str, Any]) -> Bar:
    return Bar(vertex_id=vertex_id, subtask_index=subtask_index, **attempt)
