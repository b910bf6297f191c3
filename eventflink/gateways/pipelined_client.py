"""Many requests at once over one channel: futures for the callers, one thread that matches the answers.

For benchmarks and bulk submission. How many requests may wait for their answers is bounded; a caller beyond that waits.
"""

import contextlib
import threading
import time
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Final, Self

from eventflink.events.inputs import Command, Request
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.gateways.errors import GatewayError, RequestTimedOut, refusal_of
from eventflink.gateways.request_channel import (
    MAX_REPEAT_AFTER_S,
    REPEAT_AFTER_S,
    Accepted,
    Answer,
    EncodedRequest,
    Refused,
    RequestChannel,
)
from eventflink.model.backoff import Backoff
from eventflink.model.cluster_access import ClusterAccess

MAX_PENDING: Final = 4096
_POLL_S: Final = 0.1
_STOP_TIMEOUT_S: Final = 5.0


@dataclass(slots=True)
class _Pending:
    request: EncodedRequest
    deadline: float
    send_again_at: float
    waits: Backoff[float]
    """Ever longer: a backlog must not grow by the repetitions of those who wait in it."""
    future: "Future[Accepted]" = field(default_factory=Future)


class PipelinedClient:
    """Sends without waiting. Any thread may send; close it, or use it as a context manager."""

    def __init__(
        self, access: ClusterAccess, *, request_timeout_s: float = 30.0, max_pending: int = MAX_PENDING, seals: Seals = NO_SEALS
    ) -> None:
        """Connect and start the thread that reads the answers; raises as `RequestChannel` does."""
        self._request_timeout_s = request_timeout_s
        self._channel = RequestChannel(access, seals=seals)
        self._pending: dict[str, _Pending] = {}
        self._lock = threading.Lock()
        self._room = threading.BoundedSemaphore(max_pending)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gateway-answers", daemon=True)
        self._thread.start()

    def send(self, request: Request) -> "Future[Accepted]":
        """Send a request; the future holds its acceptance, `RequestRefused` or `RequestTimedOut`.

        Waits while too many requests are unanswered.

        Raises:
            RequestRefused: the request is too large to be sent.
            GatewayError: the client is closed, or no room came in time.

        """
        encoded = self._channel.encode(request)
        if not self._room.acquire(timeout=self._request_timeout_s):
            raise GatewayError(f"too many requests are unanswered: none was answered within {self._request_timeout_s:g} s")
        now = time.monotonic()
        waits = Backoff(REPEAT_AFTER_S, MAX_REPEAT_AFTER_S)
        pending = _Pending(encoded, now + self._request_timeout_s, now + waits.next(), waits)
        with self._lock:
            if self._stopping.is_set():
                self._room.release()
                raise GatewayError("the client is closed")
            # Before it goes out, so that its answer finds it.
            self._pending[encoded.request_id] = pending
        try:
            self._channel.send(encoded)
        except GatewayError:
            self._take(encoded.request_id)
            raise
        # A future that is cancelled makes room for another, and its request is not sent again.
        pending.future.add_done_callback(lambda done: self._take(encoded.request_id) if done.cancelled() else None)
        return pending.future

    def tell(self, command: Command) -> str:
        """Send a command that wants no answer; return its request id once Kafka has it; raises as `RequestChannel.tell` does."""
        encoded = self._channel.encode(command, wants_reply=False)
        self._channel.tell(encoded, self._request_timeout_s)
        return encoded.request_id

    def _take(self, request_id: str) -> "Future[Accepted] | None":
        """Remove a pending request, making room for another."""
        with self._lock:
            pending = self._pending.pop(request_id, None)
        if pending is None:
            return None
        self._room.release()
        return pending.future

    def _run(self) -> None:
        next_check = time.monotonic() + _POLL_S
        try:
            while not self._stopping.is_set():
                for answer in self._channel.receive(_POLL_S, self._pending):
                    self._resolve(answer)
                if (now := time.monotonic()) >= next_check:
                    self._check_times(now)
                    next_check = now + _POLL_S
        except Exception as error:  # noqa: BLE001 - whatever ended this thread, those who wait must hear of it
            self._fail_all(GatewayError(f"the thread that reads the answers ended: {error}"))
        else:
            self._fail_all(GatewayError("the client was closed before the answer came"))

    def _resolve(self, answer: Answer) -> None:
        future = self._take(answer.request_id)
        if future is None:
            return  # Answered twice: the same answer.
        with contextlib.suppress(InvalidStateError):  # Its caller cancelled it.
            if isinstance(answer, Refused):
                future.set_exception(refusal_of(answer.code, answer.message, answer.log_offset))
            else:
                future.set_result(answer)

    def _check_times(self, now: float) -> None:
        """Resend requests that wait for long, and give up those that waited for too long."""
        with self._lock:
            late = [p for p in self._pending.values() if now >= p.send_again_at or now >= p.deadline]
        for pending in late:
            if now >= pending.deadline:
                message = (
                    f"request {pending.request.request_id} was not answered within {self._request_timeout_s:g} s; it may still be done"
                )
                self._fail(pending.request.request_id, RequestTimedOut(pending.request.request_id, message))
            else:
                pending.send_again_at = now + pending.waits.next()
                self._channel.send(pending.request)

    def _fail(self, request_id: str, error: GatewayError) -> None:
        future = self._take(request_id)
        if future is not None:
            with contextlib.suppress(InvalidStateError):
                future.set_exception(error)

    def _fail_all(self, error: GatewayError) -> None:
        with self._lock:
            self._stopping.set()
            left = list(self._pending)
        for request_id in left:
            self._fail(request_id, error)

    def close(self) -> None:
        """Stop; requests without an answer fail."""
        self._stopping.set()
        self._thread.join(_STOP_TIMEOUT_S)
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
