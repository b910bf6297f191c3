"""The accepted state as queries show it: documents, from which tables are then drawn.

A view is computed at once and shares nothing with the state, which keeps changing. Times are ISO 8601 in UTC; durations are
milliseconds of the log's time, so that two readers see the same.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from eventflink.documents.cluster import ClusterStatus, KnownWorkers, LogPosition, PendingWorkerRow, Shutdown
from eventflink.documents.failures import FailureOfJob
from eventflink.documents.jobs import JobList, JobRow
from eventflink.documents.one_job import (
    AttemptInfo,
    ClosingOfJob,
    JobInfo,
    ReuseOfVertex,
    SlotRequirement,
    SubtaskInfo,
    VertexInfo,
    WaitingRequests,
)
from eventflink.documents.task_managers import BlockedTaskManagerRow, TaskManagerRow
from eventflink.leadership.fold import Fold
from eventflink.master import workers
from eventflink.master.cluster_shutdown import ClusterShutdown
from eventflink.master.execution_graph import Execution, ExecutionVertex, Subtask
from eventflink.master.job_master import JobMaster
from eventflink.master.master import Master
from eventflink.master.rescaling import describe_parallelism, wanted_parallelism
from eventflink.master.slot_manager import SlotManager
from eventflink.model.closing import runs_in_words, runs_note
from eventflink.model.job_about import has_labels, labels_of, links_of
from eventflink.model.job_graph import JobVertex
from eventflink.model.job_parameters import shown_values
from eventflink.model.reuse import LOST, VertexReuse
from eventflink.model.secret_values import without_secrets
from eventflink.model.statuses import TERMINAL_EXECUTION_STATES, TERMINAL_JOB_STATUSES, ExecutionState, JobStatus
from eventflink.views.accumulators import accumulators_view
from eventflink.views.definitions import definition_digest_of
from eventflink.views.exceptions import exceptions_view
from eventflink.views.failures import run_again_by
from eventflink.views.pages.parked import parked_rows
from eventflink.views.plain import iso_time
from eventflink.views.queues import queue_rows
from eventflink.views.waits import Waits

MAX_SHOWN_EXCEPTIONS: Final = 3
"""With a job; `exceptions_view` shows the others."""


class JobNotFound(Exception):
    """There is no such job in memory, or more than one that the id could mean; the message says which."""

    def __init__(self, message: str, job_id: str = "", archive_digest: str | None = None) -> None:
        """Keep the whole id, where one is meant, and the digest of its archive; "": it has none, None: nothing is known of one."""
        super().__init__(message)
        self.job_id = job_id
        self.archive_digest = archive_digest


class VertexNotFound(JobNotFound):
    """A job has no such vertex; its archive would not know of it either."""

    def __init__(self, message: str) -> None:
        super().__init__(message, archive_digest="")


def not_in_memory(fold: Fold, job_id: str) -> JobNotFound:
    """Return the error for a job that the state does not hold: it may have ended, and have an archive."""
    forgotten = fold.master.dispatcher.forgotten.get(job_id)
    if forgotten is None:
        return JobNotFound(f"job not found: '{job_id}'", job_id)
    archive = "" if forgotten.archive_digest else ", and it has no archive"
    message = f"job not found: '{job_id}'; it ended and was evicted from memory{archive}"
    return JobNotFound(message, job_id, forgotten.archive_digest)


def find_job(fold: Fold, job_id: str) -> JobMaster:
    """Return a job by its id, or by the beginning of it where that is clear.

    Raises:
        JobNotFound: there is none, or more than one.

    """
    jobs = fold.master.dispatcher.jobs
    if job_id in jobs:
        return jobs[job_id]
    fitting = [known for known in jobs if known.startswith(job_id)] if job_id else []
    if len(fitting) == 1:
        return jobs[fitting[0]]
    if fitting:
        raise JobNotFound(f"'{job_id}' is ambiguous: {len(fitting)} job ids begin with it, such as {', '.join(sorted(fitting)[:5])}")
    raise not_in_memory(fold, job_id)


def job_row(job: JobMaster, now_ms: int) -> JobRow:
    """Return one job as `list` shows it; `now_ms` is where the log's time stands."""
    return JobRow(**row_fields(job, now_ms))


