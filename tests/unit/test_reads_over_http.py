"""Reads over HTTP, from a real participant whose log is a list: a test holds the time between decision and acceptance in its hand (P4)."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from eventflink.entrypoint.query_server import MAX_JOBS, QueryServer
from eventflink.events.topics import Topic
from eventflink.leadership.intake import InboundRecord
from eventflink.leadership.leader import LeadershipEnded
from eventflink.leadership.participant import Participant
from eventflink.model.stream_progress import PartitionLag, StreamSourceProgress
from eventflink.views.plain import iso_time
from tests.support.cluster import START_MS, ScriptedCluster, decline, deployments, graph, orders, replay, stream, vertex
from tests.support.hand import NOWHERE, Hand
from tests.support.scenarios import restarting_cluster


class Asker:
    """Asks one server."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self.session = session
        self.port = port

    async def get(self, path: str, status: int = 200) -> dict[str, Any]:
        async with self.session.get(f"http://127.0.0.1:{self.port}{path}") as response:
            answer: dict[str, Any] = await response.json()
            assert response.status == status, answer
            return answer

    async def begin(self, path: str, status: int = 200) -> "asyncio.Task[dict[str, Any]]":
        """Ask, and give the server the time to take the question in."""
        task = asyncio.create_task(self.get(path, status))
        await asyncio.sleep(0.1)
        return task


@asynccontextmanager
async def asking(present: Callable[[], Participant | None]) -> AsyncIterator[Asker]:
    server = QueryServer(NOWHERE, "nobody", "m-1", "127.0.0.1", 0, present)
    port = await server.start()
    async with aiohttp.ClientSession() as session:
        try:
            yield Asker(session, port)
        finally:
            await server.stop()


