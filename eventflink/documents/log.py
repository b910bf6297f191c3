"""The log: its bounds, its time line, its events and decisions, who led, and what differs between two moments of it."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from eventflink.documents.plain import written_as


class MarkKind(StrEnum):
    """What is marked on a time line."""

    FAILURE = "failure"
    TASK_MANAGER_LOST = "task_manager_lost"
    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    RESTART = "restart"
    RESCALE = "rescale"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryHealth:
    """How the process that answers about the past is."""

    answers: bool = True
    reason: str = ""
    """Why it does not answer; empty: it does."""
    restarts: int = 0
    bytes: int | None = None
    """What it holds of the log in memory, without states; null: it does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """From where to where the log is there."""

    first_offset: int | None = None
    """The first record that can be shown; null: none can yet."""
    first_at: str | None = None
    states_from: int | None = None
    """The first record whose state can be shown."""
    last_offset: int = -1
    """The last record that this process has read; -1: none."""
    last_at: str | None = None
    topic_id: str = ""
    """Kafka's id of the log's topic; empty: not known."""
    indexed_to: int | None = None
    """The last record that the past is known of; questions beyond it get 503."""
    indexed_to_at: str | None = None
    history: HistoryHealth = HistoryHealth()


@dataclass(frozen=True, slots=True, kw_only=True)
class StretchOfLog:
    """A stretch of time."""

    from_offset: int
    until_offset: int
    """The record after its last."""
    from_at: str | None
    until_at: str | None
    decisions: int
    failures: int
    """Events of failed tasks and jobs."""
    rejected: int
    """Decisions that do not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipRow:
    """Who led from one record on."""

    epoch: int
    leader_id: str
    master_id: str | None
    """null: its grant is not in the log any more."""
    from_offset: int
    from_at: str | None
    """When Kafka took the grant."""
    until_offset: int | None
    """The record that grants the next leadership; null: it is the last."""
    until_at: str | None
    """Of the last record of this leadership."""
    gap_ms: int | None
    """Nobody led for so long before it, at most: an idle leader leaves no trace of when it ended. null: nothing was before it."""
    decisions: int
    rejected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkOfLog:
    """Something on the time line."""

    offset: int
    at: str | None
    kind: MarkKind
    label: str
    job_id: str | None
    count: int
    """How many of the kind it stands for; it is the first of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLine:
    """A part of the log as a time line."""

    begins: int = field(metadata=written_as("from"))
    until: int
    """The record after its last."""
    from_at: str | None
    until_at: str | None
    buckets: list[StretchOfLog] = field(default_factory=list)
    leaderships: list[LeadershipRow] = field(default_factory=list)
    leaderships_total: int = 0
    marks: list[MarkOfLog] = field(default_factory=list)
    marks_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EventInWords:
    """An event in words."""

    type: str
    subject: str
    details: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow(EventInWords):
    """An event, and where it stands."""

    offset: int
    index: int
    epoch: int
    sequence: int
    decided_at: str
    accepted: bool
    rejection: str | None
    job_id: str | None
    task_manager_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsPage:
    """A page of events."""

    events: list[EventRow]
    next: str | None
    """What the next page is asked for with, as `after`; null: this is the last. A page may have fewer events than was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseOfDecision:
    """What a decision answers."""

    sentence: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    last_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventOfDecision(EventInWords):
    """An event with all its fields."""

    payload: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedDecision:
    """Another decision, and what it says of the same things."""

    offset: int
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPage:
    """One record of the log."""

    offset: int
    decided_at: str
    appended_at: str
    """When Kafka took it."""
    epoch: int
    sequence: int
    leader_id: str
    master_id: str | None
    actor: str | None
    accepted: bool
    rejection: str | None
    byte_count: int
    causes: list[CauseOfDecision]
    """The first 100."""
    events: list[EventOfDecision]
    """The first 1,000."""
    events_total: int
    because_of: list[LinkedDecision]
    """Earlier decisions that it continues, at most 16."""
    led_to: list[LinkedDecision]
    """The first 16 decisions that continue it, as far as they are there by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsFromMoment:
    """Where one gets from a moment."""

    previous: int | None
    next: int | None
    previous_label: str | None
    next_label: str | None
    unchanged_since_at: str | None
    unchanged_until_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPoint:
    """What the subtasks of a stream said at one checkpoint, added up."""

    offset: int
    at: str | None
    subtasks: int
    """How many of them have answered with a batch."""
    input_rows_per_second: float
    processed_rows_per_second: float
    records_behind: int | None
    batch_duration_ms: int
    """The longest of the subtasks' last batches."""
    state_rows: int
    state_bytes: int
    rows_written: int | None
    """By the attempts that ran then."""
    watermark: str | None
    """The earliest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowOfStream:
    """How a stream has flowed."""

    vertex_id: str
    points: list[FlowPoint]
    """The oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowOfJob:
    """How the streams of a job have flowed."""

    job_id: str
    answers: int
    """How many answers to checkpoints the log has; the points show some of them."""
    vertices: list[FlowOfStream]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledRecord:
    """A record of the log, and what it says first."""

    offset: int
    decided_at: str | None
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that differs."""

    thing: str
    """leader, cluster, job or task_manager."""
    id: str | None
    name: str | None = None
    """Of a job."""
    change: str
    """new, gone or changed."""
    field: str
    before: Any = None
    """null: it was not there."""
    after: Any = None
    says: str
    """The same in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMoment:
    """One of the two moments that are compared."""

    log_offset: int
    at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """What differs between two moments."""

    before: ComparedMoment
    after: ComparedMoment
    head: str
    """How much differs, in a sentence."""
    rows: list[Difference]
    """The first of them."""
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderRow:
    """Who leads."""

    master_id: str | None
    leader_id: str
    epoch: int
    from_offset: int
    from_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterRow:
    """A master that has led."""

    master_id: str | None
    leader_id: str
    """Of its last leadership."""
    epoch: int
    leaderships: int
    decisions: int
    last_offset: int
    last_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MastersPage:
    """Who led up to a moment. Standbys say nothing in the log, so they are not here."""

    leader: LeaderRow | None
    masters: list[MasterRow]
    """The one that led last is last."""
    leaderships: list[LeadershipRow]
    leaderships_total: int
