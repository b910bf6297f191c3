"""The pages of the TaskManagers."""

from fastapi import APIRouter

from eventflink.documents.task_managers import TaskManagerPage, TaskManagersPage
from eventflink.rest.own.moments import Moment, MomentsOfRequest
from eventflink.rest.own.windows import First, Limit
from eventflink.views.pages.task_managers import task_manager_page, task_managers_page

router = APIRouter(prefix="/task_managers")


@router.get("")
async def task_managers(moments: MomentsOfRequest, first: First = 0, limit: Limit = 100) -> Moment[TaskManagersPage]:
    """Return the registered TaskManagers with their slots, in the order in which they registered."""
    return await moments.page(task_managers_page, first, limit)


@router.get("/{task_manager_id}")
async def task_manager(moments: MomentsOfRequest, task_manager_id: str) -> Moment[TaskManagerPage]:
    """Return a registered TaskManager with its slots."""
    return await moments.page(task_manager_page, task_manager_id)
