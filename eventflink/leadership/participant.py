"""One term of one master as a sans-I/O machine: STANDBY → CANDIDATE → LEADER, and DEPOSED as the way back.

A standby folds. A candidate has appended its grant and waits to read it back: the first grant of an epoch in log order wins, for every
reader alike. When the winner reads its own grant, its state is complete; it resends what is not confirmed, and decides. A term
begins with a fold of the log and ends with the leadership or the candidacy; then the state is dropped (`master_life.py`). Every call is
bounded: a turn reads back and decides a limited amount, and says whether more waits.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from eventflink.events.codec import PayloadCodec, UndecodableRecord
from eventflink.events.decision import Decision, InputCause
from eventflink.events.effects import LeaderDeath, LeaderHang, LeaderHeartbeat, MasterPresence, Resignation
from eventflink.events.log_events import InputsBound
from eventflink.events.topics import INBOUND, Topic
from eventflink.leadership.acceptance import is_grant
from eventflink.leadership.election import PRESENCE_LEASES, Advice, Election, Peers, Said
from eventflink.leadership.fold import Fold
from eventflink.leadership.inbound import InboundDecoder
from eventflink.leadership.input_progress import REPORTS, REQUESTS, InputProgress
from eventflink.leadership.intake import Intake, Stalls
from eventflink.leadership.leader import Deposed, Leader, LeadershipEnded, Released, grant_of
from eventflink.leadership.liveness import Liveness
from eventflink.leadership.log_clock import LogClock, LogSightings
from eventflink.leadership.ports import Observer, ParticipantSettings, Wires
from eventflink.leadership.reads import Reads
from eventflink.leadership.release import Releaser, ResendQueue, recent_replies
from eventflink.master.effects import (
    due_archives,
    due_clean_ups,
    due_file_watches,
    due_table_watches,
    due_watches,
    leader_change,
    unacknowledged,
    wanted_partitions,
)
from eventflink.master.inputs import ArchiveFailed, BindInputs, CleanupFailed, LoseInputs, MasterInput, RaiseFeatureLevel, StartCluster
from eventflink.master.timers import DecidedUntil
from eventflink.model.statuses import ROLE_TRANSITIONS, ApplicationStatus, Role, check_transition

_logger = logging.getLogger(__name__)

RECORDS_PER_TURN: Final = 512
DECISIONS_PER_TURN: Final = 256
TURN_MS: Final = 5
"""How long one turn decides at most before its driver reads again."""

TIMERS_INTERVAL_MS: Final = 100
MAX_TIMERS: Final = 10_000
MAX_DEATHS: Final = 16
PRESENCES_PER_LEASE: Final = 2

WATCH_LEASES: Final = 2
"""Until what stood at promotion has come up again, for so much longer than the loss of a silent TaskManager takes."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A decision of somebody else was accepted."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class Promoted:
    """The own grant was accepted: this master leads, and resends what is not confirmed."""

    released: Released


Change = Followed | Promoted | Released
"""What an accepted record changed; `Released`: an own decision is accepted, and its effects may leave."""


