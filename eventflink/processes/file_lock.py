"""Locks on files among processes of one host; the kernel gives one back when the processes that hold it are gone.

The library `filelock` does not do that: it releases by `LOCK_UN`, which takes the lock from the processes that have inherited it, and its
shared lock is a database.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

_POLL_S: Final = 0.02


class LockBusy(Exception):
    """Another process held a lock for too long; the message names its file."""


def open_lock(path: Path) -> int:
    """Return a descriptor of the lock file, made if it is missing; no process that is started inherits it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(descriptor: int, operation: int = fcntl.LOCK_EX) -> bool:
    """Take the lock (LOCK_SH or LOCK_EX) if it is to be had at once."""
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class FileLock:
    """An exclusive or a shared lock on a file; it goes with the processes that have its descriptor."""

    def __init__(self, path: Path, timeout_s: float, *, shared: bool = False) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        self.descriptors: tuple[int, ...] = ()
        """Of the lock while it is held: a process that inherits it holds the lock as well."""

    def acquire(self, on_wait: Callable[[], None] = lambda: None) -> None:
        """Take the lock; taking it twice is once. `on_wait` is called once, if another process has it.

        Raises:
            LockBusy: another process held it for as long as the timeout.
            OSError: the file cannot be made.

        """
        if self.descriptors:
            return
        descriptor = open_lock(self._path)
        deadline = time.monotonic() + self._timeout_s
        waits = False
        while not try_lock(descriptor, self._operation):
            if time.monotonic() >= deadline:
                os.close(descriptor)
                raise LockBusy(f"{self._path} stayed locked by another process for {self._timeout_s:g} s")
            if not waits:
                waits = True
                on_wait()
            time.sleep(_POLL_S)
        self.descriptors = (descriptor,)

    def release(self) -> None:
        """Give it back."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = ()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


@contextmanager
def locked(path: Path, timeout_s: float, busy: Exception, on_wait: Callable[[], None] = lambda: None) -> Iterator[int]:
    """Hold the lock while the block runs, and give its descriptor; `busy` is raised in the place of `LockBusy`."""
    lock = FileLock(path, timeout_s)
    try:
        lock.acquire(on_wait)
    except LockBusy:
        raise busy from None
    try:
        yield lock.descriptors[0]
    finally:
        lock.release()
