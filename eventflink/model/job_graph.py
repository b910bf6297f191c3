"""The JobGraph as the core and the log know it: plain records that have already been validated.

The document that people write, and every check of it, is in `job_graph_document.py`; nothing here checks anything. The
classes mirror the schemas of the same names; a test holds the two together.
"""

from dataclasses import dataclass
from typing import Final

from eventflink.model.resources import ResourceProfile
from eventflink.model.spark_pools import SparkPool
from eventflink.model.statuses import (
    CheckpointRetention,
    ParameterType,
    RestartStrategyType,
    SchedulerType,
    ShipStrategy,
    StreamConnector,
    StreamFormat,
    StreamOutputMode,
    StreamTrigger,
    TaskType,
    VertexRuns,
)


@dataclass(slots=True)
class RestartStrategy:
    """How often, and how long after, a failed region is started again."""

    strategy_type: RestartStrategyType
    """Which strategy."""
    attempts: int = 0
    """Fixed delay: how many restarts of one job; failure rate: how many failures within `interval_ms`."""
    delay_ms: int = 0
    """Before each restart; exponential delay: before the first."""
    max_delay_ms: int = 0
    """Exponential delay: the longest wait."""
    multiplier: float = 0.0
    """Exponential delay: how much longer each wait is than the one before."""
    reset_threshold_ms: int = 0
    """Exponential delay: after this long without a failure the first wait applies again."""
    jitter_factor: float = 0.0
    """Exponential delay: by which part a wait may be longer or shorter."""
    interval_ms: int = 0
    """Failure rate: more failures than `attempts` within this time end the job."""


UNLIMITED_RESTARTS: Final = 2**31 - 1
"""More than a job will ever have."""


MAX_RESTART_DELAY_MS: Final = 86_400_000
MAX_RESTART_INTERVAL_MS: Final = 31_536_000_000
MAX_FAILURE_RATE: Final = 10_000
"""A job remembers as many failures as its rate allows."""

MAX_KEEP_OUTPUTS_MS: Final = 366 * 86_400_000
MAX_TIME_LIMIT_MS: Final = 366 * 86_400_000

MAX_CHECKPOINT_TIME_MS: Final = 86_400_000
MAX_RETAINED_CHECKPOINTS: Final = 64


@dataclass(slots=True, kw_only=True)
class CheckpointSettings:
    """When the checkpoints of a job are taken, and how long they are kept."""

    interval_ms: int
    """Between the triggers of two, in milliseconds; 0: none are taken."""
    timeout_ms: int
    """A checkpoint that is not complete by then is aborted."""
    min_pause_ms: int
    """Between the end of one and the trigger of the next."""
    tolerable_failed_checkpoints: int
    """How many may fail in a row before the job fails; -1: any number."""
    max_retained: int
    """How many completed ones are remembered."""
    retention: CheckpointRetention
    """What becomes of them when the job is cancelled."""


@dataclass(slots=True, kw_only=True)
class StreamSource:
    """Where a stream reads, or a batch task."""

    name: str
    """Of the input that the task sees."""
    connector: StreamConnector
    """What kind of source it is."""
    location: str
    """The topic, the directory, the rows per second, the name of the table behind that of its catalogue, or `module:function`."""
    stream_format: StreamFormat = StreamFormat.NONE
    """How its rows are written."""
    row_schema: str = ""
    """The columns as Spark's DDL, of AVRO an Avro schema as JSON; empty: the format or a registry has the columns."""
    options_json: str = "{}"
    """A JSON object of what else its connector was told."""


_SINKS: Final = {
    StreamConnector.KAFKA: "topic",
    StreamConnector.FILES: "directory",
    StreamConnector.PYTHON: "function",
    StreamConnector.TABLE: "table",
}
"""What a sink is called."""


