"""Waiting for the end of a long-running command: Ctrl-C and SIGTERM mean the same, an orderly stop."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Final

from eventflink.processes.ending import raised_on_signals

_CHECK_EVERY_S: Final = 0.5


class StopAsked(Exception):
    """Somebody asked this process to stop."""


def stop_on_signals() -> contextlib.AbstractContextManager[None]:
    """Let SIGINT and SIGTERM raise `StopAsked` in the main thread while the block runs, once; later ones are ignored."""
    return raised_on_signals((signal.SIGINT, signal.SIGTERM), lambda _number: StopAsked())


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
