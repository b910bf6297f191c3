"""The JobGraph as people write it, in JSON or YAML, and every check that a graph has to pass before it enters the log.

Unknown keys are refused, cycles and dangling edges named. What comes out is the plain record of `job_graph.py`; the digest
of a graph is taken over its canonical JSON, so that two spellings of the same graph are the same job.

    name: delays
    vertices:
      - {id: flights, python: "my_module:read", parallelism: 2}
      - {id: by_carrier, sql: "SELECT carrier, avg(delay) AS delay FROM flights GROUP BY carrier", parallelism: 2}
    edges:
      - {from: flights, to: by_carrier, ship: hash, keys: [carrier]}
    restart_strategy: {type: fixed-delay, attempts: 3, delay_ms: 500}
"""

import dataclasses
import functools
import hashlib
import json
import re
import typing
from collections.abc import Container, Mapping
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, ValidationError, model_validator

from eventflink.model.avro_schema import Directory, with_schema_files
from eventflink.model.batch_sink_document import BatchSinkDocument
from eventflink.model.batch_source_document import BatchSourceDocument
from eventflink.model.chaining import chain_streams
from eventflink.model.closing import SQL_NAMES, runs_in_words
from eventflink.model.condition_document import ConditionDocument, condition_document
from eventflink.model.conditions import condition_key
from eventflink.model.configuration import ID_PATTERN
from eventflink.model.document_faults import describe_faults, describe_value, place_in
from eventflink.model.document_fields import (
    CALLABLE_PATTERN,
    MAX_CALLABLE_LENGTH,
    MAX_JOB_NAME_LENGTH,
    MAX_NAME_LENGTH,
    Column,
    Flag,
    Name,
    Number,
    Whole,
    canonical_json,
    duration_within,
)
from eventflink.model.document_text import InvalidText, Path, read_document
from eventflink.model.durations import DURATION_RULE, duration_ms_of, duration_text
from eventflink.model.job_about import Description, Labels, Links, Owner, about_document, about_of
from eventflink.model.job_graph import (
    DEFAULT_OUTPUT,
    MAX_CHECKPOINT_TIME_MS,
    MAX_FAILURE_RATE,
    MAX_KEEP_OUTPUTS_MS,
    MAX_RESTART_DELAY_MS,
    MAX_RESTART_INTERVAL_MS,
    MAX_RETAINED_CHECKPOINTS,
    MAX_TIME_LIMIT_MS,
    CheckpointSettings,
    EdgePipeline,
    JobEdge,
    JobGraph,
    JobVertex,
    RestartStrategy,
    RowCondition,
    SavepointRestore,
)
from eventflink.model.job_parameters import (
    MAX_VALUES_BYTES,
    Declared,
    bound_text,
    describe_declared,
    parameter_documents,
)
from eventflink.model.job_queues import MAX_PRIORITY
from eventflink.model.named_keys import NAME_PATTERN
from eventflink.model.resources import ResourceProfile, cores_of, parse_cpu_cores, parse_memory_size, profile_of
from eventflink.model.retry_document import Retries, retry_document
from eventflink.model.slot_sharing import GroupMember, profiles_of_groups
from eventflink.model.spark_engines import LOCAL
from eventflink.model.spark_pools import MAX_CORES, MEMORY_PATTERN, POOL_PATTERN, SHARED, SparkPool
from eventflink.model.sql_script import has_statement
from eventflink.model.statuses import CheckpointRetention, RestartStrategyType, SchedulerType, ShipStrategy, TaskType, VertexRuns
from eventflink.model.stream_document import (
    EVENT_TIME_WITH_DELAY,
    LATE_ROWS_NEED_TIME,
    MAX_SOURCES,
    MAX_WATERMARK_DELAY_MS,
    LateRowsField,
    SqlFile,
    StreamDocument,
    check_one_statement,
    check_parameters,
    end_document,
    late_rows_document,
    stream_document,
    task_of,
)
from eventflink.model.texts import did_you_mean

MAX_VERTICES: Final = 5_000
MAX_EDGES: Final = 15_000
"""To check them takes a leader as long as it takes to check the vertices; a lease is not much longer."""
MAX_PARALLELISM: Final = 4_096
MAX_SUBTASKS: Final = 100_000
MAX_EDGE_PARTITIONS: Final = 1_000
MAX_PROFILES: Final = 16
"""How many different resources the vertices of one job may ask for: matching costs by how many different ones wait."""
_CALLABLE = re.compile(CALLABLE_PATTERN)


class InvalidJobGraph(Exception):
    """A graph that cannot run; the message says what is wrong and where."""


MemorySize = Annotated[int, BeforeValidator(parse_memory_size)]
CpuCores = Annotated[int, BeforeValidator(parse_cpu_cores)]


