"""Time limits: what becomes of an attempt that runs for longer than its vertex may, and of a job that has used up its time.

An attempt is told to end, and fails when it has ended (`failover.py`): a new one is never beside it (P15). A job fails as a whole, without
a restart, and its tasks are cancelled. The time of a job begins with its submission, and stands still while it is suspended. What is due
follows from the state and the log's time, so a limit that passes while nobody leads is the next leader's to decide. Time is counted up to
where all reports that were there are decided, by whichever leader, since one of them may say of what has ended that it did so in time.
Closing vertices have a limit together, from when they begin; then what is left of them is cancelled. Nothing here changes anything.
"""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Final

from eventflink.events.log_events import GlobalFailureOccurred, JobStatusChanged, JobTimeLimitNear, LogEvent, TaskCancellationRequested
from eventflink.master.closing import Closing, describe_closing_limit
from eventflink.master.inputs import TimeLimitsDue
from eventflink.master.job_master import CANCELLATION_BATCH, JobMaster
from eventflink.master.settings import Context
from eventflink.master.state import ClusterState
from eventflink.model.attempts import FailureCause
from eventflink.model.durations import duration_text
from eventflink.model.failure_types import JOB_TIME_LIMIT
from eventflink.model.job_graph import JobGraph
from eventflink.model.statuses import RUNNING_JOB_STATUSES, JobStatus

WARNED_SHARE: Final = 10
"""By default it is said that a limit is near when a tenth of it is left."""


def due_time_limits(state: ClusterState, reports_ms: int) -> Iterator[TimeLimitsDue]:
    """Yield the jobs with limits that are to be decided, as of the time until when all reports are decided."""
    for job_id in state.dispatcher.limited_jobs:
        try:
            is_due = _is_due(state.dispatcher.jobs[job_id], reports_ms)
        except Exception:  # noqa: BLE001 - the leader decides it, and parks it where that fails (P10)
            is_due = True
        if is_due:
            yield TimeLimitsDue(job_id, reports_ms)


def _is_due(job: JobMaster, reports_ms: int) -> bool:
    return reports_ms >= _looked_at_ms(job) or next(job.execution_graph.beyond_time_limit(reports_ms), None) is not None


def _looked_at_ms(job: JobMaster) -> float:
    """Return when something is to be said of the limit of the job itself, or of its closing vertices together."""
    if job.closing is not None:
        return math.inf if job.is_ending else job.closing.ends_at_ms
    if job.fails_at_ms is None:
        return math.inf
    return job.fails_at_ms - (0 if job.time_limit_is_near else _warning_ms(job.execution_graph.graph))


def decide_time_limits_due(state: ClusterState, due: TimeLimitsDue, _: Context) -> list[LogEvent]:
    """Fail a job that has used up its time, say of one that it soon will have, or end a batch of its attempts that have used up theirs."""
    job = state.dispatcher.jobs.get(due.job_id)
    if job is None:
        return []
    if job.closing is not None:
        return _decide_closing(job, job.closing, due.reports_ms)
    if job.status not in RUNNING_JOB_STATUSES or not job.execution_graph.unfinished_vertices:
        return []
    if job.fails_at_ms is not None and due.reports_ms >= _looked_at_ms(job):
        is_over = due.reports_ms >= job.fails_at_ms
        return _decide_job_failure(job) if is_over else [JobTimeLimitNear(job.job_id, job.fails_at_ms)]
    return _decide_attempts(job, due.reports_ms)


def _decide_closing(job: JobMaster, closing: Closing, reports_ms: int) -> list[LogEvent]:
    """Cancel closing vertices that have used up their time together, or end a batch of attempts that have used up theirs."""
    if reports_ms >= closing.ends_at_ms:
        return job.decide_closing_abort(describe_closing_limit(job.execution_graph.graph))
    return _decide_attempts(job, reports_ms)


def _decide_attempts(job: JobMaster, reports_ms: int) -> list[LogEvent]:
    beyond = (s for s in job.execution_graph.beyond_time_limit(reports_ms) if s.key not in job.to_cancel)
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
