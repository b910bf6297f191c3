"""The life of a TaskExecutor: it registers, sends heartbeats, obeys the leader of the newest epoch, fences itself, and ends in order.

Here is when an instance begins and ends (P12, P14) and which effects count (P4); what it runs is in `attempts.py`. Times are
milliseconds of one monotonic clock, passed in. An instance is replaced only when all its tasks have ended: nothing of an earlier instance
runs when the next one registers.
"""

import zlib
from collections.abc import Iterable
from enum import Enum, auto
from typing import TYPE_CHECKING

from eventflink.events.effects import (
    CheckpointOrder,
    DeploymentEnvelope,
    DeploymentPayload,
    FileUploadOrder,
    FinishStream,
    InputLocations,
    InstanceForgotten,
    LeaderChanged,
    RegistrationAccepted,
    ResumeStream,
    StopTaskManager,
    TaskCancellation,
    TaskDeployment,
    TaskManagerFileUploadOrder,
)
from eventflink.events.inputs import (
    Disconnection,
    FileUploadCompleted,
    Heartbeat,
    TaskManagerRegistration,
    TaskManagerReport,
)
from eventflink.taskexecutor.process_events import ForkServerDied, ForkServerReady, ProcessEvent
from eventflink.taskexecutor.protocol.actions import (
    Action,
    EndForkServer,
    NewInstanceNeeded,
    Outbox,
    ProtocolSettings,
    SendHeartbeat,
    StartForkServer,
    Stopped,
    UploadFile,
)
from eventflink.taskexecutor.protocol.attempts import AttemptTable, KnownAttempt
from eventflink.taskexecutor.protocol.counters import Counters
from eventflink.taskexecutor.protocol.input_locations import KnownLocations
from eventflink.taskexecutor.protocol.resends import Resends

if TYPE_CHECKING:
    from eventflink.model.spark_ends import SparkEnd

_EPOCH_OF_NO_LEADER = -1
_FORK_SERVER_DELAY_MS = 100

MAX_DISK_FAULT = 512


class Phase(Enum):
    """Where the TaskExecutor's instance stands."""

    NEW = auto()
    REGISTERING = auto()
    REGISTERED = auto()
    FENCING = auto()
    STOPPING = auto()
    STOPPED = auto()


