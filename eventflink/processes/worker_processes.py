"""Workers as processes of this host: each a daemon of its own, found again by its pid file, whichever process started it.

A worker is started through `launch.py`, which writes the pid file as the process that the worker then becomes: so none can run without one,
wherever the process that starts it is killed. Nothing is remembered but in files; two masters of one host see the same workers.
"""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from eventflink.processes.identity import is_running, send_signal
from eventflink.processes.launch import Launch
from eventflink.processes.pid_files import PidFile, PidFiles, make_directory

FOLDER: Final = "workers"
"""Of the pid files, below the directory of the other daemons' pid files."""

KILL_TIMEOUT_S: Final = 10.0
_KEPT_LOGS: Final = 64
_POLL_S: Final = 0.05


class WorkerProcesses:
    """The workers of one cluster on this host."""

    def __init__(self, pid_path: Path, log_path: Path) -> None:
        self.files = PidFiles(pid_path / FOLDER)
        self._directory = pid_path / FOLDER
        self._log_path = log_path

    def start(self, worker_id: str, command: Sequence[str], *, epoch: int, host: str, bootstrap: str) -> subprocess.Popen[bytes]:
        """Start the launcher of a worker, which becomes the worker.

        Raises:
            OSError: it cannot be started, or its log not be written.

        """
        make_directory(self._log_path, "env.log.dir")
        self._remove_old_logs()
        log_path = self.log_of(worker_id)
        launch = Launch(
            directory=self._directory,
            worker_id=worker_id,
            epoch=epoch,
            host=host,
            log_path=str(log_path),
            bootstrap=bootstrap,
            command=tuple(command),
        )
        with log_path.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "eventflink.processes.launch", launch.model_dump_json()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log_of(self, worker_id: str) -> Path:
        """Return where the output of a worker goes."""
        return self._log_path / f"{worker_id}.log"

    def _remove_old_logs(self) -> None:
        """Keep the newest logs of workers that are gone: each worker has one of its own."""
        living = {file.daemon_id for file in self.files.all()}
        gone = [path for path in self._log_path.glob("worker-*.log") if path.stem not in living]
        for path in sorted(gone, key=lambda each: each.stat().st_mtime)[:-_KEPT_LOGS]:
            path.unlink(missing_ok=True)

    def stop_all(self, timeout_s: float) -> list[PidFile]:
        """End every worker, in order, and with force what has not ended by then; return those that ran."""
        files = self.files.all()
        ran = [file for file in files if _ask(file, signal.SIGTERM)]
        _wait(ran, timeout_s)
        late = [file for file in ran if is_running(file.identity)]
        for file in late:
            _ask(file, signal.SIGKILL)
        _wait(late, KILL_TIMEOUT_S)
        for file in files:
            if not is_running(file.identity):
                self.files.remove(file)
        return ran


def _ask(file: PidFile, signum: signal.Signals) -> bool:
    with contextlib.suppress(PermissionError):  # Somebody else's: it is theirs to stop.
        return send_signal(file.identity, signum)
    return False


def _wait(files: Iterable[PidFile], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    waiting = list(files)
    while waiting and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        waiting = [file for file in waiting if is_running(file.identity)]
