"""The gateways against a real broker, with a scripted leader: it speaks the wire formats and says only what a test tells it."""

import asyncio
import contextlib
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.events.codec import DecisionCodec, PayloadCodec
from eventflink.events.decision import Decision, TimerCause
from eventflink.events.effects import LeaderHeartbeat, Resignation
from eventflink.events.inputs import CancelJob, JobSubmission, RequestFileUpload
from eventflink.events.log_events import (
    FileUploaded,
    FileUploadRequested,
    InputsSkipped,
    LeadershipGranted,
    LogEvent,
    RequestAccepted,
    RequestRejected,
)
from eventflink.events.schemas import MARKER
from eventflink.events.topics import Topic, topic_name
from eventflink.gateways import blocking, pipelined_client
from eventflink.gateways.async_gateways import AsyncDispatcherGateway
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import (
    ClusterNotFound,
    ClusterUnreachable,
    GatewayError,
    LogUnreadable,
    NoLeader,
    RequestRefused,
    RequestTimedOut,
)
from eventflink.gateways.follow import LogFollower, LoggedDecision, RequestTrimmed, await_upload
from eventflink.gateways.leader import find_leader
from eventflink.gateways.pipelined_client import PipelinedClient
from eventflink.gateways.request_channel import Accepted
from eventflink.log.admin_connection import AdminConnection
from eventflink.log.administration import ensure_topics, trim_log
from eventflink.model.attempts import AttemptId
from eventflink.model.cluster_access import access_to
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.statuses import TaskFile
from tests.support.running_cluster import wait_until

pytestmark = pytest.mark.slow
GRAPH = parse_job_graph({"name": "one", "vertices": [{"id": "only", "sql": "SELECT 1"}]}, "test")
REPLIES = PayloadCodec("ReplyEnvelope")
LEADERSHIP = PayloadCodec("LeadershipEnvelope")
DECISIONS = DecisionCodec()

Answer = RequestAccepted | RequestRejected | None


class ScriptedLeader:
    """Answers every request as `decide` says; keeps what it has seen."""

    def __init__(self, bootstrap: str, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.seen: list[tuple[Message, Any]] = []
        self.decide: Callable[[Any], Answer] = self.accept
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self.consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "enable.auto.commit": False})
        self.consumer.assign([TopicPartition(topic_name(cluster_id, t), 0, 0) for t in (Topic.SUBMISSIONS, Topic.COMMANDS)])
        self.codecs = {
            topic_name(cluster_id, Topic.SUBMISSIONS): PayloadCodec("SubmissionEnvelope"),
            topic_name(cluster_id, Topic.COMMANDS): PayloadCodec("CommandEnvelope"),
        }
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    @staticmethod
    def accept(request: Any) -> Answer:
        return RequestAccepted(request_id=request.request_id, reply_partition=request.reply_partition, subject=request.job_id)

    def run(self) -> None:
        while not self.stopping.is_set():
            message = self.consumer.poll(0.05)
            if message is None or message.error():
                continue
            request, _ = self.codecs[message.topic() or ""].decode(message.value() or b"")
            self.seen.append((message, request))
            answer = self.decide(request)
            if answer is not None:
                self.reply(answer, len(self.seen))

    def reply(self, answer: RequestAccepted | RequestRejected, log_offset: int) -> None:
        value = REPLIES.encode(answer, epoch=3, sequence=9, leader_id="leader", log_offset=log_offset)
        self.produce(Topic.REPLIES, value, answer.request_id, answer.reply_partition)

    def produce(self, topic: Topic, value: bytes, key: str = "x", partition: int = 0) -> None:
        self.producer.produce(topic_name(self.cluster_id, topic), value=value, key=key.encode(), partition=partition)
        self.producer.poll(0)

    def stop(self) -> None:
        self.stopping.set()
        self.thread.join(120)
        self.producer.flush(5)
        self.consumer.close()


@pytest.fixture
def leader(bootstrap: str, cluster_id: str) -> Iterator[ScriptedLeader]:
    ensure_topics(access_to(bootstrap, cluster_id))
    scripted = ScriptedLeader(bootstrap, cluster_id)
    yield scripted
    scripted.stop()


