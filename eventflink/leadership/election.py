"""Who may campaign, and when: the masters that live, the port, and the election on the log as a sans-I/O machine.

Whatever an election says, the log decides: a grant wins or loses by its place in it (P1), so a false alarm costs a change
of leader and never safety. The election on the log counts a lease of silence on `leadership`. Silence proves something
only when the standby has read a later presence of its own there: one that was paused, or whose connection hangs, first reads what it missed
(L2), as the leader's canaries do among the heartbeats (P13).
"""

import zlib
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, Protocol

from eventflink.events.effects import LeaderDeath, LeaderHeartbeat, MasterPresence, Resignation
from eventflink.model.statuses import Role

PRESENCE_LEASES: Final = 3
"""A master that was not heard of for so many leases is no longer counted."""

MAX_PEERS: Final = 64


@dataclass(slots=True)
class _Peer:
    feature_level: int
    leads: bool
    heard_ms: int


@dataclass(slots=True)
class Peers:
    """The masters of the last leases, and those that may come back."""

    lease_timeout_ms: int
    memory_ms: int = 0
    """For so long at least a master is remembered that is not heard of any more."""
    _heard: dict[str, _Peer] = field(default_factory=dict)

    def hear(self, presence: MasterPresence, now_ms: int) -> None:
        """Take note of a master's presence; of more than `MAX_PEERS`, of none that was not heard of."""
        if presence.master_id not in self._heard and len(self._remembered(now_ms)) >= MAX_PEERS:
            return
        self._heard[presence.master_id] = _Peer(presence.feature_level, presence.role is Role.LEADER, now_ms)

    def hear_leader(self, master_id: str) -> None:
        """Take note that a master leads, until it says otherwise: its heartbeat may come before its next presence."""
        if master_id in self._heard:
            self._heard[master_id].leads = True

    def common_feature_level(self, now_ms: int) -> int | None:
        """Return the level that every master can read that is there or may come back; None: nobody was heard, or too many to know."""
        remembered = self._remembered(now_ms)
        return min((peer.feature_level for peer in remembered.values()), default=None) if len(remembered) < MAX_PEERS else None

    def count(self, now_ms: int) -> int:
        """Return how many masters were heard of."""
        return len(self._recent(now_ms))

    def rank(self, master_id: str, now_ms: int, *, leads: bool = False) -> int:
        """Return how many standbys come before a master in the order of ids; before one that leads, all of them do."""
        standbys = [m for m, peer in self._recent(now_ms).items() if not peer.leads and m != master_id]
        return len(standbys) if leads else sum(m < master_id for m in standbys)

    def _recent(self, now_ms: int) -> dict[str, _Peer]:
        """Return the masters that were heard of in the last leases."""
        limit_ms = now_ms - PRESENCE_LEASES * self.lease_timeout_ms
        return {m: peer for m, peer in self._remembered(now_ms).items() if peer.heard_ms >= limit_ms}

    def _remembered(self, now_ms: int) -> dict[str, _Peer]:
        """Return the masters that may come back, and forget the others."""
        limit_ms = now_ms - max(PRESENCE_LEASES * self.lease_timeout_ms, self.memory_ms)
        self._heard = {m: peer for m, peer in self._heard.items() if peer.heard_ms >= limit_ms}
        return self._heard


RANK_DELAY_DIVISOR = 5
"""Each standby before this one in the order of ids costs this part of a lease."""

STUCK_LEASES = 5
"""A leader that sends heartbeats but lets an input wait for so many leases is to be replaced (L1)."""

MAX_OUTSTANDING_PRESENCES = 64

NEVER_MS = 2**62
"""As a time: only if something else happens."""


Said = LeaderHeartbeat | Resignation | LeaderDeath | MasterPresence
"""What masters, and their guardians, say on `leadership`."""


class Advice(Enum):
    """What an election says to a standby."""

    WAIT = auto()
    PROBE = auto()
    """Say on `leadership` that you are there, and listen for it."""
    CAMPAIGN = auto()


