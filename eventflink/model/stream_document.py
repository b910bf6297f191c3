"""The part of a JobGraph document that makes a vertex a stream: sources, sink, trigger, and every check of them.

What comes out are the plain records of `job_graph.py`; what a connector is told besides its place stands there as one JSON object, which
`source_options` and `sink_options` read again where the stream runs. The rule it keeps: what can be known to be wrong before a job runs is
refused here, with its place.

    stream:
      sources:
        orders: {kafka: {topic: orders}, format: json, schema: "customer STRING, amount BIGINT, at TIMESTAMP"}
      sink: {kafka: {topic: totals, key: [customer]}, format: json}
      trigger: {processing_time_ms: 500}
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from eventflink.model.avro_schema import SCHEMA_SUFFIX, spark_columns
from eventflink.model.document_faults import describe_fault, describe_value
from eventflink.model.document_fields import (
    CALLABLE_PATTERN,
    MAX_CALLABLE_LENGTH,
    Column,
    DistinctColumns,
    Flag,
    Name,
    Whole,
    canonical_json,
)
from eventflink.model.job_graph import DEFAULT_OUTPUT, ChainedOperator, LateRows, StreamDefinition, StreamSink, StreamSource
from eventflink.model.job_parameters import RESERVED_NAMES
from eventflink.model.named_keys import NAME_PATTERN
from eventflink.model.secret_references import check_references, reference_name
from eventflink.model.sql_script import column_names, statements_of
from eventflink.model.statuses import StreamConnector, StreamFormat, StreamOutputMode, StreamTrigger, TaskType
from eventflink.model.texts import beginning_of, did_you_mean

MAX_SOURCES: Final = 16
MAX_SINKS: Final = 16
MAX_CHAINED: Final = 64
MAX_WATERMARK_DELAY_MS: Final = 365 * 86_400_000
EVENT_TIME_WITH_DELAY: Final = "'event_time' and 'watermark_delay_ms' go together: a column, and how late its rows may be"
MAX_TRIGGER_INTERVAL_MS: Final = 86_400_000
MIN_REAL_TIME_MS: Final = 5_000
"""Spark refuses shorter batches."""

DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 60_000
MAX_TRANSACTION_TIMEOUT_MS: Final = 900_000
MAX_SQL_FILE_LENGTH: Final = 512
MAX_SNAPSHOT: Final = 2**63 - 1
_Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}$")]
_Text = Annotated[str, Field(min_length=1, max_length=4_096)]


def _schema_text(value: object) -> object:
    try:
        return canonical_json(value) if isinstance(value, dict) else value
    except TypeError as error:
        raise ValueError(f"an Avro schema is JSON: {error}") from error


_Schema = Annotated[
    Annotated[str, Field(min_length=1, max_length=65_536)] | None,
    BeforeValidator(_schema_text),
]
"""Text: Spark's DDL, or an Avro schema as JSON, which may stand as it is."""

_TABLE_PATH: Final = re.compile(r"(/|[a-z][a-z0-9+.-]*:/)[^*?{}\[\]\\`]*[^*?{}\[\]\\`\s]")
"""What SQL and Spark's lists of files take as it is, on whatever host."""

_PATTERN: Final = "*?{}[]\\`"
_URL_OR_ABSOLUTE: Final = re.compile(r"(/|[a-z][a-z0-9+.-]*:/)(.*\S)?", re.DOTALL)


def _check_place(path: str) -> str:
    """Refuse a path that Spark and the task would look for in directories of their own."""
    if not _URL_OR_ABSOLUTE.fullmatch(path):
        raise ValueError(
            f"invalid path: '{beginning_of(path)}'; give an absolute path or a URL such as s3a://bucket/orders, "
            "without white space at its ends"
        )
    return path


_Place = Annotated[_Text, AfterValidator(_check_place)]


def _check_directory(path: str) -> str:
    """Refuse what is a pattern for those who read the directory."""
    if any(each in _PATTERN for each in _check_place(path)):
        raise ValueError(f"invalid path: '{beginning_of(path)}'; a directory that is written has none of {' '.join(_PATTERN)}")
    return path


_TABLE_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")
_TABLES: Final = {"delta": "a 'path', or a 'name' in the catalogue of its Spark", "iceberg": "a 'catalog', and a 'name' there"}
"""By what the tables of a format are found."""

_Callable = Annotated[str, Field(pattern=CALLABLE_PATTERN, max_length=MAX_CALLABLE_LENGTH)]


OWN_SETTINGS: Final = {
    "spark.sql.streaming.checkpointLocation": "a stream's checkpoints are where execution.checkpointing.dir says",
    "spark.sql.streaming.stopActiveRunOnRestart": "a newer attempt has to stop an older one",
}
"""Spark's settings that a stream cannot have otherwise, and why."""

