"""The blob store behind HTTP or HTTPS, inside a master's event loop.

    PUT    /blobs        the body is the blob; 201 {"key": ..., "size": ...}; ?kind=transient for one that expires, ?job=ID for a job's
    GET    /blobs/{key}  its bytes; HEAD its size; 400 no key, 404 no blob, 500 damaged
    DELETE /blobs/{key}  removes a transient blob: 204; 404 no blob, 405 a permanent one: those are removed when no job needs them

Every error is a JSON object {"error": ...}. File work runs in threads of its own, so that a slow disk never holds up a
decision; every wait for a peer is bounded, and so are the transfers: beyond the backlog the answer is 503 with Retry-After. There is no
authentication but that of TLS with a CA: without it bind the server where only the cluster reaches it.
"""

import asyncio
import errno
import logging
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, ParamSpec, TypeVar

from aiohttp import web

from eventflink.blob import BlobDamaged, BlobError, BlobNotFound, BlobRefused, BlobsFull, BlobStorageFailed, BlobTooLarge, InvalidBlobKey
from eventflink.blob.keys import BlobKind, kind_of
from eventflink.blob.quota import Quota
from eventflink.blob.store import CHUNK_BYTES, NO_JOB, BlobStore, BlobWriter, StoredBlob
from eventflink.blob.tls import TlsFiles, server_context
from eventflink.model.job_graph_document import is_valid_job_id
from eventflink.model.port_range import ports_of
from eventflink.processes.disk import FAULTS, describe
from eventflink.processes.http_log import HTTP_LOGGER

CHUNK_TIMEOUT_S: Final = 30.0
REQUEST_TIMEOUT_S: Final = 600.0
SHUTDOWN_TIMEOUT_S: Final = 2.0
TURN_TIMEOUT_S: Final = 20.0
"""How long a request waits for its turn: less than a client waits for the server."""
RETRY_AFTER_S: Final = 1
FILE_THREADS: Final = 8

_STATUS_OF: Final[dict[type[BlobError], int]] = {
    InvalidBlobKey: 400,
    BlobRefused: 400,
    BlobNotFound: 404,
    BlobTooLarge: 413,
    BlobsFull: 507,
    BlobStorageFailed: 500,
    BlobDamaged: 500,
}

logger = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobServerSettings:
    """Where a server listens, and its bounds."""

    host: str = "127.0.0.1"
    ports: str = "0"
    """As `blob.server.port` is written."""
    max_bytes: int = 512 * 1024 * 1024
    max_total_bytes: int = 16 * 1024 * 1024 * 1024
    max_bytes_per_job: int = 4 * 1024 * 1024 * 1024
    max_transfers: int = 50
    backlog: int = 1000
    tls: TlsFiles | None = None


class _Busy(Exception):
    """There are more requests than the server has turns for."""


