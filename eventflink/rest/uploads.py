"""Forms with files in them: their parts go to disk as they come, so that no body is in memory as a whole, and few come at once.

How long a body may be is the guard's business; what the files are is the business of whoever reads the form.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import Depends, Request
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from eventflink.rest.access.guard import is_form
from eventflink.rest.errors import RestError

MAX_UPLOADS: Final = 4
"""How many are received, or looked at, at once."""

MAX_FIELDS: Final = 20
MAX_FIELD_BYTES: Final = 1024 * 1024


class Turns:
    """The uploads of a process that are under way."""

    def __init__(self) -> None:
        self._free = MAX_UPLOADS

    @contextmanager
    def take(self) -> Iterator[None]:
        """Be one of them.

        Raises:
            RestError: 503, there are as many as there may be.

        """
        if not self._free:
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, f"{MAX_UPLOADS} uploads are under way: try again later")
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


async def _turns_of(request: Request) -> Turns:  # Not by `ServicesOfRequest`: services have the turns.
    turns: Turns = request.app.state.services.turns
    return turns


TurnsOfRequest = Annotated[Turns, Depends(_turns_of)]


class _Parser(MultiPartParser):
    """Reads the texts of a form as UTF-8, where Starlette would guess, and refuses what is none."""

    spool_max_size = 64 * 1024

    def on_headers_finished(self) -> None:
        if self._charset != "utf-8":
            raise MultiPartException("its charset is not UTF-8")
        _check_text("a name", self._current_part.content_disposition or b"")
        super().on_headers_finished()

    def on_part_end(self) -> None:
        if self._current_part.file is None:
            _check_text(self._current_part.field_name[:128], self._current_part.data)
        super().on_part_end()


def _check_text(name: str, data: bytes | bytearray) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MultiPartException(f"{name}: not UTF-8: {error.reason} at byte {error.start}") from error


@asynccontextmanager
async def form_of(request: Request, *, max_files: int) -> AsyncIterator[FormData]:
    """Give the form that a request is; its files are gone behind the context.

    Raises:
        RestError: 400, it is none, has more parts or longer fields than are taken, a text that is not UTF-8, or a field twice.

    """
    if not is_form(request.headers):
        raise RestError(HTTPStatus.BAD_REQUEST, "invalid body: send a form with files, Content-Type: multipart/form-data")
    try:
        parser = _Parser(request.headers, request.stream(), max_files=max_files, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES)
        form = await parser.parse()
    except MultiPartException as error:
        raise RestError(HTTPStatus.BAD_REQUEST, f"the form cannot be read: {error.message}") from error
    except ClientDisconnect as error:
        raise RestError(HTTPStatus.BAD_REQUEST, "the body broke off") from error
    try:
        counts = Counter(name for name, value in form.multi_items() if isinstance(value, str))
        if twice := [name for name, count in counts.items() if count > 1]:
            raise RestError(HTTPStatus.BAD_REQUEST, f"body.{twice[0][:128]}: the field stands twice in the form")
        yield form
    finally:
        await form.close()


def files_of(form: FormData) -> list[tuple[str, UploadFile]]:
    """Return the files of a form with the names of their fields, in the order in which they came."""
    return [(name, value) for name, value in form.multi_items() if isinstance(value, UploadFile)]
