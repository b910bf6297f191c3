"""Schedules: what each starts and when, and what became of its instants."""

from dataclasses import dataclass, field
from typing import Any

from eventflink.model.statuses import CatchUp, CursorMove, InstantOrigin, OverlapPolicy, SkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedInstant:
    """What became of an instant, or of several that were skipped together."""

    instant: str
    """In the schedule's time zone."""
    last: str | None
    """Of several the last one; null: it is one."""
    decided_at: str
    origin: InstantOrigin
    """Why it was decided about it."""
    job_id: str | None
    """The job that was started; null: none."""
    skipped: SkipReason | None
    """Why there is none."""
    sentence: str
    """The same in words."""
    after_job_id: str | None = None
    """The run whose end is the instant, of several the first; null: no run made it."""
    records: int | None = None
    """How many records made the instant, counted as offsets; null: none made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCursor:
    """Up to where the records of a topic belong to jobs."""

    topic: str
    topic_id: str | None
    """As Kafka tells it; null: the topic was not seen yet."""
    offsets: dict[int, int]
    """The offset that is next, by partition."""
    lost: int
    """How many records Kafka has deleted that no job has read, counted as offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCursorInfo:
    """Up to which version the changes of a table belong to jobs."""

    table: str
    """Its place, or its name and the catalogue that it is in."""
    table_id: str | None
    """The id that the table has of itself; null: the table was not seen yet."""
    version: int | None
    """The last version that a job has had; null likewise."""
    snapshot_id: str | None
    """Of a table of Iceberg: the snapshot of that version. It is a text, since some readers of JSON round such numbers; null: none."""
    moved: CursorMove | None
    """Why the cursor was set to a version when that happened last, other than by the start of a job; null: it stands nowhere."""
    lost: int
    """How many versions the table has forgotten that no job has had."""
    fault: str
    """Why the leader cannot look at the table; empty: it can, or has not said yet that it cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitingInstant:
    """An instant that waits for a file."""

    instant: str
    """In the schedule's time zone."""
    origin: InstantOrigin
    """Whether it was due, or is one of a back-fill."""
    file: str
    since: str
    until: str
    """When it is missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillProgress:
    """A back-fill that is under way."""

    actor: str
    started_at: str
    first: str
    end: str
    """No instant at or after it."""
    next: str | None
    """The next instant that gets its job; null: all have one, and some of these run."""
    concurrency: int
    newest_first: bool
    repeats_finished: bool
    started: int
    """How many jobs were started."""
    skipped: int
    """Of how many instants the job had finished, or could not be started."""
    running: list[str]
    """The jobs that run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeseenInstant:
    """What a back-fill would make of an instant."""

    instant: str
    """In the schedule's time zone."""
    job_id: str | None
    """The job that would be started; null: none would be, or not at once."""
    skipped: SkipReason | None
    """Why it would be left out; null: it would not be."""
    sentence: str
    """Why no job would be started at once; empty: one would be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeseenBackfill:
    """What a back-fill would do that began now."""

    instants: list[ForeseenInstant]
    """In its order."""
    is_whole: bool
    """Whether there are no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """A schedule in a list."""

    schedule_id: str
    name: str
    """Of the job that it starts."""
    description: str
    when: str
    """In words."""
    time_zone: str
    version: int
    """Counts the changes of the schedule."""
    actor: str
    """Who made this version."""
    stored_at: str
    next: str | None
    """Its next instant, in its time zone; null: the schedule is paused, has no instant any more, or waits for the end of a run."""
    paused_since: str | None
    paused_by: str
    paused_because: str
    running: list[str]
    """The jobs that it has started and that run, those of a back-fill aside."""
    queued: int
    """How many instants wait for a job that runs."""
    last: DecidedInstant | None
    """What became of the instant that was decided last."""
    backfill: BackfillProgress | None
    follows: str | None = None
    """The job the ends of whose runs are its instants."""
    awaiting_files: int = 0
    """How many instants wait for a file."""
    fault: str = ""
    """Why its table cannot be looked at; empty: it takes no versions, or its table can."""
    takes: str | None = None
    """The topic batches of whose records are its instants, or the table whose versions are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleList:
    """A window of the schedules, in the order in which they were made."""

    schedules: list[ScheduleRow]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDetails(ScheduleRow):
    """A schedule."""

    catch_up: CatchUp
    overlap: OverlapPolicy
    upcoming: list[str]
    """Its next ten instants, in its time zone, also while it is paused."""
    history: list[DecidedInstant]
    """What became of the last twenty instants, the newest first."""
    is_followed_known: bool
    """Whether there is a run of the job that it follows, or a schedule that starts one; true where it follows none."""
    cursor: ScheduleCursor | None
    """The cursor of its topic; null: the schedule takes no records."""
    definition: dict[str, Any]
    """Its document, as `PutSchedule` takes it, without secrets."""
    table_cursor: TableCursorInfo | None = None
    """The cursor of its table; null: the schedule takes no versions."""
    awaiting: list[AwaitingInstant] = field(default_factory=list)
    """The first hundred of its instants that wait for a file."""
