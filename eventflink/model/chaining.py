"""Chaining: streams that a forward edge joins become one vertex, whose subtasks each run one query for all of them.

As in Flink this is done before the master sees the graph: what enters the log has the chain as one vertex, called like its head. So there
is no topic between them, no second batch, and no second slot. The rule it keeps: nothing is chained that runs as two queries and might not
run as one; `chain: true` on an edge asks for it where only the author of the streams can know.
"""

import dataclasses
from collections.abc import Sequence

from eventflink.model.job_graph import DEFAULT_OUTPUT, ChainedOperator, JobEdge, JobGraph, JobVertex, StreamDefinition
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import ShipStrategy, StreamOutputMode, StreamTrigger


def chain_streams(graph: JobGraph, wishes: Sequence[bool | None]) -> JobGraph:
    """Return the graph with its streams chained where they can be.

    Args:
        graph: with every stream a vertex of its own.
        wishes: for each edge whether it is to be chained; None: where that is safe.

    Raises:
        ValueError: an edge is to be chained and cannot be; the message says why, behind its place.

    """
    vertices = {vertex.vertex_id: vertex for vertex in graph.vertices}
    edges = list(zip(graph.edges, wishes, strict=True))
    for number, (edge, wish) in enumerate(edges):
        if wish and (fault := _find_fault(edge, vertices, graph.edges)):
            raise ValueError(f"edges[{number}].chain: {fault}")
    while (found := _find_chain(edges, vertices)) is not None:
        edge, _ = edges.pop(found)
        reader = vertices.pop(edge.target)
        vertices[edge.source] = _join(vertices[edge.source], reader, edge)
        edges = [(dataclasses.replace(e, source=edge.source) if e.source == edge.target else e, wish) for e, wish in edges]
    return dataclasses.replace(graph, vertices=tuple(vertices.values()), edges=tuple(edge for edge, _ in edges))


def _find_chain(wishes: list[tuple[JobEdge, bool | None]], vertices: dict[str, JobVertex]) -> int | None:
    """Return which edge is the next to be chained, if one is."""
    edges = [edge for edge, _ in wishes]
    for number, (edge, wish) in enumerate(wishes):
        if wish is False or edge.pipeline is None or _find_fault(edge, vertices, edges):
            continue
        ends = (vertices[edge.source].stream, vertices[edge.target].stream)
        # Of two stateful queries that do not append Spark makes no single one.
        if wish or all(stream is not None and stream.output_mode is StreamOutputMode.APPEND for stream in ends):
            return number
    return None


def _find_fault(edge: JobEdge, vertices: dict[str, JobVertex], edges: Sequence[JobEdge]) -> str:
    """Return why the ends of an edge cannot be one query, whatever they do; empty: they can."""
    writer, reader = vertices[edge.source], vertices[edge.target]
    before, after = writer.stream, reader.stream
    if before is None or after is None or edge.ship is not ShipStrategy.FORWARD:
        return "only streams that a forward edge joins are chained"
    faults = (
        (before.sinks or sum(e.source == edge.source for e in edges) > 1, f"'{edge.source}' has other outputs"),
        (edge.output != DEFAULT_OUTPUT, f"'{edge.source}' returns its outputs by name"),
        (after.sources or sum(e.target == edge.target for e in edges) > 1, f"'{edge.target}' has other inputs"),
        (_when(before) != _when(after), f"'{edge.source}' and '{edge.target}' have different triggers or settings"),
        (_where(writer) != _where(reader), f"'{edge.source}' and '{edge.target}' ask for different slots"),
    )
    return next((fault for is_one, fault in faults if is_one), "")


def _when(stream: StreamDefinition) -> tuple[StreamTrigger, int, str]:
    return stream.trigger, stream.trigger_interval_ms, stream.settings_json


def _where(vertex: JobVertex) -> tuple[str | None, ResourceProfile | None]:
    return vertex.slot_sharing_group, vertex.resources


def _join(writer: JobVertex, reader: JobVertex, edge: JobEdge) -> JobVertex:
    before, after, pipeline = writer.stream, reader.stream, edge.pipeline
    assert before is not None  # noqa: S101 - `_find_fault` has seen to it
    assert after is not None  # noqa: S101 - the same
    assert pipeline is not None  # noqa: S101 - the same
    operator = ChainedOperator(
        operator_id=reader.vertex_id,
        task_type=reader.task_type,
        task=reader.task,
        parameters_json=reader.parameters_json,
        input_name=edge.input_name,
        row_schema=pipeline.row_schema,
        event_time=pipeline.event_time,
        watermark_delay_ms=pipeline.watermark_delay_ms,
    )
    chained = (*before.chained, operator, *after.chained)
    stream = dataclasses.replace(before, sinks=after.sinks, output_mode=after.output_mode, chained=chained)
    return dataclasses.replace(writer, stream=stream, max_parallelism=min(writer.max_parallelism, reader.max_parallelism))
