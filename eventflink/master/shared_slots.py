"""Which slots a job holds for each of its slot sharing groups, which of its requests wait beside them, and who may join what.

A slot that was given to an attempt of a group is open to one live attempt of each other vertex of that group (Flink's SharedSlot). A
subtask goes into an open slot in which an attempt of the same index is, else into the one that was asked for first. All of this follows
from the SlotManager's requests, allocations and TaskManagers: it is an index, nothing of it is stored. What a choice costs grows with the
logarithm of how many slots the group has, not with the cluster.
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from eventflink.master.canonical import require
from eventflink.master.slot_requests import SlotRequest
from eventflink.master.slots import Allocation, TaskManagerSlots
from eventflink.model.allocations import Age, age_of
from eventflink.model.attempts import AttemptId

GroupKey = tuple[str, str]
"""(job, slot sharing group)."""


def is_open(allocation: Allocation, task_managers: Mapping[str, TaskManagerSlots]) -> bool:
    """Tell whether attempts may join those in a slot: it is a group's, neither lost nor taken back, and its TaskManager is not blocked."""
    if not allocation.slot_sharing_group or allocation.orphaned or allocation.reclaimed_for:
        return False
    held = task_managers.get(allocation.task_manager_id)
    return held is not None and not held.blocked


def _discard(ages: list[Age], age: Age) -> None:
    del ages[bisect_left(ages, age)]


@dataclass(slots=True)
class SharingGroup:
    """The open slots of one group of one job, and the requests of its attempts that wait."""

    ages: list[Age] = field(default_factory=list)
    """Of the slots that are open, the oldest first."""
    by_vertex: dict[str, list[Age]] = field(default_factory=dict)
    """Those among them that hold a live attempt of a vertex."""
    by_index: dict[int, dict[Age, int]] = field(default_factory=dict)
    """Those that hold attempts of a subtask index, and how many."""
    waiting: dict[str, OrderedDict[str, AttemptId]] = field(default_factory=dict)
    """The requests of each vertex, the oldest first."""
    servable: dict[str, None] = field(default_factory=dict)
    """Vertices with requests that wait although a slot is open to them; nothing depends on the order."""

    def put(self, age: Age, attempt: AttemptId) -> None:
        """Count an attempt that is in an open slot."""
        insort(self.by_vertex.setdefault(attempt.vertex_id, []), age)
        counts = self.by_index.setdefault(attempt.subtask_index, {})
        counts[age] = counts.get(age, 0) + 1

    def take(self, age: Age, attempt: AttemptId) -> None:
        """Count one no more."""
        ages = self.by_vertex[attempt.vertex_id]
        _discard(ages, age)
        if not ages:
            del self.by_vertex[attempt.vertex_id]
        counts = self.by_index[attempt.subtask_index]
        counts[age] -= 1
        if not counts[age]:
            del counts[age]
            if not counts:
                del self.by_index[attempt.subtask_index]

    def holds(self, vertex_id: str, age: Age) -> bool:
        """Tell whether a live attempt of the vertex is in an open slot."""
        ages = self.by_vertex.get(vertex_id, [])
        at = bisect_left(ages, age)
        return at < len(ages) and ages[at] == age

    def is_open_to(self, vertex_id: str) -> bool:
        """Tell whether there is a slot that a subtask of the vertex may join."""
        return len(self.by_vertex.get(vertex_id, ())) < len(self.ages)

    def reconsider(self, vertex_id: str) -> None:
        """Look after a change whether requests of a vertex can be served."""
        if vertex_id in self.waiting and self.is_open_to(vertex_id):
            self.servable[vertex_id] = None
        else:
            self.servable.pop(vertex_id, None)

    def first_open(self, vertex_id: str) -> int:
        """Return where in `ages` the first slot stands that holds no attempt of the vertex; the length of `ages` if none does."""
        held = self.by_vertex.get(vertex_id, [])
        # Both are ordered, and the one is part of the other: up to the first slot without the vertex they are the same.
        low, high = 0, len(held)
        while low < high:
            middle = (low + high) // 2
            if held[middle] == self.ages[middle]:
                low = middle + 1
            else:
                high = middle
        return low