def with_server(present: Callable[[], Participant | None], test: Callable[[Asker], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(30), asking(present) as asker:
            await test(asker)

    asyncio.run(run())


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
def leader(hand: Hand) -> Hand:
    hand.lead()
    return hand


def test_a_standby_answers_with_the_offset_that_it_has_read_to(leader: Hand) -> None:
    leader.submit("job-1")
    leader.settle()
    standby = Hand()
    standby.follow(leader.log)

    async def test(asker: Asker) -> None:
        answer = await asker.get("/jobs")
        assert [job["job_id"] for job in answer["jobs"]] == ["job-1"]
        assert (answer["role"], answer["epoch"], answer["log_offset"], answer["master_id"]) == ("STANDBY", 1, len(leader.log) - 1, "m-1")

    with_server(lambda: standby.participant, test)


def test_a_standby_tells_the_failures_of_a_job_and_what_they_led_to() -> None:
    standby = Hand()
    standby.follow(restarting_cluster().log)

    async def test(asker: Asker) -> None:
        answer = await asker.get("/jobs/rewr/exceptions?limit=5")
        assert (answer["job_id"], answer["status"], answer["total"], answer["truncated"]) == ("rewriting", "RESTARTING", 1, False)
        [exception] = answer["exceptions"]
        assert (exception["task"], exception["task_manager_id"], exception["reaction"]) == ("b[1]#1", "tm1", "RESTART")
        assert exception["cause"]["failure_type"] == "InputLost"
        restart = exception["restart"]
        assert (restart["restarts"], restart["failover_strategy"], restart["task_count"]) == (1, "REGION", 4)
        assert restart["tasks"] == ["a[0]", "b[0]", "b[1]", "b[2]"]
        job = (await asker.get("/jobs/rewriting"))["job"]
        assert (job["exceptions"], job["exceptions_total"]) == (answer["exceptions"], 1)
        assert (job["restart_strategy"]["strategy_type"], job["failover_strategy"]) == ("EXPONENTIAL_DELAY", "REGION")
        assert job["vertices"][0]["subtasks"][0]["restart_at"] == restart["restart_at"]
        assert job["tasks_finished"] == 1

    with_server(lambda: standby.participant, test)


def test_a_standby_tells_the_checkpoints_of_a_job_and_where_its_streams_stand() -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=3)
    cluster.submit(graph(vertex("a")), job_id="batch")
    document = graph(stream("s", 2), checkpointing={"interval_ms": 100, "tolerable_failed_checkpoints": 1})
    for number, deployment in enumerate(deployments(cluster.submit(document, job_id="streaming"))):
        cluster.start_stream(deployment, restored_batch_id=number)
    cluster.say(decline(orders(cluster.pass_time(100))[0]))
    source = StreamSourceProgress(name="in", end_offset="{}", records_behind=900)
    lag = PartitionLag(source="in", topic="orders", partition=3, records_behind=900)
    said = {"sources": (source,), "partitions_behind": 1, "partition_lags": (lag,), "input_rows": 100, "state_rows": 3}
    cluster.acknowledge(*orders(cluster.pass_time(100)), batch_id=4, watermark_ms=START_MS, **said)
    cluster.acknowledge(orders(cluster.pass_time(100))[0], batch_id=5)
    standby = Hand()
    standby.follow(cluster.log)

    async def test(asker: Asker) -> None:
        answer = await asker.get("/jobs/stream/checkpoints")
        assert answer["counts"] == {"triggered": 3, "in_progress": 1, "completed": 1, "failed": 1, "restored": 2}
        assert (answer["settings"]["interval_ms"], answer["retained"]) == (100, [2])
        assert [(each["checkpoint_id"], each["status"], each["reason"]) for each in answer["history"]] == [
            (2, "COMPLETED", None),
            (1, "FAILED", "DECLINED"),
        ]
        assert (answer["latest"]["completed"]["state_rows"], answer["latest"]["failed"]["checkpoint_id"]) == (6, 1)
        assert answer["latest"]["restored"]["task"] == "s[0]#1"
        assert (answer["pending"]["checkpoint_id"], answer["pending"]["acknowledged"], answer["pending"]["subtasks"]) == (3, 1, 2)
        first, second = answer["subtasks"]
        assert (first["answer"]["batch_id"], first["back_pressure"]["level"]) == (5, "OK")
        assert (second["answer"]["batch_id"], second["answer"]["watermark"], second["back_pressure"]["ratio"]) == (
            4,
            iso_time(START_MS),
            0.9,
        )
        assert second["answer"]["partitions_behind"] == 1
        assert second["answer"]["partition_lags"] == [{"source": "in", "topic": "orders", "partition": 3, "records_behind": 900}]
        assert second["start"]["run_id"] == "run-1-of-s-1"
        batch = await asker.get("/jobs/batch/checkpoints")
        assert (batch["settings"], batch["history"], batch["subtasks"]) == (None, [], [])
        assert set(batch) == set(answer)

    with_server(lambda: standby.participant, test)


def test_what_a_leader_decided_is_not_read_before_it_is_accepted(leader: Hand) -> None:
    leader.submit("job-1")
    leader.decide()

    async def test(asker: Asker) -> None:
        task = await asker.begin("/jobs/job-1")
        assert not task.done()
        leader.read_back()
        answer = await task
        assert (answer["job"]["job_id"], answer["log_offset"], answer["role"]) == ("job-1", len(leader.log) - 1, "LEADER")

    with_server(lambda: leader.participant, test)


@pytest.mark.parametrize("path", ["/cluster", "/jobs"])
def test_a_held_answer_names_the_offset_that_it_reflects_although_more_was_read_back_with_it(leader: Hand, path: str) -> None:
    leader.submit("job-1")
    leader.decide()
    reflected = len(leader.log) + len(leader.wires.appended) - 1

    async def test(asker: Asker) -> None:
        task = await asker.begin(path)
        leader.submit("job-2")
        leader.decide()
        leader.read_back()
        answer = await task
        assert leader.participant.fold.last_offset > reflected
        assert answer["log_offset"] == reflected
        if path == "/cluster":
            told = answer["cluster"]
            fold = replay(leader.log[: reflected + 1])
            assert (told["jobs_live"], told["log_offset"], told["decisions_accepted"]) == (1, reflected, fold.accepted_count)
            assert told["last_decision_at"] == iso_time(fold.last_decided_at_ms)
        else:
            assert [job["job_id"] for job in answer["jobs"]] == ["job-1"]

    with_server(lambda: leader.participant, test)


def test_what_was_never_accepted_is_never_read(leader: Hand) -> None:
    leader.submit("job-1")
    leader.decide()

    async def test(asker: Asker) -> None:
        task = await asker.begin("/jobs", 503)
        leader.participant.step_down("somebody else leads")
        assert "somebody else leads" in (await task)["error"]
        # The state of a term that is over is doubtful, also for who asks afterwards.
        assert "somebody else leads" in (await asker.get("/jobs", 503))["error"]

    with_server(lambda: leader.participant, test)


def test_a_leader_that_falls_on_its_lease_answers_nobody(leader: Hand) -> None:
    leader.submit("job-1")
    leader.decide()

    async def test(asker: Asker) -> None:
        task = await asker.begin("/digest", 503)
        leader.now_ms += 10_000
        with pytest.raises(LeadershipEnded):
            leader.participant.tick(leader.now_ms, START_MS)
        assert "was not read back within 10000 ms" in (await task)["error"]

    with_server(lambda: leader.participant, test)


def test_a_read_waits_for_the_offset_that_it_wants(leader: Hand) -> None:
    for number in range(3):
        leader.submit(f"job-{number}")
        leader.settle()
    standby = Hand()
    standby.follow(leader.log[:-2])

    async def test(asker: Asker) -> None:
        task = await asker.begin(f"/jobs?min_offset={len(leader.log) - 1}")
        assert not task.done()
        standby.follow(leader.log[-2:-1])
        await asyncio.sleep(0.05)
        assert not task.done()
        standby.follow(leader.log[-1:])
        answer = await task
        assert answer["log_offset"] == len(leader.log) - 1
        assert answer["total"] == 3

    with_server(lambda: standby.participant, test)


def test_a_read_that_waits_too_long_says_where_the_master_stands(leader: Hand) -> None:
    async def test(asker: Asker) -> None:
        answer = await asker.get("/cluster?min_offset=4000&timeout_ms=50", 504)
        assert (answer["min_offset"], answer["log_offset"]) == (4000, leader.participant.fold.last_offset)
        assert "4000" in answer["error"]
        assert not [read for read in leader.participant.reads.waiting if not read.is_cancelled]

    with_server(lambda: leader.participant, test)


def test_leader_and_standby_have_the_digest_of_a_replay(leader: Hand) -> None:
    for number in range(5):
        leader.submit(f"job-{number}")
        leader.settle()
    standby = Hand()
    standby.follow(leader.log)
    wanted = replay(leader.log).master.digest()

    async def test(asker: Asker) -> None:
        answer = await asker.get("/digest")
        assert (answer["digest"], answer["log_offset"]) == (wanted, len(leader.log) - 1)
        assert await asker.get("/digest") == answer

    for one in (leader, standby):
        with_server(lambda one=one: one.participant, test)  # type: ignore[misc]


def test_a_digest_is_of_the_accepted_state_and_not_of_what_a_leader_is_ahead(leader: Hand) -> None:
    leader.submit("job-1")
    leader.decide()

    async def test(asker: Asker) -> None:
        first, second = await asker.begin("/digest"), await asker.begin("/digest")
        assert not first.done()
        leader.read_back()
        for task in (first, second):
            answer = await task
            assert answer["digest"] == replay(leader.log[: answer["log_offset"] + 1]).master.digest()
        leader.submit("job-2")
        leader.settle()
        after = await asker.get("/digest")
        assert after["log_offset"] == len(leader.log) - 1 > answer["log_offset"]
        assert after["digest"] == replay(leader.log).master.digest() != answer["digest"]

    with_server(lambda: leader.participant, test)


def test_a_master_that_builds_its_state_sends_its_askers_elsewhere() -> None:
    async def test(asker: Asker) -> None:
        for path in ("/cluster", "/jobs", "/jobs/x", "/digest"):
            assert "builds its state" in (await asker.get(path, 503))["error"]

    with_server(lambda: None, test)


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/jobs?limit=0", 400, f"invalid limit: '0' is not a whole number from 1 to {MAX_JOBS}"),
        (f"/jobs?limit={MAX_JOBS + 1}", 400, "is not a whole number"),
        ("/jobs?limit=²", 400, "is not a whole number"),
        ("/jobs?status=RUNING", 400, "unknown status: 'RUNING'; known: INITIALIZING"),
        ("/cluster?min_offset=-1", 400, "min_offset: '-1'"),
        ("/cluster?min_offset=99999999999999999999", 400, "min_offset"),
        ("/cluster?linearizable=perhaps", 400, "linearizable: 'perhaps' is neither true nor false"),
        ("/cluster?timeout_ms=0", 400, "timeout_ms"),
        ("/cluster?limit=1", 400, "unknown parameter: 'limit'"),
        ("/jobs/nobody", 404, "job not found: 'nobody'"),
        ("/jobs/job-", 404, "'job-' is ambiguous: 2 job ids begin with it, such as job-1, job-2"),
        ("/nothing", 404, "known: /cluster, /jobs"),
        ("/jobs/nobody/checkpoints", 404, "job not found: 'nobody'"),
        ("/jobs/nobody/exceptions", 404, "job not found: 'nobody'"),
        ("/jobs/job-1/exceptions?limit=0", 400, "invalid limit: '0' is not a whole number from 1 to 1000"),
    ],
)
def test_a_bad_question_gets_an_error_that_names_what_is_wrong(leader: Hand, path: str, status: int, said: str) -> None:
    for job_id in ("job-1", "job-2"):
        leader.submit(job_id)
    leader.settle()

    async def test(asker: Asker) -> None:
        assert said in (await asker.get(path, status))["error"]
        # It did the master no harm.
        assert (await asker.get("/jobs?limit=1"))["total"] == 2
        assert (await asker.get("/jobs/job-2"))["job"]["job_id"] == "job-2"

    with_server(lambda: leader.participant, test)


