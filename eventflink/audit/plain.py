"""Events and decisions as plain values, ready for JSON, with every field as the schema has it."""

import dataclasses
import json
from enum import StrEnum
from typing import Any

from eventflink.audit.entries import Entry
from eventflink.events.decision import Cause
from eventflink.events.wording import iso_time

_field_names: dict[type[Any], tuple[str, ...]] = {}


def plain(value: Any) -> Any:
    """Return a record class, or what one holds, as dicts, lists, strings and numbers; bytes are hexadecimal."""
    if isinstance(value, StrEnum):
        return value.value
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    names = _field_names.get(type(value))
    if names is None:
        names = _field_names[type(value)] = tuple(field.name for field in dataclasses.fields(value))
    return {name: plain(getattr(value, name)) for name in names}


def json_text(value: Any) -> str:
    """Return a plain value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def plain_cause(cause: Cause) -> dict[str, Any]:
    """Return a cause with its type."""
    return {"type": type(cause).__name__, **plain(cause)}


def plain_event(entry: Entry, index: int) -> dict[str, Any]:
    """Return one event of a decision with all that is known of the decision."""
    decision = entry.decision
    event = decision.events[index]
    return {
        "offset": entry.offset,
        "event_index": index,
        "epoch": decision.epoch,
        "sequence": decision.sequence,
        "leader_id": decision.leader_id,
        "decided_at": iso_time(decision.decided_at_ms),
        "log_timestamp": iso_time(entry.timestamp_ms),
        "accepted": entry.accepted,
        "rejection": entry.rejection,
        "actor": decision.actor,
        "causes": [plain_cause(cause) for cause in decision.causes],
        "type": type(event).__name__,
        "event": plain(event),
    }
