"""The row of a subtask of a mapped vertex: which one of an input it is, and how it is read.

Rows are counted through what the subtasks of the writer left, in their order, through the files of each in the order of their names, and
through each file from its first row on. The rule it keeps: which row is whose depends on nothing else, so every attempt of a subtask has
the same one as long as the input is the same.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eventflink.jobs.published import published_files
from eventflink.jobs.shipping import InputUnusable, read_parquet
from eventflink.jobs.stored_files import count_rows
from eventflink.model.attempts import OutputLocation
from eventflink.model.sql_script import quoted

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


def bound_columns(row: "DataFrame") -> dict[str, Any]:
    """Return the values of one row as the parameters of a statement, by column: each of the column's type, also null.

    As Python's values they would have types by what they are, such as INT for a small BIGINT, and times would go through the zone of this
    process. Those of types that have no literal in a statement, such as arrays, are left out.

    Raises:
        InputUnusable: it is not one row.

    """
    from pyspark.sql import functions, types  # noqa: PLC0415 - likewise
    from pyspark.sql.connect.column import Column  # noqa: PLC0415 - likewise
    from pyspark.sql.connect.expressions import LiteralExpression  # noqa: PLC0415 - likewise

    texts, times = (types.StringType, types.BinaryType), (types.DateType, types.TimestampType, types.TimestampNTZType, types.TimeType)
    bound = (types.NumericType, types.BooleanType, types.NullType, types.DayTimeIntervalType, *texts, *times)
    fields = [each for each in row.schema.fields if isinstance(each.dataType, bound)]
    values = row.select(*(functions.col(quoted(each.name)) for each in fields)).toArrow()
    if values.num_rows != 1:
        raise InputUnusable(f"the input of this subtask has {values.num_rows} rows, and a row of its own is one")
    return {each.name: Column(LiteralExpression(values.column(i)[0].as_py(), each.dataType)) for i, each in enumerate(fields)}
