"""The archives that a history server knows of: of each the run that it tells of in memory, the archives themselves where they lie.

Several directories, in each a folder for each cluster, as the masters of all these clusters write them. What cannot be read is named and
passed over; a directory that does not answer keeps what was known of it. The rule: nothing is written and nothing removed, and what is
kept in memory has a bound.
"""

import heapq
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eventflink.blob import BlobError
from eventflink.blob.job_archives import MAX_ARCHIVE_BYTES, ArchiveDamaged, ArchiveMissing, parse_archive
from eventflink.blob.storage import INCOMING, Storage, StoredFile
from eventflink.documents.one_job import JobArchive, JobInfo
from eventflink.documents.plain import parse
from eventflink.documents.runs import RunOfJob
from eventflink.reader.archives.reading import archive_of
from eventflink.views.runs import KnownRun, archived_run, known_run

MAX_CACHE_BYTES: Final = 8 * 1024 * 1024
"""Of archives as they lie there: in memory they take several times as much."""

PUBLISHED_EVERY: Final = 200
"""So many new archives are read until the next part of a long first reading can be seen."""

MAX_REASON: Final = 200
_NAME: Final = re.compile(r"([^/]+)/[^/]+\.json")
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ArchivedJob:
    """A job that has an archive."""

    place: int
    """Which of the directories."""
    cluster_id: str
    job_id: str
    modified_ms: int | None
    """When the archive was written, as its storage says it."""
    run: RunOfJob
    """What is shown of it in lists."""
    known: KnownRun
    """What of that is counted."""

    @property
    def name(self) -> str:
        """The name of the archive in its directory."""
        return f"{self.cluster_id}/{self.job_id}.json"

    @property
    def order(self) -> str:
        """By which jobs are listed: when they ended, and what tells them apart."""
        return f"{self.known.ended_at_ms:015d}/{self.name}/{self.place}"


@dataclass(frozen=True, slots=True)
class Skipped:
    """An archive that cannot be read, as it was when that was tried."""

    location: str
    reason: str
    modified_ms: int | None


Key = tuple[int, str]
"""A directory, and the name of an archive in it."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known at one time; never changed, only replaced."""

    jobs: Mapping[Key, ArchivedJob]
    newest_first: Sequence[ArchivedJob]
    by_id: Mapping[str, Sequence[ArchivedJob]]
    """Those with one job id, which several clusters may have used, the newest first."""
    skipped: Mapping[Key, Skipped]
    is_whole: bool
    """Whether all directories were looked through once."""

    def answered_for(self, cluster_id: str | None) -> Iterator[ArchivedJob]:
        """Yield the jobs of a cluster, or of all; of several with one id the one alone that is answered for, which ended last."""
        seen = set[str]()
        for job in self.newest_first:
            if cluster_id in (None, job.cluster_id) and job.job_id not in seen:
                seen.add(job.job_id)
                yield job


