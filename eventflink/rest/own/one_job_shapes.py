"""The shapes of the pages of one job."""

from dataclasses import dataclass, field

from pydantic import Field

from eventflink.documents.checkpoints import CheckpointsSummary, StreamOfSubtask, WorstBackPressure
from eventflink.documents.failures import RootFailure
from eventflink.documents.jobs import JobRow
from eventflink.documents.waits import Wait
from eventflink.model.attempts import FailureCause, IOMetrics, OutputLocation
from eventflink.model.failure_types import FailureKind
from eventflink.model.job_graph import RestartStrategy
from eventflink.model.statuses import (
    ExecutionState,
    FailoverStrategy,
    JobStatus,
    ReuseReason,
    ShipStrategy,
    TaskType,
)
from eventflink.rest.own.moments import OwnShape


class ReuseOfVertex(OwnShape):
    """Whether a vertex is reused from the job that runs again, and why."""

    is_reused: bool
    reason: ReuseReason
    why: str


class VertexOfJob(OwnShape):
    """A vertex, without its subtasks. Flow is as of the last checkpoint, and null where it is not known."""

    vertex_id: str
    name: str
    type: TaskType
    stream: bool
    parallelism: int
    wanted_parallelism: int
    parallelism_note: str | None
    """What it waits for before it has the parallelism that it wants."""
    max_parallelism: int
    slot_sharing_group: str | None
    reuse: ReuseOfVertex | None = None
    """null: nothing is to be reused in this job."""
    states: dict[ExecutionState, int]
    tasks_ended: int
    read_records: int | None
    """By the newest attempts that have finished; null: it is unknown of one of them."""
    write_records: int | None
    began_at: str | None
    """When the first of them was deployed."""
    ended_at: str | None
    """When the last of them ended; null: not all have."""
    back_pressure: WorstBackPressure | None
    busy: float | None
    """Not measured."""
    watermark: str | None
    """The earliest of its subtasks."""
    lag: int | None
    """Records that were there and not read yet."""
    records_per_second: float | None
    rows_written: int | None
    """By the newest attempts, to all outputs; null: it is unknown of one of them."""
    written_at: str | None
    """When the newest batch began that wrote any."""
    flow_at: str | None
    """When the last of its subtasks was asked."""


class EdgeOfJob(OwnShape):
    """An edge."""

    source: str
    target: str
    output: str
    input_name: str
    ship: ShipStrategy
    keys: list[str]
    pipelined: bool
    """Whether its ends run at the same time; otherwise its reader begins when its writer has finished."""


class SlotRequests(OwnShape):
    """Requests of a job for slots that wait, by what they ask for."""

    resources: str | None
    requests: int
    reason: str | None
    why: str


class SlotRequirements(OwnShape):
    """How many slots a job requires, by slot sharing group."""

    slot_sharing_group: str | None
    resources: str | None
    required: int
    held: int
    requested: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage(JobRow):
    """A job, without its subtasks."""

    run_again_by: str | None = None
    """The newest job that runs it again."""
    sentence: str
    """How it stands."""
    status_times: dict[JobStatus, str | None] = field(default_factory=dict)
    """When it entered each status last."""
    stream: bool
    cause: FailureCause | None
    waits: list[Wait]
    """The first hundred: trouble first, then the longest."""
    waits_total: int
    vertices: list[VertexOfJob]
    edges: list[EdgeOfJob]
    slot_requests: list[SlotRequests]
    slot_requirements: list[SlotRequirements] = field(default_factory=list)
    restarts_due: int
    """Subtasks that are to start again."""
    restart_strategy: RestartStrategy | None
    failover_strategy: FailoverStrategy
    reactive: bool
    outputs_kept_until: str | None = None
    """Until when at the least a rerun can take its outputs."""
    job_master_id: str
    """The fencing token of its JobMaster."""
    graph_digest: str
    parameters: dict[str, str | int | float | bool] = field(default_factory=dict)
    """What its parameters are bound to, by name."""
    suspended_because: str | None
    checkpoints: CheckpointsSummary
    """Their history is a page of its own."""
    exceptions: list[RootFailure]
    """The newest three."""
    exceptions_total: int


class AccumulatorOfTask(OwnShape):
    """What a task's code has counted under a name."""

    name: str
    type: str
    """As Flink calls it: LongCounter or DoubleCounter."""
    value: int | float


class AttemptOfSubtask(OwnShape):
    """An attempt, and when it came how far; null: it did not, or that is not known."""

    attempt: int
    state: ExecutionState
    task_manager_id: str | None
    instance_id: str | None
    scheduled_at: str | None = None
    deployed_at: str | None = None
    running_at: str | None = None
    ended_at: str | None = None
    io: IOMetrics | None = None
    """What it read over its edges, and what it published; -1: that is not known. null: it has not finished, or did not say."""
    accumulators: list[AccumulatorOfTask] = Field(default_factory=list)
    """What its code has counted when it finished."""
    reused_from: str | None = None
    """The job whose attempt it stands for: it did not run."""


class LastFailure(OwnShape):
    """The failure of a subtask, without its stack trace."""

    failure_type: str
    message: str
    kind: FailureKind


class SubtaskOfVertex(OwnShape):
    """A subtask with its attempts."""

    subtask_index: int
    attempt: int
    state: ExecutionState
    task_manager_id: str | None
    restart_at: str | None
    attempts: list[AttemptOfSubtask] = Field(default_factory=list)
    """The newest that are remembered, the newest last."""
    outputs: dict[str, OutputLocation]
    """What it published, by name; the first ten."""
    outputs_total: int
    last_failure: LastFailure | None
    wait: str | None
    """Why it waits; null: it does not."""
    waits_since: str | None
    progress: StreamOfSubtask | None
    """Of a stream."""


class SubtasksPage(OwnShape):
    """A window of the subtasks of a vertex that fit."""

    job_id: str
    vertex_id: str
    total: int
    matching: int
    subtasks: list[SubtaskOfVertex]
