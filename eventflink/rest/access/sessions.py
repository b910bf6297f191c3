"""Sessions of browsers: under a random id that only a cookie has, the token that somebody logged in with.

They are kept in the process, and not signed into the cookie: so there is nothing to forge and no key to keep, a logout is one, and whatever
becomes of a token (removed, another role) holds for its sessions at once, since every request looks it up. The price: one logs in anew
where a process was started again, and at each of several processes.
"""

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

LIFETIME_S: Final = 12 * 3600
MAX_SESSIONS: Final = 1_000
MAX_SESSIONS_OF_ONE: Final = 20
_ID_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class _Session:
    name: str
    token: str
    until: float


class Sessions:
    """The sessions of one process, the oldest first. For one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: dict[bytes, _Session] = {}

    def __len__(self) -> int:
        """Return how many there are, also those that are over and were not noticed."""
        return len(self._sessions)

    def begin(self, name: str, token: str) -> str:
        """Return the id of a new session; the oldest ones of the same name, and then of all, make room for it."""
        now = self._clock()
        for key in [key for key, session in self._sessions.items() if session.until <= now]:
            del self._sessions[key]
        of_one = [key for key, session in self._sessions.items() if session.name == name]
        for key in of_one[: max(0, len(of_one) + 1 - MAX_SESSIONS_OF_ONE)]:
            del self._sessions[key]
        if len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        session_id = secrets.token_urlsafe(_ID_BYTES)
        self._sessions[_key(session_id)] = _Session(name, token, now + LIFETIME_S)
        return session_id

    def token_of(self, session_id: str) -> str | None:
        """Return the token of a session; None: there is none, or it is over."""
        session = self._sessions.get(_key(session_id))
        return session.token if session is not None and session.until > self._clock() else None

    def end(self, session_id: str) -> None:
        """End a session, if there is one."""
        self._sessions.pop(_key(session_id), None)


def _key(session_id: str) -> bytes:
    """Return under what a session is found: how long that takes tells nothing of the id."""
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).digest()
