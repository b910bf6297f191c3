"""The sink for tables of Delta Lake that counts each batch once: a batch, and the mark that it was written, are one commit of the table.

It runs where Spark calls `foreachBatch`. Delta keeps a number for each writer (`txnAppId`, `txnVersion`), and leaves out a commit whose
number is not above it; of two at the same time that have one writer, one fails. The writer is the subtask, whichever attempt writes, and
the number is that of the batch. The rules it keeps:

- A batch has one number, whichever attempt writes it, so the table has it once (S1). An older attempt can only write the batch that a
  newer attempt repeats: both read the batches and their offsets from one checkpoint directory, which notes each batch once.
- Who settles the table for a savepoint takes the number of the next batch back, by a commit without rows: what an older query has begun
  is left out then, and the next query writes the batch by the number after that (S3).
- A query whose batch was left out learns why: it ends, unless the batch is there (S2).
"""

import json
import logging
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eventflink.model.backoff import Backoff
from eventflink.streams.client_watch import ClientWatch
from eventflink.streams.failures import CheckpointLost, SinkFenced, SinkUnavailable, StreamUnusable
from eventflink.streams.progress import offsets_fingerprint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

DELTA_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
"""What a Spark that has Delta's tables names in `spark.sql.extensions`."""

_NUMBERS: Final = 1_000_000
"""A batch has that many numbers: the first one, and one more for each that was taken back."""

_LOG_FILES: Final = "_delta_log/[0-9]*"
_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)")
"""A file of a checkpoint of the table's log, with how many there are of it if there are several."""

_AT_ONCE: Final = 100
"""So many older commits are read at once."""
_ACTIONS: Final = "txn STRUCT<appId: STRING, version: BIGINT>, commitInfo STRUCT<userMetadata: STRING>"
_MAKING_TRIES: Final = 8
_MAKING_PAUSE_S: Final = 0.1
_LONGEST_MAKING_PAUSE_S: Final = 2.0
_CONFLICT: Final = re.compile(r"DELTA_(CONCURRENT|METADATA_CHANGED|PROTOCOL_CHANGED|METADATA_MISMATCH_CONCURRENT)|Concurrent\w*Exception")
"""What Delta says when another writer was quicker."""


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


@dataclass(frozen=True, slots=True)
class TableMark:
    """What a table has of a writer: the number of its newest commit, and what that is."""

    number: int
    is_taken_back: bool = False
    """Whether it has no rows, so that the batch may come by the next number."""
    offsets: str = ""
    """A fingerprint of the offsets that the batch has read up to; empty: they are not known."""

    @property
    def batch_id(self) -> int:
        """The batch that has this number."""
        return self.number // _NUMBERS


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
            if not _is_conflict(error):
                raise
            logger.info("BatchWrittenMeanwhile writer=%s batch=%d", self._settings.writer_id, next_batch_id)
        mark = read_mark(spark, path, self._settings.writer_id)
        if mark is None or mark.number != number:
            raise SinkUnavailable(f"the table {path} did not take the mark after batch {next_batch_id - 1} of {self._settings.writer_id}")
        return next_batch_id if mark.is_taken_back else next_batch_id + 1

    def _open(self, spark: "SparkSession", batch_id: int) -> None:
        """Learn what was written, once, and refuse a checkpoint directory that does not fit it."""
        if self._is_open:
            return
        settings = self._settings
        if (mark := read_mark(spark, settings.path, settings.writer_id)) is not None:
            self._next_batch_id = mark.batch_id + (0 if mark.is_taken_back else 1)
            self._taken_back = mark.number % _NUMBERS + (1 if mark.is_taken_back else 0)
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
        offsets = offsets_fingerprint(Path(self._settings.location), written)
        if not mark.is_taken_back and offsets and mark.offsets not in ("", offsets):
            raise CheckpointLost(f"batch {written} was written to the table {path} before, and had read up to other offsets: {why}")

    def _number(self, batch_id: int) -> int:
        return batch_id * _NUMBERS + self._taken_back

    def _commit(self, rows: "DataFrame", batch_id: int, *, is_taken_back: bool) -> str:
        """Append the rows with the mark of a batch, unless Delta has a mark of that number; return what its history says of the commit."""
        settings = self._settings
        offsets = offsets_fingerprint(Path(settings.location), batch_id)
        text = json.dumps(
            {"writer": settings.writer_id, "attempt": settings.attempt, "batch": batch_id, "offsets": offsets, "taken_back": is_taken_back}
        )
        mark = {"txnAppId": settings.writer_id, "txnVersion": str(self._number(batch_id)), "userMetadata": text}
        rows.write.format("delta").mode("append").options(**mark).save(settings.path)
        return text

    def _find_out(self, mark: TableMark | None, batch_id: int) -> None:
        """Find out whether a batch is there that the newest commit of the table does not have."""
        if mark is None or mark.number != self._number(batch_id) or mark.is_taken_back:
            raise SinkFenced(
                f"a newer query of {self._settings.writer_id} writes to the table {self._settings.path}: batch {batch_id} was not written"
            )


