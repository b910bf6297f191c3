"""What the world is to be told once a decision is accepted, computed from its events and the state right after them.

Effects are idempotent and may be sent again: `unacknowledged` returns every deployment, cancellation, upload, clean-up and archive
that the state says nobody has confirmed yet, which a new leader sends first. Nothing here sends anything.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from eventflink.master.requests import NO_REPLY
from eventflink.model.attempts import AttemptId
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import DrillStepType, ExecutionState

if TYPE_CHECKING:
    from eventflink.master.master import Master


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
    """The leader is to fall, as a drill asked; a leader that comes after it is not."""

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
    """All workers that there are to be: what else the resource driver finds is an orphan, unless it was told of it meanwhile."""

    pending: tuple[RequestWorker, ...]
    registered: tuple[str, ...]


WorkerOrder = RequestWorker | StopWorker | WorkersWanted

Effect = Deployment | Reply | DeadLetterOrder | CleanUp | ArchiveJob | DrillOrder | WorkerOrder


def task_deployment(master: "Master", attempt: AttemptId) -> TaskDeployment:
    """Return the descriptor of an attempt that has a slot."""
    job = master.dispatcher.jobs[attempt.job_id]
    graph = job.execution_graph
    vertex = graph.vertices[attempt.vertex_id].vertex
    allocation_id = graph.vertices[attempt.vertex_id].subtasks[attempt.subtask_index].allocation_id
    inputs = tuple(TaskInput(e.input_name, e.ship, e.keys, graph.input_locations(e)) for e in graph.edges_to.get(attempt.vertex_id, ()))
    return TaskDeployment(
        *attempt,
        allocation_id=allocation_id,
        slot_index=master.slot_manager.allocations[allocation_id].slot_index,
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


def clean_up(master: "Master", job_id: str) -> CleanUp:
    """Return what to remove of an ended job: all but the outputs that no edge reads."""
    graph = master.dispatcher.jobs[job_id].execution_graph
    return CleanUp(job_id, tuple(result_locations(graph)))


def result_locations(graph: Any) -> Iterator[str]:
    """Yield where the results of a job are: the outputs that no edge of the graph reads."""
    read = {(e.source, e.output) for e in graph.graph.edges}
    for subtask in graph.subtasks():
        for output in subtask.outputs:
            if (subtask.vertex_id, output.output) not in read:
                yield output.location


def _task_deployed(master: "Master", event: TaskDeployed) -> Iterator[Effect]:
    attempt = AttemptId(event.job_id, event.vertex_id, event.subtask_index, event.attempt)
    allocation = master.slot_manager.allocations[event.allocation_id]
    yield Deployment(allocation.task_manager_id, allocation.instance_id, task_deployment(master, attempt))


def _task_cancellation_requested(master: "Master", event: TaskCancellationRequested) -> Iterator[Effect]:
    job = master.dispatcher.jobs[event.job_id]
    subtask = job.execution_graph.vertices[event.vertex_id].subtasks[event.subtask_index]
    allocation = master.slot_manager.allocations[subtask.allocation_id]
    attempt = (event.job_id, event.vertex_id, event.subtask_index, event.attempt)
    yield Deployment(allocation.task_manager_id, allocation.instance_id, TaskCancellation(*attempt, reason=event.reason))


def _task_manager_registered(master: "Master", event: TaskManagerRegistered) -> Iterator[Effect]:
    yield Deployment(event.task_manager_id, event.instance_id, RegistrationAccepted(master.blob_address))


def _instance_forgotten(master: "Master", event: TaskManagerLost | TaskManagerRegistrationRefused) -> Iterator[Effect]:
    stops = master.shutdown.is_under_way  # Then it is not to come back as a new instance.
    yield Deployment(event.task_manager_id, event.instance_id, StopTaskManager(event.reason) if stops else InstanceForgotten(event.reason))


def _application_status_recorded(master: "Master", _event: ApplicationStatusRecorded) -> Iterator[Effect]:
    yield from _stops(master)


def _stops(master: "Master") -> Iterator[Deployment]:
    """Yield the word to every TaskManager that the cluster is shut down."""
    for task_manager_id, task_manager in master.resource_manager.task_managers.items():
        yield Deployment(task_manager_id, task_manager.instance_id, StopTaskManager(REASON))


def _report_reconciled(_master: "Master", event: TaskManagerReportReconciled) -> Iterator[Effect]:
    for unknown in event.unknown:
        attempt = (unknown.job_id, unknown.vertex_id, unknown.subtask_index, unknown.attempt)
        cancellation = TaskCancellation(*attempt, reason="the master does not know this attempt as alive")
        yield Deployment(event.task_manager_id, event.instance_id, cancellation)


def _request_answered(_master: "Master", event: RequestAccepted | RequestRejected) -> Iterator[Effect]:
    if event.reply_partition != NO_REPLY:
        yield Reply(event.request_id, event.reply_partition, event)
    if isinstance(event, RequestRejected) and event.dead_letter:
        yield DeadLetterOrder(event.message)


def _request_repeated(master: "Master", event: RequestRepeated) -> Iterator[Effect]:
    answer = master.requests.answers.get(event.request_id)
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


def _file_upload_requested(_master: "Master", event: FileUploadRequested) -> Iterator[Effect]:
    attempt = (event.job_id, event.vertex_id, event.subtask_index, event.attempt)
    yield Deployment(event.task_manager_id, event.instance_id, FileUploadOrder(event.request_id, *attempt, file=event.file))


def _task_manager_file_upload_requested(_master: "Master", event: TaskManagerFileUploadRequested) -> Iterator[Effect]:
    yield Deployment(event.task_manager_id, event.instance_id, TaskManagerFileUploadOrder(event.request_id, event.file, event.name))


def _job_result_stored(master: "Master", event: JobResultStored) -> Iterator[Effect]:
    yield clean_up(master, event.job_id)


def _job_archive_requested(_master: "Master", event: JobArchiveRequested) -> Iterator[Effect]:
    yield ArchiveJob(event.job_id)


def _worker_requested(_master: "Master", event: WorkerRequested) -> Iterator[Effect]:
    yield RequestWorker(event.worker_id, event.slot_count, event.slot_profile)


def _worker_request_failed(_master: "Master", event: WorkerRequestFailed) -> Iterator[Effect]:
    yield StopWorker(event.worker_id)


def _task_manager_gone(master: "Master", event: TaskManagerReleased | TaskManagerDisconnected | TaskManagerLost) -> Iterator[Effect]:
    if event.task_manager_id in master.workers.given_up:  # A worker that came back at once, as a new instance, goes on.
        yield StopWorker(event.task_manager_id)


def _task_manager_lost(master: "Master", event: TaskManagerLost) -> Iterator[Effect]:
    yield from _instance_forgotten(master, event)
    yield from _task_manager_gone(master, event)


def workers_wanted(master: "Master") -> WorkersWanted:
    """Return all workers of a state."""
    workers = master.workers
    pending = tuple([RequestWorker(worker_id, w.slot_count, w.slot_profile) for worker_id, w in workers.pending.items()])
    return WorkersWanted(pending, tuple(workers.registered))


def _drill_step_ordered(_master: "Master", event: DrillStepOrdered) -> Iterator[Effect]:
    yield DrillOrder(event.step, event.duration_ms)


_EFFECTS: dict[type[Any], Callable[["Master", Any], Iterator[Effect]]] = {
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


def effects_of(master: "Master", events: Iterable[LogEvent]) -> list[Effect]:
    """Return the effects of events that were just applied to this state."""
    effects: list[Effect] = []
    for event in events:
        make = _EFFECTS.get(type(event))
        if make is not None:
            effects.extend(make(master, event))
    return effects


def replies_of(events: Iterable[LogEvent]) -> list[Reply]:
    """Return the first answers among the effects: what a new leader sends again of its predecessor's last decisions."""
    return [
        Reply(e.request_id, e.reply_partition, e)
        for e in events
        if (type(e) is RequestAccepted or type(e) is RequestRejected) and e.reply_partition != NO_REPLY
    ]