class Election(Protocol):
    """Tells one master when to campaign. Times are its monotonic milliseconds; no call waits.

    Between `begin` and `end` the master takes part. Outside of that it can neither campaign nor lead, and must not keep others from
    leading: a master that still reaches an external election service, but not the log, would hold a leadership that it cannot use.
    A class that derives from this one inherits what it does not need: methods that do nothing, and a leadership that nobody revokes.
    """

    def heard(self, payload: Said, now_ms: int) -> None:  # noqa: ARG002 - inherited where it is not needed
        """Take a record of `leadership`; what is said of a leadership is said of the one that was accepted last, and of no other (L2)."""
        return

    def granted(self, epoch: int, now_ms: int) -> None:  # noqa: ARG002 - inherited where it is not needed
        """Take note that a grant was accepted: it counts as a heartbeat."""
        return

    def said(self, sequence: int, now_ms: int) -> None:  # noqa: ARG002 - inherited where it is not needed
        """Take note that this master sent its presence with this number."""
        return

    def begin(self, now_ms: int) -> None:  # noqa: ARG002 - inherited where it is not needed
        """Take part from here on: the leader has a whole lease to be heard."""
        return

    def never_granted(self, now_ms: int) -> None:  # noqa: ARG002 - inherited where it is not needed
        """Take note, behind `begin`, that the log has no grant: there is no leader to be heard, and none that could be deposed (L2)."""
        return

    def end(self) -> None:
        """Take part no longer, until the next `begin`: give back what is held, so that others get their turn."""
        return

    def advise(self, stuck_since_ms: int | None, now_ms: int) -> Advice:
        """Say what a standby at the end of the log is to do; `stuck_since_ms`: since when an input is undecided."""

    def may_lead(self) -> bool:
        """Tell whether a leader may stay one: an external election service may have revoked the leadership; the log does so itself."""
        return True

    def next_due_ms(self, stuck_since_ms: int | None, now_ms: int) -> int:  # noqa: ARG002 - inherited where it is not needed
        """Return until when `advise` says WAIT and `may_lead` what it says now, unless something is heard before.

        That is no time at all where nobody can tell: what an external service says may change at any moment.
        """
        return now_ms


