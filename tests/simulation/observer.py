"""The observer of a run: it folds the log as records are appended, before anybody else can, and holds everybody against that.

Its fold is the real one; its ledger is not. What masters have accepted is compared by running hash at every look, and by the digest of
the whole state now and then.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from eventflink.events.codec import UndecodableRecord
from eventflink.events.decision import Decision, TimerCause
from eventflink.events.log_events import FollowUpDecided, LeadershipGranted, TaskManagerLost, TaskManagerRegistered
from eventflink.events.seal import Seals
from eventflink.events.topics import MAX_DECISION_BYTES
from eventflink.events.wording import describe, describe_causes
from eventflink.leadership.acceptance import LogNotDense
from eventflink.leadership.fold import Fold, LogDiverged, LogUnusable
from eventflink.leadership.leader import INLINE_BYTES
from eventflink.leadership.reads import Answered, Read, ReadRefused
from eventflink.master.canonical import InvariantBroken
from eventflink.master.inputs import InternalInput
from eventflink.master.master import Master
from eventflink.master.settings import MasterSettings
from eventflink.testing.simulation.broker import BrokerRecord
from eventflink.testing.simulation.master_host import MasterHost
from eventflink.testing.simulation.observers import LogObserver
from eventflink.testing.simulation.transcript import Transcript
from eventflink.testing.simulation.violations import Invariant, ViolationFound
from tests.simulation.defects import Defects
from tests.simulation.heartbeats_check import HeartbeatsCheck
from tests.simulation.ledger import Ledger
from tests.simulation.log_time_check import LogTimeCheck

_VALIDATE_EVERY: Final = 16
_DIGEST_EVERY: Final = 48
_MOST_FOLLOW_UPS: Final = 17
"""In one decision: the one that is decided, and those that share its record."""
_REPEATING: Final = {timer.__name__ for timer in InternalInput.__subclasses__() if timer.repeats}
"""Many of each share a record, with what follows: such a decision is bounded by bytes, of which the last one may be beyond the bound."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """What the fold was after a record."""

    running_hash: bytes
    epoch: int
    sequence: int
    leader_id: str
    summary: tuple[int, ...]


def summary_of(fold: Fold) -> tuple[int, ...]:
    """Return what a read of the state returns here: numbers that differ after almost every decision."""
    master = fold.master
    positions = [cursor.next_offset for cursor in master.requests.cursors.values()]
    return (len(master.dispatcher.jobs), len(master.requests.answers), master.slot_manager.next_allocation, *positions)


class Observer(LogObserver):
    """Reads the log where it is written."""

    def __init__(
        self,
        settings: MasterSettings,
        ledger: Ledger,
        heartbeats: HeartbeatsCheck,
        log_time: LogTimeCheck,
        defects: Defects,
        transcript: Transcript,
        seals: Seals,
    ) -> None:
        super().__init__(settings, seals)
        self.ledger = ledger
        self._heartbeats = heartbeats
        self._log_time = log_time
        self._defects = defects
        self._transcript = transcript
        self._moments: list[_Moment] = []
        self._digests: dict[int, str] = {}
        self._compared: dict[str, int] = {}
        self.grants = 0
        self.last_grant = -1
        """The offset of the last grant that was accepted."""

    @property
    def expects_defects(self) -> bool:
        """Whether masters are made to decide what cannot be applied."""
        return self._defects.are_there

    def on_heartbeat(self, record: BrokerRecord) -> None:
        """Take a heartbeat of a TaskExecutor that arrived."""
        self._heartbeats.on_heartbeat(record)

    def follows(self, name: str) -> None:
        """Take note that a process of a master follows the log."""
        self._log_time.follows(name)

    def on_end_at_input(self, name: str, suspect: str) -> None:
        """Check that of those who knew that the one before them died at the same input, one has tried it at most; raises ViolationFound."""
        self._defects.check_end_of(name, suspect)

    def on_record(self, record: BrokerRecord) -> None:
        """Take a record of the log.

        Raises:
            ViolationFound: an invariant does not hold any more.

        """
        value = record.value or b""
        if self.has_lost:
            self._note_record(record.offset, value, "after the loss")
            return
        try:
            decision = self.fold.fold_record(record.offset, record.timestamp_ms, value)
        except (LogUnusable, LogDiverged, LogNotDense) as error:
            self._note_record(record.offset, value, "UNREADABLE")
            raise ViolationFound(Invariant.LOG_READABLE, str(error)) from error
        if decision is None:
            self._note_record(record.offset, value, "rejected")
        else:
            self._note(record.offset, decision, "accepted")
            self._check(record.offset, decision, len(value))
        acceptance = self.fold.acceptance
        summary = summary_of(self.fold)
        self._moments.append(_Moment(self.fold.running_hash, acceptance.epoch, acceptance.sequence, acceptance.leader_id, summary))

    def _check(self, offset: int, decision: Decision, size: int) -> None:
        if isinstance(decision.events[0], LeadershipGranted):
            self.grants, self.last_grant = self.grants + 1, offset
        follow_ups = sum(isinstance(event, FollowUpDecided) for event in decision.events)
        repeats = any(isinstance(cause, TimerCause) and cause.timer in _REPEATING for cause in decision.causes)
        if size > (2 * INLINE_BYTES if repeats else MAX_DECISION_BYTES) or (follow_ups > _MOST_FOLLOW_UPS and not repeats):
            raise ViolationFound(Invariant.BOUNDED_DECISION, f"log@{offset} has {size} bytes and decides {follow_ups} consequences")
        self.ledger.note_decision(offset, decision)
        self._log_time.on_decision(offset, decision)
        for event in decision.events:
            if isinstance(event, TaskManagerRegistered):
                self._heartbeats.on_registered(event)
            elif isinstance(event, TaskManagerLost):
                self._heartbeats.on_lost(event, offset)
        if self.fold.accepted_count % _VALIDATE_EVERY == 0:
            self.validate()

    def validate(self) -> None:
        """Check the whole state."""
        try:
            self.fold.master.validate()
        except InvariantBroken as error:
            raise ViolationFound(Invariant.VALID_STATE, f"log@{self.fold.last_offset}: {error}") from error

    def digest(self) -> str:
        """Return the digest of the state after the last record."""
        offset = self.fold.last_offset
        if offset not in self._digests:
            self._digests[offset] = self.fold.master.digest()
        return self._digests[offset]

    def compare(self, who: str, fold: Fold, *, is_whole: bool, is_thorough: bool = False) -> None:
        """Hold a master's fold against this one; `is_whole`: its state holds nothing that was not read back.

        Raises:
            ViolationFound: they differ.

        """
        offset = fold.last_offset
        if offset < 0:
            return
        if offset >= len(self._moments):
            raise ViolationFound(Invariant.NOT_ON_LESS, f"{who} stands at log@{offset}, beyond what there was before the loss")
        moment, acceptance = self._moments[offset], fold.acceptance
        theirs = (fold.running_hash, acceptance.epoch, acceptance.sequence, acceptance.leader_id)
        if theirs != (moment.running_hash, moment.epoch, moment.sequence, moment.leader_id):
            raise ViolationFound(
                Invariant.NOT_ON_LESS if self.has_lost else Invariant.PREFIX_AGREEMENT,
                f"{who} stands at log@{offset} with epoch={acceptance.epoch} sequence={acceptance.sequence}, having accepted other records",
            )
        if not is_whole or offset != self.fold.last_offset:
            return
        if is_thorough or offset - self._compared.get(who, 0) >= _DIGEST_EVERY:
            self._compared[who] = offset
            if fold.master.digest() != self.digest():
                raise ViolationFound(Invariant.PREFIX_AGREEMENT, f"{who} has another state at log@{offset}")

    def check_cold_replay(self, records: Iterable[BrokerRecord]) -> None:
        """Fold the whole log once more, from nothing, and compare.

        Raises:
            ViolationFound: the state differs from the live one.

        """
        fold = Fold(Master(MasterSettings()), self.fold.codec)
        for record in records:
            fold.fold_record(record.offset, record.timestamp_ms, record.value or b"")
        self.compare("a cold replay", fold, is_whole=True, is_thorough=True)

    def read(self, host: MasterHost, end_offset: int) -> None:
        """Ask a master for the state of the log up to its end, as a client of the master's interface does (L4)."""
        participant = host.participant
        if participant is None or not host.process.is_running:
            return

        def deliver(answer: Answered | ReadRefused) -> None:
            if isinstance(answer, Answered):
                self.check_read(host.name, end_offset - 1, answer.log_offset, answer.value)

        participant.reads.ask(Read(end_offset - 1, summary_of, deliver))

    def check_read(self, who: str, asked_at_offset: int, log_offset: int, value: tuple[int, ...]) -> None:
        """Check that a read is of the offset that it names, and not older than its question.

        Raises:
            ViolationFound: it is not.

        """
        if log_offset < asked_at_offset:
            raise ViolationFound(Invariant.READ_OFFSET, f"{who} answered as of log@{log_offset}; the log ended at {asked_at_offset} before")
        if log_offset >= 0 and value != self._moments[log_offset].summary:
            raise ViolationFound(
                Invariant.READ_OFFSET, f"{who} answered {value} as of log@{log_offset}; there it is {self._moments[log_offset].summary}"
            )

    def _note_record(self, offset: int, value: bytes, how: str) -> None:
        try:
            decision = self.fold.codec.decode(value)
        except UndecodableRecord:
            self._transcript.note("log", f"log@{offset} {how} bytes={len(value)}, which are no decision")
        else:
            self._note(offset, decision, how)

    def _note(self, offset: int, decision: Decision, how: str) -> None:
        events = "; ".join(map(describe, decision.events))
        place = f"log@{offset} {how} epoch={decision.epoch} sequence={decision.sequence} leader={decision.leader_id}"
        self._transcript.note("log", f"{place} [{describe_causes(decision)}] {events}")
