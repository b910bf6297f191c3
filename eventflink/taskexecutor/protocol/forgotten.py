"""What an instance knows of the attempts that it has forgotten: enough to start none of them a second time.

`attempts.py` remembers those that ended last. Of all before them the newest allocation is kept. Allocation ids count up, and each is of one
slot, so what is deployed under a newer one was never heard of. What is deployed under an older one may be a copy of what has ended, and is
refused. Genuine deployments are hardly ever hit by that: one that is sent again is known, and one that comes late counts as forgotten only
if its slot was asked for before that of an attempt behind which as many others have ended as are remembered. The leader then asks for
another slot at once, under a new id.

Attempts that share a slot join its allocation for as long as one is in it, however old that is. So for the allocation that had a slot last,
the newest forgotten attempt of each subtask is kept as well: the attempts of a subtask count up, too. The leader gives the slot to another
allocation only when the last attempt of this one has ended; nobody joins it after that. So what is kept is bounded by the subtasks of as
many jobs as there are slots.
"""

from dataclasses import dataclass, field

from eventflink.model.allocations import Age, age_of
from eventflink.model.attempts import AttemptId, SubtaskId


def _subtask_of(attempt: AttemptId) -> SubtaskId:
    return SubtaskId(attempt.job_id, attempt.vertex_id, attempt.subtask_index)


@dataclass(slots=True)
class ForgottenAttempts:
    """The attempts that one instance has forgotten."""

    _newest: Age = (0, "")
    """Of the allocations of all of them."""
    _holders: dict[int, str] = field(default_factory=dict)
    """By slot, the allocation that had it last."""
    _attempts: dict[str, dict[SubtaskId, int]] = field(default_factory=dict)
    """By those allocations, the newest forgotten attempt of each subtask."""

    def take_slot(self, slot_index: int, allocation_id: str) -> None:
        """Take note that an attempt of an allocation begins in a slot."""
        before = self._holders.get(slot_index)
        if before != allocation_id:
            self._attempts.pop(before or "", None)
            self._holders[slot_index] = allocation_id
            self._attempts[allocation_id] = {}

    def add(self, attempt: AttemptId, allocation_id: str) -> None:
        """Forget an attempt; of one that was only cancelled here, and never deployed, nothing is kept."""
        self._newest = max(self._newest, age_of(allocation_id))
        if (of_holder := self._attempts.get(allocation_id)) is not None:
            subtask = _subtask_of(attempt)
            of_holder[subtask] = max(of_holder.get(subtask, 0), attempt.attempt)

    def may_have(self, attempt: AttemptId, allocation_id: str) -> bool:
        """Tell whether an attempt that is deployed, and is not known, may be one of them."""
        of_holder = self._attempts.get(allocation_id)
        if of_holder is not None:
            return attempt.attempt <= of_holder.get(_subtask_of(attempt), 0)
        return age_of(allocation_id) <= self._newest
