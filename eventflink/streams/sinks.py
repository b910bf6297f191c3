"""The sinks of a stream: what its rows become there, and what Spark's writer is told.

Kafka is written by `kafka_sink.py`, or at least once by Spark's own sink where the graph wants that; directories by Spark's own file sink,
whose log of batches makes it exactly once for who reads them with Spark; tables of Delta by `delta_sink.py`, those of Iceberg by
`iceberg_sink.py`; a function of the user is called with each batch, and has to bear that the last one is repeated, as one made by
`database_sink.py` does.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from eventflink.jobs.stored_files import names_in
from eventflink.model.attempts import AttemptId
from eventflink.model.avro_schema import expand, spark_columns
from eventflink.model.iceberg_catalogs import IcebergCatalog
from eventflink.model.job_graph import StreamSink
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.places import Place, is_url, parse_place
from eventflink.model.sql_script import quoted
from eventflink.model.statuses import ShipStrategy, StreamConnector, StreamFormat
from eventflink.model.stream_document import (
    DEFAULT_TRANSACTION_TIMEOUT_MS,
    KafkaSinkDocument,
    RegistryDocument,
    StreamSinkDocument,
    sink_document,
)
from eventflink.model.stream_progress import NO_BATCH
from eventflink.streams.avro_records import encoder
from eventflink.streams.avro_registry import SchemaRegistry, UnknownSchema
from eventflink.streams.client_watch import WatchedFunction
from eventflink.streams.database_sink import DatabaseSink, DatabaseSinkSettings
from eventflink.streams.delta_sink import DeltaSink, DeltaSinkSettings
from eventflink.streams.delta_table import find_path, make_table
from eventflink.streams.edges import FORMATS, Edge, edges_of, records_of
from eventflink.streams.failures import StreamUnusable
from eventflink.streams.iceberg_catalogs import find_catalog
from eventflink.streams.iceberg_sink import IcebergSink, IcebergSinkSettings
from eventflink.streams.json_records import finite
from eventflink.streams.kafka_options import spark_options
from eventflink.streams.kafka_sink import KEY, TOPIC, VALUE, KafkaSink
from eventflink.streams.kafka_topics import partition_count
from eventflink.streams.merging import merge_of
from eventflink.streams.progress import OBSERVED, last_begun_batch
from eventflink.streams.sink_protocol import KafkaSinkSettings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

_FILE_LOG: Final = "_spark_metadata"
_BYTES_COLUMNS: Final = (VALUE, KEY)
_TO_JSON: Final = {"ignoreNullFields": "false"} | FORMATS
_FILE_OPTIONS: Final = {
    StreamFormat.JSON: FORMATS,
    StreamFormat.CSV: FORMATS | {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"},
}
"""Spark's own would cut the ends of texts."""


@dataclass(frozen=True, slots=True)
class SinkWriter:
    """Who writes to a sink."""

    cluster_id: str
    attempt_id: AttemptId
    """Of the attempt that writes."""
    query: int
    """Which query of the attempt, or what comes after that one: a higher number than all before."""
    location: Place
    """The checkpoint directory of the subtask."""
    kafka: KafkaAccess
    """The Kafka of the cluster, for a sink that names none."""
    first_batch_id: int = 0
    """Batches below it were written before the savepoint from which the stream began."""
    catalogs: tuple[IcebergCatalog, ...] = ()
    """The catalogues of Iceberg that this TaskExecutor has."""

    @property
    def writer_id(self) -> str:
        """What the subtask is called, the same for all its attempts: no id has a slash in it."""
        return f"{self.cluster_id}/{self.attempt_id.job_id}/{self.attempt_id.vertex_id}/{self.attempt_id.subtask_index}"

    @property
    def attempt(self) -> int:
        """Which attempt of it writes."""
        return self.attempt_id.attempt


