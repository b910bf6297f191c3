"""The end of a whole cluster, in order, and that it begins anew when masters are started on its log again.

Asked to end, the cluster takes no new jobs; those that it has are suspended or cancelled. When no attempt is alive any more the status of
the application is recorded, and the TaskManagers are told to stop; when none of them is left the cluster has stopped, and every master
that reads that ends. Each step is a decision that follows from the state, so whoever leads goes on with it. A TaskManager that does not do
its part in time is held for lost. A shutdown is over once: whoever leads the log afterwards begins anew, and what was suspended goes on.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from eventflink.events.inputs import JobSubmission, ResumeJob, ShutDownCluster
from eventflink.events.log_events import (
    ApplicationStatusRecorded,
    ClusterShutdownRequested,
    ClusterStarted,
    ClusterStopped,
    JobSuspensionRequested,
    LogEvent,
    TaskManagerLost,
)
from eventflink.master.answers import accepted, rejected
from eventflink.master.canonical import require
from eventflink.master.suspension import SUSPENDABLE, resume, suspend
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, ApplicationStatus, IllegalTransition, JobStatus

if TYPE_CHECKING:
    from eventflink.master.job_master import JobMaster
    from eventflink.master.master import Master

REASON: Final = "the cluster is shut down"
MAX_DIAGNOSTICS_LENGTH: Final = 8_192
JOB_BATCH: Final = 128
"""How many jobs one decision suspends, cancels or lets go on (P10a)."""

TASK_MANAGER_BATCH: Final = 64


@dataclass(slots=True)
class ShutdownRequest:
    """How the cluster is to end."""

    application_status: ApplicationStatus
    diagnostics: str
    cancel_jobs: bool
    actor: str
    requested_at_ms: int
    recorded_at_ms: int = 0
    """When no attempt was alive any more, and the status was recorded; 0: not yet."""


@dataclass(slots=True)
class ClusterShutdown:
    """How far the cluster's end is."""

    request: ShutdownRequest | None = None
    is_over: bool = False
    """Every master that was there has to end; whoever leads now begins anew."""
    count: int = 0
    """How often the cluster has ended."""
    suspended: dict[str, None] = field(default_factory=dict)
    """Jobs that go on when it begins anew."""

    @property
    def is_under_way(self) -> bool:
        """Whether the cluster is ending, or has ended."""
        return self.request is not None

    @property
    def stops_task_managers(self) -> bool:
        """Whether TaskManagers are told to stop, whatever they say."""
        return self.request is not None and self.request.recorded_at_ms > 0

    @property
    def has_more_to_do(self) -> bool:
        """Whether a step may follow from the state."""
        return not self.is_over if self.request is not None else bool(self.suspended)

    # -- decide ---------------------------------------------------------------------------------------------------

    def decide_shutdown(self, command: ShutDownCluster) -> list[LogEvent]:
        """Begin to end the cluster; asked for the same end again, it is as it is wanted."""
        if len(command.diagnostics) > MAX_DIAGNOSTICS_LENGTH:
            message = f"diagnostics has {len(command.diagnostics)} characters; it may have {MAX_DIAGNOSTICS_LENGTH}"
            return [rejected(command, "InvalidRequest", message)]
        wanted = (command.application_status, command.cancel_jobs)
        if self.request is None:
            return [
                accepted(command),
                ClusterShutdownRequested(command.application_status, command.diagnostics, command.cancel_jobs, command.actor),
            ]
        if wanted == (self.request.application_status, self.request.cancel_jobs):
            return [accepted(command)]
        return [rejected(command, "ClusterShuttingDown", f"the cluster ends as {self._describe()} already")]

    def refuse(self, request: JobSubmission | ResumeJob) -> list[LogEvent] | None:
        """Refuse what would run a job in a cluster that ends; None while it does not."""
        if self.request is None:
            return None
        message = f"the cluster ends as {self._describe()}, and runs no more jobs"
        return [rejected(request, "ClusterShuttingDown", message)]

    def _describe(self) -> str:
        request = self.request
        if request is None:
            return "nothing"
        return f"{request.application_status} (jobs are {'cancelled' if request.cancel_jobs else 'suspended'})"

    def decide_start(self) -> list[LogEvent]:
        """Begin anew where the cluster had ended."""
        if self.request is None or not self.is_over:
            return []
        return [ClusterStarted(self.request.application_status, len(self.suspended))]

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply_cluster_shutdown_requested(self, event: ClusterShutdownRequested, at_ms: int) -> None:
        """Take no new jobs from here on."""
        if self.request is not None:
            raise IllegalTransition(f"the cluster ends as {self._describe()} already")
        if len(event.diagnostics) > MAX_DIAGNOSTICS_LENGTH:
            raise IllegalTransition(f"diagnostics has {len(event.diagnostics)} characters; it may have {MAX_DIAGNOSTICS_LENGTH}")
        self.request = ShutdownRequest(event.application_status, event.diagnostics, event.cancel_jobs, event.actor, at_ms)

    def apply_application_status_recorded(self, event: ApplicationStatusRecorded, at_ms: int) -> None:
        """Have the TaskManagers stopped from here on."""
        request = self.request
        if request is None or request.recorded_at_ms or event.application_status is not request.application_status:
            raise IllegalTransition(f"{event} does not fit the shutdown {request}")
        request.recorded_at_ms = max(at_ms, 1)

    def apply_cluster_stopped(self, event: ClusterStopped, _at: int) -> None:
        """Be over."""
        if not self.stops_task_managers or self.is_over:
            raise IllegalTransition(f"{event} does not fit the shutdown {self.request}; over: {self.is_over}")
        self.is_over = True
        self.count += 1

    def apply_cluster_started(self, event: ClusterStarted, _at: int) -> None:
        """Begin anew."""
        if not self.is_over:
            raise IllegalTransition(f"{event}: the cluster has not stopped")
        self.request, self.is_over = None, False

    def check_suspension(self, event: JobSuspensionRequested) -> None:
        """Raise `IllegalTransition` where a job is suspended for an end that nobody asked for."""
        if event.resumes_with_cluster and self.request is None:
            raise IllegalTransition(f"{event}: the cluster does not end")

    def note_suspension(self, event: JobSuspensionRequested) -> None:
        """Remember whether a suspended job goes on by itself."""
        if event.resumes_with_cluster:
            self.suspended[event.job_id] = None
        else:
            self.suspended.pop(event.job_id, None)

    def validate(self) -> None:
        """Check the steps against each other."""
        require(not self.is_over or self.stops_task_managers, "the cluster has stopped, and its status is not recorded")


