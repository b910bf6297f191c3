"""How the host's Spark ended: the file in which its supervisor says so, and the thread in which a TaskExecutor looks for it.

Only ends that nobody had asked for are here: a Spark that no TaskExecutor needs any more is nobody's concern. The rule it keeps: what is
in the file is whole, and of the Spark that ended last.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from eventflink.model.spark_ends import MAX_REASON_LENGTH, SparkEnd
from eventflink.taskexecutor.spark_pools import spark_directories

INTERVAL_S: Final = 1.0
ENDED_FILE: Final = "spark.ended"
_MAX_BYTES: Final = 16_384
_POLL_S: Final = 0.05

_LOGGER = logging.getLogger(__name__)


def note_end(runtime_directory: Path, reason: str) -> None:
    """Say that Spark has ended now.

    Raises:
        OSError: it cannot be written down.

    """
    path = runtime_directory / ENDED_FILE
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps({"ended_at_ms": time.time_ns() // 1_000_000, "reason": reason[:MAX_REASON_LENGTH]}), encoding="utf-8")
    temporary.replace(path)


def last_end(runtime_directory: Path) -> SparkEnd | None:
    """Return how Spark ended last; None: it never did by itself, or what is said of it cannot be read."""
    try:
        with (runtime_directory / ENDED_FILE).open("rb") as file:
            said = json.loads(file.read(_MAX_BYTES))
        return SparkEnd(int(said["ended_at_ms"]), str(said["reason"])[:MAX_REASON_LENGTH])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def await_end(runtime_directory: Path, since_ms: int, timeout_s: float) -> SparkEnd | None:
    """Return how Spark ended at `since_ms` or later, as soon as its supervisor has said so; None: it says nothing in time."""
    deadline = time.monotonic() + timeout_s
    while (end := last_end(runtime_directory)) is None or end.ended_at_ms < since_ms:
        if time.monotonic() >= deadline:
            return None
        time.sleep(_POLL_S)
    return end


class SparkWatch:
    """Looks every second for an end of a Spark of the host, until the process ends; what was there before is not told."""

    def __init__(self, runtime_directory: Path, on_end: Callable[[SparkEnd], None]) -> None:
        """Prepare; `on_end` is called in the thread."""
        self._runtime_directory = runtime_directory
        self._on_end = on_end
        self._known = dict(self._ends())

    def start(self) -> None:
        """Look from now on."""
        threading.Thread(target=self._run, name="spark-watch", daemon=True).start()

    def look(self) -> None:
        """Look once, and tell of the ends that were not told before, the oldest first."""
        ends = dict(self._ends())
        fresh = [(end.ended_at_ms, directory) for directory, end in ends.items() if end != self._known.get(directory)]
        self._known = ends
        for _, directory in sorted(fresh):
            end = ends[directory]
            if directory != self._runtime_directory:
                end = replace(end, reason=f"of pool '{directory.name}': {end.reason}")
            _LOGGER.error("SparkEnded ended_at_ms=%d reason=%s", end.ended_at_ms, end.reason)
            self._on_end(end)

    def _ends(self) -> Iterator[tuple[Path, SparkEnd]]:
        for directory in spark_directories(self._runtime_directory):
            if (end := last_end(directory)) is not None:
                yield directory, end

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            self.look()
            pause.wait(INTERVAL_S)
