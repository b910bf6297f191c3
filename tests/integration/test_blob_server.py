"""The blob server over real HTTP: what goes in comes out, and everything else gets a status and a sentence."""

import asyncio
import dataclasses
import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from eventflink.blob import BlobNotFound, BlobRefused, BlobsFull, BlobTooLarge, BlobUnavailable, InvalidBlobKey, TlsUnusable
from eventflink.blob.client import delete_blob, get_blob, put_blob
from eventflink.blob.keys import BlobKind
from eventflink.blob.local_storage import LocalStorage
from eventflink.blob.open_storage import open_storage
from eventflink.blob.server import BlobServer, BlobServerSettings
from eventflink.blob.storage import Storage
from eventflink.blob.store import BlobStore, blob_key
from eventflink.blob.tls import TlsFiles
from tests.support.ftp_storage import ftp_server
from tests.support.small_disk import run_on_small_disk
from tests.support.tls_files import Certificates

MAX_BYTES = 2 * 1024 * 1024


class RunningServer:
    """A BlobServer in an event loop of its own thread, as a master runs it in its."""

    def __init__(self, storage: Storage, **settings: Any) -> None:
        self.store = BlobStore(storage)
        self.settings = BlobServerSettings(**{"max_bytes": MAX_BYTES, **settings})
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        try:
            self.server = self.call(self._make())
            self.port: int = self.call(self.server.start())
        except BaseException:
            self._end()
            raise
        self.address = f"127.0.0.1:{self.port}"

    async def _make(self) -> BlobServer:
        return BlobServer(self.store, self.settings)

    def call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(120)

    def stop(self) -> None:
        self.call(self.server.stop())
        self._end()

    def _end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(120)
        self.loop.close()

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
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
    with serving(LocalStorage(tmp_path / "blobs")) as server:
        yield server


@contextmanager
def serving(storage: Storage, **settings: Any) -> Iterator[RunningServer]:
    server = RunningServer(storage, **settings)
    try:
        yield server
    finally:
        server.stop()


def directory_of(server: RunningServer) -> Path:
    return Path(server.store.storage.location)


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
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
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
    assert list((directory_of(running) / "incoming").iterdir()) == []


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
        ("PUT", "/blobs?kind=eternal", 400),
        ("DELETE", "/blobs/abc", 400),
        ("DELETE", f"/blobs/t-{'0' * 64}-{'0' * 16}", 404),
        ("GET", f"/blobs/t-{'0' * 64}-{'0' * 16}", 404),
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
    path = directory_of(running) / key[:2] / key
    path.write_bytes(b"x" * 999)
    status, body = running.request("GET", f"/blobs/{key}")
    assert status == 500
    assert "damaged" in json.loads(body)["error"]
    with pytest.raises(BlobUnavailable, match="damaged"):
        get_blob(running.address, key, attempts=2)


def test_an_upload_that_breaks_off_leaves_nothing(running: RunningServer) -> None:
    incoming = directory_of(running) / "incoming"
    with socket.create_connection(("127.0.0.1", running.port), timeout=60) as connection:
        connection.sendall(b"PUT /blobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf")
        wait_until(lambda: any(incoming.iterdir()))
    wait_until(lambda: not any(incoming.iterdir()))
    assert [p for p in directory_of(running).rglob("*") if p.is_file()] == []


def test_client_errors_name_the_reason(running: RunningServer) -> None:
    with pytest.raises(BlobNotFound, match="blob not found"):
        get_blob(running.address, "0" * 64)
    with pytest.raises(InvalidBlobKey):
        get_blob(running.address, "../x")
    with pytest.raises(BlobRefused, match="host:port"):
        put_blob("nowhere", b"")


def test_a_server_that_is_not_there_is_tried_again_and_then_named(tmp_path: Path) -> None:
    server = RunningServer(LocalStorage(tmp_path))
    server.stop()
    with pytest.raises(BlobUnavailable, match=f"{server.address}.*3 attempts"):
        get_blob(server.address, "0" * 64, attempts=3)


