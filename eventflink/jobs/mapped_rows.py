"""The row of a subtask of a mapped vertex: which one of an input it is, and how it is read.

Rows are counted through what the subtasks of the writer left, in their order, through the files of each in the order of their names, and
through each file from its first row on. The rule it keeps: which row is whose depends on nothing else, so every attempt of a subtask has
the same one as long as the input is the same.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eventflink.jobs.published import published_files
from eventflink.jobs.shipping import InputUnusable, read_parquet
from eventflink.jobs.stored_files import count_rows
from eventflink.model.attempts import OutputLocation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def find_location(name: str, locations: Sequence[OutputLocation], row_number: int) -> tuple[int, int]:
    """Return the position of the location that has a row of the input `name`, and which row of that it is, from 0 on.

    Raises:
        InputUnusable: the input has fewer rows.

    """
    left = row_number
    for position, location in enumerate(locations):
        if left < location.rows:
            return position, left
        left -= location.rows
    raise InputUnusable(f"input '{name}' has {row_number - left} rows, and no row {row_number} for this subtask")


def read_row(spark: "SparkSession", location: OutputLocation, row_number: int) -> "DataFrame":
    """Return one row of what a subtask has left, from 0 on.

    Raises:
        InputUnusable: its files have fewer rows.
        OSError, ValueError, ResultUnreadable, StoreFailed: a file cannot be read.

    """
    from pyspark.sql import functions  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    left = row_number
    for file in published_files(location):
        if left < (rows := count_rows([file])):
            read = read_parquet(spark, [str(file)])
            return read.filter(read.metadataColumn("_metadata").getField("row_index") == functions.lit(left))
        left -= rows
    raise InputUnusable(f"{location.location} has {row_number - left} rows, and {location.rows} were written")
