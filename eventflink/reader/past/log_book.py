"""The whole of a log as a historian has it: its records, their index, and the states in between, all from one reading in order.

Where the log begins behind its first record, the records before the oldest snapshot are judged by their acceptance fields alone, and there
is no state of them. The rule: memory is bounded; where a log has more than fits, its beginning is forgotten.
"""

from collections.abc import Iterable
from typing import Final

from eventflink.audit.entries import AcceptanceJudge, Entry, FoldJudge, Judge, Record, foreign_entry, rejection_of
from eventflink.audit.filters import LogPlace
from eventflink.leadership.acceptance import Acceptance
from eventflink.leadership.fold import Fold
from eventflink.master.settings import MasterSettings
from eventflink.reader.past.fold_pickle import dump_fold, load_fold
from eventflink.reader.past.log_index import LogIndex
from eventflink.reader.past.port import HistoryRefused, Refusal
from eventflink.reader.past.record_store import RecordStore
from eventflink.reader.past.state_ring import StateRing, StatesOfThePast
from eventflink.views.plain import iso_time

MAX_RECORDS: Final = 2_000_000
MAX_RECORD_BYTES: Final = 256 * 1024 * 1024
"""Of what is kept of a log, packed."""

_FORGOTTEN_SHARE: Final = 8
"""An eighth is forgotten at once: moving what is left costs time."""


