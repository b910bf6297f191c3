"""Events and causes in words, one line each, for everybody who shows them: audit, command line, transcripts.

A line is the name of the event, its subject, and what else it tells (`details_of`: a wording for its class, or simply its fields). The
texts are for people; programs read the fields. Ids and messages may come from anybody, so what would move a terminal's cursor is taken out.
"""

import dataclasses
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from eventflink.events import log_events as e
from eventflink.events.decision import Cause, Decision, FollowUpCause, InputCause, TimerCause
from eventflink.model.attempts import FailureCause
from eventflink.model.durations import duration_text
from eventflink.model.job_queues import JobQueue
from eventflink.model.resources import ResourceProfile
from eventflink.model.schedules import FollowedTopic, InstantBefore, ScheduleDefinition
from eventflink.model.statuses import CursorMove, InstantOrigin, RunOutcome
from eventflink.model.texts import printable

_SHOWN_LENGTH: Final = 160
_MOVES: Final = {
    CursorMove.BEGUN: "",
    CursorMove.REPLACED: ", which took the place of another",
    CursorMove.REWOUND: ", which went back to an older version",
    CursorMove.CLEANED: ": the versions before that are gone, and no job has had them",
}
_SUBJECTS: Final = (
    "schedule_id",
    "job_id",
    "allocation_id",
    "task_manager_id",
    "worker_id",
    "snapshot_id",
    "subject",
    "master_id",
    "topic",
    "request_id",
)


def describe(event: e.LogEvent, *, of_job: str = "") -> str:
    """Return an event in words; of that job's own it is not said each time that they are the job's."""
    return printable(_joined(type(event).__name__, subject_of(event, of_job=of_job), details_of(event), by=" "))


def subject_of(event: e.LogEvent, *, of_job: str = "") -> str:
    """Return what an event is about: `job/vertex[0]#1`, an allocation, a TaskManager, a request; "" for none."""
    vertex_id = getattr(event, "vertex_id", None)
    if vertex_id is None:
        subject = next((str(value) for name in _SUBJECTS if (value := getattr(event, name, ""))), "")
        return "" if subject == of_job else subject
    job_id, index, attempt = (getattr(event, name, None) for name in ("job_id", "subtask_index", "attempt"))
    subject = str(vertex_id) if job_id == of_job else f"{job_id}/{vertex_id}"
    if index is None:
        return subject
    return f"{subject}[{index}]" + (f"#{attempt}" if attempt is not None else "")


def details_of(event: e.LogEvent) -> str:
    """Return what an event tells besides its subject, in one line of at most 160 characters."""
    return first_line(_details_of(event))


