"""The process that runs a host's Spark Connect server: starts Spark, says where it answers, ends it when nobody needs it or it is ill.

Started by `spark_server.ensure_server` as `python -m eventflink.taskexecutor.spark_supervisor` with the descriptor of the server's lock,
the runtime directory and the settings, in a session of its own. The rule it keeps: Spark never outlives it (parent-death signal), and
outlives the last lease by less than a second more than the settings say. A Spark that ends by itself, or answers nothing for too long and
is ended for that, has its reason written down (`spark_watch.py`); who needs Spark next starts another.
"""

import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import logging
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NoReturn

from eventflink.local.class_data import ClassData
from eventflink.local.jars import IVY_SETTINGS_VARIABLE, JarsUnavailable, default_cache_directory
from eventflink.local.java import JavaMissing
from eventflink.model.resources import parse_memory_size
from eventflink.model.spark_ends import heap_was_full
from eventflink.processes import die_with_parent
from eventflink.processes.core_share import CoreShare
from eventflink.processes.file_lock import FileLock, LockBusy, open_lock, try_lock
from eventflink.processes.left_behind import adopt_orphans, kill_left_behind, reap_orphans, runs_module
from eventflink.taskexecutor.spark_canary import SparkCanary
from eventflink.taskexecutor.spark_contract import SERVER_SETTINGS, SESSION_SETTINGS
from eventflink.taskexecutor.spark_file_system import file_system_settings
from eventflink.taskexecutor.spark_jars import CLASS_PATH, connector_settings, store_settings, table_settings
from eventflink.taskexecutor.spark_server import (
    ADDRESS_FILE,
    LEASE_FILE,
    LOG_FILE,
    PACKAGES_TIMEOUT_S,
    SparkServerSettings,
)
from eventflink.taskexecutor.spark_watch import note_end
from eventflink.taskexecutor.spark_worker import TOKEN_VARIABLE, spark_python_script

logger = logging.getLogger(__name__)

_POLL_S: Final = 0.1
_END_TIMEOUT_S: Final = 0.4
_TOKEN_BYTES: Final = 32
_STACKS_S: Final = 1.0
_OUT_OF_MEMORY_STATUS: Final = 3
"""The exit status of a JVM that ExitOnOutOfMemoryError ends."""

_ENDED_BY_SIGNAL: Final = 128
"""A JVM that ends in order after a signal has this plus the number of the signal as its exit status."""

_STARTED: Final = re.compile(rb"Spark Connect server started at: \S*:(\d+)")
_SERVER_CLASS: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_SUBMIT_CLASS: Final = "org.apache.spark.deploy.SparkSubmit"
_CLASS_OF_A_FIRST_OPERATION: Final = "org/apache/spark/sql/connect/planner/SparkConnectPlanner"
_HEAP: Final = "spark.driver.memory"
_LARGE_HEAP_BYTES: Final = 31 << 30
"""At about 32 GiB pointers take 64 bits, and a JVM refuses an archive that was made with others."""

_LAST_JARS_VARIABLE: Final = "SPARK_DIST_CLASSPATH"
_CLASS_PATH_VARIABLES: Final = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", _LAST_JARS_VARIABLE)

_LOGGING: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
logger.server.name = org.apache.spark.sql.connect.service.SparkConnectServer
logger.server.level = info
logger.answers.name = org.apache.spark.sql.connect.utils.ErrorUtils
logger.answers.level = off
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %p %c{1}: %m%n%ex
"""
"""The log of a server that runs for weeks: what goes wrong, except in the queries, whose errors go to their tasks; and the port."""

_SPARK_CONFIGURATION: Final = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # A Spark that is out of heap and keeps its port is worse than one that ends, and is started again.
    "spark.driver.defaultJavaOptions": "-XX:+ExitOnOutOfMemoryError",
    "spark.ui.killEnabled": "false",
    "spark.sql.shuffle.partitions": "4",
    **SESSION_SETTINGS,
    **SERVER_SETTINGS,
}


def main() -> int:
    """Supervise one server until it ends or is needed no more; return the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    server_lock, runtime_directory, master, memory, packages, store_scheme, tables, catalog_directory, *numbers = sys.argv[1:]
    os.set_inheritable(int(server_lock), False)  # noqa: FBT003 - the argument has no name; the lock is to go with this process
    ui_port, answer_ms, idle_ms = map(int, numbers)
    settings = SparkServerSettings(
        master,
        memory,
        packages,
        ui_port,
        answer_timeout_ms=answer_ms,
        idle_timeout_ms=idle_ms,
        store_scheme=store_scheme,
        tables=tables,
        catalog_directory=catalog_directory,
    )
    return _run(Path(runtime_directory), settings)


