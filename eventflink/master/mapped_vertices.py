"""Mapped vertices: those with a subtask for each row of an input. How many that are is decided when the input is complete.

A vertex to which an edge ships each row to a subtask of its own has one subtask before that, and with no rows, for somebody has to say
that it has finished: that subtask runs nothing. What its writer left is in the log with the number of its rows, so nothing else has to be
asked or remembered: a vertex has as many subtasks as there are rows, or gets them (`rescaling.py`), before any of them is scheduled. Where
the writer runs again, so does all that has read it, and the rows are counted again. Nothing here changes anything.
"""

from eventflink.events.log_events import LogEvent
from eventflink.master.failover import decide_failure
from eventflink.master.job_master import JobMaster
from eventflink.master.rescaling import decide_change
from eventflink.model.attempts import FailureCause
from eventflink.model.failure_types import TOO_MANY_ROWS
from eventflink.model.mapped_vertices import describe_too_many_rows
from eventflink.model.statuses import RescaleReason


def decide_parallelism(job: JobMaster, vertex_id: str, now_ms: int) -> list[LogEvent]:
    """Give a vertex that is ready a subtask for each row; nothing if it has them. With more rows than may have one its job fails."""
    graph = job.execution_graph
    rows = graph.mapped_rows(vertex_id)
    if rows is None or not graph.is_unmapped(vertex_id):
        return []
    highest = job.rescales.highest_parallelism(graph, vertex_id)
    if rows <= highest:
        return decide_change(job, vertex_id, max(1, rows), RescaleReason.INPUT_ROWS)
    ready = next(subtask for subtask in graph.vertices[vertex_id].subtasks if subtask.key in graph.ready)
    message = describe_too_many_rows(graph.mapping_edges[vertex_id], rows, highest)
    return decide_failure(job, ready, FailureCause(TOO_MANY_ROWS, message), now_ms)
