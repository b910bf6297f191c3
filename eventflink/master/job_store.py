"""The store of ended jobs, Flink's ExecutionGraphInfoStore: which of them stay in memory, and whose archives are written.

An ended job leaves the memory when there are too many, when it ended too long ago, or, in a store of the type File, as soon as its archive
is written and enough newer ones are there. Never before it is cleaned up, nor while its archive waits to be written: what would be written
is what the memory holds. One whose outputs are kept stays as long, unless there are too many. Archives themselves are files outside; here
is only what the log says of them.
"""

from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from eventflink.events.log_events import (
    JobArchived,
    JobArchiveFailed,
    JobArchiveRequested,
    JobEvicted,
    JobOutputsReleased,
    JobResultStored,
    LogEvent,
)
from eventflink.master.canonical import DERIVED, require
from eventflink.master.dispatcher import Dispatcher, Retries
from eventflink.master.inputs import ArchiveFailed, ArchivesWritten, EvictJobs, ReleaseOutputs
from eventflink.master.settings import Context, MasterSettings
from eventflink.model.statuses import IllegalTransition
from eventflink.model.texts import cut_bytes

EVICTION_BATCH: Final = 256
MAX_ARCHIVE_ATTEMPTS: Final = 12
MAX_MESSAGE_LENGTH: Final = 1_024


@dataclass(slots=True)
class JobStore:
    """What became of the archives of the ended jobs in memory."""

    dispatcher: Dispatcher = field(metadata=DERIVED)
    pending: dict[str, Retries] = field(default_factory=dict)
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
        """Try again later, with exponential back-off and a limit."""
        pending = self.pending.get(failed.job_id)
        retry = pending.after_failure(context.now_ms, MAX_ARCHIVE_ATTEMPTS) if pending is not None else None
        return [JobArchiveFailed(failed.job_id, *retry, cut_bytes(failed.message, MAX_MESSAGE_LENGTH))] if retry is not None else []

    def decide_evict_jobs(self, _value: EvictJobs, context: Context) -> list[LogEvent]:
        """Let a batch of ended jobs go: the oldest beyond the capacity, those whose time is over, and those that are archived."""
        ended, settings = self.dispatcher.ended, context.settings
        leaving: dict[str, None] = {}
        excess = len(ended) - settings.job_store_capacity
        for number, job_id in enumerate(ended):
            if len(leaving) == EVICTION_BATCH or (number >= excess and not self._is_expired(job_id, context)):
                break  # Those behind it ended later.
            if self._may_leave(job_id):
                leaving[job_id] = None
        if settings.job_store_cache_size is not None:
            oldest = islice(self.archived, max(len(self.archived) - settings.job_store_cache_size, 0))
            leaving |= dict.fromkeys(islice(filter(self._may_leave, oldest), EVICTION_BATCH))
        return [JobEvicted(job_id) for job_id in leaving]

    def _may_leave(self, job_id: str) -> bool:
        return job_id not in self.pending and self.dispatcher.is_clean(job_id)

    def decide_release_outputs(self, _value: ReleaseOutputs, context: Context) -> list[LogEvent]:
        """Let the outputs of ended jobs go whose time is over, or whose jobs are too many for the memory; none that another job takes."""
        kept, ended = self.dispatcher.kept, self.dispatcher.ended
        if not kept:
            return []
        leaving = {job_id: None for job_id, until_ms in kept.items() if until_ms <= context.now_ms}
        leaving |= {job_id: None for job_id in islice(ended, max(len(ended) - context.settings.job_store_capacity, 0)) if job_id in kept}
        held = self.dispatcher.held() if leaving else set()
        return [JobOutputsReleased(job_id) for job_id in islice((each for each in leaving if each not in held), EVICTION_BATCH)]

    def _is_expired(self, job_id: str, context: Context) -> bool:
        expiration_ms = context.settings.job_store_expiration_ms
        return expiration_ms > 0 and self.dispatcher.jobs[job_id].ended_at_ms + expiration_ms <= context.now_ms

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply_job_archive_requested(self, event: JobArchiveRequested) -> None:
        """Wait for the archive of a job that has just ended."""
        if event.job_id not in self.dispatcher.ended or event.job_id in self.pending or event.job_id in self.archived:
            raise IllegalTransition(f"job '{event.job_id}' has not ended, or its archive was requested before")
        self.pending[event.job_id] = Retries()

    def apply_job_archived(self, event: JobArchived) -> None:
        """Remember the digest."""
        if self.pending.pop(event.job_id, None) is None:
            raise IllegalTransition(f"nobody waits for the archive of job '{event.job_id}'")
        self.archived[event.job_id] = event.digest

    def apply_job_archive_failed(self, event: JobArchiveFailed) -> None:
        """Wait, or give up: the job then stays in memory as one without an archive."""
        Retries.note_failure(self.pending, event)

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
