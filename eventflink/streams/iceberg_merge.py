"""A merge into a table of Iceberg: new rows take the place of those with their keys, in files that replace the ones which had these.

Iceberg calls that copy-on-write: a file with such a row is replaced whole, and its other rows are written again. Spark compares and
writes; what is made of it is one commit of a batch (`iceberg_sink.py`) or a task (`taskexecutor/iceberg_sink.py`). The rule it keeps: the
new rows are written before anything else and read from there, so what was compared is what is written, also where a query gives other
rows each time it runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from eventflink.model.packages import needs
from eventflink.model.sql_script import quoted
from eventflink.streams.failures import TableUnusable
from eventflink.streams.iceberg_files import stored, write_files
from eventflink.streams.iceberg_rows import read_scan
from eventflink.streams.iceberg_scan import Scan, ScannedFile, place_key, plan_version, spark_path, without_ids
from eventflink.streams.iceberg_table import Fit, IcebergTable
from eventflink.streams.merging import MergeBy

with needs("iceberg", "a table of Iceberg"):
    from pyiceberg.expressions import AlwaysTrue, BooleanExpression

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask
    from pyspark.sql import Column, DataFrame, Row, SparkSession

_PATH: Final = "eventflink__path"
"""The column that says which file a row of the table is from."""
_NEW: Final = "eventflink__new_"
"""How the names of the columns of new rows begin, behind which their number stands."""
_IS_NEW: Final = "eventflink__is_new"
_IS_OLD: Final = "eventflink__is_old"
_DELETES: Final = "eventflink__deletes"


@dataclass(frozen=True, slots=True)
class Merge:
    """What a merge writes."""

    rows: int
    """How many new rows it has, without those that delete."""
    files: "Sequence[DataFile]"
    """With the new rows, and those of the replaced files that stay."""
    replaced: frozenset[str]
    """The paths of the files of the table that go."""
    within: BooleanExpression
    """Which rows the table must still have as they were."""
    version: int | None
    """The snapshot whose rows were compared; None: the table had none yet."""

    def find_replaced(self, table: IcebergTable) -> "list[FileScanTask] | None":
        """Return which files of the newest snapshot go; None: others have changed what was compared.

        Raises:
            SinkUnavailable: the snapshot is not there any more.

        """
        there = table.files_as_they_were(self.within, self.version)
        return None if there is None else [task for task in there if task.file.file_path in self.replaced]


def write_merged(
    rows: "DataFrame",
    table: IcebergTable,
    fit: Fit,
    by: MergeBy,
    version: int | None,
    *,
    one_of_each_in: str = "",
    settings_stay: bool = False,
) -> Merge:
    """Write the files of a merge.

    Args:
        rows: the new ones, with the column that says which of them delete.
        table: where.
        fit: how they fit it, without that column.
        by: what is replaced and deleted.
        version: the snapshot whose rows are compared; None: the table has none yet.
        one_of_each_in: what has the new rows, for the message: of those with the same keys one counts. Empty: where the table has no such
            row, all of them are inserted.
        settings_stay: whether the session has the settings of the files from now on, as of `write_files`.

    Raises:
        TableUnusable: several new rows have the keys of one that is there; or the table is not one to be merged into.
        SinkUnavailable: the catalogue does not answer, or the store of the files.

    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    rows = by.one_row_of_each(rows, one_of_each_in) if one_of_each_in else rows
    merging = _Merging(rows.sparkSession, table, fit, by, version, settings_stay=settings_stay)
    columns = [f.col(quoted(each.name)).cast(each.dataType).alias(each.name, metadata={}) for each in without_ids(fit.columns)]
    if by.delete_when is not None:
        said = f.coalesce(f.col(quoted(by.delete_when)), f.lit(False)).alias(_DELETES)  # noqa: FBT003 - a value of SQL
        with stored(rows.select(*columns, said), table, settings_stay=settings_stay) as changes:
            return merging.write_changes(changes)
    staged = write_files(rows, table, fit, settings_stay=settings_stay)
    try:
        merge = merging.write_beside(staged)
    except BaseException:
        table.remove([file.file_path for file in staged])
        raise
    if merge.replaced:
        table.remove([file.file_path for file in staged])
    return merge


