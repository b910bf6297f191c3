"""Ties the life of a child process to the life of the process that started it.

Only the Linux ``prctl`` call for that lives here; starting, watching and stopping children belongs to their owners. The rule this
module keeps: a child never outlives its owner, not even when the owner is killed with SIGKILL and can run no clean-up.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1

# Loaded at import: a function that runs between fork and exec must not load libraries, another thread may hold the loader's lock.
LIBC: ctypes.CDLL | None = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None


def set_parent_death_signal(number: int = signal.SIGKILL) -> None:
    """Ask the kernel to send SIGKILL, or another signal, or none (0), to the calling process when its parent dies.

    The kernel means the parent *thread*: start such children from a thread that lives as long as the owner (the main thread is best).
    On systems other than Linux there is no such call and this does nothing.

    Raises:
        OSError: the kernel refused.

    """
    if LIBC is None:
        return
    if LIBC.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0) != 0:
        error_number = ctypes.get_errno()
        raise OSError(error_number, os.strerror(error_number))


def die_with_parent() -> Callable[[], None]:
    """Return a function for ``subprocess.Popen(preexec_fn=...)`` that kills the child when the calling process dies.

    Call it in the parent (``preexec_fn=die_with_parent()``): the parent's process id is remembered here, so that a child whose parent
    died between fork and prctl ends at once instead of living on as an orphan.
    """
    parent_process_id = os.getpid()

    def tie_child_to_parent() -> None:
        set_parent_death_signal()
        if os.getppid() != parent_process_id:
            os._exit(128 + int(signal.SIGKILL))

    return tie_child_to_parent