def _unacknowledged_tasks(master: "Master") -> Iterator[Deployment]:
    """Yield the deployments and cancellations."""
    for allocation in master.slot_manager.allocations.values():
        if allocation.orphaned:
            continue
        for attempt in allocation.attempts:
            job, subtask = master.job_and_subtask(attempt)
            if subtask.state is ExecutionState.DEPLOYING and (attempt.vertex_id, attempt.subtask_index) not in job.to_cancel:
                yield Deployment(allocation.task_manager_id, allocation.instance_id, task_deployment(master, attempt))
            elif subtask.state is ExecutionState.CANCELING:
                cancellation = TaskCancellation(*attempt, reason=job.cancellation_reason(attempt.vertex_id))
                yield Deployment(allocation.task_manager_id, allocation.instance_id, cancellation)


def unacknowledged(master: "Master") -> Iterator[Effect]:
    """Yield everything that nobody has confirmed yet."""
    yield from _unacknowledged_tasks(master)
    yield from _uploads_under_way(master)
    for job_id, dirty in master.dispatcher.dirty.items():
        if not dirty.retry_at_ms:
            yield clean_up(master, job_id)
    for job_id, pending in master.job_store.pending.items():
        if not pending.retry_at_ms:
            yield ArchiveJob(job_id)
    if master.worker_settings is not None:
        yield workers_wanted(master)
    if master.shutdown.stops_task_managers:
        yield from _stops(master)


def _uploads_under_way(master: "Master") -> Iterator[Effect]:
    for request_id, upload in master.dispatcher.uploads.items():
        order = FileUploadOrder(request_id, *upload.attempt, file=upload.file)
        yield Deployment(upload.task_manager_id, upload.instance_id, order)
    for request_id, wanted in master.task_manager_files.uploads.items():
        of_itself = TaskManagerFileUploadOrder(request_id, wanted.file, wanted.name)
        yield Deployment(wanted.task_manager_id, wanted.instance_id, of_itself)


def leader_changes(master: "Master", master_id: str) -> Iterator[Deployment]:
    """Yield the word to every TaskManager that there is a new leader."""
    for task_manager_id, task_manager in master.resource_manager.task_managers.items():
        yield Deployment(task_manager_id, task_manager.instance_id, LeaderChanged(master_id, master.blob_address))
