"""What is to be sent once a decision is accepted, computed from its events and the state right after them.

Effects are idempotent and may be sent again: `unacknowledged` returns every deployment, cancellation, upload, clean-up and archive
that is not confirmed by the state, which a new leader sends first. Nothing here sends anything.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from eventflink.events.effects import (
    DeploymentPayload,
    FileUploadOrder,
    InstanceForgotten,
    LeaderChanged,
    RegistrationAccepted,
    StopTaskManager,
    TaskCancellation,
    TaskDeployment,
    TaskInput,
    TaskManagerFileUploadOrder,
)
from eventflink.events.inputs import NO_REPLY
from eventflink.events.log_events import (
    ApplicationStatusRecorded,
    DrillStepOrdered,
    FileUploadRequested,
    JobArchiveRequested,
    JobResultStored,
    LogEvent,
    RequestAccepted,
    RequestRejected,
    RequestRepeated,
    TaskCancellationRequested,
    TaskDeployed,
    TaskManagerDisconnected,
    TaskManagerFileUploadRequested,
    TaskManagerLost,
    TaskManagerRegistered,
    TaskManagerRegistrationRefused,
    TaskManagerReleased,
    TaskManagerReportReconciled,
    WorkerRequested,
    WorkerRequestFailed,
)
from eventflink.master.cluster_shutdown import REASON
from eventflink.master.execution_graph import ExecutionGraph
from eventflink.master.master import Master
from eventflink.master.state import ClusterState
from eventflink.master.uploads import PendingUpload
from eventflink.model.attempts import AttemptId
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import DrillStepType, ExecutionState


@dataclass(slots=True)
class Deployment:
    """Something for one instance of one TaskManager, on `deployments`."""

    task_manager_id: str
    instance_id: str
    payload: DeploymentPayload


@dataclass(slots=True)
class Reply:
    """An answer for a client, on `replies`."""

    request_id: str
    reply_partition: int
    payload: RequestAccepted | RequestRejected


@dataclass(slots=True)
class DeadLetterOrder:
    """The input that the decision answers goes to `dead-letters`."""

    reason: str


@dataclass(slots=True)
class CleanUp:
    """The intermediate data of an ended job are to be removed; the results in `kept` stay."""

    job_id: str
    kept: tuple[str, ...]


@dataclass(slots=True)
class ArchiveJob:
    """The archive of an ended job is to be written; what goes into it is read from the accepted state then."""

    job_id: str


@dataclass(slots=True)
class DrillOrder:
    """A drill ends or freezes this leader; the leader after it is not affected."""

    step: DrillStepType
    duration_ms: int


@dataclass(frozen=True, slots=True)
class RequestWorker:
    """The resource driver is to start a worker, unless it has."""

    worker_id: str
    slot_count: int
    slot_profile: ResourceProfile | None


@dataclass(frozen=True, slots=True)
class StopWorker:
    """The resource driver is to stop a worker, and to keep nothing of it."""

    worker_id: str


@dataclass(frozen=True, slots=True)
class WorkersWanted:
    """All workers that are to exist: any other that the resource driver finds is an orphan, unless it was requested meanwhile."""

    pending: tuple[RequestWorker, ...]
    registered: tuple[str, ...]


WorkerOrder = RequestWorker | StopWorker | WorkersWanted

Effect = Deployment | Reply | DeadLetterOrder | CleanUp | ArchiveJob | DrillOrder | WorkerOrder


def task_deployment(state: ClusterState, attempt: AttemptId) -> TaskDeployment:
    """Return the descriptor of an attempt that has a slot."""
    job = state.dispatcher.jobs[attempt.job_id]
    graph = job.execution_graph
    vertex = graph.vertices[attempt.vertex_id].vertex
    allocation_id = graph.vertices[attempt.vertex_id].subtasks[attempt.subtask_index].allocation_id
    inputs = tuple(TaskInput(e.input_name, e.ship, e.keys, graph.input_locations(e)) for e in graph.edges_to.get(attempt.vertex_id, ()))
    return TaskDeployment(
        *attempt,
        allocation_id=allocation_id,
        slot_index=state.slot_manager.allocations[allocation_id].slot_index,
        job_name=graph.graph.name,
        task_type=vertex.task_type,
        task=vertex.task,
        parallelism=graph.vertices[attempt.vertex_id].parallelism,
        max_parallelism=vertex.max_parallelism,
        parameters_json=vertex.parameters_json,
        inputs=inputs,
        outputs=tuple(dict.fromkeys(e.output for e in graph.edges_from.get(attempt.vertex_id, ()))),
        code_archives=graph.graph.code_archives,
    )


def clean_up(state: ClusterState, job_id: str) -> CleanUp:
    """Return what to remove of an ended job: all but the outputs that no edge reads."""
    graph = state.dispatcher.jobs[job_id].execution_graph
    return CleanUp(job_id, tuple(result_locations(graph)))


def result_locations(graph: ExecutionGraph) -> Iterator[str]:
    """Yield where the results of a job are: the outputs that no edge of the graph reads."""
    read = {(e.source, e.output) for e in graph.graph.edges}
    for subtask in graph.subtasks():
        for output in subtask.outputs:
            if (subtask.vertex_id, output.output) not in read:
                yield output.location


def _task_deployed(state: ClusterState, event: TaskDeployed) -> Iterator[Effect]:
    attempt = AttemptId(event.job_id, event.vertex_id, event.subtask_index, event.attempt)
    allocation = state.slot_manager.allocations[event.allocation_id]
    yield Deployment(allocation.task_manager_id, allocation.instance_id, task_deployment(state, attempt))


def _task_cancellation_requested(state: ClusterState, event: TaskCancellationRequested) -> Iterator[Effect]:
    job = state.dispatcher.jobs[event.job_id]
    subtask = job.execution_graph.vertices[event.vertex_id].subtasks[event.subtask_index]
    allocation = state.slot_manager.allocations[subtask.allocation_id]
    attempt = (event.job_id, event.vertex_id, event.subtask_index, event.attempt)
    yield Deployment(allocation.task_manager_id, allocation.instance_id, TaskCancellation(*attempt, reason=event.reason))


def _task_manager_registered(state: ClusterState, event: TaskManagerRegistered) -> Iterator[Effect]:
    yield Deployment(event.task_manager_id, event.instance_id, RegistrationAccepted(state.leader.blob_address))


def _instance_forgotten(state: ClusterState, event: TaskManagerLost | TaskManagerRegistrationRefused) -> Iterator[Effect]:
    stops = state.shutdown.is_under_way  # Then it is not to come back as a new instance.
    yield Deployment(event.task_manager_id, event.instance_id, StopTaskManager(event.reason) if stops else InstanceForgotten(event.reason))


def _application_status_recorded(state: ClusterState, _event: ApplicationStatusRecorded) -> Iterator[Effect]:
    yield from _stops(state)


def _stops(state: ClusterState) -> Iterator[Deployment]:
    """Yield the order to stop for every TaskManager, as the cluster is shut down."""
    for task_manager_id, task_manager in state.resource_manager.task_managers.items():
        yield Deployment(task_manager_id, task_manager.instance_id, StopTaskManager(REASON))


def _report_reconciled(_state: ClusterState, event: TaskManagerReportReconciled) -> Iterator[Effect]:
    for unknown in event.unknown:
        attempt = (unknown.job_id, unknown.vertex_id, unknown.subtask_index, unknown.attempt)
        cancellation = TaskCancellation(*attempt, reason="the master does not know this attempt as alive")
        yield Deployment(event.task_manager_id, event.instance_id, cancellation)


def _request_answered(_state: ClusterState, event: RequestAccepted | RequestRejected) -> Iterator[Effect]:
    if event.reply_partition != NO_REPLY:
        yield Reply(event.request_id, event.reply_partition, event)
    if isinstance(event, RequestRejected) and event.dead_letter:
        yield DeadLetterOrder(event.message)


def _request_repeated(state: ClusterState, event: RequestRepeated) -> Iterator[Effect]:
    answer = state.requests.answers.get(event.request_id)
    if answer is None or event.reply_partition == NO_REPLY:
        return
    payload: RequestAccepted | RequestRejected = RequestAccepted(
        request_id=event.request_id, reply_partition=event.reply_partition, subject=answer.subject
    )
    if not answer.accepted:
        payload = RequestRejected(
            request_id=event.request_id,
            reply_partition=event.reply_partition,
            subject=answer.subject,
            code=answer.code,
            message=answer.message,
            dead_letter=False,
        )
    yield Reply(event.request_id, event.reply_partition, payload)


def _file_upload_requested(_state: ClusterState, event: FileUploadRequested) -> Iterator[Effect]:
    attempt = (event.job_id, event.vertex_id, event.subtask_index, event.attempt)
    yield Deployment(event.task_manager_id, event.instance_id, FileUploadOrder(event.request_id, *attempt, file=event.file))


def _task_manager_file_upload_requested(_state: ClusterState, event: TaskManagerFileUploadRequested) -> Iterator[Effect]:
    yield Deployment(event.task_manager_id, event.instance_id, TaskManagerFileUploadOrder(event.request_id, event.file, event.name))


def _job_result_stored(state: ClusterState, event: JobResultStored) -> Iterator[Effect]:
    yield clean_up(state, event.job_id)


def _job_archive_requested(_state: ClusterState, event: JobArchiveRequested) -> Iterator[Effect]:
    yield ArchiveJob(event.job_id)


def _worker_requested(_state: ClusterState, event: WorkerRequested) -> Iterator[Effect]:
    yield RequestWorker(event.worker_id, event.slot_count, event.slot_profile)


def _worker_request_failed(_state: ClusterState, event: WorkerRequestFailed) -> Iterator[Effect]:
    yield StopWorker(event.worker_id)


def _task_manager_gone(state: ClusterState, event: TaskManagerReleased | TaskManagerDisconnected | TaskManagerLost) -> Iterator[Effect]:
    if event.task_manager_id in state.workers.given_up:  # A worker that registered again at once, as a new instance, is kept.
        yield StopWorker(event.task_manager_id)


def _task_manager_lost(state: ClusterState, event: TaskManagerLost) -> Iterator[Effect]:
    yield from _instance_forgotten(state, event)
    yield from _task_manager_gone(state, event)


def workers_wanted(state: ClusterState) -> WorkersWanted:
    """Return all workers of a state."""
    workers = state.workers
    pending = tuple([RequestWorker(worker_id, w.slot_count, w.slot_profile) for worker_id, w in workers.pending.items()])
    return WorkersWanted(pending, tuple(workers.registered))


def _drill_step_ordered(_state: ClusterState, event: DrillStepOrdered) -> Iterator[Effect]:
    yield DrillOrder(event.step, event.duration_ms)


_EFFECTS: dict[type[Any], Callable[[ClusterState, Any], Iterator[Effect]]] = {
    TaskDeployed: _task_deployed,
    TaskCancellationRequested: _task_cancellation_requested,
    TaskManagerRegistered: _task_manager_registered,
    TaskManagerLost: _task_manager_lost,
    TaskManagerDisconnected: _task_manager_gone,
    TaskManagerReleased: _task_manager_gone,
    TaskManagerRegistrationRefused: _instance_forgotten,
    TaskManagerReportReconciled: _report_reconciled,
    RequestAccepted: _request_answered,
    RequestRejected: _request_answered,
    RequestRepeated: _request_repeated,
    FileUploadRequested: _file_upload_requested,
    TaskManagerFileUploadRequested: _task_manager_file_upload_requested,
    JobResultStored: _job_result_stored,
    JobArchiveRequested: _job_archive_requested,
    DrillStepOrdered: _drill_step_ordered,
    WorkerRequested: _worker_requested,
    WorkerRequestFailed: _worker_request_failed,
    ApplicationStatusRecorded: _application_status_recorded,
}


def effects_of(state: ClusterState, events: Iterable[LogEvent]) -> list[Effect]:
    """Return the effects of events that were just applied to this state."""
    effects: list[Effect] = []
    for event in events:
        make = _EFFECTS.get(type(event))
        if make is not None:
            effects.extend(make(state, event))
    return effects


def replies_of(events: Iterable[LogEvent]) -> list[Reply]:
    """Return the first answers among the effects: what a new leader resends of its predecessor's last decisions."""
    return [
        Reply(e.request_id, e.reply_partition, e)
        for e in events
        if (type(e) is RequestAccepted or type(e) is RequestRejected) and e.reply_partition != NO_REPLY
    ]


