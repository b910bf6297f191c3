"""The CheckpointCoordinator: when a checkpoint of a job is triggered, and what the answers of its streams lead to.

One is triggered when it is due and the query of every stream runs that has not finished; it completes with the last answer, in the same
decision. It is aborted when it takes too long, when a stream declines, when one ends that has not answered, and when the job stops
running. As in Flink only the first two count, and a stream that declines because its task ends does not: more than
`tolerable_failed_checkpoints` of them in a row are a failure of the job as a whole, for which the restart strategy is asked. An answer
that is late, stale or of somebody else is skipped by name. A savepoint is a checkpoint with a place, which says what becomes of its job. It
comes before one that is under way, counts as no failure, and is not subsumed (S3). Nothing here changes anything; the data are in
`checkpoints.py`.
"""

from typing import Final

from eventflink.events import log_events as e
from eventflink.events.inputs import CheckpointAcknowledgement, CheckpointDecline, StreamStartReport, TriggerCheckpoint, TriggerSavepoint
from eventflink.events.log_events import LogEvent
from eventflink.master.checkpoints import COUNTED_FAILURES, Checkpoints, PendingCheckpoint, streams_of
from eventflink.master.execution_graph import Subtask, SubtaskKey
from eventflink.master.inputs import CheckpointDue
from eventflink.master.job_master import DEPLOYED_STATES, JobMaster
from eventflink.master.requests import MAX_MESSAGE_LENGTH, accepted, rejected
from eventflink.master.restart_strategies import NoRestart
from eventflink.master.restarts import subtasks_to_restart_globally
from eventflink.master.settings import Context
from eventflink.master.state import ClusterState
from eventflink.model.attempts import AttemptId, FailureCause
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, CheckpointFailureReason, ExecutionState, JobStatus, SavepointMode
from eventflink.model.stream_progress import bounded_progress
from eventflink.model.texts import cut_bytes

MAX_REASON_LENGTH: Final = 1_024
MAX_SPARK_ID_LENGTH: Final = 128
MAX_LOCATION_LENGTH: Final = 4_096
MAX_NAMED: Final = 5
"""How many subtasks are named that have not answered in time."""


def decide_checkpoint_due(state: ClusterState, due: CheckpointDue, context: Context) -> list[LogEvent]:
    """Trigger the next checkpoint of a job, or abort the pending one that takes too long."""
    job = state.dispatcher.jobs.get(due.job_id)
    if job is None or job.checkpoints is None or job.status is not JobStatus.RUNNING:
        return []
    checkpoints, now_ms = job.checkpoints, context.now_ms
    settings, pending = checkpoints.settings, checkpoints.pending
    if pending is not None:
        if now_ms - pending.checkpoint.triggered_at_ms < settings.timeout_ms:
            return []
        named = [f"{vertex_id}[{index}]#{attempt}" for (vertex_id, index), attempt in pending.awaited.items()]
        more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
        message = f"not answered within {settings.timeout_ms} ms by {', '.join(named[:MAX_NAMED])}{more}"
        return _decide_abort(job, checkpoints, pending, CheckpointFailureReason.EXPIRED, message, now_ms)
    since_ms = max(checkpoints.triggered_at_ms, job.status_since_ms)
    if not settings.interval_ms or now_ms - since_ms < settings.interval_ms or now_ms - checkpoints.ended_at_ms < settings.min_pause_ms:
        return []
    awaited = len(checkpoints.attempts_to_ask(job.execution_graph))
    return [e.CheckpointTriggered(job.job_id, checkpoints.next_id, awaited)] if awaited else []


def decide_trigger_checkpoint(state: ClusterState, command: TriggerCheckpoint) -> list[LogEvent]:
    """Trigger a checkpoint that somebody asks for, whatever the interval says; or say why not."""
    found = _find_streams(state, command)
    if isinstance(found, e.RequestRejected):
        return [found]
    job, checkpoints = found
    if (pending := checkpoints.pending) is not None:
        return [rejected(command, "CheckpointInProgress", f"checkpoint {pending.checkpoint.checkpoint_id} of '{job.job_id}' is under way")]
    if not (awaited := len(checkpoints.attempts_to_ask(job.execution_graph))):
        return [_streams_not_ready(command)]
    return [
        accepted(command),
        e.CheckpointTriggered(job.job_id, checkpoints.next_id, awaited, command.actor, command.request_id),
    ]