@dataclass(slots=True, kw_only=True)
class StreamSink:
    """Where a stream writes, or a batch task."""

    name: str = ""
    """Of the output that goes there; empty: it is the only one."""
    connector: StreamConnector
    """What kind of sink it is."""
    location: str
    """The topic, the directory, the path of the table or its name behind that of its catalogue, or `module:function`."""
    stream_format: StreamFormat = StreamFormat.NONE
    """How its rows are written."""
    row_schema: str = ""
    """Of AVRO, an Avro schema as JSON; empty: the rows or a registry have it."""
    options_json: str = "{}"
    """A JSON object of what else its connector was told."""

    def in_words(self) -> str:
        """Return what it is, and where: `table '/data/sales'`."""
        return f"{_SINKS[self.connector]} '{self.location}'"


@dataclass(slots=True, kw_only=True)
class ChainedOperator:
    """A stream that is part of the query of another one, whose rows it reads."""

    operator_id: str
    """What the stream is called in the graph that was submitted."""
    task_type: TaskType
    """What `task` is."""
    task: str
    """PYTHON: `module:function`. SQL: Spark SQL. SQL_FILE: the path of a file with it."""
    parameters_json: str = "{}"
    """A JSON object that the task gets as its parameters."""
    input_name: str
    """What it calls the rows that it reads."""
    row_schema: str
    """The columns of these rows, as Spark's DDL."""
    event_time: str = ""
    """The column with the time of a row; empty: none."""
    watermark_delay_ms: int = 0
    """How late rows may be, in milliseconds."""


@dataclass(slots=True, kw_only=True)
class StreamDefinition:
    """What makes the task of a vertex a stream: its sources and its sinks, and when its batches begin."""

    sources: tuple[StreamSource, ...]
    """At least one."""
    sinks: tuple[StreamSink, ...]
    """Where the rows of its query go: one sink without a name, or several topics of one Kafka; none: pipelined edges have its rows."""
    trigger: StreamTrigger
    """When the next batch begins."""
    trigger_interval_ms: int = 0
    """PROCESSING_TIME: between the begins of two batches, in milliseconds; 0: at once."""
    output_mode: StreamOutputMode = StreamOutputMode.APPEND
    """Which rows each batch writes."""
    settings_json: str = "{}"
    """A JSON object of Spark's settings for the query."""
    chained: tuple[ChainedOperator, ...] = ()
    """What is done with the rows of its task, one after the other, before they go to the sinks."""


@dataclass(slots=True, kw_only=True)
class RetryRule:
    """How often, and when, a failed attempt is followed by another one, in place of what the restart strategy of the job says."""

    errors: tuple[str, ...] = ()
    """The types of the failures, or kinds of them such as `data`; empty: all that no other rule names."""
    attempts: int
    """How many further attempts a subtask has by this rule."""
    delay_ms: int
    """The wait before the first of them."""
    max_delay_ms: int
    """The longest wait."""
    multiplier: float
    """How many times as long as the wait before it each wait is."""


DEFAULT_OUTPUT: Final = "default"


@dataclass(slots=True, kw_only=True)
class RowCondition:
    """When a vertex runs that may be skipped: when an output of another one has rows, or when it has none."""

    source: str
    """The vertex whose output that is."""
    output: str = DEFAULT_OUTPUT
    """Which output of it."""
    has_rows: bool
    """Whether it has to have rows; false: it has to have none."""


