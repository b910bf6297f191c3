"""The named queues of jobs: what each may hold, holds and waits for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A queue, in slots."""

    queue: str
    nominal_quota: int
    """How many it is entitled to."""
    borrowing_limit: int | None
    """How many it may hold beyond that; null: all that others leave free."""
    weight: int
    """Its share of what is borrowed."""
    held: int
    borrowed: int
    """How many of those are beyond its quota."""
    requests: int
    """Tasks that wait for a slot."""
    jobs: int
    """Jobs that have such tasks."""
