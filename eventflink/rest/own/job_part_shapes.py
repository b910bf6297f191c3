"""The shapes of the smaller pages of one job: bars, failures, checkpoints, the document, the result."""

from typing import Any

from pydantic import Field

from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import JobStatus
from eventflink.rest.own.moments import OwnShape
from eventflink.rest.own.one_job_shapes import AccumulatorOfTask, AttemptOfSubtask


class Bar(AttemptOfSubtask):
    """An attempt."""

    vertex_id: str
    subtask_index: int


class BarsOfVertex(OwnShape):
    """Where the bars of a vertex are."""

    vertex_id: str
    first: int
    bars: int


class BarsPage(OwnShape):
    """A window of the attempts of a job: by vertex, those of its worst subtask first."""

    job_id: str
    begins: str | None = Field(alias="from")
    until: str | None
    """When the job ended; null: it has not."""
    total: int
    vertices: list[BarsOfVertex]
    bars: list[Bar]


class DocumentPage(OwnShape):
    """What was submitted."""

    job_id: str
    graph_digest: str
    actor: str
    submitted_at: str | None
    document: dict[str, Any]
    """The job graph as it was submitted, with what it left to defaults; secrets are ******."""


class Output(OwnShape):
    """Where a subtask left what it published, and what it wrote there; -1, or no digest: it is not known."""

    vertex_id: str
    subtask_index: int
    attempt: int
    output: str
    location: str
    rows: int
    files: int
    size_bytes: int
    digest: str
    """The digest of the list of the files."""


class ResultPage(OwnShape):
    """How a job ended, and what it left."""

    job_id: str
    status: JobStatus
    is_terminal: bool
    submitted_at: str | None
    ended_at: str | None
    net_run_time_ms: int | None
    cause: FailureCause | None
    accumulators: list[AccumulatorOfTask] | None = None
    """What the code of all tasks that have finished has counted together; null: the archive is of a version that did not know."""
    sinks: list[str]
    """The vertices whose outputs no other reads."""
    outputs: list[Output]
    outputs_matching: int


class Column(OwnShape):
    """A column of a result."""

    name: str
    type: str
    """Arrow's word for it."""


class ResultRows(OwnShape):
    """The first rows of an output."""

    job_id: str
    vertex_id: str
    output: str
    columns: list[Column]
    rows: list[list[bool | int | float | str | None]]
    """By column; what JSON has no value for is text, cut at 500 characters."""
    has_more: bool
    unreadable: str | None
    """Why there are none."""
