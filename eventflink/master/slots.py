"""The slots of TaskManagers, the allocations that hold them, and what there is of each profile.

Records alone: who changes them, and when, is the SlotManager's part.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from eventflink.model.attempts import AttemptId
from eventflink.model.job_queues import DEFAULT_QUEUE
from eventflink.model.resources import ResourceProfile
from eventflink.model.spark_engines import SparkAddress
from eventflink.model.statuses import SlotState


@dataclass(slots=True)
class Slot:
    """One slot of a TaskManager."""

    state: SlotState = SlotState.FREE
    allocation_id: str = ""


@dataclass(slots=True)
class TaskManagerSlots:
    """All slots of one registered instance."""

    instance_id: str
    """The one that the ResourceManager has registered: each allocation has to name it. `ClusterState.validate` compares it."""
    slots: list[Slot]
    free: dict[int, None]
    profile: ResourceProfile | None = None
    """What each slot has; None: it was not said."""
    blocked: bool = False
    """An index over the Blocklist, for speed: it is asked with every slot that is counted or joined. `SlotManager.validate` compares it."""
    idle_since_ms: int = 0
    """Since when all slots have been free, if they are."""
    slot_report_number: int = 0
    """Of the newest slot report that was reconciled; 0: of none, or it was not said."""
    ready: bool = False
    """Whether that report said that the TaskExecutor has loaded what tasks need."""
    spark_addresses: tuple[SparkAddress, ...] = ()
    """Where those of its Sparks are that are elsewhere."""

    def spark_address(self, engine: str) -> str:
        """Return where the Spark of that name is; empty: on the host, or there is none."""
        return next((each.address for each in self.spark_addresses if each.engine == engine), "")


@dataclass(slots=True)
class Allocation:
    """Attempts that have a slot together, or had one on an instance that is lost until their failures are decided."""

    attempt: AttemptId
    """The one that has been there for longest."""
    task_manager_id: str
    instance_id: str
    slot_index: int
    orphaned: str = ""
    slot_sharing_group: str = ""
    """Whose vertices may share the slot; empty: it is the attempt's own."""
    others: dict[AttemptId, None] = field(default_factory=dict)
    """Who has joined it since, of other vertices of the group."""
    queue: str = DEFAULT_QUEUE
    """As the job names it."""
    priority: int = 0
    """Of the job, within its queue."""
    reclaimed_for: str = ""
    """The queue that takes the slot back; empty: none."""

    @property
    def attempts(self) -> tuple[AttemptId, ...]:
        """All that are in the slot, in the order in which they came."""
        return self.attempt, *self.others

    @property
    def group_key(self) -> tuple[str, str]:
        """The job, and the group within it."""
        return self.attempt.job_id, self.slot_sharing_group


@dataclass(slots=True)
class ProfileTotals:
    """What there is of one profile."""

    task_managers: int = 0
    slots: int = 0
    free: int = 0
    blocked: int = 0
    """TaskManagers that are."""
    blocked_free: int = 0
    """Free slots that they have."""

    def count(self, held: TaskManagerSlots, sign: int = 1) -> None:
        """Count a TaskManager, or with -1 count it no more."""
        self.task_managers += sign
        self.slots += sign * len(held.slots)
        self.free += sign * len(held.free)
        if held.blocked:
            self.blocked += sign
            self.blocked_free += sign * len(held.free)


Totals = dict[ResourceProfile | None, ProfileTotals]
"""By what the slots have; nothing depends on the order."""


def totals_of(task_managers: Mapping[str, TaskManagerSlots]) -> Totals:
    """Return what there is of each profile."""
    made: Totals = {}
    for held in task_managers.values():
        made.setdefault(held.profile, ProfileTotals()).count(held)
    return made
