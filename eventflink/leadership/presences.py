"""Which masters were heard of, by their own words on `leadership`: what all of them can read, and who comes before whom."""

from dataclasses import dataclass, field

from eventflink.events.effects import MasterPresence
from eventflink.leadership.election import PRESENCE_LEASES
from eventflink.model.statuses import Role


@dataclass(slots=True)
class _Heard:
    """What a master last said of itself."""

    feature_level: int
    leads: bool
    heard_ms: int


@dataclass(slots=True)
class Presences:
    """The masters of the last leases."""

    lease_timeout_ms: int
    _heard: dict[str, _Heard] = field(default_factory=dict)

    def hear(self, presence: MasterPresence, now_ms: int) -> None:
        """Take note of a master's word."""
        self._heard[presence.master_id] = _Heard(presence.feature_level, presence.role is Role.LEADER, now_ms)

    def common_feature_level(self, now_ms: int) -> int | None:
        """Return the level that every master heard of can read; None: nobody was heard."""
        return min((heard.feature_level for heard in self._recent(now_ms).values()), default=None)

    def count(self, now_ms: int) -> int:
        """Return how many masters were heard of."""
        return len(self._recent(now_ms))

    def rank(self, master_id: str, now_ms: int, *, leads: bool) -> int:
        """Return how many masters come before this one where work is to be done by one of them; a leader comes after all standbys."""
        standbys = [m for m, heard in self._recent(now_ms).items() if not heard.leads and m != master_id]
        return len(standbys) if leads else sum(m < master_id for m in standbys)

    def _recent(self, now_ms: int) -> dict[str, _Heard]:
        """Return the masters that were heard of in the last leases, and forget the others."""
        horizon_ms = PRESENCE_LEASES * self.lease_timeout_ms
        self._heard = {m: heard for m, heard in self._heard.items() if now_ms - heard.heard_ms <= horizon_ms}
        return self._heard
