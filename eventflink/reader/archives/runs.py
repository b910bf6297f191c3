"""The runs that archives tell of: jobs that have left the memory, a row of each.

A row is kept, since an archive never changes: so the archives of a cluster are read once by a process, and not at each question. An archive
that is missing is looked for again after `MISSING_S`: the directory of archives may not have been mounted. The rule: what cannot be read is
left out and counted as unread, and no question waits for archives longer than `READ_S`.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from eventflink.blob import BlobError
from eventflink.blob.job_archives import ArchiveDamaged, ArchiveMissing, JobArchives
from eventflink.documents.runs import RunOfJob
from eventflink.model.job_graph_document import is_valid_job_id
from eventflink.reader.archives.reading import archive_of
from eventflink.views.runs import MAX_ARCHIVES, JobThatLeft, archived_run

READ_S: Final = 5.0
MISSING_S: Final = 30.0
"""Archives that are gone for good are not looked for at each question, which would keep others from being read in time."""
MAX_KEPT: Final = 4 * MAX_ARCHIVES
"""Rows, of a few kilobytes each."""

_logger = logging.getLogger(__name__)


class ArchivedRuns:
    """What was read of archives. For any threads; `read` blocks."""

    def __init__(self) -> None:
        """Know nothing."""
        self._rows: OrderedDict[tuple[str, str], RunOfJob | None] = OrderedDict()
        """By job and archive; None: that archive is damaged."""
        self._missing: dict[tuple[str, str], float] = {}
        """When an archive that was missing is looked for again, by job and archive; only the thread that reads touches it."""
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        """One thread reads: what others want as well it reads for them, and a storage that hangs holds up no more than one."""

    def read(self, archives: JobArchives | None, left: Iterable[JobThatLeft]) -> list[RunOfJob]:
        """Return the runs of these jobs as far as their archives can be read in time, in the same order."""
        jobs = list(left)
        if archives is not None and self._unread(jobs) and self._reading.acquire(timeout=READ_S):
            try:
                self._read(archives, self._unread(jobs))
            finally:
                self._reading.release()
        return self.known(jobs)

    def known(self, jobs: Iterable[JobThatLeft]) -> list[RunOfJob]:
        """Return the runs of these jobs that were read before, in the same order; never waits for a storage."""
        with self._lock:
            rows = [self._rows.get((job.job_id, job.archive_digest)) for job in jobs]
        return [row for row in rows if row is not None]

    def _unread(self, jobs: Iterable[JobThatLeft]) -> list[JobThatLeft]:
        with self._lock:
            return [job for job in jobs if (job.job_id, job.archive_digest) not in self._rows]

    def _read(self, archives: JobArchives, jobs: Iterable[JobThatLeft]) -> None:
        now_s = time.monotonic()
        until_s = now_s + READ_S
        self._missing = {key: again_s for key, again_s in self._missing.items() if again_s > now_s}
        for job in jobs:
            key = (job.job_id, job.archive_digest)
            if key in self._missing:
                continue
            if time.monotonic() >= until_s:
                return
            try:
                row = _read(archives, job)
            except ArchiveMissing as error:
                _logger.warning("ArchiveSkipped job=%s reason=%s", job.job_id, error)
                self._missing[key] = time.monotonic() + MISSING_S
                continue
            except (OSError, BlobError) as error:
                _logger.warning("ArchivesUnreachable job=%s error=%s", job.job_id, error)
                return
            self._keep(key, row)

    def _keep(self, key: tuple[str, str], row: RunOfJob | None) -> None:
        with self._lock:
            self._rows[key] = row
            while len(self._rows) > MAX_KEPT:
                self._rows.popitem(last=False)


def _read(archives: JobArchives, job: JobThatLeft) -> RunOfJob | None:
    """Return a run; None: its archive is damaged. Raises what `JobArchives.read` does but for that."""
    if not is_valid_job_id(job.job_id):
        return None
    try:
        return archived_run(archive_of(archives.read(job.job_id, job.archive_digest), f"of job '{job.job_id}'").job)
    except ArchiveDamaged as error:
        _logger.warning("ArchiveSkipped job=%s reason=%s", job.job_id, error)
        return None