def test_a_transient_blob_is_deleted_by_its_key_and_a_permanent_one_never(running: RunningServer) -> None:
    permanent = put_blob(running.address, b"same")
    transient = put_blob(running.address, b"same", kind=BlobKind.TRANSIENT)
    other = put_blob(running.address, b"same", kind=BlobKind.TRANSIENT)
    assert transient.startswith(f"t-{blob_key(b'same')}-")
    assert get_blob(running.address, transient) == b"same"
    assert delete_blob(running.address, transient)
    assert not delete_blob(running.address, transient)
    with pytest.raises(BlobNotFound):
        get_blob(running.address, transient)
    with pytest.raises(BlobRefused, match=r"405 .*permanent"):
        delete_blob(running.address, permanent)
    assert get_blob(running.address, permanent) == get_blob(running.address, other) == b"same"


@contextmanager
def held_uploads(server: RunningServer, count: int) -> Iterator[None]:
    """Begin uploads that have their turn, and do not end."""
    connections = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(count)]
    try:
        for connection in connections:
            connection.sendall(b"PUT /blobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf")
        wait_until(lambda: len(list((directory_of(server) / "incoming").iterdir())) == count)
        yield
    finally:
        for connection in connections:
            connection.close()


def test_more_requests_than_the_backlog_holds_are_told_to_come_back(tmp_path: Path) -> None:
    with serving(LocalStorage(tmp_path), max_transfers=2, backlog=1) as server, ThreadPoolExecutor(1) as pool:
        key = put_blob(server.address, b"1")
        with held_uploads(server, 2):
            waiting = pool.submit(get_blob, server.address, key)
            wait_until(lambda: server.server._waiting == 1)
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            connection.request("GET", f"/blobs/{key}")
            response = connection.getresponse()
            assert (response.status, response.getheader("Retry-After")) == (503, "1")
            assert "blob.fetch.backlog" in json.loads(response.read())["error"]
            connection.close()
            with pytest.raises(BlobUnavailable, match="503 PUT /blobs: 1 requests wait already"):
                put_blob(server.address, b"x" * MAX_BYTES, attempts=1)
            started = time.monotonic()
            with pytest.raises(BlobUnavailable, match="2 attempts"):
                put_blob(server.address, b"x", attempts=2)
            assert time.monotonic() - started >= 1  # As Retry-After says.
        assert waiting.result(120) == b"1"


def test_a_client_that_is_told_to_come_back_does(tmp_path: Path) -> None:
    with serving(LocalStorage(tmp_path), max_transfers=1, backlog=1) as server, ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda n: put_blob(server.address, bytes([n]) * 100_000, attempts=20), range(8)))
    assert len(set(keys)) == 8


def test_the_first_free_port_of_a_range_is_taken(tmp_path: Path) -> None:
    with serving(LocalStorage(tmp_path)) as first:
        ports = f"{first.port}-{first.port + 20}"
        with serving(LocalStorage(tmp_path), ports=ports) as second:
            assert first.port < second.port <= first.port + 20
            assert get_blob(second.address, put_blob(first.address, b"1")) == b"1"
        with pytest.raises(OSError, match=f"{first.port}, ?{first.port} on .* in use"):
            RunningServer(LocalStorage(tmp_path), ports=f"{first.port},{first.port}")


@pytest.mark.parametrize("kind", ["directory", "file", "ftp"])
def test_any_master_serves_any_blob_also_when_the_one_that_took_it_is_gone(tmp_path: Path, kind: str) -> None:
    with ftp_server(tmp_path / "ftp") as ftp:
        url = {"directory": str(tmp_path / "shared"), "file": f"file://{tmp_path}/shared", "ftp": f"{ftp}/shared"}[kind]
        data = os.urandom(MAX_BYTES)
        with serving(open_storage(url)) as second:
            with serving(open_storage(url)) as first:
                permanent, transient = put_blob(first.address, data), put_blob(first.address, data, kind=BlobKind.TRANSIENT)
                assert get_blob(second.address, permanent) == data
            assert get_blob(second.address, permanent) == get_blob(second.address, transient) == data
        with serving(open_storage(url)) as third:
            assert get_blob(third.address, permanent) == data


