"""What is due: internal inputs that follow from the state, the settings and the time, and that the leader decides as any other.

One is due when its decision would lead to something. Nothing is scheduled, so nothing has to be remembered or restored: a new leader finds
in the state what is due.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from eventflink.events.log_events import LogEvent
from eventflink.master import inputs as i
from eventflink.master.adaptive_scheduler import due_adaptations
from eventflink.master.inputs import MasterInput
from eventflink.master.parking import name_of
from eventflink.master.settings import Context
from eventflink.master.state import ClusterState
from eventflink.master.suspects import label
from eventflink.master.time_limits import due_time_limits


def _named(value: i.InternalInput) -> tuple[i.InternalInput, tuple[str, str], str]:
    """Return it with its name, and that as one text."""
    name = name_of(value)
    return value, name, label(*name)


_OF_THE_CLUSTER: Final = tuple(
    _named(value)
    for value in (
        i.ConfigureQueues(),
        i.ReclaimSlots(),
        i.SlotRequestTimeout(),
        i.FailUnfulfillableRequests(),
        i.FailWorkerRequests(),
        i.RequestWorkers(),
        i.ReleaseTaskManagers(),
        i.ContinueShutdown(),
        i.UnblockTaskManagers(),
        i.UploadsOverdue(),
        i.ReleaseOutputs(),
        i.EvictJobs(),
        i.FireSchedules(),
    )
)
"""Ten times a second it is asked of each whether it is due: their names are put together once."""


class DecidedUntil(NamedTuple):
    """Until when everything is decided that was there, by the log's clock."""

    requests_ms: int
    """Of clients."""
    reports_ms: int
    """Of TaskExecutors."""


def due(
    state: ClusterState,
    context: Context,
    leading_since_ms: int,
    decided: DecidedUntil,
    decide: Callable[[MasterInput], list[LogEvent]],
    may_ask: Callable[[str], bool],
) -> Iterator[MasterInput]:
    """Yield the internal inputs that are due; and those of which, by their names, it may not be asked (P10).

    That goes by the state, the settings, the time, since when this master leads, and until when all inputs that were there are decided.
    Of what is parked nothing is asked: leaders may end at it.
    """
    is_starting_up = context.now_ms - leading_since_ms < context.settings.start_up_time_ms
    jobs, parked = state.dispatcher, state.follow_ups.parked

    def is_due(value: i.InternalInput, name: tuple[str, str], told: str) -> bool:
        if parked and name in parked:
            return False
        if state.suspects.is_poison(told) or not may_ask(told):
            return True
        try:
            return bool(decide(value))
        except Exception:  # noqa: BLE001 - the leader decides it, and parks it where that fails (P10)
            return True

    for named in _OF_THE_CLUSTER:
        if not (is_starting_up and isinstance(named[0], i.FailUnfulfillableRequests)) and is_due(*named):
            yield named[0]
    others = [i.ExpireAnswers(decided.requests_ms), *due_time_limits(state, decided.reports_ms)]
    others += [*map(i.RestartsDue, jobs.restarting_jobs), *map(i.CheckpointDue, jobs.streaming_jobs)]
    for value in others:
        if is_due(*_named(value)):
            yield value
    for job_id in due_adaptations(state, context):
        yield i.AdaptJob(job_id)


def decide_expire_answers(state: ClusterState, value: i.ExpireAnswers, context: Context) -> list[LogEvent]:
    """Forget answers and ids of evicted jobs that are beyond the horizon, and that no request asks for any more that was there (P8)."""
    count, oldest_kept_ms = context.request_horizon
    horizon = (count, min(oldest_kept_ms, value.decided_until_ms - context.settings.request_horizon_ms))
    return [*state.requests.decide_expiry(*horizon), *state.dispatcher.decide_expiry(*horizon)]
