"""Events of schedules: which there are, and what became of each of their instants.

Values of which the schemas of the same names are made; `log_events.py` has all of them and the rule of all.
"""

from dataclasses import dataclass

from eventflink.events.decision import LogEvent
from eventflink.model.schedules import InstantBefore, OffsetRange, PartitionOffset, ScheduleDefinition, TableVersion, VersionRange
from eventflink.model.statuses import CursorMove, InstantOrigin, SkipReason


@dataclass(slots=True)
class ScheduleEvent(LogEvent):
    """Something happened to a schedule."""

    schedule_id: str
    """The schedule."""


@dataclass(slots=True)
class ScheduleStored(ScheduleEvent):
    """There is a schedule, or a new version of it."""

    version: int
    """Counts the changes of the schedule, from 1."""
    actor: str
    """Who asked."""
    definition: ScheduleDefinition
    """What it starts, and when."""
    next_ms: int | None
    """Its next instant; null: there is none."""


@dataclass(slots=True)
class ScheduleDeleted(ScheduleEvent):
    """The schedule is gone; the jobs that it started run on."""

    actor: str
    """Who asked."""


@dataclass(slots=True)
class SchedulePaused(ScheduleEvent):
    """No instant of the schedule starts a job until it is resumed."""

    actor: str
    """Who asked."""
    reason: str
    """Why, in the words of who asked."""


@dataclass(slots=True)
class ScheduleResumed(ScheduleEvent):
    """Instants start jobs again, from here on: those of the pause are not caught up with, but for the ends of runs and records."""

    actor: str
    """Who asked."""
    next_ms: int | None
    """Its next instant; null: there is none."""


@dataclass(slots=True)
class RunFollowed(ScheduleEvent):
    """A run of the job that the schedule follows has ended: its end is an instant, and is to be decided."""

    instant_ms: int
    """The instant, in milliseconds since 1970: later than the one before it."""
    job_id: str
    """The run."""


@dataclass(slots=True)
class TopicCursorSet(ScheduleEvent):
    """The cursor of the schedule stands in its topic, which it has not seen before: what comes from there on is taken."""

    topic_id: str
    """The id that Kafka gave the topic: another topic of the same name has another id."""
    offsets: tuple[PartitionOffset, ...]
    """Where it stands in each partition. In one that is made later it begins with the first record."""


@dataclass(slots=True)
class RecordsClaimed(ScheduleEvent):
    """Records of its topic make an instant of the schedule: the job that is started for it has them, and no other one."""

    instant_ms: int
    """The instant, in milliseconds since 1970: later than the one before it."""
    ranges: tuple[OffsetRange, ...]
    """The records; the partition whose turn came last is the last."""


@dataclass(slots=True)
class RecordsLost(ScheduleEvent):
    """Kafka has deleted records of its topic that no job has had: the cursor passes over them."""

    ranges: tuple[OffsetRange, ...]
    """What is gone."""


@dataclass(slots=True)
class TableCursorSet(ScheduleEvent):
    """The cursor of the schedule stands in its table, at a version up to which no job has read: those after it are taken."""

    table_id: str
    """The id that the table has of itself: another table in the same place has another id."""
    version: TableVersion
    """Where it stands."""
    reason: CursorMove
    """Why."""


@dataclass(slots=True)
class VersionsClaimed(ScheduleEvent):
    """Versions of its table make an instant of the schedule: the job that is started for it has them, and no other one."""

    instant_ms: int
    """The instant, in milliseconds since 1970: later than the one before it."""
    versions: VersionRange
    """The versions, from the cursor on."""
    table_id: str
    """The id that the table has at the last of them."""


@dataclass(slots=True)
class TableSightChanged(ScheduleEvent):
    """The leader cannot see the table of the schedule, or sees it again."""

    fault: str
    """Why it cannot; empty: it sees it again."""


@dataclass(slots=True)
class InstantEvent(ScheduleEvent):
    """It was decided what becomes of an instant."""

    instant_ms: int
    """The instant, in milliseconds since 1970."""
    next_ms: int | None
    """The next instant of the schedule, of a back-fill that of the back-fill; null: there is none."""


@dataclass(slots=True)
class ScheduleFired(InstantEvent):
    """A job was started for an instant."""

    origin: InstantOrigin
    """Why it was decided about it."""
    job_id: str
    """The job."""
    previous_ms: int | None
    """Up to where the runs before it reach, behind which it goes on, and the next one behind it; null: it stands beside them, as that of a
    back-fill, or one by hand for a time or with values of its own."""


@dataclass(slots=True)
class InstantQueued(InstantEvent):
    """The job of an instant is to start when the ones before it have ended."""

    origin: InstantOrigin
    """Why it was decided about it."""
    before: InstantBefore
    """What was before it."""


@dataclass(slots=True)
class FileAwaited(InstantEvent):
    """An instant waits for a file before its job starts."""

    origin: InstantOrigin
    """Why it was decided about it."""
    file: str
    """The place of the file."""
    until_ms: int
    """When it is missed, in milliseconds since 1970."""
    before: InstantBefore
    """What was before it."""


@dataclass(slots=True)
class InstantsSkipped(InstantEvent):
    """No job is started for an instant, and for those that follow it up to another one."""

    origin: InstantOrigin
    """Why it was decided about it."""
    last_ms: int
    """The last of them; the same as `instant_ms` where it is only one."""
    reason: SkipReason
    """Why."""
    message: str = ""
    """What was in the way."""


@dataclass(slots=True, kw_only=True)
class BackfillStarted(ScheduleEvent):
    """The instants of a time that has passed are to have their jobs."""

    actor: str
    """Who asked."""
    first_ms: int
    """No instant before it."""
    end_ms: int
    """No instant at or after it."""
    next_ms: int
    """The first instant that gets its job."""
    concurrency: int
    """How many of its jobs may run at once."""
    newest_first: bool
    """Whether it begins with the newest instant."""
    repeats_finished: bool
    """Whether instants get a job whose job has finished."""


@dataclass(slots=True)
class BackfillCancelled(ScheduleEvent):
    """No further instant of the back-fill gets a job; those that run are cancelled by events of their own."""

    actor: str
    """Who asked."""
