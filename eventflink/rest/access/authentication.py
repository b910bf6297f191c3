"""Who sends a request: by the token in its header, or by the session in its cookie. What they may do is the business of `roles.py`.

Tokens that nobody knows are taken only so often from one peer, before anybody looks them up: whoever guesses, guesses slowly. A token that
was good a moment ago does not count there, so that a peer with many users behind it is no way to lock them out.
"""

import math
import re
from collections import OrderedDict
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from eventflink.rest.access.identity import UNAUTHENTICATED, Identity
from eventflink.rest.access.rates import Rates, peer_of
from eventflink.rest.access.sessions import Sessions
from eventflink.rest.access.tokens import TOKEN_PATTERN, Tokens, TokensUnusable, digest_of
from eventflink.rest.errors import RestError

FAILURES_AT_ONCE: Final = 10
FAILURES_PER_S: Final = 0.2
MAX_PEERS: Final = 10_000
MAX_KNOWN: Final = 1_000
_BEARER: Final = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +(\S+) *")
_PORT: Final = re.compile(r"(?<=:)\d{1,5}$")
_INVALID: Final = "the token is not valid"


@dataclass(frozen=True, slots=True)
class Asked:
    """Who sent a request."""

    identity: Identity | None
    """None: nobody known."""
    by_cookie: bool = False


class Authentication:
    """Tells who sends requests to one process. For one event loop."""

    def __init__(self, tokens: Tokens | None = None, failures: Rates | None = None, sessions: Sessions | None = None) -> None:
        """Take where tokens are looked up; None: nobody needs one."""
        self._tokens = tokens
        self._failures = failures or Rates(FAILURES_PER_S, FAILURES_AT_ONCE, MAX_PEERS)
        self._sessions = sessions or Sessions()
        self._known: OrderedDict[str, None] = OrderedDict()

    @property
    def needs_tokens(self) -> bool:
        """Whether somebody without a token is nobody."""
        return self._tokens is not None

    async def of(self, scope: Scope) -> Asked:
        """Return who sent a request.

        Raises:
            RestError: 401 the token is not valid; 429 too many were not.
            TokensUnusable: it cannot be told.

        """
        if self._tokens is None:
            return Asked(UNAUTHENTICATED)
        headers = Headers(scope=scope)
        if authorizations := headers.getlist("authorization"):
            bearer = _BEARER.fullmatch(authorizations[0]) if len(authorizations) == 1 else None
            return Asked(await self._identity_of(bearer[1] if bearer else "", scope))
        session_id = session_id_of(scope)
        token = self._sessions.token_of(session_id) if session_id else None
        if token is None:
            return Asked(None)
        identity = await self._tokens.identity_of(token)
        if identity is None:
            self._sessions.end(session_id)
        return Asked(identity, by_cookie=identity is not None)

    async def log_in(self, token: str, scope: Scope) -> tuple[Identity, str]:
        """Return whose token it is, and the id of a new session; one that the request has ends.

        Raises:
            RestError: 401 the token is not valid; 409 nobody needs one here; 429 too many were not.
            TokensUnusable: it cannot be told.

        """
        if self._tokens is None:
            raise RestError(HTTPStatus.CONFLICT, "this process has no tokens: nobody needs to log in")
        identity = await self._identity_of(token, scope)
        self.log_out(scope)
        return identity, self._sessions.begin(identity.name, token)

    def log_out(self, scope: Scope) -> None:
        """End the session that a request has, if it has one."""
        self._sessions.end(session_id_of(scope))

    async def _identity_of(self, token: str, scope: Scope) -> Identity:
        if self._tokens is None or not TOKEN_PATTERN.fullmatch(token):
            token = ""
        digest, peer = digest_of(token), peer_of(scope.get("client"))
        counts = digest not in self._known
        if counts and (wait_s := self._failures.take(peer)) > 0:
            message = "too many tokens that are not valid came from there: ask again later"
            raise RestError(HTTPStatus.TOO_MANY_REQUESTS, message, {"Retry-After": str(math.ceil(wait_s))})
        self._known.pop(digest, None)
        try:
            identity = await self._tokens.identity_of(token) if self._tokens is not None and token else None
        except TokensUnusable:
            self._failures.give_back(peer)  # It has failed nobody.
            raise
        if identity is None:
            raise unauthorized(_INVALID)
        if counts:
            self._failures.give_back(peer)
        self._known[digest] = None
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return identity


def unauthorized(message: str) -> RestError:
    """Return the error for who is not known; it never says more than that."""
    return RestError(HTTPStatus.UNAUTHORIZED, message, {"WWW-Authenticate": 'Bearer realm="eventflink"'})


def cookie_name(scope: Scope) -> str:
    """Return the name of the session's cookie: browsers share cookies among all ports of a host, and no other process is to be shown ours.

    Under TLS the prefix keeps it from being set by a page of a neighbouring name, and from ever being sent in the clear.
    """
    port = _PORT.search(Headers(scope=scope).get("host", ""))
    name = f"eventflink-{port[0] if port else 'session'}"
    return f"__Host-{name}" if scope.get("scheme") == "https" else name


def session_id_of(scope: Scope) -> str:
    """Return the id of the session that a request names; empty: none."""
    return cookie_parser(Headers(scope=scope).get("cookie", "")).get(cookie_name(scope), "")
