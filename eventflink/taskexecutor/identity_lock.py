"""Sees to it that on one host only one process at a time is a certain TaskExecutor.

The lock is shared with the guardian: a TaskExecutor that is started again after it was killed waits until the guardian has ended what
the dead one left (P15).
"""

import fcntl
import os
from pathlib import Path
from typing import Final

from eventflink.taskexecutor.spark_server import open_lock, take_lock

_TIMEOUT_S: Final = 15.0


class IdentityLock:
    """An exclusive lock on a file; it goes with the processes that hold it."""

    def __init__(self, path: Path) -> None:
        """Name the file; nothing is taken yet."""
        self._path = path
        self.descriptors: tuple[int, ...] = ()

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            LockBusy: another process held it for fifteen seconds.

        """
        descriptor = open_lock(self._path)
        self.descriptors = (descriptor,)
        take_lock(descriptor, fcntl.LOCK_EX, self._path, _TIMEOUT_S)

    def release(self) -> None:
        """Give it back."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = ()