def row_fields(job: JobMaster, now_ms: int) -> dict[str, Any]:
    """Return the fields of a job's row by name, for whatever documents have them as well."""
    vertices, about = job.execution_graph.vertices.values(), job.execution_graph.graph.about
    states = job.execution_graph.state_counts()
    return {
        "job_id": job.job_id,
        "name": job.execution_graph.graph.name,
        "status": job.status,
        "scheduler": job.scheduler,
        "has_streams": job.checkpoints is not None,
        "tasks": states.total(),
        "tasks_finished": sum(len(vertex.subtasks) - vertex.unfinished_subtasks for vertex in vertices),
        "tasks_by_state": dict(states),
        "restarts": job.restarts.count,
        "submitted_at": iso_time(job.submitted_at_ms) or "",
        "ended_at": iso_time(job.ended_at_ms),
        "status_since": iso_time(job.status_since_ms) or "",
        "duration_ms": (job.ended_at_ms or max(now_ms, job.submitted_at_ms)) - job.submitted_at_ms,
        "actor": job.actor,
        "owner": without_secrets("owner", about.owner) if about is not None else "",
        "labels": without_secrets("", labels_of(about)),
        "queue": job.queue,
        "rerun_of": job.rerun_of or None,
        "schedule_id": job.scheduled.schedule_id if job.scheduled is not None else None,
        "instant": iso_time(job.scheduled.instant_ms) if job.scheduled is not None else None,
        "after_job_id": (job.scheduled.after_job_id or None) if job.scheduled is not None else None,
        "failure_is_dismissed": job.failure_is_dismissed,
    }


def jobs_view(fold: Fold, statuses: Collection[str], limit: int, labels: Collection[str] = (), queues: Collection[str] = ()) -> JobList:
    """Return the newest `limit` jobs with one of these statuses (none: any), these labels and one of these queues (none: any).

    The newest is the last one; with them comes how many there are.
    """
    jobs = [job for job in fold.master.dispatcher.jobs.values() if not statuses or job.status in statuses]
    if queues:
        jobs = [job for job in jobs if job.queue in queues]
    if labels:
        jobs = [job for job in jobs if has_labels(job.execution_graph.graph.about, labels)]
    return JobList(jobs=[job_row(job, fold.last_decided_at_ms) for job in jobs[-limit:]], total=len(jobs))


def job_view(fold: Fold, job_id: str) -> JobInfo:
    """Return one job with its vertices and tasks, and what it waits for; raises as `find_job` does."""
    job, slots = find_job(fold, job_id), fold.master.slot_manager
    graph = job.execution_graph
    vertices = [
        VertexInfo(**vertex_fields(each, job, slots), subtasks=[subtask_view(subtask, job) for subtask in each.subtasks])
        for each in graph.vertices.values()
    ]
    return JobInfo(**head_fields(fold, job), exceptions=newest_exceptions(job), edges=list(graph.graph.edges), vertices=vertices)


def newest_exceptions(job: JobMaster) -> list[FailureOfJob]:
    """Return the failures that are shown with a job."""
    return exceptions_view(job, MAX_SHOWN_EXCEPTIONS).exceptions


