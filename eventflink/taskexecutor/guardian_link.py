"""The TaskExecutor's side of its guardian: starts it, keeps it informed, and starts another one when it dies.

Sending to it never waits: a guardian that does not read is treated as dead; its successor is sent everything again.
"""

import contextlib
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from eventflink.processes.file_lock import FileLock
from eventflink.taskexecutor.guardian_messages import (
    GuardianMessage,
    InstanceStarted,
    OrderlyEnd,
    ProcessEnded,
    ProcessStarted,
    SessionOpened,
    SessionReleased,
    encode_message,
)

_LOGGER = logging.getLogger(__name__)

_RESTART_INTERVAL_S: Final = 1.0
_GOODBYE_TIMEOUT_S: Final = 2.0


class GuardianLink:
    """Owns the guardian process; used by the main loop only."""

    def __init__(self, bootstrap: str, cluster_id: str, task_manager_id: str, log_path: Path, identity_lock: FileLock) -> None:
        """Prepare; what the guardian has to say goes to the file `log_path`; it holds the lock, too, as long as it lives."""
        module = "eventflink.taskexecutor.guardian"
        self._command = [sys.executable, "-m", module, "--bootstrap", bootstrap, "--cluster-id", cluster_id]
        self._command += ["--task-manager-id", task_manager_id, "--process-id", str(os.getpid())]
        self._log_path = log_path
        self._identity_lock = identity_lock
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = -_RESTART_INTERVAL_S
        self._instance: InstanceStarted | None = None
        self._processes: dict[int, ProcessStarted] = {}
        self._sessions: dict[str, SessionOpened] = {}

    @property
    def process_id(self) -> int | None:
        """The guardian's process, if there is one."""
        return None if self._process is None else self._process.pid

    def send_message(self, message: GuardianMessage) -> None:
        """Tell the guardian, and remember it for the next one."""
        match message:
            case InstanceStarted():
                self._instance = message
            case ProcessStarted(process_id=process_id):
                self._processes[process_id] = message
            case ProcessEnded(process_id=process_id):
                self._processes.pop(process_id, None)
            case SessionOpened(session_id=session_id):
                self._sessions[session_id] = message
            case SessionReleased(session_id=session_id):
                self._sessions.pop(session_id, None)
            case OrderlyEnd():
                pass
        self._write(message)

    def forget_processes(self) -> None:
        """Say that every process so far is gone: their fork server ended."""
        for process_id in list(self._processes):
            self.send_message(ProcessEnded(process_id))

    def check(self) -> None:
        """Start a guardian when there is none; call it now and then."""
        if self._process is not None and self._process.poll() is not None:
            _LOGGER.warning("GuardianDied process_id=%d exit_code=%s", self._process.pid, self._process.returncode)
            self._close_pipe()
            self._process = None
        now_s = time.monotonic()
        if self._process is None and now_s - self._started_s >= _RESTART_INTERVAL_S:
            self._started_s = now_s
            self._start()

    def close(self) -> None:
        """Tell it that this is the orderly end, and see it end, for at most two seconds."""
        if self._process is None:
            return
        self.send_message(OrderlyEnd())
        self._close_pipe()
        try:
            self._process.wait(_GOODBYE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_GOODBYE_TIMEOUT_S)
        self._process = None

    def _start(self) -> None:
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=self._identity_lock.descriptors,
                start_new_session=True,  # A signal to the TaskExecutor's group is not for its guardian.
            )
        assert self._process.stdin is not None  # noqa: S101 - for the type checker: a pipe was asked for
        os.set_blocking(self._process.stdin.fileno(), False)
        known: list[GuardianMessage] = [*([self._instance] if self._instance else []), *self._processes.values(), *self._sessions.values()]
        for message in known:
            self._write(message)
        _LOGGER.info("GuardianStarted process_id=%d", self._process.pid)

    def _write(self, message: GuardianMessage) -> None:
        if self._process is None or self._process.stdin is None or self._process.stdin.closed:
            return
        try:
            os.write(self._process.stdin.fileno(), encode_message(message))
        except BlockingIOError:
            _LOGGER.warning("GuardianStuck process_id=%d", self._process.pid)
            self._process.kill()
        except (BrokenPipeError, ValueError) as error:
            _LOGGER.warning("GuardianNotTold message=%s reason=%s", type(message).__name__, error)

    def _close_pipe(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
