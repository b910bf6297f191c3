"""A schedule as the core and the log know it: the job that it starts, its instants, and what it does when they come late or too soon.

Instants are times of a cron expression, or of an interval, the ends of another job's runs, or batches of records of a topic, or of
versions of a table.

What people write, and every check of it, is in `schedule_document.py`. Here is what follows from a schedule that was checked: which instant
comes next, and which values the parameters of a job have for it. The rule it keeps: an instant is computed once, by the leader, and written
into the log; so a replay asks nothing here, and a later version of the time zone database changes nothing that has happened.
"""

import datetime as dt
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from eventflink.model.document_faults import describe_value
from eventflink.model.job_graph import JobGraph, JobParameter, ParameterValue
from eventflink.model.job_graph_document import InvalidJobGraph, bind_parameters
from eventflink.model.job_parameters import bound_text, type_name
from eventflink.model.places import is_url, parse_place
from eventflink.model.statuses import CatchUp, InstantValue, JobStatus, OverlapPolicy, RunOutcome, TopicBegin

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MS: Final = dt.timedelta(milliseconds=1)
_DAY: Final = dt.timedelta(days=1)
_LAST_MS: Final = 221_845_392_000_000
"""The year 9000: there is no instant after it."""
_MAX_EXCLUDED_IN_A_ROW: Final = 400
"""More than the days that a schedule may exclude."""

_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")

_MAX_PARTITIONS: Final = 128
"""Of one batch: so what its job is told fits into the value of a parameter."""
_OF_BATCH: Final = (
    InstantValue.PARTITIONS,
    InstantValue.STARTING_OFFSETS,
    InstantValue.ENDING_OFFSETS,
    InstantValue.STARTING_VERSION,
    InstantValue.ENDING_VERSION,
    InstantValue.START_SNAPSHOT,
    InstantValue.END_SNAPSHOT,
)


class InstantUnknown(Exception):
    """The instants of a schedule cannot be computed on this host; the message says why."""


@dataclass(slots=True)
class FollowedJob:
    """A job whose runs make the instants of a schedule: each end is one."""

    name: str
    """The name of the job. Each job of this name is a run of it, whether a schedule or a person started it."""
    outcome: RunOutcome = RunOutcome.FINISHED
    """The ends that are instants."""


@dataclass(slots=True)
class FollowedTopic:
    """A topic whose records make the instants of a schedule: each is for those that came since the one before."""

    name: str
    """The name of the topic, in the Kafka cluster of the log."""
    begin: TopicBegin = TopicBegin.LATEST
    """Where the cursor begins in a topic that it has not seen."""
    least_records: int = 1
    """There is an instant when so many are there."""
    max_wait_ms: int = 0
    """There is one with fewer when one of them is so old; 0: there is none."""
    most_records: int = 0
    """An instant is for so many at most, and the rest for the next one; 0: for all that are there."""


@dataclass(slots=True)
class PartitionOffset:
    """A place in a topic."""

    partition: int
    """The number of the partition."""
    offset: int
    """Of the record that is next there."""


@dataclass(slots=True)
class OffsetRange:
    """Records of a partition that follow one another."""

    partition: int
    """The number of the partition."""
    first_offset: int
    """Of the first record."""
    end_offset: int
    """Behind the last one."""


@dataclass(frozen=True, slots=True)
class FollowedTable:
    """A table whose versions make the instants of a schedule: each is for those that came since the one before."""

    path: str = ""
    """Of a table of Delta: its place; empty: it is one of Iceberg."""
    catalog: str = ""
    """Of a table of Iceberg: what the configuration of the masters calls its catalogue."""
    name: str = ""
    """Of a table of Iceberg: its namespace, and behind a dot the table."""
    begin: TopicBegin = TopicBegin.LATEST
    """Where the cursor begins."""

    @property
    def is_delta(self) -> bool:
        """Whether it is a table of Delta; else it is one of Iceberg."""
        return bool(self.path)

    def __str__(self) -> str:
        return self.path or f"{self.name} in {self.catalog}"


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of a table."""

    number: int
    """Of a table of Delta that of the commit, from 0 on; of Iceberg the sequence number of the snapshot, from 1 on, or 0 in format 1."""
    snapshot_id: int = 0
    """Of a table of Iceberg: the snapshot; 0: it is one of Delta, or there is none."""

    def __str__(self) -> str:
        return f"{self.number}, snapshot {self.snapshot_id}" if self.snapshot_id else str(self.number)


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Versions of a table that follow one another."""

    after: TableVersion
    """The version before the first of them."""
    last: TableVersion
    """The last of them."""

    def __str__(self) -> str:
        """Return them in words: `version 5`, `versions 5 to 8`, `versions 5 to 8, snapshot 4711`."""
        first = self.after.number + 1
        return f"versions {first} to {self.last}" if first < self.last.number else f"version {self.last}"


