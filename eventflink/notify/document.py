"""The notification document: who is told, of what, and how; and every check of it.

    receivers:
      chat: {type: slack, url: "${file:/etc/eventflink/slack}"}
      marquez: {type: http, url: http://marquez:5000/api/v1/lineage}
    rules:
      nightly-failed: {events: [job-failed, run-skipped], jobs: {names: ["nightly*"]}, receivers: [chat]}
    lineage: {receivers: [marquez]}

Secrets are references, as in the configuration (`model/references.py`). The rule: what can be known to be wrong before anything is sent is
refused here, with its place.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from string import Formatter
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from eventflink.model.document_faults import describe_fault, describe_value, written_place
from eventflink.model.document_fields import Flag, Whole, duration_within
from eventflink.model.document_text import InvalidText, find_place, read_document
from eventflink.model.job_graph import JobAbout
from eventflink.model.references import check_reference
from eventflink.model.secret_values import holds_secret
from eventflink.model.texts import did_you_mean

_DAY_MS: Final = 86_400_000
_MOST_MS: Final = 31 * _DAY_MS
MAX_COUNTED: Final = 10_000
RESOLVED_WITHIN_MS: Final = 2 * _DAY_MS
"""For how long a rule that says what is over remembers what it has said."""

DEFAULT_TEXT: Final = "{cluster}: {event}: {subject}: {details}"
TEXT_FIELDS: Final = (
    "at",
    "cluster",
    "count",
    "details",
    "event",
    "job_id",
    "job_name",
    "key",
    "offset",
    "owner",
    "rule",
    "schedule_id",
    "subject",
    "task_manager_id",
)


class InvalidNotifications(ValueError):
    """A notification document cannot be used; the message names the place and what is wrong there."""


class HappeningType(StrEnum):
    """What the log knows that somebody may want to be told of."""

    JOB_FAILED = "job-failed"
    JOB_FINISHED = "job-finished"
    JOB_CANCELED = "job-canceled"
    JOB_LATE = "job-late"
    JOB_OVERDUE = "job-overdue"
    JOB_RESTARTING = "job-restarting"
    CHECKPOINT_FAILED = "checkpoint-failed"
    STREAM_STALLED = "stream-stalled"
    RUN_SKIPPED = "run-skipped"
    RECORDS_LOST = "records-lost"
    SCHEDULE_PAUSED = "schedule-paused"
    TASK_MANAGER_LOST = "task-manager-lost"
    LEADER_CHANGED = "leader-changed"
    INPUT_PARKED = "input-parked"


_OF_NO_JOB: Final = frozenset({HappeningType.TASK_MANAGER_LOST, HappeningType.LEADER_CHANGED, HappeningType.INPUT_PARKED})


def _check_text(text: str) -> str:
    try:
        fields = [(name, form, conversion) for _, name, form, conversion in Formatter().parse(text) if name is not None]
    except ValueError as error:
        raise ValueError(f"not a template: {error}; write {{{{ for a brace") from error
    for name, form, conversion in fields:
        if form or conversion:
            raise ValueError(f"field {describe_value(name)} has more than its name: write {{{name}}}")
        if name not in TEXT_FIELDS:
            raise ValueError(f"unknown field {describe_value(name)}{did_you_mean(name, TEXT_FIELDS)}; there are {', '.join(TEXT_FIELDS)}")
    return text


def _check_url(url: str) -> str:
    check_reference("url", url, is_needed=False)
    if not url.startswith(("http://", "https://", "${")):
        raise ValueError("must begin with http:// or https://, or refer to a secret such as ${file:/path/of/it}")
    if url.startswith("http") and (fault := find_url_fault(url)):
        raise ValueError(f"{fault}; give an address such as https://host:8443/path")
    return url


def find_url_fault(url: str) -> str:
    """Return why nothing can be sent to an address, without the address; "": nothing is wrong with it."""
    if not url.isascii() or not url.isprintable() or " " in url:
        return "invalid url: it has a space or another character that a URL writes with %, such as %20"
    try:
        parts = urlsplit(url)
    except ValueError:
        return "invalid url: its host cannot be read"
    try:
        port = parts.port
    except ValueError:  # What it says repeats what stands there: perhaps a password.
        return "invalid url: its port is no number up to 65535"
    if "@" in parts.netloc:
        return "invalid url: it has a user or a password; send them as the header Authorization, which refers to a secret"
    if not parts.hostname:
        return "invalid url: it names no host"
    return "invalid url: port 0 cannot be reached" if port == 0 else ""


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"invalid header: {describe_value(name)}; a name has letters, digits and '-'")
        if max(value) > "\xff":
            raise ValueError(f"invalid header: {name} has a character that HTTP cannot carry; write it in Latin-1")
        check_reference(name, value, is_needed=name.lower() == "authorization" or holds_secret(name))
    return headers


def _check_line(text: str) -> str:
    if _CONTROL.search(text):
        raise ValueError(
            f"invalid text: {describe_value(text)} has a line break or another control character; in YAML a text behind '>' or '|' ends "
            "with a line break, and behind '>-' with none"
        )
    return text


def _check_host(host: str) -> str:
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise ValueError(f"invalid host: {describe_value(host)}: {error}") from error
    return host


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
_Url = Annotated[str, Field(min_length=1, max_length=2_048), AfterValidator(_check_url)]
_Text = Annotated[str, Field(min_length=1, max_length=1_024), AfterValidator(_check_line)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HttpReceiver(_Part):
    """Takes each notification as the JSON body of a POST, with its key as the header `Idempotency-Key`."""

    type: Literal["http"]
    url: _Url
    headers: Annotated[dict[_Text, _Text], AfterValidator(_check_headers)] = Field(default_factory=dict, max_length=32)


class SlackReceiver(_Part):
    """Takes the text of each notification as Slack's incoming webhooks do, and those that are like them."""

    type: Literal["slack"]
    url: _Url