def _run(runtime_directory: Path, settings: SparkServerSettings) -> int:
    signal.signal(signal.SIGTERM, _exit_in_order)
    try:
        java = _find_java()
    except JavaMissing as error:
        logger.error("SparkServerImpossible %s", error)  # noqa: TRY400 - the trace says nothing more
        return 1
    fetching = FileLock(default_cache_directory() / "spark-packages.lock", PACKAGES_TIMEOUT_S)
    try:
        if settings.packages:  # Ivy's cache is for one process at a time.
            fetching.acquire(lambda: logger.info("SparkPackagesAwaited reason='another process may be fetching some'"))
    except (LockBusy, OSError) as error:
        logger.error("SparkServerImpossible %s", error)  # noqa: TRY400 - the trace says nothing more
        return 1
    adopt_orphans()
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    try:
        server, class_data = _start_spark(runtime_directory, settings, java, token)
    except (JarsUnavailable, JavaMissing) as error:
        logger.error("SparkServerImpossible %s", error)  # noqa: TRY400 - the trace says nothing more
        return 1
    try:
        return _Supervision(server, class_data, runtime_directory, settings, fetching, token).run()
    finally:
        (runtime_directory / ADDRESS_FILE).unlink(missing_ok=True)
        _end(server)


def _exit_in_order(signum: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + signum)


def _find_java() -> Path:
    """Return the `java` that spark-submit takes.

    Raises:
        JavaMissing: there is none.

    """
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise JavaMissing(f"JAVA_HOME is {home}, but {java} does not exist")
        return java
    on_path = shutil.which("java")
    if on_path is None:
        raise JavaMissing(
            "'java' not found on the PATH; Spark needs Java 17 or newer: install it (Debian, Ubuntu: apt install openjdk-17-jre-headless)"
        )
    return Path(on_path)


