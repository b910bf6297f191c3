"""The Spark Connect server of a host: started by the first task that needs it, shared by the TaskExecutors of a runtime directory.

Here is what its users do: hold a lease, find the address, start the server. What the server's own process does is in
`spark_supervisor.py`. In the runtime directory:

    spark.lease    a shared lock that every TaskExecutor holds; when none does, the server ends
    spark.server   an exclusive lock that the supervisor has from its first moment, since its starter takes it and hands it on, to its last
    spark.start    an exclusive lock that is held while the server is started
    spark.address  where the server answers, with the token without which it answers nobody; only this user may read it; written whole,
                   and removed before it ends
    spark.ended    how a Spark ended last that nobody had told to end (`spark_watch.py`)
    spark.log      what the supervisor and Spark say; spark.log.1 is that of the Spark before

A lock goes with its process, however that ends, so nothing here is ever stale. The first to start the server decides its settings.
"""

import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from eventflink.processes.disk import find_fault
from eventflink.processes.file_lock import FileLock, LockBusy, locked, open_lock, try_lock
from eventflink.processes.marked import MARK_VARIABLE
from eventflink.processes.packages_path import without_packages
from eventflink.taskexecutor.spark_jars import has_connectors
from eventflink.taskexecutor.spark_release import channel_target
from eventflink.taskexecutor.task_environment import inherited

if TYPE_CHECKING:
    from eventflink.model.configuration import Configuration

PACKAGES_TIMEOUT_S: Final = 900.0
"""How long a start may take that has jars to fetch first."""

LEASE_FILE: Final = "spark.lease"
SERVER_FILE: Final = "spark.server"
ADDRESS_FILE: Final = "spark.address"
LOG_FILE: Final = "spark.log"
LAST_LOG_FILE: Final = "spark.log.1"
_START_FILE: Final = "spark.start"
_LOCK_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.02
_CONNECT_TIMEOUT_S: Final = 1.0
_LOG_TAIL_BYTES: Final = 16_384
_LOG_TAIL_LINES: Final = 16
"""Of jars that cannot be fetched it says first what to do, and then in twelve lines what was tried."""
_LOG_TAIL_WIDTH: Final = 600


@dataclass(frozen=True, slots=True)
class SparkServerSettings:
    """How a server is started."""

    master: str
    """Spark's master, such as `local[*]`."""
    memory: str
    """The heap, such as `1g`."""
    packages: str = ""
    """Maven coordinates of what is on the class path besides, separated by commas."""
    ui_port: int = 0
    """Where it shows Spark's own pages; 0: nowhere."""
    environment: tuple[str, ...] = ()
    """Names of environment variables that it has besides those that tasks always have."""
    timeout_ms: int = 120_000
    """How long a start may take that has nothing to fetch."""
    answer_timeout_ms: int = 60_000
    """How long it may answer no trivial query before it is ended."""
    idle_timeout_ms: int = 5_000
    """How long it outlives the last lease, which leaves who comes next, such as a TaskExecutor that is started again, a warm Spark."""
    pool_idle_timeout_ms: int = 30_000
    """The same, of those that are no TaskExecutor's but of a pool."""

    store_scheme: str = ""
    """The kind of store that data sets are in, as Hadoop calls it; empty: they are in directories."""
    tables: str = ""
    """The kind of tables that it has besides Spark's own; empty: none."""
    catalog_directory: str = ""
    """Where its catalogue of tables is, and their files; empty: it forgets its tables when it ends."""

    @classmethod
    def of(cls, configuration: "Configuration") -> Self:
        """Return how the configuration wants it."""
        place = (configuration.spark_master, configuration.spark_memory, configuration.spark_packages, configuration.spark_ui_port)
        return cls(
            *place,
            configuration.task_environment_names,
            configuration.spark_start_timeout_ms,
            configuration.spark_answer_timeout_ms,
            pool_idle_timeout_ms=configuration.spark_pool_idle_timeout_ms,
            store_scheme=configuration.working_place.scheme,
            tables=configuration.spark_tables,
            catalog_directory=configuration.spark_catalog_directory,
        )

    @property
    def start_timeout_s(self) -> float:
        """How long a start may take before it counts as failed, in seconds."""
        fetching_s = PACKAGES_TIMEOUT_S if self.packages or not has_connectors(self.store_scheme, self.tables) else 0.0
        return max(self.timeout_ms / 1000, fetching_s)


class SparkUnavailable(Exception):
    """There is no Spark server and none could be started; the message says why, with the last lines of its log."""


class SparkLease(FileLock):
    """Keeps the server of a runtime directory from ending; a TaskExecutor holds one as long as it lives."""

    def __init__(self, runtime_directory: Path) -> None:
        """Name the directory; nothing is taken yet. A server that is ending may keep the lock for some seconds."""
        super().__init__(runtime_directory / LEASE_FILE, _LOCK_TIMEOUT_S, shared=True)


