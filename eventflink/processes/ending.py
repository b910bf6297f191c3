"""How a process learns that it is to end: by signals, which mean the same whatever it does at that moment.

What it does then is its own business. The rules: one that is asked again while it ends still ends in order, and none is asked in vain.
Python runs a handler in the main thread between two instructions, so that a signal that comes just before a system call that waits, or to
another thread, is not seen before that call returns.
"""

import asyncio
import contextlib
import os
import signal
import socket
import threading
import types
from collections.abc import Callable, Collection, Iterator
from typing import Final

_WAKING: Final = signal.SIGURG
"""Interrupts the system call in which the main thread waits, so that it sees what came before; nothing else is meant by it."""
_WAKE_EVERY_S: Final = 0.05
_MOST_WAKINGS: Final = 200
"""One may be in vain where the main thread is just before its system call."""


def ending_on_signals() -> asyncio.Event:
    """Return what SIGINT and SIGTERM set from now on; call it in the main thread, in a running loop.

    They do nothing once the loop is closed. Handlers of the loop's own (`add_signal_handler`) go with it, and a process that is asked again
    between that and its exit would be killed.
    """
    loop, ending = asyncio.get_running_loop(), asyncio.Event()

    def handle(_number: int, _frame: types.FrameType | None) -> None:
        with contextlib.suppress(RuntimeError):  # What a closed loop raises.
            loop.call_soon_threadsafe(ending.set)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    return ending


@contextlib.contextmanager
def raised_on_signals(numbers: Collection[signal.Signals], error_of: Callable[[int], BaseException]) -> Iterator[None]:
    """Let signals raise an error in the main thread while the block runs, whatever it waits for; the first one, later ones do nothing.

    Args:
        numbers: those that ask for the end.
        error_of: called with the one that came; returns what is raised.

    """
    asked, is_on = threading.Event(), True

    def handle(number: int, _frame: types.FrameType | None) -> None:
        for each in before:  # A second one must not break off the end that the first one began.
            signal.signal(each, signal.SIG_IGN)
        asked.set()
        raise error_of(number)

    def restore() -> None:
        if not asked.is_set():
            for number, handler in before.items():
                signal.signal(number, handler)

    def restore_in_child() -> None:  # No thread watches there.
        if is_on:
            signal.set_wakeup_fd(-1)
            restore()

    told, tells = socket.socketpair()
    tells.setblocking(False)  # noqa: FBT003 - its only parameter
    before = {number: signal.getsignal(number) for number in numbers}
    waking_before = signal.signal(_WAKING, lambda *_: None)
    told_before = signal.set_wakeup_fd(tells.fileno(), warn_on_full_buffer=False)
    watching = threading.Thread(target=_wake_main_thread, args=(told, asked, frozenset(numbers)), name="signals", daemon=True)
    watching.start()
    os.register_at_fork(after_in_child=restore_in_child)
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        is_on = False
        restore()
        asked.set()
        signal.set_wakeup_fd(told_before)
        tells.close()
        watching.join()
        told.close()
        signal.signal(_WAKING, waking_before)


def _wake_main_thread(told: socket.socket, asked: threading.Event, numbers: frozenset[int]) -> None:
    """Interrupt what the main thread waits for when a signal has come, until its handler has run."""
    while came := told.recv(1):
        for _ in range(_MOST_WAKINGS if came[0] in numbers else 0):
            if asked.wait(_WAKE_EVERY_S):
                break
            signal.pthread_kill(threading.main_thread().ident or 0, _WAKING)
