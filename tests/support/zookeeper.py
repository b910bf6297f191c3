"""A real ZooKeeper for tests, in a Java process of its own: the server whose jars come with pyspark.

Its data stay in its directory: it can be killed and started again, on the same port.
"""

import contextlib
import importlib.util
import socket
import subprocess
import time
import types
from pathlib import Path
from typing import Self

from eventflink.local.java import find_java
from eventflink.processes import die_with_parent

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 120.0
REQUEST_TIMEOUT_S = 2.0
TICK_MS = 200
"""Sessions last from 2 to 20 ticks, unless the configuration below says otherwise."""

_LOOPBACK = "127.0.0.1"
_CONFIGURATION = """\
dataDir={data}
clientPort={port}
clientPortAddress={host}
tickTime={tick_ms}
minSessionTimeout=1000
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr,cons
"""


# What the server loads, out of the three hundred jars there: with all of them on its path it starts many times slower.
_JARS = (
    "zookeeper-[0-9]",
    "zookeeper-jute",
    "slf4j-api",
    "log4j-api",
    "log4j-core",
    "log4j-slf4j2-impl",
    "snappy-java",
    "metrics-core",
    "commons-io",
    "commons-cli",
    "commons-lang3",
    "netty-buffer-4",
    "netty-codec-4",
    "netty-codec-base",
    "netty-common",
    "netty-handler-4",
    "netty-resolver-4",
    "netty-transport-4",
    "netty-transport-classes-epoll",
    "netty-transport-native-unix-common",
)


def class_path() -> str:
    """Return the class path of the server: ZooKeeper's jars and what they need."""
    specification = importlib.util.find_spec("pyspark")
    assert specification is not None
    directory = Path((specification.submodule_search_locations or [""])[0]) / "jars"
    found = {name: sorted(directory.glob(f"{name}*.jar")) for name in _JARS}
    assert all(found.values()), f"pyspark's jars in {directory} lack {[name for name, jars in found.items() if not jars]}"
    return ":".join(str(jar) for jars in found.values() for jar in jars)


class ZooKeeper:
    """One server on a port of the loopback interface that was free; use it as a context manager, in the main thread."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = _find_free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """What `high-availability.zookeeper.quorum` takes."""
        return f"{_LOOPBACK}:{self.port}"

    @property
    def log_path(self) -> Path:
        return self.directory / "zookeeper.log"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        assert self._process is None
        self.directory.mkdir(parents=True, exist_ok=True)
        configuration = self.directory / "zoo.cfg"
        configuration.write_text(
            _CONFIGURATION.format(data=self.directory / "data", port=self.port, host=_LOOPBACK, tick_ms=TICK_MS), encoding="ascii"
        )
        command = [str(find_java()), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.apache.logging.log4j.level=INFO"]
        command += ["-cp", class_path(), "org.apache.zookeeper.server.ZooKeeperServerMain", str(configuration)]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - it only calls prctl, which is safe after fork
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while "Mode: standalone" not in self.ask("srvr"):
            assert self._process.poll() is None, self.log_path.read_text(errors="replace")[-3000:]
            assert time.monotonic() < deadline, f"ZooKeeper did not answer within {START_TIMEOUT_S} s"
            time.sleep(0.05)

    def ask(self, word: str) -> str:
        """Return the answer to a four-letter word; empty where there is none."""
        answer = b""
        with contextlib.suppress(OSError), socket.create_connection((_LOOPBACK, self.port), REQUEST_TIMEOUT_S) as connection:
            connection.sendall(word.encode())
            while part := connection.recv(65536):
                answer += part
        return answer.decode(errors="replace")

    def kill(self) -> None:
        """Kill the server as the kernel does when memory ends."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(STOP_TIMEOUT_S)
        self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(STOP_TIMEOUT_S)
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: types.TracebackType | None) -> None:
        self.stop()


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        return int(probe.getsockname()[1])