@dataclass(slots=True, kw_only=True)
class ScheduleTiming:
    """The instants of a schedule: times, the ends of another job's runs, batches of records of a topic, or of versions of a table."""

    cron: str = ""
    """Minute, hour, day of the month, month and day of the week; empty: another field says it."""
    interval_ms: int = 0
    """Between two instants, counted from `starts_at_ms`; 0: another field says it."""
    time_zone: str = "UTC"
    """A name of the IANA time zone database, in which cron expressions and days are read."""
    starts_at_ms: int = 0
    """No instant is before it."""
    ends_at_ms: int | None = None
    """No instant is at or after it; null: it has no end."""
    excluded_days: tuple[str, ...] = ()
    """Days without an instant, such as 2026-12-25, in order."""
    jitter_ms: int = 0
    """A job starts up to so much later than its instant: by how much follows from the schedule's id and the instant."""
    after: FollowedJob | None = None
    """The job whose runs make the instants; null: another field says it."""
    records: FollowedTopic | None = None
    """The topic whose records make the instants; null: another field says it."""
    versions: FollowedTable | None = None
    """The table whose versions make the instants; null: another field says it."""

    @property
    def is_noted(self) -> bool:
        """Whether instants are what happens, and not times that can be computed."""
        return self.after is not None or self.has_cursor

    @property
    def has_cursor(self) -> bool:
        """Whether an instant is for what is behind a cursor, in a topic or in a table."""
        return self.records is not None or self.versions is not None

    @property
    def what_it_takes(self) -> str:
        """What the cursor is in, in words; empty: the schedule has no cursor."""
        return self.records.name if self.records is not None else str(self.versions) if self.versions is not None else ""


@dataclass(slots=True)
class InstantParameter:
    """A parameter whose value follows from the instant for which a job runs."""

    name: str
    """Of the parameter."""
    value: InstantValue
    """What of the instant it is given."""


@dataclass(slots=True)
class FileCondition:
    """A file for which an instant waits before its job starts."""

    file: str
    """Its place, with the names of parameters of the job in braces, which stand for their values at the instant."""
    within_ms: int
    """How long an instant waits before it is missed."""


@dataclass(slots=True, kw_only=True)
class ScheduleDefinition:
    """What a schedule starts, and when."""

    timing: ScheduleTiming
    """When."""
    job_graph: JobGraph
    """What; parameters that have no value here get one of the instant."""
    catch_up: CatchUp = CatchUp.LAST
    """What becomes of instants that are late."""
    overlap: OverlapPolicy = OverlapPolicy.SKIP
    """What becomes of an instant while the job of an earlier one runs."""
    parameters: tuple[ParameterValue, ...] = ()
    """What else the parameters of the job are to be than its document says."""
    instant_parameters: tuple[InstantParameter, ...] = ()
    """Which parameters are given something of the instant."""
    description: str = ""
    """For people."""
    wait_for: FileCondition | None = None
    """A file for which each instant waits; null: none does."""


@dataclass(slots=True)
class ScheduledInstant:
    """For which instant of which schedule a job runs."""

    schedule_id: str
    """The schedule."""
    instant_ms: int
    """The instant, in milliseconds since 1970."""
    version: int
    """Of the schedule, from 1 on: each change of it is a version."""
    after_job_id: str = ""
    """The run whose end is the instant; empty: no run made it."""
    of_backfill: bool = False
    """Whether a back-fill has asked for the job, which then stands in the way of no other one; a rerun of it neither."""


@dataclass(frozen=True, slots=True)
class InstantBefore:
    """What was before an instant when it was decided; whatever changes the timing while it waits, its job is told of that."""

    joined_ms: int
    """Up to where the instants before it reach: what came since then is its own."""
    timed_ms: int
    """The instant before it by the timing alone, which may be on an excluded day, or before the schedule."""


def records_behind(offsets: Mapping[int, int], bounds: Iterable[OffsetRange]) -> dict[int, OffsetRange]:
    """Return the records that a cursor has not passed, by partition; in one that it does not know, all.

    Example:
        `records_behind({0: 5}, [OffsetRange(0, 2, 8), OffsetRange(1, 4, 4)])` is `{0: OffsetRange(0, 5, 8)}`.

    """
    found = (OffsetRange(each.partition, max(offsets.get(each.partition, 0), each.first_offset), each.end_offset) for each in bounds)
    return {each.partition: each for each in found if each.end_offset > each.first_offset}


