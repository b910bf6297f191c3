"""The description of all operations in OpenAPI: made once, by the first who asks, and in a thread, as it takes a second and is large."""

import asyncio
import json

from fastapi import FastAPI, Request, Response


class Description:
    """The description of one application. For one event loop."""

    def __init__(self, application: FastAPI) -> None:
        """Take the application; its routes may be added later."""
        self._application = application
        self._made: asyncio.Task[bytes] | None = None

    async def answer(self, _: Request) -> Response:
        """Answer with it."""
        if self._made is None or (self._made.done() and (self._made.cancelled() or self._made.exception() is not None)):
            self._made = asyncio.create_task(asyncio.to_thread(self._make))
        return Response(await asyncio.shield(self._made), media_type="application/json")

    def _make(self) -> bytes:
        return json.dumps(self._application.openapi(), ensure_ascii=False, separators=(",", ":")).encode()
