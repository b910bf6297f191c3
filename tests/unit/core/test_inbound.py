"""Whatever bytes come, they are an input: a request, reports, or the refusal of something unreadable. Nothing raises (P10)."""

import dataclasses
import io
import json
import random
import typing
from typing import Any

import fastavro
import pytest

from eventflink.events.codec import PayloadCodec
from eventflink.events.inputs import COMMANDS as COMMANDS_BY_NAME
from eventflink.events.inputs import (
    BlockTaskManager,
    CancelJob,
    Command,
    ConfirmSnapshot,
    DrillStep,
    JobSubmission,
    Request,
    RequestFileUpload,
    ShutDownCluster,
    SlotReport,
    SuspendJob,
    TaskManagerRegistration,
    UnblockTaskManager,
)
from eventflink.events.log_events import JobSuspensionRequested, RequestRepeated
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.events.topics import INBOUND, MAX_INBOUND_BYTES, Topic
from eventflink.leadership.election import SingleMaster
from eventflink.leadership.inbound import Inbound, InboundDecoder
from eventflink.leadership.intake import InboundRecord, InboundTopic, PartitionInbox
from eventflink.leadership.senders import sender_of
from eventflink.master.blocklist import ITSELF
from eventflink.master.canonical import to_plain
from eventflink.master.inputs import UnreadableInput
from eventflink.master.requests import ALL_REPLY_PARTITIONS
from eventflink.model.actors import TASK_EXECUTOR, declared, is_called
from eventflink.model.attempts import AttemptStatus, SlotStatus
from eventflink.model.job_graph import JobGraph, ParameterValue
from eventflink.model.job_graph_document import check_job_graph, parse_job_graph, to_document
from eventflink.model.schedule_document import check_schedule, schedule_document
from eventflink.model.schedules import ScheduleDefinition
from eventflink.model.statuses import DrillStepType, ExecutionState, TaskFile
from tests.support.cluster import REPORTS, ScriptedCluster, graph, vertex
from tests.support.participants import World

SUBMISSIONS, COMMANDS = PayloadCodec("SubmissionEnvelope"), PayloadCodec("CommandEnvelope")
GRAPH = parse_job_graph(graph(vertex("a", 2), vertex("b"), edges=[("a", "b", "hash")], code_archives=["a" * 64]), "test")
DECODER = InboundDecoder()
SEALS, OTHERS = Seals((b"the secret of this cluster, 32 chars",)), Seals((b"the secret of other people, 32 chars",))

VALID = {
    Topic.SUBMISSIONS: SUBMISSIONS.encode(JobSubmission(job_id="job", request_id="r", job_graph=GRAPH), sent_at_ms=5),
    Topic.COMMANDS: COMMANDS.encode(CancelJob(job_id="job", request_id="r")),
    Topic.TASKMANAGERS: REPORTS.encode(
        [
            TaskManagerRegistration("tm", "i", "host", 1, 4),
            SlotReport("tm", "i", (SlotStatus(0, "x"), SlotStatus(1)), (AttemptStatus("j", "v", 0, 1, ExecutionState.RUNNING),)),
        ]
    ),
}


def _decode(topic: Topic, value: bytes | None, key: bytes | None = None, decoder: InboundDecoder = DECODER) -> Inbound:
    return decoder.decode(InboundRecord(str(topic), 7, key, value))


def _refusal(topic: Topic, value: bytes | None, key: bytes | None = None, decoder: InboundDecoder = DECODER) -> UnreadableInput:
    [refusal] = _decode(topic, value, key, decoder).inputs
    assert isinstance(refusal, UnreadableInput)
    return refusal


def _json(topic: Topic, **document: Any) -> Any:
    [value] = _decode(topic, json.dumps(document).encode()).inputs
    return value


@pytest.mark.parametrize("topic", INBOUND)
def test_every_prefix_of_a_valid_record_is_refused(topic: Topic) -> None:
    value = VALID[topic]
    assert not isinstance(_decode(topic, value).inputs[0], UnreadableInput)
    for length in range(len(value)):
        refusal = _refusal(topic, value[:length])
        assert refusal.code == "UndecodableRecord"
        assert refusal.message.startswith(f"{topic}@7: ")


@pytest.mark.parametrize("topic", INBOUND)
def test_bytes_behind_a_record_are_refused(topic: Topic) -> None:
    assert "1 bytes after the end" in _refusal(topic, VALID[topic] + b"\0").message


