"""The steps of the end of a whole cluster, and of its start afterwards. Each follows from the state, so any leader continues.

A TaskManager that does not do its part in time is declared lost. Nothing here changes anything; how far the cluster is, is in
`cluster_shutdown.py`.
"""

from itertools import islice
from typing import Final

from eventflink.events.log_events import ApplicationStatusRecorded, ClusterStopped, LogEvent, TaskManagerLost
from eventflink.master.cluster_shutdown import REASON, ShutdownRequest
from eventflink.master.inputs import ContinueShutdown
from eventflink.master.job_master import JobMaster
from eventflink.master.settings import Context
from eventflink.master.state import ClusterState
from eventflink.model.statuses import SUSPENDABLE_JOB_STATUSES, TERMINAL_JOB_STATUSES, JobStatus

JOB_BATCH: Final = 128
"""How many jobs one decision suspends, cancels or resumes (P10a)."""

TASK_MANAGER_BATCH: Final = 64


def decide_continue_shutdown(state: ClusterState, _value: ContinueShutdown, context: Context) -> list[LogEvent]:
    """Return the next step of a shutdown, or of the start after one; nothing where something has to happen first."""
    shutdown = state.shutdown
    request = shutdown.request
    if request is None:
        jobs = state.dispatcher.jobs
        return [event for job_id in islice(shutdown.suspended, JOB_BATCH) for event in jobs[job_id].decide_resumption("")]
    if shutdown.is_over:
        return []
    return _decide_stops(state, request, context) if request.recorded_at_ms else _decide_rest(state, request, context)


def _decide_rest(state: ClusterState, request: ShutdownRequest, context: Context) -> list[LogEvent]:
    """Bring all jobs to rest, and then record the status."""
    jobs = list(state.dispatcher.jobs.values())
    if ends := _decide_ends(jobs, request):
        return ends
    if all(map(_is_at_rest, jobs)):
        return [ApplicationStatusRecorded(request.application_status, request.diagnostics)]
    if context.now_ms - request.requested_at_ms >= context.settings.shutdown_timeout_ms:
        late = (event for job in jobs for event in job.decide_closing_abort(f"{REASON}, and waits no longer for them"))
        if events := list(islice(late, JOB_BATCH)):
            return events
    return _decide_lost(state, _task_managers_at_work(state), request.requested_at_ms, context)


def _decide_stops(state: ClusterState, request: ShutdownRequest, context: Context) -> list[LogEvent]:
    """Wait until no TaskManager is left, and then be over."""
    if state.resource_manager.task_managers:
        return _decide_lost(state, list(state.resource_manager.task_managers), request.recorded_at_ms, context)
    is_late = context.now_ms - request.recorded_at_ms >= context.settings.shutdown_timeout_ms
    # What is not cleaned up or archived in time is when masters are started on this log again.
    is_tidy = not state.dispatcher.dirty and not state.job_store.pending
    return [ClusterStopped(request.application_status)] if is_tidy or is_late else []


def _decide_ends(jobs: list[JobMaster], request: ShutdownRequest) -> list[LogEvent]:
    """Suspend or cancel a batch of the jobs that run."""
    events: list[LogEvent] = []
    count = 0
    for job in jobs:
        if count == JOB_BATCH:
            break
        if not request.cancel_jobs:
            found = job.decide_suspension(request.actor, REASON, resumes_with_cluster=True)
        elif job.status in (*SUSPENDABLE_JOB_STATUSES, JobStatus.SUSPENDED):
            found = job.decide_cancellation(request.actor)
        else:
            continue
        events += found
        count += bool(found)
    return events


def _is_at_rest(job: JobMaster) -> bool:
    return job.status in TERMINAL_JOB_STATUSES or (job.status is JobStatus.SUSPENDED and not job.job_master_id)


def _task_managers_at_work(state: ClusterState) -> list[str]:
    return list(dict.fromkeys(a.task_manager_id for a in state.slot_manager.allocations.values() if not a.orphaned))


def _decide_lost(state: ClusterState, task_manager_ids: list[str], since_ms: int, context: Context) -> list[LogEvent]:
    """Declare a batch of TaskManagers lost that have not done their part of the shutdown in time."""
    timeout_ms = context.settings.shutdown_timeout_ms
    if context.now_ms - since_ms < timeout_ms:
        return []
    known = state.resource_manager.task_managers
    reason = f"it did not do its part of the cluster's shutdown within {timeout_ms} ms"
    return [
        TaskManagerLost(name, known[name].instance_id, reason, known[name].deployment_partition)
        for name in task_manager_ids[:TASK_MANAGER_BATCH]
    ]
