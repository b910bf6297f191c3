"""What happened that somebody may want to be told of, and what is over: told from an accepted decision and the state that it led to.

Nothing here knows of rules or receivers. Decisions of a deposed leader never come here, so whatever is told has happened.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from eventflink.events import log_events as e
from eventflink.events.decision import Decision
from eventflink.events.wording import details_of
from eventflink.leadership.fold import Fold
from eventflink.model.failure_types import JOB_TIME_LIMIT
from eventflink.model.job_graph import JobAbout, JobGraph
from eventflink.model.schedules import InstantUnknown, instants
from eventflink.model.secret_values import without_secrets
from eventflink.model.statuses import CursorMove, JobStatus, SkipReason
from eventflink.notify.document import MAX_COUNTED, HappeningType
from eventflink.views.standing_streams import standing_streams

_OF_ENDS: Final = {
    JobStatus.FAILED: HappeningType.JOB_FAILED,
    JobStatus.FINISHED: HappeningType.JOB_FINISHED,
    JobStatus.CANCELED: HappeningType.JOB_CANCELED,
}
_OF_A_RUN: Final = (
    HappeningType.JOB_LATE,
    HappeningType.JOB_RESTARTING,
    HappeningType.CHECKPOINT_FAILED,
    HappeningType.STREAM_STALLED,
)
"""What is over when a run ends well."""

_AS_WANTED: Final = (SkipReason.FINISHED_BEFORE, SkipReason.CHANGED, SkipReason.PAUSED)
"""Why an instant gets no job where nothing is missed."""


@dataclass(frozen=True, slots=True)
class KnownJob:
    """The job that something is about, or would have been."""

    name: str
    job_id: str = ""
    """Empty: no job was started."""
    about: JobAbout | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something that happened."""

    happening_type: HappeningType
    event_index: int
    """Its place in the decision."""
    event: e.LogEvent
    subject: str
    """What it is about, such as a run, a TaskManager or one change of leaders: of one the same is said once."""
    thing: str
    """The job, schedule or TaskManager by which it is counted, and found when it is over; empty: the cluster."""
    details: str
    """What the event tells, in words and without secrets."""
    job: KnownJob | None = None
    count: int = 1
    """How often it happened at once."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """Something that is over."""

    happening_type: HappeningType
    thing: str
    event_index: int
    began_ms: int | None = None
    """When the run began that ends well: failures after that are of runs beside it, and not over. None: everything is over."""


def happenings_of(decision: Decision, fold: Fold) -> Iterator[Happening | Resolution]:
    """Yield what an accepted decision, which `fold` has applied, tells, in its order."""
    for index, event in enumerate(decision.events):
        yield from _over(event, index, fold)
        if isinstance(event, e.CheckpointCompleted):
            yield from _stalled(event, index, fold)
        if (found := _happening(event, index, decision, fold)) is not None:
            yield found


def _happening(  # noqa: C901 - one case for each event
    event: e.LogEvent, index: int, decision: Decision, fold: Fold
) -> Happening | None:
    job = _job_of(event, fold)
    kind: HappeningType
    match event:
        case e.JobResultStored() if job is not None:
            kind, subject, thing = _OF_ENDS[event.status], event.job_id, job.name
        case e.JobTimeLimitNear():
            kind, subject, thing = HappeningType.JOB_LATE, event.job_id, event.job_id
        case e.GlobalFailureOccurred() if event.cause.failure_type == JOB_TIME_LIMIT:
            kind, subject, thing = HappeningType.JOB_OVERDUE, event.job_id, job.name if job is not None else ""
        case e.RestartScheduled() | e.JobRestartScheduled():
            kind, subject, thing = HappeningType.JOB_RESTARTING, event.job_id, event.job_id
        case e.CheckpointAborted():
            kind, subject, thing = HappeningType.CHECKPOINT_FAILED, event.job_id, event.job_id
        case e.InstantsSkipped() if event.reason not in _AS_WANTED:
            kind, subject, thing = HappeningType.RUN_SKIPPED, f"{event.schedule_id}@{event.instant_ms}", event.schedule_id
        case e.RecordsLost() | e.TableCursorSet(reason=CursorMove.CLEANED):
            kind, subject, thing = HappeningType.RECORDS_LOST, event.schedule_id, event.schedule_id
        case e.SchedulePaused():
            kind, subject, thing = HappeningType.SCHEDULE_PAUSED, event.schedule_id, event.schedule_id
        case e.TaskManagerLost():
            kind, subject, thing = HappeningType.TASK_MANAGER_LOST, event.task_manager_id, event.task_manager_id
        case e.LeadershipGranted():
            kind, subject, thing = HappeningType.LEADER_CHANGED, f"{event.master_id}@{decision.epoch}", ""
        case e.InputParked():
            kind, subject, thing = HappeningType.INPUT_PARKED, event.subject or event.input_type, event.subject
        case _:
            return None
    details = _details_of(event, decision.events[index - 1] if index else None)
    return Happening(
        happening_type=kind,
        event_index=index,
        event=event,
        subject=subject,
        thing=thing,
        details=details,
        job=job,
        count=_count_skipped(event, fold) if isinstance(event, e.InstantsSkipped) else 1,
    )


def _count_skipped(event: e.InstantsSkipped, fold: Fold) -> int:
    """Return of how many instants a skip is, by the schedule's present timing."""
    schedule = fold.master.schedules.schedules.get(event.schedule_id)
    if schedule is None or event.last_ms == event.instant_ms:
        return 1
    skipped = instants(schedule.definition.timing, event.instant_ms, event.last_ms + 1)
    try:
        return max(1, sum(1 for _ in islice(skipped, MAX_COUNTED + 1)))
    except InstantUnknown:  # This host does not know the time zone; the leader's did.
        return 1


