"""How a vertex gets another parallelism: what is asked for, what is under way, and what becomes of its subtasks.

A vertex that has not begun is resized at once (`JobRescaled`). One that has begun is first to end (`RescaleScheduled`): its live attempts
are cancelled, results that it has do not count any more, and it is resized when all of it has ended (P15), so results of two
parallelisms never meet. Vertices that forward edges bind together keep the same parallelism: one of them is rescaled only while none of
the others has begun, and they follow it. Attempt numbers continue, for each subtask from the highest number that any of them had. When
the scheduler wants a rescale is decided in `adaptive_scheduler.py`.
"""

from collections.abc import Iterator
from itertools import islice

from eventflink.events.inputs import MAX_ID_LENGTH, RescaleJob
from eventflink.events.log_events import JobRescaled, JobRescaleRequested, JobStatusChanged, LogEvent, RescaleScheduled
from eventflink.master.execution_graph import ExecutionVertex
from eventflink.master.job_master import JobMaster
from eventflink.master.requests import accepted, rejected
from eventflink.master.slot_manager import SlotManager
from eventflink.master.state import ClusterState
from eventflink.model.statuses import (
    RUNNING_JOB_STATUSES,
    TERMINAL_EXECUTION_STATES,
    TERMINAL_JOB_STATUSES,
    ExecutionState,
    JobStatus,
    RescaleReason,
    SchedulerType,
)


def wanted_parallelism(job: JobMaster, vertex_id: str) -> int:
    """Return how many subtasks a vertex is to have if there are slots: as asked for last, or all that can be in reactive mode.

    A mapped vertex has a subtask for each row, whatever the slots, a closing vertex as many as its document says.
    """
    if vertex_id in job.execution_graph.mapping_edges or job.execution_graph.vertices[vertex_id].vertex.is_closing:
        return job.execution_graph.vertices[vertex_id].parallelism
    if job.reactive:
        return job.rescales.highest_parallelism(job.execution_graph, vertex_id)
    vertex = job.execution_graph.vertices[vertex_id]
    wanted = vertex.requested_parallelism or vertex.vertex.parallelism
    # Others may have grown since it was asked for.
    return wanted if wanted <= vertex.parallelism else min(wanted, job.rescales.highest_parallelism(job.execution_graph, vertex_id))


def describe_parallelism(job: JobMaster, vertex_id: str, slots: SlotManager) -> str:
    """Return what a vertex waits for before it has the parallelism that it wants; empty for one that has it, or has finished."""
    vertex = job.execution_graph.vertices[vertex_id]
    profile = vertex.vertex.resources
    if (pending := job.rescales.pending.get(vertex_id)) is not None:
        return f"it is rescaled to {pending.to_parallelism} when its attempts have ended"
    if (waiting := job.rescales.waiting.get(vertex_id)) is not None:
        available = slots.available_for(profile, job.queue)
        what = f"{available} of {waiting.wanted} are free" if available else slots.describe_wait(profile, job.queue)
        return f"waiting for slots: {what}"
    if (edge := job.execution_graph.mapping_edges.get(vertex_id)) is not None and not vertex.is_complete:
        rows = job.execution_graph.mapped_rows(vertex_id)
        if rows is None:
            return f"a subtask for each row of '{edge.source}' when it has finished"
        return "" if rows else f"'{edge.source}' has left no rows: its only subtask runs nothing"
    if vertex_id in job.rescales.unsettled and vertex.parallelism < wanted_parallelism(job, vertex_id):
        return "rescaled when more slots are free, unless a subtask has finished before"
    return ""


def decide_change(job: JobMaster, vertex_id: str, to_parallelism: int, reason: RescaleReason) -> list[LogEvent]:
    """Give a vertex another parallelism: at once if it has not begun, else as soon as it has ended."""
    vertex = job.execution_graph.vertices[vertex_id]
    if not vertex.has_begun:
        return [JobRescaled(job.job_id, vertex_id, vertex.parallelism, to_parallelism, reason, vertex.next_attempt)]
    scheduled = RescaleScheduled(job.job_id, vertex_id, vertex.parallelism, to_parallelism, reason)
    if job.status is JobStatus.RESTARTING:
        return [scheduled]
    return [scheduled, JobStatusChanged(job.job_id, job.status, JobStatus.RESTARTING)]


def decide_rescale_job(state: ClusterState, command: RescaleJob) -> list[LogEvent]:
    """Do what a user's command asks for, or say why not.

    An adaptive job that asks for more than there are slots keeps running as it is, and is rescaled when they come.
    """
    job, slots = state.dispatcher.jobs.get(command.job_id), state.slot_manager
    if job is None:
        return [state.dispatcher.unknown_job(command)]
    if refusal := _find_fault(job, command):
        return [rejected(command, *refusal)]
    vertex_id, wanted = command.vertex_id, command.parallelism
    vertex = job.execution_graph.vertices[vertex_id]
    events: list[LogEvent] = [accepted(command)]
    if (vertex.requested_parallelism or vertex.vertex.parallelism) != wanted:
        events.append(JobRescaleRequested(job.job_id, vertex_id, wanted, command.actor))
    more = wanted - vertex.parallelism
    waits = job.scheduler is SchedulerType.ADAPTIVE and vertex.has_begun and more > slots.available_for(vertex.vertex.resources, job.queue)
    if more and not (more > 0 and waits):
        events.extend(decide_change(job, vertex_id, wanted, RescaleReason.REQUESTED))
    return events


