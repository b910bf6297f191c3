"""Files that others write, for which instants wait: from when on each is there, the same in each run."""

from typing import Final
from zlib import crc32

_NEVER: Final = 4
"""Of so many files one is never there."""


def is_there(file: str, time_ms: int, active_ms: int) -> bool:
    """Tell whether a file is there at a time of the run; each that comes is there before `active_ms`."""
    number = crc32(file.encode())
    return number % _NEVER != 0 and time_ms >= number // _NEVER % max(1, active_ms)