def test_only_reading_is_possible(leader: Hand) -> None:
    async def test(asker: Asker) -> None:
        async with asker.session.post(f"http://127.0.0.1:{asker.port}/jobs") as response:
            assert response.status == 405
            assert "Method Not Allowed" in (await response.json())["error"]

    with_server(lambda: leader.participant, test)


def test_the_narrow_questions_are_answered_from_the_same_state(leader: Hand) -> None:
    for number in range(3):
        leader.submit(f"job-{number}")
    leader.settle()

    async def test(asker: Asker) -> None:
        overview = (await asker.get("/overview"))["overview"]
        assert (overview["jobs"], overview["jobs_live"], overview["slots"], overview["slot_requests"]) == ({"RUNNING": 3}, 3, 0, 3)
        assert (overview["leader_id"], overview["leading_master_id"], overview["blob_address"]) == ("leader-1", "m-1", NOWHERE)
        assert (await asker.get("/job-statuses"))["jobs"] == [[f"job-{n}", "RUNNING"] for n in range(3)]
        status = (await asker.get("/jobs/job-1/status"))["job"]
        assert (status["job_id"], status["status"], status["job_master_id"]) == ("job-1", "RUNNING", "job-1-1")
        assert (await asker.get("/taskmanagers"))["task_managers"] == []
        assert "TaskManager not found: 'tm'" in (await asker.get("/taskmanagers/tm", 404))["error"]
        # Only whole ids: a program says what it means.
        assert "job not found: 'job-'" in (await asker.get("/jobs/job-/status", 404))["error"]

    with_server(lambda: leader.participant, test)