def decide_trigger_savepoint(state: ClusterState, command: TriggerSavepoint, context: Context) -> list[LogEvent]:
    """Trigger a savepoint, instead of a checkpoint that is under way; or say why not."""
    found = _find_streams(state, command)
    if isinstance(found, e.RequestRejected):
        return [found]
    job, checkpoints = found
    directory = command.target_directory or context.settings.savepoint_directory
    if fault := _find_directory_fault(directory):
        return [rejected(command, "InvalidSavepointDirectory", fault)]
    if any(subtask.state is ExecutionState.FINISHED for vertex in streams_of(job.execution_graph) for subtask in vertex.subtasks):
        return [rejected(command, "StreamFinished", f"a stream of '{job.job_id}' has finished, and a savepoint has all of them")]
    pending = checkpoints.pending.checkpoint if checkpoints.pending is not None else None
    if pending is not None and pending.savepoint is not None:
        return [rejected(command, "SavepointInProgress", f"savepoint {pending.checkpoint_id} of '{job.job_id}' is under way")]
    if not (awaited := len(checkpoints.attempts_to_ask(job.execution_graph))):
        return [_streams_not_ready(command)]
    events: list[LogEvent] = [accepted(command)]
    if pending is not None:
        what = f"savepoint {checkpoints.next_id} was asked for"
        events.append(e.CheckpointAborted(job.job_id, pending.checkpoint_id, CheckpointFailureReason.SAVEPOINT_TRIGGERED, what))
    path = f"{directory.rstrip('/')}/savepoint-{job.job_id}-{checkpoints.next_id}-{context.now_ms}"
    # Rows that are on an edge between two streams are in the state of neither: the reader has to come after the writer.
    stops_streams = command.mode is not SavepointMode.CONTINUE or bool(job.execution_graph.pipelined_writers())
    savepoint = e.SavepointRequest(path, command.mode, stops_streams)
    return [*events, e.CheckpointTriggered(job.job_id, checkpoints.next_id, awaited, command.actor, command.request_id, savepoint)]


def _find_streams(state: ClusterState, command: TriggerCheckpoint | TriggerSavepoint) -> tuple[JobMaster, Checkpoints] | e.RequestRejected:
    """Return a job that runs and its checkpoints, or the refusal."""
    job = state.dispatcher.jobs.get(command.job_id)
    if job is None:
        return state.dispatcher.unknown_job(command)
    if job.status is not JobStatus.RUNNING:
        code = "JobTerminated" if job.status in TERMINAL_JOB_STATUSES else "JobNotRunning"
        return rejected(command, code, f"job '{job.job_id}' is {job.status}")
    if (checkpoints := job.checkpoints) is None:
        return rejected(command, "NoStream", f"job '{job.job_id}' has no stream")
    return job, checkpoints


def _streams_not_ready(command: TriggerCheckpoint | TriggerSavepoint) -> e.RequestRejected:
    return rejected(command, "StreamsNotReady", f"some streams of job '{command.job_id}' do not run yet, or all of them have finished")


def _find_directory_fault(directory: str) -> str:
    if not directory:
        return "the request has no target directory, and execution.checkpointing.savepoint-dir is not set: give one of them"
    if not directory.isprintable() or not (directory.startswith("/") or "://" in directory):
        return f"invalid target directory: {directory[:200]!r}; give an absolute path or a URL"
    return ""