_HIDDEN_BY_SPARK: Final = re.compile(r"(?i)secret|password|token|access[.]?key")
"""The names of settings whose values Spark's pages and logs do not show (`spark.redaction.regex`)."""


def check_one_statement(sql: str) -> None:
    """Check the `sql` of a stream: it is run again in the same session, with its views and variables, when a source has more partitions.

    Raises:
        ValueError: there are several statements.

    """
    if (count := len(statements_of(sql))) > 1:
        raise ValueError(f"sql: a stream is one statement, and here are {count}: name what the others prepare in its WITH clause")


def task_of(document: BaseModel) -> tuple[TaskType, str]:
    """Return what a vertex runs, or a stream that is part of a query.

    Raises:
        ValueError: its document says none, or several.

    """
    said = [(each, task) for each in TaskType if (task := getattr(document, each.lower())) is not None]
    if len(said) != 1:
        raise ValueError("exactly one of 'python', 'sql' and 'sql_file' says what it runs")
    return said[0]


def _check_path(path: str) -> str:
    if not path.isprintable() or "\\" in path or path.startswith("/") or not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise ValueError("must be the path of a file below the document, such as models/orders.sql")
    return path


SqlFile = Annotated[str, Field(max_length=MAX_SQL_FILE_LENGTH), AfterValidator(_check_path)]
"""A file with SQL, by its path from the document, and in the job's code archives from their top."""


def check_parameters(parameters: Mapping[str, Any], *, is_sql: bool) -> None:
    """Check the parameters of a vertex: the secrets that they name, and for a statement what it can be given.

    Raises:
        ValueError: a secret cannot be named so; or the vertex is a statement, and a parameter is a secret, has a number beyond 64 bits, or
            has the name of a parameter that each subtask has.

    """
    has_secrets = check_references(parameters, "parameters")
    if not is_sql:
        return
    if has_secrets:
        raise ValueError("parameters: Spark shows a statement with its arguments on its pages, so a secret is for a 'python' function only")
    for name, value in parameters.items():
        if name in RESERVED_NAMES:
            raise ValueError(f"parameters.{name}: the name is taken: :{name} is that of the subtask; choose another name")
        if any(not -(2**63) <= number < 2**63 for number in _whole_numbers_of(value)):
            raise ValueError(f"parameters.{name}: a number is beyond the 64 bits of a BIGINT; give it as a text, and CAST it to a DECIMAL")


def _whole_numbers_of(value: object) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _whole_numbers_of(each)


BAD_RECORD: Final = "_bad_record"
"""The column of a record that its schema does not fit."""


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RegistryDocument(_Document):
    """A Confluent-compatible schema registry: records name their schema in it."""

    url: Annotated[str, Field(pattern=r"^https?://", max_length=1_024)]
    subject: Annotated[str, Field(min_length=1, max_length=256)]


class KafkaSourceDocument(_Document):
    """A topic that is read; each subtask reads its share of the partitions."""

    topic: _Topic
    bootstrap_servers: _Text | None = None
    """Default: the Kafka of the cluster."""
    starting_offsets: Literal["earliest", "latest"] = "earliest"
    max_offsets_per_trigger: Whole = Field(1_000_000, ge=1)
    """How many records one batch reads at the most: it is one transaction of the sink, which Kafka aborts when it takes too long."""
    fail_on_data_loss: Flag = True
    """Whether the stream fails when records that it has not read are gone."""
    bad_records: Literal["fail", "skip", "column"] = "fail"
    """What becomes of a record that the schema does not fit: it fails the stream, is left out, or stands as text in `_bad_record`."""
    metadata: Flag = False
    """Whether the rows have `key`, `topic`, `partition`, `offset` and `timestamp` of their records as well."""

    @property
    def of_record(self) -> tuple[str, ...]:
        """The columns that rows have of their records, besides those of the schema."""
        return ("key", "topic", "partition", "offset", "timestamp") if self.metadata else ()

    def find_taken_column(self, names: Iterable[str]) -> str:
        """Return why a schema cannot have columns of these names; empty: it can. To Spark, large letters are the same as small ones."""
        keys = dict.fromkeys(self.of_record, "metadata: true")
        if self.bad_records == "column":
            keys[BAD_RECORD] = "bad_records: column"
        taken = [f"the name is taken: '{name}' is a column that '{keys[name.lower()]}' adds" for name in names if name.lower() in keys]
        return taken[0] if taken else ""


class FilesSourceDocument(_Document):
    """A directory whose files are read once each."""

    path: _Place
    """It may be a pattern, such as /raw/2026-*."""
    max_files_per_trigger: Whole | None = Field(None, ge=1)


class RateSourceDocument(_Document):
    """Made-up rows (`timestamp`, `value`), for trials."""

    rows_per_second: Whole = Field(ge=1, le=10_000_000)


