"""Events, causes and decisions in the words of people: one line each, the important fields first.

What an event is about comes from the names of its fields, so that a new event needs nothing here to be told.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from eventflink.events.decision import Cause, Decision, FollowUpCause, InputCause, TimerCause
from eventflink.events.log_events import (
    FollowUpDecided,
    JobResultStored,
    JobSubmitted,
    LogEvent,
    RestartScheduled,
    TaskFailed,
    TaskFinished,
    TaskManagerReportReconciled,
)
from eventflink.master.exception_history import DEFAULT_HISTORY_SIZE
from eventflink.model.statuses import FollowUpType

_SHOWN_LENGTH: Final = 160
_SHOWN_OF_A_KIND: Final = 4
_SUBJECTS: Final = ("job_id", "task_manager_id", "allocation_id", "subject", "master_id", "topic", "request_id")
_OF_A_TASK: Final = frozenset({"job_id", "vertex_id", "subtask_index", "attempt"})
_UNTOLD: Final = frozenset({"reply_partition", "job_graph", "graph_digest", "dead_letter", "restart_strategy"})
_DEFAULTS: Final = frozenset({("failover_strategy", "REGION"), ("exception_history_size", DEFAULT_HISTORY_SIZE)})
"""Of the cluster's settings: they are told where they are others."""


def printable(text: str) -> str:
    """Return a text without what would move a terminal's cursor or change its colours."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


def first_line(text: str) -> str:
    """Return the beginning of a text that may have many lines."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= _SHOWN_LENGTH else line[: _SHOWN_LENGTH - 1] + "…"


def subject_of(event: LogEvent) -> str:
    """Return what an event is about: `job/vertex[0]#1`, a TaskManager, an allocation, a request; "" for none."""
    job_id = getattr(event, "job_id", "")
    vertex_id = getattr(event, "vertex_id", None)
    if vertex_id is not None:
        attempt = getattr(event, "attempt", None)
        return f"{job_id}/{vertex_id}[{getattr(event, 'subtask_index', 0)}]" + (f"#{attempt}" if attempt is not None else "")
    return next((str(value) for name in _SUBJECTS if (value := getattr(event, name, ""))), "")


def details_of(event: LogEvent) -> str:  # noqa: PLR0911 - one return for each kind of event
    """Return the important fields of an event besides its subject."""
    match event:
        case JobSubmitted():
            return f"'{event.job_graph.name}' by {event.actor or 'somebody'}, {len(event.job_graph.vertices)} vertices"
        case TaskFailed():
            return first_line(f"{event.cause.failure_type}: {event.cause.message}")
        case TaskFinished():
            return " ".join(f"{o.output}={o.location}" for o in event.outputs)
        case JobResultStored():
            cause = f", {event.cause.failure_type}: {event.cause.message}" if event.cause is not None else ""
            return first_line(f"{event.status} after {event.net_run_time_ms} ms{cause}")
        case FollowUpDecided():
            return str(event.follow_up_type)
        case TaskManagerReportReconciled():
            return f"instance_id={event.instance_id} {len(event.missing)} missing, {len(event.unknown)} unknown"
        case RestartScheduled():
            return _say_restart(event)
        case _:
            return _fields_of(event)


def _say_restart(event: RestartScheduled) -> str:
    said = f"restart {event.restarts}"
    if event.failed_attempt:  # Older logs do not say more.
        said += f" after {event.delay_ms} ms"
    if event.task_count > 1:
        said += f": {event.task_count} tasks ({event.failover_strategy.lower()})"
    if event.lost_outputs:
        said += f", lost: {', '.join(f'{lost.vertex_id}[{lost.subtask_index}]' for lost in event.lost_outputs)}"
    return first_line(said)


def _fields_of(event: LogEvent) -> str:
    values = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
    told = []
    for before, after in (("from_status", "to_status"), ("from_state", "to_state")):
        if before in values:
            told.append(f"{values.pop(before)} → {values.pop(after)}")
    subject = subject_of(event)
    shown = _OF_A_TASK if "vertex_id" in values else {name for name in _SUBJECTS if values.get(name) == subject}
    told += [
        f"{name}={value}"
        for name, value in values.items()
        if name not in shown | _UNTOLD and value not in ("", None, (), -1) and (name, value) not in _DEFAULTS
    ]
    return first_line(" ".join(told))


def say_event(event: LogEvent) -> str:
    """Return an event with its subject and its important fields."""
    return printable(" ".join(part for part in (type(event).__name__, subject_of(event), details_of(event)) if part))


def say_events(events: Iterable[LogEvent]) -> list[str]:
    """Return a line for each event, in order; of many of one kind the first few, and at the end how many more there are."""
    kinds: Counter[str] = Counter()
    lines = []
    for event in events:
        kind = type(event).__name__
        kinds[kind] += 1
        if kinds[kind] <= _SHOWN_OF_A_KIND:
            lines.append(say_event(event))
    more = [f"{kind}: {count - _SHOWN_OF_A_KIND} more" for kind, count in kinds.items() if count > _SHOWN_OF_A_KIND]
    return lines + more


def say_cause(cause: Cause) -> str:
    """Return what a decision answers."""
    match cause:
        case InputCause():
            last = f"..{cause.last_offset}" if cause.last_offset != cause.first_offset else ""
            return f"{cause.topic}@{cause.first_offset}{last}"
        case TimerCause():
            return f"timer {cause.timer}"
        case FollowUpCause():
            return say_follow_up(cause.follow_up_type)


def say_follow_up(follow_up_type: FollowUpType) -> str:
    """Return a consequence by its type."""
    return "follow-up " + follow_up_type.lower().replace("_", " ")


def say_causes(decision: Decision) -> str:
    """Return all that a decision answers, with who asked for it."""
    causes = ", ".join(dict.fromkeys(map(say_cause, decision.causes)))
    return printable(f"{causes} by {decision.actor}" if decision.actor else causes)


def fitting(value: Any, wanted: str) -> bool:
    """Tell whether an id is the wanted one or begins with it."""
    return isinstance(value, str) and value.startswith(wanted)
