"""The sink for tables of Delta Lake that counts each batch once: a batch, and the mark that it was written, are one commit of the table.

It runs where Spark calls `foreachBatch`. The writer of the mark (`delta_table.py`) is the subtask, whichever attempt writes, and the number
is that of the batch. The rules it keeps:

- A batch has one number, whichever attempt writes it, so the table has it once (S1). An older attempt can only write the batch that a
  newer attempt repeats: both read the batches and their offsets from one checkpoint directory, which notes each batch once.
- Who settles the table for a savepoint takes the number of the next batch back, by a commit without rows: what an older query has begun
  is left out then, and the next query writes the batch by the number after that (S3).
- A query whose batch was left out learns why: it ends, unless the batch is there (S2).
"""

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from eventflink.model.places import Place
from eventflink.streams.client_watch import ClientWatch
from eventflink.streams.delta_table import CommitMark, TableMark, is_conflict, merge, quoted_table, read_mark
from eventflink.streams.failures import CheckpointLost, SinkFenced, SinkUnavailable
from eventflink.streams.merging import MergeBy
from eventflink.streams.progress import offsets_fingerprint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

_NUMBERS: Final = 1_000_000
"""A batch has that many numbers: the first one, and one more for each that was taken back."""


@dataclass(frozen=True, slots=True)
class DeltaSinkSettings:
    """Where batches go, and whose they are."""

    path: str
    """The path of the table."""
    writer_id: str
    """The id of the subtask, the same for all its attempts."""
    attempt: int
    location: str
    """The checkpoint directory of the subtask."""
    first_batch_id: int = 0
    """Batches below it are in the table, written by the job from whose savepoint this one began."""
    merge_by: MergeBy | None = None
    """By what rows are merged; None: they are appended."""


