"""What the world is to be told: `effects_of` after a decision, and `unacknowledged` again until the state confirms it.

An event names what an effect is about, and the state says what it is: what is resent is made where the first one was. Only what the
state does not hold (a refusal, an attempt that nobody expects, the step of a drill) does the event say itself; it is not resent.
Receivers are idempotent. Nothing here sends anything.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from eventflink.events import log_events as e
from eventflink.events.effects import (
    CheckpointOrder,
    DeploymentPayload,
    EarlierAttempt,
    FileUploadOrder,
    FinishStream,
    InstanceForgotten,
    LeaderChanged,
    RegistrationAccepted,
    ResumeStream,
    SavepointOrder,
    SavepointStream,
    StopTaskManager,
    StreamRestore,
    TaskCancellation,
    TaskDeployment,
    TaskInput,
    TaskManagerFileUploadOrder,
    describe_task,
)
from eventflink.events.inputs import NO_REPLY
from eventflink.events.log_events import LogEvent, RequestAccepted, RequestRejected
from eventflink.events.topics import MAX_DEPLOYMENT_PARTITIONS
from eventflink.master.checkpoints import streams_of
from eventflink.master.cluster_shutdown import REASON
from eventflink.master.execution_graph import MAX_REMEMBERED_ATTEMPTS, Execution, ExecutionGraph, ExecutionVertex, Subtask
from eventflink.master.job_master import JobMaster
from eventflink.master.master import Master
from eventflink.master.state import ClusterState
from eventflink.master.uploads import PendingUpload
from eventflink.master.workers import PendingWorker
from eventflink.model.attempts import AttemptId
from eventflink.model.pipelined_edges import edge_location, stream_with_edges
from eventflink.model.resources import ResourceProfile
from eventflink.model.schedules import FollowedTable, TableVersion
from eventflink.model.statuses import CheckpointRetention, DrillStepType, ExecutionState, InstantOrigin, JobStatus, TopicBegin

TASK_MANAGERS_PER_PARTITION: Final = 64
"""So many may share a partition of `deployments`, on average: Kafka delivers each order to all of them."""

_GROWTH: Final = 2
"""So many times the partitions that are needed are made: a fleet that grows by one more needs no more for a long time."""


@dataclass(slots=True)
class Deployment:
    """Something for one instance of one TaskManager, on `deployments`; with empty ids for all who read the partition."""

    task_manager_id: str
    instance_id: str
    payload: DeploymentPayload
    partition: int = 0
    """Which one the instance reads."""


@dataclass(slots=True)
class Reply:
    """An answer for a client, on `replies`."""

    request_id: str
    reply_partition: int
    payload: RequestAccepted | RequestRejected


@dataclass(slots=True)
class DeadLetterOrder:
    """A record that is refused goes to `dead-letters`: which one, the leader says that has it, and no event does."""

    reason: str
    topic: str = ""
    offset: int = -1
    key: bytes | None = None
    value: bytes | None = None


@dataclass(slots=True)
class CleanUp:
    """The intermediate data of an ended job are to be removed; the results in `kept` stay."""

    job_id: str
    kept: tuple[str, ...]
    edges: tuple[str, ...] = ()
    """The pipelined edges of the job, whose topics are to be removed."""


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
class CursorWatch:
    """A schedule that would start a job for records behind its cursor."""

    schedule_id: str
    topic: str
    topic_id: str
    """Empty: the cursor does not stand anywhere yet."""
    offsets: Mapping[int, int]
    """The cursor, by partition; the state's own, and valid until the next event."""
    since_ms: int | None = None
    """Ask for the first records that are not older than this; None: it does not matter how old they are."""


@dataclass(frozen=True, slots=True)
class TableWatch:
    """A schedule that would start a job for versions of a table behind its cursor."""

    schedule_id: str
    table: FollowedTable
    table_id: str
    """Empty: the cursor does not stand anywhere yet."""
    cursor: TableVersion | None
    since_ms: int | None = None
    """Begin with the first version that is not older than this; None: with the first one."""
    fault: str = ""
    """Why the table could not be seen, as the state has it; empty: it could."""


@dataclass(frozen=True, slots=True)
class FileWatch:
    """An instant of a schedule that waits for a file."""

    schedule_id: str
    instant_ms: int
    file: str
    is_over: bool = False
    """Whether its time is over: it is looked for once more."""


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


def effects_of(state: ClusterState, events: Iterable[LogEvent]) -> list[Effect]:
    """Return the effects of events that were just applied to this state."""
    return [effect for event in events for effect in _effects_of(state, event)]