def decide_stream_start_report(state: ClusterState, report: StreamStartReport) -> list[LogEvent]:
    """Take note of how the query of a live attempt began."""
    attempt = report.attempt_id
    job, subtask = _stream_of(state, attempt, report.instance_id)
    if job is None or subtask is None or job.checkpoints is None:
        return [_skipped(f"StreamStartReport of {attempt}: not a live attempt of a stream of that instance")]
    before = job.checkpoints.starts.get(subtask.key)
    if before is not None and (before.attempt, before.run_id) == (attempt.attempt, report.run_id[:MAX_SPARK_ID_LENGTH]):
        return [_skipped(f"StreamStartReport of {attempt}: it was told before")]
    if len(report.location) > MAX_LOCATION_LENGTH:
        what = f"its location has {len(report.location)} characters; it may have {MAX_LOCATION_LENGTH}"
        return [_skipped(f"StreamStartReport of {attempt}: {what}")]
    query_id, run_id, session_id = (i[:MAX_SPARK_ID_LENGTH] for i in (report.query_id, report.run_id, report.spark_session_id))
    return [e.StreamStarted(*attempt, query_id, run_id, session_id, report.location, report.restored_batch_id)]


def decide_checkpoint_acknowledgement(state: ClusterState, report: CheckpointAcknowledgement, context: Context) -> list[LogEvent]:
    """Take an answer; with the last one the checkpoint is complete, and the oldest beyond what is retained is not any more."""
    job, pending, fault = _pending_of(state, report)
    if job is None or job.checkpoints is None or pending is None:
        return [_skipped(f"CheckpointAcknowledgement {report.checkpoint_id} of {report.attempt_id}: {fault}")]
    checkpoints, progress = job.checkpoints, bounded_progress(report.progress)
    if fault := _find_step_back(checkpoints, (report.vertex_id, report.subtask_index), progress.batch_id):
        return _decide_abort(job, checkpoints, pending, CheckpointFailureReason.DECLINED, fault, context.now_ms)
    events: list[LogEvent] = [e.CheckpointAcknowledged(*report.attempt_id, report.checkpoint_id, progress)]
    if len(pending.awaited) > 1:
        return events
    all_progress = [progress, *(answer.progress for answer in pending.acknowledged.values())]
    duration_ms = context.now_ms - pending.checkpoint.triggered_at_ms
    sums = (sum(p.state_rows for p in all_progress), sum(p.state_bytes for p in all_progress))
    savepoint = pending.checkpoint.savepoint
    path = savepoint.path if savepoint is not None else ""
    events.append(e.CheckpointCompleted(job.job_id, report.checkpoint_id, duration_ms, *sums, path))
    if savepoint is not None:
        return [*events, *(job.decide_cancellation(pending.checkpoint.actor) if savepoint.mode is SavepointMode.CANCEL else ())]
    retained = checkpoints.completed
    subsumed = retained[: max(0, len(retained) + 1 - checkpoints.settings.max_retained)]
    return [*events, *(e.CheckpointSubsumed(job.job_id, checkpoint.checkpoint_id) for checkpoint in subsumed)]


def _find_step_back(checkpoints: Checkpoints, key: SubtaskKey, batch_id: int) -> str:
    """Return that a subtask is behind where an earlier checkpoint has it, because its directory was lost (C2); empty: it is not."""
    before = checkpoints.progress.get(key)
    if before is None or batch_id >= before.progress.batch_id:
        return ""
    return f"{key[0]}[{key[1]}] is at batch {batch_id}, behind batch {before.progress.batch_id} of an earlier checkpoint"


def decide_checkpoint_decline(state: ClusterState, report: CheckpointDecline, context: Context) -> list[LogEvent]:
    """Abort the checkpoint: one subtask takes no part in it."""
    job, pending, fault = _pending_of(state, report)
    if job is None or job.checkpoints is None or pending is None:
        return [_skipped(f"CheckpointDecline {report.checkpoint_id} of {report.attempt_id}: {fault}")]
    message = f"{report.vertex_id}[{report.subtask_index}]#{report.attempt} declined: {cut_bytes(report.reason, MAX_REASON_LENGTH)}"
    reason = CheckpointFailureReason.TASK_ENDED if report.task_ended else CheckpointFailureReason.DECLINED
    return _decide_abort(job, job.checkpoints, pending, reason, message, context.now_ms)


