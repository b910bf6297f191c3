"""The state of a cluster as a process has it that only reads: a fold, who waits until it is new enough, and who watches it change.

Folding and reading take turns in one event loop, so whatever a reader computes is of one offset of the log, which its answer names. Where
records come from is the business of `observer.py`.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, Generic, TypeVar

from eventflink.events.decision import Decision
from eventflink.leadership.acceptance import LogNotDense
from eventflink.leadership.fold import Fold, LogDiverged, LogUnusable
from eventflink.leadership.known_log import KnownLog

MAX_WAITING: Final = 1_000
MAX_WATCHING: Final = 100
MAX_WATCHING_OF_ONE: Final = 20
"""Of those by one name, where there are names."""

MAX_REMEMBERED: Final = 1_000
"""Of how many decisions it is remembered which jobs they concern, while somebody watches."""
UNFOLDABLE: Final = (LogUnusable, LogDiverged, LogNotDense)

T = TypeVar("T")
Position = tuple[int, bytes]
"""The offset of a state and the running hash of its log: no other log, and no other past of it, has both."""


class NotThere(Exception):
    """There is no state, or not as new a one as was asked for; the message says where it stands."""


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """What was computed, and the last record of the log that it reflects."""

    value: T
    log_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class StateChange:
    """Where the state stands, and what has changed since a watcher looked last."""

    log_offset: int
    epoch: int
    master_id: str
    """Of the leader; empty: nobody has ever led."""
    decided_at_ms: int
    decisions: int
    """Accepted or not; 0 at the first look."""
    jobs: frozenset[str] | None
    """Those that events of these decisions name; None: more decisions than are remembered, so it may be any."""


class ObservedState:
    """A fold that moves, and its readers. For one event loop."""

    def __init__(self) -> None:
        """Hold no state yet."""
        self.failure = ""
        """Why it does not move; empty: it does."""
        self.known = KnownLog()
        """How far the log was read: an answer from less would contradict an earlier one (P5a)."""
        self.ask_log_end: Callable[[], Awaitable[int]] | None = None
        """Returns the offset of the last record that the log has now, or raises `NotThere`; None: nobody can be asked."""
        self._fold: Fold | None = None
        self._newer: asyncio.Event = asyncio.Event()
        self._waiting = 0
        self._watching: Counter[str] = Counter()
        """By name; who has none has the empty one."""

        self._changes: deque[tuple[int, frozenset[str]]] = deque(maxlen=MAX_REMEMBERED)
        """The newest decisions, with the jobs that they name."""
        self._is_closed = False

    @property
    def log_offset(self) -> int:
        """Where the state stands; -1: there is none, or no record."""
        return self._fold.last_offset if self._fold is not None else -1

    @property
    def position(self) -> Position | None:
        """Which state there is; None: there is none."""
        return (self._fold.last_offset, self._fold.running_hash) if self._fold is not None else None

    def replace(self, fold: Fold) -> None:
        """Hold another fold, which has all that is `known`."""
        self._fold, self.failure = fold, ""
        self.known.note(fold)
        self._changes.clear()
        self._wake()

    def advance(self, records: Iterable[tuple[int, int, bytes]]) -> None:
        """Fold what comes next, as (offset, timestamp, value).

        After a record that cannot be folded there is no state: it may have been applied in part.
        """
        if self._fold is None:
            return
        try:
            for offset, timestamp_ms, value in records:
                decision = self._fold.fold_record(offset, timestamp_ms, value)
                if self._watching:
                    self._changes.append((offset, _jobs_of(decision)))
            self.known.note(self._fold)
        except UNFOLDABLE as error:
            self._fold, self.failure = None, str(error)
        self._wake()

    async def newest_offset(self) -> int:
        """Return the offset of the last record that the log has now, which the state may not reflect yet; raises `NotThere`."""
        if self.ask_log_end is None:
            return self.log_offset
        self._count_waiting()
        try:
            return await self.ask_log_end()
        finally:
            self._waiting -= 1

    def _count_waiting(self) -> None:
        if self._waiting >= MAX_WAITING:
            raise NotThere(f"{MAX_WAITING} requests wait for a newer state already: ask again later")
        self._waiting += 1

    async def read(self, compute: Callable[[Fold], T], *, min_offset: int = -1, timeout_s: float = 10.0) -> Reading[T]:
        """Return what `compute` makes of the state, once that reflects the record at `min_offset`.

        `compute` runs in the event loop: it is short, and what it returns shares nothing with the state.

        Raises:
            NotThere: the state is not as new within the time or before the end, or too many wait for theirs.

        """
        fold = self._fold
        if fold is None or fold.last_offset < min_offset:
            fold = await self._wait(min_offset, timeout_s)
        return Reading(compute(fold), fold.last_offset, fold.acceptance.epoch)

    async def _wait(self, min_offset: int, timeout_s: float) -> Fold:
        self._count_waiting()
        try:
            async with asyncio.timeout(timeout_s):
                while self._fold is None or self._fold.last_offset < min_offset:
                    if self._is_closed:
                        raise NotThere("this process ends: ask another one")
                    await self._newer.wait()
        except TimeoutError:
            because = f": {self.failure}" if self.failure else ""
            message = f"the state stands at offset {self.log_offset}, not at {min_offset}, after {timeout_s:g} s{because}"
            raise NotThere(message) from None
        finally:
            self._waiting -= 1
        return self._fold

    @contextmanager
    def watching(self, name: str = "") -> Iterator[None]:
        """Count a watcher, for as long as it asks `change_since`; with a name as one of those who have it.

        Raises:
            NotThere: too many watch already, or too many of that name.

        """
        if self._watching.total() >= MAX_WATCHING:
            raise NotThere(f"{MAX_WATCHING} watch the state already: ask again later")
        if name and self._watching[name] >= MAX_WATCHING_OF_ONE:
            raise NotThere(f"{name} watches the state {MAX_WATCHING_OF_ONE} times already: ask again later")
        self._watching[name] += 1
        try:
            yield
        finally:
            self._watching -= Counter({name: 1})
            if not self._watching:
                self._changes.clear()

    def change_since(self, log_offset: int) -> StateChange | None:
        """Return where the state stands, and what has changed since the record at `log_offset` (-1: nothing is known of before).

        None: there is no state.
        """
        fold = self._fold
        if fold is None:
            return None
        count = max(0, fold.last_offset - log_offset) if log_offset >= 0 else 0
        newest = list(takewhile(lambda change: change[0] > log_offset, reversed(self._changes))) if count else []
        return StateChange(
            fold.last_offset,
            fold.acceptance.epoch,
            fold.master.leader.master_id,
            fold.last_decided_at_ms,
            count,
            frozenset().union(*(jobs for _, jobs in newest)) if len(newest) == count and fold.last_offset >= log_offset else None,
        )

    async def moved(self, log_offset: int, timeout_s: float) -> bool:
        """Wait until the state stands elsewhere than at `log_offset`; tell whether it does. False at once: it is closed."""
        try:
            async with asyncio.timeout(timeout_s):
                while (self._fold is None or self._fold.last_offset == log_offset) and not self._is_closed:
                    await self._newer.wait()
        except TimeoutError:
            return False
        return not self._is_closed

    @property
    def is_closed(self) -> bool:
        """Tell whether it changes no more: the process ends."""
        return self._is_closed

    def close(self) -> None:
        """Let go of everybody who watches or waits."""
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        self._newer.set()
        self._newer = asyncio.Event()


def _jobs_of(decision: Decision | None) -> frozenset[str]:
    """Return the jobs that events of a decision name; of one that was not accepted none."""
    if decision is None:
        return frozenset()
    return frozenset(job_id for event in decision.events if (job_id := getattr(event, "job_id", "")))
