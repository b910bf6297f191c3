"""The default scheduler: what is ready asks for a slot at once, with the parallelism that the graph says. Nothing here changes anything.

A subtask joins others of its slot sharing group in a slot that its job holds, or asks for one.
"""

from collections.abc import Iterable
from typing import Final

from eventflink.events.log_events import LogEvent, SlotRequested, SlotShared, TaskDeployed, TaskScheduled
from eventflink.master.deployment_size import find_fault_of_deployment
from eventflink.master.execution_graph import SubtaskKey
from eventflink.master.failover import decide_failure
from eventflink.master.job_master import JobMaster
from eventflink.master.shared_slots import SharePicker
from eventflink.master.slot_manager import SlotManager

SCHEDULE_BATCH: Final = 256
"""How many tasks one decision schedules at most; the rest follows in the next (P10a)."""


def decide_schedule(job: JobMaster, slots: SlotManager, now_ms: int, keys: Iterable[SubtaskKey] | None = None) -> list[LogEvent]:
    """Schedule a batch of the subtasks that are ready, or of those named; one that could never be deployed fails, alone."""
    events: list[LogEvent] = []
    weighed = ""
    graph, shares, allocation_ids = job.execution_graph, SharePicker(slots.sharing), slots.allocation_ids()
    ready: Iterable[SubtaskKey] = graph.ready if keys is None else keys
    if job.rescales.pending and keys is None:
        held_back = job.rescales.held_back(graph)
        ready = (key for key in ready if key[0] not in held_back)
    for _, (vertex_id, index) in zip(range(SCHEDULE_BATCH), ready, strict=False):
        subtask = graph.vertices[vertex_id].subtasks[index]
        if vertex_id != weighed:
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
