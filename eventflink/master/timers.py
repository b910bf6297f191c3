"""What is due: internal inputs that follow from the state, the settings and the time, and that the leader decides as any other.

Nothing is scheduled, so nothing has to be remembered or restored: a new leader finds in the state what is due.
"""

from collections.abc import Iterator

from eventflink.events.log_events import LogEvent
from eventflink.master import active_resource_manager
from eventflink.master import inputs as i
from eventflink.master.adaptive_scheduler import due_adaptations
from eventflink.master.failover import is_restart_due
from eventflink.master.inputs import MasterInput
from eventflink.master.settings import Context
from eventflink.master.slot_failures import unfulfillable_requests
from eventflink.master.state import ClusterState


def due(state: ClusterState, context: Context, leading_since_ms: int) -> Iterator[MasterInput]:
    """Yield the internal inputs that are due: by the state, the settings, the time, and since when this master leads."""
    settings, now_ms = context.settings, context.now_ms
    if state.slot_manager.overdue_request(now_ms, settings.slot_request_timeout_ms) is not None:
        yield i.SlotRequestTimeout()
    is_started_up = settings.fail_unfulfillable_requests and now_ms - leading_since_ms >= settings.start_up_time_ms
    if is_started_up and next(unfulfillable_requests(state, context), None) is not None:
        yield i.FailUnfulfillableRequests()
    yield from active_resource_manager.due(state, context)
    if state.shutdown.has_more_to_do:
        yield i.ContinueShutdown()
    if state.blocklist.has_expired(now_ms):
        yield i.UnblockTaskManagers()
    if next(state.uploads.overdue(now_ms), None) is not None:
        yield i.UploadsOverdue()
    for job_id in [j.job_id for j in state.dispatcher.restarting() if is_restart_due(j, now_ms)]:
        yield i.RestartsDue(job_id)
    for job_id in due_adaptations(state, context):
        yield i.AdaptJob(job_id)
    if state.job_store.is_eviction_due(context):
        yield i.EvictJobs()
    if state.requests.is_expired(*context.request_horizon) or state.dispatcher.is_expired(*context.request_horizon):
        yield i.ExpireAnswers()


def decide_expire_answers(state: ClusterState, _value: i.ExpireAnswers, context: Context) -> list[LogEvent]:
    """Forget answers and ids of evicted jobs that are beyond the horizon."""
    horizon = context.request_horizon
    return [*state.requests.decide_expiry(*horizon), *state.dispatcher.decide_expiry(*horizon)]
