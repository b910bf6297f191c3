"""The files of outputs, in a directory of this host or below a prefix of an object store: found, read, written whole, removed.

What a file is for is not known here. A store is spoken to by fsspec, whose drivers and credentials are each store's own. The rule it keeps:
a store that does not answer, or refuses, is told apart from a file that is gone: `StoreFailed` says nothing about what is there.
"""

import contextlib
import logging
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from eventflink.model.backoff import Backoff
from eventflink.model.places import S3, Place
from eventflink.processes.beneath import remove_below

logger = logging.getLogger(__name__)

R = TypeVar("R")
T = TypeVar("T")

_PATIENCE_S: Final = 60.0
"""How long a store may do nothing of what it is asked before that counts as a failure."""
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 8.0
_WITHOUT_CREDENTIALS: Final = ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "TokenRetrievalError")
"""Errors of S3's client that no second try mends."""
_SETTING: Final = "execution.working-directory"
_ASKED_AT_ONCE: Final = 16
_TAKEN: Final = ("PreconditionFailed", "412")
"""What S3 says of an object that was to be written only where none is."""
_S3_KEY: Final = "AWS_ACCESS_KEY_ID"
_SHOWN: Final = 500
_VERSIONS: Final = ("ETag", "etag", "generation", "mtime", "modificationTime")
"""Where stores say which content an object has: S3, Azure, Google, HDFS."""


class StoreFailed(Exception):
    """A store refused what it was asked, or did not answer in time; the message names the place, whose key it was, and what to do."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What is known of a file without reading it."""

    size: int
    version: str = ""
    """What the store calls the content that it has now; empty: it has no such word, or the file is in a directory."""


@dataclass(frozen=True, slots=True)
class FileStamp:
    """By what a file is known again that others may replace."""

    size: int
    version: str
    """What its store, or its file system, calls the content that it has now."""
    modified_ms: int | None
    """When it was written, as they say it; None: they do not."""