@pytest.fixture
def gateway(bootstrap: str, leader: ScriptedLeader) -> Iterator[DispatcherGateway]:
    with DispatcherGateway(bootstrap, leader.cluster_id, request_timeout_s=60) as opened:
        yield opened


def test_a_submission_is_one_record_and_its_acceptance_says_where_it_stands(gateway: DispatcherGateway, leader: ScriptedLeader) -> None:
    accepted = gateway.submit_job(GRAPH, "job-1", actor="ann@host")
    ((message, request),) = leader.seen
    assert message.key() == b"job-1"
    assert request == JobSubmission(
        job_id="job-1", request_id=accepted.request_id, reply_partition=request.reply_partition, actor="ann@host", job_graph=GRAPH
    )
    assert (accepted.job_id, accepted.epoch, accepted.sequence, accepted.leader_id, accepted.log_offset) == ("job-1", 3, 9, "leader", 1)


def test_each_request_has_ids_of_its_own(gateway: DispatcherGateway, leader: ScriptedLeader) -> None:
    first, second = gateway.submit_job(GRAPH), gateway.submit_job(GRAPH)
    assert first.job_id != second.job_id
    assert first.request_id != second.request_id
    gateway.cancel_job("job-2", actor="ann")
    gateway.request_file_upload(AttemptId("job-3", "only", 1, 2), TaskFile.STDERR)
    _, _, (cancel_message, cancel), (_, upload) = leader.seen
    assert cancel_message.key() == b"job-2"
    assert isinstance(cancel, CancelJob)
    assert isinstance(upload, RequestFileUpload)
    assert (upload.job_id, upload.vertex_id, upload.subtask_index, upload.attempt, upload.file) == ("job-3", "only", 1, 2, TaskFile.STDERR)


def test_a_refusal_has_a_code_and_a_message(gateway: DispatcherGateway, leader: ScriptedLeader) -> None:
    leader.decide = lambda request: RequestRejected(
        request_id=request.request_id,
        reply_partition=request.reply_partition,
        subject=request.job_id,
        code="DuplicateJob",
        message="there is such a job",
        dead_letter=False,
    )
    with pytest.raises(RequestRefused, match=r"there is such a job \(DuplicateJob\)") as caught:
        gateway.submit_job(GRAPH)
    assert (caught.value.code, caught.value.log_offset) == ("DuplicateJob", 1)


def test_answers_to_others_and_garbage_are_passed_over(gateway: DispatcherGateway, leader: ScriptedLeader) -> None:
    def decide(request: Any) -> Answer:
        for key in ("", "someone-else", "\udcff"):
            leader.producer.produce(
                topic_name(leader.cluster_id, Topic.REPLIES),
                value=b"garbage",
                key=key.encode("utf-8", "surrogateescape"),
                partition=request.reply_partition,
            )
        return leader.accept(request)

    leader.decide = decide
    assert gateway.submit_job(GRAPH, "job-1").job_id == "job-1"


