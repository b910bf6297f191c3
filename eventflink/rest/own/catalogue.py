"""The page of what jobs read and write."""

from typing import Annotated

from fastapi import APIRouter, Query

from eventflink.documents.catalogue import CataloguePage
from eventflink.rest.own.moments import Moment, MomentsOfRequest
from eventflink.rest.own.windows import First, Limit
from eventflink.views.pages.catalogue import catalogue_page

router = APIRouter()


@router.get("/catalogue")
async def catalogue(
    moments: MomentsOfRequest,
    name: Annotated[str, Query(max_length=200, description="A part of a place, or of a job or a vertex that uses it, in any case.")] = "",
    first: First = 0,
    limit: Limit = 100,
) -> Moment[CataloguePage]:
    """Return what the jobs in memory read and write, by place: streams what their graphs name, batch jobs their results."""
    return await moments.page(catalogue_page, name, first, limit, of_all_jobs=True)
