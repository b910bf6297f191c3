"""Bytes and back: every record class survives, blocks make the same decision as the whole, classes and schemas say the same."""

import copy
import dataclasses
import enum
import io
import itertools
import typing
from typing import Any

import fastavro
import pytest

from docs.generate.schemas import documents, envelope_names, inlined
from eventflink.events import effects, inputs, snapshot_records
from eventflink.events.codec import (
    HEADER_LENGTH,
    DecisionCodec,
    EnvelopeCodec,
    PayloadCodec,
    ReportsCodec,
    UndecodableRecord,
)
from eventflink.events.decision import Cause, Decision, InputCause
from eventflink.events.log_events import EVENTS, AnswersExpired, JobCleanedUp, LogEvent, RequestAccepted, RequestRejected
from eventflink.events.record_functions import LONGS, record_classes, tag_of
from eventflink.events.schemas import MARKER, NAMESPACE, fingerprint_of, self_contained
from eventflink.model import statuses
from tests.support import feature_levels
from tests.support.cluster import CODEC
from tests.support.feature_levels import ADDED_EVENT, ADDED_LEVEL, LATER
from tests.support.values import ValueMaker

_DOCUMENTS = documents()

EVENT_CLASSES = tuple(EVENTS.values())
CLASSES = record_classes()
ENUMERATIONS = [statuses.JobStatus, statuses.ExecutionState, statuses.TaskType, statuses.ShipStrategy, statuses.FailoverStrategy]
ENUMERATIONS += [statuses.RestartStrategyType, statuses.TaskFile, statuses.FollowUpType, statuses.DrillStepType, statuses.Role]
ENUMERATIONS += [statuses.ApplicationStatus, statuses.SlotRequestDeferralReason]
ENUMERATIONS += [statuses.TaskManagerFile, statuses.SchedulerType, statuses.RescaleReason, statuses.CheckpointFailureReason]
ENUMERATIONS += [statuses.StreamConnector, statuses.StreamFormat, statuses.StreamTrigger, statuses.StreamOutputMode]
ENUMERATIONS += [statuses.CheckpointRetention, statuses.SavepointMode, statuses.ParameterType, statuses.ReuseReason]
ENUMERATIONS += [statuses.CatchUp, statuses.OverlapPolicy, statuses.InstantValue, statuses.InstantOrigin, statuses.SkipReason]
ENUMERATIONS += [statuses.RunOutcome, statuses.TopicBegin, statuses.VertexRuns, statuses.CursorMove, statuses.VertexSkipReason]

ENVELOPE_FIELDS: dict[str, dict[str, Any]] = {
    "SubmissionEnvelope": {"sent_at_ms": 5},
    "CommandEnvelope": {"sent_at_ms": 5},
    "DeploymentEnvelope": {"epoch": 3, "task_manager_id": "tm", "instance_id": "i"},
    "ReplyEnvelope": {"epoch": 3, "sequence": 4, "leader_id": "l", "log_offset": 9},
    "HeartbeatEnvelope": {},
    "LeadershipEnvelope": {},
    "SnapshotEnvelope": {},
    "DeadLetterEnvelope": {},
}
PAYLOADS = {
    "SubmissionEnvelope": (inputs.JobSubmission,),
    "CommandEnvelope": tuple(inputs.COMMANDS.values()),
    "DeploymentEnvelope": typing.get_args(effects.DeploymentPayload),
    "ReplyEnvelope": (RequestAccepted, RequestRejected),
    "HeartbeatEnvelope": (inputs.Heartbeat, inputs.Canary),
    "LeadershipEnvelope": (
        effects.LeaderHeartbeat,
        effects.Resignation,
        effects.MasterPresence,
        effects.LeaderDeath,
        effects.LeaderHang,
    ),
    "SnapshotEnvelope": (snapshot_records.SnapshotChunk, snapshot_records.SnapshotManifest),
    "DeadLetterEnvelope": (effects.DeadLetter,),
}


def _schema(name: str) -> dict[str, Any]:
    document: dict[str, Any] = _DOCUMENTS[name]
    return document