def decide_next_step(master: "Master", now_ms: int) -> list[LogEvent]:
    """Return the next step of a shutdown, or of the beginning after one; nothing where something has to happen first."""
    shutdown = master.shutdown
    request = shutdown.request
    if request is None:
        jobs = master.dispatcher.jobs
        return [event for _, job_id in zip(range(JOB_BATCH), shutdown.suspended, strict=False) for event in resume(jobs[job_id], "")]
    if shutdown.is_over:
        return []
    return _decide_stops(master, request, now_ms) if request.recorded_at_ms else _decide_rest(master, request, now_ms)


def _decide_rest(master: "Master", request: ShutdownRequest, now_ms: int) -> list[LogEvent]:
    """Bring all jobs to rest, and then record the status."""
    jobs = list(master.dispatcher.jobs.values())
    if ends := _decide_ends(jobs, request):
        return ends
    if all(map(_is_at_rest, jobs)):
        return [ApplicationStatusRecorded(request.application_status, request.diagnostics)]
    return _decide_lost(master, _task_managers_at_work(master), request.requested_at_ms, now_ms)


def _decide_stops(master: "Master", request: ShutdownRequest, now_ms: int) -> list[LogEvent]:
    """Wait until no TaskManager is left, and then be over."""
    if master.resource_manager.task_managers:
        return _decide_lost(master, list(master.resource_manager.task_managers), request.recorded_at_ms, now_ms)
    is_late = now_ms - request.recorded_at_ms >= master.settings.shutdown_timeout_ms
    # What is not cleaned up or archived in time is when masters are started on this log again.
    is_tidy = not master.dispatcher.dirty and not master.job_store.pending
    return [ClusterStopped(request.application_status)] if is_tidy or is_late else []


def _decide_ends(jobs: "list[JobMaster]", request: ShutdownRequest) -> list[LogEvent]:
    """Suspend or cancel a batch of the jobs that go on."""
    events: list[LogEvent] = []
    count = 0
    for job in jobs:
        if count == JOB_BATCH:
            break
        if request.cancel_jobs:
            found = job.decide_cancellation(request.actor) if job.status in (*SUSPENDABLE, JobStatus.SUSPENDED) else []
        else:
            goes_on = job.status in SUSPENDABLE or job.suspension.resumption_requested
            found = suspend(job, request.actor, REASON, resumes_with_cluster=True) if goes_on else []
        events += found
        count += bool(found)
    return events


def _is_at_rest(job: "JobMaster") -> bool:
    return job.status in TERMINAL_JOB_STATUSES or (job.status is JobStatus.SUSPENDED and not job.job_master_id)


def _task_managers_at_work(master: "Master") -> list[str]:
    return list(dict.fromkeys(a.task_manager_id for a in master.slot_manager.allocations.values() if not a.orphaned))


def _decide_lost(master: "Master", task_manager_ids: list[str], since_ms: int, now_ms: int) -> list[LogEvent]:
    """Hold a batch of TaskManagers for lost that have not done their part of the shutdown in time."""
    timeout_ms = master.settings.shutdown_timeout_ms
    if now_ms - since_ms < timeout_ms:
        return []
    known = master.resource_manager.task_managers
    reason = f"it did not do its part of the cluster's shutdown within {timeout_ms} ms"
    return [TaskManagerLost(name, known[name].instance_id, reason) for name in task_manager_ids[:TASK_MANAGER_BATCH]]
