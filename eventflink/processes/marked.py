"""Finds the processes of a fork server that is gone, and of its tasks, by a mark in their environment, and ends them.

Who adopts orphans (`left_behind.py`) needs none; but of a fork server that was killed nobody is left to adopt them. The rule: a process is
killed only where it is known when it began, so that its id cannot be another's.
"""

import contextlib
import time
from typing import Final

import psutil

MARK_VARIABLE: Final = "EVENTFLINK_TASK_PROCESSES"
"""What marks the processes of one fork server; its value is unique."""

_TIMEOUT_S: Final = 2.0
_MARKED_POLL_S: Final = 0.02


def _is_marked(process: psutil.Process, mark: str) -> bool:
    try:
        return bool(process.environ().get(MARK_VARIABLE) == mark)
    except (psutil.Error, OSError):  # It has ended, or is another user's.
        return False


def end_marked(mark: str) -> list[int]:
    """Kill all processes that have a mark, until there are none; return the process ids of those that are left after two seconds."""
    deadline_s = time.monotonic() + _TIMEOUT_S
    while strays := [process for process in psutil.process_iter() if _is_marked(process, mark)]:
        if time.monotonic() >= deadline_s:
            return [process.pid for process in strays]
        for process in strays:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(_MARKED_POLL_S)
    return []
