"""The log's time (P20): how it continues under one leader, and over a change of leader. Clocks are read by the caller.

No single clock moves it, whether a broker's or a master's. What a process saw pass counts by its own monotonic clock. What passed before
counts only as far as two other clocks say so: Kafka's stamps, of one partition, and the wall clock of the master that begins to lead.
"""

from dataclasses import dataclass, field
from typing import Final

from eventflink.leadership.acceptance import Acceptance

SLEW_DIVISOR: Final = 10


@dataclass(slots=True)
class LogClock:
    """The clock of a leader, in milliseconds since 1970: it continues from the last decision, and never goes back.

    It runs at the pace of one monotonic clock, and is drawn towards the wall clock by at most a tenth of the time that passes, so that one
    wall clock that is a year ahead neither expires everything nor freezes time.
    """

    now_ms: int
    monotonic_ms: int
    unslewed_ms: int = 0
    """Time that passed and was too short to be drawn by a tenth of it: short steps are drawn together."""
    began_ms: int = field(init=False)
    """When this master began to lead, by this clock: a grant is dated by the decision before it, which may be long ago."""

    def __post_init__(self) -> None:
        self.began_ms = self.now_ms

    def read(self, monotonic_ms: int, wall_ms: int) -> int:
        """Return the time at these readings."""
        passed_ms = max(0, monotonic_ms - self.monotonic_ms)
        if passed_ms:
            limit_ms, self.unslewed_ms = divmod(passed_ms + self.unslewed_ms, SLEW_DIVISOR)
            drawn_ms = max(-limit_ms, min(limit_ms, wall_ms - (self.now_ms + passed_ms)))
            self.now_ms += passed_ms + drawn_ms
            self.monotonic_ms = monotonic_ms
        return self.now_ms


@dataclass(slots=True)
class LogSightings:
    """When this process first saw the last accepted record of the log, by its monotonic clock; kept for as long as the process lives."""

    _last: tuple[int, int] | None = None
    """Epoch and sequence of that record; None: the log was not read yet."""
    _seen_ms: int = 0
    _unseen_ms: int | None = None
    """For how long it may have been there before; None: for any time, for it was there when this process first read the log."""

    def rebuilt(self, acceptance: Acceptance, now_ms: int) -> None:
        """Take the end of a state that was folded anew: what is new in it was written since this process last saw the log."""
        last = (acceptance.epoch, acceptance.sequence)
        if last != self._last:
            self._unseen_ms = None if self._last is None else now_ms - self._seen_ms
            self._last, self._seen_ms = last, now_ms

    def followed(self, acceptance: Acceptance, now_ms: int) -> None:
        """Take a record that was accepted while the log was followed: it was written just now."""
        self._last, self._seen_ms, self._unseen_ms = (acceptance.epoch, acceptance.sequence), now_ms, 0

    def silence_ms(self, stamped_ms: int, wall_ms: int, now_ms: int) -> int:
        """Return for how long nobody has decided: as long as this process saw, and before that what both clocks say, if it is possible.

        `stamped_ms` and `wall_ms` are what Kafka's stamps and a wall clock say of the whole silence; either may be any number.
        """
        seen_ms = max(0, now_ms - self._seen_ms) if self._last is not None else 0
        unseen_ms = max(0, min(stamped_ms, wall_ms) - seen_ms)
        return seen_ms + (unseen_ms if self._unseen_ms is None else min(unseen_ms, self._unseen_ms))