def _unacknowledged_tasks(state: ClusterState) -> Iterator[Deployment]:
    """Yield the deployments and cancellations."""
    for allocation in state.slot_manager.allocations.values():
        if allocation.orphaned:
            continue
        for attempt in allocation.attempts:
            job, subtask = state.job_and_subtask(attempt)
            if subtask.state is ExecutionState.DEPLOYING and (attempt.vertex_id, attempt.subtask_index) not in job.to_cancel:
                yield Deployment(allocation.task_manager_id, allocation.instance_id, task_deployment(state, attempt))
            elif subtask.state is ExecutionState.CANCELING:
                cancellation = TaskCancellation(*attempt, reason=job.cancellation_reason(attempt.vertex_id))
                yield Deployment(allocation.task_manager_id, allocation.instance_id, cancellation)


def unacknowledged(state: Master) -> Iterator[Effect]:
    """Yield every effect that is not confirmed yet."""
    yield from _unacknowledged_tasks(state)
    yield from _uploads_under_way(state)
    for job_id, dirty in state.dispatcher.dirty.items():
        if not dirty.retry_at_ms:
            yield clean_up(state, job_id)
    for job_id, pending in state.job_store.pending.items():
        if not pending.retry_at_ms:
            yield ArchiveJob(job_id)
    if state.settings.workers is not None:
        yield workers_wanted(state)
    if state.shutdown.stops_task_managers:
        yield from _stops(state)


