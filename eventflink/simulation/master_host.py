"""A machine with a master: the real participant, driven as `entrypoint/term.py` drives it, over simulated wires.

A process goes from term to term: it folds the log, takes part until its leadership or candidacy ends, drops the state and begins again.
What it reads outlives a term that ended because somebody else leads; after any other end it begins to read anew.
"""

import traceback
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from eventflink.events.topics import Topic
from eventflink.leadership.acceptance import LogBehind, LogDiverged, LogNotDense
from eventflink.leadership.election import LogElection
from eventflink.leadership.fold import Fold, LogUnusable
from eventflink.leadership.inbound import InboundDecoder
from eventflink.leadership.leader import ApplyFailed, Deposed, LeadershipEnded
from eventflink.leadership.participant import Participant, ParticipantSettings
from eventflink.leadership.reads import Answered, Read, ReadRefused
from eventflink.leadership.wires import AppendFailed
from eventflink.leadership.worker_reconciliation import WorkerReconciler
from eventflink.master.effects import ArchiveJob, CleanUp, DrillOrder, WorkerOrder
from eventflink.master.inputs import ArchiveFailed, ArchivesWritten, CleanupFailed, CleanupsCompleted, MasterInput, WrittenArchive
from eventflink.master.settings import MasterSettings
from eventflink.model.statuses import Role
from eventflink.simulation.broker import Broker, Link
from eventflink.simulation.effects_check import EffectsCheck
from eventflink.simulation.observer import Observer, summary_of
from eventflink.simulation.process import Process
from eventflink.simulation.producer import SimulatedProducer
from eventflink.simulation.resource_driver import SimulatedDriver
from eventflink.simulation.scheduler import MILLISECOND, LocalClock
from eventflink.simulation.settings import SimulationSettings
from eventflink.simulation.snapshots import Snapshotter, load_fold, replay
from eventflink.simulation.tail import SimulatedTail
from eventflink.simulation.transcript import Transcript
from eventflink.simulation.violations import Invariant, ViolationFound

_TICK_MS: Final = 40
_BACKOFF_MS: Final = 200
_DEAF_MS: Final = 10_000
_EFFECTS_TIMEOUT_MS: Final = 30_000
_EXIT_MS: Final = 300
_OUTSIDE_FAILS: Final = 0.1


