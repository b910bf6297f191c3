"""A real Apache Kafka broker (KRaft, one node) that this process owns, for a machine that has no cluster.

Where the jars come from is `jars`, what makes the start cheaper `class_data`, what the broker is told `broker_properties`. The rule: the
broker answers when `start` returns, one process at a time uses a data directory, and it never outlives the process that started it.
"""

import base64
import contextlib
import hashlib
import logging
import os
import shutil
import socket
import subprocess
import time
import types
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from eventflink.local.broker_properties import LOOPBACK, render_server_properties
from eventflink.local.class_data import ClassData
from eventflink.local.jars import KAFKA_BROKER, JarsUnavailable, Progress, ensure_jars, ignore_progress
from eventflink.local.java import find_java
from eventflink.model.kafka_settings import KafkaAccess, client_settings
from eventflink.processes import die_with_parent
from eventflink.processes.file_lock import locked

_LOGGER = logging.getLogger(__name__)

START_TIMEOUT_S: Final = 180.0
"""How long a start may take by default: after a kill a broker reads its logs before it answers."""

_FORMAT_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 15.0
_LOCK_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.05
_FREE_PORT_ATTEMPTS: Final = 3
_LOG_LINES_SHOWN: Final = 10
_MAIN_CLASS: Final = "kafka.Kafka"
_IDS_FILE: Final = "meta.properties"
_FEATURES_FILE: Final = "bootstrap.checkpoint"
_JAVA_OPTIONS: Final = (
    "-Xms128m",
    "-Xmx512m",
    "-XX:MaxGCPauseMillis=20",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
    # The values of a hundred settings at every start, and a line per client connection, hide what matters.
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaConfig=warn",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config.AbstractConfig=warn",
)


@dataclass(frozen=True, slots=True)
class _Kafka:
    """How Kafka's programs are run on this machine."""

    jars: Path
    command: tuple[str, ...]
    class_data: ClassData
    """Of the broker."""

    @classmethod
    def of(cls, java: Path, jars: Path) -> Self:
        command = (str(java), *_JAVA_OPTIONS, "-cp", str(jars / "*"))
        class_data = ClassData(jars.name, java, (*command, str(jars.stat().st_mtime_ns)), _MAIN_CLASS, cache_directory=jars.parent)
        return cls(jars, command, class_data)


class BrokerUnavailable(Exception):
    """The embedded broker cannot be had or does not start; the message says why and what to do."""