def _details_of(event: e.LogEvent, before: e.LogEvent | None) -> str:
    """Return what an event tells, without secrets; that something starts again is told with what failed, which is the event before it."""
    details = details_of(event)
    match event, before:
        case e.RestartScheduled(), e.TaskFailed():
            details = f"{before.vertex_id}[{before.subtask_index}]#{before.attempt} failed: {details_of(before)}; {details}"
        case e.JobRestartScheduled(), e.GlobalFailureOccurred():
            details = f"{details_of(before)}; {details}"
    return str(without_secrets("", details))


def _stalled(event: e.CheckpointCompleted, index: int, fold: Fold) -> Iterator[Happening | Resolution]:
    """Yield which streams of a job bring nothing to an end, by what they said for a checkpoint; or that none stands."""
    master = fold.master.dispatcher.jobs.get(event.job_id)
    standing = standing_streams(master) if master is not None else []
    if not standing:
        yield Resolution(HappeningType.STREAM_STALLED, event.job_id, index)
    for (vertex_id, subtask_index), why in standing:
        subject = f"{event.job_id}/{vertex_id}[{subtask_index}]"
        yield Happening(
            happening_type=HappeningType.STREAM_STALLED,
            event_index=index,
            event=event,
            subject=subject,
            thing=event.job_id,
            details=f"{vertex_id}[{subtask_index}]: {without_secrets('', why)}",
            job=_job_of(event, fold),
        )


def _over(event: e.LogEvent, index: int, fold: Fold) -> Iterator[Resolution]:
    """Yield what an event ends: what was said of a run that ends well, and the failure of an earlier one when a later one finishes."""
    match event:
        case e.JobResultStored() if event.status is not JobStatus.FAILED:
            for kind in _OF_A_RUN:
                yield Resolution(kind, event.job_id, index)
            if event.status is JobStatus.FINISHED and (job := _job_of(event, fold)) is not None:
                began_ms = fold.master.dispatcher.jobs[event.job_id].submitted_at_ms
                yield Resolution(HappeningType.JOB_FAILED, job.name, index, began_ms)
                yield Resolution(HappeningType.JOB_OVERDUE, job.name, index, began_ms)
        case e.CheckpointCompleted():
            yield Resolution(HappeningType.CHECKPOINT_FAILED, event.job_id, index)
        case e.ScheduleFired():
            yield Resolution(HappeningType.RUN_SKIPPED, event.schedule_id, index)
        case e.ScheduleResumed():
            yield Resolution(HappeningType.SCHEDULE_PAUSED, event.schedule_id, index)
        case e.TaskManagerRegistered():
            yield Resolution(HappeningType.TASK_MANAGER_LOST, event.task_manager_id, index)


def _job_of(event: e.LogEvent, fold: Fold) -> KnownJob | None:
    if (job_id := getattr(event, "job_id", None)) and (job := fold.master.dispatcher.jobs.get(job_id)) is not None:
        return _known(job.execution_graph.graph, job_id)
    schedule = fold.master.schedules.schedules.get(getattr(event, "schedule_id", ""))
    return _known(schedule.definition.job_graph) if schedule is not None else None


def _known(graph: JobGraph, job_id: str = "") -> KnownJob:
    return KnownJob(graph.name, job_id, graph.about)