@pytest.mark.parametrize("topic", INBOUND)
@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_never_raise(topic: Topic, seed: int) -> None:
    """Wholly random, random behind a valid header, and valid with a few bytes changed."""
    dice = random.Random(f"{topic}-{seed}")
    valid = VALID[topic]
    for _ in range(600):
        mutated = bytearray(valid)
        for _ in range(dice.randrange(1, 5)):
            mutated[dice.randrange(len(mutated))] = dice.randrange(256)
        noise = dice.randbytes(dice.randrange(80))
        for value in (noise, valid[:10] + noise, bytes(mutated), b"{" + noise, b"\0" + noise):
            inbound = _decode(topic, value)
            DECODER.poisoned(InboundRecord(str(topic), 7, noise, value), "error")
            assert all(v is not None for v in inbound.inputs)


@pytest.mark.parametrize("topic", [Topic.SUBMISSIONS, Topic.COMMANDS])
def test_random_changes_of_json_never_raise(topic: Topic) -> None:
    documents = {
        Topic.SUBMISSIONS: {"job_graph": graph(vertex("a")), "job_id": "j", "request_id": "r", "reply_partition": 1},
        Topic.COMMANDS: {"type": "RequestFileUpload", "job_id": "j", "vertex_id": "a", "subtask_index": 0, "file": "LOG"},
    }
    text = json.dumps(documents[topic])
    dice = random.Random(5)
    junk = ["null", "{}", "[]", '""', "-1", "1e400", "9" * 30, "NaN", "true", '"\\ud800"', '"\\u0000"', "{", "]", ",", "\\", "é"]
    for _ in range(3_000):
        first, last = sorted(dice.choices(range(len(text)), k=2))
        _decode(topic, (text[:first] + dice.choice(junk) + text[min(last, first + 12) :]).encode())


@pytest.mark.parametrize("topic", INBOUND)
@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "the record has no value"),
        (b"", "does not start with the marker C3 01"),
        (b"garbage", "does not start with the marker C3 01"),
        (b"\xc3\x01" + b"\x07" * 8, "no schema of"),
        (b"x" * (MAX_INBOUND_BYTES + 1), f"the record has {MAX_INBOUND_BYTES + 1} bytes; at most {MAX_INBOUND_BYTES} are read"),
    ],
)
def test_what_is_no_record_is_refused_and_says_why(topic: Topic, value: bytes | None, says: str) -> None:
    assert says in _refusal(topic, value).message


def test_task_managers_do_not_speak_json() -> None:
    assert "marker" in _refusal(Topic.TASKMANAGERS, b'{"a": 1}').message


def test_a_record_of_another_topic_is_refused() -> None:
    assert "no schema of CommandEnvelope" in _refusal(Topic.COMMANDS, VALID[Topic.SUBMISSIONS]).message


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"{", "the record begins like JSON, but: not valid JSON: expecting property name"),
        (b"[1, 2]", "a request is a JSON object, not a list"),
        (b'"text"', "a request is a JSON object, not 'text'"),
        (b'{"a": ' * 40_000, "the record begins like JSON, but: nested more than 100 levels deep"),
        (b"[" * 200_000, "the record begins like JSON, but: nested more than 100 levels deep"),
        (b'{"job_id": "x"}', "job_graph: it is missing"),
        (b'{"job_graph": 5}', "job_graph: a job graph is a mapping with 'name' and 'vertices', not 5"),
        (b'{"job_graph": "name: x"}', "job_graph: a job graph is a mapping with 'name' and 'vertices', not 'name: x'"),
        (b'{"job_graph": {}, "colour": 1}', "colour: unknown key"),
        (b'{"job_graf": {}}', "job_graf: unknown key (did you mean 'job_graph'?)"),
        (b'{"job_graph": {}, "job_id": null}', "job_id: must be a text"),
        (b'{"job_graph": {}, "reply_partition": "1"}', "reply_partition: must be a whole number"),
        (b'{"job_graph": {}, "reply_partition": true}', "reply_partition: must be a whole number"),
        (b'{"job_graph": {}, "reply_partition": 4}', "reply_partition: must be at most 3"),
        (b'{"job_graph": {}, "request_id": 5}', "request_id: must be a text"),
        (b'{"job_graph": {}}', "job_graph: name: it is missing; vertices: it is missing"),
        (b'{"name": "x", "vertices": []}', "job_graph: vertices: must have at least 1 item"),
        (b'{"name": "x", "vertices": [{"id": "a"}]}', "vertices[0]: exactly one of 'python', 'sql' and 'sql_file'"),
        (
            b'{"name": "x", "vertices": [{"id": "a", "sql": "s", "parameters": {"p": NaN}}]}',
            "vertices[0].parameters.p: NaN is not a number of JSON (line 1, column 72)",
        ),
        (b'{"name": "x", "vertices": [{"id": "a", "sql": "s", "parameters": {"p": "\\ud800"}}]}', "half of a surrogate pair"),
    ],
)
def test_a_submission_that_is_wrong_says_what_and_where(value: bytes, says: str) -> None:
    assert says in _refusal(Topic.SUBMISSIONS, value).message


