"""What the protocol wants done, and the numbers it is run with.

Actions are performed in the order in which they are given; none of them may be dropped. The result of an action, and its failure, comes
back as an input (`on_reports_delivered`, `on_reports_failed`, `on_upload_completed`, `ForkServerDied`). An order to the fork server
(`process_events.ProcessOrder`) is an action as it is.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from eventflink.events.effects import FileUploadOrder, TaskManagerFileUploadOrder
from eventflink.events.inputs import Heartbeat, TaskManagerReport
from eventflink.model.resources import Hardware, ResourceProfile
from eventflink.model.spark_engines import SparkAddress
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
    hardware: Hardware | None = None
    """What the host has; None: it is not said."""
    spark_addresses: tuple[SparkAddress, ...] = ()
    """Where those of its Sparks are that are elsewhere."""
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
    """Append these reports to `taskmanagers`, in one record if it has room for them (`records.encode_reports`)."""

    reports: tuple[TaskManagerReport, ...]
    sent_at_ms: int


@dataclass(slots=True)
class SendHeartbeat:
    """Append this heartbeat to `heartbeats`, and tell when Kafka acknowledged it."""

    heartbeat: Heartbeat
    sent_at_ms: int


@dataclass(slots=True)
class UploadFile:
    """Upload the file to the blob server, and report how that ended to the instance that was asked."""

    instance_id: str
    order: FileUploadOrder | TaskManagerFileUploadOrder
    blob_address: str


@dataclass(slots=True)
class StartForkServer:
    """Start a fork server; the orders that follow are for it. A failure is a `ForkServerDied`."""


@dataclass(slots=True)
class EndForkServer:
    """The fork server does not follow its orders: end it with all its processes, and then report `ForkServerDied` with this reason.

    That takes up to the kill timeout and some seconds, in which the loop continues.
    """

    reason: str


@dataclass(slots=True)
class NewInstanceNeeded:
    """There is no instance, or it is over and its tasks have ended: `MainLoop` starts one with a fresh instance id."""

    reason: str


@dataclass(slots=True)
class InstanceStarted:
    """From now on the TaskExecutor is this instance; what it sends and starts comes behind this."""

    instance_id: str
    replaced_id: str
    """The instance that is over; empty: this is the first one."""
    reason: str


@dataclass(slots=True)
class Stopped:
    """Everything has ended; the process may end once its reports are delivered."""

    reason: str
    failed: bool


DriverAction = SendReports | SendHeartbeat | ProcessOrder | UploadFile | StartForkServer | EndForkServer | InstanceStarted | Stopped
"""What a driver of the main loop performs."""

Action = DriverAction | NewInstanceNeeded

Input = Callable[[int], list[Action]]
"""Something that happened: called with the time in milliseconds, it returns what is to be done."""


@dataclass(slots=True)
class Outbox:
    """Collects what one input leads to: what starts or ends processes first, then one record of reports, then the rest."""

    processes: list[Action] = field(default_factory=list)
    reports: list[TaskManagerReport] = field(default_factory=list)
    others: list[Action] = field(default_factory=list)

    def add_process_action(self, action: ProcessOrder | StartForkServer | EndForkServer) -> None:
        """Add what is for the fork server, in order."""
        self.processes.append(action)

    def add_reports(self, reports: Iterable[TaskManagerReport]) -> None:
        """Add reports, in order."""
        self.reports.extend(reports)

    def add_action(self, action: SendHeartbeat | UploadFile | NewInstanceNeeded | Stopped) -> None:
        """Add what comes behind the reports."""
        self.others.append(action)

    def drain(self, now_ms: int) -> list[Action]:
        """Return the actions and forget them."""
        actions = self.processes
        if self.reports:
            actions.append(SendReports(tuple(self.reports), now_ms))
        actions.extend(self.others)
        self.processes, self.reports, self.others = [], [], []
        return actions
