"""One life of a master as a sans-I/O machine: from the start of its process to its exit, over all its terms.

A life rebuilds the state from the log, follows and leads in a term until that ends, and rebuilds again. What ends a term, what is done
then, and when the process exits is decided here alone. The entrypoint drives it with Kafka and the simulation with a seed: they hand in
time, rebuilt states, what was read (through the `Intake`) and failures of the wires, and carry out the step that a call returns.
"""

import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from eventflink.events.topics import Topic
from eventflink.leadership.acceptance import LogNotDense
from eventflink.leadership.election import Election, Peers
from eventflink.leadership.fold import Fold, LogDiverged, LogUnusable
from eventflink.leadership.inbound import InboundDecoder
from eventflink.leadership.intake import Intake, TailFailed, TopicReplaced
from eventflink.leadership.known_log import KnownLog, LogTruncated
from eventflink.leadership.leader import ApplyFailed, Deposed, LeadershipEnded
from eventflink.leadership.log_clock import LogSightings
from eventflink.leadership.participant import Participant
from eventflink.leadership.ports import AppendFailed, Observer, ParticipantSettings, Wires
from eventflink.model.backoff import Backoff
from eventflink.model.statuses import ApplicationStatus, Role

_logger = logging.getLogger(__name__)

MIN_TICK_MS: Final = 10
MAX_TICK_MS: Final = 100
FIRST_BACKOFF_MS: Final = 200
MAX_BACKOFF_MS: Final = 10_000
MIN_DEAF_MS: Final = 10_000
DEAF_LEASES: Final = 5
"""A master that has not read its own presence on `leadership` for so many leases opens a new tail (L1)."""

TRUNCATED_LOOKS: Final = 3
"""So often in a row the log has to be found truncated: a broker that is no longer, or not yet, in charge may name an earlier end.

An inbound topic has one look: others write to it, and what they write would hide the loss from the next one.
"""

_FATAL = (LogUnusable, LogDiverged, TopicReplaced)
"""Another term would come to the same."""

_ANNOUNCED = (LeadershipEnded, AppendFailed, LogNotDense, LogDiverged, LogUnusable, TailFailed)
"""How a term may end; any other exception is a defect."""


