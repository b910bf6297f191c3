"""Which instants of schedules start a job: what is due, what comes too late, what meets a job that still runs, and what people ask for.

Each decision is about one instant of one schedule, or about a range that is skipped together; the next one follows in the same record while
that is small. A job that cannot be submitted is a reason for the instant, and stops no other one.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Final

from eventflink.events.inputs import FireSchedule
from eventflink.events.log_events import (
    BackfillCancelled,
    BackfillStarted,
    FileAwaited,
    InstantQueued,
    InstantsSkipped,
    LogEvent,
    RecordsClaimed,
    RecordsLost,
    ScheduleFired,
    SchedulePaused,
    TableCursorSet,
    TableSightChanged,
    TopicCursorSet,
    VersionsClaimed,
)
from eventflink.master.inputs import FileMissed, FileSeen, FireSchedules, RecordsSeen, TableNotSeen, VersionsSeen
from eventflink.master.requests import MAX_MESSAGE_LENGTH, accepted, rejected
from eventflink.master.schedules import MAX_AWAITING, OF_ITSELF, Backfill, Schedule, next_of_backfill
from eventflink.master.settings import Context
from eventflink.master.state import ClusterState
from eventflink.model.durations import duration_text
from eventflink.model.job_graph_document import InvalidJobGraph, graph_digest
from eventflink.model.schedules import (
    FollowedTopic,
    InstantBefore,
    InstantUnknown,
    OffsetRange,
    PartitionOffset,
    ScheduledInstant,
    VersionRange,
    count_records,
    due_at,
    file_for,
    graph_for,
    is_within,
    job_id_of,
    records_behind,
    take_records,
    what_is_before,
)
from eventflink.model.statuses import (
    TERMINAL_JOB_STATUSES,
    CatchUp,
    CursorMove,
    InstantOrigin,
    InstantValue,
    JobStatus,
    OverlapPolicy,
    SkipReason,
    TopicBegin,
)
from eventflink.model.texts import cut_bytes

LATE_MS: Final = 60_000
"""An instant is late after this time: a change of leaders takes less."""
MAX_QUEUE: Final = 1_000
MAX_JOBS_OF_AN_INSTANT: Final = 1_000


def decide_fire_schedules(state: ClusterState, _value: FireSchedules, context: Context) -> list[LogEvent]:
    """Decide about the instant that has waited longest."""
    if state.shutdown.is_under_way:
        return []
    for schedule_id in state.schedules.due(context.now_ms):
        schedule = state.schedules.schedules[schedule_id]
        try:
            if events := _decide_one(state, schedule_id, schedule, context):
                return events
        except InstantUnknown as error:
            return _give_up(schedule_id, schedule, str(error))
    return []


def _decide_one(state: ClusterState, schedule_id: str, schedule: Schedule, context: Context) -> list[LogEvent]:
    first_ms = next(iter(schedule.queue), None)
    if schedule.pause is None:
        if first_ms is not None and schedule.may_run_beside:  # What waits since another policy held is older than the next instant.
            return _start(state, schedule_id, schedule, first_ms, schedule.next_ms, InstantOrigin.QUEUED, context)
        if schedule.next_ms is not None and due_at(schedule_id, schedule.definition.timing, schedule.next_ms) <= context.now_ms:
            return _outdated(schedule_id, schedule, schedule.next_ms) or _decide_due(
                state, schedule_id, schedule, schedule.next_ms, context
            )
        if first_ms is not None and not schedule.running:
            return _start(state, schedule_id, schedule, first_ms, schedule.next_ms, InstantOrigin.QUEUED, context)
    if schedule.backfill is not None and schedule.backfill.next_ms is not None:
        return _decide_backfill(state, schedule_id, schedule, schedule.backfill.next_ms, context)
    return []


def decide_file_missed(state: ClusterState, value: FileMissed, context: Context) -> list[LogEvent]:
    """Skip an instant whose file was not there when its time was over."""
    schedule = state.schedules.schedules.get(value.schedule_id)
    waiting = schedule.awaiting.get(value.instant_ms) if schedule is not None else None
    if schedule is None or waiting is None or waiting.file != value.file or waiting.until_ms > context.now_ms:
        return []
    if state.shutdown.is_under_way or (schedule.pause is not None and waiting.origin is not InstantOrigin.BACKFILL):
        return []
    within, because = duration_text(waiting.until_ms - waiting.since_ms), f": {value.fault}" if value.fault else ""
    message = cut_bytes(f"{waiting.file} was not seen within {within}{because}", MAX_MESSAGE_LENGTH)
    next_ms, at_ms = _next_beside(schedule, waiting.origin), value.instant_ms
    return [InstantsSkipped(value.schedule_id, at_ms, next_ms, InstantOrigin.FILE, at_ms, SkipReason.FILE_MISSING, message)]


def _next_beside(schedule: Schedule, origin: InstantOrigin) -> int | None:
    """Return the next instant of what asked for one that has waited for a file."""
    if origin is InstantOrigin.BACKFILL and schedule.backfill is not None:
        return schedule.backfill.next_ms
    return schedule.next_ms


def decide_file_seen(state: ClusterState, value: FileSeen, context: Context) -> list[LogEvent]:
    """Start the job of an instant whose file is there, unless another job of the schedule is in its way."""
    schedule = state.schedules.schedules.get(value.schedule_id)
    waiting = schedule.awaiting.get(value.instant_ms) if schedule is not None else None
    if schedule is None or waiting is None or waiting.file != value.file or state.shutdown.is_under_way:
        return []
    decide = _start if waiting.origin is InstantOrigin.BACKFILL else _decide_overlap
    if waiting.origin is not InstantOrigin.BACKFILL and schedule.pause is not None:
        return []
    next_ms = _next_beside(schedule, waiting.origin)
    try:
        return decide(state, value.schedule_id, schedule, value.instant_ms, next_ms, InstantOrigin.FILE, context)
    except InstantUnknown as error:
        return _give_up(value.schedule_id, schedule, str(error))


def _await_file(
    schedule_id: str, schedule: Schedule, instant_ms: int, next_ms: int | None, origin: InstantOrigin, context: Context
) -> list[LogEvent]:
    """Have an instant wait for its file; nothing where instants of the schedule wait for none."""
    if (condition := schedule.definition.wait_for) is None:
        return []
    reason, message = SkipReason.QUEUE_FULL, f"{MAX_AWAITING} instants wait for files already"
    if instant_ms in schedule.awaiting:
        reason, message = SkipReason.OVERLAP, "its back-fill waits for its file"
    elif len(schedule.awaiting) < MAX_AWAITING:
        try:
            before = _what_is_before(schedule, instant_ms, origin)
            file = file_for(condition, graph_for(schedule.definition, instant_ms, {}, before=before))
            return [FileAwaited(schedule_id, instant_ms, next_ms, origin, file, context.now_ms + condition.within_ms, before)]
        except (InvalidJobGraph, ValueError) as error:
            reason, message = SkipReason.REFUSED, cut_bytes(str(error), MAX_MESSAGE_LENGTH)
    return [InstantsSkipped(schedule_id, instant_ms, next_ms, origin, instant_ms, reason, message)]


def _outdated(schedule_id: str, schedule: Schedule, instant_ms: int) -> list[LogEvent]:
    """Skip the end of a run that a newer version of the schedule excludes; nothing where it is an instant."""
    timing = schedule.definition.timing
    if timing.after is None or is_within(timing, instant_ms):
        return []
    following_ms = schedule.instant_after(instant_ms)
    return [InstantsSkipped(schedule_id, instant_ms, following_ms, InstantOrigin.DUE, instant_ms, SkipReason.CHANGED)]


def _give_up(schedule_id: str, schedule: Schedule, why: str) -> list[LogEvent]:
    """Stop what cannot be computed on the leader's host, until somebody resumes it on one where it can."""
    paused = [SchedulePaused(schedule_id, "", f"its instants cannot be computed: {why}")] if schedule.pause is None else []
    return [*paused, *([BackfillCancelled(schedule_id, "")] if schedule.backfill is not None else [])]


