"""What one master says of itself over HTTP, whether it leads or not: how far it has come, and what its state is.

    GET /health              its role and epoch, and how far its accepted state reaches
    GET /digest              the digest of that state, equal at masters that stand at the same offset
    GET /metrics-address     where it serves its metrics

The state itself is read from whoever folds the log (`gateways/state_reads.py`): this process has a lease to keep. Answers name the master,
its role and epoch, and the offset of the last record of the log that they reflect (P4).
`?min_offset=N` waits until the state has reached N; `?linearizable=true` first asks Kafka where the log ends (L4); `?timeout_ms=N` bounds
the wait. Errors are JSON objects {"error": ...}. A digest is computed in a child process.
There is no authentication: bind it where only the cluster reaches it.
"""

import asyncio
import logging
import os
import resource
import signal
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from aiohttp import web
from confluent_kafka import KafkaException

from eventflink.documents.cluster import LogPosition
from eventflink.documents.plain import plain
from eventflink.entrypoint.bounded_connections import DESCRIPTORS_SHARE, MAX_CONNECTIONS, BoundedConnections
from eventflink.entrypoint.forked_digest import LIFETIME_S, DigestFailed, ForkedDigest, fork_digest
from eventflink.entrypoint.query_parameters import QueryRefused, ReadOptions, read_options_of
from eventflink.leadership.fold import Fold
from eventflink.leadership.participant import Participant
from eventflink.leadership.reads import Answered, Read, ReadRefused
from eventflink.log.replay import EndOffset
from eventflink.model.cluster_access import ClusterAccess
from eventflink.processes.http_log import HTTP_LOGGER
from eventflink.views.jobs_and_cluster import position_view

