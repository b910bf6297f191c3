"""What becomes of a request: accepted once, answered as often as it comes, never done twice (P8)."""

import json
from typing import Any

import pytest

from eventflink.events.inputs import CancelJob
from eventflink.events.log_events import (
    AnswersExpired,
    JobEvicted,
    JobIdsExpired,
    JobSubmitted,
    RequestAccepted,
    RequestRejected,
    RequestRepeated,
)
from eventflink.events.topics import Topic
from eventflink.master.settings import MasterSettings
from eventflink.model.job_graph import RestartStrategy
from eventflink.model.statuses import JobStatus, RestartStrategyType
from tests.support.cluster import COMMANDS, ScriptedCluster, dead_letters, graph, replies, vertex


def test_a_valid_submission_is_accepted_and_answered_where_it_asked(cluster: ScriptedCluster) -> None:
    [reply] = replies(cluster.submit(graph(vertex("a")), request_id="r", partition=3))
    assert (reply.request_id, reply.reply_partition) == ("r", 3)
    assert reply.payload == RequestAccepted(request_id="r", reply_partition=3, subject="job")
    job = cluster.job("job")
    assert (job.status, job.actor, job.job_master_id) == (JobStatus.RUNNING, "test (declared)", "job-1")


def test_the_cluster_default_is_written_into_the_log(cluster: ScriptedCluster) -> None:
    """Masters may be configured differently; what holds for a job is what its decision says."""
    cluster.master.settings = MasterSettings(restart_strategy=RestartStrategy(RestartStrategyType.FIXED_DELAY, 7, 11))
    cluster.submit(graph(vertex("a")))
    assert cluster.job("job").restarts.strategy == RestartStrategy(RestartStrategyType.FIXED_DELAY, 7, 11)


