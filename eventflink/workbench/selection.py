"""Which vertices of a graph are run here, in which order, and what each subtask of them is told.

Nothing is run here, and nothing is read. The rule it keeps: a subtask is told what a master would tell it, but for its slot, and for what
only a cluster has: code archives of a blob store, and the Spark of a pool.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from eventflink.events.effects import TaskDeployment, TaskInput, describe_task
from eventflink.jobs.pipelines.refresh import REFRESH
from eventflink.model.attempts import AttemptId, OutputLocation
from eventflink.model.conditions import conditions_of
from eventflink.model.job_graph import JobEdge, JobGraph, JobVertex
from eventflink.model.job_graph_document import InvalidJobGraph
from eventflink.model.statuses import ShipStrategy
from eventflink.model.texts import did_you_mean

Written = Mapping[tuple[str, str], Sequence[OutputLocation]]
"""What the subtasks of a vertex left of an output, by both their names, in the order of the subtasks."""


def select_vertices(graph: JobGraph, wanted: Collection[str] = ()) -> list[JobVertex]:
    """Return these vertices and all that they need, or else all of the graph, each behind those that it waits for, closing ones last.

    Raises:
        InvalidJobGraph: the graph has no such vertex, one of these is a stream, or its code is in the blob store of a cluster.

    """
    by_id = {vertex.vertex_id: vertex for vertex in graph.vertices}
    sources: dict[str, set[str]] = {name: set() for name in by_id}
    for edge in graph.edges:
        sources[edge.target].add(edge.source)
    for vertex_id, condition in conditions_of(graph):
        sources[vertex_id].add(condition.source)
    for name in wanted:
        if name not in by_id:
            raise InvalidJobGraph(f"vertex not found: '{name}'{did_you_mean(name, by_id)}; the job has {', '.join(by_id)}")
    needed: set[str] = set()
    waiting = list(wanted or by_id)
    while waiting:
        if (name := waiting.pop()) not in needed:
            needed.add(name)
            waiting += sources[name]
    ordered: dict[str, JobVertex] = {}
    left = [name for name in by_id if name in needed]
    while left:  # A graph that was parsed has no cycle, so one of those that are left is ready.
        name = next(each for each in left if sources[each] <= ordered.keys())
        ordered[name] = by_id[name]
        left.remove(name)
    _check(graph, ordered)
    return sorted(ordered.values(), key=lambda vertex: vertex.is_closing)


def _check(graph: JobGraph, chosen: Mapping[str, JobVertex]) -> None:
    for name, vertex in chosen.items():
        if vertex.task == REFRESH:
            raise InvalidJobGraph(
                f"vertex '{name}' is a data set of a pipeline, whose tables stay in the catalogue of a Spark: start a cluster by "
                "'eventflink up' whose configuration has spark.local.catalog, and submit the pipeline to it"
            )
        if vertex.stream is not None:
            batch = [each.vertex_id for each in graph.vertices if each.stream is None]
            others = f"; of its batch vertices choose some by --vertex: {', '.join(batch)}" if batch else ""
            raise InvalidJobGraph(
                f"vertex '{name}' is a stream, which never ends and needs its topics: start a cluster by 'eventflink up', and submit the "
                f"job to it{others}"
            )
    if graph.code_archives:
        raise InvalidJobGraph("code_archives: they are in the blob store of a cluster, which is not asked here: name the files by --code")


def with_parallelism(graph: JobGraph, most: int) -> JobGraph:
    """Return the graph with at most so many subtasks of each vertex."""
    vertices = tuple(replace(vertex, parallelism=min(vertex.parallelism, most)) for vertex in graph.vertices)
    return replace(graph, vertices=vertices)


def deployment_of(graph: JobGraph, vertex: JobVertex, attempt: AttemptId, written: Written, archives: tuple[str, ...]) -> TaskDeployment:
    """Return what a subtask is told; `written`: what the vertices before it have left."""
    edges = [edge for edge in graph.edges if edge.target == vertex.vertex_id]
    inputs = tuple([TaskInput(e.input_name, e.ship, e.keys, _locations_of(e, attempt, written), e.row_schema) for e in edges])
    read = [each.output for each in graph.edges if each.source == vertex.vertex_id]
    read += [condition.output for _, condition in conditions_of(graph) if condition.source == vertex.vertex_id]
    outputs = tuple(dict.fromkeys(read))
    told = describe_task(attempt, graph, vertex, vertex.parallelism, inputs, outputs)
    told.code_archives = archives
    return told


def _locations_of(edge: JobEdge, attempt: AttemptId, written: Written) -> tuple[OutputLocation, ...]:
    left = written.get((edge.source, edge.output), ())
    return tuple(left[attempt.subtask_index : attempt.subtask_index + 1] if edge.ship is ShipStrategy.FORWARD else left)
