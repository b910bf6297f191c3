"""Watermarks of a stream: one for each source or edge that has an event time, however its rows are used.

Spark Connect makes a watermark of each place of a plan that uses a DataFrame with one, and moves filters below it. A query then goes by the
least of them: by that of bad records, which have no time, or of a branch that no row comes to; no window of the others ever ends. The rule:
a watermark goes by all rows of its source, and is the same wherever they go.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from eventflink.model.job_graph import DEFAULT_OUTPUT, LateRows
from eventflink.model.places import Place
from eventflink.streams.failures import StreamUnusable
from eventflink.streams.late_rows import is_late

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POLICY_SETTING: Final = "spark.sql.streaming.multipleWatermarkPolicy"
POLICY: Final = "min"
"""Of several sources the slowest counts; the other policy drops what it has not brought yet."""

_IS_LATE: Final = "_eventflink_is_late"
_VIEW: Final = "_eventflink_watermark_{}"
_numbers: Final = itertools.count(1)


def with_watermark(rows: "DataFrame", column: str, delay_ms: int) -> "DataFrame":
    """Return rows with a watermark that goes by all of them.

    Raises:
        StreamUnusable: the column is no time that Spark has watermarks of.

    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    _check_time(rows, column)
    # Spark moves no filter below one that it takes for not deterministic, and what uses a view has the watermark that the view has.
    whole = rows.withWatermark(column, f"{delay_ms} milliseconds").where(f.spark_partition_id() >= 0)
    view = _VIEW.format(next(_numbers))
    whole.createOrReplaceTempView(view)
    return rows.sparkSession.table(view)


@dataclass(frozen=True, slots=True)
class InputRows:
    """The rows of a source or an edge."""

    rows: "DataFrame"
    late: "Mapping[str, DataFrame]"
    """Those behind the watermark, which are not among `rows`, by the output that they go to."""


def with_late_rows_apart(rows: "DataFrame", column: str, delay_ms: int, late: LateRows | None, location: Place) -> InputRows:
    """Return rows with a watermark, without those behind it if these go elsewhere.

    Args:
        rows: all of them.
        column: the time of a row.
        delay_ms: how late rows may be.
        late: which rows are late, and go elsewhere; None: none do.
        location: the checkpoint directory of the query.

    Raises:
        StreamUnusable: the column is no time that Spark has watermarks of.

    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    if late is None:
        return InputRows(with_watermark(rows, column, delay_ms), {})
    _check_time(rows, column)
    told = with_watermark(rows.withColumn(_IS_LATE, is_late(column, late, location)), column, delay_ms)
    late_ones = told.where(f.col(_IS_LATE)).drop(_IS_LATE)
    return InputRows(told.where(~f.col(_IS_LATE)).drop(_IS_LATE), {late.output: late_ones})


def _check_time(rows: "DataFrame", column: str) -> None:
    from pyspark.sql.types import StructType, TimestampType  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    kinds = [each.dataType for each in rows.schema.fields if each.name == column]
    if kinds and not isinstance(kinds[0], TimestampType | StructType):  # Spark has watermarks of its windows as well.
        kind = kinds[0].simpleString().upper()
        raise StreamUnusable(f"event_time: column '{column}' is {kind}, and Spark has watermarks of a TIMESTAMP alone: declare it as one")


def check_watermarks(outputs: Mapping[str, "DataFrame"]) -> None:
    """Refuse outputs of one query of which several have watermarks that the function sets itself.

    Raises:
        StreamUnusable: they have.

    """
    from pyspark.sql.connect.dataframe import DataFrame as RemoteDataFrame  # noqa: PLC0415 - Spark is loaded by those who use it

    found = []
    for name, rows in outputs.items():
        assert isinstance(rows, RemoteDataFrame)  # noqa: S101 - a task has a session of Spark Connect
        plan = rows._plan.to_proto(rows._session.client)  # noqa: SLF001 - pyspark is pinned, and says nowhere else what a plan consists of
        if _has_watermark(plan.root):
            found.append(name or DEFAULT_OUTPUT)
    if len(found) > 1:
        raise StreamUnusable(
            f"its outputs {', '.join(found)} have watermarks that the function sets itself: Spark goes by the least of all of them, so an "
            "output without rows would hold the others back. Declare event_time and watermark_delay_ms of the source, or of an edge before "
            "this stream"
        )


def _has_watermark(message: Any) -> bool:
    if message.DESCRIPTOR.name == "WithWatermark":
        return True
    parts = (
        (field, value) for field, value in message.ListFields() if field.message_type and not field.message_type.GetOptions().map_entry
    )
    return any(_has_watermark(each) for field, value in parts for each in (value if field.is_repeated else (value,)))
