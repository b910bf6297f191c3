"""Reads of the state, by anything that asks a master: from the accepted fold only, with the offset that the answer reflects (P4, L4).

A standby answers as soon as its fold has reached the offset that is asked for. A leader's state runs ahead of the log: its
answer is computed at once and held until the decisions before it were accepted; if the leadership ends first, there is none.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from eventflink.leadership.fold import Fold
from eventflink.leadership.leader import Leader
from eventflink.model.statuses import Role

_logger = logging.getLogger(__name__)

MAX_WAITING = 1_000


class ReadRefused(Exception):
    """The read cannot be answered here; the message says why."""


@dataclass(slots=True)
class Answered:
    """What was read, and the last record of the log that it reflects."""

    value: Any
    log_offset: int
    epoch: int
    role: str


@dataclass(slots=True)
class Read:
    """A question to the state; `deliver` is called once, with the answer or with why there is none."""

    min_offset: int
    compute: Callable[[Fold], Any]
    deliver: Callable[[Answered | ReadRefused], None]
    when_quiet: bool = False
    """Compute only while no decision is unconfirmed: from the accepted state itself."""
    is_cancelled: bool = False


@dataclass(slots=True)
class _Held:
    read: Read
    sequence: int
    value: Any


class Readable(Protocol):
    """A master that can be read."""

    @property
    def fold(self) -> Fold:
        """Its state."""

    @property
    def leader(self) -> Leader | None:
        """Its leadership, by whose unconfirmed decisions the state is ahead of the log."""

    @property
    def role(self) -> Role:
        """What it is now."""


@dataclass(slots=True)
class Reads:
    """The reads that wait at one master."""

    of: Readable
    waiting: list[Read] = field(default_factory=list)
    held: deque[_Held] = field(default_factory=deque)
    closed: str = ""
    """Why nothing is answered any more: the state is doubtful once the term is over."""

    def ask(self, read: Read) -> None:
        """Answer a read now or as soon as it can be; too many that wait are refused."""
        if self.closed:
            read.deliver(ReadRefused(self.closed))
            return
        if len(self.waiting) + len(self.held) >= MAX_WAITING:
            read.deliver(ReadRefused(f"{MAX_WAITING} reads wait already: ask again later"))
            return
        self.waiting.append(read)
        self.serve()

    def serve(self) -> None:
        """Answer what can be answered; to be called whenever the fold has moved."""
        self.release_held()
        if not self.waiting:
            return
        fold, leader = self.of.fold, self.of.leader
        if leader is not None and leader.failure is not None:
            return  # The state is half changed: what waits is refused when the term is over.
        is_quiet = leader is None or not leader.unconfirmed
        ready: list[Read] = []
        waiting: list[Read] = []
        for read in self.waiting:
            if not read.is_cancelled:
                (ready if read.min_offset <= fold.last_offset and (is_quiet or not read.when_quiet) else waiting).append(read)
        self.waiting = waiting
        for read in ready:
            try:
                value = read.compute(fold)
            except Exception as error:  # noqa: BLE001 - a question must not end the term of the master that answers it
                _logger.warning("ReadFailed error=%r", error)
                read.deliver(ReadRefused(f"the read cannot be computed: {error!r}"))
                continue
            if leader is not None and leader.unconfirmed:
                self.held.append(_Held(read, leader.unconfirmed[-1].sequence, value))
            else:
                self._deliver(read, value)

    def release_held(self) -> None:
        """Deliver the answers whose decisions were accepted; to be called after each record, so that they name its offset."""
        while self.held and self.held[0].sequence <= self.of.fold.acceptance.sequence:
            held = self.held.popleft()
            self._deliver(held.read, held.value)

    def _deliver(self, read: Read, value: Any) -> None:
        fold = self.of.fold
        if not read.is_cancelled:
            read.deliver(Answered(value, fold.last_offset, fold.acceptance.epoch, self.of.role.value))

    def abort(self, reason: str) -> None:
        """Refuse everything that waits, and whatever is asked from now on."""
        self.closed = reason
        reads = [*self.waiting, *(h.read for h in self.held)]
        self.waiting, self.held = [], deque()
        for read in reads:
            if not read.is_cancelled:
                read.deliver(ReadRefused(reason))