def _effects_of(state: ClusterState, event: LogEvent) -> Iterator[Effect]:  # noqa: C901, PLR0912 - one case for each kind of effect
    match event:
        case e.TaskDeployed() | e.TaskCancellationRequested():
            yield from _of_attempt(state, event.attempt_id)
        case e.TaskManagerReportReconciled():
            for unknown in event.unknown:
                cancellation = TaskCancellation(*unknown.attempt_id, reason="the master does not know this attempt as alive")
                yield _told(state, event.task_manager_id, event.instance_id, cancellation)
        case RequestAccepted() | RequestRejected():
            yield from replies_of((event,))
            if isinstance(event, RequestRejected) and event.dead_letter:
                yield DeadLetterOrder(event.message)
        case e.RequestRepeated():
            if event.reply_partition != NO_REPLY and (answer := state.requests.answer_to(event)) is not None:
                yield Reply(event.request_id, event.reply_partition, answer)
        case e.TaskManagerRegistered():
            accepted = RegistrationAccepted(state.leader.blob_address, event.registration_number)
            yield Deployment(event.task_manager_id, event.instance_id, accepted, event.deployment_partition)
        case e.TaskManagerRegistrationRefused():
            yield _end_of_instance(state, event)
        case e.TaskManagerLost():
            yield _end_of_instance(state, event)
            yield from _of_worker(state, event.task_manager_id)
        case e.TaskManagerDisconnected() | e.TaskManagerReleased():
            yield from _of_worker(state, event.task_manager_id)
        case e.WorkerRequested() | e.WorkerRequestFailed():
            yield from _of_worker(state, event.worker_id)
        case e.CheckpointTriggered():
            yield from _of_checkpoint(state, event.job_id)
        case e.CheckpointAcknowledged():
            yield from _of_readers(state, event)
        case e.CheckpointCompleted() | e.CheckpointAborted():
            yield from _of_stopped_streams(state, event.job_id)
        case e.FileUploadRequested() | e.TaskManagerFileUploadRequested():
            yield _of_upload(state, event.request_id)
        case e.JobResultStored() | e.JobOutputsReleased():
            if event.job_id in state.dispatcher.dirty:
                yield _clean_up(state, event.job_id)
        case e.JobArchiveRequested():
            yield ArchiveJob(event.job_id)
        case e.ApplicationStatusRecorded():
            yield from _stops(state)
        case e.DrillStepOrdered():
            yield DrillOrder(event.step, event.duration_ms)


def unacknowledged(state: Master) -> Iterator[Effect]:
    """Yield every effect that the state does not confirm yet: what a new leader sends first, and any leader again at intervals."""
    for allocation in state.slot_manager.allocations.values():
        for attempt in allocation.attempts:
            yield from _of_attempt(state, attempt)
    yield from chain.from_iterable(_of_checkpoint(state, job_id) for job_id in state.dispatcher.streaming_jobs)
    yield from chain.from_iterable(_of_stopped_streams(state, job_id) for job_id in state.dispatcher.streaming_jobs)
    for request_id in state.uploads.pending:
        yield _of_upload(state, request_id)
    for job_id, dirty in state.dispatcher.dirty.items():
        if not dirty.retry_at_ms:
            yield _clean_up(state, job_id)
    for job_id, pending in state.job_store.pending.items():
        if not pending.retry_at_ms:
            yield ArchiveJob(job_id)
    if state.settings.workers is not None:
        requested = [_request_worker(worker_id, worker) for worker_id, worker in state.workers.pending.items()]
        yield WorkersWanted(tuple(requested), tuple(state.workers.registered))
    if state.shutdown.stops_task_managers:
        yield from _stops(state)


def replies_of(events: Iterable[LogEvent]) -> list[Reply]:
    """Return the first answers among the effects: what a new leader resends of its predecessor's last decisions."""
    return [
        Reply(event.request_id, event.reply_partition, event)
        for event in events
        # By type: a replay asks this of every event, and to build the union for `isinstance` costs more than the answer.
        if (type(event) is RequestAccepted or type(event) is RequestRejected) and event.reply_partition != NO_REPLY
    ]


def due_clean_ups(state: ClusterState, now_ms: int) -> list[CleanUp]:
    """Return the failed clean-ups whose back-off is over."""
    return [_clean_up(state, job_id) for job_id, job in state.dispatcher.dirty.items() if 0 < job.retry_at_ms <= now_ms]


