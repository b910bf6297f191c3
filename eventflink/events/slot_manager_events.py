"""Events of the SlotManager: what becomes of requests and slots, and why a request waits.

Values of which the schemas of the same names are made; `log_events.py` has all of them and the rule of all.
"""

from dataclasses import dataclass

from eventflink.events.decision import LogEvent
from eventflink.model.attempts import HasAttemptId
from eventflink.model.job_queues import JobQueue
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import SlotRequestDeferralReason


@dataclass(slots=True)
class AttemptSlotEvent(LogEvent, HasAttemptId):
    """What happened to an attempt and its slot."""

    allocation_id: str
    """The allocation that holds the slot."""
    job_id: str
    """The job."""
    vertex_id: str
    """The vertex in the job's graph."""
    subtask_index: int
    """Which parallel subtask of the vertex, from 0."""
    attempt: int
    """Which attempt of the subtask, from 1."""


@dataclass(slots=True)
class SlotRequested(AttemptSlotEvent):
    """An attempt wants a slot."""


@dataclass(slots=True)
class SlotAllocated(LogEvent):
    """The request got a slot: FREE to PENDING."""

    allocation_id: str
    """The allocation."""
    task_manager_id: str
    """The TaskManager (stable over restarts)."""
    instance_id: str
    """One life of it: fresh at each start and after each self-fence (P12)."""
    slot_index: int
    """Which slot of it."""


@dataclass(slots=True)
class SlotOffered(LogEvent):
    """The TaskExecutor confirmed the allocation: PENDING to ALLOCATED."""

    allocation_id: str
    """The allocation."""


@dataclass(slots=True)
class SlotOfferRejected(LogEvent):
    """The TaskExecutor refused the allocation: PENDING to FREE."""

    allocation_id: str
    """The allocation."""
    reason: str
    """Its words."""


@dataclass(slots=True)
class SlotRequestCancelled(LogEvent):
    """The attempt needs no slot any more."""

    allocation_id: str
    """The allocation."""


@dataclass(slots=True)
class SlotRequestTimedOut(LogEvent):
    """No slot became free in time."""

    allocation_id: str
    """The allocation."""
    waited_ms: int
    """How long it waited, in milliseconds."""


@dataclass(slots=True)
class SlotFreed(LogEvent):
    """The slot is FREE again."""

    allocation_id: str
    """The allocation that ended."""


@dataclass(slots=True)
class SlotShareReturned(AttemptSlotEvent):
    """An attempt gives its place in a slot back in which other attempts keep running."""


@dataclass(slots=True, kw_only=True)
class SlotRequestDeferred(LogEvent):
    """Requests of a job for slots of one profile wait, and why; told once for as long as the reason stays."""

    job_id: str
    """The job."""
    resource_profile: ResourceProfile | None = None
    """What they ask for; null: any slot will do."""
    reason: SlotRequestDeferralReason
    """Why they wait."""
    requests: int
    """How many of them waited when it was decided."""


@dataclass(slots=True)
class SlotRequestUnfulfillable(LogEvent):
    """No registered slot can ever satisfy the request, and the time in which others could have come is over."""

    allocation_id: str
    """The allocation."""
    reason: str
    """What was asked for, and what there is."""


@dataclass(slots=True)
class QueuesConfigured(LogEvent):
    """The configuration of the leader has other queues than the state: from here on slots are given by these."""

    queues: tuple[JobQueue, ...]
    """All of them, in the order of their names; none: all jobs take turns."""


@dataclass(slots=True)
class SlotReclaimed(AttemptSlotEvent):
    """A queue below its quota takes a slot back from one that borrows: the attempt in it ends, and starts again; that is no failure."""

    queue: str
    """Which queue takes it back."""