class TaskExecutorProtocol:
    """Takes inputs and returns the actions that follow; see the module."""

    def __init__(self, settings: ProtocolSettings) -> None:
        """Do nothing yet: `start` begins."""
        self._settings = settings
        self._outbox = Outbox()
        self.counters = Counters()
        self._partition = 0
        """Which partition of `deployments` is read."""
        self._table = AttemptTable(settings, "", self._partition, self._outbox, self.counters)
        self.phase = Phase.NEW
        self.instance_id = ""
        self.newest_epoch = _EPOCH_OF_NO_LEADER
        self._epoch_named_at = 0
        """How many registrations this instance had sent when that epoch was named: the answer to a later one knows better."""
        self._reported_epoch = _EPOCH_OF_NO_LEADER
        self._blob_address = ""
        self.metrics_address = ""
        """Where this process serves its metrics; it goes into each registration."""
        self._end_reason = ""
        self._failed = False
        self._stop_deadline_ms = 0
        self._begun_at_ms = 0
        self._registrations: dict[int, int] = {}
        """When each was sent, by its number; of those that are not too old to be answered."""
        self._registration_count = 0
        self._refusals = 0
        self._next_registration_ms = 0
        self._acknowledged_ms: int | None = None
        self._next_heartbeat_ms: int | None = None  # Only a registered instance sends them: the master ignores those of others.
        self._heartbeat_sequence = 0
        self._uploads: set[str] = set()
        self._resends = Resends()
        self._locations = KnownLocations()
        self._resend_at_ms = 0
        self._fork_server_up = False
        self._fork_server_ready = False
        self._fork_server_start_ms: int | None = 0
        self._fork_server_deaths: list[int] = []

    def on_positioned(self, partition: int, _now_ms: int) -> list[Action]:
        """From here on no effect in this partition is missed: only now the first instance may begin and register (P12)."""
        self._partition = partition
        is_first = self.phase is Phase.NEW and not self.instance_id
        return [NewInstanceNeeded("the TaskExecutor has started")] if is_first else []

    def start(self, now_ms: int, instance_id: str, wall_clock_ms: int) -> list[Action]:
        """Begin an instance: whenever `NewInstanceNeeded` was given.

        `wall_clock_ms` is the host's clock: it orders the instances of this TaskManager over its processes.

        Raises:
            ValueError: the instance before has not ended.

        """
        if self.phase is not Phase.NEW:
            raise ValueError(f"{self._settings.task_manager_id} cannot start {instance_id}: {self.instance_id} is {self.phase.name}")
        first = not self.instance_id
        self.phase = Phase.REGISTERING
        self.instance_id = instance_id
        self._begun_at_ms = max(wall_clock_ms, self._begun_at_ms + 1)  # A clock that was set back does not make it the older one.
        table = AttemptTable(self._settings, instance_id, self._partition, self._outbox, self.counters)
        before, self._table = self._table, table
        table.disk_fault = before.disk_fault
        # An end that was told is the instance's before: told again, it would count twice.
        table.spark_end = None if before.spark_end == before.reported_spark_end else before.spark_end
        self.counters.instances += 1
        self._registrations = {}
        self._registration_count = self._epoch_named_at = 0
        self._acknowledged_ms = None
        self._next_heartbeat_ms = None
        self._uploads.clear()
        self._resends.clear()
        # After a failure many instances begin at once; their registrations are spread (P13), and refused ones do not hurry.
        self._next_registration_ms = now_ms if first else now_ms + self._delay_registration(self._refusals) // 2
        return self.on_tick(now_ms)

    def on_deployment(self, envelope: DeploymentEnvelope, now_ms: int) -> list[Action]:
        """Obey one record of `deployments`, unless it is for another instance or its epoch is over (P4); a change of leader is for all."""
        payload = envelope.payload
        if isinstance(payload, LeaderChanged):
            if self.phase in (Phase.REGISTERING, Phase.REGISTERED) and self._believes(envelope.epoch, 0, now_ms):
                self._on_leader_changed(payload, envelope.epoch, now_ms)
        elif envelope.task_manager_id != self._settings.task_manager_id:
            return []
        elif isinstance(payload, StopTaskManager):
            # Whichever instance is named: the successor of one that was cut off meanwhile is to end with its process as well.
            # Whichever leader was accepted that said it of this one: it is final, as that an instance is gone.
            if envelope.instance_id == self.instance_id or self._believes(envelope.epoch, 0, now_ms):
                self._begin_stop(now_ms, payload.reason, failed=False)
        elif envelope.instance_id == self.instance_id and self.phase in (Phase.REGISTERING, Phase.REGISTERED):
            if isinstance(payload, InstanceForgotten):
                # Whichever leader was accepted that said so: an instance that is gone stays gone (P12).
                self._refusals += self.phase is Phase.REGISTERING
                self._fence(f"the master has forgotten this instance: {payload.reason}", now_ms)
            elif isinstance(payload, RegistrationAccepted):
                self._on_registration_accepted(payload, envelope.epoch, now_ms)
            elif self._believes(envelope.epoch, 0, now_ms):
                self._on_current_effect(payload, envelope.epoch, now_ms)
        return self._settle(now_ms)

    def on_effects_lost(self, reason: str, partition: int, now_ms: int) -> list[Action]:
        """Effects for this instance may have been missed (a hole in `deployments`): only a new instance knows what it is to do.

        It is the next instance that is told what comes in this partition.
        """
        self._partition = partition
        self._fence(reason, now_ms)
        return self._settle(now_ms)

    def on_process_event(self, event: ProcessEvent, now_ms: int) -> list[Action]:
        """Take what the fork server tells."""
        if isinstance(event, ForkServerDied):
            self._on_fork_server_died(event.reason, now_ms)
        elif isinstance(event, ForkServerReady):
            self._fork_server_ready = self._fork_server_up  # Of one that is to end it comes too late.
        else:
            self._table.handle(event, now_ms)
        return self._settle(now_ms)

    def on_disk(self, fault: str, now_ms: int) -> list[Action]:
        """Why nothing can be written where tasks would; empty: it can. What runs goes on, and nothing more is taken until then (L7)."""
        self._table.disk_fault = fault[:MAX_DISK_FAULT]
        return self._settle(now_ms)

    def on_spark_ended(self, end: "SparkEnd", now_ms: int) -> list[Action]:
        """Tell the master that the host's Spark ended, and nobody had told it to."""
        self._table.spark_end = end
        self.counters.spark_ends += 1
        return self._settle(now_ms)

    @property
    def next_due_ms(self) -> int | None:
        """When `on_tick` has something to do next, unless something happens before; None: not by the passing of time."""
        if self.phase is Phase.STOPPED:
            return None
        if self.phase is Phase.NEW:
            return self._fork_server_start_ms
        times = [self._fork_server_start_ms, self._next_heartbeat_ms, self._table.next_due_ms]
        if self.phase is Phase.REGISTERING:
            times.append(self._next_registration_ms)
        if self.phase is Phase.REGISTERED and self._acknowledged_ms is not None:
            times.append(self._acknowledged_ms + self._settings.self_fence_timeout_ms)
        if self.phase is Phase.STOPPING:
            times.append(self._stop_deadline_ms)
        if self._resends:
            times.append(self._resend_at_ms)
        return min((time_ms for time_ms in times if time_ms is not None), default=None)

    def on_tick(self, now_ms: int) -> list[Action]:
        """Do what is due, by `next_due_ms` at the latest."""
        if self.phase is Phase.STOPPED:
            return self._outbox.drain(now_ms)
        if self._fork_server_start_ms is not None and now_ms >= self._fork_server_start_ms:
            self._start_fork_server()  # The first of all: it loads what tasks need while the first instance registers.
        if self.phase is Phase.NEW:
            return self._outbox.drain(now_ms)
        if (
            self.phase is Phase.REGISTERED
            and self._acknowledged_ms is not None
            and now_ms - self._acknowledged_ms >= self._settings.self_fence_timeout_ms
        ):
            self._fence(f"no heartbeat was acknowledged for {now_ms - self._acknowledged_ms} ms", now_ms)
        if self.phase is Phase.REGISTERING and now_ms >= self._next_registration_ms:
            self._send_registration(now_ms)
        if self._next_heartbeat_ms is not None and now_ms >= self._next_heartbeat_ms:
            self._send_heartbeat(now_ms)
        if (reason := self._table.tick(now_ms)) and self._fork_server_up:
            self._fork_server_up = self._fork_server_ready = False  # It ends, which takes a while: what is deployed meanwhile is refused.
            self._outbox.add_process_action(EndForkServer(reason))
        if now_ms >= self._resend_at_ms:
            self._resends.resend(self._table, self._outbox, is_ready=self._fork_server_ready)
        return self._settle(now_ms)

    def on_heartbeat_acknowledged(self, sent_at_ms: int, now_ms: int) -> list[Action]:
        """Kafka has the heartbeat that was sent at `sent_at_ms`."""
        if self._acknowledged_ms is not None:  # A heartbeat of an earlier instance was sent before this one's registration.
            self._acknowledged_ms = max(self._acknowledged_ms, sent_at_ms)
        self.counters.heartbeats_acknowledged += 1
        return self._settle(now_ms)

    def on_reports_delivered(self, reports: Iterable[TaskManagerReport], now_ms: int) -> list[Action]:
        """Kafka has these reports."""
        self._table.delivered([r for r in reports if r.instance_id == self.instance_id])
        return self._settle(now_ms)

    def on_reports_failed(self, reports: Iterable[TaskManagerReport], now_ms: int) -> list[Action]:
        """Kafka did not take these reports: report a little later how things stand then."""
        self._resends.add_reports((r for r in reports if r.instance_id == self.instance_id), self._table)
        self._resend_at_ms = now_ms + self._settings.resend_delay_ms
        return self._settle(now_ms)

    @property
    def blob_address(self) -> str:
        """Where the blob server of the newest known leader is; empty before there was one."""
        return self._blob_address

    def on_upload_completed(self, instance_id: str, request_id: str, blob_key: str | None, error: str | None, now_ms: int) -> list[Action]:
        """Report how an `UploadFile` ended: with the blob's key, or with what went wrong."""
        if instance_id == self.instance_id and request_id in self._uploads:
            self._uploads.discard(request_id)
            self._report_upload(request_id, blob_key, error)
        return self._settle(now_ms)

    @property
    def acknowledged_ms(self) -> int | None:
        """When the newest heartbeat or registration of this instance that Kafka has was sent; None: it has none yet."""
        return self._acknowledged_ms

    @property
    def has_fork_server(self) -> bool:
        """Whether a fork server was started, has not died and is not to end."""
        return self._fork_server_up

    @property
    def free_slots(self) -> int:
        """How many slots are free."""
        return self._table.free_slots

    @property
    def upload_count(self) -> int:
        """How many uploads are under way."""
        return len(self._uploads)

    def live_attempts(self) -> list[KnownAttempt]:
        """Return the attempts that are not terminal, the oldest first."""
        return self._table.live_attempts()

    def stop(self, now_ms: int, reason: str) -> list[Action]:
        """End all tasks, report the disconnection, and give `Stopped`; bounded in time."""
        self._begin_stop(now_ms, reason, failed=False)
        return self._settle(now_ms)

    def _believes(self, epoch: int, answered_number: int, now_ms: int) -> bool:
        """Tell whether what names this epoch is obeyed, and take note of it; `answered_number`: of the registration that it answers, or 0.

        Who answers a registration that was sent after an epoch was named was accepted after it: if that is an older epoch, the one that was
        named was never granted. So what contradicts the newest epoch, or is far ahead of it, is asked about.
        """
        is_answer = answered_number > self._epoch_named_at
        if epoch < self.newest_epoch and not is_answer:
            self._ask_who_leads(now_ms)
            return False
        if epoch != self.newest_epoch:
            is_jump = epoch > self.newest_epoch + 1 and not is_answer
            self.newest_epoch, self._epoch_named_at = epoch, self._registration_count
            if is_jump:
                self._ask_who_leads(now_ms)
        return True

    def _ask_who_leads(self, now_ms: int) -> None:
        """Register once more, which changes nothing: the answer tells. An instance that is not registered does so anyway."""
        if self.phase is Phase.REGISTERED and now_ms >= self._next_registration_ms:
            self._send_registration(now_ms)

    def _on_registration_accepted(self, answer: RegistrationAccepted, epoch: int, now_ms: int) -> None:
        """Count from when the registration was sent that is answered: the master has heard of this instance since then (P13, P14).

        The answer to one that was sent too long ago says nothing: by now the master may have declared the instance lost. The next
        registration is answered, too.
        """
        sent_ms = self._registrations.get(answer.registration_number)
        if sent_ms is None or now_ms - sent_ms >= self._settings.self_fence_timeout_ms:
            return
        if not self._believes(epoch, answer.registration_number, now_ms):
            return
        self._blob_address = answer.blob_address
        if self.phase is Phase.REGISTERING:
            self.phase = Phase.REGISTERED
            self._refusals = 0
            self._acknowledged_ms = sent_ms  # From now on its heartbeats count.
            self._next_heartbeat_ms = now_ms
            self._reported_epoch = epoch
        self._report_to(epoch)

    def _on_current_effect(self, payload: DeploymentPayload, epoch: int, now_ms: int) -> None:
        if self.phase is Phase.REGISTERING:
            # Any effect tells that the master has it, and none but the answer since when; another leader answers what it is told anew.
            if epoch != self._reported_epoch:
                self._reported_epoch, self._next_registration_ms = epoch, now_ms
            return
        match payload:
            case InputLocations():
                self._locations.take(payload)
            case TaskDeployment() | TaskCancellation() | CheckpointOrder() | ResumeStream() | FinishStream():
                self._obey(payload, now_ms)
            case FileUploadOrder() | TaskManagerFileUploadOrder():
                self._upload(payload)
            case _:
                pass
        self._report_to(epoch)

    def _report_to(self, epoch: int) -> None:
        """Report everything to a leader that has not been told, or asks."""
        if epoch != self._reported_epoch:
            self._table.report_slots(is_ready=self._fork_server_ready)
        self._reported_epoch = epoch

    def _on_leader_changed(self, change: LeaderChanged, epoch: int, now_ms: int) -> None:
        """Report to a new leader, which speaks to all: that answers no registration, so one that was not answered is repeated soon."""
        if self.phase is Phase.REGISTERED:
            self._blob_address = change.blob_address
            self._reported_epoch = _EPOCH_OF_NO_LEADER
            self._report_to(epoch)
        elif self.phase is Phase.REGISTERING:
            self._next_registration_ms = min(self._next_registration_ms, now_ms + self._delay_registration(0))

    def _obey(self, order: TaskDeployment | TaskCancellation | CheckpointOrder | ResumeStream | FinishStream, now_ms: int) -> None:
        match order:
            case TaskDeployment():
                if (complete := self._locations.complete(order)) is None:
                    self.counters.deployments_incomplete += 1
                else:
                    refusal = self._table.disk_fault if self._fork_server_up else "the fork server is being started again"
                    self._table.deploy(complete, self._blob_address, refusal, now_ms)
            case TaskCancellation():
                self._table.cancel(order, now_ms)
            case CheckpointOrder():
                self._table.take_checkpoint(order)
            case _:
                self._table.go_on(order)

    def _upload(self, order: FileUploadOrder | TaskManagerFileUploadOrder) -> None:
        if order.request_id in self._uploads:
            return
        if len(self._uploads) >= self._settings.upload_limit:
            self._report_upload(order.request_id, None, f"{self._settings.upload_limit} uploads are under way: ask again later")
            return
        self._uploads.add(order.request_id)
        self._outbox.add_action(UploadFile(self.instance_id, order, self._blob_address))

    def _report_upload(self, request_id: str, blob_key: str | None, error: str | None) -> None:
        self._outbox.add_reports([FileUploadCompleted(self._settings.task_manager_id, self.instance_id, request_id, blob_key, error)])

    def _fence(self, reason: str, now_ms: int) -> None:
        if self.phase not in (Phase.REGISTERING, Phase.REGISTERED):
            return
        self.phase, self._end_reason = Phase.FENCING, reason
        self.counters.fences += 1
        self._next_heartbeat_ms = None
        self._table.end_all(now_ms, silent=True)

    def _begin_stop(self, now_ms: int, reason: str, *, failed: bool) -> None:
        if self.phase in (Phase.STOPPING, Phase.STOPPED):
            return
        settings = self._settings
        fencing = self.phase is Phase.FENCING
        self.phase, self._end_reason, self._failed = Phase.STOPPING, reason, failed
        self._stop_deadline_ms = now_ms + settings.kill_timeout_ms + settings.end_timeout_ms + settings.spark_release_timeout_ms
        self._table.end_all(now_ms, silent=fencing)

    def _settle(self, now_ms: int) -> list[Action]:
        """Report a change of readiness; end the instance once it is to end and nothing of it is left. Return what is to be done."""
        table = self._table
        reported = (table.reported_ready, table.reported_disk_fault, table.reported_spark_end)
        if self.phase is Phase.REGISTERED and reported != (self._fork_server_ready, table.disk_fault, table.spark_end):
            self._table.report_slots(is_ready=self._fork_server_ready)
        if self.phase is Phase.FENCING and self._table.is_empty:
            self.phase = Phase.NEW
            self._outbox.add_action(NewInstanceNeeded(self._end_reason))
        elif self.phase is Phase.STOPPING and (self._table.is_empty or now_ms >= self._stop_deadline_ms):
            self.phase = Phase.STOPPED
            if self._registration_count:
                self._outbox.add_reports([Disconnection(self._settings.task_manager_id, self.instance_id, self._end_reason)])
            self._outbox.add_action(Stopped(self._end_reason, self._failed))
        return self._outbox.drain(now_ms)

    def _send_registration(self, now_ms: int) -> None:
        settings = self._settings
        place = (settings.host, settings.process_id, settings.slot_count)
        registration = TaskManagerRegistration(
            settings.task_manager_id,
            self.instance_id,
            *place,
            begun_at_ms=self._begun_at_ms,
            slot_profile=settings.slot_profile,
            metrics_address=self.metrics_address,
            hardware=settings.hardware,
            number=self._registration_count + 1,
            spark_addresses=settings.spark_addresses,
            deployment_partition=self._partition,
        )
        self._outbox.add_reports([registration])
        self._registration_count += 1
        oldest_ms = now_ms - settings.self_fence_timeout_ms
        self._registrations = {n: sent_ms for n, sent_ms in self._registrations.items() if sent_ms > oldest_ms}
        self._registrations[self._registration_count] = now_ms
        self._next_registration_ms = now_ms + self._delay_registration(self._registration_count - 1)

    def _delay_registration(self, failures: int) -> int:
        """Return a delay that doubles up to a limit; jittered by half, otherwise for each instance and try, equally in each simulation."""
        delay_ms = min(self._settings.registration_retry_ms << min(failures, 16), self._settings.registration_retry_limit_ms)
        return delay_ms // 2 + zlib.crc32(f"{self.instance_id}/{self._registration_count}".encode()) % (delay_ms // 2 + 1)

    def _send_heartbeat(self, now_ms: int) -> None:
        self._heartbeat_sequence += 1
        self.counters.heartbeats_sent += 1
        self._next_heartbeat_ms = now_ms + self._settings.heartbeat_interval_ms
        ids = (self._settings.task_manager_id, self.instance_id)
        heartbeat = Heartbeat(*ids, self._heartbeat_sequence, self._table.free_slots, self._table.running_tasks)
        self._outbox.add_action(SendHeartbeat(heartbeat, now_ms))

    def _start_fork_server(self) -> None:
        self._fork_server_start_ms = None
        self._fork_server_up = True
        self.counters.fork_server_starts += 1
        self._outbox.add_process_action(StartForkServer())
        self._table.resend_releases()

    def _on_fork_server_died(self, reason: str, now_ms: int) -> None:
        """All its attempts have failed; start another one, after a growing delay, unless it dies again and again."""
        settings = self._settings
        self._fork_server_up = self._fork_server_ready = False
        self._table.processes_lost(reason, now_ms)
        recent = [t for t in self._fork_server_deaths if now_ms - t < settings.fork_server_restart_window_ms]
        self._fork_server_deaths = [*recent, now_ms]
        deaths = len(self._fork_server_deaths)
        if deaths > settings.fork_server_restart_limit:
            self._fork_server_start_ms = None
            window_ms = settings.fork_server_restart_window_ms
            self._begin_stop(now_ms, f"the fork server died {deaths} times within {window_ms} ms: {reason}", failed=True)
            return
        self._fork_server_start_ms = now_ms + (_FORK_SERVER_DELAY_MS << (deaths - 1))
