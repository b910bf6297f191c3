"""What an exactly-once sink does with a batch, step by step: the sinks for Kafka, Iceberg and databases, without their I/O.

Who carries the steps out gives back what each found, or raises, which ends the attempt; the simulation carries them out in virtual time.
What makes the repetition of a batch harmless:

- In the transaction of a batch goes its mark: the number of the next batch. A batch below the mark was written, and is only computed again,
  for the state that Spark has to have of it (S1).
- A newer attempt ends what an older one has begun, and lets it never commit again. In Kafka its first word does, for the transactional id
  is the subtask's (KIP-98). An attempt that finds the mark of a newer one ends, and does so before it ends anything of that (S2).
- Who settles the sink for a savepoint puts its own number into the mark. A query that begins to write after that finds it (S3).
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final, Protocol

from eventflink.model.kafka_settings import KafkaAccess
from eventflink.streams.failures import CheckpointLost, SinkFenced


class SinkSettings(Protocol):
    """Where batches go, and whose they are, as far as it decides what is done with them."""

    @property
    def target(self) -> str:
        """What the sink is called in messages."""

    @property
    def writer_id(self) -> str:
        """Of the subtask, the same for all its attempts."""

    @property
    def attempt(self) -> int:
        """Its number."""

    @property
    def query(self) -> int:
        """Its number within the attempt."""

    @property
    def first_batch_id(self) -> int:
        """Batches below it were written before the savepoint from which the stream began."""


@dataclass(frozen=True, slots=True)
class KafkaSinkSettings:
    """Where batches go, and whose they are."""

    kafka: KafkaAccess
    """It travels into another process."""
    topic: str
    """Of several the first by name: the mark is kept beside it."""
    writer_id: str
    """Of the subtask, the same for all its attempts."""
    attempt: int
    transaction_timeout_ms: int
    location: str
    """The checkpoint directory of the subtask."""
    first_batch_id: int = 0
    """Batches below it are in the topic, written by the job from whose savepoint this one began."""
    query: int = 1
    """Its number within the attempt, which may stop one and start another."""
    fixed_partitions: tuple[tuple[str, int], ...] = ()
    """Topics of which this subtask writes one partition only."""

    @property
    def target(self) -> str:
        """What the sink is called in messages."""
        return f"'{self.topic}'"

    @property
    def transactional_id(self) -> str:
        """The same for all attempts: a newer one fences the older (S2)."""
        return self.writer_id


@dataclass(frozen=True, slots=True)
class Mark:
    """What counts with the records of a batch, or not at all, as they do."""

    next_batch_id: int
    attempt: int
    """Which one moved the mark."""
    offsets: str = ""
    """Of what the batch read, a fingerprint; empty: nobody knows."""
    query: int = 1
    """Which query of the attempt, or what settled the sink after that."""


@dataclass(frozen=True, slots=True)
class ReadMark:
    """Find the mark that counts, or none; `awaits_transactions`: once every transaction has ended that may change it."""

    awaits_transactions: bool


@dataclass(frozen=True, slots=True)
class FenceOlder:
    """Abort what older attempts have begun, and let them commit nothing more."""


@dataclass(frozen=True, slots=True)
class ComputeBatch:
    """Compute the batch, and write nothing."""


@dataclass(frozen=True, slots=True)
class BeginTransaction:
    """Begin the transaction of the batch: from here on, what fails aborts it."""


@dataclass(frozen=True, slots=True)
class WriteRecords:
    """Write the records of the batch."""


@dataclass(frozen=True, slots=True)
class SendMark:
    """Let the transaction move the mark."""

    mark: Mark


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit the transaction: then the batch counts."""


SinkStep = ReadMark | FenceOlder | ComputeBatch | BeginTransaction | WriteRecords | SendMark | Commit

BEFORE_FENCING: Final = ReadMark(awaits_transactions=False)
AFTER_FENCING: Final = ReadMark(awaits_transactions=True)


