"""Suspending a job and letting it go on: its attempts end, what has finished stays, and a JobMaster of its own token starts anew.

SUSPENDED is where a job stands from the request on. Its attempts are cancelled as those of a cancelled job, and it keeps its JobMaster
until the last of them is terminal (P15); then the JobMaster stops. A job that is to go on gets a new JobMaster, under a new fencing token,
which gives a new attempt to every subtask that has no result (RECONCILING) and then runs. Flink's SUSPENDED is the same word: stopped, and
still in the store.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from eventflink.events.inputs import ResumeJob, SuspendJob
from eventflink.events.log_events import (
    JobMasterStarted,
    JobMasterStopped,
    JobResumptionRequested,
    JobStatusChanged,
    JobSuspensionRequested,
    LogEvent,
    RequestRejected,
)
from eventflink.master.answers import accepted, rejected
from eventflink.master.canonical import require
from eventflink.model.job_graph import RestartStrategy
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, ExecutionState, IllegalTransition, JobStatus, RestartStrategyType

if TYPE_CHECKING:
    from eventflink.master.execution_graph import ExecutionGraph, Subtask
    from eventflink.master.job_master import JobMaster

MAX_REASON_LENGTH: Final = 1_024

SUSPENDABLE: Final = (JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING, JobStatus.RECONCILING)
"""A job that fails or is cancelled ends instead: it would forget that it was to end."""

_WITHOUT_JOB_MASTER: Final = (JobStatus.INITIALIZING, JobStatus.SUSPENDED, JobStatus.CANCELLING, JobStatus.CANCELED)


@dataclass(slots=True)
class Suspension:
    """What a job knows of its suspensions."""

    reason: str = ""
    """Why it is suspended."""
    resumption_requested: bool = False
    """It is to go on as soon as nothing of it is alive."""
    job_masters: int = 1
    """How many JobMasters it has had, the present one included."""

    def note_request(self, job_id: str, status: JobStatus, reason: str) -> None:
        """Take note that the job is to be suspended; raises `IllegalTransition` where it ends already."""
        if status not in SUSPENDABLE and status is not JobStatus.SUSPENDED:
            raise IllegalTransition(f"{job_id} is {status}, and cannot be suspended")
        self.reason = reason
        self.resumption_requested = False

    def note_resumption(self, job_id: str, status: JobStatus) -> None:
        """Take note that the job is to go on; raises `IllegalTransition` where it is not suspended, or is to go on already."""
        if status is not JobStatus.SUSPENDED or self.resumption_requested:
            raise IllegalTransition(f"{job_id} is {status}; it is to go on: {self.resumption_requested}")
        self.resumption_requested = True

    def check_start(self, job_id: str, job_master_id: str) -> None:
        """Raise `IllegalTransition` unless the suspended job may get a new JobMaster now."""
        if job_master_id or not self.resumption_requested:
            raise IllegalTransition(f"{job_id} has the JobMaster '{job_master_id}'; it is to go on: {self.resumption_requested}")

    def validate(self, job_id: str, status: JobStatus, job_master_id: str) -> None:
        """Check it against the job's status."""
        require(not self.resumption_requested or status is JobStatus.SUSPENDED, f"{job_id} is {status}, and is to go on")
        require(bool(job_master_id) or status in _WITHOUT_JOB_MASTER, f"{job_id} is {status} without a JobMaster")


def to_resume(graph: "ExecutionGraph") -> "list[Subtask]":
    """Return the subtasks that run again, in the order of the graph: those without a result."""
    return [s for s in graph.subtasks() if s.state is not ExecutionState.FINISHED or s.revoked]


# -- decide -------------------------------------------------------------------------------------------------------------


def decide_suspension(
    job: "JobMaster | None", command: SuspendJob, unknown: RequestRejected, *, resumes_with_cluster: bool
) -> list[LogEvent]:
    """Begin to suspend a job; one that is suspended is as it is wanted. `unknown` refuses a job that is not there.

    One that `resumes_with_cluster` is suspended already, but would go on by itself when the cluster begins anew.
    """
    if len(command.reason) > MAX_REASON_LENGTH:
        message = f"the reason has {len(command.reason)} characters; it may have {MAX_REASON_LENGTH}"
        return [rejected(command, "InvalidRequest", message)]
    if job is None:
        return [unknown]
    if refusal := _refuse_ending(job, command):
        return [refusal]
    reason = command.reason or f"suspended by {command.actor or 'a command'}"
    if resumes_with_cluster:
        return [accepted(command), JobSuspensionRequested(job.job_id, command.actor, reason, resumes_with_cluster=False)]
    return [accepted(command), *suspend(job, command.actor, reason, resumes_with_cluster=False)]


def suspend(job: "JobMaster", actor: str, reason: str, *, resumes_with_cluster: bool) -> list[LogEvent]:
    """Return what suspends a job that can be; nothing for one that is, and is not to go on."""
    requested = JobSuspensionRequested(job.job_id, actor, reason, resumes_with_cluster)
    if job.status is JobStatus.SUSPENDED:
        return [requested] if job.suspension.resumption_requested else []
    return [requested, JobStatusChanged(job.job_id, job.status, JobStatus.SUSPENDED, reason)]


def decide_resumption(job: "JobMaster | None", command: ResumeJob, unknown: RequestRejected) -> list[LogEvent]:
    """Let a job go on; one that goes on is as it is wanted."""
    if job is None:
        return [unknown]
    if refusal := _refuse_ending(job, command):
        return [refusal]
    return [accepted(command), *resume(job, command.actor)]


def resume(job: "JobMaster", actor: str) -> list[LogEvent]:
    """Return what lets a job go on; nothing where it does."""
    waits = job.status is JobStatus.SUSPENDED and not job.suspension.resumption_requested
    return [JobResumptionRequested(job.job_id, actor)] if waits else []


def decide_stop(job: "JobMaster") -> list[LogEvent]:
    """Stop the JobMaster of a suspended job of which nothing is alive, and start a new one if it is to go on."""
    events: list[LogEvent] = []
    if job.job_master_id:
        events.append(JobMasterStopped(job.job_id, job.job_master_id, job.suspension.reason))
    if job.suspension.resumption_requested:
        number = job.suspension.job_masters + 1
        strategy = job.restart_strategy or RestartStrategy(RestartStrategyType.NONE)
        token = f"{job.job_id}-{number}"
        started = JobMasterStarted(
            job.job_id, token, strategy, job.failover_strategy, job.exceptions.size, job.scheduler, reactive=job.reactive
        )
        events.append(started)
        if not to_resume(job.execution_graph):
            events.append(JobStatusChanged(job.job_id, JobStatus.RECONCILING, JobStatus.RUNNING))
    return events


def _refuse_ending(job: "JobMaster", command: SuspendJob | ResumeJob) -> RequestRejected | None:
    if job.status in TERMINAL_JOB_STATUSES:
        return rejected(command, "JobTerminated", f"job '{job.job_id}' is {job.status} already")
    if job.status in (JobStatus.FAILING, JobStatus.CANCELLING):
        return rejected(command, "JobEnding", f"job '{job.job_id}' is {job.status}: it ends, and can neither be suspended nor go on")
    return None
