"""Has Spark write rows as files of Parquet where several processes read them, and say how many it has written.

What the files are for is not known here. The rule it keeps: the place is the caller's own, so nothing is renamed in a store, and the caller
compares the rows that Spark says to have written with those that it finds.
"""

from typing import TYPE_CHECKING, Final

from eventflink.jobs.published import OutputNotWhole
from eventflink.model.places import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

DIRECT_COMMITTER_SETTING: Final = "spark.eventflink.directCommitter"
"""Of a Spark server that can write files to stores without renaming: by which class."""

_WRITTEN_ROWS: Final = "eventflink.written_rows"
"""How a write tells how many rows Spark has handed to its files."""

_WHOLE_VARIANTS: Final = ("spark.sql.variant.inferShreddingSchema", "spark.sql.variant.writeShredding.enabled")
"""Spark divides a variant into columns of a schema that it guesses, which nobody but Spark puts together again."""

_COMMITTER_OPTION: Final = "spark.sql.parquet.output.committer.class"


def _has_variant(kind: "DataType") -> bool:
    return '"variant"' in kind.json()


def write_parquet(rows: "DataFrame", place: Place, *, directories_by: str = "", compression: str = "") -> int:
    """Have Spark write rows; return how many its executors say to have written, wherever their files are.

    Args:
        rows: what to write.
        place: where nothing is yet.
        directories_by: a column whose values have a directory each, instead of standing in the files; empty: none.
        compression: how the files are compressed, as Spark calls it; empty: as the session has it.

    Raises:
        OutputNotWhole: Spark does not say it.

    """
    from pyspark.sql import functions  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    if _has_variant(rows.schema):
        for setting in _WHOLE_VARIANTS:
            rows.sparkSession.conf.set(setting, "false")
    counted = rows.observe(_WRITTEN_ROWS, functions.count(functions.lit(1)).alias("rows"))
    writer = counted.write.mode("error")
    if directories_by:
        writer = writer.partitionBy(directories_by)
    if compression:
        writer = writer.option("compression", compression)
    if place.scheme and (committer := rows.sparkSession.conf.get(DIRECT_COMMITTER_SETTING, "")):
        writer = writer.option(_COMMITTER_OPTION, committer)
    writer.parquet(str(place))
    said = dict(counted.executionInfo.flows if counted.executionInfo is not None else ()).get(_WRITTEN_ROWS)
    if said is None:
        raise OutputNotWhole(f"Spark wrote to {place}, and does not say how many rows: a proxy before it must pass on observed metrics")
    return int(said["rows"])