class KafkaSinkDocument(_Document):
    """A topic that is written: exactly once, each batch in one transaction, or at least once, by Spark's own sink."""

    topic: _Topic
    bootstrap_servers: _Text | None = None
    """Default: the Kafka of the cluster."""
    key: list[Column] = Field(default_factory=list, max_length=32)
    """The columns of the record's key: one as it is, several as a JSON object."""
    transaction_timeout_ms: Whole = Field(DEFAULT_TRANSACTION_TIMEOUT_MS, ge=1_000, le=MAX_TRANSACTION_TIMEOUT_MS)
    guarantee: Literal["exactly_once", "at_least_once"] = "exactly_once"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.guarantee == "at_least_once" and "transaction_timeout_ms" in self.model_fields_set:
            raise ValueError("'transaction_timeout_ms' goes with guarantee exactly_once: at_least_once writes without transactions")
        return self


class FilesSinkDocument(_Document):
    """A directory that is written, exactly once for who reads it with Spark."""

    path: Annotated[_Text, AfterValidator(_check_directory)]
    partition_by: DistinctColumns = Field(default_factory=list)


class LateRowsDocument(_Document):
    """Where rows that are behind the watermark go, instead of to the task: an output of the stream.

    A row is late when its time is not after the watermark. With a window, or with the gap of a session, it is when the last window that it
    would be in has ended by the watermark: these are the rows that Spark drops before it aggregates.
    """

    output: Name
    window_ms: Annotated[Whole | None, Field(ge=1, le=MAX_WATERMARK_DELAY_MS)] = None
    slide_ms: Annotated[Whole | None, Field(ge=1, le=MAX_WATERMARK_DELAY_MS)] = None
    """How far apart windows begin; default: they do not overlap."""
    start_ms: Annotated[Whole | None, Field(ge=1, le=MAX_WATERMARK_DELAY_MS)] = None
    """How long after the beginning of 1970 one of them begins; default: then."""
    session_gap_ms: Annotated[Whole | None, Field(ge=1, le=MAX_WATERMARK_DELAY_MS)] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.output == DEFAULT_OUTPUT:
            raise ValueError(f"output: '{DEFAULT_OUTPUT}' is what the task returns; give late rows an output of another name")
        if self.window_ms is not None and self.session_gap_ms is not None:
            raise ValueError("'window_ms' and 'session_gap_ms' exclude each other: the rows of a stream are in windows or in sessions")
        if self.slide_ms is not None and (self.window_ms is None or self.slide_ms > self.window_ms):
            raise ValueError("'slide_ms' goes with a 'window_ms' that is not shorter")
        if self.start_ms is not None and self.start_ms >= (self.slide_ms or self.window_ms or 0):
            raise ValueError("'start_ms' goes with windows that begin further apart than that: 'window_ms', or 'slide_ms' beside it")
        return self

    def to_record(self) -> LateRows:
        """Return the core's record."""
        return LateRows(
            output=self.output,
            window_ms=self.window_ms or 0,
            slide_ms=self.slide_ms or 0,
            start_ms=self.start_ms or 0,
            session_gap_ms=self.session_gap_ms or 0,
        )


def late_rows_document(late: LateRows) -> dict[str, Any]:
    """Return the document that becomes this record."""
    return {name: value for name, value in dataclasses.asdict(late).items() if value}


def _late_rows(written: object) -> object:
    if isinstance(written, str):
        return {"output": written}
    if written is not None and not isinstance(written, Mapping | LateRowsDocument):
        raise ValueError(f"must be the name of an output, or a mapping with it, not {describe_value(written)}")
    return written


LateRowsField = Annotated[LateRowsDocument | None, BeforeValidator(_late_rows)]
"""The name of an output alone, or a mapping."""
LATE_ROWS_NEED_TIME: Final = "'late_rows' needs 'event_time' and 'watermark_delay_ms': without a watermark no row is late"


