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
from collections.abc import Iterator, Sequence
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
from eventflink.model.cluster_access import access_to
from eventflink.model.metric_settings import MetricScope
from eventflink.rest.application import build_application
from tests.fuzz.corpus_files import Message
from tests.fuzz.requests import is_whole, requests
from tests.support.hand import NOWHERE, Hand
from tests.support.rest_client import dispatcher_of, services_with
from tests.support.rest_server import hosted
from tests.support.scenarios import busy_cluster

TIMEOUT_S: Final = 20.0
GOOD: Final = {"rest": b"/v1/overview", "query": b"/overview", "blob": b"/blobs/" + b"0" * 64, "metrics": b"/metrics"}
ERROR_KEYS: Final = {"rest": "errors", "query": "error", "blob": "error"}


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


async def _end_tasks() -> None:
    """End what the servers have left: connections that were broken off in the middle of a request."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


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
        query = QueryServer(access_to(NOWHERE, "nobody"), "m-1", "127.0.0.1", 0, lambda: hand.participant)
        blob = BlobServer(BlobStore(LocalStorage(Path(directory))), BlobServerSettings(max_bytes=4_096, max_total_bytes=1 << 30))

        def end() -> None:
            for server in (query, blob):
                asyncio.run_coroutine_threadsafe(server.stop(), loop).result(TIMEOUT_S)
            asyncio.run_coroutine_threadsafe(_end_tasks(), loop).result(TIMEOUT_S)
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
        return requests(self._operations)

    def check(self, case: Sequence[Message]) -> None:
        """Send each on a connection of its own, and a good request behind it."""
        self._tracebacks.found.clear()
        for message in case:
            answer = self._ask(message.to, message.value, is_whole=is_whole(message.value))
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
