"""Which vertices of an ended job are reused by one that runs it again: they begin finished, and their outputs stay where they are.

A vertex is reused that finished, whose outputs are still there, of which nothing has changed, and all of whose inputs are reused as well,
as is what its condition names. Of one that had not finished, those subtasks are reused that had. Where the job runs another graph, each
vertex is compared with the one of its id. One that was skipped counts as reused for its readers, where the same holds: it is skipped again.

Nothing here looks at files: what the log says is there counts as there, and whose reader finds it gone runs again (`failover.py`).
"""

import re
from collections.abc import Collection
from graphlib import TopologicalSorter
from typing import Final

from eventflink.events.inputs import RerunJob
from eventflink.events.log_events import RequestRejected
from eventflink.master.execution_graph import ExecutionVertex, edges_by_source, forward_groups_of
from eventflink.master.job_master import JobMaster
from eventflink.master.requests import rejected
from eventflink.model.conditions import conditions_of
from eventflink.model.job_graph import JobEdge, JobGraph, JobVertex
from eventflink.model.reuse import VertexCode, VertexReuse
from eventflink.model.statuses import ExecutionState, JobStatus, ReuseReason, TaskType

MAX_NAMED_VERTICES: Final = 16
"""In a refusal."""


_NO_PART_OF_A_RESULT: Final = frozenset(
    {"parallelism", "resources", "slot_sharing_group", "time_limit_ms", "retries", "engine", "code_digest"}
)
"""Fields of a vertex that decide how it comes to its result, not which that is; engine and code are compared by themselves."""

_WORDS: Final = {"parameters_json": "parameters", "condition": "condition ('when')", "task_type": "kind of task"}
"""Fields of a vertex by the names that they have for people, where these are others."""


def refuse_reuse(before: JobMaster, graph: JobGraph, command: RerunJob, reuse: Collection[VertexReuse]) -> RequestRejected | None:
    """Return why an ended job does not run again as a command says, with this graph and with what would be reused; None: it does."""
    vertices = [vertex.vertex_id for vertex in graph.vertices]
    for vertex_id in command.from_vertices:
        if vertex_id not in vertices:
            there = f"it has {', '.join(vertices[:MAX_NAMED_VERTICES])}{', …' if len(vertices) > MAX_NAMED_VERTICES else ''}"
            where = f"job '{before.job_id}'" if command.job_graph is None else "the job's new graph"
            return rejected(command, "UnknownVertex", f"vertex not found: '{vertex_id}' in {where}; {there}")
    runs = any(not each.is_reused and each.reason not in (ReuseReason.CLOSING, ReuseReason.SKIPPED) for each in reuse)
    if before.status is JobStatus.FINISHED and not command.from_vertices and (command.job_graph is None or not runs):
        more = ", and its new graph changes nothing of it" if command.job_graph is not None else ""
        message = f"job '{before.job_id}' is FINISHED{more}; name the vertices from which it is to run again"
        return rejected(command, "NothingFailed", message)
    return None


def decide_reuse(before: JobMaster, graph: JobGraph, from_vertices: Collection[str], *, is_kept: bool) -> tuple[VertexReuse, ...]:
    """Return for each vertex of a graph, in its order, whether it is reused from an ended job, and why or why not.

    `graph` is that of the ended job, with other values of parameters or not, or another one. `from_vertices` run, whatever they are;
    `is_kept` tells whether the outputs are kept that edges of the ended job read.
    """
    inputs, vertices = _inputs_of(graph), {vertex.vertex_id: vertex for vertex in graph.vertices}
    changed, finished = _changed_parameters(before, graph), before.execution_graph.vertices
    read, forward, comparison = edges_by_source(graph), forward_groups_of(graph), _Comparison(before.execution_graph.graph, graph)
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
        elif running is None and comparison.waits_as_before(vertex) and finished[vertex_id].skip is not None:
            reuse = VertexReuse(vertex_id, ReuseReason.SKIPPED)
        elif (change := comparison.find_change(vertex)) is not None:
            reuse = change
        elif (parameter := next((name for name in changed if _may_use(vertex, name)), None)) is not None:
            reuse = VertexReuse(vertex_id, ReuseReason.PARAMETER_CHANGED, parameter)
        elif running is not None:
            reuse = VertexReuse(vertex_id, ReuseReason.INPUT_RUNS, running)
        else:
            parallelism = vertex.parallelism if vertex_id in forward and not comparison.is_equal else None
            may_be_part = comparison.has_the_same_parallelism(vertex) and vertex.sink is None
            reuse = _by_outputs(finished[vertex_id], parallelism, is_there=is_kept or vertex_id not in read, may_be_part=may_be_part)
        found[vertex_id] = reuse
    return tuple([found[vertex.vertex_id] for vertex in graph.vertices])


def _inputs_of(graph: JobGraph) -> dict[str, list[str]]:
    """Return for each vertex those that it waits for."""
    inputs: dict[str, list[str]] = {vertex.vertex_id: [] for vertex in graph.vertices}
    for edge in graph.edges:
        inputs[edge.target].append(edge.source)
    for vertex_id, condition in conditions_of(graph):
        inputs[vertex_id].append(condition.source)
    return inputs


