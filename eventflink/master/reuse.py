"""Which vertices of an ended job are reused by one that runs it again: they begin finished, and their outputs stay where they are.

A vertex is reused that finished, whose outputs are still there, that nothing has changed of, and all of whose inputs are reused as well, as
is what its condition names. One that was skipped counts as reused for its readers, where the same holds: it is skipped again.
Nothing here looks at files: what the log says is there counts as there, and whose reader finds it gone runs again (`failover.py`).
"""

import re
from collections.abc import Collection, Mapping
from graphlib import TopologicalSorter
from itertools import islice
from typing import Final

from eventflink.events.inputs import RerunJob
from eventflink.events.log_events import RequestRejected
from eventflink.master.execution_graph import ExecutionVertex, edges_by_source
from eventflink.master.job_master import JobMaster
from eventflink.master.requests import rejected
from eventflink.model.conditions import conditions_of
from eventflink.model.job_graph import JobGraph, JobVertex
from eventflink.model.reuse import VertexReuse
from eventflink.model.statuses import ExecutionState, JobStatus, ReuseReason, TaskType

MAX_NAMED_VERTICES: Final = 16
"""In a refusal."""


def refuse_reuse(before: JobMaster, command: RerunJob) -> RequestRejected | None:
    """Return why nothing of an ended job can be reused as a command says; None: it can."""
    vertices = before.execution_graph.vertices
    for vertex_id in command.from_vertices:
        if vertex_id not in vertices:
            there = f"it has {', '.join(islice(vertices, MAX_NAMED_VERTICES))}{', …' if len(vertices) > MAX_NAMED_VERTICES else ''}"
            return rejected(command, "UnknownVertex", f"vertex not found: '{vertex_id}' in job '{before.job_id}'; {there}")
    if before.status is JobStatus.FINISHED and not command.from_vertices:
        return rejected(command, "NothingFailed", f"job '{before.job_id}' is FINISHED; name the vertices from which it is to run again")
    return None


def decide_reuse(before: JobMaster, graph: JobGraph, from_vertices: Collection[str], *, is_kept: bool) -> tuple[VertexReuse, ...]:
    """Return for each vertex of a graph, in its order, whether it is reused from an ended job of the same graph, and why or why not.

    `graph` may have other values of parameters. `from_vertices` run, whatever they are; `is_kept` tells whether the outputs are kept that
    edges of the ended job read.
    """
    inputs: dict[str, list[str]] = {vertex.vertex_id: [] for vertex in graph.vertices}
    for edge in graph.edges:
        inputs[edge.target].append(edge.source)
    for vertex_id, condition in conditions_of(graph):
        inputs[vertex_id].append(condition.source)
    vertices, changed = {vertex.vertex_id: vertex for vertex in graph.vertices}, _changed_parameters(before, graph)
    read = edges_by_source(graph)
    found: dict[str, VertexReuse] = {}
    for vertex_id in TopologicalSorter(inputs).static_order():
        vertex = vertices[vertex_id]
        running = next(
            (each for each in inputs[vertex_id] if not (found[each].is_reused or found[each].reason is ReuseReason.SKIPPED)), None
        )
        if vertex_id in from_vertices:
            reuse = VertexReuse(vertex_id, ReuseReason.REQUESTED)
        elif vertex.is_closing:
            reuse = VertexReuse(vertex_id, ReuseReason.CLOSING)
        elif vertex.stream is not None:
            reuse = VertexReuse(vertex_id, ReuseReason.STREAM)
        elif (parameter := next((name for name in changed if _may_use(vertex, name)), None)) is not None:
            reuse = VertexReuse(vertex_id, ReuseReason.PARAMETER_CHANGED, parameter)
        elif running is not None:
            reuse = VertexReuse(vertex_id, ReuseReason.INPUT_RUNS, running)
        else:
            reuse = _by_outputs(before.execution_graph.vertices[vertex_id], is_there=is_kept or vertex_id not in read)
        found[vertex_id] = reuse
    return tuple([found[vertex.vertex_id] for vertex in graph.vertices])


def _changed_parameters(before: JobMaster, graph: JobGraph) -> list[str]:
    """Return the parameters with another value than before that tasks may compute with."""
    values: Mapping[str, str | None] = {each.name: each.value for each in before.execution_graph.graph.parameters}
    return [each.name for each in graph.parameters if each.affects_results and each.value != values.get(each.name)]


def _may_use(vertex: JobVertex, parameter: str) -> bool:
    """Tell whether a task may depend on a parameter: a function on each, a statement on those whose name stands in it as a word.

    What is said of its sources counts as well: the rows of a table are chosen by a condition with parameters.
    """
    said = [vertex.task, *(each.options_json for each in vertex.sources)]
    return vertex.task_type is not TaskType.SQL or any(re.search(rf"\b{re.escape(parameter)}\b", text) for text in said)


def _by_outputs(vertex: ExecutionVertex, *, is_there: bool) -> VertexReuse:
    """Return whether a vertex of which nothing has changed has outputs; `is_there` tells whether they were not removed."""
    vertex_id = vertex.vertex.vertex_id
    if vertex.skip is not None:
        return VertexReuse(vertex_id, ReuseReason.SKIPPED)
    unfinished = [s for s in vertex.subtasks if s.state is not ExecutionState.FINISHED or s.revoked]
    if unfinished:
        told = next((s for s in unfinished if s.state is ExecutionState.FAILED), unfinished[0])
        return VertexReuse(vertex_id, ReuseReason.NOT_FINISHED, str(told.state) if not told.revoked else "to run again")
    return VertexReuse(vertex_id, ReuseReason.UNCHANGED if is_there else ReuseReason.OUTPUTS_REMOVED)
