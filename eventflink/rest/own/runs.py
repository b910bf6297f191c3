"""The pages of the names of jobs, and of the runs of a name: of jobs in memory, and of those whose archives are left.

A name is a parameter and no part of the path: it may be any text. Of the state the event loop takes only what is known of runs, which
shares nothing with it; threads make the pages of that, since there may be ten thousand runs.
"""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Response

from eventflink.documents.runs import DEFAULT_NAMES, DEFAULT_RUNS, MAX_RUNS, JobNamesPage, RunsPage
from eventflink.rest.own.moments import Moment, MomentsOfRequest
from eventflink.rest.own.windows import First, Limit
from eventflink.rest.reading import ServicesOfRequest, read_archived_runs
from eventflink.views.runs import known_runs, names_page, runs_page

router = APIRouter()


@router.get("/names")
async def names(
    moments: MomentsOfRequest,
    services: ServicesOfRequest,
    response: Response,
    name: Annotated[str, Query(max_length=256, description="A part of the name, in any case.")] = "",
    first: First = 0,
    limit: Limit = DEFAULT_NAMES,
) -> Moment[JobNamesPage]:
    """Return the names of jobs, those first that were submitted last, each with what became of its runs."""
    found = await moments.page(known_runs, None, of_all_jobs=True)
    archived = await read_archived_runs(services, found.body.left)
    page = await asyncio.to_thread(names_page, found.body, archived, name, first, limit)
    _keep(response, page.unread)
    return Moment(**dict(found) | {"body": page})


@router.get("/runs")
async def runs(
    moments: MomentsOfRequest,
    services: ServicesOfRequest,
    response: Response,
    name: Annotated[str, Query(min_length=1, max_length=256, description="The whole name.")],
    first: First = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_RUNS, description="How many to show, at most.")] = DEFAULT_RUNS,
) -> Moment[RunsPage]:
    """Return the runs of a name, the newest first, with what became of each vertex, and the versions of graph and code that they ran."""
    found = await moments.page(known_runs, name, first, limit, of_all_jobs=True)
    archived = await read_archived_runs(services, found.body.left)
    page = await asyncio.to_thread(runs_page, found.body, archived, name, first, limit)
    _keep(response, page.unread)
    return Moment(**dict(found) | {"body": page})


def _keep(response: Response, unread: int) -> None:
    """Have nobody keep a page of the past that an archive may still add to."""
    if unread and "ETag" in response.headers:
        del response.headers["ETag"]
        response.headers["Cache-Control"] = "no-store"
