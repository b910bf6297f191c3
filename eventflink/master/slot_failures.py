"""Attempts that end for want of a slot: they waited too long, nothing that is registered can ever serve them, or their slot is lost.

Each fails with the reason; what that means for its job is the job's to decide (`failover.py`). Nothing here changes anything.
"""

from itertools import islice
from typing import Final

from eventflink.events.log_events import LogEvent, SlotRequestTimedOut, SlotRequestUnfulfillable
from eventflink.master.failover import decide_failure
from eventflink.master.inputs import FailUnfulfillableRequests, SlotRequestTimeout
from eventflink.master.settings import Context
from eventflink.master.slot_requests import Asked, SlotRequest
from eventflink.master.state import ClusterState
from eventflink.model.attempts import FailureCause
from eventflink.model.resources import fits
from eventflink.model.statuses import SlotRequestDeferralReason

UNFULFILLABLE_BATCH: Final = 64
"""How many requests one decision fails at most because nothing can ever satisfy them (P10a)."""

MAX_SAID_BYTES: Final = 64 * 1024
"""A batch ends with the request whose reasons make it as long: they are said twice, of the request and of its attempt (P10a)."""


def decide_slot_request_timeout(state: ClusterState, _value: SlotRequestTimeout, context: Context) -> list[LogEvent]:
    """Fail the oldest request if it has waited too long."""
    overdue = _find_overdue(state, context.now_ms, context.settings.slot_request_timeout_ms)
    if overdue is None:
        return []
    allocation_id, request = overdue
    job, subtask = state.job_and_subtask(request.attempt)
    waited_ms = context.now_ms - request.requested_at_ms
    message = f"no slot was given to it within {waited_ms} ms: {state.slot_manager.describe_wait(request.profile, request.queue)}"
    cause = FailureCause("NoResourceAvailable", message)
    return [SlotRequestTimedOut(allocation_id, waited_ms), *decide_failure(job, subtask, cause, context.now_ms)]


def _find_overdue(state: ClusterState, now_ms: int, timeout_ms: int) -> tuple[str, SlotRequest] | None:
    """Return the oldest request that has waited too long; none of a batch job that works its way through its tasks, as in Flink.

    None either that waits for its named queue: a job may wait there for as long as it takes.

    An attempt of a job that works its way has ended within that time, or it holds a slot that has room for the request and will be free
    again. This is asked ten times a second, for as long as such a job runs: so of each job and profile once, and of the slots only where it
    has to be.
    """
    held: dict[str, set[Asked]] | None = None
    slots, reasons = state.slot_manager, dict[tuple[Asked, str], SlotRequestDeferralReason]()
    for allocation_id, request in slots.overdue_requests(now_ms, timeout_ms):
        if slots.job_queues:
            asked = request.profile, request.queue
            if asked not in reasons:
                reasons[asked] = slots.why_request_waits(*asked)
            if reasons[asked] is SlotRequestDeferralReason.QUEUE_SHARE:
                continue
        job = state.dispatcher.jobs[request.attempt.job_id]
        if job.checkpoints is not None:
            return allocation_id, request
        if now_ms - job.execution_graph.last_end_at_ms < timeout_ms:
            continue
        held = slots.held_profiles() if held is None else held
        if not any(fits(profile, request.profile) for profile in held.get(job.job_id, ())):
            return allocation_id, request
    return None


def decide_fail_unfulfillable_requests(state: ClusterState, _value: FailUnfulfillableRequests, context: Context) -> list[LogEvent]:
    """Fail one request of each job that no slot can satisfy, neither a registered one nor a worker's; a batch of jobs at a time."""
    events: list[LogEvent] = []
    slots, workers = state.slot_manager, context.settings.workers

    def may_come(profile: Asked) -> bool:
        return workers is not None and fits(workers.slot_profile, profile)

    if not context.settings.fail_unfulfillable_requests:
        return []
    said_bytes = 0
    for allocation_id in islice(slots.unfulfillable_requests(may_come), UNFULFILLABLE_BATCH):
        if said_bytes >= MAX_SAID_BYTES:
            break
        request = slots.pending[allocation_id]
        job, subtask = state.job_and_subtask(request.attempt)
        reason = f"no slot can satisfy the request: {slots.describe_wait(request.profile, request.queue)}"
        said_bytes += len(reason.encode())
        events.append(SlotRequestUnfulfillable(allocation_id, reason))
        events.extend(decide_failure(job, subtask, FailureCause("UnfulfillableSlotRequest", reason), context.now_ms))
    return events


def decide_fail_allocation(state: ClusterState, allocation_id: str, now_ms: int) -> list[LogEvent]:
    """Fail one attempt of a lost slot. Where several shared it, each is a decision of its own, on the state after the one before."""
    allocation = state.slot_manager.allocations[allocation_id]
    job, subtask = state.job_and_subtask(allocation.attempt)
    kind = allocation.orphaned.partition(":")[0]
    cause = FailureCause(kind, f"{allocation.task_manager_id} no longer has {allocation.attempt} ({allocation.orphaned})")
    return [*decide_failure(job, subtask, cause, now_ms), state.slot_manager.decide_return(allocation.attempt, allocation_id)]
