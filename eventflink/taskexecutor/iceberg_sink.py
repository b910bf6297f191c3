"""The sink of a batch task into a table of Iceberg: its rows, and the mark that they were written, are one commit of the table.

Spark writes the files below the location of the table, into a folder of the attempt's own; the process of the task commits them. The writer
of the mark (`streams/iceberg_table.py`) is the subtask, whichever attempt writes. The rules it keeps, besides those of `table_sink.py`:

- An attempt looks for the mark before it computes anything: where an earlier one has committed, it has finished.
- What replaces rows is committed beside the files that were there when it began, or not at all: the rows may have been computed from them.
  It began when the task read the table as its source, if it has; else when the table was opened here.
- An attempt removes what it has written if it knows that nothing of it is in the table, and never what another attempt has written.
"""

import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eventflink.model.attempts import UNKNOWN_COUNT, AttemptId
from eventflink.model.batch_sink_document import BatchTableDocument, batch_table_of
from eventflink.model.iceberg_catalogs import IcebergCatalog
from eventflink.model.job_graph import StreamSink
from eventflink.model.secret_masks import hide
from eventflink.streams.failures import SinkUnavailable
from eventflink.streams.iceberg_catalogs import load_named_catalog
from eventflink.taskexecutor.io_metrics import TableCommit
from eventflink.taskexecutor.table_sink import check_earlier

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask
    from pyspark.sql import DataFrame

    from eventflink.streams.iceberg_table import IcebergTable

logger = logging.getLogger(__name__)


def write_to_iceberg(
    rows: "DataFrame",
    sink: StreamSink,
    catalogs: Iterable[IcebergCatalog],
    cluster_id: str,
    attempt: AttemptId,
    read: Mapping[str, int | None] | None = None,
) -> TableCommit:
    """Write the rows of a subtask, unless an earlier attempt of it has; return what is there of it.

    Args:
        rows: what is written.
        sink: where.
        catalogs: those of this TaskExecutor.
        cluster_id: whose job it is.
        attempt: which one writes.
        read: the newest snapshots of tables that the rows may be computed from, by the tables' locations.

    Raises:
        TableUnusable: there is no such catalogue here, or the rows do not fit the table.
        SinkFenced: a newer attempt has written.
        SinkTaken: another job of the same id has written.
        SinkUnavailable: the catalogue does not answer, or others changed what this one replaces.

    """
    declared = batch_table_of(sink)
    catalog = load_named_catalog(catalogs, declared.catalog or "", hide)
    from eventflink.streams.iceberg_files import write_files  # noqa: PLC0415 - what it needs is an extra
    from eventflink.streams.iceberg_table import commit_once, open_table  # noqa: PLC0415 - likewise

    writer_id = f"{cluster_id}/{attempt.job_id}/{attempt.vertex_id}/{attempt.subtask_index}"
    table = open_table(catalog, declared.name or "", rows.schema, declared.partition_by)
    if (mark := table.mark_of(writer_id)) is not None:
        return _earlier(mark, attempt, table.name, writer_id)
    fit = table.fit(rows.schema, declared.partition_by)
    began_with = (read or {}).get(sink.location, table.snapshot_id)
    files = write_files(rows, table, fit)
    size_bytes = sum(file.file_size_in_bytes for file in files)
    said = {"attempt": attempt.attempt, "commit": uuid.uuid4().hex, "rows": sum(file.record_count for file in files), "bytes": size_bytes}

    def find_replaced() -> "Sequence[FileScanTask]":
        return _find_replaced(table, declared, files, began_with)

    committed = commit_once(table, fit, files, find_replaced, writer_id, said, lambda _mark: True)
    if committed.get("commit") != said["commit"]:
        return _earlier(committed, attempt, table.name, writer_id)
    logger.info("TableWritten writer=%s mode=%s rows=%d table=%s", writer_id, declared.mode, said["rows"], table.name)
    return _commit_of(committed)


def _earlier(mark: Mapping[str, Any], attempt: AttemptId, table: str, writer_id: str) -> TableCommit:
    """Return what another attempt has committed, unless that was none that came before this one."""
    check_earlier(mark.get("attempt", 0), attempt, f"the table {table} has the rows of {writer_id}")
    logger.info("TableWrittenBefore writer=%s attempt=%d table=%s", writer_id, mark.get("attempt", 0), table)
    return _commit_of(mark)


def _commit_of(mark: Mapping[str, Any]) -> TableCommit:
    return TableCommit(int(mark.get("rows", UNKNOWN_COUNT)), int(mark.get("bytes", UNKNOWN_COUNT)))


def _find_replaced(
    table: "IcebergTable", declared: BatchTableDocument, new: "Sequence[DataFile]", began_with: int | None
) -> "Sequence[FileScanTask]":
    """Return which files the new ones replace.

    Raises:
        SinkUnavailable: they are others than when the attempt began.
        TableUnusable: one of them has rows of other partitions as well.

    """
    if declared.mode == "append":
        return []
    rows = table.replaced_by(new, is_all=declared.mode == "overwrite")
    there = table.files_with(rows, table.snapshot_id)
    if table.snapshot_id != began_with and _contents(there) != _contents(table.files_with(rows, began_with)):
        raise SinkUnavailable(
            f"nothing was written to the table {table.name}: another writer changed at the same time what is replaced; the next attempt "
            "writes it, where the restart strategy or 'retries' allow one"
        )
    if declared.mode != "overwrite":
        table.check_partitioned(there)
    return there


def _contents(files: "Iterable[FileScanTask]") -> set[tuple[str, ...]]:
    """Return what files have: which rows of them were deleted stands in others."""
    return {(task.file.file_path, *sorted(each.file_path for each in task.delete_files)) for task in files}
