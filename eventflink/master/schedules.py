"""The schedules: the jobs that the cluster starts by itself, and what became of their last instants.

A schedule has one next instant, which is in the log: it is decided once, whoever leads, and then another one is next. So each instant leads
to one job, or to the reason for none. What is due stands in the agenda, by time. The end of a run is an instant of each schedule that
follows its job, and is noted by the decision that ends the run. Records of a topic, and versions of a table, are an instant of the
schedule whose cursor passes them, by the decision that starts their job. Which job starts, and when not, is decided in
`schedule_firing.py`; here is what a schedule is, and what the commands of people make of it.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from eventflink.events.inputs import (
    CancelBackfill,
    Command,
    DeleteSchedule,
    PauseSchedule,
    PutSchedule,
    ResumeSchedule,
    ScheduleCommand,
    StartBackfill,
)
from eventflink.events.log_events import (
    BackfillCancelled,
    BackfillStarted,
    FileAwaited,
    InstantEvent,
    InstantQueued,
    InstantsSkipped,
    JobResultStored,
    JobSubmitted,
    LogEvent,
    RecordsClaimed,
    RecordsLost,
    RequestRejected,
    RunFollowed,
    ScheduleDeleted,
    ScheduleFired,
    SchedulePaused,
    ScheduleResumed,
    ScheduleStored,
    TableCursorSet,
    TableSightChanged,
    TopicCursorSet,
    VersionsClaimed,
)
from eventflink.master.canonical import DERIVED, require
from eventflink.master.dispatcher import Dispatcher
from eventflink.master.queue_shares import find_fault_of_queue
from eventflink.master.requests import accepted, rejected
from eventflink.master.settings import Context
from eventflink.model.job_queues import JobQueue
from eventflink.model.schedules import (
    InstantBefore,
    InstantUnknown,
    OffsetRange,
    ScheduleDefinition,
    ScheduleTiming,
    TableVersion,
    VersionRange,
    count_records,
    due_at,
    instant_after,
    instant_before,
    is_followed,
    is_within,
    what_is_before,
)
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, CursorMove, IllegalTransition, InstantOrigin, OverlapPolicy, SkipReason

MAX_SCHEDULES: Final = 10_000
HISTORY_SIZE: Final = 20
"""How many decisions about instants each schedule remembers."""
MAX_FOLLOWERS: Final = 100
"""How many schedules may follow one job: the end of a run is one decision."""
MAX_WATCHERS: Final = 1_000
"""How many schedules may take the records of topics, or the versions of tables: all of these are looked at each second."""
MAX_RUNNING: Final = 100
"""Jobs of one schedule whose policy allows several at once."""
MAX_FOLLOWED: Final = 1_000
"""How many ends of runs a schedule keeps that are not decided."""
OF_ITSELF: Final = (InstantOrigin.DUE, InstantOrigin.QUEUED)
"""The origins of instants that may be ends of runs; a person asks for the others, or they wait for a file."""
MAX_AWAITING: Final = 1_000
"""How many instants of a schedule wait for a file."""


@dataclass(slots=True)
class SchedulePause:
    """Why a schedule starts no jobs."""

    actor: str
    reason: str
    since_ms: int


@dataclass(slots=True)
class PastInstant:
    """What became of an instant."""

    instant_ms: int
    decided_at_ms: int
    origin: InstantOrigin
    job_id: str = ""
    """The job that was started; empty: none."""
    skipped: SkipReason | None = None
    """Why there is none; None: there is one."""
    message: str = ""
    last_ms: int = 0
    """Of several that were skipped together the last one; 0: it is one."""
    after_job_id: str = ""
    """The run whose end is the instant; empty: no run made it."""
    records: int = 0
    """The records that made it, counted as offsets; 0: none made it."""
    versions: VersionRange | None = None
    """The versions of a table that made it; None: none made it."""


@dataclass(slots=True)
class AwaitedFile:
    """The file for which an instant waits."""

    file: str
    since_ms: int
    until_ms: int
    origin: InstantOrigin
    """Why the instant is to have a job: it was due, or is one of a back-fill."""
    before: InstantBefore
    """What was before the instant when it was decided that it waits."""


@dataclass(slots=True)
class TopicCursor:
    """Up to where the records of a topic belong to jobs."""

    topic_id: str
    offsets: dict[int, int]
    """What is next, by partition."""
    replaced_topic_id: str = ""
    """The topic of the same name before it: a broker that has not heard of the new one may still tell of that."""
    after: int = -1
    """The partition whose turn came last."""
    claimed: int = 0
    """How many records its last instant is for, counted as offsets."""
    lost: int = 0
    """How many Kafka has deleted that no job has read."""


@dataclass(slots=True)
class TableCursor:
    """Up to which version the changes of a table belong to jobs."""

    table_id: str
    version: TableVersion
    """The last one that a job has had, or none was to have."""
    claimed: VersionRange | None = None
    """The versions that its last instant is for."""
    moved: CursorMove = CursorMove.BEGUN
    """Why it was set there when it was set last, other than by the start of a job."""
    lost: int = 0
    """How many versions the table has forgotten that no job has had."""


@dataclass(slots=True)
class Backfill:
    """A range of instants that get their jobs later than they would have."""

    actor: str
    started_at_ms: int
    first_ms: int
    end_ms: int
    concurrency: int
    newest_first: bool
    repeats_finished: bool
    next_ms: int | None
    """The next instant that gets its job; None: all have one, and some of these run."""
    running: dict[str, int] = field(default_factory=dict)
    """The jobs that run, with their instants."""
    started: int = 0
    skipped: int = 0


@dataclass(slots=True)
class Schedule:
    """One schedule."""

    definition: ScheduleDefinition
    version: int
    actor: str
    """Who gave it this definition; its jobs are this actor's."""
    stored_at_ms: int
    next_ms: int | None
    """The next instant that is to be decided; None: there is none."""
    decided_ms: int = -1
    """The last instant that was decided when it was due: whatever changes, those that follow are later."""
    pause: SchedulePause | None = None
    queue: dict[int, InstantBefore] = field(default_factory=dict)
    """Instants whose jobs wait for those before them, in order, with what was before each when it was decided."""
    running: dict[str, int] = field(default_factory=dict)
    """The jobs that run, with their instants, reruns among them; those of a back-fill are there."""
    history: list[PastInstant] = field(default_factory=list)
    """The newest last."""
    backfill: Backfill | None = None
    followed: dict[int, str] = field(default_factory=dict)
    """The ended runs whose instants are not decided, or wait for a job, by these instants, in order."""
    cursor: TopicCursor | None = None
    """The cursor of its topic; None: the schedule takes no records, or has not seen its topic."""
    taken_since_ms: int = 0
    """When it was first said that it takes what comes in this topic, or in this table."""
    due_ms: int | None = None
    """When there is something to decide; None: not before something else happens."""
    table_cursor: TableCursor | None = None
    """The cursor of its table; None: the schedule takes no versions, or has not seen its table."""
    table_fault: str = ""
    """Why its table could not be looked at; empty: it could, or nobody has looked."""
    awaiting: dict[int, AwaitedFile] = field(default_factory=dict)
    """The instants that wait for a file."""
    joined_ms: int | None = None
    """Up to where its own instants reach: that behind it is of the next one; None: there was none."""

    def instant_after(self, after_ms: int) -> int | None:
        """Return the first known instant after a time; None: no instant is known. Raises `InstantUnknown`."""
        if not self.definition.timing.is_noted:
            return instant_after(self.definition.timing, after_ms)
        return next((each for each in self.followed if each > after_ms), None)

    def instant_before(self, before_ms: int) -> int | None:
        """Return the last instant before a time; None: no instant was before. Raises `InstantUnknown`."""
        if not self.definition.timing.is_noted:
            return instant_before(self.definition.timing, before_ms)
        return next((each for each in reversed(self.followed) if each < before_ms), None)

    def undecided(self) -> list[int]:
        """Return the instants of ended runs that are not decided yet, in order."""
        return [each for each in self.followed if each not in self.queue]

    def first_undecided(self) -> int | None:
        """Return the first instant of an ended run that is not decided; None: each is decided."""
        return next(iter(self.undecided()), None)

    def awaits_batch(self) -> bool:
        """Tell whether records of its topic, or versions of its table, would start a job."""
        may_run = not self.running or self.may_run_beside
        return self.definition.timing.has_cursor and self.pause is None and may_run and not self.queue and self.next_ms is None

    @property
    def may_run_beside(self) -> bool:
        """Whether a job may start whatever else of the schedule runs."""
        return self.definition.overlap is OverlapPolicy.ALLOW and len(self.running) < MAX_RUNNING

    def overdue(self, now_ms: int) -> int | None:
        """Return the next instant of a cron expression or interval if it has come, before a pause if there is one; None: it has not."""
        until_ms = now_ms if self.pause is None else min(now_ms, self.pause.since_ms)
        has_come = self.next_ms is not None and not self.definition.timing.is_noted and self.next_ms <= until_ms
        return self.next_ms if has_come else None

    def newest_ms(self) -> int:
        """Return the newest instant that is decided, or is that of an ended run: a new one is later."""
        return max(self.decided_ms, next(reversed(self.followed), -1))

    def next_in(self, timing: ScheduleTiming, from_ms: int) -> int | None:
        """Return the first instant of a cron expression or interval, from a time on, that was not decided. Raises `InstantUnknown`."""
        return instant_after(timing, max(from_ms - 1, self.decided_ms))

    def when_due(self, schedule_id: str, at_ms: int) -> int | None:
        """Return when there is something to decide, after an event at `at_ms`."""
        times = []
        if self.pause is None:
            if self.next_ms is not None:
                times.append(due_at(schedule_id, self.definition.timing, self.next_ms))
            if self.queue and (not self.running or self.may_run_beside):
                times.append(at_ms)
        backfill = self.backfill
        if backfill is not None and backfill.next_ms is not None and len(backfill.running) + self.backfill_waits() < backfill.concurrency:
            times.append(at_ms)
        return min(times, default=None)

    def backfill_waits(self) -> int:
        """Return how many instants of its back-fill wait for a file."""
        return sum(each.origin is InstantOrigin.BACKFILL for each in self.awaiting.values())

    def what_is_before(self, instant_ms: int) -> InstantBefore:
        """Return what is before an instant of its own that is decided now. Raises `InstantUnknown`."""
        return what_is_before(self.definition.timing, instant_ms, self.joined_ms)

    def join(self, instant_ms: int) -> None:
        """Have its own instants reach up to this one; one that is late may be behind somebody's run by hand already."""
        self.joined_ms = instant_ms if self.joined_ms is None else max(self.joined_ms, instant_ms)

    def remember(self, past: PastInstant) -> None:
        """Keep what became of an instant; the oldest goes."""
        self.history.append(past)
        del self.history[:-HISTORY_SIZE]


