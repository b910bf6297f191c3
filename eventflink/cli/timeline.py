"""The events of one job as a timeline: what happened, when, and what it answered.

Read from the log alone, so it is what any other reader would tell, too.
"""

from typing import Final

from rich.table import Table
from rich.text import Text

from eventflink.events.log_events import FollowUpDecided, LogEvent, RequestAccepted, SlotRequested
from eventflink.events.wording import describe, describe_causes
from eventflink.gateways.follow import LoggedDecision

_SHOWN_OF_A_KIND: Final = 4
_SHOWN_LENGTH: Final = 100


class Timeline:
    """Collects the decisions that concern one job; events about its slots belong to it by their allocation."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self._allocations: set[str] = set()
        self._rows: list[tuple[LoggedDecision, list[LogEvent]]] = []

    def add_decision(self, logged: LoggedDecision) -> None:
        """Take one decision in."""
        if not logged.accepted:
            return
        mine = [event for event in logged.decision.events if self._concerns(event)]
        if mine:
            self._rows.append((logged, mine))

    def _concerns(self, event: LogEvent) -> bool:
        if isinstance(event, FollowUpDecided):
            return False  # Bookkeeping of the queue; what follows from it is told by the events after it.
        if isinstance(event, RequestAccepted):
            return event.subject == self.job_id
        if getattr(event, "job_id", None) == self.job_id:
            if isinstance(event, SlotRequested):
                self._allocations.add(event.allocation_id)
            return True
        return getattr(event, "allocation_id", None) in self._allocations

    def draw(self) -> Table:
        """Return the table for people."""
        table = Table(title="what happened, as the log tells it", title_justify="left")
        table.add_column("offset", justify="right")
        table.add_column("ms", justify="right")
        table.add_column("because of")
        table.add_column("events")
        start_ms = self._rows[0][0].decision.decided_at_ms if self._rows else 0
        for logged, events in self._rows:
            lines = _describe_events(events, self.job_id)
            table.add_row(
                str(logged.offset), str(logged.decision.decided_at_ms - start_ms), describe_causes(logged.decision), Text("\n".join(lines))
            )
        return table


def _describe_events(events: list[LogEvent], job_id: str) -> list[str]:
    """Return a line for each kind of event, in the order in which the kinds first came; of many of a kind the first few."""
    kinds: dict[str, list[str]] = {}
    for event in events:
        kind, _, said = describe(event, of_job=job_id).partition(" ")
        kinds.setdefault(kind, []).append(said[:_SHOWN_LENGTH])
    return [f"{kind} {_join(texts)}".rstrip() for kind, texts in kinds.items()]


def _join(texts: list[str]) -> str:
    more = f", … and {len(texts) - _SHOWN_OF_A_KIND} more" if len(texts) > _SHOWN_OF_A_KIND else ""
    return ", ".join(filter(None, texts[:_SHOWN_OF_A_KIND])) + more
