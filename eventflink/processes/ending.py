"""How a process that runs an asyncio loop learns that it is to end: SIGINT and SIGTERM, which mean the same.

What it does then is its own business. The rule: one that is asked again while it ends still ends in order.
"""

import asyncio
import contextlib
import signal
import types


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
