"""The parameters of a read over HTTP: what every path takes, the bounds of each, and the error of one that is wrong."""

from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

DEFAULT_TIMEOUT_MS: Final = 10_000
MAX_TIMEOUT_MS: Final = 60_000
_WAITING_PARAMETERS: Final = frozenset({"min_offset", "linearizable", "timeout_ms"})
_TRUTHS: Final = {"true": True, "1": True, "": True, "false": False, "0": False}


class QueryRefused(Exception):
    """A request that gets an error for an answer."""

    def __init__(self, status: int, message: str, **more: Any) -> None:
        """Keep HTTP's status, and what the answer holds beside the message."""
        super().__init__(message)
        self.status = status
        self.more = more


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """From when on the state is asked for, and how long that may take."""

    min_offset: int
    linearizable: bool
    timeout_s: float


def read_options_of(request: web.Request) -> ReadOptions:
    """Read the parameters that every path has."""
    unknown = sorted(set(request.query) - _WAITING_PARAMETERS)
    if unknown:
        known = ", ".join(sorted(_WAITING_PARAMETERS))
        raise QueryRefused(400, f"unknown parameter: '{unknown[0]}'; known: {known}")
    text = request.query.get("linearizable", "false").lower()
    if text not in _TRUTHS:
        raise QueryRefused(400, f"invalid linearizable: '{text}' is neither true nor false")
    return ReadOptions(
        min_offset=_whole_number(request, "min_offset", -1, 0, 2**63 - 1),
        linearizable=_TRUTHS[text],
        timeout_s=_whole_number(request, "timeout_ms", DEFAULT_TIMEOUT_MS, 1, MAX_TIMEOUT_MS) / 1000,
    )


def _whole_number(request: web.Request, name: str, default: int, least: int, most: int) -> int:
    """Return a parameter that is a number within these bounds; raises `QueryRefused`."""
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and least <= int(text) <= most):  # noqa: PLR2004 - what fits 64 bits
        raise QueryRefused(400, f"invalid {name}: '{text[:40]}' is not a whole number from {least} to {most}")
    return int(text)
