"""The resource driver `process`: workers are TaskExecutors of this host, each a daemon that outlives the master that started it.

What there is stands in the pid files of the host (`processes/worker_processes.py`), so that the next leader of this host finds it. A
thread looks after what was started and what is to end; a lower epoch than the highest seen here starts nothing.
"""

import logging
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from eventflink.entrypoint.resource_driver import DriverUnusable, ResourceEventHandler
from eventflink.leadership.worker_reconciliation import ListedWorker
from eventflink.master.effects import RequestWorker
from eventflink.model.configuration import Configuration
from eventflink.processes.identity import is_running, send_signal
from eventflink.processes.launch import REFUSALS, LaunchRefused, raise_fence
from eventflink.processes.log_files import last_lines
from eventflink.processes.pid_files import PidFile
from eventflink.processes.worker_processes import FOLDER, WorkerProcesses

if TYPE_CHECKING:
    import subprocess

WATCH_INTERVAL_S: Final = 0.2
_CLOSE_TIMEOUT_S: Final = 5.0

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Stopping:
    """A worker that is to end."""

    deadline: float
    """By the monotonic clock; then it is killed."""
    is_asked: bool = False


class ProcessDriver:
    """Local TaskExecutors of one cluster."""

    def __init__(self, configuration: Configuration, program: Sequence[str]) -> None:
        """Take the command line of an `eventflink` with the master's configuration, up to its command."""
        self._configuration = configuration
        self._program = tuple(program)
        self._processes = WorkerProcesses(configuration.pid_path, configuration.log_path)
        self._directory = configuration.pid_path / FOLDER
        self._lock = threading.Lock()
        self._epoch = 0
        self._handler: ResourceEventHandler | None = None
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        """What this process started and has not collected."""
        self._ended: dict[str, str] = {}
        """What ended before it had a pid file, and how; until it is stopped."""
        self._stopping: dict[str, _Stopping] = {}
        self._told: set[str] = set()
        self._is_deregistered = False
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None

    def lead(self, epoch: int, handler: ResourceEventHandler) -> None:
        """Serve a leadership; on this host a lower epoch starts nothing any more."""
        raise_fence(self._processes.files, self._directory, epoch)
        with self._lock:
            self._epoch, self._handler = epoch, handler
            self._told.clear()
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="process-driver", daemon=True)
                self._watcher.start()

    def list_workers(self) -> list[ListedWorker]:
        """Return the workers of this host: by their pid files, and those that are just being launched."""
        listed: dict[str, ListedWorker] = {}
        for file in self._processes.files.all():
            runs = is_running(file.identity)
            listed[file.daemon_id] = ListedWorker(file.daemon_id, runs, "" if runs else self._describe_end(file))
        with self._lock:
            for worker_id in self._children.keys() - listed.keys():
                listed[worker_id] = ListedWorker(worker_id, is_running=True)
            for worker_id in self._ended.keys() - listed.keys():
                listed[worker_id] = ListedWorker(worker_id, is_running=False, diagnostics=self._ended[worker_id])
        return list(listed.values())

    def request_worker(self, worker: RequestWorker) -> None:
        """Launch a worker, unless one of its id runs or is being launched.

        Raises:
            DriverUnusable: the application was deregistered, or nobody leads.
            OSError: the launcher cannot be started.

        """
        file = self._processes.files.read(worker.worker_id)
        with self._lock:
            if self._is_deregistered or not self._epoch or self._closed.is_set():
                raise DriverUnusable("the cluster is shut down" if self._is_deregistered else "nobody leads")
            if worker.worker_id in self._children or (file is not None and is_running(file.identity)):
                return
            overrides = {"taskmanager.id": worker.worker_id, "taskmanager.numberOfTaskSlots": str(worker.slot_count)}
            options = [part for key, value in overrides.items() for part in ("-D", f"{key}={value}")]
            self._children[worker.worker_id] = self._processes.start(
                worker.worker_id,
                [*self._program, *options, "taskexecutor"],
                epoch=self._epoch,
                host=self._configuration.host,
                bootstrap=self._configuration.bootstrap_servers,
            )
        _logger.info("WorkerStarted worker=%s log=%s", worker.worker_id, self._processes.log_of(worker.worker_id))

    def stop_worker(self, worker_id: str) -> None:
        """Have the watching thread ask a worker to end, kill it when its time is over, and remove what is left of it."""
        file = self._processes.files.read(worker_id)
        with self._lock:
            self._ended.pop(worker_id, None)
            if (file is not None or worker_id in self._children) and worker_id not in self._stopping:
                self._stopping[worker_id] = _Stopping(time.monotonic() + self._configuration.stop_timeout_ms / 1000)

    def deregister_application(self, status: str, diagnostics: str) -> None:
        """Stop all workers and wait for them; nothing is started any more."""
        with self._lock:
            self._is_deregistered = True
            epoch = self._epoch
        raise_fence(self._processes.files, self._directory, epoch + 1)  # What is just being launched is refused, too.
        ran = self._processes.stop_all(self._configuration.stop_timeout_ms / 1000)
        _logger.info("ApplicationDeregistered status=%s workers=%d diagnostics=%s", status, len(ran), diagnostics)

    def close(self) -> None:
        """End the watching thread; workers live on."""
        self._closed.set()
        if self._watcher is not None:
            self._watcher.join(_CLOSE_TIMEOUT_S)

    # -- the watching thread ---------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._closed.wait(WATCH_INTERVAL_S):
            try:
                self._look()
            except OSError as error:
                _logger.warning("WorkersNotWatched error=%s", error)

    def _look(self) -> None:
        self._collect_children()
        files = {file.daemon_id: file for file in self._processes.files.all()}
        with self._lock:
            stopping = dict(self._stopping)
        self._end_stopping(stopping, files)
        for worker_id, file in files.items():
            if worker_id not in stopping and not is_running(file.identity):
                self._tell(worker_id, self._describe_end(file))

    def _collect_children(self) -> None:
        with self._lock:
            ended = {worker_id: code for worker_id, child in self._children.items() if (code := child.poll()) is not None}
            for worker_id, code in ended.items():
                process_id = self._children.pop(worker_id).pid
                file = self._processes.files.read(worker_id)
                if code == LaunchRefused.RUNS_ALREADY or (file is not None and file.process_id == process_id):
                    continue  # The pid file tells the rest.
                if worker_id not in self._stopping:
                    self._ended[worker_id] = self._describe_code(worker_id, code)
            news = {worker_id: self._ended[worker_id] for worker_id in ended if worker_id in self._ended}
        for worker_id, how in news.items():
            self._tell(worker_id, how)

    def _end_stopping(self, stopping: dict[str, _Stopping], files: "dict[str, PidFile]") -> None:
        """Ask what is to end, kill what takes too long, and forget what has ended."""
        for worker_id, stop in stopping.items():
            file = files.get(worker_id)
            if file is not None and is_running(file.identity):
                self._ask_to_end(file, stop)
                continue
            with self._lock:
                if file is None and worker_id in self._children:
                    continue  # It is just being launched, and asked to end as soon as its pid file is there.
                del self._stopping[worker_id]
                self._told.discard(worker_id)
            if file is not None:
                self._processes.files.remove(file)
                _logger.info("WorkerStopped worker=%s process_id=%d", worker_id, file.process_id)

    @staticmethod
    def _ask_to_end(file: PidFile, stop: _Stopping) -> None:
        if time.monotonic() > stop.deadline:
            send_signal(file.identity, signal.SIGKILL)
            _logger.warning("WorkerKilled worker=%s process_id=%d", file.daemon_id, file.process_id)
        elif not stop.is_asked:
            stop.is_asked = send_signal(file.identity, signal.SIGTERM)
            _logger.info("WorkerStopping worker=%s process_id=%d", file.daemon_id, file.process_id)

    def _tell(self, worker_id: str, how: str) -> None:
        with self._lock:
            handler = self._handler
            is_news = worker_id not in self._told and worker_id not in self._stopping
            self._told.add(worker_id)
        if is_news and handler is not None:
            _logger.warning("WorkerTerminated worker=%s", worker_id)
            handler.on_worker_terminated(worker_id, how)

    def _describe_code(self, worker_id: str, code: int) -> str:
        if code in list(LaunchRefused):
            return REFUSALS[LaunchRefused(code)]
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"it could not be launched ({how}); {self._end_of_log(worker_id)}"

    def _describe_end(self, file: PidFile) -> str:
        return f"its process {file.process_id} has ended; {self._end_of_log(file.daemon_id)}"

    def _end_of_log(self, worker_id: str) -> str:
        path = self._processes.log_of(worker_id)
        line = last_lines(path).rpartition("\n")[2]
        return f"its log, {path}, ends: {line[:400]}"
