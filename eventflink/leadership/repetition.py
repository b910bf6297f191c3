"""What a new leader says again because nobody may have heard it: first what is to be done, then the answers of the last decisions.

It leaves in portions, so that the first decisions do not wait for all of it (L3), and nothing of it before the decisions that it follows
from were accepted (P4).
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from eventflink.leadership.acceptance import Acceptance
from eventflink.leadership.fold import Fold
from eventflink.leadership.leader import Released

EFFECTS_PER_TURN: Final = 128
EFFECTS_PER_BATCH: Final = 64


@dataclass(slots=True)
class Repetition:
    """What waits to be said again."""

    _waiting: deque[Released] = field(default_factory=deque)

    def __bool__(self) -> bool:
        """Tell whether something waits."""
        return bool(self._waiting)

    def add(self, released: Released) -> None:
        """Queue effects, however many, in batches."""
        effects = released.effects
        for first in range(0, len(effects), EFFECTS_PER_BATCH):
            self._waiting.append(replace(released, effects=effects[first : first + EFFECTS_PER_BATCH]))

    def extend(self, replies: Iterable[Released]) -> None:
        """Queue answers behind everything else."""
        self._waiting.extend(replies)

    def release(self, release: Callable[[Released], None], acceptance: Acceptance) -> bool:
        """Have one turn's portion released; tell whether more may leave."""
        count = 0
        while self._may_leave(acceptance) and count < EFFECTS_PER_TURN:
            released = self._waiting.popleft()
            count += len(released.effects)
            release(released)
        return self._may_leave(acceptance)

    def _may_leave(self, acceptance: Acceptance) -> bool:
        """Tell whether what comes next follows from accepted decisions (P4)."""
        if not self._waiting:
            return False
        released = self._waiting[0]
        return released.epoch < acceptance.epoch or released.sequence <= acceptance.sequence


def recent_replies(fold: Fold) -> list[Released]:
    """Return the answers of the last decisions before this leadership: their leader may have crashed before it sent them."""
    return [Released(r.offset, r.epoch, r.sequence, r.leader_id, [r.reply], None) for r in fold.recent_replies]
