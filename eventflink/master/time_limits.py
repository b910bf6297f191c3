"""Time limits: what becomes of an attempt that runs for longer than its vertex may, and of a job that has used up its time.

An attempt is told to end, and fails when it has ended (`failover.py`): a new one is never beside it (P15). A job fails as a whole, without
a restart, and its tasks are cancelled. The time of a job begins with its submission, and stands still while it is suspended. What is due
follows from the state and the log's time, so a limit that passes while nobody leads is the next leader's to decide: after the reports that
waited for it, since one of them may say of what has ended that it did so in time. Nothing here changes anything.
"""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Final

from eventflink.events.log_events import GlobalFailureOccurred, JobStatusChanged, JobTimeLimitNear, LogEvent, TaskCancellationRequested
from eventflink.master.inputs import TimeLimitsDue
from eventflink.master.job_master import CANCELLATION_BATCH, JobMaster
from eventflink.master.settings import Context
from eventflink.master.state import ClusterState
from eventflink.model.attempts import FailureCause
from eventflink.model.document_fields import duration_text
from eventflink.model.failure_types import JOB_TIME_LIMIT
from eventflink.model.job_graph import JobGraph
from eventflink.model.statuses import RUNNING_JOB_STATUSES, JobStatus

WARNED_SHARE: Final = 10
"""By default it is said that a limit is near when a tenth of it is left."""


def due_time_limits(state: ClusterState, now_ms: int, *, is_caught_up: bool) -> Iterator[TimeLimitsDue]:
    """Yield the jobs with limits that are to be decided: of none before the leader has decided what waited for it (`is_caught_up`)."""
    for job_id in state.dispatcher.limited_jobs if is_caught_up else ():
        job = state.dispatcher.jobs[job_id]
        if now_ms >= _looked_at_ms(job) or next(job.execution_graph.beyond_time_limit(now_ms), None) is not None:
            yield TimeLimitsDue(job_id)


def _looked_at_ms(job: JobMaster) -> float:
    """Return when something is to be said of the limit of the job itself."""
    if job.fails_at_ms is None:
        return math.inf
    return job.fails_at_ms - (0 if job.time_limit_is_near else _warning_ms(job.execution_graph.graph))


def decide_time_limits_due(state: ClusterState, due: TimeLimitsDue, context: Context) -> list[LogEvent]:
    """Fail a job that has used up its time, say of one that it soon will have, or end a batch of its attempts that have used up theirs."""
    job = state.dispatcher.jobs.get(due.job_id)
    if job is None or job.status not in RUNNING_JOB_STATUSES or not job.execution_graph.unfinished_vertices:
        return []
    if job.fails_at_ms is not None and context.now_ms >= _looked_at_ms(job):
        is_over = context.now_ms >= job.fails_at_ms
        return _decide_job_failure(job) if is_over else [JobTimeLimitNear(job.job_id, job.fails_at_ms)]
    beyond = (s for s in job.execution_graph.beyond_time_limit(context.now_ms) if s.key not in job.to_cancel)
    return [
        TaskCancellationRequested(*job.attempt_of(s), job.execution_graph.describe_time_limit(s.vertex_id), exceeds_time_limit=True)
        for s in islice(beyond, CANCELLATION_BATCH)
    ]


def _warning_ms(graph: JobGraph) -> int:
    """Return how long before the time limit of a graph's job it is said that it is near."""
    limit_ms = graph.time_limit_ms or 0
    return graph.time_limit_warning_ms if graph.time_limit_warning_ms is not None else limit_ms // WARNED_SHARE


def _decide_job_failure(job: JobMaster) -> list[LogEvent]:
    limit = duration_text(job.execution_graph.graph.time_limit_ms or 0)
    what_to_do = "raise the job's 'time_limit' if it needs longer, or see what it waited for"
    cause = FailureCause(JOB_TIME_LIMIT, f"the job has used its time limit of {limit}: {what_to_do}")
    why = "a job that has used up its time is not restarted"
    return [GlobalFailureOccurred(job.job_id, cause), JobStatusChanged(job.job_id, job.status, JobStatus.FAILING, why)]
