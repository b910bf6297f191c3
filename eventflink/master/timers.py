"""What is due: internal inputs that follow from the state, the settings and the time, and that the leader decides as any other.

Nothing is scheduled, so nothing has to be remembered or restored: a new leader finds in the state what is due.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from eventflink.master import inputs as i
from eventflink.master.adaptive_scheduler import due_adaptations
from eventflink.master.failover import is_restart_due
from eventflink.master.inputs import MasterInput

if TYPE_CHECKING:
    from eventflink.master.master import Master


def due(master: "Master", now_ms: int, leading_since_ms: int) -> Iterable[MasterInput]:
    """Yield the internal inputs that are due: by the state, the settings, the time, and since when this master leads."""
    if master.slot_manager.overdue_request(now_ms, master.settings.slot_request_timeout_ms) is not None:
        yield i.SlotRequestTimeout()
    settings = master.settings
    is_started_up = settings.fail_unfulfillable_requests and now_ms - leading_since_ms >= settings.start_up_time_ms
    if is_started_up and next(master.slot_manager.unfulfillable_requests(master.may_come), None) is not None:
        yield i.FailUnfulfillableRequests()
    yield from master.workers.due(master.slot_manager, master.worker_settings, now_ms, master.missing_slots_of_adaptive_jobs(now_ms))
    if master.shutdown.has_more_to_do:
        yield i.ContinueShutdown()
    if master.blocklist.has_expired(now_ms):
        yield i.UnblockTaskManagers()
    if master.task_manager_files.has_overdue(now_ms):
        yield i.UploadsOverdue()
    yield from _due_of_jobs(master, now_ms)
    horizon = master.horizon(now_ms)
    if master.requests.is_expired(*horizon) or master.dispatcher.is_expired(*horizon):
        yield i.ExpireAnswers()


def _due_of_jobs(master: "Master", now_ms: int) -> Iterable[MasterInput]:
    for job_id in [j.job_id for j in master.dispatcher.restarting() if is_restart_due(j, now_ms)]:
        yield i.RestartsDue(job_id)
    if master.dispatcher.adaptive_jobs:
        for job_id in due_adaptations(master.dispatcher, master.resources(now_ms)):
            yield i.AdaptJob(job_id)
    if master.job_store.is_eviction_due(master.dispatcher, master.settings.job_store, now_ms):
        yield i.EvictJobs()
