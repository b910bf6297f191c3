"""What travels between a TaskExecutor, its fork server and the task processes, each message a line (`message_lines.py`).

Orders and events are in `process_events.py`; here are the messages besides them. Who sends what when is in `fork_server_main.py`. A line
has at most `MAX_LINE_BYTES`; who reads a longer or unknown one ends the connection.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from eventflink.blob.tls import TlsFiles
from eventflink.model.iceberg_catalogs import IcebergCatalog
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.places import Place
from eventflink.model.spark_engines import SparkEngine
from eventflink.model.spark_pools import SHARED
from eventflink.taskexecutor import process_events
from eventflink.taskexecutor.message_lines import LineCodec, UnreadableLine
from eventflink.taskexecutor.spark_server import SparkServerSettings
from eventflink.taskexecutor.task_secrets import SecretSettings

MAX_LINE_BYTES: Final = 8 * 1024 * 1024
"""Lists of locations that could not be written to files have at most half of it (`master/default_scheduler.py`), all else far less."""


@dataclass(slots=True, kw_only=True)
class ForkServerSettings:
    """What task processes need to know of their TaskExecutor; times in milliseconds."""

    cluster_id: str
    kafka: KafkaAccess
    """That of the cluster, which streams read and write where they name no other."""
    replication_factor: int
    """Of the topics that streams make there."""
    working_place: Place
    """Where data sets are."""
    log_directory: Path
    runtime_directory: Path
    locations_directory: Path
    """Where this TaskExecutor alone puts long lists of locations (`location_files.py`)."""
    spark_server: SparkServerSettings
    """Of the local server."""
    kill_timeout_ms: int
    with_spark: bool
    """Whether Spark's client is loaded before tasks are forked."""
    warm_processes: int
    """How many processes wait for tasks."""
    engines: tuple[SparkEngine, ...] = (SparkEngine(""),)
    """The Spark of tasks that name none, and those that tasks may name."""
    spark_pool: str = SHARED
    """Which local server runs the tasks of jobs that name none."""
    counts_written_rows: bool = True
    """Whether Spark counts the rows that streams write."""
    tls: TlsFiles | None = None
    """How the blob server is spoken to."""
    environment: tuple[str, ...] = ()
    """Names of environment variables that task processes have besides those that they always have."""
    secrets: SecretSettings = field(default_factory=SecretSettings)
    """Where tasks find the secrets that their jobs name."""
    catalogs: tuple[IcebergCatalog, ...] = ()
    """The catalogues of Iceberg that jobs may name."""


@dataclass(slots=True)
class ProcessForked:
    """The fork server has one more child."""

    process_id: int


@dataclass(slots=True)
class ProcessReaped:
    """A child of the fork server is gone."""

    process_id: int


@dataclass(slots=True)
class StopServer:
    """End every task (SIGTERM, then SIGKILL after `kill_after_ms`), then end."""

    kill_after_ms: int


_CODEC: Final = LineCodec(
    ForkServerSettings,
    ProcessForked,
    ProcessReaped,
    StopServer,
    process_events.LaunchTask,
    process_events.EndTask,
    process_events.ReleaseSpark,
    process_events.TakeCheckpoint,
    process_events.ResumeQuery,
    process_events.FinishQuery,
    process_events.TaskLaunched,
    process_events.TaskInitialized,
    process_events.SparkOpened,
    process_events.QueryStarted,
    process_events.CheckpointTaken,
    process_events.CheckpointDeclined,
    process_events.TaskProcessEnded,
    process_events.SparkReleased,
    process_events.ForkServerReady,
)
encode_line = _CODEC.encode
decode_line = _CODEC.decode


class LineBuffer:
    """Puts what a stream delivers in pieces together to lines."""

    def __init__(self) -> None:
        self._rest = bytearray()

    @property
    def rest(self) -> bytes:
        """What has come of a line that is not complete."""
        return bytes(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next piece and return the lines that are complete with it, without their newlines.

        Raises:
            UnreadableLine: a line is longer than `MAX_LINE_BYTES`.

        """
        if b"\n" not in data:
            self._rest += data
            if len(self._rest) > MAX_LINE_BYTES:
                raise UnreadableLine(f"a line has more than {MAX_LINE_BYTES} bytes")
            return []
        self._rest += data
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        return lines