@dataclass(slots=True)
class Schedules:
    """All schedules."""

    dispatcher: Dispatcher = field(metadata=DERIVED)
    schedules: dict[str, Schedule] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)
    """The jobs that schedules have started and that run, with their schedules, and reruns of such jobs."""
    agenda: list[tuple[int, str]] = field(default_factory=list)
    """When something is to be decided of which schedule, the first first."""
    followers: dict[str, list[str]] = field(default_factory=dict)
    """Which schedules follow which job, by its name."""
    watchers: list[str] = field(default_factory=list)
    """The schedules that take the records of topics, or the versions of tables."""
    waiters: list[str] = field(default_factory=list)
    """The schedules of which instants wait for files."""

    # -- decide ---------------------------------------------------------------------------------------------------

    def decide_put_schedule(self, command: PutSchedule, context: Context) -> list[LogEvent]:
        """Store a schedule, or a new version of it; one that is the same is stored."""
        known, definition = self.schedules.get(command.schedule_id), command.definition
        if known is not None and known.definition == definition:
            return [accepted(command)]
        if (refusal := self._refusal(command, known, context.settings.queues)) is not None:
            return [refusal]
        undecided = known.undecided() if known is not None else []
        try:
            next_ms = _next_of_version(definition.timing, known, undecided, context.now_ms)
            dropped = _dropped(command.schedule_id, known, next_ms, context.now_ms, SkipReason.CHANGED) if known is not None else []
        except InstantUnknown as error:
            return [_not_computable(command, error)]
        if _is_over(definition.timing, next_ms, context.now_ms):
            message = f"schedule '{command.schedule_id}' has no instant any more: its 'ends' is in the past"
            return [rejected(command, "ScheduleEnded", message)]
        events: list[LogEvent] = [accepted(command)]
        if undecided and definition.timing.after is None:
            first_ms, last_ms = undecided[0], undecided[-1]
            events.append(InstantsSkipped(command.schedule_id, first_ms, None, InstantOrigin.DUE, last_ms, SkipReason.CHANGED))
        events += dropped
        version = known.version + 1 if known is not None else 1
        return [*events, ScheduleStored(command.schedule_id, version, command.actor, definition, next_ms)]

    def _refusal(self, command: PutSchedule, known: Schedule | None, queues: Sequence[JobQueue]) -> RequestRejected | None:
        """Refuse what is one too many, a job of a queue that is not there, and a schedule that would start itself again for ever."""
        if known is None and len(self.schedules) >= MAX_SCHEDULES:
            return rejected(command, "TooManySchedules", f"there are {MAX_SCHEDULES} schedules already: delete one")
        if fault := find_fault_of_queue(command.definition.job_graph, queues):
            return rejected(command, "UnknownQueue", fault)
        timing = command.definition.timing
        if timing.is_noted and known is not None and known.backfill is not None:
            message = f"schedule '{command.schedule_id}' has a back-fill of instants that it would not have: cancel that, or await its end"
            return rejected(command, "BackfillInProgress", message)
        if timing.has_cursor and len(self.watchers) >= MAX_WATCHERS and command.schedule_id not in self.watchers:
            message = f"{MAX_WATCHERS} schedules take records of topics, or versions of tables, already: delete one"
            return rejected(command, "TooManySchedules", message)
        return self._refuse_following(command, timing.after.name) if timing.after is not None else None

    def _refuse_following(self, command: PutSchedule, followed: str) -> RequestRejected | None:
        others = [each for each in self.followers.get(followed, ()) if each != command.schedule_id]
        if len(others) >= MAX_FOLLOWERS:
            return rejected(command, "TooManySchedules", f"{MAX_FOLLOWERS} schedules follow job '{followed}' already: delete one")
        started = {command.definition.job_graph.name: command.schedule_id}
        waiting = list(started)
        while waiting:
            name = waiting.pop()
            if name == followed:
                message = f"schedule '{command.schedule_id}' would start itself: it follows job '{name}', which '{started[name]}' starts"
                return rejected(command, "InvalidSchedule", message)
            for schedule_id in self.followers.get(name, ()):
                following = self.schedules[schedule_id].definition.job_graph.name
                if schedule_id != command.schedule_id and following not in started:
                    started[following] = schedule_id
                    waiting.append(following)
        return None

    def decide_follow(self, completion: list[LogEvent], context: Context) -> list[LogEvent]:
        """Note the end of a run for each schedule that follows its job."""
        events: list[LogEvent] = []
        for stored in completion:
            if isinstance(stored, JobResultStored):
                name = self.dispatcher.jobs[stored.job_id].execution_graph.graph.name
                for schedule_id in self.followers.get(name, ()):
                    events.extend(_followed(schedule_id, self.schedules[schedule_id], stored, context.now_ms))
        return events

    def decide_delete_schedule(self, command: DeleteSchedule) -> list[LogEvent]:
        """Remove a schedule."""
        if command.schedule_id not in self.schedules:
            return [self.unknown_schedule(command, command.schedule_id)]
        return [accepted(command), ScheduleDeleted(command.schedule_id, command.actor)]

    def decide_pause_schedule(self, command: PauseSchedule) -> list[LogEvent]:
        """Pause a schedule; one that is paused stays so."""
        known = self.schedules.get(command.schedule_id)
        if known is None:
            return [self.unknown_schedule(command, command.schedule_id)]
        if known.pause is not None:
            return [accepted(command)]
        return [accepted(command), SchedulePaused(command.schedule_id, command.actor, command.reason)]

    def decide_resume_schedule(self, command: ResumeSchedule, context: Context) -> list[LogEvent]:
        """Resume a schedule from the next instant on; one that is not paused goes on."""
        known = self.schedules.get(command.schedule_id)
        if known is None:
            return [self.unknown_schedule(command, command.schedule_id)]
        if known.pause is None:
            return [accepted(command)]
        try:
            timing = known.definition.timing
            next_ms = known.first_undecided() if timing.is_noted else known.next_in(timing, context.now_ms)
            skipped = _skipped_by_pause(command.schedule_id, known, known.pause, next_ms, context.now_ms)
        except InstantUnknown as error:
            return [_not_computable(command, error)]
        return [accepted(command), *skipped, ScheduleResumed(command.schedule_id, command.actor, next_ms)]

    def decide_start_backfill(self, command: StartBackfill, context: Context) -> list[LogEvent]:
        """Begin with the instants of a range that have passed: those that come fire by themselves."""
        known = self.schedules.get(command.schedule_id)
        if known is None:
            return [self.unknown_schedule(command, command.schedule_id)]
        if known.backfill is not None:
            message = f"schedule '{command.schedule_id}' has a back-fill already: cancel it, or wait for its end"
            return [rejected(command, "BackfillInProgress", message)]
        if (timing := known.definition.timing).is_noted:
            batches = "its batches of records" if timing.records is not None else "the new versions of its table"
            what = f"the ends of runs of '{timing.after.name}': run that" if timing.after is not None else f"{batches}: run one"
            return [rejected(command, "NothingToBackfill", f"schedule '{command.schedule_id}' has no instants but {what} again")]
        bounds = replace(command, end_ms=min(command.end_ms, context.now_ms + 1))
        try:
            next_ms = next_of_backfill(known.definition, bounds, None)
        except InstantUnknown as error:
            return [_not_computable(command, error)]
        if next_ms is None:
            return [rejected(command, "NothingToBackfill", f"schedule '{command.schedule_id}' has no instant in that time that has passed")]
        return [
            accepted(command),
            BackfillStarted(
                schedule_id=command.schedule_id,
                actor=command.actor,
                first_ms=command.first_ms,
                end_ms=bounds.end_ms,
                next_ms=next_ms,
                concurrency=command.concurrency,
                newest_first=command.newest_first,
                repeats_finished=command.repeats_finished,
            ),
        ]

    def decide_cancel_backfill(self, command: CancelBackfill) -> list[LogEvent]:
        """End a back-fill, and cancel its jobs; where there is none, it has ended."""
        known = self.schedules.get(command.schedule_id)
        if known is None:
            return [self.unknown_schedule(command, command.schedule_id)]
        if known.backfill is None:
            return [accepted(command)]
        cancelled = self.decide_cancellation(known.backfill.running, command.actor)
        return [accepted(command), BackfillCancelled(command.schedule_id, command.actor), *cancelled]

    def decide_cancellation(self, running: dict[str, int], actor: str) -> list[LogEvent]:
        """Cancel jobs that a schedule has started, as far as they run."""
        jobs = (self.dispatcher.jobs[job_id] for job_id in running)
        return [event for job in jobs if job.status not in TERMINAL_JOB_STATUSES for event in job.decide_cancellation(actor)]

    def unknown_schedule(self, command: Command, schedule_id: str) -> RequestRejected:
        """Refuse a request about a schedule that is not there."""
        return rejected(
            command, "UnknownSchedule", f"schedule not found: '{schedule_id}'; 'eventflink schedule list' shows those that are there"
        )

    def due(self, now_ms: int) -> list[str]:
        """Return of which schedules something is to be decided, the one that has waited longest first."""
        return [schedule_id for _, schedule_id in self.agenda[: bisect_left(self.agenda, (now_ms + 1, ""))]]

    def blob_references(self) -> Counter[str]:
        """Return how many schedules refer to each permanent blob."""
        references: Counter[str] = Counter()
        for schedule in self.schedules.values():
            references.update(dict.fromkeys(schedule.definition.job_graph.code_archives, 1))
        return references

    # -- apply ----------------------------------------------------------------------------------------------------

    def schedule(self, schedule_id: str) -> Schedule:
        """Return a schedule that an event names.

        Raises:
            IllegalTransition: there is no such schedule.

        """
        try:
            return self.schedules[schedule_id]
        except KeyError:
            raise IllegalTransition(f"schedule not found: '{schedule_id}'") from None

    def apply_schedule_stored(self, event: ScheduleStored, at_ms: int) -> None:
        """Have the schedule, or its new version; what it has started and remembers stays."""
        known = self.schedules.get(event.schedule_id)
        if event.version != (known.version + 1 if known is not None else 1):
            raise IllegalTransition(f"{event.schedule_id} has no version {event.version} next")
        if known is None:
            known = Schedule(event.definition, event.version, event.actor, at_ms, event.next_ms, taken_since_ms=at_ms)
            self.schedules[event.schedule_id] = known
        else:
            self._unfollow(event.schedule_id, known)
            if _taken_by(event.definition) != _taken_by(known.definition):
                known.cursor, known.table_cursor, known.table_fault, known.taken_since_ms = None, None, "", at_ms
            known.definition, known.version, known.actor = event.definition, event.version, event.actor
            known.stored_at_ms, known.next_ms = at_ms, event.next_ms
        if (after := event.definition.timing.after) is not None:
            self.followers.setdefault(after.name, []).append(event.schedule_id)
        if event.definition.timing.has_cursor:
            self.watchers.append(event.schedule_id)
        self._plan(event.schedule_id, known, at_ms)

    def apply_schedule_deleted(self, event: ScheduleDeleted) -> None:
        """Forget the schedule; its jobs run on, and are jobs as any other."""
        known = self.schedule(event.schedule_id)
        self._leave_agenda(event.schedule_id, known)
        self._unfollow(event.schedule_id, known)
        if known.awaiting:
            self.waiters.remove(event.schedule_id)
        for job_id in [job_id for job_id, schedule_id in self.jobs.items() if schedule_id == event.schedule_id]:
            del self.jobs[job_id]
        del self.schedules[event.schedule_id]

    def apply_schedule_paused(self, event: SchedulePaused, at_ms: int) -> None:
        """Start no jobs."""
        known = self.schedule(event.schedule_id)
        if known.pause is not None:
            raise IllegalTransition(f"schedule '{event.schedule_id}' is paused already")
        known.pause = SchedulePause(event.actor, event.reason, at_ms)
        self._plan(event.schedule_id, known, at_ms)

    def apply_schedule_resumed(self, event: ScheduleResumed, at_ms: int) -> None:
        """Go on with the instant that the event names."""
        known = self.schedule(event.schedule_id)
        if known.pause is None:
            raise IllegalTransition(f"schedule '{event.schedule_id}' is not paused")
        known.pause, known.next_ms = None, event.next_ms
        self._plan(event.schedule_id, known, at_ms)

    def apply_run_followed(self, event: RunFollowed, at_ms: int) -> None:
        """Have the end of a run as an instant that is to be decided."""
        known = self.schedule(event.schedule_id)
        if known.definition.timing.after is None or event.instant_ms <= known.newest_ms():
            raise IllegalTransition(f"schedule '{event.schedule_id}' follows no job, or {event.instant_ms} is not after its last instant")
        known.followed[event.instant_ms] = event.job_id
        if known.next_ms is None:
            known.next_ms = event.instant_ms
        self._plan(event.schedule_id, known, at_ms)

    def apply_topic_cursor_set(self, event: TopicCursorSet) -> None:
        """Begin with the records of a topic."""
        known = self.schedule(event.schedule_id)
        if known.definition.timing.records is None or (known.cursor is not None and known.cursor.topic_id == event.topic_id):
            raise IllegalTransition(f"schedule '{event.schedule_id}' takes no records, or has a cursor in this topic")
        lost, replaced = (known.cursor.lost, known.cursor.topic_id) if known.cursor is not None else (0, "")
        offsets = {each.partition: each.offset for each in event.offsets}
        known.cursor = TopicCursor(event.topic_id, offsets, replaced_topic_id=replaced, lost=lost)

    def apply_records_lost(self, event: RecordsLost) -> None:
        """Pass over what is not there any more."""
        cursor = self.schedule(event.schedule_id).cursor
        if cursor is None or not _follow(cursor, event.ranges):
            raise IllegalTransition(f"what schedule '{event.schedule_id}' has lost is not behind its cursor")
        cursor.offsets |= {each.partition: each.end_offset for each in event.ranges}
        cursor.lost += count_records(event.ranges)

    def apply_records_claimed(self, event: RecordsClaimed, at_ms: int) -> None:
        """Move the cursor behind the records, and have them as an instant that is decided next."""
        known, ranges = self.schedule(event.schedule_id), event.ranges
        if (cursor := known.cursor) is None or not known.awaits_batch() or event.instant_ms <= known.newest_ms():
            raise IllegalTransition(
                f"schedule '{event.schedule_id}' takes no records now, or {event.instant_ms} is not after its last instant"
            )
        if not ranges or not _follow(cursor, ranges):
            raise IllegalTransition(f"records of schedule '{event.schedule_id}' belong to a job already, or are none")
        cursor.offsets |= {each.partition: each.end_offset for each in ranges}
        cursor.claimed, cursor.after = count_records(ranges), ranges[-1].partition
        known.next_ms = event.instant_ms
        self._plan(event.schedule_id, known, at_ms)

    def apply_table_cursor_set(self, event: TableCursorSet) -> None:
        """Have the cursor stand in a table, or at another version of it."""
        known = self.schedule(event.schedule_id)
        cursor = known.table_cursor
        is_new = cursor is None or cursor.table_id != event.table_id
        if known.definition.timing.versions is None or is_new is not (event.reason in (CursorMove.BEGUN, CursorMove.REPLACED)):
            raise IllegalTransition(f"schedule '{event.schedule_id}' takes no versions, or has a cursor in this table: {event.reason}")
        if cursor is not None and event.version == cursor.version and not is_new:
            raise IllegalTransition(f"the cursor of schedule '{event.schedule_id}' stands at version {event.version} already")
        passed = event.version.number - cursor.version.number if cursor is not None and event.reason is CursorMove.CLEANED else 0
        lost = max(0, passed) + (cursor.lost if cursor is not None else 0)
        known.table_cursor = TableCursor(event.table_id, event.version, moved=event.reason, lost=lost)

    def apply_table_sight_changed(self, event: TableSightChanged) -> None:
        """Remember why the table cannot be seen."""
        known = self.schedule(event.schedule_id)
        if known.definition.timing.versions is None or known.table_fault == event.fault:
            raise IllegalTransition(f"schedule '{event.schedule_id}' takes no versions, or that is known of its table already")
        known.table_fault = event.fault

    def apply_versions_claimed(self, event: VersionsClaimed, at_ms: int) -> None:
        """Move the cursor to the last of the versions, and have them as an instant that is decided next."""
        known, versions = self.schedule(event.schedule_id), event.versions
        if (cursor := known.table_cursor) is None or not known.awaits_batch() or event.instant_ms <= known.newest_ms():
            raise IllegalTransition(
                f"schedule '{event.schedule_id}' takes no versions now, or {event.instant_ms} is not after its last instant"
            )
        if versions.after != cursor.version or versions.last == versions.after:
            raise IllegalTransition(f"versions of schedule '{event.schedule_id}' belong to a job already, or are none")
        cursor.table_id, cursor.version, cursor.claimed = event.table_id, versions.last, versions
        known.next_ms = event.instant_ms
        self._plan(event.schedule_id, known, at_ms)

    def apply_schedule_fired(self, event: ScheduleFired, at_ms: int) -> None:
        """Remember the job, which runs."""
        known = self.schedule(event.schedule_id)
        if event.job_id in self.jobs:
            raise IllegalTransition(f"job '{event.job_id}' was started for an instant before")
        asked_by = self._advance(known, event, event.origin)
        if event.origin is InstantOrigin.MANUAL and event.previous_ms is not None:
            known.join(event.instant_ms)
        self.jobs[event.job_id] = event.schedule_id
        if asked_by is InstantOrigin.BACKFILL and known.backfill is not None:
            known.backfill.running[event.job_id] = event.instant_ms
            known.backfill.started += 1
        else:
            known.running[event.job_id] = event.instant_ms
        after_job_id = known.followed.pop(event.instant_ms, "") if event.origin in OF_ITSELF else ""
        is_due = event.origin is InstantOrigin.DUE
        records = known.cursor.claimed if known.cursor is not None and is_due else 0
        versions = known.table_cursor.claimed if known.table_cursor is not None and is_due else None
        past = PastInstant(event.instant_ms, at_ms, event.origin, event.job_id, after_job_id=after_job_id, records=records)
        known.remember(replace(past, versions=versions))
        self._plan(event.schedule_id, known, at_ms)

    def apply_job_submitted(self, event: JobSubmitted, at_ms: int) -> None:
        """Count a job that runs for an instant again as one that its schedule has started, unless a back-fill had."""
        of = event.scheduled
        if of is None or not event.rerun_of or of.of_backfill or of.schedule_id not in self.schedules:
            return
        known = self.schedules[of.schedule_id]
        self.jobs[event.job_id] = of.schedule_id
        known.running[event.job_id] = of.instant_ms
        self._plan(of.schedule_id, known, at_ms)

    def apply_instant_queued(self, event: InstantQueued, at_ms: int) -> None:
        """Let the instant wait."""
        known = self.schedule(event.schedule_id)
        self._advance(known, event, event.origin)
        known.queue[event.instant_ms] = event.before
        known.queue = dict(sorted(known.queue.items()))  # Its file may have come later than that of a later one.
        self._plan(event.schedule_id, known, at_ms)

    def apply_file_awaited(self, event: FileAwaited, at_ms: int) -> None:
        """Let the instant wait for its file."""
        known = self.schedule(event.schedule_id)
        if event.instant_ms in known.awaiting or event.origin not in (InstantOrigin.DUE, InstantOrigin.BACKFILL):
            raise IllegalTransition(f"{event.instant_ms} of '{event.schedule_id}' waits for a file already, or cannot wait for one")
        self._advance(known, event, event.origin)
        known.awaiting[event.instant_ms] = AwaitedFile(event.file, at_ms, event.until_ms, event.origin, event.before)
        self._plan(event.schedule_id, known, at_ms)

    def apply_instants_skipped(self, event: InstantsSkipped, at_ms: int) -> None:
        """Remember why there is no job."""
        known = self.schedule(event.schedule_id)
        asked_by = self._advance(known, event, event.origin)
        if asked_by is InstantOrigin.BACKFILL and known.backfill is not None:
            known.backfill.skipped += 1
            self._end_backfill(known)
        last_ms = event.last_ms if event.last_ms != event.instant_ms else 0
        skipped = [each for each in known.followed if event.origin in OF_ITSELF and event.instant_ms <= each <= event.last_ms]
        after_job_id = next((known.followed[each] for each in skipped), "")
        for each in skipped:
            del known.followed[each]
        known.remember(PastInstant(event.instant_ms, at_ms, event.origin, "", event.reason, event.message, last_ms, after_job_id))
        self._plan(event.schedule_id, known, at_ms)

    def apply_backfill_started(self, event: BackfillStarted, at_ms: int) -> None:
        """Begin with its first instant."""
        known = self.schedule(event.schedule_id)
        if known.backfill is not None:
            raise IllegalTransition(f"schedule '{event.schedule_id}' has a back-fill already")
        known.backfill = Backfill(
            actor=event.actor,
            started_at_ms=at_ms,
            first_ms=event.first_ms,
            end_ms=event.end_ms,
            concurrency=event.concurrency,
            newest_first=event.newest_first,
            repeats_finished=event.repeats_finished,
            next_ms=event.next_ms,
        )
        self._plan(event.schedule_id, known, at_ms)

    def apply_backfill_cancelled(self, event: BackfillCancelled, at_ms: int) -> None:
        """Start none of its jobs any more; it is over when those that run have ended."""
        known = self.schedule(event.schedule_id)
        if known.backfill is None:
            raise IllegalTransition(f"schedule '{event.schedule_id}' has no back-fill")
        known.backfill.next_ms = None
        known.awaiting = {instant_ms: each for instant_ms, each in known.awaiting.items() if each.origin is not InstantOrigin.BACKFILL}
        self._end_backfill(known)
        self._plan(event.schedule_id, known, at_ms)

    def apply_job_result_stored(self, event: JobResultStored, at_ms: int) -> None:
        """Count the job no longer; another one may start in its place."""
        schedule_id = self.jobs.pop(event.job_id, None)
        if schedule_id is None:
            return
        known = self.schedules[schedule_id]
        if known.running.pop(event.job_id, None) is None and known.backfill is not None:
            del known.backfill.running[event.job_id]
            self._end_backfill(known)
        self._plan(schedule_id, known, at_ms)

    @staticmethod
    def _end_backfill(known: Schedule) -> None:
        if known.backfill is not None and known.backfill.next_ms is None and not known.backfill.running and not known.backfill_waits():
            known.backfill = None

    @staticmethod
    def _advance(known: Schedule, event: InstantEvent, origin: InstantOrigin) -> InstantOrigin:
        """Take an instant from where it stood, and return why it is to have a job.

        That is the schedule's next, the first that waits in the queue, the back-fill's next, or one that waits for a file.
        """
        if origin is InstantOrigin.FILE:
            if event.instant_ms not in known.awaiting:
                raise IllegalTransition(f"{event.instant_ms} of '{event.schedule_id}' does not wait for a file")
            return known.awaiting.pop(event.instant_ms).origin
        if origin is InstantOrigin.BACKFILL:
            if known.backfill is None or known.backfill.next_ms != event.instant_ms:
                raise IllegalTransition(f"{event.instant_ms} is not the next instant of a back-fill of '{event.schedule_id}'")
            known.backfill.next_ms = event.next_ms
        elif origin is InstantOrigin.QUEUED:
            if next(iter(known.queue), None) != event.instant_ms:
                raise IllegalTransition(f"{event.instant_ms} is not the first instant that waits of '{event.schedule_id}'")
            last_ms = event.last_ms if isinstance(event, InstantsSkipped) else event.instant_ms
            known.queue = {each: before for each, before in known.queue.items() if each > last_ms}
        elif origin is InstantOrigin.DUE:
            if known.next_ms != event.instant_ms or (event.next_ms is not None and event.next_ms <= event.instant_ms):
                raise IllegalTransition(
                    f"{event.instant_ms} is not the next instant of '{event.schedule_id}', or not before the one after it"
                )
            known.next_ms = event.next_ms
            known.decided_ms = event.last_ms if isinstance(event, InstantsSkipped) else event.instant_ms
            if not isinstance(event, InstantsSkipped) or event.reason is not SkipReason.CHANGED:
                known.join(known.decided_ms)
        return origin

    def _plan(self, schedule_id: str, known: Schedule, at_ms: int) -> None:
        """Write into the agenda when there is something to decide."""
        self._leave_agenda(schedule_id, known)
        if bool(known.awaiting) is not (schedule_id in self.waiters):
            (self.waiters.append if known.awaiting else self.waiters.remove)(schedule_id)
        known.due_ms = known.when_due(schedule_id, at_ms)
        if known.due_ms is not None:
            insort(self.agenda, (known.due_ms, schedule_id))

    def _unfollow(self, schedule_id: str, known: Schedule) -> None:
        if known.definition.timing.has_cursor:
            self.watchers.remove(schedule_id)
        if (after := known.definition.timing.after) is not None:
            self.followers[after.name].remove(schedule_id)
            if not self.followers[after.name]:
                del self.followers[after.name]

    def _leave_agenda(self, schedule_id: str, known: Schedule) -> None:
        if known.due_ms is not None:
            del self.agenda[bisect_left(self.agenda, (known.due_ms, schedule_id))]
            known.due_ms = None

    def validate(self) -> None:
        """Check that the agenda has what is due, and that the jobs of schedules run."""
        due = sorted((known.due_ms, schedule_id) for schedule_id, known in self.schedules.items() if known.due_ms is not None)
        require(due == self.agenda, "the agenda of schedules is stale")
        running = {
            job_id: schedule_id
            for schedule_id, known in self.schedules.items()
            for job_id in (*known.running, *(known.backfill.running if known.backfill is not None else ()))
        }
        require(running == self.jobs, "schedules and their jobs contradict each other")
        follows = {(known.definition.timing.after.name, each) for each, known in self.schedules.items() if known.definition.timing.after}
        require({(name, each) for name, ids in self.followers.items() for each in ids} == follows, "the followers of jobs are stale")
        watch = [each for each, known in self.schedules.items() if known.definition.timing.has_cursor]
        require(sorted(watch) == sorted(self.watchers), "the schedules that take records or versions are stale")
        require(sorted(self.waiters) == sorted(each for each, known in self.schedules.items() if known.awaiting), "the waiters are stale")
        require(
            all(job_id in self.dispatcher.jobs and job_id not in self.dispatcher.ended for job_id in self.jobs),
            "a job that counts as a running one of a schedule has ended",
        )
        for schedule_id, known in self.schedules.items():
            require(list(known.queue) == sorted(known.queue), f"the instants that wait of schedule '{schedule_id}' are in no order")
            first_ms = known.first_undecided()
            is_next = first_ms == known.next_ms if known.definition.timing.after is not None else first_ms is None
            require(is_next and list(known.followed) == sorted(known.followed), f"the ends that '{schedule_id}' follows are in no order")


