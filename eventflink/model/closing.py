"""Closing vertices: those that run when all others of their job have come to their end, and what they are told of that end.

Which of them run follows from how the graph came out, which is how the job ends afterwards. The rule: nothing that becomes of a closing
vertex changes that.
"""

from dataclasses import dataclass
from typing import Final

from eventflink.model.job_graph import JobGraph, JobVertex
from eventflink.model.statuses import JobStatus, VertexRuns

CLOSING_TIME_LIMIT_MS: Final = 600_000
"""For how long the closing vertices of a job may run together where the job says nothing."""

_RUNS_AFTER: Final = {
    VertexRuns.ON_SUCCESS: frozenset({JobStatus.FINISHED}),
    VertexRuns.ON_FAILURE: frozenset({JobStatus.FAILED}),
    VertexRuns.ALWAYS: frozenset({JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED}),
}


@dataclass(frozen=True, slots=True)
class GraphOutcome:
    """How the vertices of a job came out that run in their turn, as its closing vertices are told it.

    Examples:
        >>> context.outcome.status
        'FAILED'
        >>> context.outcome.vertex_id, context.outcome.failure_type
        ('orders', 'ValueError')

    """

    status: JobStatus
    """FINISHED, FAILED or CANCELED: how the job ends."""
    vertex_id: str = ""
    """Of FAILED, the vertex whose task failed the job; empty: it failed as a whole, or it is not remembered."""
    subtask_index: int = 0
    """Which subtask of that vertex, from 0."""
    attempt: int = 0
    """Which attempt of that subtask, from 1; 0: none."""
    failure_type: str = ""
    """Of FAILED, the type of the failure, such as the class of the exception that the task raised."""
    message: str = ""
    """Of FAILED, what the failure said, cut in the middle where it is longer than 1,024 characters."""


SQL_NAMES: Final = ("job_status", "failed_vertex", "failure_type", "failure_message")
"""By which names a statement of a closing vertex has the outcome; none of its parameters has one of them."""


def sql_arguments(outcome: GraphOutcome) -> dict[str, str]:
    """Return the outcome as the arguments of a statement."""
    return dict(zip(SQL_NAMES, (str(outcome.status), outcome.vertex_id, outcome.failure_type, outcome.message), strict=True))


def runs_after(runs: VertexRuns, status: JobStatus) -> bool:
    """Tell whether a closing vertex runs at the end of a job whose graph came out so."""
    return status in _RUNS_AFTER[runs]


def closing_limit_ms_of(graph: JobGraph) -> int:
    """Return for how long the closing vertices of a graph may run together."""
    return graph.closing_time_limit_ms if graph.closing_time_limit_ms is not None else CLOSING_TIME_LIMIT_MS


def runs_in_words(runs: VertexRuns) -> str:
    """Return when a vertex runs, as its document says it."""
    return str(runs).lower().replace("_", "-")


def runs_note(vertex: JobVertex, outcome: JobStatus | None) -> str | None:
    """Return in words whether a closing vertex runs, and why; None: it is none. `outcome`: how the others came out, if they have."""
    if not vertex.is_closing:
        return None
    runs = f"it runs {runs_in_words(vertex.runs)}"
    if outcome is None:
        return f"{runs}, when all others of its job have come to their end"
    came_out = f"the others came out as {outcome}"
    return f"{runs}, and {came_out}" if runs_after(vertex.runs, outcome) else f"it does not run, for {runs}, and {came_out}"
