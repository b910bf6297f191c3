"""Waiting for the end of a long-running command: Ctrl-C and SIGTERM mean the same, an orderly stop."""

import contextlib
import signal
import threading
import types
from collections.abc import Callable, Iterator
from typing import Final

_CHECK_EVERY_S: Final = 0.5


class StopAsked(Exception):
    """Somebody asked this process to stop."""


@contextlib.contextmanager
def stop_on_signals() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise `StopAsked` in the main thread while the block runs, once; later ones are ignored."""

    def stop(_signal_number: int, _frame: types.FrameType | None) -> None:
        # A second Ctrl-C must not break off the orderly stop that the first one began.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise StopAsked

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def ending_in_order() -> Iterator[None]:
    """Run a role that handles SIGINT and SIGTERM itself, and let them do nothing once it has ended.

    So a process that is asked twice has the exit code of its orderly end. Before the role runs there is nothing to end in order.
    """
    yield
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def wait_while_healthy(check: Callable[[], None]) -> None:
    """Call `check` twice a second, for ever: it raises when something is wrong, and a signal raises `StopAsked`."""
    forever = threading.Event()
    while True:
        check()
        forever.wait(_CHECK_EVERY_S)
