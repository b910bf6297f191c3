"""One term of a master on Kafka: its appender, and the works that accepted effects ask for.

The life of the master (`leadership/master_life.py`) decides; this module gives it turns and time, appends what it hands out, produces
what it releases and carries out clean-ups, archives and worker orders. All of it runs in one event loop, in turns that are bounded.
"""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from eventflink.entrypoint.archive_places import ArchivePlaces
from eventflink.entrypoint.archiving import Archiver, NotingArchiver
from eventflink.entrypoint.cleaning import Cleaner, NotingCleaner
from eventflink.entrypoint.clocks import monotonic_ms, wall_ms
from eventflink.entrypoint.guardian_link import MasterGuardianLink
from eventflink.entrypoint.outside_looks import OutsideLook
from eventflink.entrypoint.outside_watching import KafkaLook, OutsideWatcher
from eventflink.entrypoint.partition_grower import PartitionGrower
from eventflink.entrypoint.resource_driver import ResourceDriver
from eventflink.entrypoint.tail import Tail, nothing
from eventflink.entrypoint.worker_supervisor import WorkerSupervisor
from eventflink.events.effects import LeaderDeath
from eventflink.events.topics import Topic
from eventflink.leadership.fold import Fold
from eventflink.leadership.master_life import MAX_TICK_MS, Deregister, MasterLife, Step
from eventflink.leadership.reads import Read
from eventflink.log.administration import grow_deployments, remove_edges
from eventflink.log.producers import EffectProducer, LogAppender
from eventflink.master.effects import ArchiveJob, CleanUp, CursorWatch, DrillOrder, FileWatch, TableWatch, WorkerOrder
from eventflink.master.inputs import MasterInput
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.configuration import Configuration
from eventflink.model.iceberg_catalogs import catalogs_of
from eventflink.model.statuses import DrillStepType
from eventflink.processes.trace import stamp

_logger = logging.getLogger(__name__)

_FREEZE: Final = (
    "import os, signal, sys, time; process = int(sys.argv[1]); os.kill(process, signal.SIGSTOP); "
    "time.sleep(int(sys.argv[2]) / 1000); os.kill(process, signal.SIGCONT)"
)
"""A process that is stopped cannot wake itself: a child does that, which outlives it if it has to."""


