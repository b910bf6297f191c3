"""The port for what measures a master at work: it is notified of what happens, and changes nothing.

The calls come from the loop that decides, many thousand times a second: none may wait, or raise. Clocks are the observer's own, for
nothing here reads one.
"""

from collections.abc import Sequence

from eventflink.master.effects import Effect
from eventflink.model.statuses import Role


class Observer:
    """The notifications. This class ignores them: it serves a master that is not measured."""

    def became(self, role: Role, epoch: int) -> None:
        """Take note of another role, at an accepted epoch; as LEADER a leadership begins."""

    def ended(self, reason: str) -> None:
        """Take note that the leadership is over, if there was one."""

    def deciding(self) -> None:
        """Take note that the leader looks for something to decide."""

    def decided(self) -> None:
        """Take note that it made a decision, which is appended now."""

    def accepted(self, event_names: Sequence[str], *, is_own: bool) -> None:
        """Take note of an accepted decision: an own one is the oldest of those that were decided and not accepted yet."""

    def released(self, effects: Sequence[Effect]) -> None:
        """Take note of effects that leave."""