class _Comparison:
    """Two graphs, of which vertices are compared."""

    def __init__(self, before: JobGraph, after: JobGraph) -> None:
        self._before, self._after = before, after
        self._known = {vertex.vertex_id: vertex for vertex in before.vertices}
        self._inputs = _edges_by_target(before), _edges_by_target(after)
        self._read = _outputs_read(before), _outputs_read(after)
        self.is_equal = before.vertices == after.vertices and before.edges == after.edges
        """Whether the values of parameters are all that differs."""

    def waits_as_before(self, vertex: JobVertex) -> bool:
        """Tell whether a vertex reads the same, and runs under the same condition."""
        known = self._known.get(vertex.vertex_id)
        same_inputs = self._inputs[0].get(vertex.vertex_id) == self._inputs[1].get(vertex.vertex_id)
        return known is not None and known.condition == vertex.condition and same_inputs

    def has_the_same_parallelism(self, vertex: JobVertex) -> bool:
        """Tell whether both documents have as many subtasks of a vertex."""
        known = self._known.get(vertex.vertex_id)
        return known is not None and known.parallelism == vertex.parallelism

    def find_change(self, vertex: JobVertex) -> VertexReuse | None:
        """Return what has changed of a vertex itself since the earlier graph; None: nothing that could give another result."""
        name = vertex.vertex_id
        if (known := self._known.get(name)) is None:
            return VertexReuse(name, ReuseReason.ADDED)
        if self.is_equal and self._before.code_archives == self._after.code_archives and self._before.engine == self._after.engine:
            return None
        changed = [f for f in vertex.__slots__ if f not in _NO_PART_OF_A_RESULT and getattr(known, f) != getattr(vertex, f)]
        if (known.engine or self._before.engine) != (vertex.engine or self._after.engine):
            changed.append("engine")
        if self._inputs[0].get(name) != self._inputs[1].get(name):
            changed.append("inputs")
        if changed:
            words = _WORDS | {"task": "function" if vertex.task_type is TaskType.PYTHON else "statement"}
            return VertexReuse(name, ReuseReason.CHANGED, ", ".join(words.get(field, field) for field in changed))
        code = VertexCode(known.code_digest, self._before.code_archives), VertexCode(vertex.code_digest, self._after.code_archives)
        if code[0].may_differ(code[1]):
            return VertexReuse(name, ReuseReason.CODE_CHANGED)
        if self._read[0].get(name) != self._read[1].get(name):
            return VertexReuse(name, ReuseReason.READERS_CHANGED)
        return None


def _edges_by_target(graph: JobGraph) -> dict[str, list[JobEdge]]:
    """Return the edges into each vertex; in which order a document has them says nothing."""
    found: dict[str, list[JobEdge]] = {}
    for edge in sorted(graph.edges, key=lambda each: (each.target, each.input_name)):
        found.setdefault(edge.target, []).append(edge)
    return found


def _outputs_read(graph: JobGraph) -> dict[str, set[tuple[str, bool]]]:
    """Return which outputs of each vertex are read, and whether by an edge: those are removed some time after a job's end, others not."""
    found: dict[str, set[tuple[str, bool]]] = {}
    for edge in graph.edges:
        found.setdefault(edge.source, set()).add((edge.output, True))
    for _, condition in conditions_of(graph):
        found.setdefault(condition.source, set()).add((condition.output, False))
    return found


def _changed_parameters(before: JobMaster, graph: JobGraph) -> list[str]:
    """Return the parameters with another value or type than before that tasks may compute with, also those that are there no more."""
    values, now = (
        {each.name: (each.parameter_type, each.value) for each in parameters if each.affects_results}
        for parameters in (before.execution_graph.graph.parameters, graph.parameters)
    )
    return [name for name in {**now, **values} if now.get(name) != values.get(name)]


def _may_use(vertex: JobVertex, parameter: str) -> bool:
    """Tell whether a task may depend on a parameter: a statement in the log on those whose name stands in it as a word.

    What is said of its sources counts as well: the rows of a table are chosen by a condition with parameters.
    """
    said = [vertex.task, *(each.options_json for each in vertex.sources)]
    return vertex.task_type is not TaskType.SQL or any(re.search(rf"\b{re.escape(parameter)}\b", text) for text in said)


def _by_outputs(vertex: ExecutionVertex, parallelism: int | None, *, is_there: bool, may_be_part: bool) -> VertexReuse:
    """Return whether a vertex of which nothing has changed has outputs, or some of its subtasks have.

    `is_there` tells whether they were not removed, `may_be_part` whether those of some subtasks are of use: each has its own share of the
    same inputs. `parallelism` is what it has to have finished with, where forward edges bind it to vertices that may run; None: any.
    """
    vertex_id = vertex.vertex.vertex_id
    if parallelism not in (None, vertex.parallelism):
        return VertexReuse(vertex_id, ReuseReason.CHANGED, "parallelism, which a forward edge hands on,")
    unfinished = [s for s in vertex.subtasks if not s.has_result]
    if not unfinished:
        return VertexReuse(vertex_id, ReuseReason.UNCHANGED if is_there else ReuseReason.OUTPUTS_REMOVED)
    told = next((s for s in unfinished if s.state is ExecutionState.FAILED), unfinished[0])
    has_some = is_there and may_be_part and len(unfinished) < vertex.parallelism
    subtasks = tuple([s.subtask_index for s in vertex.subtasks if s.has_result]) if has_some else ()
    return VertexReuse(vertex_id, ReuseReason.NOT_FINISHED, str(told.state) if not told.revoked else "to run again", subtasks)
