"""The smaller pages of one job: its attempts as bars, its result."""

from dataclasses import dataclass, field

from eventflink.documents.one_job import AttemptInfo, JobOutcome
from eventflink.documents.plain import written_as


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar(AttemptInfo):
    """An attempt, and of which subtask."""

    vertex_id: str
    subtask_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BarsOfVertex:
    """Where the bars of a vertex are."""

    vertex_id: str
    first: int
    bars: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BarsPage:
    """A window of the attempts of a job: by vertex, those of its worst subtask first."""

    job_id: str
    begins: str | None = field(metadata=written_as("from"))
    until: str | None
    """When the job ended; null: it has not."""
    total: int
    vertices: list[BarsOfVertex]
    bars: list[Bar]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOfSubtask:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPage(JobOutcome):
    """How a job ended, and what it left."""

    sinks: list[str]
    """The vertices whose outputs no other reads."""
    outputs: list[OutputOfSubtask]
    outputs_matching: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOfResult:
    """A column of a result."""

    name: str
    type: str
    """Arrow's word for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRows:
    """The first rows of an output."""

    job_id: str
    vertex_id: str
    output: str
    columns: list[ColumnOfResult] = field(default_factory=list)
    rows: list[list[bool | int | float | str | None]] = field(default_factory=list)
    """By column; what JSON has no value for is text, cut at 500 characters."""
    has_more: bool = False
    unreadable: str | None = None
    """Why there are none."""