def _next_of_version(timing: ScheduleTiming, known: Schedule | None, undecided: list[int], now_ms: int) -> int | None:
    """Return the next instant by a new version of a schedule; None: no instant is known. Raises `InstantUnknown`."""
    if timing.is_noted:
        return next(iter(undecided), None) if timing.after is not None else None
    if known is None:
        return instant_after(timing, now_ms - 1)
    overdue_ms = known.overdue(now_ms)  # An instant that had come, and was not decided yet, is not lost by the change.
    next_ms = known.next_in(timing, now_ms if overdue_ms is None else overdue_ms)
    if next_ms is None or overdue_ms is not None or known.pause is None:
        return next_ms
    return known.next_in(timing, min(now_ms, known.pause.since_ms + 1))  # What came in a pause has its reason at its end.


def _dropped(schedule_id: str, known: Schedule, next_ms: int | None, now_ms: int, reason: SkipReason, message: str = "") -> list[LogEvent]:
    """Skip the undecided instants that had come before `next_ms`, with which the schedule goes on. Raises `InstantUnknown`."""
    first_ms = known.overdue(now_ms)
    if first_ms is None or (next_ms is not None and next_ms <= first_ms):
        return []
    came_ms = now_ms if known.pause is None else min(now_ms, known.pause.since_ms)
    last_ms = known.instant_before(came_ms + 1 if next_ms is None else min(came_ms + 1, next_ms))
    return [InstantsSkipped(schedule_id, first_ms, next_ms, InstantOrigin.DUE, max(first_ms, last_ms or 0), reason, message)]