def write_to_sinks(
    outputs: Mapping[str, "DataFrame"],
    sinks: Sequence[StreamSink],
    writer: SinkWriter,
    resolve: Callable[[str], Callable[..., Any]],
    *,
    is_counted: bool,
) -> "DataStreamWriter":
    """Return a writer that only has to be told when, and where its checkpoints are.

    Args:
        outputs: what the query results in, by the names of the sinks.
        sinks: what the graph declares: one of any kind, or several topics of one Kafka.
        writer: who writes.
        resolve: finds a function of the user's code by `module:function`.
        is_counted: whether Spark counts the rows for each sink, and tells it with its progress (`progress.py`).

    Raises:
        StreamUnusable: the topic is not there, the directory is another stream's, or the rows lack a column that the sink needs.
        SinkUnavailable: the catalogue of a table does not answer.

    """
    if _is_transactional(sinks):
        return _write_to_topics(outputs, sinks, writer, is_counted=is_counted)
    [sink] = sinks
    rows, document = _counted(outputs[sink.name], 0) if is_counted else outputs[sink.name], sink_document(sink)
    if document.kafka is not None:
        return _write_at_least_once(rows, sink, document, writer.kafka.at(document.kafka.bootstrap_servers))
    if document.files is not None:
        directory = _directory_of(document.files.path)
        check_directory(directory, writer.location)
        _require(rows, document.files.partition_by)
        if sink.stream_format is StreamFormat.JSON:
            rows = finite(rows, rows.columns, "the sink")
        options = _FILE_OPTIONS.get(sink.stream_format, {})
        to_files = rows.writeStream.format(sink.stream_format.lower()).options(**options).option("path", str(directory))
        return to_files.partitionBy(*document.files.partition_by) if document.files.partition_by else to_files
    if sink.stream_format is StreamFormat.ICEBERG:
        to_iceberg = _iceberg_sink_of(sink, writer)
        to_iceberg.make_table(rows)
        return rows.writeStream.foreachBatch(to_iceberg)
    if document.table is not None:
        of_table = rows if (merge_by := merge_of(document.table)) is None else merge_by.rows_of_table(rows)
        path = find_path(rows.sparkSession, document.table.location, of_table, document.table.partition_by)
        make_table(of_table, path, document.table.partition_by, merge_by)
        return rows.writeStream.foreachBatch(_delta_sink_of(sink, path, writer))
    function = resolve(sink.location)
    if isinstance(function, DatabaseSink):
        function = _database_sink_of(function, writer)
    return rows.writeStream.foreachBatch(WatchedFunction(function))


def _is_transactional(sinks: Sequence[StreamSink]) -> bool:
    """Tell whether `kafka_sink.py` writes."""
    first = sinks[0]
    return first.connector is StreamConnector.EDGE or (
        first.connector is StreamConnector.KAFKA and _kafka_of(first).guarantee == "exactly_once"
    )


def _write_at_least_once(rows: "DataFrame", sink: StreamSink, document: StreamSinkDocument, kafka: KafkaAccess) -> "DataStreamWriter":
    """Write to a topic by Spark's own sink, which writes a row as it comes."""
    to = _kafka_of(sink)
    partition_count(kafka, to.topic, "the sink")
    records = _records_of(rows, sink, to, document.registry)
    return records.writeStream.format("kafka").options(**spark_options(kafka), topic=to.topic)


def _counted(rows: "DataFrame", index: int) -> "DataFrame":
    """Return the rows for a sink, which Spark counts on the way."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    return rows.observe(OBSERVED.format(index), f.count(f.lit(1)).alias("rows"))


def _write_to_topics(
    outputs: Mapping[str, "DataFrame"], sinks: Sequence[StreamSink], writer: SinkWriter, *, is_counted: bool
) -> "DataStreamWriter":
    """Write to topics by one query: a batch is one transaction, and what outputs have in common is the same records in each."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    settings, edges = _kafka_settings(sinks, writer), _edges_of(sinks, writer)
    records: list[DataFrame] = []
    for index, sink in enumerate(sinks):
        if sink.connector is StreamConnector.EDGE:
            topic = edges[sink.location].topic
            rows = records_of(outputs[sink.name], edges[sink.location])
        else:
            kafka, topic = _kafka_of(sink), sink.location
            partition_count(settings.kafka, topic, f"sink '{sink.name}'" if sink.name else "the sink")
            rows = _records_of(outputs[sink.name], sink, kafka, sink_document(sink).registry)
        if len(sinks) > 1:
            key = f.col(KEY) if KEY in rows.columns else f.lit(None).cast("binary")
            rows = rows.select(VALUE, key.alias(KEY), f.lit(topic).alias(TOPIC))
        records.append(_counted(rows, index) if is_counted else rows)
    return functools.reduce(type(records[0]).unionAll, records).writeStream.foreachBatch(KafkaSink(settings))


def _database_sink_of(sink: DatabaseSink, writer: SinkWriter) -> DatabaseSink:
    return sink.of(DatabaseSinkSettings(writer.writer_id, writer.attempt, writer.query, str(writer.location), writer.first_batch_id))