class ResourcesDocument(BaseModel):
    """What each subtask of a vertex asks of its slot."""

    model_config = ConfigDict(extra="forbid")

    cpu_cores: CpuCores = 0
    task_heap_memory: MemorySize = 0
    task_off_heap_memory: MemorySize = 0
    managed_memory: MemorySize = 0
    extended_resources: dict[str, Annotated[int, Field(strict=True)]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.to_record()
        return self

    def to_record(self) -> ResourceProfile | None:
        """Return the core's record; None if nothing is asked for."""
        return profile_of(
            cpu_millicores=self.cpu_cores,
            task_heap_bytes=self.task_heap_memory,
            task_off_heap_bytes=self.task_off_heap_memory,
            managed_bytes=self.managed_memory,
            extended_resources=self.extended_resources.items(),
        )


TimeLimit = Annotated[int | None, duration_within(1, MAX_TIME_LIMIT_MS)]
Engine = Annotated[str, Field(pattern=NAME_PATTERN)]


class VertexDocument(BaseModel):
    """One vertex: exactly one of `python`, `sql` and `sql_file`."""

    model_config = ConfigDict(extra="forbid")

    id: Name
    python: str | None = Field(None, max_length=MAX_CALLABLE_LENGTH)
    sql: str | None = Field(None, max_length=65_536)
    sql_file: SqlFile | None = None
    parallelism: Whole = Field(1, ge=1, le=MAX_PARALLELISM)
    max_parallelism: Whole = Field(128, ge=1, le=32_768)
    parameters: dict[str, Any] = Field(default_factory=dict)
    resources: ResourcesDocument | None = None
    slot_sharing_group: Name | None = None
    stream: StreamDocument | None = None
    time_limit: TimeLimit = None
    """For how long each of its attempts may run."""
    retries: Retries = Field(default_factory=list)
    """What follows a failed attempt; a number is how many further attempts there are, of whatever it failed."""
    sink: BatchSinkDocument | None = None
    """The table that the rows of a batch task go to."""
    sources: dict[Name, BatchSourceDocument] = Field(default_factory=dict, max_length=MAX_SOURCES)
    """The tables that a batch task reads, by the names of its inputs."""
    engine: Engine | None = None
    """The Spark that runs its tasks; default: that of the job."""
    runs: Literal["on-success", "on-failure", "always"] | None = None
    """After which ends of all others it runs, as a closing vertex; default: it runs in its turn."""
    when: ConditionDocument | None = None
    """Whether it runs, or is skipped; default: it runs."""
    code_digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """A digest of the part of the job's code that its function is made of, or of the jars of its statement, which eventflink's clients
    write; default: unknown.
    """

    @model_validator(mode="after")
    def _check(self) -> Self:
        task_of(self)
        if self.python is not None and not _CALLABLE.fullmatch(self.python):
            raise ValueError(f"python: '{self.python}' is not of the form module:function")
        if self.sql is not None and not has_statement(self.sql):
            raise ValueError("sql: the query is empty")
        if self.parallelism > self.max_parallelism:
            raise ValueError(f"parallelism {self.parallelism} is above max_parallelism {self.max_parallelism}")
        check_parameters(self.parameters, is_sql=self.is_sql)
        if self.stream is not None:
            check_one_statement(self.sql or "")
            if len({_input_key(self, name) for name in self.stream.sources}) < len(self.stream.sources):
                raise ValueError("stream.sources: two are views of one name in SQL, where upper and lower case are one")
            if self.parallelism > 1 and self.stream.sink is not None and self.stream.sink.merges:
                raise ValueError(
                    f"stream.sink.table.mode: {self.parallelism} subtasks that merge at the same time let each other fail: give the vertex "
                    "parallelism 1 (Spark runs its one query on all its cores)"
                )
            if self.sink is not None:
                raise ValueError("sink: it is for a batch task, and the vertex is a stream, whose sink stands under 'stream'")
        if self.sink is not None and (fault := self.sink.find_parallelism_fault(self.parallelism)):
            raise ValueError(f"sink.{fault}")
        return self

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        if self.sources and self.stream is not None:
            raise ValueError("sources: they are of a batch task, and the vertex is a stream, whose sources stand under 'stream'")
        if len({_input_key(self, name) for name in self.sources}) < len(self.sources):
            raise ValueError("sources: two are views of one name in SQL, where upper and lower case are one")
        if replaced := [name for name, source in self.sources.items() if self.sink is not None and self.sink.replaces_newest(source)]:
            raise ValueError(
                f"sources.{replaced[0]}: it is the table that the sink replaces, where rows that others append meanwhile would be lost: "
                "name the 'version' that is replaced, or write to another table"
            )
        return self

    @property
    def is_sql(self) -> bool:
        """Whether it runs SQL, wherever that stands."""
        return self.python is None

    def to_record(self) -> JobVertex:
        """Return the core's record."""
        task_type, task = task_of(self)
        return JobVertex(
            vertex_id=self.id,
            task_type=task_type,
            task=task,
            parallelism=self.parallelism,
            max_parallelism=self.max_parallelism,
            parameters_json=canonical_json(self.parameters),
            resources=self.resources.to_record() if self.resources is not None else None,
            slot_sharing_group=self.slot_sharing_group,
            stream=self.stream.to_record() if self.stream is not None else None,
            time_limit_ms=self.time_limit,
            retries=tuple([rule.to_record() for rule in self.retries]),
            sink=self.sink.to_record() if self.sink is not None else None,
            engine=self.engine or "",
            runs=VertexRuns(self.runs.upper().replace("-", "_")) if self.runs is not None else VertexRuns.IN_TURN,
            condition=self.when.to_record() if self.when is not None else None,
            sources=tuple([source.to_record(name) for name, source in self.sources.items()]),
            code_digest=self.code_digest or "",
        )


class EdgeDocument(BaseModel):
    """One edge; between two streams it is pipelined, and what follows `schema` is of such edges only."""

    model_config = ConfigDict(extra="forbid")

    source: str = Field(alias="from", max_length=MAX_NAME_LENGTH)
    target: str = Field(alias="to", max_length=MAX_NAME_LENGTH)
    output: Name = DEFAULT_OUTPUT
    name: Name | None = None
    ship: Literal["forward", "hash", "rebalance", "broadcast", "each"] = "rebalance"
    keys: list[Column] = Field(default_factory=list, max_length=32)
    schema_: Annotated[str | None, Field(alias="schema", min_length=1, max_length=65_536)] = None
    """The columns of its rows, as Spark's DDL; also of an edge from a mapped vertex, which may leave nothing."""
    if_skipped: Annotated[str | None, Field(min_length=1, max_length=65_536)] = None
    """The same, of an edge from a vertex that may be skipped: its reader runs then, and reads no rows with these columns."""
    partitions: Annotated[Whole | None, Field(ge=1, le=MAX_EDGE_PARTITIONS)] = None
    """Of its topic; default: as many as the reader has subtasks."""
    event_time: Column | None = None
    watermark_delay_ms: Annotated[Whole | None, Field(ge=0, le=MAX_WATERMARK_DELAY_MS)] = None
    late_rows: LateRowsField = None
    """To which output of its reader the rows behind the watermark go."""
    chain: Flag | None = None
    """Whether its ends become one query; default: where that is safe."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.event_time is None) != (self.watermark_delay_ms is None):
            raise ValueError(EVENT_TIME_WITH_DELAY)
        if self.late_rows is not None and self.event_time is None:
            raise ValueError(LATE_ROWS_NEED_TIME)
        if self.if_skipped is not None and self.schema_ is not None:
            raise ValueError("if_skipped: it says the columns, whether or not there are rows: leave 'schema' out")
        if self.ship == "hash" and not self.keys:
            raise ValueError("ship: hash needs 'keys', the columns that decide where a row goes")
        if self.ship != "hash" and self.keys:
            raise ValueError(f"'keys' go with ship: hash, not with {self.ship}")
        return self

    def to_record(self, readers: int, *, is_pipelined: bool) -> JobEdge:
        """Return the core's record, of an edge whose reader has so many subtasks."""
        pipeline = None
        if is_pipelined:
            pipeline = EdgePipeline(
                row_schema=self.schema_ or "",
                partitions=self.partitions or readers,
                event_time=self.event_time or "",
                watermark_delay_ms=self.watermark_delay_ms or 0,
                late_rows=self.late_rows.to_record() if self.late_rows is not None else None,
            )
        return JobEdge(
            source=self.source,
            target=self.target,
            output=self.output,
            input_name=self.name or self.source,
            ship=ShipStrategy(self.ship.upper()),
            keys=tuple(self.keys),
            pipeline=pipeline,
            row_schema="" if is_pipelined else self.if_skipped or self.schema_ or "",
            reads_skipped=self.if_skipped is not None,
        )


RESTART_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "cluster-default": (),
    "none": (),
    "fixed-delay": ("attempts", "delay_ms"),
    "exponential-delay": ("delay_ms", "max_delay_ms", "multiplier", "reset_threshold_ms", "jitter_factor"),
    "failure-rate": ("attempts", "interval_ms", "delay_ms"),
}
"""What each restart strategy can be told."""


class RestartStrategyDocument(BaseModel):
    """What happens when an attempt fails."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["cluster-default", "none", "fixed-delay", "exponential-delay", "failure-rate"]
    attempts: Whole = Field(1, ge=0, le=1_000_000)
    delay_ms: Whole = Field(1_000, ge=0, le=MAX_RESTART_DELAY_MS)
    max_delay_ms: Whole = Field(300_000, ge=1, le=MAX_RESTART_DELAY_MS)
    multiplier: Number = Field(2.0, ge=1.0, le=1_000.0, allow_inf_nan=False)
    reset_threshold_ms: Whole = Field(3_600_000, ge=1, le=MAX_RESTART_INTERVAL_MS)
    jitter_factor: Number = Field(0.1, ge=0.0, le=1.0, allow_inf_nan=False)
    interval_ms: Whole = Field(60_000, ge=1, le=MAX_RESTART_INTERVAL_MS)

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse a key that means nothing for the type: it would be a mistake that nobody notices."""
        known = RESTART_KEYS[self.type]
        for key in sorted(self.model_fields_set - {"type"} - set(known)):
            raise ValueError(f"unknown key of restart_strategy {self.type}: '{key}'; known: {', '.join(known) or 'no keys'}")
        if self.type == "exponential-delay" and not 1 <= self.delay_ms <= self.max_delay_ms:
            raise ValueError(f"delay_ms {self.delay_ms} of exponential-delay is not between 1 and max_delay_ms {self.max_delay_ms}")
        if self.type == "failure-rate" and not 1 <= self.attempts <= MAX_FAILURE_RATE:
            raise ValueError(f"attempts {self.attempts} of failure-rate is not between 1 and {MAX_FAILURE_RATE}")
        return self

    def to_record(self) -> RestartStrategy:
        """Return the core's record."""
        strategy_type = RestartStrategyType(self.type.upper().replace("-", "_"))
        return RestartStrategy(strategy_type, **{key: getattr(self, key) for key in RESTART_KEYS[self.type]})