class DeltaSink:
    """What Spark calls with each batch of a stream; each subtask has its own mark in the table."""

    def __init__(self, settings: DeltaSinkSettings) -> None:
        """Look at nothing: the object is pickled, and works in another process."""
        self._settings = settings
        self._is_open = False
        self._next_batch_id = settings.first_batch_id
        self._taken_back = 0
        """How many numbers of batches were taken back so far; each attempt reads it from the table."""
        self._watch = ClientWatch()

    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        """Write a batch in one commit, or only compute it if it was written before.

        Raises:
            SinkFenced: a newer query writes, or has taken the number of the batch back.
            CheckpointLost: the checkpoint directory does not fit what was written.
            ClientSilent: nobody waits for this stream any more.

        """
        spark = batch.sparkSession
        self._watch.check(spark)
        self._open(spark, batch_id)
        if batch_id < self._next_batch_id:
            logger.info("BatchRepeated writer=%s batch=%d", self._settings.writer_id, batch_id)
            batch.write.format("noop").mode("overwrite").save()
            return
        text = self._commit(batch, batch_id, is_taken_back=False)
        if _newest_text(spark, self._settings.path) != text:
            self._find_out(read_mark(spark, self._settings.path, self._settings.writer_id), batch_id)
        self._next_batch_id = batch_id + 1

    def settle(self, spark: "SparkSession", next_batch_id: int) -> int:
        """Let no older query write any more, and return the number of the batch that the table has not got yet.

        Args:
            spark: reads and writes the table.
            next_batch_id: the first batch that the checkpoint directory does not have as done.

        Raises:
            CheckpointLost: the checkpoint directory does not fit what was written.
            SinkUnavailable: the table did not take it.

        """
        self._open(spark, next_batch_id)
        if next_batch_id < self._next_batch_id:
            return self._next_batch_id
        from pyspark.errors import PySparkException  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

        path, number = self._settings.path, self._number(next_batch_id)
        nothing = spark.read.format("delta").load(path).limit(0)
        try:
            self._commit(nothing, next_batch_id, is_taken_back=True)
        except PySparkException as error:
            if not is_conflict(error):
                raise
            logger.info("BatchWrittenMeanwhile writer=%s batch=%d", self._settings.writer_id, next_batch_id)
        mark = read_mark(spark, path, self._settings.writer_id)
        if mark is None or mark.number != number:
            raise SinkUnavailable(f"the table {path} did not take the mark after batch {next_batch_id - 1} of {self._settings.writer_id}")
        return next_batch_id if _is_taken_back(mark) else next_batch_id + 1

    def _open(self, spark: "SparkSession", batch_id: int) -> None:
        """Learn what was written, once, and refuse a checkpoint directory that does not fit it."""
        if self._is_open:
            return
        settings = self._settings
        if (mark := read_mark(spark, settings.path, settings.writer_id)) is not None:
            self._next_batch_id = mark.number // _NUMBERS + (0 if _is_taken_back(mark) else 1)
            self._taken_back = mark.number % _NUMBERS + (1 if _is_taken_back(mark) else 0)
            self._check_directory(mark, batch_id)
        self._is_open = True

    def _check_directory(self, mark: TableMark, batch_id: int) -> None:
        """Spark repeats the last batch at the most, with its records, and leaves none out."""
        path, writer = self._settings.path, self._settings.writer_id
        why = f"the checkpoint directory was lost, or is another's, or another job was called {writer}"
        written = self._next_batch_id - 1
        if batch_id < written:
            raise CheckpointLost(f"batch {batch_id} is to be written to the table {path}, and batch {written} was written before: {why}")
        if batch_id > self._next_batch_id:
            raise CheckpointLost(
                f"batch {batch_id} is to be written to the table {path}, and batch {self._next_batch_id} is not there: {why}"
            )
        offsets = offsets_fingerprint(Place(self._settings.location), written)
        if not _is_taken_back(mark) and offsets and mark.said.get("offsets", "") not in ("", offsets):
            raise CheckpointLost(f"batch {written} was written to the table {path} before, and had read up to other offsets: {why}")

    def _number(self, batch_id: int) -> int:
        return batch_id * _NUMBERS + self._taken_back

    def _commit(self, rows: "DataFrame", batch_id: int, *, is_taken_back: bool) -> str:
        """Write the rows with the mark of a batch, unless Delta has a mark of that number; return what its history says of the commit."""
        settings = self._settings
        offsets = offsets_fingerprint(Place(settings.location), batch_id)
        text = json.dumps(
            {"writer": settings.writer_id, "attempt": settings.attempt, "batch": batch_id, "offsets": offsets, "taken_back": is_taken_back}
        )
        mark = CommitMark(settings.writer_id, self._number(batch_id), text)
        if settings.merge_by is not None and not is_taken_back:
            one_each = settings.merge_by.one_row_of_each(rows, f"batch {batch_id} of {settings.writer_id}")
            merge(one_each, settings.path, settings.merge_by, mark)
        else:
            _check_there(rows.sparkSession, settings.path)
            rows.write.format("delta").mode("append").options(**mark.options).save(settings.path)
        return text

    def _find_out(self, mark: TableMark | None, batch_id: int) -> None:
        """Find out whether a batch is there that the newest commit of the table does not have."""
        if mark is None or mark.number != self._number(batch_id) or _is_taken_back(mark):
            raise SinkFenced(
                f"a newer query of {self._settings.writer_id} writes to the table {self._settings.path}: batch {batch_id} was not written"
            )


def _is_taken_back(mark: TableMark) -> bool:
    """Tell whether a commit has no rows, so that its batch may come by the next number."""
    return bool(mark.said.get("taken_back", False))


def _check_there(spark: "SparkSession", path: str) -> None:
    """Have Spark raise if the table is gone: Delta would make it again, without its partitions."""
    _ = spark.read.format("delta").load(path).schema


def _newest_text(spark: "SparkSession", path: str) -> str | None:
    newest = spark.sql(f"DESCRIBE HISTORY {quoted_table(path)} LIMIT 1").first()
    return newest.userMetadata if newest is not None else None
