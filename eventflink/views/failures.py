"""Failures of tasks in one sentence, and whose they are: what pages show of a failure without its stack trace."""

import heapq
from collections.abc import Iterable, Mapping

from eventflink.documents.failures import Failure, FailureOfJob
from eventflink.master.exception_history import RootFailure
from eventflink.master.job_master import JobMaster
from eventflink.model.attempts import FailureCause
from eventflink.model.failure_types import kind_of
from eventflink.views.exceptions import exception_view
from eventflink.views.plain import one_sentence, reaction_of


def run_again_by(jobs: Iterable[JobMaster]) -> dict[str, str]:
    """Return for each job that was run again the id of its newest rerun."""
    return {job.rerun_of: job.job_id for job in jobs if job.rerun_of}


def is_seen_to(job: JobMaster, again: Mapping[str, str]) -> bool:
    """Tell whether the failure of a job is dismissed, or the job was run again (`again` is of `run_again_by`)."""
    return job.failure_is_dismissed or job.job_id in again


def failure_row(job: JobMaster, root: RootFailure) -> Failure:
    """Return a failure that something followed from, in a row."""
    view, cause = exception_view(root), root.failure.cause
    return Failure(
        job_id=job.job_id,
        name=job.execution_graph.graph.name,
        task=view.task,
        vertex_id=view.vertex_id,
        subtask_index=view.subtask_index,
        attempt=view.attempt,
        task_manager_id=view.task_manager_id,
        failure_type=cause.failure_type,
        message=cause.message,
        at=view.at,
        kind=kind_of(cause),
        sentence=failure_sentence(view),
    )


def failure_sentence(exception: FailureOfJob) -> str:
    """Return in one sentence what failed, why, and what that led to, of a failure as `exception_view` shows it."""
    reaction = reaction_of(exception)
    what = f"{exception.task} failed: {cause_in_words(exception.cause)}"
    return one_sentence(f"{what}; {reaction}" if reaction else what)


def cause_in_words(cause: FailureCause) -> str:
    """Return type and message of a cause in one line, without a sign at its end: more may follow."""
    message = cause.message.strip().partition("\n")[0].rstrip(" .:;,")
    return f"{cause.failure_type}: {message}" if message else cause.failure_type


def newest_failures(jobs: Iterable[JobMaster], count: int) -> list[Failure]:
    """Return the newest failures of all these jobs, the newest first."""
    roots = ((root.failure.at_ms, job, root) for job in jobs for root in job.exceptions.roots[-count:])
    return [failure_row(job, root) for _, job, root in heapq.nlargest(count, roots, key=lambda each: each[0])]
