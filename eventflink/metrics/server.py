"""Serves the metrics of one process over HTTP, in a thread of its own with an event loop of its own.

    GET /metrics                  for Prometheus, as text or as OpenMetrics
    GET /threads                  the stacks of all threads                    if metrics.thread-dump.enabled
    GET /profile?seconds=N        a profile, ?clock=cpu (default) or wall      if metrics.profiler.enabled

The thread does not decide and sends no heartbeats: a process that hangs can still be looked at, and a scraper delays only this thread.
What is under way is bounded in number and in time. There is no authentication: bind it where only the cluster and its Prometheus reach it.
"""

import asyncio
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from prometheus_client.exposition import choose_encoder

from eventflink.metrics.registry import MetricRegistry
from eventflink.metrics.threads import CLOCKS, ClockMissing, dump_threads, profile
from eventflink.model.loopback import LOOPBACK
from eventflink.processes.http_log import HTTP_LOGGER

MAX_SCRAPES: Final = 4
SCRAPE_TIMEOUT_S: Final = 5.0
DEFAULT_PROFILE_S: Final = 10.0
START_TIMEOUT_S: Final = 10.0
STOP_TIMEOUT_S: Final = 5.0

_PATHS: Final = "/metrics, /threads, /profile?seconds=N"
_logger = logging.getLogger(__name__)


class NoFreePort(OSError):
    """None of the ports can be listened on; the message says which were tried."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where it listens, and what it allows besides metrics."""

    host: str
    ports: Sequence[int]
    thread_dump: bool = False
    profiler: bool = False
    max_profile_s: float = 60.0


class MetricsServer:
    """The server of one process."""

    def __init__(self, registry: MetricRegistry, settings: ServerSettings) -> None:
        self._registry = registry
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._workers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="metrics-scrape")
        self._profiler = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metrics-profile")
        self._started = threading.Event()
        self._stopping = threading.Event()
        self._stop: asyncio.Event | None = None
        self._error: Exception | None = None
        self._scrapes = 0
        self._profiles = 0
        self.port = 0

    def start(self) -> int:
        """Listen on the first port that is free; return it.

        Raises:
            NoFreePort: there is none.

        """
        self._thread.start()
        if not self._started.wait(START_TIMEOUT_S):
            raise NoFreePort(f"nobody listens on {self._settings.host} after {START_TIMEOUT_S:g} s")
        if self._error is not None:
            raise self._error
        return self.port

    def address_by(self, name: str) -> str:
        """Return host:port for others, who know this host by `name`: what listens on the loopback is reached there only."""
        host = self._settings.host if self._settings.host in LOOPBACK else name
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def stop(self) -> None:
        """Stop listening; waits a few seconds at most."""
        self._stopping.set()
        if self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(STOP_TIMEOUT_S)
        for workers in (self._workers, self._profiler):
            workers.shutdown(wait=False, cancel_futures=True)

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except Exception as error:
            self._error = error
            if self._started.is_set():
                _logger.exception("MetricsServerFailed")
        finally:
            self._started.set()
            self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        application = web.Application()
        application.add_routes([web.get("/metrics", self._metrics), web.get("/threads", self._threads), web.get("/profile", self._profile)])
        application.router.add_route("*", "/{path:.*}", _nothing_there)
        runner = web.AppRunner(application, access_log=None, logger=HTTP_LOGGER, shutdown_timeout=1.0, keepalive_timeout=75.0)
        await runner.setup()
        try:
            await self._listen(runner)
            self.port = int(runner.addresses[0][1])
            _logger.info("MetricsServerStarted host=%s port=%d", self._settings.host, self.port)
            self._started.set()
            await self._stop.wait()
        finally:
            await runner.cleanup()

    async def _listen(self, runner: web.AppRunner) -> None:
        host, ports = self._settings.host, self._settings.ports
        reason = "no port is configured"
        for port in ports:
            try:
                await web.TCPSite(runner, host, port).start()
            except OSError as error:
                reason = str(error)
            else:
                return
        tried = str(ports[0]) if len(ports) == 1 else f"{ports[0]} to {ports[-1]}"
        raise NoFreePort(f"metrics.reporter.prom.port {tried}: none can be listened on at {host}: {reason}")

    # -- answers ---------------------------------------------------------------------------------------------------

    async def _metrics(self, request: web.Request) -> web.Response:
        if self._scrapes >= MAX_SCRAPES:
            return _refusal(503, f"{MAX_SCRAPES} scrapes are under way already")
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        self._scrapes += 1
        scrape = self._loop.run_in_executor(self._workers, encode, self._registry.prometheus)
        scrape.add_done_callback(self._scraped)
        try:
            async with asyncio.timeout(SCRAPE_TIMEOUT_S):
                body = await asyncio.shield(scrape)
        except TimeoutError:
            return _refusal(504, f"collecting took longer than {SCRAPE_TIMEOUT_S:g} s")
        return web.Response(body=body, headers={"Content-Type": content_type})

    def _scraped(self, scrape: "asyncio.Future[bytes]") -> None:
        """Count a scrape as over only now: one that was given up still has its thread."""
        self._scrapes -= 1
        if not scrape.cancelled() and (error := scrape.exception()) is not None:
            _logger.error("ScrapeFailed", exc_info=error)

    async def _threads(self, _request: web.Request) -> web.Response:
        if not self._settings.thread_dump:
            return _refusal(403, "thread dumps are not allowed here: metrics.thread-dump.enabled is false")
        return web.Response(text=dump_threads())

    async def _profile(self, request: web.Request) -> web.Response:
        settings = self._settings
        if not settings.profiler:
            return _refusal(403, "profiles are not allowed here: metrics.profiler.enabled is false")
        clock = request.query.get("clock", "cpu")
        if clock not in CLOCKS:
            return _refusal(400, f"unknown clock: '{clock}'; known: {', '.join(CLOCKS)}")
        seconds = _seconds(request.query.get("seconds"))
        if seconds is None or not 0 < seconds <= settings.max_profile_s:
            return _refusal(400, f"seconds must be a number above 0 and at most {settings.max_profile_s:g}")
        if self._profiles:
            return _refusal(503, "a profile is being taken already")
        self._profiles += 1
        try:
            text = await self._loop.run_in_executor(self._profiler, profile, seconds, clock, self._stopping)
        except ClockMissing as error:
            return _refusal(501, str(error))
        finally:
            self._profiles -= 1
        return web.Response(text=text)


def _seconds(text: str | None) -> float | None:
    try:
        return DEFAULT_PROFILE_S if text is None else float(text)
    except ValueError:
        return None


def _refusal(status: int, message: str) -> web.Response:
    return web.Response(status=status, text=f"{message}\n")


async def _nothing_there(request: web.Request) -> web.Response:
    return _refusal(404, f"{request.method} {request.path}: there are GET {_PATHS}")
