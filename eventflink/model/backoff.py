"""The pauses between tries of something that failed: each twice as long as the one before, up to a bound.

A value without a clock: who waits, and by which clock, is the caller's business, and so is the unit. Random numbers are the caller's too.
What doubles as part of a cluster's state, and so by the log, is a rule of the master instead (`master/workers.py`).
"""

from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

MAX_JITTER: Final = 0.5
"""The largest part of a pause that is left out."""

T = TypeVar("T", int, float)


@dataclass(slots=True)
class Backoff(Generic[T]):
    """The next pause, of a sequence that begins with `first` and never exceeds `longest`.

    >>> pauses = Backoff(1, 5)
    >>> [pauses.next() for _ in range(4)]
    [1, 2, 4, 5]
    """

    first: T
    longest: T
    _pause: T = field(init=False)

    def __post_init__(self) -> None:
        self._pause = self.first

    def next(self) -> T:
        """Return the pause before the next try."""
        pause = min(self._pause, self.longest)
        self._pause = 2 * pause
        return pause

    def next_jittered(self, fraction: float) -> float:
        """Return the next pause, less up to half of it by a random `fraction` of 0 to 1: so clients do not return together."""
        return self.next() * (1 - MAX_JITTER * fraction)

    def reset(self) -> None:
        """Begin with the first pause again: something worked."""
        self._pause = self.first
