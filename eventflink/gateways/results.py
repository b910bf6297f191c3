"""What the gateways answer: frozen values, read from a master's JSON and checked on the way.

Times are points in UTC; durations are milliseconds of the log's time. `log_offset` is the last record of the log that an answer reflects.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from eventflink.gateways.errors import GatewayError
from eventflink.model.attempts import AttemptId, OutputLocation
from eventflink.model.document_faults import describe_fault
from eventflink.model.statuses import (
    TERMINAL_JOB_STATUSES,
    BackPressureLevel,
    ExecutionState,
    JobStatus,
    RestartStrategyType,
    ShipStrategy,
    SlotState,
    TaskType,
)

T = TypeVar("T")


class AnswerUnreadable(GatewayError):
    """A master answered with what this version of the gateways does not understand."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why something failed: a type for programs, a message for people, and the stack trace where there is one."""

    failure_type: str
    message: str
    stack_trace: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterOverview:
    """How many there are of everything."""

    task_managers: int
    slots: int
    slots_free: int
    slot_requests: int
    """Attempts that wait for a slot."""
    jobs: Mapping[JobStatus, int]
    jobs_live: int
    leader_id: str
    """The fencing token of the Dispatcher and the ResourceManager."""
    leading_master_id: str
    blob_address: str
    epoch: int
    log_offset: int


@dataclass(frozen=True, slots=True)
class ResourceOverview:
    """What the ResourceManager has."""

    task_managers: int
    slots: int
    slots_free: int
    slot_requests: int
    log_offset: int
    slots_pending: int = 0
    """Asked of the resource driver, and not registered."""


@dataclass(frozen=True, slots=True)
class JobDetails:
    """One job in a list."""

    job_id: str
    name: str
    status: JobStatus
    tasks: int
    tasks_by_state: Mapping[ExecutionState, int]
    restarts: int
    submitted_at: datetime
    ended_at: datetime | None
    status_since: datetime | None
    duration_ms: int
    actor: str


@dataclass(frozen=True, slots=True)
class MultipleJobsDetails:
    """The newest jobs, the newest last, and how many there are in all."""

    jobs: tuple[JobDetails, ...]
    total: int
    log_offset: int


@dataclass(frozen=True, slots=True)
class JobStanding:
    """Where a job stands, under which JobMaster: `job_master_id` is the job's own fencing token."""

    job_id: str
    status: JobStatus
    job_master_id: str