@pytest.mark.parametrize("half", ["\\ud800", "\\uDFFF", "a\\udc00b", "\\ud83d\\ud83d"])
def test_half_of_a_surrogate_pair_is_refused_by_that_name_wherever_it_stands(half: str) -> None:
    """Nothing could write it: as an id, in a message, or in the log."""
    graph_text = '{"name": "x", "vertices": [{"id": "a", "sql": "s"}]}'
    with_edge = '{"name": "x", "vertices": [{"id": "a", "sql": "s"}, {"id": "b", "sql": "s"}], "edges": [{"from": "a", "to": "b", '
    submissions = [
        f'{{"job_id": "{half}", "job_graph": {graph_text}}}',
        f'{{"request_id": "{half}", "job_graph": {graph_text}}}',
        f'{{"actor": "{half}", "job_graph": {graph_text}}}',
        f'{{"{half}": 1, "job_graph": {graph_text}}}',
        with_edge + f'"ship": "hash", "keys": ["{half}"]}}]}}',
        graph_text.replace('"x"', f'"{half}"'),
    ]
    commands = [
        f'{{"type": "CancelJob", "job_id": "{half}"}}',
        f'{{"type": "CancelJob", "job_id": "j", "leader_id": "{half}"}}',
        f'{{"type": "{half}"}}',
        f'{{"type": "RequestFileUpload", "job_id": "j", "vertex_id": "{half}"}}',
        f'{{"type": "BlockTaskManager", "task_manager_id": "tm", "reason": "{half}"}}',
    ]
    for topic, texts in ((Topic.SUBMISSIONS, submissions), (Topic.COMMANDS, commands)):
        for text in texts:
            refusal = _refusal(topic, text.encode())
            assert refusal.code == "InvalidRequest"
            assert "half of a surrogate pair" in refusal.message
            refusal.message.encode()
            refusal.subject.encode()
            refusal.request_id.encode()


@pytest.mark.parametrize("depth", [100, 400, 700, 900, 990, 1_000])
def test_half_of_a_pair_is_found_or_its_depth_refused_however_deep_it_stands(depth: int) -> None:
    nested = b'{"type": "CancelJob", "job_id": "j", "x": ' + b"[" * depth + b'"\\ud800"' + b"]" * depth + b"}"
    message = _refusal(Topic.COMMANDS, nested).message
    assert "half of a surrogate pair" in message or "nested more than 100 levels deep" in message


@pytest.mark.parametrize("topic", [Topic.SUBMISSIONS, Topic.COMMANDS])
def test_json_that_is_no_utf_8_is_refused(topic: Topic) -> None:
    for value in (b'{"job_id": "\xed\xa0\x80"}', b'{"job_id": "\xff"}', b'{"job_id": "\xc3"}'):
        assert "begins like JSON but is not UTF-8" in _refusal(topic, value).message


def test_a_whole_surrogate_pair_is_a_character() -> None:
    value = b'{"name": "\\ud83e\\udd86", "vertices": [{"id": "a", "sql": "s"}]}'
    [submission] = _decode(Topic.SUBMISSIONS, value).inputs
    assert isinstance(submission, JobSubmission)
    assert submission.job_graph.name == "🦆"


def test_deeply_nested_parameters_are_refused() -> None:
    nested = b'{"name": "x", "vertices": [{"id": "a", "sql": "s", "parameters": {"p": ' + b"[" * 900 + b"]" * 900 + b"}}]}"
    assert _decode(Topic.SUBMISSIONS, nested).inputs


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, "unknown type: null; known: CancelJob, RequestFileUpload"),
        ({"type": ["CancelJob"]}, 'unknown type: ["CancelJob"]; known:'),
        ({"type": "Command"}, "unknown type: "),
        ({"type": "JobSubmission"}, "unknown type: "),
        ({"type": "cancelJob"}, "unknown type: \"cancelJob\" (did you mean 'CancelJob'?); known:"),
        (
            {"type": "CancelJob", "job_id": "j", "job_master": "x"},
            "job_master: unknown key (did you mean 'job_master_id'",
        ),
        ({"type": "CancelJob"}, "job_id: it is missing"),
        ({"type": "CancelJob", "job_id": 5}, "job_id: must be a text"),
        ({"type": "CancelJob", "job_id": ""}, "job_id '' may hold only"),
        ({"type": "CancelJob", "job_id": "x" * 200_000}, "may hold only"),
        ({"type": "RequestFileUpload", "job_id": "j"}, "vertex_id: it is missing"),
        ({"type": "RequestFileUpload", "job_id": "j", "vertex_id": "v", "file": "CORE"}, "file: must be 'LOG', 'STDOUT' or"),
    ],
)
def test_a_command_that_is_wrong_says_what_and_where(document: dict[str, Any], says: str) -> None:
    refusal = _refusal(Topic.COMMANDS, json.dumps(document).encode())
    assert says in refusal.message
    assert len(refusal.subject) <= 128


