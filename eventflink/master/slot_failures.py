"""Requests that end without a slot: they waited too long, or nothing that is registered can ever satisfy them.

Each fails its attempt with the reason; what that means for its job is the job's to decide. Both are due by the leader's timers
(`timers.py:due`).
"""

from typing import TYPE_CHECKING, Final

from eventflink.events.log_events import LogEvent, SlotRequestTimedOut, SlotRequestUnfulfillable
from eventflink.master.failover import decide_failure
from eventflink.model.attempts import FailureCause

if TYPE_CHECKING:
    from eventflink.master.master import Master

UNFULFILLABLE_BATCH: Final = 64
"""How many requests one decision fails at most because nothing can ever satisfy them (P10a)."""


def decide_slot_request_timeout(master: "Master", now_ms: int) -> list[LogEvent]:
    """Fail the oldest request if it has waited too long."""
    overdue = master.slot_manager.overdue_request(now_ms, master.settings.slot_request_timeout_ms)
    if overdue is None:
        return []
    allocation_id, request = overdue
    job, subtask = master.job_and_subtask(request.attempt)
    waited_ms = now_ms - request.requested_at_ms
    message = f"no slot was given to it within {waited_ms} ms: {master.slot_manager.describe_wait(request.profile)}"
    cause = FailureCause("NoResourceAvailable", message)
    return [SlotRequestTimedOut(allocation_id, waited_ms), *decide_failure(job, subtask, cause, now_ms)]


def decide_unfulfillable_requests(master: "Master", now_ms: int) -> list[LogEvent]:
    """Fail one request of each job that no slot can satisfy, a batch of jobs at a time."""
    events: list[LogEvent] = []
    slots = master.slot_manager
    for _, allocation_id in zip(range(UNFULFILLABLE_BATCH), slots.unfulfillable_requests(master.may_come), strict=False):
        request = slots.pending[allocation_id]
        job, subtask = master.job_and_subtask(request.attempt)
        reason = f"no slot can satisfy the request: {slots.describe_wait(request.profile)}"
        events.append(SlotRequestUnfulfillable(allocation_id, reason))
        events.extend(decide_failure(job, subtask, FailureCause("UnfulfillableSlotRequest", reason), now_ms))
    return events