class ArchiveIndex:
    """The archives in some directories. `refresh` and `read` block, each for threads; `refresh` runs once at a time."""

    def __init__(self, places: Sequence[Storage], retained: int) -> None:
        """Take the directories, and how many archives of each are known, the newest."""
        self._places = places
        self._retained = retained
        self._unreachable: dict[int, str] = {}
        self._is_closed = threading.Event()
        self._cache: OrderedDict[tuple[Key, int | None], tuple[JobArchive, int]] = OrderedDict()
        self._cached_bytes = 0
        self._lock = threading.Lock()
        self.known: Known = Known({}, (), {}, {}, is_whole=False)

    def close(self) -> None:
        """Let a refresh that runs end soon."""
        self._is_closed.set()

    def find(self, job_id: str, cluster_id: str | None) -> ArchivedJob | None:
        """Return a job by its whole id, of any cluster the one that ended last; None: no archive of it is known."""
        return next((job for job in self.known.by_id.get(job_id, ()) if cluster_id in (None, job.cluster_id)), None)

    def missing(self) -> str:
        """Return in words which archives may be there that are not known; empty: none."""
        if not self.known.is_whole:
            return f"the archives are being read; {len(self.known.jobs)} are known so far"
        unreachable = list(self._unreachable.items())
        return "; ".join(f"the directory {self._places[number].location} does not answer: {error}" for number, error in unreachable)

    def location_of(self, job: ArchivedJob) -> str:
        """Return where an archive is, for people."""
        return f"{self._places[job.place].location}/{job.name}"

    def read(self, job: ArchivedJob) -> JobArchive:
        """Return an archive, verified.

        Raises:
            ArchiveMissing: it is not there any more.
            ArchiveDamaged: what is there is not what was archived; the message says where.
            OSError, BlobStorageFailed: the storage does not answer as it should.

        """
        key = (job.place, job.name), job.modified_ms
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key][0]
        document, length = self._read(job.place, job.name, job.job_id)
        archive = archive_of(document, self.location_of(job))
        if job.modified_ms is not None:
            with self._lock:
                self._cached_bytes += length - (self._cache.pop(key)[1] if key in self._cache else 0)
                self._cache[key] = archive, length
                while self._cache and self._cached_bytes > MAX_CACHE_BYTES:
                    self._cached_bytes -= self._cache.popitem(last=False)[1][1]
        return archive

    # -- looking for archives ---------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Look through all directories once, the newest archives first."""
        before = self.known
        jobs: dict[Key, ArchivedJob] = {}
        skipped: dict[Key, Skipped] = {}
        unread: list[tuple[Key, StoredFile]] = []
        for number, place in enumerate(self._places):
            files = self._list(number, place)
            if files is None:
                jobs.update((key, job) for key, job in before.jobs.items() if key[0] == number)
                skipped.update((key, found) for key, found in before.skipped.items() if key[0] == number)
                continue
            for file in files:
                key = (number, file.name)
                if (job := before.jobs.get(key)) is not None and job.modified_ms == file.modified_ms:
                    jobs[key] = job
                elif (bad := before.skipped.get(key)) is not None and bad.modified_ms == file.modified_ms:
                    skipped[key] = bad
                else:
                    unread.append((key, file))
        unread.sort(key=lambda found: found[1].modified_ms or 0, reverse=True)
        for count, (key, file) in enumerate(unread, 1):
            if self._is_closed.is_set():
                return
            self._look_at(key, file, jobs, skipped)
            if count % PUBLISHED_EVERY == 0:
                self._publish(jobs, skipped, is_whole=before.is_whole)
        self._publish(jobs, skipped, is_whole=True)

    def _publish(self, jobs: dict[Key, ArchivedJob], skipped: dict[Key, Skipped], *, is_whole: bool) -> None:
        newest_first = sorted(jobs.values(), key=lambda job: job.order, reverse=True)
        by_id: dict[str, list[ArchivedJob]] = {}
        for job in newest_first:
            by_id.setdefault(job.job_id, []).append(job)
        self.known = Known(dict(jobs), newest_first, by_id, dict(skipped), is_whole)

    def _list(self, number: int, place: Storage) -> list[StoredFile] | None:
        """Return the newest archives of a directory, the newest first; None: it does not answer."""
        try:
            files = heapq.nlargest(self._retained, _archives_in(place), key=lambda file: file.modified_ms or 0)
        except (OSError, BlobError) as error:
            if self._unreachable.get(number) != str(error):
                _logger.warning("ArchivesUnreachable directory=%s error=%s", place.location, error)
            self._unreachable[number] = str(error)
            return None
        self._unreachable.pop(number, None)
        return files

    def _look_at(self, key: Key, file: StoredFile, jobs: dict[Key, ArchivedJob], skipped: dict[Key, Skipped]) -> None:
        """Read an archive for its run; one that cannot be read now is looked at the next time again."""
        number, name = key
        cluster_id, _, file_name = name.partition("/")
        job_id = file_name.removesuffix(".json")
        location = f"{self._places[number].location}/{name}"
        try:
            document, _ = self._read(number, name, job_id)
            run = _run_of(document, job_id)
            job = ArchivedJob(number, cluster_id, job_id, file.modified_ms, run, known_run(run))
        except ArchiveMissing:
            return
        except ArchiveDamaged as error:
            reason = str(error)
        except (OSError, BlobError) as error:
            _logger.warning("ArchiveUnreadable archive=%s error=%s", location, error)
            return
        except Exception as error:  # noqa: BLE001 - whatever a file holds, the others are shown
            reason = f"invalid archive of a job: {type(error).__name__}: {str(error)[:MAX_REASON]}"
        else:
            jobs[key] = job
            return
        _logger.warning("ArchiveSkipped archive=%s reason=%s", location, reason)
        skipped[key] = Skipped(location, reason, file.modified_ms)

    def _read(self, number: int, name: str, job_id: str) -> tuple[dict[str, Any], int]:
        place = self._places[number]
        try:
            with place.open(name) as file:
                document = file.read(MAX_ARCHIVE_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ArchiveMissing(f"archive not found: {place.location}/{name}; it was there before") from error
        try:
            return parse_archive(document, job_id)[0], len(document)
        except ArchiveDamaged as error:
            raise ArchiveDamaged(f"the archive {place.location}/{name} is damaged: {error}") from error


def _run_of(document: dict[str, Any], job_id: str) -> RunOfJob:
    """Return the run that an archive tells of; raises anything where it is none of this job's end."""
    run = archived_run(parse(JobInfo, document["job"]))
    if run.job_id != job_id or not run.ended_at:
        raise ValueError(f"it tells of job '{run.job_id}', which {f'ended at {run.ended_at}' if run.ended_at else 'has not ended'}")
    return run


def _archives_in(place: Storage) -> Iterator[StoredFile]:
    """Yield the files that have the names of archives: others may lie there as well, such as those in Flink's format."""
    for file in place.list():
        match = _NAME.fullmatch(file.name)
        if match is not None and match[1] != INCOMING:
            yield file
