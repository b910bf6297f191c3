"""The internal inputs of the state: the queue of follow-ups that wait to be decided (P10a), and what is parked (P10).

A component puts a follow-up in when it applies an event (`want`); what each leads to is decided in `follow_up_rules.py`. An internal input,
a follow-up or a timer, that cannot be decided is parked: it stands in no queue, whoever wants it, until an operator releases it. What is
parked, why, and what follows for its job is decided in `parking.py`. Both survive a crash.

Each entry stands at most once; an entry that has lost its reason is taken out again. The queue is bounded by what the state
holds: one entry for the slots, at most six for a job, one for an allocation.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from eventflink.events.log_events import FollowUpDecided, InputParked, ParkedInputReleased
from eventflink.master.canonical import InvariantBroken, require
from eventflink.master.inputs import FollowUp
from eventflink.model.statuses import FollowUpType, IllegalTransition

MAX_PARKED: Final = 1_000
"""The oldest beyond it are tried again."""

_Entry = tuple[FollowUpType, str]


@dataclass(slots=True)
class ParkedInput:
    """Why an internal input waits for an operator."""

    parked_id: str
    job_id: str | None
    """The job that fails for it."""
    reason: str
    parked_at_ms: int
    wanted: bool
    """Of a follow-up: the state wants it done, so it stands in the queue again when it is released."""


@dataclass(slots=True)
class FollowUps:
    """An ordered set of follow-ups, and what is parked."""

    entries: OrderedDict[_Entry, None] = field(default_factory=OrderedDict)
    """The head of a plain dictionary is looked for behind all that was taken out before it."""
    parked: dict[tuple[str, str], ParkedInput] = field(default_factory=dict)
    """By the type of the input and what it is about, the oldest first."""
    next_parked: int = 1

    def want(self, follow_up_type: FollowUpType, subject: str, *, wanted: bool) -> None:
        """Have the entry stand in the queue, or not; of one that is parked it is noted, and its job fails."""
        if self.parked and (parked := self.parked.get((follow_up_type, subject))) is not None:
            begins, parked.wanted = wanted and not parked.wanted, wanted
            if begins:
                self._fail_job_of(parked)
        elif wanted:
            self.entries.setdefault((follow_up_type, subject))
        elif self.entries:
            self.entries.pop((follow_up_type, subject), None)

    def stands(self, follow_up_type: FollowUpType, subject: str) -> bool:
        """Tell whether the entry is in the queue, or parked and wanted."""
        parked = self.parked.get((follow_up_type, subject))
        return (follow_up_type, subject) in self.entries if parked is None else parked.wanted

    def head(self) -> FollowUp | None:
        """Return what is to be decided next."""
        for follow_up_type, subject in self.entries:
            return FollowUp(follow_up_type, subject)
        return None

    def apply_follow_up_decided(self, event: FollowUpDecided) -> None:
        """Take the head out; it must be the one that was decided."""
        entry = (event.follow_up_type, event.subject)
        if next(iter(self.entries), None) != entry:
            raise InvariantBroken(
                f"the follow-up {event.follow_up_type} '{event.subject}' was decided, but the queue's head is {self.head()}"
            )
        del self.entries[entry]

    def apply_input_parked(self, event: InputParked, at_ms: int) -> None:
        """Park an input, and have its job fail. Whatever the state is, this fits it: it is the way out where others do not."""
        name, matching = (event.input_type, event.subject), (FollowUpType.MATCH_SLOTS, "")
        if event.input_type == FollowUpType.MATCH_SLOTS and event.subject and matching in self.entries:
            self.entries.move_to_end(matching)  # It is parked for one job alone, and goes on behind what ends that.
        wanted = name in self.entries
        if wanted:
            del self.entries[FollowUpType(event.input_type), event.subject]
        if (before := self.parked.pop(name, None)) is not None:
            wanted = before.wanted
        while len(self.parked) >= MAX_PARKED:
            self._release(next(iter(self.parked)), retried=True)
        parked = ParkedInput(f"parked-{self.next_parked}", event.job_id, event.reason, at_ms, wanted)
        self.next_parked += 1
        self.parked[name] = parked
        if event.input_type != FollowUpType.FAIL_JOB:
            self._fail_job_of(parked)

    def apply_parked_input_released(self, event: ParkedInputReleased) -> None:
        """Try a parked input again, or forget it."""
        name = self.name_of(event.parked_id)
        if name is None or (not event.retried and self.parked[name].wanted):
            raise IllegalTransition(f"{event} does not fit {name}: it is not parked, or still to be done")
        self._release(name, retried=event.retried)

    def name_of(self, parked_id: str) -> tuple[str, str] | None:
        """Return the name of a parked input; None: there is none."""
        return next((name for name, parked in self.parked.items() if parked.parked_id == parked_id), None)

    def _release(self, name: tuple[str, str], *, retried: bool) -> None:
        if self.parked.pop(name).wanted and retried:
            self.want(FollowUpType(name[0]), name[1], wanted=True)

    def _fail_job_of(self, parked: ParkedInput) -> None:
        if parked.job_id is not None:
            self.want(FollowUpType.FAIL_JOB, parked.job_id, wanted=True)

    def validate(self) -> None:
        """Check that nothing both waits and is parked, and the bound."""
        require(not self.entries.keys() & self.parked.keys(), "a follow-up waits to be decided, and is parked")
        require(len(self.parked) <= MAX_PARKED, f"{len(self.parked)} inputs are parked")
