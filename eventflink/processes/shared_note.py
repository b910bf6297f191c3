"""A short text in memory that a process shares with another one: what was written there last can be read when the writer is dead.

Writing is a copy within the memory of the process, and so costs no more than that and never waits. The rule: one process writes; what
another reads while it does may be torn, what it reads twice alike is not.
"""

import contextlib
import mmap
import os
import struct
import tempfile
from dataclasses import dataclass
from typing import Final, Self

_HEADER: Final = struct.Struct("=QH")
"""How often it was written, and how long the text is."""

_SIZE: Final = 1024
MAX_BYTES: Final = _SIZE - _HEADER.size


@dataclass(frozen=True, slots=True)
class Noted:
    """What stands there."""

    text: str
    count: int
    """How often something was written: the same text is another note if this has grown."""


class SharedNote:
    """One such text; empty until something is written."""

    def __init__(self, descriptor: int) -> None:
        """Share what another process has made; it has given this one the descriptor.

        Raises:
            OSError: the descriptor is none of shared memory.

        """
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SIZE)
        self._count = 0

    @classmethod
    def make(cls) -> Self:
        """Make one, which child processes share that inherit its descriptor.

        Raises:
            OSError: there is no memory for it, or no room for its file where memory has to be a file.

        """
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("eventflink-note")
        else:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        os.write(descriptor, bytes(_SIZE))
        return cls(descriptor)

    def write(self, text: str) -> None:
        """Write a text in the place of the one before; what is too long is cut."""
        data = text.encode(errors="replace")[:MAX_BYTES]
        self._count += 1
        self._memory[: _HEADER.size + len(data)] = _HEADER.pack(self._count, len(data)) + data

    def read(self) -> Noted:
        """Return what was written last."""
        count, length = _HEADER.unpack_from(self._memory)
        return Noted(self._memory[_HEADER.size : _HEADER.size + min(length, MAX_BYTES)].decode(errors="replace"), count)

    def close(self) -> None:
        """Let go of it; the other processes that have it keep it."""
        self._memory.close()
        with contextlib.suppress(OSError):
            os.close(self.descriptor)
