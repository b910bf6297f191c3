"""Reads what a job left: as Arrow and pandas without a session of Spark, so that looking at a result is quick, or through the caller's.

The locations are those that the log accepted, one for each subtask, in their order; of each, the files are read that were published there.
So what another attempt left, or whoever wrote to the directory later, is in no result, and what is missing makes it unreadable.
"""

import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventflink.jobs.plain_rows import SPARK_SCHEMA, python_values
from eventflink.jobs.published import ResultUnreadable, published_files
from eventflink.jobs.shipping import read_parquet
from eventflink.jobs.stored_files import StoreFailed, opened
from eventflink.model.attempts import OutputLocation
from eventflink.model.places import Place

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class JobOutput:
    """An output of one vertex of a finished job. Every method reads it anew, and raises `ResultUnreadable`.

    Examples:
        >>> vertex = {"id": "numbers", "sql": "SELECT id FROM range(3)"}
        >>> output = eventflink.dev({"name": "numbers", "vertices": [vertex]}).result()
        >>> output.to_arrow(limit=2).to_pylist()
        [{'id': 0}, {'id': 1}]

    """

    job_id: str
    vertex_id: str
    output: str
    locations: tuple[OutputLocation, ...]
    """What each subtask left of it that did, in their order: the attempt that the log says finished."""

    def to_arrow(self, limit: int | None = None) -> pa.Table:
        """Return the rows, or the first `limit` of them, in the order of the subtasks; columns that some do not have are null there."""
        return read_result(self.locations, limit)

    def to_pandas(self, limit: int | None = None) -> "pd.DataFrame":
        """Return them as `to_arrow` does, with pandas' types; a date outside of the years 1 to 9999 makes its column `datetime64`."""
        return pandas_frame(self.to_arrow(limit))

    def to_spark(self, session: "SparkSession") -> "DataFrame":
        """Return the rows, in no order, as a DataFrame of a session that sees the same file system; they are read when it is used."""
        paths = [str(path) for location in self.locations for path in published_files(location)]
        return read_parquet(session, paths, merge_columns=True)


def read_result(locations: Iterable[OutputLocation], limit: int | None) -> pa.Table:
    """Return at most `limit` rows (None: all) of published outputs, in the order of the locations and of the files' names.

    Raises:
        ResultUnreadable: an output is not there, is not whole, or does not fit the others.

    """
    tables: list[pa.Table] = []
    count = 0
    for location in locations:
        before = count
        for place in published_files(location):
            try:
                for batch in _batches(place, None if limit is None else max(limit - count, 0)):
                    tables.append(batch)
                    count += batch.num_rows
            except StoreFailed as error:
                raise ResultUnreadable(str(error)) from error
            except (OSError, pa.ArrowException) as error:
                raise ResultUnreadable(f"{place} cannot be read: {error}") from error
        if limit is not None and count >= limit and tables:
            break
        if count - before != location.rows:
            raise ResultUnreadable(f"{location.location} has {count - before} rows, and {location.rows} were written: it was changed")
    if not tables:
        return pa.table({})
    tables = _spelled_alike(tables)
    try:
        return _with_types_of_all(pa.concat_tables(tables, promote_options="permissive"), tables)
    except pa.ArrowException as error:
        raise ResultUnreadable(f"the subtasks' results do not fit together: {error}") from error


def _spelled_alike(tables: list[pa.Table]) -> list[pa.Table]:
    """Return tables whose columns are spelled as in the first that has them: `v` and `V` are one to Spark, unless one table has both."""
    spelled: dict[str, str] = {}
    for table in tables:
        for name in table.column_names:
            spelled.setdefault(name.lower(), name)
    if any(len({name.lower() for name in table.column_names}) < table.num_columns for table in tables):
        return tables
    renamed = [table.rename_columns([spelled[name.lower()] for name in table.column_names]) for table in tables]
    return [table.replace_schema_metadata(before.schema.metadata) for before, table in zip(tables, renamed, strict=True)]


def _with_types_of_all(table: pa.Table, parts: Iterable[pa.Table]) -> pa.Table:
    """Return the table with what Spark says of all its columns: of its own, Arrow takes what is said of those in the first part."""
    said = dict.fromkeys(part.schema.metadata[SPARK_SCHEMA] for part in parts if SPARK_SCHEMA in (part.schema.metadata or {}))
    if len(said) <= 1:
        return table
    whole = json.dumps(functools.reduce(_type_of_both, map(json.loads, said)))
    return table.replace_schema_metadata({**(table.schema.metadata or {}), SPARK_SCHEMA: whole})


def _type_of_both(one: Any, other: Any) -> Any:
    """Return a type of Spark's JSON with the fields of both, at any depth; where they differ otherwise, the one that is not void."""
    if isinstance(one, dict) and isinstance(other, dict) and one.get("type") == other.get("type"):
        if one["type"] != "struct":
            return {key: _type_of_both(each, other.get(key, each)) for key, each in one.items()}
        fields = {field["name"]: field for field in one["fields"]}
        spelled = {name.lower(): name for name in fields}
        for field in other["fields"]:
            name = field["name"] if field["name"] in fields else spelled.get(field["name"].lower(), field["name"])
            known = fields.get(name)
            fields[name] = field if known is None else {**known, "type": _type_of_both(known["type"], field["type"])}
        return {**one, "fields": list(fields.values())}
    return other if one == "void" else one


def _batches(place: Place, limit: int | None) -> Iterator[pa.Table]:
    """Yield the first `limit` rows of a file; at least an empty table, for its schema."""
    with opened(place) as source, pq.ParquetFile(source) as file:
        yield pa.Table.from_batches([], file.schema_arrow)  # `empty_table` would load pandas.
        left = file.metadata.num_rows if limit is None else limit
        for batch in file.iter_batches(batch_size=max(1, min(left, 65_536))):
            if left <= 0:
                return
            table = pa.Table.from_batches([batch.slice(0, left)])
            left -= table.num_rows
            yield table


def pandas_frame(table: pa.Table) -> "pd.DataFrame":
    """Return rows with pandas' types: far dates as `datetime64`, and what pandas has nothing for as `python_rows` has it."""
    try:
        return table.to_pandas()
    except (ValueError, OverflowError):
        import pandas as pd  # noqa: PLC0415 - only a frame needs it

        columns = [_pandas_column(column) for column in table.columns]
        return pd.DataFrame(dict(enumerate(columns))).set_axis(table.column_names, axis="columns")


def _pandas_column(column: pa.ChunkedArray) -> Any:
    try:
        return column.to_pandas()
    except (ValueError, OverflowError):
        import pandas as pd  # noqa: PLC0415 - likewise

        if pa.types.is_date(column.type):
            return column.cast(pa.timestamp("s")).to_pandas()
        return pd.Series(python_values(column), dtype=object)
