"""The store of ended jobs, Flink's ExecutionGraphInfoStore: which of them stay in memory, and whose archives are written.

An ended job leaves the memory when there are too many, when it ended too long ago, or, in a store of the type File, as soon as its archive
is written and enough newer ones are there. Never before it is cleaned up, nor while its archive waits to be written: what would be written
is what the memory holds. Archives themselves are files outside; here is only what the log says of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from eventflink.events.log_events import JobArchived, JobArchiveFailed, JobArchiveRequested, JobEvicted, JobResultStored, LogEvent
from eventflink.master.canonical import require
from eventflink.master.inputs import ArchiveFailed, ArchivesWritten
from eventflink.model.statuses import IllegalTransition

if TYPE_CHECKING:
    from eventflink.master.dispatcher import Dispatcher

EVICTION_BATCH: Final = 256
MAX_ARCHIVE_ATTEMPTS: Final = 12
ARCHIVE_BACKOFF_MS: Final = 1_000
MAX_ARCHIVE_BACKOFF_MS: Final = 300_000
MAX_MESSAGE_LENGTH: Final = 1_024


@dataclass(frozen=True, slots=True)
class JobStoreRules:
    """What the configuration says of ended jobs."""

    capacity: int
    """How many stay in memory at the most."""
    expiration_ms: int
    """For how long; 0: without an end."""
    cache_size: int | None
    """How many stay there although their archives are written; None: as many as others (the type Memory)."""
    archives: bool
    """Whether the archives of ended jobs are written."""


@dataclass(slots=True)
class PendingArchive:
    """An archive that is to be written."""

    attempts: int = 0
    retry_at_ms: int = 0


@dataclass(slots=True)
class JobStore:
    """What became of the archives of the ended jobs in memory."""

    pending: dict[str, PendingArchive] = field(default_factory=dict)
    archived: dict[str, str] = field(default_factory=dict)
    """The digests of the archives that are written, the oldest first."""

    # -- decide ---------------------------------------------------------------------------------------------------

    def decide_archives(self, completion: list[LogEvent], rules: JobStoreRules) -> list[LogEvent]:
        """Have the archive of a job that ends now written, where archives are. One that only stops has none."""
        if not rules.archives:
            return []
        return [JobArchiveRequested(event.job_id) for event in completion if isinstance(event, JobResultStored)]

    def decide_archived(self, written: ArchivesWritten) -> list[LogEvent]:
        """Take note of archives; one that nobody waits for was written twice."""
        archives = {archive.job_id: archive for archive in written.archives if archive.job_id in self.pending}
        return [JobArchived(a.job_id, a.location, a.digest, a.byte_count) for a in archives.values()]

    def decide_archive_failed(self, failed: ArchiveFailed, now_ms: int) -> list[LogEvent]:
        """Try again later, with exponential back-off and a limit; a try that ends before that is a second one of the same."""
        pending = self.pending.get(failed.job_id)
        if pending is None or pending.retry_at_ms > now_ms:
            return []
        attempt = pending.attempts + 1
        backoff_ms = min(ARCHIVE_BACKOFF_MS * 2**attempt, MAX_ARCHIVE_BACKOFF_MS)
        retry_at_ms = 0 if attempt >= MAX_ARCHIVE_ATTEMPTS else now_ms + backoff_ms
        return [JobArchiveFailed(failed.job_id, attempt, retry_at_ms, failed.message[:MAX_MESSAGE_LENGTH])]

    def decide_eviction(self, dispatcher: "Dispatcher", rules: JobStoreRules, now_ms: int) -> list[LogEvent]:
        """Let a batch of ended jobs go: the oldest beyond the capacity, those whose time is over, and those that are archived."""
        leaving: dict[str, None] = {}
        excess = len(dispatcher.ended) - rules.capacity
        for number, job_id in zip(range(EVICTION_BATCH), dispatcher.ended, strict=False):
            if number < excess or _is_expired(dispatcher, job_id, rules, now_ms):
                leaving[job_id] = None
        archived_excess = 0 if rules.cache_size is None else len(self.archived) - rules.cache_size
        for _, job_id in zip(range(min(max(archived_excess, 0), EVICTION_BATCH)), self.archived, strict=False):
            leaving[job_id] = None
        return [JobEvicted(job_id) for job_id in leaving if job_id not in dispatcher.dirty and job_id not in self.pending]

    def is_eviction_due(self, dispatcher: "Dispatcher", rules: JobStoreRules, now_ms: int) -> bool:
        """Tell whether some job is to leave the memory, though it may have to be cleaned up or archived first."""
        if len(dispatcher.ended) > rules.capacity or (rules.cache_size is not None and len(self.archived) > rules.cache_size):
            return True
        oldest = next(iter(dispatcher.ended), None)
        return oldest is not None and _is_expired(dispatcher, oldest, rules, now_ms)

    def due(self, now_ms: int) -> list[str]:
        """Return the jobs whose archives were not written at first, and whose back-off is over."""
        return [job_id for job_id, pending in self.pending.items() if 0 < pending.retry_at_ms <= now_ms]

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply_archive_requested(self, event: JobArchiveRequested, ended: Mapping[str, None]) -> None:
        """Wait for the archive of a job that has just ended."""
        if event.job_id not in ended or event.job_id in self.pending or event.job_id in self.archived:
            raise IllegalTransition(f"job '{event.job_id}' has not ended, or its archive was requested before")
        self.pending[event.job_id] = PendingArchive()

    def apply_archived(self, event: JobArchived, _at: int) -> None:
        """Remember the digest."""
        if self.pending.pop(event.job_id, None) is None:
            raise IllegalTransition(f"nobody waits for the archive of job '{event.job_id}'")
        self.archived[event.job_id] = event.digest

    def apply_archive_failed(self, event: JobArchiveFailed, _at: int) -> None:
        """Wait, or give up: the job then stays in memory as one without an archive."""
        if event.job_id not in self.pending:
            raise IllegalTransition(f"nobody waits for the archive of job '{event.job_id}'")
        if event.retry_at_ms:
            self.pending[event.job_id] = PendingArchive(event.attempt, event.retry_at_ms)
        else:
            del self.pending[event.job_id]

    def archive_of_leaving(self, job_id: str) -> str:
        """Return the digest of the archive of a job that is to leave the memory; empty: it has none.

        Raises:
            IllegalTransition: the archive is still to be written.

        """
        if job_id in self.pending:
            raise IllegalTransition(f"the archive of job '{job_id}' is not written")
        return self.archived.get(job_id, "")

    def validate(self, ended: Mapping[str, None]) -> None:
        """Check that there are archives of ended jobs alone."""
        require(set(self.pending) <= set(ended), "an archive is to be written of a job that has not ended")
        require(set(self.archived) <= set(ended), "an archive is known of a job that is not in memory")
        require(not set(self.pending) & set(self.archived), "an archive is both written and to be written")


def _is_expired(dispatcher: "Dispatcher", job_id: str, rules: JobStoreRules, now_ms: int) -> bool:
    return rules.expiration_ms > 0 and dispatcher.jobs[job_id].ended_at_ms + rules.expiration_ms <= now_ms