class TableDocument(_Document):
    """A table: of Delta by its path or its name, of Iceberg by its name in a catalogue."""

    path: _Text | None = None
    """The path of a table of Delta."""
    catalog: Annotated[str, Field(pattern=NAME_PATTERN)] | None = None
    """The catalogue of a table of Iceberg, as the configuration of those that look for it calls it."""
    name: Annotated[str, Field(max_length=512)] | None = None
    """What the table is called in its catalogue, behind its namespace; of Delta in that of its Spark."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.path is not None and not _TABLE_PATH.fullmatch(self.path):
            raise ValueError(
                f"invalid path: '{beginning_of(self.path)}'; give an absolute path or a URL such as s3a://bucket/sales, "
                "without white space at its ends and without any of * ? { } [ ] \\ `"
            )
        if self.name is not None and not _TABLE_NAME.fullmatch(self.name):
            raise ValueError(f"invalid name: '{beginning_of(self.name)}'; give a namespace and a table, such as shop.sales")
        return self

    @property
    def location(self) -> str:
        """The path, or the name, of a table of Iceberg behind that of the catalogue; a name has no slash, as each path has."""
        return self.path or ".".join(each for each in (self.catalog, self.name) if each is not None)

    def find_format_fault(self, table_format: str) -> str:
        """Return why this is no table of a format, behind its place; empty: it is one."""
        needed: tuple[str, ...] = ("catalog", "name")
        others: tuple[str, ...] = ("path",)
        if table_format == "delta":
            has_name = self.path is None and self.name is not None
            needed, others = (("name",), ("catalog", "path")) if has_name else (("path",), ("catalog", "name"))
        if missing := [key for key in needed if getattr(self, key) is None]:
            return f"table.{missing[0]}: it is missing: a table of format {table_format} has {_TABLES[table_format]}"
        if written := [key for key in others if getattr(self, key) is not None]:
            return f"table.{written[0]}: a table of format {table_format} has {_TABLES[table_format]}"
        return ""


class StreamTableDocument(TableDocument):
    """A table that a stream reads: the rows that are there, and then each that is appended."""

    starting_version: Whole | None = Field(None, ge=0, le=MAX_SNAPSHOT)
    """The version whose rows are the first; without it the stream begins with the rows that are there."""
    changed_rows: Literal["fail", "skip"] = "fail"
    """What a version does whose rows were there before, changed or deleted: it ends the stream, or is left out."""
    max_files_per_trigger: Whole | None = Field(None, ge=1)

    @property
    def divides_what_is_there(self) -> bool:
        """Whether the rows that are there come in several batches."""
        return self.max_files_per_trigger is not None and self.starting_version is None


class TableSinkDocument(TableDocument):
    """A table that is appended to, exactly once: a batch and its mark are one commit of the table. One that is not there is made."""

    partition_by: DistinctColumns = Field(default_factory=list)
    """The columns by which a table is partitioned that is made; one that is there has these."""
    mode: str = "append"
    """What becomes of the rows that are there."""
    keys: DistinctColumns = Field(default_factory=list)
    """The columns by which a new row finds the row that it replaces: both have the same values there."""
    latest_by: Column | None = None
    """The column whose greatest value decides which row stays, of the new ones and that of the table with the same keys."""
    delete_when: Column | None = None
    """A boolean column of the new rows, which the table does not have: a row with true deletes the one with its keys."""

    @model_validator(mode="after")
    def _check_merge(self) -> Self:
        if self.mode == "merge" and not self.keys:
            raise ValueError("mode: merge needs 'keys', the columns by which a row replaces the one that is there")
        if self.mode != "merge" and (given := [key for key in ("keys", "latest_by", "delete_when") if getattr(self, key)]):
            raise ValueError(f"{given[0]}: it goes with mode: merge, not with {self.mode}")
        used = {name.lower(): "keys" for name in self.keys} | {name.lower(): "partition_by" for name in self.partition_by}
        if self.latest_by is not None and used.get(self.latest_by.lower()) == "keys":
            raise ValueError(f"latest_by: '{self.latest_by}' is one of 'keys', in which rows are the same: name another column")
        used |= {self.latest_by.lower(): "latest_by"} if self.latest_by is not None else {}
        if self.delete_when is not None and (key := used.get(self.delete_when.lower())) is not None:
            raise ValueError(f"delete_when: '{self.delete_when}' stands in '{key}' too, and the table has no such column: name another")
        return self


class StreamTableSinkDocument(TableSinkDocument):
    """A table that a stream appends to, or merges into by keys."""

    mode: Literal["append", "merge"] = "append"
    """What becomes of the rows that are there: all of them stay, or a new row replaces the one that has its keys."""


class StreamSourceDocument(_Document):
    """One source: exactly one of `kafka`, `files`, `table`, `rate` and `python`."""

    FORMATS: ClassVar = {
        StreamConnector.KAFKA: ("json", "avro", "text", "bytes"),
        StreamConnector.FILES: ("json", "csv", "parquet", "text"),
        StreamConnector.TABLE: ("delta",),
        StreamConnector.RATE: (),
        StreamConnector.PYTHON: (),
    }

    kafka: KafkaSourceDocument | None = None
    files: FilesSourceDocument | None = None
    table: StreamTableDocument | None = None
    rate: RateSourceDocument | None = None
    python: _Callable | None = None
    format: str | None = None
    schema_: _Schema = Field(None, alias="schema")
    registry: RegistryDocument | None = None
    event_time: Column | None = None
    watermark_delay_ms: Annotated[Whole | None, Field(ge=0, le=MAX_WATERMARK_DELAY_MS)] = None
    late_rows: LateRowsField = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        connector = _connector_of(self, "a source")
        _check_format(self.format, self.FORMATS[connector], connector)
        _check_avro(self)
        if self.table is not None and (fault := self.table.find_format_fault(self.format or "")):
            raise ValueError(fault)
        has_columns = connector in (StreamConnector.KAFKA, StreamConnector.FILES) and self.format not in ("text", "bytes")
        if has_columns and self.schema_ is None and self.format != "avro":
            raise ValueError(f"format {self.format} needs a 'schema', the columns as Spark's DDL such as 'id BIGINT, at TIMESTAMP'")
        if not has_columns and self.schema_ is not None:
            raise ValueError(
                f"a {connector.lower()} source{f' of format {self.format}' if self.format else ''} has columns of its own, no 'schema'"
            )
        if self.kafka is not None and self.schema_ is not None:
            columns = spark_columns(self.schema_) if self.format == "avro" else self.schema_
            if fault := self.kafka.find_taken_column(column_names(columns)):
                raise ValueError(f"schema: {fault}")
        if (self.event_time is None) != (self.watermark_delay_ms is None):
            raise ValueError(EVENT_TIME_WITH_DELAY)
        if self.late_rows is not None and self.event_time is None:
            raise ValueError(LATE_ROWS_NEED_TIME)
        if self.table is not None and self.event_time is not None and self.table.divides_what_is_there:
            raise ValueError(
                "table.max_files_per_trigger: with 'event_time' the rows that are there are one batch, since those of a later one would be "
                "late: leave it out, or name a 'starting_version'"
            )
        return self

    def to_record(self, name: str) -> StreamSource:
        """Return the core's record."""
        connector = _connector_of(self, "a source")
        inner = getattr(self, connector.lower())
        more: dict[str, Any] = {}
        if self.event_time is not None:
            more = {"event_time": self.event_time, "watermark_delay_ms": self.watermark_delay_ms}
        if self.late_rows is not None:
            more["late_rows"] = self.late_rows.model_dump(exclude_none=True)
        return StreamSource(
            name=name,
            connector=connector,
            location=_location_of(inner),
            stream_format=StreamFormat((self.format or "none").upper()),
            row_schema=self.schema_ or "",
            options_json=canonical_json(_options_of(inner) | more | _registry_of(self)),
        )