BEYOND_BOUNDS: list[tuple[type[Command], dict[str, Any], str]] = [
    (CancelJob, {"job_id": "j", "actor": "x" * 257}, "actor: must have at most 256 characters, not 257"),
    (CancelJob, {"job_id": "j", "request_id": "x" * 129}, "request_id: must have at most 128 characters, not 129"),
    (CancelJob, {"job_id": "j", "reply_partition": 4}, "reply_partition: must be at most 3"),
    (CancelJob, {"job_id": "j", "reply_partition": -2}, "reply_partition: must be at least -1"),
    (CancelJob, {"job_id": "../etc"}, "job_id '../etc' may hold only letters, digits"),
    (SuspendJob, {"job_id": "j", "reason": "x" * 1_025}, "reason: must have at most 1024 characters, not 1025"),
    (BlockTaskManager, {"task_manager_id": "t", "reason": "x" * 1_025}, "reason: must have at most 1024 characters, not 1025"),
    (BlockTaskManager, {"task_manager_id": "t", "duration_ms": -1}, "duration_ms: must be at least 0"),
    (UnblockTaskManager, {"task_manager_id": ""}, "task_manager_id '' may hold only letters, digits"),
    (ShutDownCluster, {"diagnostics": "x" * 8_193}, "diagnostics: must have at most 8192 characters, not 8193"),
    (DrillStep, {"drill_id": "d", "step": "STOP", "master_id": "m", "duration_ms": 600_001}, "duration_ms: must be at most"),
    (
        ConfirmSnapshot,
        {"snapshot_id": "s", "log_offset": 1, "digest": "d", "confirmed_by": ""},
        "confirmed_by: must have at",
    ),
]


@pytest.mark.parametrize(("cls", "fields", "says"), BEYOND_BOUNDS, ids=lambda v: v.__name__ if isinstance(v, type) else None)
def test_what_is_out_of_bounds_is_refused_by_the_same_words_in_json_and_in_avro(
    cls: type[Command], fields: dict[str, Any], says: str
) -> None:
    avro = COMMANDS.encode(cls(**fields | ({"step": DrillStepType.STOP} if "step" in fields else {})))
    refusals = [_refusal(Topic.COMMANDS, value) for value in (json.dumps({"type": cls.__name__, **fields}).encode(), avro)]
    assert refusals[0] == refusals[1]
    assert f"commands@7: {says}" in refusals[0].message


@pytest.mark.parametrize("cls", COMMANDS_BY_NAME.values(), ids=lambda cls: cls.__name__)
def test_every_command_is_read_in_json_as_in_avro(cls: type[Command]) -> None:
    """With no more than it needs, and with all its fields; an id of a job that may be left out is derived, as that of the request."""
    given = (ParameterValue("p", "1"), ParameterValue("q", "x"))
    schedule = check_schedule({"cron": "@daily", "job": graph(vertex("a"))})
    values: dict[Any, Any] = {str: "x", int: 1, bool: True, tuple[ParameterValue, ...]: given, tuple[str, ...]: ("x", "y")}
    job_graph = check_job_graph(graph(vertex("a")))
    values |= {int | None: 1, ScheduleDefinition: schedule, JobGraph | None: job_graph}
    hints = typing.get_type_hints(cls)
    whole = {f.name: values[hints[f.name]] if hints[f.name] in values else next(iter(hints[f.name])) for f in dataclasses.fields(cls)}
    needed = {f.name: whole[f.name] for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING}
    derived = {"request_id": "commands-0-7"} | ({"job_id": "commands-0-7"} if "job_id" in whole and "job_id" not in needed else {})
    for fields in (whole, needed):
        [command] = _decode(Topic.COMMANDS, COMMANDS.encode(cls(**fields))).inputs
        assert command == cls(**derived | fields | {"actor": declared(fields.get("actor", ""))})
        written = {id(given): {each.name: each.value for each in given}, id(schedule): schedule_document(schedule)}
        written[id(job_graph)] = to_document(job_graph)
        in_json = {name: written.get(id(value), value) for name, value in fields.items()}
        assert _json(Topic.COMMANDS, type=cls.__name__, **in_json) == command


def test_json_says_the_same_as_avro() -> None:
    document = graph(vertex("a", 2), vertex("b"), edges=[("a", "b", "hash")], code_archives=["a" * 64])
    [avro] = _decode(Topic.SUBMISSIONS, VALID[Topic.SUBMISSIONS]).inputs
    assert _json(Topic.SUBMISSIONS, job_id="job", request_id="r", job_graph=document) == avro
    assert _json(Topic.COMMANDS, type="CancelJob", job_id="job", request_id="r") == CancelJob(job_id="job", request_id="r")
    upload = _json(Topic.COMMANDS, type="RequestFileUpload", job_id="job", vertex_id="a", request_id="r", file="STDOUT")
    assert upload == RequestFileUpload(job_id="job", vertex_id="a", request_id="r", subtask_index=0, attempt=1, file=TaskFile.STDOUT)


