"""The moment that a request of our own API is about: the present, or the place in the log that its parameter `at` names.

A page is a function of the state. Of the present the event loop computes it; of the past whoever holds it does (`history/port.py`), with
the same function. Every answer names the record that it reflects, and so one answer is of one offset.
"""

import asyncio
import hashlib
from collections.abc import Callable
from http import HTTPStatus
from importlib.metadata import version
from typing import Annotated, Any, Final, Generic, Protocol, TypeVar

from fastapi import Depends, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict

from eventflink.audit import FilterInvalid
from eventflink.audit.filters import LogPlace
from eventflink.leadership.fold import Fold
from eventflink.reader.past.port import HistoryRefused, Refusal
from eventflink.rest.errors import RestError, not_found
from eventflink.rest.reading import OFFSET_HEADER, READ_TIMEOUT_S, DemandedOffset, ServicesOfRequest, read_archive
from eventflink.rest.services import Services
from eventflink.views.jobs_and_cluster import JobNotFound
from eventflink.views.moment import moment_view
from eventflink.views.queries import SubjectNotFound

MAX_AGE_S: Final = 3600
"""How long a browser keeps a page of the past without asking again."""

FEW_JOBS: Final = 1_000
"""Of so many jobs a page that looks at all their tasks is computed in the event loop."""

ELSEWHERE_TIMEOUT_S: Final = 1.0
"""For how long a page of more jobs is waited for that another process computes."""

_LOOK_S: Final = 0.2
"""How often it is looked whether somebody still waits for an answer about the past."""

_STATUSES: Final = {
    Refusal.INVALID: HTTPStatus.BAD_REQUEST,
    Refusal.NOT_FOUND: HTTPStatus.NOT_FOUND,
    Refusal.GONE: HTTPStatus.GONE,
    Refusal.NOT_YET: HTTPStatus.SERVICE_UNAVAILABLE,
}

Body = TypeVar("Body")


class OwnShape(BaseModel):
    """A document of our own API: times are ISO 8601 in UTC with milliseconds, durations end in `_ms`."""

    model_config = ConfigDict(frozen=True, defer_build=True)  # Built with what they are parts of, as Flink's shapes.


class Moment(OwnShape, Generic[Body]):
    """A page, and the record of the log that it reflects."""

    offset: int
    decided_at: str | None
    """When that record was decided, by the log's clock; null before the first leader has a clock."""
    epoch: int
    leader_id: str
    master_id: str
    """Of the leader; empty before the first."""
    live: bool
    """Whether no moment was asked for, so that this was the newest when it was computed."""
    body: Body


AtText = Annotated[str | None, Query(max_length=64, description="An offset of the log, or an ISO 8601 time; without it, the present.")]
KnownTags = Annotated[str, Header(max_length=1024)]


class NotModified(Exception):
    """The client holds the answer already."""

    def __init__(self, headers: dict[str, str]) -> None:
        super().__init__()
        self.headers = headers


def not_modified(_: Request, error: Exception) -> Response:
    """Answer a request whose answer the client holds."""
    return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=error.headers if isinstance(error, NotModified) else None)


class JobPages(Protocol):
    """The pages of a job at the moment of one request, wherever they come from."""

    async def page(self, compute: Callable[..., Any], *arguments: Any, from_archive: Callable[..., Any]) -> Moment[Any]:
        """Return what `compute(fold, *arguments)` makes of a state, or `from_archive` of an archive and all arguments but the job's id."""