def _delta_sink_of(sink: StreamSink, path: str, writer: SinkWriter) -> DeltaSink:
    table = sink_document(sink).table
    assert table is not None  # noqa: S101 - no other sink has this format
    of_writer = (writer.writer_id, writer.attempt, str(writer.location), writer.first_batch_id)
    return DeltaSink(DeltaSinkSettings(path, *of_writer, merge_of(table)))


def _iceberg_sink_of(sink: StreamSink, writer: SinkWriter) -> IcebergSink:
    table = sink_document(sink).table
    assert table is not None  # noqa: S101 - no other sink has this format
    catalog, place = find_catalog(writer.catalogs, table.catalog or ""), str(writer.location)
    of_writer = (writer.writer_id, writer.attempt, writer.query, place, writer.first_batch_id)
    return IcebergSink(IcebergSinkSettings(catalog, table.name or "", tuple(table.partition_by), *of_writer, merge_of(table)))


def settle_sinks(
    sinks: Sequence[StreamSink],
    writer: SinkWriter,
    next_batch_id: int,
    resolve: Callable[[str], Callable[..., Any]],
    spark: "SparkSession",
) -> int:
    """Let nothing more be written of a query that was stopped, and return the number of the batch that the sinks have not got yet.

    Args:
        sinks: what the graph declares.
        writer: who writes after the query that was stopped.
        next_batch_id: that of the checkpoint directory, which is right where Spark keeps account of the sink's batches itself.
        resolve: finds a function of the user's code by `module:function`.
        spark: reads and writes tables.

    Raises:
        SinkFenced: a newer attempt writes.
        SinkUnavailable: Kafka, or the catalogue of a table, does not say so; what the driver of a database raises passes through, and what
            Spark says of a table.

    """
    if sinks[0].stream_format is StreamFormat.ICEBERG:
        return max(_iceberg_sink_of(sinks[0], writer).settle(next_batch_id), next_batch_id)
    if sinks[0].connector is StreamConnector.TABLE:
        path = find_path(spark, sinks[0].location)
        return max(_delta_sink_of(sinks[0], path, writer).settle(spark, next_batch_id), next_batch_id)
    if sinks[0].connector is StreamConnector.PYTHON and isinstance(function := resolve(sinks[0].location), DatabaseSink):
        return max(_database_sink_of(function, writer).settle(next_batch_id), next_batch_id)
    if not _is_transactional(sinks):
        return next_batch_id
    return max(KafkaSink(_kafka_settings(sinks, writer)).settle(next_batch_id), next_batch_id)


def _kafka_of(sink: StreamSink) -> KafkaSinkDocument:
    kafka = sink_document(sink).kafka
    assert kafka is not None  # noqa: S101 - the document refuses others beside a topic
    return kafka


def _kafka_settings(sinks: Sequence[StreamSink], writer: SinkWriter) -> KafkaSinkSettings:
    kafkas = [_kafka_of(sink) for sink in sinks if sink.connector is StreamConnector.KAFKA]
    edges = _edges_of(sinks, writer).values()
    topics = [*(kafka.topic for kafka in kafkas), *(edge.topic for edge in edges)]
    return KafkaSinkSettings(
        writer.kafka.at(kafkas[0].bootstrap_servers if kafkas else ""),
        min(topics),  # Which topic has the mark must not depend on the order in which they are written down.
        writer.writer_id,
        writer.attempt,
        max([kafka.transaction_timeout_ms for kafka in kafkas] or [DEFAULT_TRANSACTION_TIMEOUT_MS]),
        str(writer.location),
        writer.first_batch_id,
        writer.query,
        tuple([(edge.topic, writer.attempt_id.subtask_index) for edge in edges if edge.ship is ShipStrategy.FORWARD]),
    )


def _edges_of(sinks: Sequence[StreamSink], writer: SinkWriter) -> dict[str, Edge]:
    return edges_of(sinks, writer.cluster_id, writer.attempt_id.job_id)


def _directory_of(path: str) -> Place:
    """Return the directory of a sink as Spark calls it.

    Raises:
        StreamUnusable: it is a URL of a store that nobody here can look into.

    """
    if not is_url(path):
        return Place(path)
    try:
        return parse_place(path)
    except ValueError as error:
        raise StreamUnusable(f"the sink's directory: {error}") from error