def test_a_request_without_an_answer_is_sent_again_under_the_same_id(
    gateway: DispatcherGateway, leader: ScriptedLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the leader crashed between the input and the answer: the second record gets it, and it is the same bytes."""
    monkeypatch.setattr(blocking, "REPEAT_AFTER_S", 0.3)
    leader.decide = lambda request: leader.accept(request) if len(leader.seen) == 2 else None
    accepted = gateway.submit_job(GRAPH)
    (first, _), (second, request), *_ = leader.seen  # On a busy machine a third one is out before the answer is read.
    assert first.value() == second.value()
    assert request.request_id == accepted.request_id


def test_a_request_that_nobody_answers_ends_in_time(bootstrap: str, leader: ScriptedLeader) -> None:
    leader.decide = lambda _request: None
    with DispatcherGateway(bootstrap, leader.cluster_id, request_timeout_s=1) as gateway:
        started = time.monotonic()
        with pytest.raises(RequestTimedOut, match=r"within 1 s.*may still be done") as caught:
            gateway.submit_job(GRAPH, request_id="request-1")
        assert 1 <= time.monotonic() - started < 15
    assert caught.value.request_id == "request-1"


def test_a_request_that_no_master_would_decode_is_not_sent(gateway: DispatcherGateway, leader: ScriptedLeader) -> None:
    large = parse_job_graph(
        {"name": "large", "vertices": [{"id": f"v{n}", "sql": "SELECT '" + "x" * 60_000 + "'"} for n in range(5)]}, "test"
    )
    with pytest.raises(RequestRefused, match="RequestTooLarge"):
        gateway.submit_job(large)
    assert leader.seen == []


def test_pipelined_requests_each_get_their_own_answer(bootstrap: str, leader: ScriptedLeader) -> None:
    def decide(request: Any) -> Answer:
        if not request.job_id.endswith("7"):
            return leader.accept(request)
        return RequestRejected(
            request_id=request.request_id,
            reply_partition=request.reply_partition,
            subject=request.job_id,
            code="Seven",
            message="no",
            dead_letter=False,
        )

    leader.decide = decide
    with PipelinedClient(access_to(bootstrap, leader.cluster_id), max_pending=64) as client:
        futures = {f"job-{n}": client.send(JobSubmission(job_id=f"job-{n}", job_graph=GRAPH)) for n in range(500)}
        for job_id, future in futures.items():
            if job_id.endswith("7"):
                assert isinstance(future.exception(120), RequestRefused)
            else:
                assert future.result(120).job_id == job_id
    assert len(leader.seen) == 500


def test_pipelined_requests_are_repeated_and_given_up(bootstrap: str, leader: ScriptedLeader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelined_client, "REPEAT_AFTER_S", 0.2)
    leader.decide = lambda _request: None
    with PipelinedClient(access_to(bootstrap, leader.cluster_id), request_timeout_s=8) as client:
        future = client.send(CancelJob(job_id="job-1"))
        assert isinstance(future.exception(120), RequestTimedOut)
    wait_until(lambda: len(leader.seen) > 2, "the repetitions")
    assert len({request.request_id for _, request in leader.seen}) == 1


def test_without_topics_or_broker_the_error_says_which(bootstrap: str) -> None:
    with pytest.raises(ClusterNotFound, match=r"topic not found: 'nowhere\.replies'"):
        DispatcherGateway(bootstrap, "nowhere")
    with pytest.raises(ClusterUnreachable, match="localhost:1 does not answer"):
        DispatcherGateway("localhost:1", "nowhere", connect_timeout_s=0.5)


def heartbeat(leader_id: str, epoch: int, blob_address: str = "h:1") -> bytes:
    return LEADERSHIP.encode(
        LeaderHeartbeat(epoch=epoch, leader_id=leader_id, master_id=f"master-{leader_id}", blob_address=blob_address, log_offset=5)
    )


def test_only_a_heartbeat_that_comes_after_the_question_is_a_living_leaders(bootstrap: str, leader: ScriptedLeader) -> None:
    with pytest.raises(NoLeader, match="nothing was said"):
        find_leader(access_to(bootstrap, leader.cluster_id), timeout_s=4)
    leader.produce(Topic.LEADERSHIP, heartbeat("old", 1))
    assert leader.producer.flush(60) == 0
    with pytest.raises(NoLeader, match=r"master-old \(epoch 1\)"):
        find_leader(access_to(bootstrap, leader.cluster_id), timeout_s=4)
    # While the question waits: garbage, a deposed leader's late heartbeat, then the living one.

    def say() -> None:
        while not found.wait(0.4):
            say_once()

    def say_once() -> None:
        for value in (b"garbage", heartbeat("old", 1), LEADERSHIP.encode(Resignation(epoch=2, leader_id="new")), heartbeat("newer", 3)):
            leader.produce(Topic.LEADERSHIP, value)

    leader.produce(Topic.LEADERSHIP, heartbeat("new", 2))
    assert leader.producer.flush(60) == 0
    found = threading.Event()
    saying = threading.Thread(target=say)
    saying.start()
    try:
        assert find_leader(access_to(bootstrap, leader.cluster_id), timeout_s=60).leader_id == "newer"
    finally:
        found.set()
        saying.join()


def decision(epoch: int, sequence: int, leader_id: str, *, grant: bool = False, event: LogEvent | None = None) -> bytes:
    event = LeadershipGranted(master_id="m", blob_address="h:1") if grant else event or InputsSkipped(count=1, reason=leader_id)
    return DECISIONS.encode(
        Decision(
            epoch=epoch,
            sequence=sequence,
            leader_id=leader_id,
            decided_at_ms=0,
            previous_hash=b"",
            causes=(TimerCause("test"),),
            actor="",
            events=(event,),
        )
    )


LOG = [
    (decision(1, 0, "a", grant=True), True),
    (decision(1, 1, "a"), True),
    (decision(1, 1, "a"), False),
    (decision(1, 2, "b"), False),
    (decision(2, 0, "b", grant=True), True),
    (decision(2, 0, "c", grant=True), False),
    (decision(1, 2, "a"), False),
    (decision(2, 1, "b"), True),
]


def follow(bootstrap: str, cluster_id: str, from_offset: int, until: int = 1_000) -> list[LoggedDecision]:
    """Return the decisions from an offset to another one, or fail after 10 s."""
    found: list[LoggedDecision] = []
    deadline = time.monotonic() + 10
    with LogFollower(access_to(bootstrap, cluster_id), from_offset) as follower:
        while not found or found[-1].offset < until:
            assert time.monotonic() < deadline
            found += follower.poll(0.2)
    return found


@pytest.mark.parametrize("from_offset", [0, 1, 4])
def test_a_follower_tells_which_decisions_count(bootstrap: str, leader: ScriptedLeader, from_offset: int) -> None:
    """From the beginning or from any accepted decision, the same ones are accepted (P1)."""
    for value, _ in LOG:
        leader.produce(Topic.LOG, value)
    leader.producer.flush(5)
    found = [(logged.offset, logged.accepted) for logged in follow(bootstrap, leader.cluster_id, from_offset, until=len(LOG) - 1)]
    assert found == [(offset, accepted) for offset, (_, accepted) in enumerate(LOG)][from_offset:]


@pytest.mark.parametrize("first_offset", [2, 3, 5, 6])
def test_a_follower_of_a_trimmed_log_finds_out_who_leads(bootstrap: str, leader: ScriptedLeader, first_offset: int) -> None:
    """The first record that is kept may be one that was rejected."""
    for value, _ in LOG:
        leader.produce(Topic.LOG, value)
    leader.producer.flush(5)
    trim_log(access_to(bootstrap, leader.cluster_id), first_offset)
    found: list[LoggedDecision] = []
    deadline = time.monotonic() + 10
    with LogFollower.at_the_beginning(access_to(bootstrap, leader.cluster_id)) as follower:
        assert (follower.is_trimmed, follower.next_offset) == (True, first_offset)
        while follower.next_offset < len(LOG):
            assert time.monotonic() < deadline
            found += follower.poll(0.2)
    assert [(logged.offset, logged.accepted) for logged in found[-1:]] == [(7, True)]


def test_of_a_repeated_request_is_told_what_the_log_still_has_of_it(bootstrap: str, leader: ScriptedLeader) -> None:
    attempt = AttemptId("job", "only", 0, 1)
    done = [
        InputsSkipped(count=1, reason="before"),
        FileUploadRequested("r", "tm", "tm-1", *attempt, file=TaskFile.LOG),
        FileUploaded("r", "key", None),
        InputsSkipped(count=1, reason="where the repeated answer stands"),
    ]
    leader.produce(Topic.LOG, decision(1, 0, "a", grant=True))
    for sequence, event in enumerate(done, 1):
        leader.produce(Topic.LOG, decision(1, sequence, "a", event=event))
    leader.producer.flush(5)
    repeated = Accepted("r", "job", 1, 4, "a", log_offset=4)
    for first_offset in (0, 1, 2):
        trim_log(access_to(bootstrap, leader.cluster_id), first_offset)
        assert await_upload(access_to(bootstrap, leader.cluster_id), repeated, 10) == done[2]
    trim_log(access_to(bootstrap, leader.cluster_id), 4)
    with pytest.raises(RequestTrimmed, match="request r was done before"):
        await_upload(access_to(bootstrap, leader.cluster_id), repeated, 10)


@pytest.mark.parametrize("command", ["submit graph.json", "cancel job", "cancel job --wait", "cancel --with-savepoint job"])
def test_a_command_waits_for_an_answer_no_longer_than_it_is_told(
    bootstrap: str,
    leader: ScriptedLeader,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    leader.decide = lambda _request: None
    (tmp_path / "graph.json").write_text('{"name": "one", "vertices": [{"id": "only", "sql": "SELECT 1"}]}')
    monkeypatch.chdir(tmp_path)
    where = ("--bootstrap", bootstrap, "--cluster-id", leader.cluster_id)
    assert run([*where, *command.split(), "--timeout", "4"]) == ExitCode.UNREACHABLE
    assert "answered request" in (said := capsys.readouterr().err)
    assert "within 4 s" in said


def test_an_upload_is_waited_for_no_longer_than_the_submission_is_told(
    bootstrap: str, leader: ScriptedLeader, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A blob server that takes connections and says nothing: one attempt has all the time, and nothing is begun after it."""
    uploads: list[socket.socket] = []
    ended = threading.Event()
    (tmp_path / "graph.json").write_text('{"name": "one", "vertices": [{"id": "only", "sql": "SELECT 1"}]}')
    with socket.create_server(("127.0.0.1", 0)) as mute:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    uploads.append(mute.accept()[0])

        def lead() -> None:
            while not ended.wait(0.1):
                leader.produce(Topic.LEADERSHIP, heartbeat("leader", 1, f"127.0.0.1:{mute.getsockname()[1]}"))

        threads = [threading.Thread(target=each, daemon=True) for each in (accept, lead)]
        for thread in threads:
            thread.start()
        where = ("--bootstrap", bootstrap, "--cluster-id", leader.cluster_id)
        job = ("submit", str(tmp_path / "graph.json"), "--code", str(tmp_path / "graph.json"))
        assert run([*where, *job, "--timeout", "12"]) == ExitCode.UNREACHABLE
        ended.set()
        threads[1].join()
        mute.shutdown(socket.SHUT_RDWR)
    threads[0].join()
    for upload in uploads:
        upload.close()
    assert "did not work in 1 attempts" in capsys.readouterr().err
    assert len(uploads) == 1
    assert leader.seen == []


def test_a_follower_passes_over_what_strangers_wrote_and_over_nothing_that_may_be_a_decision(
    bootstrap: str, leader: ScriptedLeader
) -> None:
    """What begins as a decision does may be one of a newer version, and what was trimmed was one (P3, P3b)."""
    name = topic_name(leader.cluster_id, Topic.LOG)
    writer = Producer({"bootstrap.servers": bootstrap, "transactional.id": uuid.uuid4().hex})
    writer.init_transactions(10)
    writer.begin_transaction()
    writer.produce(name, value=LOG[0][0])
    writer.commit_transaction(10)
    deadline = time.monotonic() + 10  # Its marker takes offset 1, a little later.
    while AdminConnection(KafkaAccess(bootstrap)).read_watermarks([(name, 0)])[name, 0].high != 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    leader.produce(Topic.LOG, LOG[1][0])
    leader.produce(Topic.LOG, b"garbage")
    leader.producer.flush(5)
    assert [(each.offset, each.accepted) for each in follow(bootstrap, leader.cluster_id, 0, until=2)] == [(0, True), (2, True)]
    leader.produce(Topic.LOG, MARKER + bytes(40))
    leader.producer.flush(5)
    with pytest.raises(LogUnreadable, match=r"offset 4: .*fingerprint"):
        follow(bootstrap, leader.cluster_id, 0)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_records([TopicPartition(name, 0, 2)]).values():
        future.result(120)
    with pytest.raises(LogUnreadable, match="the offset to read was not found"):
        follow(bootstrap, leader.cluster_id, 0)


def count_of(leader: ScriptedLeader, job_id: str) -> int:
    return [request.job_id for _, request in leader.seen].count(job_id)


def test_a_request_that_its_caller_gave_up_is_sent_no_more_and_makes_room(
    bootstrap: str, leader: ScriptedLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipelined_client, "REPEAT_AFTER_S", 0.2)
    leader.decide = lambda request: leader.accept(request) if request.job_id == "wanted" else None
    with PipelinedClient(access_to(bootstrap, leader.cluster_id), request_timeout_s=60, max_pending=1) as client:
        given_up = client.send(CancelJob(job_id="given-up"))
        assert given_up.cancel()
        assert client.send(CancelJob(job_id="wanted")).result(120).job_id == "wanted"
        seen = count_of(leader, "given-up")  # The answered one stands behind all that was sent before.
        time.sleep(0.6)
        assert count_of(leader, "given-up") == seen


def test_who_is_cancelled_in_an_event_loop_leaves_nothing_behind(
    bootstrap: str, leader: ScriptedLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipelined_client, "REPEAT_AFTER_S", 0.2)
    leader.decide = lambda request: leader.accept(request) if request.job_id == "wanted" else None

    async def run() -> None:
        async with AsyncDispatcherGateway(bootstrap, leader.cluster_id, max_under_way=2) as gateway:
            client = await gateway._connection.connect()
            tasks = [
                asyncio.create_task(gateway.cancel_job("unanswered")),
                asyncio.create_task(gateway.find_leader(timeout_s=60)),
            ]
            await asyncio.sleep(1.0)
            assert len(client._pending) == 1
            # There is no room for a third, and a caller that waits for some can leave, too.
            third = asyncio.create_task(gateway.cancel_job("wanted"))
            await asyncio.sleep(0.2)
            assert not third.done()
            third.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, third, return_exceptions=True)
            assert not client._pending
            assert (await gateway.cancel_job("wanted")).job_id == "wanted"
            seen = count_of(leader, "unanswered")  # The answered one stands behind all that was sent before.
            await asyncio.sleep(0.6)
            assert count_of(leader, "unanswered") == seen
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("gateway") and thread.is_alive()]

    asyncio.run(asyncio.wait_for(run(), 60))


