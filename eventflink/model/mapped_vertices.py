"""Mapped vertices of a graph: those with a subtask for each row of an input, which an edge ships by `EACH`.

How many subtasks they have is not known before their job runs. The rule: with no rows it is one, which has no row and runs nothing.
"""

from collections.abc import Iterable

from eventflink.model.attempts import OutputLocation
from eventflink.model.job_graph import JobEdge, JobGraph
from eventflink.model.statuses import ShipStrategy


def mapping_edges_of(graph: JobGraph) -> dict[str, JobEdge]:
    """Return, for each mapped vertex, the edge over which each row goes to a subtask of its own."""
    return {edge.target: edge for edge in graph.edges if edge.ship is ShipStrategy.EACH}


def rows_in(locations: Iterable[OutputLocation]) -> int:
    """Return how many rows were written in all."""
    return sum(location.rows for location in locations)


def describe_too_many_rows(edge: JobEdge, rows: int, highest: int) -> str:
    """Return that a mapped vertex cannot have a subtask for each row that an edge brings, but at most `highest`, and what to do."""
    return (
        f"'{edge.source}' has left {rows} rows, and '{edge.target}' may have at most {highest} subtasks, one for each: raise its "
        "'max_parallelism', or let a row stand for more"
    )
