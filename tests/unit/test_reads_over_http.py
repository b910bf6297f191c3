"""What a master says of itself over HTTP: its log is a list, and a test holds the time between decision and acceptance in its hand (P4)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from eventflink.entrypoint.query_server import QueryServer
from eventflink.leadership.leader import LeadershipEnded
from eventflink.leadership.participant import Participant
from eventflink.model.cluster_access import access_to
from eventflink.views.plain import iso_time
from tests.support.cluster import START_MS, replay
from tests.support.hand import NOWHERE, Hand


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
    server = QueryServer(access_to(NOWHERE, "nobody"), "m-1", "127.0.0.1", 0, present)
    port = await server.start()
    async with aiohttp.ClientSession() as session:
        try:
            yield Asker(session, port)
        finally:
            await server.stop()


def with_server(present: Callable[[], Participant | None], test: Callable[[Asker], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(120), asking(present) as asker:
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
        answer = await asker.get("/health")
        assert (answer["role"], answer["epoch"], answer["log_offset"], answer["master_id"]) == ("STANDBY", 1, len(leader.log) - 1, "m-1")

    with_server(lambda: standby.participant, test)


@pytest.mark.rule("L4")
def test_what_a_leader_decided_is_not_read_before_it_is_accepted(leader: Hand) -> None:
    leader.submit("job-1")
    leader.decide()

    async def test(asker: Asker) -> None:
        task = await asker.begin("/health")
        assert not task.done()
        leader.read_back()
        answer = await task
        assert (answer["log_offset"], answer["role"]) == (len(leader.log) - 1, "LEADER")

    with_server(lambda: leader.participant, test)


@pytest.mark.rule("L4")
def test_a_held_answer_names_the_offset_that_it_reflects_although_more_was_read_back_with_it(leader: Hand) -> None:
    leader.submit("job-1")
    leader.decide()
    reflected = len(leader.log) + len(leader.wires.appended) - 1

    async def test(asker: Asker) -> None:
        task = await asker.begin("/health")
        leader.submit("job-2")
        leader.decide()
        leader.read_back()
        answer = await task
        assert leader.participant.fold.last_offset > reflected
        fold = replay(leader.log[: reflected + 1])
        assert (answer["log_offset"], answer["decisions_accepted"]) == (reflected, fold.accepted_count)
        assert answer["last_decision_at"] == iso_time(fold.last_decided_at_ms)

    with_server(lambda: leader.participant, test)


@pytest.mark.rule("L4")
def test_what_was_never_accepted_is_never_read(leader: Hand) -> None:
    leader.submit("job-1")
    leader.decide()

    async def test(asker: Asker) -> None:
        task = await asker.begin("/health", 503)
        leader.participant.step_down("somebody else leads")
        assert "somebody else leads" in (await task)["error"]
        # The state of a term that is over is doubtful, also for who asks afterwards.
        assert "somebody else leads" in (await asker.get("/health", 503))["error"]

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
        task = await asker.begin(f"/health?min_offset={len(leader.log) - 1}")
        assert not task.done()
        standby.follow(leader.log[-2:-1])
        await asyncio.sleep(0.05)
        assert not task.done()
        standby.follow(leader.log[-1:])
        answer = await task
        assert answer["log_offset"] == len(leader.log) - 1

    with_server(lambda: standby.participant, test)


def test_a_read_that_waits_too_long_says_where_the_master_stands(leader: Hand) -> None:
    async def test(asker: Asker) -> None:
        answer = await asker.get("/health?min_offset=4000&timeout_ms=50", 504)
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
        for path in ("/health", "/digest"):
            assert "builds its state" in (await asker.get(path, 503))["error"]

    with_server(lambda: None, test)


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/health?min_offset=-1", 400, "min_offset: '-1'"),
        ("/health?min_offset=99999999999999999999", 400, "min_offset"),
        ("/health?linearizable=perhaps", 400, "linearizable: 'perhaps' is neither true nor false"),
        ("/health?timeout_ms=0", 400, "timeout_ms"),
        ("/digest?limit=1", 400, "unknown parameter: 'limit'"),
        ("/jobs", 404, "known: /health, /digest"),
    ],
)
def test_a_bad_question_gets_an_error_that_names_what_is_wrong(leader: Hand, path: str, status: int, said: str) -> None:
    for job_id in ("job-1", "job-2"):
        leader.submit(job_id)
    leader.settle()

    async def test(asker: Asker) -> None:
        assert said in (await asker.get(path, status))["error"]
        # It did the master no harm.
        assert (await asker.get("/health"))["log_offset"] == len(leader.log) - 1

    with_server(lambda: leader.participant, test)


def test_only_reading_is_possible(leader: Hand) -> None:
    async def test(asker: Asker) -> None:
        async with asker.session.post(f"http://127.0.0.1:{asker.port}/health") as response:
            assert response.status == 405
            assert "Method Not Allowed" in (await response.json())["error"]

    with_server(lambda: leader.participant, test)
