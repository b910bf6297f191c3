"""The part of a JobGraph document that sends the rows of a batch task to a table, and every check of it.

The core's record is the one that a stream's sink has too, with the place of the table and all other keys as one JSON object. The
rule it keeps: what can be known to be wrong before a job runs is refused here, with its place.

    sink: {table: {path: /data/sales, partition_by: [day], mode: overwrite-partitions}, format: delta}
"""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

from eventflink.model.batch_source_document import BatchSourceDocument
from eventflink.model.document_fields import canonical_json
from eventflink.model.job_graph import StreamSink
from eventflink.model.places import in_one_spelling
from eventflink.model.statuses import StreamConnector, StreamFormat
from eventflink.model.stream_document import TableDocument, TableSinkDocument, end_document


class BatchTableDocument(TableSinkDocument):
    """A table that a batch task writes once, in one commit for each subtask."""

    mode: Literal["append", "overwrite", "overwrite-partitions", "merge"] = "append"
    """What becomes of the rows that are there: all of them stay, none does, those of partitions that have no new rows, or those that no
    new row has the keys of."""

    @model_validator(mode="after")
    def _check_mode(self) -> Self:
        if self.mode == "overwrite-partitions" and not self.partition_by:
            raise ValueError("mode: overwrite-partitions needs 'partition_by', the columns by which the table is partitioned")
        return self


class BatchSinkDocument(BaseModel):
    """The sink of a batch task: a table."""

    model_config = ConfigDict(extra="forbid")

    table: BatchTableDocument
    format: Literal["delta", "iceberg"]

    @model_validator(mode="before")
    @classmethod
    def _check_kind(cls, written: object) -> object:
        if isinstance(written, Mapping) and (others := [key for key in ("kafka", "files", "python") if key in written]):
            raise ValueError(f"{others[0]}: it is for streams; the sink of a batch task is a 'table'")
        return written

    @model_validator(mode="after")
    def _check_format(self) -> Self:
        if fault := self.table.find_format_fault(self.format):
            raise ValueError(fault)
        return self

    def find_parallelism_fault(self, parallelism: int) -> str:
        """Return why so many subtasks cannot write it, behind its place; empty: they can."""
        if parallelism == 1 or self.table.mode == "append":
            return ""
        return (
            f"table.mode: {self.table.mode} is one commit of all rows, and each of {parallelism} subtasks has a part of them: give the "
            "vertex parallelism 1 (Spark runs its one query on all its cores), or take mode: append"
        )

    def replaces_newest(self, source: BatchSourceDocument) -> bool:
        """Tell whether rows go that a source reads at no version of its own, where the table's format does not tell what came since."""
        is_same = "delta" == self.format == source.format and _spelled(self.table) == _spelled(source.table)
        return is_same and source.table.is_newest and self.table.mode in ("overwrite", "overwrite-partitions")

    def to_record(self) -> StreamSink:
        """Return the core's record."""
        options = self.table.model_dump(exclude_defaults=True, exclude={"path", "catalog", "name"})
        return StreamSink(
            connector=StreamConnector.TABLE,
            location=self.table.location,
            stream_format=StreamFormat(self.format.upper()),
            options_json=canonical_json(options),
        )


def _spelled(table: TableDocument) -> str:
    """Return one spelling for all that a table of Delta may be called; its path and its name are two, which a task compares."""
    return in_one_spelling(table.path) if table.path is not None else (table.name or "").lower().removeprefix("spark_catalog.")


def batch_table_of(sink: StreamSink) -> BatchTableDocument:
    """Return what the sink of a batch task was told, with its defaults."""
    return BatchSinkDocument.model_validate(end_document(sink)).table
