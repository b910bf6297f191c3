"""A machine with a TaskExecutor: the real main loop, driven with simulated wires, processes and clocks."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from eventflink.events.codec import ReportsCodec, UndecodableRecord
from eventflink.events.inputs import TaskManagerDeath, TaskManagerRegistration, TaskManagerReport
from eventflink.events.topics import Topic, deployment_partition
from eventflink.model.attempts import AttemptId
from eventflink.model.resources import ResourceProfile
from eventflink.taskexecutor.process_events import EndTask, FinishQuery, LaunchTask, ProcessEvent, ReleaseSpark, ResumeQuery, TakeCheckpoint
from eventflink.taskexecutor.protocol import (
    Action,
    DriverAction,
    EndForkServer,
    Input,
    InstanceStarted,
    MainLoop,
    ProtocolSettings,
    SendHeartbeat,
    SendReports,
    StartForkServer,
    Stopped,
    TaskExecutorProtocol,
    UploadFile,
)
from eventflink.taskexecutor.protocol.records import TaskExecutorCodecs, is_for
from eventflink.testing.simulation.broker import Broker, BrokerRecord, Link
from eventflink.testing.simulation.consumer import SimulatedConsumer
from eventflink.testing.simulation.observers import AttemptObserver
from eventflink.testing.simulation.process import Process
from eventflink.testing.simulation.producer import SimulatedProducer
from eventflink.testing.simulation.scheduler import LocalClock
from eventflink.testing.simulation.settings import SimulationSettings
from eventflink.testing.simulation.spark_server import SparkServer
from eventflink.testing.simulation.streams import SimulatedStreams, StreamStorage
from eventflink.testing.simulation.task_processes import TaskProcesses
from eventflink.testing.simulation.transcript import Transcript
from eventflink.testing.simulation.violations import Invariant, ViolationFound

_TICK_LATENESS_MS: Final = 40
"""By how much a turn may come late that is due: the loop of a process is busy with other things."""

_REPORT_TIMEOUT_MS: Final = 10_000


class TaskExecutorHost:
    """One machine over all the lives of its TaskExecutor."""

    def __init__(
        self,
        name: str,
        broker: Broker,
        clock: LocalClock,
        rng: Random,
        settings: SimulationSettings,
        slot_profile: ResourceProfile | None,
        attempts: AttemptObserver,
        storage: StreamStorage,
        transcript: Transcript,
    ) -> None:
        """Prepare the machine; `start` begins the first life."""
        self.name = name
        self.clock = clock
        self.link = Link()
        self._broker = broker
        self._codecs = TaskExecutorCodecs(broker.seals)
        self._death_reports = ReportsCodec("TaskManagerEnvelope", seal=broker.seals.of(Topic.TASKMANAGERS))
        self._rng = rng
        self._settings = settings
        self._slot_profile = slot_profile
        self._losses = Random(f"losses of {name} in {settings.seed}")  # noqa: S311 - a run has to be repeatable, not secret
        self._observer = attempts
        streams = Random(f"streams of {name} in {settings.seed}")  # noqa: S311 - as above
        self._streams = SimulatedStreams(storage, streams)
        wires = (broker, clock, self.link, storage)
        self.spark = SparkServer(name, *wires, streams, settings.session_timeout_ms, transcript)
        self._transcript = transcript
        self._lives = 0
        self._instances = 0
        self._was_frozen = False
        self._acknowledged_ms: int | None = None
        self.disk_fault = ""
        self._knows_fault = False
        """Whether the TaskExecutor was told that it cannot write."""
        self.partition = 0
        """Which one of `deployments` this life reads."""
        self.is_up = False
        self.on_end: Callable[[], None] = self.start
        """What follows when a life is over and its time to start again has come: another one, unless somebody else is to see to it."""
        self.process = Process(name, broker.scheduler, clock)
        self.others = Process(name, broker.scheduler, clock)
        self.processes = self._new_task_processes()
        self._main_loop = self._new_main_loop()
        self._inbox: deque[Input] = deque()
        self._will_turn = False
        self._turns = 0
        self._reports: SimulatedProducer | None = None
        self._heartbeats: SimulatedProducer | None = None
        self._consumer: SimulatedConsumer | None = None

    @property
    def protocol(self) -> TaskExecutorProtocol:
        """The protocol of this life."""
        return self._main_loop.protocol

    def _new_main_loop(self) -> MainLoop:
        settings = self._settings
        protocol_settings = ProtocolSettings(
            task_manager_id=self.name,
            host=self.name,
            process_id=self._lives,
            slot_count=settings.slots,
            slot_profile=self._slot_profile,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            self_fence_timeout_ms=settings.self_fence_timeout_ms,
            kill_timeout_ms=settings.kill_timeout_ms,
            spark_release_timeout_ms=settings.spark_release_timeout_ms,
        )
        return MainLoop(protocol_settings, self._new_instance_id)

    def _new_task_processes(self) -> TaskProcesses:
        drawn = (self.others, self._rng, self._losses)
        return TaskProcesses(*drawn, self._settings, self._observer, self, self.spark, self._streams, self._tell)

    def _new_instance_id(self) -> str:
        self._instances += 1
        return f"{self.name}.{self._instances}"

    # -- lives -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin a life: stand at the end of `deployments`, then register (P12)."""
        self._lives += 1
        self.is_up = True
        self._was_frozen = self._knows_fault = False
        self._acknowledged_ms = None
        scheduler = self._broker.scheduler
        self.process = Process(self.name, scheduler, self.clock)
        self.others = Process(self.name, scheduler, self.clock)
        self.processes = self._new_task_processes()
        self._main_loop = self._new_main_loop()
        self._inbox.clear()
        self._will_turn = False
        wires = (self._broker, self.process, self.link, self._rng)
        self._reports = SimulatedProducer(*wires, _REPORT_TIMEOUT_MS)
        self._heartbeats = SimulatedProducer(*wires, self._settings.self_fence_timeout_ms, is_idempotent=False)
        self._transcript.note(self.name, f"starts for the {self._lives}. time")
        self._position()

    def _position(self) -> None:
        process = self.process
        if not self.link.can_receive(Topic.DEPLOYMENTS):
            process.after(500, self._position)
            return
        partition = self.partition = deployment_partition(self.name, self._broker.count_partitions(Topic.DEPLOYMENTS))
        end_offset = self._broker.partition(Topic.DEPLOYMENTS, partition).end_offset

        def positioned() -> None:
            self._consumer = SimulatedConsumer(
                self._broker, process, self.link, self._rng, Topic.DEPLOYMENTS, end_offset, self._on_deployment, partition
            )
            self._inbox += [self._tell_disk, partial(self.protocol.on_positioned, partition)]
            self._turn(process)

        process.after(self._rng.random() * 20, positioned)

    def crash(self, restart_ms: float, *, has_guardian: bool = True) -> None:
        """Kill -9 the TaskExecutor: its tasks end with it, and its guardian, if that lives, tells; then it may start again."""
        if not self.is_up:
            return
        instance_id = self.protocol.instance_id
        self._transcript.note(self.name, f"the TaskExecutor is killed as {instance_id or 'nobody yet'}")
        self._close()

        def settled() -> None:
            if instance_id and has_guardian:
                reason = "the TaskExecutor's process ended without deregistering"
                value = self._death_reports.encode([TaskManagerDeath(self.name, instance_id, reason)])
                guardian = SimulatedProducer(self._broker, self.others, self.link, self._rng, _REPORT_TIMEOUT_MS, is_idempotent=False)
                guardian.produce(Topic.TASKMANAGERS, self.name.encode(), value)
            self.others.after(restart_ms, self.on_end)

        self.processes.orphaned(settled, has_guardian=has_guardian)

    def lose_power(self, restart_ms: float) -> None:
        """End everything on the machine at once, without any report."""
        if not self.is_up:
            return
        self._transcript.note(self.name, "the machine loses its power")
        self._close()
        self.processes.vanish()
        self.others.kill()
        self.spark.kill()
        self._broker.scheduler.after(self.clock.delay_us(restart_ms), self.on_end)

    def _close(self) -> None:
        self.is_up = False
        self.process.kill()
        for closable in (self._consumer, self._reports, self._heartbeats):
            if closable is not None:
                closable.close()
        self._consumer = None

    def stop(self, restart_ms: float) -> None:
        """Ask for an orderly end; it starts again later."""
        self._transcript.note(self.name, "is asked to stop")
        self._restart_ms = restart_ms
        self._put_input(lambda now_ms: self.protocol.stop(now_ms, "stopped in order"))

    _restart_ms: float = 1000.0

    def set_disk(self, fault: str) -> None:
        """Let nothing be written on the machine any more, or everything again; what watches the disks tells the TaskExecutor."""
        self._transcript.note(self.name, fault or "can write again")
        self.disk_fault = fault
        if self.is_up:
            self._put_input(self._tell_disk)

    def _tell_disk(self, now_ms: int) -> list[Action]:
        self._knows_fault = bool(self.disk_fault)
        return self.protocol.on_disk(self.disk_fault, now_ms)

    # -- freezing --------------------------------------------------------------------------------------------------

    def freeze(self, *, whole_machine: bool) -> None:
        """Stop the TaskExecutor's process, or everything on the machine."""
        self._transcript.note(self.name, f"freezes: {'the machine' if whole_machine else 'the TaskExecutor'}")
        self.process.pause()
        if whole_machine:
            self.others.pause()
            self.spark.process.pause()

    def thaw(self) -> None:
        """Continue what is frozen."""
        self.spark.process.resume()
        if self.process.is_paused or self.others.is_paused:
            self._was_frozen = self.is_frozen_past_fence()
            self._transcript.note(self.name, f"continues{', past its fence' if self._was_frozen else ''}")
            self.process.resume()
            self.others.resume()

    def is_frozen_past_fence(self) -> bool:
        """Tell whether it could not fence itself because nothing of it ran."""
        if self._was_frozen:
            return True
        if not self.process.is_paused or self._acknowledged_ms is None:
            return False
        return self.clock.monotonic_ms() - self._acknowledged_ms >= self._settings.self_fence_timeout_ms - _TICK_LATENESS_MS

    def is_fenced_without_spark(self, attempt: AttemptId) -> bool:
        """Tell whether it is past its fence, has ended the process of an attempt, and cannot release what that has left on Spark."""
        silent_ms = 0 if self._acknowledged_ms is None else self.clock.monotonic_ms() - self._acknowledged_ms
        return silent_ms >= self._settings.self_fence_timeout_ms and self.processes.is_left_on_spark(attempt)

    # -- the main loop ---------------------------------------------------------------------------------------------

    def _put_input(self, item: Input) -> None:
        self._inbox.append(item)
        if not self._will_turn:
            self._will_turn = True
            process = self.process
            process.after(self._rng.random(), lambda: self._turn(process))

    def _turn(self, process: Process) -> None:
        """Take what happened, and do what follows."""
        if process is not self.process or not self.is_up:
            return
        self._will_turn = False
        inputs = list(self._inbox)
        self._inbox.clear()
        knew_fault = self._knows_fault
        for action in self._main_loop.turn(self.clock.monotonic_ms(), self.clock.wall_ms(), inputs):
            if isinstance(action, LaunchTask) and knew_fault and self._knows_fault:
                raise ViolationFound(Invariant.FULL_TAKES_NOTHING, f"{self.name} launches {action.attempt}: {self.disk_fault}")
            self._perform(action)
        self._turns += 1
        turns = self._turns
        wait_ms = self._main_loop.wait_ms(self.clock.monotonic_ms()) + _TICK_LATENESS_MS * self._rng.random()
        process.after(wait_ms, lambda: self._turn(process) if turns == self._turns else None)

    def _perform(self, action: DriverAction) -> None:
        match action:
            case LaunchTask() | EndTask() | ReleaseSpark() | TakeCheckpoint() | ResumeQuery() | FinishQuery():
                self.processes.take_order(action)
            case SendReports(reports=reports, sent_at_ms=sent_at_ms):
                for record, value in self._codecs.encode_reports(reports):
                    self._send_record(record, value, sent_at_ms)
            case InstanceStarted():
                self._instance_started(action)
            case SendHeartbeat():
                self._send_heartbeat(action)
            case StartForkServer():
                self.processes.start()
            case EndForkServer(reason=reason):
                self.processes.end(reason)
            case Stopped():
                self._stopped(action)
            case UploadFile(instance_id=instance_id, order=order):
                request_id = order.request_id
                is_there = self._rng.random() < 0.7  # noqa: PLR2004 - a share
                key, error = (f"blob-{request_id}", None) if is_there else (None, "no such file")
                self.process.after(
                    self._rng.random() * 300,
                    lambda: self._put_input(lambda now_ms: self.protocol.on_upload_completed(instance_id, request_id, key, error, now_ms)),
                )

    def _instance_started(self, started: InstanceStarted) -> None:
        self._was_frozen = False
        self._acknowledged_ms = None
        if started.replaced_id:
            self._transcript.note(self.name, f"the instance {started.replaced_id} ends: {started.reason}")
        self._transcript.note(self.name, f"begins the instance {started.instance_id}")

    def _send_record(self, reports: Sequence[TaskManagerReport], value: bytes, sent_at_ms: int) -> None:
        if self._reports is None:
            return
        is_registration = any(isinstance(r, TaskManagerRegistration) and r.instance_id == self.protocol.instance_id for r in reports)

        def on_delivery(timestamp_ms: int | None) -> None:
            if timestamp_ms is None:
                self._put_input(lambda now_ms: self.protocol.on_reports_failed(reports, now_ms))
                return
            if is_registration:
                self._heard(sent_at_ms)
            self._put_input(lambda now_ms: self.protocol.on_reports_delivered(reports, now_ms))

        said = ", ".join(f"{type(r).__name__} {getattr(r, 'execution_state', '')}".strip() for r in reports)
        self._transcript.note(self.name, f"reports {said}")
        self._reports.produce(Topic.TASKMANAGERS, self.name.encode(), value, on_delivery=on_delivery)

    def _send_heartbeat(self, action: SendHeartbeat) -> None:
        heartbeat, sent_at_ms = action.heartbeat, action.sent_at_ms

        def on_delivery(timestamp_ms: int | None) -> None:
            if timestamp_ms is not None:
                if heartbeat.instance_id == self.protocol.instance_id:
                    self._heard(sent_at_ms)
                self._put_input(lambda now_ms: self.protocol.on_heartbeat_acknowledged(sent_at_ms, now_ms))

        if self._heartbeats is not None:
            self._heartbeats.produce(
                Topic.HEARTBEATS, self.name.encode(), self._codecs.encode_heartbeat(heartbeat), on_delivery=on_delivery
            )

    def _heard(self, sent_at_ms: int) -> None:
        self._acknowledged_ms = sent_at_ms if self._acknowledged_ms is None else max(self._acknowledged_ms, sent_at_ms)

    def _stopped(self, end: Stopped) -> None:
        """Flush the reports and end the process; its supervisor starts it again."""
        self._transcript.note(self.name, f"has stopped: {end.reason}")
        self.is_up = False
        process = self.process

        def exit_process() -> None:
            self._close()
            self.processes.vanish()
            self._broker.scheduler.after(self.clock.delay_us(self._restart_ms), self.on_end)

        process.after(200, exit_process)

    # -- inputs ----------------------------------------------------------------------------------------------------

    def _on_deployment(self, record: BrokerRecord) -> None:
        if not is_for(record.key, self.name):
            return
        try:
            envelope = self._codecs.decode_deployment(record.value or b"")
        except UndecodableRecord:
            return  # It is no master's.
        self._put_input(lambda now_ms: self.protocol.on_deployment(envelope, now_ms))

    def _tell(self, event: ProcessEvent) -> None:
        self.process.deliver(lambda: self._put_input(lambda now_ms: self.protocol.on_process_event(event, now_ms)))
