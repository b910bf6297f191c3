"""A job's code as one archive: a zip whose bytes depend on nothing but the files' names and contents.

Deterministic, because the blob store is content-addressed: the same code uploaded twice is one blob. Only modules and data of
the user go in; what tools leave behind (caches, version control, virtual environments) stays out.
"""

import io
import os
import stat
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

MAX_ARCHIVE_BYTES: Final = 256 * 1024 * 1024
MAX_FILES: Final = 20_000
SKIPPED_DIRECTORIES: Final = frozenset(
    {
        "__pycache__",
        ".git",
        ".hg",
        ".svn",
        ".venv",
        "venv",
        ".tox",
        ".nox",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".ipynb_checkpoints",
    }
)
SKIPPED_SUFFIXES: Final = frozenset({".pyc", ".pyo"})
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The first date that a zip can hold."""


class ArchiveError(Exception):
    """The code cannot be packed; the message names the path and says why."""


def build_archive(paths: Iterable[Path], *, max_bytes: int = MAX_ARCHIVE_BYTES) -> bytes:
    """Pack files and directories into one zip and return its bytes.

    A file comes in under its own name, a directory that is a package (it has an `__init__.py`) under its own name, and of any
    other directory the contents: so that `import` finds what lies in it.

    Raises:
        ArchiveError: a path is missing, unreadable or empty, two files would have the same name, or it is all too large.

    """
    members: dict[str, Path] = {}
    for path in paths:
        found = False
        for name, file in _members(path):
            found = True
            if name in members and members[name].resolve() != file.resolve():
                raise ArchiveError(f"{members[name]} and {file} would both be '{name}' in the code archive")
            members[name] = file
            if len(members) > MAX_FILES:
                raise ArchiveError(f"{path}: more than {MAX_FILES} files; name the files that the job needs")
        if not found:
            raise ArchiveError(f"{path}: holds no file to pack")
    return _pack(members, max_bytes)


def _members(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name in the archive and the place of every file that `path` stands for."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ArchiveError(f"{path}: {error.strerror or error}") from error
    if stat.S_ISREG(mode):
        yield path.resolve().name if path.name in ("", "..") else path.name, path
        return
    if not stat.S_ISDIR(mode):
        raise ArchiveError(f"{path}: neither a file nor a directory")
    top = path.resolve()
    base = top.parent if (top / "__init__.py").is_file() else top
    for folder, directories, files in os.walk(top, onerror=_raise):
        # In place, which is how os.walk is told where not to go. A virtual environment may have any name.
        directories[:] = sorted(d for d in directories if d not in SKIPPED_DIRECTORIES and not (Path(folder) / d / "pyvenv.cfg").exists())
        for file in sorted(files):
            place = Path(folder) / file
            if place.suffix not in SKIPPED_SUFFIXES and place.is_file():
                yield place.relative_to(base).as_posix(), place


def _raise(error: OSError) -> None:
    raise ArchiveError(f"{error.filename}: {error.strerror or error}") from error


def _pack(members: dict[str, Path], max_bytes: int) -> bytes:
    """Write the zip: sorted, with one timestamp and one mode, so that nothing but names and contents counts."""
    stream = io.BytesIO()
    total = 0
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in sorted(members):
            total += _add(archive, name, members[name], max_bytes - total)
    if len(stream.getvalue()) > max_bytes:
        raise ArchiveError(f"the code archive is larger than {max_bytes} bytes")
    return stream.getvalue()


def _add(archive: zipfile.ZipFile, name: str, file: Path, room_bytes: int) -> int:
    try:
        with file.open("rb") as source:
            data = source.read(max(room_bytes, 0) + 1)
    except OSError as error:
        raise ArchiveError(f"{file}: {error.strerror or error}") from error
    if len(data) > room_bytes:
        raise ArchiveError(f"{file}: with this file the code is larger than the archive's limit; only code and small data belong into it")
    information = zipfile.ZipInfo(name, _EPOCH)
    information.compress_type = zipfile.ZIP_DEFLATED
    information.external_attr = (stat.S_IFREG | 0o644) << 16
    information.create_system = 3  # Unix, wherever it is packed.
    archive.writestr(information, data)
    return len(data)
