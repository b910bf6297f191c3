"""The page of all that waits."""

from fastapi import APIRouter

from eventflink.documents.waits import WaitsPage
from eventflink.rest.own.moments import Moment, MomentsOfRequest
from eventflink.rest.own.windows import First, Limit
from eventflink.views.pages.waits import waits_page

router = APIRouter()


@router.get("/waits")
async def waits(moments: MomentsOfRequest, first: First = 0, limit: Limit = 100) -> Moment[WaitsPage]:
    """Return what waits, and why: trouble first, then what has waited for longest."""
    return await moments.page(waits_page, first, limit, of_all_jobs=True)
