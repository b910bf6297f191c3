"""Pipelined edges as topics of their job: made, written, read and trimmed.

Who needs one first makes it; the transactions of the writer's batches write it; it is read like any topic, and trimmed behind its readers.
The leader removes it when the job has ended.

Every row that was committed is read once, for both ends have their place in it as they have in other topics. So the ends fail and restart
without each other, and a savepoint has nothing to copy of an edge: its reader takes part when it has read all that its writers, which were
stopped before, have written (S3). A restored reader begins at the start of the new job's topic, which is where it stood.

Rows travel as JSON with the precision of Spark's types. Two bounded streams are run one after the other, though both have their slots.
"""

import json
import logging
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic
from pydantic import TypeAdapter, ValidationError

from eventflink.jobs.hash_keys import are_spelled_alike, key_spelling
from eventflink.log.admin_connection import AdminConnection, AdministrationError
from eventflink.model.job_graph import LateRows, StreamSink, StreamSource
from eventflink.model.kafka_settings import KafkaAccess, client_settings
from eventflink.model.pipelined_edges import edge_topic
from eventflink.model.places import Place
from eventflink.model.sql_script import quoted
from eventflink.model.statuses import ShipStrategy, StreamConnector
from eventflink.streams.failures import StreamUnusable
from eventflink.streams.kafka_options import spark_options
from eventflink.streams.kafka_sink import KEY, VALUE
from eventflink.streams.progress import last_committed_batch
from eventflink.streams.savepoint_copy import read_batch_note
from eventflink.streams.sources import columns_of
from eventflink.streams.watermarks import InputRows, with_late_rows_apart

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

logger = logging.getLogger(__name__)

MAX_RECORD_BYTES: Final = 16 * 1024 * 1024
_MAX_OFFSETS_PER_TRIGGER: Final = 1_000_000
_TIMEOUT_S: Final = 15.0
_POLL_S: Final = 1.0
_END: Final = "end"
_PLACE: Final = "place"
FORMATS: Final = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How JSON and CSV have times. Spark's own have milliseconds. Before there were time zones, offsets from UTC have seconds, which are not
written."""

_OFFSETS: Final = TypeAdapter(dict[str, dict[int, int]])


@dataclass(frozen=True, slots=True)
class Edge:
    """One pipelined edge of a job."""

    topic: str
    writer_group: str
    """What the ends of its writers are noted under, each with its index behind it."""
    writers: int
    ship: ShipStrategy
    keys: tuple[str, ...]
    partitions: int
    row_schema: str
    event_time: str
    watermark_delay_ms: int
    late_rows: LateRows | None = None

    def share_of(self, subtask_index: int, parallelism: int) -> list[int]:
        """Return which partitions a subtask of the reader reads."""
        is_whole = self.ship is ShipStrategy.BROADCAST
        return list(range(self.partitions) if is_whole else range(subtask_index, self.partitions, parallelism))


def edges_of(ends: Sequence[StreamSource | StreamSink], cluster_id: str, job_id: str) -> dict[str, Edge]:
    """Return those of the sources or sinks of a stream that are edges, by their location."""
    return {end.location: _edge_of(end, cluster_id, job_id) for end in ends if end.connector is StreamConnector.EDGE}


def _edge_of(end: StreamSource | StreamSink, cluster_id: str, job_id: str) -> Edge:
    options = json.loads(end.options_json)
    return Edge(
        topic=edge_topic(cluster_id, job_id, end.location),
        writer_group=f"{cluster_id}/{job_id}/{options['writer']}",
        writers=options["writers"],
        ship=ShipStrategy(options["ship"]),
        keys=tuple(options["keys"]),
        partitions=options["partitions"],
        row_schema=end.row_schema,
        event_time=options.get("event_time", ""),
        watermark_delay_ms=options.get("watermark_delay_ms", 0),
        late_rows=LateRows(**options["late_rows"]) if "late_rows" in options else None,
    )


def create_edges(edges: Iterable[Edge], kafka: KafkaAccess, replication_factor: int) -> None:
    """Create the topics that are not there yet.

    Raises:
        StreamUnusable: Kafka does not take one, or does not answer; or one is there that is not of this job.

    """
    wanted = {edge.topic: edge for edge in edges}
    if not wanted:
        return
    connection = AdminConnection(kafka)
    kept = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", "max.message.bytes": str(MAX_RECORD_BYTES)}

    def create(names: list[str]) -> None:
        connection.create_topics(NewTopic(name, wanted[name].partitions, replication_factor, config=kept) for name in names)
        logger.info("EdgesCreated topics=%s replication_factor=%d", ",".join(names), replication_factor)

    try:
        found = connection.wait_for_topics(wanted, create)
    except AdministrationError as error:
        raise StreamUnusable(f"the topics of its edges cannot be made: {error}") from error
    for name, edge in wanted.items():
        if found[name].partitions != edge.partitions:
            raise StreamUnusable(
                f"the topic '{name}' of its edge has {found[name].partitions} partitions, not {edge.partitions}: it is not of this job, "
                "but perhaps of an earlier one of the same id; remove it"
            )


# -- rows -------------------------------------------------------------------------------------------------------------


def records_of(rows: "DataFrame", edge: Edge) -> "DataFrame":
    """Return rows as records: `value`, and `key` where the edge has keys, as bytes.

    Raises:
        StreamUnusable: the columns of the rows are not those that the edge declares.

    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    want = check_columns(rows, edge.row_schema, edge.keys)
    value = f.to_json(f.struct(*map(_quoted, want)), {"ignoreNullFields": "false"} | FORMATS)
    columns = [value.cast("binary").alias(VALUE)]
    if edge.keys:
        types = {field.name: field.dataType for field in rows.schema.fields}
        keys = [key_spelling(_quoted(key), types[key]).alias(key) for key in edge.keys]
        columns.append(f.to_json(f.struct(*keys), {"ignoreNullFields": "false"} | FORMATS).cast("binary").alias(KEY))
    return rows.select(*columns)


