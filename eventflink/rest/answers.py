"""Answers about the present as they were sent: what several clients ask at one offset is computed and written once.

Kept are answers to reads of Flink's API that are of one state alone, and those of the newest state that was asked about
(`reader/state_cache.py`). Who may ask is checked before an answer is looked for, by the same routes.
"""

from http import HTTPStatus
from typing import Any, Final

from fastapi import Request, Response
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventflink.reader.observed_state import Position
from eventflink.reader.state_cache import StateCache

_NOTE: Final = "of_state"
"""Where a request notes which state its answer is of; False: of none, or of more than that."""


class AlreadyAnswered(Exception):
    """The answer is known already."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


def answered(_: Request, error: Exception) -> Response:
    """Give the answer that is known."""
    if not isinstance(error, AlreadyAnswered):
        raise error
    return error.response


def look(cache: StateCache, position: Position | None, request: Request) -> None:
    """End a request that reads and whose answer is known; raises `AlreadyAnswered`. One that changes something reads as well."""
    if request.method == "GET" and (known := cache.get(position, _key_of(request.scope))) is not None:
        raise AlreadyAnswered(Response(known.body, headers=dict(known.headers)))


def note_state(request: Request, position: Position | None) -> None:
    """Note of which state an answer is; None: of more than a state, or of something else."""
    notes: dict[str, Any] = request.scope.setdefault("state", {})
    notes[_NOTE] = position if position is not None and notes.get(_NOTE, position) == position else False


class Remember:
    """Keeps what is sent of answers that say which state they are of."""

    def __init__(self, application: ASGIApp, cache: StateCache) -> None:
        """Stand before an application."""
        self._application = application
        self._cache = cache

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and its answer back."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._application(scope, receive, send)
            return
        notes: dict[str, Any] = scope.setdefault("state", {})
        position: Position | None = None
        headers: dict[str, str] = {}
        body = b""

        async def keep(message: Message) -> None:
            nonlocal position, headers, body
            if message["type"] == "http.response.start" and message["status"] == HTTPStatus.OK:
                position, headers = notes.get(_NOTE) or None, dict(Headers(raw=message["headers"]))
            elif message["type"] == "http.response.body" and position is not None:
                body += message.get("body", b"")
                if not message.get("more_body", False):
                    self._cache.keep(position, _key_of(scope), Response(body, headers=headers), len(body))
            await send(message)

        await self._application(scope, receive, keep)


def _key_of(scope: Scope) -> tuple[str, bytes]:
    return scope["path"], scope["query_string"]