def test_a_bare_graph_is_a_submission_named_by_its_key_or_its_place() -> None:
    value = json.dumps(graph(vertex("a"))).encode()
    for key, job_id in ((None, "submissions-0-7"), (b"my-job", "my-job"), (b"no id!", "submissions-0-7"), (b"\xff", "submissions-0-7")):
        [submission] = _decode(Topic.SUBMISSIONS, value, key).inputs
        assert isinstance(submission, JobSubmission)
        assert (submission.job_id, submission.request_id) == (job_id, "submissions-0-7")


def test_a_bare_graph_may_have_what_a_submission_has_beside_its_graph() -> None:
    ids = {"job_id": "job", "request_id": "r", "reply_partition": 2, "actor": "alice"}
    [submission] = _decode(Topic.SUBMISSIONS, json.dumps(graph(vertex("a")) | ids).encode()).inputs
    assert submission == JobSubmission(
        job_id="job", request_id="r", reply_partition=2, actor="alice (declared)", job_graph=parse_job_graph(graph(vertex("a")), "test")
    )
    for wrong in ({"vertices": None}, graph(vertex("a")) | {"unknown": 1}):
        refusal = _refusal(Topic.SUBMISSIONS, json.dumps(wrong | ids).encode())
        assert (refusal.subject, refusal.request_id, refusal.reply_partition) == ("job", "r", 2)


@pytest.mark.rule("P9")
def test_records_without_ids_are_other_requests_once_their_topic_is_bound_anew() -> None:
    """The same offset means another record, which no answer of the former one answers; a repeated decision derives the same ids."""
    world = World()

    def put(*names: str) -> None:
        records = world.inbound[Topic.SUBMISSIONS]
        for name in names:
            records.append(InboundRecord(Topic.SUBMISSIONS, len(records), None, json.dumps(graph(vertex(name))).encode()))

    put("first")
    node = world.start("a", election=SingleMaster())
    world.run(100)
    for count in (1, 2):
        world.kill(node)
        world.inbound[Topic.SUBMISSIONS].clear()
        put(f"bound{count}", "another")
        bound = InboundTopic(f"id-{count}", 0, 2, is_rebound=True)
        node = world.start(f"b-{count}", election=SingleMaster(), topics={Topic.SUBMISSIONS: bound})
        world.run(200)
    tasks = {job_id: job.execution_graph.graph.vertices[0].vertex_id for job_id, job in node.master.dispatcher.jobs.items()}
    assert tasks == {
        "submissions-0-0": "first",
        "submissions-0-0-1": "bound1",
        "submissions-0-1-1": "another",
        "submissions-0-0-2": "bound2",
        "submissions-0-1-2": "another",
    }


def test_a_graph_that_comes_as_avro_meets_the_same_checks() -> None:
    broken = parse_job_graph(graph(vertex("a")), "test")
    broken.vertices[0].parallelism = 5_000
    refusal = _refusal(Topic.SUBMISSIONS, SUBMISSIONS.encode(JobSubmission(job_id="j", request_id="r", job_graph=broken)))
    assert "vertices[0].parallelism: must be at most 4096" in refusal.message
    assert (refusal.subject, refusal.request_id) == ("j", "r")
    broken.vertices[0].parameters_json = "{"
    assert "parameters_json is not JSON" in _refusal(Topic.SUBMISSIONS, SUBMISSIONS.encode(JobSubmission(job_graph=broken))).message


@pytest.mark.parametrize("partition", [-2, -7, 4, 1_001, 2**40])
def test_a_reply_partition_that_cannot_be_is_refused_and_never_used(partition: int) -> None:
    value = COMMANDS.encode(CancelJob(job_id="j", request_id="r", reply_partition=partition))
    refusal = _refusal(Topic.COMMANDS, value)
    assert (refusal.reply_partition, refusal.request_id) == (-1, "r")


def test_ids_that_are_too_long_are_refused() -> None:
    for request in (CancelJob(job_id="j", request_id="r" * 129), CancelJob(job_id="j" * 129), CancelJob(job_id="../etc")):
        refusal = _refusal(Topic.COMMANDS, COMMANDS.encode(request))
        assert len(refusal.request_id) <= 128
        assert len(refusal.subject) <= 128


