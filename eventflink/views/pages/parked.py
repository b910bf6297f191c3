"""What is parked: internal inputs that could not be decided, and wait for an operator (P10)."""

from itertools import islice

from eventflink.leadership.fold import Fold
from eventflink.master.follow_ups import ParkedInput
from eventflink.views.plain import View, iso_time


def parked_rows(fold: Fold) -> list[View]:
    """Return everything that is parked, the oldest first."""
    return [_row(*name, parked) for name, parked in fold.master.follow_ups.parked.items()]


def parked_page(fold: Fold, first: int, limit: int) -> View:
    """Return what is parked from the `first`-th on, the oldest first."""
    parked = fold.master.follow_ups.parked
    return {"total": len(parked), "parked": [_row(*name, one) for name, one in islice(parked.items(), first, first + limit)]}


def _row(input_type: str, subject: str, parked: ParkedInput) -> View:
    return {
        "parked_id": parked.parked_id,
        "input_type": input_type,
        "subject": subject,
        "job_id": parked.job_id,
        "reason": parked.reason,
        "parked_at": iso_time(parked.parked_at_ms),
        "wanted": parked.wanted,
    }
