"""Exclusive use among processes of one host, by a lock on a file; the kernel gives it back when the process is gone."""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_POLL_S: Final = 0.1


@contextmanager
def locked(path: Path, timeout_s: float, busy: Exception, on_wait: Callable[[], None] | None = None) -> Iterator[int]:
    """Hold the lock while the block runs, and give its descriptor: a process that inherits it holds the lock as well.

    `on_wait` is called once, if another process has the lock; when that has it for `timeout_s`, `busy` is raised.

    Raises:
        OSError: the file cannot be made.

    """
    deadline = time.monotonic() + timeout_s
    with path.open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise busy from None
            if on_wait is not None:
                on_wait()
                on_wait = None
            time.sleep(_POLL_S)
        yield lock.fileno()
