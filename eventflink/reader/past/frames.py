"""What goes between a REST process and the process that holds its past: pickled values, each behind its length.

Only these two processes hold the ends of the pipes, and one has started the other: what is read was written by the same program.
"""

import pickle
import struct
from dataclasses import dataclass
from typing import Any, Final

from eventflink.master.settings import MasterSettings
from eventflink.model.cluster_access import ClusterAccess
from eventflink.reader.past.port import HistoryRefused

LENGTH: Final = struct.Struct(">I")
MAX_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogToRead:
    """What a worker is told first."""

    access: ClusterAccess
    settings: MasterSettings
    """Those that a dry run decides with."""


@dataclass(frozen=True, slots=True)
class HistoryQuestion:
    """What a worker is asked."""

    number: int
    question: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class HistoryAnswer:
    """What it says: a value, or why there is none."""

    number: int
    value: Any
    refused: HistoryRefused | None = None
    failure: str = ""
    """What went wrong that should not have."""


def frame_of(value: Any) -> bytes:
    """Return a value as a frame.

    Raises:
        ValueError: it is too large.

    """
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    if len(data) > MAX_BYTES:
        raise ValueError(f"{len(data)} bytes are more than a frame holds")
    return LENGTH.pack(len(data)) + data


def value_of(data: bytes) -> Any:
    """Return the value of a frame without its length."""
    return pickle.loads(data)  # noqa: S301 - of this program's own making
