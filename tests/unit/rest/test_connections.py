"""A connection may not last for longer than its client has something to say or to take, and there are only so many; with TLS as well."""

import asyncio
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Any, Final

import pytest
from fastapi import FastAPI, Request, Response
from starlette.types import Receive, Scope, Send

from eventflink.blob.tls import TlsFiles, rest_server_files
from eventflink.model.configuration import load_configuration
from eventflink.rest import connections, serving
from eventflink.rest.access.protection import Protection
from eventflink.rest.access.server_tls import ServerTls
from eventflink.rest.connections import ConnectionBounds
from eventflink.rest.serving import listen, serve
from tests.support.tls_files import Certificates

REQUEST: Final = b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"
TIMEOUT_S: Final = 120
BIG: Final = 8 * 1024 * 1024
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls") / "files")


@pytest.fixture(params=["http", "https"])
def tls(request: pytest.FixtureRequest, certificates: Certificates) -> TlsFiles | None:
    return TlsFiles(certificates.server.certificate, certificates.server.key) if request.param == "https" else None


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever does nothing is sent away soon; nobody is who does something."""
    for name in ("REQUEST_TIMEOUT_S", "HANDSHAKE_TIMEOUT_S", "STALLED_S"):
        monkeypatch.setattr(connections, name, 0.3)
    monkeypatch.setattr(serving, "KEEP_ALIVE_S", 0.3)


def application() -> FastAPI:
    made = FastAPI()

    @made.get("/hello")
    async def hello() -> str:
        return "hello"

    @made.post("/echo")
    async def echo(body: dict[str, Any]) -> dict[str, Any]:
        return body

    @made.post("/size")
    async def size(request: Request) -> int:
        return len(await request.body())

    @made.get("/slow")
    async def slow() -> str:
        await asyncio.sleep(0.5)
        return "done"

    @made.get("/big")
    async def big() -> Response:
        return Response(bytes(BIG))

    async def early(scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        await Response("no")(scope, asyncio.Event().wait, send)  # type: ignore[arg-type] # It reads nothing.

    made.mount("/early", early)
    return made


class Server:
    """A server of the application, and connections to it."""

    def __init__(self, port: int, client: ssl.SSLContext | None) -> None:
        self.port = port
        self._client = client

    async def connect(self, *, plain: bool = False) -> Stream:
        context = None if plain else self._client
        name = "localhost" if context is not None else None
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=context, server_hostname=name)

    async def ask(self, request: bytes = REQUEST) -> tuple[int, bytes]:
        """Return status and body of an answer over a connection of its own."""
        reader, writer = await self.connect()
        writer.write(request)
        answer = await read_answer(reader)
        writer.close()
        return answer


@asynccontextmanager
async def server(tls: TlsFiles | None, certificates: Certificates, bounds: ConnectionBounds | None = None) -> AsyncIterator[Server]:
    announced: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def announce(url: str) -> ExitStack:
        announced.set_result(url)
        return ExitStack()

    ending = asyncio.Event()
    protection = Protection(tls=ServerTls(tls) if tls is not None else None, name="localhost")
    with pytest.MonkeyPatch.context() as patch, listen("address", "127.0.0.1", "port", "0") as listener:
        if bounds is not None:
            patch.setattr(serving, "ConnectionBounds", lambda: bounds)
        running = asyncio.create_task(serve(application(), listener, ending, announce, protection=protection))
        url = await announced
        assert url.startswith("https://localhost:" if tls is not None else "http://localhost:")
        client = ssl.create_default_context(cafile=str(certificates.ca)) if tls is not None else None
        try:
            yield Server(int(url.rpartition(":")[2]), client)
        finally:
            ending.set()
            async with asyncio.timeout(TIMEOUT_S):
                await running


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    async with asyncio.timeout(TIMEOUT_S):
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
        return int(head.split()[1]), await reader.readexactly(int(fields[b"content-length"]))


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Return what comes until the server ends the connection."""
    received = b""
    async with asyncio.timeout(TIMEOUT_S):
        try:
            while more := await reader.read(65536):
                received += more
        except (ConnectionError, ssl.SSLError):
            pass
    return received


async def counted(bounds: ConnectionBounds, count: int) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while bounds.count != count:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