def find_server(runtime_directory: Path) -> str | None:
    """Return the address of the running server, `sc://localhost:port/;token=…`, or None."""
    if not is_server_alive(runtime_directory):
        return None
    try:
        remote = (runtime_directory / ADDRESS_FILE).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    try:
        host, _, port = channel_target(remote).rpartition(":")
        with socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S):
            return remote
    except (OSError, ValueError):
        return None


def is_server_alive(runtime_directory: Path) -> bool:
    """Tell whether a supervisor runs: starting, serving or ending."""
    descriptor = open_lock(runtime_directory / SERVER_FILE)
    try:
        return not try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def ensure_server(runtime_directory: Path, settings: SparkServerSettings) -> str:
    """Return the address of the server, which is started if there is none.

    Args:
        runtime_directory: where the locks, the address and the log are.
        settings: of the server that is started; one that runs already keeps its own.

    Raises:
        SparkUnavailable: it did not start in time, or its packages could not be fetched.

    """
    remote = find_server(runtime_directory)
    if remote is not None:
        return remote
    timeout_s = settings.start_timeout_s
    deadline = time.monotonic() + timeout_s
    busy = SparkUnavailable(f"Spark is being started by another process, but did not start within {timeout_s:g} s")
    with locked(runtime_directory / _START_FILE, timeout_s, busy):
        starter: subprocess.Popen[bytes] | None = None
        while time.monotonic() < deadline:
            remote = find_server(runtime_directory)
            if remote is not None:
                return remote
            if starter is None:
                starter = _spawn(runtime_directory, settings)
            if starter is not None and starter.poll() is not None:
                raise SparkUnavailable(f"Spark did not start{_disk_fault(runtime_directory)}:\n{_log_tail(runtime_directory)}")
            time.sleep(_POLL_S)
    why = _disk_fault(runtime_directory)
    raise SparkUnavailable(f"Spark did not start within {timeout_s:g} s (spark.local.start-timeout){why}:\n{_log_tail(runtime_directory)}")


def supervisor_command(runtime_directory: Path, settings: SparkServerSettings, server_lock: int) -> list[str]:
    """Return the command of the process that runs a server (`spark_supervisor.main`); it inherits the descriptor of the server's lock."""
    command = [sys.executable, "-P", "-m", "eventflink.taskexecutor.spark_supervisor", str(server_lock), str(runtime_directory)]
    command += [settings.master, settings.memory, settings.packages, settings.store_scheme, settings.tables, settings.catalog_directory]
    return [*command, str(settings.ui_port), str(settings.answer_timeout_ms), str(settings.idle_timeout_ms)]


def _spawn(runtime_directory: Path, settings: SparkServerSettings) -> subprocess.Popen[bytes] | None:
    """Start the supervisor, unless one lives, in a session of its own: the death of this task and signals to its group are not to end it.

    It has its lock before it runs. If it took the lock itself, nobody could see it while it starts: the task after one that was killed
    meanwhile would start another supervisor, and take the log from the first, which reads the address of Spark there.
    """
    server_lock = FileLock(runtime_directory / SERVER_FILE, timeout_s=0)
    try:
        server_lock.acquire()
    except LockBusy:
        return None
    log_path = runtime_directory / LOG_FILE
    try:
        (runtime_directory / ADDRESS_FILE).unlink(missing_ok=True)  # Of one that was killed.
        with contextlib.suppress(FileNotFoundError):  # Why the last one ended is read after another has started.
            log_path.replace(runtime_directory / LAST_LOG_FILE)
        with log_path.open("wb") as log:
            return subprocess.Popen(
                supervisor_command(runtime_directory, settings, *server_lock.descriptors),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=runtime_directory,
                env={name: value for name, value in _environment(settings).items() if name != MARK_VARIABLE},
                pass_fds=server_lock.descriptors,
            )
    finally:
        server_lock.release()


def _environment(settings: SparkServerSettings) -> dict[str, str]:
    """Return the environment of a Spark that other jobs use as well: none of the packages of the one whose task starts it."""
    return inherited(without_packages(os.environ), settings.environment)


def _disk_fault(runtime_directory: Path) -> str:
    """Return what is wrong with the disk to which Spark and its log are written; where it takes nothing, the log cannot say so."""
    fault = find_fault(runtime_directory)
    return f" ({fault})" if fault else ""


def _log_tail(runtime_directory: Path) -> str:
    try:
        with (runtime_directory / LOG_FILE).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
            said = file.read().decode("utf-8", "replace").splitlines()
    except OSError as error:
        return f"(its log cannot be read: {error})"
    lines = [
        line[:_LOG_TAIL_WIDTH] for line in said if not line.startswith("\tat ")
    ]  # The frames of a trace would leave no room for what it says.
    return "\n".join(lines[-_LOG_TAIL_LINES:]) or "(its log is empty)"