class CheckpointingDocument(BaseModel):
    """When the checkpoints of the job's streams are taken; the names are Flink's, with their unit."""

    model_config = ConfigDict(extra="forbid")

    interval_ms: Whole = Field(10_000, ge=0, le=MAX_CHECKPOINT_TIME_MS)
    timeout_ms: Whole = Field(600_000, ge=10, le=MAX_CHECKPOINT_TIME_MS)
    min_pause_ms: Whole = Field(0, ge=0, le=MAX_CHECKPOINT_TIME_MS)
    tolerable_failed_checkpoints: Whole = Field(0, ge=-1, le=1_000_000)
    max_retained: Whole = Field(1, ge=1, le=MAX_RETAINED_CHECKPOINTS)
    retention: Literal["delete-on-cancellation", "retain-on-cancellation"] = "delete-on-cancellation"

    def to_record(self) -> CheckpointSettings:
        """Return the core's record."""
        retention = CheckpointRetention(self.retention.upper().replace("-", "_"))
        return CheckpointSettings(**{key: getattr(self, key) for key in type(self).model_fields if key != "retention"}, retention=retention)


class RestoreDocument(BaseModel):
    """The savepoint in which the job's streams begin."""

    model_config = ConfigDict(extra="forbid")

    savepoint: Annotated[str, Field(min_length=1, max_length=4_096, pattern=r"^(/|[a-zA-Z][a-zA-Z0-9+.-]*://)[^\x00-\x1f]*$")]
    """Its directory: an absolute path, or a URL that fsspec knows."""
    allow_non_restored_state: Flag = False

    def to_record(self) -> SavepointRestore:
        """Return the core's record."""
        return SavepointRestore(self.savepoint, self.allow_non_restored_state)


class SparkDocument(BaseModel):
    """Which Spark runs the tasks of the job."""

    model_config = ConfigDict(extra="forbid")

    pool: Annotated[str, Field(pattern=POOL_PATTERN)]
    """`shared`, `job`, or a name of one's own."""
    memory: Annotated[str, Field(pattern=MEMORY_PATTERN)] | None = None
    cores: Whole | None = Field(None, ge=1, le=MAX_CORES)

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse what would change nothing: the shared Spark is started before any job asks for it."""
        if self.pool == SHARED and (self.memory is not None or self.cores is not None):
            raise ValueError("pool: shared has memory and cores of the TaskExecutor's configuration; name another pool, such as job")
        return self

    def to_record(self) -> SparkPool:
        """Return the core's record."""
        return SparkPool(self.pool, self.memory or "", self.cores or 0)


def _parse_keep(value: object) -> object:
    """Return for how many milliseconds outputs are kept, written as `never` or as `36h`.

    Raises:
        ValueError: it is neither.

    """
    kept_ms = 0 if value == "never" else duration_ms_of(value)
    if kept_ms is None or kept_ms > MAX_KEEP_OUTPUTS_MS:
        raise ValueError(f"must be never, or {DURATION_RULE}, such as 7d; at most 366d, not {describe_value(value)}")
    return kept_ms


def _keep_document(kept_ms: int) -> str:
    """Return the spelling that `_parse_keep` reads."""
    return duration_text(kept_ms) if kept_ms else "never"


REQUIREMENTS: Final = "requirements"
"""The key of a document for the packages of a job, which are an archive of its code by the time that it is submitted."""


JARS: Final = "jars"
"""The key of a document for the jars of a job's Spark sessions, which are one by then as well."""

PIPELINE: Final = "pipeline"
"""The key of a document for the specification of a declarative pipeline, whose data sets are vertices by then."""

PACKED_KEYS: Final = frozenset({REQUIREMENTS, JARS, PIPELINE})
"""What clients replace before a job is submitted."""


def _refuse_what_is_packed(_: object) -> object:
    raise ValueError(
        "it is packed by eventflink's client where it submits a job (eventflink submit, Cluster.submit; of a schedule, where its document "
        "names that of the job by a path); what is sent otherwise has the archive in code_archives"
    )


class JobGraphDocument(BaseModel):
    """The whole document."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=MAX_JOB_NAME_LENGTH)
    # Of many thousands of faults to write down the first three takes longer than a lease: those of one vertex are enough.
    vertices: Annotated[list[VertexDocument], Field(min_length=1, max_length=MAX_VERTICES), FailFast()]
    edges: list[EdgeDocument] = Field(default_factory=list, max_length=MAX_EDGES)
    restart_strategy: RestartStrategyDocument | None = None
    code_archives: list[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = Field(default_factory=list, max_length=64)
    requirements: Annotated[None, BeforeValidator(_refuse_what_is_packed)] = None
    """Never here, as `jars`: who submits the job has made an archive of them."""
    jars: Annotated[None, BeforeValidator(_refuse_what_is_packed)] = None
    pipeline: Annotated[None, BeforeValidator(_refuse_what_is_packed)] = None
    scheduler: Literal["cluster-default", "default", "adaptive"] = "cluster-default"
    checkpointing: CheckpointingDocument | None = None
    restore: RestoreDocument | None = None
    spark: SparkDocument | None = None
    engine: Engine | None = None
    """The Spark that runs the tasks of vertices that name none; default: as the TaskExecutor has it."""
    queue: Annotated[str, Field(pattern=NAME_PATTERN)] | None = None
    """The queue whose quota its slots count against; default: `default`."""
    priority: Whole = Field(0, ge=-MAX_PRIORITY, le=MAX_PRIORITY)
    """Within the queue jobs of a higher priority get slots first."""
    parameters: Declared = Field(default_factory=dict)
    keep: Annotated[int | None, BeforeValidator(_parse_keep)] = None
    """For how long after its end the outputs stay that edges read; default: as the cluster has it."""
    time_limit: TimeLimit = None
    """How long after its submission the job fails that has not ended."""
    time_limit_warning: TimeLimit = None
    """For how long before that it is a problem of the cluster; default: for a tenth of the limit."""
    closing_time_limit: TimeLimit = None
    """For how long its closing vertices may run together; default: ten minutes."""
    owner: Owner = ""
    description: Description = ""
    labels: Labels = Field(default_factory=dict)
    links: Links = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_graph(self)
        return self


def _check_graph(graph: JobGraphDocument) -> None:
    vertices: dict[str, VertexDocument] = {}
    for vertex in graph.vertices:
        if vertex.id in vertices:
            raise ValueError(f"two vertices have the id '{vertex.id}'")
        vertices[vertex.id] = vertex
    _check_bounds(graph)
    seen: set[tuple[str, str]] = set()
    for number, edge in enumerate(graph.edges):
        for end, vertex_id in (("from", edge.source), ("to", edge.target)):
            if vertex_id not in vertices:
                raise ValueError(f"edges[{number}].{end}: vertex not found: '{vertex_id}'")
        name = edge.name or edge.source
        known = _input_key(vertices[edge.target], name)
        if (edge.target, known) in seen:
            alike = "" if known == name else ", for upper and lower case are one in SQL"
            raise ValueError(f"edges[{number}]: vertex '{edge.target}' has two inputs named '{name}'{alike}; give one a 'name'")
        seen.add((edge.target, known))
        if edge.ship == "forward" and vertices[edge.source].parallelism != vertices[edge.target].parallelism:
            raise ValueError(f"edges[{number}]: ship: forward needs equal parallelism of '{edge.source}' and '{edge.target}'")
    _check_parameters(graph)
    _check_hash_keys(graph)
    _check_mapped(graph, vertices)
    _check_streams(graph, vertices)
    _check_sinks(graph)
    _check_sources(graph)
    _check_time_limits(graph)
    _check_engines(graph)
    _check_closing(graph)
    _check_conditions(graph, vertices)
    if fault := _find_cycle(graph):
        raise ValueError(fault)


def _input_key(reader: VertexDocument, name: str) -> str:
    """Return the name by which inputs of a vertex differ: in lower case for SQL, where a view's name has no case."""
    return name.lower() if reader.is_sql else name


