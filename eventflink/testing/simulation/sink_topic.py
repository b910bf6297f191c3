"""Kafka as the sinks of streams see it: transactions, who may still commit them, and the marks that count with them.

Each call is what a request does when it arrives. It is Kafka since 3.6 (KIP-890): a request that comes after the end of its transaction
is refused, and opens none. A transaction that is open for too long is aborted when somebody next looks, with its producer fenced.
"""

from dataclasses import dataclass, field

from eventflink.streams.sink_protocol import KafkaSinkSettings, Mark
from eventflink.testing.simulation.committed_records import CommittedRecords
from eventflink.testing.simulation.scheduler import MILLISECOND, Scheduler


class ProducerFenced(Exception):
    """A newer producer has the transactional id, or the transaction took too long."""


class MarkUnstable(Exception):
    """A transaction is open that moves the mark."""


@dataclass(slots=True, eq=False)
class _Transaction:
    deadline_us: int
    parts: list[tuple[int, range]] = field(default_factory=list)
    """Offset and records of each part that was written."""
    mark: Mark | None = None


@dataclass(slots=True, eq=False)
class _TransactionalId:
    epoch: int = 0
    is_open: _Transaction | None = None
    has_committed: bool = False
    """How the last transaction of this epoch has ended: a commit that is repeated succeeds."""


class SinkTopic:
    """One topic that every stream of a run writes, and its transaction coordinator."""

    def __init__(self, scheduler: Scheduler, records: CommittedRecords) -> None:
        self._scheduler = scheduler
        self._records = records
        self._ids: dict[str, dict[str, _TransactionalId]] = {}
        """By writer, for whose mark those of all its transactional ids matter."""
        self._marks: dict[str, Mark] = {}
        self._end_offset = 0

    def find_mark(self, writer_id: str, *, awaits_transactions: bool) -> Mark | None:
        """Return the mark that counts.

        Raises:
            MarkUnstable: it is to be waited for, and a transaction is open that moves it.

        """
        if awaits_transactions and any(t.is_open and t.is_open.mark for t in map(self._expire, self._ids.get(writer_id, {}).values())):
            raise MarkUnstable
        return self._marks.get(writer_id)

    def init_transactions(self, writer: KafkaSinkSettings) -> int:
        """Abort what is open under the transactional id; return the epoch of its newest producer."""
        known = self._ids.setdefault(writer.writer_id, {}).setdefault(writer.transactional_id, _TransactionalId())
        known.is_open, known.has_committed = None, False
        known.epoch += 1
        return known.epoch

    def write(self, writer: KafkaSinkSettings, epoch: int, records: range) -> None:
        """Append a part of a batch; one that is sent again is there already. Raises `ProducerFenced`, as what follows does."""
        transaction = self._transaction_of(writer, epoch)
        if all(part != records for _, part in transaction.parts):
            transaction.parts.append((self._end_offset, records))
            self._end_offset += len(records)

    def send_mark(self, writer: KafkaSinkSettings, epoch: int, mark: Mark) -> None:
        """Let the transaction move the mark of its writer."""
        self._transaction_of(writer, epoch).mark = mark

    def commit(self, writer: KafkaSinkSettings, epoch: int) -> None:
        """Let everything count that is in the transaction."""
        known = self._known(writer, epoch)
        transaction, known.is_open = known.is_open, None
        if transaction is None:
            if not known.has_committed:
                raise ProducerFenced
            return
        known.has_committed = True
        if transaction.mark is not None:
            self._marks[writer.writer_id] = transaction.mark
        if transaction.parts:  # Else it has only moved the mark.
            self._records.committed(writer, transaction.parts)

    def abort(self, writer: KafkaSinkSettings, epoch: int) -> None:
        """Let nothing count that is in the transaction."""
        self._known(writer, epoch).is_open = None

    def _transaction_of(self, writer: KafkaSinkSettings, epoch: int) -> _Transaction:
        known = self._known(writer, epoch)
        if known.is_open is None:
            known.has_committed = False
            known.is_open = _Transaction(self._scheduler.now_us + writer.transaction_timeout_ms * MILLISECOND)
        return known.is_open

    def _known(self, writer: KafkaSinkSettings, epoch: int) -> _TransactionalId:
        known = self._expire(self._ids[writer.writer_id][writer.transactional_id])
        if epoch != known.epoch:
            raise ProducerFenced
        return known

    def _expire(self, known: _TransactionalId) -> _TransactionalId:
        if known.is_open is not None and self._scheduler.now_us > known.is_open.deadline_us:
            known.is_open = None
            known.epoch += 1
        return known
