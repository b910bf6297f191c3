"""The sources of a stream as streaming DataFrames: Kafka topics, directories, tables, made-up rows, or what a function of the user returns.

Only reading is here. The rule it keeps: a record that is not what its source declares ends the stream with its place, unless the source
says otherwise; it never becomes a row of nulls.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from eventflink.model.avro_schema import spark_columns
from eventflink.model.job_graph import StreamSource
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.places import Place
from eventflink.model.sql_script import quoted
from eventflink.model.statuses import StreamFormat
from eventflink.model.stream_document import BAD_RECORD, KafkaSourceDocument, StreamSourceDocument, source_document
from eventflink.streams.avro_records import PROBLEM, ROW, decoder
from eventflink.streams.avro_registry import SchemaRegistry, UnknownSchema
from eventflink.streams.delta_source import stream_table
from eventflink.streams.failures import StreamUnusable
from eventflink.streams.json_records import column_of, is_bad, parsed_of
from eventflink.streams.kafka_options import spark_options
from eventflink.streams.kafka_topics import partition_count
from eventflink.streams.watermarks import InputRows, with_late_rows_apart

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

_VALUE: Final = "value"
_PARSED: Final = "_parsed"
_IS_BAD: Final = "_is_bad"
_NOT_BLANK: Final = r"[^ \t\r\n]"
_SHOWN_SCHEMA: Final = 200
_MANY: Final = 100_000
"""More rows than Spark has cores."""


@dataclass(frozen=True, slots=True)
class SubtaskShare:
    """Which subtask of how many reads."""

    subtask_index: int
    parallelism: int

    def of(self, count: int) -> range:
        """Return which of so many partitions those are."""
        return range(self.subtask_index, count, self.parallelism)


def columns_of(spark: "SparkSession", row_schema: str, what: str) -> "list[StructField]":
    """Return the columns that a schema declares.

    Args:
        spark: the session of the task, which parses it.
        row_schema: Spark's DDL.
        what: the source or edge that has it, for the message.

    Raises:
        StreamUnusable: it is no DDL.

    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    try:
        return list(spark.createDataFrame([], row_schema).schema.fields)
    except PySparkException as error:
        reason = str(error).strip().partition("\n")[0]
        raise StreamUnusable(f"{what}: its 'schema' is not the columns as Spark's DDL: {reason}: {row_schema[:_SHOWN_SCHEMA]}") from error


def check_cores(spark: "SparkSession", sources: Iterable[StreamSource], share: SubtaskShare, kafka: KafkaAccess) -> None:
    """Refuse a query in real time for which Spark has too few cores: it keeps one for each partition, and never reads the others.

    Args:
        spark: the session of the task.
        sources: of the graph; what those of `python` read is not known.
        share: of Kafka's partitions.
        kafka: the Kafka of the cluster.

    Raises:
        StreamUnusable: a topic is not there, or this subtask reads more partitions than Spark has cores.

    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    reads = 0
    for source in sources:
        if (topic := source_document(source).kafka) is not None:
            count = partition_count(kafka.at(topic.bootstrap_servers), topic.topic, f"source '{source.name}'")
            reads += len(share.of(count))
    # Spark Connect does not say its parallelism, but makes so many partitions of a range.
    cores = spark.range(_MANY).select(f.spark_partition_id()).distinct().count() if reads > 1 else 1
    if reads > cores:
        raise StreamUnusable(
            f"with trigger real_time_ms a query keeps a core of Spark for each partition: this subtask reads {reads}, and Spark has {cores}"
        )


def read_source(
    spark: "SparkSession",
    source: StreamSource,
    share: SubtaskShare,
    kafka: KafkaAccess,
    resolve: Callable[[str], Callable[..., Any]],
    location: Place,
    *,
    is_real_time: bool = False,
) -> InputRows:
    """Return this subtask's share of a source, as streaming DataFrames.

    Args:
        spark: the session of the task.
        source: what the graph declares.
        share: of Kafka's partitions; any other source is read whole, and by one subtask only.
        kafka: the Kafka of the cluster, for a source that names none.
        resolve: finds a function of the user's code by `module:function`.
        location: the checkpoint directory of the query.
        is_real_time: whether its batches end with their time, and no other bound.

    Raises:
        StreamUnusable: the topic is not there, has fewer partitions than the vertex has subtasks, or the function returns no stream.

    """
    document = source_document(source)
    columns: list[StructField] = []
    if source.row_schema and source.stream_format is not StreamFormat.AVRO:
        columns = columns_of(spark, source.row_schema, f"source '{source.name}'")
    if document.kafka is not None:
        options = _kafka_options(source, document.kafka, share, kafka, is_real_time=is_real_time)
        rows = _read_kafka(spark, source, document, document.kafka, options, columns)
    elif share.parallelism > 1:
        raise StreamUnusable(
            f"source '{source.name}': a {source.connector.lower()} source is read by one subtask, not by {share.parallelism}"
        )
    elif document.files is not None:
        rows = _read_files(spark, source, document.files.max_files_per_trigger, columns)
    elif document.table is not None:
        rows = stream_table(spark, source.name, document.table, has_event_time=document.event_time is not None)
    elif document.rate is not None:
        rows = spark.readStream.format("rate").option("rowsPerSecond", source.location).load()
    else:
        rows = _call(spark, source, resolve)
    if document.event_time is not None:
        _require_column(rows, document.event_time, source)
        late = document.late_rows.to_record() if document.late_rows is not None else None
        return with_late_rows_apart(rows, document.event_time, document.watermark_delay_ms or 0, late, location)
    return InputRows(rows, {})


def _call(spark: "SparkSession", source: StreamSource, resolve: Callable[[str], Callable[..., Any]]) -> "DataFrame":
    from pyspark.sql import DataFrame  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    rows = resolve(source.location)(spark)
    if not isinstance(rows, DataFrame) or not rows.isStreaming:
        kind = "a DataFrame that is not streaming" if isinstance(rows, DataFrame) else type(rows).__name__
        raise StreamUnusable(f"source '{source.name}': {source.location} returned {kind}; a streaming DataFrame is expected")
    return rows


def _require_column(rows: "DataFrame", column: str, source: StreamSource) -> None:
    if column not in rows.columns:
        raise StreamUnusable(f"source '{source.name}': event_time names '{column}', which it does not have: {', '.join(rows.columns)}")


_OF_FILES: Final = {"mode": "FAILFAST", "maxFileAge": "36500d"}
"""Spark's own leaves out, without a word, each file that is a week older than the newest one it has seen."""


