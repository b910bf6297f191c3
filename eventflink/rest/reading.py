"""What a request reads: the state through `ObservedState`, and of jobs that have left the memory their archives.

Every answer names the offset of the log that it reflects (`OFFSET_HEADER`); a request may demand one that is at least as new
(`MIN_OFFSET_HEADER`), or as new as the log is when it comes (`LATEST`). What a request reads more than once is not of one offset, unless
it is computed at once.
"""

import asyncio
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Annotated, Final, Protocol, TypeVar

from fastapi import Depends, Header, Request, Response

from eventflink.blob import BlobError
from eventflink.blob.job_archives import ArchiveDamaged, ArchiveMissing, JobArchives
from eventflink.documents.one_job import JobArchive
from eventflink.documents.runs import RunOfJob
from eventflink.leadership.fold import Fold
from eventflink.reader.archives.reading import read_archived
from eventflink.rest.answers import look, note_state
from eventflink.rest.errors import RestError, not_found
from eventflink.rest.services import Services
from eventflink.views.jobs_and_cluster import JobNotFound
from eventflink.views.queries import SubjectNotFound
from eventflink.views.runs import JobThatLeft

OFFSET_HEADER: Final = "X-Eventflink-Offset"
MIN_OFFSET_HEADER: Final = "X-Eventflink-Min-Offset"
LATEST: Final = "latest"
"""In the place of an offset: the last record that the log has when the request comes."""
ARCHIVE_TIMEOUT_S: Final = 10.0
READ_TIMEOUT_S: Final = 10.0

T = TypeVar("T")


async def services_of(request: Request) -> Services:  # What is not async would be called in a thread, for each request anew.
    """Return what the routes of this application work with."""
    services: Services = request.app.state.services
    return services


ServicesOfRequest = Annotated[Services, Depends(services_of)]


class RequestReads(Protocol):
    """The reads of one request."""

    async def state(self, compute: Callable[[Fold], T]) -> T:
        """Return what `compute` makes of the state."""

    async def job(self, compute: Callable[[Fold], T], from_archive: Callable[[JobArchive], T]) -> T:
        """Return what `compute` makes of a job in the state, or `from_archive` of its archive."""


class ObservedReads:
    """The reads of a request to a process that follows the log."""

    def __init__(self, services: Services, request: Request, response: Response, min_offset: int) -> None:
        """Take what a request demands of the state; the answer tells what it reflects. Raises `Answered`: it is known already."""
        position = services.state.position
        if position is not None and position[0] >= min_offset:
            look(services.cache, position, request)
        self._services = services
        self._request = request
        self._response = response
        self._min_offset = min_offset

    async def state(self, compute: Callable[[Fold], T]) -> T:
        """Return what `compute` makes of the state.

        Raises:
            NotThere: it is not as new as was asked for.
            RestError: 404, `compute` found no such TaskManager.

        """

        def safely(fold: Fold) -> T | SubjectNotFound:
            note_state(self._request, (fold.last_offset, fold.running_hash))
            try:
                return compute(fold)
            except SubjectNotFound as error:
                return error

        reading = await self._services.state.read(safely, min_offset=self._min_offset, timeout_s=READ_TIMEOUT_S)
        self._response.headers[OFFSET_HEADER] = str(reading.log_offset)
        if isinstance(reading.value, SubjectNotFound):
            raise not_found(str(reading.value))
        return reading.value

    async def job(self, compute: Callable[[Fold], T], from_archive: Callable[[JobArchive], T]) -> T:
        """Return what `compute` makes of a job in the state, or `from_archive` of its archive.

        Raises:
            NotThere: the state is not as new as was asked for.
            RestError: 404 there is no such job; 410 its archive is damaged or gone; 503 the storage does not answer.

        """

        def safely(fold: Fold) -> T | JobNotFound:
            try:
                return compute(fold)
            except JobNotFound as error:
                return error

        found = await self.state(safely)
        if not isinstance(found, JobNotFound):
            return found
        note_state(self._request, None)
        return from_archive(await read_archive(self._services.archives, found))


async def read_archive(archives: JobArchives | None, missing: JobNotFound) -> JobArchive:
    """Return the archive of a job that has left the memory.

    Raises:
        RestError: 404 there is none; 410 it is damaged or gone; 503 the storage does not answer.

    """
    try:
        async with asyncio.timeout(ARCHIVE_TIMEOUT_S):
            return await asyncio.to_thread(read_archived, archives, missing)
    except JobNotFound as error:
        raise not_found(str(error)) from error
    except (ArchiveMissing, ArchiveDamaged) as error:
        raise RestError(HTTPStatus.GONE, str(error)) from error
    except (TimeoutError, OSError, BlobError) as error:
        message = f"the archive of job '{missing.job_id}' cannot be read: {error or f'not within {ARCHIVE_TIMEOUT_S:g} s'}"
        raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, message) from error


async def read_archived_runs(services: Services, left: Sequence[JobThatLeft]) -> list[RunOfJob]:
    """Return the runs of jobs that have left the memory, as far as their archives can be read in time."""
    if not left or services.archives is None:
        return []
    try:
        async with asyncio.timeout(ARCHIVE_TIMEOUT_S):
            return await asyncio.to_thread(services.archived_runs.read, services.archives, left)
    except TimeoutError:  # The storage hangs: nobody else waits for it, and the page says how many it does not know.
        return services.archived_runs.known(left)


async def demanded_offset(
    request: Request, min_offset: Annotated[str, Header(alias=MIN_OFFSET_HEADER, pattern=rf"^(-1|\d{{1,18}}|{LATEST})$")] = "-1"
) -> int:
    """Return the offset that an answer has to reflect at least; -1: none is demanded. Raises `NotThere`."""
    if min_offset != LATEST:
        return int(min_offset)
    services: Services | None = getattr(request.app.state, "services", None)  # Who reads archives alone follows no log.
    return await services.state.newest_offset() if services is not None else -1


DemandedOffset = Annotated[int, Depends(demanded_offset)]


async def reads_of(request: Request, response: Response, min_offset: DemandedOffset) -> RequestReads:
    """Return what a request reads from, which is the application's choice."""
    reads: RequestReads = request.app.state.reads(request, response, min_offset)
    return reads


ReadsOfRequest = Annotated[RequestReads, Depends(reads_of)]