def count_records(ranges: Iterable[OffsetRange]) -> int:
    """Return how many offsets there are in all."""
    return sum(each.end_offset - each.first_offset for each in ranges)


def take_records(there: Mapping[int, OffsetRange], most: int, after: int = -1) -> list[OffsetRange]:
    """Return the records of a batch: the same number of each partition where there are as many, of a few partitions more than one.

    Args:
        there: what there is, by partition.
        most: how many records are taken; 0: all of the partitions whose turn it is.
        after: the partition that came last: the turn is with those behind it. So none waits for ever while others have more than enough.

    Example:
        `take_records({0: OffsetRange(0, 5, 99), 1: OffsetRange(1, 0, 2)}, 10)` is `[OffsetRange(0, 5, 13), OffsetRange(1, 0, 2)]`.

    """
    turn = sorted(there, key=lambda partition: (partition <= after, partition))[:_MAX_PARTITIONS]
    waiting = {partition: there[partition].end_offset - there[partition].first_offset for partition in turn}
    left = min(sum(waiting.values()), most or sum(waiting.values()))
    taken = dict.fromkeys(turn, 0)
    while left:
        share = max(1, left // max(1, sum(taken[each] < waiting[each] for each in turn)))
        for each in turn:
            more = min(share, waiting[each] - taken[each], left)
            taken[each] += more
            left -= more
    return [OffsetRange(each, there[each].first_offset, there[each].first_offset + count) for each, count in taken.items() if count]


def offsets_text(topic: str, offsets: Iterable[tuple[int, int]]) -> str:
    """Return places of a topic as Spark's reader of Kafka takes them.

    Example:
        `offsets_text("orders", [(0, 5), (1, 0)])` is `'{"orders":{"0":5,"1":0}}'`.

    """
    return _json({topic: {str(partition): offset for partition, offset in offsets}})


def is_followed(after: FollowedJob, status: JobStatus) -> bool:
    """Return whether this end of a run is an instant."""
    return after.outcome is RunOutcome.ANY or after.outcome.value == status.value


def is_within(timing: ScheduleTiming, time_ms: int) -> bool:
    """Return whether a time may be an instant, by the begin, the end and the days without one. Raises as `instant_after`."""
    in_bounds = timing.starts_at_ms <= time_ms and (timing.ends_at_ms is None or time_ms < timing.ends_at_ms)
    return in_bounds and (not timing.excluded_days or local_day(timing, time_ms) not in timing.excluded_days)


def instant_after(timing: ScheduleTiming, after_ms: int) -> int | None:
    """Return the first instant after a time; None: there is none, or it is not known before it happens.

    Raises:
        InstantUnknown: the host does not know the time zone, or the cron expression is none.

    Example:
        `instant_after(ScheduleTiming(interval_ms=60_000), 59_999)` is `60_000`.

    """
    place = max(after_ms, timing.starts_at_ms - 1)
    for _ in range(_MAX_EXCLUDED_IN_A_ROW):
        found = _next(timing, place)
        if found is None or (timing.ends_at_ms is not None and found >= timing.ends_at_ms):
            return None
        if not timing.excluded_days or local_day(timing, found) not in timing.excluded_days:
            return found
        place = _day_begins_ms(timing, found, 1) - 1
    return None


def instant_before(timing: ScheduleTiming, before_ms: int) -> int | None:
    """Return the last instant before a time; None: there is none. Raises as `instant_after`."""
    place = before_ms if timing.ends_at_ms is None else min(before_ms, timing.ends_at_ms)
    for _ in range(_MAX_EXCLUDED_IN_A_ROW):
        found = _previous(timing, place)
        if found is None or found < timing.starts_at_ms:
            return None
        if not timing.excluded_days or local_day(timing, found) not in timing.excluded_days:
            return found
        place = _day_begins_ms(timing, found, 0)
    return None


def what_is_before(timing: ScheduleTiming, instant_ms: int, joined_ms: int | None = None) -> InstantBefore:
    """Return what is before an instant, by the timing, or where the instants before it reach up to `joined_ms`. Raises as `instant_after`.

    Example:
        `what_is_before(ScheduleTiming(interval_ms=60_000), 120_000, 30_000)` is `InstantBefore(30_000, 60_000)`.

    """
    found_ms = _previous(timing, instant_ms)
    timed_ms = instant_ms if found_ms is None else found_ms
    if joined_ms is None:  # The first run after excluded days reads what came on them.
        before_ms = instant_before(timing, instant_ms)
        return InstantBefore(timed_ms if before_ms is None else before_ms, timed_ms)
    return InstantBefore(min(joined_ms, instant_ms), timed_ms)


def instants(timing: ScheduleTiming, first_ms: int, end_ms: int | None = None) -> Iterator[int]:
    """Yield the instants from a time on, up to, without, `end_ms`."""
    instant_ms = instant_after(timing, first_ms - 1)
    while instant_ms is not None and (end_ms is None or instant_ms < end_ms):
        yield instant_ms
        instant_ms = instant_after(timing, instant_ms)


def due_at(schedule_id: str, timing: ScheduleTiming, instant_ms: int) -> int:
    """Return when the job of an instant is to start: at the instant, or by the jitter later."""
    if timing.jitter_ms <= 0:
        return instant_ms
    digest = hashlib.sha256(f"{schedule_id}@{instant_ms}".encode()).digest()
    return instant_ms + int.from_bytes(digest[:8], "big") % (timing.jitter_ms + 1)


def job_id_of(schedule_id: str, instant_ms: int) -> str:
    """Return the id of the job that runs for an instant, which sorts by time: `nightly-20261128T010000Z`."""
    time = _time_of(instant_ms)
    fraction = f"{instant_ms % 1000:03}" if instant_ms % 1000 else ""
    return f"{schedule_id}-{time:%Y%m%dT%H%M%S}{fraction}Z"


def graph_for(
    definition: ScheduleDefinition,
    instant_ms: int,
    given: Mapping[str, object],
    run_id: str = "",
    of_run: Mapping[str, str] = MappingProxyType({}),
    records: Iterable[OffsetRange] = (),
    versions: VersionRange | None = None,
    before: InstantBefore | None = None,
) -> JobGraph:
    """Return the graph of the job that runs for an instant, all of its parameters bound.

    Args:
        definition: of the schedule.
        instant_ms: the instant.
        given: values that count whatever the schedule says.
        run_id: the run whose end is the instant; empty: no run made it, and what is to be taken from one keeps the job's default.
        of_run: the values of that run's parameters.
        records: those that make the instant; none: what is to be told of them keeps the job's default.
        versions: those that make the instant; None: likewise.
        before: what is before the instant; None: what the timing says.

    Raises:
        InvalidJobGraph: as `bind_parameters`; or a value of the instant does not have the type of its parameter.
        InstantUnknown: as `instant_after`.

    """
    values: dict[str, object] = {each.name: each.value for each in definition.parameters}
    of_batch = _told_of(definition.timing, list(records)) if versions is None else _told_of_versions(versions)
    for each in definition.instant_parameters:
        if each.value in _OF_BATCH:
            values |= {each.name: of_batch[each.value]} if of_batch else {}
        elif each.value is InstantValue.PARAMETER:
            values |= {each.name: of_run[each.name]} if each.name in of_run else {}
        elif each.value is InstantValue.RUN:
            values |= {each.name: run_id} if run_id else {}
        else:
            values[each.name] = _value_of(definition.timing, each.value, instant_ms, before)
    told = {each.name: each.value for each in definition.instant_parameters if each.name in values}
    for parameter in definition.job_graph.parameters:
        if parameter.name in told and parameter.name not in given:
            _check_told(parameter, told[parameter.name], values[parameter.name])
    return bind_parameters(definition.job_graph, values | dict(given))


def _check_told(parameter: JobParameter, told: InstantValue, value: object) -> None:
    try:
        bound_text(parameter.parameter_type, value)
    except ValueError as error:
        gives = f"'{told.lower().replace('_', '-')}' gives a value such as {describe_value(value)}"
        wanted = f"parameter '{parameter.name}' has the type {type_name(parameter.parameter_type)}"
        raise InvalidJobGraph(f"instant_parameters.{parameter.name}: {gives}, and {wanted}") from error


def placeholders_of(condition: FileCondition) -> list[str]:
    """Return the names that stand in braces in the place of a file.

    Example:
        `placeholders_of(FileCondition("s3a://raw/day={day}/_SUCCESS", 1))` is `["day"]`.

    """
    return _PLACEHOLDER.findall(condition.file)


def file_for(condition: FileCondition, graph: JobGraph) -> str:
    """Return the place of the file for which the instant of a job waits.

    Raises:
        ValueError: with these values it is none.

    """
    values = {each.name: each.value or "" for each in graph.parameters}
    file = _PLACEHOLDER.sub(lambda found: values[found[1]], condition.file)
    if not file.startswith("/") and not is_url(file):  # A relative path names another file on each master.
        raise ValueError(f"invalid file: '{file}', made of '{condition.file}'; give an absolute path, or a URL")
    return str(parse_place(file))


def _told_of(timing: ScheduleTiming, records: list[OffsetRange]) -> dict[InstantValue, str]:
    if timing.records is None or not records:
        return {}
    topic = timing.records.name
    return {
        InstantValue.PARTITIONS: _json({topic: [each.partition for each in records]}),
        InstantValue.STARTING_OFFSETS: offsets_text(topic, ((each.partition, each.first_offset) for each in records)),
        InstantValue.ENDING_OFFSETS: offsets_text(topic, ((each.partition, each.end_offset) for each in records)),
    }


def _told_of_versions(versions: VersionRange) -> dict[InstantValue, str]:
    return {
        InstantValue.STARTING_VERSION: str(versions.after.number + 1),
        InstantValue.ENDING_VERSION: str(versions.last.number),
        InstantValue.START_SNAPSHOT: str(versions.after.snapshot_id),
        InstantValue.END_SNAPSHOT: str(versions.last.snapshot_id),
    }


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def local_day(timing: ScheduleTiming, instant_ms: int) -> str:
    """Return the day of an instant in the schedule's time zone: `2026-11-28`."""
    return _time_of(instant_ms).astimezone(_zone(timing.time_zone)).date().isoformat()


def local_time(timing: ScheduleTiming, instant_ms: int) -> str:
    """Return an instant in the schedule's time zone, with its offset: `2026-11-28T02:00:00+01:00`."""
    return _time_of(instant_ms).astimezone(_zone(timing.time_zone)).isoformat(timespec="milliseconds" if instant_ms % 1000 else "seconds")


def _value_of(timing: ScheduleTiming, value: InstantValue, instant_ms: int, before: InstantBefore | None) -> str:
    if value in (InstantValue.PREVIOUS_DATE, InstantValue.PREVIOUS_TIMESTAMP):
        before = what_is_before(timing, instant_ms) if before is None else before
        is_date = value is InstantValue.PREVIOUS_DATE
        return local_day(timing, before.timed_ms) if is_date else _time_of(before.joined_ms).isoformat()
    return local_day(timing, instant_ms) if value is InstantValue.DATE else _time_of(instant_ms).isoformat()


def _next(timing: ScheduleTiming, after_ms: int) -> int | None:
    if timing.is_noted:
        return None
    if timing.interval_ms > 0:
        passed = (after_ms - timing.starts_at_ms) // timing.interval_ms
        return _known(timing.starts_at_ms + (passed + 1) * timing.interval_ms)
    begin = _time_of(after_ms).astimezone(_zone(timing.time_zone))
    # In the hour that a change of the clock repeats, cron's time of day says less than the instant: what is not after it is passed over.
    return _known(next((ms for found in _cron(timing, begin) if (ms := _ms_of(found)) > after_ms), None))


def _previous(timing: ScheduleTiming, before_ms: int) -> int | None:
    if timing.is_noted:
        return None
    if timing.interval_ms > 0:
        passed = (before_ms - 1 - timing.starts_at_ms) // timing.interval_ms
        return _known(timing.starts_at_ms + passed * timing.interval_ms)
    # From two hours later on: the hour that is repeated may begin after the time that is asked about.
    begin = (_time_of(before_ms) + dt.timedelta(hours=2)).astimezone(_zone(timing.time_zone))
    return _known(next((ms for found in _cron(timing, begin, reverse=True) if (ms := _ms_of(found)) < before_ms), None))


def _known(instant_ms: int | None) -> int | None:
    return instant_ms if instant_ms is not None and 0 <= instant_ms < _LAST_MS else None


def _cron(timing: ScheduleTiming, begin: dt.datetime, *, reverse: bool = False) -> CronSim:
    try:
        return CronSim(timing.cron, begin, reverse)
    except CronSimError as error:
        raise InstantUnknown(f"the cron expression '{timing.cron[:128]}' is none: {error}") from error


def _day_begins_ms(timing: ScheduleTiming, instant_ms: int, days_later: int) -> int:
    zone = _zone(timing.time_zone)
    day = _time_of(instant_ms).astimezone(zone).date() + days_later * _DAY
    return _ms_of(dt.datetime(day.year, day.month, day.day, tzinfo=zone))


def _time_of(instant_ms: int) -> dt.datetime:
    return _EPOCH + min(max(instant_ms, 0), _LAST_MS) * _MS


def _ms_of(time: dt.datetime) -> int:
    return (time.astimezone(dt.UTC) - _EPOCH) // _MS


@functools.cache
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        raise InstantUnknown(f"this host does not know the time zone '{name[:128]}'") from error
