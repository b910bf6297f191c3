"""The living masters of a cluster, by what they said of themselves on `leadership`: who comes before whom, and what all of them can read.

One table for a process and all its terms. Its own master is in it, once it reads what it said itself.
"""

from dataclasses import dataclass, field
from typing import Final

from eventflink.events.effects import MasterPresence
from eventflink.model.statuses import Role

PRESENCE_LEASES: Final = 3
"""A master that was not heard of for so many leases is no longer counted."""


@dataclass(slots=True)
class _Peer:
    feature_level: int
    leads: bool
    heard_ms: int


@dataclass(slots=True)
class Peers:
    """The masters of the last leases."""

    lease_timeout_ms: int
    _heard: dict[str, _Peer] = field(default_factory=dict)

    def hear(self, presence: MasterPresence, now_ms: int) -> None:
        """Take note of a master's presence."""
        self._heard[presence.master_id] = _Peer(presence.feature_level, presence.role is Role.LEADER, now_ms)

    def hear_leader(self, master_id: str) -> None:
        """Take note that a master leads, until it says otherwise: its heartbeat may come before its next presence."""
        if master_id in self._heard:
            self._heard[master_id].leads = True

    def common_feature_level(self, now_ms: int) -> int | None:
        """Return the level that every master heard of can read; None: nobody was heard."""
        return min((peer.feature_level for peer in self._recent(now_ms).values()), default=None)

    def count(self, now_ms: int) -> int:
        """Return how many masters were heard of."""
        return len(self._recent(now_ms))

    def rank(self, master_id: str, now_ms: int, *, leads: bool = False) -> int:
        """Return how many standbys come before a master in the order of ids; before one that leads, all of them do."""
        standbys = [m for m, peer in self._recent(now_ms).items() if not peer.leads and m != master_id]
        return len(standbys) if leads else sum(m < master_id for m in standbys)

    def _recent(self, now_ms: int) -> dict[str, _Peer]:
        """Return the masters that were heard of in the last leases, and forget the others."""
        limit_ms = now_ms - PRESENCE_LEASES * self.lease_timeout_ms
        self._heard = {m: peer for m, peer in self._heard.items() if peer.heard_ms >= limit_ms}
        return self._heard
