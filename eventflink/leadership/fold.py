"""The fold over the log: the state that its records make, where it stands, and what it saw last.

Which decisions are accepted is the rule of `acceptance.py`; that each was made after the records that this fold has read is shown by the
running hash over accepted records (P3). A `Fold` is what every reader has: a master, an audit, the command line. It takes records in
offset order and applies the accepted ones. A failure here is fatal and names the record: no record of the log is ever skipped.
"""

import hashlib
import logging
from collections import deque
from dataclasses import dataclass, field

from eventflink.events.codec import DecisionCodec, UndecodableRecord
from eventflink.events.decision import Decision
from eventflink.events.schemas import MARKER
from eventflink.events.seal import has_seal
from eventflink.events.topics import Topic
from eventflink.leadership.acceptance import Acceptance, LogNotDense, check_density, is_grant
from eventflink.master.canonical import InvariantBroken
from eventflink.master.effects import Reply, replies_of
from eventflink.master.master import Master
from eventflink.model.cluster_secret import FROM_KEY, KEY, OFF
from eventflink.model.statuses import IllegalTransition
from eventflink.model.texts import is_told

_logger = logging.getLogger(__name__)

HASH_START = b""
"""What stands for the hash before the first accepted record."""


class LogBehind(LogNotDense):
    """What the leader has read does not arrive here: a record was missed, or heartbeats arrive and the log does not."""


class LogDiverged(Exception):
    """An accepted decision was made after other records than these: the log is not what its writer saw (P3)."""


def next_hash(previous: bytes, record: bytes) -> bytes:
    """Return the running hash after one more accepted record."""
    return hashlib.blake2b(previous + record, digest_size=16).digest()


RECENT_REPLIES = 4_096
"""Answers of the last decisions, which a new leader resends: its predecessor may have crashed before it sent them."""


MOST_OF_AN_ERROR = 1_000
"""Characters of what is wrong with a record that its error says: it may quote the record."""


class LogUnusable(Exception):
    """A record of the log cannot be folded; the message names offset, epoch, sequence and event type."""


class SecretUnfit(LogUnusable):
    """Whoever wrote the log has another cluster secret than this process, or one of the two has none (P3a)."""


@dataclass(slots=True)
class RecentReply:
    """An answer, and the accepted decision that holds it."""

    offset: int
    epoch: int
    sequence: int
    leader_id: str
    reply: Reply


