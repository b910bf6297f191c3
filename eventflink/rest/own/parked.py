"""What could not be decided and waits for an operator (P10), as a page. It is read here; tried again or dropped it is by commands."""

from fastapi import APIRouter

from eventflink.rest.own.moments import Moment, MomentsOfRequest, OwnShape
from eventflink.rest.own.page_shapes import First, Limit
from eventflink.views.pages.parked import parked_page

router = APIRouter()


class ParkedInput(OwnShape):
    """An internal input that could not be decided."""

    parked_id: str
    input_type: str
    subject: str
    """What it is about; empty: the cluster."""
    job_id: str | None
    """The job that failed for it; null: it is no job's."""
    reason: str
    parked_at: str | None
    wanted: bool
    """Whether it is still to be done: then it can be tried again, and not be dropped."""


class ParkedPage(OwnShape):
    """A window of what is parked."""

    total: int
    parked: list[ParkedInput]


@router.get("/parked")
async def parked(moments: MomentsOfRequest, first: First = 0, limit: Limit = 100) -> Moment[ParkedPage]:
    """Return the internal inputs that could not be decided and wait for an operator, the oldest first."""
    return await moments.page(parked_page, first, limit)
