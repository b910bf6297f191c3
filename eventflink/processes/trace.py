"""Stamps: when this process reached which point of whose way, for `python -m benchmarks submit --trace`. Off, unless the environment asks.

A stamp is the monotonic clock, which all processes of a host share, beside the processor time that this process has used so far. Stamps
are kept in memory and written as the process exits in order: a trace costs what it measures next to nothing, and a process that is killed
leaves none. What the points mean is said where they are read, in `benchmarks/trace_legs.py`.
"""

import atexit
import json
import os
import time
from collections import deque
from pathlib import Path
from typing import Final, NamedTuple

TRACE_VARIABLE: Final = "EVENTFLINK_TRACE"
"""Names the directory that takes the stamps of a process, in a file with its id."""

MAX_STAMPS: Final = 1_000_000
"""Older ones are dropped."""


class Stamp(NamedTuple):
    """One point that was reached."""

    point: str
    topic: str
    """Of the record that it is about; empty where it is about none."""
    subject: str
    """Whose way it is: the key of a record, or a job."""
    offset: int
    """Of the record; -1 where it has none yet."""
    at_ns: int
    cpu_ns: int
    """Of the whole process, from its start."""


_directory = os.environ.get(TRACE_VARIABLE, "")
_stamps: deque[Stamp] = deque(maxlen=MAX_STAMPS)

IS_TRACING: Final = bool(_directory)


def stamp(point: str, topic: str = "", subject: str = "", offset: int = -1) -> None:
    """Note that a point is reached; any thread may. Does nothing where no trace is asked for."""
    if IS_TRACING:
        _stamps.append(Stamp(point, topic, subject, offset, time.monotonic_ns(), time.process_time_ns()))


def _file(directory: Path, process_id: int) -> Path:
    return directory / f"{process_id}.trace"


def _write() -> None:
    with _file(Path(_directory), os.getpid()).open("w", encoding="utf-8") as file:
        for each in _stamps:
            file.write(json.dumps(each, separators=(",", ":")) + "\n")


if IS_TRACING:
    atexit.register(_write)


def read_stamps(directory: Path, process_id: int) -> list[Stamp]:
    """Return the stamps of a process that has exited, in their order.

    Raises:
        FileNotFoundError: it was not traced, or did not exit in order.

    """
    with _file(directory, process_id).open(encoding="utf-8") as file:
        return [Stamp(*json.loads(line)) for line in file]
