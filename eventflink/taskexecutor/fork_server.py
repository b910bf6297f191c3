"""The TaskExecutor's end of a fork server: starts it, passes orders on, tells events, ends it.

A thread of its own reads the events; what they mean is the protocol's business. The rule it keeps: the fork server and its children die
with the thread that called `start` (the kernel's parent-death signal means the thread), so that thread must live as long as its
process.
"""

import contextlib
import logging
import os
import socket
import struct
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from eventflink.processes import die_with_parent
from eventflink.processes.marked import MARK_VARIABLE, end_marked
from eventflink.taskexecutor.fork_server_wire import (
    ForkServerSettings,
    LineBuffer,
    ProcessForked,
    ProcessReaped,
    StopServer,
    decode_line,
    encode_line,
)
from eventflink.taskexecutor.message_lines import UnreadableLine
from eventflink.taskexecutor.process_events import ForkServerDied, ForkServerReady, ProcessEvent, ProcessOrder
from eventflink.taskexecutor.task_environment import inherited

__all__ = ["ForkServer", "ForkServerSettings"]

logger = logging.getLogger(__name__)

LOG_FILE: Final = "fork-server.log"
SPARK_LOG_FILE: Final = "spark-fork-server.log"
_MODULE: Final = "eventflink.taskexecutor.fork_server_main"
_DEFAULT_ENVIRONMENT: Final = {
    # One slot is one core; and threads that libraries start when they are loaded do not survive a fork.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
_READ_BYTES: Final = 65_536
_SEND_TIMEOUT_S: Final = 5
_STOP_MARGIN_S: Final = 3.0
_JOIN_TIMEOUT_S: Final = 5.0
_LOG_TAIL_BYTES: Final = 4_096
_LOG_TAIL_LINES: Final = 5


class ForkServer:
    """One fork server process with its children; when it has died or was stopped, make another."""

    def __init__(self, settings: ForkServerSettings, on_event: Callable[[ProcessEvent], None]) -> None:
        """Take the settings and what is called with every event, from one reader thread, in order; it must not block for long."""
        self._settings = settings
        self._on_event = on_event
        self._sending = threading.Lock()
        self._known = threading.Lock()
        self._children: set[int] = set()
        self._ready = threading.Event()
        self._stopping = False
        self._gone_by_s = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._reader: threading.Thread | None = None
        self._log_path = settings.log_directory / (SPARK_LOG_FILE if settings.with_spark else LOG_FILE)
        self._log_start = 0
        self._mark = uuid.uuid4().hex

    def start(self) -> None:
        """Start the process and return at once; orders may follow, they wait until it has loaded what it preloads.

        Call it from a thread that ends with this process. A fork server that cannot run is reported as `ForkServerDied`.

        Raises:
            OSError: no process can be started, or its log cannot be written; then it may be tried again.

        """
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_TIMEOUT_S, 0))
        try:
            for directory in (self._settings.log_directory, self._settings.runtime_directory):
                directory.mkdir(parents=True, exist_ok=True)
            with theirs, self._log_path.open("ab") as log:
                self._log_start = log.tell()
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", _MODULE, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[theirs.fileno()],
                    env=_environment(self._settings.environment) | {MARK_VARIABLE: self._mark},
                    start_new_session=True,
                    preexec_fn=die_with_parent(),  # noqa: PLW1509 - prctl and getppid wait for no lock
                )
        except OSError:
            ours.close()
            raise
        self._control = ours
        with contextlib.suppress(OSError):  # It has died already, and its reader tells so.
            self.send(self._settings)
        self._reader = threading.Thread(target=self._read, args=(ours, self._process), name="fork-server-events", daemon=True)
        self._reader.start()

    @property
    def is_started(self) -> bool:
        """Whether it has been started; it may have died since."""
        return self._process is not None

    @property
    def is_ready(self) -> bool:
        """Whether it has loaded what tasks need."""
        return self._ready.is_set()

    def wait_until_ready(self, timeout_s: float) -> bool:
        """Wait until it has loaded what tasks need; tell whether it has."""
        return self._ready.wait(timeout_s)

    def begin_stop(self, *, at_once: bool = False) -> None:
        """Have every task ended (SIGTERM, then SIGKILL after the kill timeout, or at once), and then the fork server.

        Events of tasks that end meanwhile are told, `ForkServerDied` is not.
        """
        self._stopping = True
        process = self._process
        if process is None:
            return
        kill_after_ms = 0 if at_once else self._settings.kill_timeout_ms
        self._gone_by_s = time.monotonic() + kill_after_ms / 1000 + _STOP_MARGIN_S
        if not self.is_ready:
            process.kill()  # It has no children yet, and reads nothing.
            return
        with contextlib.suppress(OSError):  # Then it is killed.
            self.send(StopServer(kill_after_ms))

    def wait_until_gone(self) -> None:
        """Wait until all are gone after `begin_stop`; a fork server that is not gone in time is killed. Not to be called by `on_event`."""
        process, control = self._process, self._control
        if process is None or control is None:
            return
        try:
            process.wait(max(0.0, self._gone_by_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._reader is not None:
            self._reader.join(_JOIN_TIMEOUT_S)
        control.close()

    def process_ids(self) -> list[int]:
        """Return the ids of the fork server and of its children, those that wait for a task included; empty when it has ended."""
        process = self._process
        if process is None or process.poll() is not None:
            return []
        with self._known:
            return [process.pid, *sorted(self._children)]

    def send(self, message: ProcessOrder | ForkServerSettings | StopServer) -> None:
        """Send an order, from any thread.

        Raises:
            OSError: the fork server is not there any more, or takes no orders (then it is killed); `ForkServerDied` is reported.

        """
        if self._control is None:
            raise OSError("the fork server was not started")
        line = encode_line(message)
        with self._sending:
            try:
                self._control.sendall(line)
            except OSError:
                # Part of the line may be there: nothing more can follow it.
                if self._process is not None:
                    self._process.kill()
                raise

    def _read(self, control: socket.socket, process: subprocess.Popen[bytes]) -> None:
        """Tell every event until the fork server is gone."""
        reason = ""
        lines = LineBuffer()
        try:
            while data := control.recv(_READ_BYTES):
                for line in lines.feed(data):
                    self._on_message(decode_line(line))
        except (OSError, UnreadableLine) as error:
            reason = f"{type(error).__name__}: {error}"
        process.kill()
        status = process.wait()
        if status and (left := end_marked(self._mark)):  # It was killed, and ended nothing that its tasks had started.
            logger.error("StraysNotEnded process_ids=%s", left)
        with self._known:
            self._children.clear()
        if not self._stopping:
            reason = reason or f"it ended with status {status}"
            self._on_event(ForkServerDied(f"{reason}; its log ends with: {self._log_tail()}"))

    def _on_message(self, message: Any) -> None:
        match message:
            case ForkServerReady():
                self._ready.set()
                self._on_event(message)
            case ProcessForked(process_id=process_id):
                with self._known:
                    self._children.add(process_id)
            case ProcessReaped(process_id=process_id):
                with self._known:
                    self._children.discard(process_id)
            case _:
                self._on_event(message)

    def _log_tail(self) -> str:
        try:
            with self._log_path.open("rb") as file:
                end = file.seek(0, 2)
                file.seek(max(self._log_start, end - _LOG_TAIL_BYTES))
                lines = file.read().decode("utf-8", "replace").splitlines()
        except OSError as error:
            return f"(it cannot be read: {error})"
        return " | ".join(lines[-_LOG_TAIL_LINES:]) or "(nothing)"


def _environment(names: Sequence[str]) -> dict[str, str]:
    """Return the environment of task processes; what somebody has set stays."""
    return _DEFAULT_ENVIRONMENT | inherited(os.environ, names)
