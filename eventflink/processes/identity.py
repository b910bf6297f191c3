"""Tells a process from a later one that got the same number: by its number together with when the kernel started it.

On Linux that is the start in ticks since boot and the id of that boot, which no change of the clock touches; elsewhere it is the start by
the clock, as `psutil.Process.create_time` has it on Linux, too: a step of the clock would make every process another one. The rule: no
signal is sent to a process whose identity was not compared with the process held.
"""

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Final, NamedTuple

import psutil

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_START_FIELD: Final = 19
"""Of /proc/PID/stat, counted from the field behind the name."""


class ProcessIdentity(NamedTuple):
    """One process, for ever."""

    process_id: int
    started: str


def identify(process_id: int) -> ProcessIdentity | None:
    """Return who has this number now; None: nobody, or one that has ended and only waits to be collected."""
    try:
        process = psutil.Process(process_id)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        return ProcessIdentity(process_id, _start_of(process))
    except (psutil.Error, OSError, ValueError, IndexError):
        return None


def _start_of(process: psutil.Process) -> str:
    if not sys.platform.startswith("linux"):
        return str(process.create_time())
    # The name, in parentheses, may hold blanks and parentheses.
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return f"{_BOOT_ID.read_text(encoding='ascii').strip()}:{fields[_START_FIELD]}"


def is_running(identity: ProcessIdentity) -> bool:
    """Tell whether this very process runs."""
    return identify(identity.process_id) == identity


def up_since(identity: ProcessIdentity) -> float | None:
    """Return when it was started, in seconds of the clock; None: it does not run."""
    try:
        return float(psutil.Process(identity.process_id).create_time()) if is_running(identity) else None
    except psutil.Error:
        return None


def send_signal(identity: ProcessIdentity, signum: signal.Signals) -> bool:
    """Send a signal to this very process and to no other; tell whether it was there.

    Raises:
        PermissionError: it belongs to another user.

    """
    if not hasattr(os, "pidfd_open"):
        if not is_running(identity):
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(identity.process_id, signum)
        return True
    try:
        descriptor = os.pidfd_open(identity.process_id)
    except ProcessLookupError:
        return False
    try:
        # Compared while it is held: from here on its number can be given to nobody else.
        if not is_running(identity):
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signum)
        return True
    finally:
        os.close(descriptor)
