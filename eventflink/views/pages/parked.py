"""What is parked: internal inputs that could not be decided, and wait for an operator (P10)."""

from itertools import islice

from eventflink.documents.parked import ParkedPage, ParkedRow
from eventflink.leadership.fold import Fold
from eventflink.master import follow_ups
from eventflink.views.plain import iso_time


def parked_rows(fold: Fold) -> list[ParkedRow]:
    """Return everything that is parked, the oldest first."""
    return [_row(*name, parked) for name, parked in fold.master.follow_ups.parked.items()]


def parked_page(fold: Fold, first: int, limit: int) -> ParkedPage:
    """Return what is parked from the `first`-th on, the oldest first."""
    parked = fold.master.follow_ups.parked
    shown = [_row(*name, one) for name, one in islice(parked.items(), first, first + limit)]
    return ParkedPage(total=len(parked), parked=shown)


def _row(input_type: str, subject: str, parked: follow_ups.ParkedInput) -> ParkedRow:
    return ParkedRow(
        parked_id=parked.parked_id,
        input_type=input_type,
        subject=subject,
        job_id=parked.job_id,
        reason=parked.reason,
        parked_at=iso_time(parked.parked_at_ms),
        wanted=parked.wanted,
    )