def head_fields(fold: Fold, job: JobMaster) -> dict[str, Any]:
    """Return the fields of `JobHead` by name, for the documents that say more of one."""
    about = job.execution_graph.graph.about
    return row_fields(job, fold.last_decided_at_ms) | {
        "run_again_by": run_again_by(fold.master.dispatcher.jobs.values()).get(job.job_id),
        "status_times": {status: iso_time(at_ms) for status, at_ms in job.status_times_ms.items()},
        "cause": job.cause,
        "slot_requests": _waiting_requests(fold.master, job.job_id),
        "slot_requirements": slot_requirements_view(fold.master.slot_manager, job),
        "restart_strategy": job.restarts.strategy,
        "failover_strategy": job.restarts.failover_strategy,
        "reactive": job.reactive,
        "outputs_kept_until": iso_time(fold.master.dispatcher.kept.get(job.job_id, 0)),
        "job_master_id": job.job_master_id,
        "graph_digest": job.graph_digest,
        "definition_digest": definition_digest_of(job),
        "parameters": shown_values(job.execution_graph.graph.parameters),
        "description": without_secrets("description", about.description) if about is not None else "",
        "links": without_secrets("", links_of(about)),
        "exceptions_total": job.exceptions.root_count,
        "time_limit_ms": job.execution_graph.graph.time_limit_ms,
        "fails_at": iso_time(job.fails_at_ms or 0),
        "priority": job.execution_graph.graph.priority,
        "suspended_because": (job.suspension.reason or None) if job.status is JobStatus.SUSPENDED else None,
        "closing": closing_view(job),
    }


def closing_view(job: JobMaster) -> ClosingOfJob | None:
    """Return the time in which the closing vertices of a job run; None: it has not begun."""
    if (closing := job.closing) is None:
        return None
    return ClosingOfJob(
        outcome=closing.outcome.status,
        began_at=iso_time(closing.began_at_ms),
        ends_at=iso_time(closing.ends_at_ms),
        abort_reason=closing.abort_reason or None,
    )


def _waiting_requests(master: Master, job_id: str) -> list[WaitingRequests]:
    """Return the slot requests of a job that wait, by what they ask for, with the reason that it was told."""
    slots, waits, queue = master.slot_manager, Waits(master), master.dispatcher.jobs[job_id].queue
    return [
        WaitingRequests(
            resources=str(profile) if profile is not None else None,
            requests=slots.get_number_pending_slot_requests_of(job_id, profile),
            reason=slots.deferrals.reason_of(job_id, profile),
            why=waits.requests_for(profile, queue).describe_for(job_id),
        )
        for profile in sorted(slots.queues.profiles_of(job_id), key=str)
    ]


def vertex_fields(vertex: ExecutionVertex, job: JobMaster, slots: SlotManager) -> dict[str, Any]:
    """Return the fields of `VertexOfJob` by name, for the documents that say more of one."""
    vertex_id, stream = vertex.vertex.vertex_id, vertex.vertex.stream
    return {
        "vertex_id": vertex_id,
        "name": " -> ".join([vertex_id, *(operator.operator_id for operator in stream.chained)]) if stream else vertex_id,
        "type": vertex.vertex.task_type,
        "stream": stream is not None,
        "parallelism": vertex.parallelism,
        "wanted_parallelism": wanted_parallelism(job, vertex_id),
        "parallelism_note": describe_parallelism(job, vertex_id, slots) or None,
        "max_parallelism": vertex.vertex.max_parallelism,
        "slot_sharing_group": vertex.vertex.slot_sharing_group,
        "states": dict(vertex.state_counts),
        "time_limit_ms": vertex.vertex.time_limit_ms,
        "engine": job.execution_graph.graph.engine_of(vertex.vertex) or None,
        "runs": runs_in_words(vertex.vertex.runs) if vertex.vertex.is_closing else None,
        "runs_note": runs_note(vertex.vertex, job.execution_graph.outcome),
        "condition": vertex.vertex.condition,
        "skipped": vertex.skip.in_words() if vertex.skip is not None else None,
        "reuse": reuse_of(job, vertex_id),
        "writes_to": _sinks_of(vertex.vertex),
    }


def _sinks_of(vertex: JobVertex) -> list[str]:
    sinks = [vertex.sink] if vertex.sink is not None else vertex.stream.sinks if vertex.stream is not None else ()
    return [str(without_secrets("", each.in_words())) for each in sinks]