def check_directory(directory: Place, location: Place) -> None:
    """Refuse a directory to which others wrote batches that this stream has not begun: Spark would leave out its own of these numbers.

    So does the stream from whose savepoint this one begins, where it went on. What this stream has begun may be there before its checkpoint
    directory notes it as done.
    """
    numbers = [name.removesuffix(".compact") for name in names_in(directory / _FILE_LOG)]
    newest = max([int(each) for each in numbers if each.isdecimal()], default=NO_BATCH)
    if newest > (begun := last_begun_batch(location)):
        raise StreamUnusable(
            f"the sink's directory {directory} has batches up to {newest} of another stream, and this one would begin with batch "
            f"{begun + 1}, and lose what has the same numbers: name a new directory"
        )


def _records_of(rows: "DataFrame", sink: StreamSink, kafka: KafkaSinkDocument, registry: RegistryDocument | None) -> "DataFrame":
    """Return the rows as records: `value`, and `key` where there is one, as bytes."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    _require(rows, kafka.key)
    if as_json := [*(rows.columns if sink.stream_format is StreamFormat.JSON else []), *(kafka.key if len(kafka.key) > 1 else [])]:
        rows = finite(rows, as_json, f"sink '{sink.name}'" if sink.name else "the sink")
    match sink.stream_format:
        case StreamFormat.JSON:
            if twice := sorted({name for name in rows.columns if rows.columns.count(name) > 1}):
                raise StreamUnusable(f"the sink writes JSON, and the rows have two columns '{twice[0]}': give each a name of its own")
            value = f.to_json(f.struct("*"), _TO_JSON)
        case StreamFormat.AVRO:
            value = _avro_value(rows, sink.row_schema, kafka.key, registry)
        case StreamFormat.TEXT:
            others = [name for name in rows.columns if name not in kafka.key]
            if len(others) != 1:
                raise StreamUnusable(f"the sink writes text, so one column besides its key; there are {', '.join(others) or 'none'}")
            value = f.col(quoted(others[0])).cast("string")
        case _:
            _require(rows, [VALUE])
            if others := [name for name in rows.columns if name not in _BYTES_COLUMNS]:
                raise StreamUnusable(f"the sink writes bytes, so the columns value and key alone; there is also {', '.join(others)}")
            return rows.select(*[f.col(name).cast("binary").alias(name) for name in _BYTES_COLUMNS if name in rows.columns])
    columns = [value.cast("binary").alias(VALUE)]
    if len(kafka.key) == 1:
        columns.append(f.col(quoted(kafka.key[0])).cast("string").cast("binary").alias(KEY))
    elif kafka.key:
        columns.append(f.to_json(f.struct(*map(quoted, kafka.key)), _TO_JSON).cast("binary").alias(KEY))
    return rows.select(*columns)


def _avro_value(rows: "DataFrame", schema: str, key: list[str], registry: RegistryDocument | None) -> "Column":
    """Return the fields of a schema as a record; a column of the key may be none of them.

    Raises:
        StreamUnusable: the columns of the rows are not the fields of the schema, or the registry does not take that.

    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    try:
        schema_id = None
        if registry is not None:
            known = SchemaRegistry(registry.url)
            schema_id, schema = (known.register(registry.subject, schema), schema) if schema else known.newest(registry.subject)
        fields = rows.sparkSession.createDataFrame([], spark_columns(schema)).schema.fields
    except (UnknownSchema, ValueError) as error:
        raise StreamUnusable(f"the sink: {error}") from error
    have = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    want = {field.name: field.dataType.simpleString() for field in fields}
    with_default = {field["name"] for field in expand(schema)["fields"] if "default" in field}
    problems = [f"column '{name}' is {have[name]}, and its field {kind}" for name, kind in want.items() if have.get(name, kind) != kind]
    problems += [f"column not found for field '{name}'" for name in want if name not in have and name not in with_default]
    problems += [f"column '{name}' is not a field of the schema" for name in have if name not in want and name not in key]
    if problems:
        raise StreamUnusable(f"the rows do not fit the sink's Avro schema: {'; '.join(problems[:3])}")
    encode = f.arrow_udf(encoder(schema, schema_id), "binary").asNondeterministic()
    return encode(f.struct(*[quoted(name) for name in want if name in have]))


def _require(rows: "DataFrame", columns: list[str]) -> None:
    for column in columns:
        if column not in rows.columns:
            raise StreamUnusable(f"the sink names column '{column}', which the rows do not have: {', '.join(rows.columns)}")
