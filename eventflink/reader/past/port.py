"""What a request may ask of the past, and how it is refused: the port between the event loop and whoever holds the past.

The event loop never computes the past itself; who answers may be another process, so questions and answers are plain values.
"""

from enum import StrEnum
from typing import Any, Protocol


class Refusal(StrEnum):
    """Why there is no answer."""

    INVALID = "INVALID"
    NOT_FOUND = "NOT_FOUND"
    GONE = "GONE"
    """It was before the oldest record or state that there still is."""
    NOT_YET = "NOT_YET"
    """The same question may be answered later."""


class HistoryRefused(Exception):
    """There is no answer; the message says why in one sentence."""

    def __init__(self, refusal: Refusal, message: str) -> None:
        super().__init__(refusal, message)  # Both, so that it comes whole out of another process.
        self.refusal = refusal
        self.message = message

    def __str__(self) -> str:
        return self.message


class History(Protocol):
    """Answers questions about the past."""

    async def ask(self, question: str, *arguments: Any) -> Any:
        """Return the answer of the method of `Historian` that has this name.

        Raises:
            HistoryRefused: there is none.

        """

    def health(self) -> tuple[str, int]:
        """Return why nothing can be asked now, empty if it can, and how often whoever answers was started again."""


class NoHistory:
    """The history of a process that keeps none."""

    def health(self) -> tuple[str, int]:
        """Say that there is none."""
        return "this process keeps no history", 0

    async def ask(self, question: str, *_arguments: Any) -> Any:
        """Refuse."""
        raise HistoryRefused(Refusal.NOT_YET, f"the past is not there: this process keeps no history ({question})")
