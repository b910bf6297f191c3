"""How many slots each named queue of jobs holds, and which queue is next: by quota, then by weight.

A queue that holds less than its nominal quota comes before all that have theirs, and of several the one that has least of it. Of those
that borrow the one comes first that borrows least for its weight. No queue holds more than its quota and its borrowing limit. Where no
queues are configured all jobs are in one, without a limit, and nothing is counted. All of this follows from the configured queues and the
slots that are taken: it is an index, nothing of it is stored. Which request of a queue is next is in `slot_requests.py`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from eventflink.master.canonical import require
from eventflink.master.slots import Allocation, TaskManagerSlots
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_queues import DEFAULT_QUEUE, MAX_QUOTA, NOMINAL_QUOTA, JobQueue, counted_in

_SCALE: Final = MAX_QUOTA**2
"""Two fractions whose denominators are quotas or weights differ by at least one part of this, so whole numbers keep their order."""

Standing = tuple[bool, int, str]
"""What queues are ordered by: whether it borrows, how much of its quota it has or how much it borrows for its weight, and its name."""

_SHOWN: Final = 3
"""So many queues are named where there are more."""

_UNCONFIGURED: Final = JobQueue(DEFAULT_QUEUE, 0)


@dataclass(slots=True)
class QueueShares:
    """The configured queues, and how many slots each holds."""

    defined: Mapping[str, JobQueue] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    """Slots that are taken, by the queue of who has them; of a queue that has none it is left out."""
    leaving: dict[str, int] = field(default_factory=dict)
    """Those of them that another queue takes back."""
    awaited: dict[str, int] = field(default_factory=dict)
    """The same, by the queue that takes them back."""

    @classmethod
    def of(
        cls, defined: Mapping[str, JobQueue], allocations: Mapping[str, Allocation], task_managers: Mapping[str, TaskManagerSlots]
    ) -> "QueueShares":
        """Return what follows from a state."""
        made = cls(defined)
        for held in task_managers.values() if defined else ():
            for slot in held.slots:
                if slot.allocation_id:
                    made.count(allocations[slot.allocation_id], 1)
        return made

    def name_of(self, queue: str) -> str:
        """Return the queue in which a job counts that names this one."""
        return counted_in(queue, self.defined)

    def queue_of(self, name: str) -> JobQueue:
        """Return what is configured of a queue in which jobs count."""
        return self.defined.get(name, _UNCONFIGURED)

    def count(self, allocation: Allocation, sign: int) -> None:
        """Count the slot of an allocation, or with -1 count it no more; without queues nobody asks."""
        if not self.defined:
            return
        name = self.name_of(allocation.queue)
        _add(self.held, name, sign)
        if allocation.reclaimed_for:
            _add(self.leaving, name, sign)
            _add(self.awaited, self.name_of(allocation.reclaimed_for), sign)

    def held_by(self, name: str) -> int:
        """Return how many slots a queue holds."""
        return self.held.get(name, 0)

    def room_of(self, name: str) -> int | None:
        """Return how many slots a queue may hold beyond those that it holds; None: all that there are."""
        limit = self.queue_of(name).limit
        return None if limit is None else max(0, limit - self.held_by(name))

    def is_full(self, name: str) -> bool:
        """Tell whether a queue holds as many slots as it may."""
        return self.room_of(name) == 0

    def standing_of(self, name: str, held: int) -> Standing:
        """Return what a queue that holds so many slots is ordered by; the smallest is next."""
        queue = self.queue_of(name)
        if held < queue.nominal_quota:
            return False, held * _SCALE // queue.nominal_quota, name
        return True, (held - queue.nominal_quota) * _SCALE // queue.weight, name

    def describe(self, name: str, waiting: Collection[str]) -> str:
        """Return why a queue waits for slots: because of its limit, or of whom; `waiting` are the queues that wait for some."""
        queue, held = self.queue_of(name), self.held_by(name)
        quota = queue.nominal_quota
        if queue.limit is not None and held >= queue.limit:
            return f"queue '{name}' holds {held} slots, as many as it may: its quota is {quota}, and it may borrow {queue.borrowing_limit}"
        said = f"all slots with room are taken; queue '{name}' holds {held}, and its quota is {quota}"
        if held < quota:
            borrowed = {other: slots - self.queue_of(other).nominal_quota for other, slots in self.held.items()}
            others = [
                f"'{other}' borrows {borrowed[other]}" for other in sorted(borrowed, key=lambda o: (-borrowed[o], o)) if borrowed[other] > 0
            ]
            return f"{said}; {_some(others)}" if others else said
        standing = self.standing_of(name, held)
        ahead = sorted(before for other in waiting if (before := self.standing_of(other, self.held_by(other))) < standing)
        others = [f"'{other}'" for *_, other in ahead if not self.is_full(other)]
        return f"{said}; before it {'comes' if len(others) == 1 else 'come'} {_some(others)}" if others else said

    def validate(
        self, defined: Mapping[str, JobQueue], allocations: Mapping[str, Allocation], task_managers: Mapping[str, TaskManagerSlots]
    ) -> None:
        """Compare it with what follows from the state."""
        require(QueueShares.of(defined, allocations, task_managers) == self, "how many slots the queues hold is stale")


def find_fault_of_queue(graph: JobGraph, configured: Sequence[JobQueue]) -> str:
    """Return what is wrong with the queue that a job names, or nothing: where no queues are configured, any is as good as another."""
    names = {DEFAULT_QUEUE, *(queue.name for queue in configured)}
    if not configured or not graph.queue or graph.queue in names:
        return ""
    known = ", ".join(sorted(names))
    return f"queue not found: '{graph.queue}'; known: {known}; name one of these, or configure queues.{graph.queue}.{NOMINAL_QUOTA}"


def _add(counts: dict[str, int], name: str, slots: int) -> None:
    count = counts.get(name, 0) + slots
    if count:
        counts[name] = count
    else:
        del counts[name]


def _some(others: Sequence[str]) -> str:
    more = [f"{len(others) - _SHOWN} more"] if len(others) > _SHOWN else []
    *first, last = [*others[:_SHOWN], *more]
    return f"{', '.join(first)} and {last}" if first else last
