"""The schedules of a cluster, each with what became of its last instants, and those that come next."""

from itertools import chain, islice
from typing import Any, Final

from eventflink.documents.schedules import (
    AwaitingInstant,
    BackfillProgress,
    DecidedInstant,
    ForeseenBackfill,
    ForeseenInstant,
    ScheduleCursor,
    ScheduleDetails,
    ScheduleList,
    ScheduleRow,
    TableCursorInfo,
)
from eventflink.events.inputs import StartBackfill
from eventflink.events.log_events import BackfillStarted, FileAwaited, InstantsSkipped, LogEvent, RequestRejected, ScheduleFired
from eventflink.events.wording import when_of
from eventflink.leadership.fold import Fold
from eventflink.master.schedule_firing import foresee_backfill
from eventflink.master.schedules import AwaitedFile, Backfill, PastInstant, Schedule
from eventflink.master.settings import Context
from eventflink.model.schedule_document import schedule_document
from eventflink.model.schedules import InstantUnknown, ScheduleTiming, instants, local_time
from eventflink.model.statuses import InstantOrigin, SkipReason
from eventflink.views.job_document import shown
from eventflink.views.plain import iso_time, one_sentence
from eventflink.views.queries import SubjectNotFound

MAX_UPCOMING: Final = 10
MAX_AWAITING_SHOWN: Final = 100

_WHY: Final = {
    SkipReason.OVERLAP: "skipped",
    SkipReason.QUEUE_FULL: "skipped",
    SkipReason.REPLACED: "skipped: a later instant came while it waited",
    SkipReason.LATE: "skipped: it could not be decided in time",
    SkipReason.FINISHED_BEFORE: "skipped",
    SkipReason.FILE_MISSING: "missed",
    SkipReason.REFUSED: "refused",
    SkipReason.CHANGED: "skipped: the schedule was changed before it was decided",
    SkipReason.PAUSED: "skipped: the schedule was paused",
}
_WHENCE: Final = {
    InstantOrigin.DUE: "started",
    InstantOrigin.QUEUED: "started after the one before it",
    InstantOrigin.MANUAL: "started by hand",
    InstantOrigin.BACKFILL: "started by a back-fill",
    InstantOrigin.FILE: "started when its file was there",
}


class ScheduleNotFound(SubjectNotFound):
    """There is no such schedule."""


def schedules_view(fold: Fold, first: int = 0, limit: int = 1_000) -> ScheduleList:
    """Return the schedules from the `first`-th on, in the order in which they were made."""
    known = fold.master.schedules.schedules
    rows = [ScheduleRow(**_row_fields(schedule_id, schedule)) for schedule_id, schedule in islice(known.items(), first, first + limit)]
    return ScheduleList(schedules=rows, total=len(known))


def schedule_view(fold: Fold, schedule_id: str) -> ScheduleDetails:
    """Return one schedule.

    Raises:
        ScheduleNotFound: there is none of this id.

    """
    schedule = fold.master.schedules.schedules.get(schedule_id)
    if schedule is None:
        raise ScheduleNotFound(f"schedule not found: '{schedule_id[:128]}'; 'eventflink schedule list' shows those that are there")
    definition, timing = schedule.definition, schedule.definition.timing
    first_ms = schedule.next_ms if schedule.next_ms is not None and schedule.pause is None else fold.last_decided_at_ms
    try:
        upcoming = [local_time(timing, each) for each in islice(instants(timing, first_ms), MAX_UPCOMING)]
    except InstantUnknown:  # This host does not know the time zone, or not as the leader does.
        upcoming = []
    return ScheduleDetails(
        **_row_fields(schedule_id, schedule),
        catch_up=definition.catch_up,
        overlap=definition.overlap,
        upcoming=upcoming,
        history=[_decided(timing, past) for past in reversed(schedule.history)],
        cursor=_cursor(schedule),
        is_followed_known=timing.after is None or _is_known(fold, timing.after.name),
        definition=shown(schedule_document(definition)),
        table_cursor=_table_cursor(schedule),
        awaiting=[_awaiting(timing, *each) for each in islice(sorted(schedule.awaiting.items(), key=_instant_of), MAX_AWAITING_SHOWN)],
    )


def backfill_view(fold: Fold, command: StartBackfill, now_ms: int, limit: int) -> ForeseenBackfill | RequestRejected:
    """Return what a back-fill would make of its first `limit` instants if it began now, or why it would be refused."""
    decided = fold.master.decide(command, now_ms)
    begun = next((event for event in decided if isinstance(event, BackfillStarted)), None)
    if begun is None:
        return next(event for event in decided if isinstance(event, RequestRejected))
    timing = fold.master.schedules.schedule(command.schedule_id).definition.timing
    found = list(islice(foresee_backfill(fold.master, begun, Context(fold.master.settings, now_ms)), limit + 1))
    return ForeseenBackfill(instants=[_foreseen(timing, *each) for each in found[:limit]], is_whole=len(found) <= limit)


