"""Defects of ours in some runs: inputs at which deciding fails, or says too much, or says what cannot be applied (P10).

In some other runs masters die, or hang for ever, when they decide a timer, if only to see whether it is due, a follow-up or a submission.

Which inputs these are depends on the seed, on their kind and on what they are about: so every master fails at the same ones. Those that
let a job begin stay broken for ever, and their job fails; what else is broken is mended when the faults end, and then operators try again
what is parked. Reports of TaskExecutors are spared: who is refused whatever he says can never register.
"""

from enum import Enum, auto
from random import Random
from typing import Final

from eventflink.events import log_events as e
from eventflink.events.inputs import CancelJob, JobSubmission
from eventflink.events.topics import MAX_DECISION_BYTES
from eventflink.master.inputs import Blamed, FollowUp, InternalInput, MasterInput
from eventflink.master.master import Master
from eventflink.master.parking import name_of
from eventflink.master.settings import MasterSettings
from eventflink.model.statuses import FollowUpType
from eventflink.testing.simulation.master_host import LeaderDies, LeaderHangs
from eventflink.testing.simulation.violations import Invariant, ViolationFound

_SHARE: Final = 0.25
"""Of the runs."""
_BROKEN_SHARE: Final = 0.12
"""Of the inputs of such a run, by what they are and what they are about."""
_LASTING: Final = ("SCHEDULE_TASKS", "RESTART_TASKS", "RestartsDue", "MATCH_SLOTS", "JobSubmission")
_DEADLY_SHARE: Final = 0.1
"""Of the runs, and in such a run of the timers, follow-ups and submissions."""
_HANGING_SHARE: Final = 0.4
"""Of those."""
_SPARED: Final = ("BindInputs", "AttemptInputs", "RaiseFeatureLevel", "UnreadableInput", "InputTooOld", "PoisonedInput", "FAIL_JOB")
"""What a leader needs to begin, what refuses an input, and what ends a job of which something is parked."""
_NEVER_DEADLY: Final = (*_SPARED, "MATCH_SLOTS", "AttemptInternalInputs")
"""Nobody knows at which job of several a master dies: then it would be parked for all."""


class Defect(Enum):
    """What happens at a broken input."""

    CANNOT_BE_DECIDED = auto()
    SAYS_TOO_MUCH = auto()
    CANNOT_BE_APPLIED = auto()


class Defects:
    """What is broken in a run."""

    def __init__(self, seed: int, *, may_hang: bool) -> None:
        """Say whether masters may hang: where nobody kills them, none may."""
        self._seed = seed
        self._may_hang = may_hang
        self.are_there = Random(f"{seed} defects").random() < _SHARE
        self.are_deadly = not self.are_there and Random(f"{seed} deadly").random() < _DEADLY_SHARE
        self.is_mended = False
        self._twice: set[str] = set()
        """Where a master died that had been told that the one before it did."""

    def of(self, value: MasterInput) -> Defect | None:
        """Return what happens at an input; None: nothing."""
        if isinstance(value, InternalInput):
            kind, subject = name_of(value)
        elif isinstance(value, JobSubmission | CancelJob):
            kind, subject = type(value).__name__, value.job_id
        else:
            return None
        return None if kind in _SPARED else self.at(kind, subject)

    def at(self, kind: str, subject: str) -> Defect | None:
        """Return what happens at the inputs of a name."""
        if not self.are_there or (self.is_mended and kind not in _LASTING):
            return None
        rng = Random(f"{self._seed} {kind} {subject}")
        return rng.choice(tuple(Defect)) if rng.random() < _BROKEN_SHARE else None

    def end_at(self, value: MasterInput) -> type[LeaderDies] | None:
        """Return how masters end at an input; None: they do not."""
        if not self.are_deadly or not isinstance(value, InternalInput | JobSubmission):
            return None
        kind, subject = name_of(value) if isinstance(value, InternalInput) else (type(value).__name__, value.job_id)
        if kind in _NEVER_DEADLY or (self.is_mended and kind not in _LASTING):
            return None
        rng = Random(f"{self._seed} {kind} {subject} deadly")
        if rng.random() >= _DEADLY_SHARE:
            return None
        return LeaderHangs if self._may_hang and rng.random() < _HANGING_SHARE else LeaderDies

    def check_end_of(self, name: str, suspect: str) -> None:
        """Check that of those who knew that the one before them died at the same input, one has tried it at most.

        Raises:
            ViolationFound: a second one has.

        """
        if name != suspect or self.is_mended:  # Operators have it tried again then.
            return
        if name in self._twice:
            raise ViolationFound(Invariant.FEW_LEADERSHIPS, f"a third leader ended at {name}")
        self._twice.add(name)

    def master_of(self, settings: MasterSettings) -> Master:
        """Return a master with these defects, which has folded nothing."""
        return DefectiveMaster(settings, self) if self.are_there or self.are_deadly else Master(settings)


class DefectiveMaster(Master):
    """A master that fails at some inputs."""

    __slots__ = ("_defects",)

    def __init__(self, settings: MasterSettings, defects: Defects) -> None:
        super().__init__(settings)
        self._defects = defects

    def decide(self, value: MasterInput, now_ms: int, leader_id: str = "") -> list[e.LogEvent]:
        """Decide, unless it is broken."""
        is_answered = isinstance(value, JobSubmission) and value.request_id in self.requests.answers
        if not is_answered and (end := self._defects.end_at(value)) is not None:
            raise end(repr(value)[:200])
        if isinstance(value, FollowUp) and value.follow_up_type is FollowUpType.MATCH_SLOTS:
            self._match()
            return super().decide(value, now_ms, leader_id)
        events, defect = super().decide(value, now_ms, leader_id), self._defects.of(value)
        if defect is None or not events:
            return events
        if defect is Defect.CANNOT_BE_DECIDED:
            raise ZeroDivisionError(f"a defect at {type(value).__name__}")
        if defect is Defect.SAYS_TOO_MUCH:
            return [*events, e.InputsSkipped(1, "x" * MAX_DECISION_BYTES)]
        return [*events, e.FollowUpDecided(FollowUpType.FAIL_JOB, "nobody wanted this")]

    def _match(self) -> None:
        """Fail at the first request of a job whose requests cannot be matched."""
        for request in self.slot_manager.pending.values():
            if self._defects.at("MATCH_SLOTS", request.attempt.job_id) is not None:
                raise Blamed(request.attempt.job_id, ZeroDivisionError("a defect at a request"))
