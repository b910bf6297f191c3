"""The part of a JobGraph document that gives a batch task the rows of tables, and every check of it.

The core's record is the one that a stream's source has too, with the place of the table and all other keys as one JSON object. The
rule it keeps: what can be known to be wrong before a job runs is refused here, with its place.

    sources:
      sales: {table: {catalog: lake, name: shop.sales, where: "day >= DATE '2026-11-01'"}, format: iceberg}
"""

from collections.abc import Mapping
from itertools import chain
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from eventflink.model.document_fields import Whole, canonical_json
from eventflink.model.job_graph import StreamSource
from eventflink.model.job_parameters import bound_text
from eventflink.model.statuses import ParameterType, StreamConnector, StreamFormat
from eventflink.model.stream_document import MAX_SNAPSHOT, TableDocument, end_document

_VERSIONS: Final = {"delta": ("version", "as_of"), "iceberg": ("snapshot", "as_of", "ref")}
"""By what the versions of tables of a format are named."""


def _time_text(value: object) -> object:
    return value if value is None else bound_text(ParameterType.TIMESTAMP, value)


class SourceTableDocument(TableDocument):
    """A table that a batch task reads, as it is when the task reads it, or as it was."""

    where: Annotated[str, Field(min_length=1, max_length=4_096)] | None = None
    """Which of its rows; only the files are read that may have such."""
    version: Whole | None = Field(None, ge=0, le=MAX_SNAPSHOT)
    """The version of a table of Delta that is read."""
    snapshot: Whole | None = Field(None, ge=0, le=MAX_SNAPSHOT)
    """The id of the snapshot of a table of Iceberg that is read."""
    as_of: Annotated[str | None, BeforeValidator(_time_text)] = None
    """A time: the version is read that was the newest one then."""
    ref: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """A branch or a tag of a table of Iceberg, whose snapshot is read."""

    @model_validator(mode="after")
    def _check_version(self) -> Self:
        if self.where is not None and not self.where.strip():
            raise ValueError("where: it is empty: give a condition such as day >= DATE '2026-11-01', or leave it out")
        if len(versions := self._versions()) > 1:
            raise ValueError(f"'{versions[0]}' and '{versions[1]}' exclude each other: a table is read at one of its versions")
        return self

    def _versions(self) -> list[str]:
        return [key for key in dict.fromkeys(chain(*_VERSIONS.values())) if getattr(self, key) is not None]

    @property
    def is_newest(self) -> bool:
        """Whether the version is read that is the newest one when it is read."""
        return not self._versions()

    def find_format_fault(self, table_format: str) -> str:
        """Return why this is no table of a format, behind its place; empty: it is one."""
        known = _VERSIONS[table_format]
        if others := [key for key in self._versions() if key not in known]:
            return f"table.{others[0]}: a table of format {table_format} is read at {', '.join(known[:-1])} or {known[-1]}"
        return super().find_format_fault(table_format)


class BatchSourceDocument(BaseModel):
    """A source of a batch task: a table."""

    model_config = ConfigDict(extra="forbid")

    table: SourceTableDocument
    format: Literal["delta", "iceberg"]

    @model_validator(mode="before")
    @classmethod
    def _check_kind(cls, written: object) -> object:
        if isinstance(written, Mapping) and (others := [key for key in ("kafka", "files", "rate", "python") if key in written]):
            raise ValueError(f"{others[0]}: it is for streams; the source of a batch task is a 'table'")
        return written

    @model_validator(mode="after")
    def _check_format(self) -> Self:
        if fault := self.table.find_format_fault(self.format):
            raise ValueError(fault)
        return self

    def to_record(self, name: str) -> StreamSource:
        """Return the core's record."""
        options = self.table.model_dump(exclude_defaults=True, exclude={"path", "catalog", "name"})
        return StreamSource(
            name=name,
            connector=StreamConnector.TABLE,
            location=self.table.location,
            stream_format=StreamFormat(self.format.upper()),
            options_json=canonical_json(options),
        )


def source_table_of(source: StreamSource) -> SourceTableDocument:
    """Return what the source of a batch task was told."""
    return BatchSourceDocument.model_validate(end_document(source)).table
