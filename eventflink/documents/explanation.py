"""Why a thing is as it is, and the story of a job: what `eventflink why` and `history` print, REST gives and the dashboard shows."""

from dataclasses import dataclass
from typing import Any

from eventflink.documents.waits import Wait
from eventflink.model.attempts import FailureCause


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOfChain:
    """One decision that led to what a thing is."""

    offset: int
    epoch: int
    sequence: int
    decided_at: str
    cause: str
    """What the decision answered, in words; empty: a candidacy."""
    actor: str
    """The sender of the request that is the cause; empty: no request is."""
    follows_from: tuple[int, ...]
    """The offsets of earlier decisions, where the events are their consequences."""
    events: tuple[str, ...]
    """Those that concern the thing, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What an id names, what that is, and why."""

    type: str
    """What kind of thing it is: job, subtask, allocation, TaskManager, instance or request."""
    id: str
    """Its whole id."""
    state: str
    facts: dict[str, Any]
    """What else there is to know of things of its type, by name."""
    cause: FailureCause | None
    """The root cause of the failure; None: nothing has failed."""
    waits: list[Wait]
    chain: list[StepOfChain]
    """The decisions that led there, the oldest first."""
    omitted: int
    """How many decisions in the middle of the chain are left out."""
    log_offset: int
    """The record after which this was so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOfStory:
    """Something that happened to a job, once or to many of its tasks."""

    kind: str
    """What kind of thing happened, such as submitted, failed or restart."""
    look: str
    """failed or waits, where it is trouble; empty: it is the ordinary course of a job."""
    offset: int
    until_offset: int
    """The last record that it happened in."""
    at: str
    until: str
    epoch: int
    count: int
    """How often it happened."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryOfJob:
    """The life of a job, from its submission on."""

    job_id: str
    name: str
    status: str
    restarts: int
    lines: list[LineOfStory]
    omitted: int
    """How many lines in the middle are left out."""
    log_offset: int
    """The offset of the last record that the story covers."""
