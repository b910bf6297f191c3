"""The keyword arguments of methods in both clients: of a submission, of a rerun, and of a question for events."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from eventflink.jobs.job_files import Document


class SubmitOptions(TypedDict, total=False):
    """What a job may be submitted with."""

    code: Iterable[Path | str]
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
    from_vertices: Sequence[str]
    """These and all that reads them run, and the rest is reused where it can be."""
    document: Document | None
    """The mended job, which runs in place of its graph under the same name; None: its graph."""
    code: Iterable[Path | str]
    """Files and directories with the Python code of that document; none: the code of the ended job, or the modules of a job in Python."""


class EventOptions(TypedDict, total=False):
    """Which events are wanted; all of them, if nothing is said."""

    job: str
    """What concerns this job; the beginning of its id is enough."""
    type: str | Collection[str]
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
