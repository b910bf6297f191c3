"""Observers of a simulated cluster: these fold the log and judge nothing; a simulation that judges has subclasses of them.

An observer is told what happens before any machine can see it, and may raise `ViolationFound`, which ends the run.
"""

from typing import Protocol

from eventflink.events.codec import DecisionCodec
from eventflink.events.effects import TaskDeployment
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.events.topics import Topic
from eventflink.leadership.fold import Fold
from eventflink.master.effects import ArchiveJob, CleanUp, WorkerOrder
from eventflink.master.master import Master
from eventflink.master.settings import MasterSettings
from eventflink.model.attempts import AttemptId
from eventflink.testing.simulation.broker import BrokerRecord


class LogObserver:
    """Folds the log where it is written, and is told what masters have read of it."""

    has_lost = False
    """Whether the log was truncated: what is written from then on is no part of this history, and counts for nobody."""

    def __init__(self, settings: MasterSettings, seals: Seals = NO_SEALS) -> None:
        """Take the settings of the masters."""
        self.fold = Fold(Master(settings), DecisionCodec(seal=seals.of(Topic.LOG)))

    @property
    def expects_defects(self) -> bool:
        """Whether masters are made to decide what cannot be applied."""
        return False

    def on_record(self, record: BrokerRecord) -> None:
        """Take a record of the log."""
        self.fold.fold_record(record.offset, record.timestamp_ms, record.value or b"")

    def on_heartbeat(self, record: BrokerRecord) -> None:
        """Take a heartbeat of a TaskExecutor that arrived."""

    def follows(self, name: str) -> None:
        """Take note that a process of a master follows the log."""

    def compare(self, who: str, fold: Fold, *, is_whole: bool, is_thorough: bool = False) -> None:
        """Take a master's fold; `is_whole`: its state holds nothing that was not read back."""

    def on_end_at_input(self, name: str, suspect: str) -> None:
        """Take note that a leader ended at an input, and at which one it knew that the leader before it had."""


class EffectObserver:
    """Is told what leaves masters, as they hand it to a producer or to work outside."""

    def on_produce(self, who: str, topic: Topic, value: bytes) -> None:
        """Take a record that a master produces."""

    def on_clean_up(self, who: str, order: CleanUp) -> None:
        """Take the order to remove the data of a job."""

    def on_archive(self, who: str, order: ArchiveJob) -> None:
        """Take the order to write the archive of a job."""

    def on_worker_order(self, who: str, order: WorkerOrder) -> None:
        """Take an order to the resource driver."""


class AttemptHost(Protocol):
    """A machine that runs attempts."""

    name: str

    def is_frozen_past_fence(self) -> bool:
        """Tell whether it could not fence itself because nothing of it ran: what P17 excepts."""

    def is_fenced_without_spark(self, attempt: AttemptId) -> bool:
        """Tell whether it has fenced itself, and its Spark does not answer it: nobody waits longer than for the fence (P15)."""


class AttemptObserver:
    """Is told of the processes of attempts: from the launch of one until it is reaped and runs nothing on Spark."""

    def began(self, deployment: TaskDeployment, host: AttemptHost) -> None:
        """Take note of a launch."""

    def ended(self, attempt: AttemptId) -> None:
        """Take note that nothing of an attempt is left that anybody could end."""

    def abandoned(self, attempt: AttemptId) -> None:
        """Take note that what an attempt runs on Spark was given up: nobody reaches it, and it ends by itself (P15)."""