class Moments:
    """The moment of one request."""

    def __init__(
        self, request: Request, services: Services, response: Response, min_offset: int, at: str | None = None, if_none_match: str = ""
    ) -> None:
        """Take which moment a request is about, and what it demands.

        Raises:
            RestError: 400, `at` is neither an offset nor a time.

        """
        self._request = request
        self._services = services
        self._response = response
        self._min_offset = min_offset
        self._known = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
        self.place = parse_place("at", at)

    async def page(
        self,
        compute: Callable[..., Any],
        *arguments: Any,
        from_archive: Callable[..., Any] | None = None,
        of_all_jobs: bool = False,
        is_whole: bool = True,
    ) -> Moment[Any]:
        """Return what `compute(fold, *arguments)` makes of the state at the request's moment.

        `compute` is a function of a module, and the arguments are plain and hashable: they may go to another process, and pages of the
        present are remembered by them. It takes a few milliseconds at most, and may raise JobNotFound and SubjectNotFound. Of a job
        that has left the memory the present is what `from_archive` makes of its archive and of the arguments but the first, the job's id;
        that may raise JobNotFound as well.
        `of_all_jobs`: it looks at every task, so that of many jobs the process of the past computes the present too, as of the newest
        record that it knows.
        `is_whole`: nothing is added to it that is read elsewhere and may change, so that of an offset it may be kept.

        Raises:
            NotThere: the state is not as new as was asked for, or the past is not there yet.
            RestError: 404 there is no such thing or offset; 410 it is before the history begins; 400, 503 as the message says.

        """
        found = await self._computed_elsewhere(compute, arguments) if of_all_jobs and self.place is None else None
        if found is None:
            found = await self._computed(compute, arguments)
        missing = found["body"]
        if isinstance(missing, JobNotFound) and from_archive is not None and self.place is None:
            archive = await read_archive(self._services.archives, missing)
            try:
                found["body"] = from_archive(archive, *arguments[1:])
            except JobNotFound as error:
                raise not_found(str(error)) from error
        elif isinstance(missing, JobNotFound | SubjectNotFound):
            raise not_found(str(missing))
        self._head(found, may_be_kept=is_whole and self.place is not None and self.place.offset is not None)
        return Moment(**found, live=self.place is None)

    async def _computed(self, compute: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
        """Return a page of the present, which is computed here, or of the past; raises as `page` does."""

        def present(fold: Fold) -> dict[str, Any] | Exception | None:
            if self.place is not None and _is_past(self.place, fold):
                return None
            if self.place is not None and self.place.offset is not None and self.place.offset > fold.last_offset:
                return not_found(f"the log ends at {fold.last_offset}")
            try:
                return self._services.cache.page(fold, compute, arguments)
            except (JobNotFound, SubjectNotFound) as error:
                return moment_view(fold, _missing, (error,))

        found = (await self._services.state.read(present, min_offset=self._min_offset, timeout_s=READ_TIMEOUT_S)).value
        if isinstance(found, Exception):
            raise found
        if found is None:
            past: dict[str, Any] = await self.history("page", self.place, compute, arguments)
            return past
        return found

    async def _computed_elsewhere(self, compute: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Any] | None:
        """Return a page of many jobs as of the newest record that whoever holds the past knows; None: it is to be computed here."""
        jobs = (await self._services.state.read(_job_count, min_offset=self._min_offset, timeout_s=READ_TIMEOUT_S)).value
        if jobs <= FEW_JOBS:
            return None
        try:
            async with asyncio.timeout(ELSEWHERE_TIMEOUT_S):
                found: dict[str, Any] = await self.history("page", None, compute, arguments)
        except (RestError, TimeoutError):
            return None  # The present does not depend on the past.
        return found if found["offset"] >= self._min_offset else None

    async def spend(self, compute: Callable[..., Any], *arguments: Any) -> Moment[Any]:
        """Return what `compute(fold, *arguments)` makes of the state at the request's moment, which it may change: it is a copy, elsewhere.

        Raises:
            RestError: 404 there is no such offset; 410 it is before the history begins; 400, 503 as the message says.

        """
        newest = (await self._services.state.read(_offset, min_offset=self._min_offset, timeout_s=READ_TIMEOUT_S)).value
        if self.place is not None and self.place.offset is not None and self.place.offset > newest:
            raise not_found(f"the log ends at {newest}")
        found = await self.history("spend", self.place, compute, arguments)
        self._response.headers.update({OFFSET_HEADER: str(found["offset"]), "Cache-Control": "no-store"})
        return Moment(**found, live=self.place is None)

    async def history(self, question: str, *arguments: Any) -> Any:
        """Return the answer of the method of `Historian` that is named so.

        Raises:
            RestError: there is none; 400, 404, 410 or 503.

        """
        asking = asyncio.ensure_future(self._services.history.ask(question, *arguments))
        try:
            while not (await asyncio.wait({asking}, timeout=_LOOK_S))[0]:
                if await self._request.is_disconnected():  # Whoever drags a bar over the log has asked for another moment by now.
                    raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, "the client has closed the connection")
            return asking.result()
        except HistoryRefused as error:
            raise RestError(_STATUSES[error.refusal], error.message) from error
        finally:
            asking.cancel()

    async def told(self, question: str, *arguments: Any) -> Moment[Any]:
        """Return what the history says about the log itself, which may say more when the log has grown; raises as `history` does."""
        found = await self.history(question, *arguments)
        self._response.headers.update({OFFSET_HEADER: str(found["offset"]), "Cache-Control": "no-store"})
        return Moment(**found, live=self.place is None)

    async def known(self, place: LogPlace | None) -> LogPlace | None:
        """Return a place as the past is asked about it: no later than the present, which may be further than the past is known.

        No place is the newest that the past is known of; where the request demands an offset, it is the present.

        Raises:
            NotThere: the state is not as new as was asked for.
            RestError: 404, the log ends before that place.

        """
        if place is None and self._min_offset < 0:
            return None

        def present(fold: Fold) -> LogPlace | RestError:
            if place is None:
                return LogPlace(offset=fold.last_offset)
            if _is_past(place, fold):
                return place
            if place.offset is not None and place.offset > fold.last_offset:
                return not_found(f"the log ends at {fold.last_offset}")
            return LogPlace(offset=fold.last_offset)

        found = (await self._services.state.read(present, min_offset=self._min_offset, timeout_s=READ_TIMEOUT_S)).value
        if isinstance(found, RestError):
            raise found
        return found

    async def needed(self, *places: LogPlace | None) -> int:
        """Return the record up to which the past has to be known to tell of a part of the log with these ends; -1: as far as it is known.

        Raises:
            NotThere: the state is not as new as was asked for.

        """
        last = max((place.offset for place in places if place is not None and place.offset is not None), default=-1)
        if last < 0 and self._min_offset < 0:
            return -1
        newest = (await self._services.state.read(_offset, min_offset=self._min_offset, timeout_s=READ_TIMEOUT_S)).value
        return max(self._min_offset, min(last, newest))

    def _head(self, found: dict[str, Any], *, may_be_kept: bool) -> None:
        """Say in the header of which offset the answer is, and for how long it holds: what is at an offset never changes."""
        headers = {OFFSET_HEADER: str(found["offset"]), "Cache-Control": "no-store"}
        if may_be_kept:
            # Ids of leaders are never given twice, so that the tag is of this log and no other.
            named = f"{version('eventflink')} {found['leader_id']} {found['epoch']} {found['offset']}"
            tag = f'"{hashlib.blake2b(named.encode(), digest_size=12).hexdigest()}"'
            headers |= {"Cache-Control": f"private, max-age={MAX_AGE_S}, immutable", "ETag": tag}
            if tag in self._known:
                raise NotModified(headers)
        self._response.headers.update(headers)


