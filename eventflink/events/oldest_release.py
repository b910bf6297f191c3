"""With which release a record is written: the oldest whose schema says the same of it.

A TaskExecutor, client or master of an older version reads every record that its version knows, whoever wrote it: only what is
new is written with a new schema. The log goes by the feature level instead (P19): all of a Decision is read by everybody.
"""

import json
from functools import cache
from typing import Any, Final, NamedTuple

from eventflink.events.schemas import MARKER, Schema, fingerprint_of, registry_of

PAYLOAD: Final = "payload"


class Writing(NamedTuple):
    """How a record is written."""

    header: bytes
    """Marker and fingerprint."""
    schema: Schema


@cache
def writing_of(envelope: str, tag: str) -> Writing:
    """Return how an envelope with the payload `tag`, a record's full name, is written.

    Raises:
        ValueError: today's envelope has no such payload.

    """
    registry = registry_of(envelope)
    today = _meaning(registry.current, tag)
    if today is None:
        message = f"{tag} is no payload of {envelope}"
        raise ValueError(message)
    schema = next((s for s in registry.releases if _meaning(s, tag) == today), registry.current)
    return Writing(MARKER + fingerprint_of(schema), schema)


def _meaning(schema: Schema, tag: str) -> str | None:
    """Return everything that decides over the bytes of such an envelope but the branch's number; None where it has no such payload."""
    named: dict[str, Any] = {}
    _collect(schema, named)
    payload = next(f["type"] for f in schema["fields"] if f["name"] == PAYLOAD)
    tags = [branch["name"] if isinstance(branch, dict) else branch for branch in payload]
    if tag not in tags:
        return None
    others = [(f["name"], _written_out(f["type"], named)) for f in schema["fields"] if f["name"] != PAYLOAD]
    place = [f["name"] for f in schema["fields"]].index(PAYLOAD)
    return json.dumps([others, place, _written_out(tag, named)])


def _collect(node: Any, named: dict[str, Any]) -> None:
    if isinstance(node, list):
        for branch in node:
            _collect(branch, named)
    elif isinstance(node, dict):
        if node["type"] in ("record", "enum", "fixed"):
            named[node["name"]] = node
        for inner in (*(f["type"] for f in node.get("fields", ())), node.get("items"), node.get("values")):
            _collect(inner, named)


def _written_out(node: Any, named: dict[str, Any]) -> Any:
    """Return a type with every named type in full. No schema of ours refers to itself."""
    if isinstance(node, str):
        return _written_out(named[node], named) if node in named else node
    if isinstance(node, list):
        return [_written_out(branch, named) for branch in node]
    if node["type"] == "record":
        return [node["name"], [(f["name"], _written_out(f["type"], named)) for f in node["fields"]]]
    if node["type"] == "enum":
        return [node["name"], node["symbols"]]
    return {key: _written_out(node[key], named) for key in ("type", "items", "values", "size") if key in node}
