"""Answers about jobs that have left the memory, from their archives: whatever the accepted state says of a job comes first.

The storage is asked in threads, a bounded number at a time, and no longer than a bounded time. An archive that is not what the log says it
is is never served.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from eventflink.blob import BlobError
from eventflink.blob.job_archives import ArchiveDamaged, ArchiveMissing, JobArchives
from eventflink.entrypoint.query_parameters import Refusal
from eventflink.model.job_graph_document import is_valid_job_id
from eventflink.views.jobs_and_cluster import JobNotFound
from eventflink.views.plain import View

READERS: Final = 4
READ_TIMEOUT_S: Final = 10.0


class ArchiveReads:
    """Reads archives for the queries of one master."""

    def __init__(self, archives: JobArchives | None) -> None:
        """Take where archives are; None: this master knows of no place."""
        self._archives = archives
        self._threads = ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="archives")

    def close(self) -> None:
        """Answer nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def find(self, missing: JobNotFound, log_offset: int) -> tuple[View, str]:
        """Return the archive of a job that the state does not hold, and where it is.

        Raises:
            Refusal: 404 there is none; 410 it cannot be used, now or later; 503 the storage does not answer.

        """
        job_id, digest = missing.job_id, missing.archive_digest
        unknown = Refusal(404, str(missing), log_offset=log_offset)
        if digest == "" or not is_valid_job_id(job_id):
            raise unknown
        if self._archives is None:
            if digest is None:
                raise unknown
            raise Refusal(503, f"{missing}; it is archived, and this master has no archive directory (jobmanager.archive.fs.dir)")
        archives = self._archives
        try:
            reading = asyncio.get_running_loop().run_in_executor(self._threads, archives.read, job_id, digest or "")
            return await asyncio.wait_for(reading, READ_TIMEOUT_S), archives.location_of(job_id)
        except ArchiveMissing as error:
            if digest is None:
                raise unknown from error
            raise Refusal(410, f"{error}, though it was written", code="ArchiveMissing", log_offset=log_offset) from error
        except ArchiveDamaged as error:
            raise Refusal(410, str(error), code="ArchiveDamaged", log_offset=log_offset) from error
        except TimeoutError:
            raise Refusal(503, f"the archive of job '{job_id}' was not read within {READ_TIMEOUT_S:g} s") from None
        except (OSError, BlobError) as error:
            raise Refusal(503, f"the archive of job '{job_id}' cannot be read: {error}") from error
