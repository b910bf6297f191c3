"""Tasks that keep a table of Iceberg well: `python: "eventflink.iceberg:compact"` and `python: "eventflink.iceberg:expire"` of a vertex.

This module reads the vertex's parameter `table`; `streams/iceberg_upkeep.py` does the work. Both tasks may run at any time, and again,
while others write the table. What each has done is its result, a row, and stands in the accumulators of the job.
"""

import time
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from eventflink.model.document_faults import describe_faults
from eventflink.model.document_fields import duration_within
from eventflink.streams.failures import TableUnusable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eventflink.jobs.context import TaskContext
    from eventflink.streams.iceberg_table import IcebergTable
    from eventflink.streams.iceberg_upkeep import Compaction, Expiry

U = TypeVar("U", bound="_Upkeep")

_LEAST_AGE_MS: Final = 60_000
_MOST_AGE_MS: Final = 3_650 * 86_400_000


class _Upkeep(BaseModel):
    """The table of a task."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    catalog: str = Field(min_length=1)
    name: str = Field(min_length=3)


class CompactParameters(_Upkeep):
    """The parameters of `compact`."""

    where: str | None = Field(None, min_length=1)
    """A condition in SQL, as of a source: only files that may have rows which fulfil it are replaced."""
    least_files: int = Field(5, ge=2)
    """So many small files a partition has to have."""


class ExpireParameters(_Upkeep):
    """The parameters of `expire`."""

    older_than: Annotated[int, duration_within(_LEAST_AGE_MS, _MOST_AGE_MS)] = Field("5d", validate_default=True)
    """How old a version has to be, such as `7d`."""
    keep_last: int = Field(1, ge=1)
    """So many of the newest versions stay however old they are."""


def compact(context: "TaskContext") -> "DataFrame":
    """Replace the small files of each partition of a table, and those with deleted rows, by as few as their size allows.

    A file is small below three quarters of the table's property `write.target-file-size-bytes`.

    Examples:
        >>> vertex = {
        ...     "id": "compact",
        ...     "python": "eventflink.iceberg:compact",
        ...     "parameters": {"table": {"catalog": "lake", "name": "shop.sales", "where": "day = :day"}},
        ... }

    """
    from eventflink.streams.iceberg_upkeep import Compaction, compact_table  # noqa: PLC0415 - what it needs is an extra

    told = _told(context, CompactParameters)
    done = None
    if context.subtask_index == 0:
        done = compact_table(context.spark, _open(context, told), told.where, context.parameters, told.least_files)
    return _report(context, Compaction, done)


def expire(context: "TaskContext") -> "DataFrame":
    """Remove the old versions of a table, and the files that only they had; what branches and tags name stays.

    Examples:
        >>> vertex = {
        ...     "id": "expire",
        ...     "python": "eventflink.iceberg:expire",
        ...     "parameters": {"table": {"catalog": "lake", "name": "shop.sales", "older_than": "7d"}},
        ... }

    """
    from eventflink.streams.iceberg_upkeep import Expiry, expire_snapshots  # noqa: PLC0415 - likewise

    told = _told(context, ExpireParameters)
    done = None
    if context.subtask_index == 0:
        done = expire_snapshots(_open(context, told), told.older_than, told.keep_last, int(time.time() * 1_000))
    return _report(context, Expiry, done)


def _told(context: "TaskContext", model: type[U]) -> U:
    try:
        return model.model_validate(context.parameters.get("table", {}))
    except ValidationError as error:
        raise TableUnusable(
            f"invalid parameter 'table' of vertex '{context.vertex_id}': {describe_faults(error, model.model_fields)}"
        ) from error


def _open(context: "TaskContext", told: _Upkeep) -> "IcebergTable":
    from eventflink.streams.iceberg_table import find_table  # noqa: PLC0415 - likewise

    return find_table(context.iceberg_catalog(told.catalog), told.name)


def _report(context: "TaskContext", kind: "type[Compaction | Expiry]", done: "Compaction | Expiry | None") -> "DataFrame":
    """Return the result as a row. A subtask that has nothing to do returns no row."""
    names = [each.name for each in fields(kind)]
    values: list[tuple[Any, ...]] = [] if done is None else [tuple([getattr(done, name) for name in names])]
    for name, value in zip(names, *values, strict=True) if values else ():
        context.accumulator(name).add(value)
    return context.spark.createDataFrame(values, ", ".join(f"{name} BIGINT" for name in names))
