"""Keys of the cluster and of this host: names, places, daemons, drills."""

from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from eventflink.model.cluster_secret import checked_reference
from eventflink.model.configuration_keys.keys import Keys
from eventflink.model.kafka_settings import checked_settings
from eventflink.model.places import parse_place
from eventflink.model.secret_values import DEFAULT_KEYS, check_keys


class ClusterKeys(Keys):
    """Keys of the cluster and of this host: names, places, daemons, drills."""

    cluster_id: str = Field("eventflink", alias="cluster.id", description="Names the cell: the prefix of its topics.")
    bootstrap_servers: str = Field(
        "",
        alias="bootstrap.servers",
        description="The Kafka cluster. Empty: `up`, `cluster start` and `demo` start a broker of their own.",
    )
    kafka: dict[str, str] = Field(
        {},
        alias="kafka.*",
        description="Settings of every Kafka client, by librdkafka's names: `kafka.security.protocol`. Those of masters, of TaskExecutors "
        "and of `rest` alone are below `kafka.jobmanager.`, `kafka.taskmanager.` and `kafka.rest.`. Secrets are `${file:…}`, `${env:…}` or "
        "`${provider:…}`.",
    )
    cluster_secret: str = Field(
        "",
        alias="security.cluster-secret",
        description="By which masters and TaskExecutors know each other's records: `${file:…}`, `${env:…}`, `${provider:…}`, or `off`. "
        "Default: the file `secrets/<cluster.id>.cluster-secret` below data.directory, if there is one; "
        "`up`, `cluster start` and `demo` make it.",
    )
    sealed_from_offset: int = Field(
        0,
        alias="security.sealed-from-offset",
        ge=0,
        description="Records of the log before this offset count without a seal: the cluster had no secret when they were written.",
    )
    schema_registry_url: str = Field(
        "", alias="schema.registry.url", description="Confluent-compatible registry; inbound topics then take its wire format too."
    )
    redaction_keys: str = Field(
        DEFAULT_KEYS,
        alias="redaction.keys",
        description="Parts of the keys whose values nobody is shown, in the configuration, in documents of jobs and in events; a job with "
        "a text under a key that ends so is refused.",
    )
    data_directory: Path = Field(
        Path("~/.local/share/eventflink"), alias="data.directory", description="Everything this host writes, unless said otherwise."
    )
    broker_port: int = Field(9092, alias="broker.port", ge=0, le=65535, description="Where the embedded broker listens; 0: any free port.")
    broker_start_timeout_ms: int = Field(
        180_000,
        alias="broker.start-timeout",
        ge=1_000,
        le=3_600_000,
        description="How long the embedded broker may take until it answers; after a kill it reads its logs first.",
    )
    replication_factor: int = Field(
        1, alias="topics.replication-factor", ge=1, le=15, description="Of topics that are created; below 3 the cluster is single-node."
    )
    deployment_partitions: int = Field(
        4,
        alias="topics.deployments-partitions",
        ge=1,
        le=1_000,
        description="What the topic `deployments` begins with; each TaskExecutor reads one, and leaders add some for a fleet.",
    )
    drills_allowed: bool = Field(
        False,  # noqa: FBT003 - a default, not an argument
        alias="drills.allowed",
        description="Whether a command may make the leader stop, freeze or die, as drills do.",
    )
    drills_rehearsal: bool = Field(
        False,  # noqa: FBT003 - a default, not an argument
        alias="drills.rehearsal",
        description="Set by `drill --rehearsal` for masters on a copy of the log: clean-ups are only noted.",
    )
    working_directory: str = Field(
        "",
        alias="execution.working-directory",
        description="Where data sets of jobs and checkpoints of streams are, below a folder named by cluster.id: a path that every "
        "TaskExecutor and its Spark see, or a URL such as s3a://bucket/prefix. Default: below data.directory.",
    )
    shutdown_timeout_ms: int = Field(
        30_000,
        alias="cluster.services.shutdown-timeout",
        ge=1_000,
        description="When the cluster is shut down, TaskManagers may take so long to end their tasks, and again to end themselves.",
    )
    pid_directory: Path | None = Field(
        None,
        alias="env.pid.dir",
        description="Pid files of the daemons of `cluster start`; a directory of this host alone. Default: below data.directory.",
    )
    log_directory: Path | None = Field(None, alias="env.log.dir", description="Logs of these daemons. Default: below data.directory.")
    old_logs: int = Field(
        5, alias="env.log.max", ge=0, le=100, description="How many earlier logs of a daemon are kept, as .1, .2, …; the newest is .1."
    )
    ssh_command: str = Field("ssh", alias="env.ssh.command", min_length=1, description="How `cluster` reaches hosts that are not this one.")
    ssh_options: str = Field("", alias="env.ssh.opts", description="Further options of that command; they come before its own.")
    remote_directory: str = Field(
        "", alias="env.remote.directory", description="Where `eventflink` is started on another host. Default: the directory here."
    )
    remote_program: str = Field(
        "", alias="env.remote.program", description="The command line of `eventflink` on another host. Default: the same as here."
    )
    start_timeout_ms: int = Field(
        90_000, alias="cluster.start-timeout", ge=1000, description="How long `cluster start` and `up` wait until a daemon has joined."
    )
    stop_timeout_ms: int = Field(
        30_000, alias="cluster.stop-timeout", ge=100, description="How long a daemon has for its orderly end before it is killed."
    )

    @field_validator("cluster_secret")
    @classmethod
    def _check_cluster_secret(cls, value: str) -> str:
        return checked_reference(value)

    @field_validator("working_directory")
    @classmethod
    def _check_working_directory(cls, value: str) -> str:
        if value:
            parse_place(value)
        return value

    @field_validator("redaction_keys")
    @classmethod
    def _check_redaction_keys(cls, value: str) -> str:
        return check_keys(value)

    @field_validator("kafka", mode="before")
    @classmethod
    def _check_kafka(cls, value: dict[str, Any]) -> dict[str, str]:
        return checked_settings(value)