def reuse_of(job: JobMaster, vertex_id: str) -> ReuseOfVertex | None:
    """Return whether a vertex of a job is reused from the one that it runs again, and why; None: nothing is to be reused in this job."""
    reuse = job.reuse.get(vertex_id)
    return reuse_view(reuse, job.rerun_of, still=job.execution_graph.vertices[vertex_id].is_reused) if reuse is not None else None


def reuse_view(reuse: VertexReuse, job_id: str, *, still: bool = True) -> ReuseOfVertex:
    """Return whether a vertex is reused from the job that runs again, and why; `still`: nothing has made it run since."""
    if reuse.is_reused and not still:
        return ReuseOfVertex(is_reused=False, reason=reuse.reason, why=LOST)
    return ReuseOfVertex(is_reused=reuse.is_reused, reason=reuse.reason, why=reuse.in_words(job_id))


def subtask_view(subtask: Subtask, job: JobMaster) -> SubtaskInfo:
    """Return a subtask with the attempts that are remembered."""
    execution = subtask.execution
    return SubtaskInfo(
        subtask_index=subtask.subtask_index,
        attempt=subtask.attempt,
        state=job.execution_graph.vertices[subtask.vertex_id].state_of(subtask),
        task_manager_id=(execution.task_manager_id if execution is not None else "") or None,
        restart_at=iso_time(job.restarts.due.get(subtask.key, 0)),
        attempts=[AttemptInfo(**attempt_fields(each, subtask.state)) for each in subtask.executions],
        outputs={each.output: each for each in subtask.outputs},
        last_failure=subtask.last_failure,
    )


def attempt_fields(execution: Execution, state: ExecutionState) -> dict[str, Any]:
    """Return the fields of `AttemptInfo` by name, of one that has left CREATED; `state` is where it stands if it lives."""
    return {
        "attempt": execution.attempt,
        "state": execution.end_state or state,
        "task_manager_id": execution.task_manager_id or None,
        "instance_id": execution.instance_id or None,
        "scheduled_at": iso_time(execution.scheduled_at_ms),
        "deployed_at": iso_time(execution.deployed_at_ms),
        "running_at": iso_time(execution.running_at_ms),
        "ended_at": iso_time(execution.ended_at_ms),
        "io": execution.io,
        "accumulators": accumulators_view(execution.accumulators),
        "reused_from": execution.reused_from or None,
    }


def position_view(fold: Fold) -> LogPosition:
    """Return where the fold stands in the log."""
    return LogPosition(**_position_fields(fold))


def _position_fields(fold: Fold) -> dict[str, Any]:
    return {
        "epoch": fold.acceptance.epoch,
        "leader_id": fold.acceptance.leader_id,
        "log_offset": fold.last_offset,
        "decisions_accepted": fold.accepted_count,
        "decisions_rejected": fold.rejected_count,
        "last_decision_at": iso_time(fold.last_decided_at_ms),
    }


def _workers_view(known: workers.Workers) -> KnownWorkers:
    """Return the workers that the resource driver was asked for and that have not registered, and how the last request failed."""
    return KnownWorkers(
        pending=[
            PendingWorkerRow(
                worker_id=worker_id,
                slots=worker.slot_count,
                slot_profile=str(worker.slot_profile) if worker.slot_profile is not None else None,
                requested_at=iso_time(worker.requested_at_ms),
            )
            for worker_id, worker in known.pending.items()
        ],
        registered=list(known.registered),
        last_failure=known.last_failure or None,
        retry_at=iso_time(known.retry_at_ms),
    )


def shutdown_view(shutdown: ClusterShutdown) -> Shutdown | None:
    """Return how far the end of the cluster has come; None: nobody asked for it."""
    request = shutdown.request
    if request is None:
        return None
    return Shutdown(
        application_status=request.application_status,
        diagnostics=request.diagnostics,
        cancel_jobs=request.cancel_jobs,
        actor=request.actor,
        requested_at=iso_time(request.requested_at_ms),
        status_recorded_at=iso_time(request.recorded_at_ms),
        is_over=shutdown.is_over,
    )


