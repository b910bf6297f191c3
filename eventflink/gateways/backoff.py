"""How long to wait before the next try: ever longer, up to a bound, and never as long as everybody else.

Pure: where the random numbers come from is the caller's, so that a test holds them in its hand.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

INITIAL_S: Final = 0.1
MAX_S: Final = 2.0


def random_fraction() -> float:
    """Return a number from 0 to 1: it spreads load, and hides nothing."""
    return random.random()  # noqa: S311 - see above


@dataclass(slots=True)
class Backoff:
    """The pauses between tries: `initial_s`, doubled each time up to `max_s`; of each, a random part up to `jitter` is left out."""

    initial_s: float = INITIAL_S
    max_s: float = MAX_S
    jitter: float = 0.5
    fraction: Callable[[], float] = field(default=random_fraction, repr=False)
    _whole_s: float = 0.0

    def next_s(self) -> float:
        """Return how long to wait before the next try, in seconds."""
        self._whole_s = min(self.max_s, 2 * self._whole_s or self.initial_s)
        return self._whole_s * (1 - self.jitter * self.fraction())

    def reset(self) -> None:
        """Begin with the shortest pause again: something worked."""
        self._whole_s = 0.0
