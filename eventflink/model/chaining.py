"""Chaining: streams that a forward edge joins become one vertex, whose subtasks each run one query for all of them.

As in Flink this is done before the master sees the graph: what enters the log has the chain as one vertex, called like its head. So there
is no topic between them, no second batch, and no second slot. The rule it keeps: nothing is chained that runs as two queries and might not
run as one; `chain: true` on an edge asks for it where only the author of the streams can know.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from eventflink.model.job_graph import DEFAULT_OUTPUT, ChainedOperator, JobEdge, JobGraph, JobVertex, StreamDefinition
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import ShipStrategy, StreamOutputMode, StreamTrigger
from eventflink.model.stream_document import MAX_CHAINED


def chain_streams(graph: JobGraph, wishes: Sequence[bool | None]) -> JobGraph:
    """Return the graph with its streams chained where they can be; no chain has more operators than a record of it may say.

    Args:
        graph: with every stream a vertex of its own.
        wishes: for each edge whether it is to be chained; None: where that is safe.

    Raises:
        ValueError: an edge is to be chained and cannot be; the message says why, behind its place.

    """
    vertices = {vertex.vertex_id: vertex for vertex in graph.vertices}
    outputs, inputs = Counter(edge.source for edge in graph.edges), Counter(edge.target for edge in graph.edges)
    into: dict[str, int] = {}
    """By the vertex to which it leads, each edge whose ends can be one query: it has no other edge there, whatever else is chained."""
    for number, (edge, wish) in enumerate(zip(graph.edges, wishes, strict=True)):
        if wish is False:
            continue
        fault = _find_fault(edge, vertices, outputs, inputs)
        if fault and wish:
            raise ValueError(f"edges[{number}].chain: {fault}")
        if not fault:
            into[edge.target] = number
    heads, tails = {name: name for name in vertices}, {name: name for name in vertices}
    waiting = sorted(into.values())  # As a heap: the first edge of the graph that can be chained is the next one.
    while waiting:
        number = heappop(waiting)
        edge, wish = graph.edges[number], wishes[number]
        head, reader = heads[edge.source], vertices.get(edge.target)
        if reader is None or not (wish or (_appends(vertices[head]) and _appends(reader))):
            continue
        if (joined := _join(vertices[head], reader, edge)) is None:
            if wish:
                raise ValueError(f"edges[{number}].chain: '{head}' would have more than {MAX_CHAINED} streams chained to it")
            continue
        vertices[head] = joined
        del vertices[edge.target]
        tail = tails[edge.target]
        heads[tail], tails[head] = head, tail
        if head in into:  # What it leads to ends otherwise now, and may append.
            heappush(waiting, into[head])
    edges = [edge for edge in graph.edges if edge.target in vertices]
    moved = [edge if heads[edge.source] == edge.source else dataclasses.replace(edge, source=heads[edge.source]) for edge in edges]
    return dataclasses.replace(graph, vertices=tuple(vertices.values()), edges=tuple(moved))


def _find_fault(edge: JobEdge, vertices: Mapping[str, JobVertex], outputs: Mapping[str, int], inputs: Mapping[str, int]) -> str:
    """Return why the ends of an edge cannot be one query, whatever they do; empty: they can.

    What else is chained changes nothing of it: `outputs` and `inputs` are how many edges leave each vertex, and lead to it.
    """
    writer, reader = vertices[edge.source], vertices[edge.target]
    before, after = writer.stream, reader.stream
    fault = ""
    if before is None or after is None or edge.ship is not ShipStrategy.FORWARD:
        fault = "only streams that a forward edge joins are chained"
    elif before.sinks or outputs[edge.source] > 1:
        fault = f"'{edge.source}' has other outputs"
    elif edge.output != DEFAULT_OUTPUT:
        fault = f"'{edge.source}' returns its outputs by name"
    elif edge.pipeline is not None and edge.pipeline.late_rows is not None:
        fault = f"'{edge.target}' gets the late rows of its input apart from the others"
    elif after.sources or inputs[edge.target] > 1:
        fault = f"'{edge.target}' has other inputs"
    elif _when(before) != _when(after):
        fault = f"'{edge.source}' and '{edge.target}' have different triggers or settings"
    elif writer.retries != reader.retries:
        fault = f"'{edge.source}' and '{edge.target}' have different 'retries'"
    elif _where(writer) != _where(reader):
        fault = f"'{edge.source}' and '{edge.target}' ask for different slots"
    elif writer.engine != reader.engine:
        fault = f"'{edge.source}' and '{edge.target}' name different engines"
    return fault


def _appends(vertex: JobVertex) -> bool:
    """Tell whether a stream appends its rows: of two stateful queries that do not Spark makes no single one."""
    return vertex.stream is not None and vertex.stream.output_mode is StreamOutputMode.APPEND


def _when(stream: StreamDefinition) -> tuple[StreamTrigger, int, str]:
    return stream.trigger, stream.trigger_interval_ms, stream.settings_json


def _where(vertex: JobVertex) -> tuple[str | None, ResourceProfile | None]:
    return vertex.slot_sharing_group, vertex.resources


def _join(writer: JobVertex, reader: JobVertex, edge: JobEdge) -> JobVertex | None:
    """Return the one vertex of both; None: it would be too long a chain."""
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
    if len(chained) > MAX_CHAINED:
        return None
    stream = dataclasses.replace(before, sinks=after.sinks, output_mode=after.output_mode, chained=chained)
    return dataclasses.replace(writer, stream=stream, max_parallelism=min(writer.max_parallelism, reader.max_parallelism))
