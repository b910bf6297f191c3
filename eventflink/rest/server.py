"""A running REST process: it follows the log, serves, and ends in order when it is asked to.

It has nothing of its own: one that is killed is started again, and answers when it has read the log up to its end.
"""

import asyncio
import contextlib
import errno
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from typing import Final

import uvicorn

from eventflink.blob import BlobError
from eventflink.blob.job_archives import JobArchives
from eventflink.blob.open_storage import open_storage
from eventflink.gateways.async_gateways import AsyncDispatcherGateway, AsyncResourceManagerGateway
from eventflink.model.configuration import Configuration
from eventflink.model.metric_settings import read_ports
from eventflink.rest.application import build_application
from eventflink.rest.observed_state import ObservedState
from eventflink.rest.observer import Observer
from eventflink.rest.services import Services

MAX_CONNECTIONS: Final = 500
MAX_HEAD_BYTES: Final = 64 * 1024
KEEP_ALIVE_S: Final = 30
SHUTDOWN_TIMEOUT_S: Final = 5
_BACKLOG: Final = 128

_logger = logging.getLogger(__name__)


class RestFailed(Exception):
    """The process cannot serve; the message says why."""


class _Server(uvicorn.Server):
    """A server that leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run_rest(configuration: Configuration, bootstrap: str, announce: Callable[[str], ExitStack]) -> None:
    """Serve until SIGINT or SIGTERM; `announce` is given the URL, and what it gives is closed at the end.

    Raises:
        RestFailed: the port or the storage of the archives cannot be used.
        KafkaException, ReplayStalled, AdministrationError, LogUnusable, LogDiverged, LogNotDense: the log cannot be read or folded.

    """
    with _listen(configuration) as listener:
        asyncio.run(_run(configuration, bootstrap, listener, announce))


def _listen(configuration: Configuration) -> socket.socket:
    """Return a socket that listens on the first port that is free."""
    host, ports = configuration.rest_bind_address, read_ports(configuration.rest_ports)
    for port in ports:
        with ExitStack() as unless_it_listens:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listener = unless_it_listens.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((host, port))
                listener.listen(_BACKLOG)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                raise RestFailed(f"rest.bind-address: nobody can listen on {host}, port {port}: {error}") from error
            unless_it_listens.pop_all()
            return listener
    raise RestFailed(f"rest.bind-port: no port of {configuration.rest_ports} is free on {host}")


async def _run(configuration: Configuration, bootstrap: str, listener: socket.socket, announce: Callable[[str], ExitStack]) -> None:
    cluster_id = configuration.cluster_id
    state = ObservedState()
    async with AsyncExitStack() as at_the_end:
        dispatcher = await at_the_end.enter_async_context(AsyncDispatcherGateway(bootstrap, cluster_id))
        resource_manager = await at_the_end.enter_async_context(AsyncResourceManagerGateway(bootstrap, cluster_id))
        services = Services(configuration, state, dispatcher, resource_manager, _archives(configuration))
        server = _Server(
            uvicorn.Config(
                build_application(services),
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="off",
                limit_concurrency=MAX_CONNECTIONS,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_S,
                h11_max_incomplete_event_size=MAX_HEAD_BYTES,
                http="h11",
                ws="none",
            )
        )
        ending = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, ending.set)
        if not await _start(Observer(bootstrap, cluster_id, state), at_the_end, ending):
            return
        host, port = listener.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        at_the_end.enter_context(announce(url))
        _logger.info("RestServerStarted url=%s cluster=%s offset=%d", url, cluster_id, state.log_offset)
        serving = asyncio.create_task(server.serve([listener]))
        waiting = asyncio.create_task(ending.wait())
        await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        state.close()
        await serving
        waiting.cancel()
        _logger.info("RestServerStopped url=%s", url)


async def _start(observer: Observer, at_the_end: AsyncExitStack, ending: asyncio.Event) -> bool:
    """Read the log up to its end; tell whether that came before the process was asked to end."""
    at_the_end.push_async_callback(observer.stop)
    starting, waiting = asyncio.create_task(observer.start()), asyncio.create_task(ending.wait())
    await asyncio.wait((starting, waiting), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        return False
    waiting.cancel()
    await starting
    return True


def _archives(configuration: Configuration) -> JobArchives | None:
    if not configuration.archive_location:
        return None
    try:
        storage = open_storage(configuration.archive_location, "jobmanager.archive.fs.dir")
    except BlobError as error:
        raise RestFailed(str(error)) from error
    return JobArchives(storage, configuration.job_store_cache_size)