def stamp_of(place: Place) -> FileStamp | None:
    """Return by what a file is known again; None: there is none.

    Raises:
        OSError: the directory does not say.
        StoreFailed: the store does not say.

    """
    with contextlib.suppress(FileNotFoundError):
        if not place.scheme:
            found = place.path.stat()
            return FileStamp(found.st_size, f"{found.st_ino}-{found.st_mtime_ns}", found.st_mtime_ns // 1_000_000)
        from eventflink.blob.fsspec_storage import modified_of  # noqa: PLC0415 - who has directories does not wait for fsspec

        entry = _ask(place, "read", lambda fs, path: fs.info(path))
        version = next((str(entry[name]) for name in _VERSIONS if entry.get(name)), "")
        return FileStamp(int(entry.get("size") or 0), version, modified_of(entry))
    return None


def find_files(place: Place) -> dict[str, FileFacts]:
    """Return the files that Spark reads there, by their names below it: neither hidden ones, nor what is in hidden folders.

    Raises:
        OSError: the directory cannot be read, or is not there; of a store, there is no such bucket.
        StoreFailed: the store does not say.

    """
    return dict(sorted((_find_objects if place.scheme else _find_in_directory)(place).items()))


def _find_in_directory(place: Place) -> dict[str, FileFacts]:
    """Return what `find_files` does, in no order: for each input of each task, so without a `Path` for each file."""
    found, folders = dict[str, FileFacts](), [""]
    while folders:
        below = folders.pop()
        with os.scandir(f"{place.text}/{below}") as entries:
            for entry in entries:
                if entry.name.startswith(("_", ".")):
                    continue
                if not entry.is_dir():
                    found[f"{below}{entry.name}"] = FileFacts(entry.stat().st_size)
                elif not entry.is_symlink():
                    folders.append(f"{below}{entry.name}/")
    return found


def _find_objects(place: Place) -> dict[str, FileFacts]:
    def find(fs: Any, root: str) -> dict[str, FileFacts]:
        found = {}
        for name, entry in fs.find(root, detail=True).items():
            below = str(name).removeprefix(root).lstrip("/")
            if below and entry.get("type") != "directory" and not any(part.startswith(("_", ".")) for part in below.split("/")):
                found[below] = FileFacts(int(entry.get("size") or 0), str(entry.get("ETag") or entry.get("etag") or ""))
        return found

    return _ask(place, "list", find)


def names_in(place: Place) -> list[str]:
    """Return what the files and folders directly in a folder are called, in no order; nothing where there is none.

    Raises:
        OSError: it cannot be read.
        StoreFailed: the store does not say.

    """
    with contextlib.suppress(FileNotFoundError):
        if not place.scheme:
            return os.listdir(place.text)  # noqa: PTH208 - their names, without a `Path` for each
        return _ask(place, "list", lambda fs, path: [name for each in fs.ls(path, detail=False) if (name := _below(path, each))])
    return []


def names_below(place: Place) -> list[str]:
    """Return what all files below a folder are called from there on, hidden ones too, in order; nothing where there is none.

    Raises:
        OSError: it cannot be read.
        StoreFailed: the store does not say.

    """
    if place.scheme:
        with contextlib.suppress(FileNotFoundError):
            found = _ask(place, "list", lambda fs, path: [_below(path, name) for name in fs.find(path)])
            return sorted(name for name in found if name and not name.endswith("/"))
        return []
    return sorted([_below(place.text, f"{folder}/{name}") for folder, _, names in os.walk(place.text) for name in names])


def _below(root: str, name: object) -> str:
    return str(name).removeprefix(root).lstrip("/")


def read_whole(place: Place) -> bytes:
    """Return what is in a small file.

    Raises:
        OSError: there is none, or it cannot be read.
        StoreFailed: the store does not hand it out.

    """
    if place.scheme:
        return bytes(_ask(place, "read", lambda fs, path: fs.cat_file(path)))
    return place.path.read_bytes()


def read_if_there(place: Place) -> bytes | None:
    """Return what is in a small file; None: there is none.

    Raises:
        OSError: it cannot be read.
        StoreFailed: the store does not hand it out.

    """
    with contextlib.suppress(FileNotFoundError):
        return read_whole(place)
    return None


def read_start(place: Place, limit: int) -> bytes:
    """Return at most the first `limit` bytes of a file.

    Raises:
        OSError: there is none, or it cannot be read.
        StoreFailed: the store does not hand it out.

    """
    if place.scheme:
        return bytes(_ask(place, "read", lambda fs, path: fs.cat_file(path, start=0, end=limit)))
    with place.path.open("rb") as file:
        return file.read(limit)


def write_whole(place: Place, data: bytes) -> None:
    """Write a small file, which appears with all that is in it, and the folder that it is in.

    Raises:
        OSError: it cannot be written.
        StoreFailed: the store does not take it.

    """
    if place.scheme:
        _ask(place, "write", lambda fs, path: fs.pipe_file(path, data))
        return
    place.path.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.path.with_name(f"{place.path.name}.part")
    temporary.write_bytes(data)
    temporary.replace(place.path)


def upload_once(file: Path, place: Place) -> bool:
    """Put a file of this host into a store, unless an object of that name is there: it stays as it is. Tell whether it was put.

    Raises:
        OSError: the file cannot be read.
        StoreFailed: the store does not take it.

    """
    # Of other stores, the drivers write over what is there.
    conditions = {"mode": "create"} if place.scheme == S3 else {}

    def upload(fs: Any, path: str) -> bool:
        try:
            fs.put_file(str(file), path, **conditions)
        except OSError as error:
            if not _is_taken(error):
                raise
            return False
        return True

    return _ask(place, "write", upload)


def _is_taken(error: OSError) -> bool:
    """Tell whether a store refused an object because there is one; stores that do not name the condition have another error."""
    response = getattr(error.__cause__, "response", None) or {}
    return isinstance(error, FileExistsError) or response.get("Error", {}).get("Code") in _TAKEN


@contextmanager
def on_this_host(place: Place) -> Iterator[Path]:
    """Yield the path of a file, or of a copy of an object, which is removed afterwards.

    Raises:
        OSError: there is no such object.
        StoreFailed: the store does not hand it out.

    """
    if not place.scheme:
        yield place.path
        return
    with tempfile.TemporaryDirectory(prefix="eventflink-object-") as directory:
        copy = Path(directory) / "object"
        _ask(place, "read", lambda fs, path: fs.get_file(path, str(copy)))
        yield copy


def for_each(operation: Callable[[T], R], things: Collection[T], place: Place) -> list[R]:
    """Return what an operation comes to for each of some things, which of a store are asked for at once."""
    if not place.scheme or not things:
        return list(map(operation, things))
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - a directory is read in one thread

    with ThreadPoolExecutor(min(len(things), _ASKED_AT_ONCE)) as threads:
        return list(threads.map(operation, things))


@contextmanager
def opened(place: Place) -> Iterator[Any]:
    """Yield what `pyarrow.parquet` opens: the path, or a file of the store that is read piece by piece.

    Raises:
        OSError: it cannot be read.
        StoreFailed: the store does not hand it out.

    """
    if not place.scheme:
        yield place.path
        return
    with _ask(place, "read", lambda fs, path: fs.open(path, "rb")) as file:
        try:
            yield file
        except (OSError, ValueError):
            raise
        except Exception as error:
            raise StoreFailed(_say(place, "read", error)) from error


def count_rows(places: Collection[Place]) -> int:
    """Return how many rows files of Parquet say at their ends to have.

    Raises:
        OSError, ValueError: one cannot be read, or is no Parquet.
        StoreFailed: the store does not hand one out.

    """
    return sum(for_each(_rows_of, places, next(iter(places), Place("/"))))


def _rows_of(place: Place) -> int:
    import pyarrow.parquet as pq  # noqa: PLC0415 - who looks at lists only does not wait for it

    with opened(place) as source:
        return int(pq.read_metadata(source).num_rows)


def remove_folder(root: Place, name: str, kept: Collection[Place]) -> None:
    """Remove what is below a folder of `root`, and the folder, but the places in `kept` and what leads there; links lead nowhere else.

    Raises:
        OSError: something could not be removed.
        StoreFailed: the store refused, or did not answer.

    """
    folder = root / name
    below = [inner for place in kept if (inner := place.name_below(folder)) is not None]
    if root.scheme:
        _ask(folder, "remove", lambda fs, path: _remove_objects(fs, path, [f"{path}/{inner}" for inner in below]))
    elif root.path.is_dir():
        remove_below(root.path, name, [tuple(part for part in inner.split("/") if part) for inner in below])


def _remove_objects(fs: Any, folder: str, kept: Collection[str]) -> None:
    """Remove, and look: what a store would not remove of many objects at once, its driver does not say."""

    def find() -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            # Some stores call a folder that is empty one of the files in it.
            return [name for name in fs.find(folder) if name != folder and not any(name.startswith(f"{each}/") for each in kept)]
        return []

    if not (found := find()):
        return
    if kept:
        fs.rm(found)
    else:
        fs.rm(folder, recursive=True)
    fs.invalidate_cache()
    if left := find():
        raise PermissionError(f"{len(left)} of {len(found)} objects are still there after they were removed, such as {left[0]}")


def _ask(place: Place, what: str, operation: Callable[[Any, str], R]) -> R:
    """Ask a store for something that may be repeated without harm, until it does it.

    Raises:
        FileNotFoundError: there is no such object or bucket.
        StoreFailed: it refused, or did not do it in time.

    """
    deadline, pauses_s = time.monotonic() + _PATIENCE_S, Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    while True:
        pause_s = pauses_s.next()
        try:
            return operation(*_file_system(place))
        except FileNotFoundError:
            raise
        except Exception as error:  # each driver has errors of its own, and some derive from nothing else
            if _is_final(error) or time.monotonic() + pause_s > deadline:
                raise StoreFailed(_say(place, what, error)) from error
            logger.warning("StoreAskedAgain place=%s error=%s", place, type(error).__name__)
        time.sleep(pause_s)


def load_driver(scheme: str) -> None:
    """Load what speaks to stores of a scheme, and connect to none: whose package is missing is told when it is asked for something."""
    from fsspec import get_filesystem_class  # noqa: PLC0415 - who has directories does not wait for it

    with contextlib.suppress(ImportError, ValueError):
        get_filesystem_class(scheme)


def _file_system(place: Place) -> tuple[Any, str]:
    from fsspec.core import url_to_fs  # noqa: PLC0415 - who has directories does not wait for it

    fs, path = url_to_fs(place.text, use_listings_cache=False)
    fs.invalidate_cache()  # Others write as well: what a listing said before counts for nothing.
    return fs, str(path).rstrip("/")


def _is_final(error: Exception) -> bool:
    return isinstance(error, PermissionError | ImportError | TypeError) or type(error).__name__ in _WITHOUT_CREDENTIALS


def _say(place: Place, what: str, error: Exception) -> str:
    # fsspec says only what to install, also where it is installed and cannot be loaded.
    shown = error.__cause__ if isinstance(error, ImportError) and error.__cause__ is not None else error
    said = f"{type(shown).__name__}: {' '.join(str(shown).split())[:_SHOWN]}"
    if isinstance(error, ImportError):
        return (
            f"{place} could not be {_DONE[what]}: what speaks to this store cannot be loaded: {said}: install it here ({error}); "
            "a job that requires packages which it needs in other versions requires it as well, so that they are resolved together"
        )
    if _is_final(error):
        return say_refused(place, _DONE[what], said)
    return f"{place} could not be {_DONE[what]}: {said} ({_SETTING})"


def say_refused(place: Place, done: str, said: str, setting: str = _SETTING) -> str:
    """Return what is told of something that a store did not let be done, and of what it said; `setting` says where the place is."""
    refused = f"{place} could not be {done}: {said}"
    if place.scheme != S3:
        return f"{refused} ({setting})"
    who = f"of access key {key}" if (key := os.environ.get(_S3_KEY)) else "that AWS's client found"
    return (
        f"{refused}: the credentials {who} must be allowed to read, write, list and delete below {setting}; those of "
        "tasks are in variables that taskmanager.task.environment names, such as AWS_*, or in ~/.aws"
    )


_DONE: Final = {"list": "listed", "read": "read", "write": "written", "remove": "removed"}
