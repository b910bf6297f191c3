"""The blob server over real HTTP: what goes in comes out, and everything else gets a status and a sentence."""

import asyncio
import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from eventflink.blob.client import get_blob, put_blob
from eventflink.blob.errors import BlobNotFound, BlobRefused, BlobTooLarge, BlobUnavailable, InvalidBlobKey
from eventflink.blob.server import BlobServer
from eventflink.blob.store import BlobStore, blob_key

MAX_BYTES = 2 * 1024 * 1024


class RunningServer:
    """A BlobServer in an event loop of its own thread, as a master runs it in its."""

    def __init__(self, directory: Path) -> None:
        self.store = BlobStore(directory)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.server = self.call(self._make())
        self.port: int = self.call(self.server.start())
        self.address = f"127.0.0.1:{self.port}"

    async def _make(self) -> BlobServer:
        return BlobServer(self.store, "127.0.0.1", 0, MAX_BYTES)

    def call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def stop(self) -> None:
        self.call(self.server.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, body=body)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningServer]:
    server = RunningServer(tmp_path / "blobs")
    yield server
    server.stop()


def test_what_was_put_comes_back(running: RunningServer) -> None:
    data = os.urandom(MAX_BYTES)
    key = put_blob(running.address, data)
    assert key == blob_key(data)
    assert get_blob(running.address, key) == data
    assert put_blob(running.address, b"") == blob_key(b"")
    assert get_blob(running.address, blob_key(b"")) == b""


def test_many_clients_at_once(running: RunningServer) -> None:
    """More transfers than the server takes at once all come to an end."""
    with ThreadPoolExecutor(24) as pool:
        blobs = [bytes([n]) * 100_000 for n in range(48)]
        keys = list(pool.map(lambda data: put_blob(running.address, data), blobs))
        assert list(pool.map(lambda key: get_blob(running.address, key), keys)) == blobs


def test_head_tells_the_size_without_the_bytes(running: RunningServer) -> None:
    key = put_blob(running.address, b"12345")
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)
    connection.request("HEAD", f"/blobs/{key}")
    response = connection.getresponse()
    assert (response.status, response.getheader("Content-Length"), response.read()) == (200, "5", b"")
    connection.close()
    assert running.request("HEAD", f"/blobs/{'0' * 64}")[0] == 404


def test_a_blob_above_the_limit_is_refused_announced_or_not(running: RunningServer) -> None:
    with pytest.raises(BlobTooLarge, match=r"blob\.max-size"):
        put_blob(running.address, b"x" * (MAX_BYTES + 1))
    chunks = iter([b"x" * 1024 * 1024] * 3)
    status, body = running.request("PUT", "/blobs", chunks)
    assert status == 413, body
    assert list((running.store.directory / "incoming").iterdir()) == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"/blobs/{'0' * 64}", 404),
        ("GET", "/blobs/abc", 400),
        ("GET", "/blobs/", 400),
        ("GET", "/blobs/../../../etc/passwd", 400),
        ("GET", "/blobs/..%2f..%2f..%2fetc%2fpasswd", 400),
        ("GET", "/", 404),
        ("POST", "/blobs", 405),
        ("DELETE", f"/blobs/{'0' * 64}", 405),
    ],
)
def test_every_error_is_a_status_and_one_sentence_in_json(running: RunningServer, method: str, path: str, status: int) -> None:
    found, body = running.request(method, path)
    assert found == status
    assert json.loads(body)["error"]
    assert b"Traceback" not in body


def test_a_damaged_blob_is_never_served(running: RunningServer) -> None:
    key = put_blob(running.address, b"x" * 1000)
    path = running.store.directory / key[:2] / key
    path.write_bytes(b"x" * 999)
    status, body = running.request("GET", f"/blobs/{key}")
    assert status == 500
    assert "damaged" in json.loads(body)["error"]
    with pytest.raises(BlobUnavailable, match="damaged"):
        get_blob(running.address, key, attempts=2)


def test_an_upload_that_breaks_off_leaves_nothing(running: RunningServer) -> None:
    incoming = running.store.directory / "incoming"
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
        connection.sendall(b"PUT /blobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf")
        wait_until(lambda: any(incoming.iterdir()))
    wait_until(lambda: not any(incoming.iterdir()))
    assert [p for p in running.store.directory.rglob("*") if p.is_file()] == []


def test_client_errors_name_the_reason(running: RunningServer) -> None:
    with pytest.raises(BlobNotFound, match="there is no blob"):
        get_blob(running.address, "0" * 64)
    with pytest.raises(InvalidBlobKey):
        get_blob(running.address, "../x")
    with pytest.raises(BlobRefused, match="host:port"):
        put_blob("nowhere", b"")


def test_a_server_that_is_not_there_is_tried_again_and_then_named(tmp_path: Path) -> None:
    server = RunningServer(tmp_path)
    server.stop()
    with pytest.raises(BlobUnavailable, match=f"{server.address}.*3 attempts"):
        get_blob(server.address, "0" * 64, attempts=3)


def test_a_port_that_is_taken_is_an_error_at_start(running: RunningServer) -> None:
    async def start() -> None:
        await BlobServer(running.store, "127.0.0.1", running.port, 1).start()

    with pytest.raises(OSError, match="in use"):
        running.call(start())
