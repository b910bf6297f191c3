"""The documents about the log: its bounds, its time line, its events and decisions."""

from typing import Any

from pydantic import Field

from eventflink.reader.past.log_index import MarkKind
from eventflink.rest.own.moments import OwnShape


class HistoryHealth(OwnShape):
    """How whoever answers about the past is."""

    answers: bool
    reason: str
    """Why it does not answer; empty: it does."""
    restarts: int
    bytes: int | None
    """What it holds of the log in memory, without states; null: it does not answer."""


class Bounds(OwnShape):
    """From where to where the log is there."""

    first_offset: int | None
    """The first record that can be shown; null: none can yet."""
    first_at: str | None
    states_from: int | None
    """The first record whose state can be shown."""
    last_offset: int
    """The last record that this process has read; -1: none."""
    last_at: str | None
    topic_id: str
    """Kafka's id of the log's topic; empty: not known."""
    indexed_to: int | None
    """The last record that the past is known of; questions beyond it get 503."""
    indexed_to_at: str | None
    history: HistoryHealth


class Bucket(OwnShape):
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


class LeadershipShape(OwnShape):
    """Who led from one record on."""

    epoch: int
    leader_id: str
    master_id: str | None
    """Null: its grant is not in the log any more."""
    from_offset: int
    from_at: str | None
    """When Kafka took the grant."""
    until_offset: int | None
    """The record that grants the next leadership; null: it is the last."""
    until_at: str | None
    """Of the last record of this leadership."""
    gap_ms: int | None
    """Nobody led for so long before it, at most: an idle leader leaves no trace of when it ended. Null: nothing was before it."""
    decisions: int
    rejected: int


class Mark(OwnShape):
    """Something on the time line."""

    offset: int
    at: str | None
    kind: MarkKind
    label: str
    job_id: str | None
    count: int
    """How many of the kind it stands for; it is the first of them."""


class Histogram(OwnShape):
    """A part of the log as a time line."""

    from_: int = Field(alias="from")
    until: int
    """The record after its last."""
    from_at: str | None
    until_at: str | None
    buckets: list[Bucket]
    leaderships: list[LeadershipShape]
    leaderships_total: int
    marks: list[Mark]
    marks_total: int


class EventWords(OwnShape):
    """An event in words."""

    type: str
    subject: str
    details: str


class EventRow(EventWords):
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


class Events(OwnShape):
    """A page of events."""

    events: list[EventRow]
    next: str | None
    """What the next page is asked for with, as `after`; null: this is the last. A page may have fewer events than was asked for."""


class Cause(OwnShape):
    """What a decision answers."""

    sentence: str
    topic: str | None
    partition: int | None
    offset: int | None
    last_offset: int | None


class EventOfDecision(EventWords):
    """An event with all its fields."""

    payload: dict[str, Any]


class Link(OwnShape):
    """Another decision, and what it says of the same things."""

    offset: int
    sentence: str


class DecisionShape(OwnShape):
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
    causes: list[Cause]
    """The first 100."""
    events: list[EventOfDecision]
    """The first 1,000."""
    events_total: int
    because_of: list[Link]
    """Earlier decisions that it continues, at most 16."""
    led_to: list[Link]
    """The first 16 decisions that continue it, as far as they are there by now."""


class Steps(OwnShape):
    """Where one gets from a moment."""

    previous: int | None
    next: int | None
    previous_label: str | None
    next_label: str | None
    unchanged_since_at: str | None
    unchanged_until_at: str | None


class FlowPoint(OwnShape):
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


class FlowOfStream(OwnShape):
    """How a stream has flowed."""

    vertex_id: str
    points: list[FlowPoint]
    """The oldest first."""


class Flow(OwnShape):
    """How the streams of a job have flowed."""

    job_id: str
    answers: int
    """How many answers to checkpoints the log has; the points show some of them."""
    vertices: list[FlowOfStream]


class Position(OwnShape):
    """A record of the log."""

    offset: int
    decided_at: str | None
    label: str


class Difference(OwnShape):
    """One thing that differs."""

    thing: str
    id: str | None
    name: str | None = None
    change: str
    field: str | None = None
    before: Any = None
    after: Any = None
    says: str


class MomentOfDifference(OwnShape):
    """One of the two moments."""

    log_offset: int
    at: str | None


class Diff(OwnShape):
    """What differs between two moments."""

    before: MomentOfDifference
    after: MomentOfDifference
    head: str
    rows: list[Difference]
    total: int


class Why(OwnShape, extra="allow"):
    """What an id named, what that was, and why; further fields are facts of its type, as `eventflink why --json` has them."""

    type: str
    id: str
    state: str
    cause: dict[str, Any] | None
    waits: list[dict[str, Any]]
    chain: list[dict[str, Any]]
    omitted: int
    """How many decisions in the middle of the chain are left out."""
    log_offset: int


class LeaderShape(OwnShape):
    """Who leads."""

    master_id: str | None
    leader_id: str
    epoch: int
    from_offset: int
    from_at: str | None


class MasterShape(OwnShape):
    """A master that has led."""

    master_id: str | None
    leader_id: str
    """Of its last leadership."""
    epoch: int
    leaderships: int
    decisions: int
    last_offset: int
    last_at: str | None


class Masters(OwnShape):
    """Who led up to a moment. Standbys say nothing in the log, so they are not here."""

    leader: LeaderShape | None
    masters: list[MasterShape]
    """The one that led last is last."""
    leaderships: list[LeadershipShape]
    leaderships_total: int