class EmbeddedBroker:
    """A broker in a Java process of its own; use it as a context manager, or call `start` and `stop`.

    Its data stays in the data directory and is used again by the next start, on the same or another port. The kernel ends the Java
    process with the *thread* that called `start`: call it from one that lives as long as the broker is needed.
    """

    def __init__(
        self,
        data_directory: Path,
        port: int = 0,
        cache_directory: Path | None = None,
        progress: Progress = ignore_progress,
        further: Mapping[str, str] = MappingProxyType({}),
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        """Start nothing yet.

        Args:
            data_directory: everything the broker writes, its log file included; made where it is missing.
            port: where it listens on the loopback interface; 0 takes a free one.
            cache_directory: where Kafka's jars are kept; by default in the user's cache.
            progress: takes lines for a person during the start.
            further: what Kafka is told besides, such as listeners with authentication and an authorizer; ours stays, without any.
            start_timeout_s: how long it may take until it answers, before it is ended (`broker.start-timeout`).

        """
        self._directory = data_directory.expanduser().absolute()
        self._wanted_port = port
        self._cache_directory = cache_directory
        self._progress = progress
        self._further = further
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients.

        Raises:
            BrokerUnavailable: the broker has not been started.

        """
        if self._process is None:
            raise BrokerUnavailable("the embedded broker has not been started")
        return f"{LOOPBACK}:{self._port}"

    @property
    def process_id(self) -> int | None:
        """The id of the Java process, or None while there is none."""
        return None if self._process is None else self._process.pid

    @property
    def log_path(self) -> Path:
        """The file that the broker logs to; the log of the start before is beside it, with `.1` at the end."""
        return self._directory / "broker.log"

    @property
    def is_running(self) -> bool:
        """Whether the Java process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> str:
        """Start the broker, wait until it answers, and return its bootstrap servers. Does nothing when it runs.

        Raises:
            JavaMissing: there is no Java 17 or newer.
            BrokerUnavailable: the jars cannot be fetched, the port is taken, another process uses the data directory, or the broker
                ended or did not answer in time (the message then has the last lines of its log).

        """
        if self.is_running:
            return self.bootstrap_servers
        java = find_java()
        try:
            jars = ensure_jars(KAFKA_BROKER, java, self._cache_directory, self._progress)
        except JarsUnavailable as error:
            raise BrokerUnavailable(f"{error}\nWithout them, name a running cluster in bootstrap.servers.") from error
        kafka = _Kafka.of(java, jars)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            busy = BrokerUnavailable(f"another broker is using {self._directory}; stop it, or choose another data directory")
            # The Java process inherits the lock: the directory stays locked exactly until that process is gone, whichever ends first.
            with locked(self._directory / "broker.lock", _LOCK_TIMEOUT_S, busy) as lock:
                self._start_on_some_port(kafka, lock)
        except (OSError, ValueError) as error:
            raise BrokerUnavailable(f"the embedded broker cannot use {self._directory}: {error}") from error
        _LOGGER.info("BrokerStarted bootstrap=%s process_id=%s data=%s", self.bootstrap_servers, self.process_id, self._directory)
        return self.bootstrap_servers

    def stop(self) -> None:
        """End the broker in order, after 15 s by force. Does nothing when it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            _LOGGER.warning("BrokerKilled process_id=%s reason=no-end-in-%.0fs", process.pid, _STOP_TIMEOUT_S)
            process.kill()
            process.wait()

    def kill(self) -> None:
        """End the broker as SIGKILL does, for who tests what becomes of its clients; `start` brings it back on the same port."""
        if self._process is not None:
            self._wanted_port = self._port
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: types.TracebackType | None) -> None:
        self.stop()

    def _start_on_some_port(self, kafka: _Kafka, lock: int) -> None:
        """Start on the wanted port, or on a free one; that may be lost to another process before Java has it, so try again."""
        if self._wanted_port:
            _check_port_is_free(self._wanted_port)
        for attempt in range(1, _FREE_PORT_ATTEMPTS + 1):
            free_port, controller_port = _find_two_free_ports()
            try:
                self._start_on(kafka, lock, self._wanted_port or free_port, controller_port)
            except _PortLost:
                if attempt == _FREE_PORT_ATTEMPTS:
                    raise
            else:
                return

    def _start_on(self, kafka: _Kafka, lock: int, port: int, controller_port: int) -> None:
        data = self._directory / "kafka"
        properties = self._directory / "server.properties"
        properties.write_text(render_server_properties(data, port, controller_port, self._further), encoding="ascii")
        if not (data / _IDS_FILE).is_file():
            self._format(kafka, data, properties)
        if self.log_path.exists():
            self.log_path.replace(self.log_path.with_name("broker.log.1"))
        self._progress(f"starting Kafka on {LOOPBACK}:{port}")
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [*kafka.command, *kafka.class_data.options, _MAIN_CLASS, str(properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(lock,),
                cwd=self._directory,
                # A Ctrl-C in the terminal is for the owner, who ends the broker last.
                process_group=0,
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - it only calls prctl, which is safe after fork
            )
        self._port = port
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.stop()
            raise
        kafka.class_data.make_archive(self._process.pid)

    def _format(self, kafka: _Kafka, data: Path, properties: Path) -> None:
        """Make the data directory one of Kafka's, with a cluster id of its own.

        What Kafka's own tool writes besides the ids are the versions of Kafka's features: the same for each broker that is told nothing
        besides what ours is always told. They are kept beside the jars, and one small file takes the place of a JVM.
        """
        if self._further:
            self._run_format_tool(kafka, properties)
            return
        told = hashlib.sha256(render_server_properties(Path("-"), 0, 0).encode("ascii")).hexdigest()[:16]
        kept = kafka.jars.with_name(f"{kafka.jars.name}-features-{told}")
        if kept.is_file():
            data.mkdir(exist_ok=True)
            shutil.copyfile(kept, data / _FEATURES_FILE)
            # Last: a directory that has it counts as formatted.
            _write_whole(data / _IDS_FILE, f"version=1\ncluster.id={_new_id()}\ndirectory.id={_new_id()}\nnode.id=1\n".encode("ascii"))
            return
        self._run_format_tool(kafka, properties)
        with contextlib.suppress(OSError):  # A cache that cannot be written to only makes the next new broker dearer.
            _write_whole(kept, (data / _FEATURES_FILE).read_bytes())

    def _run_format_tool(self, kafka: _Kafka, properties: Path) -> None:
        # It lives for a second: code that is compiled well would come too late.
        command = [*kafka.command, "-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format"]
        arguments = ["--cluster-id", _new_id(), "--config", str(properties), "--ignore-formatted"]
        try:
            finished = subprocess.run(
                [*command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=_FORMAT_TIMEOUT_S,
                check=False,
                preexec_fn=die_with_parent(),
            )
        except subprocess.TimeoutExpired:
            raise BrokerUnavailable(f"formatting {self._directory} for Kafka took longer than {_FORMAT_TIMEOUT_S:.0f} s") from None
        if finished.returncode != 0:
            raise BrokerUnavailable(f"Kafka could not format {self._directory}:\n{_last_lines(finished.stdout)}")

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        # Asked only once the port is open: librdkafka would report each refused connection, and wait longer after each.
        while not _accepts_connections(self._port):
            self._check_it_may_yet_answer(deadline)
            time.sleep(_POLL_S)
        client = AdminClient(client_settings(KafkaAccess(f"{LOOPBACK}:{self._port}"), {"log_level": 0}))
        while True:
            with contextlib.suppress(KafkaException):
                if client.list_topics(timeout=1.0).brokers and self.is_running:
                    return
            self._check_it_may_yet_answer(deadline)
            time.sleep(_POLL_S)

    def _check_it_may_yet_answer(self, deadline: float) -> None:
        if not self.is_running:
            said = self._last_log_lines()
            if "Address already in use" in said:
                raise _PortLost(f"the embedded broker's port was taken while it started; log: {self.log_path}\n{said}")
            raise BrokerUnavailable(f"the embedded broker ended while it started; log: {self.log_path}\n{said}")
        if time.monotonic() > deadline:
            raise BrokerUnavailable(
                f"the embedded broker did not answer within {self._start_timeout_s:g} s, and was ended: if it was still reading its data, "
                f"raise broker.start-timeout; log: {self.log_path}\n{self._last_log_lines()}"
            )

    def _last_log_lines(self) -> str:
        try:
            with self.log_path.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(0, size - 64 * 1024))
                return _last_lines(log.read().decode("utf-8", errors="replace"))
        except OSError as error:
            return f"(its log cannot be read: {error})"


class _PortLost(BrokerUnavailable):
    """Another process took the port between the moment it was found free and the moment Java bound it."""


def _new_id() -> str:
    """Return an id as Kafka makes them: none begins with a dash, which would be taken for an option."""
    text = "-"
    while text.startswith("-"):
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
    return text


def _write_whole(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_LOG_LINES_SHOWN:])


def _find_two_free_ports() -> tuple[int, int]:
    with socket.create_server((LOOPBACK, 0)) as first, socket.create_server((LOOPBACK, 0)) as second:
        return int(first.getsockname()[1]), int(second.getsockname()[1])


def _check_port_is_free(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Java does it: connections of a broker before that are still winding down do not make the port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise BrokerUnavailable(
                f"port {port} on {LOOPBACK} cannot be used for the embedded broker: {error.strerror}. If it is a Kafka broker, name it in "
                f"bootstrap.servers; or choose another broker.port (0: any free one)"
            ) from error


def _accepts_connections(port: int) -> bool:
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1.0):
            return True
    except OSError:
        return False
