"""What is due: internal inputs that follow from the state, the settings and the time, and that the leader decides as any other.

One is due when its decision would lead to something. Nothing is scheduled, so nothing has to be remembered or restored: a new leader finds
in the state what is due.
"""

from collections.abc import Callable, Iterator
from typing import Final

from eventflink.events.log_events import LogEvent
from eventflink.master import inputs as i
from eventflink.master.adaptive_scheduler import due_adaptations
from eventflink.master.inputs import MasterInput
from eventflink.master.settings import Context
from eventflink.master.state import ClusterState

_OF_THE_CLUSTER: Final = (
    i.SlotRequestTimeout(),
    i.FailUnfulfillableRequests(),
    i.FailWorkerRequests(),
    i.RequestWorkers(),
    i.ReleaseTaskManagers(),
    i.ContinueShutdown(),
    i.UnblockTaskManagers(),
    i.UploadsOverdue(),
    i.EvictJobs(),
    i.ExpireAnswers(),
)


def due(
    state: ClusterState, context: Context, leading_since_ms: int, decide: Callable[[MasterInput], list[LogEvent]]
) -> Iterator[MasterInput]:
    """Yield the internal inputs that are due: by the state, the settings, the time, and since when this master leads."""
    is_starting_up = context.now_ms - leading_since_ms < context.settings.start_up_time_ms
    jobs = state.dispatcher
    values: list[MasterInput] = [*_OF_THE_CLUSTER, *map(i.RestartsDue, jobs.restarting_jobs), *map(i.CheckpointDue, jobs.streaming_jobs)]
    for value in values:
        if not (is_starting_up and isinstance(value, i.FailUnfulfillableRequests)) and decide(value):
            yield value
    for job_id in due_adaptations(state, context):
        yield i.AdaptJob(job_id)


def decide_expire_answers(state: ClusterState, _value: i.ExpireAnswers, context: Context) -> list[LogEvent]:
    """Forget answers and ids of evicted jobs that are beyond the horizon."""
    horizon = context.request_horizon
    return [*state.requests.decide_expiry(*horizon), *state.dispatcher.decide_expiry(*horizon)]
