"""The arguments of methods in both clients: lists of paths or names, and those of a submission, of a rerun, of a question for events."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, overload

from eventflink.jobs.job_files import Document
from eventflink.model.statuses import JobStatus

Paths = Path | str | Iterable[Path | str]
"""One path, or several."""
Names = str | Iterable[str]
"""One name, or several."""


@overload
def each_of(given: JobStatus | Iterable[JobStatus]) -> Sequence[JobStatus]: ...
@overload
def each_of(given: Names) -> Sequence[str]: ...
@overload
def each_of(given: Paths) -> Sequence[Path | str]: ...
def each_of(given: Any) -> Sequence[Any]:
    """Return the paths or names that an argument stands for: a single one, which is a text or a path, is a list of itself."""
    return [given] if isinstance(given, str | Path) else list(given)


class SubmitOptions(TypedDict, total=False):
    """What a job may be submitted with."""

    code: Paths
    """Files and directories with its Python code."""
    parameters: Mapping[str, object]
    """Values of the parameters that it declares, by name; each of its type, or a text that says it."""
    job_id: str
    """Its id; default: a new one."""
    savepoint: Path | str
    """In which its streams begin."""
    allow_non_restored_state: bool
    """Whether the savepoint may have streams that the job does not have: they are left behind."""


class RerunOptions(TypedDict, total=False):
    """How an ended job may be run again; from the beginning, with its own graph, if nothing is said."""

    parameters: Mapping[str, object] | None
    """Values by name; a parameter that is not named has the value of the ended job."""
    failed: bool
    """Whether what the ended job has finished is reused where it can be; else everything runs."""
    from_vertices: Names
    """These and all that reads them run, and the rest is reused where it can be."""
    document: Document | None
    """The mended job, which runs in place of its graph under the same name; None: its graph."""
    code: Paths
    """Files and directories with the Python code of that document; none: the code of the ended job, or the modules of a job in Python."""


class EventOptions(TypedDict, total=False):
    """Which events are wanted; all of them, if nothing is said."""

    job: str
    """What concerns this job; the beginning of its id is enough."""
    type: Names
    """These types."""
    task_manager: str
    """What concerns this TaskManager, or one of its instances."""
    accepted: bool
    """Only what counts; False: only what does not."""
    since: int | str
    """From this offset of the log on, or from this ISO 8601 time (UTC)."""
    until: int | str
    """Up to it."""
    limit: int
    """No more than so many."""
    follow: bool
    """Then those to come, for ever."""
