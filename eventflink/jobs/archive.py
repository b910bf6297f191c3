"""A job's code as one archive: a zip whose bytes depend on nothing but the files' names and contents.

Deterministic, because the blob store is content-addressed: the same code uploaded twice is one blob. Only modules and data of
the user go in; what tools leave behind (caches, version control, virtual environments) stays out. No file is held in memory as a whole.
"""

import functools
import io
import os
import stat
import sys
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import IO, Final

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
_CHUNK_BYTES: Final = 256 * 1024
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The first date that a zip can hold."""


PACKAGE_FILE: Final = "__init__.py"
PACKAGES_MARKER: Final = "eventflink-packages.json"
"""The member of an archive that holds packages in place of a job's own code: it says which, and for which interpreter."""


JARS_MARKER: Final = "eventflink-jars.json"
"""The member of an archive that holds jars for Spark in place of a job's own code: it names them."""


SQL_MARKER: Final = "eventflink-sql.json"
"""The member of an archive that holds SQL in place of a job's own code: it says in how many files."""


class ArchiveKind(Enum):
    """What an archive holds."""

    CODE = None
    """Modules of the job's own."""
    PACKAGES = PACKAGES_MARKER
    """Packages that it requires."""
    JARS = JARS_MARKER
    """Jars for the Spark sessions of its tasks."""
    SQL = SQL_MARKER
    """Files with the SQL of its vertices."""


class ArchiveError(Exception):
    """The code cannot be packed; the message names the path and says why."""


Opened = Callable[[], IO[bytes]]
"""A file that an archive gets, opened when its turn comes."""


def build_archive(paths: Iterable[Path], *, max_bytes: int = MAX_ARCHIVE_BYTES) -> bytes:
    """Pack files and directories into one zip and return its bytes.

    A file comes in under its own name, a directory that is a package (it has an `__init__.py`) under its own name, and of any
    other directory the contents: so that `import` finds what lies in it. The path of an `__init__.py`, there or not, is its directory
    under its own name: so a package is named that has none.

    Raises:
        ArchiveError: a path is missing, unreadable or empty, two files would have the same name, or it is all too large.

    """
    members = find_members(paths)
    stream = io.BytesIO()
    write_archive(stream, {name: functools.partial(open_file, file) for name, file in members.items()}, max_bytes=max_bytes)
    return stream.getvalue()


def find_members(paths: Iterable[Path]) -> dict[str, Path]:
    """Return where each file is that the archive of these files and directories has, by its name in there.

    Raises:
        ArchiveError: a path is missing, unreadable or empty, or two files would have the same name.

    """
    members: dict[str, Path] = {}
    for path in paths:
        found = False
        try:
            for name, file in _members(path):
                found = True
                if name in members and members[name].resolve() != file.resolve():
                    raise ArchiveError(f"{members[name]} and {file} would both be '{name}' in the code archive")
                members[name] = file
                if len(members) > MAX_FILES:
                    raise ArchiveError(f"{path}: more than {MAX_FILES} files; name the files that the job needs")
        except OSError as error:
            raise ArchiveError(f"{error.filename or path}: {error.strerror or error}") from error
        if not found:
            raise ArchiveError(f"{path}: holds no file to pack")
    return members


def write_archive(
    target: IO[bytes], members: Mapping[str, Opened], *, max_bytes: int = MAX_ARCHIVE_BYTES, executable: Collection[str] = ()
) -> None:
    """Write the zip to where one can seek: sorted, with one timestamp, so that nothing but names, contents and modes counts.

    Args:
        target: where it is written.
        members: the files by their names.
        max_bytes: how much they may have together.
        executable: those that can be run.

    Raises:
        ArchiveError: a member cannot be read, or it is all too large.

    """
    room_bytes = max_bytes
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in sorted(members):
            room_bytes -= _add(archive, name, members[name], room_bytes, 0o755 if name in executable else 0o644)
        for name in sorted(_directories_to_import(members)):
            archive.writestr(_information(name, stat.S_IFDIR | 0o755), b"")
    if target.tell() > max_bytes:
        raise ArchiveError(f"the code archive is larger than {max_bytes} bytes")


