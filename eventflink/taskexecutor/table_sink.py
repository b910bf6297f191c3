"""The sink of a batch task: its rows, and the mark that they were written, are one commit of a table of Delta Lake.

The writer of the mark (`streams/delta_table.py`) is the subtask, whichever attempt writes. The rules it keeps:

- All attempts have one number. So the rows of the first one that commits are there, and those of no other, whether it comes after that
  one, runs at the same time, or is an old one that nobody waits for any more.
- The commit is the last thing that a task does before it reports: what it reads, and what it publishes besides, was whole before.
- An attempt that finds the mark of an earlier one has finished. It never takes another job's mark for its own job's: each commit says
  which attempt made it, and no attempt runs twice.
"""

import json
import logging
import uuid
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from eventflink.model.attempts import UNKNOWN_COUNT, AttemptId
from eventflink.model.batch_sink_document import batch_table_of
from eventflink.model.job_graph import StreamSink
from eventflink.model.places import in_one_spelling
from eventflink.streams.delta_table import CommitMark, find_path, is_conflict, make_table, merge, quoted_table, read_mark
from eventflink.streams.failures import SinkFenced, SinkTaken, SinkUnavailable, TableUnusable
from eventflink.streams.merging import merge_of
from eventflink.taskexecutor.io_metrics import TableCommit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

_NUMBER: Final = 1
"""That of the only commit of a writer."""
_RECENT: Final = 20
"""In so many of the newest commits of a table that of this attempt is looked for, which tells how much it wrote."""


def write_to_table(
    rows: "DataFrame", sink: StreamSink, cluster_id: str, attempt: AttemptId, read_as_it_is: Collection[str] = ()
) -> TableCommit:
    """Write the rows of a subtask, unless an earlier attempt of it has; return what is there of it.

    Args:
        rows: of the subtask.
        sink: of its vertex.
        cluster_id: whose mark it is.
        attempt: who writes.
        read_as_it_is: the paths of tables that the attempt has read at their newest versions.

    Raises:
        TableUnusable: this Spark has no Delta, or the rows do not fit the table.
        SinkFenced: a newer attempt has written.
        SinkTaken: another job of the same id has written.
        SinkUnavailable: others changed what this one replaces.

    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    table, writer_id = batch_table_of(sink), f"{cluster_id}/{attempt.job_id}/{attempt.vertex_id}/{attempt.subtask_index}"
    merge_by = merge_of(table)
    of_table = rows if merge_by is None else merge_by.rows_of_table(rows)
    path = find_path(rows.sparkSession, table.location, of_table, table.partition_by)
    if table.mode in ("overwrite", "overwrite-partitions") and in_one_spelling(path) in map(in_one_spelling, read_as_it_is):
        raise TableUnusable(
            f"the table {table.location} is read and replaced by one task, and would lose the rows that others add meanwhile: read it at a "
            "'version', or take mode: merge"
        )
    make_table(of_table, path, table.partition_by, merge_by)
    said = {"writer": writer_id, "attempt": attempt.attempt, "commit": uuid.uuid4().hex}
    conflict = None
    try:
        mark = CommitMark(writer_id, _NUMBER, json.dumps(said))
        if merge_by is not None:
            counting = merge_by.one_row_of_each(rows, f"task {writer_id}") if merge_by.takes_one_of_each else rows
            merge(counting, path, merge_by, mark)
        else:
            _save(rows, path, table.mode, mark)
    except PySparkException as error:
        if not is_conflict(error):
            raise
        conflict = error  # With another writer, or with another attempt, which may have committed.
    there, commit = _find_commit(rows.sparkSession, path, writer_id)
    if there is None:
        raise SinkUnavailable(
            f"nothing was written to the table {table.location}: another writer changed it at the same time; the next attempt writes it, "
            "where the restart strategy or 'retries' allow one"
        ) from conflict
    if there.get("commit") == said["commit"]:
        logger.info("TableWritten writer=%s mode=%s rows=%d path=%s", writer_id, table.mode, commit.rows, path)
    else:
        check_earlier(there.get("attempt", 0), attempt, f"the table {table.location} has the rows of {writer_id}")
        logger.info("TableWrittenBefore writer=%s attempt=%d path=%s", writer_id, there.get("attempt", 0), path)
    return commit


def _save(rows: "DataFrame", path: str, mode: str, mark: CommitMark) -> None:
    writing = rows.write.format("delta").mode("append" if mode == "append" else "overwrite").options(**mark.options)
    # Said in any case: the session may have another default.
    writing.option("partitionOverwriteMode", "dynamic" if mode == "overwrite-partitions" else "static").save(path)


def _find_commit(spark: "SparkSession", path: str, writer_id: str) -> tuple[Mapping[str, Any] | None, TableCommit]:
    """Return what the commit of a writer says of itself, None if there is none, and what it wrote."""
    begin = json.dumps({"writer": writer_id}).removesuffix("}") + ","
    for row in spark.sql(f"DESCRIBE HISTORY {quoted_table(path)} LIMIT {_RECENT}").select("userMetadata", "operationMetrics").collect():
        if (row.userMetadata or "").startswith(begin):
            return json.loads(row.userMetadata), _commit_of(row.operationMetrics or {})
    mark = read_mark(spark, path, writer_id)
    return (mark.said if mark is not None else None), TableCommit()


def _commit_of(metrics: Mapping[str, str]) -> TableCommit:
    if "numTargetRowsInserted" in metrics:  # A merge copies rows of files that it has to write anew.
        rows = int(metrics["numTargetRowsInserted"]) + int(metrics.get("numTargetRowsUpdated", 0))
        return TableCommit(rows, int(metrics.get("numTargetBytesAdded", UNKNOWN_COUNT)))
    return TableCommit(int(metrics.get("numOutputRows", UNKNOWN_COUNT)), int(metrics.get("numOutputBytes", UNKNOWN_COUNT)))


def check_earlier(committed: int, attempt: AttemptId, what: str) -> None:
    """Check that the attempt that has committed is an earlier one; 0: it is an old one, of which the table knows no more."""
    if committed > attempt.attempt:
        raise SinkFenced(f"{what} from attempt {committed}, which is newer than attempt {attempt.attempt}")
    if committed == attempt.attempt:
        raise SinkTaken(f"{what} already, from another job of the same id: submit this one with an id that no other job has had")
