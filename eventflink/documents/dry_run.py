"""A dry run: what a request would lead to."""

from dataclasses import dataclass

from eventflink.documents.log import Differences, EventInWords
from eventflink.documents.one_job import WouldBeReused


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyRefused:
    """Why a request would be refused."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunPage:
    """What a request would lead to at once."""

    accepted: bool
    refusal: WhyRefused | None
    sentence: str
    events: list[EventInWords]
    """The first 200 that would be decided."""
    events_total: int
    is_whole: bool
    """Whether nothing more follows at once."""
    reuse: list[WouldBeReused]
    """Whether each vertex of a rerun would be reused, and why; empty: it is no rerun from a vertex or a failure."""
    differences: Differences
    """Of the states before and after."""
    leader_id: str
    """The fencing token of the leader that would decide: a command that names it is for no other."""
    job_master_id: str | None
    """The same of the JobMaster of the job that the request is about."""