def _details_of(event: e.LogEvent) -> str:  # noqa: C901, PLR0911, PLR0912, PLR0915 - one case for each event
    match event:
        # -- the Master
        case e.LeadershipGranted():
            return f"blob server at {event.blob_address}"
        case e.InputsBound():
            return f"partition {event.partition} of the topic with id {event.topic_id}, from offset {event.next_offset}"
        case e.InputsSkipped():
            return f"{_count(event.count, 'input')}: {event.reason}"
        case e.InputsLost():
            return f"partition {event.partition}, from offset {event.from_offset} to before {event.to_offset}"
        case e.InputsAttempted():
            return _joined(f"from offset {event.first_offset} to {event.last_offset}", _deaths(event))
        case e.InternalInputsAttempted():
            return _joined(", ".join(event.names), _deaths(event))
        case e.RequestAccepted():
            return _request(event)
        case e.RequestRejected():
            return _joined(f"{event.code}: {event.message}", _request(event), by=" ")
        case e.FollowUpDecided():
            return _lower(event.follow_up_type)
        case e.InputParked():
            about = _joined(event.input_type, event.subject, by=" of ")
            return f"{about}: {event.reason}"
        case e.ParkedInputReleased():
            return _joined(event.parked_id, "tried again" if event.retried else "dropped", _by(event.actor))
        case e.AnswersExpired():
            return _count(event.count, "answer")
        # -- the Dispatcher
        case e.JobSubmitted():
            name = _joined(f"'{event.job_graph.name}'", _by(event.actor), by=" ")
            again = f"'{event.rerun_of}' again" if event.rerun_of else ""
            of = f"of '{event.scheduled.schedule_id}' for {iso_time(event.scheduled.instant_ms)}" if event.scheduled is not None else ""
            return _joined(name, _count(len(event.job_graph.vertices), "vertex", "vertices"), again, of)
        case e.JobReuseDecided():
            runs = ", ".join(reuse.vertex_id for reuse in event.vertices if not reuse.is_reused)
            reused = sum(reuse.is_reused for reuse in event.vertices)
            return _joined(f"{reused} of {_count(len(event.vertices), 'vertex', 'vertices')} reused", runs and f"run: {runs}", by="; ")
        case e.JobMasterStarted():
            reactive = "reactive" if event.reactive else ""
            restarts = f"restart strategy {_lower(event.restart_strategy.strategy_type).replace(' ', '-')}"
            failover = f"failover strategy {_lower(event.failover_strategy)}"
            interval = f"checkpoints every {event.checkpointing.interval_ms} ms" if event.checkpointing is not None else ""
            return _joined(event.job_master_id, restarts, failover, f"scheduler {_lower(event.scheduler)}", reactive, interval)
        case e.JobCancellationRequested() | e.JobResumptionRequested():
            return _by(event.actor)
        case e.JobFailureDismissed():
            return _joined(event.reason, _by(event.actor))
        case e.JobSuspensionRequested():
            return _joined(event.reason, "resumed with the cluster" if event.resumes_with_cluster else "", _by(event.actor))
        case e.JobStatusChanged():
            return _joined(f"{event.from_status} → {event.to_status}", event.reason, by=": ")
        case e.JobResultStored():
            kept = f" (outputs kept for {event.outputs_kept_ms} ms)" if event.outputs_kept_ms else ""
            return _joined(f"{event.status} after {event.net_run_time_ms} ms{kept}", _cause(event.cause), by=": ")
        case e.JobCleanupFailed() | e.JobArchiveFailed():
            retry = f"retry at {iso_time(event.retry_at_ms)}" if event.retry_at_ms else "given up"
            return f"attempt {event.attempt}, {retry}: {event.message}"
        case e.JobArchived():
            return f"{event.location}, {event.byte_count} bytes, digest {event.digest}"
        case e.JobIdsExpired():
            return _count(event.count, "job id")
        case e.FileUploadRequested():
            return f"{event.file} of {event.task_manager_id}, instance {event.instance_id} {_request(event)}"
        case e.FileUploaded():
            return event.blob_key or f"failed: {event.error or 'no reason was given'}"
        # -- schedules
        case e.ScheduleStored():
            return _joined(f"version {event.version}", when_of(event.definition), _next(event.next_ms), _by(event.actor))
        case e.ScheduleDeleted():
            return _by(event.actor)
        case e.SchedulePaused():
            return _joined(event.reason, _by(event.actor))
        case e.ScheduleResumed():
            return _joined(_next(event.next_ms), _by(event.actor))
        case e.RunFollowed():
            return f"{iso_time(event.instant_ms)}, the end of '{event.job_id}'"
        case e.TopicCursorSet():
            return f"of topic {event.topic_id}: {_places((each.partition, str(each.offset)) for each in event.offsets)}"
        case e.RecordsClaimed():
            ranges = _places((each.partition, f"{each.first_offset}-{each.end_offset}") for each in event.ranges)
            return f"{iso_time(event.instant_ms)}, {ranges}"
        case e.RecordsLost():
            return _places((each.partition, f"{each.first_offset}-{each.end_offset}") for each in event.ranges)
        case e.TableCursorSet():
            return f"at version {event.version} of table {event.table_id}{_MOVES[event.reason]}"
        case e.VersionsClaimed():
            return f"{iso_time(event.instant_ms)}, {event.versions} of table {event.table_id}"
        case e.TableSightChanged():
            return event.fault or "it is seen again"
        case e.ScheduleFired():
            since = f"since {iso_time(event.previous_ms)}" if event.previous_ms is not None else ""
            return _joined(f"'{event.job_id}' for {iso_time(event.instant_ms)}", since, _lower(event.origin), _next(event.next_ms))
        case e.InstantQueued():
            after = "its file is there" if event.origin is InstantOrigin.FILE else _lower(event.origin)
            return _joined(iso_time(event.instant_ms) or "", _since(event.before), after, _next(event.next_ms))
        case e.FileAwaited():
            until = f"for {event.file} until {iso_time(event.until_ms)}"
            return _joined(iso_time(event.instant_ms), _since(event.before), _lower(event.origin), until, _next(event.next_ms))
        case e.InstantsSkipped():
            last = f" to {iso_time(event.last_ms)}" if event.last_ms != event.instant_ms else ""
            why = _joined(_lower(event.reason), event.message, by=": ")
            origin = "" if event.origin is InstantOrigin.FILE else _lower(event.origin)
            return _joined(f"{iso_time(event.instant_ms)}{last}", origin, why, _next(event.next_ms))
        case e.BackfillStarted():
            span = f"{iso_time(event.first_ms)} to before {iso_time(event.end_ms)}, {event.concurrency} at once"
            order = "the newest first" if event.newest_first else ""
            return _joined(span, order, "also what has finished" if event.repeats_finished else "", _next(event.next_ms), _by(event.actor))
        case e.BackfillCancelled():
            return _by(event.actor)
        # -- the ResourceManager
        case e.TaskManagerRegistered():
            slots = _count(event.slot_count, "slot") + _profile("of", event.slot_profile)
            sparks = [f"{each.engine or 'the default Spark'} at {each.address}" for each in event.spark_addresses]
            return ", ".join([f"instance {event.instance_id} on {event.host}, process {event.process_id}, {slots}", *sparks])
        case e.TaskManagerReportReconciled():
            report = f"report {event.number} of " if event.number else ""
            ready = "ready" if event.ready else "not ready"
            return f"{report}instance {event.instance_id}: {ready}, {len(event.missing)} missing, {len(event.unknown)} unknown"
        case e.TaskManagerRegistrationRefused() | e.TaskManagerDisconnected() | e.TaskManagerLost() | e.TaskManagerReleased():
            return f"instance {event.instance_id}: {event.reason}"
        case e.TaskManagerBlocked():
            return _joined(event.reason, f"until {iso_time(event.until_ms)}" if event.until_ms else "", _by(event.actor))
        case e.TaskManagerUnblocked():
            return _joined(event.reason, _by(event.actor))
        case e.SparkEnded():
            return f"at {iso_time(event.ended_at_ms)}, of instance {event.instance_id}: {event.reason}"
        case e.TaskManagerFileUploadRequested():
            return f"{_joined(event.file, event.name, by=' ')} of instance {event.instance_id} {_request(event)}"
        case e.WorkerRequested():
            return _count(event.slot_count, "slot") + _profile("of", event.slot_profile)
        case e.WorkerRequestFailed():
            return f"{event.reason}, next request after {event.backoff_ms} ms"
        # -- the SlotManager
        case e.SlotAllocated():
            return f"→ {event.task_manager_id}[{event.slot_index}], instance {event.instance_id}"
        case e.SlotRequestDeferred():
            return f"{_count(event.requests, 'request')}{_profile('for', event.resource_profile)}: {_lower(event.reason)}"
        case e.QueuesConfigured():
            return ", ".join(map(_queue, event.queues)) or "none: all jobs take turns"
        case e.SlotReclaimed():
            return f"{event.allocation_id}, by queue '{event.queue}'"
        case e.SlotRequestTimedOut():
            return f"waited {event.waited_ms} ms"
        case e.SlotRequestUnfulfillable() | e.SlotOfferRejected():
            return event.reason
        case e.SlotRequested() | e.SlotShared() | e.SlotShareReturned() | e.TaskDeployed():
            return event.allocation_id
        # -- the JobMaster
        case e.JobMasterStopped():
            return _joined(event.job_master_id, event.reason, by=": ")
        case e.TaskStateChanged():
            return f"{event.from_state} → {event.to_state}"
        case e.TaskCancellationRequested():
            return f"{event.reason}: it fails" if event.exceeds_time_limit else event.reason
        case e.TaskFinished():
            return " ".join(
                f"{output.output}={output.location} ({output.rows} rows in {_count(output.files, 'file')})" for output in event.outputs
            )
        case e.TaskFailed() | e.GlobalFailureOccurred():
            return _cause(event.cause)
        case e.JobTimeLimitNear():
            return f"it fails at {iso_time(event.fails_at_ms)} if it has not ended"
        case e.JobClosingStarted():
            outcome = event.outcome
            failed = f"{outcome.vertex_id}[{outcome.subtask_index}]#{outcome.attempt} " if outcome.vertex_id else ""
            cause = _cause(FailureCause(outcome.failure_type, outcome.message)) if outcome.failure_type else ""
            return _joined(f"it ends as {outcome.status}", f"{failed}{cause}", by=": ")
        case e.VertexSkipped():
            return event.skip.in_words()
        case e.JobClosingAborted():
            return event.reason
        case e.JobRestartScheduled():
            tasks = _count(event.task_count, "task")
            return f"restart {event.restarts} after {event.delay_ms} ms: {tasks} ({_lower(event.failover_strategy)})"
        case e.RestartScheduled():
            tasks = f": {event.task_count} tasks ({_lower(event.failover_strategy)})" if event.task_count > 1 else ""
            lost = ", ".join(f"{output.vertex_id}[{output.subtask_index}]" for output in event.lost_outputs)
            counted = "" if event.is_counted else ", which its strategy does not count"
            counted += f", by rule {event.retry_rule} of the vertex's retries" if event.retry_rule else ""
            return f"restart {event.restarts} after {event.delay_ms} ms{tasks}{counted}" + (f", lost: {lost}" if lost else "")
        case e.ResourcesAwaited():
            return f"{_count(event.wanted, 'slot')} wanted, {event.available} available"
        case e.JobRescaleRequested():
            return _joined(f"parallelism {event.parallelism}", _by(event.actor))
        case e.RescaleScheduled() | e.JobRescaled():
            attempts = f", next attempts #{event.attempt}" if isinstance(event, e.JobRescaled) else ""
            return f"parallelism {event.from_parallelism} → {event.to_parallelism}: {_lower(event.reason)}{attempts}"
        # -- checkpoints
        case e.StreamStarted():
            begin = f"after batch {event.restored_batch_id}" if event.restored_batch_id >= 0 else "from its beginning"
            place = f"query {event.query_id}, run {event.run_id}, session {event.spark_session_id}"
            return f"{begin} at {event.location}, {place}"
        case e.CheckpointTriggered():
            return _joined(
                f"checkpoint {event.checkpoint_id}",
                f"a savepoint in {event.savepoint.path}, {_lower(event.savepoint.mode)}" if event.savepoint is not None else "",
                _count(event.awaited, "subtask"),
                _joined(_by(event.actor), _request(event), by=" "),
            )
        case e.CheckpointAcknowledged():
            progress = event.progress
            rows = _count(progress.input_rows, "row")
            return f"checkpoint {event.checkpoint_id}, batch {progress.batch_id}, {rows} in {progress.batch_duration_ms} ms"
        case e.CheckpointCompleted():
            state = f"state of {_count(event.state_rows, 'row')}, {event.state_bytes} bytes" if event.state_rows else ""
            place = f"a savepoint in {event.savepoint_path}" if event.savepoint_path else ""
            return _joined(f"checkpoint {event.checkpoint_id}", f"after {event.duration_ms} ms", state, place)
        case e.CheckpointAborted():
            return f"checkpoint {event.checkpoint_id}, {_lower(event.reason)}: {event.message}"
        case e.CheckpointSubsumed():
            return f"checkpoint {event.checkpoint_id}"
        # -- the cluster
        case e.FeatureLevelRaised():
            return f"{event.from_level} → {event.to_level}"
        case e.SnapshotTaken():
            size = f"{_count(event.chunk_count, 'chunk')}, {event.byte_count} bytes"
            return f"as of log@{event.log_offset} by {event.taken_by}, {size}, digest {event.digest}"
        case e.SnapshotConfirmed():
            return f"as of log@{event.log_offset} by {event.confirmed_by}, digest {event.digest}"
        case e.DrillStepOrdered():
            return f"{_lower(event.step)} in drill {event.drill_id}" + (f" for {event.duration_ms} ms" if event.duration_ms else "")
        case e.ClusterShutdownRequested():
            jobs = "jobs are cancelled" if event.cancel_jobs else "jobs are suspended"
            return _joined(event.application_status, jobs, event.diagnostics, _by(event.actor))
        case e.ApplicationStatusRecorded():
            return _joined(event.application_status, event.diagnostics, by=": ")
        case e.ClusterStopped():
            return event.application_status
        case e.ClusterStarted():
            return f"after {event.after_status}, {_count(event.jobs, 'suspended job')}"
        case e.RequestRepeated():
            return ""
        case _:
            told = (*_SUBJECTS, "vertex_id", "subtask_index", "attempt")
            return _joined(*[f"{f.name} {getattr(event, f.name)}" for f in dataclasses.fields(event) if f.name not in told])


