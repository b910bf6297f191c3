"""What a command has that was added by the recipe of docs/developing.md; runs in the copy in which the recipe was followed."""

import json
from pathlib import Path
from typing import Any, Final

from eventflink.events.codec import PayloadCodec
from eventflink.events.inputs import COMMANDS
from eventflink.events.log_events import EVENTS, RequestAccepted, RequestRejected
from eventflink.events.topics import Topic
from tests.support.cluster import ScriptedCluster

COMMAND: Final = "SetNotice"
EVENT: Final = "NoticeSet"
REQUESTS: Final = PayloadCodec("CommandEnvelope")


def answer(cluster: ScriptedCluster, value: bytes) -> RequestAccepted | RequestRejected:
    """Have a record decided; return the answer in its decision."""
    before = len(cluster.log)
    cluster.put(Topic.COMMANDS, value)
    cluster.settle()
    answers = [event for decision in list(cluster.decisions())[before:] for event in decision.events]
    return next(event for event in answers if isinstance(event, RequestAccepted | RequestRejected))


def in_json(**fields: Any) -> bytes:
    """Return a record of the command in JSON."""
    return json.dumps({"type": COMMAND, **fields}).encode()


def in_avro(**fields: Any) -> bytes:
    """Return a record of the command in Avro."""
    return REQUESTS.encode(COMMANDS[COMMAND](**fields))


def main() -> None:
    """Have it accepted, repeated, fenced and refused, in both encodings; an error names what is missing."""
    cluster = ScriptedCluster()
    for encode in (in_json, in_avro):
        name = encode.__name__
        accepted = answer(cluster, encode(text=name, request_id=name, actor="me"))
        assert isinstance(accepted, RequestAccepted), accepted
        assert accepted.subject == "cluster"
        decided = len(cluster.events(EVENTS[EVENT]))
        cluster.put(Topic.COMMANDS, encode(text="something else", request_id=name))
        cluster.settle()
        assert len(cluster.events(EVENTS[EVENT])) == decided, "a request is done once"
        fenced = answer(cluster, encode(text="x", leader_id="another"))
        assert isinstance(fenced, RequestRejected), fenced
        assert fenced.code == "FencingTokenMismatch"
        refused = answer(cluster, encode(text="x" * 201))
        assert isinstance(refused, RequestRejected), refused
        assert "text: must have at most 200 characters, not 201" in refused.message
    unknown = answer(cluster, b'{"type": "SetNotise"}')
    assert isinstance(unknown, RequestRejected), unknown
    assert f"(did you mean '{COMMAND}'?)" in unknown.message
    page = Path("docs/generated/events.md").read_text(encoding="utf-8")
    assert f"### {COMMAND}\n" in page
    assert f"### {EVENT}\n" in page
    cluster.check()


if __name__ == "__main__":
    main()
