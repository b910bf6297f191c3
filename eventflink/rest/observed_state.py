"""The state of a cluster as a process has it that only reads: a fold, and who waits until it is new enough.

Folding and reading take turns in one event loop, so whatever a reader computes is of one offset of the log, which its answer names. Where
records come from is the business of `observer.py`.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from eventflink.leadership.acceptance import LogNotDense
from eventflink.leadership.fold import Fold, LogDiverged, LogUnusable

MAX_WAITING: Final = 1_000
UNFOLDABLE: Final = (LogUnusable, LogDiverged, LogNotDense)

T = TypeVar("T")


class NotThere(Exception):
    """There is no state, or not as new a one as was asked for; the message says where it stands."""


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """What was computed, and the last record of the log that it reflects."""

    value: T
    log_offset: int
    epoch: int


class ObservedState:
    """A fold that moves, and its readers. For one event loop."""

    def __init__(self) -> None:
        """Hold no state yet."""
        self.failure = ""
        """Why it does not move; empty: it does."""
        self._fold: Fold | None = None
        self._newer: asyncio.Event = asyncio.Event()
        self._waiting = 0

    @property
    def log_offset(self) -> int:
        """Where the state stands; -1: there is none, or no record."""
        return self._fold.last_offset if self._fold is not None else -1

    def replace(self, fold: Fold) -> None:
        """Hold another fold."""
        self._fold, self.failure = fold, ""
        self._wake()

    def advance(self, records: Iterable[tuple[int, int, bytes]]) -> None:
        """Fold what comes next, as (offset, timestamp, value).

        After a record that cannot be folded there is no state: it may have been applied in part.
        """
        if self._fold is None:
            return
        try:
            for offset, timestamp_ms, value in records:
                self._fold.fold_record(offset, timestamp_ms, value)
        except UNFOLDABLE as error:
            self._fold, self.failure = None, str(error)
        self._wake()

    async def read(self, compute: Callable[[Fold], T], *, min_offset: int = -1, timeout_s: float = 10.0) -> Reading[T]:
        """Return what `compute` makes of the state, once that reflects the record at `min_offset`.

        `compute` runs in the event loop: it is short, and what it returns shares nothing with the state.

        Raises:
            NotThere: the state is not as new within the time, or too many wait for theirs.

        """
        fold = self._fold
        if fold is None or fold.last_offset < min_offset:
            fold = await self._wait(min_offset, timeout_s)
        return Reading(compute(fold), fold.last_offset, fold.acceptance.epoch)

    async def _wait(self, min_offset: int, timeout_s: float) -> Fold:
        if self._waiting >= MAX_WAITING:
            raise NotThere(f"{MAX_WAITING} requests wait for a newer state already: ask again later")
        self._waiting += 1
        try:
            async with asyncio.timeout(timeout_s):
                while self._fold is None or self._fold.last_offset < min_offset:
                    await self._newer.wait()
        except TimeoutError:
            because = f": {self.failure}" if self.failure else ""
            message = f"the state stands at offset {self.log_offset}, not at {min_offset}, after {timeout_s:g} s{because}"
            raise NotThere(message) from None
        finally:
            self._waiting -= 1
        return self._fold

    def _wake(self) -> None:
        self._newer.set()
        self._newer = asyncio.Event()
