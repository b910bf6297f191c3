"""A machine with a TaskExecutor: the real protocol, driven as `taskexecutor/executor.py` drives it, over simulated wires and processes."""

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from eventflink.events.codec import PayloadCodec, ReportsCodec
from eventflink.events.effects import DeploymentEnvelope
from eventflink.events.inputs import TaskManagerDeath, TaskManagerRegistration
from eventflink.events.topics import Topic
from eventflink.model.resources import ResourceProfile
from eventflink.simulation.attempts_check import AttemptsCheck
from eventflink.simulation.broker import Broker, BrokerRecord, Link
from eventflink.simulation.consumer import SimulatedConsumer
from eventflink.simulation.process import Process
from eventflink.simulation.producer import SimulatedProducer
from eventflink.simulation.scheduler import LocalClock
from eventflink.simulation.settings import SimulationSettings
from eventflink.simulation.task_processes import TaskProcesses
from eventflink.simulation.transcript import Transcript
from eventflink.taskexecutor.process_events import ProcessEvent
from eventflink.taskexecutor.protocol import (
    Action,
    EndForkServer,
    NewInstanceNeeded,
    Phase,
    ProtocolSettings,
    SendHeartbeat,
    SendReports,
    StartForkServer,
    Stopped,
    SubmitOrder,
    TaskExecutorProtocol,
    UploadFile,
)

_STEP_MS: Final = 40
_REPORT_TIMEOUT_MS: Final = 10_000
_REPORTS = ReportsCodec("TaskManagerEnvelope")
_BEATS = PayloadCodec("HeartbeatEnvelope")
_DEPLOYMENTS = PayloadCodec("DeploymentEnvelope")

