"""Judges what streams commit: each record of a source counts exactly once, in its order, and never by an older attempt after a newer one.

It sees what a reader of committed records sees, and when. A record is its number in the source of its subtask, from 0 on.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from eventflink.lab.simulation.ledger import Ledger
from eventflink.lab.simulation.transcript import Transcript
from eventflink.lab.simulation.violations import Invariant, ViolationFound
from eventflink.streams.sink_protocol import KafkaSinkSettings


@dataclass(slots=True)
class _Answer:
    """What counts of one subtask."""

    count: int = 0
    """How many records: the first so many of the source."""
    offset: int = -1
    """Of the last one, in the sink's topic."""
    attempt: int = 0


class RecordsCheck:
    """The committed records of all subtasks of a run."""

    def __init__(self, ledger: Ledger, transcript: Transcript) -> None:
        """`ledger` is told what counts, and knows which jobs have stopped with a savepoint (S3)."""
        self._ledger = ledger
        self._transcript = transcript
        self._answers: dict[str, _Answer] = {}

    def count(self, writer_id: str) -> int:
        """Return how many records of a subtask's source count."""
        answer = self._answers.get(writer_id)
        return 0 if answer is None else answer.count

    def begin(self, writer_id: str, count: int) -> None:
        """Let a subtask go on after the records that another job's have committed, up to its savepoint."""
        self._answers.setdefault(writer_id, _Answer(count))
        self._ledger.committed_records.setdefault(writer_id, count)
        self._transcript.note("sink", f"{writer_id} begins in a savepoint that holds {count} records")

    def committed(self, writer: KafkaSinkSettings, written: Iterable[tuple[int, range]]) -> None:
        """Take the records of a transaction, with the offset at which each part of them stands.

        Raises:
            ViolationFound: they count twice, or others are left out, or a newer attempt was there before, or the job has stopped.

        """
        answer = self._answers.setdefault(writer.writer_id, _Answer())
        who = f"attempt {writer.attempt} of {writer.writer_id}"
        if writer.attempt < answer.attempt:
            raise ViolationFound(Invariant.RECORDS_ONCE, f"{who} commits records after attempt {answer.attempt} has")
        if (stopped := self._ledger.stopped.get(writer.writer_id.partition("/")[0])) is not None:
            raise ViolationFound(Invariant.SAVEPOINTS, f"{who} commits records after {stopped.path} was complete")
        answer.attempt = writer.attempt
        first = answer.count
        for offset, records in written:
            if records.start != answer.count or offset < answer.offset:
                message = f"{who} commits the records from {records.start} on at {offset}; {answer.count} count, up to {answer.offset}"
                raise ViolationFound(Invariant.RECORDS_ONCE, message)
            answer.count, answer.offset = records.stop, offset
        self._ledger.committed_records[writer.writer_id] = answer.count
        self._transcript.note("sink", f"{who} has committed the records from {first} to {answer.count}")

    def delivered(self, writer: KafkaSinkSettings, records: range) -> None:
        """Take the records of a batch that a function of the user got: they may come again, and none may be left out.

        Raises:
            ViolationFound: some are left out.

        """
        answer = self._answers.setdefault(writer.writer_id, _Answer())
        if records.start > answer.count:
            message = f"attempt {writer.attempt} of {writer.writer_id} delivers the records from {records.start} on; {answer.count} were"
            raise ViolationFound(Invariant.RECORDS_COMPLETE, message)
        answer.count = max(answer.count, records.stop)

    def finished(self, writer: KafkaSinkSettings, end: int) -> None:
        """Take that a bounded query has ended, which was to read its source up to that record.

        Raises:
            ViolationFound: it has not.

        """
        count = self.count(writer.writer_id)
        if count < end:
            message = f"attempt {writer.attempt} of {writer.writer_id} has finished; {count} of {end} records count"
            raise ViolationFound(Invariant.RECORDS_COMPLETE, message)
