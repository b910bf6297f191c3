"""What could not be decided and waits for an operator (P10), as a page. It is read here; tried again or dropped it is by commands."""

from fastapi import APIRouter

from eventflink.documents.parked import ParkedPage
from eventflink.rest.own.moments import Moment, MomentsOfRequest
from eventflink.rest.own.windows import First, Limit
from eventflink.views.pages.parked import parked_page

router = APIRouter()


@router.get("/parked")
async def parked(moments: MomentsOfRequest, first: First = 0, limit: Limit = 100) -> Moment[ParkedPage]:
    """Return the internal inputs that could not be decided and wait for an operator, the oldest first."""
    return await moments.page(parked_page, first, limit)