def due_archives(state: ClusterState, now_ms: int) -> list[ArchiveJob]:
    """Return the archives that could not be written at first, and whose back-off is over."""
    return [ArchiveJob(job_id) for job_id, job in state.job_store.pending.items() if 0 < job.retry_at_ms <= now_ms]


def due_watches(state: ClusterState, now_ms: int) -> Iterator[CursorWatch]:
    """Yield the schedules whose topics are to be looked at: those without a cursor, and those for which records would start a job."""
    for schedule_id in state.schedules.watchers:
        schedule = state.schedules.schedules[schedule_id]
        watched, cursor = schedule.definition.timing.records, schedule.cursor
        if watched is None:
            continue
        if cursor is None:
            since_ms = schedule.taken_since_ms if watched.begin is TopicBegin.LATEST else None
            yield CursorWatch(schedule_id, watched.name, "", {}, since_ms)
        elif schedule.awaits_batch():
            since_ms = now_ms - watched.max_wait_ms if watched.max_wait_ms else None
            yield CursorWatch(schedule_id, watched.name, cursor.topic_id, cursor.offsets, since_ms)


def due_table_watches(state: ClusterState) -> Iterator[TableWatch]:
    """Yield the schedules whose tables are to be looked at: those without a cursor, and those for which versions would start a job."""
    for schedule_id in state.schedules.watchers:
        schedule = state.schedules.schedules[schedule_id]
        watched, cursor = schedule.definition.timing.versions, schedule.table_cursor
        if watched is None:
            continue
        if cursor is None:
            since_ms = schedule.taken_since_ms if watched.begin is TopicBegin.LATEST else None
            yield TableWatch(schedule_id, watched, "", None, since_ms, schedule.table_fault)
        elif schedule.awaits_batch():
            yield TableWatch(schedule_id, watched, cursor.table_id, cursor.version, fault=schedule.table_fault)


def due_file_watches(state: ClusterState, now_ms: int) -> Iterator[FileWatch]:
    """Yield the files for which instants wait: while a schedule is paused, those of a back-fill alone."""
    for schedule_id in state.schedules.waiters:
        schedule = state.schedules.schedules[schedule_id]
        for instant_ms, waiting in schedule.awaiting.items():
            if schedule.pause is None or waiting.origin is InstantOrigin.BACKFILL:
                yield FileWatch(schedule_id, instant_ms, waiting.file, is_over=waiting.until_ms <= now_ms)