def _check_parameters(graph: JobGraphDocument) -> None:
    for number, vertex in enumerate(graph.vertices):
        if both := vertex.parameters.keys() & graph.parameters.keys():
            place = f"vertices[{number}].parameters.{min(both)}"
            raise ValueError(f"{place}: the job declares a parameter of this name, which every vertex is given")


def _check_hash_keys(graph: JobGraphDocument) -> None:
    """Check that the hash edges to a vertex have as many keys: they bring rows together whose keys are equal."""
    first: dict[str, int] = {}
    for number, edge in enumerate(graph.edges):
        if edge.ship == "hash":
            other = first.setdefault(edge.target, number)
            mine, others = len(edge.keys), len(graph.edges[other].keys)
            if mine != others:
                raise ValueError(
                    f"edges[{number}].keys: there are {mine}, and {others} of edges[{other}], which is shipped by hash to "
                    f"'{edge.target}' as well: rows with equal keys would not meet"
                )


def _mapped_vertices(graph: JobGraphDocument) -> set[str]:
    """Return the vertices that have a subtask for each row of an input."""
    return {edge.target for edge in graph.edges if edge.ship == "each"}


def _check_mapped(graph: JobGraphDocument, vertices: Mapping[str, VertexDocument]) -> None:
    """Check what a mapped vertex reads, and what goes by how many subtasks it has: nobody knows that before its job runs."""
    places: dict[str, str] = {}
    """Of the mapped vertices, the places of the edges that map them."""
    for number, edge in enumerate(graph.edges):
        if edge.ship != "each":
            continue
        here, vertex = f"edges[{number}].ship", vertices[edge.target]
        if edge.target in places:
            raise ValueError(f"{here}: '{edge.target}' has a subtask for each row of {places[edge.target]} already: join them before it")
        if vertex.stream is not None:
            raise ValueError(f"{here}: each is for batch tasks, and '{edge.target}' is a stream")
        if vertex.parallelism > 1:
            raise ValueError(
                f"{here}: each gives '{edge.target}' a subtask for each row, so it has no 'parallelism'; 'max_parallelism' bounds the rows"
            )
        if vertex.sink is not None:
            raise ValueError(
                f"{here}: each may give '{edge.target}' another number of subtasks when its input is made again, and each subtask writes "
                "its part to a sink once: let a vertex that reads it have the sink"
            )
        places[edge.target] = f"edges[{number}]"
    for number, edge in enumerate(graph.edges):
        if edge.target in places and edge.ship not in ("each", "broadcast"):
            raise ValueError(
                f"edges[{number}].ship: {edge.ship} would share the rows out over the subtasks of '{edge.target}', which has one for each "
                f"row of {places[edge.target]}: take broadcast"
            )
        if edge.source in places and edge.ship == "forward":
            raise ValueError(
                f"edges[{number}].ship: forward needs equal parallelism of both ends, and '{edge.source}' has a subtask for each row of "
                f"{places[edge.source]}: take rebalance"
            )


def _check_streams(graph: JobGraphDocument, vertices: Mapping[str, VertexDocument]) -> None:
    streams = {vertex_id for vertex_id, vertex in vertices.items() if vertex.stream is not None}
    mapped = _mapped_vertices(graph)
    for number, edge in enumerate(graph.edges):
        reader, name = vertices[edge.target], edge.name or edge.source
        if reader.stream is not None and _input_key(reader, name) in {_input_key(reader, source) for source in reader.stream.sources}:
            raise ValueError(f"edges[{number}]: the stream '{edge.target}' has a source of that name already: give the edge another 'name'")
        if fault := _find_edge_fault(edge, vertices[edge.source], reader, is_from_mapped=edge.source in mapped):
            raise ValueError(f"edges[{number}]{fault}")
    _check_ends(graph, streams)
    if streams and graph.scheduler == "adaptive":
        raise ValueError(
            f"scheduler: adaptive changes the parallelism of vertices, and a stream such as '{min(streams)}' keeps state by subtask"
        )
    if graph.checkpointing is not None and not streams:
        raise ValueError("'checkpointing' is for streams, and the graph has no streams")
    if graph.keep is not None and streams:
        raise ValueError(f"'keep' is for batch jobs, and '{min(streams)}' is a stream")
    if graph.restore is not None and not streams:
        raise ValueError("'restore' is for streams, and the graph has no streams")


def _check_sinks(graph: JobGraphDocument) -> None:
    """Check that what a subtask writes to a sink stays its part of the rows."""
    for vertex in graph.vertices:
        if vertex.sink is not None and graph.scheduler == "adaptive":
            raise ValueError(
                f"scheduler: adaptive changes the parallelism of vertices, and each subtask of '{vertex.id}' writes its part to a sink "
                "once: take default"
            )


def _check_sources(graph: JobGraphDocument) -> None:
    """Check that what a batch task reads of a table has a name of its own, and that no row of it is returned by several subtasks."""
    vertices = {vertex.id: (number, vertex) for number, vertex in enumerate(graph.vertices) if vertex.sources}
    shared_out = {edge.target for edge in graph.edges if edge.ship != "broadcast"}
    for number, edge in enumerate(graph.edges):
        name = edge.name or edge.source
        _, reader = vertices.get(edge.target, (0, None))
        if reader is not None and _input_key(reader, name) in {_input_key(reader, source) for source in reader.sources}:
            raise ValueError(f"edges[{number}]: vertex '{edge.target}' has a source of that name already: give the edge another 'name'")
    for vertex_id, (number, vertex) in vertices.items():
        if vertex.parallelism > 1 and vertex_id not in shared_out:
            raise ValueError(
                f"vertices[{number}].sources: each of {vertex.parallelism} subtasks reads all rows of a source, and no edge shares other "
                "rows out to them: give the vertex parallelism 1 (Spark runs its one query on all its cores)"
            )
        if graph.scheduler == "adaptive":
            raise ValueError(
                f"scheduler: adaptive changes the parallelism of vertices, and each subtask of '{vertex_id}' reads all rows of its "
                "sources: take default"
            )


