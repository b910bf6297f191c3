"""A whole cluster in one process: broker, masters, TaskExecutors and clients, put together from a seed."""

from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Final

from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import LeaderDeath, LeaderHang
from eventflink.events.topics import INBOUND, Topic
from eventflink.lab.simulation.attempts_check import AttemptsCheck
from eventflink.lab.simulation.broker import Broker, Link
from eventflink.lab.simulation.broker_clocks import EPOCH_MS, BrokerClocks
from eventflink.lab.simulation.clients import Clients
from eventflink.lab.simulation.defects import Defects
from eventflink.lab.simulation.effects_check import EffectsCheck
from eventflink.lab.simulation.foreign_records import ForeignRecords
from eventflink.lab.simulation.forged_epochs import ForgedEpochs
from eventflink.lab.simulation.forgers import Forgers, seals_of_run
from eventflink.lab.simulation.heartbeats_check import HeartbeatsCheck
from eventflink.lab.simulation.log_time_check import LogTimeCheck
from eventflink.lab.simulation.master_host import MasterHost
from eventflink.lab.simulation.observer import Observer
from eventflink.lab.simulation.process import Process
from eventflink.lab.simulation.producer import SimulatedProducer
from eventflink.lab.simulation.resource_driver import SimulatedDriver
from eventflink.lab.simulation.scheduler import MILLISECOND, Call, LocalClock, Scheduler
from eventflink.lab.simulation.settings import SimulationSettings
from eventflink.lab.simulation.stream_faults import StreamFaults
from eventflink.lab.simulation.streams import StreamStorage
from eventflink.lab.simulation.task_executor_host import TaskExecutorHost
from eventflink.lab.simulation.transcript import Transcript
from eventflink.lab.simulation.variations import Disks, Guardians, Lifecycles, Resources, Savepoints, Schedulers, Streams
from eventflink.master.settings import MasterSettings
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import FailoverStrategy
from eventflink.taskexecutor.protocol import Phase

_HOURS_MS: Final = 3_600_000
_MOST_UPTIME_US: Final = 10_000_000_000
_LEADERSHIP: Final = PayloadCodec("LeadershipEnvelope")


@dataclass(slots=True)
class Seat:
    """A machine that has a master: what stays when the process goes."""

    master_id: str
    link: Link
    clock: LocalClock
    host: MasterHost | None = None
    twins: list[MasterHost] = field(default_factory=list)
    """Older processes of the same master that somebody believed dead."""
    starts: int = 0


