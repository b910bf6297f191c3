"""How busy the host is for one process: of the time in which its threads wanted a core, the part in which they had one.

The kernel counts both for each thread (`/proc/<pid>/task/<tid>/schedstat`: nanoseconds on a core, and ready to run without one).
The rule: where nothing is counted, nothing is claimed, and the share is 1.
"""

import contextlib
from pathlib import Path
from typing import Final

LEAST: Final = 0.1
"""Less is never returned: who waits by this measure waits ten times as long at most."""

_LEAST_WANTED_NS: Final = 10_000_000
"""Who wanted a core for less than that wanted none."""


class CoreShare:
    """The share of one process, since it was asked for last."""

    def __init__(self, process_id: int) -> None:
        """Begin to count."""
        self._tasks = Path(f"/proc/{process_id}/task")
        self._known: dict[str, tuple[int, int]] = {}
        self.take()

    def take(self) -> float:
        """Return the share, from `LEAST` to 1, since this was called last."""
        now = self._read()
        ran = waited = 0
        for thread_id, (ran_ns, waited_ns) in now.items():
            before = self._known.get(thread_id, (0, 0))
            ran += ran_ns - before[0]
            waited += waited_ns - before[1]
        self._known = now
        return max(LEAST, ran / (ran + waited)) if ran + waited >= _LEAST_WANTED_NS else 1.0

    def _read(self) -> dict[str, tuple[int, int]]:
        """Return how long each thread had a core, and how long it waited for one, in nanoseconds."""
        found = {}
        try:
            threads = list(self._tasks.iterdir())
        except OSError:  # The process has ended.
            threads = []
        for thread in threads:
            # It may end meanwhile; and there are systems that count nothing.
            with contextlib.suppress(OSError, ValueError):
                ran_ns, waited_ns, _ = (thread / "schedstat").read_text(encoding="ascii").split()
                found[thread.name] = int(ran_ns), int(waited_ns)
        return found