def _check_time_limits(graph: JobGraphDocument) -> None:
    """Check that what has a limit ends by itself, and that a warning comes after the submission."""
    for number, vertex in enumerate(graph.vertices):
        if vertex.stream is None:
            continue
        if vertex.time_limit is not None:
            raise ValueError(
                f"vertices[{number}].time_limit: it is for batch tasks, and '{vertex.id}' is a stream; the job can have a 'time_limit' "
                "where all of its streams have the trigger available_now"
            )
        if vertex.retries and not vertex.stream.trigger.available_now:
            raise ValueError(
                f"vertices[{number}].retries: they are counted for the whole life of a task, and the stream '{vertex.id}' runs until it is "
                "stopped; it starts again by the job's 'restart_strategy'"
            )
        if graph.time_limit is not None and not vertex.stream.trigger.available_now:
            raise ValueError(
                f"'time_limit' is for jobs that end by themselves, and the stream '{vertex.id}' runs until it is stopped; give it the "
                "trigger available_now, or the job no limit"
            )
    if (warning := graph.time_limit_warning) is not None and not warning < (graph.time_limit or 0):
        raise ValueError("'time_limit_warning' says how long before the job's 'time_limit' it warns, and has to be shorter than that")


def _check_closing(graph: JobGraphDocument) -> None:
    """Check that what runs at the end of a job can run whatever the others have left, and that there are others."""
    closing = {vertex.id: vertex.runs for vertex in graph.vertices if vertex.runs is not None}
    if not closing:
        if graph.closing_time_limit is not None:
            raise ValueError("'closing_time_limit' is for closing vertices, and no vertex says when it 'runs': leave it out")
        return
    if len(closing) == len(graph.vertices):
        raise ValueError("every vertex is a closing vertex: one at least has to run in its turn, without 'runs'")
    for number, edge in enumerate(graph.edges):
        if (vertex_id := next((each for each in (edge.source, edge.target) if each in closing), None)) is not None:
            raise ValueError(
                f"edges[{number}]: vertex '{vertex_id}' runs {closing[vertex_id]}, when all others have come to their end, whatever they "
                "have left: it has no edges; what it needs of them has to be written elsewhere"
            )
    for number, vertex in enumerate(graph.vertices):
        if vertex.id not in closing:
            continue
        if vertex.stream is not None:
            raise ValueError(f"vertices[{number}]: '{vertex.id}' is a stream, and a vertex that runs {vertex.runs} is a batch task")
        taken = next((name for name in SQL_NAMES if name in vertex.parameters or name in graph.parameters), None)
        if vertex.is_sql and taken is not None:
            raise ValueError(
                f"vertices[{number}]: :{taken} is what the statement of '{vertex.id}' is told of the end of the others: rename the "
                f"parameter '{taken}'"
            )


def _check_conditions(graph: JobGraphDocument, vertices: Mapping[str, VertexDocument]) -> None:
    """Check that what decides whether a vertex runs is an output of a batch task, and that no stream is skipped."""
    skippable: dict[str, str] = {}
    """The vertices that may be skipped, with the place by which that is."""
    for number, vertex in enumerate(graph.vertices):
        if vertex.when is not None:
            skippable[vertex.id] = f"vertices[{number}].when"
            if fault := _find_condition_fault(vertex, vertex.when.to_record(), vertices):
                raise ValueError(f"vertices[{number}].when{fault}")
    waiting, readers = list(skippable), _readers(graph)
    while waiting:
        place = skippable[name := waiting.pop()]
        for reader in readers.get(name, ()):
            if vertices[reader].stream is not None:
                raise ValueError(
                    f"{place}: '{name}' may be skipped, and with it the stream '{reader}', which always runs: say 'if_skipped' on an edge"
                )
            if reader not in skippable:
                skippable[reader] = place
                waiting.append(reader)
    for number, edge in enumerate(graph.edges):
        if edge.if_skipped is not None and edge.source not in skippable:
            raise ValueError(f"edges[{number}].if_skipped: '{edge.source}' is never skipped, for neither it nor what it reads has a 'when'")


def _readers(graph: JobGraphDocument) -> dict[str, list[str]]:
    """Return the vertices that are skipped with each vertex."""
    readers: dict[str, list[str]] = {}
    for edge in graph.edges:
        if edge.if_skipped is None:
            readers.setdefault(edge.source, []).append(edge.target)
    for vertex in graph.vertices:
        if vertex.when is not None:
            readers.setdefault(vertex.when.to_record().source, []).append(vertex.id)
    return readers


def _find_condition_fault(vertex: VertexDocument, condition: RowCondition, vertices: Mapping[str, VertexDocument]) -> str:
    """Return what is wrong with a condition, behind its place; empty: nothing is."""
    if vertex.stream is not None:
        return f": it is for batch tasks, and '{vertex.id}' is a stream"
    if vertex.runs is not None:
        return f": vertex '{vertex.id}' runs {vertex.runs}, whatever the others have left: leave one of both out"
    fault = ""
    if (source := vertices.get(condition.source)) is None:
        fault = f"vertex not found: '{condition.source}'{did_you_mean(condition.source, vertices)}"
    elif source.stream is not None:
        fault = f"'{source.id}' is a stream, whose rows are never complete: name a batch vertex"
    elif source.runs is not None:
        fault = f"'{source.id}' runs {source.runs}, when all others have come to their end: name one that runs before"
    elif source.is_sql and condition.output != DEFAULT_OUTPUT:
        fault = f"a statement has one output, '{DEFAULT_OUTPUT}', and '{source.id}' none called '{condition.output}'"
    return f".{condition_key(condition)}: {fault}" if fault else ""


def _check_ends(graph: JobGraphDocument, streams: Container[str]) -> None:
    """Check that each stream has a beginning and an end."""
    outputs: dict[str, set[str]] = {}
    """Those that edges read, by their vertex."""
    late: dict[str, list[tuple[str, str]]] = {}
    """Those of the late rows of edges, with the place that says so, by the vertex that reads them."""
    for number, edge in enumerate(graph.edges):
        outputs.setdefault(edge.source, set()).add(edge.output)
        if edge.late_rows is not None:
            late.setdefault(edge.target, []).append((edge.late_rows.output, f"edges[{number}].late_rows"))
    readers = {edge.target for edge in graph.edges if edge.source in streams}
    for number, vertex in enumerate(graph.vertices):
        if (stream := vertex.stream) is None:
            continue
        read = outputs.get(vertex.id, set())
        if fault := _find_end_fault(stream, read, has_writer=vertex.id in readers):
            raise ValueError(f"vertices[{number}]{fault}")
        here = f"vertices[{number}].stream.sources"
        of_sources = [(each.late_rows.output, f"{here}.{name}.late_rows") for name, each in stream.sources.items() if each.late_rows]
        _check_outputs(vertex, f"vertices[{number}]", read | set(stream.outputs), [*of_sources, *late.get(vertex.id, [])])
        if stream.sink is not None and stream.sink.files is not None and vertex.parallelism > 1:
            raise ValueError(
                f"vertices[{number}]: a files sink is written by one subtask, not by {vertex.parallelism}: each would need a directory"
            )


