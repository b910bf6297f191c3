"""Refusals of records that stand behind each other share a decision, which is bounded and answers each of them (P7, P10a)."""

import json
from collections.abc import Iterator

import pytest

from eventflink.events.decision import Decision, InputCause
from eventflink.events.log_events import AnswersExpired, LogEvent, RequestAccepted, RequestRejected
from eventflink.events.topics import MAX_DECISION_BYTES, MAX_INBOUND_BYTES, Topic
from eventflink.leadership.inbound import Inbound, InboundDecoder
from eventflink.leadership.intake import InboundRecord
from eventflink.leadership.leader import ApplyFailed
from eventflink.leadership.refusals import MAX_RECORDS
from eventflink.master.effects import DeadLetterOrder
from eventflink.master.inputs import MasterInput, UnreadableInput
from eventflink.master.master import Master
from tests.support.cluster import ScriptedCluster, graph, replay, vertex

FLOOD = 2_000


def answers(cluster: ScriptedCluster, topic: Topic) -> Iterator[tuple[Decision, int, int]]:
    for decision in cluster.decisions():
        for cause in decision.causes:
            if isinstance(cause, InputCause) and cause.topic == topic:
                yield decision, cause.first_offset, cause.last_offset


@pytest.mark.rule("P7")
@pytest.mark.parametrize("topic", [Topic.SUBMISSIONS, Topic.COMMANDS, Topic.TASKMANAGERS])
def test_a_flood_of_nonsense_is_refused_in_few_decisions_each_record_with_a_dead_letter_of_its_own(
    cluster: ScriptedCluster, topic: Topic
) -> None:
    for number in range(FLOOD):
        cluster.put(topic, b"nonsense %d" % number)
    effects = cluster.settle()
    decided = list(answers(cluster, topic))
    assert len(decided) <= FLOOD / MAX_RECORDS + 1
    assert [offset for _, first, last in decided for offset in range(first, last + 1)] == list(range(FLOOD))
    for decision, first, last in decided:
        refused = [event for event in decision.events if isinstance(event, RequestRejected) and event.dead_letter]
        assert [event.message.partition(":")[0] for event in refused] == [f"{topic}@{offset}" for offset in range(first, last + 1)]
    letters = [effect for effect in effects if isinstance(effect, DeadLetterOrder)]
    assert [(each.topic, each.offset, each.value) for each in letters] == [(topic, n, b"nonsense %d" % n) for n in range(FLOOD)]
    assert replay(cluster.log, cluster.settings, cluster.timestamps).master.digest() == cluster.master.digest()


@pytest.mark.rule("P7")
def test_a_job_behind_a_flood_waits_for_few_decisions(cluster: ScriptedCluster) -> None:
    for _ in range(FLOOD):
        cluster.put(Topic.SUBMISSIONS, b"nonsense")
    before = len(cluster.log)
    cluster.submit(graph(vertex("a")), job_id="job")
    [accepted] = [n for n, d in enumerate(cluster.decisions()) if any(isinstance(e, RequestAccepted) for e in d.events)]
    assert accepted - before <= FLOOD / MAX_RECORDS + 1


class CountingDecoder(InboundDecoder):
    """Counts how often each record is decoded."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets: list[int] = []

    def decode(self, record: InboundRecord) -> Inbound:
        self.offsets.append(record.offset)
        return super().decode(record)


@pytest.mark.rule("P7")
def test_what_can_be_read_is_decided_alone_in_its_place_and_decoded_once(cluster: ScriptedCluster) -> None:
    decoder = cluster.leader.decoder = CountingDecoder()
    job = json.dumps(graph(vertex("a"))).encode()
    for value in (b"x", b"y", job, b"z", b"[]", job, job, b"last"):
        cluster.put(Topic.SUBMISSIONS, value)
    cluster.settle()
    assert [(first, last) for _, first, last in answers(cluster, Topic.SUBMISSIONS)] == [(0, 1), (2, 2), (3, 4), (5, 5), (6, 6), (7, 7)]
    assert decoder.offsets == list(range(8))


def test_who_is_said_to_have_asked_is_the_same_for_a_whole_decision(cluster: ScriptedCluster) -> None:
    for actor in ("ann", "ann", "bob"):
        cluster.put(Topic.COMMANDS, json.dumps({"type": "Explode", "actor": actor}).encode())
    cluster.settle()
    assert [(decision.actor, first, last) for decision, first, last in answers(cluster, Topic.COMMANDS)] == [
        ("ann (declared)", 0, 1),
        ("bob (declared)", 2, 2),
    ]


@pytest.mark.rule("P7")
@pytest.mark.parametrize("value", [b"{" + b" " * (MAX_INBOUND_BYTES // 3), b"x" * 900_000, json.dumps({"type": "é" * 90_000}).encode()])
def test_of_large_records_only_so_many_are_decoded_for_one_decision(cluster: ScriptedCluster, value: bytes) -> None:
    for _ in range(20):
        cluster.put(Topic.COMMANDS, value)
    cluster.settle()
    decided = list(answers(cluster, Topic.COMMANDS))
    assert decided[-1][2] == 19
    assert all(last == first or (last - first + 1) * len(value) <= MAX_INBOUND_BYTES for _, first, last in decided)


def test_long_answers_share_a_decision_only_as_far_as_they_fit(cluster: ScriptedCluster) -> None:
    """A name that does not belong into a request is repeated in its refusal, in full up to a bound."""
    value = json.dumps({"type": "CancelJob", "job_id": "j", "\u20ac" * 3_000: 1}, ensure_ascii=False).encode()
    for _ in range(200):
        cluster.put(Topic.COMMANDS, value)
    cluster.settle()
    assert max(map(len, cluster.log)) < MAX_DECISION_BYTES // 4
    assert [offset for _, first, last in answers(cluster, Topic.COMMANDS) for offset in range(first, last + 1)] == list(range(200))


@pytest.mark.rule("P7")
def test_where_one_of_them_cannot_be_applied_the_last_decision_answers_up_to_it_and_each_with_its_own_reason(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = Master.decide

    def unfitting(self: Master, value: MasterInput, now_ms: int, leader_id: str = "") -> list[LogEvent]:
        if isinstance(value, UnreadableInput) and value.message.startswith("commands@2:"):
            return [AnswersExpired(7)]
        return decide(self, value, now_ms, leader_id)

    monkeypatch.setattr(Master, "decide", unfitting)
    for _ in range(5):
        cluster.put(Topic.COMMANDS, b"nonsense")
    with pytest.raises(ApplyFailed, match="AnswersExpired decided for UnreadableInput cannot be applied"):
        cluster.settle()
    cluster.fail_over()
    effects = cluster.take_effects() + cluster.settle()
    decided = list(answers(cluster, Topic.COMMANDS))
    assert decided[0][1:] == (0, 2)
    codes = [event.code for decision, _, _ in decided for event in decision.events if isinstance(event, RequestRejected)]
    assert codes == ["UndecodableRecord", "UndecodableRecord", "InternalError", "UndecodableRecord", "UndecodableRecord"]
    assert [effect.offset for effect in effects if isinstance(effect, DeadLetterOrder)] == [0, 1, 2, 3, 4]
    cluster.check()
