"""Up to when a leader has decided everything that was there: answers are forgotten by that, and never while a request waits (P8).

A request may wait for longer than answers are kept, while a cluster is down. How old it is then, no clock could tell: it is decided, and
finds the answer to the one that it repeats, for nothing has expired that may be asked for. A time limit, too, counts only up to where all
reports are decided: one of them may say that the task has ended (P22).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from eventflink.events.topics import Topic
from eventflink.leadership.intake import Intake
from eventflink.master.requests import Cursor

REQUESTS: Final = (Topic.SUBMISSIONS, Topic.COMMANDS)
"""The topics whose records are answered."""
REPORTS: Final = (Topic.TASKMANAGERS,)


@dataclass(slots=True)
class InputProgress:
    """One leadership's, with some topics. Times are the log's, in milliseconds."""

    intake: Intake
    topics: tuple[Topic, ...]
    decided_until_ms: int = 0
    """Everything that was there at this time is decided."""
    _mark: tuple[int, dict[Topic, int]] | None = None
    """A later time, and how far the cursors must come until everything is decided that was there then."""

    def look(self, cursors: Mapping[str, Cursor], now_ms: int) -> int:
        """Take how far the cursors have come by now; return `decided_until_ms`."""
        ends = self._ends()
        if ends is not None and _have_passed(cursors, ends):
            self.decided_until_ms, self._mark = now_ms, None
        elif self._mark is not None and _have_passed(cursors, self._mark[1]):
            self.decided_until_ms, self._mark = self._mark[0], None
        if self._mark is None and ends is not None:
            self._mark = (now_ms, ends)
        return self.decided_until_ms

    def _ends(self) -> dict[Topic, int] | None:
        """Return behind which offsets nothing was there yet; None: more than was read is there, for a topic is paused."""
        if any(topic in self.intake.is_paused for topic in self.topics):
            return None
        found = self.intake.topics
        return {topic: max(self.intake.inboxes[topic].last_offset + 1, found[topic].high_offset) for topic in self.topics}


def _have_passed(cursors: Mapping[str, Cursor], ends: Mapping[Topic, int]) -> bool:
    return all(topic in cursors and cursors[topic].next_offset >= end for topic, end in ends.items())
