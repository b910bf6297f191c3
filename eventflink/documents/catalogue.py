"""What jobs read and write: each place with its writers and its readers."""

from dataclasses import dataclass

from eventflink.model.statuses import JobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class UseOfPlace:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CataloguePlace:
    """A topic, a directory, a function, or a result of batch jobs."""

    connector: str
    location: str
    bootstrap_servers: str | None
    """The Kafka cluster of a topic; null: the topic is in the Kafka of this cluster, or the place is not a topic."""
    written_by: list[UseOfPlace]
    """The newest of them, the newest first."""
    written_by_total: int
    read_by: list[UseOfPlace]
    read_by_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CataloguePage:
    """A window of the places that fit."""

    total: int
    places: list[CataloguePlace]
