"""Jobs of one name as the runs of a job: which there were, by which version of graph and code, and how each vertex fared."""

from dataclasses import dataclass
from typing import Final

from eventflink.documents.jobs import JobRow
from eventflink.model.statuses import ExecutionState, JobStatus

DEFAULT_NAMES: Final = 100
DEFAULT_RUNS: Final = 20
MAX_FIRST: Final = 2**31 - 1
MAX_NAMES: Final = 1_000
MAX_RUNS: Final = 100
"""The most runs of one page: for each of them the newest attempt of every subtask is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexOfRun:
    """How a vertex fared in one run."""

    vertex_id: str
    state: ExecutionState
    """Of its subtasks the one that says most: a failed one, then one that lives, then one that has not run."""
    tasks: int
    tasks_finished: int
    duration_ms: int | None
    """From when the first of its newest attempts was deployed to the end of the last, or to where the log's time stands; null: none was."""
    is_reused: bool
    """Whether it did not run: its outputs are those of the run that was run again."""
    skipped: str | None = None
    """Why it was skipped; null: it was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOfJob(JobRow):
    """A run."""

    version: int
    """Counts the definitions under the name, in the order of their first known runs, from 1."""
    definition_digest: str
    """Runs with the same graph and code have the same."""
    started_at: str | None
    """When the first task was deployed; null: none was."""
    parameters: dict[str, str | int | float | bool]
    """What its parameters are bound to, by name; secrets are ******."""
    vertices: list[VertexOfRun]
    """The first fifty, in the order of the graph."""
    vertices_total: int
    is_archived: bool = False
    """Whether the job has left the memory, and this is told by its archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionOfJob:
    """A version of a job: runs with the same graph and code, whatever the values of their parameters."""

    version: int
    definition_digest: str
    first_job_id: str
    """Its first known run."""
    first_submitted_at: str
    first_actor: str
    """Who submitted that."""
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsPage:
    """A window of the runs of a name, the newest first."""

    name: str
    total: int
    """How many runs are known."""
    runs: list[RunOfJob]
    vertices: list[str]
    """The vertices of these runs, those of the newest run first; fifty at most."""
    typical_ms: int | None
    """The median duration of the newest hundred runs that finished; null: none did."""
    versions: list[VersionOfJob]
    """The newest hundred, the newest first."""
    versions_total: int
    unread: int
    """Of how many jobs that have left the memory no archive was read: some of them may be runs of this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkOfRun:
    """A run in a trend."""

    job_id: str
    status: JobStatus
    submitted_at: str
    duration_ms: int
    failure_is_dismissed: bool = False
    """Whether somebody has dismissed its failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobName:
    """A name with what became of its runs."""

    name: str
    runs: int
    versions: int
    newest: MarkOfRun
    last_success_at: str | None
    """When the run ended that finished last; null: none of those that are known."""
    last_success_job_id: str | None
    typical_ms: int | None
    """The median duration of the newest hundred runs that finished; null: none did."""
    trend: list[MarkOfRun]
    """The newest twenty runs, the newest last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNamesPage:
    """A window of the names of jobs, those first that were submitted last."""

    total: int
    names: list[JobName]
    unread: int
    """Of how many jobs that have left the memory no archive was read: they are not counted."""
