"""The sink of a batch task into a table of Iceberg: its rows, and the mark that they were written, are one commit of the table.

Spark writes the files below the location of the table, into a folder of the attempt's own; the process of the task commits them. The writer
of the mark (`streams/iceberg_table.py`) is the subtask, whichever attempt writes. The rules it keeps, besides those of `table_sink.py`:

- An attempt looks for the mark before it computes anything: where an earlier one has committed, it has finished.
- What replaces rows is committed beside the files that were there when it began, or not at all: the rows may have been computed from
  them, and a merge (`streams/iceberg_merge.py`) has compared them with its own. It began when the task read the table as its source, if
  it has; else when the table was opened here.
- An attempt removes what it has written if it knows that nothing of it is in the table, and never what another attempt has written.
"""

import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eventflink.model.attempts import UNKNOWN_COUNT, AttemptId
from eventflink.model.batch_sink_document import batch_table_of
from eventflink.model.iceberg_catalogs import IcebergCatalog
from eventflink.model.job_graph import StreamSink
from eventflink.model.secret_masks import hide
from eventflink.streams.failures import SinkUnavailable
from eventflink.streams.iceberg_catalogs import load_named_catalog
from eventflink.streams.merging import MergeBy, merge_of
from eventflink.taskexecutor.io_metrics import TableCommit
from eventflink.taskexecutor.table_sink import check_earlier

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask
    from pyspark.sql import DataFrame

    from eventflink.streams.iceberg_merge import Merge
    from eventflink.streams.iceberg_table import Fit, IcebergTable

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
    from eventflink.streams.iceberg_table import commit_once, open_table  # noqa: PLC0415 - what it needs is an extra

    writer_id = f"{cluster_id}/{attempt.job_id}/{attempt.vertex_id}/{attempt.subtask_index}"
    merge_by = merge_of(declared)
    of_table = rows if merge_by is None else merge_by.rows_of_table(rows)
    table = open_table(catalog, declared.name or "", of_table.schema, declared.partition_by)
    if (mark := table.mark_of(writer_id)) is not None:
        return _earlier(mark, attempt, table.name, writer_id)
    fit = table.fit(of_table.schema, declared.partition_by, merge_by)
    write = _Write(table, declared.mode, (read or {}).get(sink.location, table.snapshot_id))
    write.have_written(rows, fit, merge_by, writer_id)
    size_bytes = sum(file.file_size_in_bytes for file in write.files)
    said = {"attempt": attempt.attempt, "commit": uuid.uuid4().hex, "rows": write.rows, "bytes": size_bytes}
    committed = commit_once(table, fit, write.files, write.find_replaced, writer_id, said, lambda _mark: True)
    if committed.get("commit") != said["commit"]:
        return _earlier(committed, attempt, table.name, writer_id)
    logger.info("TableWritten writer=%s mode=%s rows=%d table=%s", writer_id, declared.mode, said["rows"], table.name)
    return _commit_of(committed)


class _Write:
    """What an attempt writes, and which files of the table go for it."""

    def __init__(self, table: "IcebergTable", mode: str, began_with: int | None) -> None:
        """Name the version of the table of which the attempt knows."""
        self._table = table
        self._mode = mode
        self._began_with = began_with
        self._within: BooleanExpression | None = None
        self._merge: Merge | None = None
        self.files: Sequence[DataFile] = ()
        self.rows = 0

    def have_written(self, rows: "DataFrame", fit: "Fit", merge_by: MergeBy | None, writer_id: str) -> None:
        """Have Spark write the files; raises as `write_to_iceberg` does."""
        from eventflink.streams.iceberg_files import write_files  # noqa: PLC0415 - what it needs is an extra
        from eventflink.streams.iceberg_merge import write_merged  # noqa: PLC0415 - likewise

        if merge_by is not None:
            what = f"task {writer_id}" if merge_by.takes_one_of_each else ""
            self._merge = write_merged(rows, self._table, fit, merge_by, self._began_with, one_of_each_in=what)
            self.files, self.rows = self._merge.files, self._merge.rows
            return
        self.files = write_files(rows, self._table, fit)
        self.rows = sum(file.record_count for file in self.files)
        if self._mode != "append":
            self._within = self._table.replaced_by(self.files, is_all=self._mode == "overwrite")

    def find_replaced(self) -> "Sequence[FileScanTask]":
        """Return which files of the newest version go.

        Raises:
            SinkUnavailable: what the attempt knows of is not what is there.
            TableUnusable: one of them has rows of other partitions as well.

        """
        there: Sequence[FileScanTask] | None = []
        if self._merge is not None:
            there = self._merge.find_replaced(self._table)
        elif self._within is not None:
            there = self._table.files_as_they_were(self._within, self._began_with)
        if there is None:
            raise SinkUnavailable(
                f"nothing was written to the table {self._table.name}: another writer changed at the same time what is replaced; the next "
                "attempt writes it, where the restart strategy or 'retries' allow one"
            )
        if self._mode == "overwrite-partitions":
            self._table.check_partitioned(there)
        return there


def _earlier(mark: Mapping[str, Any], attempt: AttemptId, table: str, writer_id: str) -> TableCommit:
    """Return what another attempt has committed, unless that was none that came before this one."""
    check_earlier(mark.get("attempt", 0), attempt, f"the table {table} has the rows of {writer_id}")
    logger.info("TableWrittenBefore writer=%s attempt=%d table=%s", writer_id, mark.get("attempt", 0), table)
    return _commit_of(mark)


def _commit_of(mark: Mapping[str, Any]) -> TableCommit:
    return TableCommit(int(mark.get("rows", UNKNOWN_COUNT)), int(mark.get("bytes", UNKNOWN_COUNT)))