def check_columns(rows: "DataFrame", row_schema: str, keys: Collection[str] = ()) -> list[str]:
    """Return the columns that an edge declares, which are those of the rows.

    Raises:
        StreamUnusable: they are not.

    """
    declared = columns_of(rows.sparkSession, row_schema, "an edge between streams")
    want = {field.name: field.dataType.simpleString() for field in declared}
    have = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    problems = [f"column '{name}' is {have[name]}, and declared as {kind}" for name, kind in want.items() if have.get(name, kind) != kind]
    problems += [f"column not found: '{name}'" for name in want if name not in have]
    problems += [f"column '{name}' is not declared" for name in have if name not in want]
    problems += [f"key not found: '{name}'; the columns are {', '.join(want)}" for name in keys if name not in want]
    if problems:
        raise StreamUnusable(f"the rows do not fit the schema of the edge: {'; '.join(problems[:3])}")
    return list(want)


def rows_of(records: "DataFrame", edge: Edge) -> "DataFrame":
    """Return what `records_of` made records of."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    row = f.from_json(f.col(VALUE).cast("string"), edge.row_schema, {"mode": "FAILFAST"} | FORMATS)
    return records.select(row.alias("row")).select("row.*")


def check_keys(spark: "SparkSession", edges: Iterable[Edge]) -> None:
    """Check that keys which hash edges bring together in a stream are the same text where Spark calls them equal.

    Raises:
        StreamUnusable: they are of types whose equal values are written differently, or of no type that is compared.

    """
    first: list[tuple[str, StructField]] = []
    for edge in edges:
        if edge.ship is not ShipStrategy.HASH:
            continue
        columns = {field.name: field for field in columns_of(spark, edge.row_schema, f"the edge of topic '{edge.topic}'")}
        found = [(edge.topic, columns[key]) for key in edge.keys if key in columns]
        first = first or found
        for (topic, mine), (other_topic, other) in zip(first, found, strict=False):
            if not are_spelled_alike(mine.dataType, other.dataType):
                one, another = (
                    f"'{each.name}' of {name} is {each.dataType.simpleString()}" for name, each in ((topic, mine), (other_topic, other))
                )
                raise StreamUnusable(
                    f"the hash edges of this stream bring together keys that are not of one type: {one}, {another}; equal rows would not "
                    "meet: cast one of them where it is written"
                )


def read_edge(spark: "SparkSession", edge: Edge, share: list[int], kafka: KafkaAccess, location: Place) -> InputRows:
    """Return the rows of these partitions of an edge, as streaming DataFrames of the query that has a checkpoint directory."""
    options = {
        **spark_options(kafka),
        "kafka.isolation.level": "read_committed",
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(_MAX_OFFSETS_PER_TRIGGER),
        "assign": json.dumps({edge.topic: share}),
    }
    columns_of(spark, edge.row_schema, f"the edge of topic '{edge.topic}'")
    rows = rows_of(spark.readStream.format("kafka").options(**options).load(), edge)
    if not edge.event_time:
        return InputRows(rows, {})
    return with_late_rows_apart(rows, edge.event_time, edge.watermark_delay_ms, edge.late_rows, location)


def _quoted(column: str) -> "Column":
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    return f.col(quoted(column))


# -- where the ends stand ---------------------------------------------------------------------------------------------


def note_end(edges: Iterable[Edge], subtask_index: int, kafka: KafkaAccess) -> None:
    """Note that a bounded subtask has written all that it will ever write to these edges, of all of them at once.

    Were it noted of one after the other, an attempt could end between. The next one would write more, of which one reader gets nothing.

    Raises:
        StreamUnusable: Kafka does not take it.

    """
    if noted := list(edges):
        _note(kafka, f"{noted[0].writer_group}/{subtask_index}/{_END}", [TopicPartition(edge.topic, 0, 1) for edge in noted])


def has_ended(edges: Iterable[Edge], subtask_index: int, kafka: KafkaAccess) -> bool:
    """Tell whether an earlier attempt of a subtask noted that it has written all; of no edges it is not known.

    Raises:
        StreamUnusable: Kafka does not say so.

    """
    noted = [_noted(kafka, f"{edge.writer_group}/{subtask_index}/{_END}", edge.topic, [0]) for edge in edges]
    return bool(noted) and all(noted)


def wait_for_writers(edges: Iterable[tuple[Edge, list[int]]], kafka: KafkaAccess) -> None:
    """Wait until every writer of these edges has written all, however long that takes: a job that ends kills who waits here.

    Args:
        edges: each with the partitions that are read, in which the last transaction may end a moment after its writer has.
        kafka: the Kafka of the edges.

    Raises:
        AdministrationError, StreamUnusable: Kafka does not say so.

    """
    partitions = []
    for edge, share in edges:
        partitions += [(edge.topic, number) for number in share]
        for index in range(edge.writers):
            while not has_ended([edge], index, kafka):
                time.sleep(_POLL_S)
    connection = AdminConnection(kafka)
    while connection.read_watermarks(partitions, is_committed=True) != connection.read_watermarks(partitions):
        time.sleep(_POLL_S)


class UnreadRecords:
    """What some partitions have, while nobody writes to them, that a query has not read."""

    def __init__(self, edges: Iterable[tuple[Edge, list[int]]], location: Place, kafka: KafkaAccess) -> None:
        """Take edges, each with the partitions that the query reads, and its checkpoint directory.

        Raises:
            AdministrationError: Kafka does not say how far they go.

        """
        partitions = [(edge.topic, number) for edge, share in edges for number in share]
        self._ends = {partition: marks.high for partition, marks in AdminConnection(kafka).read_watermarks(partitions).items()}
        self._location = location

    def count(self) -> int:
        """Return how many records no committed batch has read, with what transactions put between them."""
        places = _places(self._location)
        return sum(max(0, end - places.get(partition, 0)) for partition, end in self._ends.items())


def _places(location: Place, batches_before: int = 0) -> dict[tuple[str, int], int]:
    """Return what each partition is read up to by the last committed batch, or one so many before that.

    A query may read an edge at several places of its plan, each with an offset of its own: the least counts.
    """
    note = read_batch_note(location, max(-1, last_committed_batch(location) - batches_before))
    found: dict[tuple[str, int], int] = {}
    for text in note.offsets:
        try:
            offsets = _OFFSETS.validate_json(text)
        except ValidationError:
            continue  # Of a source that is no topic.
        for topic, numbers in offsets.items():
            for number, offset in numbers.items():
                found[topic, number] = min(offset, found.get((topic, number), offset))
    return found


def discard_read(edges: Iterable[Edge], location: Place, kafka: KafkaAccess, reader: tuple[str, int, int]) -> None:
    """Remove the records that every reader has read, so that an edge is as large as its readers are behind.

    Args:
        edges: which this subtask reads.
        location: its checkpoint directory; what the batch before its last one has read is not read again.
        kafka: the Kafka of the edges.
        reader: what is noted of the readers of an edge that each reads whole begins so; which of them this is; and how many there are.

    Raises:
        AdministrationError, StreamUnusable: Kafka does not do that now.

    """
    connection, places = AdminConnection(kafka), _places(location, 1)
    group, subtask_index, parallelism = reader
    for edge in edges:
        share = edge.share_of(subtask_index, parallelism)
        read = {number: places.get((edge.topic, number), 0) for number in share}
        if edge.ship is ShipStrategy.BROADCAST and parallelism > 1:
            _note(kafka, f"{group}/{subtask_index}/{_PLACE}", [TopicPartition(edge.topic, number, at) for number, at in read.items()])
            for index in range(parallelism):
                noted = _noted(kafka, f"{group}/{index}/{_PLACE}", edge.topic, share)
                read = {number: min(at, noted.get(number, 0)) for number, at in read.items()}
        for number, at in read.items():
            if at > 0:
                connection.delete_records(edge.topic, number, at)


def _note(kafka: KafkaAccess, group: str, places: list[TopicPartition]) -> None:
    consumer = Consumer(_connection(kafka, group))
    try:
        consumer.commit(offsets=places, asynchronous=False)
    except KafkaException as error:
        raise _unavailable(kafka, error) from error
    finally:
        consumer.close()


def _noted(kafka: KafkaAccess, group: str, topic: str, partitions: list[int]) -> dict[int, int]:
    consumer = Consumer(_connection(kafka, group))
    try:
        found = consumer.committed([TopicPartition(topic, number) for number in partitions], timeout=_TIMEOUT_S)
    except KafkaException as error:
        raise _unavailable(kafka, error) from error
    finally:
        consumer.close()
    if faults := [each.error for each in found if each.error is not None]:
        raise StreamUnusable(f"Kafka at {kafka.bootstrap} does not say what is noted of the edge '{topic}': {faults[0].str()}")
    return {each.partition: each.offset for each in found if each.offset > 0}


def _unavailable(kafka: KafkaAccess, error: KafkaException) -> StreamUnusable:
    return StreamUnusable(f"Kafka at {kafka.bootstrap} does not take or say what is noted of the edges of a job: {error.args[0].str()}")


def _connection(kafka: KafkaAccess, group: str) -> dict[str, Any]:
    # The groups have no members: each is the place of a number.
    return client_settings(kafka, {"group.id": group, "enable.auto.commit": False, "log_level": 0})
