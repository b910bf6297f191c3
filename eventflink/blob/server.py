"""The blob store behind HTTP, inside a master's event loop.

    PUT  /blobs        the body is the blob; 201 {"key": ..., "size": ...}
    GET  /blobs/{key}  its bytes; HEAD its size; 400 no key, 404 no blob, 500 damaged

Every error is a JSON object {"error": ...}. File work runs in threads of its own, so that a slow disk never holds up a
decision; every wait for a peer is bounded. There is no authentication: bind it where only the cluster reaches it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, Final, ParamSpec, TypeVar

from aiohttp import web

from eventflink.blob.errors import BlobDamaged, BlobError, BlobNotFound, BlobTooLarge, InvalidBlobKey
from eventflink.blob.store import CHUNK_BYTES, BlobStore, StoredBlob

CHUNK_TIMEOUT_S: Final = 30.0
REQUEST_TIMEOUT_S: Final = 600.0
SHUTDOWN_TIMEOUT_S: Final = 2.0
MAX_TRANSFERS: Final = 16

_STATUS_OF: Final[dict[type[BlobError], int]] = {InvalidBlobKey: 400, BlobNotFound: 404, BlobTooLarge: 413, BlobDamaged: 500}

logger = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer whatever is wrong with a status and one sentence, never with a page or a traceback."""
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            return await handler(request)
    except BlobError as error:
        return _error(_STATUS_OF.get(type(error), 500), str(error))
    except web.HTTPException as error:
        return _error(error.status, f"{request.method} {request.path}: {error.reason}")
    except TimeoutError:
        return _error(408, f"{request.method} {request.path}: the client sent or took nothing in time")
    except ConnectionError as error:
        logger.info("BlobTransferBrokenOff method=%s path=%s peer=%s", request.method, request.path, request.remote)
        return _error(400, f"{request.method} {request.path}: the connection broke off: {error}")
    except OSError as error:
        logger.exception("BlobRequestFailed method=%s path=%s", request.method, request.path)
        return _error(500, f"the blob store's disk failed: {error.strerror or error}")


class BlobServer:
    """Serves one BlobStore on one address."""

    def __init__(self, store: BlobStore, host: str, port: int, max_bytes: int) -> None:
        """Prepare to serve on `host`:`port` (0: any free port); blobs above `max_bytes` are refused."""
        self._store = store
        self._host = host
        self._port = port
        self._max_bytes = max_bytes
        self._runner: web.AppRunner | None = None
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="blob")
        self._transfers = asyncio.Semaphore(MAX_TRANSFERS)

    async def start(self) -> int:
        """Listen; return the port.

        Raises:
            OSError: the address cannot be bound.

        """
        application = web.Application(middlewares=[_errors_as_json])
        application.add_routes([web.put("/blobs", self._put), web.get("/blobs/{key:.*}", self._get)])
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT_S, keepalive_timeout=30.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        port = int(runner.addresses[0][1])
        logger.info("BlobServerStarted host=%s port=%d directory=%s", self._host, port, self._store.directory)
        return port

    async def stop(self) -> None:
        """Stop listening; transfers under way have two seconds to end."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*args, **kwargs))

    async def _put(self, request: web.Request) -> web.Response:
        if (request.content_length or 0) > self._max_bytes:
            raise BlobTooLarge(f"the blob has {request.content_length} bytes; {self._max_bytes} are taken (blob.max-size)")
        async with self._transfers:
            stored = await self._receive(request)
        logger.info("BlobStored key=%s size_bytes=%d peer=%s", stored.key, stored.size_bytes, request.remote)
        return web.json_response({"key": stored.key, "size": stored.size_bytes}, status=201)

    async def _receive(self, request: web.Request) -> StoredBlob:
        writer = await self._in_thread(self._store.begin, self._max_bytes)
        try:
            while True:
                async with asyncio.timeout(CHUNK_TIMEOUT_S):
                    chunk = await request.content.read(CHUNK_BYTES)
                if not chunk:
                    return await self._in_thread(writer.commit)
                await self._in_thread(writer.write, chunk)
        finally:
            # Not through the pool: a cancelled upload must not leave its file because the pool is shutting down.
            writer.abort()

    async def _get(self, request: web.Request) -> web.StreamResponse:
        key = request.match_info["key"]
        async with self._transfers:
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