def interpreter() -> dict[str, str]:
    """Return for which interpreter packages are that are installed by this one."""
    machine = os.uname()
    return {"python": str(sys.implementation.cache_tag), "platform": f"{machine.sysname}-{machine.machine}".lower()}


def kind_of(archive: Path | IO[bytes]) -> ArchiveKind:
    """Return what an archive holds.

    Raises:
        OSError, zipfile.BadZipFile: it cannot be read.

    """
    with zipfile.ZipFile(archive) as opened:
        return next((kind for kind in ArchiveKind if kind.value in opened.NameToInfo), ArchiveKind.CODE)


def is_safe_name(name: str) -> bool:
    """Tell whether a name that somebody sent is that of a file below a root, wherever it is unpacked."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and name.isprintable() and "\\" not in name


def is_left_behind(name: str) -> bool:
    """Tell whether a member of this name is what tools leave behind."""
    path = PurePosixPath(name)
    return path.suffix in SKIPPED_SUFFIXES or not SKIPPED_DIRECTORIES.isdisjoint(path.parts)


def _members(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name in the archive and the place of every file that `path` stands for."""
    is_package = path.name == PACKAGE_FILE
    path = path.parent if is_package else path
    mode = path.stat().st_mode
    if stat.S_ISREG(mode):
        yield path.resolve().name if path.name in ("", "..") else path.name, path
        return
    if not stat.S_ISDIR(mode):
        raise ArchiveError(f"{path}: neither a file nor a directory")
    top = path.resolve()
    base = top.parent if is_package or (top / PACKAGE_FILE).is_file() else top
    for folder, directories, files in os.walk(top, onerror=_raise):
        # In place, which is how os.walk is told where not to go. A virtual environment may have any name.
        directories[:] = sorted(d for d in directories if d not in SKIPPED_DIRECTORIES and not (Path(folder) / d / "pyvenv.cfg").exists())
        for file in sorted(files):
            place = Path(folder) / file
            if place.suffix not in SKIPPED_SUFFIXES and place.is_file():
                yield place.relative_to(base).as_posix(), place


def _raise(error: OSError) -> None:
    raise error


def _directories_to_import(names: Collection[str]) -> set[str]:
    """Return the directories with modules and without an `__init__.py`: in a zip Python may find them by their own entries alone."""
    with_modules = {above for name in names if name.endswith(".py") for above in PurePosixPath(name).parents[:-1]}
    return {f"{each}/" for each in with_modules if f"{each}/{PACKAGE_FILE}" not in names}


def _information(name: str, mode: int) -> zipfile.ZipInfo:
    information = zipfile.ZipInfo(name, _EPOCH)
    information.external_attr = mode << 16
    information.create_system = 3  # Unix, wherever it is packed.
    return information


def _add(archive: zipfile.ZipFile, name: str, opened: Opened, room_bytes: int, mode: int) -> int:
    """Add a member; return how long it is."""
    information = _information(name, stat.S_IFREG | mode)
    information.compress_type = zipfile.ZIP_DEFLATED
    size = 0
    with _reading(name, opened) as source, archive.open(information, "w") as packed:
        while data := _read(name, source):
            size += len(data)
            if size > room_bytes:
                raise ArchiveError(
                    f"{name}: with this file the code is larger than the archive's limit; only code and small data belong in it"
                )
            packed.write(data)
    return size


def open_file(path: Path) -> IO[bytes]:
    """Open a file that an archive gets."""
    return path.open("rb")


def _reading(name: str, opened: Opened) -> IO[bytes]:
    try:
        return opened()
    except OSError as error:
        raise ArchiveError(f"{error.filename or name}: {error.strerror or error}") from error


def _read(name: str, source: IO[bytes]) -> bytes:
    try:
        return source.read(_CHUNK_BYTES)
    except OSError as error:
        raise ArchiveError(f"{name}: {error.strerror or error}") from error
