"""What is known to have been in the log and in the inbound topics, held against what Kafka has of them now (P5a).

A record was there if this process has folded it, if a snapshot stands at it, if the last leader said to have read it, or if a cursor has
passed it. The rule: where Kafka has less than that, or something else, nothing is decided, and what is missing is named. Who asks Kafka,
and when, is the business of the callers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from eventflink.events.codec import PayloadCodec, UndecodableRecord
from eventflink.events.effects import LeaderHeartbeat
from eventflink.events.seal import Seal
from eventflink.events.topics import Topic
from eventflink.leadership.acceptance import Acceptance
from eventflink.leadership.fold import HASH_START, Fold, LogUnusable
from eventflink.leadership.intake import InboundTopic, TopicReplaced
from eventflink.master.requests import Cursor


class LogTruncated(LogUnusable):
    """A topic has less than is known to have been in it, or something else; the message names what is missing, and who knows of it."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(
            f"LogTruncated topic={topic}: {reason}. Nothing is decided on less than was known: "
            "`eventflink log verify` shows what is left, docs/operating.md says what can be done"
        )
        self.topic = topic
        self.reason = reason


def missing(first_offset: int, last_offset: int) -> str:
    """Return how the loss of records is told: from where to where."""
    which = f"the record {first_offset} is" if first_offset == last_offset else f"the records {first_offset} to {last_offset} are"
    return f"it ends at {first_offset}, and {which} missing"


@dataclass(slots=True)
class KnownLog:
    """How far one process has read the log; -1: not at all."""

    offset: int = -1
    running_hash: bytes = HASH_START

    def note(self, fold: Fold) -> None:
        """Know what this fold has read."""
        if fold.last_offset > self.offset:
            self.offset, self.running_hash = fold.last_offset, fold.running_hash

    def check(self, fold: Fold) -> None:
        """Hold a fold against this: one that has read the log to its end, or just the record at `offset`.

        Raises:
            LogTruncated: the log is shorter, or other records are in it.

        """
        if fold.last_offset < self.offset:
            raise LogTruncated(Topic.LOG, f"{missing(fold.last_offset + 1, self.offset)}, which this process has read")
        if fold.last_offset == self.offset and fold.running_hash != self.running_hash:
            raise LogTruncated(Topic.LOG, f"up to the record {self.offset} it has other records than this process has read")


def heard_offset(acceptance: Acceptance, said: Iterable[bytes | None], seal: Seal | None = None) -> int:
    """Return the last record that the leader which was accepted last has read, by what masters said on `leadership`; -1: not known."""
    heartbeat = _last_heartbeat(acceptance, said, seal)
    return -1 if heartbeat is None else heartbeat.log_offset


def _last_heartbeat(acceptance: Acceptance, said: Iterable[bytes | None], seal: Seal | None) -> LeaderHeartbeat | None:
    """Return the heartbeat that says most of this log's end.

    Only those of the leadership that was accepted last count: what any other one has read says nothing of it. Where that has said nothing,
    the epoch before counts if its words are sealed: a standby that has not noticed a loss yet may bid behind it, and would hide it so.
    """
    codec, granted = PayloadCodec("LeadershipEnvelope", seal=seal), (acceptance.epoch, acceptance.leader_id)
    newest: LeaderHeartbeat | None = None
    for value in said:
        try:
            payload, _ = codec.decode(value or b"")
        except UndecodableRecord:
            continue
        if not isinstance(payload, LeaderHeartbeat):
            continue
        is_before = seal is not None and payload.epoch == acceptance.epoch - 1
        is_newer = newest is None or (payload.epoch, payload.log_offset) > (newest.epoch, newest.log_offset)
        if is_newer and (is_before or (payload.epoch, payload.leader_id) == granted):
            newest = payload
    return newest


def check_heard(fold: Fold, said: Iterable[bytes | None], seal: Seal | None = None) -> None:
    """Hold a fold of the whole log against what masters said on `leadership` before its end was asked for.

    Raises:
        LogTruncated: the leader had read more.

    """
    heartbeat = _last_heartbeat(fold.acceptance, said, seal)
    if heartbeat is not None and heartbeat.log_offset > fold.last_offset:
        who = f"the leader {heartbeat.leader_id} of epoch {heartbeat.epoch}"
        raise LogTruncated(Topic.LOG, f"{missing(fold.last_offset + 1, heartbeat.log_offset)}, which {who} said to have read")


def place_inbound(topic: str, cursor: Cursor | None, found: InboundTopic, *, may_rebind: bool) -> tuple[InboundTopic, int]:
    """Return an inbound topic as a term is to take it, and the offset at which to begin to read it.

    `found` was asked for after the cursor was folded; `may_rebind` is an operator's word that the cursor may be bound anew (P9).

    Raises:
        TopicReplaced: it is not the topic that the cursor was bound to.
        LogTruncated: it ends before its cursor.

    """
    if cursor is None:
        return found, found.low_offset
    if cursor.topic_id and found.topic_id not in ("", cursor.topic_id):
        if not may_rebind:
            raise TopicReplaced(
                f"{topic} has the id {found.topic_id}, but its cursor was bound to {cursor.topic_id}: the topic was deleted and "
                f"created again, and offsets of the old one mean nothing in it. `eventflink master --rebind {topic}` begins at its first "
                "record"
            )
        return replace(found, is_rebound=True), found.low_offset
    if cursor.next_offset > found.high_offset:
        if not may_rebind:
            lost = missing(found.high_offset, cursor.next_offset - 1)
            raise LogTruncated(
                topic, f"{lost}, which were decided; what was written since then is not read. `eventflink master --rebind {topic}` goes on"
            )
        return replace(found, is_rewound=True), found.high_offset
    return found, max(found.low_offset, cursor.next_offset)
