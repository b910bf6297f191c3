"""What a request reads from archives: one job, of the cluster that it names or of any.

A job id may have been used by several clusters. The parameter `cluster` of a request says which one is meant; without it, it is the one
whose job ended last, as the lists show it.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Final, TypeVar

from fastapi import Depends, Request

from eventflink.blob import BlobError
from eventflink.blob.job_archives import ArchiveDamaged, ArchiveMissing
from eventflink.documents.one_job import JobArchive
from eventflink.leadership.fold import Fold
from eventflink.reader.archives.index import ArchivedJob, ArchiveIndex
from eventflink.reader.archives.life import Lives
from eventflink.rest.errors import RestError, not_found

READ_TIMEOUT_S: Final = 10.0
MAX_READS: Final = 4
"""At once: each holds a whole archive in memory."""

T = TypeVar("T")


class ArchiveReader:
    """Reads archives for the requests of one process, a bounded number at a time."""

    def __init__(self, index: ArchiveIndex) -> None:
        """Take what is known of archives."""
        self.index = index
        self.lives = Lives()
        self._places = asyncio.Semaphore(MAX_READS)

    def find(self, job_id: str, cluster_id: str | None) -> ArchivedJob:
        """Return a job that is known.

        Raises:
            RestError: 404 there is no archive of it; 503 there may be one.

        """
        found = self.index.find(job_id, cluster_id)
        if found is not None:
            return found
        message = f"archive not found: job '{job_id[:128]}'{f' of cluster {cluster_id[:128]!r}' if cluster_id is not None else ''}"
        if missing := self.index.missing():
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, f"{message}, or it is not known yet: {missing}")
        raise not_found(message)

    async def read(self, job_id: str, cluster_id: str | None) -> JobArchive:
        """Return the archive of a job.

        Raises:
            RestError: as `find` does; 410 it is damaged or gone; 503 the storage does not answer.

        """
        job = self.find(job_id, cluster_id)
        try:
            async with asyncio.timeout(READ_TIMEOUT_S), self._places:
                return await asyncio.to_thread(self.index.read, job)
        except (ArchiveMissing, ArchiveDamaged) as error:
            raise RestError(HTTPStatus.GONE, str(error)) from error
        except (TimeoutError, OSError, BlobError) as error:
            reason = str(error) or f"not within {READ_TIMEOUT_S:g} s"
            message = f"the archive {self.index.location_of(job)} cannot be read: {reason}"
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, message) from error


class ArchivedReads:
    """The reads of one request, about the job that its path names."""

    def __init__(self, reader: ArchiveReader, request: Request) -> None:
        """Take what is asked for."""
        self._reader = reader
        parameters = request.path_params
        self._job_id = str(parameters.get("jobid", parameters.get("applicationid", "")))
        self._cluster_id = request.query_params.get("cluster")

    async def state(self, _compute: Callable[[Fold], T]) -> T:
        """Refuse; raises `RestError` 404."""
        raise not_found("a history server shows archives, and no cluster")

    async def job(self, _compute: Callable[[Fold], T], from_archive: Callable[[JobArchive], T]) -> T:
        """Return what `from_archive` makes of the archive; raises as `ArchiveReader.read` does."""
        return from_archive(await self._reader.read(self._job_id, self._cluster_id))


async def _reader_of(request: Request) -> ArchiveReader:
    reader: ArchiveReader = request.app.state.reader
    return reader


ReaderOfRequest = Annotated[ArchiveReader, Depends(_reader_of)]