def _check_outputs(vertex: VertexDocument, where: str, outputs: set[str], late: list[tuple[str, str]]) -> None:
    """Check that what a stream makes and where it goes are the same: the rows of its task, and the late rows of its inputs.

    Args:
        vertex: the stream.
        where: its place in the document.
        outputs: the names of the outputs that a sink or an edge reads.
        late: the outputs that late rows go to, with the places that say so.

    """
    for output, place in late:
        if output not in outputs:
            raise ValueError(
                f"{place}: output '{output}' goes nowhere; name a topic for it with 'sinks: {{{output}: …}}' of '{vertex.id}', or an edge "
                f"with 'output: {output}' to another stream"
            )
        if vertex.stream is not None and vertex.stream.output_mode == "complete":
            raise ValueError(f"{place}: with output_mode complete Spark drops no row: late ones count like any other; use append or update")
    names = [output for output, _ in late]
    if twice := [place for output, place in late if names.count(output) > 1]:
        raise ValueError(f"{twice[-1]}: {twice[0]} has the same output, and their rows may have different columns")
    own = outputs - set(names)
    if not own:
        raise ValueError(f"{where}.stream: only late rows go anywhere: name a sink, or an edge, for what the task returns")
    if vertex.is_sql and (more := own - {DEFAULT_OUTPUT}):
        raise ValueError(
            f"{where}: a statement has one output, '{DEFAULT_OUTPUT}', and none called '{min(more)}'; a 'python' function returns a "
            "DataFrame for each output"
        )


def _find_end_fault(stream: StreamDocument, outputs: set[str], *, has_writer: bool) -> str:
    """Return where a stream lacks a beginning or an end, behind its place; empty: nowhere."""
    if not stream.sources and not has_writer:
        return ".stream.sources: the stream needs a source, or an edge from another stream"
    if not stream.has_sink and not outputs:
        return ".stream: neither 'sink' nor 'sinks' says where the rows go, nor an edge to another stream"
    return ""


_OF_PIPELINED: Final = ("partitions", "event_time", "late_rows", "chain")
_PIPELINED: Final = {"schema_": "schema"} | {name: name for name in _OF_PIPELINED}
"""What only pipelined edges have."""


def _find_edge_fault(edge: EdgeDocument, writer: VertexDocument, reader: VertexDocument, *, is_from_mapped: bool) -> str:
    """Return what is wrong with what an edge says of streams, behind its place; empty: nothing is."""
    if writer.stream is not None and reader.stream is not None:
        return _find_pipeline_fault(edge, writer.stream, reader.stream) or _find_partitions_fault(edge, reader)
    if writer.stream is not None:
        return f": '{edge.source}' is a stream and '{edge.target}' is not: only another stream can read its rows"
    if writer.is_sql and edge.output != DEFAULT_OUTPUT:
        return f".output: a statement has one output, '{DEFAULT_OUTPUT}', and '{edge.source}' none called '{edge.output}'"
    of_streams = [key for name, key in _PIPELINED.items() if getattr(edge, name) is not None and (key != "schema" or not is_from_mapped)]
    return f".{of_streams[0]}: it is for edges from a stream to a stream; this one is blocking" if of_streams else ""


def _find_pipeline_fault(edge: EdgeDocument, writer: StreamDocument, reader: StreamDocument) -> str:
    if edge.schema_ is None:
        return f": between streams it needs a 'schema', the columns of '{edge.source}' as Spark's DDL such as 'id BIGINT, at TIMESTAMP'"
    if reader.trigger.available_now and not writer.trigger.available_now:
        return f": '{edge.target}' has trigger available_now, and ends when its inputs do; '{edge.source}' never does, without that trigger"
    if reader.trigger.real_time_ms is not None:
        return f": '{edge.target}' has trigger real_time_ms, and the rows of '{edge.source}' come batch by batch: give it another trigger"
    return f": '{edge.source}' {fault}" if (fault := writer.find_edge_fault()) else ""


def _find_partitions_fault(edge: EdgeDocument, reader: VertexDocument) -> str:
    partitions, readers = edge.partitions, reader.parallelism
    if edge.ship == "forward" and partitions not in (None, readers):
        return f".partitions: with ship: forward the topic has one for each of the {readers} subtasks, not {partitions}"
    if edge.ship != "broadcast" and partitions is not None and partitions < readers:
        return f".partitions: '{edge.target}' has {readers} subtasks, and {partitions} partitions would leave some without rows"
    return ""


def _check_engines(graph: JobGraphDocument) -> None:
    """Check that a pool, which is a Spark of a host, is for a vertex at least."""
    if graph.spark is None or graph.spark.pool == SHARED:
        return
    engines = {vertex.engine or graph.engine for vertex in graph.vertices}
    if not engines & {None, LOCAL}:
        raise ValueError(
            f"spark.pool: '{graph.spark.pool}' is a Spark of a host, and every vertex runs on an engine elsewhere: leave it out, or "
            f"give a vertex the engine {LOCAL}"
        )


def _check_bounds(graph: JobGraphDocument) -> None:
    mapped = _mapped_vertices(graph)
    subtasks = sum(min(v.max_parallelism, MAX_PARALLELISM) if v.id in mapped else v.parallelism for v in graph.vertices)
    if subtasks > MAX_SUBTASKS:
        counted = ", where a vertex with a subtask for each row counts with its 'max_parallelism'" if mapped else ""
        raise ValueError(f"{subtasks} subtasks are more than the {MAX_SUBTASKS} that one job may have{counted}")
    asking = [GroupMember(v.id, v.slot_sharing_group, v.resources.to_record() if v.resources is not None else None) for v in graph.vertices]
    profiles = {*profiles_of_groups(asking).values(), *(v.resources for v in asking if v.slot_sharing_group is None)} - {None}
    if len(profiles) > MAX_PROFILES:
        raise ValueError(f"the vertices ask for {len(profiles)} different resources; at most {MAX_PROFILES} may be different in one job")


def _find_cycle(graph: JobGraphDocument) -> str:
    """Return which cycle there is, behind the place of a link of it: a condition where there is one, else its last edge; empty: none."""
    targets: dict[str, list[str]] = {v.id: [] for v in graph.vertices}
    missing = dict.fromkeys(targets, 0)
    waits = {(edge.source, edge.target): f"edges[{number}]" for number, edge in enumerate(graph.edges)}
    conditions = [(number, vertex, vertex.when) for number, vertex in enumerate(graph.vertices) if vertex.when is not None]
    waits |= {(when.to_record().source, vertex.id): f"vertices[{number}].when" for number, vertex, when in conditions}
    for source, target in waits:
        targets[source].append(target)
        missing[target] += 1
    ready = [v for v, count in missing.items() if count == 0]
    while ready:
        for target in targets[ready.pop()]:
            missing[target] -= 1
            if missing[target] == 0:
                ready.append(target)
    left = {v: None for v, count in missing.items() if count > 0}
    if not left:
        return ""
    # Every vertex that is left waits for one that is left: walking backwards must meet itself.
    sources = {target: source for source, target in waits if source in left and target in left}
    path = [next(iter(left))]
    while path.count(path[-1]) == 1:
        path.append(sources[path[-1]])
    cycle = path[path.index(path[-1]) :][::-1]
    links = set(pairwise(cycle))
    *_, place = [place for link, place in waits.items() if link in links]
    return f"{place}: the graph has a cycle: {' -> '.join(cycle)}"


def graph_digest(graph: JobGraph) -> str:
    """Return the SHA-256 of a graph's canonical form, in hexadecimal.

    What has its default is left out: a graph keeps its digest when a later version knows more fields.
    """
    return hashlib.sha256(canonical_json(_without_defaults(graph)).encode()).hexdigest()


