"""Which free slot a request gets: slots by profile and by how many their TaskManager has left, and one decision's choices among them.

Spread: from a TaskManager that is ready if there is one, and of those with the most free slots, whatever its profile. Packed: of the
smallest profile that has room, from a TaskManager that is ready if there is one, and of those with the fewest. What a choice costs depends
on how many different profiles and counts there are, not on how many TaskManagers. Choices change nothing of the state: they are laid over
it until their events are applied.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from eventflink.master.slots import TaskManagerSlots
from eventflink.model.resources import ResourceProfile, fits, sort_key_of

Levels = dict[int, dict[str, None]]
"""TaskManagers by how many free slots they have, none with zero; of a level, who came to it first stands first."""


Place = tuple[str, str, int]
"""(TaskManager, instance, slot)."""


@dataclass(slots=True)
class FreeSlots:
    """TaskManagers with free slots, by what the slots have and by how many are free; none that is blocked."""

    by_free_count: Levels = field(default_factory=dict)
    """Those whose slots have no profile."""
    by_profile: dict[ResourceProfile, Levels] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Tell whether there is any."""
        return bool(self.by_free_count) or bool(self.by_profile)

    def offered(self) -> Iterator[tuple[ResourceProfile | None, Levels]]:
        """Yield the TaskManagers by what their slots have."""
        if self.by_free_count:
            yield None, self.by_free_count
        yield from self.by_profile.items()

    def count(self, profile: ResourceProfile | None, task_manager_id: str, before: int, after: int) -> None:
        """Move a TaskManager from one level to another."""
        if profile is None:
            _move(self.by_free_count, task_manager_id, before, after)
            return
        levels = self.by_profile.setdefault(profile, {})
        _move(levels, task_manager_id, before, after)
        if not levels:
            del self.by_profile[profile]


def _move(levels: Levels, task_manager_id: str, before: int, after: int) -> None:
    if before:
        level = levels[before]
        del level[task_manager_id]
        if not level:
            del levels[before]
    if after:
        # Ordered by links: a plain dictionary is walked from its beginning, over all that left it, to find its first member.
        levels.setdefault(after, OrderedDict())[task_manager_id] = None


class _Pool:
    """The TaskManagers of one profile that are ready, or are not, as they stand after the choices made so far."""

    def __init__(self, levels: Levels, *, is_ready: bool) -> None:
        self.is_ready = is_ready
        self._levels = levels
        self.counts = {count: len(members) for count, members in levels.items()}
        """How many TaskManagers each level has."""
        self._members: dict[int, Iterator[str]] = {}
        self._arrived: dict[int, deque[str]] = {}

    def take(self, count: int) -> str:
        """Take a slot of the TaskManager that is first in its level; it goes to the end of the level below."""
        members = self._members.get(count)
        if members is None:
            members = self._members[count] = iter(self._levels.get(count, ()))
        task_manager_id = next(members, "") or self._arrived[count].popleft()
        self.counts[count] -= 1
        if not self.counts[count]:
            del self.counts[count]
        if count > 1:
            self.counts[count - 1] = self.counts.get(count - 1, 0) + 1
            self._arrived.setdefault(count - 1, deque()).append(task_manager_id)
        return task_manager_id


class SlotPicker:
    """The choices of one decision."""

    def __init__(self, ready: FreeSlots, unready: FreeSlots, task_managers: Mapping[str, TaskManagerSlots], *, spread: bool) -> None:
        """Begin with the free slots of a state: of TaskManagers that are ready, and of those that are not."""
        offered = [(profile, _Pool(levels, is_ready=free is ready)) for free in (ready, unready) for profile, levels in free.offered()]
        # Slots without a profile come first: only a request that asks for nothing has a use for them. Of equal ones those that are ready
        # stay first.
        self._pools = sorted(offered, key=lambda pair: sort_key_of(pair[0]))
        self._task_managers = task_managers
        self._spread = spread
        self._fitting: dict[ResourceProfile | None, list[_Pool]] = {}
        self._slots: dict[str, Iterator[int]] = {}

    def has_room(self, asked: ResourceProfile | None) -> bool:
        """Tell whether a slot is left for a request."""
        return any(pool.counts for pool in self._pools_for(asked))

    def pick(self, asked: ResourceProfile | None) -> Place | None:
        """Take a slot; None: nothing that is left fits."""
        offering = [pool for pool in self._pools_for(asked) if pool.counts]
        if not offering:
            return None
        if self._spread:
            chosen = max(offering, key=lambda pool: (pool.is_ready, max(pool.counts)))  # The first of equal ones.
            task_manager_id = chosen.take(max(chosen.counts))
        else:
            task_manager_id = offering[0].take(min(offering[0].counts))
        held = self._task_managers[task_manager_id]
        slots = self._slots.get(task_manager_id)
        if slots is None:
            slots = self._slots[task_manager_id] = iter(held.free)
        return task_manager_id, held.instance_id, next(slots)

    def _pools_for(self, asked: ResourceProfile | None) -> list[_Pool]:
        pools = self._fitting.get(asked)
        if pools is None:
            pools = self._fitting[asked] = [pool for profile, pool in self._pools if fits(profile, asked)]
        return pools
