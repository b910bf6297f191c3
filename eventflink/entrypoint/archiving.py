"""Writing the archives of ended jobs: outside Kafka, in threads, each outcome handed back as an input.

What goes into an archive is read from the accepted state when its turn comes, as any client reads it (P4), a bounded number of tasks at a
time; a job's document, which anybody may have made large, is searched for secrets in a thread. Doing it twice is harmless. A job stays in
memory until the log says that its archive is written, so a crash loses nothing. The copy in Flink's format is written before that is said,
so that the next leader writes one that is missing; but one that cannot be written is given up after a few attempts, and the log does not
know of it.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar, TypeVarTuple

from eventflink.blob import BlobError
from eventflink.blob.flink_archives import FlinkArchives
from eventflink.blob.job_archives import ArchiveFile, JobArchives, render_archive
from eventflink.documents.one_job import JobArchive
from eventflink.documents.plain import plain
from eventflink.entrypoint.cleaning import GATHERING_S
from eventflink.leadership.fold import Fold
from eventflink.leadership.reads import Answered, Read, ReadRefused
from eventflink.master.effects import ArchiveJob
from eventflink.master.inputs import ArchiveFailed, ArchivesWritten, MasterInput, WrittenArchive
from eventflink.model.rehearsal import ARCHIVE_NOTED
from eventflink.views.archive import archive_later

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_logger = logging.getLogger(__name__)

BATCH: Final = 64
MAX_TASKS: Final = 2_000
"""Of the jobs that are read for their archives at once: for so long the event loop does nothing else."""

WRITERS: Final = 4
READ_TIMEOUT_S: Final = 30.0
WRITE_TIMEOUT_S: Final = 60.0
COPY_ATTEMPTS: Final = 3
COPY_DELAY_S: Final = 1.0
"""Between two attempts."""


@dataclass(slots=True)
class _Collected:
    """What makes the archives of the jobs that were read at once, and how many of the jobs were looked at."""

    archives: dict[str, Callable[[], JobArchive]]
    taken: int


class Archiver:
    """Writes the archives of a term."""

    def __init__(
        self,
        archives: JobArchives | None,
        ask: Callable[[Read], None],
        on_outcome: Callable[[MasterInput], None],
        flink_archives: FlinkArchives | None = None,
    ) -> None:
        """Take where archives go (None: this master has no place for them), how the state is read, and who takes the outcomes.

        `flink_archives` is where copies in Flink's format go; None: there are none.
        """
        self._archives = archives
        self._flink_archives = flink_archives
        self._ask = ask
        self._on_outcome = on_outcome
        self._waiting: dict[str, None] = {}
        self._under_way: set[str] = set()
        self._wake = asyncio.Event()
        self._threads = ThreadPoolExecutor(max_workers=WRITERS, thread_name_prefix="archiver")

    def submit(self, order: ArchiveJob) -> None:
        """Queue an archive that is not under way; the queue holds each job once, so the state bounds it."""
        if order.job_id in self._under_way:
            return  # It was sent again because its outcome is not known yet.
        self._waiting[order.job_id] = None
        self._wake.set()

    async def run(self) -> None:
        """Write until cancelled."""
        try:
            while True:
                await self._wake.wait()
                await asyncio.sleep(GATHERING_S)
                self._wake.clear()
                while self._waiting:
                    batch = [job_id for job_id, _ in zip(self._waiting, range(BATCH), strict=False)]
                    self._under_way = set(batch)
                    for job_id in batch:
                        del self._waiting[job_id]
                    await self._archive(batch)
                    self._under_way = set()
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _archive(self, batch: list[str]) -> None:
        collected = await self._collect(batch)
        if isinstance(collected, str):
            outcomes: list[ArchiveFile | str] = [collected] * len(batch)
            names = batch
        else:
            self._waiting = dict.fromkeys(batch[collected.taken :]) | self._waiting
            names = list(collected.archives)
            outcomes = list(await asyncio.gather(*map(self._write, collected.archives.values())))
        written = [
            WrittenArchive(job_id, outcome.location, outcome.digest, outcome.byte_count)
            for job_id, outcome in zip(names, outcomes, strict=True)
            if isinstance(outcome, ArchiveFile)
        ]
        if written:
            self._on_outcome(ArchivesWritten(tuple(written)))
        for job_id, outcome in zip(names, outcomes, strict=True):
            if isinstance(outcome, str):
                _logger.warning("ArchiveFailed job=%s error=%s", job_id, outcome)
                self._on_outcome(ArchiveFailed(job_id, outcome))

    async def _collect(self, batch: list[str]) -> _Collected | str:
        """Read what the archives of the first of these jobs are made of; or return why that cannot be."""
        if self._archives is None:
            return "this master has no archive directory (jobmanager.archive.fs.dir)"
        answer: asyncio.Future[Answered | ReadRefused] = asyncio.get_running_loop().create_future()

        def deliver(found: Answered | ReadRefused) -> None:
            if not answer.done():
                answer.set_result(found)

        read = Read(0, lambda fold: _collect(fold, batch), deliver)
        self._ask(read)
        try:
            found = await asyncio.wait_for(answer, READ_TIMEOUT_S)
        except TimeoutError:
            return f"the state was not accepted within {READ_TIMEOUT_S:g} s"
        finally:
            read.is_cancelled = True
        if isinstance(found, ReadRefused):
            return str(found)
        collected: _Collected = found.value
        return collected

    async def _write(self, make: Callable[[], JobArchive]) -> ArchiveFile | str:
        """Make one archive and write it, in threads; return why it could not be written otherwise."""
        try:
            archive = await self._in_thread(make)
            written = await self._in_thread(self._write_now, archive)
        except TimeoutError:
            return f"it was not written within {WRITE_TIMEOUT_S:g} s"
        except (OSError, BlobError, ValueError) as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - whatever a document cannot be shown for, no other archive and no leadership ends for it
            return f"it cannot be made: {type(error).__name__}"  # What it says may quote the document, secrets included.
        if self._flink_archives is not None:
            await self._copy(self._flink_archives, archive)
        return written

    async def _copy(self, flink_archives: FlinkArchives, archive: JobArchive) -> None:
        """Write the copy of an archive in Flink's format, or say why that cannot be."""
        for attempt in range(1, COPY_ATTEMPTS + 1):
            try:
                await self._in_thread(flink_archives.write, archive)
            except Exception as error:  # noqa: BLE001 - whatever a copy fails of, no job and no leadership ends for it
                why = f"it was not written within {WRITE_TIMEOUT_S:g} s" if isinstance(error, TimeoutError) else error
                _logger.warning("FlinkArchiveFailed job=%s attempt=%d of=%d error=%s", archive.job_id, attempt, COPY_ATTEMPTS, why)
            else:
                return
            if attempt < COPY_ATTEMPTS:
                await asyncio.sleep(COPY_DELAY_S)

    async def _in_thread(self, work: Callable[[*Ts], T], *arguments: *Ts) -> T:
        return await asyncio.wait_for(asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments), WRITE_TIMEOUT_S)

    def _write_now(self, archive: JobArchive) -> ArchiveFile:
        if self._archives is None:
            raise ValueError("this master has no archive directory")
        return self._archives.write(plain(archive))


class NotingArchiver(Archiver):
    """Only notes what it would write, and says that it is done: of a master that rehearses on a copy of another cluster's log."""

    def _write_now(self, archive: JobArchive) -> ArchiveFile:
        document, digest = render_archive(plain(archive))
        _logger.info("%s job=%s bytes=%d", ARCHIVE_NOTED, archive.job_id, len(document))
        return ArchiveFile("", digest, len(document))

    async def _copy(self, _flink_archives: FlinkArchives, _archive: JobArchive) -> None:
        pass


def _collect(fold: Fold, batch: list[str]) -> _Collected:
    """Read what the archives of the first jobs that still wait for one are made of, at least of one, and a bounded number of tasks."""
    collected = _Collected({}, 0)
    tasks = 0
    for job_id in batch:
        job = fold.master.dispatcher.jobs.get(job_id)
        if job is not None and job_id in fold.master.job_store.pending:
            count = sum(len(vertex.subtasks) for vertex in job.execution_graph.vertices.values())
            if collected.archives and tasks + count > MAX_TASKS:
                break
            tasks += count
            collected.archives[job_id] = archive_later(fold, job_id)
        collected.taken += 1
    return collected
