"""With which release a record is written: the oldest whose schema says the same of it.

A TaskExecutor, client or master of an older version reads every record that its version knows, of any writer: only what is
new is written with a new schema. The log goes by the feature level instead (P19): all of a Decision is read by everybody.
"""

from functools import cache
from typing import Any, Final

from eventflink.events.schemas import MARKER, Schema, WriterSchemas

PAYLOAD: Final = "payload"


@cache
def header_of(registry: WriterSchemas, tag: str) -> bytes:
    """Return marker and fingerprint of the schema that an envelope with the payload `tag`, a record's full name, is written with.

    Raises:
        ValueError: today's envelope has no such payload.

    """
    today = _meaning(registry.by_fingerprint[registry.current_fingerprint], tag)
    if today is None:
        message = f"unknown payload of {registry.name}: {tag}"
        raise ValueError(message)
    return next(MARKER + fingerprint for fingerprint, schema in registry.by_fingerprint.items() if _meaning(schema, tag) == today)


def _meaning(schema: Schema, tag: str) -> Any:
    """Return everything that decides over the bytes of such an envelope but the branch's number; None where it has no such payload."""
    branches = {branch["name"]: branch for f in schema["fields"] if f["name"] == PAYLOAD for branch in f["type"]}
    if tag not in branches:
        return None
    return [(f["name"], _without_documentation(branches[tag] if f["name"] == PAYLOAD else f["type"])) for f in schema["fields"]]


def _without_documentation(node: Any) -> Any:
    if isinstance(node, str):
        return node
    if isinstance(node, list):
        return [_without_documentation(branch) for branch in node]
    if node["type"] == "record":
        return [node["name"], [(f["name"], _without_documentation(f["type"])) for f in node["fields"]]]
    if node["type"] == "enum":
        return [node["name"], node["symbols"]]
    return {key: _without_documentation(node[key]) for key in ("type", "items", "values", "size") if key in node}