async def pages_of(
    request: Request, response: Response, min_offset: DemandedOffset, at: AtText = None, if_none_match: KnownTags = ""
) -> JobPages:
    """Return where a request finds the pages of a job, which is the application's choice."""
    pages: JobPages = request.app.state.pages(request, response, min_offset, at, if_none_match)
    return pages


async def _moments_of(
    request: Request,
    services: ServicesOfRequest,
    response: Response,
    min_offset: DemandedOffset,
    at: AtText = None,
    if_none_match: KnownTags = "",
) -> Moments:
    return Moments(request, services, response, min_offset, at, if_none_match)


async def _untimed(request: Request, services: ServicesOfRequest, response: Response, min_offset: DemandedOffset) -> Moments:
    """Return the moment of a request that names none: the present."""
    return Moments(request, services, response, min_offset)


def parse_place(name: str, text: str | None, *, is_first: bool = False) -> LogPlace | None:
    """Return the place in the log that a parameter names, as `LogPlace.parse` does; None where it is not given.

    Raises:
        RestError: 400, it names none.

    """
    if text is None:
        return None
    try:
        # The + of a time zone arrives as a blank where nobody has escaped it.
        return LogPlace.parse(text.replace(" ", "+") if "T" in text else text, is_first=is_first)
    except FilterInvalid as error:
        raise RestError(HTTPStatus.BAD_REQUEST, f"{name}: {error}") from error


def _is_past(place: LogPlace, fold: Fold) -> bool:
    """Tell whether a place lies before where the fold stands; one that does not is answered from the fold itself."""
    if place.offset is not None:
        return place.offset < fold.last_offset
    return place.at_ms is not None and place.at_ms < fold.last_decided_at_ms


def _offset(fold: Fold) -> int:
    return fold.last_offset


def _job_count(fold: Fold) -> int:
    return len(fold.master.dispatcher.jobs)


def _missing(_: Fold, error: Exception) -> Exception:
    return error


MomentsOfRequest = Annotated[Moments, Depends(_moments_of)]
PagesOfRequest = Annotated[JobPages, Depends(pages_of)]
UntimedOfRequest = Annotated[Moments, Depends(_untimed)]
