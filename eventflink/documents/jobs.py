"""Jobs as rows: the lists of them, and where one stands."""

from dataclasses import dataclass, field

from eventflink.model.statuses import ExecutionState, JobStatus, SchedulerType


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job in a list."""

    job_id: str
    name: str
    status: JobStatus
    scheduler: SchedulerType
    has_streams: bool
    tasks: int
    tasks_finished: int
    tasks_by_state: dict[ExecutionState, int]
    restarts: int
    submitted_at: str
    ended_at: str | None
    status_since: str
    duration_ms: int
    """Up to its end, or to where the log's time stands."""
    actor: str
    """Who submitted it."""
    owner: str = ""
    """Whose the job is, by its document; empty: it does not say."""
    labels: dict[str, str] = field(default_factory=dict)
    """By which people find it."""
    rerun_of: str | None = None
    """The ended job that it runs again."""
    schedule_id: str | None = None
    """The schedule that started it."""
    instant: str | None = None
    """For which instant of the schedule it runs."""
    after_job_id: str | None = None
    """The run whose end is this instant; null: no run made it."""
    queue: str = "default"
    """The queue that it names; where that is not configured it counts in the queue `default`."""
    failure_is_dismissed: bool = False
    """Whether somebody has dismissed the failure of this job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList:
    """The newest jobs that fit, the newest last."""

    jobs: list[JobRow]
    total: int
    """How many fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob(JobRow):
    """A job in the list of all jobs, with why it does not run."""

    run_again_by: str | None = None
    """The newest job that runs it again."""
    why: str | None
    """The sentence of its first wait: trouble first, then the longest; of a job that failed, what it failed of."""
    stream: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """Where a job stands in a list."""

    job_id: str
    index: int | None
    """null: it is not one of those that fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsPage:
    """A window of the jobs that fit."""

    total: int
    """How many jobs are in memory."""
    matching: int
    by_status: dict[JobStatus, int]
    """How many jobs have each status, of those that fit by name and actor."""
    jobs: list[ListedJob]
    anchor: Anchor | None
    """The job that was asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatuses:
    """Id and status of the newest jobs, the newest last."""

    jobs: list[tuple[str, JobStatus]]
    total: int
    """How many there are in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStanding:
    """Where a job stands, under which JobMaster."""

    job_id: str
    status: JobStatus
    status_since: str | None
    job_master_id: str
    """The fencing token of its JobMaster; empty: it is forgotten."""
