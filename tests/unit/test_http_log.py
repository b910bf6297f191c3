"""What a peer does wrong is no traceback in the log of the server; what fails in the server is one."""

import asyncio
import logging

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import RawTestServer

from eventflink.processes.http_log import HTTP_LOGGER
from tests.fuzz.corpus_files import Message
from tests.fuzz.serving import Ports

GARBAGE = b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"y" * 9_000 + b"\r\n\r\n"


def test_what_is_no_request_leaves_no_traceback_at_any_port() -> None:
    ports = Ports()
    try:
        ports.check([Message(to, GARBAGE) for to in ("query", "blob", "metrics", "rest")])
    finally:
        ports.close()


async def _ask_one_that_fails() -> int:
    async def fail(_request: web.BaseRequest) -> web.StreamResponse:
        raise ValueError("the server's own")

    async with RawTestServer(fail, logger=HTTP_LOGGER) as server, ClientSession() as client, client.get(server.make_url("/")) as answer:
        return answer.status


def test_what_fails_in_a_server_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert asyncio.run(_ask_one_that_fails()) == 500
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ValueError]
