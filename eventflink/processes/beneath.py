"""Opening and removing what lies below a directory that others write to: what is reached is below it, whatever they put in the way.

Every step is taken from the descriptor of the step before, and none through a link, so nothing that is renamed or replaced meanwhile leads
elsewhere. The rule: a link is never followed, it is removed as a file is. The directory itself is the operator's, and may be a link.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Final

Parts = tuple[str, ...]
"""The names on the way from one place to another below it."""

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY


@contextmanager
def open_file(root: Path, parts: Parts) -> Iterator[BufferedReader]:
    """Open a regular file below `root` for reading.

    Raises:
        FileNotFoundError: it is not there.
        OSError: a link is on the way, or is the file; or it is no regular file, of which a pipe would be waited for.

    """
    folder = os.open(root, _DIRECTORY)
    try:
        for name in parts[:-1]:
            inner = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        descriptor = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(root.joinpath(*parts)))
        yield file


@dataclass(slots=True)
class _Level:
    """A directory that is being emptied."""

    name: str
    identity: tuple[int, int]
    pending: list[tuple[str, set[Parts]]]
    """What in it is not done, each with what is to stay below it."""
    stays: bool = False


def remove_below(root: Path, name: str, kept: Collection[Parts] = ()) -> None:
    """Remove the entry of `root` with that name, and all below it, but the places in `kept` and the directories that lead there.

    Args:
        root: the directory.
        name: of its entry; nothing happens where there is none.
        kept: places below the entry. Where a link leads there, the link stays.

    Raises:
        OSError: something could not be removed, or was moved elsewhere meanwhile.

    """
    # One descriptor at a time, and no recursion: others choose how deep the directories are.
    here = os.open(root, _DIRECTORY)
    try:
        levels = [_Level("", _identity(here), [(name, set(kept))])]
        while levels[-1].pending or len(levels) > 1:
            level = levels[-1]
            if not level.pending:
                here = _leave(here, levels)
                continue
            entry, below = level.pending.pop()
            if () in below:
                level.stays = True
            elif _is_directory(here, entry):
                inner = os.open(entry, _DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
                os.close(here)
                here = inner
                levels.append(_Level(entry, _identity(here), [(each, _behind(each, below)) for each in _names(here)]))
            elif below:
                level.stays = True
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(entry, dir_fd=here)
    finally:
        os.close(here)


def _leave(here: int, levels: list[_Level]) -> int:
    """Go back from a directory that is done to the one above, remove it there unless something stayed, and return that one's descriptor."""
    done = levels.pop()
    above = os.open("..", _DIRECTORY, dir_fd=here)
    try:
        _check_same(above, levels[-1])
        if not done.stays:
            os.rmdir(done.name, dir_fd=above)
    except OSError:
        os.close(above)
        raise
    levels[-1].stays |= done.stays
    os.close(here)
    return above


def _check_same(here: int, level: _Level) -> None:
    if _identity(here) != level.identity:
        raise OSError(errno.ESTALE, "what was in it was moved while it was removed", level.name)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _is_directory(folder: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _behind(name: str, kept: Collection[Parts]) -> set[Parts]:
    return {parts[1:] for parts in kept if parts[0] == name}
