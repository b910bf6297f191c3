"""What every request passes before a route sees it: its Host, its size, who sends it, from which page, and how often.

Whoever is nobody gets no further than what is public. Every answer leaves with the headers that keep browsers from doing harm with it.
"""

import logging
import math
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventflink.model.configuration import Configuration
from eventflink.rest.access.authentication import Asked, Authentication, unauthorized
from eventflink.rest.access.browsers import HEADERS, refuse_foreign_order, refuse_foreign_read
from eventflink.rest.access.hosts import Hosts
from eventflink.rest.access.rates import Rates
from eventflink.rest.access.roles import is_public
from eventflink.rest.access.tokens import Tokens, TokensUnusable
from eventflink.rest.errors import RestError, answer_to, failed

MAX_IDENTITIES: Final = 10_000
MAX_BODY_BYTES: Final = 1024 * 1024
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


def configured_admission(configuration: Configuration, bind_address: str, tokens: Tokens | None) -> Admission:
    """Return who may ask a process that listens on this address by this configuration; without tokens whoever is on this machine."""
    hosts = Hosts({*configuration.rest_names, bind_address})
    per_s = configuration.rest_requests_per_second
    rates = Rates(per_s, 2 * per_s, MAX_IDENTITIES) if tokens is not None else None
    return Admission(Authentication(tokens), hosts, rates)


class Guard:
    """The outermost part of an application."""

    def __init__(self, application: ASGIApp, admission: Admission) -> None:
        """Stand before an application."""
        self._application = application
        self._authentication = admission.authentication
        self._hosts = admission.hosts
        self._rates = admission.rates
        self._unusable = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have the application answer it."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
        if scope["type"] != "http":
            return
        begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(raw=message["headers"])
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            asked = await self._admit(scope)
            scope.setdefault("state", {})["identity"] = asked.identity
            await self._application(scope, receive, send_with_headers)
        except RestError as error:
            await answer_to(error)(scope, receive, send_with_headers)
        except TokensUnusable as error:
            await answer_to(self._unusable_tokens(error))(scope, receive, send_with_headers)
        except Exception as error:
            if begun:
                raise
            await failed(scope["method"], scope["path"][:200], error)(scope, receive, send_with_headers)

    async def _admit(self, scope: Scope) -> Asked:
        """Return who sends a request that may go on.

        Raises:
            RestError: it may not.
            TokensUnusable: nobody can tell who sends it.

        """
        headers = Headers(scope=scope)
        self._hosts.check(headers.getlist("host"))
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or int(length) > MAX_BODY_BYTES or "transfer-encoding" in headers:
            message = f"the body is longer than {MAX_BODY_BYTES} bytes, or does not say how long it is"
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
