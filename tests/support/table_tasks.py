"""Jobs on tables as a user writes them; tests pack this file into an archive and never import it."""

import os
import signal
from typing import Any


def append_once(context: Any) -> None:
    """Append numbers of this subtask's own to a table, with a mark that all its attempts have in common; the first one dies after it."""
    first = 100 * context.subtask_index
    mark = {"txnAppId": f"{context.job_id}/{context.vertex_id}/{context.subtask_index}", "txnVersion": "1"}
    rows = context.spark.range(first, first + 100).withColumnRenamed("id", "number")
    rows.write.format("delta").mode("append").options(**mark).save(context.parameters["table"])
    if context.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def from_table(spark: Any) -> Any:
    """Return the rows of the table that the session's settings name as a stream."""
    return spark.readStream.format("delta").load(spark.conf.get("spark.example.table"))
