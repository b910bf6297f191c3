"""How large the deployment of a task would be: one that Kafka does not take would be sent again for ever.

All subtasks of a vertex are told the same, so a vertex is weighed once. What is weighed are the parts that a graph or a report can make
large; the rest has its place in the room between this bound and the topic's.
"""

from typing import Final

from eventflink.master.execution_graph import ExecutionGraph
from eventflink.model.attempts import FailureCause

MAX_DEPLOYMENT_BYTES: Final = 896 * 1024
"""Of the 1 MiB that a record of `deployments` may have."""
_BYTES_BESIDE_A_TEXT: Final = 5
"""Of Avro: its length, and the tag or the count before it."""


def find_fault_of_deployment(graph: ExecutionGraph, vertex_id: str) -> FailureCause | None:
    """Return why no subtask of a vertex can be deployed, or None."""
    vertex = graph.vertices[vertex_id].vertex
    count, size = 0, _weigh(graph.graph.name) + _weigh(vertex.task) + _weigh(vertex.parameters_json)
    size += sum(_weigh(archive) for archive in graph.graph.code_archives)
    for edge in graph.edges_to.get(vertex_id, ()):
        size += _weigh(edge.input_name) + sum(_weigh(key) for key in edge.keys)
        locations = graph.input_locations(edge)
        count += len(locations)
        size += sum(_weigh(location) for location in locations)
    size += sum(_weigh(edge.output) for edge in graph.edges_from.get(vertex_id, ()))
    if size <= MAX_DEPLOYMENT_BYTES:
        return None
    message = (
        f"a task of vertex '{vertex_id}' would have to be told {size} bytes, of them the locations of {count} outputs that it reads; "
        f"at most {MAX_DEPLOYMENT_BYTES} bytes can be sent: fewer inputs, or less parallelism before it, make it less"
    )
    return FailureCause("DeploymentTooLarge", message)


def _weigh(text: str) -> int:
    return len(text.encode()) + _BYTES_BESIDE_A_TEXT
