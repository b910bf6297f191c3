"""What happened in a run, line by line: the time, who, and what. Equal runs have equal transcripts, which a hash says in short."""

import hashlib

from eventflink.testing.simulation.scheduler import MILLISECOND, SECOND, Scheduler

_NAME_WIDTH = 12


class Transcript:
    """The lines of one run."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._lines: list[tuple[int, str, str]] = []

    def note(self, who: str, what: str) -> None:
        """Add a line."""
        self._lines.append((self._scheduler.now_us, who, what))

    def lines(self) -> list[str]:
        """Return the lines as people read them."""
        return [f"{us // SECOND:4d}.{us % SECOND // MILLISECOND:03d}  {who:<{_NAME_WIDTH}} {what}" for us, who, what in self._lines]

    def digest(self) -> str:
        """Return the hash over all lines, with their exact times."""
        digest = hashlib.blake2b(digest_size=16)
        for line in self._lines:
            digest.update(repr(line).encode())
        return digest.hexdigest()
