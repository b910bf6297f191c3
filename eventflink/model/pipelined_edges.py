"""Pipelined edges as the streams at their ends see them: one more sink of the writer, one more source of the reader.

A graph says an edge once; here it becomes what a stream is deployed with. Both ends name the same topic by `edge_location`, which no other
edge of the job has; what the topic is called in Kafka is known where the stream runs (`streams/edges.py`).
"""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from eventflink.model.document_fields import canonical_json
from eventflink.model.job_graph import DEFAULT_OUTPUT, JobEdge, JobGraph, JobVertex, StreamDefinition, StreamSink, StreamSource
from eventflink.model.statuses import StreamConnector, StreamFormat

_MAX_TOPIC_LENGTH: Final = 249
_DIGEST_LENGTH: Final = 9


class PipelinedEdge(NamedTuple):
    """An edge between streams, and how many subtasks write it."""

    edge: JobEdge
    writers: int


def pipelined_edges_of(graph: JobGraph) -> dict[str, list[PipelinedEdge]]:
    """Return the edges that each stream reads or writes, by its vertex; a vertex without any is left out."""
    parallelism = {vertex.vertex_id: vertex.parallelism for vertex in graph.vertices}
    edges: dict[str, list[PipelinedEdge]] = {}
    for edge in graph.edges:
        if edge.pipeline is not None:
            # A graph that was never checked may name a vertex that it does not have: nobody asks for that one's edges.
            writers = parallelism.get(edge.source, 0)
            for end in (edge.source, edge.target):
                edges.setdefault(end, []).append(PipelinedEdge(edge, writers))
    return edges


def stream_with_edges(vertex: JobVertex, edges: Mapping[str, list[PipelinedEdge]]) -> StreamDefinition | None:
    """Return what a vertex streams, with those of its graph's `pipelined_edges_of` that it reads and writes; None: it is no stream."""
    if (stream := vertex.stream) is None:
        return None
    own = edges.get(vertex.vertex_id, ())
    sources = [_source_of(*each) for each in own if each.edge.target == vertex.vertex_id]
    sinks = [_sink_of(*each) for each in own if each.edge.source == vertex.vertex_id]
    return dataclasses.replace(stream, sources=(*stream.sources, *sources), sinks=(*stream.sinks, *sinks))


def edge_location(edge: JobEdge) -> str:
    """Return what an edge is called in its job: no id and no name has a dot in it."""
    return f"{edge.target}.{edge.input_name}"


def edge_topic(cluster_id: str, job_id: str, location: str) -> str:
    """Return the topic of an edge; long names, of which Kafka takes 249 characters, are not said in full.

    Kafka takes no name that differs from another topic's in dots and underscores alone.
    """
    topic = f"{cluster_id}.edge.{job_id}.{location}"
    digest = hashlib.sha256(topic.encode()).hexdigest()
    if len(topic) > _MAX_TOPIC_LENGTH - _DIGEST_LENGTH:
        return f"{cluster_id}.edge.{digest}"
    return f"{topic}-{digest[: _DIGEST_LENGTH - 1]}" if "_" in topic else topic


def _source_of(edge: JobEdge, writers: int) -> StreamSource:
    return StreamSource(
        name=edge.input_name,
        connector=StreamConnector.EDGE,
        location=edge_location(edge),
        stream_format=StreamFormat.JSON,
        row_schema=_row_schema(edge),
        options_json=_options(edge, writers),
    )


def _sink_of(edge: JobEdge, writers: int) -> StreamSink:
    return StreamSink(
        name="" if edge.output == DEFAULT_OUTPUT else edge.output,
        connector=StreamConnector.EDGE,
        location=edge_location(edge),
        stream_format=StreamFormat.JSON,
        row_schema=_row_schema(edge),
        options_json=_options(edge, writers),
    )


def _row_schema(edge: JobEdge) -> str:
    return edge.pipeline.row_schema if edge.pipeline is not None else ""


def _options(edge: JobEdge, writers: int) -> str:
    """Return what both ends have to know besides; a bounded reader waits for all of so many `writers`."""
    assert edge.pipeline is not None  # noqa: S101 - the others are no sources and sinks
    options: dict[str, Any] = {"writer": edge.source, "writers": writers, "ship": edge.ship, "keys": edge.keys}
    options["partitions"] = edge.pipeline.partitions
    if edge.pipeline.event_time:
        options |= {"event_time": edge.pipeline.event_time, "watermark_delay_ms": edge.pipeline.watermark_delay_ms}
    if edge.pipeline.late_rows is not None:
        options["late_rows"] = dataclasses.asdict(edge.pipeline.late_rows)
    return canonical_json(options)