def _start_spark(
    runtime_directory: Path, settings: SparkServerSettings, java: Path, token: str
) -> tuple[subprocess.Popen[bytes], ClassData]:
    """Start Spark; its Python workers use this interpreter, and what it writes goes into the runtime directory or to the log.

    Who does not know the token is not answered. It is in the environment, which only this user can read, and not in the command line; the
    Python processes in which Spark runs the sinks of streams have it from there.
    """
    package = importlib.util.find_spec("pyspark")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("the package pyspark is not installed")
    directory = runtime_directory / "spark"
    directory.mkdir(exist_ok=True)
    for left in (directory / "local", *directory.glob("artifacts-*"), *directory.glob("spark-*")):  # By one that was killed.
        shutil.rmtree(left, ignore_errors=True)
    home = _ensure_home(Path(package.submodule_search_locations[0]), directory)
    logging_file = directory / "log4j2.properties"
    logging_file.write_text(_LOGGING, encoding="utf-8")
    properties = {"log4j2.configurationFile": logging_file.as_uri(), "derby.system.home": directory, "java.io.tmpdir": directory}
    configuration = (
        _SPARK_CONFIGURATION
        | {
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.local.dir": str(directory / "local"),
            _HEAP: settings.memory,
            "spark.ui.enabled": "true" if settings.ui_port else "false",
            "spark.ui.port": str(settings.ui_port),
        }
        | _catalog_settings(settings.catalog_directory)
        | file_system_settings(home / "jars")
        | connector_settings()
    )
    jars = []
    for more in (store_settings(settings.store_scheme, os.environ), table_settings(settings.tables, home / "jars")):
        jars.append(more.pop(CLASS_PATH, ""))
        configuration |= more
    more_jars = os.pathsep.join(filter(None, jars))
    if settings.packages:
        configuration |= {"spark.jars.packages": settings.packages, "spark.jars.ivy": str(default_cache_directory() / "spark-packages")}
        if repositories := os.environ.get(IVY_SETTINGS_VARIABLE):
            configuration["spark.jars.ivySettings"] = repositories
    class_data = _class_data(java, home, configuration, more_jars)
    java_options = [f"-D{key}={value}" for key, value in properties.items()] + [*class_data.options]
    configuration["spark.driver.extraJavaOptions"] = " ".join(f'"{option}"' for option in java_options)
    command = [str(home / "bin" / "spark-submit"), "--master", settings.master, "--name", "eventflink", "--class", _SERVER_CLASS]
    for key, value in configuration.items():
        command += ["--conf", f"{key}={value}"]
    python = directory / "python"
    python.write_text(spark_python_script(sys.executable), encoding="utf-8")
    python.chmod(0o700)
    # Else it asks for the address of the host's name, and in some containers that is nobody's.
    environment = (
        {"SPARK_LOCAL_HOSTNAME": "localhost"}
        | os.environ
        | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable}
    )
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_CONNECT_MODE"):  # They are for clients of Spark, not for its server.
        environment.pop(name, None)
    if more_jars:  # At the end of the class path, so that the archive of a Spark without them is good for this one as well.
        environment[_LAST_JARS_VARIABLE] = os.pathsep.join(filter(None, [environment.get(_LAST_JARS_VARIABLE), more_jars]))
    environment[TOKEN_VARIABLE] = token
    server = subprocess.Popen(
        [*command, "spark-internal"],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        preexec_fn=die_with_parent(),  # noqa: PLW1509 - prctl and getppid wait for no lock
    )
    return server, class_data


def _catalog_settings(directory: str) -> dict[str, str]:
    """Return the settings with which tables outlive a server: Hive's catalogue in an embedded Derby, which one process has at a time."""
    if not directory:
        return {}
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"{directory}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={directory}/catalog;create=true",
    }


def _class_data(java: Path, home: Path, configuration: dict[str, str], more_jars: str) -> ClassData:
    """Return what this start has to do with class data; what decides on the class path and the JVM's options tells archives apart.

    Of the heap it is only whether a JVM can point into it with 32 bits: an archive serves all that can.
    """
    told = [f"{key}={value}" for key, value in configuration.items() if key.startswith("spark.driver.") and key != _HEAP]
    told.append(f"large-heap={parse_memory_size(configuration[_HEAP]) >= _LARGE_HEAP_BYTES}")
    told += [f"{name}={os.environ.get(name)}" for name in _CLASS_PATH_VARIABLES]
    jars = home / "jars"
    identity = [str(home), str(jars.stat().st_mtime_ns), *told]
    return ClassData(f"spark-{_spark_version()}", java, identity, _SUBMIT_CLASS, _CLASS_OF_A_FIRST_OPERATION, more_jars=more_jars)


def _ensure_home(package: Path, directory: Path) -> Path:
    """Return a Spark home of the installed package without its `python`, made first where it is missing.

    What is in there is pyspark as a zip of sources, which Spark would put before the installed pyspark: each Python worker, such as the
    one of a stream's sink, would then compile a second's worth of them when it starts. It is in the user's cache, the same for all servers
    of a package, since an archive of classes is good for one class path; where there is no such cache, it is in the server's directory.
    """
    name = f"spark-{_spark_version()}-{hashlib.sha256(os.fsencode(package)).hexdigest()[:12]}"
    for home in (default_cache_directory() / name, directory / "home"):
        if home.is_dir():
            return home
        try:
            home.parent.mkdir(parents=True, exist_ok=True)
            made = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
        except OSError:
            continue
        for entry in package.iterdir():
            if entry.name != "python":
                (made / entry.name).symlink_to(entry)
        try:
            made.rename(home)
        except OSError:  # Another process has just made it.
            shutil.rmtree(made)
        return home
    raise SystemExit(f"no Spark home can be made in {directory}")


