"""The log itself: its time line, its events, each decision with what led to it; and what compares or explains moments of it.

All of it is the business of the history (`history/historian.py`); here are the parameters and their bounds.
"""

import re
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query
from fastapi import Path as PathParameter

from eventflink.audit import FilterInvalid
from eventflink.audit.difference import MAX_ROWS
from eventflink.audit.filters import event_type
from eventflink.documents.explanation import Explanation, StoryOfJob
from eventflink.documents.log import (
    DecisionPage,
    Differences,
    EventsPage,
    FlowOfJob,
    LabelledRecord,
    LogBounds,
    MastersPage,
    StepsFromMoment,
    TimeLine,
)
from eventflink.leadership.fold import Fold
from eventflink.reader.past.decisions import EventsWanted
from eventflink.reader.past.port import HistoryRefused
from eventflink.rest.errors import RestError
from eventflink.rest.own.moments import Moment, MomentsOfRequest, UntimedOfRequest, parse_place
from eventflink.rest.reading import ServicesOfRequest

MAX_BUCKETS: Final = 600
MAX_EVENTS: Final = 1_000
MAX_POINTS: Final = 500
MAX_TYPES: Final = 100
MAX_OFFSET: Final = 2**43 - 1
"""What fits a place of an index."""

_CURSOR: Final = re.compile(r"(\d{1,13})\.(\d{1,6})")

router = APIRouter()


PlaceText = Annotated[str | None, Query(max_length=64, description="An offset, or an ISO 8601 time.")]
Id = Annotated[str | None, Query(max_length=1024)]


@router.get("/log/bounds")
async def bounds(moments: UntimedOfRequest, services: ServicesOfRequest) -> Moment[LogBounds]:
    """Return from where to where the log is there, and how far the past is known."""
    reason, restarts = services.history.health()
    known = LogBounds()
    if not reason:
        try:
            known = await services.history.ask("bounds")
        except HistoryRefused as error:
            reason = error.message
    live = await moments.page(_end)
    health = replace(known.history, answers=not reason, reason=reason, restarts=restarts)
    told = replace(known, last_offset=live.offset, last_at=live.decided_at, history=health)
    return live.model_copy(update={"body": told})


def _end(_: Fold) -> None:
    """Say nothing but of which record the state is."""


@router.get("/log/histogram")
async def histogram(
    moments: UntimedOfRequest,
    first: Annotated[PlaceText, Query(alias="from")] = None,
    until: PlaceText = None,
    buckets: Annotated[int, Query(ge=1, le=MAX_BUCKETS)] = 240,
) -> Moment[TimeLine]:
    """Return a part of the log, both ends included, as a time line: how much was decided when, who led, what is marked."""
    begins, ends = parse_place("from", first, is_first=True), parse_place("until", until)
    return await moments.told("histogram", begins, ends, buckets, await moments.needed(begins, ends))


@router.get("/log/events")
async def events(
    moments: UntimedOfRequest,
    first: Annotated[PlaceText, Query(alias="from")] = None,
    until: PlaceText = None,
    types: Annotated[list[str], Query(alias="type", max_length=MAX_TYPES)] = [],  # noqa: B006 - FastAPI copies it
    without: Annotated[list[str], Query(max_length=MAX_TYPES, description="Types that are left out.")] = [],  # noqa: B006
    job: Id = None,
    task_manager: Id = None,
    rejected: Annotated[bool | None, Query(description="Only those of decisions that do not count, or only of those that do.")] = None,
    order: Literal["newest", "oldest"] = "newest",
    limit: Annotated[int, Query(ge=1, le=MAX_EVENTS)] = 100,
    after: Annotated[str | None, Query(max_length=32, description="What the page before gave as `next`.")] = None,
) -> Moment[EventsPage]:
    """Return events of a part of the log, both ends included, that fit all the filters; of several types, any."""
    wanted = EventsWanted(
        first=parse_place("from", first, is_first=True),
        last=parse_place("until", until),
        types=tuple(map(_type, types)),
        without=tuple(map(_type, without)),
        job_id=job,
        task_manager_id=task_manager,
        rejected=rejected,
        newest_first=order == "newest",
        limit=limit,
        cursor=_cursor(after),
    )
    return await moments.told("events", wanted, await moments.needed(wanted.first, wanted.last))


def _type(name: str) -> str:
    try:
        return event_type(name)
    except FilterInvalid as error:
        raise RestError(HTTPStatus.BAD_REQUEST, f"type, without: {error}") from error


def _cursor(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise RestError(HTTPStatus.BAD_REQUEST, "after: it is not what a page gave as `next`")
    return int(found[1]), int(found[2])


@router.get("/log/steps")
async def steps(moments: MomentsOfRequest, job: Id = None, task_manager: Id = None) -> Moment[StepsFromMoment]:
    """Return the records before and after a moment that count and concern a job or a TaskManager; without either, any."""
    if job is not None and task_manager is not None:
        raise RestError(HTTPStatus.BAD_REQUEST, "give one of job and task_manager")
    return await moments.told("steps", await moments.known(moments.place), job, task_manager)


@router.get("/log/flow")
async def flow(
    moments: MomentsOfRequest,
    job: Annotated[str, Query(min_length=1, max_length=1024)],
    points: Annotated[int, Query(ge=1, le=MAX_POINTS, description="Checkpoints that are shown of each stream, at most.")] = 120,
) -> Moment[FlowOfJob]:
    """Return how the streams of a job have flowed up to a moment, by what their subtasks said at its checkpoints."""
    return await moments.told("flow", await moments.known(moments.place), job, points)


@router.get("/log/position")
async def position(moments: MomentsOfRequest) -> Moment[LabelledRecord]:
    """Return which record a moment is: the last that was decided until then."""
    return await moments.told("position", await moments.known(moments.place))


@router.get("/log/{offset}")
async def decision(moments: UntimedOfRequest, offset: Annotated[int, PathParameter(ge=0, le=MAX_OFFSET)]) -> Moment[DecisionPage]:
    """Return one decision: what it answers, its events, what led to it and what it led to."""
    await moments.known(parse_place("offset", str(offset)))
    return await moments.told("decision", offset)


@router.get("/diff")
async def diff(
    moments: UntimedOfRequest,
    a: PlaceText = None,
    b: PlaceText = None,
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS)] = MAX_ROWS,
) -> Moment[Differences]:
    """Return what differs between the states at two moments; without one, the newest."""
    before, after = await moments.known(parse_place("a", a)), await moments.known(parse_place("b", b))
    return await moments.told("diff", before, after, limit)


@router.get("/why/{thing:path}")
async def why(moments: MomentsOfRequest, thing: Annotated[str, PathParameter(min_length=1, max_length=2048)]) -> Moment[Explanation]:
    """Return what an id names, what that is, and the decisions that led there, back to the request and who made it."""
    return await moments.told("why", await moments.known(moments.place), thing)


@router.get("/jobs/{job_id}/story")
async def story(moments: MomentsOfRequest, job_id: Annotated[str, PathParameter(min_length=1, max_length=1024)]) -> Moment[StoryOfJob]:
    """Return the life of a job up to a moment, also of one that has left the memory; the beginning of its id is enough."""
    return await moments.told("story", await moments.known(moments.place), job_id)


@router.get("/masters")
async def masters(moments: MomentsOfRequest) -> Moment[MastersPage]:
    """Return who led up to a moment: the masters, and their leaderships."""
    return await moments.told("masters", await moments.known(moments.place))