# -- TLS -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "tls")


def test_over_tls_client_and_server_show_certificates_of_their_ca(tmp_path: Path, certificates: Certificates) -> None:
    with serving(LocalStorage(tmp_path / "blobs"), tls=certificates.server) as server:
        data = os.urandom(MAX_BYTES)
        key = put_blob(server.address, data, tls=certificates.client)
        assert get_blob(server.address, key, tls=certificates.client) == data
        transient = put_blob(server.address, data, tls=certificates.client, kind=BlobKind.TRANSIENT)
        assert delete_blob(server.address, transient, tls=certificates.client)
        with pytest.raises(BlobTooLarge):
            put_blob(server.address, data + b"x", tls=certificates.client)
        with pytest.raises(BlobUnavailable, match="2 attempts"):  # No certificate: the server ends the connection.
            get_blob(server.address, key, tls=TlsFiles(ca=certificates.ca), attempts=2)
        with pytest.raises(BlobUnavailable, match="2 attempts"):  # In the clear.
            get_blob(server.address, key, attempts=2)
        foreign = Certificates(tmp_path / "foreign")
        with pytest.raises(BlobUnavailable):  # A certificate of another CA.
            get_blob(server.address, key, tls=TlsFiles(foreign.client.certificate, foreign.client.key, certificates.ca), attempts=1)


def test_a_server_without_a_ca_asks_no_client_for_a_certificate(tmp_path: Path, certificates: Certificates) -> None:
    files = TlsFiles(certificates.server.certificate, certificates.server.key)
    with serving(LocalStorage(tmp_path / "blobs"), tls=files) as server:
        key = put_blob(server.address, b"1", tls=TlsFiles(ca=certificates.ca))
        assert get_blob(server.address, key, tls=TlsFiles(ca=certificates.ca)) == b"1"


def test_a_server_of_another_ca_or_name_is_refused_at_once(tmp_path: Path, certificates: Certificates) -> None:
    foreign = Certificates(tmp_path / "foreign")
    with serving(LocalStorage(tmp_path / "blobs"), tls=certificates.elsewhere) as server:
        with pytest.raises(BlobRefused, match=r"not to be trusted.*(doesn't match|not valid for)"):
            put_blob(server.address, b"1", tls=certificates.client)
        for files in (foreign.client, TlsFiles()):  # Whom the system trusts did not sign it either.
            with pytest.raises(BlobRefused, match="not to be trusted"):
                put_blob(server.address, b"1", tls=files)
        assert list(server.store.entries()) == []


def test_tls_with_a_server_that_speaks_none_does_not_fall_back(running: RunningServer, certificates: Certificates) -> None:
    with pytest.raises(BlobUnavailable, match="SSL"):
        put_blob(running.address, b"1", tls=certificates.client, attempts=1)
    assert list(running.store.entries()) == []


@pytest.mark.parametrize("what", ["certificate", "key", "ca"])
def test_a_file_that_is_no_certificate_is_named_at_start(tmp_path: Path, certificates: Certificates, what: str) -> None:
    wrong = tmp_path / "wrong.pem"
    for content in (None, b"no certificate"):
        if content is not None:
            wrong.write_bytes(content)
        files = dataclasses.replace(certificates.server, **{what: wrong})  # type: ignore[arg-type]
        with pytest.raises(TlsUnusable, match=rf"security\.ssl\.internal\.{what} '{wrong}'"):
            RunningServer(LocalStorage(tmp_path / "blobs"), tls=files)
    with pytest.raises(TlsUnusable, match="a server needs"):
        RunningServer(LocalStorage(tmp_path / "blobs"), tls=TlsFiles(ca=certificates.ca))


