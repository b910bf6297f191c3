"""What tasks wait for: the reasons for programs, and a row for the tasks of a vertex that wait for the same."""

from dataclasses import dataclass, field
from enum import auto

from eventflink.documents.queues import QueueRow
from eventflink.model.statuses import UpperStrEnum


class WaitReason(UpperStrEnum):
    """Why a task waits; the first six are those of `SlotRequestDeferralReason`."""

    WORKER_REQUESTED = auto()
    NO_TASK_MANAGER = auto()
    NO_FITTING_SLOT = auto()
    TASK_MANAGERS_BLOCKED = auto()
    NO_FREE_SLOT = auto()
    QUEUE_SHARE = auto()
    NEXT_DECISION = auto()
    """Nothing is missing any more: one of the next decisions goes on."""
    NO_REQUEST = auto()
    INPUTS = auto()
    CLOSING = auto()
    """It runs when all others of its job have come to their end."""
    JOB_STATUS = auto()
    FULL_RESTART = auto()
    RESTART_DELAY = auto()
    RESOURCES = auto()
    """An adaptive job waits for more slots than are free."""
    RESCALE = auto()
    CONFIRMATION = auto()
    CANCELLATION = auto()
    LOST = auto()


@dataclass(frozen=True, slots=True)
class Wait:
    """Something that is not done yet, and why not."""

    what: str
    why: str
    since: str | None = None
    """null: the state does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitRow:
    """Tasks of one vertex that wait for the same reason."""

    job_id: str
    name: str
    """The name of the job."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsPage:
    """A window of the waits."""

    total: int
    tasks: int
    """How many tasks wait in all."""
    tasks_by_reason: dict[WaitReason, int]
    waits: list[WaitRow]
    queues: list[QueueRow] = field(default_factory=list)
    """The named queues of the cluster; empty if none are configured."""
