"""The archived form of an ended job: what is written of it before it leaves the memory, and how that answers who asks later.

An archive holds what the views of the job showed at its end, so that an answer is the same whether the job is still in memory or not. What
`views.py` says of all views holds here as well; reading and writing is for others.
"""

from collections.abc import Callable

from eventflink.documents.checkpoints import JobCheckpoints
from eventflink.documents.failures import JobExceptions
from eventflink.documents.jobs import JobStanding
from eventflink.documents.plain import parse, plain
from eventflink.leadership.fold import Fold
from eventflink.model.statuses import JobStatus
from eventflink.views import queries
from eventflink.views.checkpoints import checkpoints_view
from eventflink.views.exceptions import exceptions_view
from eventflink.views.job_document import document_later
from eventflink.views.jobs_and_cluster import job_view
from eventflink.views.plain import MAX_EXCEPTIONS, View


def archive_view(fold: Fold, job_id: str) -> View:
    """Return the archive of a job that has ended; raises `JobNotFound`."""
    return archive_later(fold, job_id)()


def archive_later(fold: Fold, job_id: str) -> Callable[[], View]:
    """Read what the state says of such a job, and return what makes its archive of it, in any thread; raises `JobNotFound`."""
    job = job_view(fold, job_id)
    job["outputs_kept_until"] = None  # The cluster decides it, and may let them go before.
    known = fold.master.dispatcher.jobs[job["job_id"]]
    told = {
        "job_id": known.job_id,
        "graph_digest": known.graph_digest,
        "submitted_at_ms": known.submitted_at_ms,
        "ended_at_ms": known.ended_at_ms,
        "job": job,
        "result": queries.job_result(fold, job_id),
        "exceptions": plain(exceptions_view(known, MAX_EXCEPTIONS)),
        "checkpoints": plain(checkpoints_view(known)),
    }
    document = document_later(fold, known.job_id)
    return lambda: {**told, "document": document()}


def archived_job(archive: View) -> View:
    """Return what `job_view` showed."""
    job: View = archive["job"]
    return job


def archived_status(archive: View) -> JobStanding:
    """Return what `queries.job_status` said."""
    job = archive["job"]
    return JobStanding(
        job_id=job["job_id"], status=JobStatus(job["status"]), status_since=job["status_since"], job_master_id=job["job_master_id"]
    )


def archived_result(archive: View) -> View:
    """Return what `queries.job_result` said."""
    result: View = archive["result"]
    return result


def archived_exceptions(archive: View, limit: int) -> JobExceptions:
    """Return what `exceptions_view` showed, as many as are wanted now."""
    view: View = archive["exceptions"]
    shown = view["exceptions"][:limit]
    return parse(JobExceptions, {**view, "exceptions": shown, "truncated": view["total"] > len(shown)})


def archived_checkpoints(archive: View) -> JobCheckpoints:
    """Return what `checkpoints_view` showed."""
    return parse(JobCheckpoints, archive["checkpoints"])
