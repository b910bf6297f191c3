"""One term of a master: a participant, driven by Kafka and by time until it is stopped or its term ends.

The machines of `leadership/` decide; this module gives them records, times and ids, appends what they hand out and produces
what they release. All of it runs in one event loop, in turns that are bounded, so that nothing starves.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eventflink.blob.job_archives import JobArchives
from eventflink.entrypoint.archiving import Archiver, NotingArchiver
from eventflink.entrypoint.cleaning import Cleaner, NotingCleaner
from eventflink.entrypoint.clocks import monotonic_ms, wall_ms
from eventflink.entrypoint.drill_orders import obey
from eventflink.entrypoint.resource_driver import ResourceDriver
from eventflink.entrypoint.tail import Tail, TailFailed
from eventflink.entrypoint.worker_supervisor import WorkerSupervisor
from eventflink.events.topics import Topic
from eventflink.leadership.acceptance import LogDiverged, LogNotDense
from eventflink.leadership.election import Election
from eventflink.leadership.fold import Fold, LogUnusable
from eventflink.leadership.inbound import InboundDecoder
from eventflink.leadership.leader import ApplyFailed, LeadershipEnded
from eventflink.leadership.observer import Observer
from eventflink.leadership.participant import Participant, ParticipantSettings
from eventflink.leadership.reads import Read
from eventflink.leadership.wires import AppendFailed
from eventflink.log.producers import EffectProducer, LogAppender
from eventflink.master.effects import ArchiveJob, CleanUp, DrillOrder, WorkerOrder
from eventflink.master.inputs import MasterInput
from eventflink.model.configuration import Configuration
from eventflink.model.statuses import ApplicationStatus, DrillStepType, Role

_logger = logging.getLogger(__name__)

TICK_S = 0.01
MIN_DEAF_MS = 10_000
DEAF_LEASES = 5
"""A master that has not heard itself on `leadership` for so long begins to read anew."""

_ENDS = (LeadershipEnded, AppendFailed, LogNotDense, LogDiverged, LogUnusable, TailFailed)


@dataclass(slots=True)
class Identity:
    """Who this process is to the others."""

    incarnation: str
    blob_address: str
    query_address: str = ""


class KafkaWires:
    """What a participant does to the world, done with Kafka."""

    def __init__(self, appender: LogAppender, effects: EffectProducer, tail: Tail, on_fall: Callable[[DrillOrder], None]) -> None:
        """Take the open connections; `on_clean_up` and `on_archive` are set by the term."""
        self.append = appender.append
        self.produce = effects.produce
        self.pause = tail.pause
        self.resume = tail.resume
        self.fall = on_fall
        self.on_clean_up: Callable[[CleanUp], None] | None = None
        self.on_archive: Callable[[ArchiveJob], None] | None = None
        self.on_worker_order: Callable[[WorkerOrder, int], None] | None = None

    def clean_up(self, order: CleanUp) -> None:
        """Queue a clean-up."""
        if self.on_clean_up is not None:
            self.on_clean_up(order)

    def archive(self, order: ArchiveJob) -> None:
        """Queue an archive."""
        if self.on_archive is not None:
            self.on_archive(order)

    def order_worker(self, order: WorkerOrder, epoch: int) -> None:
        """Hand an order to the resource driver, if there is one."""
        if self.on_worker_order is not None:
            self.on_worker_order(order, epoch)


class Term:
    """One term."""

    def __init__(
        self,
        configuration: Configuration,
        bootstrap: str,
        identity: Identity,
        fold: Fold,
        tail: Tail,
        election: Election,
        effects: EffectProducer,
        decoder: InboundDecoder,
        poisoned: dict[tuple[str, int], str],
        observer: Observer,
        archives: JobArchives | None = None,
        driver: ResourceDriver | None = None,
        *,
        known_shutdowns: int = 0,
    ) -> None:
        """Prepare a term that starts from `fold`; the tail reads already.

        `known_shutdowns` is how often the cluster had ended before this process was started.
        """
        self._configuration = configuration
        self._tail = tail
        self._election = election
        self._effects = effects
        self._poisoned = poisoned
        self._observer = observer
        self._stop_requested: Callable[[], None] = lambda: None
        self._appender = LogAppender(bootstrap, configuration.cluster_id, configuration.lease_timeout_ms)
        cleaner = NotingCleaner if configuration.drills_rehearsal else Cleaner
        self._cleaner = cleaner(configuration.working_path, self._later)
        wires = KafkaWires(self._appender, effects, tail, self._fall)
        wires.on_clean_up = self._cleaner.submit
        archiver = NotingArchiver if configuration.drills_rehearsal else Archiver
        self._archiver = archiver(archives, self._ask, self._later)
        wires.on_archive = self._archiver.submit
        self._supervisor = WorkerSupervisor(driver, self._later) if driver is not None else None
        if self._supervisor is not None:
            wires.on_worker_order = self._supervisor.submit
        self.participant = Participant(
            settings=_settings(configuration, identity),
            fold=fold,
            decoder=decoder,
            inboxes=tail.inboxes,
            election=election,
            wires=wires,
            topics=tail.topics,
            mint_leader_id=lambda: f"{configuration.master_id}-{uuid.uuid4().hex}",
            poisoned=poisoned,
            log=tail.log,
            observer=observer,
            known_shutdowns=known_shutdowns,
        )
        now = monotonic_ms()
        self.participant.heard_itself_ms = now
        election.begin(now)  # From here on whoever leads is heard: a whole lease of silence has to pass (L2).
        self._role = self.participant.role.role
        self._scheduled = False
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._cluster_ended: asyncio.Future[ApplicationStatus] = asyncio.get_running_loop().create_future()
        self._is_status_told = False

    async def run(self, stop: asyncio.Event) -> ApplicationStatus | None:
        """Take part until `stop` is set, until the cluster ends, or until the leadership or the candidacy ends.

        Return as what the cluster has ended; None: it has not.

        Raises:
            LeadershipEnded, AppendFailed, TailFailed: the term is over; another one may follow.
            LogUnusable, LogDiverged, LogNotDense: the log cannot be followed.

        """
        tail, participant = self._tail, self.participant
        self._stop_requested = stop.set
        tail.participant, tail.on_progress = participant, self._schedule
        tasks: list[asyncio.Task[None]] = []
        orderly = False
        try:
            await asyncio.to_thread(self._appender.connect)
            tasks = [asyncio.create_task(work) for work in (self._tick_forever(), self._cleaner.run(), self._archiver.run())]
            if self._supervisor is not None:
                tasks.append(asyncio.create_task(self._supervisor.run()))
            stopping = asyncio.create_task(stop.wait())
            waiting: set[asyncio.Future[Any]] = {stopping, self._ended, self._cluster_ended, *tasks}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            for task in tasks:
                if task.done():
                    task.result()
            if self._ended.done():
                self._ended.result()
            orderly = True
            await self._deregister()
            await self._leave()
            return self._cluster_ended.result() if self._cluster_ended.done() else None
        finally:
            tail.participant = None
            self._end_supervision()
            for task in tasks:
                task.cancel()
            participant.fall("the term is over")
            self._observer.ended("TermEnded")
            self._election.end()
            await asyncio.to_thread(self._appender.close, self._configuration.lease_timeout_ms / 1000 if orderly else 0.0)

    def _end_supervision(self) -> None:
        """Have no worker started or stopped any more: whoever leads now sees to them."""
        if self._supervisor is not None:
            self._supervisor.close()

    async def _deregister(self) -> None:
        """Tell the resource driver of the end of the cluster, if this master led it to the end."""
        request = self.participant.fold.master.shutdown.request
        if self._supervisor is None or request is None or self.participant.leader is None or not self._cluster_ended.done():
            return
        await self._supervisor.deregister(self._cluster_ended.result(), request.diagnostics)

    async def _leave(self) -> None:
        """Leave in order: what was decided is read back and released first, for at most a lease."""
        participant = self.participant
        participant.is_draining = True
        deadline = monotonic_ms() + self._configuration.lease_timeout_ms
        while not participant.is_drained and not self._ended.done() and monotonic_ms() < deadline:  # noqa: ASYNC110 - the deadline ends it
            await asyncio.sleep(TICK_S)
        epoch = participant.fold.acceptance.epoch
        if participant.resign():
            self._observer.ended("Resigned")
            _logger.info("Resigned epoch=%d", epoch)

    # -- turns -----------------------------------------------------------------------------------------------------

    def _later(self, value: MasterInput) -> None:
        self.participant.later(value)
        self._schedule()

    def _ask(self, read: Read) -> None:
        self.participant.reads.ask(read)

    def _schedule(self) -> None:
        """Have a turn soon; several reasons make one turn."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        if self._ended.done():
            return
        try:
            more = self.participant.turn(monotonic_ms, wall_ms())
            self._appender.poll()
        except Exception as error:  # noqa: BLE001 - told apart in `_end`
            self._end(error)
            return
        self._effects.poll()
        self._note_role()
        if more:
            self._schedule()

    async def _tick_forever(self) -> None:
        while not self._ended.done():
            try:
                self._tick(monotonic_ms())
            except Exception as error:  # noqa: BLE001 - told apart in `_end`
                self._end(error)
                return
            await asyncio.sleep(TICK_S)

    def _tick(self, now: int) -> None:
        self._appender.poll()
        self._effects.poll()
        self._tail.check()
        self.participant.tick(now, wall_ms())
        deaf_ms = now - self.participant.heard_itself_ms
        if deaf_ms > max(MIN_DEAF_MS, DEAF_LEASES * self._configuration.lease_timeout_ms):
            raise TailFailed(f"nothing was heard on '{Topic.LEADERSHIP}' for {deaf_ms} ms, not even what this master said itself")
        self._note_role()
        self._schedule()

    def _end(self, error: Exception) -> None:
        fold = self.participant.fold
        self._end_supervision()
        self.participant.fall(str(error))
        if not isinstance(error, _ENDS):
            # A defect of ours. The state is doubtful, and a loop that went on without its turns would lead without deciding.
            _logger.error("TurnFailed epoch=%d offset=%d", fold.acceptance.epoch, fold.last_offset, exc_info=error)
            error = LeadershipEnded(f"a turn failed: {error!r}")
        self._observer.ended(type(error).__name__)
        if isinstance(error, ApplyFailed) and error.record is not None:
            self._poisoned[error.record.topic, error.record.offset] = str(error)
        if not self._ended.done():
            self._ended.set_exception(error)

    def _note_shutdown(self) -> None:
        """Tell once that the status is recorded, and end the term when the cluster has stopped, by the accepted log."""
        participant, request = self.participant, self.participant.fold.master.shutdown.request
        if request is None or not participant.is_drained:
            return
        if request.recorded_at_ms and participant.leader is not None and not self._is_status_told:
            self._is_status_told = True
            _logger.info("ApplicationStatusRecorded status=%s diagnostics=%s", request.application_status, request.diagnostics)
        if participant.outcome is not None and not self._cluster_ended.done():
            _logger.info("ClusterStopped status=%s offset=%d", request.application_status, participant.fold.last_offset)
            self._cluster_ended.set_result(participant.outcome)

    def _note_role(self) -> None:
        self._note_shutdown()
        role, acceptance = self.participant.role.role, self.participant.fold.acceptance
        if role is self._role:
            return
        self._role = role
        if role is Role.LEADER:
            _logger.info("LeadershipGranted epoch=%d offset=%d", acceptance.epoch, self.participant.fold.last_offset)
        elif role is Role.CANDIDATE:
            _logger.info("Candidate epoch=%d", acceptance.epoch + 1)

    def _fall(self, order: DrillOrder) -> None:
        _logger.warning("DrillStepOrdered step=%s duration_ms=%d", order.step, order.duration_ms)
        if order.step is DrillStepType.STOP:
            self._stop_requested()
        else:
            obey(order)


def _settings(configuration: Configuration, identity: Identity) -> ParticipantSettings:
    return ParticipantSettings(
        master_id=configuration.master_id,
        incarnation=identity.incarnation,
        blob_address=identity.blob_address,
        query_address=identity.query_address,
        lease_timeout_ms=configuration.lease_timeout_ms,
        beat_interval_ms=configuration.leader_beat_interval_ms,
        window_size=configuration.window_size,
        resend_interval_ms=configuration.redeploy_interval_ms,
        heartbeat_interval_ms=configuration.heartbeat_interval_ms,
        loss_timeout_ms=configuration.loss_timeout_ms,
    )