def wanted_partitions(state: ClusterState, task_managers_per_partition: int = TASK_MANAGERS_PER_PARTITION) -> int:
    """Return how many partitions `deployments` has to have at least; 0: those that instances have named are enough."""
    managers = state.resource_manager
    needed = -(-len(managers.task_managers) // task_managers_per_partition)
    return min(needed * _GROWTH, MAX_DEPLOYMENT_PARTITIONS) if needed > managers.deployment_partitions else 0


def leader_change(state: ClusterState, master_id: str) -> list[Deployment]:
    """Return the message to all TaskManagers that there is a new leader: one in each partition, for however many read it.

    Partitions that nobody has named yet are read by nobody to whom it is news: who registers there is answered by the new leader.
    """
    change = LeaderChanged(master_id, state.leader.blob_address)
    return [Deployment("", "", change, partition) for partition in range(state.resource_manager.deployment_partitions)]


# -- what the state says of each subject --------------------------------------------------------------------------


def _told(state: ClusterState, task_manager_id: str, instance_id: str, payload: DeploymentPayload) -> Deployment:
    """Return an order to a registered instance, where it reads."""
    return Deployment(task_manager_id, instance_id, payload, state.resource_manager.partition_of(task_manager_id))


def _of_attempt(state: ClusterState, attempt: AttemptId) -> Iterator[Deployment]:
    """Yield the deployment of an attempt that is to run, or the cancellation of one that is to end, where the instance has to be told."""
    subtask = state.live_subtask(attempt)
    allocation = state.slot_manager.allocations.get(subtask.allocation_id) if subtask is not None else None
    if subtask is None or allocation is None or allocation.orphaned:
        return
    job = state.dispatcher.jobs[attempt.job_id]
    payload: DeploymentPayload
    if subtask.state is ExecutionState.CANCELING:
        payload = TaskCancellation(*attempt, reason=job.cancellation_reason(subtask))
    elif subtask.state is ExecutionState.DEPLOYING and subtask.key not in job.to_cancel:
        payload = _deployment(state, subtask, attempt, allocation.slot_index)
    else:
        return
    yield _told(state, allocation.task_manager_id, allocation.instance_id, payload)


def _of_checkpoint(state: ClusterState, job_id: str) -> Iterator[Deployment]:
    """Yield the question to each subtask that a pending checkpoint waits for."""
    job = state.dispatcher.jobs[job_id]
    pending = job.checkpoints.pending if job.checkpoints is not None else None
    if pending is None or job.aborts_checkpoint:
        return
    checkpoint, savepoint = pending.checkpoint, None
    if (request := checkpoint.savepoint) is not None:
        streams = tuple([SavepointStream(v.vertex.vertex_id, v.parallelism) for v in streams_of(job.execution_graph)])
        savepoint = SavepointOrder(
            request.path,
            request.mode,
            checkpoint.triggered_at_ms,
            streams,
            stops_stream=request.stops_streams,
            timeout_ms=job.checkpoints.settings.timeout_ms if job.checkpoints is not None else 0,
        )
    for key, number in pending.asked(job.execution_graph).items():
        attempt = AttemptId(job_id, *key, number)
        yield from _to_instance_of(state, CheckpointOrder(*attempt, checkpoint_id=checkpoint.checkpoint_id, savepoint=savepoint))


def _of_readers(state: ClusterState, event: e.CheckpointAcknowledged) -> Iterator[Deployment]:
    """Yield the question to the readers of an edge whose writers have just answered."""
    job = state.dispatcher.jobs[event.job_id]
    pending = job.checkpoints.pending if job.checkpoints is not None else None
    if pending is None or pending.checkpoint.savepoint is None:
        return
    readers = [vertex_id for vertex_id, writers in job.execution_graph.pipelined_writers().items() if event.vertex_id in writers]
    if readers:
        asked = _of_checkpoint(state, event.job_id)
        yield from (each for each in asked if isinstance(each.payload, CheckpointOrder) and each.payload.vertex_id in readers)


def _of_stopped_streams(state: ClusterState, job_id: str) -> Iterator[Deployment]:
    """Yield what follows to each stream that was stopped for a savepoint which is not under way any more."""
    checkpoints = state.dispatcher.jobs[job_id].checkpoints
    if checkpoints is None or (checkpoints.pending is not None and checkpoints.pending.checkpoint.stops_streams):
        return
    order_type = FinishStream if checkpoints.is_finishing else ResumeStream
    for key, stopped in checkpoints.stopped.items():
        subtask = state.live_subtask(attempt := AttemptId(job_id, *key, stopped.attempt))
        if subtask is not None and subtask.state is ExecutionState.RUNNING:
            yield from _to_instance_of(state, order_type(*attempt, checkpoint_id=stopped.checkpoint_id))


def _to_instance_of(state: ClusterState, order: CheckpointOrder | ResumeStream | FinishStream) -> Iterator[Deployment]:
    """Yield the order to the instance that runs its attempt, if one does."""
    subtask = state.live_subtask(order.attempt_id)
    allocation = state.slot_manager.allocations.get(subtask.allocation_id) if subtask is not None else None
    if allocation is not None and not allocation.orphaned:
        yield _told(state, allocation.task_manager_id, allocation.instance_id, order)


def _deployment(state: ClusterState, subtask: Subtask, attempt: AttemptId, slot_index: int) -> TaskDeployment:
    job = state.dispatcher.jobs[attempt.job_id]
    graph = job.execution_graph
    vertex = graph.vertices[attempt.vertex_id].vertex
    edges = graph.edges_to.get(attempt.vertex_id, ())
    located = [(each, graph.input_locations(each, attempt.subtask_index)) for each in edges]
    inputs = tuple([TaskInput(edge.input_name, edge.ship, edge.keys, where, edge.row_schema) for edge, where in located])
    outputs = graph.outputs_of(attempt.vertex_id)
    told = describe_task(attempt, graph.graph, vertex, graph.vertices[attempt.vertex_id].parallelism, inputs, outputs)
    told.allocation_id, told.slot_index, told.spark = subtask.allocation_id, slot_index, graph.graph.spark
    told.engine = graph.graph.engine_of(vertex)
    told.outcome = job.closing.outcome if job.closing is not None else None
    told.stream = stream_with_edges(vertex, graph.pipelined_edges)
    if vertex.stream is not None:
        told.restore = _restore(graph)
        told.is_stopped = job.checkpoints is not None and job.checkpoints.is_finishing
    told.earlier_attempts = _earlier_attempts(state, subtask, graph.vertices[attempt.vertex_id])
    return told


def _earlier_attempts(state: ClusterState, subtask: Subtask, vertex: ExecutionVertex) -> tuple[EarlierAttempt, ...]:
    """Return the attempts whose Spark sessions may not be released, newest first, of the subtask and of those that a rescale has left out.

    An instance reports an end when it has released the session, or when Spark has not done so in time; a lost one reports nothing. Each
    attempt that opens a session has released that of the one before it: of those before, only the lost ones are named again. Of a stream
    that has run none before it is: it opens its session first, and had released what was named to it.
    """
    has_run = [vertex.vertex.stream is not None and e.running_at_ms > 0 for e in subtask.executions[:-1]]
    executions = subtask.executions[max((i for i, each in enumerate(has_run) if each), default=0) : -1]
    found, count = [_earlier_attempts_of(state, subtask.subtask_index, executions)], len(vertex.subtasks)
    retired = range(subtask.subtask_index + count, count + len(vertex.retired_executions), count)
    found += [_earlier_attempts_of(state, index, vertex.retired_executions.get(index, ())) for index in retired]
    return tuple([attempt for each in found for attempt in each][:MAX_REMEMBERED_ATTEMPTS])


def _earlier_attempts_of(state: ClusterState, subtask_index: int, executions: Sequence[Execution]) -> list[EarlierAttempt]:
    is_current = state.resource_manager.is_current
    return [
        EarlierAttempt(subtask_index, e.attempt, e.instance_id, e.spark_address)
        for e in reversed(executions)
        if e.instance_id and not e.reused_from and e.end_state is not ExecutionState.FINISHED
        if e is executions[-1] or not is_current(e.task_manager_id, e.instance_id)
    ]


def _restore(graph: ExecutionGraph) -> StreamRestore | None:
    if (restore := graph.graph.restore) is None:
        return None
    return StreamRestore(restore.path, restore.allow_non_restored_state, tuple([v.vertex.vertex_id for v in streams_of(graph)]))


def _of_upload(state: ClusterState, request_id: str) -> Deployment:
    upload = state.uploads.pending[request_id]
    order: DeploymentPayload
    if isinstance(upload, PendingUpload):
        order = FileUploadOrder(request_id, *upload.attempt, file=upload.file)
    else:
        order = TaskManagerFileUploadOrder(request_id, upload.file, upload.name)
    return _told(state, upload.task_manager_id, upload.instance_id, order)


def _of_worker(state: ClusterState, worker_id: str) -> Iterator[RequestWorker | StopWorker]:
    """Yield whether a worker is to be started or stopped; one that has registered, perhaps as a new instance, is kept."""
    if (pending := state.workers.pending.get(worker_id)) is not None:
        yield _request_worker(worker_id, pending)
    elif worker_id in state.workers.given_up:
        yield StopWorker(worker_id)


def _request_worker(worker_id: str, worker: PendingWorker) -> RequestWorker:
    return RequestWorker(worker_id, worker.slot_count, worker.slot_profile)


def _clean_up(state: ClusterState, job_id: str) -> CleanUp:
    """Return what to remove of an ended job: all but its results, the outputs that no edge reads, and checkpoints that are to stay."""
    job = state.dispatcher.jobs[job_id]
    graph = job.execution_graph
    read = {(edge.source, edge.output) for edge in graph.graph.edges}
    kept = [o.location for s in graph.subtasks() for o in s.outputs if (s.vertex_id, o.output) not in read]
    edges = tuple([edge_location(edge) for edge in graph.graph.edges if edge.pipeline is not None])
    return CleanUp(job_id, (*kept, *_kept_checkpoints(job)), edges)


def _kept_checkpoints(job: JobMaster) -> list[str]:
    """Return the directories of checkpoints that outlive their job: of one that failed, or was cancelled and is to retain them."""
    if (checkpoints := job.checkpoints) is None:
        return []
    retains = checkpoints.settings.retention is CheckpointRetention.RETAIN_ON_CANCELLATION
    stay = job.status is JobStatus.FAILED or (job.status is JobStatus.CANCELED and retains)
    return [start.location for start in checkpoints.starts.values() if start.location] if stay else []


def _stops(state: ClusterState) -> Iterator[Deployment]:
    for task_manager_id, task_manager in state.resource_manager.task_managers.items():
        yield Deployment(task_manager_id, task_manager.instance_id, StopTaskManager(REASON), task_manager.deployment_partition)


def _end_of_instance(state: ClusterState, event: e.TaskManagerLost | e.TaskManagerRegistrationRefused) -> Deployment:
    # In a shutdown it is not to come back as a new instance.
    payload = StopTaskManager(event.reason) if state.shutdown.is_under_way else InstanceForgotten(event.reason)
    return Deployment(event.task_manager_id, event.instance_id, payload, event.deployment_partition)
