"""Failures of tasks and of jobs, and what they led to."""

from dataclasses import dataclass

from eventflink.model.failure_types import FailureKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failure that something followed from."""

    job_id: str
    name: str
    """Of the job."""
    task: str
    vertex_id: str
    """Empty, if the job failed as a whole."""
    subtask_index: int
    attempt: int
    task_manager_id: str | None
    failure_type: str
    message: str
    at: str
    kind: FailureKind
    """Whose it is."""
    sentence: str