def _error(status: int, message: str, **headers: str) -> web.Response:
    return web.json_response({"error": message}, status=status, headers=headers)


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer whatever is wrong with a status and one sentence, never with a page or a traceback."""
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            return await handler(request)
    except web.HTTPException as error:
        return _error(error.status, f"{request.method} {request.path}: {error.reason}")
    except (_Busy, BlobError, OSError) as error:  # TimeoutError is an OSError.
        return _answer_to(request, error)


def _answer_to(request: web.Request, error: Exception) -> web.Response:
    what = f"{request.method} {request.path}"
    match error:
        case _Busy():
            # The body was not read: the connection cannot be used again.
            return _error(503, f"{what}: {error}", **{"Retry-After": str(RETRY_AFTER_S), "Connection": "close"})
        case BlobStorageFailed() | BlobsFull():
            logger.warning("BlobRequestFailed method=%s path=%s error=%s", request.method, request.path, error)
            return _error(_STATUS_OF[type(error)], str(error))
        case BlobError():
            return _error(_STATUS_OF.get(type(error), 500), str(error))
        case TimeoutError():
            return _error(408, f"{what}: the client sent or took nothing in time")
        case ConnectionError():
            logger.info("BlobTransferBrokenOff method=%s path=%s peer=%s", request.method, request.path, request.remote)
            return _error(400, f"{what}: the connection broke off: {error}")
        case _:
            logger.error("BlobRequestFailed method=%s path=%s", request.method, request.path, exc_info=error)
            reason = error.strerror if isinstance(error, OSError) else None
            return _error(500, f"the blob storage failed: {reason or error}")


class BlobServer:
    """Serves one BlobStore on one address."""

    def __init__(self, store: BlobStore, settings: BlobServerSettings) -> None:
        self._store = store
        self._settings = settings
        self._quota = Quota(settings.max_total_bytes, settings.max_bytes_per_job, store.usage)
        self._runner: web.AppRunner | None = None
        self._threads = ThreadPoolExecutor(max_workers=FILE_THREADS, thread_name_prefix="blob")
        self._turns = asyncio.Semaphore(settings.max_transfers)
        self._waiting = 0

    async def start(self) -> int:
        """Listen on the first port that is free; return it.

        Raises:
            OSError: none of the ports can be bound.
            TlsUnusable: a certificate, a key or a CA is not usable.

        """
        tls = self._settings.tls
        context = await self._in_thread(server_context, tls) if tls is not None else None
        application = web.Application(middlewares=[_errors_as_json])
        application.add_routes(
            [web.put("/blobs", self._put), web.get("/blobs/{key:.*}", self._get), web.delete("/blobs/{key:.*}", self._delete)]
        )
        runner = web.AppRunner(
            application, access_log=None, logger=HTTP_LOGGER, shutdown_timeout=SHUTDOWN_TIMEOUT_S, keepalive_timeout=30.0
        )
        await runner.setup()
        try:
            await self._bind(runner, context)
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        port = int(runner.addresses[0][1])
        location = self._store.storage.location
        logger.info("BlobServerStarted host=%s port=%d tls=%s storage=%s", self._settings.host, port, context is not None, location)
        return port

    async def _bind(self, runner: web.AppRunner, context: ssl.SSLContext | None) -> None:
        settings = self._settings
        taken: OSError | None = None
        for port in ports_of(settings.ports):
            try:
                await web.TCPSite(runner, settings.host, port, backlog=settings.backlog, ssl_context=context).start()
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                taken = error
            else:
                return
        raise OSError(errno.EADDRINUSE, f"blob.server.port: {settings.ports} on {settings.host}: already in use") from taken

    async def stop(self) -> None:
        """Stop listening; transfers under way have two seconds to end."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*args, **kwargs))

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Have one of the transfers; who finds the backlog full, or waits too long, is to come back."""
        if self._turns.locked():
            if self._waiting >= self._settings.backlog:
                raise _Busy(f"{self._waiting} requests wait already (blob.fetch.backlog): come back later")
            self._waiting += 1
            try:
                async with asyncio.timeout(TURN_TIMEOUT_S):
                    await self._turns.acquire()
            except TimeoutError:
                transfers = f"{self._settings.max_transfers} transfers at once (blob.fetch.num-concurrent)"
                raise _Busy(f"none of {transfers} ended within {TURN_TIMEOUT_S:g} s: come back later") from None
            finally:
                self._waiting -= 1
        else:
            await self._turns.acquire()
        try:
            yield
        finally:
            self._turns.release()

    async def _put(self, request: web.Request) -> web.Response:
        kind = request.query.get("kind", BlobKind.PERMANENT)
        if kind not in set(BlobKind):
            raise BlobRefused(f"'{kind[:80]}' is not a valid kind of blob: permanent or transient is expected")
        job_id = request.query.get("job", NO_JOB)
        if job_id != NO_JOB and not is_valid_job_id(job_id):
            raise BlobRefused(f"'{job_id[:128]}' is not a valid id of a job")
        if (request.content_length or 0) > self._settings.max_bytes:
            raise BlobTooLarge(f"the blob has {request.content_length} bytes; {self._settings.max_bytes} are taken (blob.max-size)")
        async with self._turn():
            stored = await self._receive(request, BlobKind(kind), job_id)
        logger.info("BlobStored key=%s size_bytes=%d job=%s peer=%s", stored.key, stored.size_bytes, job_id or "-", request.remote)
        return web.json_response({"key": stored.key, "size": stored.size_bytes}, status=201)

    async def _delete(self, request: web.Request) -> web.Response:
        key = request.match_info["key"]
        if kind_of(key) is BlobKind.PERMANENT:
            return _error(405, f"the blob {key} is permanent: it is removed when no job needs it", Allow="GET, HEAD")
        async with self._turn():
            if not await self._in_thread(self._store.delete, key):
                raise BlobNotFound(f"blob not found: {key}")
        logger.info("BlobDeleted key=%s peer=%s", key, request.remote)
        return web.Response(status=204)

    @property
    def _spool(self) -> Path:
        """Where what comes in is written first."""
        return self._store.storage.spool or Path(tempfile.gettempdir())

    async def _receive(self, request: web.Request, kind: BlobKind, job_id: str) -> StoredBlob:
        taken, stored = 0, None
        try:
            writer = await self._in_thread(self._store.begin, self._settings.max_bytes, kind)
            try:
                while True:
                    async with asyncio.timeout(CHUNK_TIMEOUT_S):
                        chunk = await request.content.read(CHUNK_BYTES)
                    if not chunk:
                        stored = await self._in_thread(self._commit, writer, job_id)
                        return stored
                    await self._in_thread(self._write, writer, chunk, job_id)
                    taken += len(chunk)
            finally:
                # Not through the pool: a cancelled upload must not leave its file because the pool is shutting down.
                writer.abort()
        except OSError as error:
            if error.errno in FAULTS:
                raise BlobsFull(f"no blob can be written: {describe(error, self._spool)}") from error
            raise
        finally:
            (self._quota.give_back if stored is None else self._quota.store)(taken, job_id)

    def _commit(self, writer: BlobWriter, job_id: str) -> StoredBlob:
        stored = writer.commit()
        if job_id != NO_JOB:
            self._store.note_owner(stored.key, job_id)
        return stored

    def _write(self, writer: BlobWriter, chunk: bytes, job_id: str) -> None:
        self._quota.take(len(chunk), job_id)
        try:
            writer.write(chunk)
        except BaseException:
            self._quota.give_back(len(chunk), job_id)
            raise

    async def _get(self, request: web.Request) -> web.StreamResponse:
        key = request.match_info["key"]
        async with self._turn():
            file, size = await self._in_thread(self._store.open, key)
            with file:
                return await self._send(request, file, key, size)

    async def _send(self, request: web.Request, file: BinaryIO, key: str, size: int) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream", "ETag": f'"{key}"'})
        response.content_length = size
        await response.prepare(request)
        if request.method != "HEAD":
            while chunk := await self._in_thread(file.read, CHUNK_BYTES):
                async with asyncio.timeout(CHUNK_TIMEOUT_S):
                    await response.write(chunk)
        await response.write_eof()
        return response
