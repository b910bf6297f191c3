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
)


@dataclass(slots=True)
class RestartStrategy:
    """How often, and how long after, a failed region is started again."""

    strategy_type: RestartStrategyType
    attempts: int = 0
    """Fixed delay: how many restarts of one job; failure rate: how many failures within `interval_ms`."""
    delay_ms: int = 0
    """Before each restart; exponential delay: before the first."""
    max_delay_ms: int = 0
    multiplier: float = 0.0
    reset_threshold_ms: int = 0
    jitter_factor: float = 0.0
    interval_ms: int = 0


UNLIMITED_RESTARTS: Final = 2**31 - 1
"""More than a job will ever have."""


MAX_RESTART_DELAY_MS: Final = 86_400_000
MAX_RESTART_INTERVAL_MS: Final = 31_536_000_000
MAX_FAILURE_RATE: Final = 10_000
"""A job remembers as many failures as its rate allows."""

MAX_CHECKPOINT_TIME_MS: Final = 86_400_000
MAX_RETAINED_CHECKPOINTS: Final = 64


@dataclass(slots=True, kw_only=True)
class CheckpointSettings:
    """When the checkpoints of a job are taken, and how long they are kept; times in milliseconds."""

    interval_ms: int
    """Between the triggers of two; 0: none are taken."""
    timeout_ms: int
    """A checkpoint that is not complete by then is aborted."""
    min_pause_ms: int
    """Between the end of one and the trigger of the next."""
    tolerable_failed_checkpoints: int
    """How many may fail in a row before the job fails; -1: any number."""
    max_retained: int
    """How many completed ones are remembered."""
    retention: CheckpointRetention


@dataclass(slots=True, kw_only=True)
class StreamSource:
    """Where a stream reads."""

    name: str
    """Of the input that the task sees."""
    connector: StreamConnector
    location: str
    """The topic, the directory, the rows per second, or `module:function`."""
    stream_format: StreamFormat = StreamFormat.NONE
    row_schema: str = ""
    """The columns as Spark's DDL, of AVRO an Avro schema as JSON; empty: the format or a registry has them."""
    options_json: str = "{}"
    """A JSON object of what else its connector was told."""


@dataclass(slots=True, kw_only=True)
class StreamSink:
    """Where a stream writes."""

    name: str = ""
    """Of the output that goes there; empty: it is the only one."""
    connector: StreamConnector
    location: str
    """The topic, the directory, or `module:function`."""
    stream_format: StreamFormat = StreamFormat.NONE
    row_schema: str = ""
    """Of AVRO, an Avro schema as JSON; empty: the rows or a registry have it."""
    options_json: str = "{}"
    """A JSON object of what else its connector was told."""


@dataclass(slots=True, kw_only=True)
class ChainedOperator:
    """A stream that is part of the query of another one, whose rows it reads."""

    operator_id: str
    """What the stream is called in the graph that was submitted."""
    task_type: TaskType
    task: str
    parameters_json: str = "{}"
    input_name: str
    """What it calls the rows that it reads."""
    row_schema: str
    """The columns of these rows, as Spark's DDL."""
    event_time: str = ""
    """The column with the time of a row; empty: none."""
    watermark_delay_ms: int = 0


@dataclass(slots=True, kw_only=True)
class StreamDefinition:
    """What makes the task of a vertex a stream: its sources and its sinks, and when its batches begin."""

    sources: tuple[StreamSource, ...]
    sinks: tuple[StreamSink, ...]
    """One without a name, or several topics of one Kafka; none: pipelined edges have its rows."""
    trigger: StreamTrigger
    trigger_interval_ms: int = 0
    output_mode: StreamOutputMode = StreamOutputMode.APPEND
    settings_json: str = "{}"
    """A JSON object of Spark's settings for the query."""
    chained: tuple[ChainedOperator, ...] = ()
    """What is done with the rows of its task, one after the other, before they go to the sinks."""


@dataclass(slots=True)
class JobVertex:
    """One vertex of a JobGraph: a PySpark task and how many subtasks share it out."""

    vertex_id: str
    task_type: TaskType
    task: str
    parallelism: int = 1
    max_parallelism: int = 128
    parameters_json: str = "{}"
    resources: ResourceProfile | None = None
    """What each subtask asks of its slot; None: any slot will do."""
    slot_sharing_group: str | None = None
    """Subtasks of the vertices of one group may run in one slot, at most one of each vertex; None: each has a slot of its own."""
    stream: StreamDefinition | None = None
    """What its task streams; None: it is a batch task."""


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


DEFAULT_OUTPUT: Final = "default"


@dataclass(slots=True, kw_only=True)
class JobEdge:
    """An edge: a blocking one, whose reader starts when its writer has finished, or a pipelined one between streams."""

    source: str
    target: str
    output: str = DEFAULT_OUTPUT
    input_name: str
    ship: ShipStrategy
    keys: tuple[str, ...] = ()
    pipeline: EdgePipeline | None = None
    """How rows stream over it; None: it is blocking."""


@dataclass(slots=True)
class SavepointRestore:
    """Where the streams of a job begin: in a savepoint."""

    path: str
    """Its directory: a path or a URL that fsspec knows."""
    allow_non_restored_state: bool = False
    """Whether it may have streams that the job does not have."""


@dataclass(slots=True, kw_only=True)
class JobParameter:
    """A parameter that a job declares, and what it is bound to; `job_parameters.py` has how values are written as text."""

    name: str
    parameter_type: ParameterType
    value: str | None = None
    """What every task of the job is given; None: it has to be given before the job is submitted."""
    default: str | None = None
    """What the document says it is where nobody says otherwise; None: nothing."""
    description: str = ""


@dataclass(slots=True)
class ParameterValue:
    """What a request says a parameter is to be."""

    name: str
    value: str
    """As text."""


@dataclass(slots=True)
class JobGraph:
    """A directed acyclic graph of vertices, validated before it enters the log."""

    name: str
    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]
    restart_strategy: RestartStrategy
    code_archives: tuple[str, ...] = ()
    scheduler: SchedulerType = SchedulerType.CLUSTER_DEFAULT
    checkpointing: CheckpointSettings | None = None
    """Of its streams; None: the cluster's."""
    restore: SavepointRestore | None = None
    """Where its streams begin; None: where their sources say."""
    spark: SparkPool | None = None
    """Which Spark runs its tasks; None: the one that the TaskExecutor's configuration says."""
    parameters: tuple[JobParameter, ...] = ()
    """What may be another value in each run, by name."""
