"""The children of the fork server: what is known of each, and the system calls that make, signal and reap them.

Nothing is decided here; `fork_server_main.py` does. The rule it keeps: a process is reaped only after its group was killed, while its
id, which is the group's as well, cannot have been given to anybody else.
"""

import contextlib
import logging
import os
import signal
import socket
import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from eventflink.model.attempts import AttemptId, FailureCause
from eventflink.processes.left_behind import kill_left_behind, runs_module
from eventflink.taskexecutor.fork_server_wire import LineBuffer
from eventflink.taskexecutor.process_events import Failed, Killed, Outcome, ReleaseSpark
from eventflink.taskexecutor.task_process import become_child

logger = logging.getLogger(__name__)

_READ_BYTES: Final = 65_536
_SEND_TIMEOUT_S: Final = 2
_BROKEN_CHILD: Final = 70
_OF_THE_HOST: Final = ("eventflink.taskexecutor.spark_supervisor", "eventflink.local.class_data")
"""What the first task that asks for Spark starts, and is nobody's: the supervisor of the host's Spark, and what makes class data for it."""

_KILL_LEFT_TIMEOUT_S: Final = 2.0


@dataclass(slots=True, eq=False)
class Child:
    """A task's process, one that waits to be one (no attempt), or one that releases a Spark session."""

    process_id: int
    channel: socket.socket
    lines: LineBuffer = field(default_factory=LineBuffer)
    attempt: AttemptId | None = None
    verdict: Outcome | None = None
    release: ReleaseSpark | None = None
    kill_at_s: float | None = None

    def read(self) -> tuple[list[bytes], bool]:
        """Return the lines that have come, and whether more can come.

        Raises:
            UnreadableLine: a line is too long.

        """
        lines: list[bytes] = []
        try:
            while data := self.channel.recv(_READ_BYTES, socket.MSG_DONTWAIT):
                lines += self.lines.feed(data)
        except BlockingIOError:
            return lines, True
        except OSError:
            return lines, False
        return lines, False

    def send_signal(self, number: int) -> None:
        """Send a signal to the process and to what it started in its group."""
        for send in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                send(self.process_id, number)


def fork_child(body: Callable[[socket.socket], None], inherited: Callable[[], None]) -> Child:
    """Fork a process that runs `body` with its end of a channel and then ends.

    Args:
        body: what the child does; its return is exit status 0, an exception status 70.
        inherited: closes, in the child, what belongs to its parent.

    Raises:
        OSError: the system has no process or memory left.

    """
    ours, theirs = socket.socketpair()
    parent_process_id = os.getpid()
    try:
        process_id = os.fork()
    except OSError:
        ours.close()
        theirs.close()
        raise
    if process_id == 0:
        status = _BROKEN_CHILD
        try:
            become_child(parent_process_id)
            inherited()
            ours.close()
            body(theirs)
            status = 0
        except BaseException:
            logger.exception("ChildBroken process_id=%d", os.getpid())
        finally:
            os._exit(status)
    theirs.close()
    with contextlib.suppress(OSError):  # The child does the same; the second of the two finds it done, or the child gone.
        os.setpgid(process_id, process_id)
    # A child that was stopped must not stop its parent.
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_TIMEOUT_S, 0))
    return Child(process_id, ours)


def kill_orphans(known: Collection[int]) -> bool:
    """Kill what ended tasks have left behind, in whatever session or group; tell whether nothing of it is left.

    Tasks that run keep what is orphaned below them, so all that has come to the fork server is of tasks that have ended.
    """
    return kill_left_behind(known, lambda process_id: runs_module(process_id, _OF_THE_HOST), _KILL_LEFT_TIMEOUT_S)


def find_ended() -> int | None:
    """Return the id of a child that has ended and is not reaped, or None."""
    try:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if ended is None else ended.si_pid


def reap(process_id: int) -> int:
    """Kill what the ended child left in its group, reap the child, and return its status: negative for a signal."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process_id, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1])


def decide_outcome(verdict: Outcome | None, status: int) -> Outcome:
    """Return how a task ended: as it said itself, or else as its process did."""
    if verdict is not None:
        return verdict
    if status < 0:
        return Killed(-status)
    message = (
        f"the task's process ended with exit status {status} and did not say how its task ended; what it wrote last is in its file stderr, "
        "which 'eventflink logs' shows with --file stderr"
    )
    return Failed(FailureCause("TaskProcessExited", message))