def _foreseen(timing: ScheduleTiming, instant_ms: int, what: LogEvent | str) -> ForeseenInstant:
    job_id, skipped, sentence = "", None, ""
    match what:
        case str():
            sentence = f"waits: {what}"
        case ScheduleFired():
            job_id = what.job_id
        case FileAwaited():
            sentence = f"waits for {what.file}"
        case InstantsSkipped():
            skipped, sentence = what.reason, _joined(_WHY[what.reason], what.message)
    return ForeseenInstant(
        instant=_local(timing, instant_ms), job_id=job_id or None, skipped=skipped, sentence=one_sentence(sentence) if sentence else ""
    )


def _cursor(schedule: Schedule) -> ScheduleCursor | None:
    if (watched := schedule.definition.timing.records) is None:
        return None
    cursor = schedule.cursor
    if cursor is None:
        return ScheduleCursor(topic=watched.name, topic_id=None, offsets={}, lost=0)
    return ScheduleCursor(topic=watched.name, topic_id=cursor.topic_id, offsets=dict(sorted(cursor.offsets.items())), lost=cursor.lost)


def _instant_of(item: tuple[int, AwaitedFile]) -> int:
    return item[0]


def _awaiting(timing: ScheduleTiming, instant_ms: int, waiting: AwaitedFile) -> AwaitingInstant:
    return AwaitingInstant(
        instant=_local(timing, instant_ms),
        origin=waiting.origin,
        file=waiting.file,
        since=iso_time(waiting.since_ms) or "",
        until=iso_time(waiting.until_ms) or "",
    )


def _table_cursor(schedule: Schedule) -> TableCursorInfo | None:
    if (watched := schedule.definition.timing.versions) is None:
        return None
    cursor = schedule.table_cursor
    return TableCursorInfo(
        table=str(watched),
        table_id=cursor.table_id if cursor is not None else None,
        version=cursor.version.number if cursor is not None else None,
        snapshot_id=str(cursor.version.snapshot_id) if cursor is not None and cursor.version.snapshot_id else None,
        moved=cursor.moved if cursor is not None else None,
        lost=cursor.lost if cursor is not None else 0,
        fault=schedule.table_fault,
    )


def _is_known(fold: Fold, name: str) -> bool:
    known = fold.master.schedules.schedules.values()
    graphs = chain(
        (job.execution_graph.graph for job in fold.master.dispatcher.jobs.values()), (each.definition.job_graph for each in known)
    )
    return any(graph.name == name for graph in graphs)


def _row_fields(schedule_id: str, schedule: Schedule) -> dict[str, Any]:
    definition, pause = schedule.definition, schedule.pause
    timing = definition.timing
    return {
        "schedule_id": schedule_id,
        "name": definition.job_graph.name,
        "description": definition.description,
        "when": when_of(definition),
        "time_zone": timing.time_zone,
        "version": schedule.version,
        "actor": schedule.actor,
        "stored_at": iso_time(schedule.stored_at_ms) or "",
        "next": _local(timing, schedule.next_ms) if schedule.next_ms is not None and pause is None else None,
        "paused_since": iso_time(pause.since_ms) if pause is not None else None,
        "paused_by": pause.actor if pause is not None else "",
        "paused_because": pause.reason if pause is not None else "",
        "running": list(schedule.running),
        "queued": len(schedule.queue),
        "awaiting_files": len(schedule.awaiting),
        "fault": schedule.table_fault,
        "last": _decided(timing, schedule.history[-1]) if schedule.history else None,
        "follows": timing.after.name if timing.after is not None else None,
        "takes": timing.what_it_takes or None,
        "backfill": _backfill(timing, schedule.backfill) if schedule.backfill is not None else None,
    }


def _backfill(timing: ScheduleTiming, backfill: Backfill) -> BackfillProgress:
    return BackfillProgress(
        actor=backfill.actor,
        started_at=iso_time(backfill.started_at_ms) or "",
        first=_local(timing, backfill.first_ms),
        end=_local(timing, backfill.end_ms),
        next=_local(timing, backfill.next_ms) if backfill.next_ms is not None else None,
        concurrency=backfill.concurrency,
        newest_first=backfill.newest_first,
        repeats_finished=backfill.repeats_finished,
        started=backfill.started,
        skipped=backfill.skipped,
        running=list(backfill.running),
    )


def _decided(timing: ScheduleTiming, past: PastInstant) -> DecidedInstant:
    what = _WHENCE[past.origin] if past.skipped is None else _WHY[past.skipped]
    if past.after_job_id and not past.last_ms:
        what = f"{what}, after the end of '{past.after_job_id}'"
    if past.records:
        what = f"{what}, for {past.records:,} record{'s' if past.records > 1 else ''}"
    if past.versions is not None:
        what = f"{what}, for {past.versions}"
    return DecidedInstant(
        instant=_local(timing, past.instant_ms),
        last=_local(timing, past.last_ms) if past.last_ms else None,
        decided_at=iso_time(past.decided_at_ms) or "",
        origin=past.origin,
        job_id=past.job_id or None,
        skipped=past.skipped,
        sentence=one_sentence(_joined(what, past.message)),
        after_job_id=past.after_job_id or None,
        records=past.records or None,
    )


def _joined(what: str, message: str) -> str:
    return f"{what}: {message}" if message else what


def _local(timing: ScheduleTiming, instant_ms: int) -> str:
    try:
        return local_time(timing, instant_ms)
    except InstantUnknown:
        return iso_time(instant_ms) or ""