@dataclass(slots=True)
class Fold:
    """The state after the record at `last_offset`."""

    master: Master
    codec: DecisionCodec
    acceptance: Acceptance = field(default_factory=Acceptance)
    running_hash: bytes = HASH_START
    last_offset: int = -1
    last_decided_at_ms: int = 0
    last_timestamp_ms: int = 0
    """Kafka's timestamp of the last accepted record."""
    accepted_count: int = 0
    rejected_count: int = 0
    foreign_count: int = 0
    """Records that no master of the cluster wrote, and offsets without a record, which were passed over."""
    unsealed_count: int = 0
    """Those of them that begin as decisions do."""
    last_value: bytes = b""
    """The last accepted record, if it was read here."""
    event_count: int = 0
    recent_replies: deque[RecentReply] = field(default_factory=lambda: deque(maxlen=RECENT_REPLIES))

    def fold_record(self, offset: int, timestamp_ms: int, value: bytes) -> Decision | None:
        """Fold one record; return its decision if it was accepted.

        Raises:
            LogNotDense: records are missing before this one.
            LogDiverged: the record was made after other records than these.
            LogUnusable: it cannot be decoded or applied, or allows events of which this version knows nothing (P19).

        """
        if not check_density(self.last_offset, offset):
            return None
        if self.codec.is_foreign(offset, value):
            self.pass_over(offset, value)
            return None
        try:
            decision = self.codec.decode(value)
        except UndecodableRecord as error:
            raise LogUnusable(f"log@{offset}: {error}") from error
        grant = is_grant(decision)
        if not self.acceptance.accepts(decision.epoch, decision.sequence, decision.leader_id, grant=grant):
            self.last_offset = offset
            self.rejected_count += 1
            return None
        if not grant and decision.previous_hash != self.running_hash:
            raise LogDiverged(
                f"log@{offset} epoch={decision.epoch} sequence={decision.sequence}: it was decided after other records than were read here"
            )
        self._apply(offset, decision)
        if (level := self.master.upkeep.feature_level) > self.codec.feature_level:
            raise LogUnusable(
                f"log@{offset}: the feature level is {level}; this version reads up to {self.codec.feature_level}: "
                "only a version that knows the level can run here"
            )
        self.confirm(offset, timestamp_ms, decision.epoch, decision.sequence, decision.leader_id, decision.decided_at_ms, value)
        self.event_count += len(decision.events)
        for reply in replies_of(decision.events):
            self.recent_replies.append(RecentReply(offset, decision.epoch, decision.sequence, decision.leader_id, reply))
        return decision

    def pass_over(self, offset: int, value: bytes) -> None:
        """Take note of a foreign record, which changes nothing: whoever wrote it, and whatever it says."""
        self.last_offset = offset
        self.foreign_count += 1
        self.unsealed_count += value.startswith(MARKER)
        if is_told(self.foreign_count):
            _logger.warning("ForeignRecord topic=%s offset=%d count=%d", Topic.LOG, offset, self.foreign_count)

    def _apply(self, offset: int, decision: Decision) -> None:
        replays, at_ms = self.master.replays, decision.decided_at_ms
        event: object = None
        try:
            self.master.apply_causes(decision.causes)
            if decision.causes:  # Only a grant has none.
                self.master.suspects.survive()
            for event in decision.events:
                for replay in replays[type(event)]:  # As `Master.apply`, without its call: most of a replay goes through here.
                    replay(event, at_ms)
        except (IllegalTransition, InvariantBroken, LookupError, TypeError, ValueError, AttributeError) as error:
            name = type(event).__name__
            what = f"{error!r:.{MOST_OF_AN_ERROR}}"
            raise LogUnusable(f"log@{offset} epoch={decision.epoch} sequence={decision.sequence} event={name}: {what}") from error

    def confirm(self, offset: int, timestamp_ms: int, epoch: int, sequence: int, leader_id: str, decided_at_ms: int, value: bytes) -> None:
        """Take note of an accepted record whose events are applied (a leader applies its own before it appends them)."""
        self.last_offset = offset
        self.last_value = value
        self.last_timestamp_ms = timestamp_ms
        # A candidate that had not read everything yet dates its grant too early; time does not go back for that.
        self.last_decided_at_ms = max(self.last_decided_at_ms, decided_at_ms)
        self.running_hash = next_hash(self.running_hash, value)
        self.acceptance.advance(epoch, sequence, leader_id)
        self.accepted_count += 1


def check_believed(fold: Fold) -> None:
    """Check that a log was not read with a secret by which nobody wrote it: its state would be that of an empty one.

    Raises:
        SecretUnfit: nothing in it has a valid seal.

    """
    if fold.unsealed_count and not fold.accepted_count:
        raise SecretUnfit(
            f"none of the {fold.unsealed_count} records of the log has a seal of this process's cluster secret: {KEY} names another one; "
            f"or the log was written without one, then {FROM_KEY}: {fold.last_offset + 1} says so, or {KEY}: {OFF} (docs/security.md)"
        )


def check_secret(fold: Fold) -> None:
    """Check that who wants to lead has the secret that the log was written with.

    Raises:
        SecretUnfit: the log is sealed, and this process has no secret.

    """
    if fold.codec.seal is None and has_seal(fold.last_value):
        raise SecretUnfit(
            f"cluster secret not found, and the log is sealed with one: name it with {KEY}, or put its file below "
            "data.directory (docs/security.md)"
        )