class StreamSinkDocument(_Document):
    """The sink: exactly one of `kafka`, `files`, `table` and `python`."""

    FORMATS: ClassVar = {
        StreamConnector.KAFKA: ("json", "avro", "text", "bytes"),
        StreamConnector.FILES: ("parquet", "json", "csv"),
        StreamConnector.TABLE: ("delta", "iceberg"),
        StreamConnector.PYTHON: (),
    }

    kafka: KafkaSinkDocument | None = None
    files: FilesSinkDocument | None = None
    table: StreamTableSinkDocument | None = None
    python: _Callable | None = None
    format: str | None = None
    schema_: _Schema = Field(None, alias="schema")
    registry: RegistryDocument | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        connector = _connector_of(self, "a sink")
        _check_format(self.format, self.FORMATS[connector], connector)
        _check_avro(self)
        if self.schema_ is not None and self.format != "avro":
            raise ValueError("a sink has the columns of its rows; 'schema' goes with format avro")
        if self.format == "bytes" and self.kafka is not None and self.kafka.key:
            raise ValueError("kafka.key: format bytes takes the key from the column 'key': call that column so, and leave kafka.key out")
        if self.table is not None and (fault := self.table.find_format_fault(self.format or "")):
            raise ValueError(fault)
        return self

    @property
    def merges(self) -> bool:
        """Whether a row replaces another one."""
        return self.table is not None and self.table.mode == "merge"

    def to_record(self, name: str = "") -> StreamSink:
        """Return the core's record."""
        connector = _connector_of(self, "a sink")
        inner = getattr(self, connector.lower())
        return StreamSink(
            name=name,
            connector=connector,
            location=_location_of(inner),
            stream_format=StreamFormat((self.format or "none").upper()),
            row_schema=self.schema_ or "",
            options_json=canonical_json(_options_of(inner) | _registry_of(self)),
        )


class StreamTriggerDocument(_Document):
    """When the next batch begins: each so often, once for everything that is there now, or at once, for so long a batch."""

    processing_time_ms: Whole | None = Field(None, ge=0, le=MAX_TRIGGER_INTERVAL_MS)
    available_now: Literal[True] | None = None
    real_time_ms: Annotated[Whole | None, Field(ge=MIN_REAL_TIME_MS, le=MAX_TRIGGER_INTERVAL_MS)] = None
    """How long a batch lasts; its rows are written while it does."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("exactly one of 'processing_time_ms', 'available_now: true' and 'real_time_ms' says when a batch begins")
        return self

    def to_record(self) -> tuple[StreamTrigger, int]:
        """Return the core's kind, and its interval in milliseconds."""
        if self.real_time_ms is not None:
            return StreamTrigger.REAL_TIME, self.real_time_ms
        if self.processing_time_ms is not None:
            return StreamTrigger.PROCESSING_TIME, self.processing_time_ms
        return StreamTrigger.AVAILABLE_NOW, 0


