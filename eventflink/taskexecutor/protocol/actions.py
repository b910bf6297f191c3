"""What the protocol wants done, and the numbers it is run with.

Actions are carried out in the order in which they are given; none of them may be dropped. An action that fails is told to the machine as
an input (`on_reports_failed`, `on_upload_completed`, `ForkServerDied`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from eventflink.events.effects import FileUploadOrder, TaskManagerFileUploadOrder
from eventflink.events.inputs import Heartbeat, TaskManagerReport
from eventflink.model.features import FEATURE_LEVEL
from eventflink.model.resources import ResourceProfile
from eventflink.taskexecutor.process_events import ProcessOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolSettings:
    """Who the TaskExecutor is, and its times and bounds; all durations in milliseconds."""

    task_manager_id: str
    host: str
    process_id: int
    slot_count: int
    heartbeat_interval_ms: int
    self_fence_timeout_ms: int
    kill_timeout_ms: int
    slot_profile: ResourceProfile | None = None
    """What each slot has; None: it was not said."""
    feature_level: int = FEATURE_LEVEL
    """The newest that it knows."""
    registration_retry_ms: int = 500
    registration_retry_limit_ms: int = 5000
    resend_delay_ms: int = 500
    launch_timeout_ms: int = 60_000
    end_timeout_ms: int = 10_000
    spark_release_timeout_ms: int = 5000
    fork_server_restart_limit: int = 5
    fork_server_restart_window_ms: int = 60_000
    ended_attempt_limit: int = 10_000
    upload_limit: int = 64


@dataclass(slots=True)
class SendReports:
    """Append one record with these reports to `taskmanagers`; neighbours in one batch of actions may share a record."""

    reports: tuple[TaskManagerReport, ...]
    sent_at_ms: int


@dataclass(slots=True)
class SendHeartbeat:
    """Append this beat to `heartbeats`, and tell when Kafka acknowledged it."""

    heartbeat: Heartbeat
    sent_at_ms: int


@dataclass(slots=True)
class SubmitOrder:
    """Give this order to the fork server."""

    order: ProcessOrder


@dataclass(slots=True)
class UploadFile:
    """Upload the file to the blob server, and tell how it ended."""

    order: FileUploadOrder | TaskManagerFileUploadOrder
    blob_address: str


@dataclass(slots=True)
class StartForkServer:
    """Start a fork server; the orders that follow are for it. A failure is a `ForkServerDied`."""


@dataclass(slots=True)
class EndForkServer:
    """The fork server does not do what it is told: end it with all its processes, and tell `ForkServerDied` with this reason."""

    reason: str


@dataclass(slots=True)
class NewInstanceNeeded:
    """The instance is over and its tasks have ended: call `start` with a fresh instance id."""

    reason: str


@dataclass(slots=True)
class Stopped:
    """Everything has ended; the process may end once its reports are delivered."""

    reason: str
    failed: bool


Action = SendReports | SendHeartbeat | SubmitOrder | UploadFile | StartForkServer | EndForkServer | NewInstanceNeeded | Stopped


@dataclass(slots=True)
class Outbox:
    """Collects what one input leads to: what starts or ends processes first, then one record of reports, then the rest."""

    processes: list[Action] = field(default_factory=list)
    reports: list[TaskManagerReport] = field(default_factory=list)
    others: list[Action] = field(default_factory=list)

    def order(self, order: ProcessOrder) -> None:
        """Add an order to the fork server."""
        self.processes.append(SubmitOrder(order))

    def report(self, reports: Iterable[TaskManagerReport]) -> None:
        """Add reports, in order."""
        self.reports.extend(reports)

    def take(self, now_ms: int) -> list[Action]:
        """Return the actions and forget them."""
        actions = self.processes
        if self.reports:
            actions.append(SendReports(tuple(self.reports), now_ms))
        actions.extend(self.others)
        self.processes, self.reports, self.others = [], [], []
        return actions
