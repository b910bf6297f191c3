"""The process of one task, from fork to end: ties its life to the fork server's, gives it files of its own, runs it, says how it ended.

`task_run.py` says what running means; the fork server decides when. The rule it keeps: the process ends by `os._exit` right after its
verdict, whatever threads or exit handlers the user's code has left.
"""

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NoReturn

from eventflink.model.attempts import AttemptId, FailureCause
from eventflink.model.failure_types import SPARK_HEAP_FULL, SPARK_LOST
from eventflink.model.secret_masks import MaskingFormatter
from eventflink.model.spark_ends import SparkEnd, is_of_full_heap
from eventflink.model.spark_pools import OF_JOB
from eventflink.model.statuses import TaskFile
from eventflink.processes import set_parent_death_signal
from eventflink.processes.left_behind import adopt_orphans
from eventflink.processes.packages_path import is_begun_with
from eventflink.taskexecutor.fork_server_wire import ForkServerSettings, LineBuffer, decode_line, encode_line
from eventflink.taskexecutor.location_files import read_locations
from eventflink.taskexecutor.lost_inputs import OpenedInputs, failure_of
from eventflink.taskexecutor.process_events import Failed, LaunchTask, Outcome, TaskEvent, TaskProcessEnded
from eventflink.taskexecutor.spark_client import prepare_tasks
from eventflink.taskexecutor.spark_engines import find_engine
from eventflink.taskexecutor.spark_pools import pool_directory, pool_of
from eventflink.taskexecutor.spark_watch import await_end
from eventflink.taskexecutor.task_files import task_file_path
from eventflink.taskexecutor.task_packages import begin_anew
from eventflink.taskexecutor.task_run import run_task

logger = logging.getLogger(__name__)

_READ_BYTES: Final = 65_536
_STDOUT: Final = 1
_STDERR: Final = 2
_REASON_TIMEOUT_S: Final = 10.0
"""How long a task waits for the supervisor to say why Spark ended; a JVM that ends in order takes seconds on a busy host."""


def become_child(parent_process_id: int) -> None:
    """Begin the life of a forked child: it dies with its parent, leads a group, keeps what is orphaned below it, and takes signals."""
    set_parent_death_signal()
    if os.getppid() != parent_process_id:  # The parent died before the call: no signal will come.
        os._exit(128 + signal.SIGKILL)
    os.setpgid(0, 0)
    adopt_orphans()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def serve_one_task(channel: socket.socket, settings: ForkServerSettings) -> NoReturn:
    """Wait for the order of one task, run it, say how it ended on the channel, and end the process."""
    lines = _Lines(channel)
    _serve(decode_line(next(lines)), settings, channel, lines)


def _serve(order: object, settings: ForkServerSettings, channel: socket.socket, lines: "_Lines") -> NoReturn:
    if not isinstance(order, LaunchTask):
        raise TypeError(f"a task process was sent {type(order).__name__}")
    attempt = order.attempt
    outcome = _run(order, attempt, settings, channel, lines)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # The disk is full, or the task closed it.
            continue
    logging.shutdown()
    _tell(channel, TaskProcessEnded(attempt, outcome))
    os._exit(0)


class _Lines(Iterator[bytes]):
    """What the fork server sends; it closes the channel of a process that it does not need, or dies, and this process with it."""

    def __init__(self, channel: socket.socket, received: bytes = b"") -> None:
        self._channel = channel
        self._buffer = LineBuffer()
        self._whole = deque(self._buffer.feed(received))

    def __next__(self) -> bytes:
        while not self._whole:
            data = self._channel.recv(_READ_BYTES)
            if not data:
                os._exit(0)
            self._whole.extend(self._buffer.feed(data))
        return self._whole.popleft()

    def rest(self) -> bytes:
        """Return what has come and was not asked for."""
        return b"".join(line + b"\n" for line in self._whole) + self._buffer.rest


def _run(order: LaunchTask, attempt: AttemptId, settings: ForkServerSettings, channel: socket.socket, lines: _Lines) -> Outcome:
    opened = OpenedInputs()
    began_ms = time.time_ns() // 1_000_000
    try:
        _open_files(settings, attempt)

        def begin_with(packages: Path) -> None:
            if not is_begun_with(packages):
                begin_anew(packages, __spec__.name, channel, encode_line(settings) + encode_line(order) + lines.rest())

        told = read_locations(settings.locations_directory, order)
        return run_task(told, settings, lambda event: _tell(channel, event), opened, map(decode_line, lines), begin_with=begin_with)
    except BaseException as error:  # noqa: BLE001 - user code may raise anything
        cause, lost_inputs = failure_of(error, attempt.vertex_id, opened)
        if cause.failure_type == SPARK_LOST and not find_engine(settings.engines, order.deployment.engine).remote:
            pool = pool_of(order.deployment, settings.spark_pool)
            directory = pool_directory(settings.runtime_directory, pool.name, attempt.job_id)
            cause = _with_reason(cause, attempt, await_end(directory, began_ms, _REASON_TIMEOUT_S), is_own=pool.name == OF_JOB)
        trace = f"\n{cause.stack_trace}" if cause.stack_trace else ""
        logger.error("TaskFailed attempt=%s type=%s message=%s%s", attempt, cause.failure_type, cause.message, trace)  # noqa: TRY400 - the trace says nothing more
        return Failed(cause, lost_inputs)


def _with_reason(cause: FailureCause, attempt: AttemptId, end: SparkEnd | None, *, is_own: bool) -> FailureCause:
    """Return that the host's Spark ended, with what its supervisor says of it; the job did it if it filled the heap of one of its own."""
    if end is None:
        return cause
    if is_own and is_of_full_heap(end.reason):
        what = f"vertex '{attempt.vertex_id}': the job's own Spark ended in the middle of the task: {end.reason}"
        return replace(cause, failure_type=SPARK_HEAP_FULL, message=f"{what}; give the job more memory, or hold fewer rows at once")
    what = (
        f"vertex '{attempt.vertex_id}': the host's Spark ended in the middle of the task: {end.reason}; the next attempt uses another Spark"
    )
    return replace(cause, message=what)


def _open_files(settings: ForkServerSettings, attempt: AttemptId) -> None:
    """Send what the task logs and prints to its own files."""
    paths = {file: task_file_path(settings.log_directory, attempt, file) for file in TaskFile}
    paths[TaskFile.LOG].parent.mkdir(parents=True, exist_ok=True)
    for file, target in ((TaskFile.STDOUT, _STDOUT), (TaskFile.STDERR, _STDERR)):
        descriptor = os.open(paths[file], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        os.dup2(descriptor, target)
        os.close(descriptor)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # as Python made it
    handler = logging.FileHandler(paths[TaskFile.LOG], encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(MaskingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)


def main() -> NoReturn:
    """Be a task's process that has begun anew: the descriptors of its channel and of its orders are the arguments."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    with os.fdopen(int(sys.argv[2]), "rb") as told:
        lines = _Lines(channel, told.read())
    settings = decode_line(next(lines))
    channel.set_inheritable(False)
    prepare_tasks()
    _serve(decode_line(next(lines)), settings, channel, lines)


_telling: Final = threading.Lock()


def _tell(channel: socket.socket, event: TaskEvent | TaskProcessEnded) -> None:
    with _telling:
        channel.sendall(encode_line(event))


if __name__ == "__main__":
    main()