class ChainedDocument(_Document):
    """A stream that is part of the query of another one: exactly one of `python`, `sql` and `sql_file`."""

    id: Name
    python: _Callable | None = None
    sql: Annotated[str, Field(min_length=1, max_length=65_536)] | None = None
    sql_file: SqlFile | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    input: Name
    schema_: Annotated[str, Field(alias="schema", min_length=1, max_length=65_536)]
    event_time: Column | None = None
    watermark_delay_ms: Annotated[Whole | None, Field(ge=0, le=MAX_WATERMARK_DELAY_MS)] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        task_type, _ = task_of(self)
        if (self.event_time is None) != (self.watermark_delay_ms is None):
            raise ValueError(EVENT_TIME_WITH_DELAY)
        check_parameters(self.parameters, is_sql=task_type is not TaskType.PYTHON)
        check_one_statement(self.sql or "")
        return self

    def to_record(self) -> ChainedOperator:
        """Return the core's record."""
        task_type, task = task_of(self)
        return ChainedOperator(
            operator_id=self.id,
            task_type=task_type,
            task=task,
            parameters_json=canonical_json(self.parameters),
            input_name=self.input,
            row_schema=self.schema_,
            event_time=self.event_time or "",
            watermark_delay_ms=self.watermark_delay_ms or 0,
        )


class StreamDocument(_Document):
    """What makes a vertex a stream."""

    sources: dict[Name, StreamSourceDocument] = Field(default_factory=dict, max_length=MAX_SOURCES)
    sink: StreamSinkDocument | None = None
    sinks: Annotated[dict[Name, StreamSinkDocument] | None, Field(min_length=1, max_length=MAX_SINKS)] = None
    """By the name of the output: topics of one Kafka, all of which a batch is written to in one transaction."""
    trigger: StreamTriggerDocument = Field(default_factory=lambda: StreamTriggerDocument(processing_time_ms=0))
    output_mode: Literal["append", "update", "complete"] = "append"
    settings: dict[str, str | int | float | bool | dict[Literal["secret"], str]] = Field(default_factory=dict, max_length=128)
    """Spark's settings of the query's session, such as `spark.sql.shuffle.partitions`; a secret is named."""
    chained: list[ChainedDocument] = Field(default_factory=list, max_length=MAX_CHAINED)
    """Streams that are part of this one's query, as chaining writes them."""

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        for key in self.settings:
            if not key.startswith("spark."):
                raise ValueError(f"settings: unknown setting of Spark: '{beginning_of(key)}'; its settings begin with 'spark.'")
            if key in OWN_SETTINGS:
                raise ValueError(f"settings: '{key}' cannot be set: {OWN_SETTINGS[key]}")
        _check_secret_settings(self.settings)
        return self

    @model_validator(mode="after")
    def _check_sinks(self) -> Self:
        if self.sink is not None and self.sinks is not None:
            raise ValueError("one of 'sink' and 'sinks' says where the rows go, not both")
        kafkas = {name: sink.kafka for name, sink in (self.sinks or {}).items()}
        if others := [name for name, kafka in kafkas.items() if kafka is None]:
            raise ValueError(
                f"sinks.{others[0]}: no topic of Kafka, and only topics are written in one transaction: give it a vertex of its own"
            )
        if len({kafka.bootstrap_servers for kafka in kafkas.values() if kafka is not None}) > 1:
            raise ValueError("sinks: they name different 'bootstrap_servers', and a transaction is within one Kafka")
        if lax := [name for name, kafka in kafkas.items() if kafka is not None and kafka.guarantee == "at_least_once"]:
            raise ValueError(f"sinks.{lax[0]}.kafka.guarantee: several sinks are written in one transaction, so exactly_once")
        if self.sink is not None and self.output_mode != "append":
            if self.sink.files is not None:
                raise ValueError(f"a files sink can only append, not {self.output_mode}")
            if self.sink.table is not None and self.sink.table.mode == "append":
                raise ValueError(
                    f"a table sink can only append, not {self.output_mode}: its rows would be there in each of their versions, unless it "
                    "has mode: merge"
                )
            if self.sink.table is not None and self.output_mode == "complete":
                raise ValueError("a table sink that merges can append or update, not complete: it takes what has changed")
        if self.trigger.real_time_ms is not None:
            self._check_real_time()
        return self

    @property
    def has_sink(self) -> bool:
        """Whether the rows go anywhere but over edges."""
        return self.sink is not None or self.sinks is not None

    @property
    def outputs(self) -> list[str]:
        """The outputs that its own sinks get."""
        return [DEFAULT_OUTPUT] if self.sink is not None else list(self.sinks or {})

    def find_edge_fault(self) -> str:
        """Return why the rows of this stream cannot go over an edge; empty: they can.

        What goes over an edge is in the transaction of its batch, with what the other sinks get of it.
        """
        kafkas = {f"sinks.{name}": sink.kafka for name, sink in (self.sinks or {}).items()}
        if self.sink is not None:
            kafkas["sink"] = self.sink.kafka
        for where, kafka in kafkas.items():
            if kafka is None or kafka.guarantee != "exactly_once":
                return f"has a {where} that is not written in transactions of Kafka, as the edge is: write it from a stream behind the edge"
            if kafka.bootstrap_servers is not None:
                return f"has a {where} in a Kafka of its own, and a transaction is within one: write it from a stream behind the edge"
        return ""

    def _check_real_time(self) -> None:
        """Refuse what Spark does not have in real time."""
        kafka = self.sink.kafka if self.sink is not None else None
        if kafka is None or kafka.guarantee != "at_least_once":
            where = "sink.kafka.guarantee" if kafka is not None else "sinks" if self.sinks is not None else "sink"
            raise ValueError(
                f"{where}: with trigger real_time_ms Spark writes rows before their batch ends, by its own sink for one topic of Kafka, "
                "which may repeat them: that needs 'guarantee: at_least_once'"
            )
        if self.output_mode != "update":
            raise ValueError(f"output_mode: trigger real_time_ms needs update, not {self.output_mode}")
        ends = {"sink": self.sink} | {f"sources.{name}": source for name, source in self.sources.items()}
        for where, end in ends.items():
            if end is not None and end.format == "avro":
                raise ValueError(
                    f"{where}.format: avro is decoded and encoded by Arrow functions, which Spark refuses with trigger real_time_ms"
                )
        for name, source in self.sources.items():
            if source.files is not None or source.rate is not None:
                kind = "files" if source.files is not None else "rate"
                raise ValueError(f"sources.{name}.{kind}: trigger real_time_ms reads Kafka, not {kind}")
            if source.kafka is not None and "max_offsets_per_trigger" in source.kafka.model_fields_set:
                raise ValueError(f"sources.{name}.kafka.max_offsets_per_trigger: a batch of trigger real_time_ms ends with its time alone")

    def to_record(self) -> StreamDefinition:
        """Return the core's record."""
        trigger, interval_ms = self.trigger.to_record()
        return StreamDefinition(
            sources=tuple([source.to_record(name) for name, source in self.sources.items()]),
            sinks=tuple([sink.to_record(name) for name, sink in ({"": self.sink} if self.sink else self.sinks or {}).items()]),
            trigger=trigger,
            trigger_interval_ms=interval_ms,
            output_mode=StreamOutputMode(self.output_mode.upper()),
            settings_json=canonical_json(self.settings),
            chained=tuple([each.to_record() for each in self.chained]),
        )


