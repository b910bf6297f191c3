"""Events of the JobMaster: what happens within a job: statuses, attempts, restarts, rescales.

Values that mirror the schemas of the same names; `log_events.py` has all of them and the rule of all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from eventflink.events.decision import LogEvent
from eventflink.events.slot_manager_events import AttemptSlotEvent
from eventflink.model.attempts import Accumulators, AttemptRecord, FailureCause, IOMetrics, OutputLocation, SubtaskReference
from eventflink.model.statuses import ExecutionState, FailoverStrategy, JobStatus, RescaleReason


@dataclass(slots=True)
class AttemptEvent(LogEvent, AttemptRecord):
    """What happened to an attempt."""


@dataclass(slots=True)
class JobStatusChanged(LogEvent):
    """One transition of the table of JobStatus."""

    job_id: str
    from_status: JobStatus
    to_status: JobStatus
    reason: str = ""


@dataclass(slots=True)
class SlotShared(AttemptSlotEvent):
    """An attempt gets a place in a slot that its job holds already for the same slot sharing group."""


@dataclass(slots=True)
class TaskScheduled(AttemptEvent):
    """The attempt's inputs are there; it waits for a slot: CREATED to SCHEDULED."""


@dataclass(slots=True)
class TaskDeployed(AttemptEvent):
    """The attempt goes to its slot: SCHEDULED to DEPLOYING."""

    allocation_id: str


@dataclass(slots=True)
class TaskStateChanged(AttemptEvent):
    """One transition of the table of ExecutionState that is not an end with a result or a failure."""

    from_state: ExecutionState
    to_state: ExecutionState


@dataclass(slots=True)
class TaskCancellationRequested(AttemptEvent):
    """The TaskExecutor is told to end the attempt: CANCELING."""

    reason: str


@dataclass(slots=True)
class TaskFinished(AttemptEvent):
    """The attempt finished, and its outputs are now the subtask's result: the log is the output commit."""

    outputs: tuple[OutputLocation, ...] = ()
    io: IOMetrics | None = None
    accumulators: Accumulators | None = None


@dataclass(slots=True)
class TaskFailed(AttemptEvent):
    """The attempt failed."""

    cause: FailureCause


@dataclass(slots=True)
class RestartScheduled(LogEvent):
    """The failed subtask will start again."""

    job_id: str
    vertex_id: str
    subtask_index: int
    restart_at_ms: int
    restarts: int
    backoff_ms: int = 0
    failed_attempt: int = 0
    delay_ms: int = 0
    failover_strategy: FailoverStrategy = FailoverStrategy.REGION
    task_count: int = 1
    lost_outputs: tuple[SubtaskReference, ...] = ()
    is_counted: bool = True


@dataclass(slots=True)
class GlobalFailureOccurred(LogEvent):
    """A job failed as a whole, and not by one of its attempts."""

    job_id: str
    cause: FailureCause


@dataclass(slots=True)
class JobRestartScheduled(LogEvent):
    """After a failure of the job as a whole its streams will start again, or all of it."""

    job_id: str
    restart_at_ms: int
    restarts: int
    backoff_ms: int
    delay_ms: int
    failover_strategy: FailoverStrategy
    task_count: int


@dataclass(slots=True)
class RegionRestarted(AttemptEvent):
    """The subtask has a new attempt: CREATED."""


@dataclass(slots=True)
class JobMasterStopped(LogEvent):
    """All attempts of a suspended job have ended, and it has no JobMaster any more; requests under its token are refused."""

    job_id: str
    job_master_id: str
    reason: str


@dataclass(slots=True)
class ResourcesAwaited(LogEvent):
    """A vertex could start, and waits: there are fewer slots than it wants."""

    job_id: str
    vertex_id: str
    wanted: int
    available: int


@dataclass(slots=True)
class JobRescaleRequested(LogEvent):
    """Somebody asks for another parallelism of a vertex."""

    job_id: str
    vertex_id: str
    parallelism: int
    actor: str


@dataclass(slots=True)
class RescaleScheduled(LogEvent):
    """A vertex that has begun gets another parallelism as soon as all its attempts have ended; what they left does not count."""

    job_id: str
    vertex_id: str
    from_parallelism: int
    to_parallelism: int
    reason: RescaleReason


@dataclass(slots=True)
class JobRescaled(LogEvent):
    """A vertex, of which no attempt lives, has another parallelism, and with it those that forward edges bind to it."""

    job_id: str
    vertex_id: str
    from_parallelism: int
    to_parallelism: int
    reason: RescaleReason
    attempt: int


_STATE_AFTER: Final[Mapping[type, ExecutionState]] = {
    RegionRestarted: ExecutionState.CREATED,
    TaskScheduled: ExecutionState.SCHEDULED,
    TaskDeployed: ExecutionState.DEPLOYING,
    TaskCancellationRequested: ExecutionState.CANCELING,
    TaskFinished: ExecutionState.FINISHED,
    TaskFailed: ExecutionState.FAILED,
}


def execution_state_after(event: object) -> ExecutionState | None:
    """Return in which state an attempt is after an event about it; None: it is not the event of a transition."""
    return event.to_state if isinstance(event, TaskStateChanged) else _STATE_AFTER.get(type(event))