def read_mark(spark: "SparkSession", path: str, writer_id: str) -> TableMark | None:
    """Return the mark of a writer in a table, from its log as Delta's protocol has it: the newest checkpoint, and the commits after it.

    What the commit of the mark was, no checkpoint says: it is looked for in older commits as well. Of one that Delta has removed after
    the time that it keeps commits (`delta.logRetentionDuration`, 30 days), it is a batch that was written.
    """
    files = [row.path for row in spark.read.format("binaryFile").load(f"{path}/{_LOG_FILES}").select("path").collect()]
    checkpoint, newer, older = files_to_read(files)
    texts = _texts_of(spark, newer, writer_id)
    number = max([*_numbers_in(spark, checkpoint, writer_id), *texts], default=-1)
    if number < 0:
        return None
    while number not in texts and older:
        texts, older = _texts_of(spark, older[:_AT_ONCE], writer_id), older[_AT_ONCE:]
    said = json.loads(texts.get(number) or "{}")
    return TableMark(number, bool(said.get("taken_back", False)), str(said.get("offsets", "")))


def _numbers_in(spark: "SparkSession", checkpoint: list[str], writer_id: str) -> list[int]:
    """Return the number of a writer that a checkpoint of the log has, if it has any."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    reader, found = spark.read.schema(_ACTIONS), []
    for read, suffix in ((reader.parquet, ".parquet"), (lambda *paths: reader.json(list(paths)), ".json")):
        if paths := [file for file in checkpoint if file.endswith(suffix)]:
            found += read(*paths).where(f.col("txn.appId") == writer_id).select("txn.version").collect()
    return [row.version for row in found]


def _texts_of(spark: "SparkSession", commits: list[str], writer_id: str) -> dict[int, str]:
    """Return what commits of a writer say of themselves, by their numbers."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    if not commits:
        return {}
    is_mine = f.col("txn.appId") == writer_id
    actions = spark.read.schema(_ACTIONS).json(commits).where(is_mine | f.col("commitInfo.userMetadata").isNotNull())
    rows = actions.select("_metadata.file_name", "txn.version", "commitInfo.userMetadata").collect()
    texts = {row.file_name: row.userMetadata for row in rows if row.userMetadata is not None}
    return {row.version: texts.get(row.file_name, "") for row in rows if row.version is not None}


def files_to_read(files: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the files of the newest checkpoint that is whole, those of the commits after it, and those up to it, the newest first."""
    commits: dict[int, str] = {}
    checkpoints: dict[tuple[int, int], list[str]] = {}
    for file in files:
        name = file.rpartition("/")[2]
        if found := _COMMIT.fullmatch(name):
            commits[int(found[1])] = file
        elif found := _CHECKPOINT.fullmatch(name):
            checkpoints.setdefault((int(found[1]), int(found[2] or 0)), []).append(file)
    whole = [(version, count) for (version, count), parts in checkpoints.items() if len(parts) >= count]
    newest = max(whole, default=(-1, 0))
    newer = [commits[version] for version in sorted(commits) if version > newest[0]]
    older = [commits[version] for version in sorted(commits, reverse=True) if version <= newest[0]]
    return checkpoints.get(newest, []), newer, older


def _newest_text(spark: "SparkSession", path: str) -> str | None:
    newest = spark.sql(f"DESCRIBE HISTORY {_quoted(path)} LIMIT 1").first()
    return newest.userMetadata if newest is not None else None


def _quoted(path: str) -> str:
    return f"delta.`{path}`"


def _is_conflict(error: Exception) -> bool:
    return _CONFLICT.search(str(error)) is not None


def make_table(rows: "DataFrame", path: str, partition_by: list[str]) -> None:
    """Make the table of a sink where there is none, and check one that is there; what Delta raises passes through.

    Raises:
        StreamUnusable: this Spark has no Delta, or the rows do not fit the table.

    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    spark, pauses = rows.sparkSession, Backoff(_MAKING_PAUSE_S, _LONGEST_MAKING_PAUSE_S)
    if DELTA_EXTENSION not in (spark.conf.get("spark.sql.extensions", "") or ""):
        raise StreamUnusable(
            "the sink is a table of Delta, and the Spark that runs this task has none: set 'spark.tables: delta' where TaskExecutors are "
            "configured, stop all of this host, and start them again ten seconds later, when the Spark that they share has ended; a server "
            "of spark.remote needs the jars and settings of docs/tables.md"
        )
    nothing = spark.createDataFrame([], rows.schema).write.format("delta").mode("ignore")
    if partition_by:
        nothing = nothing.partitionBy(*partition_by)
    for remaining in reversed(range(_MAKING_TRIES)):
        try:
            nothing.save(path)
            break
        except PySparkException as error:
            if not remaining or not _is_conflict(error):  # Another subtask makes it at this moment.
                raise
            time.sleep(pauses.next())
    table = {field.name.lower(): field for field in spark.read.format("delta").load(path).schema.fields}
    have = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    problems = [f"the table has no column '{name}'" for name in have if name.lower() not in table]
    problems += [
        f"column '{name}' is {kind}, and {there} in the table"
        for name, kind in have.items()
        if name.lower() in table and kind.lower() != (there := table[name.lower()].dataType.simpleString()).lower()
    ]
    detail = spark.sql(f"DESCRIBE DETAIL {_quoted(path)}").first()
    partitioned_by = list(detail.partitionColumns) if detail is not None else []
    if partition_by and partition_by != partitioned_by:
        problems.append(f"partition_by names {', '.join(partition_by)}, and the table has {', '.join(partitioned_by) or 'no partitions'}")
    lower = {name.lower() for name in have}
    problems += [
        f"the table is partitioned by '{name}', and the rows do not have it" for name in partitioned_by if name.lower() not in lower
    ]
    if problems:
        raise StreamUnusable(f"the rows do not fit the table {path}: {'; '.join(problems[:3])}")