def _skipped_by_pause(schedule_id: str, known: Schedule, pause: SchedulePause, next_ms: int | None, now_ms: int) -> list[LogEvent]:
    """Skip what had come before a pause and was not decided, and what came in it. Raises `InstantUnknown`."""
    timing, because = known.definition.timing, "the schedule was paused before it was decided"
    first_ms = known.next_ms if known.overdue(now_ms) is None else known.next_in(timing, pause.since_ms + 1)
    if timing.is_noted or first_ms is None or first_ms > now_ms or first_ms == next_ms:
        return _dropped(schedule_id, known, next_ms, now_ms, SkipReason.LATE, because)
    last_ms = known.instant_before(now_ms + 1 if next_ms is None else next_ms)
    return [
        *_dropped(schedule_id, known, first_ms, now_ms, SkipReason.LATE, because),
        InstantsSkipped(schedule_id, first_ms, next_ms, InstantOrigin.DUE, max(first_ms, last_ms or 0), SkipReason.PAUSED),
    ]


def _is_over(timing: ScheduleTiming, next_ms: int | None, now_ms: int) -> bool:
    """Return whether a schedule has no instant any more."""
    if not timing.is_noted:
        return next_ms is None
    return timing.ends_at_ms is not None and timing.ends_at_ms <= now_ms