def blocked_view(fold: Fold) -> list[BlockedTaskManagerRow]:
    """Return the TaskManagers that get no new slots to fill, registered or not."""
    return [
        BlockedTaskManagerRow(
            task_manager_id=task_manager_id,
            reason=blocked.reason,
            until=iso_time(blocked.until_ms),
            since=iso_time(blocked.blocked_at_ms),
            actor=blocked.actor,
        )
        for task_manager_id, blocked in fold.master.blocklist.task_managers.items()
    ]


def cluster_view(fold: Fold) -> ClusterStatus:
    """Return the cluster as `status` shows it."""
    master = fold.master
    jobs = master.dispatcher.jobs.values()
    return ClusterStatus(
        **_position_fields(fold),
        jobs=dict(Counter(job.status for job in jobs)),
        jobs_live=sum(job.status not in TERMINAL_JOB_STATUSES for job in jobs),
        slots=master.slot_manager.get_number_registered_slots(),
        slots_free=master.slot_manager.get_number_free_slots(),
        slots_pending=master.slot_manager.get_number_pending_task_manager_slots(),
        slot_requests=master.slot_manager.get_number_pending_slot_requests(),
        workers=_workers_view(master.workers),
        shutdown=shutdown_view(master.shutdown),
        blocked=blocked_view(fold),
        parked=parked_rows(fold),
        queues=queue_rows(master.slot_manager),
        task_managers=[
            TaskManagerRow(
                task_manager_id=task_manager_id,
                instance_id=task_manager.instance_id,
                host=task_manager.host,
                process_id=task_manager.process_id,
                slots=task_manager.slot_count,
                slots_free=master.slot_manager.get_number_free_slots_of(task_manager_id),
                slot_profile=str(task_manager.slot_profile) if task_manager.slot_profile is not None else None,
                blocked=task_manager_id in master.blocklist.task_managers,
                ready=master.slot_manager.task_managers[task_manager_id].ready,
                registered_at=iso_time(task_manager.registered_at_ms) or "",
            )
            for task_manager_id, task_manager in master.resource_manager.task_managers.items()
        ],
    )


@dataclass(slots=True)
class _Counts:
    """What the scheduled subtasks of a group, or of all vertices with slots of their own, add up to."""

    by_vertex: Counter[str] = field(default_factory=Counter)
    held: set[str] = field(default_factory=set)
    requested: int = 0


def slot_requirements_view(slots: SlotManager, job: JobMaster) -> list[SlotRequirement]:
    """Return how many slots a job requires, holds and waits for, by slot sharing group and by what they have to have.

    It is computed when somebody asks; Flink's JobMaster declares the same to its ResourceManager, which here needs no telling. What is
    required is for the tasks that are scheduled now: those whose inputs are not complete need no slot yet. A group requires as many slots
    as its widest vertex has subtasks scheduled.
    """
    graph = job.execution_graph
    found: dict[tuple[str, str], _Counts] = {}
    for subtask in _scheduled(job):
        profile = graph.slot_profile_of(subtask.vertex_id)
        key = (graph.group_of(subtask), str(profile) if profile is not None else "")
        if (counts := found.get(key)) is None:
            counts = found[key] = _Counts()
        counts.by_vertex[subtask.vertex_id] += 1
        if subtask.allocation_id in slots.pending:
            counts.requested += 1
        elif subtask.allocation_id in slots.allocations:
            counts.held.add(subtask.allocation_id)
    return [
        SlotRequirement(
            slot_sharing_group=group or None,
            resources=profile or None,
            required=max(counts.by_vertex.values()) if group else sum(counts.by_vertex.values()),
            held=len(counts.held),
            requested=counts.requested,
        )
        for (group, profile), counts in sorted(found.items())
    ]


def _scheduled(job: JobMaster) -> Iterator[Subtask]:
    """Yield the subtasks that need a slot now."""
    for subtask in job.execution_graph.subtasks():
        if subtask.state is not ExecutionState.CREATED and subtask.state not in TERMINAL_EXECUTION_STATES:
            yield subtask
