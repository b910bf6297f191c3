"""Serving an application on this host: the port, the bounds of the server, and an orderly end.

What the application answers from is the business of whoever builds it.
"""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final, cast

import uvicorn
from fastapi import FastAPI

from eventflink.model.metric_settings import read_ports
from eventflink.rest.access.guard import MAX_HEAD_BYTES
from eventflink.rest.access.protection import Protection
from eventflink.rest.connections import ConnectionBounds, bounded_http

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


def listen(address_key: str, host: str, ports_key: str, ports: str) -> socket.socket:
    """Return a socket that listens on the first port that is free; the keys are for messages.

    Raises:
        RestFailed: nobody can listen there, or no port is free.

    """
    for port in read_ports(ports):
        with ExitStack() as unless_it_listens:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            # asyncio has small parts of answers sent at once only where a socket says that it is one of TCP; head and body are two of them.
            listener = unless_it_listens.enter_context(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((host, port))
                listener.listen(_BACKLOG)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                raise RestFailed(f"{address_key}: nobody can listen on {host}, port {port}: {error}") from error
            unless_it_listens.pop_all()
            return listener
    raise RestFailed(f"{ports_key}: no port of {ports} is free on {host}")


async def serve(
    application: FastAPI,
    listener: socket.socket,
    ending: asyncio.Event,
    announce: Callable[[str], ExitStack],
    *,
    end_streams: Callable[[], None] = lambda: None,
    protection: Protection,
) -> None:
    """Serve until `ending` is set; `announce` is given the URL, and what it gives is closed at the end.

    `end_streams` ends the answers that have no end of their own. Who may ask is the application's business.
    """
    server = _Server(
        uvicorn.Config(
            application,
            log_config=None,
            log_level=logging.ERROR,  # What peers do wrong is not worth a line each.
            access_log=False,
            server_header=False,
            proxy_headers=False,  # Anybody can say that he asks for somebody else.
            lifespan="off",
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_S,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            http=cast("type[asyncio.Protocol]", bounded_http(ConnectionBounds(), protection.tls)),
            ws="none",
        )
    )
    host, port = listener.getsockname()[:2]
    host = protection.name or host
    url = f"{'http' if protection.tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"
    with announce(url):
        _logger.info("RestServerStarted url=%s", url)
        serving = asyncio.create_task(server.serve([listener]))
        waiting = asyncio.create_task(ending.wait())
        await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        end_streams()
        await serving
        waiting.cancel()
        _logger.info("RestServerStopped url=%s", url)
