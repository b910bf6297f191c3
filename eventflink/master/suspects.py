"""At which internal inputs leaders may have ended: what each announced before it decided it, and did not survive (P10).

Kept by the names of the inputs (`parking.py`), as one text each. Who announces what, and when, is up to the leader.
"""

from dataclasses import dataclass, field
from typing import Final

from eventflink.events.log_events import InputParked, InternalInputsAttempted, LeadershipGranted, LogEvent
from eventflink.master.canonical import require
from eventflink.master.inputs import AttemptInternalInputs
from eventflink.model.statuses import IllegalTransition

MAX_CRASHES: Final = 2
"""An input that so many leaders in a row announced alone and did not answer is not decided any more."""

MAX_SUSPECTS: Final = 256
"""The oldest beyond it are forgotten."""


@dataclass(slots=True)
class Suspects:
    """What was announced, and at what leaders may have ended."""

    attempted: tuple[str, ...] = ()
    """What the leader was about to decide: as soon as it says anything else, it has survived that."""
    crashes: dict[str, int] = field(default_factory=dict)
    """By name, how many leaders in a row announced it alone and said nothing after, or died at it by their guardians' word.

    0: one said nothing after it had announced it among others.
    """
    began_at_ms: int = 0
    """How far the log's clock was when the leader was granted to."""

    def is_poison(self, name: str) -> bool:
        """Tell whether so many leaders ended at it that no other may try."""
        return self.crashes.get(name, 0) >= MAX_CRASHES

    def decide_attempt_internal_inputs(self, value: AttemptInternalInputs) -> list[LogEvent]:
        """Say what is decided next."""
        return [InternalInputsAttempted(value.names, value.deaths)]

    def survive(self) -> None:
        """Clear what was announced: the leader has said something after it, of whatever."""
        for name in self.attempted:
            self.crashes.pop(name, None)
        self.attempted = ()

    def apply_internal_inputs_attempted(self, event: InternalInputsAttempted) -> None:
        """Take note of it."""
        if event.deaths and (event.deaths < 0 or len(event.names) != 1):
            raise IllegalTransition(f"{event} says of what is not alone that {event.deaths} leaders died at it")
        self.attempted = event.names
        if event.deaths:
            self._suspect(event.names[0], event.deaths)

    def apply_leadership_granted(self, _event: LeadershipGranted, at_ms: int) -> None:
        """Suspect what the leader before was about to decide when it ended."""
        for name in self.attempted:
            self._suspect(name, int(len(self.attempted) == 1))
        self.attempted, self.began_at_ms = (), at_ms

    def _suspect(self, name: str, leaders: int) -> None:
        """Count leaders that ended at an input, as the newest suspect."""
        self.crashes[name] = self.crashes.pop(name, 0) + leaders
        if len(self.crashes) > MAX_SUSPECTS:
            del self.crashes[next(iter(self.crashes))]

    def apply_input_parked(self, event: InputParked) -> None:
        """Suspect it no more: an operator has it tried again."""
        self.crashes.pop(label(event.input_type, event.subject), None)

    def validate(self) -> None:
        """Check the bound."""
        require(len(self.crashes) <= MAX_SUSPECTS, f"{len(self.crashes)} inputs are suspected")


def label(input_type: str, subject: str) -> str:
    """Return the name of an internal input as one text."""
    return f"{input_type} {subject}".rstrip()
