"""Watches whether a TaskExecutor's directories can be written to, in a thread of its own: a disk that hangs holds up nothing else.

Here is only when to look and what to tell; what a fault is, is `processes/disk.py`'s, what follows from it the protocol's (L7).
"""

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from eventflink.processes.disk import find_fault

INTERVAL_S: Final = 5.0

_LOGGER = logging.getLogger(__name__)


class DiskWatch:
    """Looks at once and then every five seconds, until the process ends."""

    def __init__(self, directories: Sequence[Path], min_free_bytes: int, on_change: Callable[[str], None]) -> None:
        """Prepare; `on_change` is called in the thread with what is wrong, when something begins to be, and with nothing when it ends."""
        self._directories = tuple(directories)
        self._min_free_bytes = min_free_bytes
        self._on_change = on_change
        self._fault = ""

    def start(self) -> None:
        """Look from now on."""
        threading.Thread(target=self._run, name="disk-watch", daemon=True).start()

    def look(self) -> None:
        """Look once, and tell whether all can be written to if that has changed; which directory cannot be is told of the first."""
        fault = next((fault for each in self._directories if (fault := find_fault(each, self._min_free_bytes))), "")
        if bool(fault) == bool(self._fault):
            return
        self._fault = fault
        if fault:
            _LOGGER.error("DiskUnusable fault=%s", fault)
        else:
            _LOGGER.warning("DiskUsable directories=%s", ",".join(map(str, self._directories)))
        self._on_change(fault)

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            self.look()
            pause.wait(INTERVAL_S)
