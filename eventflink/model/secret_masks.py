"""The values of secrets that this process has been given, and texts without them: what a task says of its failure, and its log.

The rule it keeps: a value is known here before anybody else has it, and a text is masked before it is cut, so no piece of one is left.
"""

import json
import logging
from typing import Final
from urllib.parse import quote

MASK: Final = "***"
_LEAST_LINE: Final = 8
"""Of a value of several lines each that has so many characters is masked alone as well: traces indent them."""

_hidden: Final[set[str]] = set()
"""A process runs one task."""


def hide(value: str) -> None:
    """Have no text of this process show the value from now on, as it is, as Python and JSON quote it, and as URLs do."""
    lines = [line for line in value.splitlines() if len(line) >= _LEAST_LINE]
    for text in (value, *lines):
        _hidden.update((text, repr(text)[1:-1], json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], quote(text, safe="")))


def masked(text: str) -> str:
    """Return a text with `***` in the place of every value."""
    for each in sorted(_hidden, key=len, reverse=True):
        text = text.replace(each, MASK)
    return text


class MaskingFormatter(logging.Formatter):
    """Formats what is logged, traces included, without the values."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        return masked(super().format(record))