def _for_fastavro(value: Any, schema: Any) -> Any:
    """Return a value as fastavro takes it, whose bytes are what they have to be."""
    if isinstance(schema, list):
        branches = {branch["name"]: branch for branch in schema if isinstance(branch, dict) and "name" in branch}
        tag = tag_of(type(value))
        return (tag, _for_fastavro(value, branches[tag])) if tag in branches else value
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "array":
        return [_for_fastavro(item, schema["items"]) for item in value]
    if kind == "record":
        return {f["name"]: _for_fastavro(getattr(value, f["name"]), f["type"]) for f in schema["fields"]}
    return value


def _decision(events: tuple[LogEvent, ...], causes: tuple[Cause, ...] = ()) -> Decision:
    return Decision(
        epoch=2,
        sequence=3,
        leader_id="leader",
        decided_at_ms=1_800_000_000_000,
        previous_hash=b"\x01\x02",
        causes=causes,
        actor="somebody",
        events=events,
    )


@pytest.mark.parametrize("cls", EVENT_CLASSES, ids=lambda c: c.__name__)
def test_every_event_survives_the_log(cls: type[Any]) -> None:
    maker = ValueMaker(seed=7)
    for _ in range(20):
        decision = _decision((maker.record(cls),), tuple(maker.record(c) for c in typing.get_args(Cause)))
        assert CODEC.decode(CODEC.encode(decision)) == decision


@pytest.mark.parametrize(
    ("envelope", "cls"), [(e, c) for e, classes in PAYLOADS.items() for c in classes], ids=lambda v: v if isinstance(v, str) else v.__name__
)
def test_every_payload_survives_its_topic(envelope: str, cls: type[Any]) -> None:
    codec, maker = PayloadCodec(envelope), ValueMaker(seed=8)
    for _ in range(20):
        value = maker.record(cls)
        assert codec.decode(codec.encode(value, **ENVELOPE_FIELDS[envelope])) == (value, ENVELOPE_FIELDS[envelope])


@pytest.mark.parametrize("cls", typing.get_args(inputs.TaskManagerReport), ids=lambda c: c.__name__)
def test_reports_survive_together_and_in_order(cls: type[Any]) -> None:
    codec, maker = ReportsCodec("TaskManagerEnvelope"), ValueMaker(seed=9)
    for _ in range(20):
        reports = (maker.record(cls), maker.record(inputs.SlotOffer), maker.record(cls))
        assert codec.decode(codec.encode(reports)) == reports


def test_every_class_of_every_union_is_tried_above() -> None:
    """No record can be written to a topic that no test writes."""
    for envelope, classes in PAYLOADS.items():
        [payload] = [f for f in _schema(envelope)["fields"] if f["name"] == "payload"]
        assert payload["type"] == [f"{NAMESPACE}.{c.__name__}" for c in classes]
    assert _schema("TaskManagerEnvelope")["fields"][0]["type"]["items"] == [
        f"{NAMESPACE}.{c.__name__}" for c in typing.get_args(inputs.TaskManagerReport)
    ]
    fields = {f["name"]: f for f in _schema("Decision")["fields"]}
    assert sorted(fields["events"]["type"]["items"]) == sorted(f"{NAMESPACE}.{c.__name__}" for c in EVENT_CLASSES)
    assert fields["causes"]["type"]["items"] == [f"{NAMESPACE}.{c.__name__}" for c in typing.get_args(Cause)]


@pytest.mark.parametrize("cuts", [(), (0,), (1,), (2, 5), (0, 0, 3, 3, 9)])
def test_a_decision_sealed_from_blocks_reads_as_the_whole(cuts: tuple[int, ...]) -> None:
    """The leader encodes events step by step, before it applies them."""
    maker = ValueMaker(seed=10)
    events = tuple(maker.record(c) for c in EVENT_CLASSES[:9])
    whole = _decision(events, (InputCause("commands", 0, 1, 2),))
    bounds = [0, *cuts, len(events)]
    blocks = [CODEC.encode_events(events[a:b]) for a, b in itertools.pairwise(bounds)]
    fields = {f.name: getattr(whole, f.name) for f in dataclasses.fields(whole) if f.name != "events"}
    assert CODEC.decode(CODEC.join(**fields, blocks=blocks)) == whole
    assert tuple(e for block in blocks for e in CODEC.decode_events(block)) == events