def decide_broken_checkpoint(job: JobMaster) -> list[LogEvent]:
    """Abort a checkpoint that cannot complete: its job does not run any more, or an attempt has ended that had not answered."""
    if job.checkpoints is None or job.checkpoints.pending is None:
        return []
    pending = job.checkpoints.pending
    reason, message = CheckpointFailureReason.TASK_ENDED, pending.broken
    if job.status is not JobStatus.RUNNING:
        reason, message = CheckpointFailureReason.JOB_NOT_RUNNING, f"the job is {job.status}"
    return [e.CheckpointAborted(job.job_id, pending.checkpoint.checkpoint_id, reason, message)]


def _decide_abort(
    job: JobMaster, checkpoints: Checkpoints, pending: PendingCheckpoint, reason: CheckpointFailureReason, message: str, now_ms: int
) -> list[LogEvent]:
    """Abort the pending checkpoint of a running job; one failure too many in a row fails the job."""
    aborted = e.CheckpointAborted(job.job_id, pending.checkpoint.checkpoint_id, reason, message)
    tolerable = checkpoints.settings.tolerable_failed_checkpoints
    failures = checkpoints.consecutive_failures + 1
    is_savepoint = pending.checkpoint.savepoint is not None  # What somebody asked for, perhaps with a wrong place, fails no job.
    if reason not in COUNTED_FAILURES or is_savepoint or tolerable < 0 or failures <= tolerable:
        return [aborted]
    last = f"the last one, {aborted.checkpoint_id}, was {reason.lower()}: {message}"
    what = f"Exceeded checkpoint tolerable failure threshold: {failures} in a row failed, {tolerable} may; {last}"
    return [aborted, *_decide_global_failure(job, FailureCause("CheckpointFailureThresholdExceeded", what), now_ms)]


def _decide_global_failure(job: JobMaster, cause: FailureCause, now_ms: int) -> list[LogEvent]:
    """Fail a running job as a whole: what runs of it starts again later, or the job fails, as the restart strategy has it."""
    failure = e.GlobalFailureOccurred(job.job_id, cause)
    restarts = job.restarts
    restart = restarts.next_counted(job.job_id, now_ms, is_restarting=False)
    if isinstance(restart, NoRestart):
        return [failure, e.JobStatusChanged(job.job_id, job.status, JobStatus.FAILING, restart.reason)]
    scheduled = e.JobRestartScheduled(
        job.job_id,
        now_ms + restart.delay_ms,
        restarts.count + 1,
        restart.backoff_ms,
        restart.delay_ms,
        restarts.failover_strategy,
        len(subtasks_to_restart_globally(job.execution_graph, restarts.failover_strategy)),
    )
    return [failure, scheduled, e.JobStatusChanged(job.job_id, job.status, JobStatus.RESTARTING)]


def _stream_of(state: ClusterState, attempt: AttemptId, instance_id: str) -> tuple[JobMaster | None, Subtask | None]:
    """Return the job and the subtask of a live attempt of a stream that this instance runs."""
    subtask = state.live_subtask(attempt)
    if subtask is None or subtask.state not in DEPLOYED_STATES:
        return None, None
    if state.slot_manager.held_by(subtask.allocation_id, instance_id) is None:
        return None, None
    job = state.dispatcher.jobs[attempt.job_id]
    is_stream = job.execution_graph.vertices[attempt.vertex_id].vertex.stream is not None
    return (job, subtask) if is_stream else (None, None)


def _pending_of(
    state: ClusterState, report: CheckpointAcknowledgement | CheckpointDecline
) -> tuple[JobMaster | None, PendingCheckpoint | None, str]:
    """Return the checkpoint that waits for this answer, or why none does (C1)."""
    job, subtask = _stream_of(state, report.attempt_id, report.instance_id)
    if job is None or subtask is None or job.checkpoints is None:
        return None, None, "not a live attempt of a stream of that instance"
    pending = job.checkpoints.pending
    if pending is None or pending.checkpoint.checkpoint_id != report.checkpoint_id or job.aborts_checkpoint:
        return job, None, "that checkpoint is not pending"
    if pending.awaited.get(subtask.key) != report.attempt:
        return job, None, "it was answered before, or was not asked"
    return job, pending, ""


def _skipped(message: str) -> e.InputsSkipped:
    return e.InputsSkipped(1, cut_bytes(message, MAX_MESSAGE_LENGTH))