@dataclass(frozen=True, slots=True)
class AccumulatorInfo:
    """What code has counted under a name."""

    name: str
    type: str
    """`LongCounter` or `DoubleCounter`."""
    value: int | float


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a job ended."""

    job_id: str
    status: JobStatus
    net_run_time_ms: int
    cause: Cause | None
    log_offset: int
    accumulators: list[AccumulatorInfo] | None = None
    """What the code of its tasks has counted together; None: it is not known any more."""


@dataclass(frozen=True, slots=True)
class AttemptInfo:
    """One attempt since it was scheduled: where it runs or ran, and when it came how far; None: it did not come so far."""

    attempt: int
    task_manager_id: str | None
    instance_id: str | None
    state: ExecutionState
    """Where it stands, or as what it ended."""
    scheduled_at: datetime | None
    deployed_at: datetime | None
    running_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class SubtaskInfo:
    """One parallel subtask: its current attempt, and what became of the last ones."""

    subtask_index: int
    attempt: int
    state: ExecutionState
    task_manager_id: str | None
    attempts: tuple[AttemptInfo, ...]
    outputs: Mapping[str, OutputLocation]
    """What it left, by name."""
    last_failure: Cause | None


@dataclass(frozen=True, slots=True)
class VertexInfo:
    """One vertex with its subtasks."""

    vertex_id: str
    type: TaskType
    parallelism: int
    max_parallelism: int
    states: Mapping[ExecutionState, int]
    subtasks: tuple[SubtaskInfo, ...]
    slot_sharing_group: str | None = None
    wanted_parallelism: int = 0
    """What it is to have if there are slots; 0: the master does not say."""
    parallelism_note: str | None = None
    """Why it has another parallelism than it wants, or what it waits for."""
    name: str = ""
    """Its id, and those of the streams that are chained to it."""


@dataclass(frozen=True, slots=True)
class EdgeInfo:
    """One edge of the graph."""

    source: str
    target: str
    output: str
    input_name: str
    ship: ShipStrategy
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RestartStrategyInfo:
    """What happens when an attempt fails."""

    strategy_type: RestartStrategyType
    attempts: int
    delay_ms: int
    interval_ms: int = 0
    """Of failure-rate."""
    max_delay_ms: int = 0
    """This and what follows: of exponential-delay."""
    multiplier: float = 0.0
    reset_threshold_ms: int = 0
    jitter_factor: float = 0.0


@dataclass(frozen=True, slots=True)
class SlotRequirement:
    """How many slots the scheduled tasks of a job require, hold and wait for, of one kind."""

    slot_sharing_group: str | None
    """None: those of vertices that share none."""
    resources: str | None
    """What such a slot has to have; None: any will do."""
    required: int
    """Of a group: as many as its widest vertex has scheduled subtasks."""
    held: int
    requested: int
    """Attempts that wait for a slot, or for a place in one that their job holds."""


@dataclass(frozen=True, slots=True)
class ExecutionGraphInfo:
    """A whole job; of one that has ended, its archived form."""

    job_id: str
    name: str
    status: JobStatus
    status_since: datetime | None
    submitted_at: datetime
    ended_at: datetime | None
    duration_ms: int
    restarts: int
    actor: str
    job_master_id: str
    graph_digest: str
    restart_strategy: RestartStrategyInfo | None
    cause: Cause | None
    vertices: tuple[VertexInfo, ...]
    edges: tuple[EdgeInfo, ...]
    log_offset: int
    slot_requirements: tuple[SlotRequirement, ...] = ()
    status_times: Mapping[JobStatus, datetime] = field(default_factory=dict)
    """When it entered each status last; one that it never had is left out."""
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """What its parameters are bound to, by name, as a document has them: a date is a text."""

    @property
    def is_archived(self) -> bool:
        """Tell whether the job has ended, so that nothing of this changes any more."""
        return self.status in TERMINAL_JOB_STATUSES


@dataclass(frozen=True, slots=True)
class CompletedCheckpoint:
    """A checkpoint that is complete."""

    job_id: str
    checkpoint_id: int
    duration_ms: int
    state_rows: int
    """In the state stores of all streams."""
    state_bytes: int
    savepoint_path: str = ""
    """The directory of the savepoint that it is; empty: it is none."""


@dataclass(frozen=True, slots=True)
class SubtaskBackPressure:
    """How far one subtask of a stream does not keep up, as of when it was asked last."""

    subtask_index: int
    level: BackPressureLevel
    ratio: float
    """From 0 to 1; `views/back_pressure.py` says of what."""
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class OperatorBackPressureStats:
    """How far a stream does not keep up: as far as its worst subtask."""

    job_id: str
    vertex_id: str
    level: BackPressureLevel | None
    """None: no subtask has been asked yet."""
    subtasks: tuple[SubtaskBackPressure, ...]
    log_offset: int


@dataclass(frozen=True, slots=True)
class TaskManagerInfo:
    """One registered TaskManager."""

    task_manager_id: str
    instance_id: str
    host: str
    process_id: int
    slots: int
    slots_free: int
    blocked: bool
    """It gets no new tasks (`block_task_manager`)."""
    ready: bool
    """It has loaded what tasks need; one that is not ready gets new tasks last."""
    registered_at: datetime


@dataclass(frozen=True, slots=True)
class SlotInfo:
    """One slot, and the attempt that has it, or has it for longest of those that share it."""

    slot_index: int
    state: SlotState
    allocation_id: str | None
    attempt: AttemptId | None
    attempts: tuple[AttemptId, ...] = ()
    """All that are in it, of one slot sharing group."""


@dataclass(frozen=True, slots=True)
class TaskManagerDetails(TaskManagerInfo):
    """One registered TaskManager with its slots."""

    slot_states: tuple[SlotInfo, ...]
    log_offset: int


@cache
def _adapter(cls: Any) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


def read_as(cls: type[T], answer: Mapping[str, Any]) -> T:
    """Return a part of a master's answer as a value.

    Raises:
        AnswerUnreadable: the answer does not fit the type; the message says where.

    """
    try:
        value: T = _adapter(cast("Any", cls)).validate_python(answer)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise AnswerUnreadable(f"invalid {getattr(cls, '__name__', cls)} in the answer: {place}: {describe_fault(first)}") from error
    return value
