"""Requests to suspend a job and to resume it; what a job remembers of that is in `suspension.py`. Nothing here changes anything."""

from eventflink.events.inputs import ResumeJob, SuspendJob
from eventflink.events.log_events import JobSuspensionRequested, LogEvent, RequestRejected
from eventflink.master.requests import accepted, rejected
from eventflink.master.state import ClusterState
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, JobStatus


def decide_suspend_job(state: ClusterState, command: SuspendJob) -> list[LogEvent]:
    """Begin to suspend a job; one that is suspended already is as it is wanted.

    One that was suspended with the cluster would be resumed with it: from now on it is not.
    """
    if refusal := _refuse(state, command):
        return [refusal]
    reason = command.reason or f"suspended by {command.actor or 'a command'}"
    if command.job_id in state.shutdown.suspended:
        return [accepted(command), JobSuspensionRequested(command.job_id, command.actor, reason, resumes_with_cluster=False)]
    suspension = state.dispatcher.jobs[command.job_id].decide_suspension(command.actor, reason, resumes_with_cluster=False)
    return [accepted(command), *suspension]


def decide_resume_job(state: ClusterState, command: ResumeJob) -> list[LogEvent]:
    """Resume a job; one that is not suspended is as it is wanted."""
    if refusal := _refuse(state, command):
        return [refusal]
    return [accepted(command), *state.dispatcher.jobs[command.job_id].decide_resumption(command.actor)]


def _refuse(state: ClusterState, command: SuspendJob | ResumeJob) -> RequestRejected | None:
    job = state.dispatcher.jobs.get(command.job_id)
    if job is None:
        return state.dispatcher.unknown_job(command)
    if job.status in TERMINAL_JOB_STATUSES:
        return rejected(command, "JobTerminated", f"job '{job.job_id}' is {job.status} already")
    if job.closing is not None:
        why = f"the closing vertices of job '{job.job_id}' run: it ends after them, and can neither be suspended nor resumed"
        return rejected(command, "JobEnding", why)
    if job.status in (JobStatus.FAILING, JobStatus.CANCELLING):
        return rejected(command, "JobEnding", f"job '{job.job_id}' is {job.status}: it ends, and can neither be suspended nor resumed")
    return None