def _check_secret_settings(settings: Mapping[str, Any]) -> None:
    check_references(settings, "settings")
    for key, value in settings.items():
        if reference_name(value) is not None and not _HIDDEN_BY_SPARK.search(key):
            raise ValueError(f"settings: '{key}' cannot be a secret: Spark hides those named secret, password, token or access.key")


def _connector_of(document: StreamSourceDocument | StreamSinkDocument, what: str) -> StreamConnector:
    connectors = [connector for connector in document.FORMATS if getattr(document, connector.lower()) is not None]
    if len(connectors) != 1:
        *all_but_last, last = [f"'{connector.lower()}'" for connector in document.FORMATS]
        raise ValueError(f"exactly one of {', '.join(all_but_last)} and {last} says what {what} is")
    return connectors[0]


def _check_format(written: str | None, known: tuple[str, ...], connector: StreamConnector) -> None:
    if not known and written is not None:
        raise ValueError(f"{connector.lower()} has no 'format'")
    if known and written not in known:
        missing = (
            f"needs a 'format': {', '.join(known)}"
            if written is None
            else f"has an unknown format: '{written[:40]}'; known: {', '.join(known)}"
        )
        raise ValueError(f"{connector.lower()} {missing}{did_you_mean(written, known)}")


def _check_avro(document: StreamSourceDocument | StreamSinkDocument) -> None:
    schema = document.schema_
    if document.format != "avro":
        if document.registry is not None:
            raise ValueError("a 'registry' goes with format avro")
    elif schema is None:
        if document.registry is None:
            raise ValueError(
                f"format avro needs a 'schema', an Avro record or the path of its {SCHEMA_SUFFIX} file, or a 'registry', or both"
            )
    elif schema.endswith(SCHEMA_SUFFIX):
        raise ValueError(
            f"schema: '{schema[-100:]}' is a file, which is read only when the graph is submitted from a file; write the schema itself"
        )
    else:
        try:
            spark_columns(schema)
        except ValueError as error:
            raise ValueError(f"schema: {error}") from error