def test_the_same_job_again_is_accepted_while_it_runs_and_runs_once(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a")), request_id="r1")
    [reply] = replies(cluster.submit(graph(vertex("a")), request_id="r2"))
    assert isinstance(reply.payload, RequestAccepted)
    assert len(cluster.events(JobSubmitted)) == 1


def test_two_spellings_of_a_graph_are_the_same_job(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a")), request_id="r1")
    spelled_out = graph({"parallelism": 1, **vertex("a"), "parameters": {}}, code_archives=[])
    [reply] = replies(cluster.submit(spelled_out, request_id="r2"))
    assert isinstance(reply.payload, RequestAccepted)


@pytest.mark.parametrize(
    ("end", "second", "says"),
    [
        (False, graph(vertex("b")), "with another graph; it is RUNNING"),
        (True, graph(vertex("a")), "it is FINISHED"),
        (True, graph(vertex("b")), "with another graph; it is FINISHED"),
    ],
)
def test_an_id_that_is_taken_is_refused(cluster: ScriptedCluster, end: bool, second: dict[str, object], says: str) -> None:  # noqa: FBT001
    cluster.register()
    effects = cluster.submit(graph(vertex("a")), request_id="r1")
    if end:
        cluster.run(effects)
    [reply] = replies(cluster.submit(second, request_id="r2"))
    assert isinstance(reply.payload, RequestRejected)
    assert reply.payload.code == "DuplicateJobSubmission"
    assert reply.payload.message == f"job 'job' was submitted before: {says}"
    assert len(cluster.events(JobSubmitted)) == 1


@pytest.mark.rule("P8")
def test_the_id_of_an_evicted_job_never_runs_again(cluster: ScriptedCluster) -> None:
    cluster.master.settings = MasterSettings(job_store_capacity=1)
    cluster.register()
    for name in ("one", "two"):
        cluster.run(cluster.submit(graph(vertex("a")), job_id=name))
    cluster.pass_time(1)
    assert cluster.events(JobEvicted) == [JobEvicted("one")]
    [reply] = replies(cluster.submit(graph(vertex("a")), job_id="one"))
    assert isinstance(reply.payload, RequestRejected)
    assert reply.payload.message == "job 'one' was submitted before: it ended long ago"
    [reply] = replies(cluster.cancel("one"))
    assert isinstance(reply.payload, RequestRejected)
    assert reply.payload.message == "job 'one' is FINISHED already"


@pytest.mark.rule("P8")
def test_a_request_id_that_comes_again_gets_the_same_answer_and_is_not_done_twice(cluster: ScriptedCluster) -> None:
    first = replies(cluster.submit(graph(vertex("a")), request_id="r", partition=1))
    again = replies(cluster.submit(graph(vertex("a"), vertex("b")), job_id="other", request_id="r", partition=2))
    assert first[0].payload == RequestAccepted(request_id="r", reply_partition=1, subject="job")
    assert again[0].payload == RequestAccepted(request_id="r", reply_partition=2, subject="job")
    assert cluster.events(RequestRepeated) == [RequestRepeated("r", 2)]
    assert "other" not in cluster.master.dispatcher.jobs


def test_a_rejection_is_repeated_as_well(cluster: ScriptedCluster) -> None:
    """The job that was unknown then may exist now: a repeated request still means what it meant."""
    cluster.cancel("job", request_id="r")
    cluster.submit(graph(vertex("a")))
    [reply] = replies(cluster.cancel("job", request_id="r"))
    assert isinstance(reply.payload, RequestRejected)
    assert reply.payload.code == "UnknownJob"
    assert cluster.job("job").status is JobStatus.RUNNING


def test_answers_survive_a_change_of_leader(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a")), request_id="r")
    cluster.fail_over()
    cluster.submit(graph(vertex("b")), job_id="other", request_id="r")
    assert len(cluster.events(JobSubmitted)) == 1


def test_nobody_is_answered_who_did_not_ask_for_it(cluster: ScriptedCluster) -> None:
    assert not replies(cluster.submit(graph(vertex("a")), partition=-1))
    assert cluster.job("job")


def test_ids_that_are_left_out_derive_from_the_place_of_the_record(cluster: ScriptedCluster) -> None:
    """A shell with a Kafka producer is a client; a redelivery of its record is the same request."""
    cluster.put(Topic.SUBMISSIONS, json.dumps(graph(vertex("a"))).encode())
    cluster.put(Topic.SUBMISSIONS, json.dumps(graph(vertex("a"))).encode(), key=b"named-by-key")
    cluster.settle()
    assert list(cluster.master.dispatcher.jobs) == ["submissions-0-0", "named-by-key"]
    assert list(cluster.master.requests.answers) == ["submissions-0-0", "submissions-0-1"]


@pytest.mark.rule("P8")
def test_answers_and_job_ids_expire_oldest_first_beyond_the_horizon(cluster: ScriptedCluster) -> None:
    cluster.master.settings = MasterSettings(job_store_capacity=1, request_horizon=3)
    cluster.register()
    for number in range(6):
        cluster.run(cluster.submit(graph(vertex("a")), job_id=f"job{number}", request_id=f"r{number}"))
    cluster.pass_time(1)
    assert list(cluster.master.requests.answers) == ["r3", "r4", "r5"]
    assert list(cluster.master.dispatcher.forgotten) == ["job2", "job3", "job4"]
    assert list(cluster.master.dispatcher.jobs) == ["job5"]
    assert sum(e.count for e in cluster.events(AnswersExpired)) == 3
    assert sum(e.count for e in cluster.events(JobIdsExpired)) == 2


def test_an_unreadable_record_is_refused_buried_and_answered_everywhere(cluster: ScriptedCluster) -> None:
    """Its request cannot be read, so its client is told on every reply partition, under the id that its key names."""
    cluster.put(Topic.SUBMISSIONS, b"garbage", key=b"my-job")
    effects = cluster.settle()
    [letter] = dead_letters(effects)
    assert letter.reason.startswith("submissions@0: the record does not start with the marker C3 01")
    [reply] = replies(effects)
    assert (reply.request_id, reply.reply_partition) == ("my-job", -2)


@pytest.mark.parametrize("encoding", ["json", "avro"])
def test_an_id_that_was_guessed_for_a_refusal_is_free_for_a_request(cluster: ScriptedCluster, encoding: str) -> None:
    """Also where the refused request says its reply partition: the key of a record is mostly the id of a job."""
    fields: dict[str, Any] = {"job_id": "no/id", "reply_partition": 1}
    bad = json.dumps({"type": "CancelJob", **fields}).encode() if encoding == "json" else COMMANDS.encode(CancelJob(**fields))
    cluster.put(Topic.COMMANDS, bad, key=b"job")
    [refused] = replies(cluster.settle())
    assert (refused.request_id, type(refused.payload)) == ("job", RequestRejected)
    [answered] = replies(cluster.submit(graph(vertex("a")), request_id="job"))
    assert isinstance(answered.payload, RequestAccepted)


@pytest.mark.rule("P7")
def test_nothing_that_cannot_be_read_stops_what_can(cluster: ScriptedCluster) -> None:
    for value in (b"", None, b"{", b"\xc3\x01" + bytes(8), b"\x00\x00\x00\x00\x01x", b"[]", b"\xff" * 300_000):
        cluster.put(Topic.SUBMISSIONS, value)
        cluster.put(Topic.COMMANDS, value)
        cluster.put(Topic.TASKMANAGERS, value)
    cluster.submit(graph(vertex("a")))
    assert cluster.job("job").status is JobStatus.RUNNING
    assert len(cluster.events(RequestRejected)) == 21
    assert {t: c.next_offset for t, c in cluster.master.requests.cursors.items()} == {"submissions": 8, "commands": 7, "taskmanagers": 7}
