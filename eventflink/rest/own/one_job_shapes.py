"""The shapes of the pages of one job."""

from typing import Any

from pydantic import Field

from eventflink.model.statuses import ExecutionState, FailoverStrategy, JobStatus, SchedulerType, TaskType
from eventflink.rest.own.jobs import JobRow
from eventflink.rest.own.moments import OwnShape
from eventflink.rest.own.page_shapes import BackPressure, Wait
from eventflink.views.failures import FailureKind


class Cause(OwnShape):
    """Why something failed."""

    failure_type: str
    message: str
    stack_trace: str | None = None
    root_type: str = ""
    """The class of the exception that it goes back to; empty: to none but itself."""
    root_message: str = ""


class WorstBackPressure(BackPressure):
    """The back-pressure of the subtask of a vertex that keeps up least."""

    subtask_index: int


class VertexOfJob(OwnShape):
    """A vertex, without its subtasks. Flow is as of the last checkpoint, and null where it is not known."""

    vertex_id: str
    name: str
    type: TaskType
    parallelism: int
    wanted_parallelism: int
    parallelism_note: str | None
    """What it waits for before it has the parallelism that it wants."""
    max_parallelism: int
    slot_sharing_group: str | None
    states: dict[ExecutionState, int]
    tasks_ended: int
    back_pressure: WorstBackPressure | None
    busy: float | None
    """Not measured."""
    watermark: str | None
    """The earliest of its subtasks."""
    lag: int | None
    """Records that were there and not read yet."""
    records_per_second: float | None
    flow_at: str | None
    """When the last of its subtasks was asked."""


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


class JobPage(JobRow):
    """A job, without its subtasks."""

    sentence: str
    """How it stands."""
    status_times: dict[JobStatus, str | None] = Field(default_factory=dict)
    """When it entered each status last."""
    stream: bool
    cause: Cause | None
    waits: list[Wait]
    """The first hundred: trouble first, then the longest."""
    waits_total: int
    vertices: list[VertexOfJob]
    edges: list[dict[str, Any]]
    slot_requests: list[SlotRequests]
    slot_requirements: list[SlotRequirements] = Field(default_factory=list)
    restarts_due: int
    """Subtasks that are to start again."""
    restart_strategy: dict[str, Any] | None
    failover_strategy: FailoverStrategy
    scheduler: SchedulerType
    reactive: bool
    job_master_id: str
    """The fencing token of its JobMaster."""
    graph_digest: str
    suspended_because: str | None
    checkpoints: dict[str, Any]
    """Settings, counts, the latest of each kind and the pending one; their history is a page of its own."""
    exceptions: list[dict[str, Any]]
    """The newest three."""
    exceptions_total: int


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
    outputs: dict[str, str]
    """Where it left what it published."""
    last_failure: LastFailure | None
    wait: str | None
    """Why it waits; null: it does not."""
    waits_since: str | None
    progress: dict[str, Any] | None
    """Of a stream: how its query began, and where it stood when it was last asked."""


class SubtasksPage(OwnShape):
    """A window of the subtasks of a vertex that fit."""

    job_id: str
    vertex_id: str
    total: int
    matching: int
    subtasks: list[SubtaskOfVertex]
