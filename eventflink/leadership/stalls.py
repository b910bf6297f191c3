"""Stalls that a standby notices: an input that the leader does not decide, or records of the log that do not arrive here (L1)."""

from dataclasses import dataclass, field
from typing import Final

from eventflink.leadership.acceptance import LogBehind
from eventflink.leadership.fold import Fold
from eventflink.leadership.intake import Intake

BEHIND_LEASES: Final = 10
"""A standby to which nothing of the log comes for so long, although the leader has read more of it, ends its term."""


@dataclass(slots=True)
class _Stall:
    next_offset: int
    since_ms: int


@dataclass(slots=True)
class Stalls:
    """What is stalled for one standby, and since when."""

    fold: Fold
    intake: Intake
    lease_timeout_ms: int
    leader_log_offset: int = -1
    """The last record of the log that the leader says to have read."""
    _stuck: dict[str, _Stall] = field(default_factory=dict)
    """By topic, since when the cursor has not moved although an input waits."""
    _behind: _Stall | None = None

    def new_leader(self) -> None:
        """Give a new leader time of its own to move the cursors."""
        self._stuck.clear()

    def check_progress(self, now_ms: int) -> None:
        """End the term of a standby that does not reach the offset that the leader says to have read.

        A hole is noticed by the record behind it, and behind the last record there is none: without this, a standby that missed the last
        one would not notice until the next is written.

        Raises:
            LogBehind: nothing of the log came for as long as `BEHIND_LEASES`, and something is there.

        """
        last_offset = self.fold.last_offset
        if self.leader_log_offset <= last_offset:
            self._behind = None
        elif self._behind is None or self._behind.next_offset != last_offset + 1:
            self._behind = _Stall(last_offset + 1, now_ms)
        elif now_ms - self._behind.since_ms >= BEHIND_LEASES * self.lease_timeout_ms:
            raise LogBehind(
                f"the leader has read log@{self.leader_log_offset}, and nothing came here behind log@{last_offset} "
                f"for {now_ms - self._behind.since_ms} ms"
            )

    def stuck_since(self, now_ms: int) -> int | None:
        """Return since when some input waits that the leader does not decide; only a standby at the end of the log can tell."""
        if self.leader_log_offset > self.fold.last_offset:
            self._stuck.clear()
            return None
        for topic, cursor in self.fold.master.requests.cursors.items():
            waits = self.intake.inboxes[topic].last_waiting_offset >= cursor.next_offset
            before = self._stuck.get(topic)
            if not waits:
                self._stuck.pop(topic, None)
            elif before is None or before.next_offset != cursor.next_offset:
                self._stuck[topic] = _Stall(cursor.next_offset, now_ms)
        return min((s.since_ms for s in self._stuck.values()), default=None)
