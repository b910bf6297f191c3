"""Connections of a REST process: bounded in number, by peer, and each in how long it may take to say what it wants and to take the answer.

uvicorn waits for a request as long as its client takes to send it. Here a connection is counted from when it is accepted, also while TLS is
agreed on; one too many is closed at once, and so is one that sends no whole request in time, or that takes nothing of its answer. A request
that is being answered has all the time that its route gives it.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from eventflink.rest.access.rates import peer_of
from eventflink.rest.access.server_tls import ServerTls
from eventflink.rest.errors import Errors

MAX_CONNECTIONS: Final = 500
MAX_CONNECTIONS_OF_PEER: Final = 100
"""Of those that are not of this machine, where everybody may be behind one proxy."""

REQUEST_TIMEOUT_S: Final = 30.0
HANDSHAKE_TIMEOUT_S: Final = 10.0
UPLOAD_PROGRESS_BYTES: Final = 2 * 1024 * 1024
"""A request of which at least this much has come within its time has as long again: more than any has that uploads no files."""

STALLED_S: Final = 30.0
MIN_PROGRESS_BYTES: Final = 16 * 1024
"""Who takes less than this of an answer within that time is gone, or wants to hold it up."""

LATE_S: Final = 1.0
"""A timer that fires so much later than it should says that this process stood still, and nothing of its peers: what they have sent
meanwhile is not yet read, and what they would have taken was not offered."""

_MAX_EARLY_BYTES: Final = 256 * 1024


class ConnectionBounds:
    """How many connections there are, and may be."""

    def __init__(self, most: int = MAX_CONNECTIONS, most_of_peer: int = MAX_CONNECTIONS_OF_PEER) -> None:
        self._most = most
        self._most_of_peer = most_of_peer
        self._of_peers: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """How many there are."""
        return self._of_peers.total()

    def opened(self, peer: str) -> bool:
        """Count a connection; tell whether it may stay."""
        if self.count >= self._most or (peer and self._of_peers[peer] >= self._most_of_peer):
            return False
        self._of_peers[peer] += 1
        return True

    def closed(self, peer: str) -> None:
        """Count it no more."""
        self._of_peers[peer] -= 1
        if not self._of_peers[peer]:
            del self._of_peers[peer]


class BoundedConnection(asyncio.Protocol):
    """A connection from when it is accepted; what it says is read by the HTTP protocol inside."""

    def __init__(self, inner: "TimedHttp", bounds: ConnectionBounds, tls: ServerTls | None) -> None:
        self._inner = inner
        self._bounds = bounds
        self._tls = tls
        self._handshake: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        """Count it, and begin."""
        peer = peer_of(transport.get_extra_info("peername"))
        if not self._bounds.opened(peer):
            transport.abort()
            return
        self._inner.on_end = lambda: self._bounds.closed(peer)
        if self._tls is None:
            transport.set_protocol(self._inner)
            self._inner.connection_made(transport)
        else:
            self._handshake = asyncio.get_running_loop().create_task(self._agree(transport, self._tls.context()))

    def data_received(self, _: bytes) -> None:
        """Hear nothing before TLS is agreed on: whatever comes then is for the handshake."""

    async def _agree(self, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                transport,
                self._inner,
                tls,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
                ssl_shutdown_timeout=HANDSHAKE_TIMEOUT_S,
            )
        except OSError:  # ssl.SSLError, a timeout and a connection that is gone are such.
            secured = None
        if secured is None or secured.is_closing():
            transport.abort()
            self._inner.ended()
        else:
            self._inner.below = transport
            self._inner.connection_made(secured)


class TimedHttp(H11Protocol):
    """HTTP/1.1 whose peer has to go on."""

    def __init__(self, **of_server: Any) -> None:
        super().__init__(**of_server)
        self.on_end: Callable[[], None] = lambda: None
        self.below: asyncio.Transport | None = None
        """What carries TLS; it has what was encrypted and not taken."""
        self._early = b""
        self._is_lost = False
        self._sending: asyncio.TimerHandle | None = None
        self._received_bytes = 0
        """Since when `_sending` counts."""
        self._taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin; what TLS had decrypted by then comes first."""
        if self._is_lost:
            return
        super().connection_made(transport)
        self._time_request()
        if self._early:
            early, self._early = self._early, b""
            self.data_received(early)

    def connection_lost(self, exc: Exception | None) -> None:
        """End, also of one that never began."""
        self._is_lost = True
        self._stop_sending()
        self._stop_taking()
        self._unset_keepalive_if_required()
        if self.transport is not None:
            super().connection_lost(exc)
        self.ended()

    def ended(self) -> None:
        """Have it counted no more; once."""
        on_end, self.on_end = self.on_end, lambda: None
        on_end()

    def data_received(self, data: bytes) -> None:
        """Read on; a request that has begun has to be whole in time."""
        if self.transport is None:
            self._early = (self._early + data)[:_MAX_EARLY_BYTES]
            return
        if not self.flow.write_paused:
            self._stop_taking()
        self._time_request()
        self._received_bytes += len(data)
        super().data_received(data)
        if self._is_whole():
            self._stop_sending()

    def on_response_complete(self) -> None:
        """Wait for the next request; one that has come in part has its time from now."""
        super().on_response_complete()
        if self.cycle.more_body or self.conn.trailing_data[0]:
            self._time_request()

    def timeout_keep_alive_handler(self) -> None:
        """End a connection without a next request, once the last answer is taken."""
        if self._untaken():
            self._time_taking()
        else:
            super().timeout_keep_alive_handler()

    def pause_writing(self) -> None:
        """Wait until more of an answer was taken, for some time."""
        super().pause_writing()
        self._time_taking()

    def resume_writing(self) -> None:
        """Go on with an answer."""
        self._stop_taking()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request of HTTP in the shape of every error."""
        body = Errors(errors=[msg]).model_dump_json().encode()
        headers = [(b"content-type", b"application/json"), (b"connection", b"close"), (b"content-length", b"%d" % len(body))]
        try:
            for event in (h11.Response(status_code=400, headers=headers, reason=b"Bad Request"), h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            pass  # It came in the middle of an answer.
        self.transport.close()
        if self.cycle is not None and not self.cycle.response_complete:  # Nothing more of it can be sent.
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _stop_sending(self) -> None:
        _stop(self._sending)
        self._sending = None

    def _stop_taking(self) -> None:
        _stop(self._taking)
        self._taking = None

    def _is_whole(self) -> bool:
        """Tell whether a request is being answered, and is there as a whole."""
        return self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body

    def _time_request(self) -> None:
        if self._sending is None and not self._is_whole():
            self._received_bytes = 0
            due_s = self.loop.time() + REQUEST_TIMEOUT_S
            self._sending = self.loop.call_at(due_s, self._check_sending, due_s)

    def _check_sending(self, due_s: float) -> None:
        """End a request that has not come in time, unless it is a long one that goes on, and that somebody still wants."""
        self._sending = None
        goes_on = self._received_bytes >= UPLOAD_PROGRESS_BYTES and self.cycle is not None and not self.cycle.response_complete
        if goes_on or self._is_late(due_s):
            self._time_request()
        else:
            self.transport.abort()

    def _is_late(self, due_s: float) -> bool:
        return self.loop.time() - due_s > LATE_S

    def _untaken(self) -> int:
        return self.transport.get_write_buffer_size() + (self.below.get_write_buffer_size() if self.below is not None else 0)

    def _time_taking(self) -> None:
        self._stop_taking()
        due_s = self.loop.time() + STALLED_S
        self._taking = self.loop.call_at(due_s, self._check_taking, self._untaken(), due_s)

    def _check_taking(self, before: int, due_s: float) -> None:
        left = self._untaken()
        if left and (left <= before - MIN_PROGRESS_BYTES or self._is_late(due_s)):
            self._time_taking()
        elif left:
            self.transport.abort()
        elif self.cycle is None or self.cycle.response_complete:
            super().timeout_keep_alive_handler()


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def bounded_http(bounds: ConnectionBounds, tls: ServerTls | None) -> Callable[..., asyncio.Protocol]:
    """Return what makes the connections of a server, as uvicorn's `http` wants it."""

    def make(config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: Any = None) -> asyncio.Protocol:
        return BoundedConnection(TimedHttp(config=config, server_state=server_state, app_state=app_state, _loop=_loop), bounds, tls)

    return make