def decide_records_seen(state: ClusterState, value: RecordsSeen, context: Context) -> list[LogEvent]:
    """Set the cursor of a schedule, or start a job for the records behind it, if they are enough, or one of them is old enough.

    The cursor moves by the decision that starts the job. Where the job cannot be started, the schedule is paused, and the records stay.
    """
    schedule = state.schedules.schedules.get(value.schedule_id)
    watched = schedule.definition.timing.records if schedule is not None else None
    if schedule is None or watched is None or watched.name != value.topic:  # It was seen before the schedule was changed.
        return []
    cursor = schedule.cursor
    if cursor is None or value.topic_id not in (cursor.topic_id, cursor.replaced_topic_id):
        return _set_cursor(schedule, watched, value)
    if cursor.topic_id != value.topic_id or state.shutdown.is_under_way or not schedule.awaits_batch():
        return []
    passed = {each.partition: cursor.offsets.get(each.partition, 0) for each in value.bounds}
    gone = [OffsetRange(each.partition, passed[each.partition], each.first_offset) for each in value.bounds]
    gone = [each for each in gone if each.end_offset > each.first_offset]
    lost: list[LogEvent] = [RecordsLost(value.schedule_id, tuple(gone))] if gone else []
    there = records_behind(passed, value.bounds)
    is_old = any(each.offset > there[each.partition].first_offset for each in value.since if each.partition in there)
    if not there or (count_records(there.values()) < watched.least_records and not (watched.max_wait_ms and is_old)):
        return lost
    try:
        ranges = take_records(there, watched.most_records, cursor.after)
        return [*lost, *_claim(state, value.schedule_id, schedule, ranges, context)]
    except (InvalidJobGraph, InstantUnknown) as error:
        return [_pause_before(value.schedule_id, "records", error)]