def test_who_wants_a_result_waits_for_it_and_is_told_the_status_when_the_time_is_over(leader: Hand) -> None:
    leader.submit("job-1")
    leader.settle()

    async def test(asker: Asker) -> None:
        early = (await asker.get("/jobs/job-1/result?timeout_ms=60"))["result"]
        assert (early["is_terminal"], early["status"], early["net_run_time_ms"]) == (False, "RUNNING", None)
        task = await asker.begin("/jobs/job-1/result?timeout_ms=20000")
        document = {"type": "CancelJob", "job_id": "job-1"}
        leader.participant.intake.enqueue(InboundRecord(str(Topic.COMMANDS), 0, None, json.dumps(document).encode()))
        leader.decide()
        await asyncio.sleep(0.2)
        assert not task.done()  # It was decided, but not accepted (P4).
        leader.settle_all()
        result = (await task)["result"]
        assert (result["is_terminal"], result["status"], result["cause"]) == (True, "CANCELED", None)
        assert "job not found: 'nobody'" in (await asker.get("/jobs/nobody/result", 404))["error"]

    with_server(lambda: leader.participant, test)


def test_who_waits_for_results_keeps_nobody_from_reading(leader: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventflink.entrypoint.query_server.MAX_UNDER_WAY", 3)
    monkeypatch.setattr("eventflink.entrypoint.query_server.MAX_WAITING_FOR_RESULTS", 6)
    leader.submit("job-1")
    leader.settle()

    async def test(asker: Asker) -> None:
        waiting = [await asker.begin("/jobs/job-1/result?timeout_ms=1500") for _ in range(6)]
        assert (await asker.get("/jobs"))["total"] == 1
        assert "6 wait for results already" in (await asker.get("/jobs/job-1/result", 503))["error"]
        assert [(await task)["result"]["is_terminal"] for task in waiting] == [False] * 6
        assert (await asker.get("/jobs/job-1/result?timeout_ms=1"))["result"]["status"] == "RUNNING"

    with_server(lambda: leader.participant, test)


def test_of_more_jobs_than_a_list_holds_the_newest_are_told(leader: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventflink.views.queries.MAX_LISTED_JOBS", 2)
    for number in range(5):
        leader.submit(f"job-{number}")
    leader.settle()

    async def test(asker: Asker) -> None:
        answer = await asker.get("/job-statuses")
        assert (answer["jobs"], answer["total"]) == ([["job-3", "RUNNING"], ["job-4", "RUNNING"]], 5)

    with_server(lambda: leader.participant, test)
