"""The part of a JobGraph document that gives a batch task the rows of tables, and every check of it.

The core's record is the one that a stream's source has too, with the place of the table and all other keys as one JSON object. The
rule it keeps: what can be known to be wrong before a job runs is refused here, with its place.

    sources:
      sales: {table: {catalog: lake, name: shop.sales, where: "day >= DATE '2026-11-01'"}, format: iceberg}
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from eventflink.model.document_fields import Whole, canonical_json
from eventflink.model.job_graph import StreamSource
from eventflink.model.job_parameters import bound_text
from eventflink.model.statuses import ParameterType, StreamConnector, StreamFormat
from eventflink.model.stream_document import TableDocument, end_document

MAX_SNAPSHOT: Final = 2**63 - 1
_VERSIONS: Final = ("snapshot", "as_of", "ref")


def _time_text(value: object) -> object:
    return value if value is None else bound_text(ParameterType.TIMESTAMP, value)


class SourceTableDocument(TableDocument):
    """A table that a batch task reads, as it is when the task reads it, or as it was."""

    where: Annotated[str, Field(min_length=1, max_length=4_096)] | None = None
    """Which of its rows; only the files are read that may have such."""
    snapshot: Whole | None = Field(None, ge=0, le=MAX_SNAPSHOT)
    """The id of the snapshot that is read."""
    as_of: Annotated[str | None, BeforeValidator(_time_text)] = None
    """A time: the snapshot is read that was the newest one then."""
    ref: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """A branch or a tag, whose snapshot is read."""

    @model_validator(mode="after")
    def _check_version(self) -> Self:
        if self.where is not None and not self.where.strip():
            raise ValueError("where: it is empty: give a condition such as day >= DATE '2026-11-01', or leave it out")
        if len(versions := [key for key in _VERSIONS if getattr(self, key) is not None]) > 1:
            raise ValueError(f"'{versions[0]}' and '{versions[1]}' exclude each other: a table is read at one of its versions")
        return self


class BatchSourceDocument(BaseModel):
    """A source of a batch task: a table."""

    model_config = ConfigDict(extra="forbid")

    table: SourceTableDocument
    format: Literal["iceberg"]

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