Input = Callable[[int], list[Action]]


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
        check: AttemptsCheck,
        transcript: Transcript,
    ) -> None:
        """Prepare the machine; `start` begins the first life."""
        self.name = name
        self.clock = clock
        self.link = Link()
        self._broker = broker
        self._rng = rng
        self._settings = settings
        self._slot_profile = slot_profile
        self._losses = Random(f"losses of {name} in {settings.seed}")  # noqa: S311 - a run has to be repeatable, not secret
        self._check = check
        self._transcript = transcript
        self._lives = 0
        self._instances = 0
        self._was_frozen = False
        self._alive_ms: int | None = None
        self.is_up = False
        self.on_end: Callable[[], None] = self.start
        """What follows when a life is over and its time to start again has come: another one, unless somebody else is to see to it."""
        self.process = Process(name, broker.scheduler, clock)
        self.others = Process(name, broker.scheduler, clock)
        self.processes = TaskProcesses(self.others, rng, self._losses, check, self, self._tell)
        self.protocol = TaskExecutorProtocol(self._protocol_settings())
        self._inbox: deque[Input] = deque()
        self._will_step = False
        self._reports: SimulatedProducer | None = None
        self._beats: SimulatedProducer | None = None
        self._consumer: SimulatedConsumer | None = None

    def _protocol_settings(self) -> ProtocolSettings:
        settings = self._settings
        return ProtocolSettings(
            task_manager_id=self.name,
            host=self.name,
            process_id=self._lives,
            slot_count=settings.slots,
            slot_profile=self._slot_profile,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            self_fence_timeout_ms=settings.self_fence_timeout_ms,
            kill_timeout_ms=settings.kill_timeout_ms,
        )

    # -- lives -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin a life: stand at the end of `deployments`, then register (P12)."""
        self._lives += 1
        self.is_up = True
        self._was_frozen = False
        self._alive_ms = None
        scheduler = self._broker.scheduler
        self.process = Process(self.name, scheduler, self.clock)
        self.others = Process(self.name, scheduler, self.clock)
        self.processes = TaskProcesses(self.others, self._rng, self._losses, self._check, self, self._tell)
        self.protocol = TaskExecutorProtocol(self._protocol_settings())
        self._inbox.clear()
        self._will_step = False
        wires = (self._broker, self.process, self.link, self._rng)
        self._reports = SimulatedProducer(*wires, _REPORT_TIMEOUT_MS)
        self._beats = SimulatedProducer(*wires, self._settings.self_fence_timeout_ms, is_idempotent=False)
        self._transcript.note(self.name, f"starts for the {self._lives}. time")
        self._position()

    def _position(self) -> None:
        process = self.process
        if not self.link.can_receive(Topic.DEPLOYMENTS):
            process.after(500, self._position)
            return
        end_offset = self._broker.partition(Topic.DEPLOYMENTS).end_offset

        def positioned() -> None:
            self._consumer = SimulatedConsumer(
                self._broker, process, self.link, self._rng, Topic.DEPLOYMENTS, end_offset, self._on_deployment
            )
            self._perform(self._start_instance())
            self._step_again(process)

        process.after(self._rng.random() * 20, positioned)

    def _start_instance(self) -> list[Action]:
        self._instances += 1
        self._was_frozen = False
        self._alive_ms = None
        instance_id = f"{self.name}.{self._instances}"
        self._transcript.note(self.name, f"begins the instance {instance_id}")
        return self.protocol.start(self.clock.monotonic_ms(), instance_id, self.clock.wall_ms())

    def crash(self, restart_ms: float) -> None:
        """Kill -9 the TaskExecutor: its tasks end with it, and the guardian tells, then it may start again."""
        if not self.is_up:
            return
        instance_id = self.protocol.instance_id
        self._transcript.note(self.name, f"the TaskExecutor is killed as {instance_id or 'nobody yet'}")
        self._close()

        def settled() -> None:
            if instance_id:
                reason = "the TaskExecutor's process ended without a goodbye"
                value = _REPORTS.encode([TaskManagerDeath(self.name, instance_id, reason)])
                guardian = SimulatedProducer(self._broker, self.others, self.link, self._rng, _REPORT_TIMEOUT_MS)
                guardian.produce(Topic.TASKMANAGERS, self.name.encode(), value)
            self.others.after(restart_ms, self.on_end)

        self.processes.orphaned(settled)

    def lose_power(self, restart_ms: float) -> None:
        """End everything on the machine at once; nobody tells."""
        if not self.is_up:
            return
        self._transcript.note(self.name, "the machine loses its power")
        self._close()
        self.processes.vanish()
        self.others.kill()
        self._broker.scheduler.after(self.clock.delay_us(restart_ms), self.on_end)

    def _close(self) -> None:
        self.is_up = False
        self.process.kill()
        for closable in (self._consumer, self._reports, self._beats):
            if closable is not None:
                closable.close()
        self._consumer = None

    def stop(self, restart_ms: float) -> None:
        """Ask for an orderly end; it starts again later."""
        self._transcript.note(self.name, "is asked to stop")
        self._restart_ms = restart_ms
        self._put(lambda now_ms: self.protocol.stop(now_ms, "stopped in order"))

    _restart_ms: float = 1000.0

    # -- freezing --------------------------------------------------------------------------------------------------

    def freeze(self, *, whole_machine: bool) -> None:
        """Stop the TaskExecutor's process, or everything on the machine."""
        self._transcript.note(self.name, f"freezes: {'the machine' if whole_machine else 'the TaskExecutor'}")
        self.process.pause()
        if whole_machine:
            self.others.pause()

    def thaw(self) -> None:
        """Let what is frozen go on."""
        if self.process.is_paused or self.others.is_paused:
            self._was_frozen = self.is_frozen_past_fence()
            self._transcript.note(self.name, f"goes on{', past its fence' if self._was_frozen else ''}")
            self.process.resume()
            self.others.resume()

    def is_frozen_past_fence(self) -> bool:
        """Tell whether it could not fence itself because nothing of it ran."""
        if self._was_frozen:
            return True
        if not self.process.is_paused or self._alive_ms is None:
            return False
        return self.clock.monotonic_ms() - self._alive_ms >= self._settings.self_fence_timeout_ms - _STEP_MS

    # -- the main loop ---------------------------------------------------------------------------------------------

    def _put(self, item: Input) -> None:
        self._inbox.append(item)
        if not self._will_step:
            self._will_step = True
            process = self.process
            process.after(self._rng.random(), lambda: self._step(process))

    def _step_again(self, process: Process) -> None:
        if process is self.process and self.is_up:
            self._step(process)
            process.after(_STEP_MS, lambda: self._step_again(process))

    def _step(self, process: Process) -> None:
        """Take what happened, and do what follows; the tick comes first."""
        if process is not self.process or not self.is_up or self.protocol.phase is Phase.NEW:
            return
        self._will_step = False
        now_ms = self.clock.monotonic_ms()
        actions = self.protocol.on_tick(now_ms)
        while self._inbox:
            actions += self._inbox.popleft()(now_ms)
        self._perform(actions)

    def _perform(self, actions: Iterable[Action]) -> None:
        todo = deque(actions)
        records: list[SendReports] = []
        while todo:
            match todo.popleft():
                case SendReports() as record:
                    records.append(record)
                case NewInstanceNeeded() if self.protocol.phase is not Phase.NEW:
                    continue  # It was told to stop meanwhile.
                case NewInstanceNeeded(reason=reason):
                    self._transcript.note(self.name, f"the instance {self.protocol.instance_id} ends: {reason}")
                    todo.extend(self._start_instance())
                case Stopped() as end:
                    self._send_reports(records)
                    self._stopped(end)
                    return
                case action:
                    self._perform_one(action)
        self._send_reports(records)

    def _perform_one(self, action: SendHeartbeat | SubmitOrder | UploadFile | StartForkServer | EndForkServer) -> None:
        match action:
            case SubmitOrder(order=order):
                self.processes.submit(order)
            case SendHeartbeat(heartbeat=heartbeat, sent_at_ms=sent_at_ms):
                self._send_beat(_BEATS.encode(heartbeat), sent_at_ms)
            case StartForkServer():
                self.processes.start()
            case EndForkServer(reason=reason):
                self.processes.die(reason)
            case UploadFile(order=order):
                instance_id, request_id = self.protocol.instance_id, order.request_id
                is_there = self._rng.random() < 0.7  # noqa: PLR2004 - a share
                key, error = (f"blob-{request_id}", None) if is_there else (None, "no such file")
                self.process.after(
                    self._rng.random() * 300,
                    lambda: self._put(lambda now_ms: self.protocol.on_upload_completed(instance_id, request_id, key, error, now_ms)),
                )

    def _send_reports(self, records: list[SendReports]) -> None:
        if not records or self._reports is None:
            return
        reports = tuple(report for record in records for report in record.reports)
        sent_at_ms = min(record.sent_at_ms for record in records)
        is_registration = any(isinstance(r, TaskManagerRegistration) and r.instance_id == self.protocol.instance_id for r in reports)

        def on_delivery(timestamp_ms: int | None) -> None:
            if timestamp_ms is None:
                self._put(lambda now_ms: self.protocol.on_reports_failed(reports, now_ms))
                return
            if is_registration:
                self._heard(sent_at_ms)
            self._put(lambda now_ms: self.protocol.on_reports_delivered(reports, sent_at_ms, now_ms, timestamp_ms))

        said = ", ".join(f"{type(r).__name__} {getattr(r, 'execution_state', '')}".strip() for r in reports)
        self._transcript.note(self.name, f"reports {said}")
        self._reports.produce(Topic.TASKMANAGERS, self.name.encode(), _REPORTS.encode(reports), on_delivery=on_delivery)

    def _send_beat(self, value: bytes, sent_at_ms: int) -> None:
        instance_id = self.protocol.instance_id

        def on_delivery(timestamp_ms: int | None) -> None:
            if timestamp_ms is not None:
                if instance_id == self.protocol.instance_id:
                    self._heard(sent_at_ms)
                self._put(lambda now_ms: self.protocol.on_beat_acknowledged(sent_at_ms, now_ms))

        if self._beats is not None:
            self._beats.produce(Topic.HEARTBEATS, self.name.encode(), value, on_delivery=on_delivery)

    def _heard(self, sent_at_ms: int) -> None:
        self._alive_ms = sent_at_ms if self._alive_ms is None else max(self._alive_ms, sent_at_ms)

    def _stopped(self, end: Stopped) -> None:
        """Flush the reports and end the process; whoever watches over it starts it again."""
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
        payload, fields = _DEPLOYMENTS.decode(record.value or b"")
        envelope = DeploymentEnvelope(payload=payload, **fields)
        self._put(lambda now_ms: self.protocol.on_deployment(envelope, now_ms, record.timestamp_ms))

    def _tell(self, event: ProcessEvent) -> None:
        self.process.deliver(lambda: self._put(lambda now_ms: self.protocol.on_process_event(event, now_ms)))
