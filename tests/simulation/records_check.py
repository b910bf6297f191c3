"""Judges what streams commit: each record of a source counts exactly once, in its order, and never by an older attempt after a newer one.

It sees what a reader of committed records sees, and when.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from eventflink.streams.sink_protocol import KafkaSinkSettings
from eventflink.testing.simulation.committed_records import CommittedRecords
from eventflink.testing.simulation.transcript import Transcript
from eventflink.testing.simulation.violations import Invariant, ViolationFound

if TYPE_CHECKING:
    from eventflink.events.log_events import SavepointRequest


class RecordsCheck(CommittedRecords):
    """The committed records of all subtasks of a run, which are what they have to be."""

    def __init__(self, transcript: Transcript) -> None:
        super().__init__(transcript)
        self.stopped: dict[str, SavepointRequest] = {}
        """The jobs that have stopped with a savepoint that is complete, as the ledger finds (S3)."""

    def committed(self, writer: KafkaSinkSettings, written: Iterable[tuple[int, range]]) -> None:
        """Take the records of a transaction, with the offset at which each part of them stands.

        Raises:
            ViolationFound: they count twice, or others are left out, or a newer attempt was there before, or the job has stopped.

        """
        written, answer = list(written), self.answer_of(writer)
        who = f"attempt {writer.attempt} of {writer.writer_id}"
        if writer.attempt < answer.attempt:
            raise ViolationFound(Invariant.RECORDS_ONCE, f"{who} commits records after attempt {answer.attempt} has")
        if (stopped := self.stopped.get(writer.writer_id.partition("/")[0])) is not None:
            raise ViolationFound(Invariant.SAVEPOINTS, f"{who} commits records after {stopped.path} was complete")
        count, last_offset = answer.count, answer.offset
        for offset, records in written:
            if records.start != count or offset < last_offset:
                message = f"{who} commits the records from {records.start} on at {offset}; {count} count, up to {last_offset}"
                raise ViolationFound(Invariant.RECORDS_ONCE, message)
            count, last_offset = records.stop, offset
        super().committed(writer, written)

    def delivered(self, writer: KafkaSinkSettings, records: range) -> None:
        """Take the records of a batch that a function of the user got: they may come again, and none may be left out.

        Raises:
            ViolationFound: some are left out.

        """
        count = self.count(writer.writer_id)
        if records.start > count:
            message = f"attempt {writer.attempt} of {writer.writer_id} delivers the records from {records.start} on; {count} were"
            raise ViolationFound(Invariant.RECORDS_COMPLETE, message)
        super().delivered(writer, records)

    def finished(self, writer: KafkaSinkSettings, end: int) -> None:
        """Take that a bounded query has ended, which was to read its source up to that record.

        Raises:
            ViolationFound: it has not.

        """
        count = self.count(writer.writer_id)
        if count < end:
            message = f"attempt {writer.attempt} of {writer.writer_id} has finished; {count} of {end} records count"
            raise ViolationFound(Invariant.RECORDS_COMPLETE, message)