def _pause_before(schedule_id: str, what: str, error: Exception) -> SchedulePaused:
    return SchedulePaused(
        schedule_id, "", cut_bytes(f"its job cannot be started for the {what} that are there: {error}", MAX_MESSAGE_LENGTH)
    )


def decide_versions_seen(state: ClusterState, value: VersionsSeen, context: Context) -> list[LogEvent]:
    """Set the cursor of a schedule in its table, or start a job for all versions behind it.

    What was seen with the cursor elsewhere is passed over: the next look finds it again.
    """
    schedule = state.schedules.schedules.get(value.schedule_id)
    return [] if schedule is None or not _is_watched(schedule, value) else _decide_seen(state, schedule, value, context)


def _is_watched(schedule: Schedule, value: VersionsSeen | TableNotSeen) -> bool:
    """Tell whether this is the table of the schedule: it may have been looked at before the schedule was changed."""
    watched = schedule.definition.timing.versions
    return watched is not None and str(watched) == str(value.table)


def _decide_seen(state: ClusterState, schedule: Schedule, value: VersionsSeen, context: Context) -> list[LogEvent]:
    events: list[LogEvent] = [TableSightChanged(value.schedule_id, "")] if schedule.table_fault else []
    cursor = schedule.table_cursor
    if value.cursor != (cursor.version if cursor is not None else None):
        return events
    if cursor is None or cursor.table_id not in (value.table_id, value.had_id):
        reason = CursorMove.BEGUN if cursor is None else CursorMove.REPLACED
        return [*events, TableCursorSet(value.schedule_id, value.table_id, value.base, reason)]
    if state.shutdown.is_under_way or not schedule.awaits_batch():
        return events
    if value.base != cursor.version:
        reason = CursorMove.CLEANED if value.base.number > cursor.version.number else CursorMove.REWOUND
        events.append(TableCursorSet(value.schedule_id, cursor.table_id, value.base, reason))
    if value.last == value.base:
        return events
    try:
        return [*events, *_claim(state, value.schedule_id, schedule, VersionRange(value.base, value.last), context, value.table_id)]
    except (InvalidJobGraph, InstantUnknown) as error:
        return [*events, _pause_before(value.schedule_id, "versions", error)]


def decide_table_not_seen(state: ClusterState, value: TableNotSeen, _context: Context) -> list[LogEvent]:
    """Note why a table cannot be looked at, unless that is known."""
    schedule = state.schedules.schedules.get(value.schedule_id)
    if (
        schedule is None
        or not _is_watched(schedule, value)
        or schedule.table_fault == (fault := cut_bytes(value.fault, MAX_MESSAGE_LENGTH))
    ):
        return []
    return [TableSightChanged(value.schedule_id, fault)]


def _set_cursor(schedule: Schedule, watched: FollowedTopic, value: RecordsSeen) -> list[LogEvent]:
    """Begin where the schedule says; what is in a topic that has taken the place of another one is new."""
    offsets = tuple(PartitionOffset(each.partition, each.first_offset) for each in value.bounds)
    if schedule.cursor is None and watched.begin is TopicBegin.LATEST:
        offsets = value.since
    return [TopicCursorSet(value.schedule_id, value.topic_id, offsets)] if offsets else []