@dataclass(slots=True)
class JobVertex:
    """One vertex of a JobGraph: a PySpark task and how many subtasks share it out."""

    vertex_id: str
    """Unique in the graph; also the name of the view or input that readers see unless the edge says otherwise."""
    task_type: TaskType
    """What `task` is."""
    task: str
    """PYTHON: `module:function`. SQL: Spark SQL. SQL_FILE: the path of a file with it."""
    parallelism: int = 1
    """How many subtasks."""
    max_parallelism: int = 128
    """How many key groups a hash edge into this vertex has."""
    parameters_json: str = "{}"
    """A JSON object that the task gets as its parameters."""
    resources: ResourceProfile | None = None
    """What each of its subtasks asks of its slot; null: any slot will do."""
    slot_sharing_group: str | None = None
    """Subtasks of vertices of one group may run in one slot, at most one of each vertex; null: each has a slot of its own."""
    stream: StreamDefinition | None = None
    """What its task streams; null: it is a batch task."""
    time_limit_ms: int | None = None
    """For how long an attempt of its may run, in milliseconds; null: for as long as it takes."""
    retries: tuple[RetryRule, ...] = ()
    """What follows a failed attempt; the first rule that names the failure counts."""
    sink: StreamSink | None = None
    """The table that the rows of its batch task go to; null: they are published."""
    engine: str = ""
    """The Spark that runs its tasks, by its name in the configuration of TaskExecutors; empty: that of the job."""
    runs: VertexRuns = VertexRuns.IN_TURN
    """When it runs."""
    condition: RowCondition | None = None
    """Whether it runs, or is skipped; null: it runs."""
    sources: tuple[StreamSource, ...] = ()
    """The tables whose rows its batch task reads; those of a stream are in `stream`."""
    code_digest: str = ""
    """A digest of the part of the job's code that its function is made of, or of the jars of its statement: 64 hexadecimal digits that
    count beside these code archives alone. Empty: unknown, and all code may be its code.
    """

    @property
    def is_closing(self) -> bool:
        """Whether it runs when all that run in their turn have come to their end, if it runs then."""
        return self.runs is not VertexRuns.IN_TURN

    @property
    def keeps_parallelism(self) -> bool:
        """Whether its parallelism stays: a subtask has written its part of so many, as a stream or to a sink, or reads all of a source."""
        return self.stream is not None or self.sink is not None or bool(self.sources)


@dataclass(slots=True, kw_only=True)
class LateRows:
    """Where the rows of a source or an edge go that are behind the watermark, instead of to the task."""

    output: str
    """An output of the stream."""
    window_ms: int = 0
    """How long its windows are: a row is late when the last one that it would be in has ended; 0: when its time is behind the watermark."""
    slide_ms: int = 0
    """How far apart windows begin; 0: as far as they are long."""
    start_ms: int = 0
    """How long after the beginning of 1970 a window begins: Spark's `startTime`."""
    session_gap_ms: int = 0
    """How long after its last row a session ends, in place of a window; 0: there are no sessions."""


@dataclass(slots=True, kw_only=True)
class EdgePipeline:
    """A pipelined edge: a topic of the job, which a stream writes and another one reads."""

    row_schema: str
    """The columns of its rows, as Spark's DDL."""
    partitions: int
    """Of the topic."""
    event_time: str = ""
    """The column with the time of a row; empty: none."""
    watermark_delay_ms: int = 0
    """How late rows may be, in milliseconds."""
    late_rows: LateRows | None = None
    """Where later ones go; null: Spark drops them where it aggregates."""


@dataclass(slots=True, kw_only=True)
class JobEdge:
    """An edge: a blocking one, whose reader starts when its writer has finished, or a pipelined one between streams."""

    source: str
    """The vertex that writes."""
    target: str
    """The vertex that reads."""
    output: str = DEFAULT_OUTPUT
    """Which output of the source."""
    input_name: str
    """What the target calls it."""
    ship: ShipStrategy
    """How the rows are shared out among the target's subtasks."""
    keys: tuple[str, ...] = ()
    """The columns of a HASH edge."""
    pipeline: EdgePipeline | None = None
    """How rows stream over it; null: it is blocking."""
    row_schema: str = ""
    """Of a blocking edge, the columns of its rows as Spark's DDL, also where the source has left nothing; empty: they are not said."""
    reads_skipped: bool = False
    """Of a blocking edge, whether the target runs where the source was skipped, and reads no rows with those columns."""


@dataclass(slots=True)
class SavepointRestore:
    """Where the streams of a job begin: in a savepoint."""

    path: str
    """Its directory: a path or a URL that fsspec knows."""
    allow_non_restored_state: bool = False
    """Whether it may have streams that the job does not have."""


