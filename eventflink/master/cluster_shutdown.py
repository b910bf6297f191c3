"""How far the end of a whole cluster has come; the cluster starts again when masters are started on its log afterwards.

Asked to end, the cluster takes no new jobs; those that it has are suspended or cancelled. When no attempt is alive any more the status of
the application is recorded, and the TaskManagers are told to stop; when none of them is left the cluster has stopped, and every master
that reads that ends. Each step is decided in `shutdown_steps.py`. A shutdown is over once: the master that leads the log afterwards starts
the cluster again, and what was suspended with it is resumed.
"""

from dataclasses import dataclass, field
from typing import Final

from eventflink.events.inputs import MAX_DIAGNOSTICS_LENGTH, ShutDownCluster
from eventflink.events.log_events import (
    ApplicationStatusRecorded,
    ClusterShutdownRequested,
    ClusterStarted,
    ClusterStopped,
    JobCancellationRequested,
    JobResumptionRequested,
    JobSuspensionRequested,
    LogEvent,
)
from eventflink.master.canonical import require
from eventflink.master.inputs import StartCluster
from eventflink.master.requests import accepted, rejected
from eventflink.model.statuses import ApplicationStatus, IllegalTransition

REASON: Final = "the cluster is shut down"


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
    """The state of a cluster's shutdown."""

    request: ShutdownRequest | None = None
    is_over: bool = False
    """Every master that was there has to end; the one that leads afterwards starts the cluster again."""
    count: int = 0
    """How often the cluster has stopped."""
    suspended: dict[str, None] = field(default_factory=dict)
    """Jobs that are resumed when the cluster starts again: that is due to the cluster, and each job knows only that it is suspended."""

    @property
    def is_under_way(self) -> bool:
        """Whether the cluster is ending, or has ended."""
        return self.request is not None

    @property
    def stops_task_managers(self) -> bool:
        """Whether TaskManagers are told to stop, whatever they say."""
        return self.request is not None and self.request.recorded_at_ms > 0

    # -- decide ---------------------------------------------------------------------------------------------------

    def decide_shut_down_cluster(self, command: ShutDownCluster) -> list[LogEvent]:
        """Begin the shutdown; a second request for the same one is accepted and changes nothing."""
        wanted = (command.application_status, command.cancel_jobs)
        if self.request is None:
            return [
                accepted(command),
                ClusterShutdownRequested(command.application_status, command.diagnostics, command.cancel_jobs, command.actor),
            ]
        if wanted == (self.request.application_status, self.request.cancel_jobs):
            return [accepted(command)]
        return [rejected(command, "ClusterShuttingDown", f"the cluster ends as {self.describe()} already")]

    def describe(self) -> str:
        """Say how the cluster ends."""
        request = self.request
        if request is None:
            return "nothing"
        return f"{request.application_status} (jobs are {'cancelled' if request.cancel_jobs else 'suspended'})"

    def decide_start_cluster(self, _value: StartCluster) -> list[LogEvent]:
        """Start the cluster again where it had ended."""
        if self.request is None or not self.is_over:
            return []
        return [ClusterStarted(self.request.application_status, len(self.suspended))]

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply_cluster_shutdown_requested(self, event: ClusterShutdownRequested, at_ms: int) -> None:
        """Take no new jobs from here on."""
        if self.request is not None:
            raise IllegalTransition(f"the cluster ends as {self.describe()} already")
        if len(event.diagnostics) > MAX_DIAGNOSTICS_LENGTH:
            raise IllegalTransition(f"diagnostics has {len(event.diagnostics)} characters; it may have {MAX_DIAGNOSTICS_LENGTH}")
        self.request = ShutdownRequest(event.application_status, event.diagnostics, event.cancel_jobs, event.actor, at_ms)

    def apply_application_status_recorded(self, event: ApplicationStatusRecorded, at_ms: int) -> None:
        """Have the TaskManagers stopped from here on."""
        request = self.request
        if request is None or request.recorded_at_ms or event.application_status is not request.application_status:
            raise IllegalTransition(f"{event} does not fit the shutdown {request}")
        request.recorded_at_ms = max(at_ms, 1)

    def apply_cluster_stopped(self, event: ClusterStopped) -> None:
        """Take note that the cluster has stopped."""
        if not self.stops_task_managers or self.is_over:
            raise IllegalTransition(f"{event} does not fit the shutdown {self.request}; over: {self.is_over}")
        self.is_over = True
        self.count += 1

    def apply_cluster_started(self, event: ClusterStarted) -> None:
        """Take note that the cluster runs again."""
        if not self.is_over:
            raise IllegalTransition(f"{event}: the cluster has not stopped")
        self.request, self.is_over = None, False

    def check_job_suspension_requested(self, event: JobSuspensionRequested) -> None:
        """Raise `IllegalTransition` where a job is suspended for a shutdown that was not requested."""
        if event.resumes_with_cluster and self.request is None:
            raise IllegalTransition(f"{event}: the cluster does not end")

    def apply_job_suspension_requested(self, event: JobSuspensionRequested) -> None:
        """Remember whether a suspended job is resumed with the cluster."""
        if event.resumes_with_cluster:
            self.suspended[event.job_id] = None
        else:
            self.suspended.pop(event.job_id, None)

    def apply_job_resumption_requested(self, event: JobResumptionRequested | JobCancellationRequested) -> None:
        """Forget a job that is resumed already, or is to be resumed no more."""
        self.suspended.pop(event.job_id, None)

    apply_job_cancellation_requested = apply_job_resumption_requested

    def validate(self) -> None:
        """Check the steps against each other."""
        require(not self.is_over or self.stops_task_managers, "the cluster has stopped, and its status is not recorded")
