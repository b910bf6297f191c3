"""The pages of the schedules. They are read here; made, paused, fired and back-filled they are by commands."""

from fastapi import APIRouter

from eventflink.documents.schedules import ScheduleDetails, ScheduleList
from eventflink.rest.own.moments import Moment, MomentsOfRequest
from eventflink.rest.own.windows import First, Limit
from eventflink.views.schedules import schedule_view, schedules_view

router = APIRouter(prefix="/schedules")


@router.get("")
async def schedules(moments: MomentsOfRequest, first: First = 0, limit: Limit = 100) -> Moment[ScheduleList]:
    """Return the schedules in the order in which they were made, each with what became of its last instant."""
    return await moments.page(schedules_view, first, limit)


@router.get("/{schedule_id}")
async def schedule(moments: MomentsOfRequest, schedule_id: str) -> Moment[ScheduleDetails]:
    """Return a schedule with its next instants, and what became of the last ones."""
    return await moments.page(schedule_view, schedule_id)
