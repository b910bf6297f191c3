"""Conditions: whether a vertex runs, by the rows of an output of another one; and what is known of one that was skipped.

How conditions are written is in `condition_document.py`. The rule: what decides is in the log, so whoever reads it decides the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from eventflink.model.job_graph import DEFAULT_OUTPUT, JobGraph, RowCondition
from eventflink.model.statuses import VertexSkipReason

_WORDS: Final[Mapping[VertexSkipReason, str]] = {
    VertexSkipReason.NO_ROWS: "'{source}' has left no rows, and it runs when there are some",
    VertexSkipReason.ROWS: "'{source}' has left rows ({rows}), and it runs when there are none",
    VertexSkipReason.CONDITION_SKIPPED: "'{source}', which its condition names, was skipped",
    VertexSkipReason.INPUT_SKIPPED: "'{source}', which it reads, was skipped",
}


@dataclass(frozen=True, slots=True)
class VertexSkip:
    """Why a vertex was skipped."""

    reason: VertexSkipReason
    """Its kind."""
    source: str
    """The vertex by which that was decided."""
    output: str = DEFAULT_OUTPUT
    """Of NO_ROWS and ROWS, its output that the condition names."""
    rows: int = 0
    """Of ROWS, how many there are."""

    def in_words(self) -> str:
        """Return why, as a clause."""
        return _WORDS[self.reason].format(source=output_text(self.source, self.output), rows=self.rows)


def output_text(vertex_id: str, output: str) -> str:
    """Return the name of an output as a condition has it."""
    return vertex_id if output == DEFAULT_OUTPUT else f"{vertex_id}.{output}"


def condition_key(condition: RowCondition) -> str:
    """Return the key of a condition in its document."""
    return "rows_of" if condition.has_rows else "no_rows_of"


def condition_in_words(condition: RowCondition) -> str:
    """Return when a vertex with a condition runs, as a clause without a subject."""
    return f"when '{output_text(condition.source, condition.output)}' has {'rows' if condition.has_rows else 'no rows'}"


def find_skip(
    condition: RowCondition | None, read: Iterable[str], is_skipped: Callable[[str], bool], rows_of: Callable[[str, str], int]
) -> VertexSkip | None:
    """Return why a vertex is skipped all of whose inputs are complete; None: it runs.

    Args:
        condition: the vertex's; None: it has none.
        read: the vertices that it reads, and with which it is skipped.
        is_skipped: tells whether a vertex was skipped.
        rows_of: returns how many rows an output of a vertex has.

    """
    if (source := next(filter(is_skipped, read), None)) is not None:
        return VertexSkip(VertexSkipReason.INPUT_SKIPPED, source)
    if condition is None:
        return None
    if is_skipped(condition.source):
        return VertexSkip(VertexSkipReason.CONDITION_SKIPPED, condition.source)
    return _skip_by(condition, rows_of(condition.source, condition.output))


def _skip_by(condition: RowCondition, rows: int) -> VertexSkip | None:
    if condition.has_rows is (rows > 0):
        return None
    return VertexSkip(VertexSkipReason.NO_ROWS if condition.has_rows else VertexSkipReason.ROWS, condition.source, condition.output, rows)


def conditional_vertices_of(graph: JobGraph) -> dict[str, list[str]]:
    """Return, for each vertex that a condition names, the vertices with such conditions."""
    found: dict[str, list[str]] = {}
    for vertex_id, condition in conditions_of(graph):
        found.setdefault(condition.source, []).append(vertex_id)
    return found


def conditions_of(graph: JobGraph) -> Iterator[tuple[str, RowCondition]]:
    """Yield the vertices of a graph that have a condition, with it."""
    for vertex in graph.vertices:
        if vertex.condition is not None:
            yield vertex.vertex_id, vertex.condition
