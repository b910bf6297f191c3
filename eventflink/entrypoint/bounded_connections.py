"""Connections of an HTTP server, bounded in number, and each in how long it may take to say what it wants.

aiohttp waits for a request as long as its client takes to send it, and for as many clients as the process may open files: those that the
master needs for Kafka as well. Here one connection too many is closed at once, and so is one that sends no whole request in time. A request
that is being answered has all the time that its handler gives it.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

MAX_CONNECTIONS: Final = 2_500
DESCRIPTORS_SHARE: Final = 2
"""Of what the process may open a half is for the connections at most."""


class BoundedConnections:
    """Makes the protocols of a server's connections; `made` makes the HTTP protocol of one, and is called for each."""

    def __init__(self, made: Callable[[], asyncio.Protocol], most: int, request_timeout_s: float) -> None:
        self._made = made
        self._most = most
        self._request_timeout_s = request_timeout_s
        self._open: dict[asyncio.BaseProtocol, _Connection] = {}
        self.turned_away = 0

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol of a connection that was just accepted."""
        return _Connection(self._made(), self)

    def answering(self, protocol: asyncio.BaseProtocol) -> None:
        """Take note that a whole request has come: its connection may last for as long as the answer takes."""
        if (connection := self._open.get(protocol)) is not None:
            connection.disarm()

    def answered(self, protocol: asyncio.BaseProtocol) -> None:
        """Take note that the answer is ready: the next request has its own time."""
        if (connection := self._open.get(protocol)) is not None:
            connection.arm(self._request_timeout_s)

    def opened(self, inner: asyncio.Protocol, connection: "_Connection") -> bool:
        """Count a connection; tell whether it may stay."""
        if len(self._open) >= self._most:
            self.turned_away += 1
            return False
        self._open[inner] = connection
        connection.arm(self._request_timeout_s)
        return True

    def closed(self, inner: asyncio.Protocol) -> None:
        """Count it no more."""
        self._open.pop(inner, None)


class _Connection(asyncio.Protocol):
    """One connection: passes on to the HTTP protocol what the transport reports."""

    def __init__(self, inner: asyncio.Protocol, bounds: BoundedConnections) -> None:
        self._inner = inner
        self._bounds = bounds
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def arm(self, timeout_s: float) -> None:
        self.disarm()
        self._timer = asyncio.get_running_loop().call_later(timeout_s, self._abort)

    def disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: Any) -> None:
        if self._bounds.opened(self._inner, self):
            self._transport = transport
            self._inner.connection_made(transport)
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.disarm()
        if self._transport is not None:
            self._transport = None
            self._bounds.closed(self._inner)
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._transport is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._transport is not None else None

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()
