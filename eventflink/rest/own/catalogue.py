"""The page of what jobs read and write."""

from typing import Annotated

from fastapi import APIRouter, Query

from eventflink.model.statuses import JobStatus
from eventflink.rest.own.moments import Moment, MomentsOfRequest, OwnShape
from eventflink.rest.own.page_shapes import First, Limit
from eventflink.views.pages.catalogue import catalogue_page

router = APIRouter()


class UseOfPlace(OwnShape):
    """A vertex of a job that writes a place, or reads it; of several runs of the job it is the newest."""

    job_id: str
    name: str
    vertex_id: str
    status: JobStatus
    runs: int
    """How many jobs of this name have done so."""
    rows_written: int | None
    """By its newest attempts; null: it reads, or that is unknown."""
    at: str | None
    """When a row came last; of a result, when the job ended."""


class Place(OwnShape):
    """A topic, a directory, a function, or a result of batch jobs."""

    connector: str
    location: str
    bootstrap_servers: str | None
    """The Kafka cluster of a topic; null: the topic is in the Kafka of this cluster, or the place is no topic."""
    written_by: list[UseOfPlace]
    """The newest of them, the newest first."""
    written_by_total: int
    read_by: list[UseOfPlace]
    read_by_total: int


class CataloguePage(OwnShape):
    """A window of the places that fit."""

    total: int
    places: list[Place]


@router.get("/catalogue")
async def catalogue(
    moments: MomentsOfRequest,
    name: Annotated[str, Query(max_length=200, description="A part of a place, or of a job or a vertex that uses it, in any case.")] = "",
    first: First = 0,
    limit: Limit = 100,
) -> Moment[CataloguePage]:
    """Return what the jobs in memory read and write, by place: streams what their graphs name, batch jobs their results."""
    return await moments.page(catalogue_page, name, first, limit, of_all_jobs=True)
