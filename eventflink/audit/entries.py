"""The log as an auditor reads it: every record with its decision, and whether the masters accepted it.

A log that is there from offset 0 is folded by the real `Fold`, so a verdict is what every master came to. A log that was
trimmed cannot be folded from where it begins: there the verdict follows from the acceptance fields alone (P1). The first
decision is then taken for an accepted one, and a later one that shows it was not (somebody decided under a newer epoch,
which only an accepted grant allows) sets that right. Nothing here reads Kafka.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from eventflink.audit import LogFaulty
from eventflink.events.codec import DecisionCodec, UndecodableRecord
from eventflink.events.decision import Decision
from eventflink.leadership.acceptance import Acceptance, LogNotDense, check_density, is_grant
from eventflink.leadership.fold import Fold, LogDiverged, LogUnusable

Record = tuple[int, int, bytes]
"""(offset, Kafka's timestamp in milliseconds, value) of one record."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of the log."""

    offset: int
    timestamp_ms: int
    """Kafka's, not the leader's."""
    byte_count: int
    decision: Decision
    rejection: str | None
    """Why the fold passed over the decision; None: it was accepted."""
    log_time_ms: int
    """The log's clock after it, which never goes back: when the last accepted decision up to it was made."""

    @property
    def accepted(self) -> bool:
        """Tell whether the decision counts."""
        return self.rejection is None


FOREIGN: Final = "foreign: no master wrote it"
"""Why a record without a decision does not count."""


def foreign_entry(record: Record, log_time_ms: int) -> Entry:
    """Return the entry of a record that no master wrote: a decision without anything, which does not count."""
    offset, timestamp_ms, value = record
    nothing = Decision(epoch=0, sequence=0, leader_id="", decided_at_ms=timestamp_ms, previous_hash=b"", causes=(), actor="", events=())
    return Entry(offset, timestamp_ms, len(value), nothing, FOREIGN, log_time_ms)


class Judge(Protocol):
    """Takes records in offset order and says what became of each."""

    def judge_record(self, record: Record) -> Entry | None:
        """Return the record's entry; None: it was read before.

        Raises:
            LogFaulty: the record cannot be read, or does not fit the ones before it.

        """


class FoldJudge:
    """Folds the log from offset 0 on; `fold` is the state after the last record taken."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold

    def judge_record(self, record: Record) -> Entry | None:
        """Return the record's entry; None: it was read before.

        Raises:
            LogFaulty: the record cannot be read, or does not fit the ones before it.

        """
        offset, timestamp_ms, value = record
        fold = self.fold
        passed_over = fold.rejected_count + fold.foreign_count
        try:
            decision = fold.fold_record(offset, timestamp_ms, value)
        except (LogUnusable, LogDiverged, LogNotDense) as error:
            raise LogFaulty(str(error)) from error
        if decision is not None:
            return Entry(offset, timestamp_ms, len(value), decision, None, fold.last_decided_at_ms)
        if fold.rejected_count + fold.foreign_count == passed_over:
            return None
        if fold.codec.is_foreign(offset, value):
            return foreign_entry(record, fold.last_decided_at_ms)
        decision = fold.codec.decode(value)
        return Entry(offset, timestamp_ms, len(value), decision, rejection_of(decision, fold.acceptance), fold.last_decided_at_ms)


class AcceptanceJudge:
    """Judges a log whose beginning was trimmed away, by epoch, sequence and leader alone."""

    def __init__(self, first_offset: int, codec: DecisionCodec) -> None:
        self._codec = codec
        self._last_offset = first_offset - 1
        self._log_time_ms = 0
        self._acceptance: Acceptance | None = None
        self._assumed = True
        """Where the log stands is a guess, until a leader decides whose grant was seen: only a winner does."""

    def judge_record(self, record: Record) -> Entry | None:
        """Return the record's entry; None: it was read before.

        Raises:
            LogFaulty: the record cannot be read, or one before it is missing.

        """
        offset, timestamp_ms, value = record
        try:
            if not check_density(self._last_offset, offset):
                return None
            if self._codec.is_foreign(offset, value):
                self._last_offset = offset
                return foreign_entry(record, self._log_time_ms)
            decision = self._codec.decode(value)
        except (LogNotDense, UndecodableRecord) as error:
            raise LogFaulty(f"log@{offset}: {error}") from error
        self._last_offset = offset
        rejection = self._judge(decision)
        if rejection is None:
            self._log_time_ms = max(self._log_time_ms, decision.decided_at_ms)
        return Entry(offset, timestamp_ms, len(value), decision, rejection, self._log_time_ms)

    def _judge(self, decision: Decision) -> str | None:
        epoch, sequence, leader_id = decision.epoch, decision.sequence, decision.leader_id
        now = self._acceptance
        grant = is_grant(decision)
        if now is None or (self._assumed and _shows_newer(decision, now, grant=grant)):
            self._acceptance = Acceptance(epoch, sequence, leader_id)
            return None
        if not now.accepts(epoch, sequence, leader_id, grant=grant):
            return rejection_of(decision, now)
        now.advance(epoch, sequence, leader_id)
        self._assumed = self._assumed and sequence != 1
        return None


def _shows_newer(decision: Decision, now: Acceptance, *, grant: bool) -> bool:
    """Tell whether the decision can only have been made after a grant that was not seen.

    A leader has read its own grant back, and a candidate has read the grant before its own.
    """
    if grant:
        return decision.epoch > now.epoch + 1
    unseen_rival = decision.epoch == now.epoch and now.sequence == 0 and decision.leader_id != now.leader_id
    return decision.epoch > now.epoch or unseen_rival


def rejection_of(decision: Decision, acceptance: Acceptance) -> str:
    """Return why a decision that came at `acceptance` does not count, in words."""
    if is_grant(decision):
        if decision.epoch <= acceptance.epoch:
            return f"epoch {decision.epoch} was granted already; epoch {acceptance.epoch} is {acceptance.leader_id}'s"
        return f"a grant of epoch {decision.epoch} does not follow on epoch {acceptance.epoch}"
    if decision.epoch != acceptance.epoch:
        return f"epoch {decision.epoch} is over: epoch {acceptance.epoch} is {acceptance.leader_id}'s"
    if decision.leader_id != acceptance.leader_id:
        return f"epoch {decision.epoch} is {acceptance.leader_id}'s"
    return f"sequence {decision.sequence} does not follow on {acceptance.sequence}"


def judge_for(first_offset: int, fold: Fold) -> Judge:
    """Return the judge for a log that begins at `first_offset`; `fold` is an empty one."""
    return FoldJudge(fold) if first_offset == 0 else AcceptanceJudge(first_offset, fold.codec)


def read_entries(records: Iterable[Record], judge: Judge) -> Iterator[Entry]:
    """Yield the entries of records, which come in offset order.

    Raises:
        LogFaulty: a record cannot be read, or does not fit the ones before it.

    """
    for record in records:
        entry = judge.judge_record(record)
        if entry is not None:
            yield entry
