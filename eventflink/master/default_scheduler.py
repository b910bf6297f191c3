"""The default scheduler: what is ready asks for a slot at once, with the parallelism that the graph says. Nothing here changes anything.

A vertex that is not to run is skipped. A mapped vertex gets a subtask for each row first (`mapped_vertices.py`). A subtask joins others of
its slot sharing group in a slot that its job holds, or asks for one.
"""

import json
from collections.abc import Iterable
from itertools import islice
from typing import Final

from eventflink.events.effects import INLINE_LOCATIONS
from eventflink.events.log_events import LogEvent, SlotRequested, SlotShared, TaskDeployed, TaskScheduled, VertexSkipped
from eventflink.master.execution_graph import ExecutionGraph, SubtaskKey
from eventflink.master.failover import decide_failure
from eventflink.master.job_master import JobMaster
from eventflink.master.mapped_vertices import decide_parallelism
from eventflink.master.shared_slots import SharePicker
from eventflink.master.slot_manager import SlotManager
from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import ShipStrategy

SCHEDULE_BATCH: Final = 256
"""How many tasks one decision schedules at most; the rest follows in the next (P10a)."""

MAX_DEPLOYMENT_BYTES: Final = 896 * 1024
"""Of the 1 MiB that a record of `deployments` may have."""
MAX_TOLD_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of JSON in the lists of one task that are sent before its order: half of the line that the fork server may read."""
_BYTES_BESIDE_A_LOCATION: Final = 128
"""The bytes of JSON that a location has besides its texts: numbers and punctuation."""
_BYTES_BESIDE_A_TEXT: Final = 5
"""Of Avro: its length, and the tag or the count before it."""
_BYTES_OF_COUNTS: Final = 19
"""The largest number of rows, files or bytes of an output: a long of Avro."""


def decide_schedule(job: JobMaster, slots: SlotManager, now_ms: int, keys: Iterable[SubtaskKey] | None = None) -> list[LogEvent]:
    """Schedule a batch of the subtasks that are ready, or of those named; one that could never be deployed fails, alone."""
    events: list[LogEvent] = []
    weighed = ""
    graph, shares, allocation_ids = job.execution_graph, SharePicker(slots.sharing), slots.allocation_ids()
    ready: Iterable[SubtaskKey] = graph.ready if keys is None else keys
    if job.rescales.pending and keys is None:
        held_back = job.rescales.held_back(graph)
        ready = (key for key in ready if key[0] not in held_back)
    for vertex_id, index in islice(ready, SCHEDULE_BATCH):
        subtask = graph.vertices[vertex_id].subtasks[index]
        if vertex_id != weighed:
            if (skip := graph.find_skip(vertex_id)) is not None:
                return events or [VertexSkipped(job.job_id, vertex_id, skip)]
            if changed := decide_parallelism(job, vertex_id, now_ms):
                return events or changed
            if fault := find_fault_of_deployment(graph, vertex_id):
                return events or decide_failure(job, subtask, fault, now_ms)
            weighed = vertex_id
        attempt = (job.job_id, vertex_id, index, subtask.attempt)
        events.append(TaskScheduled(*attempt))
        group = graph.group_of(subtask)
        joined = shares.pick((job.job_id, group), vertex_id, index) if group else None
        if joined is None:
            events.append(SlotRequested(next(allocation_ids), *attempt))
        else:
            events += [SlotShared(joined, *attempt), TaskDeployed(*attempt, joined)]
    return events


def find_fault_of_deployment(graph: ExecutionGraph, vertex_id: str) -> FailureCause | None:
    """Return why no subtask of a vertex can be deployed, or None: a record that Kafka does not take would be resent for ever.

    All subtasks of a vertex are told the same, but for what their partners left, so a vertex is weighed once, with the largest of these.
    What is weighed are the parts that a graph or a report can make large; the rest has its place in the room between this bound and the
    topic's. Lists that are told apart have a bound of their own.
    """
    vertex = graph.vertices[vertex_id].vertex
    count, told, size = 0, 0, _weigh(graph.graph.name) + _weigh(vertex.task) + _weigh(vertex.parameters_json)
    size += sum(_weigh(archive) for archive in graph.graph.code_archives)
    size += sum(_weigh(each.name) + _weigh(each.value or "") for each in graph.graph.parameters)
    for edge in graph.edges_to.get(vertex_id, ()):
        size += _weigh(edge.input_name) + _weigh(edge.row_schema) + sum(_weigh(key) for key in edge.keys)
        locations = graph.locations_of(edge.source, edge.output)
        if edge.ship is not ShipStrategy.FORWARD and len(locations) > INLINE_LOCATIONS:
            count += len(locations)
            told += sum(len(json.dumps([each.output, each.location, each.digest])) + _BYTES_BESIDE_A_LOCATION for each in locations)
            continue
        weights = [_weigh(each.output) + _weigh(each.location) + _weigh(each.digest) + _BYTES_OF_COUNTS for each in locations]
        size += sum(sorted(weights)[-1:] if edge.ship is ShipStrategy.FORWARD else weights)
    size += sum(map(_weigh, graph.outputs_of(vertex_id)))
    if size > MAX_DEPLOYMENT_BYTES:
        fault = f"have to be told {size} bytes; at most {MAX_DEPLOYMENT_BYTES} bytes can be sent: fewer inputs or parameters make it less"
    elif told > MAX_TOLD_BYTES:
        fault = (
            f"read {count} outputs of other tasks, and have to be told {told} bytes of where they are; at most {MAX_TOLD_BYTES} can be "
            "told: less parallelism before it makes it less"
        )
    else:
        return None
    return FailureCause("DeploymentTooLarge", f"a task of vertex '{vertex_id}' would {fault}")


def _weigh(text: str) -> int:
    return len(text.encode()) + _BYTES_BESIDE_A_TEXT