@dataclass(slots=True)
class SharedSlots:
    """All groups with an open slot or a request that waits."""

    groups: dict[GroupKey, SharingGroup] = field(default_factory=dict)
    servable: dict[GroupKey, None] = field(default_factory=dict)
    """Groups with requests that an open slot can serve; nothing depends on the order."""

    @classmethod
    def of(
        cls, pending: Mapping[str, SlotRequest], allocations: Mapping[str, Allocation], task_managers: Mapping[str, TaskManagerSlots]
    ) -> "SharedSlots":
        """Return the index of a state."""
        made = cls()
        for allocation_id, request in pending.items():
            made.add_request(allocation_id, request)
        for allocation_id, allocation in allocations.items():
            if is_open(allocation, task_managers):
                made.add_slot(allocation_id, allocation)
        return made

    def add_slot(self, allocation_id: str, allocation: Allocation) -> None:
        """Open a slot to the group of its attempts."""
        key, age = allocation.group_key, age_of(allocation_id)
        group = self.groups.setdefault(key, SharingGroup())
        insort(group.ages, age)
        for attempt in allocation.attempts:
            group.put(age, attempt)
        self._reconsider(key, group, group.waiting)

    def remove_slot(self, allocation_id: str, allocation: Allocation) -> None:
        """Close a slot."""
        key, age = allocation.group_key, age_of(allocation_id)
        group = self.groups[key]
        _discard(group.ages, age)
        for attempt in allocation.attempts:
            group.take(age, attempt)
        self._reconsider(key, group, group.waiting)

    def join(self, allocation_id: str, allocation: Allocation, attempt: AttemptId) -> None:
        """Take note that an attempt has joined those in an open slot."""
        group = self.groups[allocation.group_key]
        group.put(age_of(allocation_id), attempt)
        self._reconsider(allocation.group_key, group, (attempt.vertex_id,))

    def leave(self, allocation_id: str, allocation: Allocation, attempt: AttemptId) -> None:
        """Take note that an attempt has left others in an open slot."""
        group = self.groups[allocation.group_key]
        group.take(age_of(allocation_id), attempt)
        self._reconsider(allocation.group_key, group, (attempt.vertex_id,))

    def add_request(self, allocation_id: str, request: SlotRequest) -> None:
        """Add a request to the index, if it is of a group."""
        if request.slot_sharing_group:
            group = self.groups.setdefault(request.group_key, SharingGroup())
            group.waiting.setdefault(request.attempt.vertex_id, OrderedDict())[allocation_id] = request.attempt
            self._reconsider(request.group_key, group, (request.attempt.vertex_id,))

    def remove_request(self, allocation_id: str, request: SlotRequest) -> None:
        """Take note that a request waits no more."""
        if request.slot_sharing_group:
            group, vertex_id = self.groups[request.group_key], request.attempt.vertex_id
            del group.waiting[vertex_id][allocation_id]
            if not group.waiting[vertex_id]:
                del group.waiting[vertex_id]
            self._reconsider(request.group_key, group, (vertex_id,))

    def _reconsider(self, key: GroupKey, group: SharingGroup, vertex_ids: Iterable[str]) -> None:
        for vertex_id in vertex_ids:
            group.reconsider(vertex_id)
        if group.servable:
            self.servable[key] = None
        else:
            self.servable.pop(key, None)
        if not group.ages and not group.waiting:
            del self.groups[key]

    def validate(
        self, pending: Mapping[str, SlotRequest], allocations: Mapping[str, Allocation], task_managers: Mapping[str, TaskManagerSlots]
    ) -> None:
        """Compare the index with the one that follows from the state."""
        expected = SharedSlots.of(pending, allocations, task_managers)
        require(expected == self, "the index of shared slots is stale")


