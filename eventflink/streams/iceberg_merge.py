"""A merge into a table of Iceberg: new rows take the place of those with their keys, in files that replace the ones which had these.

Iceberg calls that copy-on-write: a file with such a row is replaced whole, and its other rows are written again. Spark compares and
writes; what is made of it is one commit of `taskexecutor/iceberg_sink.py`. The rule it keeps: the new rows are written before anything
else and read from there, so what was compared is what is written, also where a query gives other rows each time it runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from eventflink.model.packages import needs
from eventflink.model.sql_script import quoted
from eventflink.streams.failures import TableUnusable
from eventflink.streams.iceberg_files import write_files
from eventflink.streams.iceberg_rows import read_scan
from eventflink.streams.iceberg_scan import Scan, ScannedFile, place_key, plan_version, spark_path
from eventflink.streams.iceberg_table import Fit, IcebergTable

with needs("iceberg", "a table of Iceberg"):
    from pyiceberg.expressions import AlwaysTrue, BooleanExpression

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyspark.sql import Column, DataFrame, Row, SparkSession

_PATH: Final = "eventflink_path"
"""The column that says which file a row of the table is from."""
_NEW: Final = "eventflink_new_"
"""How the names of the columns of new rows begin, behind which their number stands."""
_IS_NEW: Final = "eventflink_is_new"


@dataclass(frozen=True, slots=True)
class Merge:
    """What a merge writes."""

    rows: int
    """How many new rows there are."""
    files: "Sequence[DataFile]"
    """With the new rows, and those of the replaced files that stay."""
    replaced: frozenset[str]
    """The paths of the files of the table that go."""
    within: BooleanExpression
    """Which rows the table must still have as they were."""


def write_merged(rows: "DataFrame", table: IcebergTable, fit: Fit, keys: Sequence[str], version: int | None) -> Merge:
    """Write the files of a merge.

    Args:
        rows: the new ones.
        table: where.
        fit: how they fit it.
        keys: the columns in which a new row and the one that it replaces are the same; null is equal to null.
        version: the snapshot whose rows are compared; None: the table has none yet.

    Raises:
        TableUnusable: the rows have not all keys, or several of them the keys of one that is there; or the table is not one to be merged
            into.
        SinkUnavailable: the catalogue does not answer, or the store of the files.

    """
    named = {each.name.lower(): each.name for each in fit.columns}
    if missing := [key for key in keys if key.lower() not in named]:
        raise TableUnusable(f"keys of the sink names column '{missing[0]}', which the rows do not have: {', '.join(rows.columns)}")
    staged = write_files(rows, table, fit)
    try:
        merging = _Merging(rows.sparkSession, table, fit, [named[key.lower()] for key in keys], staged)
        merge = merging.write(version)
    except BaseException:
        table.remove([file.file_path for file in staged])
        raise
    if merge.replaced:
        table.remove([file.file_path for file in staged])
    return merge


class _Merging:
    """New rows that were written, and what becomes of them in a table."""

    def __init__(self, spark: "SparkSession", table: IcebergTable, fit: Fit, keys: Sequence[str], staged: "Sequence[DataFile]") -> None:
        from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them
        from pyspark.sql import types  # noqa: PLC0415 - likewise

        self._f = f
        self._spark = spark
        self._table = table
        self._staged = staged
        self._number = {each.name: number for number, each in enumerate(fit.columns)}
        self._keys = keys
        by_partition = bool(fit.partition_by) and set(fit.partition_by) <= set(keys)
        self._within = table.replaced_by(staged, is_all=False) if by_partition else AlwaysTrue()
        plain = types.StructType([types.StructField(each.name, each.dataType) for each in fit.columns])
        paths = [spark_path(file.file_path, table.name) for file in staged]
        written = spark.read.schema(plain).parquet(*paths) if paths else spark.createDataFrame([], plain)
        self._new = written.select(*[f.col(quoted(name)).alias(f"{_NEW}{number}") for name, number in self._number.items()])

    def write(self, version: int | None) -> Merge:
        """Write what the merge needs besides the new rows."""
        rows = sum(file.record_count for file in self._staged)
        untouched = Merge(rows, self._staged, frozenset(), self._within)
        if version is None or not self._staged:
            return untouched
        # All rows of each file: the condition is there to leave out files.
        scan = replace(plan_version(self._table, version, self._within), condition=AlwaysTrue())
        self._check_distinct(scan)
        found = self._with_keys_of(scan, self._new).select(_PATH).distinct().collect()
        keys_of_places = {row[_PATH] for row in found}
        touched = tuple(file for file in scan.files if place_key(file.path) in keys_of_places)
        if not touched:
            return untouched
        merged = self._merged(read_scan(self._spark, replace(scan, files=touched)))
        files = write_files(merged, self._table, self._table.fit_of_all())
        self._check_rows(files, touched)
        return Merge(rows, files, frozenset(file.path for file in touched), self._within)

    def _check_rows(self, files: "Sequence[DataFile]", touched: Sequence[ScannedFile]) -> None:
        """Check that each row of the replaced files is in the new ones, as it was or replaced, and at most the new rows besides.

        Raises:
            TableUnusable: the number of rows says otherwise.

        """
        old = sum(file.rows for file in touched)
        after, new = sum(file.record_count for file in files), sum(file.record_count for file in self._staged)
        if not old <= after <= old + new:
            self._table.remove([file.file_path for file in files])
            raise TableUnusable(
                f"nothing was merged into the table {self._table.name}: of {old} rows in the files to be replaced, such as "
                f"{touched[0].path}, and {new} new ones Spark made {after}"
            )

    def _merged(self, old: "DataFrame") -> "DataFrame":
        """Return the rows of files after the merge: a column that the new rows lack keeps what it has, and is null in inserted ones."""
        new = self._new.withColumn(_IS_NEW, self._f.lit(True))  # noqa: FBT003 - a value of SQL
        joined = old.join(new, self._same(), "full_outer")
        return joined.select(*[self._value_of(name).alias(name) for name in old.columns])

    def _value_of(self, name: str) -> "Column":
        old, number = self._f.col(quoted(name)), self._number.get(name)
        return old if number is None else self._f.when(self._f.col(_IS_NEW), self._f.col(f"{_NEW}{number}")).otherwise(old)

    def _check_distinct(self, scan: Scan) -> None:
        """Check that no row that is there would be replaced by several.

        Raises:
            TableUnusable: one would.

        """
        several = self._new.groupBy(*[f"{_NEW}{self._number[key]}" for key in self._keys]).count().where("count > 1")
        if several.limit(1).collect() and (there := self._with_keys_of(scan, several).limit(1).collect()):
            raise TableUnusable(
                f"the rows cannot be merged into the table {self._table.name}: several have the keys of one that is there "
                f"({_said(there[0], self._keys)}): leave one row for each key"
            )

    def _with_keys_of(self, scan: Scan, new: "DataFrame") -> "DataFrame":
        """Return the rows that are there with the keys of new ones, and which file each is from."""
        return read_scan(self._spark, scan, path_column=_PATH).join(new, self._same(), "left_semi")

    def _same(self) -> "Column":
        first, *others = [self._f.col(quoted(key)).eqNullSafe(self._f.col(f"{_NEW}{self._number[key]}")) for key in self._keys]
        for each in others:
            first = first & each
        return first


def _said(row: "Row", keys: Sequence[str]) -> str:
    values: Mapping[str, object] = row.asDict()
    return ", ".join(f"{key}={'null' if values[key] is None else values[key]}" for key in keys)
