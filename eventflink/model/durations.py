"""Durations as people write them, such as `36h`: as milliseconds, and back."""

import re
from typing import Final

_DURATION: Final = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
DURATION_RULE: Final = "a whole number with ms, s, m, h or d behind it"
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms_of(value: object) -> int | None:
    """Return how many milliseconds a text such as `36h` says; None: it follows no `DURATION_RULE`."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) * _UNITS_MS[match[2]] if match is not None else None


def duration_text(duration_ms: int) -> str:
    """Return the text that `duration_ms_of` reads, in the largest unit that leaves a whole number."""
    unit = next((unit for unit, ms in reversed(_UNITS_MS.items()) if duration_ms and duration_ms % ms == 0), "ms")
    return f"{duration_ms // _UNITS_MS[unit]}{unit}"
