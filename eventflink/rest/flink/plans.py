"""The plan of a job as Flink writes it: a node of each vertex, and the edges as the inputs of their readers.

The ids of nodes are the vertices' own, which are opaque to Flink's clients.
"""

from collections.abc import Iterable
from typing import Any

from pydantic import Field

from eventflink.documents.one_job import JobInfo
from eventflink.model.job_graph import JobEdge, JobGraph, JobVertex
from eventflink.rest.flink.shapes import Shape


class Input(Shape):
    """An edge, at the node that reads it."""

    id: str
    """Of the node that writes it."""
    num: int
    exchange: str
    ship_strategy: str


class PlanNode(Shape):
    """A vertex."""

    id: str
    operator: str = ""
    parallelism: int
    operator_strategy: str = ""
    description: str
    optimizer_properties: dict[str, Any] = Field(default={})
    inputs: list[Input] = Field(exclude_if=lambda inputs: not inputs)
    """Left out where there are none, as Flink does."""


class Plan(Shape):
    """The vertices of a job, readers before what they read."""

    jid: str
    name: str
    type: str
    nodes: list[PlanNode]


class JobPlanInfo(Shape):
    """The plan of a job."""

    plan: Plan


def plan_of(job: JobInfo) -> Plan:
    """Return the plan of a job."""
    vertices = [(vertex.vertex_id, vertex.name, vertex.parallelism) for vertex in job.vertices]
    return _plan(job.job_id, job.name, vertices, job.edges, has_streams=job.has_streams)


def plan_of_graph(graph: JobGraph, job_id: str) -> Plan:
    """Return the plan of a job that was not submitted."""
    vertices = [(vertex.vertex_id, name_of(vertex), vertex.parallelism) for vertex in graph.vertices]
    has_streams = any(vertex.stream is not None for vertex in graph.vertices)
    return _plan(job_id, graph.name, vertices, graph.edges, has_streams=has_streams)


def _plan(job_id: str, name: str, vertices: list[tuple[str, str, int]], edges: Iterable[JobEdge], *, has_streams: bool) -> Plan:
    """Return the plan of vertices, each an id, a name and a parallelism, and of the edges between them."""
    inputs: dict[str, list[Input]] = {vertex_id: [] for vertex_id, _, _ in vertices}
    for edge in edges:
        mine = inputs[edge.target]
        exchange = "pipelined" if edge.pipeline is not None else "blocking"
        mine.append(Input(id=edge.source, num=len(mine), exchange=exchange, ship_strategy=edge.ship))
    nodes = [
        PlanNode(id=vertex_id, parallelism=parallelism, description=_description(called), inputs=inputs[vertex_id])
        for vertex_id, called, parallelism in reversed(vertices)
    ]
    return Plan(jid=job_id, name=name, type=job_type_of(has_streams=has_streams), nodes=nodes)


def name_of(vertex: JobVertex) -> str:
    """Return a vertex with what was chained to it."""
    chained = vertex.stream.chained if vertex.stream else ()
    return " -> ".join([vertex.vertex_id, *(operator.operator_id for operator in chained)])


def _description(name: str) -> str:
    """Return the operators of a vertex one below the other, each indented under the one that it reads."""
    first, *chained = name.split(" -> ")
    return "".join([f"{first}<br/>", *(f"{'   ' * depth}+- {operator}<br/>" for depth, operator in enumerate(chained))])


def job_type_of(*, has_streams: bool) -> str:
    """Return which of Flink's types a job is of."""
    return "STREAMING" if has_streams else "BATCH"
