"""Events of the SlotManager: what becomes of requests and slots, and why a request waits.

Values that mirror the schemas of the same names; `log_events.py` has the union of all and the rule of all.
"""

from dataclasses import dataclass

from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import SlotRequestDeferralReason


@dataclass(slots=True)
class SlotRequested:
    """An attempt wants a slot."""

    allocation_id: str
    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int


@dataclass(slots=True)
class SlotAllocated:
    """The request got a slot: FREE to PENDING."""

    allocation_id: str
    task_manager_id: str
    instance_id: str
    slot_index: int


@dataclass(slots=True)
class SlotOffered:
    """The TaskExecutor confirmed the allocation: PENDING to ALLOCATED."""

    allocation_id: str


@dataclass(slots=True)
class SlotOfferRejected:
    """The TaskExecutor refused the allocation: PENDING to FREE."""

    allocation_id: str
    reason: str


@dataclass(slots=True)
class SlotRequestCancelled:
    """The attempt needs no slot any more."""

    allocation_id: str


@dataclass(slots=True)
class SlotRequestTimedOut:
    """No slot became free in time."""

    allocation_id: str
    waited_ms: int


@dataclass(slots=True)
class SlotFreed:
    """The slot is FREE again."""

    allocation_id: str


@dataclass(slots=True)
class SlotShareReturned:
    """An attempt gives its place in a slot back in which other attempts go on."""

    allocation_id: str
    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int


@dataclass(slots=True, kw_only=True)
class SlotRequestDeferred:
    """Requests of a job for slots of one profile wait, and why; told once for as long as the reason stays."""

    job_id: str
    resource_profile: ResourceProfile | None = None
    reason: SlotRequestDeferralReason
    requests: int


@dataclass(slots=True)
class SlotRequestUnfulfillable:
    """No registered slot can ever satisfy the request, and the time in which others could have come is over."""

    allocation_id: str
    reason: str
