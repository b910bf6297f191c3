"""The configuration: every key with its type, default and meaning, in one pydantic model.

Keys are written dotted, as Flink writes them, flat or nested in YAML. Durations are whole milliseconds. An unknown or
ill-typed key is an error that names it and the nearest valid one. Nothing here opens a connection.
"""

import difflib
import os
import re
import socket
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self, get_args

from pydantic import (
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.cluster_secret import OFF, secret_path
from eventflink.model.configuration_files import with_paths_of_the_project
from eventflink.model.configuration_keys.blob_keys import BlobKeys
from eventflink.model.configuration_keys.checkpoint_keys import CheckpointKeys
from eventflink.model.configuration_keys.cluster_keys import ClusterKeys
from eventflink.model.configuration_keys.history_keys import HistoryKeys
from eventflink.model.configuration_keys.job_keys import JobKeys
from eventflink.model.configuration_keys.master_keys import MasterKeys
from eventflink.model.configuration_keys.metrics_keys import METRIC_SCOPES, MetricsKeys
from eventflink.model.configuration_keys.slot_keys import SlotKeys
from eventflink.model.configuration_keys.task_manager_keys import TaskManagerKeys
from eventflink.model.document_faults import describe_fault
from eventflink.model.document_text import InvalidText, read_document
from eventflink.model.job_graph import (
    RestartStrategy,
)
from eventflink.model.kafka_settings import KafkaAccess, KafkaRole, settings_of_role
from eventflink.model.loopback import LOOPBACK
from eventflink.model.metric_settings import MetricScope, scope_labels
from eventflink.model.places import NO_HOME, Place, is_url, parse_place
from eventflink.model.resources import ResourceProfile, parse_extended_resources, profile_of
from eventflink.model.statuses import JobStoreType, RestartStrategyType


class ConfigurationError(Exception):
    """The configuration is not usable; the message names the key and what is wrong with it."""


_PATHS = (Path, Path | None)
"""The annotations of keys that are paths of this host; texts that may be URLs as well are `str`."""

ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Configuration(MetricsKeys, HistoryKeys, BlobKeys, TaskManagerKeys, SlotKeys, CheckpointKeys, JobKeys, MasterKeys, ClusterKeys):
    """Every key of eventflink.yaml: the groups, the first one last as pydantic wants it, and what concerns several of them."""

    @model_validator(mode="after")
    def _check_profile(self) -> Self:
        self.total_profile  # noqa: B018 - it raises
        return self

    @field_validator("*", mode="before")
    @classmethod
    def _check_is_path(cls, value: object, info: ValidationInfo) -> object:
        """Refuse URLs where a path of this host is meant: as a path, `s3a://bucket` is a folder `s3a:` of the current directory."""
        if not isinstance(value, str | Path) or info.field_name is None:
            return value
        if (cls.model_fields[info.field_name].alias or info.field_name) in PATH_KEYS:
            try:
                for each in str(value).split(",") if info.field_name == "history_archive_directories" else [value]:
                    Path(each).expanduser()
            except RuntimeError as error:  # The user after `~` does not exist.
                raise ValueError(f"invalid path: '{value}': {NO_HOME}") from error
        if cls.model_fields[info.field_name].annotation in _PATHS and is_url(str(value)):
            raise ValueError(f"'{value}' is a URL, and this is a path: name one that the host sees, such as where the storage is mounted")
        return value

    @field_validator("cluster_id", "master_id", "task_manager_id")
    @classmethod
    def _check_id(cls, value: str) -> str:
        if value and not ID_PATTERN.fullmatch(value):
            raise ValueError("only letters, digits, '.', '_' and '-', at most 128, beginning with a letter or digit")
        return value

    @model_validator(mode="after")
    def _check_kafka_is_named(self) -> Self:
        if self.kafka and not self.bootstrap_servers:
            raise ValueError(
                f"kafka.{next(iter(self.kafka))} needs bootstrap.servers, which is empty: name the Kafka cluster that it is for"
            )
        return self

    @model_validator(mode="after")
    def _check_worker_slots(self) -> Self:
        if self.resource_driver != "standalone" and self.max_slots < self.slots:
            raise ValueError(
                f"slotmanager.number-of-slots.max ({self.max_slots}) is less than taskmanager.numberOfTaskSlots ({self.slots}): "
                "no worker could ever be asked for"
            )
        return self

    @model_validator(mode="after")
    def _check_archives(self) -> Self:
        if self.flink_archives and not self.archive_root:
            raise ValueError("jobmanager.archive.flink-format needs jobmanager.archive.fs.dir, or jobstore.type file")
        return self

    @model_validator(mode="after")
    def _check_timeouts(self) -> Self:
        """Hold P14: a TaskExecutor's tasks have ended before a master can declare it lost."""
        if self.self_fence_timeout_ms + self.kill_timeout_ms >= self.loss_timeout_ms:
            raise ValueError(
                f"taskmanager.self-fence-timeout ({self.self_fence_timeout_ms}) + taskmanager.kill-timeout "
                f"({self.kill_timeout_ms}) must be less than heartbeat.interval * heartbeat.missed-beats ({self.loss_timeout_ms})"
            )
        return self

    @property
    def metric_labels(self) -> dict[MetricScope, tuple[str, ...]]:
        """Which variables are labels, by scope."""
        return {scope: scope_labels(scope, getattr(self, name)) for name, scope in METRIC_SCOPES.items()}

    @property
    def default_restart_strategy(self) -> RestartStrategy:
        """The strategy of graphs that name none."""
        return self._restart_strategy_of(self.restart_strategy)

    @property
    def default_stream_restart_strategy(self) -> RestartStrategy:
        """The same of graphs with streams: where the configuration names none either, as in Flink one that always restarts."""
        is_named = "restart_strategy" in self.model_fields_set
        return self._restart_strategy_of(self.restart_strategy if is_named else RestartStrategyType.EXPONENTIAL_DELAY)

    def _restart_strategy_of(self, strategy_type: RestartStrategyType) -> RestartStrategy:
        match strategy_type:
            case RestartStrategyType.FIXED_DELAY:
                return RestartStrategy(strategy_type, attempts=self.restart_attempts, delay_ms=self.restart_delay_ms)
            case RestartStrategyType.FAILURE_RATE:
                return RestartStrategy(
                    strategy_type,
                    attempts=self.max_failures_per_interval,
                    delay_ms=self.failure_rate_delay_ms,
                    interval_ms=self.failure_rate_interval_ms,
                )
            case RestartStrategyType.EXPONENTIAL_DELAY:
                return RestartStrategy(
                    strategy_type,
                    delay_ms=self.initial_backoff_ms,
                    max_delay_ms=self.max_backoff_ms,
                    multiplier=self.backoff_multiplier,
                    reset_threshold_ms=self.reset_backoff_threshold_ms,
                    jitter_factor=self.jitter_factor,
                )
            case _:
                return RestartStrategy(RestartStrategyType.NONE)

    @property
    def loss_timeout_ms(self) -> int:
        """After this much silence a TaskManager is lost."""
        return self.heartbeat_interval_ms * self.heartbeat_misses

    @property
    def total_profile(self) -> ResourceProfile | None:
        """What all slots of a TaskExecutor have together; None: nothing was said."""
        return profile_of(
            cpu_millicores=self.cpu_cores,
            task_heap_bytes=self.task_heap_memory,
            task_off_heap_bytes=self.task_off_heap_memory,
            managed_bytes=self.managed_memory,
            extended_resources=parse_extended_resources(self.external_resources),
        )

    @property
    def slot_profile(self) -> ResourceProfile | None:
        """What each slot of a TaskExecutor has: an equal share of the whole, rounded down."""
        total = self.total_profile
        return total.divided_by(self.slots) if total is not None else None

    @property
    def data_path(self) -> Path:
        """`data.directory`, absolute."""
        return self.data_directory.expanduser().absolute()

    @property
    def secret_reference(self) -> str:
        """Where the cluster secret is; empty: there is none. What is in data.directory counts where it is this user's to read."""
        if self.cluster_secret:
            return "" if self.cluster_secret == OFF else self.cluster_secret
        path = secret_path(self.data_path, self.cluster_id)
        return f"${{file:{path}}}" if os.access(path, os.R_OK) else ""

    @property
    def blob_location(self) -> str:
        """Where this cluster's blobs are kept: an absolute path, or an fsspec URL. Other clusters may lie beside it."""
        directory = self.blob_directory
        if "://" not in directory:
            return str((Path(directory) if directory else self.data_path / "blobs").expanduser().absolute() / self.cluster_id)
        return f"{directory.rstrip('/')}/{self.cluster_id}"

    @property
    def archive_location(self) -> str:
        """Where this cluster's archives of ended jobs are: an absolute path, or an fsspec URL; empty: nowhere."""
        return f"{self.archive_root}/{self.cluster_id}" if self.archive_root else ""

    @property
    def archive_root(self) -> str:
        """Where the archives of clusters are, each in a folder with its id, and those in Flink's format; empty: nowhere."""
        directory = self.archive_directory
        if not directory and self.job_store_type is JobStoreType.MEMORY:
            return ""
        if "://" not in directory:
            return str((Path(directory) if directory else self.data_path / "archives").expanduser().absolute())
        return directory.rstrip("/")

    @property
    def history_locations(self) -> list[str]:
        """Where a history server looks for archives: absolute paths and fsspec URLs."""
        named = [name.strip() for name in self.history_archive_directories.split(",") if name.strip()]
        absolute = [name.rstrip("/") if "://" in name else str(Path(name).expanduser().absolute()) for name in named]
        return list(dict.fromkeys(absolute)) or ([self.archive_root] if self.archive_root else [])

    @property
    def working_place(self) -> Place:
        """Where the data sets of this cluster's jobs are. Other clusters may lie beside it."""
        return parse_place(self.working_directory or str(self.data_path / "jobs")) / self.cluster_id

    @property
    def pid_path(self) -> Path:
        """Where the pid files of this cluster's daemons are, absolute."""
        return (self.pid_directory or self.data_path / "run" / "pids").expanduser().absolute() / self.cluster_id

    @property
    def log_path(self) -> Path:
        """Where the logs of this cluster's daemons are, absolute."""
        return (self.log_directory or self.data_path / "logs").expanduser().absolute() / self.cluster_id

    @property
    def host(self) -> str:
        """The name of this host."""
        return self.task_manager_host or socket.gethostname()

    @property
    def keys_for_one_host(self) -> list[str]:
        """The keys by which a master of this configuration is reached from its own host alone."""
        keys = {
            "jobmanager.rpc.address": self.rpc_address,
            "blob.server.bind-host": self.blob_bind_host,
            "jobmanager.query.bind-host": self.query_bind_host,
        }
        return [key for key, value in keys.items() if value.lower() in LOOPBACK]

    def keys_that_shut_hosts_out(self, bootstrap: str) -> list[str]:
        """Return the keys by which other hosts do not reach a master of this configuration, though they may reach its Kafka."""
        brokers = {server.strip().rpartition(":")[0].strip("[]").lower() for server in bootstrap.split(",")}
        return [] if brokers <= LOOPBACK else self.keys_for_one_host

    def access(self, bootstrap: str, role: KafkaRole = KafkaRole.CLIENT) -> ClusterAccess:
        """Return how a process of this role reaches the cluster: its Kafka at these servers, with the settings and the secret of now."""
        kafka = KafkaAccess(bootstrap, settings_of_role(self.kafka, role), role)
        return ClusterAccess(kafka, self.cluster_id, self.secret_reference, self.sealed_from_offset)

    def with_ids(self) -> "Configuration":
        """Return a copy in which the ids that were left out are filled in."""
        return self.model_copy(
            update={
                "master_id": self.master_id or f"master-{self.host}",
                "task_manager_id": self.task_manager_id or f"tm-{self.host}-{uuid.uuid4().hex[:8]}",
            }
        )


def _flatten(document: Mapping[str, Any], source: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in _leaves(document, ""):
        if name in flat:
            raise ConfigurationError(f"{source}: '{name}' stands there twice, in one name and as a key below others: leave one out")
        flat[name] = value
    return flat


def _leaves(document: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


KEYS: dict[str, str] = {field.alias or name: name for name, field in Configuration.model_fields.items()}

PATH_KEYS = frozenset(
    {field.alias or name for name, field in Configuration.model_fields.items() if Path in (field.annotation, *get_args(field.annotation))}
    | {"execution.checkpointing.savepoint-dir", "jobmanager.archive.fs.dir", "historyserver.archive.fs.dir", "blob.storage.directory"}
    | {"execution.working-directory"}
)
"""Keys whose values are paths of this host, or may be."""

_OPEN_KEYS = tuple([key for key in KEYS if key.endswith(".*")])
"""The fields that stand for keys of many names each: those that begin so."""


def is_key(key: str) -> bool:
    """Tell whether there is such a key."""
    return field_of(key) in KEYS and key not in _OPEN_KEYS


def field_of(key: str) -> str:
    """Return the key by which a key is listed: its own, or the one that stands for all that begin so."""
    return next((each for each in _OPEN_KEYS if key.startswith(each.removesuffix("*"))), key)


def explain_unknown(key: str) -> str:
    """Return what is said of a key that does not exist: with the nearest one that does."""
    near = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.4)
    return f"unknown configuration key '{key}'" + (f"; did you mean '{near[0]}'?" if near else "")


def build_configuration(values: Mapping[str, Any], source: str) -> Configuration:
    """Validate dotted keys into a Configuration.

    Raises:
        ConfigurationError: names the key, the source and what is wrong.

    """
    flat = _flatten(values, source)
    for key in flat:
        if not is_key(key):
            raise ConfigurationError(f"{source}: {explain_unknown(key)}")
    opened: dict[str, dict[str, Any]] = {each: {} for each in _OPEN_KEYS}
    for key, value in flat.items():
        if (each := field_of(key)) != key:
            opened[each][key.removeprefix(each.removesuffix("*"))] = value
    try:
        return Configuration.model_validate({key: value for key, value in flat.items() if field_of(key) == key} | opened)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(p) for p in first["loc"] if p not in _OPEN_KEYS)
        raise ConfigurationError(f"{source}: {key + ': ' if key else ''}{describe_fault(first)}") from error


def read_values(path: Path) -> dict[str, Any]:
    """Return what a YAML file says, by dotted keys, not yet validated.

    Raises:
        ConfigurationError: the file cannot be read, or is no mapping.

    """
    try:
        document = read_document(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, InvalidText) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from error
    if document is not None and not isinstance(document, Mapping):
        raise ConfigurationError(f"{path}: the document must be a mapping of keys to values, not {type(document).__name__}")
    return _flatten(document or {}, str(path))


def load_configuration(path: Path | None, overrides: Mapping[str, str]) -> Configuration:
    """Read a YAML file (or only defaults) and lay `-D key=value` overrides over it.

    Raises:
        ConfigurationError: the file or a key is not usable.

    """
    values: dict[str, Any] = {}
    source = "configuration"
    if path is not None:
        source = str(path)
        values = with_paths_of_the_project(read_values(path), path, PATH_KEYS)
    for key, text in overrides.items():
        if not is_key(key):
            raise ConfigurationError(f"-D {key}: {explain_unknown(key)}")
        values[key] = text
        source = f"{source} with -D {key}" if len(overrides) == 1 else source
    return build_configuration(values, source)
