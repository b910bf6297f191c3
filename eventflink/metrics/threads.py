"""What the threads of this process do: their stacks now, or over some seconds as a profile.

Both only look, from a thread of their own, so they work while the process hangs. The profile is in the format of collapsed stacks that
flame graph tools read: `thread;outermost;…;innermost weight`. With the clock `cpu` a stack weighs the processor time that its thread
used since the look before (microseconds, as the kernel counts); with `wall` each look counts one, whether the thread runs or waits. The
interpreter lets go of a computing thread about every five milliseconds, and at no other time can it be looked at.
"""

import os
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Final

INTERVAL_S: Final = 0.01
MAX_DEPTH: Final = 128
MAX_STACKS: Final = 20_000
"""Different stacks that one profile tells apart; further ones count as `(others)`."""

CLOCKS: Final = ("cpu", "wall")

_SCHEDULER: Final = Path("/proc/self/task")


def dump_threads() -> str:
    """Return the stacks of all Python threads as text, the innermost call last."""
    names = {thread.ident: thread for thread in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():  # noqa: SLF001 - the documented way to other threads' frames
        thread = names.get(ident)
        name = (
            f'"{thread.name}"{" daemon" if thread.daemon else ""} native_id={_native_id_of(thread)}'
            if thread is not None
            else "(not Python's)"
        )
        mine = " (writes this dump)" if ident == threading.get_ident() else ""
        parts.append(f"Thread {ident} {name}{mine}\n{''.join(traceback.format_stack(frame, limit=MAX_DEPTH))}")
    return f"{len(parts)} threads\n\n" + "\n".join(parts)


class ClockMissing(Exception):
    """The system does not tell how much processor time a thread has used."""


def profile(seconds: float, clock: str, stop: threading.Event) -> str:
    """Look at all other threads a hundred times a second and return what was seen, the heaviest stack first; ends early on `stop`.

    Raises:
        ClockMissing: `clock` is `cpu`, and the system does not have it.

    """
    if clock == "cpu" and not (_SCHEDULER / str(threading.get_native_id()) / "schedstat").is_file():
        raise ClockMissing("this system has no /proc/self/task/*/schedstat: ask with clock=wall")
    weights: Counter[str] = Counter()
    used_ns: dict[int, int] = {}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not stop.wait(INTERVAL_S):
        threads = {thread.ident: thread for thread in threading.enumerate()}
        frames = sys._current_frames()  # noqa: SLF001 - as above
        for ident, frame in frames.items():
            thread = threads.get(ident)
            if thread is None or (native_id := _native_id_of(thread)) is None or ident == threading.get_ident():
                continue
            weight = 1 if clock == "wall" else _passed_us(native_id, used_ns)
            if weight:
                stack = f"{_clean(thread.name)};{_stack_of(frame)}"
                weights[stack if stack in weights or len(weights) < MAX_STACKS else "(others)"] += weight
        del frames
    return "".join(f"{stack} {weight}\n" for stack, weight in weights.most_common())


def _native_id_of(thread: threading.Thread) -> int | None:
    """Return the kernel's id of a thread: Python's is that of the parent for the main thread of a process that was forked."""
    return os.getpid() if thread is threading.main_thread() and sys.platform == "linux" else thread.native_id


def _passed_us(native_id: int, used_ns: dict[int, int]) -> int:
    """Return how many microseconds of processor time a thread used since it was looked at last; 0 at the first look."""
    try:
        now_ns = int((_SCHEDULER / str(native_id) / "schedstat").read_text().split()[0])
    except (OSError, ValueError, IndexError):  # It has just ended.
        return 0
    before_ns = used_ns.get(native_id, now_ns)
    used_ns[native_id] = now_ns
    return (now_ns - before_ns) // 1000


def _stack_of(frame: FrameType) -> str:
    parts: list[str] = []
    present: FrameType | None = frame
    while present is not None and len(parts) < MAX_DEPTH:
        code = present.f_code
        parts.append(_clean(f"{present.f_globals.get('__name__', '?')}:{code.co_qualname}"))
        present = present.f_back
    return ";".join(reversed(parts))


def _clean(text: str) -> str:
    return text.replace(";", ",").replace(" ", "_").replace("\n", "_")
