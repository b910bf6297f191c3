"""How much a storage of blobs may hold in all, and for each job: what is there, counted now and then, and what is coming in on this server.

Whoever reaches the server may upload, and what is uploaded stays for a while: without a bound that fills the disk of the storage, and of
whatever else lies there; without one for each job, a single job takes the room of all others. The rule: bytes are taken before they are
written. Other masters may write to the same storage, so what is there is a count of the last minute. For which job an upload is, is
what its sender says; uploads for none share the room of one job.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from eventflink.blob import BlobsFull
from eventflink.blob.store import NO_JOB, Usage

RECOUNT_S: Final = 60.0
"""How old a count may be."""

FULL_RECOUNT_S: Final = 5.0
"""How old it may be where it is too much: something may have been removed."""


class Quota:
    """The room of one storage. Methods may be called by several threads; counting blocks those that need a new count."""

    def __init__(
        self, max_bytes: int, max_bytes_per_job: int, count: Callable[[], Usage], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Allow `max_bytes` in all and `max_bytes_per_job` for each job; `count` returns how many there are now."""
        self._max_bytes = max_bytes
        self._max_bytes_per_job = max_bytes_per_job
        self._count = count
        self._clock = clock
        self._lock = threading.Lock()
        self._present = Usage(0, Counter())
        self._under_way: Counter[str] = Counter()
        """What is taken for each job and is not there yet: no count finds it."""
        self._counted_at_s: float | None = None

    def take(self, size_bytes: int, job_id: str = NO_JOB) -> None:
        """Count bytes that are about to be written.

        Raises:
            BlobsFull: there is no room for them.
            OSError, BlobStorageFailed: what is there cannot be counted.

        """
        with self._lock:
            if self._is_older_than(RECOUNT_S) or (self._excess(size_bytes, job_id) and self._is_older_than(FULL_RECOUNT_S)):
                self._present, self._counted_at_s = self._count(), self._clock()
            if message := self._excess(size_bytes, job_id):
                raise BlobsFull(message)
            self._present = self._present._replace(total_bytes=self._present.total_bytes + size_bytes)
            self._under_way[job_id] += size_bytes

    def store(self, size_bytes: int, job_id: str = NO_JOB) -> None:
        """Count bytes that were taken as there."""
        with self._lock:
            self._end(size_bytes, job_id)
            if size_bytes:
                self._present.bytes_by_job[job_id] += size_bytes

    def give_back(self, size_bytes: int, job_id: str = NO_JOB) -> None:
        """Count bytes no more that were taken and are not there."""
        with self._lock:
            self._end(size_bytes, job_id)
            self._present = self._present._replace(total_bytes=max(0, self._present.total_bytes - size_bytes))

    def _end(self, size_bytes: int, job_id: str) -> None:
        self._under_way[job_id] -= size_bytes
        if not self._under_way[job_id]:
            del self._under_way[job_id]  # There are more ids than jobs: anybody may name one.

    def _is_older_than(self, seconds: float) -> bool:
        return self._counted_at_s is None or self._clock() - self._counted_at_s >= seconds

    def _excess(self, size_bytes: int, job_id: str) -> str:
        """Say which bound so many bytes more exceed; '': none."""
        total = self._present.total_bytes
        if total + size_bytes > self._max_bytes:
            return f"the blobs have {total} bytes; {self._max_bytes} are taken in all (blob.storage.max-size)"
        of_job = self._present.bytes_by_job[job_id] + self._under_way[job_id]
        if of_job + size_bytes > self._max_bytes_per_job:
            whose = f"the blobs of job '{job_id}'" if job_id else "the blobs without a job"
            return f"{whose} have {of_job} bytes; {self._max_bytes_per_job} are taken for each job (blob.job.max-size)"
        return ""
