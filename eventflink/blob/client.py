"""Blocking access to a blob server, for clients and TaskExecutors: standard library only.

A blob that comes back is hashed before anybody sees it. Every call may be repeated without harm, so whatever may be a passing fault is
tried again with back-off, a bounded number of times; a refusal is raised at once. An upload that is repeated because its answer was lost
is at worst one more transient blob, which expires.
"""

import contextlib
import hashlib
import http.client
import json
import math
import random
import ssl
import time
import urllib.parse
from dataclasses import dataclass
from typing import Final, Self

from eventflink.blob import BlobDamaged, BlobError, BlobNotFound, BlobRefused, BlobsFull, BlobTooLarge, BlobUnavailable, InvalidBlobKey
from eventflink.blob.keys import BlobKind, blob_key, check_key, digest_of
from eventflink.blob.tls import TlsFiles, client_context
from eventflink.model.backoff import Backoff
from eventflink.model.loopback import LOOPBACK

DEFAULT_TIMEOUT_S: Final = 30.0
DEFAULT_ATTEMPTS: Final = 5
_LEAST_TIMEOUT_S: Final = 0.1
_FIRST_DELAY_S: Final = 0.1
_MAX_DELAY_S: Final = 2.0
_MAX_ERROR_BYTES: Final = 4096
_OK: Final = 200
_CREATED: Final = 201
_NO_CONTENT: Final = 204
_GOOD: Final = frozenset({_OK, _CREATED, _NO_CONTENT})
_SERVER_ERROR: Final = 500
_REFUSALS: Final[dict[int, type[BlobError]]] = {404: BlobNotFound, 413: BlobTooLarge, 507: BlobsFull}
_PASSING: Final = frozenset({408, 429})


def put_blob(
    address: str,
    data: bytes | memoryview,
    *,
    kind: BlobKind = BlobKind.PERMANENT,
    job_id: str = "",
    tls: TlsFiles | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    attempts: int = DEFAULT_ATTEMPTS,
    within_s: float = math.inf,
) -> str:
    """Upload bytes to the server at `address` (host:port), which speaks TLS if `tls` is given, in the room of a job; return their key.

    Raises:
        BlobsFull: there is no room for them, in all or for this job.
        BlobTooLarge: the server takes no blob of this size.
        BlobRefused: the server refuses the request for another reason, or its certificate is not to be trusted.
        BlobDamaged: the server stored other bytes than these.
        BlobUnavailable: no answer after every attempt, each bounded by `timeout_s` per network operation; or none within `within_s`,
            after which nothing more is begun.
        TlsUnusable: a file of `tls` is not usable.

    """
    query = ({} if kind is BlobKind.PERMANENT else {"kind": kind}) | ({"job": job_id} if job_id else {})
    path = f"/blobs?{urllib.parse.urlencode(query)}" if query else "/blobs"
    body = _request(_Server.at(address, tls, timeout_s), "PUT", path, data, attempts, within_s=within_s)
    try:
        key = str(json.loads(body)["key"])
        digest = digest_of(key)
    except (ValueError, KeyError, TypeError, InvalidBlobKey) as error:
        raise BlobRefused(f"{address} does not answer as a blob server: {body[:80]!r}") from error
    if digest != blob_key(data):
        raise BlobDamaged(f"{address} stored {key} where {blob_key(data)} was sent")
    return key


def get_blob(address: str, key: str, *, tls: TlsFiles | None = None, attempts: int = DEFAULT_ATTEMPTS) -> bytes:
    """Return the blob `key` of the server at `address` (host:port), verified.

    Raises:
        InvalidBlobKey: the key is not valid.
        BlobNotFound: the server has no such blob.
        BlobRefused: the server's certificate is not to be trusted.
        BlobUnavailable: no whole and undamaged blob came after every attempt.
        TlsUnusable: a file of `tls` is not usable.

    """
    path = f"/blobs/{check_key(key)}"
    return _request(_Server.at(address, tls), "GET", path, None, attempts, expected_digest=digest_of(key))