def _find_fault(job: JobMaster, command: RescaleJob) -> tuple[str, str] | None:
    """Return (code, message) of the first reason against a command."""
    if job.status not in RUNNING_JOB_STATUSES:
        has_ended = job.status in TERMINAL_JOB_STATUSES
        return "JobTerminated" if has_ended else "JobNotRunning", f"job '{job.job_id}' is {job.status}{' already' if has_ended else ''}"
    vertex = job.execution_graph.vertices.get(command.vertex_id)
    if vertex is None:
        return "UnknownVertex", f"vertex not found: '{command.vertex_id[:MAX_ID_LENGTH]}' in job '{job.job_id}'"
    graph = job.execution_graph
    bound = [each for name in graph.forward_group(command.vertex_id) if (each := graph.vertices[name].vertex).keeps_parallelism]
    if bound:
        keeper = vertex.vertex if vertex.vertex.keeps_parallelism else bound[0]
        code, what, kind, why = "StreamVertex", "is a stream", "a stream", "whose state is kept by subtask"
        if keeper.sources:
            code, what, kind, why = "SourceVertex", "has a source", "a vertex with a source", "of which each subtask reads all rows"
        if keeper.sink is not None:
            code, what, kind, why = "SinkVertex", "has a sink", "a vertex with a sink", "to which each subtask writes its part once"
        what = what if keeper is vertex.vertex else f"is bound by forward edges to {kind}"
        return code, f"vertex '{command.vertex_id}' {what}, {why}: its parallelism stays"
    if vertex.vertex.is_closing:
        return "ClosingVertex", f"vertex '{command.vertex_id}' runs at the end of its job, with the parallelism that its document says"
    if (edge := job.execution_graph.mapping_edges.get(command.vertex_id)) is not None:
        return "MappedVertex", f"vertex '{command.vertex_id}' has a subtask for each row of '{edge.source}': its parallelism stays"
    return _find_fault_of_vertex(job, vertex, command.parallelism)


def _find_fault_of_vertex(job: JobMaster, vertex: ExecutionVertex, parallelism: int) -> tuple[str, str] | None:
    vertex_id = vertex.vertex.vertex_id
    if job.reactive:
        return "ReactiveMode", f"job '{job.job_id}' is reactive: its vertices have as many subtasks as there are slots"
    highest = job.rescales.highest_parallelism(job.execution_graph, vertex_id)
    if not 1 <= parallelism <= highest:
        return "ParallelismOutOfRange", f"parallelism {parallelism} of vertex '{vertex_id}' is not between 1 and {highest}"
    if vertex.is_complete:
        code, what = ("VertexFinished", "has finished")
        if vertex.skip is not None:
            code, what = ("VertexSkipped", f"was skipped, for {vertex.skip.in_words()}")
        return code, f"vertex '{vertex_id}' of job '{job.job_id}' {what}"
    if vertex_id in job.rescales.pending:
        to_parallelism = job.rescales.pending[vertex_id].to_parallelism
        return "RescaleInProgress", f"vertex '{vertex_id}' is being rescaled to {to_parallelism}: its attempts have not ended yet"
    if job.execution_graph.others_have_begun(vertex_id):
        message = f"vertex '{vertex_id}' is bound by forward edges to others that have begun: all of them keep their parallelism"
        return "BoundByForwardEdges", message
    return None


def decide_rescales(job: JobMaster, now_ms: int, most: int) -> list[JobRescaled]:
    """Resize those vertices that were to end first and have."""
    events = []
    for vertex_id in islice(_resizable(job, now_ms), most):
        vertex, pending = job.execution_graph.vertices[vertex_id], job.rescales.pending[vertex_id]
        events.append(JobRescaled(job.job_id, vertex_id, vertex.parallelism, pending.to_parallelism, pending.reason, vertex.next_attempt))
    return events


def _resizable(job: JobMaster, now_ms: int) -> Iterator[str]:
    """Yield the vertices that are to be rescaled, and of which every attempt has ended and every delay is over."""
    for vertex_id in job.rescales.pending:
        subtasks = job.execution_graph.vertices[vertex_id].subtasks
        if all(
            s.state is ExecutionState.CREATED
            or (s.state in TERMINAL_EXECUTION_STATES and job.restarts.due.get((vertex_id, s.subtask_index), now_ms) <= now_ms)
            for s in subtasks
        ):
            yield vertex_id
