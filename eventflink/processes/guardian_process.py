"""A guardian: a process of its own that survives the one that started it, and acts when that one dies.

Here is what all guardians have in common: how their owner starts, informs and replaces them (`GuardianProcess`), and how they learn of its
death (`read_owner`). A pipe ties the two: whatever ends the owner, the kernel closes its end. What a guardian is told, and what it does at
the end of the pipe, is the business of its kind. The rule: sending to a guardian never waits; one that does not read is treated as dead,
and its successor is told everything again.
"""

import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from eventflink.processes.file_lock import FileLock

_LOGGER = logging.getLogger(__name__)

LINE_LIMIT_BYTES: Final = 4096
"""A write of this size to a pipe is whole or does not happen (PIPE_BUF on Linux)."""

RESTART_INTERVAL_S: Final = 1.0
_GOODBYE_TIMEOUT_S: Final = 2.0
_READ_BYTES: Final = 64 * 1024


class GuardianProcess:
    """The owner's side; for one thread."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        known: Callable[[], Iterable[bytes]],
        log_path: Path | None = None,
        lock: FileLock | None = None,
        descriptors: tuple[int, ...] = (),
    ) -> None:
        """Prepare to run a module; `known` returns the lines that a new guardian is to be told.

        What it has to say goes to the file `log_path`, or to where the owner's goes; it holds the lock, too, as long as it lives, and
        inherits the descriptors.
        """
        self._command = [sys.executable, "-m", module, *arguments]
        self._known = known
        self._log_path = log_path
        self._lock = lock
        self._descriptors = descriptors
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = -RESTART_INTERVAL_S

    @property
    def process_id(self) -> int | None:
        """The guardian's process, if there is one."""
        return None if self._process is None else self._process.pid

    def check(self) -> None:
        """Start a guardian when there is none; call it now and then."""
        if self._process is not None and self._process.poll() is not None:
            _LOGGER.warning("GuardianDied process_id=%d exit_code=%s", self._process.pid, self._process.returncode)
            self._close_pipe()
            self._process = None
        now_s = time.monotonic()
        if self._process is None and now_s - self._started_s >= RESTART_INTERVAL_S:
            self._started_s = now_s
            self._start()

    def write(self, line: bytes) -> None:
        """Tell it a line, if there is a guardian."""
        if self._process is None or self._process.stdin is None or self._process.stdin.closed:
            return
        try:
            os.write(self._process.stdin.fileno(), line)
        except BlockingIOError:
            _LOGGER.warning("GuardianStuck process_id=%d", self._process.pid)
            self._process.kill()
        except (BrokenPipeError, ValueError) as error:
            _LOGGER.warning("GuardianNotTold process_id=%d reason=%s", self._process.pid, error)

    def close(self) -> None:
        """Close the pipe, and see the guardian end, for at most two seconds: tell it before that this end is in order."""
        if self._process is None:
            return
        self._close_pipe()
        try:
            self._process.wait(_GOODBYE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_GOODBYE_TIMEOUT_S)
        self._process = None

    def let_go(self) -> None:
        """Close the pipe, and leave the guardian to what it does when its owner has died."""
        self._close_pipe()
        self._process = None

    def _start(self) -> None:
        with contextlib.ExitStack() as stack:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stack.enter_context(self._log_path.open("ab")) if self._log_path is not None else None,
                pass_fds=(*self._descriptors, *(self._lock.descriptors if self._lock is not None else ())),
                start_new_session=True,  # A signal to the owner's group is not for its guardian.
            )
        assert self._process.stdin is not None  # noqa: S101 - for the type checker: a pipe was asked for
        os.set_blocking(self._process.stdin.fileno(), False)
        for line in self._known():
            self.write(line)
        _LOGGER.info("GuardianStarted process_id=%d", self._process.pid)

    def _close_pipe(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()


def read_owner(interval_s: float | None = None) -> Iterator[bytes]:
    """Be a guardian: yield the lines that the owner writes until it has ended, which is the only thing that ends this process.

    Where an interval is given, an empty line is yielded whenever nothing was written for so long.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    descriptor, rest = sys.stdin.fileno(), b""
    while True:
        if not select.select([descriptor], [], [], interval_s)[0]:
            yield b""
            continue
        if not (read := os.read(descriptor, _READ_BYTES)):
            return
        *lines, rest = (rest + read).split(b"\n")
        yield from lines