def _followed(schedule_id: str, known: Schedule, stored: JobResultStored, now_ms: int) -> list[LogEvent]:
    """Return the instant that this end is, if it is one; where too many wait, the first of them gets no job."""
    timing = known.definition.timing
    instant_ms = max(now_ms, known.newest_ms() + 1)
    try:
        if timing.after is None or not is_followed(timing.after, stored.status) or not is_within(timing, instant_ms):
            return []
    except InstantUnknown:  # The decision about the instant meets it again, and pauses the schedule.
        pass
    events: list[LogEvent] = []
    undecided = known.undecided()
    if len(undecided) >= MAX_FOLLOWED:
        first, following = undecided[:2]
        message = f"{MAX_FOLLOWED} ends of runs waited"
        events.append(InstantsSkipped(schedule_id, first, following, InstantOrigin.DUE, first, SkipReason.QUEUE_FULL, message))
    return [*events, RunFollowed(schedule_id, instant_ms, stored.job_id)]


def _follow(cursor: TopicCursor, ranges: tuple[OffsetRange, ...]) -> bool:
    """Tell whether the ranges begin at the cursor, and have records."""
    return all(cursor.offsets.get(each.partition, 0) == each.first_offset < each.end_offset for each in ranges)


def _taken_by(definition: ScheduleDefinition) -> str:
    return definition.timing.what_it_takes


def _not_computable(command: ScheduleCommand, error: InstantUnknown) -> RequestRejected:
    return rejected(command, "InvalidSchedule", f"schedule '{command.schedule_id}': {error}")


def next_of_backfill(
    definition: ScheduleDefinition, bounds: StartBackfill | BackfillStarted | Backfill, instant_ms: int | None
) -> int | None:
    """Return the instant after this one in the order of a back-fill; None in place of it: the first. None: there is none."""
    timing = definition.timing
    if bounds.newest_first:
        found = instant_before(timing, bounds.end_ms if instant_ms is None else instant_ms)
        return found if found is not None and found >= bounds.first_ms else None
    found = instant_after(timing, bounds.first_ms - 1 if instant_ms is None else instant_ms)
    return found if found is not None and found < bounds.end_ms else None