def _registry_of(document: StreamSourceDocument | StreamSinkDocument) -> dict[str, Any]:
    return {} if document.registry is None else {"registry": document.registry.model_dump()}


_LOCATIONS: Final = ("topic", "path", "rows_per_second")
_IN_CATALOG: Final = ("catalog", "name")
"""What is the location of a table of Iceberg, a dot between both."""


def _location_of(inner: _Document | str) -> str:
    if isinstance(inner, str):
        return inner
    if isinstance(inner, TableDocument):
        return inner.location
    return str(next(getattr(inner, key) for key in _LOCATIONS if key in type(inner).model_fields))


def _options_of(inner: _Document | str) -> dict[str, Any]:
    return {} if isinstance(inner, str) else inner.model_dump(exclude_defaults=True, exclude={*_LOCATIONS, *_IN_CATALOG})


def stream_document(stream: StreamDefinition) -> dict[str, Any]:
    """Return the document that becomes this definition: what came as an Avro record meets the same checks.

    Raises:
        ValueError: options or settings are not a JSON object.

    """
    return {
        "sources": {source.name: end_document(source) for source in stream.sources},
        **_sinks_document(stream.sinks),
        "trigger": _trigger_document(stream),
        "output_mode": stream.output_mode.lower(),
        "settings": _object_of(stream.settings_json, "settings_json"),
        "chained": [_chained_document(operator) for operator in stream.chained],
    }


def _chained_document(operator: ChainedOperator) -> dict[str, Any]:
    written: dict[str, Any] = {"id": operator.operator_id, operator.task_type.lower(): operator.task}
    written |= {"input": operator.input_name, "schema": operator.row_schema}
    written["parameters"] = _object_of(operator.parameters_json, "parameters_json")
    if operator.event_time or operator.watermark_delay_ms:
        written |= {"event_time": operator.event_time, "watermark_delay_ms": operator.watermark_delay_ms}
    return written


def _trigger_document(stream: StreamDefinition) -> dict[str, Any]:
    if stream.trigger is StreamTrigger.AVAILABLE_NOW:
        return {"available_now": True}
    return {f"{stream.trigger.lower()}_ms": stream.trigger_interval_ms}


def _sinks_document(sinks: tuple[StreamSink, ...]) -> dict[str, Any]:
    if not sinks:
        return {}
    if len(sinks) == 1 and not sinks[0].name:
        return {"sink": end_document(sinks[0])}
    if len({sink.name for sink in sinks}) < len(sinks):
        raise ValueError("two sinks have the same name")
    return {"sinks": {sink.name: end_document(sink) for sink in sinks}}


_SHARED: Final[tuple[str, ...]] = ("event_time", "watermark_delay_ms", "late_rows", "registry")


def end_document(end: StreamSource | StreamSink) -> dict[str, Any]:
    """Return the document of a source or a sink."""
    options = _object_of(end.options_json, "options_json")
    shared = {key: options.pop(key) for key in _SHARED if key in options}
    location: Any = end.location
    match end.connector:
        case StreamConnector.KAFKA:
            location = {"topic": location, **options}
        case StreamConnector.TABLE if end.stream_format is StreamFormat.ICEBERG:
            location = {**dict(zip(_IN_CATALOG, location.split(".", 1), strict=False)), **options}
        case StreamConnector.TABLE if "/" not in location:
            location = {"name": location, **options}
        case StreamConnector.FILES | StreamConnector.TABLE:
            location = {"path": location, **options}
        case StreamConnector.RATE:
            location = {"rows_per_second": int(location) if location.isascii() and location.isdecimal() else location, **options}
    document: dict[str, Any] = {end.connector.lower(): location, **shared}
    if end.stream_format is not StreamFormat.NONE:
        document["format"] = end.stream_format.lower()
    if end.row_schema:
        document["schema"] = end.row_schema
    return document


_OBJECT: Final = TypeAdapter(dict[str, Any])


def _object_of(text: str, what: str) -> dict[str, Any]:
    try:
        return _OBJECT.validate_json(text)
    except ValidationError as error:
        raise ValueError(f"{what} is not a JSON object: {describe_fault(error.errors()[0])}") from error


def source_document(source: StreamSource) -> StreamSourceDocument:
    """Return what a source was told, with its defaults."""
    return StreamSourceDocument.model_validate(end_document(source))


def sink_document(sink: StreamSink) -> StreamSinkDocument:
    """Return what a sink was told, with its defaults."""
    return StreamSinkDocument.model_validate(end_document(sink))
