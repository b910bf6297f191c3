"""A process of a master: the real `MasterLife`, driven over simulated wires as `entrypoint/` drives it over Kafka.

What comes after what is the life's decision. Here is how its steps are carried out in virtual time, and which of its errors are violations.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from eventflink.events.effects import LeaderDeath, LeaderHang
from eventflink.events.topics import Topic
from eventflink.leadership.acceptance import LogNotDense
from eventflink.leadership.election import LogElection, Peers
from eventflink.leadership.fold import Fold, LogBehind, LogDiverged, LogUnusable
from eventflink.leadership.inbound import InboundDecoder
from eventflink.leadership.intake import HEARD_BACK_RECORDS, TailFailed
from eventflink.leadership.known_log import LogTruncated, check_heard
from eventflink.leadership.leader import ApplyFailed
from eventflink.leadership.master_life import Deregister, Exit, Follow, MasterLife, Rebuild, Step, TurnFailed
from eventflink.leadership.participant import Participant
from eventflink.leadership.ports import AppendFailed, ParticipantSettings
from eventflink.leadership.ports import Observer as RoleObserver
from eventflink.leadership.table_sightings import sighting_of
from eventflink.leadership.topic_sightings import news_of
from eventflink.leadership.worker_reconciliation import WorkerReconciler
from eventflink.master.effects import ArchiveJob, CleanUp, CursorWatch, DrillOrder, FileWatch, TableWatch, WorkerOrder
from eventflink.master.inputs import (
    ArchiveFailed,
    ArchivesWritten,
    CleanupFailed,
    CleanupsCompleted,
    FileMissed,
    FileSeen,
    MasterInput,
    WrittenArchive,
)
from eventflink.master.settings import MasterSettings
from eventflink.model.schedules import PartitionOffset
from eventflink.model.statuses import Role
from eventflink.testing.simulation.broker import Broker, Link
from eventflink.testing.simulation.consumer import SimulatedTail
from eventflink.testing.simulation.observers import EffectObserver, LogObserver
from eventflink.testing.simulation.outside_topics import outside_offsets, outside_topic
from eventflink.testing.simulation.outside_writers import OutsideTable, is_there
from eventflink.testing.simulation.process import Process
from eventflink.testing.simulation.producer import SimulatedProducer
from eventflink.testing.simulation.resource_driver import SimulatedDriver
from eventflink.testing.simulation.scheduler import MILLISECOND, LocalClock
from eventflink.testing.simulation.settings import SimulationSettings
from eventflink.testing.simulation.snapshots import NewMaster, Snapshotter, load_fold, replay
from eventflink.testing.simulation.transcript import Transcript
from eventflink.testing.simulation.violations import Invariant, ViolationFound

_TICK_LATENESS_MS: Final = 40
"""By how much a tick may come late: the loop of a process is busy with other things."""

_EFFECTS_TIMEOUT_MS: Final = 30_000
_HANG_LEASES: Final = 10
"""As `entrypoint/guardian.py`: until then a leader that hangs is not killed."""
_EXIT_MS: Final = 300
_OUTSIDE_FAILS: Final = 0.1
_LOOK_INTERVAL_MS: Final = 1_000


class LogUnreachable(Exception):
    """The log could not be read to its end."""


class LeaderDies(BaseException):
    """The process dies: nothing can catch that."""


class LeaderHangs(LeaderDies):
    """The process lives, and does nothing any more until somebody kills it."""


class _RoleNotes(RoleObserver):
    """Writes into the transcript what a master becomes."""

    def __init__(self, name: str, transcript: Transcript) -> None:
        self._name = name
        self._transcript = transcript

    def became(self, role: Role, epoch: int) -> None:
        self._transcript.note(self._name, f"becomes {role} in epoch={epoch}")

    def ended(self, reason: str) -> None:
        if reason == "Resigned":
            self._transcript.note(self._name, "resigns")


class MasterHost:
    """One process of a master; the next one of the same machine is another object with the same link and clock."""

    def __init__(
        self,
        master_id: str,
        incarnation: str,
        broker: Broker,
        link: Link,
        clock: LocalClock,
        rng: Random,
        settings: SimulationSettings,
        master_settings: MasterSettings,
        observer: LogObserver,
        effects: EffectObserver,
        driver: SimulatedDriver,
        transcript: Transcript,
        *,
        new_master: NewMaster,
    ) -> None:
        self._driver = driver
        self._new_master = new_master
        self._reconciler: tuple[Participant | None, WorkerReconciler] | None = None
        self.master_id = master_id
        self.name = incarnation
        self.link = link
        self.clock = clock
        self._broker = broker
        self._rng = rng
        self._settings = settings
        self._master_settings = master_settings
        self._observer = observer
        self._effect_observer = effects
        self._transcript = transcript
        self.process = Process(incarnation, broker.scheduler, clock)
        self._effects = SimulatedProducer(broker, self.process, link, rng, _EFFECTS_TIMEOUT_MS)
        self._appender: SimulatedProducer | None = None
        self._append_failed = False
        peers = Peers(settings.lease_timeout_ms)
        self._life = MasterLife(
            replace(_participant_settings(settings, master_id, incarnation), seals=broker.seals),
            LogElection(master_id, incarnation, peers),
            peers,
            InboundDecoder(seals=broker.seals),
            self._mint_leader_id,
            _RoleNotes(incarnation, transcript),
        )
        self.tail: SimulatedTail | None = None
        self._candidacies = 0
        self._will_turn = False
        self._looks_at_ms = 0
        self._ticks_at_ms: int | None = None
        self._has_exited = False
        self._has_compared = False
        self.has_refused = False
        """Whether it ended because a topic was truncated."""
        self._busy_ms = 0
        self.may_have_holes = False
        self.on_drill_step: Callable[[DrillOrder], None] = lambda _order: None
        self.on_end: Callable[[], None] = lambda: None
        """Called when it ends of itself, and is to be started again."""
        self._will: LeaderDeath | None = None
        self._decided = ""
        """What it decides."""
        self.on_death: Callable[[LeaderDeath | LeaderHang], None] = lambda _said: None
        """Called with what the guardian says of a process that has ended, or that hangs."""
        reports = SimulatedProducer(broker, self.process, link, rng, _EFFECTS_TIMEOUT_MS)
        self._snapshotter = Snapshotter(self.name, master_id, broker, reports, rng, master_settings, transcript)
        transcript.note(self.name, "starts")
        if settings.snapshot_interval_ms:
            self._snapshot_later()
        step = self._life.start(clock.monotonic_ms())
        self.process.after(50 + rng.random() * 400, lambda: self._carry_out(step))

    # -- the course of a process -----------------------------------------------------------------------------------

    @property
    def participant(self) -> Participant | None:
        """The participant of the present term; None between two terms, and when the process is gone."""
        return self._life.participant if self.process.is_alive else None

    @property
    def is_leader(self) -> bool:
        """Tell whether it leads."""
        return self.participant is not None and self.participant.leader is not None

    def kill(self) -> None:
        """Kill -9."""
        self._transcript.note(self.name, "is killed")
        self._exit()
        self._leave()

    def _end(self) -> None:
        self._exit()
        if not self._life.has_resigned:
            self._leave()

    def _exit(self) -> None:
        self.process.kill()
        self._effects.close()
        self._close_appender()
        self._close_tail()

    def _leave(self) -> None:
        if self._will is not None:
            self.on_death(self._will)

    def _close_appender(self) -> None:
        if self._appender is not None:
            self._appender.close()

    def _close_tail(self) -> None:
        if self.tail is not None:
            self.tail.close()
            self.tail = None

    def stop(self) -> None:
        """Ask for an orderly end."""
        self._transcript.note(self.name, "is asked to stop")
        self._carry_out(self._life.stop(self.clock.monotonic_ms()))

    # -- the steps of its life -------------------------------------------------------------------------------------

    def _carry_out(self, step: Step | None) -> None:
        match step:
            case Rebuild():
                self._close_appender()
                if step.closes_tail:
                    self._close_tail()
                self.process.after(step.after_ms + self._rng.random() * 5, self._rebuild)
            case Follow():
                duration_ms = self._rng.random() * (1_500 if self._rng.random() < 0.1 else 40)  # noqa: PLR2004 - a share
                self.process.after(duration_ms, lambda: self._follow(step.fold))
            case Deregister():
                self._carry_out(self._life.leave(self.clock.monotonic_ms()))
            case Exit():
                self._has_exited = True
                self.has_refused = isinstance(step.cause, LogTruncated)
                self.process.after(_EXIT_MS, self._end)
                if step.status is not None and not self._life.is_stopping:
                    self._transcript.note(self.name, "ends with its cluster")
                    self.on_end()
            case None:
                pass

    def _rebuild(self) -> None:
        """Fold the log up to its present end."""
        if self._has_exited:
            return
        if not self.link.can_receive(Topic.LOG):
            self._carry_out(self._life.failed(LogUnreachable("the log does not answer"), self.clock.monotonic_ms()))
            return
        leadership = self._broker.partition(Topic.LEADERSHIP)
        said = [] if self._has_compared else leadership.read(leadership.end_offset - HEARD_BACK_RECORDS, HEARD_BACK_RECORDS)
        try:
            fold = load_fold(self._broker, self._master_settings, new_master=self._new_master)
            fold = replay(self._broker, fold, known=self._life.known)
            check_heard(fold, [record.value for record in said], self._broker.seals.of(Topic.LEADERSHIP))
        except LogTruncated as error:
            self._fail(error)
            return
        self._has_compared = True
        self._observer.compare(self.name, fold, is_whole=True, is_thorough=bool(self._settings.snapshot_interval_ms))
        self._carry_out(self._life.rebuilt(fold))

    def _follow(self, fold: Fold) -> None:
        if self._has_exited:
            return
        settings = self._settings
        if self.tail is None:
            try:
                self.tail = SimulatedTail(self._broker, self.process, self.link, self._rng, settings.inbox_size, fold, self.schedule)
            except LogTruncated as error:
                self._fail(error)
                return
        self._appender = SimulatedProducer(self._broker, self.process, self.link, self._rng, settings.lease_timeout_ms)
        self._append_failed = False
        self._observer.follows(self.name)
        self._life.follow(fold, self, self.tail.intake, self.clock.monotonic_ms())
        self._ticks_at_ms = self.clock.monotonic_ms()
        self._tick(self._life.participant, self._ticks_at_ms)

    def _fail(self, error: Exception) -> None:
        """Let the life know that a term could not begin."""
        self._transcript.note(self.name, f"cannot begin: {error}")
        self._carry_out(self._life.failed(error, self.clock.monotonic_ms()))

    def _mint_leader_id(self) -> str:
        self._candidacies += 1
        return f"{self.name}#{self._candidacies}"

    # -- turns -----------------------------------------------------------------------------------------------------

    def schedule(self) -> None:
        """Have a turn soon; several reasons make one turn."""
        if not self._will_turn and self.participant is not None:
            self._will_turn = True
            self.process.after(self._rng.random(), self._turn)

    def _monotonic_ms(self) -> int:
        """Return the time inside of a turn: deciding takes some."""
        self._busy_ms += self._rng.random() < 0.3  # noqa: PLR2004 - a share
        return self.clock.monotonic_ms() + self._busy_ms

    def _turn(self) -> None:
        self._will_turn = False
        self._busy_ms = 0
        self._run(lambda: self._life.turn(self._monotonic_ms, self.clock.wall_ms()))
        if self._life.has_more:
            self.schedule()
        self._await_tick()

    def _await_tick(self) -> None:
        """Have a tick when it is due, or a little later; one that was due later is void."""
        participant, now_ms = self.participant, self.clock.monotonic_ms()
        due_ms = self._life.next_due_ms(now_ms)
        if participant is None or (self._ticks_at_ms is not None and self._ticks_at_ms <= due_ms):
            return
        self._ticks_at_ms = due_ms
        self.process.after(due_ms - now_ms + _TICK_LATENESS_MS * self._rng.random(), lambda: self._tick(participant, due_ms))

    def _tick(self, participant: Participant | None, due_ms: int) -> None:
        if participant is None or participant is not self.participant or due_ms != self._ticks_at_ms:
            return
        self._ticks_at_ms = None
        self._run(lambda: self._life.tick(self.clock.monotonic_ms(), self.clock.wall_ms()))
        self.schedule()

    def _run(self, call: Callable[[], Step | None]) -> None:
        """Make a call of the real code, judge how a term ended, and carry out what is asked for."""
        participant = self.participant
        if participant is None:
            return
        try:
            step = call()
        except LeaderDies as end:
            self._transcript.note(self.name, f"{'hangs' if isinstance(end, LeaderHangs) else 'dies'} at {self._decided}: {end}")
            if participant.leader is not None:
                self._observer.on_end_at_input(self._decided, participant.leader.recovery.suspect)
            self._end_at_input(end)
            return
        error = step.cause if isinstance(step, Rebuild | Exit) else None
        if error is not None:
            self._judge(error, participant.fold)
            self._transcript.note(self.name, f"ends its term: {type(error).__name__}: {error}")
        if participant is self.participant:
            leader = participant.leader
            self._observer.compare(self.name, participant.fold, is_whole=leader is None or not leader.unconfirmed)
        self._carry_out(step)

    def _end_at_input(self, end: LeaderDies) -> None:
        """End as somebody who was deciding; that one hangs is said by its guardian before the lease is over, which kills it after some."""
        self._exit()  # One that hangs does no more than one that is dead.
        will, scheduler = self._will, self._broker.scheduler
        kills_in_us = _HANG_LEASES * self._settings.lease_timeout_ms * MILLISECOND if isinstance(end, LeaderHangs) else 0
        if will is not None:
            death = replace(will, deciding=self._decided)
            if kills_in_us:
                hang = LeaderHang(will.epoch, will.leader_id, self._decided)
                scheduler.after(self._settings.lease_timeout_ms * MILLISECOND // 2, lambda: self.on_death(hang))
            scheduler.after(kills_in_us, lambda: self.on_death(death))
        scheduler.after(kills_in_us, self.on_end)

    def _judge(self, error: Exception, fold: Fold) -> None:
        """Tell how a term may end from what is a violation.

        Raises:
            ViolationFound: the error must not happen, or not while the broker has lost nothing.

        """
        if isinstance(error, TurnFailed) and isinstance(error.__cause__, ViolationFound):
            raise error.__cause__
        is_caused = isinstance(error, ApplyFailed) and self._observer.expects_defects
        if isinstance(error, ApplyFailed | TurnFailed) and not is_caused:
            raise ViolationFound(Invariant.NO_DEFECT, f"{self.name}: {error}") from error
        if isinstance(error, LogDiverged | LogUnusable):
            raise ViolationFound(Invariant.LOG_READABLE, f"{self.name}: {error}") from error
        # A standby that is behind need not miss anything: links are cut topic by topic.
        if isinstance(error, LogNotDense) and not isinstance(error, LogBehind):
            is_trimmed = self._broker.partition(Topic.LOG).low_offset > fold.last_offset + 1
            if not self.may_have_holes and not is_trimmed:
                raise ViolationFound(Invariant.NO_DEFECT, f"{self.name}: {error}, and the broker has lost nothing") from error

    def _snapshot_later(self) -> None:
        def work() -> None:
            can_read = self.link.can_receive(Topic.LOG) and self.link.can_receive(Topic.SNAPSHOTS)
            # A snapshotter of a log that has lost records says so, and does nothing: a process of its own, nobody waits for it.
            if can_read and not self._observer.has_lost:
                self._snapshotter.work()
            self._snapshot_later()

        self.process.after(2 * self._settings.snapshot_interval_ms * self._rng.random(), work)

    # -- wires -----------------------------------------------------------------------------------------------------

    def append_decision(self, value: bytes) -> None:
        """Append to the log."""
        self.poll()
        if self._appender is not None:
            appender = self._appender
            appender.produce(Topic.LOG, None, value, on_delivery=lambda timestamp_ms: self._appended(appender, timestamp_ms))

    def _appended(self, appender: SimulatedProducer, timestamp_ms: int | None) -> None:
        if timestamp_ms is None and appender is self._appender:
            self._append_failed = True

    def poll(self) -> None:
        """Look at what became of the appends, and whether anything can be read; raises `AppendFailed`, `TailFailed`."""
        if self.tail is not None and self.tail.failure:
            raise TailFailed(self.tail.failure)
        if self._append_failed:
            if self._appender is not None:
                self._appender.purge()
            raise AppendFailed("a decision could not be appended: it was not delivered in time")

    def produce(self, topic: Topic, key: str, value: bytes, partition: int = 0) -> None:
        """Produce an effect."""
        self._effect_observer.on_produce(self.name, topic, value)
        self._effects.produce(topic, key.encode(), value, partition)

    def leave_will(self, will: LeaderDeath | None) -> None:
        """Leave it with the guardian."""
        self._will = will

    def note_deciding(self, name: str) -> None:
        """Leave word with the guardian."""
        self._decided = name

    def clean_up(self, order: CleanUp) -> None:
        """Remove the data of a job, most of the time with success."""
        self._effect_observer.on_clean_up(self.name, order)
        outcome = CleanupFailed(order.job_id, "the file system is busy") if self._fails() else CleanupsCompleted((order.job_id,))
        self._later(outcome)

    def archive(self, order: ArchiveJob) -> None:
        """Write the archive of a job, most of the time with success."""
        self._effect_observer.on_archive(self.name, order)
        outcome: MasterInput = ArchiveFailed(order.job_id, "the file system is busy")
        if not self._fails():
            outcome = ArchivesWritten((WrittenArchive(order.job_id, f"archives/{order.job_id}.json", f"of {order.job_id}", 1),))
        self._later(outcome)

    def watch_outside(self, topics: Iterable[CursorWatch], tables: Iterable[TableWatch], files: Iterable[FileWatch]) -> None:
        """Look at topics, tables and files, each second."""
        now_ms = self.clock.monotonic_ms()
        if now_ms < self._looks_at_ms:
            return
        self._looks_at_ms = now_ms + _LOOK_INTERVAL_MS
        watched, time_ms = list(topics), self._broker.scheduler.now_us // MILLISECOND
        seen = {each.topic: outside_topic(each.topic, time_ms, self._settings.active_ms) for each in watched}

        def offsets_at(topic: str, since_ms: int) -> tuple[PartitionOffset, ...]:
            return outside_offsets(topic, time_ms, self._settings.active_ms, self.clock.wall_ms() - since_ms)

        for outcome in news_of(watched, seen, offsets_at):
            self._later(outcome)
        for watch in tables:
            line = OutsideTable(str(watch.table), time_ms, self._settings.active_ms, self.clock.wall_ms())
            if (seen_table := sighting_of(watch, line)) is not None:
                self._later(seen_table)
        for file in files:
            if is_there(file.file, time_ms, self._settings.active_ms):
                self._later(FileSeen(file.schedule_id, file.instant_ms, file.file))
            elif file.is_over:
                self._later(FileMissed(file.schedule_id, file.instant_ms, file.file))

    def grow_deployments(self, partitions: int) -> None:
        """Have the broker add partitions, most of the time with success."""
        if not self._fails():
            self._broker.grow(Topic.DEPLOYMENTS, partitions)

    def _fails(self) -> bool:
        """Tell whether a work outside fails. That is a fault, and faults come to an end."""
        is_over = self._broker.scheduler.now_us >= self._settings.active_ms * MILLISECOND
        return self._rng.random() < _OUTSIDE_FAILS and not is_over

    def _later(self, outcome: MasterInput) -> None:
        """Hand the outcome of a work outside back, if the same term still is."""
        participant = self.participant

        def done() -> None:
            if participant is not None and participant is self.participant:
                participant.later(outcome)
                self.schedule()

        self.process.after(5 + self._rng.random() * 60, done)

    def order_worker(self, order: WorkerOrder, epoch: int) -> None:  # noqa: ARG002 - this driver does not fence
        """Have the driver do it: as the supervisor of a term does."""
        self._effect_observer.on_worker_order(self.name, order)
        if self._reconciler is None or self._reconciler[0] is not self.participant:
            self._reconciler = (self.participant, WorkerReconciler())
            self._reconcile_again(self._reconciler[1])
        self._reconciler[1].accept_order(order)

    def _reconcile_again(self, reconciler: WorkerReconciler) -> None:
        """Compare what is wanted with what there is, now and then, until the term is over."""

        def reconcile() -> None:
            known, participant = self._reconciler, self.participant
            if known is None or known[1] is not reconciler or participant is None or known[0] is not participant:
                return
            steps = reconciler.compare(self._driver.list_workers())
            for terminated in steps.terminated:
                participant.later(terminated)
            calls = [partial(self._driver.stop_worker, worker_id) for worker_id in steps.stops]
            calls += [partial(self._driver.request_worker, request) for request in steps.requests]
            for call in calls:  # The call is already sent: it arrives even if this process dies.
                self._broker.scheduler.after(int(self._rng.random() * 60 * MILLISECOND), call)
            self.schedule()
            self._reconcile_again(reconciler)

        self.process.after(20 + self._rng.random() * 300, reconcile)

    def drill(self, order: DrillOrder) -> None:
        """Do what a drill asks."""
        self.on_drill_step(order)


def _participant_settings(settings: SimulationSettings, master_id: str, incarnation: str) -> ParticipantSettings:
    return ParticipantSettings(
        master_id=master_id,
        incarnation=incarnation,
        blob_address=f"{master_id}:1",
        lease_timeout_ms=settings.lease_timeout_ms,
        leader_heartbeat_interval_ms=settings.leader_heartbeat_interval_ms,
        window_size=settings.window_size,
        resend_interval_ms=settings.resend_interval_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        loss_timeout_ms=settings.loss_timeout_ms,
        task_managers_per_partition=settings.task_managers_per_partition,
        inline_locations=settings.inline_locations,
    )
