"""What the children of a process leave behind: processes of their own, also those that took a session of their own or became daemons.

A process that adopts orphans (`adopt_orphans`; Linux calls it a child subreaper, PR_SET_CHILD_SUBREAPER) becomes the parent of every
descendant whose own parent has ended, whatever sessions and groups they made. So what was left behind is found among its children, and
what that leaves behind in turn is found there as well. Only Linux has it: elsewhere nothing is adopted, and nothing is found.
"""

import contextlib
import ctypes
import logging
import os
import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from eventflink.processes import LIBC

logger = logging.getLogger(__name__)

_PR_SET_CHILD_SUBREAPER: Final = 36
_POLL_S: Final = 0.002
_CHILDREN: Final = "/proc/self/task/{}/children"


def adopt_orphans() -> None:
    """Become the parent of every descendant whose parent ends; a child that is forked afterwards has to ask for itself.

    Raises:
        OSError: the kernel refused.

    """
    if LIBC is not None and LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        error_number = ctypes.get_errno()
        raise OSError(error_number, os.strerror(error_number))


def reap_orphans(known: Collection[int]) -> None:
    """Let the processes go that have ended among the children of this process that are not known: until then others take them for alive."""
    for process_id in children():
        if process_id not in known:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process_id, os.WNOHANG)


def kill_left_behind(known: Collection[int], is_spared: Callable[[int], bool], timeout_s: float) -> bool:
    """Kill and reap the children of this process that are not known, and what they leave behind in turn; tell whether none is left.

    Args:
        known: process ids of the children that it started itself.
        is_spared: tells of a process id whether it is to live although nobody here knows it.
        timeout_s: how long it may take: a process that forks as fast as it is killed has no end, nor has one that the kernel holds.

    """
    deadline = time.monotonic() + timeout_s
    spared: set[int] = set()
    while left := [each for each in children() if each not in known and each not in spared]:
        for process_id in left:
            if is_spared(process_id):
                spared.add(process_id)
                continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(process_id, os.WNOHANG) != (0, 0):
                    logger.warning("ProcessLeftBehind process_id=%d", process_id)
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def children() -> list[int]:
    """Return the process ids of the children of this process, those that have ended and are not reaped included."""
    if LIBC is None:
        return []
    if not Path(_CHILDREN.format(os.getpid())).exists():  # A kernel that is built without it.
        import psutil  # noqa: PLC0415 - few need it

        return [child.pid for child in psutil.Process().children()]
    found: list[int] = []
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # A thread that has just ended.
            found += map(int, Path(_CHILDREN.format(thread.name)).read_text(encoding="ascii").split())
    return found


def runs_module(process_id: int, modules: Collection[str]) -> bool:
    """Tell whether a process is a Python that was started as `python … -m MODULE`, by one of these modules."""
    try:
        command = Path(f"/proc/{process_id}/cmdline").read_text(encoding="utf-8", errors="replace").split("\0")
    except OSError:  # It has ended.
        return False
    return "-m" in command[:-1] and command[command.index("-m") + 1] in modules
