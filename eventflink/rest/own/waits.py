"""The page of all that waits."""

from fastapi import APIRouter

from eventflink.rest.own.moments import Moment, MomentsOfRequest, OwnShape
from eventflink.rest.own.page_shapes import First, Limit, Wait
from eventflink.views.pages.waits import waits_page
from eventflink.views.waits import WaitReason

router = APIRouter()


class WaitsPage(OwnShape):
    """A window of the waits."""

    total: int
    tasks: int
    """How many tasks wait in all."""
    tasks_by_reason: dict[WaitReason, int]
    waits: list[Wait]


@router.get("/waits")
async def waits(moments: MomentsOfRequest, first: First = 0, limit: Limit = 100) -> Moment[WaitsPage]:
    """Return what waits, and why: trouble first, then what has waited for longest."""
    return await moments.page(waits_page, first, limit, of_all_jobs=True)