def _read_files(spark: "SparkSession", source: StreamSource, max_files: int | None, columns: "list[StructField]") -> "DataFrame":
    from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    is_json = source.stream_format is StreamFormat.JSON
    reader = spark.readStream.format("text" if is_json else source.stream_format.lower()).options(**_OF_FILES)
    if source.stream_format is StreamFormat.CSV:
        reader = reader.option("multiLine", "true")  # A text may have a line break, as those of a sink have.
    if source.row_schema and not is_json:
        reader = reader.schema(source.row_schema)
    if max_files is not None:
        reader = reader.option("maxFilesPerTrigger", max_files)
    rows = reader.load(source.location)
    if not is_json:
        return rows
    # Spark guesses the types of what the names of directories have, from all of them, unless it is told.
    types = {each.name: each.dataType for each in columns} | {_VALUE: StringType()}
    lines = StructType([StructField(each.name, types.get(each.name, each.dataType)) for each in rows.schema.fields])
    return _rows_of_lines(reader.schema(lines).load(source.location), source, columns)


def _rows_of_lines(lines: "DataFrame", source: StreamSource, columns: "list[StructField]") -> "DataFrame":
    """Return the columns of the schema, and those that the names of the directories have; an empty line has no row."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    of_directories = [name for name in lines.columns if name != _VALUE]
    parsing = _parse_json([each for each in columns if each.name not in of_directories])
    place = f.concat(f.lit(f"source '{source.name}': a line of "), f.input_file_name())
    rows = lines.where(f.col(_VALUE).rlike(_NOT_BLANK)).withColumn(_PARSED, parsing.parsed)
    return _without_bad(rows, parsing, place).select(*parsing.good, *map(f.col, map(quoted, of_directories)))


# -- Kafka ------------------------------------------------------------------------------------------------------------


def _read_kafka(
    spark: "SparkSession",
    source: StreamSource,
    document: StreamSourceDocument,
    kafka: KafkaSourceDocument,
    options: dict[str, str],
    columns: "list[StructField]",
) -> "DataFrame":
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    records = spark.readStream.format("kafka").options(**options).load()
    more = [f.col(name) for name in kafka.of_record]
    match source.stream_format:
        case StreamFormat.BYTES:
            return records
        case StreamFormat.TEXT:
            return records.select(f.col(_VALUE).cast("string").alias(_VALUE), *more)
        case StreamFormat.AVRO:
            return _rows_of(records, _parse_avro(spark, source, document), source, kafka, more)
        case _:
            return _rows_of(records, _parse_json(columns), source, kafka, more)


def _kafka_options(
    source: StreamSource, document: KafkaSourceDocument, share: SubtaskShare, kafka: KafkaAccess, *, is_real_time: bool
) -> dict[str, str]:
    kafka = kafka.at(document.bootstrap_servers)
    count = partition_count(kafka, document.topic, f"source '{source.name}'")
    if count < share.parallelism:
        raise StreamUnusable(f"source '{source.name}': topic '{document.topic}' has {count} partitions for {share.parallelism} subtasks")
    options = {
        **spark_options(kafka),
        "kafka.isolation.level": "read_committed",
        "startingOffsets": document.starting_offsets,
        "failOnDataLoss": str(document.fail_on_data_loss).lower(),
    }
    if not is_real_time:
        options["maxOffsetsPerTrigger"] = str(document.max_offsets_per_trigger)
    if share.parallelism == 1:  # Partitions that are added later are read as well.
        options["subscribe"] = document.topic
    else:
        options["assign"] = json.dumps({document.topic: list(share.of(count))})
    return options


@dataclass(frozen=True, slots=True)
class _Parsing:
    """How the values of records become rows; the columns speak of `_PARSED`."""

    parsed: "Column"
    """Of a record's value."""
    columns: "dict[str, Column]"
    """Those of the schema, of a good record."""
    is_bad: "Column"
    problem: "Column"
    kept: "Column"
    """What `bad_records: column` keeps of a bad record."""

    @property
    def good(self) -> "list[Column]":
        """The columns by their names."""
        return [each.alias(name) for name, each in self.columns.items()]