def _claim(
    state: ClusterState,
    schedule_id: str,
    schedule: Schedule,
    taken: list[OffsetRange] | VersionRange,
    context: Context,
    table_id: str = "",
) -> list[LogEvent]:
    """Start a job for what is behind a cursor; nothing where that is not allowed now."""
    instant_ms = max(context.now_ms, schedule.newest_ms() + 1)
    job_id = _free_id(state, job_id_of(schedule_id, instant_ms))
    if job_id is None or not is_within(schedule.definition.timing, instant_ms):
        return []
    before = schedule.what_is_before(instant_ms)
    claimed: RecordsClaimed | VersionsClaimed
    if isinstance(taken, VersionRange):
        started = _job_of(state, schedule_id, schedule, instant_ms, before, job_id, context, versions=taken)
        claimed = VersionsClaimed(schedule_id, instant_ms, taken, table_id)
    else:
        started = _job_of(state, schedule_id, schedule, instant_ms, before, job_id, context, records=taken)
        claimed = RecordsClaimed(schedule_id, instant_ms, tuple(taken))
    return [claimed, ScheduleFired(schedule_id, instant_ms, None, InstantOrigin.DUE, job_id, before.joined_ms), *started]


def decide_fire_schedule(state: ClusterState, command: FireSchedule, context: Context) -> list[LogEvent]:
    """Start a job that somebody asks for."""
    schedule = state.schedules.schedules.get(command.schedule_id)
    if schedule is None:
        return [state.schedules.unknown_schedule(command, command.schedule_id)]
    if state.dispatcher.is_known(command.job_id):
        return [rejected(command, "DuplicateJobSubmission", f"job '{command.job_id}' was submitted before")]
    is_now = command.instant_ms is None
    instant_ms = context.now_ms if command.instant_ms is None else command.instant_ms
    values = {each.name: each.value for each in command.parameters}
    try:
        before = schedule.what_is_before(instant_ms) if is_now else what_is_before(schedule.definition.timing, instant_ms)
        started = _job_of(state, command.schedule_id, schedule, instant_ms, before, command.job_id, context, values=values)
    except (InvalidJobGraph, InstantUnknown) as error:
        return [rejected(command, "InvalidParameters", f"schedule '{command.schedule_id}' cannot start its job with these values: {error}")]
    previous_ms = before.joined_ms if is_now and not values else None
    fired = ScheduleFired(command.schedule_id, instant_ms, schedule.next_ms, InstantOrigin.MANUAL, command.job_id, previous_ms)
    return [accepted(command), fired, *started]


def _decide_due(state: ClusterState, schedule_id: str, schedule: Schedule, instant_ms: int, context: Context) -> list[LogEvent]:
    origin = InstantOrigin.DUE
    if (next_ms := _next_in_time(schedule, instant_ms, context.now_ms)) != instant_ms:
        last_ms = schedule.instant_before(context.now_ms + 1 if next_ms is None else next_ms) or instant_ms
        return [InstantsSkipped(schedule_id, instant_ms, next_ms, origin, max(last_ms, instant_ms), SkipReason.LATE)]
    following_ms = schedule.instant_after(instant_ms)
    if awaited := _await_file(schedule_id, schedule, instant_ms, following_ms, origin, context):
        return awaited
    return _decide_overlap(state, schedule_id, schedule, instant_ms, following_ms, origin, context)


def _decide_overlap(
    state: ClusterState,
    schedule_id: str,
    schedule: Schedule,
    instant_ms: int,
    following_ms: int | None,
    origin: InstantOrigin,
    context: Context,
) -> list[LogEvent]:
    """Start the job of an instant, or do what the schedule says while another one runs."""
    definition = schedule.definition
    running = next(iter(schedule.running), None)
    if (running is None and not schedule.queue) or schedule.may_run_beside:
        return _start(state, schedule_id, schedule, instant_ms, following_ms, origin, context)
    if definition.overlap in (OverlapPolicy.SKIP, OverlapPolicy.ALLOW):
        message = f"job '{running}' still ran" if running is not None else f"{len(schedule.queue)} instants waited"
        return [InstantsSkipped(schedule_id, instant_ms, following_ms, origin, instant_ms, SkipReason.OVERLAP, message)]
    if definition.overlap is OverlapPolicy.QUEUE:
        if len(schedule.queue) >= MAX_QUEUE:
            message = f"{MAX_QUEUE} instants wait already"
            return [InstantsSkipped(schedule_id, instant_ms, following_ms, origin, instant_ms, SkipReason.QUEUE_FULL, message)]
        return [InstantQueued(schedule_id, instant_ms, following_ms, origin, _what_is_before(schedule, instant_ms, origin))]
    if origin is InstantOrigin.FILE and max([*schedule.running.values(), *schedule.queue]) > instant_ms:  # Its file came late.
        return [InstantsSkipped(schedule_id, instant_ms, following_ms, origin, instant_ms, SkipReason.REPLACED)]
    replaced, queue = list[LogEvent](), [*schedule.queue]
    if queue:
        replaced.append(InstantsSkipped(schedule_id, queue[0], instant_ms, InstantOrigin.QUEUED, queue[-1], SkipReason.REPLACED))
    stopped = state.schedules.decide_cancellation(schedule.running, schedule.actor)
    queued = InstantQueued(schedule_id, instant_ms, following_ms, origin, _what_is_before(schedule, instant_ms, origin))
    return [*replaced, queued, *stopped]


