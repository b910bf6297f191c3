"""The leader as a sans-I/O machine: it decides, applies at once, appends without waiting, and releases what was accepted.

Its state runs ahead of the log by the window of unconfirmed decisions. What the world may see of a decision (replies,
deployments) waits until the record was read back and accepted (P4). Whatever makes the state doubtful ends the leadership:
the state is dropped and rebuilt from the log, never repaired (P2). What cannot be decided costs no leadership: a record is refused, an
internal input is parked. What cannot be applied costs one, and the last decision of that says the same (P10).
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from eventflink.events.codec import UndecodableRecord
from eventflink.events.decision import Cause, Decision, FollowUpCause, InputCause, TimerCause
from eventflink.events.inputs import ReportSnapshot
from eventflink.events.log_events import InputParked, LeadershipGranted, LogEvent, RequestRejected, TaskManagerRegistered
from eventflink.events.topics import INBOUND, MAX_DECISION_BYTES
from eventflink.leadership.acceptance import check_density, is_grant
from eventflink.leadership.fold import Fold, LogUnusable, next_hash
from eventflink.leadership.inbound import Inbound, InboundDecoder
from eventflink.leadership.intake import InboundRecord, PartitionInbox
from eventflink.leadership.log_clock import LogClock
from eventflink.leadership.log_lines import one_line
from eventflink.leadership.ports import Observer, ParticipantSettings
from eventflink.leadership.recovery import RecoveryMode
from eventflink.leadership.refusals import Refusals
from eventflink.master.canonical import InvariantBroken
from eventflink.master.effects import DeadLetterOrder, Effect, effects_of
from eventflink.master.inputs import AttemptInputs, FollowUp, InternalInput, MasterInput, UnreadableInput
from eventflink.master.parking import name_of, parking_of
from eventflink.master.requests import refused
from eventflink.master.suspects import label
from eventflink.model.statuses import IllegalTransition

_logger = logging.getLogger(__name__)

INLINE_BYTES = 32 * 1024
"""Follow-ups share the decision of their cause, and a timer is repeated in it, while it is smaller than this; the rest waits (P10a)."""

INLINE_STEPS = 16

REFUSAL_SHARE = 8
"""An eighth of a decision is kept for the refusal of what a record says beyond the rest of it."""

LAG_DIVISOR = 4
"""Nothing is decided while the oldest unconfirmed decision is older than this part of the lease."""

_APPLY_FAILURES = (IllegalTransition, InvariantBroken, LookupError, TypeError, ValueError, AttributeError)


class LeadershipEnded(Exception):
    """The leadership is over: the state is to be dropped, and rebuilt from the log."""


class Deposed(LeadershipEnded):
    """Somebody else leads: the log said so, and it can be followed on as a standby."""


class ApplyFailed(LeadershipEnded):
    """A decision could not be applied: nothing of it was appended."""

    is_settled: bool = False
    """The last decision of the leadership has refused or parked what it was about (P10)."""


class _Unapplicable(Exception):
    """What an input leads to does not fit the state, which is half changed now."""

    def __init__(self, value: MasterInput, message: str, event: LogEvent | None = None) -> None:
        super().__init__(message)
        self.value = value
        self.is_last_word = isinstance(event, InputParked | RequestRejected)
        """What could be said last does not fit itself: in the log it would end every reader."""


@dataclass(slots=True)
class Unconfirmed:
    """A decision that was appended and not read back yet."""

    sequence: int
    value: bytes
    decided_at_ms: int
    appended_at_ms: int
    event_names: list[str]
    effects: list[Effect]
    record: InboundRecord | None
    """The input that it answers, if it was a record: of several the last."""


@dataclass(slots=True)
class Released:
    """The effects of an accepted decision, with where it stands."""

    offset: int
    epoch: int
    sequence: int
    leader_id: str
    effects: list[Effect]


@dataclass(slots=True)
class _Draft:
    """A decision in the making."""

    at_ms: int
    level: int
    """The feature level whose schema it is written with (P19)."""
    records: Sequence[InboundRecord] = ()
    """Those that it is to answer, of each input the one in which it stood."""
    record: InboundRecord | None = None
    """The one whose input is decided now, or was last."""
    blocks: list[bytes] = field(default_factory=list)
    size: int = 0
    event_names: list[str] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    is_full: bool = False
    """What the record says further was refused, because it does not fit into this decision any more."""

    def say(self, block: bytes, events: Sequence[LogEvent], effects: Iterable[Effect]) -> None:
        """Add events and what they lead to; a dead letter gets the record that is to be kept."""
        self.blocks.append(block)
        self.size += len(block)
        self.event_names.extend([type(event).__name__ for event in events])
        record = self.record
        for effect in effects:
            if record is not None and type(effect) is DeadLetterOrder:
                self.effects.append(replace(effect, topic=record.topic, offset=record.offset, key=record.key, value=record.value))
            else:
                self.effects.append(effect)


@dataclass(slots=True)
class Leader:
    """One leadership: from the moment its grant was read back."""

    fold: Fold
    decoder: InboundDecoder
    inboxes: dict[str, PartitionInbox]
    settings: ParticipantSettings
    clock: LogClock
    observer: Observer = field(default_factory=Observer)
    note_deciding: Callable[[str], None] = lambda _name: None
    """Leaves word of the input that is being decided, for whoever asks at what this leader died (P10)."""
    unconfirmed: deque[Unconfirmed] = field(default_factory=deque)
    timers: deque[MasterInput] = field(default_factory=deque)
    """Internal inputs that wait to be decided: what was due (`master/timers.py`), and what this master noticed or its threads have done."""
    registered: list[str] = field(default_factory=list)
    """Instances whose registration was just decided: that counts as a heartbeat (P13)."""
    failure: ApplyFailed | None = None
    """The state is half changed: it is read no more, and when everything is read back the leadership is over for this reason."""
    recovery: RecoveryMode = field(init=False)
    refusals: Refusals = field(default_factory=Refusals)
    _sequence: int = 0
    _hash: bytes = b""
    _turn: int = 0
    _opening: bool = True
    """What was noted at promotion (bindings, losses) is decided before any input."""

    def __post_init__(self) -> None:
        self._sequence = self.fold.acceptance.sequence
        self._hash = self.fold.running_hash
        self.recovery = RecoveryMode(self.fold, self.inboxes, self.settings.lease_timeout_ms)

    # -- deciding -------------------------------------------------------------------------------------------------

    def decide_next(self, now_ms: int, monotonic_ms: int) -> bytes | None:
        """Decide the next input; return the record to append, or None when there is nothing to do or the window is full.

        Sources take turns, so that neither a flood of inputs nor a long queue of follow-ups starves the others.

        Raises:
            LeadershipEnded: the decision could not be applied.

        """
        if self.failure is not None or len(self.unconfirmed) >= self.settings.window_size or self._lags(monotonic_ms):
            return None
        value = self._decide_in_turn(now_ms, monotonic_ms)
        self.note_deciding("")
        return value

    def may_ask(self, name: str) -> bool:
        """Tell whether it may be looked whether the internal input of this name is due, before it is announced; leave word of that."""
        if self.recovery.is_watching or name == self.recovery.suspect:
            return False
        self.note_deciding(name)
        return True

    def _decide_in_turn(self, now_ms: int, monotonic_ms: int) -> bytes | None:
        if not self.recovery.may_decide(self.unconfirmed[0].sequence if self.unconfirmed else None, monotonic_ms):
            return None
        if self._opening and (value := self._decide_timer(now_ms, monotonic_ms)) is not None:
            return value
        self._opening = False
        if self.recovery.remaining:
            self.recovery.look(monotonic_ms)
        elif not self._may_have_something():
            return None
        sources = len(INBOUND) + 2
        for _ in range(sources):
            turn, self._turn = self._turn, (self._turn + 1) % sources
            value = self._decide_turn(turn, now_ms, monotonic_ms)
            if value is not None:
                return value
        return None

    def _may_have_something(self) -> bool:
        """Tell whether anything may wait: a record that was just decided counts until the next look at its inbox."""
        return bool(self.timers) or any(inbox.waiting for inbox in self.inboxes.values()) or self.fold.master.follow_ups.head() is not None

    def _lags(self, monotonic_ms: int) -> bool:
        """Tell whether reading back is so far behind that deciding more would only endanger the lease."""
        return bool(self.unconfirmed) and LAG_DIVISOR * (monotonic_ms - self.unconfirmed[0].appended_at_ms) > self.settings.lease_timeout_ms

    def _decide_turn(self, turn: int, now_ms: int, monotonic_ms: int) -> bytes | None:
        if turn < len(INBOUND):
            return self._decide_record(INBOUND[turn], now_ms, monotonic_ms)
        if turn == len(INBOUND):
            if (head := self.fold.master.follow_ups.head()) is None:
                return None
            if (announcement := self._announce_internal((head,), turn, now_ms, monotonic_ms)) is not None:
                return announcement
            return self._decide((FollowUpCause(head.follow_up_type),), "", (head,), now_ms, monotonic_ms)
        return self._decide_timer(now_ms, monotonic_ms)

    def _decide_timer(self, now_ms: int, monotonic_ms: int) -> bytes | None:
        while self.timers:
            value = self.timers[0]
            if self.fold.master.follow_ups.parked and isinstance(value, InternalInput) and self._is_parked(value):
                self.timers.popleft()
                continue
            if (announcement := self._announce_internal(self.timers, len(INBOUND) + 1, now_ms, monotonic_ms)) is not None:
                return announcement
            self.timers.popleft()
            record = self._decide((TimerCause(type(value).__name__),), "", (value,), now_ms, monotonic_ms)
            if record is not None:
                return record
        return None

    def _is_parked(self, value: InternalInput) -> bool:
        return name_of(value) in self.fold.master.follow_ups.parked

    def _decide_record(self, topic: str, now_ms: int, monotonic_ms: int) -> bytes | None:
        record = self._next_record(topic)
        if record is None:
            return None
        poison = self.recovery.poison_of(record)
        if poison is None and self.recovery.is_to_be_announced(record):
            return self._announce(record, now_ms, monotonic_ms)
        inbound = (self.refusals.decoded(record) if poison is None else None) or self._read(record, poison)
        batch = [(record, value) for value in inbound.inputs]
        if not self.recovery.remaining:
            waiting = islice(self.inboxes[topic].waiting, 1, None)
            batch += self.refusals.behind(record, inbound, waiting, self._read_ahead)
        self.recovery.decides(record)
        cause = InputCause(topic, 0, record.offset, batch[-1][0].offset)
        return self._decide((cause,), inbound.actor, [value for _, value in batch], now_ms, monotonic_ms, [each for each, _ in batch])

    def _read_ahead(self, record: InboundRecord) -> Inbound | None:
        """Return what a record says that waits behind others; None if it has to be decided alone."""
        is_alone = self.recovery.poison_of(record) is not None or self.recovery.is_to_be_announced(record)
        return None if is_alone else self._read(record, None)

    def _read(self, record: InboundRecord, poison: str | None) -> Inbound:
        """Return what a record says, or why it is refused."""
        self.note_deciding(record.name)
        inbound = self._checked(record, self._decoded(record, poison))
        if inbound.inputs:
            return inbound
        return Inbound((UnreadableInput("UndecodableRecord", f"{record.topic}@{record.offset}: the record holds no report", ""),))

    def _checked(self, record: InboundRecord, inbound: Inbound) -> Inbound:
        """Refuse what only the log can contradict: a snapshot of what is not written yet would keep out every real one."""
        for value in inbound.inputs:
            if isinstance(value, ReportSnapshot) and value.log_offset > self.fold.last_offset:
                message = f"{record.topic}@{record.offset}: log_offset {value.log_offset} is beyond the log's end {self.fold.last_offset}"
                return Inbound((UnreadableInput("InvalidRequest", message, "", value.request_id, value.reply_partition),), inbound.actor)
        return inbound

    def _decoded(self, record: InboundRecord, poison: str | None) -> Inbound:
        if poison is None:
            try:
                cursor = self.fold.master.requests.cursors.get(record.topic)
                if cursor is not None and cursor.rebound_count:
                    record = replace(record, rebound_count=cursor.rebound_count)
                return self.decoder.decode(record)
            except Exception as error:  # noqa: BLE001 - whatever a decoder stumbles over: the input is refused, and everything else continues
                poison = repr(error)
        return Inbound((self.decoder.poisoned(record, poison),))

    def _next_record(self, topic: str) -> InboundRecord | None:
        cursor = self.fold.master.requests.cursors.get(topic)
        return None if cursor is None else self.inboxes[topic].head_from(cursor.next_offset)

    # -- recovery mode (P10) --------------------------------------------------------------------------------------

    def _announce(self, record: InboundRecord, now_ms: int, monotonic_ms: int) -> bytes | None:
        """Say in the log which inputs are next, and wait until that was read back."""
        attempt = self.recovery.announcement(record, self._sequence + 1)
        return self._decide((TimerCause(type(attempt).__name__),), "", (attempt,), now_ms, monotonic_ms)

    def _announce_internal(self, values: Iterable[MasterInput], turn: int, now_ms: int, monotonic_ms: int) -> bytes | None:
        """Say in the log which internal inputs are next, if they are watched, and come back to this turn when that was read back."""
        if not (names := self.recovery.unannounced(values)):
            return None
        self._turn, attempt = turn, self.recovery.internal_announcement(names)
        value = self._decide((TimerCause(type(attempt).__name__),), "", (attempt,), now_ms, monotonic_ms)
        self.recovery.announces(names, self._sequence)
        return value

    def _announce_next(self, draft: _Draft) -> None:
        """Announce in a decision of the recovery mode which inputs come after it, if some do whose turn it is: one round trip for both."""
        waiting = map(self._next_record, self.recovery.announced_topics)
        if draft.size >= INLINE_BYTES or any(record is not None and self.recovery.has_announced(record) for record in waiting):
            return
        sources = len(INBOUND) + 2
        for turn in [(self._turn + step) % sources for step in range(sources)]:
            if not self._has_something(turn):
                continue
            record = self._next_record(INBOUND[turn]) if turn < len(INBOUND) else None
            if record is not None and self.recovery.poison_of(record) is None and self.recovery.is_to_be_announced(record):
                self._step(draft, self.recovery.announcement(record, self._sequence + 1))
                self._turn = (turn + 1) % sources
            else:
                self._turn = turn
            return

    def _has_something(self, turn: int) -> bool:
        if turn < len(INBOUND):
            return self._next_record(INBOUND[turn]) is not None
        return self.fold.master.follow_ups.head() is not None if turn == len(INBOUND) else bool(self.timers)

    def _decide(
        self,
        causes: tuple[Cause, ...],
        actor: str,
        inputs: Sequence[MasterInput],
        now_ms: int,
        monotonic_ms: int,
        records: Sequence[InboundRecord] = (),
    ) -> bytes | None:
        """Decide inputs and what follows from them, as one record of the log; `records` tells of each input in which record it stood."""
        master = self.fold.master
        draft = _Draft(now_ms, master.upkeep.feature_level, records)
        try:
            master.apply_causes(causes)
        except InvariantBroken as error:
            raise ApplyFailed(str(error)) from error
        try:
            for value, record in zip(inputs, records or (None,) * len(inputs), strict=True):
                if draft.is_full and record is draft.record:
                    break
                draft.record = record
                self._step(draft, value)
                if isinstance(value, InternalInput) and value.repeats and not self.recovery.is_watching:
                    self._repeat(draft, value)
            self._follow_up(draft)
            if not draft.event_names:
                return None
            if self.recovery.remaining and not self._opening:
                self._announce_next(draft)
        except _Unapplicable as error:
            if error.is_last_word:
                raise ApplyFailed(str(error)) from error
            return self._give_up(error, causes, draft, monotonic_ms)
        self.recovery.says()
        return self._seal(draft, causes, actor, monotonic_ms)

    def _follow_up(self, draft: _Draft) -> None:
        """Decide what follows, while the decision is small; the others wait for decisions of their own (P10a)."""
        master = self.fold.master
        for _ in range(0 if self.recovery.is_watching else INLINE_STEPS):
            head = master.follow_ups.head()
            # A decision that raised the level is written at the one before: what is newer waits for the next.
            if not draft.event_names or head is None or draft.size >= INLINE_BYTES or draft.level < master.upkeep.feature_level:
                return
            if self.recovery.awaits_announcement(head):
                return
            if not self._step(draft, head):
                return

    def _step(self, draft: _Draft, value: MasterInput) -> bool:
        """Decide one input, check its events by encoding and decoding them, and apply them.

        Tell whether that was done: a follow-up at which it fails inside the decision of its cause gets a decision of its own.
        """
        master = self.fold.master
        try:
            self._note(draft, value)
            # Of what a record says so much fits that its refusal fits behind it.
            room = MAX_DECISION_BYTES // REFUSAL_SHARE if draft.record is not None and not isinstance(value, FollowUp) else 0
            block, events = self._encoded(master.decide(value, draft.at_ms, self.fold.acceptance.leader_id), draft, room)
        except Exception as error:
            # Deciding is pure: the state is untouched, whatever went wrong. The input is refused or parked, and everything else continues.
            if draft.event_names and isinstance(value, FollowUp | AttemptInputs):
                return False
            if draft.record is not None and not isinstance(value, FollowUp | AttemptInputs):
                block, events = self._refused(draft, draft.record, value, error)
            elif isinstance(value, InternalInput):
                block, events = self._parked(draft, value, error)
            else:
                raise
        event: LogEvent | None = None
        if events and not draft.blocks:
            master.suspects.survive()
        try:
            for event in events:
                master.apply(event, draft.at_ms)
            effects = effects_of(master, events)
        except _APPLY_FAILURES as error:
            message = f"{type(event).__name__} decided for {type(value).__name__} cannot be applied: {error!r}"
            raise _Unapplicable(value, message, event) from error
        self.registered.extend(e.instance_id for e in events if type(e) is TaskManagerRegistered)
        if events:
            draft.say(block, events, effects)
        return True

    def _note(self, draft: _Draft, value: MasterInput) -> None:
        """Leave word of what is decided now; raise `LeadersCrashed` if so many leaders died at it that it is parked instead."""
        if isinstance(value, InternalInput):
            name = label(*name_of(value))
            self.note_deciding(name)
            self.recovery.check(name)
        elif draft.record is not None:
            self.note_deciding(draft.record.name)

    def _repeat(self, draft: _Draft, value: InternalInput) -> None:
        """Decide an input again, as long as that leads to something, and is small; and what follows first, which may change what is due."""
        said = 0
        while said < len(draft.event_names) and draft.size < INLINE_BYTES and not self._is_parked(value):
            self._follow_up(draft)
            if self.fold.master.follow_ups.head() is not None:
                return
            said = len(draft.event_names)
            self._step(draft, value)

    def _parked(self, draft: _Draft, value: InternalInput, error: Exception) -> tuple[bytes, tuple[LogEvent, ...]]:
        parking = parking_of(self.fold.master, value, error)
        _logger.error("InputParked type=%s subject=%s reason=%s", parking.input_type, one_line(parking.subject), one_line(parking.reason))
        return self._encoded([parking], draft)

    def _refused(self, draft: _Draft, record: InboundRecord, value: MasterInput, cause: Exception) -> tuple[bytes, tuple[LogEvent, ...]]:
        refusal = self.decoder.poisoned(record, repr(cause), value)
        try:
            return self._encoded(self.fold.master.decide(refusal, draft.at_ms), draft)
        except ValueError as error:  # Not even that fits any more: the whole record is refused.
            raise _Unapplicable(value, f"{record.topic}@{record.offset} cannot be answered in one decision: {cause!r}") from error

    def _give_up(self, error: _Unapplicable, causes: tuple[Cause, ...], failed: _Draft, monotonic_ms: int) -> bytes:
        """Decide the last that this leadership decides: what cannot be applied is refused or parked, on the state before it (P10).

        This state is half changed. So nothing of it is asked any more, and what is said fits whatever the state is.
        """
        _logger.error("ApplyFailed error=%s", one_line(str(error)))
        self.failure = ApplyFailed(str(error))
        self.failure.is_settled, self.failure.__cause__ = True, error.__cause__
        value, record, draft = error.value, failed.record, _Draft(failed.at_ms, failed.level)
        if record is not None and not isinstance(value, FollowUp | AttemptInputs):
            first = failed.records[0]
            if record is not first:
                draft = failed  # What was said of those before it are refusals as well.
            draft.record, causes = record, (InputCause(record.topic, 0, first.offset, record.offset),)
            block, events = self._encoded([refused(self.decoder.poisoned(record, str(error), value))], draft)
        elif isinstance(value, InternalInput):
            causes = (FollowUpCause(value.follow_up_type) if isinstance(value, FollowUp) else TimerCause(type(value).__name__),)
            block, events = self._parked(draft, value, self.failure)
        else:
            raise self.failure
        draft.say(block, events, effects_of(self.fold.master, events))
        return self._seal(draft, causes, "", monotonic_ms)

    def _encoded(self, events: list[LogEvent], draft: _Draft, room: int = 0) -> tuple[bytes, tuple[LogEvent, ...]]:
        """Encode events that leave `room` for others behind them."""
        if not events:
            return b"", ()
        block = self.fold.codec.encode_events(events, draft.level)
        most = MAX_DECISION_BYTES - room
        if draft.size + len(block) > most:
            draft.is_full = True
            raise ValueError(f"the decision has {draft.size + len(block)} bytes; at most {most} are allowed")
        return block, self.fold.codec.decode_events(block, draft.level)

    def _seal(self, draft: _Draft, causes: tuple[Cause, ...], actor: str, monotonic_ms: int) -> bytes:
        acceptance = self.fold.acceptance
        self._sequence += 1
        value = self.fold.codec.join(
            epoch=acceptance.epoch,
            sequence=self._sequence,
            leader_id=acceptance.leader_id,
            decided_at_ms=draft.at_ms,
            previous_hash=self._hash,
            causes=causes,
            actor=actor,
            blocks=draft.blocks,
            level=draft.level,
        )
        self._hash = next_hash(self._hash, value)
        self.unconfirmed.append(
            Unconfirmed(self._sequence, value, draft.at_ms, monotonic_ms, draft.event_names, draft.effects, draft.record)
        )
        return value

    # -- reading back ---------------------------------------------------------------------------------------------

    def read_back(self, offset: int, timestamp_ms: int, value: bytes) -> Released | None:
        """Take a record of the log; return the effects to release if it is the oldest unconfirmed decision.

        Raises:
            LeadershipEnded: the record shows that somebody else leads.
            LogNotDense: records are missing before this one.
            LogUnusable: the record is not a decision.

        """
        fold = self.fold
        if not self.unconfirmed or value != self.unconfirmed[0].value:
            self._foreign(offset, value)
            return None
        if not check_density(fold.last_offset, offset):
            return None
        own = self.unconfirmed.popleft()
        acceptance = fold.acceptance
        epoch, leader_id = acceptance.epoch, acceptance.leader_id
        fold.confirm(offset, timestamp_ms, epoch, own.sequence, leader_id, own.decided_at_ms, value)
        fold.event_count += len(own.event_names)
        self.observer.accepted(own.event_names, is_own=True)
        if own.record is not None:
            self.inboxes[own.record.topic].accepted(own.record.offset + 1)
        return Released(offset, epoch, own.sequence, leader_id, own.effects)

    def _foreign(self, offset: int, value: bytes) -> None:
        """Pass over a record that the fold rejects; an accepted one ends this leadership."""
        fold = self.fold
        if not check_density(fold.last_offset, offset):
            return
        if fold.codec.is_foreign(offset, value):
            fold.pass_over(offset, value)
            return
        try:
            decision = fold.codec.decode(value)
        except UndecodableRecord as error:
            raise LogUnusable(f"log@{offset}: {error}") from error
        if fold.acceptance.accepts(decision.epoch, decision.sequence, decision.leader_id, grant=is_grant(decision)):
            raise Deposed(
                f"log@{offset}: the epoch {decision.epoch} of {decision.leader_id} began; {len(self.unconfirmed)} decisions are void"
            )
        fold.last_offset = offset
        fold.rejected_count += 1

    def check_lease(self, monotonic_ms: int) -> str:
        """Return why the leadership is over: a decision was not read back within a lease (P2); or nothing."""
        if self.unconfirmed and monotonic_ms - self.unconfirmed[0].appended_at_ms > self.settings.lease_timeout_ms:
            waited_ms = monotonic_ms - self.unconfirmed[0].appended_at_ms
            return f"the decision sequence={self.unconfirmed[0].sequence} was not read back within {waited_ms} ms"
        return ""

    def may_send_heartbeat(self, monotonic_ms: int) -> bool:
        """Tell whether the leader may say that it lives: not while a decision is unconfirmed for half a lease (L1)."""
        return not self.unconfirmed or 2 * (monotonic_ms - self.unconfirmed[0].appended_at_ms) < self.settings.lease_timeout_ms


def grant_of(fold: Fold, master_id: str, leader_id: str, blob_address: str, wall_ms: int) -> bytes:
    """Return the record by which a candidate bids for the next epoch; `leader_id` is fresh for each candidacy.

    Its time is the last decision's: how much time has passed since is known when it is read back.
    """
    grant = Decision(
        epoch=fold.acceptance.epoch + 1,
        sequence=0,
        leader_id=leader_id,
        decided_at_ms=fold.last_decided_at_ms or wall_ms,
        previous_hash=b"",
        causes=(),
        actor="",
        events=(LeadershipGranted(master_id, blob_address),),
    )
    return fold.codec.encode(grant, fold.master.upkeep.feature_level)