def run(check: Callable[[], Awaitable[None]]) -> None:
    async def checking() -> None:
        async with asyncio.timeout(2 * TIMEOUT_S):
            await check()

    asyncio.run(checking())


def test_requests_are_answered_one_after_the_other_and_piped(tls: TlsFiles | None, certificates: Certificates) -> None:
    async def check() -> None:
        async with server(tls, certificates) as serving_it:
            reader, writer = await serving_it.connect()
            for _ in range(3):
                writer.write(REQUEST)
                assert await read_answer(reader) == (200, b'"hello"')
            body = json.dumps({"x": "y" * 100_000}).encode()
            post = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            writer.write(REQUEST + post + body + REQUEST)
            assert [(await read_answer(reader))[0] for _ in range(3)] == [200, 200, 200]
            writer.close()
            assert len((await serving_it.ask(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n"))[1]) == BIG

    run(check)


@pytest.mark.usefixtures("impatient")
def test_who_sends_no_whole_request_in_time_is_sent_away(tls: TlsFiles | None, certificates: Certificates) -> None:
    post = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"
    beginnings = (b"", b"GET /hello HT", REQUEST[:-2], b"\r\n", post, REQUEST + b"GET", REQUEST + post, b"POST /early/x" + post[10:])

    async def check() -> None:
        async with server(tls, certificates) as serving_it:
            for beginning in beginnings:
                reader, writer = await serving_it.connect()
                writer.write(beginning)
                answered = await ended(reader)
                assert (b"200 OK" in answered) == (beginning.startswith(REQUEST) or b"/early" in beginning), beginning
                writer.close()
            assert await serving_it.ask() == (200, b'"hello"')

    run(check)


@pytest.mark.usefixtures("impatient")
def test_a_long_request_has_more_time_as_long_as_it_goes_on(
    tls: TlsFiles | None, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "UPLOAD_PROGRESS_BYTES", 0)

    async def check() -> None:
        async with server(tls, certificates) as serving_it:
            reader, writer = await serving_it.connect()
            writer.write(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{")
            await asyncio.sleep(1)
            writer.write(b"}")
            assert await read_answer(reader) == (200, b"{}")
            writer.close()

    run(check)


def test_a_request_that_came_while_the_process_stood_still_is_read(
    tls: TlsFiles | None, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever time had passed: its peer has sent it."""
    monkeypatch.setattr(connections, "REQUEST_TIMEOUT_S", 2)
    size = 1_000_000  # Several reads, and less than what has time for being long.
    head = b"POST /size HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size

    async def check() -> None:
        async with server(tls, certificates) as serving_it:
            reader, writer = await serving_it.connect()
            writer.write(head)
            await asyncio.sleep(0.1)
            sending = asyncio.create_task(send(writer, bytes(size)))
            await asyncio.sleep(0)
            time.sleep(4)  # noqa: ASYNC251 - the loop stands still, and the server with it
            assert await read_answer(reader) == (200, b"%d" % size)
            await sending
            writer.close()

    async def send(writer: asyncio.StreamWriter, body: bytes) -> None:
        writer.write(body)
        await writer.drain()

    run(check)


@pytest.mark.usefixtures("impatient")
def test_an_answer_has_all_the_time_that_its_route_takes(tls: TlsFiles | None, certificates: Certificates) -> None:
    async def check() -> None:
        async with server(tls, certificates) as serving_it:
            assert await serving_it.ask(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n") == (200, b'"done"')

    run(check)


@pytest.mark.usefixtures("impatient")
def test_who_takes_nothing_of_an_answer_is_sent_away(tls: TlsFiles | None, certificates: Certificates) -> None:
    bounds = ConnectionBounds()

    async def check() -> None:
        async with server(tls, certificates, bounds) as serving_it:
            reader, writer = await serving_it.connect()
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await counted(bounds, 0)
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert len(await ended(reader)) < BIG
            writer.close()

    run(check)


def test_so_many_connections_and_no_more(tls: TlsFiles | None, certificates: Certificates) -> None:
    bounds = ConnectionBounds(most=3)

    async def check() -> None:
        async with server(tls, certificates, bounds) as serving_it:
            held = [await serving_it.connect(plain=True) for _ in range(3)]
            await counted(bounds, 3)
            reader, writer = await serving_it.connect(plain=True)
            assert await ended(reader) == b""
            writer.close()
            for _, each in held:
                each.close()
            await counted(bounds, 0)
            assert (await serving_it.ask())[0] == 200
            await counted(bounds, 0)

    run(check)


def test_one_peer_has_its_share_and_this_machine_all() -> None:
    bounds = ConnectionBounds(most=5, most_of_peer=2)
    assert [bounds.opened("10.0.0.1") for _ in range(3)] == [True, True, False]
    assert [bounds.opened("") for _ in range(4)] == [True, True, True, False]
    bounds.closed("10.0.0.1")
    assert bounds.opened("10.0.0.2")
    assert not bounds.opened("10.0.0.1")
    for peer in ("10.0.0.1", "10.0.0.2", "", "", ""):
        bounds.closed(peer)
    assert bounds.count == 0


@pytest.mark.usefixtures("impatient")
def test_who_agrees_on_no_tls_is_sent_away_and_counted_no_more(certificates: Certificates) -> None:
    bounds = ConnectionBounds()

    async def check() -> None:
        async with server(TlsFiles(certificates.server.certificate, certificates.server.key), certificates, bounds) as serving_it:
            for beginning in (b"", REQUEST, b"\x16\x03\x01"):
                reader, writer = await serving_it.connect(plain=True)
                writer.write(beginning)
                assert b"HTTP" not in await ended(reader)
                writer.close()
            assert await serving_it.ask() == (200, b'"hello"')
            await counted(bounds, 0)

    run(check)


def test_where_clients_need_certificates_nobody_else_is_heard(certificates: Certificates) -> None:
    keys = {
        "security.ssl.rest.enabled": "true",
        "security.ssl.rest.certificate": str(certificates.server.certificate),
        "security.ssl.rest.key": str(certificates.server.key),
        "security.ssl.rest.ca": str(certificates.ca),
    }
    assert rest_server_files(load_configuration(None, {**keys, "security.ssl.rest.enabled": "false"})) is None
    trusting = rest_server_files(load_configuration(None, keys))
    demanding = rest_server_files(load_configuration(None, {**keys, "security.ssl.rest.authentication-enabled": "true"}))

    async def check() -> None:
        async with server(trusting, certificates) as serving_it:
            assert (await serving_it.ask())[0] == 200
        async with server(demanding, certificates) as serving_it:
            reader, writer = await serving_it.connect()
            writer.write(REQUEST)
            assert await ended(reader) == b""
            writer.close()
            assert serving_it._client is not None
            serving_it._client.load_cert_chain(str(certificates.client.certificate), str(certificates.client.key))
            assert (await serving_it.ask())[0] == 200

    run(check)


def test_what_is_no_http_gets_an_error_in_the_shape_of_all(tls: TlsFiles | None, certificates: Certificates) -> None:
    async def check() -> None:
        async with server(tls, certificates) as serving_it:
            assert await serving_it.ask(b"nonsense\r\n\r\n") == (400, b'{"errors":["Invalid HTTP request received."]}')
            reader, writer = await serving_it.connect()
            writer.write(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n\x00\x00nonsense\r\n\r\n")
            assert (await ended(reader)).count(b"200 OK") == 1
            writer.close()

    run(check)


def test_the_body_of_an_answer_does_not_wait_until_its_head_is_acknowledged(
    tls: TlsFiles | None, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Nagle's algorithm each answer on a connection that stays open would be 40 ms late."""
    options: list[int] = []
    made = connections.BoundedConnection.connection_made

    def look(self: connections.BoundedConnection, transport: Any) -> None:
        options.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        made(self, transport)

    async def scenario() -> None:
        async with server(tls, certificates) as running:
            assert (await running.ask())[0] == 200

    monkeypatch.setattr(connections.BoundedConnection, "connection_made", look)
    asyncio.run(scenario())
    assert all(options)
    assert options


def test_a_body_that_breaks_off_in_the_middle_of_an_answer_is_no_failure_of_the_server(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    """It is refused as no HTTP, while the application answers what came before; that answer goes nowhere."""

    async def check() -> None:
        async with server(None, certificates) as serving_server:
            for _ in range(5):
                reader, writer = await serving_server.connect()
                writer.write(b"POST /early HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n")
                await ended(reader)
                writer.close()
            assert await serving_server.ask() == (200, b'"hello"')

    run(check)
    assert not [record for record in caplog.records if record.exc_info]
