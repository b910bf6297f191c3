"""The files of a table of Iceberg as Spark writes them: with the columns of the table, and in each one the rows of one partition.

What the table is told of them is `iceberg_table.py`'s. The rule it keeps: each write has a folder of its own, so what is found in it was
written by this write.
"""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from eventflink.jobs.parquet_writing import write_parquet
from eventflink.jobs.published import OutputNotWhole
from eventflink.model.places import Place, literal, parse_place
from eventflink.model.sql_script import quoted
from eventflink.streams.failures import TableUnusable
from eventflink.streams.iceberg_table import Fit, IcebergTable

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyspark.sql import Column, DataFrame, SparkSession

_PARTITION: Final = "eventflink__partition"
"""The column by which Spark divides rows into files: a digest of the values that a table is partitioned by. A value itself may be too long
for the name of a directory, and one that is empty would be in the same directory as none."""

_SETTINGS: Final = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS", "spark.sql.parquet.writeLegacyFormat": "false"}
"""How Spark writes Parquet as Iceberg has it."""
_FIELD_IDS: Final = "spark.sql.parquet.fieldId.write.enabled"


def write_files(rows: "DataFrame", table: IcebergTable, fit: Fit, *, settings_stay: bool = False) -> "list[DataFile]":
    """Have Spark write rows as a table has them, into a new folder, and return what the table is told of the files.

    Args:
        rows: what is written.
        table: where.
        fit: how they fit it.
        settings_stay: whether the session has the settings of these files from now on, since several may be written there at a time.

    Raises:
        TableUnusable: Spark writes no files where those of the table are, or this process does not see them; or there are nulls where the
            table has none.

    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    spark = rows.sparkSession
    # Not by `to`: where that changes nothing but the ids of columns, Spark leaves it out.
    written = rows.select(*[f.col(quoted(each.name)).cast(each.dataType).alias(each.name, metadata=each.metadata) for each in fit.columns])
    if fit.partition_by:
        written = written.withColumn(_PARTITION, _partition_key(fit))
    with _settings(spark, {**_SETTINGS, _FIELD_IDS: str(fit.has_field_ids).lower()}, stay=settings_stay):
        folder, written_rows = _write(written, table, directories_by=_PARTITION if fit.partition_by else "")
    if not written_rows:
        _remove(spark, table, folder)
        return []
    paths = _paths_in(spark, folder)
    try:
        files = table.describe_files(fit, paths, written_rows)
    except BaseException:
        table.remove(paths)
        raise
    # Where the first part of the rows is empty, Spark writes a file for it all the same.
    table.remove(sorted(set(paths) - {file.file_path for file in files}))
    return files


@contextmanager
def stored(rows: "DataFrame", table: IcebergTable, *, settings_stay: bool) -> "Iterator[DataFrame]":
    """Have Spark write rows into a folder of their own, and give them as they were written; they are gone afterwards.

    Args:
        rows: the rows to keep meanwhile; the table is not told of their files.
        table: the table below whose data the folder is.
        settings_stay: as of `write_files`.

    Raises:
        TableUnusable: Spark writes no files where those of the table are.

    """
    spark = rows.sparkSession
    with _settings(spark, _SETTINGS, stay=settings_stay):
        folder, _ = _write(rows, table)
    try:
        yield spark.read.schema(rows.schema).parquet(literal(str(_place_of(folder))))
    finally:
        _remove(spark, table, folder)


def _write(rows: "DataFrame", table: IcebergTable, *, directories_by: str = "") -> tuple[str, int]:
    """Have Spark write rows into a new folder, which it then returns, with how many were written; of a failure nothing is left."""
    folder = f"{table.data_location}/eventflink-{uuid.uuid4().hex}"
    place = _place_of(folder)
    try:
        return folder, write_parquet(rows, place, directories_by=directories_by, compression=table.compression)
    except Exception as error:  # whatever Spark raised: its other parts may have left files by then
        _remove(rows.sparkSession, table, folder)
        if isinstance(error, OutputNotWhole):
            raise TableUnusable(f"the table {table.name} cannot be written: {error}") from error
        raise


def _remove(spark: "SparkSession", table: IcebergTable, folder: str) -> None:
    """Remove the files of a folder, if Spark still says which they are: else they stay where no reader sees them."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    with suppress(PySparkException):
        table.remove(_paths_in(spark, folder))


def _paths_in(spark: "SparkSession", folder: str) -> list[str]:
    listed = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(literal(str(_place_of(folder)))).select("path")
    # Below the folder, for Spark may have another name for the store.
    below = [row.path.partition(folder.rpartition("/")[2] + "/")[2] for row in listed.collect()]
    return [f"{folder}/{name}" for name in sorted(below)]


def _place_of(folder: str) -> Place:
    try:
        return parse_place(folder)
    except ValueError as error:
        raise TableUnusable(f"the files of the table are where Spark writes none: {error}") from error


def _partition_key(fit: Fit) -> "Column":
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them
    from pyspark.sql import types  # noqa: PLC0415 - likewise

    kinds, values = {field.name: field.dataType for field in fit.columns.fields}, []
    for number, name in enumerate(fit.partition_by):
        value = f.col(quoted(name))
        match kinds[name]:  # JSON has neither all of a time, nor each date.
            case types.TimestampType():
                value = f.unix_micros(value)
            case types.TimestampNTZType():
                value = value.cast("string")
            case types.DateType():
                value = f.unix_date(value)
        values.append(value.alias(f"v{number}"))
    return f.sha2(f.to_json(f.struct(*values)), 256)


@contextmanager
def _settings(spark: "SparkSession", settings: Mapping[str, str], *, stay: bool) -> Iterator[None]:
    """Have a session these settings, for a while unless they `stay`."""
    before = {} if stay else {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)
