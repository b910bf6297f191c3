"""What listens on a port: the REST process, the query port of a master, its blob server and its metrics, all real, on raw sockets.

The law: what is no request, or one that cannot be answered, gets another status than 500 and one sentence in the shape of that port's
errors, or no answer where it never ended; the next request of somebody else is answered; and no traceback is logged.
"""

import asyncio
import json
import logging
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import strategies as st

from eventflink.blob.local_storage import LocalStorage
from eventflink.blob.server import BlobServer, BlobServerSettings
from eventflink.blob.store import BlobStore
from eventflink.entrypoint.query_server import QueryServer
from eventflink.metrics.registry import MetricRegistry
from eventflink.metrics.server import MetricsServer, ServerSettings
from eventflink.model.metric_settings import MetricScope
from eventflink.rest.application import build_application
from tests.fuzz.corpus_files import Message
from tests.fuzz.generation import ODD_JSON, changed_documents, json_bytes, mutated
from tests.support.cluster import graph, vertex
from tests.support.hand import NOWHERE, Hand
from tests.support.liars import ODD_TEXTS
from tests.support.rest_client import dispatcher_of, services_with
from tests.support.rest_server import hosted
from tests.support.scenarios import busy_cluster

TIMEOUT_S: Final = 20.0
GOOD: Final = {"rest": b"/v1/overview", "query": b"/overview", "blob": b"/blobs/" + b"0" * 64, "metrics": b"/metrics"}
ERROR_KEYS: Final = {"rest": "errors", "query": "error", "blob": "error"}
METHODS: Final = ("GET", "GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "G\0T", "")
QUERY_PATHS: Final = (
    *("/cluster", "/overview", "/jobs", "/jobs/{}", "/jobs/{}/exceptions", "/jobs/{}/checkpoints", "/jobs/{}/status", "/job-statuses"),
    *("/taskmanagers", "/taskmanagers/{}", "/metrics-address"),
)
BLOB_PATHS: Final = ("/blobs", "/blobs/{}", "/blobs/{}/{}", "/blobs?kind={}")
HEADERS: Final = (
    *(
        "Host: localhost",
        "Host: evil.example",
        "Host: ",
        "Content-Length: 0",
        "Content-Length: 5",
        "Content-Length: -1",
        "Content-Length: 1e9",
    ),
    *("Content-Length: 99999999999999999999", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Connection: close"),
    *(
        "Connection: upgrade",
        "Upgrade: websocket",
        "Expect: 100-continue",
        "Content-Type: application/json",
        "Content-Type: multipart/form-data",
    ),
    *(
        "Content-Type: multipart/form-data; boundary=x",
        "Content-Type: text/plain; charset=x",
        "Authorization: Bearer x",
        "Authorization: Basic !",
    ),
    *(
        "Cookie: a=b; c",
        "Origin: http://evil.example",
        "Range: bytes=5-1",
        "If-None-Match: *",
        "X-Eventflink-Min-Offset: latest",
        "Accept: */*;q=x",
    ),
    *(
        "X-Eventflink-Min-Offset: 999999999",
        "Accept-Encoding: gzip;q=0",
        "X: " + "y" * 9_000,
        ": x",
        "X : y",
        "X: \x01",
        "Last-Event-ID: -1",
    ),
)
SEGMENTS: Final = (
    *(
        "running",
        "done3",
        "tm1",
        "a",
        "0",
        "1",
        "-1",
        "99999999999999999999",
        "%00",
        "%2e%2e%2f",
        "%ff",
        "..",
        "",
        "*",
        "a" * 300,
        "%F0%9F%A6%86",
    ),
    *("0" * 64, "t-" + "0" * 64 + "-1", "%", "%zz", "a b", "{}", "null", "streams", "1.5", "taskmanager.log"),
)
QUERIES: Final = (
    *(
        "",
        "?",
        "?limit=0",
        "?limit=5",
        "?limit=x",
        "?min_offset=-1",
        "?min_offset=1",
        "?timeout_ms=1",
        "?linearizable=maybe",
        "?a=%ff",
        "?%00",
    ),
    *(
        "?status=RUNNING&status=",
        "?get=a,b&agg=max",
        "?end=1&start=2",
        "?at=5",
        "?offset=99999999999",
        "?offset=-1",
        "?mode=cancel",
        "?&&==&",
    ),
    *(
        "?timeout_ms=1&limit=1",
        "?kind=transient",
        "?after=x",
        "?job=running",
        "?from=9&to=1",
        "?q=\udcff".encode("utf-8", "replace").decode(),
    ),
)


class _Tracebacks(logging.Handler):
    """Keeps what is logged with a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or "Traceback" in record.getMessage():
            self.found.append(self.format(record))


@contextmanager
def _impatient() -> Iterator[None]:
    """Let nobody wait for offsets that are not there yet, nor for Kafka, which is not there at all."""
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            for timeout in ("READ_TIMEOUT_S", "KAFKA_TIMEOUT_S"):
                if name.startswith("eventflink.rest.") and hasattr(module, timeout):
                    patch.setattr(module, timeout, 0.01)
        yield


class Ports:
    """The four servers, each in a thread of its own, and a client that sends them bytes."""

    name = "ports"
    bursts = 1

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.NOTSET)
        self._tracebacks = _Tracebacks()
        logging.root.addHandler(self._tracebacks)
        self._stack.callback(logging.root.removeHandler, self._tracebacks)
        self._stack.enter_context(_impatient())
        dispatcher = dispatcher_of(busy_cluster())
        application = build_application(services_with(dispatcher.state, dispatcher, {}))
        self._operations = tuple(
            (method.upper(), path)
            for path, operations in application.openapi()["paths"].items()
            for method, operation in operations.items()
            if "text/event-stream" not in json.dumps(operation.get("responses", {}))
        )
        url, _ = self._stack.enter_context(hosted(lambda: (application, dispatcher.state.close)))
        self._ports: dict[str, int] = {"rest": int(url.rpartition(":")[2])}
        self._serve_others()

    def _serve_others(self) -> None:
        directory = self._stack.enter_context(tempfile.TemporaryDirectory())
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="ports")
        thread.start()
        hand = Hand()
        hand.lead()
        hand.submit("running")
        hand.settle()
        query = QueryServer(NOWHERE, "nobody", "m-1", "127.0.0.1", 0, lambda: hand.participant)
        blob = BlobServer(BlobStore(LocalStorage(Path(directory))), BlobServerSettings(max_bytes=4_096, max_total_bytes=1 << 30))

        def end() -> None:
            for server in (query, blob):
                asyncio.run_coroutine_threadsafe(server.stop(), loop).result(TIMEOUT_S)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(TIMEOUT_S)
            loop.close()

        metrics = MetricsServer(
            MetricRegistry(MetricScope.TASKMANAGER, {}, {MetricScope.TASKMANAGER: ()}), ServerSettings("127.0.0.1", [0])
        )
        self._ports["metrics"] = metrics.start()
        self._stack.callback(metrics.stop)
        for name, server in (("query", query), ("blob", blob)):
            self._ports[name] = asyncio.run_coroutine_threadsafe(server.start(), loop).result(TIMEOUT_S)
        self._stack.callback(end)

    def messages(self) -> st.SearchStrategy[Message]:
        """Return requests to each port: with their paths, and with any; whole, and with changed bytes."""
        segments = st.sampled_from((*SEGMENTS, *[text for text in ODD_TEXTS if len(text) < 200]))
        bodies = st.one_of(
            st.just(b""),
            changed_documents(
                [{"job_id": "x", "job_graph": graph(vertex("a"))}, {"cancel-job": True, "target-directory": "/s"}, *ODD_JSON]
            ).map(json_bytes),
            st.binary(max_size=60),
            st.just(b'--x\r\nContent-Disposition: form-data; name="f"; filename="../../x"\r\n\r\nx\r\n--x--\r\n'),
        )
        headers = st.lists(st.sampled_from(HEADERS), max_size=4)
        operations: Mapping[str, st.SearchStrategy[tuple[str, str]]] = {
            "rest": st.sampled_from(self._operations),
            "query": st.tuples(st.sampled_from(METHODS), st.sampled_from(QUERY_PATHS)),
            "metrics": st.tuples(
                st.sampled_from(METHODS), st.sampled_from(("/metrics", "/threads", "/profile", "/profile?seconds={}&clock={}", "/{}"))
            ),
            "blob": st.tuples(st.sampled_from(("GET", "PUT", "PUT", "DELETE", "HEAD", "POST")), st.sampled_from(BLOB_PATHS)),
        }
        made: list[st.SearchStrategy[Message]] = []
        for to, operation in operations.items():
            whole = st.builds(_request, operation, st.lists(segments, min_size=3, max_size=3), st.sampled_from(QUERIES), headers, bodies)
            samples = [
                _request((method, path), ["running", "a", "0"], "", [], b"{}") for method, path in (("GET", "/overview"), ("POST", "/jobs"))
            ]
            made += [
                st.builds(Message, st.just(to), whole),
                st.builds(Message, st.just(to), whole),
                st.builds(Message, st.just(to), mutated(samples)),
            ]
        return st.one_of(made)

    def check(self, case: Sequence[Message]) -> None:
        """Send each on a connection of its own, and a good request behind it."""
        self._tracebacks.found.clear()
        for message in case:
            answer = self._ask(message.to, message.value, is_whole=_is_whole(message.value))
            if answer:
                _check_answer(message, answer)
            good = self._ask(
                message.to, b"GET " + GOOD[message.to] + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", is_whole=True
            )
            assert good[:12] in (b"HTTP/1.1 200", b"HTTP/1.1 404"), f"the next request is not answered: {good[:100]!r}"
        assert not self._tracebacks.found, self._tracebacks.found[0]

    def _ask(self, to: str, request: bytes, *, is_whole: bool) -> bytes:
        """Return what comes back until an answer is whole; nothing is waited for where the request has not ended."""
        answer = b""
        with socket.create_connection(("127.0.0.1", self._ports[to]), TIMEOUT_S) as connection, suppress(ConnectionError):
            connection.sendall(request)
            if not is_whole:
                return b""
            while not _has_ended(request, answer) and (part := connection.recv(65_536)):
                answer += part
        return answer

    def close(self) -> None:
        """End the servers."""
        self._stack.close()


def _request(operation: tuple[str, str], segments: Sequence[str], query: str, headers: Sequence[str], body: bytes) -> bytes:
    """Return a request with the path's parameters replaced; with its length, unless the headers say another."""
    method, path = operation
    filled = "".join(
        part if number == 0 else segments[(number - 1) % len(segments)] + part.partition("}")[2]
        for number, part in enumerate(path.split("{"))
    )
    length = (
        []
        if any(header.lower().startswith(("content-length", "transfer-encoding")) for header in headers)
        else [f"Content-Length: {len(body)}"]
    )
    host = [] if any(header.startswith("Host") for header in headers) else ["Host: localhost"]
    head = [f"{method} {filled}{query} HTTP/1.1", *host, *length, *headers]
    return "\r\n".join(head).encode("utf-8", "replace") + b"\r\n\r\n" + body


def _is_whole(request: bytes) -> bool:
    """Tell whether anybody would say that the request has ended: only then its answer is waited for."""
    head, separator, body = request.partition(b"\r\n\r\n")
    if not separator:
        return False
    fields = [line.lower().partition(b":") for line in head.split(b"\r\n")[1:]]
    if any(name.strip() in (b"transfer-encoding", b"expect", b"upgrade") for name, _, _ in fields) or head[:4] == b"CONN":
        return False
    lengths = [value.strip() for name, _, value in fields if name.strip() == b"content-length"]
    return all(value.isdigit() and len(value) < 9 and int(value) <= len(body) for value in lengths) and b"\n\n" not in head


def _has_ended(request: bytes, answer: bytes) -> bool:
    head, separator, body = answer.partition(b"\r\n\r\n")
    if not separator or request.lstrip()[:4].upper() == b"HEAD":
        return bool(separator)
    lower = head.lower()
    if b"transfer-encoding: chunked" in lower:
        return body.endswith(b"0\r\n\r\n")
    length = next((int(line.partition(b":")[2]) for line in lower.split(b"\r\n") if line.startswith(b"content-length:")), 0)
    return len(body) >= length or head.startswith(b"HTTP/1.1 304")


def _check_answer(message: Message, answer: bytes) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b"\r\n")[0].split()
    assert len(words) >= 2, f"no answer of HTTP: {answer[:100]!r}"
    assert words[0].startswith(b"HTTP/"), f"no answer of HTTP: {answer[:100]!r}"
    status = int(words[1])
    assert status != HTTPStatus.INTERNAL_SERVER_ERROR, body[:300]
    assert b"Traceback" not in body
    if status >= 400 and body and message.to in ERROR_KEYS and not message.value.startswith(b"HEAD"):
        if message.to != "rest" and status == 400 and b"text/plain" in head:
            return  # It was no HTTP, and aiohttp says so itself.
        document: Any = json.loads(body[: _length_of(head, body)])
        errors = document[ERROR_KEYS[message.to]]
        assert errors, f"{status} without a reason"


def _length_of(head: bytes, body: bytes) -> int:
    lengths = [int(line.partition(b":")[2]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return lengths[0] if lengths else len(body)
