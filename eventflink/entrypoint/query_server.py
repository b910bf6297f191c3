"""Reads of the state over HTTP, at every master, whether it leads or not.

    GET /cluster             epoch, TaskManagers, slots, jobs by status
    GET /overview            how many there are of everything
    GET /jobs                the newest jobs: ?status=RUNNING (repeatable), ?limit=N
    GET /jobs/{id}           one job with its tasks; the beginning of its id is enough
    GET /jobs/{id}/exceptions  its newest failures and what they led to: ?limit=N
    GET /jobs/{id}/checkpoints  its checkpoints, and where each of its streams stood when it was last asked
    GET /jobs/{id}/status    where it stands
    GET /jobs/{id}/result    how it ended; waits for that as long as ?timeout_ms=N allows
    GET /job-statuses        the ids of all jobs, and where each stands
    GET /taskmanagers        every TaskManager
    GET /taskmanagers/{id}   one with its slots
    GET /metrics-address     where this very master serves its metrics
    GET /digest              the digest of the state, equal at masters that stand at the same offset

Every answer names the master, its role and epoch, and the offset of the last record of the log that it reflects (P4).
`?min_offset=N` waits until the state has reached N; `?linearizable=true` first asks Kafka where the log ends (L4); `?timeout_ms=N` bounds
the wait. A job that has left the memory is answered for from its archive, which the answer then names. Errors are JSON objects
{"error": ...}. Views are computed in the event loop and are bounded; everything else happens in threads, and a digest in a child process.
There is no authentication: bind it where only the cluster reaches it.
"""

import asyncio
import json
import logging
import os
import resource
import signal
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from aiohttp import web
from confluent_kafka import KafkaException

from eventflink.blob.job_archives import JobArchives
from eventflink.documents.cluster import LogPosition
from eventflink.documents.plain import plain
from eventflink.entrypoint.archive_reads import ArchiveReads
from eventflink.entrypoint.bounded_connections import DESCRIPTORS_SHARE, MAX_CONNECTIONS, ConnectionBounds
from eventflink.entrypoint.forked_digest import LIFETIME_S, DigestFailed, ForkedDigest, fork_digest
from eventflink.entrypoint.query_parameters import DEFAULT_TIMEOUT_MS, ReadOptions, Refusal, read_options_of, whole_number
from eventflink.leadership.fold import Fold
from eventflink.leadership.participant import Participant
from eventflink.leadership.reads import Answered, Read, ReadRefused
from eventflink.log.replay import EndOffset
from eventflink.model.backoff import Backoff
from eventflink.model.statuses import JobStatus
from eventflink.processes.http_log import HTTP_LOGGER
from eventflink.views import queries
from eventflink.views.archive import archived_checkpoints, archived_exceptions, archived_job, archived_result, archived_status
from eventflink.views.checkpoints import checkpoints_view
from eventflink.views.exceptions import exceptions_view
from eventflink.views.jobs_and_cluster import JobNotFound, cluster_view, find_job, job_view, jobs_view, position_view
from eventflink.views.plain import MAX_EXCEPTIONS, View

MAX_JOBS: Final = 1_000
DEFAULT_JOBS: Final = 100
MAX_UNDER_WAY: Final = 200
MAX_WAITING_FOR_RESULTS: Final = 2_000
SHUTDOWN_TIMEOUT_S: Final = 1.0
REQUEST_TIMEOUT_S: Final = 40.0
"""A connection that sends no whole request for so long is closed: longer than one without any is kept."""
_FIRST_LOOK_S: Final = 0.01
_LONGEST_LOOK_S: Final = 0.5
"""How often a job that is waited for is looked at: after ever longer pauses, so that long jobs cost little."""

_PATHS: Final = (
    "/cluster, /jobs, /jobs/{id}, /jobs/{id}/exceptions, /jobs/{id}/checkpoints, /jobs/{id}/status, /jobs/{id}/result, "
    "/job-statuses, /overview, /taskmanagers, /taskmanagers/{id}, /metrics-address, /digest"
)
_logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was read, and where the state stood that it reflects."""

    value: Any
    position: LogPosition
    role: str
    archive: str = ""
    """Where the archive is that it comes from; empty: it is the state's."""


class _JobMissing(Refusal):
    """The state does not hold the job; its archive may be there."""

    def __init__(self, reading: _Reading, missing: JobNotFound) -> None:
        super().__init__(404, str(missing), log_offset=reading.position.log_offset)
        self.reading = reading
        self.missing = missing


