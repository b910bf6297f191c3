"""The files of the corpus: a case each, as JSON, with a sentence that says what it shows.

A record of Avro is kept by its fields where it can be read, and written anew with the schemas of today: so it goes on showing the same when
they change. Everything else is kept by its bytes.
"""

import base64
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import fastavro

from eventflink.events.codec import HEADER_LENGTH
from eventflink.events.schemas import MARKER, NAMESPACE, registry_of
from eventflink.events.topics import Topic

CORPUS: Final = Path(__file__).parent / "corpus"

ENVELOPES: Final[Mapping[str, str]] = {
    Topic.SUBMISSIONS: "SubmissionEnvelope",
    Topic.COMMANDS: "CommandEnvelope",
    Topic.TASKMANAGERS: "TaskManagerEnvelope",
    Topic.HEARTBEATS: "HeartbeatEnvelope",
    Topic.DEPLOYMENTS: "DeploymentEnvelope",
    Topic.LEADERSHIP: "LeadershipEnvelope",
    Topic.REPLIES: "ReplyEnvelope",
    Topic.LOG: "Decision",
    Topic.SNAPSHOTS: "SnapshotEnvelope",
}
"""By topic what its records are."""


@dataclass(frozen=True, slots=True)
class Message:
    """Something that somebody writes: to a topic, a port or a file."""

    to: str
    value: bytes
    key: bytes | None = None
    sealed_by: str = ""
    """Who seals it before it is read, where there is a secret: `sealing.py:Sealer`."""


def encode_case(case: Sequence[Message], why: str) -> str:
    """Return a case as its file has it."""
    return json.dumps({"why": why, "messages": [_document_of(message) for message in case]}, indent=1, ensure_ascii=False)


def read_case(path: Path) -> list[Message]:
    """Return the case of a file."""
    return [_message_of(each) for each in json.loads(path.read_text(encoding="utf-8"))["messages"]]


def _document_of(message: Message) -> dict[str, Any]:
    document = {"to": message.to, **_text_of("key", message.key)} | ({"sealed_by": message.sealed_by} if message.sealed_by else {})
    tree = tree_of(ENVELOPES[message.to], message.value) if message.to in ENVELOPES else None
    if tree is not None and value_of(ENVELOPES[message.to], tree) == message.value:
        return {**document, "record": _plain(tree)}
    return {**document, **_text_of("value", message.value)}


def _message_of(document: dict[str, Any]) -> Message:
    key, sealed_by = _bytes_of(document, "key"), document.get("sealed_by", "")
    if "record" in document:
        return Message(document["to"], value_of(ENVELOPES[document["to"]], _tree(document["record"])), key, sealed_by)
    return Message(document["to"], _bytes_of(document, "value") or b"", key, sealed_by)


def _text_of(name: str, value: bytes | None) -> dict[str, str]:
    if value is None:
        return {}
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}
    return {name: text}


def _bytes_of(document: dict[str, str], name: str) -> bytes | None:
    if f"{name}_base64" in document:
        return base64.b64decode(document[f"{name}_base64"])
    return document[name].encode() if name in document else None


# -- records of Avro ---------------------------------------------------------------------------------------------------


def tree_of(envelope: str, value: bytes) -> Any:
    """Return the fields of a record, of a union as (name, fields); None: it cannot be read."""
    schema = registry_of(envelope).by_fingerprint.get(value[len(MARKER) : HEADER_LENGTH])
    if schema is None:
        return None
    stream = io.BytesIO(value)
    stream.seek(HEADER_LENGTH)
    try:
        return fastavro.schemaless_reader(stream, schema, None, return_record_name=True)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it is kept by its bytes
        return None


def value_of(envelope: str, tree: Any) -> bytes:
    """Return the record of fields, as today's schema writes it; nothing where they do not fit."""
    registry = registry_of(envelope)
    stream = io.BytesIO()
    stream.write(MARKER + registry.current_fingerprint)
    try:
        fastavro.schemaless_writer(stream, registry.by_fingerprint[registry.current_fingerprint], tree)
    except (ValueError, TypeError, OverflowError, LookupError, AttributeError):
        return b""
    return stream.getvalue()


def _plain(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _plain(value) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_plain(value) for value in tree]
    return {"base64": base64.b64encode(tree).decode()} if isinstance(tree, bytes) else tree


def _tree(plain: Any) -> Any:
    if isinstance(plain, dict):
        if plain.keys() == {"base64"}:
            return base64.b64decode(plain["base64"])
        return {name: _tree(value) for name, value in plain.items()}
    if isinstance(plain, list):
        made = [_tree(value) for value in plain]
        is_branch = len(made) == 2 and isinstance(made[0], str) and made[0].startswith(f"{NAMESPACE}.") and isinstance(made[1], dict)
        return tuple(made) if is_branch else made
    return plain
