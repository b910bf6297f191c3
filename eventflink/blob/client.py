"""Blocking access to a blob server, for clients and TaskExecutors: standard library only.

A blob that comes back is hashed before anybody sees it. Both calls are idempotent, so whatever may be a passing fault is
tried again with back-off, a bounded number of times; a refusal is raised at once.
"""

import contextlib
import hashlib
import http.client
import json
import random
import time
from typing import Final

from eventflink.blob.errors import BlobDamaged, BlobError, BlobNotFound, BlobRefused, BlobTooLarge, BlobUnavailable
from eventflink.blob.store import blob_key, check_key

DEFAULT_TIMEOUT_S: Final = 30.0
DEFAULT_ATTEMPTS: Final = 5
_FIRST_DELAY_S: Final = 0.1
_MAX_DELAY_S: Final = 2.0
_MAX_ERROR_BYTES: Final = 4096
_OK: Final = 200
_CREATED: Final = 201
_SERVER_ERROR: Final = 500
_REFUSALS: Final[dict[int, type[BlobError]]] = {404: BlobNotFound, 413: BlobTooLarge}
_PASSING: Final = frozenset({408, 429})


def put_blob(address: str, data: bytes, *, timeout_s: float = DEFAULT_TIMEOUT_S, attempts: int = DEFAULT_ATTEMPTS) -> str:
    """Upload bytes to the server at `address` (host:port); return their key.

    Raises:
        BlobTooLarge: the server takes no blob of this size.
        BlobRefused: the server refuses the request for another reason.
        BlobDamaged: the server stored other bytes than these.
        BlobUnavailable: no answer after every attempt, each bounded by `timeout_s` per network operation.

    """
    body = _request(address, "PUT", "/blobs", data, timeout_s, attempts)
    try:
        key = str(json.loads(body)["key"])
    except (ValueError, KeyError, TypeError) as error:
        raise BlobRefused(f"{address} does not answer as a blob server: {body[:80]!r}") from error
    if key != blob_key(data):
        raise BlobDamaged(f"{address} stored {key} where {blob_key(data)} was sent")
    return key


def get_blob(address: str, key: str, *, timeout_s: float = DEFAULT_TIMEOUT_S, attempts: int = DEFAULT_ATTEMPTS) -> bytes:
    """Return the blob `key` of the server at `address` (host:port), verified.

    Raises:
        InvalidBlobKey: the key is none.
        BlobNotFound: the server has no such blob.
        BlobUnavailable: no whole and undamaged blob came after every attempt, each bounded by `timeout_s` per network operation.

    """
    return _request(address, "GET", f"/blobs/{check_key(key)}", None, timeout_s, attempts, expected_digest=key)


def _request(
    address: str, method: str, path: str, body: bytes | None, timeout_s: float, attempts: int, expected_digest: str | None = None
) -> bytes:
    """Repeat one request until it is answered for good."""
    host, port = _split(address)
    delay_s = _FIRST_DELAY_S
    reason = "no attempt was allowed"
    for attempt in range(attempts):
        if attempt:
            time.sleep(delay_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
            delay_s = min(2 * delay_s, _MAX_DELAY_S)
        try:
            status, answer = _exchange(host, port, method, path, body, timeout_s)
        except (OSError, http.client.HTTPException) as error:
            reason = f"{type(error).__name__}: {error}"
            continue
        if status in (_OK, _CREATED):
            if expected_digest is None or hashlib.sha256(answer).hexdigest() == expected_digest:
                return answer
            reason = f"the {len(answer)} bytes that came have another digest"
        elif status < _SERVER_ERROR and status not in _PASSING:
            raise _REFUSALS.get(status, BlobRefused)(f"{method} http://{address}{path}: {status} {_error_text(answer)}")
        else:
            reason = f"{status} {_error_text(answer)}"
    raise BlobUnavailable(f"{method} http://{address}{path} did not work in {attempts} attempts; the last one: {reason}")


def _exchange(host: str, port: int, method: str, path: str, body: bytes | None, timeout_s: float) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        # A server that refuses an upload answers before it has read it all: its answer says more than the broken pipe.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, path, body=body, headers={"Connection": "close"})
        response = connection.getresponse()
        good = response.status in (_OK, _CREATED)
        return response.status, response.read() if good else response.read(_MAX_ERROR_BYTES)
    finally:
        connection.close()


def _split(address: str) -> tuple[str, int]:
    host, separator, port = address.rpartition(":")
    if not separator or not host or not port.isdigit():
        raise BlobRefused(f"'{address}' is no address of a blob server: host:port is expected")
    return host.strip("[]"), int(port)


def _error_text(answer: bytes) -> str:
    """Return what an error body says, whoever wrote it."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(json.loads(answer)["error"])
    return answer[:200].decode("utf-8", "replace")