def test_whom_a_refusal_concerns_is_taken_from_what_can_be_read() -> None:
    refusal = _refusal(Topic.SUBMISSIONS, b'{"request_id": "r", "job_id": "j", "reply_partition": 3, "nonsense": 1}', b"key")
    assert (refusal.request_id, refusal.subject, refusal.reply_partition) == ("r", "j", 3)
    refusal = _refusal(Topic.SUBMISSIONS, b'{"request_id": ["r"], "job_id": 5, "reply_partition": true}', b"key")
    assert (refusal.request_id, refusal.subject, refusal.reply_partition) == ("key", "key", -1)
    for value in (
        b'{"type": "CancelJob", "request_id": "r 1", "job_id": "a/b"}',
        COMMANDS.encode(CancelJob(request_id="r 1", job_id="a/b")),
    ):
        refusal = _refusal(Topic.COMMANDS, value, b"key")
        assert (refusal.request_id, refusal.subject) == ("r 1", "a/b")


def test_a_decision_that_refuses_a_request_names_who_asked_in_whatever_encoding() -> None:
    avro = COMMANDS.encode(CancelJob(request_id="r", job_id="a/b", actor="me"))
    for value in (b'{"type": "CancelJob", "job_id": "a/b", "actor": "me"}', avro):
        assert _decode(Topic.COMMANDS, value).actor == "me (declared)"


