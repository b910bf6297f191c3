"""What may be said of a submission, and of which events are wanted: the keyword arguments of methods in both clients."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TypedDict


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