def _spark_version() -> str:
    return importlib.metadata.version("pyspark")


class _Supervision:
    """One Spark, from its start to its end."""

    def __init__(
        self,
        server: subprocess.Popen[bytes],
        class_data: ClassData,
        runtime_directory: Path,
        settings: SparkServerSettings,
        fetching: FileLock,
        token: str,
    ) -> None:
        self._server = server
        self._class_data = class_data
        self._runtime_directory = runtime_directory
        self._settings = settings
        self._fetching = fetching
        self._token = token
        self._canary: SparkCanary | None = None
        """There is one once Spark has said where it answers."""

    def run(self) -> int:
        """Publish the address once there is one, and all packages are fetched; return when Spark ended, is ill, or is needed no more."""
        lease = open_lock(self._runtime_directory / LEASE_FILE)
        needed_at = time.monotonic()
        while self._server.poll() is None:
            if self._canary is None:
                self._publish()
            elif why := self._canary.why_ill():
                self._have_stacks_printed()
                return self._ended(why)
            if try_lock(lease, fcntl.LOCK_EX):
                fcntl.flock(lease, fcntl.LOCK_UN)
            else:
                needed_at = time.monotonic()
            if time.monotonic() - needed_at >= self._settings.idle_timeout_ms / 1000:
                logger.info("SparkServerEnds reason='nobody holds the lease'")
                return 0
            reap_orphans([self._server.pid])
            time.sleep(_POLL_S)
        return self._ended(_why_ended(self._server.returncode, self._settings))

    def _publish(self) -> None:
        """Write the address file once Spark's log names the port."""
        found = _STARTED.search((self._runtime_directory / LOG_FILE).read_bytes())
        if found is None:
            return
        remote = f"sc://localhost:{int(found[1])}/;token={self._token}"
        address = self._runtime_directory / ADDRESS_FILE
        temporary = address.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(f"{remote}\n")
        temporary.replace(address)
        self._fetching.release()
        self._class_data.make_archive(self._server.pid)
        self._canary = SparkCanary(remote, self._settings.answer_timeout_ms, CoreShare(self._server.pid).take)
        self._canary.start()

    def _ended(self, why: str) -> int:
        """Write down why Spark ended, or is to end; of one that did not start, who wanted it reads the log."""
        logger.error("SparkEnded reason=%s", why)
        if self._canary is not None:
            try:
                note_end(self._runtime_directory, why)
            except OSError as error:
                logger.warning("SparkEndNotNoted error=%s", error)
        return 1

    def _have_stacks_printed(self) -> None:
        """Have the JVM write the stacks of its threads into the log: of one that does not answer, it is all that tells why."""
        with contextlib.suppress(ProcessLookupError):
            self._server.send_signal(signal.SIGQUIT)
        time.sleep(_STACKS_S)


def _why_ended(exit_status: int, settings: SparkServerSettings) -> str:
    if exit_status == _OUT_OF_MEMORY_STATUS:
        return heap_was_full(settings.memory)
    signum = -exit_status if exit_status < 0 else exit_status - _ENDED_BY_SIGNAL
    if signum in signal.valid_signals():
        return f"it was ended from outside, by signal {signum} ({signal.strsignal(signum)})"
    return f"it ended by itself with exit status {exit_status}; {LOG_FILE} in the TaskExecutor's run directory has its last words"


def _end(server: subprocess.Popen[bytes]) -> None:
    """End Spark: nothing in it is worth waiting for, but in order it removes its temporary files."""
    server.terminate()
    server.send_signal(signal.SIGCONT)  # One that somebody has stopped.
    try:
        server.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    # Its Python workers: that of a stream's sink would go on asking for a Spark that is gone.
    kill_left_behind((), lambda process_id: runs_module(process_id, ("eventflink.local.class_data",)), _END_TIMEOUT_S)


if __name__ == "__main__":
    sys.exit(main())
