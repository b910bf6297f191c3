"""A task's Spark session: opened on first use, on the engine that the task names or on the host's own server, and closed in order.

The rule it keeps: before anything can run on a server, the TaskExecutor is told which session runs there (`SparkOpened`), so that it
can be ended after the death of this process. The session's id is the TaskExecutor's, never a random one.
"""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eventflink.model.attempts import AttemptId
from eventflink.model.spark_engines import LOCAL, SparkEngine, shown
from eventflink.model.spark_pools import SHARED, SparkPool
from eventflink.processes.file_lock import LockBusy
from eventflink.processes.packages_path import SPARK_PYTHON
from eventflink.streams.client_watch import HEARTBEAT_SETTING, SESSION_TIMEOUT_S
from eventflink.taskexecutor.failure_causes import text_of
from eventflink.taskexecutor.fork_server_wire import ForkServerSettings
from eventflink.taskexecutor.process_events import SparkOpened
from eventflink.taskexecutor.spark_client import is_client_loaded
from eventflink.taskexecutor.spark_contract import SparkUnfit, hold_to_contract
from eventflink.taskexecutor.spark_engines import addresses_at, full_address, key_of, session_settings
from eventflink.taskexecutor.spark_pools import hold_pool, pool_directory, pool_settings
from eventflink.taskexecutor.spark_release import SPARK_USER_ID, ReleaseFailed, release_session
from eventflink.taskexecutor.spark_server import SparkLease, SparkUnavailable, ensure_server, find_server, is_server_alive
from eventflink.taskexecutor.spark_worker import PYTHON_SETTING
from eventflink.taskexecutor.sql_arguments import keep_arguments
from eventflink.taskexecutor.task_packages import find_conflicts, refuse_foreign_processes, unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.retries import RetryPolicy

logger = logging.getLogger(__name__)

OnSession = Callable[["SparkSession"], None]


@dataclass(frozen=True, slots=True)
class SparkPlace:
    """Which Spark a task runs on."""

    engine: SparkEngine
    pool: SparkPool
    """Which Spark of the host it is, where the engine is there."""


@dataclass(frozen=True, slots=True)
class EarlierSession:
    """A session of an earlier attempt, which nobody may have released."""

    session_id: str
    address: str
    """Of its Spark elsewhere; empty: it was on a host."""


_PACKAGES_ELSEWHERE: Final = "packages"
"""Their directory, where Spark runs the Python functions of a session."""
_SESSION_GONE: Final = "INVALID_HANDLE"
_KEEP_ALIVE_S: Final = SESSION_TIMEOUT_S / 6
_EARLIER_SESSION_TIMEOUT_S: Final = 30.0
_RELEASED_AT_ONCE: Final = 16
_RETRIES: Final = 8
_MAX_BACKOFF_MS: Final = 5_000
"""A call on a server that is gone gives up after about 20 s (Spark's own default is ten minutes)."""


