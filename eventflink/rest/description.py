"""The description of all operations in OpenAPI: made once, by the first who asks, and in a thread, as it takes a second and is large."""

import asyncio
import json
from typing import Any, Final

from fastapi import FastAPI, Request, Response

from eventflink.rest.errors import Errors

AN_ERROR: Final = {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{Errors.__name__}"}}}}
"""The description of an answer that is an error.

A model for each of eight errors of each route would have FastAPI make 1,400 validators that validate nothing, before the first answer.
"""


class DescribedApplication(FastAPI):
    """An application whose description has the shape of an error once."""

    def openapi(self) -> dict[str, Any]:
        """Return the description."""
        described = super().openapi()
        described["components"]["schemas"][Errors.__name__] = Errors.model_json_schema()
        return described


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
