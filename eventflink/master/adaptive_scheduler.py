"""The adaptive scheduler: vertices run with the slots that there are (Flink's FLIP-160, for blocking edges). Nothing here changes anything.

A vertex that is ready is scheduled at once if there are slots for all that it wants. Else it waits; after the stabilization timeout it
starts with what there is, after the wait timeout without anything its job fails. A vertex that runs with less than it wants is
rescaled when slots come, and one that lost slots continues with what is left. The rule that keeps work from being lost for nothing: as soon
as one of its subtasks has finished, the others are nearly there, and the vertex keeps its parallelism. The scheduler rescales a vertex at
most once in a stabilization timeout. How a rescale is carried out is in `rescaling.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from eventflink.events.log_events import (
    JobRescaled,
    JobStatusChanged,
    LogEvent,
    ResourcesAwaited,
    SlotRequested,
    TaskFailed,
    TaskScheduled,
    VertexSkipped,
)
from eventflink.master import default_scheduler
from eventflink.master.default_scheduler import SCHEDULE_BATCH, find_fault_of_deployment
from eventflink.master.execution_graph import ExecutionVertex, Subtask
from eventflink.master.failover import decide_failure
from eventflink.master.inputs import AdaptJob
from eventflink.master.job_master import JobMaster
from eventflink.master.rescaling import decide_change, wanted_parallelism
from eventflink.master.settings import NO_TIMEOUT, AdaptiveSettings, Context
from eventflink.master.slot_manager import SlotManager
from eventflink.master.slot_requests import Asked
from eventflink.master.state import ClusterState
from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import (
    TERMINAL_EXECUTION_STATES,
    ExecutionState,
    FailoverStrategy,
    JobStatus,
    RescaleReason,
)

Claims = dict[Asked, int]
"""How many vertices wait, by what their subtasks ask for."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What the decisions about one moment go by."""

    slots: SlotManager
    claims: Claims
    settings: AdaptiveSettings
    now_ms: int

    def claimants(self, profile: Asked) -> int:
        """Return how many vertices wait for slots that fit this profile as well."""
        return sum(count for asked, count in self.claims.items() if self.slots.competes(profile, asked))

    def share(self, profile: Asked, queue: str, claimants: int, taken: int = 0) -> int:
        """Return the share of the free slots that fit, and that its queue may hold, which each of so many vertices gets; at least one."""
        return -(-max(0, self.slots.available_for(profile, queue) - taken) // max(1, claimants))


def resources_at(state: ClusterState, context: Context) -> Resources:
    """Return what there is, and who waits for it."""
    claims: Claims = {}
    for job in state.dispatcher.adaptive():
        for vertex_id in job.rescales.waiting:
            profile = job.execution_graph.vertices[vertex_id].vertex.resources
            claims[profile] = claims.get(profile, 0) + 1
    return Resources(state.slot_manager, claims, context.settings.adaptive, context.now_ms)


def missing_slots(state: ClusterState, context: Context) -> Claims:
    """Return how many slots adaptive jobs want beyond those that are free, by what they ask for: what a resource driver may start.

    Requests that wait are not among them, and nothing that a named queue may not hold. A reactive job makes do with what there is, once it
    has a slot.
    """
    slots, wanted = state.slot_manager, Claims()
    rooms: dict[str, int | None] = {}
    for job in state.dispatcher.adaptive():
        room = rooms.setdefault(job.queue, slots.room_beyond_requests(job.queue))
        for vertex_id, more in _wanted_slots(job, context.settings.adaptive):
            profile = job.execution_graph.vertices[vertex_id].vertex.resources
            count = more if room is None else min(more, room)
            room = None if room is None else room - count
            wanted[profile] = wanted.get(profile, 0) + count
        rooms[job.queue] = room
    missing = {profile: count - slots.unclaimed_for(profile) for profile, count in wanted.items()}
    return {profile: count for profile, count in missing.items() if count > 0}


def _wanted_slots(job: JobMaster, settings: AdaptiveSettings) -> Iterator[tuple[str, int]]:
    """Yield how many slots each vertex wants that waits, or that would be rescaled for more."""
    for vertex_id, waiting in job.rescales.waiting.items():
        yield vertex_id, 1 if job.reactive else waiting.wanted
    for vertex_id in job.rescales.unsettled if not job.reactive else ():
        more = wanted_parallelism(job, vertex_id) - job.execution_graph.vertices[vertex_id].parallelism
        if vertex_id not in job.rescales.waiting and more >= settings.min_parallelism_increase and is_adjustable(job, vertex_id):
            yield vertex_id, more


def decide_schedule(job: JobMaster, resources: Resources) -> list[LogEvent]:
    """Schedule a batch of what is ready where there are slots for a whole vertex, and let the other vertices wait."""
    slots = resources.slots
    events: list[LogEvent] = []
    taken = 0
    for vertex_id in _ready_vertices(job):
        vertex = job.execution_graph.vertices[vertex_id]
        ready = _ready_subtasks(vertex)
        if (skip := job.execution_graph.find_skip(vertex_id)) is not None:
            return events or [VertexSkipped(job.job_id, vertex_id, skip)]
        # The one may join others in slots that the job holds: what is free says little. The other has a subtask for each row.
        if vertex.vertex.slot_sharing_group is not None or vertex_id in job.execution_graph.mapping_edges:
            keys = [s.key for s in ready]
            return events or default_scheduler.decide_schedule(job, slots, resources.now_ms, keys)
        if fault := find_fault_of_deployment(job.execution_graph, vertex_id):
            return events or decide_failure(job, ready[0], fault, resources.now_ms)
        is_fresh = len(ready) == vertex.parallelism
        adjustable = is_adjustable(job, vertex_id)
        wanted = wanted_parallelism(job, vertex_id) if is_fresh and adjustable else len(ready)
        profile = vertex.vertex.resources
        share = resources.share(profile, job.queue, 1 + resources.claimants(profile), taken)
        if share < wanted and is_fresh and vertex_id in job.rescales.unsettled:
            wanted = vertex.parallelism  # It has waited, and starts again with what it had: it was rescaled, or failed as a whole.
        if share < wanted and adjustable:
            if taken:  # The requests of this decision may be for other slots: the next one knows.
                return events
            events.append(ResourcesAwaited(job.job_id, vertex_id, wanted, slots.available_for(profile, job.queue)))
            continue
        scheduled = _schedule(job, vertex, ready, slots, wanted if is_fresh else vertex.parallelism, RescaleReason.MORE_SLOTS, taken)
        events.extend(scheduled)
        taken += len(scheduled) // 2
        if taken >= SCHEDULE_BATCH:
            return events
    return events


def is_adjustable(job: JobMaster, vertex_id: str) -> bool:
    """Tell whether the scheduler may give a vertex another parallelism: nothing of it has finished, nothing holds it to what it has.

    Forward edges may, a slot sharing group does, whose vertices take slots that others of their job hold, and so do the rows that a mapped
    vertex has a subtask for.
    """
    graph = job.execution_graph
    vertex = graph.vertices[vertex_id]
    finished = vertex.has_outputs
    is_held = vertex.vertex.slot_sharing_group is not None or vertex_id in graph.mapping_edges
    return not finished and not is_held and not graph.others_have_begun(vertex_id)


def due_adaptations(state: ClusterState, context: Context) -> list[str]:
    """Return the jobs of which a vertex can be scheduled or rescaled now, or has waited too long; or of which deciding that fails (P10)."""
    if not state.dispatcher.adaptive_jobs:
        return []
    resources = resources_at(state, context)

    def is_due(job: JobMaster) -> bool:
        try:
            return bool(decide_adaptation(job, resources))
        except Exception:  # noqa: BLE001 - the leader decides it, and parks it
            return True

    return [job.job_id for job in state.dispatcher.adaptive() if is_due(job)]


def decide_adapt_job(state: ClusterState, value: AdaptJob, context: Context) -> list[LogEvent]:
    """Schedule, rescale or give up one vertex of a job; nothing for one that is not adaptive, or does not run."""
    if value.job_id not in state.dispatcher.adaptive_jobs:
        return []
    return decide_adaptation(state.dispatcher.jobs[value.job_id], resources_at(state, context))


def decide_adaptation(job: JobMaster, resources: Resources) -> list[LogEvent]:
    """Schedule, rescale or give up one vertex of a job, the one that has waited for longest first."""
    if job.status is JobStatus.RESTARTING and job.restarts.failover_strategy is FailoverStrategy.FULL:
        return []  # The whole job starts again, all vertices together.
    for vertex_id in job.rescales.waiting:
        if events := _decide_waiting(job, vertex_id, resources):
            return events
    for vertex_id in job.rescales.unsettled:
        if events := _decide_growth(job, vertex_id, resources):
            return events
    return []


def _decide_waiting(job: JobMaster, vertex_id: str, resources: Resources) -> list[LogEvent]:
    slots, settings = resources.slots, resources.settings
    vertex = job.execution_graph.vertices[vertex_id]
    profile, ready = vertex.vertex.resources, _ready_subtasks(vertex)
    is_fresh = len(ready) == vertex.parallelism
    adjustable = is_adjustable(job, vertex_id)
    wanted = wanted_parallelism(job, vertex_id) if is_fresh and adjustable else len(ready)
    share = resources.share(profile, job.queue, resources.claimants(profile))
    if share >= wanted or not adjustable:
        return _schedule(job, vertex, ready, slots, wanted if is_fresh else vertex.parallelism, RescaleReason.MORE_SLOTS)
    waited_ms = resources.now_ms - job.rescales.waiting[vertex_id].since_ms
    if waited_ms >= settings.resource_stabilization_timeout_ms:
        if not is_fresh:
            return _decide_shrinking(job, vertex, share)
        # Where others wait in line for the same slots nothing is ever free: it gets into line with its share.
        if start := min(wanted, share or slots.share_of(profile, job.queue)):
            return _schedule(job, vertex, ready, slots, start, RescaleReason.FEWER_SLOTS)
    if NO_TIMEOUT != settings.resource_wait_timeout_ms <= waited_ms:
        return _give_up(job, ready[0], waited_ms, slots.describe_wait(profile, job.queue))
    return []


def _decide_shrinking(job: JobMaster, vertex: ExecutionVertex, share: int) -> list[LogEvent]:
    """Let a vertex continue with the slots that it still has, and its share of what is free; without any slot it waits."""
    vertex_id = vertex.vertex.vertex_id
    held = _count_running(job, vertex)
    if not held:
        return []  # The others wait for their restart, and come soon.
    return decide_change(job, vertex_id, min(held + share, vertex.parallelism), RescaleReason.FEWER_SLOTS)


def _decide_growth(job: JobMaster, vertex_id: str, resources: Resources) -> list[LogEvent]:
    """Rescale a vertex that runs with less than it wants, if slots are free that no request waits for."""
    slots, settings = resources.slots, resources.settings
    vertex = job.execution_graph.vertices[vertex_id]
    available = slots.available_for(vertex.vertex.resources, job.queue)
    if not available or resources.now_ms - vertex.scheduled_at_ms < settings.resource_stabilization_timeout_ms:
        return []
    to_parallelism = min(wanted_parallelism(job, vertex_id), vertex.parallelism + available)
    if to_parallelism - vertex.parallelism < settings.min_parallelism_increase or resources.claimants(vertex.vertex.resources):
        return []
    if _count_running(job, vertex) < vertex.parallelism or not is_adjustable(job, vertex_id):
        return []
    return decide_change(job, vertex_id, to_parallelism, RescaleReason.MORE_SLOTS)


def _count_running(job: JobMaster, vertex: ExecutionVertex) -> int:
    """Return how many subtasks have begun and not ended, and are not about to start again."""
    waiting = (*TERMINAL_EXECUTION_STATES, ExecutionState.CREATED)
    return sum(s.state not in waiting and s.key not in job.restarts.due for s in vertex.subtasks)


def _give_up(job: JobMaster, subtask: Subtask, waited_ms: int, why: str) -> list[LogEvent]:
    """Fail the job, whatever its restart strategy is: a restart would wait as long, as in Flink."""
    message = f"no slot was there for vertex '{subtask.vertex_id}' within {waited_ms} ms: {why}"
    cause = FailureCause("NoResourceAvailable", message)
    return [
        TaskFailed(*job.attempt_of(subtask), cause),
        JobStatusChanged(job.job_id, job.status, JobStatus.FAILING, "jobmanager.adaptive-scheduler.resource-wait-timeout is over"),
    ]


def _schedule(
    job: JobMaster,
    vertex: ExecutionVertex,
    ready: list[Subtask],
    slots: SlotManager,
    parallelism: int,
    reason: RescaleReason,
    skipped_ids: int = 0,
) -> list[LogEvent]:
    """Schedule a batch of the ready subtasks, with another parallelism first if the vertex is to have one."""
    vertex_id = vertex.vertex.vertex_id
    events: list[LogEvent] = []
    attempts = [(s.subtask_index, s.attempt) for s in ready]
    if parallelism != vertex.parallelism:
        attempt = vertex.next_attempt
        events.append(JobRescaled(job.job_id, vertex_id, vertex.parallelism, parallelism, reason, attempt))
        attempts = [(index, attempt) for index in range(parallelism)]
    ids = islice(slots.allocation_ids(), skipped_ids, None)
    for (index, attempt), allocation_id in zip(attempts[: SCHEDULE_BATCH - skipped_ids], ids, strict=False):
        events.append(TaskScheduled(job.job_id, vertex_id, index, attempt))
        events.append(SlotRequested(allocation_id, job.job_id, vertex_id, index, attempt))
    return events


def _ready_subtasks(vertex: ExecutionVertex) -> list[Subtask]:
    return [s for s in vertex.subtasks if s.state is ExecutionState.CREATED]


def _ready_vertices(job: JobMaster) -> Iterator[str]:
    """Yield the vertices with subtasks to schedule, in the order in which they became ready."""
    passed_over = job.rescales.held_back(job.execution_graph)
    for vertex_id, _ in job.execution_graph.ready:
        if vertex_id not in passed_over:
            passed_over.add(vertex_id)
            yield vertex_id
