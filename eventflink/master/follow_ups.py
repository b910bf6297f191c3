"""The queue of follow-ups that wait to be decided: part of the state, so they survive a crash (P10a).

A component puts one in when it applies an event (`want`); what each leads to is decided in `follow_up_rules.py`.

Each entry stands at most once; an entry that has lost its reason is taken out again. The queue is bounded by what the state
holds: one entry for the slots, at most four for a job, one for an allocation.
"""

from dataclasses import dataclass, field

from eventflink.events.log_events import FollowUpDecided
from eventflink.master.canonical import InvariantBroken
from eventflink.master.inputs import FollowUp
from eventflink.model.statuses import FollowUpType

_Entry = tuple[FollowUpType, str]


@dataclass(slots=True)
class FollowUps:
    """An ordered set of follow-ups."""

    entries: dict[_Entry, None] = field(default_factory=dict)

    def want(self, follow_up_type: FollowUpType, subject: str, *, wanted: bool) -> None:
        """Have the entry stand in the queue, or not."""
        if wanted:
            self.entries.setdefault((follow_up_type, subject))
        elif self.entries:
            self.entries.pop((follow_up_type, subject), None)

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