class TailFailed(Exception):
    """The master hears nothing any more, not even itself."""


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
        observer: Observer,
        check: EffectsCheck,
        driver: SimulatedDriver,
        transcript: Transcript,
    ) -> None:
        """Start the process."""
        self._driver = driver
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
        self._check = check
        self._transcript = transcript
        self.process = Process(incarnation, broker.scheduler, clock)
        self._effects = SimulatedProducer(broker, self.process, link, rng, _EFFECTS_TIMEOUT_MS)
        self._appender: SimulatedProducer | None = None
        self._append_failed = False
        self._decoder = InboundDecoder(master_settings.request_horizon_ms)
        self._poisoned: dict[tuple[str, int], str] = {}
        self._election = LogElection(master_id, incarnation, settings.lease_timeout_ms)
        self.tail: SimulatedTail | None = None
        self.participant: Participant | None = None
        self._terms = 0
        self._candidacies = 0
        self._role = Role.STANDBY
        self._will_turn = False
        self._is_stopping = False
        self._busy_ms = 0
        self.may_have_holes = False
        self.on_fall: Callable[[DrillOrder], None] = lambda _order: None
        self.on_cluster_end: Callable[[], None] = lambda: None
        self._known_shutdowns: int | None = None
        reports = SimulatedProducer(broker, self.process, link, rng, _EFFECTS_TIMEOUT_MS)
        self._snapshotter = Snapshotter(self.name, master_id, broker, reports, rng, master_settings, transcript)
        transcript.note(self.name, "starts")
        if settings.snapshot_interval_ms:
            self._snapshot_later()
        self.process.after(50 + rng.random() * 400, self._rebuild)

    # -- the course of a process -----------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Tell whether it leads."""
        return self.participant is not None and self.participant.leader is not None

    def kill(self) -> None:
        """Kill -9."""
        self._transcript.note(self.name, "is killed")
        self._exit()

    def _exit(self) -> None:
        self.process.kill()
        self.participant = None
        self._effects.close()
        if self._appender is not None:
            self._appender.close()
        if self.tail is not None:
            self.tail.close()

    def stop(self) -> None:
        """Ask for an orderly end."""
        self._transcript.note(self.name, "is asked to stop")
        self._is_stopping = True
        if self.participant is None:
            self._exit()
            return
        self.participant.is_draining = True
        self.process.after(self._settings.lease_timeout_ms, self._leave)

    def _leave(self) -> None:
        if self.participant is not None and self.participant.resign():
            self._transcript.note(self.name, "resigns")
        self.participant = None
        self.process.after(_EXIT_MS, self._exit)

    def _end_with_cluster(self) -> None:
        """Do as a master does that reads that the cluster has stopped."""
        self._transcript.note(self.name, "ends with its cluster")
        self._is_stopping = True
        self._leave()
        self.on_cluster_end()

    def _rebuild(self) -> None:
        """Fold the log up to its present end; it takes a while."""
        if not self.link.can_receive(Topic.LOG):
            self.process.after(_BACKOFF_MS * 2, self._rebuild)
            return
        fold = replay(self._broker, load_fold(self._broker, self._master_settings))
        self._observer.compare(self.name, fold, is_whole=True, is_thorough=bool(self._settings.snapshot_interval_ms))
        duration_ms = self._rng.random() * (1_500 if self._rng.random() < 0.1 else 40)  # noqa: PLR2004 - a share
        self.process.after(duration_ms, lambda: self._begin_term(fold))

    def _begin_term(self, fold: Fold) -> None:
        if self._is_stopping:
            self._exit()
            return
        count = fold.master.shutdown.count
        if self._known_shutdowns is None:
            self._known_shutdowns = count
        if count > self._known_shutdowns and fold.master.shutdown.request is not None:
            self._end_with_cluster()
            return
        settings = self._settings
        if self.tail is None:
            self.tail = SimulatedTail(self, self._broker, self.process, self.link, self._rng, settings.inbox_size, fold)
        self._appender = SimulatedProducer(self._broker, self.process, self.link, self._rng, settings.lease_timeout_ms)
        self._append_failed = False
        self._terms += 1
        self.participant = Participant(
            settings=ParticipantSettings(
                master_id=self.master_id,
                incarnation=self.name,
                blob_address=f"{self.master_id}:1",
                lease_timeout_ms=settings.lease_timeout_ms,
                beat_interval_ms=settings.beat_interval_ms,
                window_size=settings.window_size,
                resend_interval_ms=settings.resend_interval_ms,
                heartbeat_interval_ms=settings.heartbeat_interval_ms,
                loss_timeout_ms=settings.loss_timeout_ms,
            ),
            fold=fold,
            decoder=self._decoder,
            inboxes=self.tail.inboxes,
            election=self._election,
            wires=self,
            topics=self.tail.topics,
            mint_leader_id=self._mint_leader_id,
            poisoned=self._poisoned,
            log=self.tail.log,
            known_shutdowns=self._known_shutdowns,
        )
        now_ms = self.clock.monotonic_ms()
        self.participant.heard_itself_ms = now_ms
        self._election.begin(now_ms)
        self._role = Role.STANDBY
        self._tick_again(self._terms)
        self.schedule()

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
        participant = self.participant
        if participant is None:
            return
        self._busy_ms = 0
        more = self._run(lambda: self._poll() or participant.turn(self._monotonic_ms, self.clock.wall_ms()))
        if more:
            self.schedule()

    def _tick_again(self, term: int) -> None:
        participant = self.participant
        if participant is None or term != self._terms:
            return
        self._run(lambda: self._tick(participant))
        if self.participant is not None:
            self.process.after(_TICK_MS * (0.7 + self._rng.random()), lambda: self._tick_again(term))
            self.schedule()

    def _tick(self, participant: Participant) -> bool:
        self._poll()
        now_ms = self.clock.monotonic_ms()
        participant.tick(now_ms, self.clock.wall_ms())
        if now_ms - participant.heard_itself_ms > _DEAF_MS:
            raise TailFailed(f"nothing was heard for {now_ms - participant.heard_itself_ms} ms")
        if self._is_stopping and participant.is_drained:
            self._leave()
        return False

    def _poll(self) -> bool:
        if self._append_failed:
            if self._appender is not None:
                self._appender.purge()
            raise AppendFailed("a decision could not be appended: it was not delivered in time")
        return False

    def _run(self, call: Callable[[], bool]) -> bool:
        """Make a call of the real code; end the term when it says so, and the run when it fails in another way."""
        participant = self.participant
        try:
            more = call()
        except ViolationFound:
            raise
        except ApplyFailed as error:
            raise ViolationFound(Invariant.NO_DEFECT, f"{self.name}: {error}") from error
        except (LeadershipEnded, AppendFailed, TailFailed) as error:
            self._end_term(error)
            return False
        except LogBehind as error:  # Nothing need be missing: links are cut topic by topic.
            self._end_term(error)
            return False
        except LogNotDense as error:
            is_trimmed = participant is not None and self._broker.partition(Topic.LOG).low_offset > participant.fold.last_offset + 1
            if not self.may_have_holes and not is_trimmed:
                raise ViolationFound(Invariant.NO_DEFECT, f"{self.name}: {error}, and the broker has lost nothing") from error
            self._end_term(error)
            return False
        except (LogDiverged, LogUnusable) as error:
            raise ViolationFound(Invariant.LOG_READABLE, f"{self.name}: {error}") from error
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            message = f"{self.name}: {error!r} in {where.name}, line {where.lineno} of {where.filename.rpartition('/')[2]}"
            raise ViolationFound(Invariant.NO_DEFECT, message) from error
        if participant is not None:
            self._look_at(participant)
        return more

    def _look_at(self, participant: Participant) -> None:
        if participant.outcome is not None and not self._is_stopping:
            self._end_with_cluster()
            return
        leader, role = participant.leader, participant.role.role
        self._observer.compare(self.name, participant.fold, is_whole=leader is None or not leader.unconfirmed)
        if role is not self._role:
            self._role = role
            self._transcript.note(self.name, f"becomes {role} in epoch={participant.fold.acceptance.epoch}")

    def _end_term(self, error: Exception) -> None:
        self._transcript.note(self.name, f"ends its term: {type(error).__name__}: {error}")
        if self.participant is not None:
            self.participant.fall(str(error))
        self.participant = None
        if self._appender is not None:
            self._appender.close()
        if isinstance(error, Deposed):
            self.process.after(self._rng.random() * 5, self._rebuild)
            return
        if self.tail is not None:
            self.tail.close()
            self.tail = None
        self.process.after(_BACKOFF_MS, self._rebuild)

    def _snapshot_later(self) -> None:
        def work() -> None:
            if self.link.can_receive(Topic.LOG) and self.link.can_receive(Topic.SNAPSHOTS):
                self._snapshotter.work()
            self._snapshot_later()

        self.process.after(2 * self._settings.snapshot_interval_ms * self._rng.random(), work)

    # -- reads -----------------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Ask for the state as of now, as a client of the master's interface does (L4)."""
        participant = self.participant
        if participant is None or not self.process.is_running:
            return
        min_offset = self._broker.partition(Topic.LOG).end_offset - 1

        def deliver(answer: Answered | ReadRefused) -> None:
            if isinstance(answer, Answered):
                self._observer.check_read(self.name, min_offset, answer.log_offset, answer.value)

        participant.reads.ask(Read(min_offset, summary_of, deliver))

    # -- wires -----------------------------------------------------------------------------------------------------

    def append(self, value: bytes) -> None:
        """Append to the log."""
        self._poll()
        if self._appender is not None:
            appender = self._appender
            appender.produce(Topic.LOG, None, value, on_delivery=lambda timestamp_ms: self._appended(appender, timestamp_ms))

    def _appended(self, appender: SimulatedProducer, timestamp_ms: int | None) -> None:
        if timestamp_ms is None and appender is self._appender:
            self._append_failed = True

    def produce(self, topic: Topic, key: str, value: bytes, partition: int = 0) -> None:
        """Produce an effect."""
        self._check.on_produce(self.name, topic, value)
        self._effects.produce(topic, key.encode(), value, partition)

    def clean_up(self, order: CleanUp) -> None:
        """Remove the data of a job, most of the time with success."""
        self._check.on_clean_up(self.name, order)
        outcome = CleanupFailed(order.job_id, "the file system is busy") if self._fails() else CleanupsCompleted((order.job_id,))
        self._later(outcome)

    def archive(self, order: ArchiveJob) -> None:
        """Write the archive of a job, most of the time with success."""
        self._check.on_archive(self.name, order)
        outcome: MasterInput = ArchiveFailed(order.job_id, "the file system is busy")
        if not self._fails():
            outcome = ArchivesWritten((WrittenArchive(order.job_id, f"archives/{order.job_id}.json", f"of {order.job_id}", 1),))
        self._later(outcome)

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

    def order_worker(self, order: WorkerOrder, epoch: int) -> None:  # noqa: ARG002 - this driver fences nobody
        """Have the driver do it: as the supervisor of a term does."""
        self._check.on_worker_order(self.name, order)
        if self._reconciler is None or self._reconciler[0] is not self.participant:
            self._reconciler = (self.participant, WorkerReconciler())
            self._reconcile_again(self._reconciler[1])
        self._reconciler[1].take(order)

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
            for call in calls:  # On its way it is, whatever becomes of this process.
                self._broker.scheduler.after(int(self._rng.random() * 60 * MILLISECOND), call)
            self.schedule()
            self._reconcile_again(reconciler)

        self.process.after(20 + self._rng.random() * 300, reconcile)

    def fall(self, order: DrillOrder) -> None:
        """Do what a drill asks."""
        self.on_fall(order)

    def pause(self, topic: Topic) -> None:
        """Read no more of an inbound topic."""
        if self.tail is not None:
            self.tail.consumers[topic].pause()

    def resume(self, topic: Topic) -> None:
        """Read on."""
        if self.tail is not None:
            self.tail.consumers[topic].resume()