def test_a_port_that_is_taken_is_an_error_at_start(running: RunningServer) -> None:
    async def start() -> None:
        await BlobServer(running.store, BlobServerSettings(ports=str(running.port))).start()

    with pytest.raises(OSError, match=rf"blob\.server\.port: {running.port} on 127\.0\.0\.1: already in use"):
        running.call(start())


def test_what_has_no_room_is_refused_at_once_and_what_was_broken_off_takes_none(tmp_path: Path) -> None:
    with serving(LocalStorage(tmp_path), max_total_bytes=1_000) as server:
        with pytest.raises(BlobTooLarge):
            put_blob(server.address, b"x" * (MAX_BYTES + 1))
        put_blob(server.address, b"x" * 900)
        with pytest.raises(BlobsFull, match=r"the blobs have 900 bytes; 1000 are taken in all \(blob.storage.max-size\)"):
            put_blob(server.address, b"y" * 101)
        put_blob(server.address, b"z" * 100)


def test_a_job_cannot_take_the_room_of_others_also_after_its_master(tmp_path: Path) -> None:
    with serving(LocalStorage(tmp_path), max_bytes_per_job=1_000) as server:
        put_blob(server.address, b"x" * 900, job_id="greedy")
        put_blob(server.address, b"y" * 100, job_id="greedy", kind=BlobKind.TRANSIENT)
        refusal = r"507 the blobs of job 'greedy' have 1000 bytes; 1000 are taken for each job \(blob.job.max-size\)"
        for kind in BlobKind:
            with pytest.raises(BlobsFull, match=refusal):
                put_blob(server.address, b"z", job_id="greedy", kind=kind)
        put_blob(server.address, b"z" * 1_000, job_id="other")
        put_blob(server.address, b"z" * 999)
    with serving(LocalStorage(tmp_path), max_bytes_per_job=1_000) as server:
        with pytest.raises(BlobsFull, match=refusal):
            put_blob(server.address, b"z", job_id="greedy")
        put_blob(server.address, b"a" * 999, job_id="third")
        with pytest.raises(BlobRefused, match=r"'\.\./x' is not a valid id of a job"):
            put_blob(server.address, b"z", job_id="../x")


def test_uploads_of_one_job_at_once_share_its_room(tmp_path: Path) -> None:
    def upload(number: int) -> bool:
        try:
            put_blob(server.address, bytes([number]) * 400_000, job_id="greedy")
        except BlobsFull:
            return False
        return True

    with serving(LocalStorage(tmp_path), max_bytes_per_job=1_000_000) as server, ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(upload, range(8))) <= 2
        assert server.store.usage().bytes_by_job["greedy"] <= 1_000_000
        put_blob(server.address, b"z" * 200_000, job_id="greedy")


ON_A_FULL_DISK = """
import asyncio
from pathlib import Path
from eventflink.blob import BlobsFull
from eventflink.blob.client import put_blob
from eventflink.blob.local_storage import LocalStorage
from eventflink.blob.server import BlobServer, BlobServerSettings
from eventflink.blob.store import BlobStore

async def main():
    store = BlobStore(LocalStorage(Path(sys.argv[1]) / "blobs"))
    server = BlobServer(store, BlobServerSettings())
    address = f"127.0.0.1:{await server.start()}"
    try:
        await asyncio.to_thread(put_blob, address, b"x" * 100_000)
    except BlobsFull as error:
        print(error)
    print(len([file for file in (Path(sys.argv[1]) / "blobs").rglob("*") if file.is_file()]))
    await server.stop()

asyncio.run(main())
"""


def test_a_disk_that_is_full_is_named_to_whom_uploads(tmp_path: Path) -> None:
    refused, left = run_on_small_disk(tmp_path, ON_A_FULL_DISK)
    assert f"507 no blob can be written: {tmp_path}/blobs/incoming: No space left on device (" in refused
    assert "of 65536 bytes are free" in refused
    assert left == "0"