def _queue(queue: JobQueue) -> str:
    weight = f", weight {queue.weight}" if queue.weight != 1 else ""
    borrows = f", borrows {queue.borrowing_limit} at most" if queue.borrowing_limit is not None else ""
    return f"'{queue.name}' (quota {queue.nominal_quota}{borrows}{weight})"


def _deaths(event: e.InputsAttempted | e.InternalInputsAttempted) -> str:
    return f"at which {_count(event.deaths, 'leader')} died" if event.deaths else ""


def _joined(*parts: str, by: str = ", ") -> str:
    return by.join(part for part in parts if part)


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _lower(value: StrEnum) -> str:
    return value.lower().replace("_", " ")


_SHOWN_PARTITIONS: Final = 4

_ENDED: Final = {
    RunOutcome.FINISHED: "has finished",
    RunOutcome.FAILED: "has failed",
    RunOutcome.CANCELED: "was cancelled",
    RunOutcome.ANY: "has ended",
}


def when_of(definition: ScheduleDefinition) -> str:
    """Return when a schedule fires, in words.

    Examples are `cron 0 2 * * * in Europe/Berlin`, `each 15m`, `after 'orders' has finished`, `1 record of orders or more`, `each new
    version of /data/sales`.
    """
    timing = definition.timing
    if timing.versions is not None:
        return f"each new version of {timing.versions}"
    if timing.records is not None:
        return _batches_of(timing.records)
    if timing.after is not None:
        return f"after '{timing.after.name}' {_ENDED[timing.after.outcome]}"
    return f"cron {timing.cron} in {timing.time_zone}" if timing.cron else f"each {duration_text(timing.interval_ms)}"