class KafkaReceiver(_Part):
    """Takes each notification as a record of a topic, with its key."""

    type: Literal["kafka"]
    topic: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
    bootstrap_servers: _Text | None = None
    """Default: the Kafka of the log."""


class FileReceiver(_Part):
    """Takes each notification as a line of JSON at the end of a file; `-` is standard output."""

    type: Literal["file"]
    path: _Text


class MailReceiver(_Part):
    """Takes the text of each notification as a mail."""

    type: Literal["mail"]
    host: Annotated[_Text, AfterValidator(_check_host)]
    port: Whole = Field(587, ge=1, le=65_535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    sender: _Text
    to: list[_Text] = Field(min_length=1, max_length=64)
    user: _Text | None = None
    password: _Text | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.password is not None:
            check_reference("password", self.password, is_needed=True)
        if (self.user is None) != (self.password is None):
            raise ValueError("'user' and 'password' go together")
        return self


Receiver = HttpReceiver | SlackReceiver | KafkaReceiver | FileReceiver | MailReceiver


class JobChoice(_Part):
    """Which jobs a rule is about: those that fit everything that is said."""

    names: list[_Text] = Field(default_factory=list, max_length=256)
    """Names, or patterns of them such as `nightly*`."""
    owners: list[_Text] = Field(default_factory=list, max_length=256)
    labels: dict[_Text, str] = Field(default_factory=dict, max_length=32)

    def fits(self, name: str, about: JobAbout | None) -> bool:
        """Tell whether a job is one of them."""
        about = about or JobAbout()
        labels = {label.name: label.value for label in about.labels}
        return (
            (not self.names or any(fnmatchcase(name, pattern) for pattern in self.names))
            and (not self.owners or about.owner in self.owners)
            and all(labels.get(label) == value for label, value in self.labels.items())
        )


class AlertRule(_Part):
    """Of what somebody is told, and how often."""

    events: list[HappeningType] = Field(min_length=1)
    jobs: JobChoice | None = None
    """Default: all; with it, only what is about a job."""
    receivers: list[str] = Field(min_length=1)
    text: Annotated[str, Field(max_length=4_096), AfterValidator(_check_text)] = DEFAULT_TEXT
    more_than: Whole = Field(0, ge=0, le=MAX_COUNTED)
    """It is said when the same happens more often than that, to one job, schedule or TaskManager, or to the cluster,"""
    within: Annotated[int, duration_within(1_000, _MOST_MS)] = 600_000
    """within this time."""
    repeat_after: Annotated[int, duration_within(0, _MOST_MS)] = _DAY_MS
    """The same of the same run, instant, schedule or TaskManager is said once in each period of that length, unless it was over."""
    resolved: Flag = False
    """Whether it is also said when it is over."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.jobs is not None and _OF_NO_JOB.issuperset(self.events):
            raise ValueError(f"jobs: {', '.join(self.events)}: they concern no job, so nothing would be sent; leave 'jobs' out")
        return self

    @property
    def looks_back_ms(self) -> int:
        """How far back in the log it looks for whether something is to be said."""
        return self.repeat_after + (self.within if self.more_than else 0)

    @property
    def memory_ms(self) -> int:
        """How far back in the log it looks, also for what is over."""
        return self.looks_back_ms + (RESOLVED_WITHIN_MS if self.resolved else 0)


class LineageSettings(_Part):
    """Who gets the runs of jobs as events of OpenLineage."""

    receivers: list[str] = Field(min_length=1)
    namespace: _Text | None = None
    """Of jobs; default: `eventflink://` and the id of the cluster."""
    vertices: Flag = True
    """Whether vertices have runs of their own, whose parent is the run of the job."""
    running_every: Annotated[int, duration_within(60_000, _MOST_MS)] = 600_000
    """How often, in milliseconds, a job with streams says how far it has read while it runs."""


class NotificationDocument(_Part):
    """Who is told of what."""

    receivers: dict[_Name, Annotated[Receiver, Field(discriminator="type")]] = Field(min_length=1, max_length=32)
    rules: dict[_Name, AlertRule] = Field(default_factory=dict, max_length=256)
    lineage: LineageSettings | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.rules and self.lineage is None:
            raise ValueError("nothing would be sent: give 'rules', 'lineage', or both")
        users = {f"rules.{name}": rule.receivers for name, rule in self.rules.items()}
        if self.lineage is not None:
            users["lineage"] = self.lineage.receivers
        for place, names in users.items():
            for name in names:
                if name not in self.receivers:
                    raise ValueError(f"{place}.receivers: receiver not found: {describe_value(name)}{did_you_mean(name, self.receivers)}")
        for name in users.get("lineage", ()):
            if isinstance(self.receivers[name], SlackReceiver | MailReceiver):
                raise ValueError(  # noqa: TRY004 - pydantic makes a fault of a ValueError
                    f"lineage.receivers: '{name}' takes texts for people; events of OpenLineage go by http, kafka or file"
                )
        return self

    @property
    def memory_ms(self) -> int:
        """How far before a record the log is read for what is sent of it."""
        return max((rule.memory_ms for rule in self.rules.values()), default=0)


_KNOWN: Final = tuple(
    name
    for part in (NotificationDocument, AlertRule, JobChoice, LineageSettings, HttpReceiver, KafkaReceiver, FileReceiver, MailReceiver)
    for name in part.model_fields
)


def parse_notifications(text: str, file_name: str) -> NotificationDocument:
    """Return what the text of a file says.

    Raises:
        InvalidNotifications: names the file, the place in it and what is wrong there.

    """
    try:
        document = read_document(text)
    except InvalidText as error:
        raise InvalidNotifications(f"invalid {file_name}: {error}") from error
    if not isinstance(document, Mapping):
        raise InvalidNotifications(f"invalid {file_name}: it is a mapping with 'receivers', and 'rules' or 'lineage'")
    try:
        return NotificationDocument.model_validate(document)
    except ValidationError as error:
        problem = error.errors()[0]
        # Behind the name of a receiver pydantic names the kind of it, which is no part of the document.
        path = tuple(
            part for number, part in enumerate(problem["loc"]) if (problem["loc"][0], number) != ("receivers", 2) and part != "[key]"
        )
        place = find_place(text, path) if path else None
        where = "".join((f": {written_place(path)}" if path else "", f" ({place})" if place is not None else ""))
        raise InvalidNotifications(f"invalid {file_name}{where}: {_fault(problem)}") from error


def _fault(problem: Mapping[str, object]) -> str:
    if str(problem["type"]).startswith("union_tag"):
        return "'type' must be http, slack, kafka, file or mail"
    return describe_fault(problem, _KNOWN, shows_value=problem["loc"][-1:] != ("password",))  # type: ignore[index]
