"""The store of ended jobs, Flink's ExecutionGraphInfoStore: which of them stay in memory, and whose archives are written.

An ended job leaves the memory when there are too many, when it ended too long ago, or, in a store of the type File, as soon as its archive
is written and enough newer ones are there. Never before it is cleaned up, nor while its archive waits to be written: what would be written
is what the memory holds. Archives themselves are files outside; here is only what the log says of them.
"""

from dataclasses import dataclass, field
from typing import Final

from eventflink.events.log_events import JobArchived, JobArchiveFailed, JobArchiveRequested, JobEvicted, JobResultStored, LogEvent
from eventflink.master.canonical import DERIVED, require
from eventflink.master.dispatcher import Dispatcher
from eventflink.master.inputs import ArchiveFailed, ArchivesWritten, EvictJobs
from eventflink.master.settings import Context, MasterSettings
from eventflink.model.statuses import IllegalTransition

EVICTION_BATCH: Final = 256
MAX_ARCHIVE_ATTEMPTS: Final = 12
ARCHIVE_BACKOFF_MS: Final = 1_000
MAX_ARCHIVE_BACKOFF_MS: Final = 300_000
MAX_MESSAGE_LENGTH: Final = 1_024


@dataclass(slots=True)
class PendingArchive:
    """An archive that is to be written."""

    attempts: int = 0
    retry_at_ms: int = 0


@dataclass(slots=True)
class JobStore:
    """What became of the archives of the ended jobs in memory."""

    dispatcher: Dispatcher = field(metadata=DERIVED)
    pending: dict[str, PendingArchive] = field(default_factory=dict)
    archived: dict[str, str] = field(default_factory=dict)
    """The digests of the archives that are written, the oldest first."""

    # -- decide ---------------------------------------------------------------------------------------------------

    def decide_archives(self, completion: list[LogEvent], settings: MasterSettings) -> list[LogEvent]:
        """Have the archive of a job that ends now written, where archives are. One that only stops has none."""
        if not settings.archives:
            return []
        return [JobArchiveRequested(event.job_id) for event in completion if isinstance(event, JobResultStored)]

    def decide_archives_written(self, written: ArchivesWritten) -> list[LogEvent]:
        """Take note of archives; one that is not pending was written twice."""
        archives = {archive.job_id: archive for archive in written.archives if archive.job_id in self.pending}
        return [JobArchived(a.job_id, a.location, a.digest, a.byte_count) for a in archives.values()]

    def decide_archive_failed(self, failed: ArchiveFailed, context: Context) -> list[LogEvent]:
        """Try again later, with exponential back-off and a limit; a try that ends before that is a second one of the same."""
        pending = self.pending.get(failed.job_id)
        if pending is None or pending.retry_at_ms > context.now_ms:
            return []
        attempt = pending.attempts + 1
        backoff_ms = min(ARCHIVE_BACKOFF_MS * 2**attempt, MAX_ARCHIVE_BACKOFF_MS)
        retry_at_ms = 0 if attempt >= MAX_ARCHIVE_ATTEMPTS else context.now_ms + backoff_ms
        return [JobArchiveFailed(failed.job_id, attempt, retry_at_ms, failed.message[:MAX_MESSAGE_LENGTH])]

    def decide_evict_jobs(self, _value: EvictJobs, context: Context) -> list[LogEvent]:
        """Let a batch of ended jobs go: the oldest beyond the capacity, those whose time is over, and those that are archived."""
        ended, settings = self.dispatcher.ended, context.settings
        leaving: dict[str, None] = {}
        excess = len(ended) - settings.job_store_capacity
        for number, job_id in zip(range(EVICTION_BATCH), ended, strict=False):
            if number < excess or self._is_expired(job_id, context):
                leaving[job_id] = None
        cache_size = settings.job_store_cache_size
        archived_excess = 0 if cache_size is None else len(self.archived) - cache_size
        for _, job_id in zip(range(min(max(archived_excess, 0), EVICTION_BATCH)), self.archived, strict=False):
            leaving[job_id] = None
        return [JobEvicted(job_id) for job_id in leaving if job_id not in self.dispatcher.dirty and job_id not in self.pending]

    def is_eviction_due(self, context: Context) -> bool:
        """Tell whether some job is to leave the memory, though it may have to be cleaned up or archived first."""
        ended, cache_size = self.dispatcher.ended, context.settings.job_store_cache_size
        if len(ended) > context.settings.job_store_capacity or (cache_size is not None and len(self.archived) > cache_size):
            return True
        oldest = next(iter(ended), None)
        return oldest is not None and self._is_expired(oldest, context)

    def _is_expired(self, job_id: str, context: Context) -> bool:
        expiration_ms = context.settings.job_store_expiration_ms
        return expiration_ms > 0 and self.dispatcher.jobs[job_id].ended_at_ms + expiration_ms <= context.now_ms

    def due(self, now_ms: int) -> list[str]:
        """Return the jobs whose archives were not written at first, and whose back-off is over."""
        return [job_id for job_id, pending in self.pending.items() if 0 < pending.retry_at_ms <= now_ms]

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply_job_archive_requested(self, event: JobArchiveRequested) -> None:
        """Wait for the archive of a job that has just ended."""
        if event.job_id not in self.dispatcher.ended or event.job_id in self.pending or event.job_id in self.archived:
            raise IllegalTransition(f"job '{event.job_id}' has not ended, or its archive was requested before")
        self.pending[event.job_id] = PendingArchive()

    def apply_job_archived(self, event: JobArchived) -> None:
        """Remember the digest."""
        if self.pending.pop(event.job_id, None) is None:
            raise IllegalTransition(f"nobody waits for the archive of job '{event.job_id}'")
        self.archived[event.job_id] = event.digest

    def apply_job_archive_failed(self, event: JobArchiveFailed) -> None:
        """Wait, or give up: the job then stays in memory as one without an archive."""
        if event.job_id not in self.pending:
            raise IllegalTransition(f"nobody waits for the archive of job '{event.job_id}'")
        if event.retry_at_ms:
            self.pending[event.job_id] = PendingArchive(event.attempt, event.retry_at_ms)
        else:
            del self.pending[event.job_id]

    def apply_job_evicted(self, event: JobEvicted, at_ms: int) -> None:
        """Let an ended job leave the memory; the Dispatcher still knows its id, how it ended, and the digest of its archive."""
        if event.job_id in self.pending:
            raise IllegalTransition(f"the archive of job '{event.job_id}' is not written")
        self.dispatcher.evict(event.job_id, at_ms, self.archived.get(event.job_id, ""))
        self.archived.pop(event.job_id, None)

    def validate(self) -> None:
        """Check that there are archives of ended jobs alone."""
        ended = set(self.dispatcher.ended)
        require(set(self.pending) <= ended, "an archive is to be written of a job that has not ended")
        require(set(self.archived) <= ended, "an archive is known of a job that is not in memory")
        require(not set(self.pending) & set(self.archived), "an archive is both written and to be written")