@dataclass(slots=True)
class LogElection(Election):
    """`high-availability.type: kafka`: heartbeats, lease, rank, and compare-and-swap on the log."""

    master_id: str
    incarnation: str
    peers: Peers
    """Of the process; the participant keeps it."""
    _heard_ms: int = 0
    _epoch: int = 0
    """That was granted last."""
    _ended_ms: int | None = None
    """When it was said that the leader has resigned, or died; or since when it is known that there never was one."""
    _proven_ms: int = -1
    """When the newest own presence that was read back had been sent."""
    _probed_ms: int = -1
    _outstanding: dict[int, int] = field(default_factory=dict)

    def heard(self, payload: Said, now_ms: int) -> None:
        """Take a record of `leadership`: the leader's heartbeat, its resignation or death, or the own presence."""
        match payload:
            case LeaderHeartbeat():
                if self._ended_ms is None:
                    self._heard_ms = now_ms
                self.peers.hear_leader(payload.master_id)
            case Resignation() | LeaderDeath():
                if self._ended_ms is None:  # Said twice, it ended when it was said first.
                    self._ended_ms = now_ms
            case MasterPresence() if payload.master_id == self.master_id:
                sent_ms = self._outstanding.pop(payload.sequence, -1) if payload.incarnation == self.incarnation else -1
                self._proven_ms = max(self._proven_ms, sent_ms)
            case _:
                pass

    def granted(self, epoch: int, now_ms: int) -> None:
        """Begin a lease."""
        self._epoch, self._heard_ms, self._ended_ms = epoch, now_ms, None

    def said(self, sequence: int, now_ms: int) -> None:
        """Remember when the presence was sent."""
        if len(self._outstanding) >= MAX_OUTSTANDING_PRESENCES:
            del self._outstanding[next(iter(self._outstanding))]
        self._outstanding[sequence] = now_ms

    def begin(self, now_ms: int) -> None:
        """Wait a whole lease from here, and believe nothing that was proven before."""
        self._heard_ms, self._ended_ms, self._proven_ms, self._probed_ms = now_ms, None, -1, -1
        self._outstanding.clear()

    def never_granted(self, now_ms: int) -> None:
        """Wait for nobody: a grant of the first epoch is only accepted where it is the first, however much was missed."""
        self._ended_ms = now_ms

    def advise(self, stuck_since_ms: int | None, now_ms: int) -> Advice:
        """Campaign a ranked delay after the leader resigned, died, fell silent, or stopped deciding."""
        delay_ms = self._delay_ms(now_ms)
        if self._ended_ms is not None:
            return Advice.CAMPAIGN if now_ms - self._ended_ms >= delay_ms else Advice.WAIT
        if stuck_since_ms is not None:
            unmoved_ms = stuck_since_ms + STUCK_LEASES * self.peers.lease_timeout_ms
            # A standby that was frozen that long has to hear first that it missed nothing.
            if self._proven_ms >= unmoved_ms and now_ms >= unmoved_ms + delay_ms:
                return Advice.CAMPAIGN
        expired_ms = self._heard_ms + self.peers.lease_timeout_ms
        if now_ms < expired_ms:
            return Advice.WAIT
        if self._proven_ms >= expired_ms:
            return Advice.CAMPAIGN if now_ms >= expired_ms + delay_ms else Advice.WAIT
        if self._probed_ms < expired_ms or 2 * (now_ms - self._probed_ms) >= self.peers.lease_timeout_ms:
            self._probed_ms = now_ms
            return Advice.PROBE
        return Advice.WAIT

    def next_due_ms(self, stuck_since_ms: int | None, now_ms: int) -> int:
        """Return when the next of the times comes that `advise` goes by."""
        if self._ended_ms is not None:
            return self._ended_ms + self._delay_ms(now_ms)
        expired_ms = self._heard_ms + self.peers.lease_timeout_ms
        if now_ms < expired_ms:
            due_ms = expired_ms
        elif self._proven_ms >= expired_ms:
            due_ms = expired_ms + self._delay_ms(now_ms)
        else:
            due_ms = now_ms if self._probed_ms < expired_ms else self._probed_ms + (self.peers.lease_timeout_ms + 1) // 2
        if stuck_since_ms is not None:
            unmoved_ms = stuck_since_ms + STUCK_LEASES * self.peers.lease_timeout_ms
            if self._proven_ms >= unmoved_ms:
                due_ms = min(due_ms, unmoved_ms + self._delay_ms(now_ms))
        return due_ms

    def _delay_ms(self, now_ms: int) -> int:
        """Return the delay of this master's rank among the standbys that live; jittered, so that equals differ."""
        step_ms = self.peers.lease_timeout_ms // RANK_DELAY_DIVISOR
        rank = min(self.peers.rank(self.master_id, now_ms), RANK_DELAY_DIVISOR)  # However many say that they are there.
        jitter_ms = zlib.crc32(f"{self.incarnation}/{self._epoch}".encode()) % (step_ms // 2 + 1) if rank else 0
        return rank * step_ms + jitter_ms


@dataclass(slots=True)
class SingleMaster(Election):
    """`high-availability.type: none`: there is one master, and it leads as soon as it is there. A second one would depose it."""

    def advise(self, stuck_since_ms: int | None, now_ms: int) -> Advice:  # noqa: ARG002 - the port's signature
        """Campaign."""
        return Advice.CAMPAIGN

    def next_due_ms(self, stuck_since_ms: int | None, now_ms: int) -> int:  # noqa: ARG002 - the port's signature
        """Campaign at the first tick, and later at whatever tick comes."""
        return NEVER_MS