def definition_of(graph: JobGraph) -> JobGraph:
    """Return a graph without what each run is given anew: the values of parameters, and the savepoint in which its streams begin.

    Two graphs have the same definition if the same graph and code were submitted, whoever has looked what functions are made of.
    """
    parameters = tuple([dataclasses.replace(each, value=None) for each in graph.parameters])
    vertices = tuple([dataclasses.replace(each, code_digest="") if each.code_digest else each for each in graph.vertices])
    return dataclasses.replace(graph, vertices=vertices, parameters=parameters, restore=None)


def _without_defaults(value: Any) -> Any:
    if isinstance(value, str | int):  # Most of what a graph holds: asked first, for a graph has up to a hundred thousand such values.
        return value
    if isinstance(value, tuple):
        return [_without_defaults(item) for item in value]
    if (defaults := _defaults_of(value.__class__)) is None:
        return value
    said = {}
    for name, default in defaults:
        if (inner := getattr(value, name)) != default:
            said[name] = inner if isinstance(inner, str | int) else _without_defaults(inner)
    return said


@functools.cache
def _defaults_of(cls: type) -> tuple[tuple[str, Any], ...] | None:
    """Return the fields of a dataclass with their defaults; None for any other type."""
    return tuple((field.name, field.default) for field in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else None


def load_document(text: str, source: str) -> object:
    """Return what a text says, JSON or YAML, whether it describes a job or not.

    Raises:
        InvalidJobGraph: it cannot be read; names `source`.

    """
    try:
        return read_document(text)
    except InvalidText as error:
        raise InvalidJobGraph(f"{source}: {error}") from error


def parse_job_graph(
    document: str | Mapping[str, Any], source: str, directory: Directory | None = None, text: str | None = None
) -> JobGraph:
    """Validate a document, given as text (JSON or YAML) or already as a mapping.

    Args:
        document: what describes the job.
        source: where it comes from, for the message.
        directory: where the files are that it names by a relative path; None: it may name none.
        text: from which a mapping was read, where the lines of faults are found.

    Raises:
        InvalidJobGraph: names `source`, the place in the document and what is wrong there.

    """
    text = document if isinstance(document, str) else text
    read = load_document(document, source) if isinstance(document, str) else document
    try:
        return check_job_graph(read if directory is None else with_schema_files(read, directory), text)
    except (InvalidJobGraph, ValueError) as error:
        raise InvalidJobGraph(f"{source}: {error}") from error


def check_job_graph(document: object, text: str | None = None) -> JobGraph:
    """Validate a document; `text` is what it was read from, in which the lines of faults are found.

    Raises:
        InvalidJobGraph: names the place in the document and what is wrong there.

    """
    if not isinstance(document, Mapping):
        raise InvalidJobGraph(f"a job graph is a mapping with 'name' and 'vertices', not {describe_value(document)}")
    if "job" in document and "vertices" not in document:
        raise InvalidJobGraph("it is the document of a schedule, whose 'job' is one: 'eventflink schedule put SCHEDULE FILE' stores it")
    try:
        parsed = JobGraphDocument.model_validate(document)
        parallelism = {vertex.id: vertex.parallelism for vertex in parsed.vertices}
        streams = {vertex.id for vertex in parsed.vertices if vertex.stream is not None}
        graph = JobGraph(
            name=parsed.name,
            vertices=tuple(v.to_record() for v in parsed.vertices),
            edges=tuple(e.to_record(parallelism[e.target], is_pipelined=e.source in streams) for e in parsed.edges),
            restart_strategy=(parsed.restart_strategy or RestartStrategyDocument.model_validate({"type": "cluster-default"})).to_record(),
            code_archives=tuple(parsed.code_archives),
            scheduler=SchedulerType(parsed.scheduler.upper().replace("-", "_")),
            checkpointing=parsed.checkpointing.to_record() if parsed.checkpointing is not None else None,
            restore=parsed.restore.to_record() if parsed.restore is not None else None,
            spark=parsed.spark.to_record() if parsed.spark is not None else None,
            parameters=tuple(parsed.parameters[name].to_record(name) for name in sorted(parsed.parameters)),
            keep_outputs_ms=parsed.keep,
            time_limit_ms=parsed.time_limit,
            time_limit_warning_ms=parsed.time_limit_warning,
            about=about_of(parsed.owner, parsed.description, parsed.labels, parsed.links),
            engine=parsed.engine or "",
            queue=parsed.queue or "",
            priority=parsed.priority,
            closing_time_limit_ms=parsed.closing_time_limit,
        )
        return _chained(graph, parsed)
    except ValidationError as error:

        def around(path: Path) -> str:
            return place_in(document, text, path)

        raise InvalidJobGraph(describe_faults(error, _known_keys(), around)) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidJobGraph(f"parameters must be JSON values: {error}") from error


def bind_parameters(graph: JobGraph, values: Mapping[str, object]) -> JobGraph:
    """Return the graph with these values of its parameters, by name; those that are not named stay as they are.

    A value is one of the parameter's type, or a text that says it.

    Raises:
        InvalidJobGraph: there is no such parameter, a value is none of its type, one has no value, or they are too long together; the
            message names the parameter, and those that the job declares.

    Example:
        `bind_parameters(graph, {"day": "2026-11-25", "limit": 5})`

    """
    declared = f"the job declares {describe_declared(graph.parameters)}"
    known = {each.name for each in graph.parameters}
    for name in values:
        if name not in known:
            raise InvalidJobGraph(f"unknown parameter: {describe_value(name)}{did_you_mean(name, known)}; {declared}")
    bound = []
    for each in graph.parameters:
        try:
            value = bound_text(each.parameter_type, values[each.name]) if each.name in values else each.value
        except ValueError as error:
            raise InvalidJobGraph(f"parameter '{each.name}': {error}; {declared}") from error
        if value is None:
            raise InvalidJobGraph(f"parameter '{each.name}': it has neither a default nor a value: give it one; {declared}")
        bound.append(dataclasses.replace(each, value=value))
    size = sum(len(each.value.encode()) for each in bound if each.value is not None)
    if size > MAX_VALUES_BYTES:
        raise InvalidJobGraph(f"the values of the parameters have {size} bytes; together they may have at most {MAX_VALUES_BYTES}")
    return dataclasses.replace(graph, parameters=tuple(bound))


def bind_again(before: JobGraph, graph: JobGraph | None, values: Mapping[str, object]) -> JobGraph:
    """Return what a run of a graph is when it runs again, or when another graph does in its place, with these values of parameters.

    A parameter that is not named has what the other graph says besides a default; or the value of before, where that was not the default
    and the type is the same; or the other graph's default. A graph that names no code has that of before, and one with streams that names
    no savepoint begins in that of before.

    Raises:
        InvalidJobGraph: as `bind_parameters` does.

    """
    if graph is None:
        return bind_parameters(before, values)
    declared = {each.name: each for each in graph.parameters}
    given = {
        each.name: each.value
        for each in before.parameters
        if (now := declared.get(each.name)) is not None
        and now.parameter_type is each.parameter_type
        and (now.value is None or (now.value == now.default and each.value != each.default))
    }
    if graph.restore is None and any(vertex.stream is not None for vertex in graph.vertices):
        graph = dataclasses.replace(graph, restore=before.restore)
    return bind_parameters(_with_code_of(before, graph), {**given, **values})


def _with_code_of(before: JobGraph, graph: JobGraph) -> JobGraph:
    if graph.code_archives or not before.code_archives:
        return graph
    digests = {vertex.task: vertex.code_digest for vertex in before.vertices if vertex.code_digest}
    of_statements = next((each.code_digest for each in before.vertices if each.task_type is TaskType.SQL and each.code_digest), "")
    vertices = [
        dataclasses.replace(each, code_digest=digests.get(each.task, of_statements if each.task_type is TaskType.SQL else ""))
        for each in graph.vertices
    ]
    return dataclasses.replace(graph, vertices=tuple(vertices), code_archives=before.code_archives)


def _chained(graph: JobGraph, document: JobGraphDocument) -> JobGraph:
    try:
        return chain_streams(graph, [edge.chain for edge in document.edges])
    except ValueError as error:
        raise InvalidJobGraph(str(error)) from error


@functools.cache
def _known_keys() -> tuple[str, ...]:
    """Return every key that a document may have anywhere."""
    found: dict[str, None] = {}
    waiting: list[type[BaseModel]] = [JobGraphDocument]
    while waiting:
        model = waiting.pop()
        found |= dict.fromkeys(field.alias or name for name, field in model.model_fields.items())
        inner = [part for field in model.model_fields.values() for part in (field.annotation, *typing.get_args(field.annotation))]
        waiting += [
            part for each in inner for part in (each, *typing.get_args(each)) if isinstance(part, type) and issubclass(part, BaseModel)
        ]
    return tuple(found)


def to_document(graph: JobGraph) -> dict[str, Any]:
    """Return the document that `parse_job_graph` turns into this graph.

    Graphs that come as Avro records pass through here, so that every graph meets the same checks.

    Raises:
        InvalidJobGraph: the parameters of a vertex are not a JSON object, or one of the job's has a value of another type.

    """
    vertices = [_vertex_document(vertex) for vertex in graph.vertices]
    strategy = graph.restart_strategy
    strategy_type = strategy.strategy_type.lower().replace("_", "-")
    document: dict[str, Any] = {
        "name": graph.name,
        "vertices": vertices,
        "edges": [_edge_document(edge) for edge in graph.edges],
        "restart_strategy": {"type": strategy_type} | {key: getattr(strategy, key) for key in RESTART_KEYS[strategy_type]},
        "code_archives": list(graph.code_archives),
        "scheduler": graph.scheduler.lower().replace("_", "-"),
        **_engine_document(graph.engine),
        **({"queue": graph.queue} if graph.queue else {}),
        "priority": graph.priority,
    }
    if (checkpointing := graph.checkpointing) is not None:
        document["checkpointing"] = dataclasses.asdict(checkpointing) | {"retention": checkpointing.retention.lower().replace("_", "-")}
    if (restore := graph.restore) is not None:
        document["restore"] = {"savepoint": restore.path, "allow_non_restored_state": restore.allow_non_restored_state}
    if (spark := graph.spark) is not None:
        document["spark"] = {"pool": spark.name, "memory": spark.memory or None, "cores": spark.cores or None}
    if graph.keep_outputs_ms is not None:
        document["keep"] = _keep_document(graph.keep_outputs_ms)
    limits = {
        "time_limit": graph.time_limit_ms,
        "time_limit_warning": graph.time_limit_warning_ms,
        "closing_time_limit": graph.closing_time_limit_ms,
    }
    document |= {key: duration_text(limit_ms) for key, limit_ms in limits.items() if limit_ms is not None}
    if graph.about is not None:
        document |= about_document(graph.about)
    if graph.parameters:
        try:
            document["parameters"] = parameter_documents(graph.parameters)
        except ValueError as error:
            raise InvalidJobGraph(f"parameters: {error}") from error
    return document


def _engine_document(engine: str) -> dict[str, str]:
    return {"engine": engine} if engine else {}


def _vertex_document(vertex: JobVertex) -> dict[str, Any]:
    try:
        parameters = json.loads(vertex.parameters_json)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise InvalidJobGraph(f"vertex '{vertex.vertex_id}': parameters_json is not JSON: {reason}") from error
    written = {
        "id": vertex.vertex_id,
        vertex.task_type.lower(): vertex.task,
        "parallelism": vertex.parallelism,
        "max_parallelism": vertex.max_parallelism,
        "parameters": parameters,
        **_engine_document(vertex.engine),
        **({"runs": runs_in_words(vertex.runs)} if vertex.is_closing else {}),
        **({"when": condition_document(vertex.condition)} if vertex.condition is not None else {}),
    }
    if vertex.resources is not None:
        written["resources"] = resources_document(vertex.resources, f"vertex '{vertex.vertex_id}'")
    if vertex.slot_sharing_group is not None:
        written["slot_sharing_group"] = vertex.slot_sharing_group
    if vertex.time_limit_ms is not None:
        written["time_limit"] = duration_text(vertex.time_limit_ms)
    if vertex.retries:
        written["retries"] = [retry_document(rule) for rule in vertex.retries]
    if vertex.code_digest:
        written["code_digest"] = vertex.code_digest
    return written | _ends_document(vertex)


def _ends_document(vertex: JobVertex) -> dict[str, Any]:
    """Return what the document of a vertex says of what is not of its job: its stream, its sink and its sources."""
    written: dict[str, Any] = {}
    place = "stream"
    try:
        if vertex.stream is not None:
            written["stream"] = stream_document(vertex.stream)
        place = "sink"
        if vertex.sink is not None:
            written["sink"] = end_document(vertex.sink)
        place = "sources"
        if vertex.sources:
            written["sources"] = {source.name: end_document(source) for source in vertex.sources}
    except ValueError as error:
        raise InvalidJobGraph(f"vertex '{vertex.vertex_id}': {place}: {error}") from error
    if len(written.get("sources", ())) < len(vertex.sources):
        raise InvalidJobGraph(f"vertex '{vertex.vertex_id}': sources: two have the same name")
    return written


def _edge_document(edge: JobEdge) -> dict[str, Any]:
    document: dict[str, Any] = {"from": edge.source, "to": edge.target, "output": edge.output, "name": edge.input_name}
    document |= {"ship": edge.ship.lower(), "keys": list(edge.keys)}
    if edge.row_schema:
        document["if_skipped" if edge.reads_skipped else "schema"] = edge.row_schema
    if (pipeline := edge.pipeline) is not None:
        document |= {"schema": pipeline.row_schema, "partitions": pipeline.partitions, "chain": False}
        if pipeline.event_time or pipeline.watermark_delay_ms:
            document |= {"event_time": pipeline.event_time, "watermark_delay_ms": pipeline.watermark_delay_ms}
        if pipeline.late_rows is not None:
            document["late_rows"] = late_rows_document(pipeline.late_rows)
    return document


def resources_document(profile: ResourceProfile, where: str) -> dict[str, Any]:
    """Return the document of what a vertex asks for, in bytes and processors.

    Raises:
        InvalidJobGraph: it asks twice for the same.

    """
    amounts = {each.name: each.amount for each in profile.extended_resources}
    if len(amounts) < len(profile.extended_resources):
        raise InvalidJobGraph(f"{where}: extended_resources names a resource twice")
    return {
        "cpu_cores": cores_of(profile.cpu_millicores),
        "task_heap_memory": profile.task_heap_bytes,
        "task_off_heap_memory": profile.task_off_heap_bytes,
        "managed_memory": profile.managed_bytes,
        "extended_resources": amounts,
    }


def is_valid_job_id(job_id: str) -> bool:
    """Tell whether a client may name a job so."""
    return ID_PATTERN.fullmatch(job_id) is not None