class SinkProtocol:
    """What one attempt knows of its subtask's sink."""

    def __init__(self, settings: SinkSettings) -> None:
        """Know nothing yet."""
        self._settings = settings
        self._is_open = False
        self._next_batch_id = settings.first_batch_id
        self._written_offsets = ""
        """The fingerprint of what the last written batch read, where this attempt has not written one."""

    def steps(self, batch_id: int, offsets: str, offsets_before: str = "") -> Generator[SinkStep, Mark | None, None]:
        """Yield what to do with a batch, each step when the one before is done; `ReadMark` takes what it found.

        Args:
            batch_id: its number.
            offsets: a fingerprint of what it reads; empty: unknown.
            offsets_before: the same of the batch before.

        Raises:
            SinkFenced: a newer attempt writes.
            CheckpointLost: batches beyond the next one were written before, or it or the one before was, and read something else.

        """
        if not self._is_open:
            yield from self.opening()
            self._check_directory(batch_id, offsets, offsets_before)
            self._is_open = True
        if self._is_written(batch_id):
            yield ComputeBatch()
            return
        yield BeginTransaction()
        yield WriteRecords()
        yield SendMark(self._mark(batch_id + 1, offsets))
        yield Commit()
        self._next_batch_id = batch_id + 1

    def opening(self) -> Generator[SinkStep, Mark | None, None]:
        """Yield the steps before anything is written: older attempts are ended, and what they have written is known.

        Raises:
            SinkFenced: a newer attempt writes.

        """
        # This attempt may itself be an older one that is only late.
        self._take_mark((yield BEFORE_FENCING))
        yield FenceOlder()
        self._take_mark((yield AFTER_FENCING))

    def settling(self, batch_id: int, offsets: str, offsets_before: str = "") -> Generator[SinkStep, Mark | None, None]:
        """Yield the steps after which nothing more is written of this query and older ones, so that a savepoint can say what was.

        Args:
            batch_id: the first that the checkpoint directory does not have as done.
            offsets: a fingerprint of what it was to read; empty: it was not begun.
            offsets_before: the same of the batch before.

        Raises:
            SinkFenced: a newer attempt writes.
            CheckpointLost: the directory is behind what was written.

        """
        yield from self.opening()
        self._check_directory(batch_id, offsets, offsets_before)
        if not offsets and batch_id < self._next_batch_id and self._written_offsets:
            raise CheckpointLost(f"batch {batch_id} was written to {self._settings.target}, and the checkpoint directory does not have it")
        # A query that has written nothing yet is not fenced: it finds this mark when it begins. It would not find one of the next job.
        yield BeginTransaction()
        yield SendMark(self._mark(self._next_batch_id, self._written_offsets))
        yield Commit()

    @property
    def next_batch_id(self) -> int:
        """The number of the batch that the sink has not got yet, as far as this attempt knows."""
        return self._next_batch_id

    def _mark(self, next_batch_id: int, offsets: str) -> Mark:
        return Mark(next_batch_id, self._settings.attempt, offsets, self._settings.query)

    def _take_mark(self, mark: Mark | None) -> None:
        if mark is None:
            return
        settings = self._settings
        if (mark.attempt, mark.query) > (settings.attempt, settings.query):
            raise SinkFenced(f"{_name(mark)} of {settings.writer_id} has written to {settings.target}: this is {_name(settings)}")
        if mark.next_batch_id >= settings.first_batch_id:
            self._next_batch_id, self._written_offsets = mark.next_batch_id, mark.offsets

    def _check_directory(self, batch_id: int, offsets: str, offsets_before: str) -> None:
        """Spark repeats the last batch at the most, with its records: else others would come under numbers that were written."""
        written, target, writer = self._next_batch_id - 1, self._settings.target, self._settings.writer_id
        if batch_id < written:
            raise CheckpointLost(
                f"batch {batch_id} is to be written to {target}, and batch {written} was written before: the checkpoint directory was "
                f"lost, or another job was called {writer}"
            )
        # A directory that lost its newest batch may have got another one of that number, which an older attempt then noted as done.
        noted = {written: offsets, written + 1: offsets_before}.get(batch_id, "")
        if noted and self._written_offsets not in ("", noted):
            raise CheckpointLost(
                f"batch {written} was written to {target} before, and had read up to other offsets: the checkpoint directory has lost "
                f"its newest batch, or another job was called {writer}"
            )

    def _is_written(self, batch_id: int) -> bool:
        return batch_id < self._next_batch_id


def _name(writer: SinkSettings | Mark) -> str:
    return f"query {writer.query} of attempt {writer.attempt}"


def next_step(steps: Generator[SinkStep, Mark | None, None], found: Mark | None) -> SinkStep | None:
    """Return the step after the one that found this; None: the batch is done. Raises what `SinkProtocol.steps` does."""
    try:
        return steps.send(found)
    except StopIteration:
        return None
