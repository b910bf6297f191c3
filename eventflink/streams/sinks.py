"""The sinks of a stream: what its rows become there, and what Spark's writer is told.

Kafka is written by `kafka_sink.py`, directories by Spark's own file sink, whose log of batches makes it exactly once for who reads them
with Spark; a function of the user is called with each batch, and has to bear that the last one is repeated.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from eventflink.model.job_graph import StreamSink
from eventflink.model.statuses import StreamFormat
from eventflink.model.stream_document import KafkaSinkDocument, sink_document
from eventflink.model.stream_progress import NO_BATCH
from eventflink.streams.client_watch import WatchedFunction
from eventflink.streams.failures import StreamUnusable
from eventflink.streams.kafka_sink import KEY, VALUE, KafkaSink, KafkaSinkSettings
from eventflink.streams.kafka_topics import partition_count
from eventflink.streams.progress import last_committed_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter

_FILE_LOG: Final = "_spark_metadata"
_BYTES_COLUMNS: Final = (VALUE, KEY)


def write_to_sink(
    rows: "DataFrame",
    sink: StreamSink,
    writer_id: str,
    attempt: int,
    location: Path,
    bootstrap: str,
    resolve: Callable[[str], Callable[..., Any]],
) -> "DataStreamWriter":
    """Return a writer that only has to be told when, and where its checkpoints are.

    Args:
        rows: what the query results in.
        sink: what the graph declares.
        writer_id: of the subtask, the same for all its attempts.
        attempt: which attempt of it writes.
        location: the checkpoint directory of the subtask.
        bootstrap: the Kafka of the cluster, for a sink that names none.
        resolve: finds a function of the user's code by `module:function`.

    Raises:
        StreamUnusable: the topic is not there, the directory is another stream's, or the rows lack a column that the sink needs.

    """
    document = sink_document(sink)
    if document.kafka is not None:
        kafka = document.kafka
        bootstrap = kafka.bootstrap_servers or bootstrap
        partition_count(bootstrap, kafka.topic, "the sink")
        settings = KafkaSinkSettings(bootstrap, kafka.topic, writer_id, attempt, kafka.transaction_timeout_ms)
        return _records_of(rows, sink.stream_format, kafka).writeStream.foreachBatch(KafkaSink(settings))
    if document.files is not None:
        _check_directory(Path(document.files.path), location)
        _require(rows, document.files.partition_by)
        writer = rows.writeStream.format(sink.stream_format.lower()).option("path", document.files.path)
        return writer.partitionBy(*document.files.partition_by) if document.files.partition_by else writer
    return rows.writeStream.foreachBatch(WatchedFunction(resolve(sink.location)))


def _check_directory(path: Path, location: Path) -> None:
    """Refuse a directory that another stream wrote: Spark would leave out each batch whose number is in its log already."""
    if (path / _FILE_LOG).is_dir() and last_committed_batch(location) == NO_BATCH and any((path / _FILE_LOG).glob("[0-9]*")):
        raise StreamUnusable(
            f"the sink's directory {path} was written by another stream, whose batches have the same numbers: name a new one"
        )


def _records_of(rows: "DataFrame", stream_format: StreamFormat, kafka: KafkaSinkDocument) -> "DataFrame":
    """Return the rows as records: `value`, and `key` where there is one, as bytes."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    _require(rows, kafka.key)
    match stream_format:
        case StreamFormat.JSON:
            value = f.to_json(f.struct("*"), {"ignoreNullFields": "false"})
        case StreamFormat.TEXT:
            others = [name for name in rows.columns if name not in kafka.key]
            if len(others) != 1:
                raise StreamUnusable(f"the sink writes text, so one column besides its key; there are {', '.join(others) or 'none'}")
            value = f.col(_quoted(others[0])).cast("string")
        case _:
            _require(rows, [VALUE])
            return rows.select(*[f.col(name).cast("binary").alias(name) for name in _BYTES_COLUMNS if name in rows.columns])
    columns = [value.cast("binary").alias(VALUE)]
    if len(kafka.key) == 1:
        columns.append(f.col(_quoted(kafka.key[0])).cast("string").cast("binary").alias(KEY))
    elif kafka.key:
        columns.append(f.to_json(f.struct(*map(_quoted, kafka.key)), {"ignoreNullFields": "false"}).cast("binary").alias(KEY))
    return rows.select(*columns)


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def _require(rows: "DataFrame", columns: list[str]) -> None:
    for column in columns:
        if column not in rows.columns:
            raise StreamUnusable(f"the sink names column '{column}', which the rows do not have: {', '.join(rows.columns)}")
