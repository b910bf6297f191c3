"""TaskManagers: what the state knows of one, and what is in its slots."""

from dataclasses import dataclass

from eventflink.model.attempts import AttemptId
from eventflink.model.resources import Hardware, ResourceProfile
from eventflink.model.spark_engines import SparkAddress
from eventflink.model.statuses import ExecutionState, SlotState


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptInSlot:
    """An attempt that is in a slot."""

    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int
    state: ExecutionState | None
    """null: it is not the current attempt of its subtask any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOfTaskManager:
    """One slot, and what is in it."""

    slot_index: int
    state: SlotState
    job_id: str | None
    """Whose attempts are in it."""
    attempts: list[AttemptInSlot]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagerTile:
    """A registered TaskManager with its slots."""

    task_manager_id: str
    host: str
    slots: list[SlotOfTaskManager]
    blocked: bool
    ready: bool
    """Whether it has loaded what tasks need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredTaskManager:
    """A registered TaskManager: what every document about one says."""

    task_manager_id: str
    instance_id: str
    host: str
    process_id: int
    slots_free: int
    blocked: bool
    """It gets no new tasks."""
    ready: bool
    """Whether it has loaded what tasks need; one that is not ready gets new tasks last."""
    registered_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagerRow(RegisteredTaskManager):
    """A TaskManager in a list, for people."""

    slots: int
    slot_profile: str | None
    """What each slot has, in words; null: it did not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkEndOfHost:
    """How the Spark of a host ended last that nobody had told to end."""

    ended_at: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTaskManager(RegisteredTaskManager):
    """A registered TaskManager with all that the state knows of it beside its slots."""

    slot_profile: ResourceProfile | None
    """What each slot has; null: it did not say."""
    tasks: int
    metrics_address: str
    spark_ends: int
    """How often the Spark of its host ended by itself, or was ended since it did not answer."""
    spark_end: SparkEndOfHost | None
    """The last of these ends; null: there was none."""
    hardware: Hardware | None
    """What its host has; null: it did not say."""
    spark_addresses: list[SparkAddress]
    """Where those of its Sparks are that are elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagerPage(KnownTaskManager):
    """A registered TaskManager with its slots and what is in them."""

    slots_total: int
    slots: list[SlotOfTaskManager]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedTaskManager(KnownTaskManager):
    """A registered TaskManager, of whose slots it is known how many there are."""

    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedTaskManagers:
    """Every registered TaskManager."""

    task_managers: list[CountedTaskManager]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotInfo:
    """One slot, and the attempt that has it, or has it for longest of those that share it."""

    slot_index: int
    state: SlotState
    allocation_id: str | None
    attempt: AttemptId | None
    attempts: tuple[AttemptId, ...] = ()
    """All that are in it, of one slot sharing group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedTaskManager(CountedTaskManager):
    """A registered TaskManager with who has its slots."""

    slot_states: list[SlotInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedTaskManagerRow:
    """A TaskManager that gets no new slots to fill; what runs there keeps running."""

    task_manager_id: str
    reason: str
    until: str | None
    """null: until it is unblocked."""
    since: str | None
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagersPage:
    """A window of the TaskManagers, in the order in which they registered: up to 5,000 slots in all."""

    total: int
    task_managers: list[TaskManagerPage]
    blocked: list[BlockedTaskManagerRow]
    """Those that are blocked, registered or not; at most 1,000."""
