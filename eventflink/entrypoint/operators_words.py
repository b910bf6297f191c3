"""What an operator says to a master that would not go on by itself. Each word is for what is there now, and means nothing later."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class OperatorsWords:
    """What the command line of a master says beside its configuration."""

    rebound: Collection[str] = ()
    """Inbound topics that were created again, or truncated: their cursors are bound to what is there now (P9)."""
    accepted_log_end: int | None = None
    """Where the log ends now, to go on from there although there was more of it (P5a)."""


NO_WORDS: Final = OperatorsWords()