class TaskSpark:
    """The Spark of one task."""

    def __init__(
        self,
        settings: ForkServerSettings,
        attempt: AttemptId,
        session_id: str,
        archives: Sequence[Path],
        packages: Path | None,
        jars: Sequence[Path],
        tell: Callable[[SparkOpened], None],
        place: SparkPlace,
        earlier: Sequence[EarlierSession] = (),
        on_session: "OnSession | None" = None,
    ) -> None:
        """Take what is needed to open the session.

        Args:
            settings: of the TaskExecutor.
            attempt: whose session it is.
            session_id: its id.
            archives: for the Python functions that Spark runs.
            packages: where those are on this host that the job requires, also for these functions; None: it requires none.
            jars: archives of jars that the session has.
            tell: takes what the TaskExecutor has to hear first.
            place: which Spark it is to be.
            earlier: the sessions of earlier attempts that nobody may have released.
            on_session: called with the session before anybody uses it.

        """
        self._settings = settings
        self._attempt = attempt
        self._session_id = session_id
        self._archives = archives
        self._packages, self._jars = packages, jars
        self._tell = tell
        self._remote: str | None = None
        self._engine, self._pool = place.engine, place.pool
        self._earlier = earlier
        self._on_session = on_session
        self._runtime_directory = pool_directory(settings.runtime_directory, self._pool.name, attempt.job_id)
        self._leases: list[SparkLease] = []
        """Held until the process ends: that of the Spark of a pool."""
        self._had_client = is_client_loaded()

    @property
    def is_used(self) -> bool:
        """Whether the task has opened the session, or loaded Spark's client, which its process did not begin with."""
        return self._remote is not None or (is_client_loaded() and not self._had_client)

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is none of this host's."""
        return bool(self._engine.remote)

    def open(self) -> "SparkSession":
        """Open the session; the first task of a host waits here until its Spark has started.

        Raises:
            SparkUnavailable: the server of this host did not start, the job names a pool while `spark.remote` is set, what an earlier
                attempt left on a Spark has not ended, or that of this one is not as tasks need it.

        """
        if self.is_elsewhere and not self._engine.name and self._pool.name != SHARED:
            raise SparkUnavailable(
                f"Spark pool '{self._pool.name}' not found: spark.remote names a Spark elsewhere, which has no pools; give the job the "
                f"engine {LOCAL}, or leave its pool out"
            )
        remote = full_address(self._engine) if self.is_elsewhere else self._own_spark()
        self._release_earlier_sessions(remote)
        self._remote = remote
        self._tell(SparkOpened(self._attempt, self._session_id, remote))
        session = open_session(session_address(remote, self._session_id), None if self.is_elsewhere else self._runtime_directory)
        if self.is_elsewhere:
            _hold_to_contract(session, self._engine)
        if self._on_session is not None:
            self._on_session(session)
        if self._archives:
            session.addArtifacts(*[str(path) for path in self._archives], pyfile=True)
        if jars := [str(jar) for archive in self._jars for jar in sorted(unpacked(archive).glob("*.jar"))]:
            session.addArtifacts(*jars)
        if self._packages is not None:
            session.conf.set(PYTHON_SETTING, self._python_of(session, self._packages))
            if conflicts := find_conflicts(self._packages, is_elsewhere=self.is_elsewhere):
                refuse_foreign_processes(conflicts)
        logger.info("SparkOpened remote=%s session=%s", shown(remote), self._session_id)
        return session

    def _python_of(self, session: "SparkSession", packages: Path) -> str:
        """Return what Spark runs the session's Python functions with; one elsewhere is sent the packages."""
        if not self.is_elsewhere:
            return str(packages / SPARK_PYTHON)
        session.addArtifacts(f"{packages.with_suffix('.zip')}#{_PACKAGES_ELSEWHERE}", archive=True)
        return f"{_PACKAGES_ELSEWHERE}/{SPARK_PYTHON}"

    def _release_earlier_sessions(self, remote: str) -> None:
        """End what earlier attempts still compute, each on the Spark that it was deployed for: its host can live on beside that.

        A session that Spark has never heard of is closed all the same, so that the earlier attempt cannot open it later.
        """
        if not self._earlier:
            return
        sessions = [(place, each.session_id) for each in self._earlier for place in self._places_of(each, remote)]
        with ThreadPoolExecutor(_RELEASED_AT_ONCE, "release") as threads:
            releases = [threads.submit(release_session, *session, _EARLIER_SESSION_TIMEOUT_S) for session in sessions]
        for release, (place, _) in zip(releases, sessions, strict=True):
            try:
                release.result()
            except ReleaseFailed as error:
                raise SparkUnavailable(f"an earlier attempt may still run in the Spark at {shown(place)}: {error}") from error

    def _places_of(self, earlier: EarlierSession, remote: str) -> list[str]:
        """Return how the Spark of an earlier session is reached; `remote` is that of this task.

        That of another host is not: what runs there has ended with its TaskExecutor, or before that was declared lost.
        """
        if earlier.address:
            return addresses_at(self._settings.engines, earlier.address)
        of_host = find_server(self._runtime_directory) if self.is_elsewhere else remote
        return [of_host] if of_host is not None else []

    def _own_spark(self) -> str:
        """Return the address of this host's Spark for the task, which is started where it does not run."""
        settings = self._settings.spark_server
        if self._pool.name != SHARED:
            try:
                self._leases.append(hold_pool(self._runtime_directory))
            except (LockBusy, OSError) as error:
                raise SparkUnavailable(f"Spark pool '{self._pool.name}' not available: {error}") from error
            settings = pool_settings(settings, self._pool)
        return ensure_server(self._runtime_directory, settings)

    def close(self) -> None:
        """Close the session if it was opened; a server that is gone has closed it itself."""
        if self._remote is None:
            return
        try:
            release_session(self._remote, self._session_id, quiet_s=0.0)
        except ReleaseFailed as error:
            logger.warning("SparkNotReleased %s", error)


def open_session(address: str, runtime_directory: Path | None) -> "SparkSession":
    """Open a session that lives as long as it is not stopped; `runtime_directory` is that of the host's own server, where it is one."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    session = SparkSession.builder.remote(address).create()
    session.client.set_retry_policies([_retry_policy(runtime_directory)])
    keep_arguments(session)
    threading.Thread(target=_keep_alive, args=(session,), name="spark-session", daemon=True).start()
    return session


def _hold_to_contract(session: "SparkSession", engine: SparkEngine) -> None:
    try:
        differences = hold_to_contract(session, session_settings(engine))
    except SparkUnfit as error:
        raise SparkUnavailable(f"{key_of(engine)}: {error}") from error
    for sentence in differences:
        logger.warning("SparkDiffers %s", sentence)


def _retry_policy(runtime_directory: Path | None) -> "RetryPolicy":
    """Return when a call is repeated; on the host's own server, in a runtime directory, only while that lives."""
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    class WhileItLives(DefaultPolicy):  # type: ignore[misc]  # pyspark says nothing of its types
        def can_retry(self, exception: BaseException) -> bool:
            return super().can_retry(exception) and (runtime_directory is None or is_server_alive(runtime_directory))

    return WhileItLives(max_retries=_RETRIES, max_backoff=_MAX_BACKOFF_MS)


def _keep_alive(session: "SparkSession") -> None:
    """Let the server, and a sink beside it, hear of the task while it computes without Spark; who is silent is given up (P15)."""
    for number in itertools.count():
        try:
            session.conf.set(HEARTBEAT_SETTING, str(number))
        except Exception as error:  # noqa: BLE001 - whatever it is, the task meets it as well
            if session.is_stopped:
                return
            logger.warning("SparkSessionSilent error=%s", text_of(error).partition("\n")[0])
            if _SESSION_GONE in text_of(error):
                return
        time.sleep(_KEEP_ALIVE_S)


def session_address(remote: str, session_id: str) -> str:
    """Return the address with which a client opens the session of that id."""
    base, _, parameters = remote.partition("/;")
    own = f"session_id={session_id};user_id={SPARK_USER_ID}"
    return f"{base.rstrip('/')}/;{parameters.rstrip(';') + ';' if parameters else ''}{own}"
