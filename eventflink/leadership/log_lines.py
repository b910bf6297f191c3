"""What others said, as a log line shows it: on one line, and not longer than one reads.

A line break in an id would begin a line that nobody wrote, and a mark of writing direction would show another one than was written.
"""

from typing import Final

MAX_SHOWN_CHARACTERS: Final = 1_024


def one_line(text: str) -> str:
    """Return the text with what cannot be printed escaped as in Python, cut at the bound."""
    shown = text[:MAX_SHOWN_CHARACTERS]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
    return shown if len(text) <= MAX_SHOWN_CHARACTERS else f"{shown}…"
