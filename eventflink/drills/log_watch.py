"""The log during a drill: followed from where a fold stands, each decision with the moment at which it was seen here.

Moments are this process's monotonic clock, in seconds; Kafka's timestamps, in milliseconds, tell how far two records of the log lie apart
by the broker's own clock. Nothing is asked of a master.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Generic, Self, TypeVar

from eventflink.drills import DrillFailed
from eventflink.events.log_events import LeadershipGranted
from eventflink.gateways.follow import LogFollower, LoggedDecision
from eventflink.leadership.fold import Fold
from eventflink.model.cluster_access import ClusterAccess

_POLL_S: Final = 0.1
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Seen(Generic[T]):
    """Something that was found in an accepted decision."""

    found: T
    offset: int
    timestamp_ms: int
    """Kafka's."""
    seen_s: float

    def no_later_than(self, answered_s: float) -> "Seen[T]":
        """Return the same as seen when a later record was answered, where the answer came first: two connections keep no order."""
        return replace(self, seen_s=min(self.seen_s, answered_s))


def ms_between(first_s: float, second_s: float) -> float:
    """Return the milliseconds between two moments in seconds."""
    return round(1000 * (second_s - first_s), 1)


class DrillWatch:
    """Follows one log. For one thread; use it as a context manager."""

    def __init__(self, access: ClusterAccess, fold: Fold) -> None:
        """Begin with the record after the fold's last."""
        self._follower = LogFollower(access, fold.last_offset + 1, acceptance=fold.acceptance)
        self._unread: deque[tuple[float, LoggedDecision]] = deque()
        self.last_offset = fold.last_offset

    def wait_for(
        self, find: Callable[[LoggedDecision], T | None], what: str, timeout_s: float, check: Callable[[], None] = lambda: None
    ) -> Seen[T]:
        """Return what is found first in the accepted decisions that were not looked at yet; `check` is called in between and may raise.

        Raises:
            DrillFailed: it was not found in time.
            LogUnreadable, ClusterUnreachable: the log cannot be followed.

        """
        deadline = time.monotonic() + timeout_s
        while True:
            while self._unread:
                seen_s, logged = self._unread.popleft()
                self.last_offset = logged.offset
                if logged.accepted and (found := find(logged)) is not None:
                    return Seen(found, logged.offset, logged.timestamp_ms, seen_s)
            check()
            if (left_s := deadline - time.monotonic()) <= 0:
                raise DrillFailed(f"{what}: not within {timeout_s:g} s; the log was followed to offset {self.last_offset}")
            decisions = self._follower.poll(min(left_s, _POLL_S))
            now_s = time.monotonic()
            self._unread.extend((now_s, decision) for decision in decisions)

    def wait_for_grant(self, after_epoch: int, timeout_s: float, check: Callable[[], None] = lambda: None) -> Seen["Grant"]:
        """Return the first grant of a later epoch; raises as `wait_for` does."""

        def find(logged: LoggedDecision) -> Grant | None:
            decision = logged.decision
            event = decision.events[0] if decision.events else None
            if decision.epoch <= after_epoch or not isinstance(event, LeadershipGranted):
                return None
            return Grant(decision.epoch, event.master_id)

        return self.wait_for(find, f"a leader after epoch {after_epoch}", timeout_s, check)

    def wait_for_decision(self, epoch: int, timeout_s: float) -> Seen[bool]:
        """Return the first decision of an epoch after its grant; raises as `wait_for` does."""
        return self.wait_for(
            lambda logged: True if logged.decision.epoch == epoch and logged.decision.sequence > 0 else None,
            f"a decision of epoch {epoch}",
            timeout_s,
        )

    def close(self) -> None:
        """Let the connections go."""
        self._follower.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Grant:
    """A leadership that began."""

    epoch: int
    master_id: str
