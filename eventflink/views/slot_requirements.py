"""How many slots a job requires, holds and waits for, by slot sharing group and by what they have to have.

It is computed from the state when somebody asks (Flink's JobMaster declares the same to its ResourceManager, which here needs no telling).
What is required is for the tasks that are scheduled now: those whose inputs are not complete need no slot yet.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from eventflink.master.execution_graph import Subtask
from eventflink.master.job_master import JobMaster
from eventflink.master.slot_manager import SlotManager
from eventflink.model.statuses import TERMINAL_EXECUTION_STATES, ExecutionState
from eventflink.views.plain import View


@dataclass(slots=True)
class _Counts:
    """What the scheduled subtasks of a group, or of all vertices with slots of their own, add up to."""

    by_vertex: Counter[str] = field(default_factory=Counter)
    held: set[str] = field(default_factory=set)
    requested: int = 0


def slot_requirements_view(slots: SlotManager, job: JobMaster) -> list[View]:
    """Return what a job requires, holds and waits for; a group requires as many slots as its widest vertex has subtasks scheduled."""
    graph = job.execution_graph
    found: dict[tuple[str, str], _Counts] = {}
    for subtask in _scheduled(job):
        profile = graph.slot_profile_of(subtask.vertex_id)
        key = (graph.group_of(subtask), str(profile) if profile is not None else "")
        counts = found.setdefault(key, _Counts())
        counts.by_vertex[subtask.vertex_id] += 1
        if subtask.allocation_id in slots.pending:
            counts.requested += 1
        elif subtask.allocation_id in slots.allocations:
            counts.held.add(subtask.allocation_id)
    return [
        {
            "slot_sharing_group": group or None,
            "resources": profile or None,
            "required": max(counts.by_vertex.values()) if group else sum(counts.by_vertex.values()),
            "held": len(counts.held),
            "requested": counts.requested,
        }
        for (group, profile), counts in sorted(found.items())
    ]


def _scheduled(job: JobMaster) -> Iterator[Subtask]:
    """Yield the subtasks that need a slot now."""
    for subtask in job.execution_graph.subtasks():
        if subtask.state is not ExecutionState.CREATED and subtask.state not in TERMINAL_EXECUTION_STATES:
            yield subtask