def _next_in_time(schedule: Schedule, instant_ms: int, now_ms: int) -> int | None:
    """Return the first instant from this one on that is not too late, by what the schedule catches up with; None: there is none."""
    definition, timing = schedule.definition, schedule.definition.timing
    if definition.catch_up is CatchUp.LAST:
        last_ms = schedule.instant_before(now_ms - timing.jitter_ms + 1)  # Of a later one the jitter may not have passed.
        return instant_ms if last_ms is None else max(instant_ms, last_ms)
    late_ms = now_ms - LATE_MS - timing.jitter_ms  # One may have waited for the jitter of the one before it.
    if definition.catch_up is CatchUp.NONE and instant_ms < late_ms:
        return schedule.instant_after(late_ms - 1)
    return instant_ms


def _decide_backfill(state: ClusterState, schedule_id: str, schedule: Schedule, instant_ms: int, context: Context) -> list[LogEvent]:
    backfill = schedule.backfill
    if backfill is None or _what_keeps(state, schedule_id, schedule, instant_ms):
        return []
    return _decide_of_backfill(state, schedule_id, schedule, backfill, instant_ms, context)


def _what_keeps(state: ClusterState, schedule_id: str, schedule: Schedule, instant_ms: int) -> str:
    """Return what a back-fill waits for before it decides about an instant, in words; empty: nothing.

    Two jobs for one instant never run beside each other: how the one ends decides whether there is to be another. An instant that has
    come, and waits for its jitter, is decided first.
    """
    undecided_ms = schedule.next_ms if schedule.pause is None else None
    if undecided_ms is not None and instant_ms >= undecided_ms:
        return "it comes due by itself, and is decided then"
    if instant_ms in schedule.queue:
        return "it is in the queue of the schedule"
    if instant_ms in schedule.awaiting:
        return f"its file {schedule.awaiting[instant_ms].file} was not seen yet"
    running = _job_for(state, schedule_id, instant_ms, is_finished=False)
    return f"job '{running}' runs" if running is not None else ""


def _decide_of_backfill(
    state: ClusterState, schedule_id: str, schedule: Schedule, bounds: Backfill | BackfillStarted, instant_ms: int, context: Context
) -> list[LogEvent]:
    following_ms, origin = next_of_backfill(schedule.definition, bounds, instant_ms), InstantOrigin.BACKFILL
    if schedule.instant_after(instant_ms - 1) != instant_ms:
        return [InstantsSkipped(schedule_id, instant_ms, following_ms, origin, instant_ms, SkipReason.CHANGED)]
    if not bounds.repeats_finished and (finished := _job_for(state, schedule_id, instant_ms, is_finished=True)) is not None:
        message = f"job '{finished}' had finished"
        return [InstantsSkipped(schedule_id, instant_ms, following_ms, origin, instant_ms, SkipReason.FINISHED_BEFORE, message)]
    if awaited := _await_file(schedule_id, schedule, instant_ms, following_ms, origin, context):
        return awaited
    return _start(state, schedule_id, schedule, instant_ms, following_ms, origin, context)


def foresee_backfill(state: ClusterState, begun: BackfillStarted, context: Context) -> Iterator[tuple[int, LogEvent | str]]:
    """Yield each instant of a back-fill that would begin now, in its order, with what would be decided about it, or what that waits for.

    Time stands still: the jobs that run do not end, and none of the back-fill's own starts. Raises `InstantUnknown`.
    """
    schedule_id, schedule = begun.schedule_id, state.schedules.schedule(begun.schedule_id)
    instant_ms: int | None = begun.next_ms
    while instant_ms is not None:
        kept = _what_keeps(state, schedule_id, schedule, instant_ms)
        yield instant_ms, kept or _decide_of_backfill(state, schedule_id, schedule, begun, instant_ms, context)[0]
        instant_ms = next_of_backfill(schedule.definition, begun, instant_ms)


