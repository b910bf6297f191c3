"""Virtual time: a queue of what happens when, in microseconds, and the clocks of processes, none of which is right.

Nothing here sleeps and nothing reads a real clock. Two events at the same time happen in the order in which they were scheduled, so a run
depends on its seed alone.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

MILLISECOND = 1_000
SECOND = 1_000_000
_MILLION = 1_000_000

Call = Callable[[], None]


class Scheduler:
    """The queue of events."""

    __slots__ = ("_count", "_queue", "now_us")

    def __init__(self) -> None:
        self.now_us = 0
        self._queue: list[tuple[int, int, Call]] = []
        self._count = 0

    def after(self, delay_us: int, call: Call) -> None:
        """Have the call made so much later."""
        self._count += 1
        heapq.heappush(self._queue, (self.now_us + max(delay_us, 0), self._count, call))

    def step(self, until_us: int) -> bool:
        """Make the next call; tell whether there was one up to that time."""
        if not self._queue or self._queue[0][0] > until_us:
            self.now_us = max(self.now_us, until_us)
            return False
        self.now_us, _, call = heapq.heappop(self._queue)
        call()
        return True


@dataclass(slots=True)
class LocalClock:
    """The two clocks of one machine: they go a little too fast or too slow, and the wall clock is wrong by as much as it likes."""

    scheduler: Scheduler
    drift_ppm: int
    """How much too fast, in millionths."""
    started_us: int
    wall_offset_ms: int

    def monotonic_ms(self) -> int:
        """Return milliseconds since some moment; never going back."""
        return self.local_us() // MILLISECOND

    def local_us(self) -> int:
        """Return the same in microseconds."""
        now_us = self.scheduler.now_us
        return self.started_us + now_us + now_us * self.drift_ppm // _MILLION

    def wall_ms(self) -> int:
        """Return milliseconds since 1970, as this machine believes."""
        return self.wall_offset_ms + self.monotonic_ms()

    def delay_us(self, local_ms: float) -> int:
        """Return how much true time passes while this clock advances by so much."""
        return int(local_ms * MILLISECOND * _MILLION) // (_MILLION + self.drift_ppm)
