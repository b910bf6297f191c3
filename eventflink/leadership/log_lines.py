"""What others said, as a log line shows it: on one line, and not longer than one reads.

A line break in an id would begin a line that nobody wrote, and a mark of writing direction would show another one than was written. So
every message of a process that logs by `OneLineRecord` is one line, whatever is in it; `one_line` is for what may be long as well.
"""

import logging
from typing import Final

MAX_SHOWN_CHARACTERS: Final = 1_024


def one_line(text: str) -> str:
    """Return the text with what cannot be printed escaped as in Python, cut at the bound."""
    shown = escaped(text[:MAX_SHOWN_CHARACTERS])
    return shown if len(text) <= MAX_SHOWN_CHARACTERS else f"{shown}…"


def escaped(text: str) -> str:
    """Return the text with what cannot be printed escaped as in Python."""
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class OneLineRecord(logging.LogRecord):
    """A record whose message is one line, for every handler and format; `logging.setLogRecordFactory` takes it. A traceback has its own."""

    def getMessage(self) -> str:  # noqa: N802 - logging's name
        """Return the message with its arguments, escaped."""
        return escaped(super().getMessage())
