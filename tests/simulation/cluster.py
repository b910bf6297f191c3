"""The cluster of a run: with clients, operators, forgers and wrong clocks, with defects, and with judges of all that happens."""

from random import Random
from typing import Final

from eventflink.events.codec import PayloadCodec
from eventflink.events.seal import Seals
from eventflink.events.topics import INBOUND, Topic
from eventflink.master.master import Master
from eventflink.master.settings import MasterSettings
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import FailoverStrategy
from eventflink.taskexecutor.protocol import Phase
from eventflink.testing.simulation.cluster import VirtualCluster
from eventflink.testing.simulation.settings import SimulationSettings
from eventflink.testing.simulation.task_executor_host import TaskExecutorHost
from tests.simulation.attempts_check import AttemptsCheck
from tests.simulation.clients import Clients
from tests.simulation.defects import Defects
from tests.simulation.effects_check import EffectsCheck
from tests.simulation.foreign_records import ForeignRecords
from tests.simulation.forged_epochs import ForgedEpochs
from tests.simulation.forgers import Forgers, seals_of_run
from tests.simulation.heartbeats_check import HeartbeatsCheck
from tests.simulation.ledger import Ledger
from tests.simulation.log_time_check import LogTimeCheck
from tests.simulation.observer import Observer
from tests.simulation.queues import Queues
from tests.simulation.records_check import RecordsCheck
from tests.simulation.schedules import ScheduleOwners
from tests.simulation.stream_faults import StreamFaults
from tests.simulation.topic_growth import TopicGrowth
from tests.simulation.variations import Disks, Guardians, Lifecycles, Resources, Savepoints, Schedulers, Streams
from tests.simulation.wrong_clocks import WrongClocks

_LEADERSHIP: Final = PayloadCodec("LeadershipEnvelope")


class Cluster(VirtualCluster):
    """Everything that a run simulates, except the faults."""

    observer: Observer

    def __init__(self, settings: SimulationSettings, rng: Random, resources: Resources) -> None:
        self.resources = resources
        self.lifecycles = Lifecycles(settings.seed)
        self.schedule_owners = ScheduleOwners(settings.seed)
        self.schedulers = Schedulers(settings.seed, settings.slot_request_timeout_ms)
        self.guardians = Guardians(settings.seed)
        self.disks = Disks(settings.seed)
        self.streams = Streams(settings.seed)
        self.savepoints = Savepoints(settings.seed)
        self.defects = Defects(settings.seed, may_hang=self.guardians.are_there)
        super().__init__(settings, rng)
        self.forged_epochs = ForgedEpochs(settings.seed, self.broker, self.task_executors, self.transcript)
        self.topic_growth = TopicGrowth(settings.seed, self.broker, self.transcript)
        self.forgers = Forgers(settings.seed, self.broker, self.task_executors, self.transcript)
        self.foreign_records = ForeignRecords(settings.seed, self.broker)
        self.stream_faults = StreamFaults(settings.seed, self.task_executors, self.transcript)

    # -- what varies -----------------------------------------------------------------------------------------------

    def settings_of_masters(self) -> MasterSettings:
        """Return settings of which the seed draws some."""
        settings, queues = self.settings, Queues(self.settings.seed)
        return MasterSettings(
            slot_request_timeout_ms=settings.slot_request_timeout_ms,
            evenly_spread_out_slots=self.resources.is_spread,
            start_up_time_ms=settings.start_up_time_ms,
            shutdown_timeout_ms=settings.shutdown_timeout_ms,
            job_store_capacity=settings.job_store_capacity,
            job_store_expiration_ms=8_000 if settings.seed % 5 == 1 else 0,
            job_store_cache_size=1 if settings.seed % 4 == 2 else None,
            archives=settings.seed % 2 == 0,
            request_horizon_ms=settings.request_horizon_ms,
            failover_strategy=FailoverStrategy.FULL if settings.seed % 3 == 1 else FailoverStrategy.REGION,
            exception_history_size=3,
            checkpoint_history_size=4,
            adaptive=self.schedulers.settings,
            workers=self.driver.settings,
            queues=queues.configured,
            queue_reclaim_after_ms=queues.reclaim_after_ms,
        )

    def seals(self) -> Seals:
        """Draw whether the cluster has a secret."""
        return seals_of_run(self.settings.seed)

    def clocks(self) -> WrongClocks:
        """Return clocks of which some may be wrong."""
        self.broker_clocks = WrongClocks(self.settings.seed, self.scheduler, self.transcript)
        return self.broker_clocks

    def committed_records(self) -> RecordsCheck:
        """Return the judge of what streams commit."""
        self.records_check = RecordsCheck(self.transcript)
        return self.records_check

    def observers(self, seals: Seals) -> tuple[Observer, EffectsCheck, AttemptsCheck]:
        """Return the judges."""
        settings = self.settings
        heartbeats = HeartbeatsCheck(self.scheduler, settings.loss_timeout_ms, settings.lease_timeout_ms, settings.drift_ppm, seals)
        log_time = LogTimeCheck(self.scheduler, settings.drift_ppm)
        ledger = Ledger(self.storage, self.records_check.stopped)
        observer = Observer(self.master_settings, ledger, heartbeats, log_time, self.defects, self.transcript, seals)
        self.attempts_check = AttemptsCheck(observer, self.transcript)
        return observer, EffectsCheck(observer, self.transcript), self.attempts_check

    def join(self) -> None:
        """Let clients join."""
        variations = (self.resources, self.schedulers, self.streams)
        self.clients = Clients(self.broker, self.new_clock(), self.rng, self.settings, *variations, self.observer, self.transcript)

    def profile_of(self, number: int) -> ResourceProfile | None:
        """Return what each slot of a machine has, as the seed draws it."""
        return self.resources.profile_of(number)

    def late_by_ms(self) -> float:
        """Draw by how much later a machine starts."""
        return self.resources.late_by_ms()

    def restart_in_ms(self) -> float:
        """Draw how long it takes until a master is started again."""
        return self.lifecycles.restart_in_ms()

    def death_told_in_ms(self) -> float | None:
        """Draw when a guardian tells of a death, if it does."""
        return self.guardians.tells_in_ms()

    def new_master(self, settings: MasterSettings) -> Master:
        """Return a master with the defects of the run."""
        return self.defects.master_of(settings)

    # -- what happens ----------------------------------------------------------------------------------------------

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
            *(f"the schedule {schedule_id} is there" for schedule_id in master.schedules.schedules),
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
        self.observer.ledger.schedules.check_followed(self.observer.fold.last_offset)
        for seat in self.seats:
            participant = seat.host.participant if seat.host is not None else None
            if participant is not None and seat.master_id != lasting:
                self.observer.compare(seat.master_id, participant.fold, is_whole=True, is_thorough=True)
        self.observer.check_cold_replay(self.broker.partition(Topic.LOG).records)
        self.clients.check_accepted()
