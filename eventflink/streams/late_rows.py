"""Late rows: which rows of a batch are behind the watermark, found before Spark drops them.

Spark has no expression for the watermark of a batch. It notes the watermark in the checkpoint directory before the batch begins, and drops
what is late by that of the batch before (`IncrementalExecution`, SPARK-40925). The rule this module keeps: a row is late here if, and only
if, Spark's first stateful operator would drop it; so each row is either in the input of the task or in the output of the late ones.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from eventflink.model.job_graph import LateRows
from eventflink.model.places import Place
from eventflink.model.stream_progress import NO_BATCH
from eventflink.streams.failures import StreamUnusable
from eventflink.streams.progress import last_begun_batch
from eventflink.streams.savepoint_copy import read_batch_note

if TYPE_CHECKING:
    from pyspark.sql import Column

_MICROS: Final = 1_000
"""In a millisecond."""


def is_late(column: str, late: LateRows, location: Place) -> "Column":
    """Return whether a row is late in the batch that reads it; a row without a time is not.

    Args:
        column: with the time of a row, a TIMESTAMP.
        late: the windows or sessions of the stream.
        location: the checkpoint directory of its query, which the executors have to see.

    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    compare = f.arrow_udf(_behind_watermark(location), "boolean").asNondeterministic()
    micros = f.unix_micros(f.col(f"`{column.replace('`', '``')}`"))
    return f.coalesce(compare(_counts_until(micros, late)), f.lit(False))  # noqa: FBT003 - a literal of SQL


def _counts_until(micros: "Column", late: LateRows) -> "Column":
    """Return the watermark with which a row stops to count, in microseconds; null beyond what Spark can compute."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    if late.session_gap_ms:
        return f.try_add(micros, f.lit(late.session_gap_ms * _MICROS))
    if not late.window_ms:
        return micros
    slide = f.lit((late.slide_ms or late.window_ms) * _MICROS)
    since = f.pmod(f.try_subtract(micros, f.lit(late.start_ms * _MICROS)), slide)
    return f.try_add(f.try_subtract(micros, since), f.lit(late.window_ms * _MICROS))


def _behind_watermark(location: Place) -> Callable[[pa.Array], pa.Array]:
    """Return what Spark calls with times, to be told which are not after the watermark."""
    found: list[int] = []

    def compare(times: pa.Array) -> pa.Array:
        if not found:  # Spark makes this anew for each of its tasks, and a task is of one batch.
            found.append(late_watermark_ms(location) * _MICROS)
        return pc.less_equal(times, found[0])

    return compare


def late_watermark_ms(location: Place) -> int:
    """Return the watermark by which rows are late in the batch that runs on a checkpoint directory; 0: none is yet.

    Raises:
        StreamUnusable: no batch runs there: it is a directory that this host does not see.

    """
    batch_id = last_begun_batch(location)
    if batch_id == NO_BATCH:
        raise StreamUnusable(f"late_rows: the checkpoint directory {location} is not on the host of this executor; put it where all see it")
    return read_batch_note(location, batch_id - 1).watermark_ms
