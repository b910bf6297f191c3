"""What a leader would decide if a request came now: the request, and what follows from it at once.

It is decided by the rules that a leader decides by, on a state of its own, which is changed by it and of no use afterwards. Nothing is
encoded, nothing leaves, and no time passes: what a timer, a report or another request would lead to is not in it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from eventflink.events.inputs import Request
from eventflink.events.log_events import LogEvent
from eventflink.leadership.fold import Fold

if TYPE_CHECKING:
    from eventflink.master.inputs import MasterInput

MAX_STEPS: Final = 20_000
"""How many follow-ups are decided at the most."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """The outcome."""

    events: list[LogEvent]
    """In the order in which they would be decided, whatever records of the log they would share."""
    is_whole: bool
    """Whether nothing more follows at once."""


def dry_run(fold: Fold, request: Request) -> DryRun:
    """Return what the request would lead to, with its actor as the log would have it; `fold` becomes what the state would be then.

    The time is that of the last decision. What waited in the queue of follow-ups is decided behind the request, as a leader would.
    """
    master, now_ms, leader_id = fold.master, fold.last_decided_at_ms, fold.acceptance.leader_id
    events: list[LogEvent] = []
    value: MasterInput | None = request
    for _ in range(MAX_STEPS):
        if value is None:
            break
        decided = master.decide(value, now_ms, leader_id)
        for event in decided:
            master.apply(event, now_ms)
        events += decided
        value = master.follow_ups.head()
    return DryRun(events, value is None)