def _batches_of(watched: FollowedTopic) -> str:
    """Return which batches of records are an instant: `1,000 records of orders or more, after 5m fewer, at most 5,000`."""
    least = f"{watched.least_records:,} record{'s' if watched.least_records > 1 else ''} of {watched.name} or more"
    fewer = f"after {duration_text(watched.max_wait_ms)} fewer" if watched.max_wait_ms and watched.least_records > 1 else ""
    most = f"at most {watched.most_records:,}" if watched.most_records else ""
    return ", ".join(filter(None, (least, fewer, most)))


def _places(places: Iterable[tuple[int, str]]) -> str:
    """Return places of a topic by partition, the first of many: `0: 5, 1: 7 and 98 more`."""
    told = [f"{partition}: {place}" for partition, place in places]
    return ", ".join(told[:_SHOWN_PARTITIONS]) + (f" and {len(told) - _SHOWN_PARTITIONS} more" if len(told) > _SHOWN_PARTITIONS else "")


def _since(before: InstantBefore) -> str:
    return f"since {iso_time(before.joined_ms)}"


def _next(next_ms: int | None) -> str:
    return f"next {iso_time(next_ms)}" if next_ms is not None else "no next one"


def _by(actor: str) -> str:
    return f"by {actor}" if actor else ""


