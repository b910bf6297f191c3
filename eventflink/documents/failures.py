"""Failures of tasks and of jobs, and what they led to."""

from dataclasses import dataclass, field

from eventflink.documents.plain import UNTOLD
from eventflink.model.attempts import FailureCause
from eventflink.model.failure_types import FailureKind
from eventflink.model.statuses import FailoverStrategy, FailureReaction, JobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failure that something followed from."""

    job_id: str
    name: str
    """The name of the job."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRow:
    """The failure of an attempt, or of the job as a whole."""

    at: str
    task: str
    vertex_id: str
    """Empty: no attempt failed, but the job."""
    subtask_index: int
    attempt: int
    task_manager_id: str | None
    instance_id: str | None
    cause: FailureCause


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRestart:
    """The restart that a failure led to."""

    restarts: int
    """Which restart of the job it is."""
    delay_ms: int
    restart_at: str | None
    failover_strategy: FailoverStrategy
    tasks: list[str]
    """The first of those that start again."""
    task_count: int
    retry_rule: int | None = None
    """By which of the vertex's rules of retries, from 1 on; null: by the restart strategy of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureOfJob(FailureRow):
    """A failure, what it led to, and the failures that came with it."""

    reaction: FailureReaction | None
    restart: ScheduledRestart | None = field(default=None, metadata=UNTOLD)
    reason: str | None = field(default=None, metadata=UNTOLD)
    """Why there was no restart."""
    concurrent: list[FailureRow]
    """The first of them, without their stack traces."""
    concurrent_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedFailure(FailureOfJob):
    """A failure with whose it is, and in one sentence."""

    kind: FailureKind
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedExceptions:
    """How many failures a job had."""

    job_id: str
    name: str
    status: JobStatus
    restarts: int
    total: int
    """How many there were; the newest are remembered."""
    truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExceptions(CountedExceptions):
    """The failures of a job, the newest first."""

    exceptions: list[FailureOfJob]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceptionsPage(CountedExceptions):
    """The failures of a job with whose each is, the newest first."""

    exceptions: list[ExplainedFailure]