class Cluster:
    """Everything that a run simulates, except the faults."""

    def __init__(self, settings: SimulationSettings, rng: Random, resources: Resources) -> None:
        self.settings = settings
        self.rng = rng
        self.resources = resources
        self.lifecycles = Lifecycles(settings.seed)
        self.schedulers = Schedulers(settings.seed, settings.slot_request_timeout_ms)
        self.guardians = Guardians(settings.seed)
        self.disks = Disks(settings.seed)
        self.streams = Streams(settings.seed)
        self.savepoints = Savepoints(settings.seed)
        self.defects = Defects(settings.seed, may_hang=self.guardians.are_there)
        self.scheduler = Scheduler()
        self.transcript = Transcript(self.scheduler)
        self.master_settings = MasterSettings(
            slot_request_timeout_ms=settings.slot_request_timeout_ms,
            evenly_spread_out_slots=resources.is_spread,
            start_up_time_ms=settings.start_up_time_ms,
            shutdown_timeout_ms=settings.shutdown_timeout_ms,
            job_store_capacity=settings.job_store_capacity,
            job_store_expiration_ms=8_000 if settings.seed % 5 == 1 else 0,
            job_store_cache_size=1 if settings.seed % 4 == 2 else None,  # noqa: PLR2004 - a share of the seeds
            archives=settings.seed % 2 == 0,
            request_horizon_ms=settings.request_horizon_ms,
            failover_strategy=FailoverStrategy.FULL if settings.seed % 3 == 1 else FailoverStrategy.REGION,
            exception_history_size=3,
            checkpoint_history_size=4,
            adaptive=self.schedulers.settings,
        )
        self.task_executors: list[TaskExecutorHost] = []
        """All of them, also the workers that there are."""
        self.driver = SimulatedDriver(self.scheduler, settings, self._worker, self.task_executors, self.transcript)
        self.master_settings = replace(self.master_settings, workers=self.driver.settings)
        seals = seals_of_run(settings.seed)
        heartbeats = HeartbeatsCheck(self.scheduler, settings.loss_timeout_ms, settings.lease_timeout_ms, settings.drift_ppm, seals)
        log_time = LogTimeCheck(self.scheduler, settings.drift_ppm)
        self.observer = Observer(self.master_settings, heartbeats, log_time, self.transcript, seals)
        self.storage = StreamStorage(settings.seed, self.scheduler, self.observer.ledger, self.transcript)
        self.broker_clocks = BrokerClocks(settings.seed, self.scheduler, self.transcript)
        self.broker = Broker(self.scheduler, rng, self.broker_clocks, seals)
        self.broker.on_log_record = self.observer.on_record
        self.broker.on_heartbeat = heartbeats.on_heartbeat
        self.effects_check = EffectsCheck(self.observer, self.transcript)
        self.attempts_check = AttemptsCheck(self.observer, self.transcript)
        variations = (resources, self.schedulers, self.streams)
        self.clients = Clients(self.broker, self._clock(), rng, settings, *variations, self.observer, self.transcript)
        self.seats = [Seat(f"master-{n + 1}", Link(), self._clock()) for n in range(settings.masters)]
        self.task_executors += [self._task_executor(n) for n in range(settings.task_executors)]
        self.forged_epochs = ForgedEpochs(settings.seed, self.broker, self.task_executors, self.transcript)
        self.forgers = Forgers(settings.seed, self.broker, self.task_executors, self.transcript)
        self.foreign_records = ForeignRecords(settings.seed, self.broker)
        self.stream_faults = StreamFaults(settings.seed, self.task_executors, self.transcript)
        for seat in self.seats:
            self._later(rng.random() * 500, partial(self.start, seat))
        for host in self.task_executors:
            self._later(rng.random() * 500 + resources.late_by_ms(), host.start)

    def _later(self, delay_ms: float, call: Call) -> None:
        self.scheduler.after(int(delay_ms * MILLISECOND), call)

    def _clock(self) -> LocalClock:
        rng, drift_ppm = self.rng, self.settings.drift_ppm
        wall_offset_ms = EPOCH_MS + int((rng.random() - 0.5) * 48 * _HOURS_MS)
        return LocalClock(self.scheduler, int((2 * rng.random() - 1) * drift_ppm), int(rng.random() * _MOST_UPTIME_US), wall_offset_ms)

    def _task_executor(self, number: int) -> TaskExecutorHost:
        return self._machine(f"tm-{number + 1}", self.resources.profile_of(number))

    def _worker(self, worker_id: str) -> TaskExecutorHost:
        return self._machine(worker_id, self.driver.slot_profile)

    def _machine(self, name: str, profile: ResourceProfile | None) -> TaskExecutorHost:
        wires = (self.broker, self._clock(), self.rng, self.settings)
        return TaskExecutorHost(name, *wires, profile, self.attempts_check, self.storage, self.transcript)

    # -- masters ---------------------------------------------------------------------------------------------------

    def start(self, seat: Seat) -> None:
        """Start a process of a master."""
        seat.starts += 1
        seat.host = MasterHost(
            seat.master_id,
            f"{seat.master_id}.{seat.starts}",
            self.broker,
            seat.link,
            seat.clock,
            self.rng,
            self.settings,
            self.master_settings,
            self.observer,
            self.effects_check,
            self.driver,
            self.transcript,
            defects=self.defects,
        )
        seat.host.on_end = partial(self._restart_ended, seat, seat.host)
        seat.host.on_death = partial(self._tell_death, seat)

    def _restart_ended(self, seat: Seat, host: MasterHost) -> None:
        """Start a master again whose cluster has ended, or that died; one that had a twin has another one."""
        if seat.host is host:
            seat.host = None
            self._later(self.lifecycles.restart_in_ms(), partial(self.start, seat))

    def _tell_death(self, seat: Seat, said: LeaderDeath | LeaderHang) -> None:
        """Have the guardian of a process that is dead, or hangs, say so, unless it has died as well."""
        delay_ms = self.guardians.tells_in_ms()
        if delay_ms is None:
            return
        value = PayloadCodec("LeadershipEnvelope", seal=self.broker.seals.of(Topic.LEADERSHIP)).encode(said)
        timeout_ms = self.settings.lease_timeout_ms
        process = Process(f"{seat.master_id}'s guardian", self.scheduler, seat.clock)
        producer = SimulatedProducer(self.broker, process, seat.link, self.rng, timeout_ms, is_idempotent=False)

        def tell() -> None:
            self.transcript.note(process.name, f"says {type(said).__name__} deciding={said.deciding}")
            producer.produce(Topic.LEADERSHIP, b"leader", value)
            process.after(timeout_ms, producer.close)

        process.after(delay_ms, tell)

    def forge_death(self) -> None:
        """Have somebody say of a leadership that it has ended: of one that has not, or did long ago, or never was."""
        acceptance = self.observer.fold.acceptance
        forged = self.guardians.next_forgery(acceptance.epoch, acceptance.leader_id)
        self.transcript.note("somebody", f"says that {forged.leader_id} has died in epoch={forged.epoch}")
        self.broker.append(Topic.LEADERSHIP, 0, b"leader", _LEADERSHIP.encode(forged))

    def fill_disk(self) -> None:
        """Let the disk of a TaskExecutor's machine be full for a while."""
        name, duration_ms = self.disks.choose([host.name for host in self.task_executors])
        host = next(host for host in self.task_executors if host.name == name)
        if not host.disk_fault:
            host.set_disk("its disk is full")
            self._later(duration_ms, lambda: host.set_disk(""))

    def kill(self, seat: Seat, restart_ms: float) -> None:
        """Kill a master's process; it starts again later."""
        if seat.host is not None:
            seat.host.kill()
            seat.host = None
            self._later(restart_ms, partial(self.start, seat))

    def stop(self, seat: Seat, restart_ms: float) -> None:
        """Stop a master in order; it starts again later."""
        host = seat.host
        if host is not None and host.process.is_running:
            host.stop()
            seat.host = None
            self._later(restart_ms + 2 * self.settings.lease_timeout_ms, partial(self.start, seat))

    # -- the end ---------------------------------------------------------------------------------------------------

    def unrest(self, lasting: str) -> str:
        """Return what still waits, or nothing; `lasting` names a master whose connection stays broken."""
        ledger = self.observer.ledger
        master = self.observer.fold.master
        undecided = [t for t in INBOUND if ledger.next_inputs.get(t, 0) < self.broker.partition(t).end_offset]
        waits = [
            *(f"the input {topic}@{ledger.next_inputs.get(topic, 0)} is not decided" for topic in undecided),
            *(f"the job {job_id} is {status}" for job_id, status in ledger.job_statuses.items() if job_id not in ledger.ended_jobs),
            *(f"{request_id} is not answered" for request_id in self.clients.unanswered()),
            *(f"{attempt} is alive" for attempt in self.attempts_check.live()),
            *(f"the data of {job_id} are there" for job_id in master.dispatcher.dirty),
            *(f"the consequence {entry} waits" for entry in master.follow_ups.entries),
            *(f"{' '.join(name)} is parked" for name in master.follow_ups.parked),
            *(f"{host.name} is not registered" for host in self.task_executors if not self._is_registered(host)),
            *(f"the worker {worker_id} has not come" for worker_id in master.workers.pending),
            *(f"the worker {worker_id} is not released" for worker_id in master.workers.registered),
            *(f"the query of {attempt} runs on {host.name}" for host in self.task_executors for attempt in host.spark.queries),
            *self.driver.unrest({*master.workers.pending, *master.workers.registered}),
        ]
        return waits[0] if waits else self._unrest_of_masters(lasting)

    def _is_registered(self, host: TaskExecutorHost) -> bool:
        is_known = self.observer.fold.master.resource_manager.is_current(host.name, host.protocol.instance_id)
        return host.is_up and host.protocol.phase is Phase.REGISTERED and is_known

    def _unrest_of_masters(self, lasting: str) -> str:
        end_offset = self.broker.partition(Topic.LOG).end_offset
        leaders = 0
        for seat in self.seats:
            participant = seat.host.participant if seat.host is not None else None
            if seat.master_id == lasting:
                continue
            if participant is None or participant.fold.last_offset != end_offset - 1:
                return f"{seat.master_id} does not stand at the end of the log"
            leaders += participant.leader is not None and not participant.leader.unconfirmed
        seat_of_lasting = [s for s in self.seats if s.master_id == lasting and s.host is not None and s.host.is_leader]
        return "" if leaders + len(seat_of_lasting) == 1 else f"{leaders} masters lead"

    def check_end(self, lasting: str) -> None:
        """Compare everything once more, when it has come to rest.

        Raises:
            ViolationFound: an invariant does not hold.

        """
        self.observer.validate()
        for seat in self.seats:
            participant = seat.host.participant if seat.host is not None else None
            if participant is not None and seat.master_id != lasting:
                self.observer.compare(seat.master_id, participant.fold, is_whole=True, is_thorough=True)
        self.observer.check_cold_replay(self.broker.partition(Topic.LOG).records)
        self.clients.check_accepted()
