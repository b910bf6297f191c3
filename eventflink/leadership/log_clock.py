"""The clock of the log (P20): time continues from the last decision, at the pace of one monotonic clock.

It is drawn towards the wall clock by at most a tenth of the time that passes, so that one wall clock that is a year ahead
neither expires everything nor freezes time. How long nobody decided is measured by Kafka's timestamps of the last record and
of the new leader's grant. Clocks are read by the caller.
"""

from dataclasses import dataclass, field

SLEW_DIVISOR = 10


@dataclass(slots=True)
class LogClock:
    """Milliseconds since 1970, never going back."""

    now_ms: int
    monotonic_ms: int
    unslewed_ms: int = 0
    """Time that passed and was too short to be drawn by a tenth of it: short steps are drawn together."""
    began_ms: int = field(init=False)
    """When this master began to lead, by this clock: a grant is dated by the decision before it, which may be long ago."""

    def __post_init__(self) -> None:
        """Remember the beginning."""
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
