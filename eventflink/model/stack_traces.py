"""Stack traces of Python as their readers want them: the user's own frames, and the rest folded or cut.

Of a trace that is too long the frames of libraries go first, then the middle of messages, which are often whole traces of a JVM. Frames
of the user's own code and the first line of each exception are left, as far as there is room at all.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Final

_FRAME: Final = re.compile(r'  File "(?P<path>[^"]*)", line (?P<line>\d+)(?:, in (?P<function>.+))?')
_PACKAGE: Final = re.compile(r"[/\\](?:site|dist)-packages[/\\]([^/\\.]+)")
_PYTHON: Final = re.compile(r"[/\\]lib[/\\]python\d|^<frozen")
_PLATFORM: Final = re.compile(r"[/\\](eventflink)[/\\](?:jobs|streams|taskexecutor)[/\\]")
_OF_ARCHIVE: Final = re.compile(r"(?:(?<=\")[^\"\n]*|[^\s\"]*)[/\\][0-9a-f]{64}(?:\.zip)?[/\\]")
"""Where a code archive lies on its host, which says nothing to who wrote what is in it."""

_SHOWN_MESSAGE: Final = 3
_LEAST_LEFT_OUT: Final = 2
"""One line is not replaced by a line that says so."""


def cut_stack_trace(trace: str, fits: Callable[[str], bool]) -> str:
    """Return a trace without what its reader misses least, as soon as it fits; it may be that nothing makes it fit."""
    if fits(trace):
        return trace
    blocks = list(_blocks(trace.splitlines()))
    for cut in (_without_libraries, _with_short_messages):
        blocks = cut(blocks)
        shorter = "\n".join(line for _, lines in blocks for line in lines)
        if fits(shorter):
            break
    return shorter


def folded_stack_trace(trace: str) -> str:
    """Return a trace with the frames of libraries folded, and files of code archives by their names in the archive."""
    blocks = _without_libraries(list(_blocks(trace.rstrip().splitlines())))
    return _OF_ARCHIVE.sub("", "\n".join(line for _, lines in blocks for line in lines))


def user_location(trace: str) -> str:
    """Return where the user's code was when it failed, such as `orders.py:5 in total`; empty: no frame of the trace is the user's."""
    frames = [frame for line in trace.splitlines() if (frame := _FRAME.match(line)) and _library(frame["path"]) is None]
    if not frames:
        return ""
    frame = frames[-1]
    function = frame["function"]
    path = _OF_ARCHIVE.sub("", f'"{frame["path"]}')[1:]  # In its quotation marks it may have blanks.
    return f"{path}:{frame['line']}" + (f" in {function}" if function and function != "<module>" else "")


_Block = tuple[str | None, list[str]]
"""Lines, and the path of the file that they are of; None: they are no frame."""


def _blocks(lines: Iterable[str]) -> Iterator[_Block]:
    """Yield each frame with its code, and what stands between frames."""
    path: str | None = None
    block: list[str] = []
    for line in lines:
        frame = _FRAME.match(line)
        if frame is not None or (path is not None and not line.startswith("    ")) or (path is None and line.startswith("Traceback ")):
            if block:
                yield path, block
            path, block = frame["path"] if frame is not None else None, []
        block.append(line)
    if block:
        yield path, block


def _without_libraries(blocks: list[_Block]) -> list[_Block]:
    kept: list[_Block] = []
    for is_library, group in groupby(blocks, key=lambda block: _library(block[0]) is not None):
        frames = list(group)
        if not is_library or len(frames) < _LEAST_LEFT_OUT:
            kept += frames
            continue
        names = dict.fromkeys(str(_library(path)) for path, _ in frames)
        kept.append((None, [f"  … {len(frames)} frames of {', '.join(names)} …"]))
    return kept


def _library(path: str | None) -> str | None:
    """Return whose file this is; None: nobody's but the user's."""
    package = _PACKAGE.search(path or "") or _PLATFORM.search(path or "")
    if package is not None:
        return package[1]
    return "Python" if path is not None and _PYTHON.search(path) else None


def _with_short_messages(blocks: list[_Block]) -> list[_Block]:
    return [(path, lines if path is not None else _shortened(lines)) for path, lines in blocks]


def _shortened(lines: list[str]) -> list[str]:
    left_out = len(lines) - _SHOWN_MESSAGE - 1
    return lines if left_out < _LEAST_LEFT_OUT else [*lines[:_SHOWN_MESSAGE], f"  … {left_out} lines …", lines[-1]]
