"""Keys of TaskExecutors: heartbeats, slots and what they have, Spark."""

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from eventflink.model.configuration_keys.keys import FACTORY_PATTERN, Keys, MemorySize
from eventflink.model.iceberg_catalogs import IcebergCatalog, catalogs_of, parse_catalogs
from eventflink.model.resources import parse_cpu_cores, parse_extended_resources
from eventflink.model.spark_engines import SparkEngine, engines_of, parse_engines
from eventflink.model.spark_pools import POOL_PATTERN, SHARED

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")
_LOCAL_MASTER: Final = re.compile(r"local(\[(\*|[1-9]\d{0,3})(, ?\d+)?\])?")
_COORDINATE: Final = r"[\w.-]+:[\w.-]+:[\w.-]+"


class TaskManagerKeys(Keys):
    """Keys of TaskExecutors: heartbeats, slots and what they have, Spark."""

    heartbeat_interval_ms: int = Field(1000, alias="heartbeat.interval", ge=50, description="How often a TaskExecutor sends a heartbeat.")
    heartbeat_misses: int = Field(
        5, alias="heartbeat.missed-beats", ge=2, description="After this many missed heartbeats it is declared lost."
    )
    self_fence_timeout_ms: int = Field(
        3500,
        alias="taskmanager.self-fence-timeout",
        ge=100,
        description="Without an acknowledged heartbeat for this long it ends its tasks.",
    )
    kill_timeout_ms: int = Field(
        1000, alias="taskmanager.kill-timeout", ge=10, description="How long a task has between being asked to end and being killed."
    )
    task_manager_id: str = Field("", alias="taskmanager.id", description="Names this TaskExecutor over restarts. Default: host and random.")
    task_manager_host: str = Field("", alias="taskmanager.host", description="This host's name. Default: what the system says.")
    disk_min_free_bytes: MemorySize = Field(
        16 * 1024 * 1024,
        alias="taskmanager.disk.min-free",
        description="With less room than this where it works and logs, such as 1g, it takes no tasks until there is more.",
    )
    slots: int = Field(2, alias="taskmanager.numberOfTaskSlots", ge=1, le=1024, description="How many tasks run at once.")
    cpu_cores: Annotated[int, BeforeValidator(parse_cpu_cores)] = Field(
        0,
        alias="taskmanager.cpu.cores",
        description="Processors that its tasks may count on, such as 4 or 0.5; the slots share them equally. 0: not said.",
    )
    task_heap_memory: MemorySize = Field(
        0, alias="taskmanager.memory.task.heap.size", description="Memory for its tasks' own objects, such as 4g; likewise."
    )
    task_off_heap_memory: MemorySize = Field(
        0, alias="taskmanager.memory.task.off-heap.size", description="Memory that its tasks take elsewhere; likewise."
    )
    managed_memory: MemorySize = Field(
        0, alias="taskmanager.memory.managed.size", description="Memory that Spark manages for its tasks; likewise."
    )
    external_resources: str = Field(
        "", alias="taskmanager.external-resources", description="Whatever else its tasks may count on, such as gpu=2,fpga=1; likewise."
    )
    task_environment: str = Field(
        "",
        alias="taskmanager.task.environment",
        description="Environment variables that tasks and their Spark inherit besides those that say where things are, such as "
        "AWS_REGION,FSSPEC_*; *: all.",
    )
    secrets_directory: str = Field(
        "",
        alias="secrets.directory",
        pattern=r"^(/.*)?$",
        description="Where tasks find the secrets that their jobs name: a directory with a file for each, as Kubernetes mounts them.",
    )
    secrets_environment_prefix: str = Field(
        "",
        alias="secrets.environment-prefix",
        pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$",
        description="Variables of the TaskExecutor's environment that are secrets: this, and behind it the name. No task inherits them.",
    )
    secrets_provider: str = Field(
        "", alias="secrets.provider", description="A class of yours that has secrets, module:Provider; tasks make it and call get(name)."
    )
    spark_remote: str = Field(
        "",
        alias="spark.remote",
        description="Which Spark runs the tasks that name no engine: a Spark Connect address, sc://host:port. Empty: a local server that "
        "this host shares.",
    )
    spark_engines: dict[str, str] = Field(
        {},
        alias="spark.engines.*",
        description="Sparks elsewhere that jobs ask for by name, as `engine: lake`: `spark.engines.lake.remote` is the address, "
        "`spark.engines.lake.token` a reference to its token, `${file:…}`, `${env:…}` or `${provider:…}`, and what is below "
        "`spark.engines.lake.settings.` the settings of each session there. `local` is the Spark of the host.",
    )
    spark_master: str = Field(
        "local[*]", alias="spark.local.master", description="How many cores the local server uses: `local[*]` all, `local[4]` four."
    )
    spark_memory: str = Field("1g", alias="spark.local.memory", pattern=r"^[1-9]\d*[mg]$", description="The heap of the local server.")
    spark_start_timeout_ms: int = Field(
        120_000,
        alias="spark.local.start-timeout",
        ge=1_000,
        le=3_600_000,
        description="How long the local server may take to start; a start that has packages to fetch may take 15 minutes in any case.",
    )
    spark_answer_timeout_ms: int = Field(
        60_000,
        alias="spark.local.answer-timeout",
        ge=10_000,
        le=3_600_000,
        description="How long the local server may answer no trivial query (it is asked one every ten seconds) before it is ended, and its "
        "tasks are restarted on another.",
    )
    spark_pool: str = Field(
        SHARED,
        alias="spark.pool",
        pattern=POOL_PATTERN,
        description="Which local server runs the tasks of jobs that name none: `shared`, `job` (on each host each job has its own), or the "
        "name of a pool.",
    )
    spark_pool_idle_timeout_ms: int = Field(
        30_000,
        alias="spark.pool.idle-timeout",
        ge=0,
        le=86_400_000,
        description="How long the local server of a job or a pool stays when no task uses it.",
    )
    counts_written_rows: bool = Field(
        default=True,
        alias="execution.streams.count-written-rows",
        description="Whether Spark counts the rows that streams write, which costs about 20 ns a row: 1 % where records are parsed, more "
        "where a batch does next to nothing.",
    )
    spark_ui_port: int = Field(
        0,
        alias="spark.local.ui-port",
        ge=0,
        le=65_535,
        description="Where the local server shows Spark's own pages, or on the next free port. They ask nobody who they are, and listen on "
        "every interface. 0: it shows none.",
    )
    spark_starts_early: bool = Field(
        default=True,
        alias="spark.start-early",
        description="Whether what tasks need of Spark starts with the TaskExecutor, and not with the first task that uses it: the process "
        "from which they get its client, and the local server where there is one.",
    )
    spark_packages: str = Field(
        "",
        alias="spark.jars.packages",
        pattern=rf"^({_COORDINATE}(,{_COORDINATE})*)?$",
        description="Maven coordinates, group:artifact:version, separated by commas: what the local server has besides Spark and its "
        "connector to Kafka. Fetched once, when it starts.",
    )
    spark_tables: Literal["", "delta"] = Field(
        "",
        alias="spark.tables",
        description="Which tables the local server has besides Spark's own: `delta`, Delta Lake's, whose jars (14 MB) are fetched once, "
        "when it starts. Empty: none.",
    )

    spark_catalog_directory: str = Field(
        "",
        alias="spark.local.catalog",
        pattern=r"^(/[^;\s]*)?$",
        description="The directory in which the local server that all jobs share keeps its catalogue of tables, and their files, for jobs "
        "that name tables such as pipelines. One process at a time has it. Empty: tables are forgotten when it ends.",
    )

    iceberg_catalogs: dict[str, str] = Field(
        {},
        alias="iceberg.catalogs.*",
        description="Catalogues of Iceberg by the names that jobs and schedules have for them, as `catalog: lake`: "
        "`iceberg.catalogs.lake.uri` and all other keys behind the name are properties of pyiceberg (`type`, `warehouse`, `s3.endpoint`, "
        "…). A secret among them is a reference, `${file:…}`, `${env:…}` or `${provider:…}`. TaskExecutors need the catalogues of jobs, "
        "masters those of schedules.",
    )

    @field_validator("spark_engines", mode="before")
    @classmethod
    def _check_spark_engines(cls, value: dict[str, Any]) -> dict[str, str]:
        return parse_engines(value)

    @field_validator("iceberg_catalogs", mode="before")
    @classmethod
    def _check_iceberg_catalogs(cls, value: dict[str, Any]) -> dict[str, str]:
        return parse_catalogs(value)

    @field_validator("task_environment")
    @classmethod
    def _check_task_environment(cls, value: str) -> str:
        for name in value.split(",") if value not in ("", "*") else ():
            if not _VARIABLE.fullmatch(name):
                raise ValueError(
                    f"invalid name of an environment variable: '{name}'; give a name, or the beginning of names such as FSSPEC_*"
                )
        return value

    @model_validator(mode="after")
    def _check_spark_pool(self) -> Self:
        if self.spark_remote and self.spark_pool != SHARED:
            raise ValueError(f"spark.pool: '{self.spark_pool}' is a local server, and spark.remote names one elsewhere; leave out either")
        return self

    @model_validator(mode="after")
    def _check_spark_tables(self) -> Self:
        if self.spark_tables and self.spark_remote:
            raise ValueError(
                f"spark.tables: '{self.spark_tables}' is for a local server, and spark.remote names one elsewhere: give that one the jars "
                "and settings of docs/tables.md, and leave the key out"
            )
        return self

    @model_validator(mode="after")
    def _check_spark_master(self) -> Self:
        # Executors on other hosts would be started again and again: the local server listens on the loopback alone.
        if not _LOCAL_MASTER.fullmatch(self.spark_master):
            raise ValueError(
                f"spark.local.master: '{self.spark_master}' is not local, local[4] or local[*]; "
                "for a cluster of Spark, start a Spark Connect server there and name it by spark.remote"
            )
        return self

    @model_validator(mode="after")
    def _check_secrets_environment(self) -> Self:
        prefix = self.secrets_environment_prefix
        for name in self.task_environment_names if prefix else ():
            beginning = name.removesuffix("*")
            if beginning.startswith(prefix) or (name != beginning and prefix.startswith(beginning)):
                raise ValueError(
                    f"taskmanager.task.environment: '{name}' gives tasks what secrets.environment-prefix '{prefix}' keeps from them"
                )
        return self

    @field_validator("secrets_provider")
    @classmethod
    def _check_secrets_provider(cls, value: str) -> str:
        if value and not FACTORY_PATTERN.fullmatch(value):
            raise ValueError(f"invalid provider: '{value}'; give module:Provider")
        return value

    @property
    def engines(self) -> tuple[SparkEngine, ...]:
        """The engine of tasks that name none, and those that have names."""
        return SparkEngine("", self.spark_remote), *engines_of(self.spark_engines)

    @property
    def catalogs(self) -> tuple[IcebergCatalog, ...]:
        """The catalogues of Iceberg that jobs may name."""
        return catalogs_of(self.iceberg_catalogs)

    @property
    def task_environment_names(self) -> tuple[str, ...]:
        """The names of these variables; one that ends with an asterisk is the beginning of names."""
        return tuple(self.task_environment.split(",")) if self.task_environment else ()

    @field_validator("external_resources")
    @classmethod
    def _check_external_resources(cls, value: str) -> str:
        parse_extended_resources(value)
        return value