@pytest.mark.rule("L6")
def test_a_name_that_a_sender_declares_is_marked_and_no_sender_takes_the_mark_away(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a")))
    names = {"": "", "ann": "ann (declared)", declared("ann"): "ann (declared) (declared)", ITSELF: f"{ITSELF} (declared)"}
    for number, (name, shown) in enumerate(names.items()):
        for kind, job_id in (("SuspendJob", "job"), ("Explode", "job"), ("CancelJob", "a/b")):
            cluster.command(type=kind, job_id=job_id, actor=name, request_id=f"{number}-{kind}")
            assert list(cluster.decisions())[-1].actor == shown
        cluster.resume()
    said = [event.actor for event in cluster.events(JobSuspensionRequested)]
    assert said == list(names.values())
    assert [is_called(actor, "ann") for actor in (*said, "ann", "anna")] == [False, True, False, False, True, False]


ANNS = (CancelJob(job_id="job", request_id="r", actor="ann"), JobSubmission(job_id="job", request_id="r", actor="ann", job_graph=GRAPH))


def _sealed(request: Request, seals: Seals, topic: Topic | None = None) -> bytes:
    name = {Topic.SUBMISSIONS: "SubmissionEnvelope", Topic.COMMANDS: "CommandEnvelope"}[request.topic]
    return PayloadCodec(name, seal=seals.of(topic or request.topic)).encode(request, sent_at_ms=5)


@pytest.mark.rule("L6")
@pytest.mark.parametrize("asked", ANNS)
def test_a_name_that_a_seal_proves_has_no_mark_and_no_other_seal_takes_it_away(asked: CancelJob | JobSubmission) -> None:
    topic, proven = asked.topic, _sealed(asked, SEALS)
    decoder = InboundDecoder(seals=SEALS)
    assert _decode(topic, proven, decoder=decoder) == Inbound((asked,), "ann")
    other = next(each.topic for each in ANNS if each.topic is not topic)
    forged = [_sealed(asked, NO_SEALS), _sealed(asked, OTHERS), _sealed(asked, SEALS, topic=other)]
    forged += [proven[:-1] + bytes([proven[-1] ^ 1]), proven.replace(b"ann", b"amy"), json.dumps({"seal": "x", "actor": "ann"}).encode()]
    said = [_decode(topic, value, decoder=decoder).actor for value in forged]
    assert said == ["ann (declared)"] * 4 + ["amy (declared)", "ann (declared)"]
    assert _decode(topic, proven).actor == "ann (declared)", "who has no secret cannot tell"
    impossible = dataclasses.replace(asked, job_id="a/b")
    assert _decode(topic, _sealed(impossible, SEALS), decoder=decoder).actor == "ann", "refused, and known"
    for name in ("", TASK_EXECUTOR):
        unnamed = _sealed(dataclasses.replace(asked, actor=name), SEALS)
        assert _decode(topic, unnamed, decoder=decoder).actor == declared(name), "nobody who asks is taken for a TaskExecutor"


@pytest.mark.rule("L6")
def test_a_sealed_request_that_is_written_again_changes_nothing() -> None:
    cluster = ScriptedCluster(seals=SEALS)
    requests: tuple[Request, ...] = (
        JobSubmission(job_id="job", request_id="submit", actor="ann", job_graph=GRAPH),
        SuspendJob(job_id="job", request_id="suspend", actor="ann"),
        SuspendJob(job_id="nobody", request_id="refused", actor="ann"),
        BlockTaskManager(task_manager_id="tm", request_id="block", actor="ann"),
    )
    for request in requests:
        cluster.send(request, SEALS)
    cluster.resume("job")
    cluster.unblock("tm")
    for _ in range(2):
        length, jobs = len(cluster.log), to_plain(cluster.master.dispatcher)
        for request in requests:
            cluster.send(request, SEALS)
        decided = [event for decision in list(cluster.decisions())[length:] for event in decision.events]
        assert decided == [RequestRepeated(request_id=request.request_id, reply_partition=-1) for request in requests]
        assert (to_plain(cluster.master.dispatcher), cluster.master.blocklist.task_managers) == (jobs, {})
        cluster.fail_over()
    cluster.check()


class TestConfluentWireFormat:
    @staticmethod
    def _framed(schema: Any, fields: dict[str, Any], schema_id: int = 9) -> bytes:
        stream = io.BytesIO()
        stream.write(b"\0" + schema_id.to_bytes(4, "big"))
        fastavro.schemaless_writer(stream, schema, fields)
        return stream.getvalue()

    def test_without_a_registry_it_is_refused_with_the_key_to_configure(self) -> None:
        message = _refusal(Topic.COMMANDS, b"\0\0\0\0\x09rest").message
        assert "Confluent wire format (schema id 9), but schema.registry.url is not configured" in message

    def test_with_a_registry_it_is_read_by_the_registrys_schema(self) -> None:
        schema = COMMANDS.registry.current
        payload = ("eventflink.CancelJob", {"request_id": "r", "reply_partition": 2, "actor": "me", "job_id": "job"})
        value = self._framed(schema, {"payload": payload})
        decoder = InboundDecoder({9: schema}.__getitem__)
        inbound = _decode(Topic.COMMANDS, value, decoder=decoder)
        assert inbound == Inbound((CancelJob(request_id="r", reply_partition=2, actor="me (declared)", job_id="job"),), "me (declared)")
        for length in range(5, len(value)):
            _refusal(Topic.COMMANDS, value[:length], decoder=decoder)

    def test_a_field_that_the_writer_did_not_know_takes_its_default(self) -> None:
        record = {"type": "record", "name": "eventflink.CancelJob", "fields": [{"name": "job_id", "type": "string"}]}
        fields = [{"name": "payload", "type": [record]}]
        schema = fastavro.parse_schema({"type": "record", "name": "E", "fields": fields})
        value = self._framed(schema, {"payload": ("eventflink.CancelJob", {"job_id": "job"})})
        [command] = _decode(Topic.COMMANDS, value, decoder=InboundDecoder(lambda _: schema)).inputs
        assert command == CancelJob(request_id="commands-0-7", job_id="job")

    @pytest.mark.parametrize(
        ("payload_type", "payload"),
        [
            ("string", "text"),
            ("string", ""),
            ("null", None),
            ("long", 5),
            ({"type": "array", "items": "string"}, []),
            ({"type": "map", "values": "long"}, {"a": 1}),
            ([{"type": "record", "name": "eventflink.CancelJob", "fields": [{"name": "job_id", "type": "long"}]}], {"job_id": 5}),
            ([{"type": "record", "name": "eventflink.CancelJob", "fields": [{"name": "other", "type": "long"}]}], {"other": 5}),
            ([{"type": "record", "name": "eventflink.TaskFailed", "fields": []}], {}),
            ([{"type": "record", "name": "eventflink.JobVertex", "fields": []}], {}),
            ([{"type": "record", "name": "eventflink.Unheard", "fields": []}], {}),
        ],
    )
    def test_a_registrys_schema_may_be_anything(self, payload_type: Any, payload: Any) -> None:
        """Whoever can write to the registry must not be able to stop a master."""
        schema = fastavro.parse_schema({"type": "record", "name": "E", "fields": [{"name": "payload", "type": payload_type}]})
        value = self._framed(schema, {"payload": payload})
        assert _refusal(Topic.COMMANDS, value, decoder=InboundDecoder(lambda _: schema)).code == "UndecodableRecord"

    def test_who_sent_what_does_not_fit_is_answered(self) -> None:
        ids: dict[str, Any] = {"request_id": "r", "reply_partition": 2, "job_id": "j"}
        types = {"request_id": "string", "reply_partition": "int", "job_id": "string", "job_graph": "string"}
        fields = [{"name": name, "type": each} for name, each in types.items()]
        record = {"type": "record", "name": "eventflink.JobSubmission", "fields": fields}
        for payload_type in (record, [record], ["null", record]):
            schema = fastavro.parse_schema({"type": "record", "name": "E", "fields": [{"name": "payload", "type": payload_type}]})
            value = self._framed(schema, {"payload": {**ids, "job_graph": "{}"}})
            refusal = _refusal(Topic.SUBMISSIONS, value, decoder=InboundDecoder({9: schema}.__getitem__))
            assert (refusal.code, refusal.request_id, refusal.reply_partition, refusal.subject) == ("UndecodableRecord", "r", 2, "j")

    def test_a_registrys_schema_without_a_payload_is_refused(self) -> None:
        schema = fastavro.parse_schema("string")
        value = b"\0\0\0\0\x09" + b"\x02a"
        assert "has no field 'payload'" in _refusal(Topic.COMMANDS, value, decoder=InboundDecoder(lambda _: schema)).message


class TestInbox:
    def test_it_is_full_by_records_or_by_bytes_and_has_room_at_half(self) -> None:
        inbox = PartitionInbox(4)
        for offset in range(4):
            assert not inbox.is_full
            inbox.enqueue(InboundRecord("t", offset, None, b"x"))
        assert inbox.is_full
        assert not inbox.has_room
        inbox.head_from(2)
        assert inbox.is_full, "what is decided is held until it was accepted"
        inbox.accepted(2)
        assert inbox.has_room
        inbox.enqueue(InboundRecord("t", 9, None, b"x" * 32 * 1024 * 1024))
        assert inbox.is_full

    def test_redeliveries_are_dropped(self) -> None:
        inbox = PartitionInbox(4)
        for offset in (0, 1, 0, 1, 2):
            inbox.enqueue(InboundRecord("t", offset, None, b"x"))
        assert [r.offset for r in inbox.waiting] == [0, 1, 2]
        inbox.accepted(3)
        inbox.enqueue(InboundRecord("t", 2, None, b"x"))
        assert not inbox.waiting

    def test_what_was_decided_is_held_until_it_was_accepted(self) -> None:
        inbox = PartitionInbox(4)
        for offset in (3, 5):
            inbox.enqueue(InboundRecord("t", offset, None, b"xy"))
        head = inbox.head_from(4)
        assert head is not None
        assert (head.offset, inbox.byte_count, inbox.last_waiting_offset) == (5, 4, 5)
        assert inbox.head_from(6) is None
        assert (inbox.byte_count, inbox.last_waiting_offset) == (4, -1)
        inbox.accepted(4)
        assert ([r.offset for r in inbox.decided], inbox.byte_count) == ([5], 2)
        inbox.accepted(6)
        assert (list(inbox.decided), inbox.byte_count) == ([], 0)

    def test_decisions_that_are_void_let_their_inputs_wait_again_in_order(self) -> None:
        """P6: what was decided and never accepted is decided again, before what came later."""
        inbox = PartitionInbox(10)
        for offset in range(6):
            inbox.enqueue(InboundRecord("t", offset, None, b"k"))
        inbox.head_from(4)
        inbox.accepted(1)
        inbox.rewind()
        assert [r.offset for r in inbox.waiting] == [1, 2, 3, 4, 5]
        assert not inbox.decided
        assert inbox.byte_count == 5

    def test_an_acceptance_that_overtakes_the_cursor_of_a_standby_drops_what_waits(self) -> None:
        """L3: a standby never asks for a head; the decisions of the leader trim what it holds."""
        inbox = PartitionInbox(10)
        for offset in range(6):
            inbox.enqueue(InboundRecord("t", offset, None, b"k"))
        inbox.accepted(4)
        assert [r.offset for r in inbox.waiting] == [4, 5]
        assert inbox.byte_count == 2


@pytest.mark.parametrize("topic", [Topic.SUBMISSIONS, Topic.COMMANDS])
def test_who_sent_a_record_is_found_without_decoding_it(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Avro as in JSON; the id of the request and its partition, from how it begins."""
    avro = SUBMISSIONS.encode(JobSubmission(job_id="j", request_id="r-1", reply_partition=3, job_graph=GRAPH), sent_at_ms=1)
    if topic is Topic.COMMANDS:
        avro = COMMANDS.encode(CancelJob(job_id="j", request_id="r-1", reply_partition=3), sent_at_ms=1)
    monkeypatch.setattr(InboundDecoder, "decode", None)
    for value in (
        avro,
        b' {"job_id": "j", "reply_partition" : 3, "request_id":"r-1", "job_graph": {"vertices": [',
    ):
        assert sender_of(InboundRecord(str(topic), 0, b"j", value)) == ("r-1", 3, "j")


@pytest.mark.parametrize(
    "value", [None, b"", b"\xc3\x01", b"\xc3\x01" + b"\xff" * 60, b"\0\0\0\0\1x", b'{"request_id": "r"', b"{" * 70_000]
)
def test_of_what_does_not_say_who_sent_it_the_key_counts_as_the_request(value: bytes | None) -> None:
    assert sender_of(InboundRecord("commands", 0, b"key", value)) == ("key", ALL_REPLY_PARTITIONS, "key")
    assert sender_of(InboundRecord("commands", 0, b"\xff", value)) == ("", -1, "")
    assert sender_of(InboundRecord("taskmanagers", 0, b"key", value)) == ("", -1, "")
