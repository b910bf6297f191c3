"""What the shapes of several pages have in common: waits, failures, attempts, and the windows of lists."""

from typing import Annotated, Final

from fastapi import Query

from eventflink.model.failure_types import FailureKind
from eventflink.model.statuses import ExecutionState
from eventflink.rest.own.moments import OwnShape
from eventflink.views.waits import WaitReason

MAX_LIMIT: Final = 1_000

First = Annotated[int, Query(ge=0, lt=2**31, description="How many to leave out before the first that is shown.")]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many to show, at most.")]


class Wait(OwnShape):
    """Tasks of one vertex that wait for the same reason."""

    job_id: str
    name: str
    """Of the job."""
    vertex_id: str
    tasks: int
    parallelism: int
    reason: WaitReason
    trouble: bool
    """Whether it is more than the ordinary course of a job."""
    sentence: str
    since: str | None
    """Since when the first of them waits; null: the state does not say."""
    subtasks: list[int]
    """The first of them, by index."""


class Failure(OwnShape):
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


class AttemptInSlot(OwnShape):
    """An attempt that is in a slot."""

    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int
    state: ExecutionState | None
    """null: it is not the current attempt of its subtask any more."""