def _uploads_under_way(state: ClusterState) -> Iterator[Effect]:
    for request_id, upload in state.uploads.pending.items():
        order: DeploymentPayload
        if isinstance(upload, PendingUpload):
            order = FileUploadOrder(request_id, *upload.attempt, file=upload.file)
        else:
            order = TaskManagerFileUploadOrder(request_id, upload.file, upload.name)
        yield Deployment(upload.task_manager_id, upload.instance_id, order)


def due_clean_ups(state: ClusterState, now_ms: int) -> list[CleanUp]:
    """Return the failed clean-ups whose back-off is over."""
    return [clean_up(state, job_id) for job_id, job in state.dispatcher.dirty.items() if 0 < job.retry_at_ms <= now_ms]


def due_archives(state: ClusterState, now_ms: int) -> list[ArchiveJob]:
    """Return the archives that could not be written at first, and whose back-off is over."""
    return [ArchiveJob(job_id) for job_id in state.job_store.due(now_ms)]


def leader_changes(state: ClusterState, master_id: str) -> Iterator[Deployment]:
    """Yield the message to every TaskManager that there is a new leader."""
    for task_manager_id, task_manager in state.resource_manager.task_managers.items():
        yield Deployment(task_manager_id, task_manager.instance_id, LeaderChanged(master_id, state.leader.blob_address))
