"""A fork server: one thread that has loaded what tasks need, forks a process for each, and sees every one of them end.

Started by `fork_server.ForkServer` as `python -m eventflink.taskexecutor.fork_server_main CONTROL_FD`; the socket brings its settings,
then orders, and takes events. What a task's process does is in `task_process.py`. The rules it keeps: it never runs user code, opens no
gRPC channel and starts no thread, so that a fork is safe; an ended task is reported only after its process is reaped and what it left
behind is killed.
"""

import contextlib
import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from eventflink.model.attempts import AttemptId, FailureCause
from eventflink.processes import set_parent_death_signal
from eventflink.processes.left_behind import adopt_orphans
from eventflink.taskexecutor.fork_server_children import Child, decide_outcome, find_ended, fork_child, kill_orphans, reap
from eventflink.taskexecutor.fork_server_jobs import prepare, release_repeatedly
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
from eventflink.taskexecutor.process_events import (
    EndTask,
    Failed,
    FinishQuery,
    ForkServerReady,
    Killed,
    LaunchTask,
    ReleaseSpark,
    ResumeQuery,
    SparkReleased,
    TakeCheckpoint,
    TaskEvent,
    TaskLaunched,
    TaskProcessEnded,
)
from eventflink.taskexecutor.task_process import serve_one_task

logger = logging.getLogger(__name__)

_READ_BYTES: Final = 65_536
_REPLENISH_DELAY_S: Final = 0.05
_FORK_RETRY_DELAY_S: Final = 1.0
_ORPHANS_DELAY_S: Final = 1.0
_MAX_RELEASES: Final = 4
_RELEASE_TIMEOUT_S: Final = 20.0