def delete_blob(address: str, key: str, *, tls: TlsFiles | None = None) -> bool:
    """Remove a transient blob before it expires; tell whether it was there.

    Raises:
        InvalidBlobKey: the key is not valid.
        BlobRefused: it is the key of a permanent blob, or the server's certificate is not to be trusted.
        BlobUnavailable: no answer after every attempt.
        TlsUnusable: a file of `tls` is not usable.

    """
    try:
        _request(_Server.at(address, tls), "DELETE", f"/blobs/{check_key(key)}", None, DEFAULT_ATTEMPTS)
    except BlobNotFound:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Server:
    """Whom to ask, and how."""

    host: str
    port: int
    context: ssl.SSLContext | None
    timeout_s: float

    @classmethod
    def at(cls, address: str, tls: TlsFiles | None, timeout_s: float = DEFAULT_TIMEOUT_S) -> Self:
        """Return the server at an address."""
        host, port = _split(address)
        return cls(host, port, None if tls is None else client_context(tls), timeout_s)

    def url(self, path: str) -> str:
        """Return the URL of a path, for people."""
        return f"{'http' if self.context is None else 'https'}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}{path}"

    def connect(self, left_s: float) -> http.client.HTTPConnection:
        """Return a connection that is not open yet."""
        timeout_s = max(_LEAST_TIMEOUT_S, min(self.timeout_s, left_s))
        if self.context is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout_s, context=self.context)


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes
    retry_after_s: float


def _request(
    server: _Server,
    method: str,
    path: str,
    body: bytes | memoryview | None,
    attempts: int,
    expected_digest: str | None = None,
    within_s: float = math.inf,
) -> bytes:
    """Repeat one request until it is answered for good."""
    deadline, made = time.monotonic() + within_s, 0
    delays = Backoff(_FIRST_DELAY_S, _MAX_DELAY_S)
    reason = "no attempt was allowed"
    wanted_s, is_unreachable = 0.0, False
    for attempt in range(attempts):
        if attempt:
            pause_s = max(wanted_s, delays.next_jittered(random.random()))  # noqa: S311 - jitter, not a secret
            if time.monotonic() + pause_s >= deadline:
                break
            time.sleep(pause_s)
            wanted_s = 0.0
        made += 1
        try:
            answer = _exchange(server, method, path, body, deadline - time.monotonic())
        except ssl.SSLCertVerificationError as error:
            raise BlobRefused(f"{method} {server.url(path)}: its certificate is not to be trusted: {error.verify_message}") from error
        except (OSError, http.client.HTTPException) as error:
            reason, is_unreachable = f"{type(error).__name__}: {error}", True
            continue
        is_unreachable = False
        if answer.status in _GOOD:
            if expected_digest is None or hashlib.sha256(answer.body).hexdigest() == expected_digest:
                return answer.body
            reason = f"the {len(answer.body)} bytes that came have another digest"
        elif answer.status in _REFUSALS or (answer.status < _SERVER_ERROR and answer.status not in _PASSING):
            error_type = _REFUSALS.get(answer.status, BlobRefused)
            raise error_type(f"{method} {server.url(path)}: {answer.status} {_error_text(answer.body)}")
        else:
            reason = f"{answer.status} {_error_text(answer.body)}"
            wanted_s = answer.retry_after_s
    if is_unreachable and server.host.lower() in LOOPBACK:
        reason += "; if the leader is on another host, set jobmanager.rpc.address and blob.server.bind-host there"
    failure = BlobUnavailable(f"{method} {server.url(path)} did not work in {made} attempts; the last one: {reason}")
    failure.is_unreachable = is_unreachable
    raise failure


def _exchange(server: _Server, method: str, path: str, body: bytes | memoryview | None, left_s: float) -> _Answer:
    connection = server.connect(left_s)
    try:
        connection.connect()
        # A server that refuses an upload answers before it has read it all: its answer says more than the broken pipe.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            connection.request(method, path, body=body, headers={"Connection": "close"})
        response = connection.getresponse()
        received = response.read() if response.status in _GOOD else response.read(_MAX_ERROR_BYTES)
        wait = response.getheader("Retry-After", "")
        return _Answer(response.status, received, min(float(wait), _MAX_DELAY_S) if wait.isascii() and wait.isdigit() else 0.0)
    finally:
        connection.close()


def _split(address: str) -> tuple[str, int]:
    host, separator, port = address.rpartition(":")
    if not separator or not host or not port.isdigit():
        raise BlobRefused(f"'{address}' is not a valid address of a blob server: host:port is expected")
    return host.strip("[]"), int(port)


def _error_text(answer: bytes) -> str:
    """Return what an error body says, whichever server or proxy wrote it."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(json.loads(answer)["error"])
    return answer[:200].decode("utf-8", "replace")
