"""The document that people write of a schedule, and every check of it; the core's records are in `schedules.py`.

    cron: "0 2 * * *"
    time_zone: Europe/Berlin
    instant_parameters: {day: previous-date}
    job: {name: orders, parameters: {day: {type: date}}, vertices: […]}

The rule it keeps: what is accepted can fire. The schedule has an instant, and its job has a value for each parameter at the first of them.
"""

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from eventflink.model.document_faults import describe_faults, describe_value, place_in
from eventflink.model.document_fields import MAX_JOB_NAME_LENGTH, Name, Whole, duration_within
from eventflink.model.document_text import Path
from eventflink.model.durations import duration_text
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import InvalidJobGraph, check_job_graph, load_document, to_document
from eventflink.model.job_parameters import MAX_PARAMETERS, given_values
from eventflink.model.places import is_url, parse_place
from eventflink.model.schedules import (
    FileCondition,
    FollowedJob,
    FollowedTable,
    FollowedTopic,
    InstantParameter,
    InstantUnknown,
    OffsetRange,
    ScheduleDefinition,
    ScheduleTiming,
    TableVersion,
    VersionRange,
    file_for,
    graph_for,
    instant_after,
    local_time,
    placeholders_of,
)
from eventflink.model.statuses import CatchUp, InstantValue, OverlapPolicy, RunOutcome, TopicBegin
from eventflink.model.stream_document import TableDocument
from eventflink.model.texts import did_you_mean

MIN_INTERVAL_MS: Final = 1_000
MAX_INTERVAL_MS: Final = 366 * 86_400_000
MAX_JITTER_MS: Final = 86_400_000
MAX_EXCLUDED_DAYS: Final = 366
MAX_DESCRIPTION_LENGTH: Final = 1_024
MAX_FILE_LENGTH: Final = 1_024
MAX_WITHIN_MS: Final = 30 * 86_400_000
_CRON_FIELDS: Final = 5
_MAX_CRON_LENGTH: Final = 256
_MOST: Final = {"minute": 59, "hour": 23, "day-of-month": 31, "month": 12, "day-of-week": 7}
"""The longest step of each field: a longer one would be none, for cron counts anew in each hour, day, month and year."""
_LAST_YEAR: Final = 9_000
"""Times later than this may not be written by every reader of the log."""

_NAMED: Final[Mapping[str, str]] = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


MAX_RECORDS: Final = 1_000_000_000_000
MAX_WAIT_MS: Final = 7 * 86_400_000
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_ALWAYS: Final = ("date", "timestamp")
_KNOWN_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "after": (*_ALWAYS, "run", "parameter"),
    "records": (*_ALWAYS, "partitions", "starting-offsets", "ending-offsets"),
    "versions": (*_ALWAYS, "starting-version", "ending-version", "start-snapshot", "end-snapshot"),
    "cron": (*_ALWAYS, "previous-date", "previous-timestamp"),
    "interval": (*_ALWAYS, "previous-date", "previous-timestamp"),
}
"""What parameters are given of an instant, by what makes it."""
_OF_DELTA: Final = ("starting-version", "ending-version")
_OF_ICEBERG: Final = ("start-snapshot", "end-snapshot")


class InvalidSchedule(Exception):
    """A schedule that cannot fire; the message says what is wrong and where."""


