"""One job with its vertices, subtasks and attempts; how it ended, and its archive."""

from dataclasses import dataclass, field
from typing import Any

from eventflink.documents.checkpoints import BackPressureOfSubtask, CheckpointsSummary, JobCheckpoints, StreamOfSubtask
from eventflink.documents.failures import ExplainedFailure, FailureOfJob, JobExceptions
from eventflink.documents.jobs import JobRow
from eventflink.documents.waits import WaitRow
from eventflink.model.attempts import FailureCause, IOMetrics, OutputLocation
from eventflink.model.failure_types import FailureKind
from eventflink.model.job_graph import JobEdge, RestartStrategy, RowCondition
from eventflink.model.statuses import (
    TERMINAL_JOB_STATUSES,
    ExecutionState,
    FailoverStrategy,
    JobStatus,
    ReuseReason,
    ShipStrategy,
    SlotRequestDeferralReason,
    TaskType,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccumulatorInfo:
    """What code has counted under a name."""

    name: str
    type: str
    """As Flink calls it: LongCounter or DoubleCounter."""
    value: int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptInfo:
    """An attempt: where it runs or ran, and when it came how far; null: it did not, or that is not known."""

    attempt: int
    state: ExecutionState
    """Where it stands, or as what it ended."""
    task_manager_id: str | None = None
    instance_id: str | None = None
    scheduled_at: str | None = None
    deployed_at: str | None = None
    running_at: str | None = None
    ended_at: str | None = None
    io: IOMetrics | None = None
    """What it read over its edges, and what it published; -1: that is not known. null: it has not finished, or did not say."""
    accumulators: list[AccumulatorInfo] = field(default_factory=list)
    """What its code has counted when it finished."""
    reused_from: str | None = None
    """The job whose attempt it stands for: it did not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskWithAttempts:
    """A parallel subtask of a vertex: where it stands, and what became of its attempts."""

    subtask_index: int
    attempt: int
    state: ExecutionState
    task_manager_id: str | None
    restart_at: str | None
    attempts: list[AttemptInfo]
    """The newest that are remembered, the newest last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskInfo(SubtaskWithAttempts):
    """A subtask with all that it left."""

    outputs: dict[str, OutputLocation]
    """What it published, by name."""
    last_failure: FailureCause | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastFailure:
    """The failure of a subtask, without its stack trace."""

    failure_type: str
    message: str
    kind: FailureKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskRow(SubtaskWithAttempts):
    """A subtask in a list, with what it waits for."""

    outputs: dict[str, OutputLocation]
    """What it published, by name; the first ten."""
    outputs_total: int
    last_failure: LastFailure | None
    wait: str | None = None
    """Why it waits; null: it does not."""
    waits_since: str | None = None
    progress: StreamOfSubtask | None = None
    """Of a stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtasksPage:
    """A window of the subtasks of a vertex that fit."""

    job_id: str
    vertex_id: str
    total: int
    matching: int
    subtasks: list[SubtaskRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseOfVertex:
    """Whether a vertex is reused from the job that runs again, and why."""

    is_reused: bool
    reason: ReuseReason
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WouldBeReused(ReuseOfVertex):
    """Whether a vertex would be reused from the job that would run again."""

    vertex_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexOfJob:
    """A vertex beside its subtasks."""

    vertex_id: str
    name: str
    """Its id, and those of the streams that are chained to it."""
    type: TaskType
    stream: bool
    parallelism: int
    wanted_parallelism: int
    """What it is to have if there are slots."""
    parallelism_note: str | None
    """Why it has another parallelism than it wants, or what it waits for."""
    max_parallelism: int
    slot_sharing_group: str | None
    reuse: ReuseOfVertex | None
    """null: nothing is to be reused in this job."""
    states: dict[ExecutionState, int]
    time_limit_ms: int | None = None
    """For how long an attempt of its may run; null: for as long as it takes."""
    runs: str | None = None
    """When a closing vertex runs: on-success, on-failure or always; null: the vertex runs in its turn."""
    runs_note: str | None = None
    """Whether a closing vertex runs, and why; null: the vertex runs in its turn."""
    condition: RowCondition | None = None
    """By which output it is decided whether it runs; null: by none."""
    skipped: str | None = None
    """Why it was skipped; null: it was not."""
    engine: str | None = None
    """The name of the Spark that runs its tasks; null: the one that the TaskExecutor's configuration says."""
    writes_to: list[str] = field(default_factory=list)
    """The tables, topics and other sinks that its rows go to; empty: its outputs have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexInfo(VertexOfJob):
    """A vertex with its subtasks."""

    subtasks: list[SubtaskInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexRow(VertexOfJob):
    """A vertex with what it has done. Flow is as of the last checkpoint, and null where it is not known."""

    tasks_ended: int
    read_records: int | None
    """By the newest attempts that have finished; null: it is unknown of one of them."""
    write_records: int | None
    began_at: str | None
    """When the first of them was deployed."""
    ended_at: str | None
    """When the last of them ended; null: not all have."""
    back_pressure: BackPressureOfSubtask | None = None
    """Of the subtask that keeps up least."""
    busy: float | None = None
    """Not measured."""
    watermark: str | None = None
    """The earliest of its subtasks."""
    lag: int | None = None
    """Records that were there and not read yet."""
    records_per_second: float | None = None
    rows_written: int | None = None
    """By the newest attempts, to all outputs; null: it is unknown of one of them."""
    written_at: str | None = None
    """When the newest batch began that wrote any."""
    flow_at: str | None = None
    """When the last of its subtasks was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeOfJob:
    """An edge."""

    source: str
    target: str
    output: str
    input_name: str
    ship: ShipStrategy
    keys: tuple[str, ...]
    pipelined: bool
    """Whether its ends run at the same time; otherwise its reader begins when its writer has finished."""
    row_schema: str
    """The columns that its reader sees also without rows, as Spark's DDL; empty: it was not said which."""
    reads_skipped: bool = False
    """Whether its reader runs also where its writer was skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRequests:
    """Requests of a job for slots that wait, by what they ask for."""

    resources: str | None
    requests: int
    reason: SlotRequestDeferralReason | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequirement:
    """How many slots the scheduled tasks of a job require, hold and wait for, of one kind."""

    slot_sharing_group: str | None
    """null: those of vertices that share none."""
    resources: str | None
    """What such a slot has to have; null: any will do."""
    required: int
    """Of a group: as many as its widest vertex has scheduled subtasks."""
    held: int
    requested: int
    """Attempts that wait for a slot, or for a place in one that their job holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingOfJob:
    """The time of a job in which its closing vertices run, after all others have come to their end."""

    outcome: JobStatus
    """How the others came out, and how the job ends."""
    began_at: str | None
    ends_at: str | None
    """When what still runs of them is cancelled."""
    abort_reason: str | None
    """Why they were cancelled; null: they were not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHead(JobRow):
    """A job beside its vertices, edges and failures."""

    run_again_by: str | None
    """The newest job that runs it again."""
    status_times: dict[JobStatus, str | None]
    """When it entered each status last; one that it never had is left out."""
    cause: FailureCause | None
    slot_requests: list[WaitingRequests]
    slot_requirements: list[SlotRequirement]
    restart_strategy: RestartStrategy | None
    failover_strategy: FailoverStrategy
    reactive: bool
    outputs_kept_until: str | None
    """Until when at the least a rerun can take its outputs."""
    job_master_id: str
    """The fencing token of its JobMaster."""
    graph_digest: str
    definition_digest: str
    """The digest of its graph and code without the values of parameters: all runs of one version have the same."""
    parameters: dict[str, str | int | float | bool]
    """What its parameters are bound to, by name, as a document has them: a date is a text."""
    exceptions_total: int
    description: str = ""
    """What the job is for, by its document."""
    links: dict[str, str] = field(default_factory=dict)
    """Pages about it, by their titles."""
    time_limit_ms: int | None = None
    """How long after its submission it fails that has not ended, without the time in which it is suspended; null: never."""
    fails_at: str | None = None
    """When it fails that has not ended; null: never, or its time stands still, since it is suspended or ends."""
    priority: int = 0
    """Within its queue jobs of a higher priority get slots first."""
    suspended_because: str | None = None
    """The reason that was given for its suspension; null: it is not suspended, or no reason was given."""
    closing: ClosingOfJob | None = None
    """null: its closing vertices have not begun, or it has none."""

    @property
    def is_archived(self) -> bool:
        """Tell whether the job has ended, so that nothing of this changes any more."""
        return self.status in TERMINAL_JOB_STATUSES


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo(JobHead):
    """A whole job; of one that has ended, its archived form."""

    exceptions: list[FailureOfJob]
    """The newest three."""
    edges: list[JobEdge]
    vertices: list[VertexInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionGraphInfo(JobInfo):
    """A whole job, and the last record of the log that it reflects."""

    log_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage(JobHead):
    """A job, without its subtasks."""

    sentence: str = ""
    """How it stands."""
    stream: bool
    waits: list[WaitRow] = field(default_factory=list)
    """The first hundred: trouble first, then the longest."""
    waits_total: int = 0
    vertices: list[VertexRow]
    edges: list[EdgeOfJob]
    restarts_due: int = 0
    """Subtasks that are to start again."""
    checkpoints: CheckpointsSummary
    """Their history is a page of its own."""
    exceptions: list[ExplainedFailure]
    """The newest three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """How a job ended, or that it has not."""

    job_id: str
    status: JobStatus
    is_terminal: bool
    submitted_at: str | None
    ended_at: str | None
    net_run_time_ms: int | None
    cause: FailureCause | None
    accumulators: list[AccumulatorInfo] | None
    """What the code of all tasks that have finished has counted together; null: it is in the archive of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult(JobOutcome):
    """How a job ended, and the last record of the log that this reflects."""

    net_run_time_ms: int
    log_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPage:
    """What was submitted."""

    job_id: str
    graph_digest: str
    actor: str
    submitted_at: str | None
    document: dict[str, Any]
    """The job graph as it was submitted, with what it left to defaults; secrets are ******."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobArchive:
    """A job that has ended, as it is written before it leaves the memory."""

    job_id: str
    graph_digest: str
    submitted_at_ms: int
    ended_at_ms: int
    job: JobInfo
    result: JobOutcome
    exceptions: JobExceptions
    checkpoints: JobCheckpoints
    document: DocumentPage