MAX_UNDER_WAY: Final = 200
SHUTDOWN_TIMEOUT_S: Final = 1.0
REQUEST_TIMEOUT_S: Final = 40.0
"""A connection that sends no whole request for so long is closed: longer than one without any is kept."""
_PATHS: Final = "/health, /digest, /metrics-address"
_logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was read, and where the state stood that it reflects."""

    value: Any
    position: LogPosition
    role: str


class QueryServer:
    """Serves the reads of one master process, over all its terms."""

    def __init__(
        self,
        access: ClusterAccess,
        master_id: str,
        host: str,
        port: int,
        present: Callable[[], Participant | None],
    ) -> None:
        """Prepare to serve on `host`:`port` (0: any free port); `present` returns the participant of the present term."""
        self._master_id = master_id
        self._host = host
        self._port = port
        self._present = present
        self.metrics_address = ""
        """Where this master serves its metrics; empty: nowhere."""
        self._end_offset = EndOffset(access)
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None
        self._connections: BoundedConnections | None = None
        self._kafka_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="query-kafka")
        self._digest_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="query-digest")
        self._digests = asyncio.Lock()
        self._child: tuple[ForkedDigest, asyncio.Future[str]] | None = None
        self._last_digest: tuple[object, str] | None = None
        """The newest one, with what identifies the state that it is of."""
        self._under_way = 0

    async def start(self) -> int:
        """Listen; return the port.

        Raises:
            OSError: the address cannot be bound.

        """
        application = web.Application(middlewares=[self._answer])
        application.add_routes(
            [
                web.get("/health", self._health),
                web.get("/metrics-address", self._metrics_address),
                web.get("/digest", self._digest),
            ]
        )
        runner = web.AppRunner(
            application, access_log=None, logger=HTTP_LOGGER, shutdown_timeout=SHUTDOWN_TIMEOUT_S, keepalive_timeout=30.0
        )
        await runner.setup()
        if runner.server is None:
            raise RuntimeError("aiohttp has set up no server")
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = min(MAX_CONNECTIONS, descriptors // DESCRIPTORS_SHARE) if descriptors != resource.RLIM_INFINITY else MAX_CONNECTIONS
        self._connections = BoundedConnections(runner.server, most, REQUEST_TIMEOUT_S)
        try:
            self._listener = await asyncio.get_running_loop().create_server(self._connections, self._host, self._port)
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        port = int(self._listener.sockets[0].getsockname()[1])
        _logger.info("QueryServerStarted host=%s port=%d", self._host, port)
        return port

    async def stop(self) -> None:
        """Stop listening; answers under way have a second to end."""
        if self._runner is not None and self._listener is not None:
            self._listener.close()
            await self._runner.cleanup()
            self._runner = self._listener = None
        if self._child is not None and not self._child[1].done():
            with suppress(ProcessLookupError):
                os.kill(self._child[0].process_id, signal.SIGKILL)
        for threads in (self._kafka_thread, self._digest_thread):
            threads.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._end_offset.close)

    # -- answers ---------------------------------------------------------------------------------------------------

    @web.middleware
    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Bound what is under way, and answer whatever is wrong with a status and one sentence."""
        if self._under_way >= MAX_UNDER_WAY:
            return self._error(503, f"{MAX_UNDER_WAY} requests are under way already: ask again later")
        connections = self._connections
        if connections is not None:
            connections.answering(request.protocol)
        self._under_way += 1
        try:
            return await handler(request)
        except QueryRefused as refusal:
            return self._error(refusal.status, str(refusal), **refusal.more)
        except web.HTTPException as error:
            return self._error(error.status, f"{request.method} {request.path}: {error.reason}; known: {_PATHS}")
        except Exception as error:
            _logger.exception("QueryFailed path=%s", request.path_qs)
            return self._error(500, f"{request.path}: {type(error).__name__}: {error}")
        finally:
            self._under_way -= 1
            if connections is not None:
                connections.answered(request.protocol)

    def _error(self, status: int, message: str, **more: Any) -> web.Response:
        headers = {"Retry-After": "1"} if status == 503 else None  # noqa: PLR2004 - HTTP's own number
        return web.json_response({"error": message, "master_id": self._master_id, **more}, status=status, headers=headers)

    def _respond(self, reading: _Reading, **fields: Any) -> web.Response:
        return web.json_response({"master_id": self._master_id, "role": reading.role, **fields, **plain(reading.position)})

    async def _health(self, request: web.Request) -> web.Response:
        return self._respond(await self._read(read_options_of(request), lambda _: None))

    async def _metrics_address(self, request: web.Request) -> web.Response:
        """Answer for this process alone, whatever its state."""
        read_options_of(request)
        return web.json_response({"master_id": self._master_id, "metrics_address": self.metrics_address})

    async def _digest(self, request: web.Request) -> web.Response:
        options = read_options_of(request)
        try:
            async with asyncio.timeout(options.timeout_s):
                await self._digests.acquire()
        except TimeoutError:
            raise QueryRefused(504, f"another digest was still being computed after {options.timeout_s:g} s") from None
        try:  # One child at a time; who waited finds the digest done, if nothing was decided meanwhile.
            reading = await self._read(options, self._begin_digest, when_quiet=True)
            digest = reading.value if isinstance(reading.value, str) else await self._finish_digest(reading, options.timeout_s)
        finally:
            self._digests.release()
        return self._respond(reading, digest=digest)

    # -- reading ---------------------------------------------------------------------------------------------------

    async def _read(self, options: ReadOptions, compute: Callable[[Fold], Any], *, when_quiet: bool = False) -> _Reading:
        """Ask the present participant, and wait for its answer."""
        min_offset = options.min_offset
        try:
            async with asyncio.timeout(options.timeout_s):
                if options.linearizable:
                    min_offset = max(min_offset, await self._end_of_log())
                return await self._ask(min_offset, compute, when_quiet=when_quiet)
        except TimeoutError:
            participant = self._present()
            stands = None if participant is None else participant.fold.last_offset
            where = "builds its state" if stands is None else f"stands at offset {stands}"
            wanted = "" if min_offset < 0 else f" at offset {min_offset} or later"
            message = f"this master had no accepted state{wanted} within {options.timeout_s:g} s; it {where}"
            raise QueryRefused(504, message, log_offset=stands, min_offset=min_offset) from None

    async def _end_of_log(self) -> int:
        """Return the offset of the last record that the log has now, as Kafka says."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._kafka_thread, self._end_offset.fetch) - 1
        except KafkaException as error:
            raise QueryRefused(503, f"Kafka does not say where the log ends: {error.args[0].str()}") from error

    async def _ask(self, min_offset: int, compute: Callable[[Fold], Any], *, when_quiet: bool) -> _Reading:
        participant = self._present()
        if participant is None:
            raise QueryRefused(503, "this master builds its state from the log: ask another one, or again later")
        answer: asyncio.Future[_Reading] = asyncio.get_running_loop().create_future()

        def deliver(answered: Answered | ReadRefused) -> None:
            if answer.done():
                return
            if isinstance(answered, ReadRefused):
                answer.set_exception(QueryRefused(503, str(answered)))
            else:
                # Right now the fold stands where the answer says.
                answer.set_result(_Reading(answered.value, position_view(participant.fold), answered.role))

        read = Read(min_offset, partial(_safely, compute), deliver, when_quiet=when_quiet)
        participant.reads.ask(read)
        try:
            reading = await answer
        finally:
            read.is_cancelled = True
        if isinstance(reading.value, Exception):
            raise reading.value
        return reading

    def _begin_digest(self, fold: Fold) -> Any:
        """Return the digest of this state if it was computed before, or else the future one of a child."""
        identity = (id(fold), fold.last_offset, fold.running_hash)  # The fold itself would stay in memory for that.
        if self._last_digest is not None and self._last_digest[0] == identity:
            return self._last_digest[1]
        child = fork_digest(fold)
        # Waited for whatever becomes of the client: the child has to be reaped.
        future = asyncio.get_running_loop().run_in_executor(self._digest_thread, child.result, LIFETIME_S)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._child = (child, future)
        return identity, future

    async def _finish_digest(self, reading: _Reading, timeout_s: float) -> str:
        log_offset = reading.position.log_offset
        identity, computing = reading.value
        try:
            async with asyncio.timeout(timeout_s):
                digest: str = await asyncio.shield(computing)
        except DigestFailed as error:
            raise QueryRefused(504, str(error), log_offset=log_offset) from error
        except TimeoutError:
            raise QueryRefused(504, f"the digest was not computed within {timeout_s:g} s", log_offset=log_offset) from None
        self._last_digest = (identity, digest)
        return digest


def _safely(compute: Callable[[Fold], Any], fold: Fold) -> Any:
    """Return an error instead of raising it: the caller is the loop that decides."""
    try:
        return compute(fold)
    except Exception as error:  # noqa: BLE001 - raised again where the request is answered
        return error
