"""The events of one job as a timeline: what happened, when, and what it answered.

Read from the log alone, so it is what any other reader would tell, too.
"""

import dataclasses
from typing import Final

from rich.table import Table
from rich.text import Text

from eventflink.events.decision import Cause, Decision, FollowUpCause, InputCause, TimerCause
from eventflink.events.log_events import (
    FollowUpDecided,
    JobStatusChanged,
    JobSubmitted,
    LogEvent,
    RequestAccepted,
    SlotAllocated,
    SlotFreed,
    SlotOffered,
    SlotRequested,
    SlotShared,
    SlotShareReturned,
    TaskFailed,
    TaskFinished,
    TaskStateChanged,
)
from eventflink.gateways.follow import LoggedDecision

_SHOWN_OF_A_KIND: Final = 4
_SHOWN_LENGTH: Final = 100


class Timeline:
    """Collects the decisions that concern one job; events about its slots belong to it by their allocation."""

    def __init__(self, job_id: str) -> None:
        """Begin with nothing."""
        self.job_id = job_id
        self._allocations: set[str] = set()
        self._rows: list[tuple[LoggedDecision, list[LogEvent]]] = []

    def add(self, logged: LoggedDecision) -> None:
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
            lines = _describe_events(events)
            table.add_row(
                str(logged.offset), str(logged.decision.decided_at_ms - start_ms), describe_causes(logged.decision), Text("\n".join(lines))
            )
        return table


def _describe_events(events: list[LogEvent]) -> list[str]:
    """Return a line for each kind of event, in the order in which the kinds first came."""
    kinds: dict[str, list[str]] = {}
    for event in events:
        kinds.setdefault(type(event).__name__, []).append(_describe(event))
    return [f"{kind} {_join(said)}".rstrip() for kind, said in kinds.items()]


def _join(said: list[str]) -> str:
    shown = [text.splitlines()[0][:_SHOWN_LENGTH] for text in said[:_SHOWN_OF_A_KIND] if text]
    more = f", … and {len(said) - _SHOWN_OF_A_KIND} more" if len(said) > _SHOWN_OF_A_KIND else ""
    return ", ".join(shown) + more


def describe_causes(decision: Decision) -> str:
    """Return what a decision answers."""
    return ", ".join(dict.fromkeys(map(_describe_cause, decision.causes)))


def _describe_cause(cause: Cause) -> str:
    match cause:
        case InputCause():
            last = f"..{cause.last_offset}" if cause.last_offset != cause.first_offset else ""
            return f"{cause.topic}@{cause.first_offset}{last}"
        case TimerCause():
            return f"timer {cause.timer}"
        case FollowUpCause():
            return "then " + cause.follow_up_type.lower().replace("_", " ")


def _describe(event: LogEvent) -> str:
    """Return what tells an event from others of its kind."""
    where = _describe_task(event)
    match event:
        case JobSubmitted():
            said = f"'{event.job_graph.name}' by {event.actor or 'somebody'}, {len(event.job_graph.vertices)} vertices"
        case JobStatusChanged():
            said = f"{event.from_status} → {event.to_status}"
        case TaskStateChanged():
            said = f"{where} {event.from_state} → {event.to_state}"
        case TaskFailed():
            said = f"{where} {event.cause.failure_type}: {event.cause.message}"
        case TaskFinished():
            said = where + "".join(f" → {o.output}" for o in event.outputs)
        case SlotAllocated():
            said = f"{event.allocation_id} → {event.task_manager_id}[{event.slot_index}]"
        case SlotShared() | SlotShareReturned():
            said = f"{where} {event.allocation_id}"
        case SlotOffered() | SlotFreed():
            said = event.allocation_id
        case _:
            said = where or _describe_fields(event)
    return said


def _describe_task(event: LogEvent) -> str:
    vertex_id = getattr(event, "vertex_id", None)
    if vertex_id is None:
        return ""
    attempt = getattr(event, "attempt", None)
    return f"{vertex_id}[{getattr(event, 'subtask_index', 0)}]" + (f"#{attempt}" if attempt is not None else "")


def _describe_fields(event: LogEvent) -> str:
    shown = ((f.name, getattr(event, f.name)) for f in dataclasses.fields(event) if f.name in _TELLING)
    return " ".join(f"{name}={value}" for name, value in shown if value not in ("", None))


_TELLING: Final = frozenset({"allocation_id", "task_manager_id", "slot_index", "status", "reason", "count", "subject", "net_run_time_ms"})
