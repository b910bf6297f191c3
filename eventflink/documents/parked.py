"""What is parked: internal inputs that could not be decided and wait for an operator (P10)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedRow:
    """An internal input that could not be decided."""

    parked_id: str
    input_type: str
    subject: str
    """What it is about; empty: the cluster."""
    job_id: str | None
    """The job that failed because of it; null: it belongs to no job."""
    reason: str
    parked_at: str | None
    wanted: bool
    """Whether it is still to be done: then it can be tried again, and not be dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedPage:
    """A window of what is parked."""

    total: int
    parked: list[ParkedRow]
