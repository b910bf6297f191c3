"""A whole cluster in one process and in virtual time: broker, masters and TaskExecutors, put together from a seed.

Clients, faults and judges are not here: they come with subclasses. The rule: the same seed and the same orders are the same run.
"""

from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final

from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import LeaderDeath, LeaderHang
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.events.topics import Topic
from eventflink.master.master import Master
from eventflink.master.settings import MasterSettings
from eventflink.model.resources import ResourceProfile
from eventflink.testing.simulation.broker import Broker, Link
from eventflink.testing.simulation.broker_clocks import EPOCH_MS, BrokerClocks
from eventflink.testing.simulation.committed_records import CommittedRecords
from eventflink.testing.simulation.master_host import MasterHost
from eventflink.testing.simulation.observers import AttemptObserver, EffectObserver, LogObserver
from eventflink.testing.simulation.process import Process
from eventflink.testing.simulation.producer import SimulatedProducer
from eventflink.testing.simulation.resource_driver import SimulatedDriver
from eventflink.testing.simulation.scheduler import MILLISECOND, Call, LocalClock, Scheduler
from eventflink.testing.simulation.settings import SimulationSettings
from eventflink.testing.simulation.streams import StreamStorage
from eventflink.testing.simulation.task_executor_host import TaskExecutorHost
from eventflink.testing.simulation.transcript import Transcript

_HOURS_MS: Final = 3_600_000
_MOST_UPTIME_US: Final = 10_000_000_000


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


class VirtualCluster:
    """Masters and TaskExecutors; nothing happens to them that is not ordered.

    A subclass overrides methods under "what may vary"; some of them are called while the cluster is made.
    """

    def __init__(self, settings: SimulationSettings, rng: Random) -> None:
        self.settings = settings
        self.rng = rng
        self.scheduler = Scheduler()
        self.transcript = Transcript(self.scheduler)
        self.task_executors: list[TaskExecutorHost] = []
        """All of them, also the workers that there are."""
        self.driver = SimulatedDriver(self.scheduler, settings, self._worker, self.task_executors, self.transcript)
        self.master_settings = self.settings_of_masters()
        seals = self.seals()
        self.storage = StreamStorage(settings.seed, self.scheduler, self.committed_records())
        self.observer, self.effect_observer, self.attempt_observer = self.observers(seals)
        self.broker = Broker(self.scheduler, rng, self.clocks(), seals, settings.deployment_partitions)
        self.broker.on_log_record = self.observer.on_record
        self.broker.on_heartbeat = self.observer.on_heartbeat
        self.join()
        self.seats = [Seat(f"master-{n + 1}", Link(), self.new_clock()) for n in range(settings.masters)]
        self.task_executors += [self._machine(f"tm-{n + 1}", self.profile_of(n)) for n in range(settings.task_executors)]
        for seat in self.seats:
            self._later(rng.random() * 500, partial(self.start, seat))
        for host in self.task_executors:
            self._later(rng.random() * 500 + self.late_by_ms(), host.start)

    # -- what may vary ---------------------------------------------------------------------------------------------

    def settings_of_masters(self) -> MasterSettings:
        """Return how masters are configured."""
        return MasterSettings()

    def seals(self) -> Seals:
        """Return what masters and TaskExecutors seal their records with."""
        return NO_SEALS

    def clocks(self) -> BrokerClocks:
        """Return the clocks of the brokers."""
        return BrokerClocks(self.scheduler)

    def committed_records(self) -> CommittedRecords:
        """Return the records that streams commit."""
        return CommittedRecords(self.transcript)

    def observers(self, seals: Seals) -> tuple[LogObserver, EffectObserver, AttemptObserver]:
        """Return the observers of the log, of what leaves masters, and of attempts."""
        return LogObserver(self.master_settings, seals), EffectObserver(), AttemptObserver()

    def join(self) -> None:
        """Add what else uses the broker; called before the machines are made."""

    def profile_of(self, number: int) -> ResourceProfile | None:  # noqa: ARG002 - they are all alike
        """Return what each slot of a machine has."""
        return None

    def late_by_ms(self) -> float:
        """Return by how much later a machine starts."""
        return 0.0

    def restart_in_ms(self) -> float:
        """Return how long it takes until a master is started again whose cluster has ended, or that died."""
        return 1_000.0

    def death_told_in_ms(self) -> float | None:
        """Return how long the guardian of a master takes to tell of its death; None: it does not."""
        return 20.0

    def new_master(self, settings: MasterSettings) -> Master:
        """Return what decides in a master, which has folded nothing."""
        return Master(settings)

    # -- machines --------------------------------------------------------------------------------------------------

    def _later(self, delay_ms: float, call: Call) -> None:
        self.scheduler.after(int(delay_ms * MILLISECOND), call)

    def new_clock(self) -> LocalClock:
        """Return the clocks of a machine."""
        rng, drift_ppm = self.rng, self.settings.drift_ppm
        wall_offset_ms = EPOCH_MS + int((rng.random() - 0.5) * 48 * _HOURS_MS)
        return LocalClock(self.scheduler, int((2 * rng.random() - 1) * drift_ppm), int(rng.random() * _MOST_UPTIME_US), wall_offset_ms)

    def _worker(self, worker_id: str) -> TaskExecutorHost:
        return self._machine(worker_id, self.driver.slot_profile)

    def _machine(self, name: str, profile: ResourceProfile | None) -> TaskExecutorHost:
        wires = (self.broker, self.new_clock(), self.rng, self.settings)
        return TaskExecutorHost(name, *wires, profile, self.attempt_observer, self.storage, self.transcript)

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
            self.effect_observer,
            self.driver,
            self.transcript,
            new_master=self.new_master,
        )
        seat.host.on_end = partial(self._restart_ended, seat, seat.host)
        seat.host.on_death = partial(self._tell_death, seat)

    def _restart_ended(self, seat: Seat, host: MasterHost) -> None:
        """Start a master again whose cluster has ended, or that died; one that had a twin has another one."""
        if seat.host is host:
            seat.host = None
            self._later(self.restart_in_ms(), partial(self.start, seat))

    def _tell_death(self, seat: Seat, said: LeaderDeath | LeaderHang) -> None:
        """Have the guardian of a process that is dead, or hangs, say so, unless it has died as well."""
        delay_ms = self.death_told_in_ms()
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
