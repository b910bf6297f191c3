"""What a master's work amounts to: counts and latencies, written by the loop that decides and read when somebody scrapes.

Everything here is touched by that loop only, and costs it less than a microsecond for each call. It lives as long as the process, over
all its terms.
"""

import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

from eventflink.leadership.intake import TailFailed
from eventflink.leadership.leader import ApplyFailed, Deposed, LeadershipEnded
from eventflink.leadership.master_life import TurnFailed
from eventflink.leadership.ports import AppendFailed, Observer
from eventflink.master.effects import Effect
from eventflink.metrics.definitions import LATENCY_BOUNDARIES, Histogram
from eventflink.model.statuses import Role
from eventflink.processes.trace import stamp

END_REASONS: Final = (
    "Resigned",
    *(error.__name__ for error in (Deposed, LeadershipEnded, ApplyFailed, AppendFailed, TailFailed, TurnFailed)),
)
"""Why a leadership usually ends; that it never did is a number, too."""


class LeadershipMetrics(Observer):
    """Counts what the machines of `leadership/` tell."""

    def __init__(self) -> None:
        self.decide_latency = Histogram(LATENCY_BOUNDARIES)
        self.read_back_latency = Histogram(LATENCY_BOUNDARIES)
        self.decisions = 0
        self.events: Counter[str] = Counter()
        self.effects: Counter[str] = Counter()
        self.leaderships_begun = 0
        self.leaderships_ended: Counter[str] = Counter(dict.fromkeys(END_REASONS, 0))
        self._leads = False
        self._began_s = 0.0
        self._appended_s: deque[float] = deque()
        """When each decision was made that is not read back yet."""

    def became(self, role: Role, epoch: int) -> None:  # noqa: ARG002 - the port's signature
        """Count a leadership; what an earlier one left behind is void."""
        if role is not Role.LEADER:
            return
        self.leaderships_begun += 1
        self._leads = True
        self._appended_s.clear()

    def ended(self, reason: str) -> None:
        """Count the end of a leadership by its reason; it ends once."""
        if self._leads:
            self._leads = False
            self.leaderships_ended[reason] += 1

    def deciding(self) -> None:
        """Start the clock."""
        stamp("deciding")
        self._began_s = time.perf_counter()

    def decided(self) -> None:
        """Stop it, and start that of the read-back."""
        now_s = time.perf_counter()
        self.decisions += 1
        self.decide_latency.observe(now_s - self._began_s)
        self._appended_s.append(now_s)

    def accepted(self, event_names: Sequence[str], *, is_own: bool) -> None:
        """Count the events; an own decision was the oldest that was waited for."""
        for name in event_names:
            self.events[name] += 1
        if is_own and self._appended_s:
            self.read_back_latency.observe(time.perf_counter() - self._appended_s.popleft())

    def released(self, effects: Sequence[Effect]) -> None:
        """Count them by what they are: a deployment by its payload."""
        for effect in effects:
            self.effects[type(getattr(effect, "payload", effect)).__name__] += 1
