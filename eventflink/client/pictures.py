"""What a notebook shows of a cluster and of a job: one HTML fragment, with no script, no style sheet and nothing from elsewhere.

Names of jobs and vertices are somebody's text and are escaped. Text and lines take the colour of the page around them, so the fragment is
readable on light and on dark; a state has a colour, and always its name as well.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from eventflink.documents.cluster import ClusterOverview
from eventflink.documents.jobs import JobList
from eventflink.documents.one_job import ExecutionGraphInfo, VertexInfo
from eventflink.model.statuses import ExecutionState, JobStatus

MAX_DRAWN: Final = 60
"""A graph with more vertices is not drawn: the table says what the drawing would."""

MAX_ROWS: Final = 200
_MAX_TEXT: Final = 200
_LABEL: Final = 20
_WIDTH, _HEIGHT, _ACROSS, _DOWN = 160, 46, 56, 18
_COLOURS: Final = {
    "FINISHED": "#12936a",
    "RUNNING": "#3f7fe8",
    "FAILED": "#d63a53",
    "FAILING": "#d63a53",
    "CANCELED": "#7d8796",
    "CANCELING": "#7d8796",
    "CANCELLING": "#7d8796",
    "SUSPENDED": "#7d8796",
}
_WAITS: Final = "#b47a00"


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as of one offset of the log."""

    details: ExecutionGraphInfo

    def __repr__(self) -> str:
        job = self.details
        done, tasks = _progress(job.vertices)
        return f"<job {job.job_id} {job.name[:_MAX_TEXT]!r}: {job.status}, {done} of {tasks} tasks finished, {job.restarts} restarts>"

    def _repr_html_(self) -> str:
        job = self.details
        done, tasks = _progress(job.vertices)
        said = f"{done} of {tasks} tasks finished · {job.restarts} restarts · {job.duration_ms / 1000:.1f} s · log offset {job.log_offset}"
        cause = f"<div>{_text(f'{job.cause.failure_type}: {job.cause.message}')}</div>" if job.cause else ""
        states: Counter[ExecutionState] = Counter()
        for vertex in job.vertices:
            states.update(vertex.states)
        rows = [(v.name, v.parallelism, _describe(v.states)) for v in job.vertices[:MAX_ROWS]]
        drawn = _graph(job) if len(job.vertices) <= MAX_DRAWN else ""
        table = _table(("vertex", "parallelism", "subtasks"), rows, len(job.vertices))
        return _fragment(
            f"{_text(job.name)} {_chip(job.status)}", f"<div>{_text(job.job_id)} · {said}</div>{cause}{_bar(states)}{drawn}{table}"
        )


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster and its newest jobs, each as of an offset of the log."""

    cluster_id: str
    overview: ClusterOverview
    newest: JobList

    def __repr__(self) -> str:
        o = self.overview
        return f"<cluster {self.cluster_id}: {o.task_managers} TaskManagers, {o.slots_free} of {o.slots} slots free, {_describe(o.jobs)}>"

    def _repr_html_(self) -> str:
        o = self.overview
        said = f"{o.task_managers} TaskManagers · {o.slots_free} of {o.slots} slots free · {o.slot_requests} tasks wait for a slot"
        led = f"led by {_text(o.leading_master_id)}, epoch {o.epoch} · log offset {o.log_offset}"
        rows = [(job.job_id, job.name, str(job.status), _describe(job.tasks_by_state)) for job in reversed(self.newest.jobs)]
        table = _table(("job", "name", "status", "tasks"), rows, self.newest.total)
        return _fragment(_text(self.cluster_id), f"<div>{said}</div><div>{led}</div>{table}")


def unanswered(what: str, error: Exception) -> str:
    """Return what is shown of something that gave no answer."""
    return _fragment(_text(what), f"<div>{_text(str(error))}</div>")


def _progress(vertices: Iterable[VertexInfo]) -> tuple[int, int]:
    """Return how many tasks have finished, and how many there are."""
    states = [subtask.state for vertex in vertices for subtask in vertex.subtasks]
    return states.count(ExecutionState.FINISHED), len(states)


def _describe(states: Mapping[ExecutionState, int] | Mapping[JobStatus, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items()) if count) or "none"


def _text(text: str, limit: int = _MAX_TEXT) -> str:
    return escape(text if len(text) <= limit else f"{text[: limit - 1]}…")


def _fragment(title: str, body: str) -> str:
    return f'<div style="font:13px/1.5 system-ui,sans-serif;color:inherit"><div style="font-weight:600">{title}</div>{body}</div>'


def _chip(state: str) -> str:
    style = f"border:2px solid {_COLOURS.get(state, _WAITS)};border-radius:4px;padding:0 6px;font-weight:400"
    return f'<span style="{style}">{escape(state)}</span>'


def _bar(states: Mapping[ExecutionState, int]) -> str:
    total = sum(states.values()) or 1
    parts = [
        f'<span style="display:inline-block;height:8px;width:{100 * count / total:.2f}%;background:{_COLOURS.get(state, _WAITS)}"></span>'
        for state, count in sorted(states.items())
        if count
    ]
    label = escape(_describe(states))
    return f'<div role="img" aria-label="{label}" title="{label}" style="margin:4px 0;line-height:8px;font-size:0">{"".join(parts)}</div>'


def _table(head: tuple[str, ...], rows: Sequence[tuple[object, ...]], total: int) -> str:
    style = 'style="text-align:left;padding:1px 12px 1px 0"'
    shown = "".join(f"<tr>{''.join(f'<td {style}>{_text(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    more = f"<div>the first {len(rows)} of {total}</div>" if total > len(rows) else ""
    return f"<table><tr>{''.join(f'<th {style}>{name}</th>' for name in head)}</tr>{shown}</table>{more}"


def _layers(job: ExecutionGraphInfo) -> dict[str, int]:
    """Return in which column each vertex stands: after all that it reads."""
    layers = dict.fromkeys((vertex.vertex_id for vertex in job.vertices), 0)
    for _ in layers:  # A graph has no circle, so no path is longer than this.
        moved = {
            edge.target: max(layers[edge.target], layers[edge.source] + 1)
            for edge in job.edges
            if layers[edge.target] <= layers[edge.source]
        }
        if not moved:
            break
        layers.update(moved)
    return layers


def _graph(job: ExecutionGraphInfo) -> str:
    layers = _layers(job)
    filled: Counter[int] = Counter()
    places: dict[str, tuple[int, int]] = {}
    for vertex in job.vertices:
        column = layers[vertex.vertex_id]
        places[vertex.vertex_id] = (column * (_WIDTH + _ACROSS) + 2, filled[column] * (_HEIGHT + _DOWN) + 2)
        filled[column] += 1
    drawn = [_edge(places[edge.source], places[edge.target], str(edge.ship)) for edge in job.edges]
    drawn += [_node(vertex, *places[vertex.vertex_id]) for vertex in job.vertices]
    width = (max(filled, default=0) + 1) * (_WIDTH + _ACROSS) - _ACROSS + 4
    height = max(filled.values(), default=1) * (_HEIGHT + _DOWN) - _DOWN + 4
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="graph of the job" {size}>{"".join(drawn)}</svg>'
    return f'<div style="overflow-x:auto;margin:6px 0">{svg}</div>'


def _edge(source: tuple[int, int], target: tuple[int, int], ship: str) -> str:
    (x, y), (u, v) = (source[0] + _WIDTH, source[1] + _HEIGHT // 2), (target[0], target[1] + _HEIGHT // 2)
    bend = (u - x) // 2
    path = f"M{x} {y}C{x + bend} {y} {u - bend} {v} {u} {v}"
    return f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity=".55"><title>{escape(ship)}</title></path>'


def _node(vertex: VertexInfo, x: int, y: int) -> str:
    name = vertex.name
    total = sum(vertex.states.values()) or 1
    parts, left = [], x + 8.0
    for state, count in sorted(vertex.states.items()):
        width = (_WIDTH - 16) * count / total
        parts.append(f'<rect x="{left:.1f}" y="{y + 32}" width="{width:.1f}" height="6" fill="{_COLOURS.get(state, _WAITS)}"/>')
        left += width
    frame = f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="4" fill="none" stroke="currentColor" stroke-opacity=".55"/>'
    label = f'<text x="{x + 8}" y="{y + 20}" font-size="12" fill="currentColor">{_text(name, _LABEL)} ({vertex.parallelism})</text>'
    return f"<g><title>{_text(f'{name}: {_describe(vertex.states)}')}</title>{frame}{label}{''.join(parts)}</g>"
