"""How a vertex gets another parallelism: what is asked for, what is under way, and what becomes of its subtasks.

A vertex that has not begun is resized at once (`JobRescaled`). One that has begun is first to end (`RescaleScheduled`): its live attempts
are cancelled, results that it has do not count any more, and it is resized when all of it has ended (P15), so results of two
parallelisms never meet. Vertices that forward edges bind together keep the same parallelism: one of them is rescaled only while none of
the others has begun, and they follow it. Attempts go on counting, for each subtask from the highest number that any of them had. When
the scheduler wants a rescale is decided in `adaptive_scheduler.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from eventflink.events.inputs import RescaleJob
from eventflink.events.log_events import (
    JobRescaled,
    JobRescaleRequested,
    JobStatusChanged,
    LogEvent,
    RescaleScheduled,
)
from eventflink.master.answers import accepted, rejected
from eventflink.master.canonical import require
from eventflink.master.execution_graph import ExecutionVertex, SubtaskKey
from eventflink.model.job_graph_document import MAX_PARALLELISM, MAX_SUBTASKS
from eventflink.model.statuses import (
    TERMINAL_EXECUTION_STATES,
    TERMINAL_JOB_STATUSES,
    ExecutionState,
    FailoverStrategy,
    IllegalTransition,
    JobStatus,
    RescaleReason,
    SchedulerType,
)

if TYPE_CHECKING:
    from eventflink.master.job_master import JobMaster
    from eventflink.master.slot_manager import SlotManager

_SHOWN: Final = 128
_GOING_ON: Final = (JobStatus.RUNNING, JobStatus.RESTARTING)


@dataclass(slots=True)
class WaitingVertex:
    """A vertex that could start, but for the slots."""

    since_ms: int
    wanted: int
    """How many slots it wants."""


@dataclass(slots=True)
class PendingRescale:
    """A vertex that is rescaled when all its attempts have ended."""

    to_parallelism: int
    reason: RescaleReason


def highest_parallelism(job: "JobMaster", vertex_id: str) -> int:
    """Return how many subtasks a vertex can have: as its group allows by `max_parallelism`, and as many as one job may have in all.

    What others are to get by a rescale that is under way is theirs already.
    """
    graph = job.execution_graph
    group = graph.forward_group(vertex_id)
    parallelism = {name: vertex.parallelism for name, vertex in graph.vertices.items()}
    for rescaled, pending in job.rescales.items():
        parallelism |= {name: max(parallelism[name], pending.to_parallelism) for name in graph.forward_group(rescaled)}
    others = sum(parallelism.values()) - sum(parallelism[name] for name in group)
    return min(MAX_PARALLELISM, (MAX_SUBTASKS - others) // len(group), *(graph.vertices[name].vertex.max_parallelism for name in group))


def wanted_parallelism(job: "JobMaster", vertex_id: str) -> int:
    """Return how many subtasks a vertex is to have if there are slots: as asked for last, or all that can be in reactive mode."""
    if job.reactive:
        return highest_parallelism(job, vertex_id)
    vertex = job.execution_graph.vertices[vertex_id]
    wanted = vertex.requested_parallelism or vertex.vertex.parallelism
    # Others may have grown since it was asked for.
    return wanted if wanted <= vertex.parallelism else min(wanted, highest_parallelism(job, vertex_id))


def is_rescaling(job: "JobMaster", vertex_id: str) -> bool:
    """Tell whether a vertex is to be rescaled, or another that forward edges bind to it: none of them begins before that."""
    return bool(job.rescales) and any(name in job.rescales for name in job.execution_graph.forward_group(vertex_id))


def describe_parallelism(job: "JobMaster", vertex_id: str, slots: "SlotManager") -> str:
    """Return what a vertex waits for before it has the parallelism that it wants; empty for one that has it, or has finished."""
    vertex = job.execution_graph.vertices[vertex_id]
    profile = vertex.vertex.resources
    if (pending := job.rescales.get(vertex_id)) is not None:
        return f"it is rescaled to {pending.to_parallelism} when its attempts have ended"
    if (waiting := job.waiting.get(vertex_id)) is not None:
        available = slots.available_for(profile)
        what = f"{available} of {waiting.wanted} are free" if available else slots.describe_wait(profile)
        return f"waiting for slots: {what}"
    if vertex_id in job.unsettled and vertex.parallelism < wanted_parallelism(job, vertex_id):
        return "rescaled when more slots are free, unless a subtask has finished before"
    return ""


def decide_change(job: "JobMaster", vertex_id: str, to_parallelism: int, reason: RescaleReason) -> list[LogEvent]:
    """Give a vertex another parallelism: at once if it has not begun, else as soon as it has ended."""
    vertex = job.execution_graph.vertices[vertex_id]
    if not vertex.has_begun:
        return [JobRescaled(job.job_id, vertex_id, vertex.parallelism, to_parallelism, reason, vertex.next_attempt)]
    scheduled = RescaleScheduled(job.job_id, vertex_id, vertex.parallelism, to_parallelism, reason)
    if job.status is JobStatus.RESTARTING:
        return [scheduled]
    return [scheduled, JobStatusChanged(job.job_id, job.status, JobStatus.RESTARTING)]


def decide_rescale(job: "JobMaster | None", command: RescaleJob, slots: "SlotManager") -> list[LogEvent]:
    """Do what a user's command asks for, or say why not.

    An adaptive job that asks for more than there are slots goes on, and is rescaled when they come.
    """
    if job is None:
        return [rejected(command, "UnknownJob", f"there is no job '{command.job_id[:_SHOWN]}'")]
    if refusal := _find_fault(job, command):
        return [rejected(command, *refusal)]
    vertex_id, wanted = command.vertex_id, command.parallelism
    vertex = job.execution_graph.vertices[vertex_id]
    events: list[LogEvent] = [accepted(command)]
    if (vertex.requested_parallelism or vertex.vertex.parallelism) != wanted:
        events.append(JobRescaleRequested(job.job_id, vertex_id, wanted, command.actor))
    more = wanted - vertex.parallelism
    waits = job.scheduler is SchedulerType.ADAPTIVE and vertex.has_begun and more > slots.available_for(vertex.vertex.resources)
    if more and not (more > 0 and waits):
        events.extend(decide_change(job, vertex_id, wanted, RescaleReason.REQUESTED))
    return events


def _find_fault(job: "JobMaster", command: RescaleJob) -> tuple[str, str] | None:
    """Return (code, message) of the first reason against a command."""
    if job.status in TERMINAL_JOB_STATUSES:
        return "JobTerminated", f"job '{job.job_id}' is {job.status} already"
    if job.status not in _GOING_ON:
        return "JobNotRunning", f"job '{job.job_id}' is {job.status}"
    vertex = job.execution_graph.vertices.get(command.vertex_id)
    if vertex is None:
        return "UnknownVertex", f"job '{job.job_id}' has no vertex '{command.vertex_id[:_SHOWN]}'"
    return _find_fault_of_vertex(job, vertex, command.parallelism)


def _find_fault_of_vertex(job: "JobMaster", vertex: ExecutionVertex, parallelism: int) -> tuple[str, str] | None:
    vertex_id = vertex.vertex.vertex_id
    if job.reactive:
        return "ReactiveMode", f"job '{job.job_id}' is reactive: its vertices have as many subtasks as there are slots"
    highest = highest_parallelism(job, vertex_id)
    if not 1 <= parallelism <= highest:
        return "ParallelismOutOfRange", f"parallelism {parallelism} of vertex '{vertex_id}' is not between 1 and {highest}"
    if not vertex.unfinished_subtasks:
        return "VertexFinished", f"vertex '{vertex_id}' of job '{job.job_id}' has finished"
    if vertex_id in job.rescales:
        to_parallelism = job.rescales[vertex_id].to_parallelism
        return "RescaleInProgress", f"vertex '{vertex_id}' is being rescaled to {to_parallelism}: its attempts have not ended yet"
    if job.execution_graph.others_have_begun(vertex_id):
        message = f"vertex '{vertex_id}' is bound by forward edges to others that have begun: all of them keep their parallelism"
        return "BoundByForwardEdges", message
    return None


def decide_rescales(job: "JobMaster", now_ms: int, most: int) -> list[JobRescaled]:
    """Resize those vertices that were to end first and have."""
    events = []
    for _, vertex_id in zip(range(most), resizable(job, now_ms), strict=False):
        vertex, pending = job.execution_graph.vertices[vertex_id], job.rescales[vertex_id]
        events.append(JobRescaled(job.job_id, vertex_id, vertex.parallelism, pending.to_parallelism, pending.reason, vertex.next_attempt))
    return events


def resizable(job: "JobMaster", now_ms: int) -> Iterator[str]:
    """Yield the vertices that are to be rescaled, and of which every attempt has ended and every delay is over."""
    for vertex_id in job.rescales:
        subtasks = job.execution_graph.vertices[vertex_id].subtasks
        if all(
            s.state is ExecutionState.CREATED
            or (s.state in TERMINAL_EXECUTION_STATES and job.restarts_due.get((vertex_id, s.subtask_index), now_ms) <= now_ms)
            for s in subtasks
        ):
            yield vertex_id


def keys_due(job: "JobMaster", vertex_id: str) -> list[SubtaskKey]:
    """Return the subtasks of a vertex that wait to start again."""
    indexes = range(job.execution_graph.vertices[vertex_id].parallelism)
    return [(vertex_id, index) for index in indexes if (vertex_id, index) in job.restarts_due]


# -- apply --------------------------------------------------------------------------------------------------------


def apply_job_rescale_requested(job: "JobMaster", event: JobRescaleRequested, _at: int) -> None:
    """Remember what was asked for, of all vertices that forward edges bind together."""
    _require_possible(job, event.vertex_id, event.parallelism, event)
    graph = job.execution_graph
    for name in graph.forward_group(event.vertex_id):
        graph.vertices[name].requested_parallelism = event.parallelism


def apply_rescale_scheduled(job: "JobMaster", event: RescaleScheduled, at_ms: int) -> None:
    """Let the vertex end: what lives of it is to be cancelled, what it has published is taken back."""
    vertex = _require_possible(job, event.vertex_id, event.to_parallelism, event)
    if vertex.parallelism != event.from_parallelism or not vertex.has_begun or event.vertex_id in job.rescales:
        raise IllegalTransition(f"{event} does not fit: the vertex has {vertex.parallelism} subtasks, and must have begun")
    job.rescales[event.vertex_id] = PendingRescale(event.to_parallelism, event.reason)
    for name in job.execution_graph.forward_group(event.vertex_id):
        job.waiting.pop(name, None)
        job.unsettled.pop(name, None)
    for subtask in vertex.subtasks:
        if subtask.state is not ExecutionState.CREATED:
            job.let_restart(subtask, at_ms)
    job.want()


def apply_job_rescaled(job: "JobMaster", event: JobRescaled, _at: int) -> None:
    """Give the vertex its new subtasks, and those that forward edges bind to it as many."""
    vertex = _require_possible(job, event.vertex_id, event.to_parallelism, event)
    pending = job.rescales.get(event.vertex_id)
    fits = vertex.parallelism == event.from_parallelism and vertex.next_attempt == event.attempt
    if not fits or (vertex.has_begun if pending is None else pending.to_parallelism != event.to_parallelism):
        raise IllegalTransition(f"{event} does not fit: of the vertex with {vertex.parallelism} subtasks {pending} is pending")
    keys = keys_due(job, event.vertex_id)
    group = job.execution_graph.forward_group(event.vertex_id)
    job.execution_graph.resize(event.vertex_id, event.to_parallelism)
    for key in keys:
        del job.restarts_due[key]
    for name in group:
        job.waiting.pop(name, None)
        job.unsettled.pop(name, None)
    if job.rescales.pop(event.vertex_id, None) is not None and job.scheduler is SchedulerType.ADAPTIVE:
        job.unsettled[event.vertex_id] = None
    job.restart_begun = job.failover_strategy is FailoverStrategy.FULL and bool(job.restarts_due)
    job.want()


def _require_possible(
    job: "JobMaster", vertex_id: str, parallelism: int, event: JobRescaleRequested | RescaleScheduled | JobRescaled
) -> ExecutionVertex:
    """Return the vertex if it can have this parallelism.

    Raises:
        IllegalTransition: there is none such, or it cannot; nothing was changed.

    """
    vertex = job.execution_graph.vertices.get(vertex_id)
    if vertex is None or job.status not in _GOING_ON:
        raise IllegalTransition(f"{event} names no vertex of a running job")
    if not 1 <= parallelism <= highest_parallelism(job, vertex_id):
        raise IllegalTransition(f"{event}: the vertex can have 1 to {highest_parallelism(job, vertex_id)} subtasks")
    if not vertex.unfinished_subtasks or job.execution_graph.others_have_begun(vertex_id):
        raise IllegalTransition(f"{event}: the vertex has finished, or another that forward edges bind to it has begun")
    return vertex


def validate_rescales(job: "JobMaster") -> None:
    """Check what waits, what is under way and what may still be rescaled against the graph."""
    adaptive = job.scheduler is SchedulerType.ADAPTIVE
    vertices = job.execution_graph.vertices
    require(adaptive or not (job.waiting or job.unsettled or job.reactive), f"{job.job_id} is not adaptive, yet its vertices wait")
    require(job.status in _GOING_ON or not (job.waiting or job.rescales), f"{job.job_id} is {job.status}, and something of it waits")
    for vertex_id in job.waiting:
        created = any(s.state is ExecutionState.CREATED for s in vertices[vertex_id].subtasks)
        require(created and not vertices[vertex_id].unfinished_inputs, f"{job.job_id}/{vertex_id} waits for slots, and nothing is ready")
        require(not is_rescaling(job, vertex_id), f"{job.job_id}/{vertex_id} waits for slots while it is rescaled")
    for vertex_id in job.unsettled:
        require(vertices[vertex_id].unfinished_subtasks > 0, f"{job.job_id}/{vertex_id} has finished, and its parallelism is open")
    for vertex_id in job.rescales:
        begun = {(vertex_id, s.subtask_index) for s in vertices[vertex_id].subtasks if s.state is not ExecutionState.CREATED}
        ends = bool(begun) and begun <= set(job.restarts_due)
        require(ends, f"{job.job_id}/{vertex_id} is rescaled, and some subtask of it does not end")