class LogBook:
    """What one process knows of a log, from `first_offset` on."""

    def __init__(self, first_offset: int, fold: Fold, *, max_records: int = MAX_RECORDS, for_one_answer: bool = False) -> None:
        """Begin at a record; `fold` stands before it, or behind it where the records between have no state.

        `for_one_answer`: whoever asks does it once, about the newest state. So nothing is forgotten, however long the log is, and no
        states in between are kept, which take more time than all the rest.
        """
        self.store = RecordStore(first_offset)
        self.index = LogIndex(first_offset)
        self.fold = fold
        """The newest state, which moves on with the log."""
        self.states_from = max(first_offset, fold.last_offset)
        """The first record whose state is known."""
        self._codec = fold.codec
        self._judge: Judge = AcceptanceJudge(first_offset, fold.codec) if fold.last_offset >= first_offset else FoldJudge(fold)
        self._ring = StateRing()
        self._ring.take(fold)
        self.states = StatesOfThePast(self._ring, self.store.read, fold.codec)
        self._max_records = max_records
        self._for_one_answer = for_one_answer

    @property
    def first_offset(self) -> int:
        """The first record that is known."""
        return self.store.first_offset

    @property
    def last_offset(self) -> int:
        """The last record that is known; one less than the first: none is."""
        return self.store.end_offset - 1

    def follow(self, records: Iterable[Record]) -> None:
        """Take the next records.

        Raises:
            LogFaulty: one of them cannot be read, or does not fit those before it; then nothing here is of use any more.

        """
        for record in records:
            entry = self._judge.judge_record(record)
            if entry is None:
                continue
            self.store.append(record)
            folds = isinstance(self._judge, FoldJudge)
            self.index.follow_entry(entry, self.fold.master.follow_ups if folds else None)
            if not folds and entry.offset == self.fold.last_offset:
                self._judge = FoldJudge(self.fold)
            elif folds and not self._for_one_answer:
                self._ring.offer(self.fold)
        kept = self.store.end_offset - self.store.first_offset
        too_much = kept > self._max_records or self.store.byte_count > MAX_RECORD_BYTES
        if too_much and not self._for_one_answer:
            self._forget(kept // _FORGOTTEN_SHARE)

    def _forget(self, count: int) -> None:
        offset = self.first_offset + count
        if offset > self.states_from:  # What follows is folded on from the state before it.
            self._ring.begin_with(self.state_at(offset - 1))
        self.store.drop_before(offset)
        self.index.drop_before(offset)
        self.states_from = max(self.states_from, offset)

    def entry(self, offset: int) -> Entry:
        """Return a record with its decision and what became of it.

        Raises:
            LookupError: it is not kept.

        """
        record_offset, timestamp_ms, value = record = self.store.record(offset)
        if self._codec.is_foreign(offset, value):
            return foreign_entry(record, self.index.time_at(offset))
        decision = self._codec.decode(value)
        rejection = rejection_of(decision, self._acceptance_before(offset)) if self.index.is_rejected(offset) else None
        return Entry(record_offset, timestamp_ms, len(value), decision, rejection, self.index.time_at(offset))

    def _acceptance_before(self, offset: int) -> Acceptance:
        """Return where the log stood before a rejected record: at the last accepted one."""
        while offset > self.first_offset:
            offset -= 1
            if not self.index.is_rejected(offset):
                decision = self._codec.decode(self.store.record(offset)[2])
                return Acceptance(decision.epoch, decision.sequence, decision.leader_id)
        return Acceptance()

    def state_at(self, offset: int) -> Fold:
        """Return the state after a record; nobody changes it, and it is the reader's until the next question.

        Raises:
            HistoryRefused: it is before the first state that is known, or the record is not known yet.

        """
        self._check_state(offset)
        return self.fold if offset == self.fold.last_offset else self.states.at(offset)

    def copy_of_state_at(self, offset: int, settings: MasterSettings) -> Fold:
        """Return the state after a record for whoever asks to change it and to decide with `settings`; raises as `state_at` does."""
        return load_fold(dump_fold(self.state_at(offset)), self._codec, settings)

    def _check_state(self, offset: int) -> None:
        self.check(offset)
        if offset < self.states_from:
            raise HistoryRefused(Refusal.GONE, f"history begins at offset {self.states_from}")

    def check(self, offset: int) -> None:
        """Check that a record is known.

        Raises:
            HistoryRefused: it is not.

        """
        if offset < self.first_offset:
            raise HistoryRefused(Refusal.GONE, f"history begins at offset {self.first_offset}")
        self.check_known(offset)

    def check_known(self, offset: int) -> None:
        """Check that the log is known up to a record, from wherever on.

        Raises:
            HistoryRefused: it is not.

        """
        if offset > self.last_offset:
            raise HistoryRefused(Refusal.NOT_YET, f"the log is indexed up to offset {self.last_offset}, not yet up to {offset}")

    def offset_of(self, place: LogPlace | None) -> int:
        """Return the record that a place names: the last one until a time, and without a place the newest.

        Raises:
            HistoryRefused: it is not known; of a time, as long as no later record is.

        """
        offset = self.last_offset
        if offset < self.first_offset:
            raise HistoryRefused(Refusal.NOT_YET, "nothing of the log is indexed yet")
        if place is not None and place.offset is not None:
            offset = place.offset
        elif place is not None and place.at_ms is not None:
            offset = self.index.offset_at(place.at_ms)
            if offset == self.last_offset:
                raise HistoryRefused(Refusal.NOT_YET, f"the log is indexed up to {self.time(offset)}, offset {offset}, not yet up to then")
            if offset < self.first_offset:
                raise HistoryRefused(Refusal.GONE, f"history begins at {self.time(self.first_offset)}, offset {self.first_offset}")
        self.check(offset)
        return offset

    def range_of(self, first: LogPlace | None, last: LogPlace | None) -> tuple[int, int]:
        """Return the first record of a part of the log, both ends of which belong to it, and the one after its last, as far as known."""
        start, end = self.first_offset, self.last_offset + 1
        if first is not None and first.offset is not None:
            start = max(start, first.offset)
        elif first is not None and first.at_ms is not None:
            start = self.index.offset_at(first.at_ms - 1) + 1
        if last is not None and last.offset is not None:
            end = min(end, last.offset + 1)
        elif last is not None and last.at_ms is not None:
            end = self.index.offset_at(last.at_ms) + 1
        return start, max(start, end)

    def time(self, offset: int) -> str | None:
        """Return when a record was decided."""
        return iso_time(self.index.time_at(offset))
