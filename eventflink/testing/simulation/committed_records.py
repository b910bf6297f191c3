"""The records that streams have committed, as a reader of committed records sees them.

A record is its number in the source of its subtask, from 0 on.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from eventflink.streams.sink_protocol import KafkaSinkSettings
from eventflink.testing.simulation.transcript import Transcript


@dataclass(slots=True)
class Committed:
    """What counts of one subtask."""

    count: int = 0
    """How many records: the first so many of the source."""
    offset: int = -1
    """Of the last one, in the sink's topic."""
    attempt: int = 0


class CommittedRecords:
    """The committed records of all subtasks of a run."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._answers: dict[str, Committed] = {}

    def count(self, writer_id: str) -> int:
        """Return how many records of a subtask's source count."""
        answer = self._answers.get(writer_id)
        return 0 if answer is None else answer.count

    def begin(self, writer_id: str, count: int) -> None:
        """Let a subtask go on after the records that another job's have committed, up to its savepoint."""
        self._answers.setdefault(writer_id, Committed(count))
        self._transcript.note("sink", f"{writer_id} begins in a savepoint that holds {count} records")

    def committed(self, writer: KafkaSinkSettings, written: Iterable[tuple[int, range]]) -> None:
        """Take the records of a transaction, with the offset at which each part of them stands."""
        answer = self.answer_of(writer)
        answer.attempt, first = writer.attempt, answer.count
        for offset, records in written:
            answer.count, answer.offset = records.stop, offset
        what = f"the records from {first} to {answer.count}"
        self._transcript.note("sink", f"attempt {writer.attempt} of {writer.writer_id} has committed {what}")

    def delivered(self, writer: KafkaSinkSettings, records: range) -> None:
        """Take the records of a batch that a function of the user got: they may come again."""
        answer = self.answer_of(writer)
        answer.count = max(answer.count, records.stop)

    def finished(self, writer: KafkaSinkSettings, end: int) -> None:
        """Take that a bounded query has ended, which was to read its source up to that record."""

    def answer_of(self, writer: KafkaSinkSettings) -> Committed:
        """Return what counts of the subtask of a writer."""
        return self._answers.setdefault(writer.writer_id, Committed())
