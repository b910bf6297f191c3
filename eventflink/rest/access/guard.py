"""What every request passes before a route sees it: its Host, its size, who sends it, from which page, and how often.

Whoever is nobody gets no further than what is public. Every answer leaves with the headers that keep browsers from doing harm with it.
"""

import asyncio
import logging
import math
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventflink.events.seal import NO_SEALS, Seals
from eventflink.model.configuration import Configuration
from eventflink.rest.access.authentication import Asked, Authentication, unauthorized
from eventflink.rest.access.browsers import HEADERS, refuse_foreign_order, refuse_foreign_read
from eventflink.rest.access.hosts import Hosts
from eventflink.rest.access.rates import Rates
from eventflink.rest.access.roles import is_public
from eventflink.rest.access.tokens import Tokens, TokensUnusable
from eventflink.rest.errors import RestError, answer_to, failed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

RECHECK_S: Final = 15.0
"""How long an answer goes on before it is asked again whose it is."""

MAX_IDENTITIES: Final = 10_000
MAX_HEAD_BYTES: Final = 64 * 1024
"""The server refuses what is longer than that and still incomplete; what comes all at once is refused here."""

MAX_BODY_BYTES: Final = 1024 * 1024
UPLOADS: Final = frozenset({"/jars/upload", "/v1/jars/upload", "/jobs", "/v1/jobs", "/eventflink/v1/jobs"})
"""Where files are posted as parts of a form, which go to disk as they come: such a body may be longer, as is configured."""

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
NOBODY: Final = "this needs a token: the header Authorization: Bearer TOKEN, or a session (POST /eventflink/v1/login)"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Admission:
    """Who may ask, under which names, and how often; by itself whoever is on this machine."""

    authentication: Authentication = field(default_factory=Authentication)
    hosts: Hosts = field(default_factory=Hosts)
    rates: Rates | None = None
    """None: nobody asks too often."""
    max_upload_bytes: int = MAX_BODY_BYTES

    def proof(self, seals: Seals) -> Seals:
        """Return what requests are sealed with, of the seals of the cluster: nothing, where nobody has to show who he is (L6)."""
        return seals if self.authentication.needs_tokens else NO_SEALS


def configured_admission(configuration: Configuration, bind_address: str, tokens: Tokens | None) -> Admission:
    """Return who may ask a process that listens on this address by this configuration; without tokens whoever is on this machine."""
    hosts = Hosts({*configuration.rest_names, bind_address})
    per_s = configuration.rest_requests_per_second
    rates = Rates(per_s, 2 * per_s, MAX_IDENTITIES) if tokens is not None else None
    return Admission(Authentication(tokens), hosts, rates, configuration.rest_max_upload_bytes)


def is_form(headers: Headers) -> bool:
    """Tell whether a body is a form with files in it."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() == "multipart/form-data"


class _NoLongerAdmitted(Exception):
    """Who is being answered is somebody else by now, or nobody."""


class _Answer:
    """An answer on its way: it gets its headers, and one that takes long ends when whoever gets it is not known any more."""

    def __init__(self, send: Send) -> None:
        self.has_begun = self.is_over = False
        self.may_go_on: Callable[[], Awaitable[bool]] | None = None
        self._send = send
        self._checked_at = asyncio.get_running_loop().time()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            headers = MutableHeaders(raw=message.setdefault("headers", []))
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        elif self.may_go_on is not None and (now := asyncio.get_running_loop().time()) - self._checked_at > RECHECK_S:
            self._checked_at = now
            if not await self.may_go_on():
                self.is_over = True
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                raise _NoLongerAdmitted
        await self._send(message)


class Guard:
    """The outermost part of an application."""

    def __init__(self, application: ASGIApp, admission: Admission) -> None:
        """Stand before an application."""
        self._application = application
        self._authentication = admission.authentication
        self._hosts = admission.hosts
        self._rates = admission.rates
        self._max_upload_bytes = admission.max_upload_bytes
        self._unusable = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have the application answer it."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
        if scope["type"] != "http":
            return
        answer = _Answer(send)
        try:
            asked = await self._admit(scope)
            scope.setdefault("state", {})["identity"] = asked.identity
            answer.may_go_on = partial(self._still_is, scope, asked)
            await self._application(scope, receive, answer.send)
        except RestError as error:
            await answer_to(error)(scope, receive, answer.send)
        except TokensUnusable as error:
            await answer_to(self._unusable_tokens(error))(scope, receive, answer.send)
        except ClientDisconnect:
            return  # Whoever asked is gone before everything was said; nobody waits for an answer.
        except Exception as error:
            if answer.is_over:
                return
            if answer.has_begun:
                raise
            await failed(scope["method"], scope["path"][:200], error)(scope, receive, answer.send)

    async def _still_is(self, scope: Scope, asked: Asked) -> bool:
        try:
            return await self._authentication.of(scope) == asked
        except (RestError, TokensUnusable):
            return False

    async def _admit(self, scope: Scope) -> Asked:
        """Return who sends a request that may go on.

        Raises:
            RestError: it may not.
            TokensUnusable: nobody can tell who sends it.

        """
        headers = Headers(scope=scope)
        asked_for = len(scope.get("raw_path") or scope["path"].encode()) + len(scope.get("query_string", b""))
        if asked_for + sum(len(name) + len(value) for name, value in headers.raw) > MAX_HEAD_BYTES:
            raise RestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the head of the request is longer than {MAX_HEAD_BYTES} bytes")
        self._hosts.check(headers.getlist("host"))
        length, most = headers.get("content-length", "0"), MAX_BODY_BYTES
        if scope["method"] == "POST" and scope["path"] in UPLOADS and is_form(headers):
            most = self._max_upload_bytes
        if not (length.isascii() and length.isdigit()) or int(length) > most or "transfer-encoding" in headers:
            message = f"the body is longer than {most} bytes, or does not say how long it is"
            raise RestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
        asked = await self._authentication.of(scope)
        self._unusable = "" if asked.identity is not None else self._unusable
        scope.setdefault("state", {})["by_cookie"] = asked.by_cookie
        if scope["method"] in _READING:
            refuse_foreign_read(scope)
        else:
            refuse_foreign_order(scope)
        if asked.identity is None:
            if not is_public(scope["method"], scope["path"]):
                raise unauthorized(NOBODY)
        elif self._rates is not None and (wait_s := self._rates.take(asked.identity.name)) > 0:
            message = f"{asked.identity.name} asks too often: again in {wait_s:.1f} s"
            raise RestError(HTTPStatus.TOO_MANY_REQUESTS, message, {"Retry-After": str(math.ceil(wait_s))})
        return asked

    def _unusable_tokens(self, error: TokensUnusable) -> RestError:
        """Return the error for who cannot be told from others; why is for who runs the process, once."""
        if str(error) != self._unusable:
            self._unusable = str(error)
            _logger.error("RestTokensUnusable reason=%s", error)
        return RestError(HTTPStatus.SERVICE_UNAVAILABLE, "tokens cannot be looked up right now: the log of this process says why")