def test_too_many_calls_wait_for_their_turn_and_not_for_ever(bootstrap: str, leader: ScriptedLeader) -> None:
    leader.decide = lambda request: leader.accept(request) if request.job_id != "unanswered" else None

    async def run() -> None:
        async with AsyncDispatcherGateway(bootstrap, leader.cluster_id, max_under_way=4, request_timeout_s=60) as gateway:
            answers = await asyncio.gather(*[gateway.cancel_job(f"job-{n}") for n in range(200)])
            assert [answer.job_id for answer in answers] == [f"job-{n}" for n in range(200)]
        async with AsyncDispatcherGateway(bootstrap, leader.cluster_id, max_under_way=1, request_timeout_s=2) as gateway:
            await gateway._connection.connect()
            first = asyncio.create_task(gateway.find_leader(timeout_s=30))
            await asyncio.sleep(0.1)
            with pytest.raises(GatewayError, match="1 calls were under way for 2 s"):
                await gateway.cancel_job("job-1")
            first.cancel()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_who_tells_is_told_when_kafka_has_it_and_nobody_answers(leader: ScriptedLeader, gateway: DispatcherGateway) -> None:
    leader.decide = lambda _request: None
    request_id = gateway.tell_cancel_job("job-1", actor="ann", fencing_token="leader-1")
    assert request_id
    deadline = time.monotonic() + 10
    while not leader.seen and time.monotonic() < deadline:
        time.sleep(0.02)
    [(message, request)] = leader.seen
    assert message.key() == b"job-1"
    assert request == CancelJob(request_id=request_id, reply_partition=-1, actor="ann", job_id="job-1", leader_id="leader-1")
