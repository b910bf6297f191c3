"""How large a request may be: what a leader can check and decide within its lease, and Kafka takes.

Vertices and edges alone make a request larger than any other record: to check them takes as long as there are many, and of these a graph
has a bound. All else that it says has the bound of other records, whatever it is. So only what is written as our schemas say may be larger:
of other spellings nobody knows what they say before all of it is read.
"""

from dataclasses import fields
from typing import Any, Final

from eventflink.events.topics import MAX_INBOUND_BYTES, MAX_REQUEST_BYTES
from eventflink.model.job_graph import JobGraph
from eventflink.model.schedules import ScheduleDefinition
from eventflink.model.statuses import TaskType

_BYTES_BESIDE_TEXTS: Final = 40
"""The least number of bytes that Avro takes for a vertex or an edge, besides its texts."""


def find_size_fault(request: Any, size: int) -> str:
    """Return why masters do not take a request of so many bytes; empty: they do."""
    if size <= MAX_INBOUND_BYTES:
        return ""
    if size > MAX_REQUEST_BYTES:
        return f"the request has {size} bytes, and masters take at most {MAX_REQUEST_BYTES}"
    graphs = [each for name in fields(request) if (each := _graph_of(getattr(request, name.name))) is not None]
    if (rest := size - sum(map(_skeleton_bytes, graphs))) > MAX_INBOUND_BYTES:
        return (
            f"the request has {rest} bytes beside the ids, edges and files of its vertices, and masters take at most {MAX_INBOUND_BYTES}: "
            "let SQL stand in files, by 'sql_file'"
        )
    return ""


def _graph_of(value: object) -> JobGraph | None:
    return value.job_graph if isinstance(value, ScheduleDefinition) else value if isinstance(value, JobGraph) else None


def _skeleton_bytes(graph: JobGraph) -> int:
    """Return how many bytes the vertices and edges of a graph have at least, without what they say besides which they are."""
    of_vertices = sum(
        len(each.vertex_id) + len(each.code_digest) + (len(each.task) if each.task_type is TaskType.SQL_FILE else 0)
        for each in graph.vertices
    )
    of_edges = sum(len(each.source) + len(each.target) + len(each.output) + len(each.input_name) for each in graph.edges)
    return of_vertices + of_edges + _BYTES_BESIDE_TEXTS * (len(graph.vertices) + len(graph.edges))
