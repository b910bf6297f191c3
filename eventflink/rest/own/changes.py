"""Server-sent events: where the state stands, whenever it has changed. What has changed is then read like anything else, at that offset.

A browser that reads slowly gets fewer frames, each with all that came since the one before; one that reads nothing is let go. Nothing is
kept for it but the offset that it was told last.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from eventflink.events.wording import iso_time
from eventflink.reader.observed_state import ObservedState, StateChange
from eventflink.rest.access.roles import IdentityOfRequest
from eventflink.rest.errors import Errors
from eventflink.rest.reading import ServicesOfRequest

router = APIRouter()

FRAME_INTERVAL_S: Final = 0.25
SILENCE_S: Final = 15.0
"""After so long without a change a comment is sent, so that nobody on the way takes the connection for dead."""

SEND_TIMEOUT_S: Final = 30.0
MAX_JOBS: Final = 100


class EventStream(Response):
    """Frames of server-sent events, until the reader goes, reads nothing for long, or the process ends."""

    media_type = "text/event-stream"

    def __init__(self, state: ObservedState, name: str = "") -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._state = state
        self._name = name
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        """Send frames."""
        with self._state.watching(self._name):
            sending = asyncio.create_task(self._send_all(send))
            gone = asyncio.create_task(_until_gone(receive))
            try:
                await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
            finally:
                gone.cancel()
                sending.cancel()
                await asyncio.gather(sending, gone, return_exceptions=True)

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for frame in _frames(self._state):
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await send({"type": "http.response.body", "body": frame, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@router.get("/changes", response_class=Response, responses={200: {"content": {"text/event-stream": {}}}, 503: {"model": Errors}})
async def changes(services: ServicesOfRequest, identity: IdentityOfRequest) -> EventStream:
    """Follow the log: an event `at` for whatever has changed, at most four a second.

    Its data is an object: `offset`, `decided_at`, `epoch` and `master_id` of the state, `decisions_since` the frame before, `jobs` that
    these concern (at most 100), and `more`: it may be any other job as well.
    """
    name = identity.name if services.admission.authentication.needs_tokens else ""  # Without tokens everybody has the same.
    with services.state.watching(name):  # Refused here, while there is no answer yet.
        return EventStream(services.state, name)


async def _frames(state: ObservedState) -> AsyncIterator[bytes]:
    last = -1
    while not state.is_closed:
        change = state.change_since(last)
        if change is not None and change.log_offset != last:
            yield _frame(change)
            last = change.log_offset
            await asyncio.sleep(FRAME_INTERVAL_S)
        elif not await state.moved(last, SILENCE_S) and not state.is_closed:
            yield b": nothing has changed\n\n"


def _frame(change: StateChange) -> bytes:
    jobs = sorted(change.jobs) if change.jobs is not None else []
    document: dict[str, Any] = {
        "offset": change.log_offset,
        "decided_at": iso_time(change.decided_at_ms),
        "epoch": change.epoch,
        "master_id": change.master_id,
        "decisions_since": change.decisions,
        "jobs": jobs[:MAX_JOBS],
        "more": change.jobs is None or len(jobs) > MAX_JOBS,
    }
    return f"id: {change.log_offset}\nevent: at\ndata: {json.dumps(document)}\n\n".encode()


async def _until_gone(receive: Receive) -> None:
    """Wait until the reader has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
