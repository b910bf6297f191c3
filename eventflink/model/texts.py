"""Texts of others within bounds: how many bytes of UTF-8 they have (P10a), how many lines a flood writes, what no terminal obeys."""

from typing import Final

_SHOWN: Final = 40
"""How much is repeated of a value that is wrong."""


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


_JOINERS: Final = "\u200c\u200d"
"""They join letters and emojis, and move nothing."""


def printable(text: str) -> str:
    """Return a text without what would move a terminal's cursor, change its colours or turn the direction of what follows."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c in _JOINERS else "\ufffd" for c in text)
