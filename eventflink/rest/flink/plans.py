"""The plan of a job as Flink writes it: a node of each vertex, and the edges as the inputs of their readers.

The ids of nodes are the vertices' own, which are opaque to Flink's clients.
"""

from typing import Any

from pydantic import Field

from eventflink.model.job_graph import JobGraph, JobVertex
from eventflink.rest.flink.shapes import Shape
from eventflink.views.plain import View


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


def plan_of(job: View) -> Plan:
    """Return the plan of a job that `job_view` shows."""
    inputs: dict[str, list[Input]] = {vertex["vertex_id"]: [] for vertex in job["vertices"]}
    for edge in job["edges"]:
        mine = inputs[edge["target"]]
        exchange = "pipelined" if edge["pipeline"] is not None else "blocking"
        mine.append(Input(id=edge["source"], num=len(mine), exchange=exchange, ship_strategy=edge["ship"]))
    return Plan(
        jid=job["job_id"],
        name=job["name"],
        type=job_type_of(has_streams=job["has_streams"]),
        nodes=[
            PlanNode(
                id=vertex["vertex_id"],
                parallelism=vertex["parallelism"],
                description=_description(vertex["name"]),
                inputs=inputs[vertex["vertex_id"]],
            )
            for vertex in reversed(job["vertices"])
        ],
    )


def plan_of_graph(graph: JobGraph, job_id: str) -> Plan:
    """Return the plan of a job that was not submitted."""
    return plan_of(
        {
            "job_id": job_id,
            "has_streams": any(vertex.stream is not None for vertex in graph.vertices),
            "name": graph.name,
            "vertices": [{"vertex_id": v.vertex_id, "name": name_of(v), "parallelism": v.parallelism} for v in graph.vertices],
            "edges": [{"source": e.source, "target": e.target, "ship": e.ship, "pipeline": e.pipeline} for e in graph.edges],
        }
    )


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