class ForkServerLoop:
    """Everything the fork server knows; `run` is its life."""

    def __init__(self, control: socket.socket, settings: ForkServerSettings, lines: LineBuffer) -> None:
        """Take the socket to the TaskExecutor, and the buffer that has read the settings from it."""
        self._control = control
        self._settings = settings
        self._lines = lines
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, Child] = {}
        self._by_attempt: dict[AttemptId, Child] = {}
        self._warm: deque[Child] = deque()
        self._replenish_at_s: float | None = 0.0
        self._releases: deque[ReleaseSpark] = deque()
        self._releasing = 0
        self._orphans_left = False
        """Whether ended tasks have left behind what could not be killed yet."""
        self._stopping = False
        self._wakeup, self._wakeup_end = socket.socketpair()

    def run(self, orders: list[bytes]) -> None:
        """Serve until told to stop and every child is gone; when the TaskExecutor is gone, everything ends at once.

        Args:
            orders: lines that have been read already.

        """
        self._wakeup.settimeout(0)
        self._wakeup_end.settimeout(0)
        signal.set_wakeup_fd(self._wakeup_end.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(self._wakeup, selectors.EVENT_READ, self._on_child_signal)
        self._selector.register(self._control, selectors.EVENT_READ, self._on_control)
        self._send(ForkServerReady())
        self._obey_what_waited([decode_line(line) for line in [*orders, *self._read_what_waits()]])
        while not (self._stopping and not self._children):
            for key, _ in self._selector.select(self._timeout_s()):
                key.data()
            self._tick(time.monotonic())

    # Orders

    def _on_control(self) -> None:
        data = self._control.recv(_READ_BYTES)
        if not data:
            raise ConnectionError("the TaskExecutor is gone")
        for line in self._lines.feed(data):
            self._obey(decode_line(line))

    def _read_what_waits(self) -> list[bytes]:
        lines: list[bytes] = []
        with contextlib.suppress(BlockingIOError):
            while data := self._control.recv(_READ_BYTES, socket.MSG_DONTWAIT):
                lines += self._lines.feed(data)
        return lines

    def _obey_what_waited(self, orders: Sequence[Any]) -> None:
        """Obey what came while this process loaded. What was told to end meanwhile does not begin: its TaskExecutor may be lost (P14)."""
        ended = {order.attempt for order in orders if isinstance(order, EndTask)}
        for order in orders:
            if isinstance(order, LaunchTask) and order.attempt in ended:
                self._send(TaskProcessEnded(order.attempt, Killed(signal.SIGTERM)))
            else:
                self._obey(order)

    def kill_all(self) -> None:
        """Kill every child with all that it started; without a fork server no task may live on."""
        for child in self._children.values():
            child.send_signal(signal.SIGKILL)
        kill_orphans(())

    def _obey(self, order: Any) -> None:
        match order:
            case LaunchTask():
                self._launch(order)
            case EndTask(attempt=attempt, kill_after_ms=kill_after_ms):
                child = self._by_attempt.get(attempt)
                if child is not None:
                    self._end(child, kill_after_ms / 1000)
            case TakeCheckpoint(attempt=attempt) | ResumeQuery(attempt=attempt) | FinishQuery(attempt=attempt):
                child = self._by_attempt.get(attempt)
                if child is not None:  # How one that takes no orders ends is told, and why its checkpoint failed.
                    _hand_over(child, encode_line(order))
            case ReleaseSpark():
                self._releases.append(order)
            case StopServer(kill_after_ms=kill_after_ms):
                self._stop(kill_after_ms / 1000)
            case _:
                raise TypeError(f"the fork server was sent {type(order).__name__}")

    def _launch(self, order: LaunchTask) -> None:
        attempt = order.attempt
        if attempt in self._by_attempt or self._stopping:
            logger.warning("LaunchIgnored attempt=%s stopping=%s", attempt, self._stopping)
            return
        line = encode_line(order)
        child: Child | None = None
        try:
            while child is None and self._warm:
                child = _hand_over(self._warm.popleft(), line)
            child = child or _hand_over(self._fork(), line)
        except OSError as error:
            logger.warning("ForkFailed error=%s", error)
        if child is None:
            cause = FailureCause("TaskProcessNotStarted", "no process could be started for the task: see the log of the fork server")
            self._send(TaskProcessEnded(attempt, Failed(cause)))
            return
        child.attempt = attempt
        self._by_attempt[attempt] = child
        self._send(TaskLaunched(attempt, child.process_id))
        if self._replenish_at_s is None:  # Not at once: the task that has just begun needs the processor.
            self._replenish_at_s = time.monotonic() + _REPLENISH_DELAY_S

    def _end(self, child: Child, kill_after_s: float) -> None:
        child.send_signal(signal.SIGTERM)
        kill_at_s = time.monotonic() + kill_after_s
        child.kill_at_s = kill_at_s if child.kill_at_s is None else min(child.kill_at_s, kill_at_s)

    def _stop(self, kill_after_s: float) -> None:
        self._stopping = True
        self._releases.clear()
        for child in self._children.values():
            self._end(child, kill_after_s if child.attempt is not None else 0.0)

    # What time brings

    def _timeout_s(self) -> float | None:
        """Return how long nothing has to be done, in seconds; None: until something happens."""
        deadlines = [c.kill_at_s for c in self._children.values() if c.kill_at_s is not None]
        if self._replenish_at_s is not None and not self._stopping:
            deadlines.append(self._replenish_at_s)
        if self._orphans_left:
            deadlines.append(time.monotonic() + _ORPHANS_DELAY_S)
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _tick(self, now_s: float) -> None:
        for child in self._children.values():
            if child.kill_at_s is not None and child.kill_at_s <= now_s:
                child.send_signal(signal.SIGKILL)
                child.kill_at_s = None
        while self._releases and self._releasing < _MAX_RELEASES:
            self._release(self._releases.popleft())
        if self._replenish_at_s is not None and self._replenish_at_s <= now_s and not self._stopping:
            self._replenish(now_s)
        if self._orphans_left:
            self._orphans_left = not kill_orphans(self._children)

    def _replenish(self, now_s: float) -> None:
        """Fork one process that waits for a task; the next one in the next turn, after what has come meanwhile."""
        if len(self._warm) >= self._settings.warm_processes:
            self._replenish_at_s = None
            return
        try:
            self._warm.append(self._fork())
        except OSError as error:
            logger.warning("ForkFailed error=%s", error)
            self._replenish_at_s = now_s + _FORK_RETRY_DELAY_S

    # Children

    def _fork(self) -> Child:
        return self._adopt(fork_child(lambda channel: serve_one_task(channel, self._settings), self._close_inherited))

    def _adopt(self, child: Child) -> Child:
        self._children[child.process_id] = child
        self._selector.register(child.channel, selectors.EVENT_READ, partial(self._on_channel, child))
        self._send(ProcessForked(child.process_id))
        return child

    def _close_inherited(self) -> None:
        """In a child: close what belongs to the fork server and to its other children."""
        for key in list(self._selector.get_map().values()):
            os.close(key.fd)
        self._selector.close()
        self._wakeup_end.close()

    def _on_channel(self, child: Child) -> None:
        """Take what a task says of itself; what is not that is the doing of its code, which shares the process."""
        if child.channel.fileno() < 0:
            return  # Its end was noticed in the same turn, and with it the last that it said.
        try:
            lines, is_open = child.read()
            for line in lines:
                self._hear(child, line)
        except UnreadableLine as error:
            child.verdict = Failed(
                FailureCause("TaskProcessBroken", f"the task's process sent something that is not an event: {error}"[:500])
            )
            child.send_signal(signal.SIGKILL)
            is_open = False
        if not is_open:  # SIGCHLD tells the rest.
            self._unregister(child)

    def _hear(self, child: Child, line: bytes) -> None:
        event = decode_line(line)
        if not isinstance(event, TaskEvent | TaskProcessEnded) or event.attempt != child.attempt:
            raise UnreadableLine(f"{type(event).__name__} of another")
        if isinstance(event, TaskProcessEnded):  # Told when the process is gone.
            child.verdict = event.outcome
            return
        self._control.sendall(line + b"\n")

    def _unregister(self, child: Child) -> None:
        with contextlib.suppress(KeyError, ValueError):  # It was done before; the channel may be closed.
            self._selector.unregister(child.channel)

    def _on_child_signal(self) -> None:
        self._wakeup.recv(_READ_BYTES)
        while (process_id := find_ended()) is not None:
            child = self._children.get(process_id)
            if child is not None:
                self._on_channel(child)
            status = reap(process_id)
            if child is not None:
                self._orphans_left = not kill_orphans(self._children)
                del self._children[process_id]
                self._unregister(child)
                child.channel.close()
                self._report_ended(child, status)
                self._send(ProcessReaped(process_id))

    def _report_ended(self, child: Child, status: int) -> None:
        """Tell what the end of the process means."""
        if child.release is not None:
            self._releasing -= 1
            if status != 0:
                logger.error("SparkNotReleased attempt=%s session=%s", child.release.attempt, child.release.spark_session_id)
            self._send(SparkReleased(child.release.attempt))
            return
        if child.attempt is None:
            if child in self._warm:
                self._warm.remove(child)
            if not self._stopping:
                logger.warning("WarmProcessEnded process_id=%d status=%d", child.process_id, status)
                self._replenish_at_s = time.monotonic() + _FORK_RETRY_DELAY_S
            return
        self._by_attempt.pop(child.attempt, None)
        outcome = decide_outcome(child.verdict, status)
        self._send(TaskProcessEnded(child.attempt, outcome))
        if self._replenish_at_s is not None:
            self._replenish_at_s = min(self._replenish_at_s, time.monotonic())

    # Spark sessions that outlived their tasks

    def _release(self, order: ReleaseSpark) -> None:
        """Release the session in a process of its own."""
        try:
            child = self._adopt(fork_child(partial(release_repeatedly, order, self._settings), self._close_inherited))
        except OSError as error:
            logger.error("SparkNotReleased attempt=%s error=%s", order.attempt, error)  # noqa: TRY400 - the trace says nothing more
            self._send(SparkReleased(order.attempt))
            return
        child.release = order
        child.kill_at_s = time.monotonic() + _RELEASE_TIMEOUT_S
        self._releasing += 1

    def _send(self, event: Any) -> None:
        self._control.sendall(encode_line(event))


def _hand_over(child: Child, line: bytes) -> Child | None:
    """Send a process an order; None if it died while it waited, or was stopped: then it is killed."""
    try:
        child.channel.sendall(line)
    except OSError as error:
        logger.warning("TaskProcessUnusable process_id=%d error=%s", child.process_id, error)
        child.send_signal(signal.SIGKILL)
        return None
    return child


def main() -> int:
    """Run a fork server on the socket whose descriptor is the argument."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the TaskExecutor, which tells this process what to do.
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    lines = LineBuffer()
    received: list[bytes] = []
    while not received:
        data = control.recv(_READ_BYTES)
        if not data:
            return 1
        received = lines.feed(data)
    settings = decode_line(received[0])
    adopt_orphans()
    prepare(with_spark=settings.with_spark, scheme=settings.working_place.scheme)
    loop = ForkServerLoop(control, settings, lines)
    # When the TaskExecutor dies the socket ends, and everything is killed here; if the kernel did it, what tasks orphaned would live on.
    set_parent_death_signal(0)
    try:
        loop.run(received[1:])
    except (OSError, UnreadableLine) as error:
        logger.error("ForkServerEnds reason=%s", error)  # noqa: TRY400 - the trace says nothing more
        return 1
    finally:
        loop.kill_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
