"""The query port under clients that mean ill: bounded connections, bounded requests, clear errors, and it keeps answering others."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Any

import pytest

from eventflink.entrypoint import query_server
from eventflink.entrypoint.query_server import MAX_UNDER_WAY, QueryServer
from eventflink.model.cluster_access import access_to
from tests.support.hand import NOWHERE, Hand

GOOD = b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n"
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
def leader() -> Hand:
    hand = Hand()
    hand.lead()
    hand.submit("job-1")
    hand.settle()
    return hand


def flood(leader: Hand, test: Callable[[int], Awaitable[None]]) -> None:
    async def run() -> None:
        server = QueryServer(access_to(NOWHERE, "nobody"), "m-1", "127.0.0.1", 0, lambda: leader.participant)
        port = await server.start()
        try:
            async with asyncio.timeout(120):
                await test(port)
        finally:
            await server.stop()

    asyncio.run(run())


async def connect(port: int) -> Connection:
    return await asyncio.open_connection("127.0.0.1", port)


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, Any]:
    """Return status and document of one answer; (0, None): the connection was closed."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except (asyncio.IncompleteReadError, ConnectionError):
        return 0, None
    length = next(int(line.split(":")[1]) for line in head.lower().splitlines() if line.startswith("content-length:"))
    body = (await reader.readexactly(length)).decode()
    is_json = "application/json" in head
    return int(head.split()[1]), json.loads(body) if is_json else body


async def ask(port: int, request: bytes = GOOD) -> tuple[int, Any]:
    reader, writer = await connect(port)
    try:
        writer.write(request)
        return await read_answer(reader)
    finally:
        writer.close()


def test_one_connection_too_many_is_closed_and_the_others_are_served(leader: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_server, "MAX_CONNECTIONS", 50)

    async def test(port: int) -> None:
        held = [await connect(port) for _ in range(50)]
        await asyncio.sleep(0.1)
        refused = [await ask(port) for _ in range(200)]
        assert {status for status, _ in refused} == {0}
        for reader, writer in held:
            writer.write(GOOD)
            assert (await read_answer(reader))[0] == 200
        for _, writer in held[:10]:
            writer.close()
        await asyncio.sleep(0.1)
        assert (await ask(port))[0] == 200
        for _, writer in held[10:]:
            writer.close()

    flood(leader, test)


def test_who_does_not_say_what_it_wants_in_time_is_not_waited_for(leader: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first request of a connection and at a later one, byte by byte or not at all."""
    monkeypatch.setattr(query_server, "REQUEST_TIMEOUT_S", 0.5)

    async def drip(connection: Connection) -> int:
        reader, writer = connection
        for number in range(200):
            writer.write(b"GET /health HTTP/1.1\r\nHost: h\r\nX: " if number == 0 else b"x")
            await asyncio.sleep(0.02)
            if reader.at_eof() or reader.exception() is not None:
                return number
        return 200

    async def test(port: int) -> None:
        silent, slow, later = await connect(port), await connect(port), await connect(port)
        later[1].write(GOOD)
        assert (await read_answer(later[0]))[0] == 200
        counts = await asyncio.gather(drip(slow), drip(later))
        assert max(counts) < 200
        assert (await read_answer(silent[0]))[0] == 0
        assert (await ask(port))[0] == 200

    flood(leader, test)


def test_who_waits_for_an_answer_is_waited_for(leader: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for the request is not the time for its answer."""
    monkeypatch.setattr(query_server, "REQUEST_TIMEOUT_S", 0.3)

    async def test(port: int) -> None:
        beyond = leader.participant.fold.last_offset + 1
        status, answer = await ask(port, f"GET /health?min_offset={beyond}&timeout_ms=1500 HTTP/1.1\r\nHost: h\r\n\r\n".encode())
        assert (status, answer["min_offset"]) == (504, beyond)

    flood(leader, test)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
    ],
    ids=["long-path", "long-header", "tls", "version", "negative-length", "two-lengths", "nul"],
)
def test_what_is_no_request_is_refused_and_the_next_one_is_answered(leader: Hand, request_bytes: bytes) -> None:
    async def test(port: int) -> None:
        for _ in range(20):
            status, _ = await ask(port, request_bytes)
            assert status in (0, 400, 404)
        assert (await ask(port))[0] == 200

    flood(leader, test)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/jobs/" + "x" * 7_000, 404),
        ("/jobs/..%2f..%2fetc%2fpasswd", 404),
        ("/jobs/%00", 404),
        ("/jobs/%ff%fe", 404),
        ("/jobs/%0aX", 404),
        ("/jobs/%F0%9F%A6%86", 404),
        ("/jobs//result", 404),
        ("/../../etc/passwd", 404),
        ("//", 404),
        ("/taskmanagers/..", 404),
        ("/taskmanagers/%E2%80%AE", 404),
        ("/health?x=1", 400),
        ("/health?min_offset=1e9", 400),
        ("/health?min_offset=" + "9" * 5_000, 400),
        ("/health?min_offset=%D9%A3", 400),
        ("/health?min_offset=-5", 400),
        ("/health?timeout_ms=999999999", 400),
        ("/health?linearizable=perhaps", 400),
    ],
)
def test_a_path_or_parameter_that_makes_no_sense_gets_a_bounded_error_in_json(leader: Hand, path: str, status: int) -> None:
    async def test(port: int) -> None:
        got, document = await ask(port, f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
        assert got == status, document
        assert document["error"]
        assert len(json.dumps(document)) < 20_000

    flood(leader, test)


def test_a_body_that_nobody_asked_for_is_not_kept(leader: Hand) -> None:
    async def test(port: int) -> None:
        reader, writer = await connect(port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n")
        assert (await read_answer(reader))[0] == 200
        writer.close()
        assert (await ask(port, b"DELETE /health HTTP/1.1\r\nHost: h\r\n\r\n"))[0] == 405

    flood(leader, test)


def test_of_a_thousand_questions_at_once_as_many_are_under_way_as_may_be_and_the_rest_are_told_so(leader: Hand) -> None:
    """And the leader decides meanwhile."""

    async def test(port: int) -> None:
        beyond = leader.participant.fold.last_offset + 1
        request = f"GET /health?min_offset={beyond}&timeout_ms=30000 HTTP/1.1\r\nHost: h\r\n\r\n".encode()
        asked = [asyncio.create_task(ask(port, request)) for _ in range(400)]
        for refused in islice(asyncio.as_completed(asked), 400 - MAX_UNDER_WAY):
            assert (await refused)[0] == 503
        leader.submit("job-2")
        leader.settle()
        statuses = [status for status, _ in await asyncio.gather(*asked)]
        assert statuses.count(200) == MAX_UNDER_WAY
        status, answer = await ask(port, GOOD)
        assert (status, answer["log_offset"]) == (200, len(leader.log) - 1)

    flood(leader, test)