class TurnFailed(LeadershipEnded):
    """A turn ended in an error that nothing announces; the message says which, and where it came from."""


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Fold the log up to its present end, `after_ms` from now; then call `rebuilt`, or `failed`."""

    after_ms: int = 0
    closes_tail: bool = False
    """Close the tail first: what it has read is in doubt. Otherwise it keeps reading meanwhile."""
    cause: Exception | None = None
    """What ended the term, or kept it from beginning; without the frames that would keep its state in memory."""


@dataclass(frozen=True, slots=True)
class Follow:
    """Open a tail behind the fold if none is open, connect to the log, and call `follow`, or `failed`."""

    fold: Fold


@dataclass(frozen=True, slots=True)
class Deregister:
    """The cluster has ended under this leader: tell the resource driver, then call `leave`. Turns and ticks continue meanwhile."""

    status: ApplicationStatus
    diagnostics: str


@dataclass(frozen=True, slots=True)
class Exit:
    """Close everything and exit."""

    status: ApplicationStatus | None = None
    """As what the cluster has ended; None: it has not."""
    cause: Exception | None = None
    """What ended the last term, where that was not done in order; as in `Rebuild`."""
    is_failure: bool = False
    """No master can run on this log, and `cause` says why."""


Step = Rebuild | Follow | Deregister | Exit


@dataclass(slots=True)
class MasterLife:
    """One master process."""

    settings: ParticipantSettings
    election: Election
    peers: Peers
    decoder: InboundDecoder
    mint_leader_id: Callable[[], str]
    """Returns an id that no candidacy had before."""
    observer: Observer = field(default_factory=Observer)
    participant: Participant | None = None
    """Of the present term; None between two terms."""
    has_more: bool = False
    """Whether the last turn left something for the next one."""
    known: KnownLog = field(default_factory=KnownLog)
    """How far this process has read the log, for whoever rebuilds the state: a log that has less is not led from (P5a)."""
    is_stopping: bool = False
    has_resigned: bool = False
    """Whether this master led until it left in order: when Kafka has its resignation, there is nothing that a will could add."""
    _wires: Wires | None = None
    _sightings: LogSightings = field(default_factory=LogSightings)
    _known_shutdowns: int | None = None
    """How often the cluster had ended when this process first folded its log: those ends are not its own."""
    _status: ApplicationStatus | None = None
    _leaves_by_ms: int | None = None
    """Until when an orderly leave waits for decisions to be read back; None: the master stays."""
    _is_status_logged: bool = False
    _began_ms: int = 0
    """When the present rebuild was due."""
    _backoff: Backoff[int] = field(default_factory=lambda: Backoff(FIRST_BACKOFF_MS, MAX_BACKOFF_MS))
    _truncated_looks: int = 0
    _ticked_ms: int = 0

    @property
    def is_leaving(self) -> bool:
        """Whether it was told to exit in order, or its cluster has ended."""
        return self._leaves_by_ms is not None

    @property
    def is_standby(self) -> bool:
        """Whether it takes part, and neither leads nor is about to."""
        return self.participant is not None and self.participant.role is Role.STANDBY

    # -- between terms ---------------------------------------------------------------------------------------------

    def start(self, now_ms: int) -> Step:
        """Begin."""
        self._began_ms = now_ms
        return Rebuild()

    def rebuilt(self, fold: Fold) -> Step:
        """Take the state; the cluster may have ended while this master was between two terms."""
        shutdown = fold.master.shutdown
        if self._known_shutdowns is None:
            self._known_shutdowns = shutdown.count
        if shutdown.request is not None and shutdown.is_over and shutdown.count > self._known_shutdowns:
            self._status = shutdown.request.application_status
        return Exit(self._status) if self.is_stopping or self._status is not None else Follow(fold)

    def failed(self, error: Exception, now_ms: int) -> Step:
        """End the term, if there is one, and say what comes next: after an error of a turn, of the wires, or on the way to a term.

        A master that was deposed, or has resigned because its state is half changed, can follow on what it reads. After any other end its
        tail is in doubt, and it waits for a back-off.
        """
        self.end_term(error)
        _drop_frames(error)
        if self.is_stopping or self._status is not None:
            return Exit(self._status, error)
        is_of_log = isinstance(error, LogTruncated) and error.topic == Topic.LOG
        self._truncated_looks = self._truncated_looks + 1 if is_of_log else 0
        if isinstance(error, _FATAL) and not 0 < self._truncated_looks < TRUNCATED_LOOKS:
            return Exit(cause=error, is_failure=True)
        if isinstance(error, Deposed) or (isinstance(error, ApplyFailed) and error.is_settled):
            _logger.warning("%s reason=%s", type(error).__name__, error)
            self._began_ms = now_ms
            return Rebuild(cause=error)
        _logger.warning("TermEnded reason=%s error=%s", type(error).__name__, error)
        if now_ms - self._began_ms > MAX_BACKOFF_MS:
            self._backoff.reset()
        after_ms = self._backoff.next()
        self._began_ms = now_ms + after_ms
        return Rebuild(after_ms, closes_tail=True, cause=error)

    def stop(self, now_ms: int) -> Step | None:
        """Exit in order: at once between two terms, otherwise as `leave` says; while the cluster is deregistered, only behind that."""
        self.is_stopping = True
        if self.participant is not None and self._status is not None and self._leaves_by_ms is None:
            return None
        return self.leave(now_ms)

    # -- a term ----------------------------------------------------------------------------------------------------

    def follow(self, fold: Fold, wires: Wires, intake: Intake, now_ms: int) -> None:
        """Begin a term: from here on the leader has a whole lease to be heard, if there ever was one (L2)."""
        self._sightings.rebuilt(fold.acceptance, now_ms)
        self.participant = Participant(
            settings=self.settings,
            fold=fold,
            decoder=self.decoder,
            intake=intake,
            election=self.election,
            peers=self.peers,
            wires=wires,
            mint_leader_id=self.mint_leader_id,
            sightings=self._sightings,
            observer=self.observer,
            known_shutdowns=self._known_shutdowns or 0,
            heard_itself_ms=now_ms,
        )
        self._wires = wires
        self._is_status_logged = False
        self.election.begin(now_ms)
        if not fold.acceptance.epoch:
            self.election.never_granted(now_ms)
        intake.listen(self.participant, now_ms)

    def turn(self, monotonic: Callable[[], int], wall_ms: int) -> Step | None:
        """Give the participant a turn; `has_more` tells whether another one is due at once. None: the term continues."""
        participant, wires = self.participant, self._wires
        if participant is None or wires is None:
            self.has_more = False
            return None
        try:
            self.has_more = participant.turn(monotonic, wall_ms)
            wires.poll()
        except Exception as error:  # noqa: BLE001 - told apart in `_ended`
            return self._ended(error, participant, monotonic())
        return self._look(participant, monotonic())

    def next_due_ms(self, now_ms: int) -> int:
        """Return when to call `tick`, as far as is known now; to be asked again after every turn and tick.

        Ticks follow each other by `MIN_TICK_MS` at least, however much is due, and by `MAX_TICK_MS` at most: for so long wires may have
        failed before they are asked.
        """
        participant, due_ms = self.participant, now_ms + MAX_TICK_MS
        if participant is not None:
            due_ms = participant.next_due_ms(now_ms)
        if self._leaves_by_ms is not None:
            due_ms = min(due_ms, self._leaves_by_ms)
        return min(max(due_ms, self._ticked_ms + MIN_TICK_MS), now_ms + MAX_TICK_MS)

    def tick(self, now_ms: int, wall_ms: int) -> Step | None:
        """Do what is due, by `next_due_ms` at the latest. None: the term continues."""
        participant, wires = self.participant, self._wires
        self._ticked_ms = now_ms
        if participant is None or wires is None:
            return None
        try:
            wires.poll()
            participant.intake.check()
            participant.tick(now_ms, wall_ms)
            deaf_ms = now_ms - participant.heard_itself_ms
            if deaf_ms > max(MIN_DEAF_MS, DEAF_LEASES * self.settings.lease_timeout_ms):
                raise TailFailed(f"nothing was heard on '{Topic.LEADERSHIP}' for {deaf_ms} ms, not even this master's own presence")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 - told apart in `_ended`
            return self._ended(error, participant, now_ms)
        return self._look(participant, now_ms)

    def _ended(self, error: Exception, participant: Participant, now_ms: int) -> Step:
        self.has_more = False
        if self._wires is not None:
            self._wires.note_deciding("")  # It ended, and was survived.
        if not isinstance(error, _ANNOUNCED):
            # A defect of ours. The state is doubtful, and a master that went on without its turns would lead without deciding.
            fold, where = participant.fold, traceback.extract_tb(error.__traceback__)[-1]
            _logger.error("TurnFailed epoch=%d offset=%d", fold.acceptance.epoch, fold.last_offset, exc_info=error)
            place = f"{where.name}, line {where.lineno} of {where.filename.rpartition('/')[2]}"
            failure = TurnFailed(f"a turn failed: {error!r} in {place}")
            failure.__cause__, error = error, failure
        return self.failed(error, now_ms)

    def _look(self, participant: Participant, now_ms: int) -> Step | None:
        """See whether the cluster has ended, by the accepted log, and whether a leave has come to its end."""
        request = participant.fold.master.shutdown.request
        if request is not None and participant.is_drained:
            if request.recorded_at_ms and participant.leader is not None and not self._is_status_logged:
                self._is_status_logged = True
                _logger.info("ApplicationStatusRecorded status=%s diagnostics=%s", request.application_status, request.diagnostics)
            if self._status is None and (status := participant.outcome) is not None:
                self._status = status
                _logger.info("ClusterStopped status=%s offset=%d", status, participant.fold.last_offset)
                if self._leaves_by_ms is None:
                    return self.leave(now_ms) if participant.leader is None else Deregister(status, request.diagnostics)
        if self._leaves_by_ms is not None and (participant.is_drained or now_ms >= self._leaves_by_ms):
            return self._exit(participant)
        return None

    # -- the end of it ---------------------------------------------------------------------------------------------

    def leave(self, now_ms: int) -> Step | None:
        """Leave in order: what was decided is read back and released first, for at most a lease. None: that is still to come."""
        participant = self.participant
        if participant is None:
            return Exit(self._status)
        participant.is_draining = True
        if self._leaves_by_ms is None:
            self._leaves_by_ms = now_ms + self.settings.lease_timeout_ms
        return self._exit(participant) if participant.is_drained else None

    def _exit(self, participant: Participant) -> Step:
        epoch = participant.fold.acceptance.epoch
        if participant.resign():
            self.has_resigned = True
            self.observer.ended("Resigned")
            _logger.info("Resigned epoch=%d", epoch)
        self.end_term(None)
        return Exit(self._status)

    def end_term(self, error: Exception | None) -> None:
        """Drop the participant, whatever it was: its state is doubtful, or nothing feeds it any more."""
        participant, self.participant, self._wires = self.participant, None, None
        if participant is None:
            return
        self.known.note(participant.fold)
        participant.step_down(str(error) if error is not None else "the term is over")
        participant.intake.listener = None
        self.observer.ended(type(error).__name__ if error is not None else "TermEnded")
        self.election.end()


def _drop_frames(error: BaseException | None) -> None:
    """Let an exception that is kept hold no frames: they would keep the old state in memory while the next one is built."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