class _Merging:
    """A table, and what becomes of new rows in it."""

    def __init__(
        self,
        spark: "SparkSession",
        table: IcebergTable,
        fit: Fit,
        by: MergeBy,
        version: int | None,
        *,
        settings_stay: bool,
    ) -> None:
        from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them
        from pyspark.sql import types  # noqa: PLC0415 - likewise

        self._f, self._types = f, types
        self._spark = spark
        self._table = table
        self._fit = fit
        self._by = by
        self._version = version
        self._settings_stay = settings_stay
        self._number = {each.name: number for number, each in enumerate(fit.columns)}
        named = {name.lower(): name for name in self._number}
        self._keys = [named[key.lower()] for key in by.keys]
        self._latest_by = named[by.latest_by.lower()] if by.latest_by is not None else ""
        self._is_by_partition = bool(fit.partition_by) and {name.lower() for name in fit.partition_by} <= {key.lower() for key in by.keys}

    def write_beside(self, staged: "Sequence[DataFile]") -> Merge:
        """Write what the merge needs besides new rows of which none deletes."""
        plain = without_ids(self._fit.columns)
        paths = [spark_path(file.file_path, self._table.name) for file in staged]
        written = self._spark.read.schema(plain).parquet(*paths) if paths else self._spark.createDataFrame([], plain)
        within = self._table.rows_beside(staged) if self._is_by_partition else AlwaysTrue()
        rows = sum(file.record_count for file in staged)
        new = written.withColumn(_DELETES, self._f.lit(False))  # noqa: FBT003 - a value of SQL
        return self._merge(new, within, rows) or Merge(rows, staged, frozenset(), within, self._version)

    def write_changes(self, changes: "DataFrame") -> Merge:
        """Write what the merge needs, where a column of the new rows says which of them delete."""
        new = changes.where(~self._f.col(_DELETES)).drop(_DELETES)
        within, rows = self._partitions_of(changes), new.count()
        if (merge := self._merge(changes, within, rows)) is not None:
            return merge
        return Merge(rows, self._write(new, self._fit), frozenset(), within, self._version)

    def _partitions_of(self, changes: "DataFrame") -> BooleanExpression:
        """Return which rows are in the partitions of changes, where that is known and no other row can have their keys; else all."""
        f, types, columns = self._f, self._types, self._fit.partition_by
        kinds = {each.name: each.dataType for each in self._fit.columns}
        if not self._is_by_partition or any(isinstance(kinds[name], types.TimestampType | types.TimestampNTZType) for name in columns):
            return AlwaysTrue()
        told = [f.unix_date(quoted(each)) if isinstance(kinds[each], types.DateType) else f.col(quoted(each)) for each in columns]
        values = changes.select(*[each.alias(f"v{number}") for number, each in enumerate(told)]).distinct().collect()
        return self._table.rows_near([tuple(bytes(each) if isinstance(each, bytearray) else each for each in row) for row in values])

    def _write(self, rows: "DataFrame", fit: Fit) -> "Sequence[DataFile]":
        return write_files(rows, self._table, fit, settings_stay=self._settings_stay)

    def _merge(self, changes: "DataFrame", within: BooleanExpression, rows: int) -> Merge | None:
        """Write the files that replace those with keys of changes; None: there are no such."""
        if self._version is None:
            return None
        new = changes.select(*[self._f.col(quoted(name)).alias(f"{_NEW}{number}") for name, number in self._number.items()], _DELETES)
        # All rows of each file: the condition is there to leave out files.
        scan = replace(plan_version(self._table, self._version, within), condition=AlwaysTrue())
        if not self._by.takes_one_of_each:
            self._check_distinct(scan, new)
        found = self._with_keys_of(scan, new).select(_PATH).distinct().collect()
        keys_of_places = {row[_PATH] for row in found}
        touched = tuple(file for file in scan.files if place_key(file.path) in keys_of_places)
        if not touched:
            return None
        scan = replace(scan, files=touched)
        deleted = 0 if self._by.delete_when is None else self._with_keys_of(scan, new.where(_DELETES)).count()
        files = self._write(self._merged(read_scan(self._spark, scan), new), self._table.fit_of_all())
        self._check_rows(files, touched, deleted, rows)
        return Merge(rows, files, frozenset(file.path for file in touched), within, self._version)

    def _check_rows(self, files: "Sequence[DataFile]", touched: Sequence[ScannedFile], deleted: int, new: int) -> None:
        """Check that each row of the replaced files is in the new ones, as it was or replaced, or deleted; and at most new rows besides.

        Raises:
            TableUnusable: the number of rows says otherwise.

        """
        old, after = sum(file.rows for file in touched), sum(file.record_count for file in files)
        if not old - deleted <= after <= old + new:
            self._table.remove([file.file_path for file in files])
            raise TableUnusable(
                f"nothing was merged into the table {self._table.name}: of {old} rows in the files to be replaced, such as "
                f"{touched[0].path}, {deleted} to be deleted, and {new} new ones Spark made {after}"
            )

    def _merged(self, old: "DataFrame", changes: "DataFrame") -> "DataFrame":
        """Return the rows of files after the merge: a column that the new rows lack keeps what it has, and is null in inserted ones."""
        f, is_true = self._f, self._f.lit(True)  # noqa: FBT003 - a value of SQL
        new, there = changes.withColumn(_IS_NEW, is_true), old.withColumn(_IS_OLD, is_true)
        joined = there.join(new, self._same(), "full_outer")
        counts = f.col(_IS_NEW).isNotNull()
        if self._latest_by:
            before, after = f.col(quoted(self._latest_by)), f.col(f"{_NEW}{self._number[self._latest_by]}")
            counts = counts & f.coalesce(after >= before, before.isNull())
        is_deleted = f.coalesce(f.col(_DELETES), f.lit(False))  # noqa: FBT003 - likewise
        stays = joined.where(~(is_deleted & (counts | f.col(_IS_OLD).isNull())))
        return stays.select(*[self._value_of(name, counts).alias(name) for name in old.columns])

    def _value_of(self, name: str, counts: "Column") -> "Column":
        old, number = self._f.col(quoted(name)), self._number.get(name)
        return old if number is None else self._f.when(counts, self._f.col(f"{_NEW}{number}")).otherwise(old)

    def _check_distinct(self, scan: Scan, new: "DataFrame") -> None:
        """Check that no row that is there would be replaced by several.

        Raises:
            TableUnusable: one would.

        """
        several = new.groupBy(*[f"{_NEW}{self._number[key]}" for key in self._keys]).count().where("count > 1")
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
