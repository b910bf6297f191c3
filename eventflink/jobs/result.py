"""Reads what a job left, with Arrow alone: no Spark, no session, so that looking at a result is quick.

The locations are those that the log accepted, one for each subtask, in their order.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


class ResultUnreadable(Exception):
    """A location holds no Parquet that can be read from here; the message names it."""


def read_result(locations: Iterable[str], limit: int) -> pa.Table:
    """Return at most `limit` rows of Parquet directories, in the order of the locations and of the files' names.

    Raises:
        ResultUnreadable: a location is missing, is damaged, or does not fit the others.

    """
    tables: list[pa.Table] = []
    count = 0
    for location in locations:
        for path in _parquet_files(Path(location)):
            try:
                for batch in _batches(path, max(limit - count, 0)):
                    tables.append(batch)
                    count += batch.num_rows
            except (OSError, pa.ArrowException) as error:
                raise ResultUnreadable(f"{path} cannot be read: {error}") from error
        if count >= limit and tables:
            break
    if not tables:
        return pa.table({})
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise ResultUnreadable(f"the subtasks' results do not fit together: {error}") from error


def _batches(path: Path, limit: int) -> Iterator[pa.Table]:
    """Yield the first `limit` rows of a file; at least an empty table, for its schema."""
    with pq.ParquetFile(path) as file:
        yield pa.Table.from_batches([], file.schema_arrow)  # `empty_table` would load pandas.
        for batch in file.iter_batches(batch_size=max(1, min(limit, 65_536))):
            if limit <= 0:
                return
            table = pa.Table.from_batches([batch.slice(0, limit)])
            limit -= table.num_rows
            yield table


def _parquet_files(location: Path) -> list[Path]:
    """Return the data files of a directory, without what Spark hides (`_SUCCESS`, checksums, temporary files)."""
    if not location.is_dir():
        raise ResultUnreadable(f"{location} is not there: it was removed, or is on another host")
    return sorted(p for p in location.rglob("*.parquet") if not any(q.startswith(("_", ".")) for q in p.relative_to(location).parts))