def _parse_json(columns: "list[StructField]") -> _Parsing:
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    text, parsed = f.col(_VALUE).cast("string"), f.col(_PARSED)
    found = {each.name: column_of(parsed, each) for each in columns}
    return _Parsing(parsed_of(text, columns), found, is_bad(text, parsed, columns), f.substring(text, 1, 200), text)


def _parse_avro(spark: "SparkSession", source: StreamSource, document: StreamSourceDocument) -> _Parsing:
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    schema, registry = source.row_schema, document.registry
    try:
        if not schema and registry is not None:
            _, schema = SchemaRegistry(registry.url).newest(registry.subject)
        columns = spark_columns(schema)
    except (UnknownSchema, ValueError) as error:
        raise StreamUnusable(f"source '{source.name}': {error}") from error
    decode = f.arrow_udf(decoder(schema, "" if registry is None else registry.url), f"{ROW} STRUCT<{columns}>, {PROBLEM} STRING")
    # Spark repeats a deterministic function for each column that is taken from what it returns.
    parsed = decode.asNondeterministic()(f.col(_VALUE))
    row, problem = f.col(_PARSED)[ROW], f.col(_PARSED)[PROBLEM]
    found = {each.name: row[each.name] for each in columns_of(spark, columns, f"source '{source.name}'")}
    return _Parsing(parsed, found, problem.isNotNull(), problem, f.col(_VALUE))


def _rows_of(
    records: "DataFrame", parsing: _Parsing, source: StreamSource, kafka: KafkaSourceDocument, more: list["Column"]
) -> "DataFrame":
    """Return the columns of the schema; a record that has no value (a tombstone) has no row."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    if fault := kafka.find_taken_column(parsing.columns):  # Of a schema that the registry has.
        raise StreamUnusable(f"source '{source.name}': its schema: {fault}")
    rows = records.where(f.col(_VALUE).isNotNull()).withColumn(_PARSED, parsing.parsed)
    if kafka.bad_records == "column":
        return rows.withColumn(_IS_BAD, parsing.is_bad).select(
            *[f.when(~f.col(_IS_BAD), each).alias(name) for name, each in parsing.columns.items()],
            f.when(f.col(_IS_BAD), parsing.kept).alias(BAD_RECORD),
            *more,
        )
    if kafka.bad_records == "skip":
        rows = rows.where(~parsing.is_bad)
    else:
        place = f.concat(f.lit(f"source '{source.name}': the record at {kafka.topic}-"), f.col("partition"), f.lit("@"), f.col("offset"))
        rows = _without_bad(rows, parsing, place)
    return rows.select(*parsing.good, *more)


def _without_bad(rows: "DataFrame", parsing: _Parsing, place: "Column") -> "DataFrame":
    """Return rows that fail the query at a bad record."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    message = f.concat(place, f.lit(" is not what its schema says: "), parsing.problem)
    return rows.where(f.when(parsing.is_bad, f.raise_error(message).cast("boolean")).otherwise(f.lit(True)))  # noqa: FBT003 - a literal of SQL