class QueryServer:
    """Serves the reads of one master process, over all its terms."""

    def __init__(
        self,
        bootstrap: str,
        cluster_id: str,
        master_id: str,
        host: str,
        port: int,
        present: Callable[[], Participant | None],
        archives: JobArchives | None = None,
    ) -> None:
        """Prepare to serve on `host`:`port` (0: any free port); `present` returns the participant of the present term.

        `archives` answers for jobs that have left the memory.
        """
        self._master_id = master_id
        self._host = host
        self._port = port
        self._present = present
        self._archives = ArchiveReads(archives)
        self.metrics_address = ""
        """Where this master serves its metrics; empty: nowhere."""
        self._end_offset = EndOffset(bootstrap, cluster_id)
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None
        self._connections: ConnectionBounds | None = None
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="query")
        self._kafka_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="query-kafka")
        self._digest_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="query-digest")
        self._digests = asyncio.Lock()
        self._child: tuple[ForkedDigest, asyncio.Future[str]] | None = None
        self._last_digest: tuple[object, str] | None = None
        """The newest one, with what identifies the state that it is of."""
        self._under_way = 0
        self._waiting_for_results = 0

    async def start(self) -> int:
        """Listen; return the port.

        Raises:
            OSError: the address cannot be bound.

        """
        application = web.Application(middlewares=[self._answer])
        application.add_routes(
            [
                web.get("/cluster", self._cluster),
                web.get("/overview", self._overview),
                web.get("/jobs", self._jobs),
                web.get("/jobs/{job_id}", self._job),
                web.get("/jobs/{job_id}/exceptions", self._exceptions),
                web.get("/jobs/{job_id}/checkpoints", self._checkpoints),
                web.get("/jobs/{job_id}/status", self._job_status),
                web.get("/jobs/{job_id}/result", self._job_result),
                web.get("/job-statuses", self._job_statuses),
                web.get("/taskmanagers", self._task_managers),
                web.get("/taskmanagers/{task_manager_id}", self._task_manager),
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
        self._connections = ConnectionBounds(runner.server, most, REQUEST_TIMEOUT_S)
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
        self._archives.close()
        for threads in (self._threads, self._kafka_thread, self._digest_thread):
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
        except Refusal as refusal:
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

    async def _respond(self, reading: _Reading, **fields: Any) -> web.Response:
        document = {"master_id": self._master_id, "role": reading.role, **fields}
        if reading.archive:
            document["archive"] = reading.archive
        document |= {"epoch": reading.position.epoch, "log_offset": reading.position.log_offset}
        # In a thread, which gives way to the event loop: a job may have ten thousand tasks.
        text = await asyncio.get_running_loop().run_in_executor(self._threads, _written, document)
        return web.Response(text=text, content_type="application/json")

    async def _cluster(self, request: web.Request) -> web.Response:
        reading = await self._read(read_options_of(request), cluster_view)
        return await self._respond(reading, cluster={**plain(reading.value), **plain(reading.position)})

    async def _jobs(self, request: web.Request) -> web.Response:
        options = read_options_of(request, "status", "limit")
        statuses = frozenset(request.query.getall("status", []))
        unknown = sorted(statuses - set(JobStatus))
        if unknown:
            raise Refusal(400, f"unknown status: '{unknown[0]}'; known: {', '.join(JobStatus)}")
        limit = whole_number(request, "limit", DEFAULT_JOBS, 1, MAX_JOBS)
        reading = await self._read(options, lambda fold: jobs_view(fold, statuses, limit))
        return await self._respond(reading, jobs=reading.value.jobs, total=reading.value.total)

    async def _job(self, request: web.Request) -> web.Response:
        job_id = request.match_info["job_id"]
        reading = await self._read_job(read_options_of(request), lambda fold: job_view(fold, job_id), archived_job)
        return await self._respond(reading, job=reading.value)

    async def _exceptions(self, request: web.Request) -> web.Response:
        options, job_id = read_options_of(request, "limit"), request.match_info["job_id"]
        limit = whole_number(request, "limit", MAX_EXCEPTIONS, 1, MAX_EXCEPTIONS)
        reading = await self._read_job(
            options, lambda fold: exceptions_view(find_job(fold, job_id), limit), partial(archived_exceptions, limit=limit)
        )
        return await self._respond(reading, **reading.value)

    async def _checkpoints(self, request: web.Request) -> web.Response:
        job_id = request.match_info["job_id"]
        reading = await self._read_job(
            read_options_of(request), lambda fold: checkpoints_view(find_job(fold, job_id)), archived_checkpoints
        )
        return await self._respond(reading, **reading.value)

    async def _overview(self, request: web.Request) -> web.Response:
        reading = await self._read(read_options_of(request), queries.overview)
        return await self._respond(reading, overview=reading.value)

    async def _job_statuses(self, request: web.Request) -> web.Response:
        reading = await self._read(read_options_of(request), queries.job_statuses)
        return await self._respond(reading, jobs=reading.value.jobs, total=reading.value.total)

    async def _job_status(self, request: web.Request) -> web.Response:
        compute = partial(queries.job_status, job_id=request.match_info["job_id"])
        reading = await self._read_job(read_options_of(request), compute, archived_status)
        return await self._respond(reading, job=reading.value)

    async def _job_result(self, request: web.Request) -> web.Response:
        """Answer when the job has ended; or, when the time is over, that it has not."""
        options = read_options_of(request)
        compute = partial(queries.job_result, job_id=request.match_info["job_id"])
        deadline = asyncio.get_running_loop().time() + options.timeout_s
        reading = await self._read_job(options, compute, archived_result)
        if not reading.value["is_terminal"] and self._waiting_for_results >= MAX_WAITING_FOR_RESULTS:
            raise Refusal(503, f"{MAX_WAITING_FOR_RESULTS} wait for results already: ask again later")
        # A request that waits for a result does not count as a read: it must not keep others from reading.
        self._under_way -= 1
        self._waiting_for_results += 1
        try:
            pauses = Backoff(_FIRST_LOOK_S, _LONGEST_LOOK_S)
            while not reading.value["is_terminal"] and (left_s := deadline - asyncio.get_running_loop().time()) > 0:
                await asyncio.sleep(min(pauses.next(), left_s))
                again = replace(options, linearizable=False, timeout_s=DEFAULT_TIMEOUT_MS / 1000)
                reading = await self._read_job(again, compute, archived_result)
        finally:
            self._waiting_for_results -= 1
            self._under_way += 1
        return await self._respond(reading, result=reading.value)

    async def _task_managers(self, request: web.Request) -> web.Response:
        reading = await self._read(read_options_of(request), queries.task_managers)
        return await self._respond(reading, task_managers=reading.value.task_managers)

    async def _task_manager(self, request: web.Request) -> web.Response:
        name = request.match_info["task_manager_id"]
        reading = await self._read(read_options_of(request), partial(queries.task_manager, task_manager_id=name))
        return await self._respond(reading, task_manager=reading.value)

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
            raise Refusal(504, f"another digest was still being computed after {options.timeout_s:g} s") from None
        try:  # One child at a time; who waited finds the digest done, if nothing was decided meanwhile.
            reading = await self._read(options, self._begin_digest, when_quiet=True)
            digest = reading.value if isinstance(reading.value, str) else await self._finish_digest(reading, options.timeout_s)
        finally:
            self._digests.release()
        return await self._respond(reading, digest=digest)

    # -- reading ---------------------------------------------------------------------------------------------------

    async def _read_job(self, options: ReadOptions, compute: Callable[[Fold], Any], from_archive: Callable[[View], Any]) -> _Reading:
        """Read what the state says of a job, or else its archive."""
        try:
            return await self._read(options, compute)
        except _JobMissing as missing:
            archive, location = await self._archives.find(missing.missing, missing.reading.position.log_offset)
            return replace(missing.reading, value=from_archive(archive), archive=location)

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
            raise Refusal(504, message, log_offset=stands, min_offset=min_offset) from None

    async def _end_of_log(self) -> int:
        """Return the offset of the last record that the log has now, as Kafka says."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._kafka_thread, self._end_offset.fetch) - 1
        except KafkaException as error:
            raise Refusal(503, f"Kafka does not say where the log ends: {error.args[0].str()}") from error

    async def _ask(self, min_offset: int, compute: Callable[[Fold], Any], *, when_quiet: bool) -> _Reading:
        participant = self._present()
        if participant is None:
            raise Refusal(503, "this master builds its state from the log: ask another one, or again later")
        answer: asyncio.Future[_Reading] = asyncio.get_running_loop().create_future()

        def deliver(answered: Answered | ReadRefused) -> None:
            if answer.done():
                return
            if isinstance(answered, ReadRefused):
                answer.set_exception(Refusal(503, str(answered)))
            else:
                # Right now the fold stands where the answer says.
                answer.set_result(_Reading(answered.value, position_view(participant.fold), answered.role))

        read = Read(min_offset, partial(_safely, compute), deliver, when_quiet=when_quiet)
        participant.reads.ask(read)
        try:
            reading = await answer
        finally:
            read.is_cancelled = True
        if isinstance(reading.value, JobNotFound):
            raise _JobMissing(reading, reading.value)
        if isinstance(reading.value, queries.TaskManagerNotFound):
            raise Refusal(404, str(reading.value), log_offset=reading.position.log_offset)
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
            raise Refusal(504, str(error), log_offset=log_offset) from error
        except TimeoutError:
            raise Refusal(504, f"the digest was not computed within {timeout_s:g} s", log_offset=log_offset) from None
        self._last_digest = (identity, digest)
        return digest


def _written(document: dict[str, Any]) -> str:
    return json.dumps(plain(document), ensure_ascii=False)


def _safely(compute: Callable[[Fold], Any], fold: Fold) -> Any:
    """Return an error instead of raising it: the caller is the loop that decides."""
    try:
        return compute(fold)
    except Exception as error:  # noqa: BLE001 - raised again where the request is answered
        return error
