"""How the Spark of a host ended that nobody had told to end, as its supervisor saw it."""

from dataclasses import dataclass
from typing import Final

MAX_REASON_LENGTH: Final = 500

_HEAP: Final = "its heap of "
_WAS_FULL: Final = " was full"


@dataclass(frozen=True, slots=True)
class SparkEnd:
    """How the Spark of a host ended that nobody had told to end."""

    ended_at_ms: int
    """When, in milliseconds since 1970 by the clock of the host."""
    reason: str
    """Such as "its heap of 1g was full"."""


def heap_was_full(memory: str) -> str:
    """Return the reason for the end of a Spark whose heap of this size was full."""
    return f"{_HEAP}{memory}{_WAS_FULL} (spark.local.memory, or the job's spark.memory)"


def is_of_full_heap(reason: str) -> bool:
    """Tell whether a reason is that of `heap_was_full`."""
    return reason.startswith(_HEAP) and _WAS_FULL in reason
