"""With which release a record is written: the oldest whose schema says the same of it.

A TaskExecutor, client or master of an older version reads every record that its version knows, of any writer: only what is
new is written with a new schema. The log goes by the feature level instead (P19): all of a Decision is read by everybody.
"""

from functools import cache
from typing import Any, Final, NamedTuple

from eventflink.events.schemas import MARKER, Schema, SchemaRegistry, fingerprint_of

PAYLOAD: Final = "payload"


class Writing(NamedTuple):
    """How a record is written."""

    header: bytes
    """Marker and fingerprint."""
    schema: Schema


@cache
def writing_of(registry: SchemaRegistry, tag: str) -> Writing:
    """Return how an envelope with the payload `tag`, a record's full name, is written.

    Raises:
        ValueError: today's envelope has no such payload.

    """
    today = _meaning(registry.current, tag)
    if today is None:
        message = f"{tag} is no payload of {registry.name}"
        raise ValueError(message)
    schema = next((s for s in registry.releases if _meaning(s, tag) == today), registry.current)
    return Writing(MARKER + fingerprint_of(schema), schema)


def _meaning(schema: Schema, tag: str) -> Any:
    """Return everything that decides over the bytes of such an envelope but the branch's number; None where it has no such payload."""
    named = schema["__named_schemas"]
    payload = next(f["type"] for f in schema["fields"] if f["name"] == PAYLOAD)
    if tag not in [branch["name"] if isinstance(branch, dict) else branch for branch in payload]:
        return None
    return [(f["name"], _written_out(tag if f["name"] == PAYLOAD else f["type"], named)) for f in schema["fields"]]


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