def _job_for(state: ClusterState, schedule_id: str, instant_ms: int, *, is_finished: bool) -> str | None:
    """Return a job for an instant that has finished, or has not ended, a rerun among them; None: no such job is remembered."""
    job_id = job_id_of(schedule_id, instant_ms)
    if is_finished and state.dispatcher.status_of(job_id) is JobStatus.FINISHED:
        return job_id
    for job in state.dispatcher.jobs.values():
        of = job.scheduled
        if of is not None and of.instant_ms == instant_ms and of.schedule_id == schedule_id:
            fits = job.status is JobStatus.FINISHED if is_finished else job.status not in TERMINAL_JOB_STATUSES
            if fits:
                return job.job_id
    return None


def _start(
    state: ClusterState,
    schedule_id: str,
    schedule: Schedule,
    instant_ms: int,
    next_ms: int | None,
    origin: InstantOrigin,
    context: Context,
) -> list[LogEvent]:
    def refused(why: str) -> list[LogEvent]:
        message = cut_bytes(why, MAX_MESSAGE_LENGTH)
        return [InstantsSkipped(schedule_id, instant_ms, next_ms, origin, instant_ms, SkipReason.REFUSED, message)]

    run = schedule.followed.get(instant_ms, "") if origin in OF_ITSELF else ""
    job_id = _free_id(state, job_id_of(schedule_id, instant_ms))
    if job_id is None:
        return refused(f"there were {MAX_JOBS_OF_AN_INSTANT} jobs for this instant: some have to leave the memory first")
    if run and run not in state.dispatcher.jobs and _takes_parameters(schedule):
        return refused(f"run '{run}', whose parameters the job takes, has left the memory of the masters (jobstore.*)")
    try:
        before, of_backfill = _what_is_before(schedule, instant_ms, origin), _is_of_backfill(schedule, instant_ms, origin)
        started = _job_of(state, schedule_id, schedule, instant_ms, before, job_id, context, run, of_backfill=of_backfill)
    except InvalidJobGraph as error:
        return refused(str(error))
    fired = ScheduleFired(schedule_id, instant_ms, next_ms, origin, job_id, None if of_backfill else before.joined_ms)
    return [fired, *started]


def _what_is_before(schedule: Schedule, instant_ms: int, origin: InstantOrigin) -> InstantBefore:
    """Return what was before an instant when it was decided, which is now for one that has not waited. Raises `InstantUnknown`."""
    if origin is InstantOrigin.QUEUED:
        return schedule.queue[instant_ms]
    if origin is InstantOrigin.FILE:
        return schedule.awaiting[instant_ms].before
    if origin is InstantOrigin.BACKFILL:
        return what_is_before(schedule.definition.timing, instant_ms)
    return schedule.what_is_before(instant_ms)


def _is_of_backfill(schedule: Schedule, instant_ms: int, origin: InstantOrigin) -> bool:
    asked_by = schedule.awaiting[instant_ms].origin if origin is InstantOrigin.FILE else origin
    return asked_by is InstantOrigin.BACKFILL


def _takes_parameters(schedule: Schedule) -> bool:
    return any(each.value is InstantValue.PARAMETER for each in schedule.definition.instant_parameters)


def _job_of(
    state: ClusterState,
    schedule_id: str,
    schedule: Schedule,
    instant_ms: int,
    before: InstantBefore,
    job_id: str,
    context: Context,
    run: str = "",
    *,
    values: Mapping[str, object] = MappingProxyType({}),
    records: Sequence[OffsetRange] = (),
    versions: VersionRange | None = None,
    of_backfill: bool = False,
) -> list[LogEvent]:
    followed = state.dispatcher.jobs.get(run)
    parameters = followed.execution_graph.graph.parameters if followed is not None else ()
    of_run = {each.name: each.value for each in parameters if each.value is not None}
    graph = graph_for(schedule.definition, instant_ms, values, run, of_run, records, versions, before)
    scheduled = ScheduledInstant(schedule_id, instant_ms, schedule.version, run, of_backfill)
    return state.dispatcher.start_of(job_id, graph_digest(graph), schedule.actor, graph, context, scheduled=scheduled)


def _free_id(state: ClusterState, job_id: str) -> str | None:
    """Return this id, or, if there was a job of it, with a number behind it; None: there were too many."""
    names = chain([job_id], (f"{job_id}-{number}" for number in range(2, MAX_JOBS_OF_AN_INSTANT + 1)))
    return next((name for name in names if not state.dispatcher.is_known(name)), None)
