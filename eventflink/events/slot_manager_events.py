"""Events of the SlotManager: what becomes of requests and slots, and why a request waits.

Values that mirror the schemas of the same names; `log_events.py` has all of them and the rule of all.
"""

from dataclasses import dataclass

from eventflink.events.decision import LogEvent
from eventflink.model.attempts import HasAttemptId
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import SlotRequestDeferralReason


@dataclass(slots=True)
class AttemptSlotEvent(LogEvent, HasAttemptId):
    """What happened to an attempt and its slot."""

    allocation_id: str
    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int


@dataclass(slots=True)
class SlotRequested(AttemptSlotEvent):
    """An attempt wants a slot."""


@dataclass(slots=True)
class SlotAllocated(LogEvent):
    """The request got a slot: FREE to PENDING."""

    allocation_id: str
    task_manager_id: str
    instance_id: str
    slot_index: int


@dataclass(slots=True)
class SlotOffered(LogEvent):
    """The TaskExecutor confirmed the allocation: PENDING to ALLOCATED."""

    allocation_id: str


@dataclass(slots=True)
class SlotOfferRejected(LogEvent):
    """The TaskExecutor refused the allocation: PENDING to FREE."""

    allocation_id: str
    reason: str


@dataclass(slots=True)
class SlotRequestCancelled(LogEvent):
    """The attempt needs no slot any more."""

    allocation_id: str


@dataclass(slots=True)
class SlotRequestTimedOut(LogEvent):
    """No slot became free in time."""

    allocation_id: str
    waited_ms: int


@dataclass(slots=True)
class SlotFreed(LogEvent):
    """The slot is FREE again."""

    allocation_id: str


@dataclass(slots=True)
class SlotShareReturned(AttemptSlotEvent):
    """An attempt gives its place in a slot back in which other attempts keep running."""


@dataclass(slots=True, kw_only=True)
class SlotRequestDeferred(LogEvent):
    """Requests of a job for slots of one profile wait, and why; told once for as long as the reason stays."""

    job_id: str
    resource_profile: ResourceProfile | None = None
    reason: SlotRequestDeferralReason
    requests: int


@dataclass(slots=True)
class SlotRequestUnfulfillable(LogEvent):
    """No registered slot can ever satisfy the request, and the time in which others could have come is over."""

    allocation_id: str
    reason: str
