"""One bound for several steps, by the monotonic clock: each is given what those before it have left."""

import math
import time
from dataclasses import dataclass
from typing import Final, Self

_LEAST_S: Final = 0.1
"""What a step has in any case, so that what ends it is an answer or its own words."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """When all of it has to be done."""

    at_s: float

    @classmethod
    def after(cls, timeout_s: float | None, began_s: float | None = None) -> Self:
        """Return the one that is `timeout_s` after `began_s`, by default after now; None: never."""
        if timeout_s is None:
            return cls(math.inf)
        return cls((time.monotonic() if began_s is None else began_s) + timeout_s)

    def left_s(self, most_s: float = math.inf) -> float:
        """Return how long a step may take that takes `most_s` at most."""
        return max(_LEAST_S, min(most_s, self.at_s - time.monotonic()))

    def is_over(self) -> bool:
        """Tell whether nothing is left."""
        return time.monotonic() > self.at_s


NEVER: Final = Deadline(math.inf)
