"""The log files of processes that we start: their ends, for people, and the numbers of those that are older."""

from pathlib import Path
from typing import Final

_SHOWN_LINES: Final = 15
_SHOWN_BYTES: Final = 16 * 1024


def last_lines(path: Path) -> str:
    """Return the last fifteen lines, or why there are none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _SHOWN_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        return f"(it cannot be read: {error})"
    return "\n".join(text.strip().splitlines()[-_SHOWN_LINES:])


def rotate(path: Path, kept: int) -> None:
    """Make room for a new log: the present one becomes .1, that one .2, and so on; what is behind `kept` is removed.

    Raises:
        OSError: a file cannot be renamed or removed.

    """
    for number in range(kept, 0, -1):
        older = path if number == 1 else _numbered(path, number - 1)
        if older.exists():
            older.replace(_numbered(path, number))
    if kept == 0:
        path.unlink(missing_ok=True)


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
