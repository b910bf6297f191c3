"""What a subtask published, told apart from what is left of it: each output has a list of its files, written when all of them were whole.

Spark reads whatever files a directory has, so one that is gone would be missing from a result unnoticed. Nothing here reads rows: how many
there are stands at the end of each file.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FILE_LIST: Final = "_eventflink_files.json"
"""Hidden from Spark by its first character."""

_MAX_LIST_BYTES: Final = 16 * 1024 * 1024


class OutputInvisible(Exception):
    """What Spark wrote is not there for this process; the message says where."""


class ResultUnreadable(Exception):
    """What was published is not there, is not whole or is not Parquet; the message says what of it."""


@dataclass(frozen=True, slots=True)
class PublishedSize:
    """How much an output is."""

    rows: int
    file_bytes: int


def write_file_list(directory: Path) -> None:
    """Write down which files an output consists of, and how many rows these have, if their ends say it.

    Raises:
        OutputInvisible: the directory is not there: Spark has written to another file system than this process sees.

    """
    try:
        paths = _data_files(directory)
        listed = {"files": {str(path.relative_to(directory)): path.stat().st_size for path in paths}, "rows": _count_rows(paths)}
        temporary = directory / f"{FILE_LIST}.part"
        temporary.write_text(json.dumps(listed, ensure_ascii=False, sort_keys=True), encoding="utf-8")
        temporary.replace(directory / FILE_LIST)
    except OSError as error:
        raise OutputInvisible(f"Spark wrote to {directory}, where this host finds nothing ({error.strerror or error})") from error


def published_size(location: str) -> PublishedSize | None:
    """Return how much was published there, as its list says; None: that does not say it, or cannot be read."""
    try:
        document = _read_document(Path(location.removeprefix("file://")) / FILE_LIST)
    except (OSError, ValueError):
        return None
    rows = document.get("rows")
    return PublishedSize(rows, sum(document["files"].values())) if isinstance(rows, int) else None


def _count_rows(paths: Iterable[Path]) -> int | None:
    import pyarrow as pa  # noqa: PLC0415 - who looks at lists only does not wait for it
    import pyarrow.parquet as pq  # noqa: PLC0415 - see above

    try:
        return sum(int(pq.read_metadata(path).num_rows) for path in paths)
    except pa.ArrowInvalid:
        return None


def find_damage(location: str) -> str | None:
    """Return what is wrong with an output that was published, or None where all its files are there in their full length."""
    directory = Path(location.removeprefix("file://"))
    try:
        if not directory.is_dir():
            return f"{directory} is not there"
        listed = directory / FILE_LIST
        if not listed.is_file():
            return f"{directory} has no list of its files"
        return _compare(directory, _read_list(listed))
    except (OSError, ValueError) as error:
        return f"{directory} cannot be read: {error}"


def published_files(location: str) -> list[Path]:
    """Return the files of an output that was published, in the order of their names, and no others that lie there.

    Raises:
        ResultUnreadable: with what `find_damage` finds.

    """
    if damage := find_damage(location):
        raise ResultUnreadable(f"{damage}: it was removed or changed, or is on another host")
    directory = Path(location.removeprefix("file://"))
    return [directory / name for name in sorted(_read_list(directory / FILE_LIST))]


def _read_list(path: Path) -> dict[str, int]:
    files: dict[str, int] = _read_document(path)["files"]
    return files


def _read_document(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _MAX_LIST_BYTES:
        raise ValueError(f"{path.name} is not a valid list of files: it is too long")
    document: Any = json.loads(path.read_text(encoding="utf-8"))
    files = document.get("files") if isinstance(document, dict) else None
    if not isinstance(files, dict) or not all(isinstance(size, int) for size in files.values()):
        raise ValueError(f"{path.name} is not a valid list of files")
    return dict(document)


def _compare(directory: Path, sizes: dict[str, int]) -> str | None:
    for name, size in sizes.items():
        path = directory / name
        try:
            found = path.stat().st_size
        except FileNotFoundError:
            return f"{path} is gone"
        if found != size:
            return f"{path} has {found} bytes, and had {size}"
    return None


def _data_files(directory: Path) -> list[Path]:
    """Return the files that Spark reads: neither hidden ones, nor what is in hidden directories."""
    found = []
    for folder, names, files in os.walk(directory, onerror=_raise):
        names[:] = [name for name in names if not name.startswith(("_", "."))]
        found += [Path(folder) / name for name in files if not name.startswith(("_", "."))]
    return sorted(found)


def _raise(error: OSError) -> None:
    raise error
