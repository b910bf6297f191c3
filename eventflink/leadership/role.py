"""What one master is to the log, as a sans-I/O machine: STANDBY → CANDIDATE → LEADER, and DEPOSED as the way back.

A standby folds. A candidate has appended its grant and waits to read it back: the first grant of an epoch in log order wins,
for every reader alike. When the winner reads its own grant, its state is complete; it sends again whatever nobody has
confirmed, and decides. After a leader that did not say farewell the first inputs are decided with caution (P10). Clocks and ids
are handed in; the records to append and the effects to release are handed out.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from eventflink.events.decision import Decision, InputCause
from eventflink.events.log_events import InputsBound, LeadershipGranted
from eventflink.leadership.fold import Fold
from eventflink.leadership.inbound import InboundDecoder
from eventflink.leadership.inbox import PartitionInbox
from eventflink.leadership.leader import Leader, LeadershipEnded, Released
from eventflink.leadership.log_clock import LogClock
from eventflink.leadership.observer import Observer
from eventflink.master.effects import Effect, leader_changes, unacknowledged
from eventflink.model.statuses import ROLE_TRANSITIONS, Role, check_transition

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class RoleSettings:
    """What a role takes from the configuration."""

    master_id: str
    window_size: int = 1024
    lease_timeout_ms: int = 1000


@dataclass(slots=True)
class MasterRole:
    """One master."""

    settings: RoleSettings
    fold: Fold
    decoder: InboundDecoder
    inboxes: dict[str, PartitionInbox]
    poisoned: dict[tuple[str, int], str] = field(default_factory=dict)
    """Inputs (topic, offset) that ended a leadership of this process, with how: they are refused."""
    high_offsets: Mapping[str, int] = field(default_factory=dict)
    """Where each inbound topic ended when this process began to read it."""
    observer: Observer = field(default_factory=Observer)
    unbound: set[str] = field(default_factory=set)
    """Topics whose cursors still count the offsets of another one of that name (P9)."""
    role: Role = Role.STANDBY
    leader: Leader | None = None
    clock: LogClock | None = None
    resigned: str = ""
    """The candidacy that last said farewell: who comes after it need not be cautious."""
    _grant: bytes = b""
    _campaigned_at_ms: int = 0

    def _become(self, role: Role) -> None:
        check_transition(ROLE_TRANSITIONS, self.settings.master_id, self.role, role)
        self.role = role
        self.observer.became(role, self.fold.acceptance.epoch)
        if role is Role.LEADER:
            _logger.info("LeadershipGranted epoch=%d offset=%d", self.fold.acceptance.epoch, self.fold.last_offset)
        elif role is Role.CANDIDATE:
            _logger.info("Candidate epoch=%d", self.fold.acceptance.epoch + 1)

    def campaign(self, leader_id: str, blob_address: str, wall_ms: int, monotonic_ms: int) -> bytes:
        """Become a candidate; return the grant to append.

        `leader_id` is fresh for each candidacy. The grant's time is the last decision's: how much time has passed since is
        known when it is read back.
        """
        self._become(Role.CANDIDATE)
        self._campaigned_at_ms = monotonic_ms
        grant = Decision(
            epoch=self.fold.acceptance.epoch + 1,
            sequence=0,
            leader_id=leader_id,
            decided_at_ms=self.fold.last_decided_at_ms or wall_ms,
            previous_hash=b"",
            causes=(),
            actor="",
            events=(LeadershipGranted(self.settings.master_id, blob_address),),
        )
        self._grant = self.fold.codec.encode(grant, self.fold.master.upkeep.feature_level)
        return self._grant

    def on_record(self, offset: int, timestamp_ms: int, value: bytes, monotonic_ms: int) -> Released | None:
        """Take a record of the log in offset order; return effects to release.

        Raises:
            LeadershipEnded: this master's leadership, or its candidacy, is over.
            LogNotDense, LogDiverged, LogUnusable: the log cannot be followed any further.

        """
        if self.leader is not None:
            try:
                return self.leader.read_back(offset, timestamp_ms, value)
            except LeadershipEnded:
                self._become(Role.DEPOSED)
                self.leader = None
                raise
        before_ms, before_timestamp_ms = self.fold.last_decided_at_ms, self.fold.last_timestamp_ms
        predecessor = self.fold.acceptance.leader_id
        decision = self.fold.take(offset, timestamp_ms, value)
        if decision is not None:
            self._trim(decision)
            self.observer.accepted([type(event).__name__ for event in decision.events], is_own=False)
        if self.role is Role.CANDIDATE and value == self._grant:
            if decision is None:  # Somebody else's grant of the epoch came first; this fold is as good as theirs.
                self._become(Role.STANDBY)
                return None
            silence_ms = timestamp_ms - before_timestamp_ms
            return self._promoted(offset, decision, before_ms, silence_ms, monotonic_ms, is_cautious=predecessor not in ("", self.resigned))
        return None

    def _trim(self, decision: Decision) -> None:
        """Drop from the inboxes what an accepted decision answers: a standby holds only what it would have to decide (L3)."""
        if self.unbound:
            self.unbound -= {event.topic for event in decision.events if isinstance(event, InputsBound)}
        for cause in decision.causes:
            if type(cause) is InputCause and cause.topic not in self.unbound:
                self.inboxes[cause.topic].accepted(cause.last_offset + 1)

    def _promoted(self, offset: int, grant: Decision, before_ms: int, silence_ms: int, monotonic_ms: int, *, is_cautious: bool) -> Released:
        """Lead from here: with the state of the log, and its time."""
        self._become(Role.LEADER)
        passed_ms = max(0, silence_ms) if before_ms else 0
        self.clock = LogClock(max(before_ms, grant.decided_at_ms) + passed_ms, monotonic_ms)
        self.leader = Leader(
            self.fold,
            self.decoder,
            self.inboxes,
            self.settings.window_size,
            self.settings.lease_timeout_ms,
            self.poisoned,
            self.observer,
        )
        if is_cautious:
            self.leader.caution.begin(self.settings.window_size, self.high_offsets)
        return Released(offset, grant.epoch, grant.sequence, grant.leader_id, list(self._effects_of_promotion()), None)

    def _effects_of_promotion(self) -> Iterator[Effect]:
        yield from leader_changes(self.fold.master, self.settings.master_id)
        yield from unacknowledged(self.fold.master)

    def recent_replies(self) -> list[Released]:
        """Return the answers of the last decisions before this leadership: their leader may have died before it sent them."""
        return [Released(r.offset, r.epoch, r.sequence, r.leader_id, [r.reply], None) for r in self.fold.recent_replies]

    def check(self, monotonic_ms: int) -> None:
        """End what has waited for longer than a lease.

        Raises:
            LeadershipEnded: a decision, or the grant, was not read back in time.

        """
        if self.leader is not None:
            try:
                self.leader.check_lease(monotonic_ms)
            except LeadershipEnded:
                self.step_down()
                raise
        elif self.role is Role.CANDIDATE and monotonic_ms - self._campaigned_at_ms > self.settings.lease_timeout_ms:
            self._become(Role.STANDBY)
            raise LeadershipEnded("the grant was not read back within a lease")

    def step_down(self) -> None:
        """Give the leadership up: the state is doubtful, or its decisions can no longer be appended."""
        self.leader = None
        if self.role is Role.LEADER:
            self._become(Role.DEPOSED)
        elif self.role is Role.CANDIDATE:
            self._become(Role.STANDBY)

    def resign(self) -> None:
        """Leave in order."""
        if self.role is Role.LEADER:
            self.leader = None
            self._become(Role.STANDBY)