@dataclass(slots=True)
class Participant:
    """One term of one master."""

    settings: ParticipantSettings
    fold: Fold
    decoder: InboundDecoder
    intake: Intake
    election: Election
    peers: Peers
    wires: Wires
    mint_leader_id: Callable[[], str]
    """Returns an id that no candidacy had before."""
    sightings: LogSightings = field(default_factory=LogSightings)
    """Of the process: it tells how long nobody has decided when this master begins to lead (P20)."""
    role: Role = Role.STANDBY
    leader: Leader | None = None
    """The leadership, while there is one."""
    reads: Reads = field(init=False)
    observer: Observer = field(default_factory=Observer)
    presence_sequence: int = 0
    is_draining: bool = False
    """Nothing more is decided: the master is about to leave in order."""
    known_shutdowns: int = 0
    """How often the cluster had ended before this process was started: those ends are not this master's."""
    heard_itself_ms: int = 0
    """When a presence of this master was last read: a master that no longer reads its own records reads no other's."""
    _releaser: Releaser = field(init=False)
    _liveness: Liveness = field(init=False)
    _codec: PayloadCodec = field(init=False)
    _resends: ResendQueue = field(default_factory=ResendQueue)
    _stalls: Stalls = field(init=False)
    _requests: InputProgress = field(init=False)
    _reports: InputProgress = field(init=False)
    _unbound: set[str] = field(default_factory=set)
    """Topics whose cursors still count the offsets of another one of that name (P9)."""
    _rewound: set[str] = field(default_factory=set)
    """Of these the topics that end before their cursors."""
    _stuck_since_ms: int | None = None
    """Since when a standby saw an input wait, at its last tick."""
    _resigned: str = ""
    """The candidacy that last resigned: the leader after it needs no recovery mode."""
    _died_at: dict[str, str] = field(default_factory=dict)
    """By candidacy, the input at which it hangs or died, by its guardian's word (P10); the last ones that were heard."""
    _grant: bytes = b""
    _campaigned_ms: int = 0
    _campaigned_wall_ms: int = 0
    _promoted_ms: int = 0
    _next_presence_ms: int = 0
    _heartbeat_sequence: int = 0
    _heard: tuple[str, int] = ("", 0)
    """The leader whose heartbeat was read last, and its number."""
    _next_heartbeat_ms: int = 0
    _next_timers_ms: int = 0
    _next_resend_ms: int = 0

    def __post_init__(self) -> None:
        """Begin as a standby: what was decided before and not accepted waits again."""
        settings = self.settings
        self.reads = Reads(self)
        self._stalls = Stalls(self.fold, self.intake, settings.lease_timeout_ms)
        self._requests, self._reports = InputProgress(self.intake, REQUESTS), InputProgress(self.intake, REPORTS)
        self._releaser = Releaser(self.wires, settings.master_id, settings.seals, settings.inline_locations)
        self._liveness = Liveness(settings, self.wires)
        self._codec = PayloadCodec("LeadershipEnvelope", seal=settings.seals.of(Topic.LEADERSHIP))
        self._rewound = self.intake.take_rewound()
        cursors = self.fold.master.requests.cursors
        for topic in INBOUND:
            is_bound = topic in cursors and not self._is_bound_elsewhere(topic)
            if topic in cursors and not is_bound:
                self._unbound.add(topic)
            self.intake.rewind(topic, cursors[topic].next_offset if is_bound else None)

    def _is_bound_elsewhere(self, topic: str) -> bool:
        """Tell whether the cursor counts offsets that are gone, and an operator wants it bound to what is there (P9)."""
        if topic in self._rewound:
            return True
        cursor, found = self.fold.master.requests.cursors[topic], self.intake.topics[topic]
        return found.is_rebound and cursor.topic_id != found.topic_id

    def _become(self, role: Role) -> None:
        check_transition(ROLE_TRANSITIONS, self.settings.master_id, self.role, role)
        self.role = role
        epoch = self.fold.acceptance.epoch
        self.observer.became(role, epoch)
        if role is Role.LEADER:
            _logger.info("LeadershipGranted epoch=%d offset=%d", epoch, self.fold.last_offset)
        elif role is Role.CANDIDATE:
            _logger.info("Candidate epoch=%d", epoch + 1)

    # -- records in ------------------------------------------------------------------------------------------------

    @property
    def decides(self) -> bool:
        """Whether inputs are decided by this master now."""
        return self.leader is not None

    def on_heartbeat(self, value: bytes | None, now_ms: int) -> None:
        """Take a record of `heartbeats`; a standby needs none, for at promotion all deadlines are reset."""
        if self.leader is not None:
            self._liveness.on_heartbeat(value, self.fold.master, now_ms)

    def on_leadership(self, value: bytes | None, now_ms: int) -> str:
        """Take a record of `leadership`; return why it cannot be read, or nothing."""
        try:
            payload, _ = self._codec.decode(value or b"")
        except UndecodableRecord as error:
            return str(error)
        match payload:
            case LeaderHeartbeat() if self._is_of_the_accepted(payload):
                if self._codec.seal is not None and self._is_copy(payload):
                    return ""
                self._stalls.leader_log_offset = payload.log_offset
            case Resignation():
                self._resigned = payload.leader_id
            case LeaderHang():
                self._suspect(payload)
                return ""
            case LeaderDeath():
                self._suspect(payload)
            case MasterPresence():
                self.peers.hear(payload, now_ms)
                if payload.incarnation == self.settings.incarnation:
                    self.heard_itself_ms = now_ms
        if isinstance(payload, MasterPresence) or (self._is_of_the_accepted(payload) and self._may_be_true(payload)):
            self.election.heard(payload, now_ms)
        return ""

    def _suspect(self, said: LeaderHang | LeaderDeath) -> None:
        """Remember at which input a leader hangs, or died, in case that this master leads next (P10)."""
        self._died_at.pop(said.leader_id, None)
        if said.deciding:
            self._died_at[said.leader_id] = said.deciding
            if len(self._died_at) > MAX_DEATHS:
                del self._died_at[next(iter(self._died_at))]

    def _is_of_the_accepted(self, said: LeaderHeartbeat | Resignation | LeaderDeath) -> bool:
        """Tell whether it is said of the leadership that the log accepted last: whoever writes to `leadership` may name any other (L2)."""
        acceptance = self.fold.acceptance
        return (said.epoch, said.leader_id) == (acceptance.epoch, acceptance.leader_id)

    def _is_copy(self, heartbeat: LeaderHeartbeat) -> bool:
        """Tell whether this was said before: whoever can read may write it once more, and a leader that crashed would seem to live.

        Asked only of what is sealed: anybody could name a number so high that the leader's own would seem to be copies.
        """
        leader_id, sequence = self._heard
        if leader_id == heartbeat.leader_id and heartbeat.sequence <= sequence:
            return True
        self._heard = (heartbeat.leader_id, heartbeat.sequence)
        return False

    def _may_be_true(self, said: LeaderHeartbeat | Resignation | LeaderDeath) -> bool:
        """Tell whether this is not the very master that leads, and is said to have ended (L2a)."""
        if isinstance(said, LeaderHeartbeat):
            return True
        if self.leader is not None:
            _logger.warning("LeaderDeathRefuted epoch=%d leader_id=%s", said.epoch, said.leader_id)
        elif isinstance(said, LeaderDeath):
            _logger.info("LeaderDied epoch=%d leader_id=%s", said.epoch, said.leader_id)
        return self.leader is None

    def later(self, value: MasterInput) -> None:
        """Take an internal input, such as the outcome of a clean-up; a standby needs none."""
        leader = self.leader
        if leader is not None and (len(leader.timers) < MAX_TIMERS or not isinstance(value, CleanupFailed | ArchiveFailed)):
            leader.timers.append(value)

    # -- turns -----------------------------------------------------------------------------------------------------

    def turn(self, monotonic: Callable[[], int], wall_ms: int) -> bool:
        """Read back, decide, append, release: a bounded amount of each. Tell whether more waits.

        Raises:
            LeadershipEnded, AppendFailed: the leadership or the candidacy is over.
            LogNotDense, LogDiverged, LogUnusable: the log cannot be followed any further.

        """
        more = self.read_back(monotonic())
        more = self._decide(monotonic, wall_ms) or more
        more = self._resend_portion() or more
        self.intake.resume_what_has_room()
        return more

    def read_back(self, now_ms: int) -> bool:
        """Take what has arrived of the log, a bounded amount; tell whether more waits.

        Raises:
            As `turn`.

        """
        if self.reads.closed:  # The term is over: what arrives is for the next one.
            return False
        for _ in range(min(len(self.intake.log), RECORDS_PER_TURN)):
            match self.on_record(*self.intake.take_log_record(), now_ms):
                case Released() as released:
                    self._release(released)
                case Promoted(released):
                    self._hear_grant(now_ms)
                    self._begin_to_lead(released, now_ms)
                case Followed(decision) if is_grant(decision):
                    self.wires.leave_will(None)
                    self._hear_grant(now_ms)
                case _:
                    pass
            self.reads.release_held()
        self.reads.serve()
        if self.leader is not None and (failure := self.leader.failure) is not None and not self.leader.unconfirmed:
            self.resign(str(failure))
            raise failure
        return bool(self.intake.log)

    def on_record(self, offset: int, timestamp_ms: int, value: bytes, now_ms: int) -> Change | None:
        """Take a record of the log in offset order; return what it changed, or None if it is without effect.

        Raises:
            LeadershipEnded: this master's leadership is over.
            LogNotDense, LogDiverged, LogUnusable: the log cannot be followed any further.

        """
        fold = self.fold
        if self.leader is not None:
            try:
                released = self.leader.read_back(offset, timestamp_ms, value)
            except LeadershipEnded as error:
                self.leader = None
                self._become(Role.DEPOSED)
                if isinstance(error, Deposed):
                    self.wires.leave_will(None)
                raise
            if released is not None:
                self.sightings.followed(fold.acceptance, now_ms)
            return released
        is_own_grant = self.role is Role.CANDIDATE and value == self._grant
        decided_at_ms, predecessor = fold.last_decided_at_ms, fold.acceptance.leader_id
        led_ms = decided_at_ms - fold.master.suspects.began_at_ms
        silence_ms = self._silence_ms(timestamp_ms, now_ms) if is_own_grant and decided_at_ms else 0
        decision = fold.fold_record(offset, timestamp_ms, value)
        if decision is None:
            if is_own_grant:  # Somebody else's grant of the epoch came first; this fold is as good as theirs.
                self._become(Role.STANDBY)
            return None
        self.sightings.followed(fold.acceptance, now_ms)
        self._trim(decision)
        self.observer.accepted([type(event).__name__ for event in decision.events], is_own=False)
        if not is_own_grant:
            return Followed(decision)
        clock = LogClock(max(decided_at_ms, decision.decided_at_ms) + silence_ms, now_ms)
        self.leader = Leader(fold, self.decoder, self.intake.inboxes, self.settings, clock, self.observer, self.wires.note_deciding)
        if predecessor not in ("", self._resigned):
            self.leader.recovery.suspect = self._died_at.get(predecessor, "")
            high_offsets = {topic: found.high_offset for topic, found in self.intake.topics.items()}
            self.leader.recovery.enter_recovery(self.settings.window_size, high_offsets)
            watch_ms = self.settings.loss_timeout_ms + WATCH_LEASES * self.settings.lease_timeout_ms
            if led_ms < 2 * watch_ms:
                self.leader.recovery.watch_internal_inputs(now_ms + watch_ms)
        self._become(Role.LEADER)
        effects = [*leader_change(fold.master, self.settings.master_id), *unacknowledged(fold.master)]
        return Promoted(Released(offset, decision.epoch, decision.sequence, decision.leader_id, effects))

    def _silence_ms(self, granted_at_ms: int, now_ms: int) -> int:
        """Return for how long nobody has decided when the own grant is read back, which has this timestamp of Kafka (P20)."""
        wall_ms = self._campaigned_wall_ms + now_ms - self._campaigned_ms
        return self.sightings.silence_ms(granted_at_ms - self.fold.last_timestamp_ms, wall_ms - self.fold.last_decided_at_ms, now_ms)

    def _trim(self, decision: Decision) -> None:
        """Drop from the inboxes what an accepted decision answers: a standby holds only what it would have to decide (L3)."""
        if self._unbound:
            bound = {event.topic for event in decision.events if isinstance(event, InputsBound)}
            self._unbound -= bound
            self._rewound -= bound
        for cause in decision.causes:
            if type(cause) is InputCause and cause.topic not in self._unbound:
                self.intake.inboxes[cause.topic].accepted(cause.last_offset + 1)

    def _hear_grant(self, now_ms: int) -> None:
        self.election.granted(self.fold.acceptance.epoch, now_ms)
        self._stalls.new_leader()

    def _decide(self, monotonic: Callable[[], int], wall_ms: int) -> bool:
        leader = self.leader
        if leader is None or self.is_draining or self._has_read_end:
            return False
        now_ms = started_ms = monotonic()
        log_now_ms = leader.clock.read(now_ms, wall_ms)
        for _ in range(DECISIONS_PER_TURN):
            self.observer.deciding()
            value = leader.decide_next(log_now_ms, now_ms)
            if value is None:
                return False
            self.observer.decided()
            self.wires.append_decision(value)
            now_ms = monotonic()
            self._liveness.on_registered(leader.registered, now_ms)
            if now_ms - started_ms >= TURN_MS:
                break
        return True

    # -- promotion -------------------------------------------------------------------------------------------------

    def _begin_to_lead(self, released: Released, now_ms: int) -> None:
        """Begin to lead: bind what is not bound, note what was lost, queue what may not have arrived."""
        leader, master = self.leader, self.fold.master
        if leader is None:
            return
        for topic in INBOUND:
            cursor, found = master.requests.cursors.get(topic), self.intake.topics[topic]
            if cursor is None or self._is_bound_elsewhere(topic):
                first_offset = found.high_offset if topic in self._rewound else found.low_offset
                leader.timers.append(BindInputs(topic, found.topic_id, first_offset))
            elif found.low_offset > cursor.next_offset:
                leader.timers.append(LoseInputs(topic, found.low_offset))
        if master.shutdown.is_over:
            leader.timers.append(StartCluster())
        if not master.requests.cursors:  # A cluster without a leader before: there is no older master to wait for.
            leader.timers.append(RaiseFeatureLevel(self.fold.codec.feature_level))
        self._liveness.promoted(now_ms)
        self._promoted_ms = now_ms
        self._next_resend_ms = now_ms + self.settings.resend_interval_ms
        self._next_heartbeat_ms = self._next_presence_ms = now_ms
        self._resends.enqueue_effects(released)
        self._resends.extend(recent_replies(self.fold))

    def _resend_portion(self) -> bool:
        return self.leader is not None and self._resends.release(self._release, self.fold.acceptance)

    def _release(self, released: Released) -> None:
        if released.effects:
            self.observer.released(released.effects)
            self._releaser.release(released, self.fold.acceptance.epoch)

    def _resend(self, leader: Leader) -> None:
        """Queue what is not confirmed yet: it follows from the state as a whole, and waits until all of that was accepted."""
        acceptance, effects = self.fold.acceptance, list(unacknowledged(self.fold.master))
        self._releaser.forget_what_was_told()
        sequence = leader.unconfirmed[-1].sequence if leader.unconfirmed else acceptance.sequence
        self._resends.enqueue_effects(Released(self.fold.last_offset, acceptance.epoch, sequence, acceptance.leader_id, effects))

    @property
    def _has_read_end(self) -> bool:
        """Whether the cluster has ended since this process was started, and has not started again; a leader may not have read that yet.

        A standby that reads late that the cluster stopped and started again is a standby of the one that started.
        """
        shutdown = self.fold.master.shutdown
        return shutdown.is_over and shutdown.count > self.known_shutdowns

    @property
    def outcome(self) -> ApplicationStatus | None:
        """As what the cluster has ended, by the log; None: it has not. The master has to end."""
        request = self.fold.master.shutdown.request
        return request.application_status if request is not None and self._has_read_end and self.is_drained else None

    @property
    def is_drained(self) -> bool:
        """Tell whether every decision was read back, and the state is what they led to."""
        return self.leader is None or not (self.leader.unconfirmed or self.leader.failure)

    def resign(self, reason: str = "the master stops") -> bool:
        """Leave in order; tell whether this master led: then its will is void as soon as Kafka has the resignation.

        Decisions that were not read back yet are decided again by the next one.
        """
        acceptance, leads = self.fold.acceptance, self.role is Role.LEADER
        if leads:
            self.leader = None
            self._become(Role.STANDBY)
            self._tell("leader", Resignation(acceptance.epoch, acceptance.leader_id))
        self.reads.abort(reason)
        return leads

    def step_down(self, reason: str) -> None:
        """Give up the leadership or the candidacy, and everything that waits for this term: its state is doubtful.

        The will stands, for the others wait for the lease until another one is granted to: it is true from now on, and told at the latest
        when this process ends.
        """
        self.leader = None
        if self.role is Role.LEADER:
            self._become(Role.DEPOSED)
        elif self.role is Role.CANDIDATE:
            self._become(Role.STANDBY)
        self.reads.abort(reason)

    # -- time ------------------------------------------------------------------------------------------------------

    def next_due_ms(self, now_ms: int) -> int:
        """Return when the next tick has something to do, unless something is read or handed in before; in the past: at once."""
        leader = self.leader
        if self.role is Role.CANDIDATE:
            return now_ms  # Whether the grant was appended is asked of the wires.
        due_ms = min(self._next_presence_ms, self.election.next_due_ms(self._stuck_since_ms, now_ms))
        if leader is None:
            return due_ms
        if leader.unconfirmed:
            due_ms = min(due_ms, leader.unconfirmed[0].appended_at_ms + self.settings.lease_timeout_ms + 1)
        if not self.is_draining:
            due_ms = min(due_ms, self._next_timers_ms)
        return min(due_ms, self._next_heartbeat_ms, self._next_resend_ms)

    def tick(self, now_ms: int, wall_ms: int) -> None:
        """Do what is due, by `next_due_ms` at the latest.

        Raises:
            As `turn`.

        """
        if self.reads.closed:
            return
        self.read_back(now_ms)  # What has arrived is no longer unconfirmed, however late this tick comes.
        self.check_lease(now_ms)
        if now_ms >= self._next_presence_ms:
            self._say_present(now_ms)
        if self._has_read_end:
            return
        if self.role is Role.STANDBY and not self.intake.log:
            self._stand_by(now_ms, wall_ms)
        elif self.leader is not None:
            self._lead(self.leader, now_ms, wall_ms)

    def check_lease(self, now_ms: int) -> None:
        """End what has waited for longer than a lease.

        Raises:
            LeadershipEnded: a decision, or the grant, was not read back in time, or an election service took the leadership back.

        """
        reason = ""
        if self.leader is not None:
            reason = self.leader.check_lease(now_ms)
            if not reason and not self.election.may_lead():
                reason = "the election service took the leadership back"
        elif self.role is Role.CANDIDATE and now_ms - self._campaigned_ms > self.settings.lease_timeout_ms:
            reason = "the grant was not read back within a lease"
        if reason:
            self.step_down(reason)
            raise LeadershipEnded(reason)

    def _say_present(self, now_ms: int) -> None:
        settings = self.settings
        self._next_presence_ms = now_ms + settings.lease_timeout_ms // PRESENCES_PER_LEASE
        self.presence_sequence = max(self.presence_sequence + 1, now_ms)  # No other term of this incarnation had it.
        self.election.said(self.presence_sequence, now_ms)
        self._tell(
            settings.master_id,
            MasterPresence(
                master_id=settings.master_id,
                incarnation=settings.incarnation,
                sequence=self.presence_sequence,
                role=self.role,
                epoch=self.fold.acceptance.epoch,
                log_offset=self.fold.last_offset,
                feature_level=self.fold.codec.feature_level,
                query_address=settings.query_address,
            ),
        )

    def _tell(self, key: str, payload: Said) -> None:
        """Tell the other masters, and every client that looks for the leader."""
        self.wires.produce(Topic.LEADERSHIP, key, self._codec.encode(payload))

    def _stand_by(self, now_ms: int, wall_ms: int) -> None:
        self._stalls.check_progress(now_ms)
        self._stuck_since_ms = self._stalls.stuck_since(now_ms)
        match self.election.advise(self._stuck_since_ms, now_ms):
            case Advice.PROBE:
                self._say_present(now_ms)
            case Advice.CAMPAIGN:
                self.wires.append_decision(self.campaign(now_ms, wall_ms))
            case Advice.WAIT:
                pass

    def campaign(self, now_ms: int, wall_ms: int) -> bytes:
        """Become a candidate; return the grant to append."""
        self._become(Role.CANDIDATE)
        leader_id = self.mint_leader_id()
        self.wires.leave_will(LeaderDeath(self.fold.acceptance.epoch + 1, leader_id))
        self._grant = grant_of(self.fold, self.settings.master_id, leader_id, self.settings.blob_address, wall_ms)
        self._campaigned_ms, self._campaigned_wall_ms = now_ms, wall_ms
        return self._grant

    def _lead(self, leader: Leader, now_ms: int, wall_ms: int) -> None:
        if now_ms >= self._next_heartbeat_ms and leader.may_send_heartbeat(now_ms):
            self._next_heartbeat_ms = now_ms + self.settings.leader_heartbeat_interval_ms
            acceptance, settings = self.fold.acceptance, self.settings
            self._heartbeat_sequence += 1
            self._tell(
                "leader",
                LeaderHeartbeat(
                    acceptance.epoch,
                    acceptance.leader_id,
                    settings.master_id,
                    settings.blob_address,
                    self.fold.last_offset,
                    self._heartbeat_sequence,
                ),
            )
        if leader.failure is not None:
            return
        if now_ms >= self._next_timers_ms and not self.is_draining:
            self._next_timers_ms = now_ms + TIMERS_INTERVAL_MS
            self._run_timers(leader, now_ms, wall_ms)
        if now_ms >= self._next_resend_ms and not self._resends:
            self._next_resend_ms = now_ms + self.settings.resend_interval_ms
            self._resend(leader)

    def _run_timers(self, leader: Leader, now_ms: int, wall_ms: int) -> None:
        """Queue what is due by the state, the time and the heartbeats, and start the clean-ups and archives that are due."""
        master = self.fold.master
        if leader.timers:
            return  # What was due before is not decided yet.
        log_now_ms = leader.clock.read(now_ms, wall_ms)
        if master.shutdown.is_over:  # It was parked at promotion, and is tried again.
            leader.timers.append(StartCluster())
        leader.timers.extend(self.due(leader, log_now_ms, leader.may_ask))
        self.wires.note_deciding("")
        leader.timers.extend(self._liveness.overdue(master, self.fold.acceptance.leader_id, now_ms))
        if (level := self._common_feature_level(now_ms)) > master.upkeep.feature_level:
            leader.timers.append(RaiseFeatureLevel(level))
        for clean_up in due_clean_ups(master, log_now_ms):
            self.wires.clean_up(clean_up)
        for archive in due_archives(master, log_now_ms):
            self.wires.archive(archive)
        if partitions := wanted_partitions(master, self.settings.task_managers_per_partition):
            self.wires.grow_deployments(partitions)
        if (master.schedules.watchers or master.schedules.waiters) and not master.shutdown.is_under_way:
            self.wires.watch_outside(due_watches(master, log_now_ms), due_table_watches(master), due_file_watches(master, log_now_ms))

    def due(self, leader: Leader, log_now_ms: int, may_ask: Callable[[str], bool] = lambda _name: True) -> Iterator[MasterInput]:
        """Yield what is due at a time of the log, or may not be asked, by the state and by what waits to be decided."""
        master = self.fold.master
        requests_ms, reports_ms = (each.look(master.requests.cursors, log_now_ms) for each in (self._requests, self._reports))
        return master.due(log_now_ms, leader.clock.began_ms, DecidedUntil(requests_ms, reports_ms), may_ask)

    def _common_feature_level(self, now_ms: int) -> int:
        """Return the level that every master that is there or may come back can read; 0 before all had their time to be heard (P19)."""
        wait_ms, common = self.settings.feature_level_wait_ms, self.peers.common_feature_level(now_ms)
        least_ms = max(wait_ms, PRESENCE_LEASES * self.settings.lease_timeout_ms)
        if wait_ms < 0 or common is None or now_ms - self._promoted_ms < least_ms:
            return 0
        return min(self.fold.codec.feature_level, common)

    @property
    def log_end_offset(self) -> int:
        """The offset behind the last record of the log that this master knows of: received, or named by the leader."""
        last = self.intake.log[-1][0] if self.intake.log else self.fold.last_offset
        return max(last, self._stalls.leader_log_offset) + 1

    def oldest_word_ms(self) -> int | None:
        """Return when the TaskManager that was silent for longest was heard of, by this master's clock; None where it does not lead."""
        return self._liveness.oldest_word_ms() if self.leader is not None else None

    def rank(self, now_ms: int) -> int:
        """Return how many masters come before this one where work is to be done by one of them; a leader comes after all standbys."""
        return self.peers.rank(self.settings.master_id, now_ms, leads=self.leader is not None)
