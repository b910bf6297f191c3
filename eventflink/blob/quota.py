"""How much a storage of blobs may hold in all: what is there, counted now and then, and what is coming in on this server.

Whoever reaches the server may upload, and what is uploaded stays for a while: without a bound that fills the disk of the storage, and of
whatever else lies there. The rule: bytes are taken before they are written. Other masters may write to the same storage, so what is there
is a count of the last minute.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from eventflink.blob import BlobsFull

RECOUNT_S: Final = 60.0
"""How old a count may be."""

FULL_RECOUNT_S: Final = 5.0
"""How old it may be where it is too much: something may have been removed."""


class Quota:
    """The room of one storage. Methods may be called by several threads; counting blocks those that need a new count."""

    def __init__(self, max_bytes: int, count: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        """Allow `max_bytes` in all; `count` returns how many there are now."""
        self._max_bytes = max_bytes
        self._count = count
        self._clock = clock
        self._lock = threading.Lock()
        self._present_bytes = 0
        self._counted_at_s: float | None = None

    def take(self, size_bytes: int) -> None:
        """Count bytes that are about to be written.

        Raises:
            BlobsFull: there is no room for them.
            OSError, BlobStorageFailed: what is there cannot be counted.

        """
        with self._lock:
            if self._is_older_than(RECOUNT_S) or (self._is_over(size_bytes) and self._is_older_than(FULL_RECOUNT_S)):
                self._present_bytes, self._counted_at_s = self._count(), self._clock()
            if self._is_over(size_bytes):
                message = f"the blobs have {self._present_bytes} bytes; {self._max_bytes} are taken in all (blob.storage.max-size)"
                raise BlobsFull(message)
            self._present_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        """Count bytes no more that were taken and are not there."""
        with self._lock:
            self._present_bytes = max(0, self._present_bytes - size_bytes)

    def _is_older_than(self, seconds: float) -> bool:
        return self._counted_at_s is None or self._clock() - self._counted_at_s >= seconds

    def _is_over(self, size_bytes: int) -> bool:
        return self._present_bytes + size_bytes > self._max_bytes
