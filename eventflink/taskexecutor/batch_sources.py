"""The tables that a batch task reads as its sources: planned when the task first asks for their rows, at one version each.

What is read of a table of Iceberg is `streams/iceberg_scan.py`'s, and of Delta `streams/delta_source.py`'s. The rule it keeps: an attempt
reads a source at one version, which the log of the attempt names; where it also replaces rows of that table of Iceberg, it replaces what
it has read, or nothing (`iceberg_sink.py`).
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from eventflink.model.attempts import UNKNOWN_COUNT, SourceSnapshot
from eventflink.model.batch_source_document import SourceTableDocument, source_table_of
from eventflink.model.iceberg_catalogs import IcebergCatalog
from eventflink.model.job_graph import StreamSource
from eventflink.model.secret_masks import hide
from eventflink.model.statuses import StreamFormat
from eventflink.streams.delta_source import read_table
from eventflink.streams.delta_table import find_path
from eventflink.streams.failures import SinkUnavailable, SourceUnavailable
from eventflink.streams.iceberg_catalogs import load_named_catalog
from eventflink.taskexecutor.io_metrics import TableRead

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import DataFrame, SparkSession

    from eventflink.streams.iceberg_scan import Scan

logger = logging.getLogger(__name__)


class BatchSources:
    """The sources of one attempt."""

    def __init__(
        self, sources: Iterable[StreamSource], catalogs: Iterable[IcebergCatalog], on_catalog: Callable[[str], None] = lambda _: None
    ) -> None:
        self._sources = {source.name: source for source in sources}
        self._catalogs = tuple(catalogs)
        self._on_catalog = on_catalog
        self.newest: dict[str, int | None] = {}
        """Of the tables that were read as they are, by their location: the newest snapshot."""
        self.newest_paths: set[str] = set()
        """Of those of Delta: their paths."""
        self.read: list[TableRead] = []
        """What was planned to be read so far."""

    def readers(self, open_spark: "Callable[[], SparkSession]", parameters: Mapping[str, Any]) -> "dict[str, Callable[[], DataFrame]]":
        """Return what reads each source, by its name."""
        return {name: partial(self._read, source, open_spark, parameters) for name, source in self._sources.items()}

    def give_catalog(self, name: str) -> "Catalog":
        """Return a catalogue of this TaskExecutor for the task's own code; raises as `load_named_catalog` does."""
        self._on_catalog(name)
        return load_named_catalog(self._catalogs, name, hide)

    def _read(self, source: StreamSource, open_spark: "Callable[[], SparkSession]", parameters: Mapping[str, Any]) -> "DataFrame":
        """Return the rows of a source.

        Raises:
            TableUnusable: it cannot be read as it is declared.
            SourceUnavailable: its catalogue does not answer, or the store of its files.

        """
        declared = source_table_of(source)
        if source.stream_format is StreamFormat.DELTA:
            path = find_path(open_spark(), declared.location)
            rows, version = read_table(open_spark(), source.name, declared, path, parameters)
            if declared.is_newest:
                self.newest_paths.add(path)
            self.read.append(TableRead(UNKNOWN_COUNT, UNKNOWN_COUNT, SourceSnapshot(source.name, version)))
            logger.info("TableRead source=%s table=%s version=%d", source.name, source.location, version)
            return rows
        return self._read_iceberg(source, declared, open_spark, parameters)

    def _read_iceberg(
        self,
        source: StreamSource,
        declared: SourceTableDocument,
        open_spark: "Callable[[], SparkSession]",
        parameters: Mapping[str, Any],
    ) -> "DataFrame":
        try:
            catalog = load_named_catalog(self._catalogs, declared.catalog or "", hide)
            from eventflink.streams.iceberg_rows import read_scan  # noqa: PLC0415 - what it needs is an extra
            from eventflink.streams.iceberg_scan import plan_scan  # noqa: PLC0415 - likewise

            scan = plan_scan(catalog, declared, parameters)
        except SinkUnavailable as error:
            raise SourceUnavailable(f"source '{source.name}', the table {source.location}, was not read: {error}") from error
        self._note(source, scan)
        if declared.is_newest:
            self.newest.setdefault(source.location, scan.snapshot_id)
        return read_scan(open_spark(), scan)

    def _note(self, source: StreamSource, scan: "Scan") -> None:
        snapshot = SourceSnapshot(source.name, scan.snapshot_id if scan.snapshot_id is not None else -1)
        self.read.append(TableRead(UNKNOWN_COUNT if scan.has_condition else scan.rows, scan.size_bytes, snapshot))
        what = (source.name, scan.table, scan.snapshot_id, len(scan.files), scan.size_bytes)
        logger.info("TableRead source=%s table=%s snapshot=%s files=%d bytes=%d", *what)