def _profile(word: str, profile: ResourceProfile | None) -> str:
    return f" {word} {profile}" if profile is not None else ""


def _cause(cause: FailureCause | None) -> str:
    return f"{cause.failure_type}: {cause.message}" if cause is not None else ""


def _request(
    event: e.RequestAccepted | e.RequestRejected | e.FileUploadRequested | e.TaskManagerFileUploadRequested | e.CheckpointTriggered,
) -> str:
    return f"(request {event.request_id})" if event.request_id and event.request_id != subject_of(event) else ""


def describe_cause(cause: Cause) -> str:
    """Return one thing that a decision answers: `submissions@5..7`, `timer …`, `follow-up schedule tasks`."""
    match cause:
        case InputCause():
            last = f"..{cause.last_offset}" if cause.last_offset != cause.first_offset else ""
            return f"{cause.topic}@{cause.first_offset}{last}"
        case TimerCause():
            return f"timer {cause.timer}"
        case FollowUpCause():
            return f"follow-up {_lower(cause.follow_up_type)}"


def describe_causes(decision: Decision) -> str:
    """Return all that a decision answers, each once, and who asked for it."""
    return printable(_joined(_joined(*dict.fromkeys(map(describe_cause, decision.causes))), _by(decision.actor), by=" "))


def first_line(text: str) -> str:
    """Return the beginning of a text that may have many lines."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= _SHOWN_LENGTH else line[: _SHOWN_LENGTH - 1] + "…"


def iso_time(at_ms: int) -> str:
    """Return a point in time as ISO 8601 in UTC, whatever a leader's clock has written."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms since 1970"
