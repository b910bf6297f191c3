"""Requests of HTTP to each port, as generated text: with the paths that there are and with any, whole, and with changed bytes."""

from collections.abc import Mapping, Sequence
from typing import Final

from hypothesis import strategies as st

from tests.fuzz.corpus_files import Message
from tests.fuzz.generation import ODD_JSON, changed_documents, json_bytes, mutated
from tests.support.cluster import graph, vertex
from tests.support.liars import ODD_TEXTS

METHODS: Final = ("GET", "GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "G\0T", "")
QUERY_PATHS: Final = (*("/health", "/digest", "/metrics-address", "/health/{}", "/{}"),)
BLOB_PATHS: Final = ("/blobs", "/blobs/{}", "/blobs/{}/{}", "/blobs?kind={}", "/blobs?job={}", "/blobs?kind=transient&job={}")
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


def requests(operations_of_rest: Sequence[tuple[str, str]]) -> st.SearchStrategy[Message]:
    """Return requests to each port; of the REST process by its operations."""
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
        "rest": st.sampled_from(operations_of_rest),
        "query": st.tuples(st.sampled_from(METHODS), st.sampled_from(QUERY_PATHS)),
        "metrics": st.tuples(
            st.sampled_from(METHODS), st.sampled_from(("/metrics", "/threads", "/profile", "/profile?seconds={}&clock={}", "/{}"))
        ),
        "blob": st.tuples(st.sampled_from(("GET", "PUT", "PUT", "DELETE", "HEAD", "POST")), st.sampled_from(BLOB_PATHS)),
    }
    made: list[st.SearchStrategy[Message]] = []
    for to, operation in operations.items():
        whole = st.builds(request_of, operation, st.lists(segments, min_size=3, max_size=3), st.sampled_from(QUERIES), headers, bodies)
        samples = [
            request_of((method, path), ["running", "a", "0"], "", [], b"{}") for method, path in (("GET", "/health"), ("POST", "/health"))
        ]
        made += [
            st.builds(Message, st.just(to), whole),
            st.builds(Message, st.just(to), whole),
            st.builds(Message, st.just(to), mutated(samples)),
        ]
    return st.one_of(made)


def request_of(operation: tuple[str, str], segments: Sequence[str], query: str, headers: Sequence[str], body: bytes) -> bytes:
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


def is_whole(request: bytes) -> bool:
    """Tell whether anybody would say that the request has ended: only then its answer is waited for."""
    head, separator, body = request.partition(b"\r\n\r\n")
    if not separator:
        return False
    fields = [line.lower().partition(b":") for line in head.split(b"\r\n")[1:]]
    if any(name.strip() in (b"transfer-encoding", b"expect", b"upgrade") for name, _, _ in fields) or head[:4] == b"CONN":
        return False
    lengths = [value.strip() for name, _, value in fields if name.strip() == b"content-length"]
    return all(value.isdigit() and len(value) < 9 and int(value) <= len(body) for value in lengths) and b"\n\n" not in head
