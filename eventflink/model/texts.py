"""Texts of others within bounds: how many bytes of UTF-8 they have (P10a), how many lines a flood writes, what no terminal obeys."""

from collections.abc import Iterable
from typing import Final

_SHOWN: Final = 40
"""How much is repeated of a value that is wrong."""
_COMPARED: Final = 128
"""How much of a wrong name is compared with the right ones."""


def cut_bytes(text: str, max_bytes: int) -> str:
    """Return the beginning of a text that has at most so many bytes, in whole characters; half a surrogate pair becomes `?`."""
    if text.isascii():
        return text[:max_bytes]
    return text.encode(errors="replace")[:max_bytes].decode(errors="ignore")


def is_told(count: int) -> bool:
    """Tell whether the count-th of a kind gets a line: the first, the second, the fourth, the eighth …; so a flood writes few."""
    return count & (count - 1) == 0


def beginning_of(value: object) -> str:
    """Return the beginning of a value that is wrong, for a message."""
    try:
        return str(value)[:_SHOWN]
    except (ValueError, RecursionError):  # Python writes no whole number of thousands of digits, and nothing that nests too deeply.
        return f"a long {type(value).__name__}"


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return the nearest of the known names, as a question behind what is said of a wrong one; empty if none is near."""
    import difflib  # noqa: PLC0415 - only what failed pays for

    near = difflib.get_close_matches(name[:_COMPARED], known, 1) if isinstance(name, str) else []
    return f" (did you mean '{near[0]}'?)" if near else ""


_JOINERS: Final = "\u200c\u200d"
"""They join letters and emojis, and move nothing."""


def printable(text: str) -> str:
    """Return a text without what would move a terminal's cursor, change its colours or turn the direction of what follows."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c in _JOINERS else "\ufffd" for c in text)
