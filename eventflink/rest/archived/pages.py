"""The pages of one archived job at any moment of its life, as a REST process has them of a job that has ended, and the bar over that life.

What a page is made of is the archive as it would have been at that moment (`views/archive_moments.py`).
"""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from eventflink.documents.log import LabelledRecord, LogBounds, StepsFromMoment, TimeLine
from eventflink.documents.one_job import JobArchive
from eventflink.reader.archives.life import Life, LifeHasNoSuchMoment, moment_of
from eventflink.rest.archived.reads import ArchiveReader, ReaderOfRequest
from eventflink.rest.errors import not_found
from eventflink.rest.own.log import MAX_BUCKETS, PlaceText
from eventflink.rest.own.moments import AtText, Moment, parse_place
from eventflink.rest.own.one_job import PREFIX, JobId
from eventflink.views.archive_moments import archive_at
from eventflink.views.jobs_and_cluster import JobNotFound

router = APIRouter(prefix=f"{PREFIX}/life")

Cluster = Annotated[str | None, Query(max_length=128, description="Of this cluster; without it, of the one where such a job ended last.")]


class ArchivedPages:
    """The pages of a job at the moment of one request, from its archive."""

    def __init__(self, reader: ArchiveReader, job_id: str, cluster: str | None, at: str | None) -> None:
        """Take which moment of which job a request is about; raises `RestError` 400 where `at` is neither number nor time."""
        self._reader = reader
        self._job_id = job_id
        self._cluster_id = cluster
        self._place = parse_place("at", at)

    async def page(self, _compute: Callable[..., Any], *arguments: Any, from_archive: Callable[..., Any]) -> Moment[Any]:
        """Return what `from_archive` makes of the archive as it would have been, and of all arguments but the job's id.

        Raises:
            RestError: 404 there is no such job, moment or vertex; 410 the archive is damaged or gone; 503 it cannot be read.

        """
        return await self._made(lambda archive, life, number: from_archive(archive_at(archive, life.times[number]), *arguments[1:]))

    async def told(self, make: Callable[[Life, int], Any]) -> Moment[Any]:
        """Return what is made of the life of the job and the number of the moment; raises as `page` does."""
        return await self._made(lambda _, life, number: make(life, number))

    async def _made(self, make: Callable[[JobArchive, Life, int], Any]) -> Moment[Any]:
        archive = await self._reader.read(self._job_id, self._cluster_id)

        def made() -> dict[str, Any]:
            life = self._reader.lives.of(archive)
            number = life.moment_at(self._place)
            return moment_of(number, life, make(archive, life, number), live=self._place is None)

        try:
            # In a thread: of a job of 10,000 subtasks it is half a second.
            return Moment(**await asyncio.to_thread(made))
        except (JobNotFound, LifeHasNoSuchMoment) as error:
            raise not_found(str(error)) from error


async def _life_of(reader: ReaderOfRequest, job_id: JobId, cluster: Cluster = None, at: AtText = None) -> ArchivedPages:
    return ArchivedPages(reader, job_id, cluster, at)


LifeOfRequest = Annotated[ArchivedPages, Depends(_life_of)]


def archived_pages(request: Request, *_: Any) -> ArchivedPages:
    """Return the pages of the job that the path of a request names."""
    parameters = request.query_params
    return ArchivedPages(request.app.state.reader, request.path_params["job_id"], parameters.get("cluster"), parameters.get("at"))


@router.get("/bounds")
async def bounds(life: LifeOfRequest) -> Moment[LogBounds]:
    """Return from where to where the life of a job goes."""
    return await life.told(lambda found, _: found.bounds())


@router.get("/histogram")
async def histogram(
    life: LifeOfRequest,
    first: Annotated[PlaceText, Query(alias="from")] = None,
    until: PlaceText = None,
    buckets: Annotated[int, Query(ge=1, le=MAX_BUCKETS)] = 240,
) -> Moment[TimeLine]:
    """Return a part of the life of a job, both ends included: how much changed when, and what is marked."""
    start, end = parse_place("from", first, is_first=True), parse_place("until", until)
    return await life.told(lambda found, _: found.time_line(start, end, buckets))


@router.get("/steps")
async def steps(life: LifeOfRequest) -> Moment[StepsFromMoment]:
    """Return the moments before and after one."""
    return await life.told(Life.steps)


@router.get("/position")
async def position(life: LifeOfRequest) -> Moment[LabelledRecord]:
    """Return which moment a time is: the last one until then."""
    return await life.told(Life.position)