@dataclass(slots=True, kw_only=True)
class JobParameter:
    """A parameter that a job declares, and what it is bound to.

    A value is its text: a whole number or a number as in JSON, true or false, 2026-11-25, or a time in ISO 8601, without an offset in UTC.
    """

    name: str
    """A letter or _, then letters, digits and _; at most 64; unique in the graph."""
    parameter_type: ParameterType
    """What its values are."""
    value: str | None = None
    """What every task of the job is given; null: it has to be given before the job is submitted. At most 4,096 characters; 64 KiB in all
    parameters together.
    """
    default: str | None = None
    """What the document says it is where nobody says otherwise; null: nothing."""
    description: str = ""
    """For people."""
    affects_results: bool = True
    """Whether tasks may compute something else with another value; false: then a rerun with another value reuses what has finished."""


@dataclass(slots=True)
class ParameterValue:
    """What a request says a parameter of a job is to be."""

    name: str
    """Of the parameter."""
    value: str
    """As text, as in a JobParameter."""


@dataclass(slots=True)
class JobLabel:
    """A label by which people find a job."""

    name: str
    """Letters, digits, '.', '_', '/' and '-'; at most 63; unique in the job."""
    value: str = ""
    """At most 128 characters."""


@dataclass(slots=True)
class JobLink:
    """A page about a job, such as a runbook."""

    title: str
    """What it is; at most 64 characters; unique in the job."""
    url: str
    """It begins with http:// or https://; at most 2,048 characters."""


@dataclass(slots=True)
class JobAbout:
    """What people say about a job; nothing of it changes how it runs."""

    owner: str = ""
    """Whose it is: a person or a team; at most 128 characters."""
    description: str = ""
    """What it is for; at most 1,024 characters."""
    labels: tuple[JobLabel, ...] = ()
    """At most 32, by name."""
    links: tuple[JobLink, ...] = ()
    """At most 16, by title."""


@dataclass(slots=True)
class JobGraph:
    """A directed acyclic graph of vertices, validated before it enters the log."""

    name: str
    """For people."""
    vertices: tuple[JobVertex, ...]
    """In the order of the document."""
    edges: tuple[JobEdge, ...]
    """In the order of the document."""
    restart_strategy: RestartStrategy
    """What happens when an attempt fails."""
    code_archives: tuple[str, ...] = ()
    """SHA-256 keys of the zip archives in the blob store that hold the user's modules."""
    scheduler: SchedulerType = SchedulerType.CLUSTER_DEFAULT
    """Which scheduler the job is to have."""
    checkpointing: CheckpointSettings | None = None
    """When the checkpoints of its streams are taken; null: as the cluster has it."""
    restore: SavepointRestore | None = None
    """The savepoint in which its streams begin; null: they begin where their sources say."""
    spark: SparkPool | None = None
    """Which Spark of a host runs its tasks, where one does; null: the one that the TaskExecutor's configuration says."""
    parameters: tuple[JobParameter, ...] = ()
    """What may be another value in each run, by name; at most 64."""
    keep_outputs_ms: int | None = None
    """For how long after its end the outputs stay that edges read, in milliseconds; null: as the cluster has it."""
    time_limit_ms: int | None = None
    """How long after its submission the job fails that has not ended, in milliseconds, without the time in which it is suspended; null:
    never.
    """
    time_limit_warning_ms: int | None = None
    """For how long before that it is a problem of the cluster, in milliseconds; null: for a tenth of the limit."""
    about: JobAbout | None = None
    """What people say about it; null: nothing."""
    engine: str = ""
    """The Spark that runs the tasks of vertices that name none; empty: the one that the TaskExecutor's configuration says."""
    queue: str = ""
    """The queue whose quota its slots count against; empty: `default`."""
    priority: int = 0
    """Within the queue jobs of a higher priority get slots first."""
    closing_time_limit_ms: int | None = None
    """For how long its closing vertices may run together, in milliseconds; null: for ten minutes."""

    @property
    def has_closing_vertices(self) -> bool:
        """Whether a vertex runs at the end of the job."""
        return any(vertex.is_closing for vertex in self.vertices)

    def engine_of(self, vertex: JobVertex) -> str:
        """Return the name of the Spark that runs the tasks of a vertex; empty: the one that the TaskExecutor's configuration says."""
        return vertex.engine or self.engine
