"""Whether a directory can be written to, and how much room it has, said so that a person knows which disk is meant.

A disk that is full, over its quota, mounted read-only or gone shows only where something is written: so that is tried. Nothing is
remembered here.
"""

import errno
import os
import tempfile
from pathlib import Path
from typing import Final

FAULTS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
"""Of a disk itself, and not of what somebody did with it."""

_PROBE: Final = b"\0" * 4096


def find_fault(directory: Path, min_free_bytes: int = 0) -> str:
    """Return why nothing is to be written in a directory, naming it and what is free there; empty: it can be used.

    Less than `min_free_bytes` count as full: who writes much fills the rest before it is looked at again.
    """
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(_PROBE)
            file.flush()
            os.fsync(file.fileno())
        free_bytes = _free_bytes(directory)
    except OSError as error:
        return describe(error, directory)
    return f"{directory}: only {_room(directory)}, less than {min_free_bytes} bytes" if free_bytes < min_free_bytes else ""


def describe(error: OSError, directory: Path) -> str:
    """Return what went wrong in a directory, with what is free there."""
    return f"{directory}: {error.strerror or error} ({_room(directory)})"


def _free_bytes(directory: Path) -> int:
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize


def _room(directory: Path) -> str:
    try:
        status = os.statvfs(directory)
    except OSError as error:
        return f"what is free is not known: {error.strerror}"
    files = f", and {status.f_favail} files" if status.f_files and not status.f_favail else ""
    return f"{status.f_bavail * status.f_frsize} of {status.f_blocks * status.f_frsize} bytes are free{files}"