@pytest.mark.parametrize("level", [1, 2])
def test_events_are_written_as_avro_writes_the_whole_array(level: int) -> None:
    """Event by event, with the schema of each alone: byte for byte what one call for all of them gives, and it reads back."""
    schema = self_contained(LATER.registry.releases[level - 1])
    field, maker = schema["fields"][-2], ValueMaker(seed=12)
    classes = [cls for cls in EVENT_CLASSES if level == ADDED_LEVEL or cls.__name__ != ADDED_EVENT]
    events = tuple(maker.record(cls) for _ in range(3) for cls in classes)
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema | {"fields": [field]}, {"events": _for_fastavro(events, field["type"])})
    assert LATER.encode_events(events, level) + b"\0" == stream.getvalue()
    assert LATER.decode_events(LATER.encode_events(events, level), level) == _as_written(events, level)


def _as_written(events: tuple[LogEvent, ...], level: int) -> tuple[LogEvent, ...]:
    """Return what a reader makes of events that were written at a level: fields that it does not have take their defaults."""
    return LATER.decode(LATER.encode(_decision(events), level)).events


def test_a_block_with_something_behind_its_last_event_is_refused() -> None:
    block = CODEC.encode_events((ValueMaker(seed=13).record(EVENT_CLASSES[0]),))
    with pytest.raises(ValueError, match="ends at byte"):
        CODEC.decode_events(block + b"\0")


@pytest.mark.parametrize(
    ("count", "message"),
    [(b"\x01", "a number is negative"), (b"\xff" * 10 + b"\x01", "a number is longer than 64 bits"), (b"\x80", "IndexError")],
)
def test_a_count_of_events_that_is_none_is_named(count: bytes, message: str) -> None:
    """A block that says its length in bytes begins with a negative count: no master writes one."""
    whole = CODEC.encode(_decision(()))
    with pytest.raises(UndecodableRecord, match=f"the record is not a whole Decision: decoding stopped at byte .*{message}"):
        CODEC.decode(whole[:-2] + count)


def test_why_a_record_cannot_be_read_is_the_same_for_every_reader() -> None:
    whole = CODEC.encode(_decision(tuple(ValueMaker(seed=13).record(kind) for kind in EVENT_CLASSES)))
    for end in range(len(whole)):
        with pytest.raises(UndecodableRecord) as caught:
            CODEC.decode(whole[:end])
        assert " at 0x" not in str(caught.value)


def test_a_decision_without_events_survives() -> None:
    assert CODEC.decode(CODEC.encode(_decision(()))) == _decision(())


def test_every_prefix_of_a_decision_is_undecodable() -> None:
    value = CODEC.encode(_decision(tuple(ValueMaker(seed=11).record(c) for c in EVENT_CLASSES[:5]), (InputCause("t", 0, 1, 1),)))
    for length in range(len(value)):
        with pytest.raises(UndecodableRecord):
            CODEC.decode(value[:length])


def test_an_unknown_fingerprint_is_named() -> None:
    with pytest.raises(UndecodableRecord, match="no schema of Decision has the fingerprint 0707070707070707"):
        DecisionCodec().decode(b"\xc3\x01" + b"\x07" * 8)


@pytest.mark.parametrize("name", envelope_names())
def test_a_record_begins_with_the_marker_and_the_fingerprint_of_its_schema(name: str) -> None:
    codec = EnvelopeCodec(name)
    assert codec._header == b"\xc3\x01" + codec.registry.current_fingerprint
    assert len(codec.registry.current_fingerprint) == 8