class Term:
    """One term: the wires of its participant, and the tasks that drive it."""

    def __init__(
        self,
        configuration: Configuration,
        access: ClusterAccess,
        life: MasterLife,
        tail: Tail,
        effects: EffectProducer,
        guardian: MasterGuardianLink,
        archives: ArchivePlaces,
        driver: ResourceDriver | None,
    ) -> None:
        is_rehearsal = configuration.drills_rehearsal
        self._life = life
        self._tail = tail
        self._effects = effects
        self._guardian = guardian
        self._appender = LogAppender(access, configuration.lease_timeout_ms)
        self._cleaner = (NotingCleaner if is_rehearsal else Cleaner)(
            configuration.working_place, self._later, partial(remove_edges, access)
        )
        self._archiver = (NotingArchiver if is_rehearsal else Archiver)(archives.own, self._ask, self._later, archives.flink)
        outside = OutsideLook(catalogs_of(configuration.iceberg_catalogs))
        self._watcher = None if is_rehearsal else OutsideWatcher(KafkaLook(access), outside, self._later)
        self._grower = None if is_rehearsal else PartitionGrower(partial(grow_deployments, access), monotonic_ms)
        self._supervisor = WorkerSupervisor(driver, self._later) if driver is not None else None
        self._flush_s = configuration.lease_timeout_ms / 1000
        self._is_turn_due = False
        self._ticker: asyncio.TimerHandle | None = None
        self._ticks_at_ms = 0
        """When the ticker is due."""
        self._ticked_ms = 0
        self._next: asyncio.Future[Step] = asyncio.get_running_loop().create_future()
        """What the life asks for instead of this term."""
        self._stop = asyncio.Event()
        self._deregistering: asyncio.Task[None] | None = None

    async def run(self, fold: Fold, stop: asyncio.Event) -> Step:
        """Take part from this state on; return what the life asks for when the term has ended.

        Raises:
            KafkaException: Kafka does not answer.

        """
        tasks: list[asyncio.Task[None]] = []
        self._stop = stop
        try:
            await asyncio.to_thread(self._appender.connect)
            self._life.follow(fold, self, self._tail.intake, monotonic_ms())
            self._tail.on_progress = self._schedule
            self._tick()
            works = [self._stop_when_told(), self._cleaner.run(), self._archiver.run()]
            works += [self._watcher.run()] if self._watcher is not None else []
            works += [self._supervisor.run()] if self._supervisor is not None else []
            tasks = [asyncio.create_task(work) for work in works]
            waiting: set[asyncio.Future[Any]] = {self._next, *tasks}
            while not self._next.done():
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done - {self._next}:
                    task.result()
                waiting -= done
            return self._next.result()
        finally:
            self._tail.on_progress = nothing
            if self._ticker is not None:
                self._ticker.cancel()
            self._life.end_term(None)
            self._end_supervision()
            if self._grower is not None:
                self._grower.close()
            if self._deregistering is not None:
                await asyncio.wait([self._deregistering])  # What the driver has begun it ends, within the bound of a call.
            for task in tasks:
                task.cancel()
            await asyncio.to_thread(self._appender.close, self._flush_s if self._life.is_leaving else 0.0)

    # -- turns and time --------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Have a turn soon; several reasons make one turn."""
        if not self._is_turn_due:
            self._is_turn_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_due = False
        if self._next.done():
            return
        self._obey(self._life.turn(monotonic_ms, wall_ms()))
        if self._life.participant is not None:
            self._tail.be_prompt(is_waited_for=not self._life.is_standby)
        if self._life.has_more:
            self._schedule()
        now_ms = monotonic_ms()
        # A standby is woken by each word of the leader: it ticks then, and need not be woken for that a second time.
        if self._life.is_standby and now_ms - self._ticked_ms >= MAX_TICK_MS // 2:
            self._tick_now(now_ms)
        self._await_tick()

    def _await_tick(self) -> None:
        """Have a tick when it is due; however often turns come, the last one is `MAX_TICK_MS` ago at most."""
        now_ms = monotonic_ms()
        due_ms = min(self._life.next_due_ms(now_ms), self._ticked_ms + MAX_TICK_MS)
        if self._ticker is not None:
            if self._ticks_at_ms == due_ms:
                return
            self._ticker.cancel()
        self._ticks_at_ms = due_ms
        self._ticker = asyncio.get_running_loop().call_later((due_ms - now_ms) / 1000, self._tick)

    def _tick(self) -> None:
        self._ticker = None
        self._tick_now(monotonic_ms())
        self._schedule()

    def _tick_now(self, now_ms: int) -> None:
        self._ticked_ms = now_ms
        if not self._next.done():
            self._obey(self._life.tick(now_ms, wall_ms()))

    async def _stop_when_told(self) -> None:
        await self._stop.wait()
        self._obey(self._life.stop(monotonic_ms()))

    def _obey(self, step: Step | None) -> None:
        if isinstance(step, Deregister):
            self._deregistering = asyncio.create_task(self._deregister(step))
        elif step is not None and not self._next.done():
            self._end_supervision()
            self._next.set_result(step)

    async def _deregister(self, step: Deregister) -> None:
        try:
            if self._supervisor is not None:
                await self._supervisor.deregister(step.status, step.diagnostics)
        finally:
            self._obey(self._life.leave(monotonic_ms()))

    def _end_supervision(self) -> None:
        """Have no worker started or stopped any more: that is up to the leader of the next epoch."""
        if self._supervisor is not None:
            self._supervisor.close()

    def _later(self, value: MasterInput) -> None:
        if self._life.participant is not None:
            self._life.participant.later(value)
            self._schedule()

    def _ask(self, read: Read) -> None:
        if self._life.participant is not None:
            self._life.participant.reads.ask(read)

    # -- wires -----------------------------------------------------------------------------------------------------

    def append_decision(self, value: bytes) -> None:
        """Append to the log; raises `AppendFailed`."""
        stamp("produced", Topic.LOG)
        self._appender.append_decision(value)

    def produce(self, topic: Topic, key: str, value: bytes, partition: int = 0) -> None:
        """Produce an effect."""
        stamp("produced", topic, key)
        self._effects.produce(topic, key, value, partition)

    def leave_will(self, will: LeaderDeath | None) -> None:
        """Leave it with the guardian."""
        self._guardian.leave_will(will)

    def note_deciding(self, name: str) -> None:
        """Leave word with the guardian."""
        self._guardian.note_deciding(name)

    def poll(self) -> None:
        """Serve the delivery reports; raises `AppendFailed`, `TailFailed`."""
        self._appender.poll()
        self._effects.poll()
        self._tail.check()

    def clean_up(self, order: CleanUp) -> None:
        """Queue a clean-up."""
        self._cleaner.submit(order)

    def archive(self, order: ArchiveJob) -> None:
        """Queue an archive."""
        self._archiver.submit(order)

    def watch_outside(self, topics: Iterable[CursorWatch], tables: Iterable[TableWatch], files: Iterable[FileWatch]) -> None:
        """Have topics, tables and files looked at; a master that rehearses starts no jobs for what comes to another cluster."""
        if self._watcher is not None:
            self._watcher.watch(topics, tables, files)

    def grow_deployments(self, partitions: int) -> None:
        """Have partitions added; a master that rehearses has a fleet that is only said to be there."""
        if self._grower is not None:
            self._grower.submit(partitions)

    def order_worker(self, order: WorkerOrder, epoch: int) -> None:
        """Hand an order to the resource driver, if there is one."""
        if self._supervisor is not None:
            self._supervisor.submit(order, epoch)

    def drill(self, order: DrillOrder) -> None:
        """Stop, freeze or die as a drill ordered: for real, by the signals that a fault would be."""
        _logger.warning("DrillStepOrdered step=%s duration_ms=%d", order.step, order.duration_ms)
        match order.step:
            case DrillStepType.STOP:
                self._stop.set()
            case DrillStepType.KILL:
                os.kill(os.getpid(), signal.SIGKILL)
            case DrillStepType.FREEZE:
                command = [sys.executable, "-c", _FREEZE, str(os.getpid()), str(order.duration_ms)]
                subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