@dataclass(slots=True)
class _Choices:
    """What one decision has chosen in one group so far."""

    taken: dict[str, set[Age]] = field(default_factory=dict)
    """Slots that attempts of a vertex join by it."""
    cursors: dict[str, int] = field(default_factory=dict)
    """Up to where the slots of the group were offered to a vertex."""
    added: dict[Age, AttemptId] = field(default_factory=dict)
    """Slots that the group gets by it, and for whom they were asked for."""


class SharePicker:
    """The choices of one decision, laid over the state until their events are applied."""

    def __init__(self, shared: SharedSlots) -> None:
        """Begin with the open slots of a state."""
        self._shared = shared
        self._choices: dict[GroupKey, _Choices] = {}
        self._served: set[str] = set()

    def is_served(self, allocation_id: str) -> bool:
        """Tell whether a request gets a slot of its own by this decision, or a place in another one."""
        return allocation_id in self._served

    def add(self, allocation_id: str, request: SlotRequest) -> None:
        """Take note that a request gets a slot of its own, which its group may share."""
        self._served.add(allocation_id)
        if request.slot_sharing_group:
            self._choices.setdefault(request.group_key, _Choices()).added[age_of(allocation_id)] = request.attempt

    def serve(self) -> Iterator[tuple[str, str]]:
        """Yield requests that can join a slot, and which one: of the state, or of what was added by this decision."""
        keys = sorted({*self._shared.servable, *(key for key, choices in self._choices.items() if choices.added)})
        for key in keys:
            for waiting in self._shared.groups[key].waiting.values():
                yield from self._serve(key, waiting)

    def _serve(self, key: GroupKey, waiting: Mapping[str, AttemptId]) -> Iterator[tuple[str, str]]:
        for allocation_id, attempt in waiting.items():
            if allocation_id not in self._served:
                joined = self.serve_one(allocation_id, key, attempt)
                if joined is None:
                    return
                yield allocation_id, joined

    def serve_one(self, allocation_id: str, key: GroupKey, attempt: AttemptId) -> str | None:
        """Choose a slot for the attempt of a request to join; None: none of the group is open to it."""
        joined = self.pick(key, attempt.vertex_id, attempt.subtask_index)
        if joined is not None:
            self._served.add(allocation_id)
        return joined

    def pick(self, key: GroupKey, vertex_id: str, subtask_index: int) -> str | None:
        """Choose a slot for a subtask to join; None: none of the group is open to it."""
        group = self._shared.groups.get(key) or SharingGroup()
        choices = self._choices.setdefault(key, _Choices())
        age = self._of_same_index(group, choices, vertex_id, subtask_index) or self._oldest(group, choices, vertex_id)
        if age is None:
            return None
        choices.taken.setdefault(vertex_id, set()).add(age)
        return age[1]

    def _of_same_index(self, group: SharingGroup, choices: _Choices, vertex_id: str, subtask_index: int) -> Age | None:
        """Return the oldest slot in which an attempt of the same index is."""
        fitting = (age for age in group.by_index.get(subtask_index, ()) if self._is_open_to(group, choices, vertex_id, age))
        return min(fitting, default=None)

    def _oldest(self, group: SharingGroup, choices: _Choices, vertex_id: str) -> Age | None:
        cursor = choices.cursors.get(vertex_id)
        at = group.first_open(vertex_id) if cursor is None else cursor
        while at < len(group.ages) and not self._is_open_to(group, choices, vertex_id, group.ages[at]):
            at += 1
        choices.cursors[vertex_id] = at  # A slot that a vertex has taken or cannot have stays so within a decision.
        if at < len(group.ages):
            return group.ages[at]
        taken = choices.taken.get(vertex_id, ())
        return next((age for age, attempt in choices.added.items() if attempt.vertex_id != vertex_id and age not in taken), None)

    @staticmethod
    def _is_open_to(group: SharingGroup, choices: _Choices, vertex_id: str, age: Age) -> bool:
        return age not in choices.taken.get(vertex_id, ()) and not group.holds(vertex_id, age)
