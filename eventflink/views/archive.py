"""The archived form of an ended job: what is written of it before it leaves the memory, and how that answers who asks later.

An archive holds what the views of the job showed at its end, so that an answer is the same whether the job is still in memory or not. What
`jobs_and_cluster.py` says of all views holds here as well; reading and writing is for others.
"""

from collections.abc import Callable
from dataclasses import replace

from eventflink.documents.failures import JobExceptions
from eventflink.documents.jobs import JobStanding
from eventflink.documents.one_job import JobArchive
from eventflink.leadership.fold import Fold
from eventflink.views import queries
from eventflink.views.checkpoints import checkpoints_view
from eventflink.views.exceptions import exceptions_view
from eventflink.views.job_document import document_later
from eventflink.views.jobs_and_cluster import job_view
from eventflink.views.plain import MAX_EXCEPTIONS


def archive_view(fold: Fold, job_id: str) -> JobArchive:
    """Return the archive of a job that has ended; raises `JobNotFound`."""
    return archive_later(fold, job_id)()


def archive_later(fold: Fold, job_id: str) -> Callable[[], JobArchive]:
    """Read what the state says of such a job, and return what makes its archive of it, in any thread; raises `JobNotFound`."""
    # For how long outputs are kept is the cluster's, which may let them go before.
    job = replace(job_view(fold, job_id), outputs_kept_until=None)
    known = fold.master.dispatcher.jobs[job.job_id]
    graph_digest, submitted_at_ms, ended_at_ms = known.graph_digest, known.submitted_at_ms, known.ended_at_ms
    result, exceptions = queries.job_result(fold, job.job_id), exceptions_view(known, MAX_EXCEPTIONS)
    checkpoints, document = checkpoints_view(known), document_later(fold, job.job_id)
    return lambda: JobArchive(
        job_id=job.job_id,
        graph_digest=graph_digest,
        submitted_at_ms=submitted_at_ms,
        ended_at_ms=ended_at_ms,
        job=job,
        result=result,
        exceptions=exceptions,
        checkpoints=checkpoints,
        document=document(),
    )


def archived_status(archive: JobArchive) -> JobStanding:
    """Return what `queries.job_status` said."""
    job = archive.job
    return JobStanding(job_id=job.job_id, status=job.status, status_since=job.status_since, job_master_id=job.job_master_id)


def archived_exceptions(archive: JobArchive, limit: int) -> JobExceptions:
    """Return what `exceptions_view` showed, as many as are wanted now."""
    view = archive.exceptions
    shown = view.exceptions[:limit]
    return replace(view, exceptions=shown, truncated=view.total > len(shown))
