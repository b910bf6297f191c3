"""Compares the log's time with true time (P20): it advances by what really passed, and by a tenth more at most."""

from typing import Final

from eventflink.events.decision import Decision
from eventflink.leadership.acceptance import is_grant
from eventflink.testing.simulation.scheduler import MILLISECOND, Scheduler
from eventflink.testing.simulation.violations import Invariant, ViolationFound

_SLEWED: Final = 1.1
_LATE_MS: Final = 10_000
"""So long a decision may take to its place in the log, and be dated before it."""
_WRONG_WALL_MS: Final = 8 * 86_400_000
"""By more than the masters' wall clocks can be wrong, and by less than those of brokers are that have jumped."""


class LogTimeCheck:
    """How far the log's time and true time have gone on since the last leader began that had to ask clocks for what it did not see."""

    def __init__(self, scheduler: Scheduler, drift_ppm: int) -> None:
        self._scheduler = scheduler
        self._fastest = _SLEWED * (1 + 2 * drift_ppm / 1_000_000)
        self._began_us: dict[str, int] = {}
        self._start: tuple[int, int] | None = None
        """A decision: the log's time in milliseconds, and true time in microseconds."""
        self._last_us = 0

    def follows(self, name: str) -> None:
        """Take note that a process of a master follows the log, from the first time on: how long ago what it found is, it did not see."""
        self._began_us.setdefault(name, self._scheduler.now_us)

    def on_decision(self, offset: int, decision: Decision) -> None:
        """Check the time of a decision that was accepted.

        Raises:
            ViolationFound: more time would have passed than did.

        """
        now_us, at_ms = self._scheduler.now_us, decision.decided_at_ms
        if is_grant(decision):  # It has the time of the decision before it.
            return
        is_cold = decision.sequence == 1 and self._began_us.get(decision.leader_id.partition("#")[0], 0) >= self._last_us
        self._last_us = now_us
        if self._start is not None:
            start_ms, start_us = self._start
            most_ms = (now_us - start_us) / MILLISECOND * self._fastest + (_WRONG_WALL_MS if is_cold else _LATE_MS)
            if at_ms - start_ms > most_ms:
                passed_ms = (now_us - start_us) // MILLISECOND
                message = f"log@{offset} is dated {at_ms - start_ms} ms after another decision; {passed_ms} ms passed"
                raise ViolationFound(Invariant.TIME_KEEPS_PACE, message)
        if self._start is None or is_cold:
            self._start = (at_ms, now_us)
