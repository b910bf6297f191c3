"""The exception history of a job as queries show it, the newest failure first.

What `jobs_and_cluster.py` says of all views holds here as well.
"""

from typing import Any

from eventflink.documents import failures
from eventflink.documents.failures import FailureOfJob, JobExceptions, ScheduledRestart
from eventflink.master.exception_history import RootFailure, TaskFailure
from eventflink.master.job_master import JobMaster
from eventflink.model.statuses import FailureReaction
from eventflink.views.plain import iso_time


def exceptions_view(job: JobMaster, limit: int) -> JobExceptions:
    """Return the newest `limit` failures of a job, each with what it led to and those that came with it."""
    history = job.exceptions
    shown = history.roots[max(0, len(history.roots) - limit) :]
    return JobExceptions(
        job_id=job.job_id,
        name=job.execution_graph.graph.name,
        status=job.status,
        restarts=job.restarts.count,
        exceptions=[exception_view(root) for root in reversed(shown)],
        total=history.root_count,
        truncated=history.root_count > len(shown),
    )


def exception_view(root: RootFailure) -> FailureOfJob:
    """Return a failure, what it led to, and the failures that came with it."""
    restart = None
    if root.reaction is FailureReaction.RESTART:
        restart = ScheduledRestart(
            restarts=root.restarts,
            delay_ms=root.delay_ms,
            restart_at=iso_time(root.failure.at_ms + root.delay_ms),
            failover_strategy=root.failover_strategy,
            tasks=[f"{vertex_id}[{index}]" for vertex_id, index in root.tasks],
            task_count=root.task_count,
            retry_rule=root.retry_rule or None,
        )
    return FailureOfJob(
        **_fields_of(root.failure),
        reaction=root.reaction,
        restart=restart,
        reason=root.reason or None,
        concurrent=[failures.FailureRow(**_fields_of(failure)) for failure in root.concurrent],
        concurrent_count=root.concurrent_count,
    )


def _fields_of(failure: TaskFailure) -> dict[str, Any]:
    return {
        "at": iso_time(failure.at_ms) or "",
        "task": f"{failure.vertex_id}[{failure.subtask_index}]#{failure.attempt}" if failure.vertex_id else "(the job)",
        "vertex_id": failure.vertex_id,
        "subtask_index": failure.subtask_index,
        "attempt": failure.attempt,
        "task_manager_id": failure.task_manager_id or None,
        "instance_id": failure.instance_id or None,
        "cause": failure.cause,
    }