def _cron(value: object) -> object:
    """Return five fields.

    Raises:
        ValueError: it is no cron expression.

    """
    if not isinstance(value, str) or len(value) > _MAX_CRON_LENGTH:
        raise ValueError(f"must be a text such as '0 2 * * *', not {describe_value(value)}")
    fields = " ".join(_NAMED.get(value.strip().lower(), value).split())
    if fields.startswith("@"):
        raise ValueError(f"unknown name: {describe_value(value)}{did_you_mean(value, _NAMED)}; known: {', '.join(_NAMED)}")
    if (count := len(fields.split(" "))) != _CRON_FIELDS:
        rule = "minute, hour, day of the month, month and day of the week"
        raise ValueError(f"must have five fields ({rule}), not {count}: {describe_value(value)}")
    try:
        CronSim(fields, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    except CronSimError as error:
        raise ValueError(f"invalid {str(error).removeprefix('Bad ')} in {describe_value(value)}") from error
    for (name, most), field in zip(_MOST.items(), fields.split(" "), strict=True):
        if any(int(step) > most for step in re.findall(r"/(\d+)", field)):
            raise ValueError(
                f"invalid {name} in {describe_value(value)}: a step is at most {most}; 'interval' has longer ones, such as 90m"
            )
    return fields


def _time_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        guess = did_you_mean(value, available_timezones())
        raise ValueError(f"time zone not found: {describe_value(value)}{guess}; name one such as Europe/Berlin or UTC") from error
    return value


def _time(value: object) -> dt.datetime:
    try:
        time = dt.datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        time = None
    if time is None or time.year > _LAST_YEAR:
        raise ValueError(f"must be a day or a time such as 2026-12-01 or 2026-12-01T06:00, not {describe_value(value)}")
    return time


def _day(value: object) -> object:
    try:
        day = dt.date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        day = None
    if day is None:
        raise ValueError(f"must be a day such as 2026-12-25, not {describe_value(value)}")
    return day.isoformat()


Time = Annotated[dt.datetime | None, BeforeValidator(_time)]


class FollowedDocument(BaseModel):
    """The job whose runs make the instants."""

    model_config = ConfigDict(extra="forbid")

    job: str = Field(min_length=1, max_length=MAX_JOB_NAME_LENGTH)
    ended: Literal["finished", "failed", "canceled", "any"] = "finished"


def _topic(value: str) -> str:
    if value.startswith("__"):
        raise ValueError(f"invalid topic: {describe_value(value)}; that is Kafka's own, and a job would add records to it")
    if not _TOPIC.fullmatch(value) or value in (".", ".."):
        raise ValueError(f"invalid topic: {describe_value(value)}; a topic has at most 249 letters, digits, dots, underscores and dashes")
    return value


class FollowedTopicDocument(BaseModel):
    """The topic whose records make the instants."""

    model_config = ConfigDict(extra="forbid")

    topic: Annotated[str, AfterValidator(_topic)]
    begin: Literal["earliest", "latest"] = "latest"
    at_least: Whole = Field(1, ge=1, le=MAX_RECORDS)
    wait: Annotated[int, duration_within(0, MAX_WAIT_MS)] = 0
    at_most: Whole | None = Field(None, ge=1, le=MAX_RECORDS)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.at_most is not None and self.at_most < self.at_least:
            raise ValueError(f"'at_most' is {self.at_most}, and fewer than 'at_least', {self.at_least}")
        return self


class FollowedTableDocument(BaseModel):
    """The table whose versions make the instants."""

    model_config = ConfigDict(extra="forbid")

    table: TableDocument
    format: Literal["delta", "iceberg"]
    begin: Literal["earliest", "latest"] = "latest"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if fault := self.table.find_format_fault(self.format):
            raise ValueError(fault)
        if self.table.path is not None:
            parse_place(self.table.path)  # Raises what names the URLs that masters can look at.
        return self

    def to_record(self) -> FollowedTable:
        """Return the core's record."""
        path = str(parse_place(self.table.path)) if self.table.path is not None else ""
        return FollowedTable(path, self.table.catalog or "", self.table.name or "", TopicBegin(self.begin.upper()))


class FileConditionDocument(BaseModel):
    """A file for which each instant waits."""

    model_config = ConfigDict(extra="forbid")

    file: str = Field(min_length=1, max_length=MAX_FILE_LENGTH)
    within: Annotated[int, duration_within(MIN_INTERVAL_MS, MAX_WITHIN_MS)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.file.startswith(("/", "{")) and not is_url(self.file):
            raise ValueError(
                f"invalid file: {describe_value(self.file)}; give an absolute path, or a URL such as s3a://raw/{{day}}/_SUCCESS"
            )
        rest = self.file
        for name in placeholders_of(self.to_record()):
            rest = rest.replace(f"{{{name}}}", "", 1)
        if set("{}").intersection(rest):
            raise ValueError(f"invalid file: {describe_value(self.file)}: a brace has no other one; in braces stand parameters of the job")
        return self

    def to_record(self) -> FileCondition:
        """Return the core's record."""
        return FileCondition(self.file, self.within)


def _watched(value: object) -> object:
    return {"topic": value} if isinstance(value, str) else value


def _followed(value: object) -> object:
    return {"job": value} if isinstance(value, str) else value


class ScheduleDocument(BaseModel):
    """The whole document; its job is read apart."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    after: Annotated[FollowedDocument | None, BeforeValidator(_followed)] = None
    records: Annotated[FollowedTopicDocument | None, BeforeValidator(_watched)] = None
    versions: FollowedTableDocument | None = None
    cron: Annotated[str | None, BeforeValidator(_cron)] = None
    interval: Annotated[int | None, duration_within(MIN_INTERVAL_MS, MAX_INTERVAL_MS)] = None
    time_zone: Annotated[str, AfterValidator(_time_zone)] = "UTC"
    starts: Time = None
    ends: Time = None
    excluded_days: list[Annotated[str, BeforeValidator(_day)]] = Field(default_factory=list, alias="except", max_length=MAX_EXCLUDED_DAYS)
    jitter: Annotated[int, duration_within(0, MAX_JITTER_MS)] = 0
    catch_up: Literal["none", "last", "all"] | None = None
    overlap: Literal["skip", "queue", "cancel", "allow"] | None = None
    parameters: dict[Name, Any] = Field(default_factory=dict, max_length=MAX_PARAMETERS)
    instant_parameters: dict[
        Name,
        Literal[
            "date",
            "previous-date",
            "timestamp",
            "previous-timestamp",
            "run",
            "parameter",
            "partitions",
            "starting-offsets",
            "ending-offsets",
            "starting-version",
            "ending-version",
            "start-snapshot",
            "end-snapshot",
        ],
    ] = Field(default_factory=dict, max_length=MAX_PARAMETERS)
    wait_for: FileConditionDocument | None = None
    description: str = Field("", max_length=MAX_DESCRIPTION_LENGTH)
    job: Any

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [key for key in _KNOWN_OF if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError("a schedule has one of 'cron', 'interval', 'after', 'records' and 'versions'")
        known = _KNOWN_OF[given[0]]
        if self.versions is not None:
            known = tuple(each for each in known if each not in (_OF_ICEBERG if self.versions.format == "delta" else _OF_DELTA))
        if (name := next((name for name, value in self.instant_parameters.items() if value not in known), None)) is not None:
            value = describe_value(self.instant_parameters[name])
            raise ValueError(f"instant_parameters.{name}: {value} is not known of a schedule with '{given[0]}'; known: {', '.join(known)}")
        if self.records is not None or self.versions is not None:
            self._check_of_batches(given[0])
        if self.wait_for is not None and self.cron is None and self.interval is None:
            raise ValueError(f"wait_for: instants of 'cron' and 'interval' wait for a file, those of '{given[0]}' do not")
        if both := self.parameters.keys() & self.instant_parameters.keys():
            raise ValueError(f"instant_parameters.{min(both)}: 'parameters' says what it is already")
        return self

    def _check_of_batches(self, key: str) -> None:
        """Refuse what would leave records, or versions, without a job."""
        if self.overlap in ("skip", "cancel"):
            raise ValueError(f"overlap: with '{key}' it is 'queue', so that {key} wait while a job runs, or 'allow'")
        if self.catch_up in ("last", "none"):
            raise ValueError(f"catch_up: with '{key}' it is 'all': what has come meanwhile is for the next job")
        if self.jitter:
            delays = "; its 'wait' delays a job" if key == "records" else ""
            raise ValueError(f"invalid jitter: a schedule with '{key}' has no jitter{delays}")

    def to_timing(self) -> ScheduleTiming:
        """Return the core's record of when."""
        return ScheduleTiming(
            cron=self.cron or "",
            interval_ms=self.interval or 0,
            time_zone=self.time_zone,
            starts_at_ms=_ms_of(self.starts, self.time_zone) if self.starts is not None else 0,
            ends_at_ms=_ms_of(self.ends, self.time_zone) if self.ends is not None else None,
            excluded_days=tuple(sorted(set(self.excluded_days))),
            jitter_ms=self.jitter,
            after=FollowedJob(self.after.job, RunOutcome(self.after.ended.upper())) if self.after is not None else None,
            records=self._watched_topic(),
            versions=self.versions.to_record() if self.versions is not None else None,
        )

    def _watched_topic(self) -> FollowedTopic | None:
        if (found := self.records) is None:
            return None
        return FollowedTopic(found.topic, TopicBegin(found.begin.upper()), found.at_least, found.wait, found.at_most or 0)


def time_in(time_zone: str, text: str) -> int:
    """Return a time, in milliseconds since 1970, that people write as a day or a time of this time zone.

    Raises:
        InvalidSchedule: it is neither, or this host does not know the time zone.

    Example:
        `time_in("Europe/Berlin", "2026-11-28")` is `1_795_820_400_000`.

    """
    try:
        return _ms_of(_time(text), _time_zone(time_zone))
    except ValueError as error:
        raise InvalidSchedule(str(error)) from error


def _ms_of(time: dt.datetime, time_zone: str) -> int:
    local = time if time.tzinfo is not None else time.replace(tzinfo=ZoneInfo(time_zone))
    return max(0, (local - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1))


def parse_schedule(text: str, source: str, read_job: Callable[[str], JobGraph]) -> ScheduleDefinition:
    """Validate a document that is given as text, JSON or YAML.

    Args:
        text: the document.
        source: where it comes from, for the message.
        read_job: returns the job that stands in a file; the document names it by a path.

    Raises:
        InvalidSchedule: names `source`, the place in the document and what is wrong there.

    """
    try:
        document = load_document(text, source)
        if isinstance(document, Mapping) and isinstance(document.get("job"), str):
            document = {**document, "job": to_document(read_job(document["job"]))}
    except InvalidJobGraph as error:
        raise InvalidSchedule(str(error)) from error
    try:
        return check_schedule(document, text)
    except InvalidSchedule as error:
        raise InvalidSchedule(f"{source}: {error}") from error


def timing_of(document: Mapping[str, Any]) -> ScheduleTiming:
    """Return the instants that a document of a schedule says, whatever job stands in it.

    Raises:
        InvalidSchedule: names the place in the document and what is wrong there.

    """
    try:
        return ScheduleDocument.model_validate(document).to_timing()
    except ValidationError as error:
        raise InvalidSchedule(describe_faults(error)) from error


def check_schedule(document: object, text: str | None = None) -> ScheduleDefinition:
    """Validate a document; `text` is what it was read from, in which the lines of faults are found.

    Raises:
        InvalidSchedule: names the place in the document and what is wrong there.

    """
    if not isinstance(document, Mapping):
        raise InvalidSchedule(
            f"a schedule is a mapping with one of {', '.join(map(repr, _KNOWN_OF))}, and 'job', not {describe_value(document)}"
        )

    def around(path: Path) -> str:
        return place_in(document, text, path)

    try:
        parsed = ScheduleDocument.model_validate(document)
        timing = parsed.to_timing()
        definition = ScheduleDefinition(
            timing=timing,
            job_graph=check_job_graph(parsed.job),
            catch_up=CatchUp((parsed.catch_up or ("all" if timing.is_noted else "last")).upper()),
            overlap=OverlapPolicy((parsed.overlap or ("queue" if timing.is_noted else "skip")).upper()),
            parameters=given_values(parsed.parameters),
            instant_parameters=tuple(
                InstantParameter(name, InstantValue(value.upper().replace("-", "_"))) for name, value in parsed.instant_parameters.items()
            ),
            description=parsed.description,
            wait_for=parsed.wait_for.to_record() if parsed.wait_for is not None else None,
        )
    except ValidationError as error:
        known = [field.alias or name for name, field in ScheduleDocument.model_fields.items()]
        raise InvalidSchedule(describe_faults(error, known, around)) from error
    except InvalidJobGraph as error:
        raise InvalidSchedule(f"job: {error}") from error
    except ValueError as error:
        raise InvalidSchedule(f"parameters: {error}") from error
    _check_first(definition)
    return definition


def _check_first(definition: ScheduleDefinition) -> None:
    if definition.timing.is_noted:
        _check_noted(definition)
        return
    first_ms = instant_after(definition.timing, definition.timing.starts_at_ms - 1)
    if first_ms is None:
        raise InvalidSchedule("it never fires: there is no instant between 'starts' and 'ends' that is not on a day of 'except'")
    try:
        graph = graph_for(definition, first_ms, {})
    except InvalidJobGraph as error:
        raise InvalidSchedule(f"{error}; 'parameters' and 'instant_parameters' of the schedule give values") from error

    _check_file(definition, graph)


def _check_file(definition: ScheduleDefinition, graph: JobGraph) -> None:
    """Check that the file of the first instant has a place."""
    if (condition := definition.wait_for) is None:
        return
    declared = [each.name for each in graph.parameters]
    if unknown := [name for name in placeholders_of(condition) if name not in declared]:
        guess = did_you_mean(unknown[0], declared)
        raise InvalidSchedule(f"wait_for.file: unknown parameter '{unknown[0]}'{guess}; in braces stand parameters of the job")
    try:
        file_for(condition, graph)
    except ValueError as error:
        raise InvalidSchedule(f"wait_for.file: {error}") from error


def _check_noted(definition: ScheduleDefinition) -> None:
    """Check what is known before a run ends, or something comes: that the parameters are there, and have values."""
    timing = definition.timing
    if timing.ends_at_ms is not None and timing.ends_at_ms <= timing.starts_at_ms:
        raise InvalidSchedule("it never fires: its 'ends' is not after its 'starts'")
    of_run = {each.name for each in definition.instant_parameters if each.value is InstantValue.PARAMETER}
    declared = {each.name for each in definition.job_graph.parameters}
    if unknown := of_run - declared:
        name = min(unknown)
        raise InvalidSchedule(f"instant_parameters.{name}: unknown parameter{did_you_mean(name, declared)}; the job declares none of it")
    known = tuple(each for each in definition.job_graph.parameters if each.name not in of_run)
    given = tuple(each for each in definition.instant_parameters if each.name not in of_run)
    rest = replace(definition, job_graph=replace(definition.job_graph, parameters=known), instant_parameters=given)
    try:
        versions = VersionRange(TableVersion(0), TableVersion(1)) if timing.versions is not None else None
        graph_for(rest, timing.starts_at_ms, {}, "run", records=[OffsetRange(0, 0, 1)], versions=versions)
    except InvalidJobGraph as error:
        raise InvalidSchedule(f"{error}; 'parameters' and 'instant_parameters' of the schedule give values") from error


def _written_time(timing: ScheduleTiming, time_ms: int) -> str:
    """Return a time as people write it; it is the same time in UTC where the time zone is unknown, which `check_schedule` refuses."""
    try:
        return local_time(timing, time_ms)
    except InstantUnknown:
        return local_time(ScheduleTiming(), time_ms)


def _watched_document(watched: FollowedTopic) -> dict[str, Any]:
    document: dict[str, Any] = {"topic": watched.name, "begin": watched.begin.lower(), "at_least": watched.least_records}
    if watched.max_wait_ms:
        document["wait"] = duration_text(watched.max_wait_ms)
    if watched.most_records:
        document["at_most"] = watched.most_records
    return document


def _watched_table_document(watched: FollowedTable) -> dict[str, Any]:
    table = {"path": watched.path} if watched.is_delta else {"catalog": watched.catalog, "name": watched.name}
    return {"table": table, "format": "delta" if watched.is_delta else "iceberg", "begin": watched.begin.lower()}


def schedule_document(definition: ScheduleDefinition) -> dict[str, Any]:
    """Return the document that `check_schedule` turns into this schedule; raises `InvalidJobGraph` as `to_document` does."""
    timing = definition.timing
    when: dict[str, Any] = {"time_zone": timing.time_zone}
    if timing.cron:
        when["cron"] = timing.cron
    if timing.interval_ms:
        when["interval"] = duration_text(timing.interval_ms)
    if timing.after is not None:
        when["after"] = {"job": timing.after.name, "ended": timing.after.outcome.lower()}
    if timing.records is not None:
        when["records"] = _watched_document(timing.records)
    if timing.versions is not None:
        when["versions"] = _watched_table_document(timing.versions)
    if timing.starts_at_ms:
        when["starts"] = _written_time(timing, timing.starts_at_ms)
    if timing.ends_at_ms is not None:
        when["ends"] = _written_time(timing, timing.ends_at_ms)
    when |= {"except": list(timing.excluded_days)} if timing.excluded_days else {}
    condition = definition.wait_for
    when |= {"jitter": duration_text(timing.jitter_ms)} if timing.jitter_ms else {}
    return {
        **when,
        "catch_up": definition.catch_up.lower(),
        "overlap": definition.overlap.lower(),
        "parameters": {each.name: each.value for each in definition.parameters},
        "instant_parameters": {each.name: each.value.lower().replace("_", "-") for each in definition.instant_parameters},
        **({"wait_for": {"file": condition.file, "within": duration_text(condition.within_ms)}} if condition is not None else {}),
        "description": definition.description,
        "job": to_document(definition.job_graph),
    }
