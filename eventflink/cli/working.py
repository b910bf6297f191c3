"""Telling a person that a command is at work: on standard error, only on a terminal, and only when it takes longer than a second."""

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Self, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN_AFTER_S: Final = 1.0
_SAY_EVERY: Final = 5_000

T = TypeVar("T")


class Working:
    """Shows what a command does for as long as the block runs."""

    def __init__(self, console: "Console", text: str) -> None:
        self._status = console.status(text) if console.is_terminal else None
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._timer = threading.Timer(_SHOWN_AFTER_S, self._status.start)
            self._timer.daemon = True
            self._timer.start()
        return self

    def say(self, text: str) -> None:
        """Say how far it is."""
        if self._status is not None:
            self._status.update(text)

    def count(self, values: Iterable[T], text: str) -> Iterator[T]:
        """Yield the values, and say from time to time how many have gone by."""
        for number, value in enumerate(values, 1):
            if number % _SAY_EVERY == 0:
                self.say(f"{number:,} {text}")
            yield value

    def end(self) -> None:
        """Show nothing any more: there is something better to see."""
        if self._timer is not None and self._status is not None:
            self._timer.cancel()
            self._timer.join()
            self._status.stop()
            self._timer = None

    def __exit__(self, *exception: object) -> None:
        self.end()