def test_a_record_is_written_with_the_oldest_release_that_says_it() -> None:
    """A reader of an older version misses what is new in a topic, and nothing that it knows."""
    envelope, today = "LeadershipEnvelope", inlined(_DOCUMENTS, "LeadershipEnvelope")
    older = copy.deepcopy(today)
    heartbeat, _, presence, *_ = older["fields"][0]["type"]
    presence["fields"].pop()
    older["fields"][0]["type"] = [heartbeat, presence]
    registry, maker = feature_levels.registry(envelope, older, today), ValueMaker(seed=3)
    codec, releases = PayloadCodec(envelope, registry), [fingerprint_of(release) for release in registry.releases]
    for cls, number in ((effects.LeaderHeartbeat, 1), (effects.Resignation, 2), (effects.MasterPresence, 2)):
        record = maker.record(cls)
        value = codec.encode(record)
        assert value[len(MARKER) : HEADER_LENGTH] == releases[number - 1]
        assert codec.decode(value) == (record, {})


def test_a_record_that_is_no_payload_of_its_envelope_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown payload of DeploymentEnvelope: eventflink\.LeaderHeartbeat"):
        PayloadCodec("DeploymentEnvelope").encode(
            ValueMaker(seed=3).record(effects.LeaderHeartbeat), **ENVELOPE_FIELDS["DeploymentEnvelope"]
        )


def test_every_schema_has_its_class() -> None:
    assert _DOCUMENTS.keys() == {c.__name__ for c in CLASSES} | {e.__name__ for e in ENUMERATIONS} | set(envelope_names())


@pytest.mark.parametrize("enumeration", ENUMERATIONS, ids=lambda e: e.__name__)
def test_an_enumeration_has_the_symbols_of_its_schema(enumeration: type[enum.StrEnum]) -> None:
    schema = _schema(enumeration.__name__)
    assert schema["doc"]
    assert schema["symbols"] == [member.value for member in enumeration] == list(enumeration.__members__)


@pytest.mark.parametrize(
    ("envelope", "cls"), [(e, c) for e, classes in PAYLOADS.items() for c in classes], ids=lambda v: v if isinstance(v, str) else v.__name__
)
def test_every_payload_is_written_as_avro_writes_it(envelope: str, cls: type[Any]) -> None:
    codec, maker = PayloadCodec(envelope), ValueMaker(seed=14)
    for _ in range(5):
        record = maker.record(cls)
        value = codec.encode(record, **ENVELOPE_FIELDS[envelope])
        schema, stream = codec.registry.by_fingerprint[value[len(MARKER) : HEADER_LENGTH]], io.BytesIO()
        [payload] = [field["type"] for field in schema["fields"] if field["name"] == "payload"]
        fastavro.schemaless_writer(stream, schema, {**ENVELOPE_FIELDS[envelope], "payload": _for_fastavro(record, payload)})
        assert value[HEADER_LENGTH:] == stream.getvalue()


def test_an_array_whose_blocks_say_how_long_they_are_is_read() -> None:
    """So writers of other languages write long ones."""
    codec, reports = ReportsCodec("TaskManagerEnvelope"), (inputs.SlotOffer("tm", "tm-1", "a"), inputs.SlotOffer("tm", "tm-1", "b"))
    whole = codec.encode(reports)
    items = whole[HEADER_LENGTH + 1 : -2]
    blocks = LONGS[-2] + LONGS[len(items)] + items + LONGS[1] + items[: len(items) // 2]
    assert codec.decode(whole[:HEADER_LENGTH] + blocks + whole[-2:]) == (*reports, reports[0])


@pytest.mark.parametrize(("number", "is_written"), [(2**63 - 1, True), (-(2**63), True), (2**63, False), (-(2**63) - 1, False)])
def test_a_number_of_more_than_64_bits_is_not_written(number: int, *, is_written: bool) -> None:
    event = AnswersExpired(number)
    if is_written:
        assert CODEC.decode_events(CODEC.encode_events((event,))) == (event,)
    else:
        with pytest.raises(OverflowError, match="more than 64 bits"):
            CODEC.encode_events((event,))


@pytest.mark.parametrize("wrong", [7, b"id", None])
def test_what_is_no_text_is_not_written_as_one(wrong: Any) -> None:
    with pytest.raises((TypeError, AttributeError)):
        CODEC.encode_events((JobCleanedUp(wrong),))
