"""The shapes of the pages of TaskManagers."""

from eventflink.model.resources import Hardware, ResourceProfile
from eventflink.model.statuses import SlotState
from eventflink.rest.own.moments import OwnShape
from eventflink.rest.own.page_shapes import AttemptInSlot


class SlotOfTaskManager(OwnShape):
    """One slot, and what is in it."""

    slot_index: int
    state: SlotState
    job_id: str | None
    """Whose attempts are in it."""
    attempts: list[AttemptInSlot]


class TaskManagerSlots(OwnShape):
    """A registered TaskManager with its slots."""

    task_manager_id: str
    host: str
    slots: list[SlotOfTaskManager]
    blocked: bool
    ready: bool
    """Whether it has loaded what tasks need."""


class SparkEndOfHost(OwnShape):
    """How the Spark of a host ended last that nobody had told to end."""

    ended_at: str
    reason: str


class TaskManager(TaskManagerSlots):
    """A registered TaskManager with all that the state knows of it."""

    instance_id: str
    process_id: int
    slots_total: int
    slots_free: int
    slot_profile: ResourceProfile | None
    """What each slot has; null: it did not say."""
    tasks: int
    registered_at: str
    metrics_address: str
    spark_ends: int
    """How often the Spark of its host ended by itself, or was ended since it did not answer."""
    spark_end: SparkEndOfHost | None
    """The last of these ends; null: there was none."""
    hardware: Hardware | None
    """What its host has; null: it did not say."""


class BlockedTaskManager(OwnShape):
    """A TaskManager that gets no new slots to fill; what runs there keeps running."""

    task_manager_id: str
    reason: str
    until: str | None
    """null: until it is unblocked."""
    since: str | None
    actor: str


class TaskManagersPage(OwnShape):
    """A window of the TaskManagers, in the order in which they registered: up to 5,000 slots in all."""

    total: int
    task_managers: list[TaskManager]
    blocked: list[BlockedTaskManager]
    """Those that are blocked, registered or not; at most 1,000."""
