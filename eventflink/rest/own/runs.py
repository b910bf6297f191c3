"""The pages of the names of jobs, and of the runs of a name: of jobs in memory, and of those whose archives are left.

A name is a parameter and no part of the path: it may be any text. Of the state the event loop takes only what is known of runs, which
shares nothing with it; threads make the pages of that, since there may be ten thousand runs. What is known where there are archives alone
says `rest/archived/runs.py`.
"""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Query, Request, Response

from eventflink.documents.runs import DEFAULT_NAMES, DEFAULT_RUNS, MAX_RUNS, JobNamesPage, RunOfJob, RunsPage
from eventflink.rest.own.moments import AtText, KnownTags, Moment, Moments
from eventflink.rest.own.windows import First, Limit
from eventflink.rest.reading import DemandedOffset, read_archived_runs
from eventflink.rest.services import Services
from eventflink.views.runs import KnownRuns, known_runs, names_page, runs_page

router = APIRouter()


class RunsAtMoment(Protocol):
    """What is known of runs at the moment of one request, wherever that comes from."""

    async def told(self, name: str | None, first: int = 0, limit: int = 0) -> tuple[Moment[KnownRuns], Sequence[RunOfJob]]:
        """Return what `known_runs` does of a name (None: of all), and the runs that archives tell of beside it, of whatever names."""


class RunsOfState:
    """The runs of a state, and of the jobs that have left it."""

    def __init__(self, moments: Moments, services: Services) -> None:
        """Take the moment of a request."""
        self._moments = moments
        self._services = services

    async def told(self, name: str | None, first: int = 0, limit: int = 0) -> tuple[Moment[KnownRuns], Sequence[RunOfJob]]:
        """Return what the state knows, and what could be read in time of archives; raises as `Moments.page` does."""
        found = await self._moments.page(known_runs, name, first, limit, of_all_jobs=True)
        return found, await read_archived_runs(self._services, found.body.left)


async def _runs_of(
    request: Request, response: Response, min_offset: DemandedOffset, at: AtText = None, if_none_match: KnownTags = ""
) -> RunsAtMoment:
    """Return where a request finds runs, which is the application's choice."""
    runs_at: RunsAtMoment = request.app.state.runs(request, response, min_offset, at, if_none_match)
    return runs_at


RunsOfRequest = Annotated[RunsAtMoment, Depends(_runs_of)]


@router.get("/names")
async def names(
    known: RunsOfRequest,
    response: Response,
    name: Annotated[str, Query(max_length=256, description="A part of the name, in any case.")] = "",
    first: First = 0,
    limit: Limit = DEFAULT_NAMES,
) -> Moment[JobNamesPage]:
    """Return the names of jobs, those first that were submitted last, each with what became of its runs."""
    found, archived = await known.told(None)
    page = await asyncio.to_thread(names_page, found.body, archived, name, first, limit)
    _keep(response, page.unread)
    return Moment(**dict(found) | {"body": page})


@router.get("/runs")
async def runs(
    known: RunsOfRequest,
    response: Response,
    name: Annotated[str, Query(min_length=1, max_length=256, description="The whole name.")],
    first: First = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_RUNS, description="How many to show, at most.")] = DEFAULT_RUNS,
) -> Moment[RunsPage]:
    """Return the runs of a name, the newest first, with what became of each vertex, and the versions of graph and code that they ran."""
    found, archived = await known.told(name, first, limit)
    page = await asyncio.to_thread(runs_page, found.body, archived, name, first, limit)
    _keep(response, page.unread)
    return Moment(**dict(found) | {"body": page})


def _keep(response: Response, unread: int) -> None:
    """Have nobody keep a page of the past that an archive may still add to."""
    if unread and "ETag" in response.headers:
        del response.headers["ETag"]
        response.headers["Cache-Control"] = "no-store"
