"""Events of the JobMaster: what happens within a job: statuses, attempts, restarts, rescales.

Values of which the schemas of the same names are made; `log_events.py` has all of them and the rule of all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from eventflink.events.decision import LogEvent
from eventflink.events.slot_manager_events import AttemptSlotEvent
from eventflink.model.attempts import Accumulators, AttemptRecord, FailureCause, IOMetrics, OutputLocation, SubtaskReference
from eventflink.model.closing import GraphOutcome
from eventflink.model.conditions import VertexSkip
from eventflink.model.statuses import ExecutionState, FailoverStrategy, JobStatus, RescaleReason


@dataclass(slots=True)
class AttemptEvent(LogEvent, AttemptRecord):
    """What happened to an attempt."""


@dataclass(slots=True)
class JobStatusChanged(LogEvent):
    """One transition of the table of JobStatus."""

    job_id: str
    """The job."""
    from_status: JobStatus
    """Before."""
    to_status: JobStatus
    """After."""
    reason: str = ""
    """Why the job fails: what the restart strategy said. Empty: the status says it all."""


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
    """The slot's allocation."""


@dataclass(slots=True)
class TaskStateChanged(AttemptEvent):
    """One transition of the table of ExecutionState that is not an end with a result or a failure."""

    from_state: ExecutionState
    """Before."""
    to_state: ExecutionState
    """After."""


@dataclass(slots=True)
class TaskCancellationRequested(AttemptEvent):
    """The TaskExecutor is told to end the attempt: CANCELING."""

    reason: str
    """Why."""
    exceeds_time_limit: bool = False
    """Whether it has run for the time limit of its vertex: it fails when it has ended, and is not cancelled."""


@dataclass(slots=True)
class TaskFinished(AttemptEvent):
    """The attempt finished, and its outputs are now the subtask's result: the log is the output commit."""

    outputs: tuple[OutputLocation, ...] = ()
    """Where they are."""
    io: IOMetrics | None = None
    """What it read and wrote; null: not known."""
    accumulators: Accumulators | None = None
    """What its code has counted; null: nothing."""


@dataclass(slots=True)
class TaskFailed(AttemptEvent):
    """The attempt failed."""

    cause: FailureCause
    """Why."""


@dataclass(slots=True)
class RestartScheduled(LogEvent):
    """The failed subtask will start again."""

    job_id: str
    """The job."""
    vertex_id: str
    """The vertex."""
    subtask_index: int
    """The subtask."""
    restart_at_ms: int
    """When, in milliseconds of the log's clock."""
    restarts: int
    """How many restarts of this job that makes."""
    backoff_ms: int = 0
    """Exponential delay: the wait, without jitter, from which the next one grows."""
    failed_attempt: int = 0
    """Which attempt failed; 0 where it was not said."""
    delay_ms: int = 0
    """For how long: from the failure on, in milliseconds."""
    failover_strategy: FailoverStrategy = FailoverStrategy.REGION
    """Which other subtasks start again as well: none but those that the lost outputs need, or all that have begun."""
    task_count: int = 1
    """How many subtasks start again."""
    lost_outputs: tuple[SubtaskReference, ...] = ()
    """Finished subtasks whose output is lost: they start again, and so does what has read them."""
    is_counted: bool = True
    """Whether the restart strategy counts it: neither what the code of a job has no part in, nor a retry of the vertex."""
    retry_rule: int = 0
    """The number of the rule of the vertex's retries that says so, from 1 on; 0: none does."""


@dataclass(slots=True)
class GlobalFailureOccurred(LogEvent):
    """A job failed as a whole, and not by one of its attempts."""

    job_id: str
    """The job."""
    cause: FailureCause
    """Why."""


@dataclass(slots=True)
class JobTimeLimitNear(LogEvent):
    """A job has used up most of its time, and has not ended."""

    job_id: str
    """The job."""
    fails_at_ms: int
    """When it fails that has not ended, by the log's clock, unless it is suspended before."""


@dataclass(slots=True)
class JobClosingStarted(LogEvent):
    """All vertices of a job have come to their end that run in their turn: now those run that close the job, before it ends."""

    job_id: str
    """The job."""
    outcome: GraphOutcome
    """How the others came out, and how the job ends: its closing vertices that run after such an end do so, the others are cancelled."""


@dataclass(slots=True)
class VertexSkipped(LogEvent):
    """A vertex of a job does not run, for its condition does not hold, or what it waits for was skipped.

    It is complete, and has left nothing. When what that was decided by is lost and made again, it is decided again.
    """

    job_id: str
    """The job."""
    vertex_id: str
    """The vertex."""
    skip: VertexSkip
    """Why."""


@dataclass(slots=True)
class JobClosingAborted(LogEvent):
    """What still runs of the closing vertices of a job is cancelled, and the job ends."""

    job_id: str
    """The job."""
    reason: str
    """Why."""


@dataclass(slots=True)
class JobRestartScheduled(LogEvent):
    """After a failure of the job as a whole its streams will start again from their last committed batches.

    Under the failover strategy FULL all of it will.
    """

    job_id: str
    """The job."""
    restart_at_ms: int
    """Not before this time of the log's clock."""
    restarts: int
    """How many restarts the job has had, with this one."""
    backoff_ms: int
    """Exponential delay: the wait before jitter, from which the next follows."""
    delay_ms: int
    """How long the wait is."""
    failover_strategy: FailoverStrategy
    """What starts again."""
    task_count: int
    """How many subtasks start again."""


@dataclass(slots=True)
class RegionRestarted(AttemptEvent):
    """The subtask has a new attempt: CREATED."""


@dataclass(slots=True)
class JobMasterStopped(LogEvent):
    """All attempts of a suspended job have ended, and it has no JobMaster any more; requests under its token are refused."""

    job_id: str
    """The job."""
    job_master_id: str
    """The fencing token that it had."""
    reason: str
    """Why: that of the suspension."""


@dataclass(slots=True)
class ResourcesAwaited(LogEvent):
    """A vertex could start, and waits: there are fewer slots than it wants."""

    job_id: str
    """The job."""
    vertex_id: str
    """The vertex."""
    wanted: int
    """How many slots it wants: for all its subtasks, or for those of them that have none."""
    available: int
    """How many there are for it now."""


@dataclass(slots=True)
class JobRescaleRequested(LogEvent):
    """Somebody asks for another parallelism of a vertex."""

    job_id: str
    """The job."""
    vertex_id: str
    """The vertex."""
    parallelism: int
    """How many subtasks the vertex, and those that forward edges bind to it, are to have."""
    actor: str
    """Who asked."""


@dataclass(slots=True)
class RescaleScheduled(LogEvent):
    """A vertex that has begun gets another parallelism as soon as all its attempts have ended; what they left does not count."""

    job_id: str
    """The job."""
    vertex_id: str
    """The vertex."""
    from_parallelism: int
    """How many subtasks it has."""
    to_parallelism: int
    """How many it will have."""
    reason: RescaleReason
    """Why."""


@dataclass(slots=True)
class JobRescaled(LogEvent):
    """A vertex, of which no attempt lives, has another parallelism, and with it those that forward edges bind to it."""

    job_id: str
    """The job."""
    vertex_id: str
    """The vertex."""
    from_parallelism: int
    """How many subtasks it had."""
    to_parallelism: int
    """How many it has."""
    reason: RescaleReason
    """Why."""
    attempt: int
    """The number of the attempts that follow, of each of its subtasks: none of them was given before."""


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
