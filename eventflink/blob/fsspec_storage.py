"""Blobs behind any URL that fsspec has a file system for: s3://, gs://, abfs://, hdfs://, sftp://, ftp:// and others.

Options and credentials are fsspec's own business (its configuration files and `FSSPEC_…` variables). A file is uploaded under a
temporary name and renamed; it comes back as a local copy, so that what is verified is what is served. What one file system raises for a
passing fault no other does: each operation is tried a second time with a fresh connection, and all of them may be repeated without harm.
"""

import contextlib
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, TypeVar

import fsspec
from fsspec.core import url_to_fs

from eventflink.blob import BlobStorageFailed, BlobStorageUnusable
from eventflink.blob.storage import INCOMING, StoredFile
from eventflink.model.packages import PackageMissing

_TIME_FIELDS: Final = ("mtime", "LastModified", "last_modified", "updated", "modify", "modificationTime", "last_write_time", "created")
"""Where file systems tell when a file was written: local and sftp, S3, Azure, Google, FTP, WebHDFS, SMB, memory."""

R = TypeVar("R")


def check_url(url: str, key: str = "blob.storage.directory") -> None:
    """Check that fsspec can serve a URL; `key` is where it is configured.

    Raises:
        BlobStorageUnusable: it does not know the scheme.
        PackageMissing: the package for it is not installed.

    """
    try:
        fsspec.get_filesystem_class(url.partition("://")[0])
    except ImportError as error:
        raise PackageMissing(f"{key}: '{url}' cannot be used: {error}") from error
    except ValueError as error:
        raise BlobStorageUnusable(f"{key}: '{url}' cannot be used: {error}") from error


def modified_of(information: Mapping[str, Any]) -> int | None:
    """Return when a file was written, in milliseconds, as its file system says it; None: it does not, or in a way that is not known."""
    value = next((information[name] for name in _TIME_FIELDS if information.get(name) is not None), None)
    if isinstance(value, datetime):
        return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000)
    if isinstance(value, int | float):
        # WebHDFS counts milliseconds, all others seconds.
        return int(value) if "modificationTime" in information else int(value * 1000)
    if isinstance(value, str):
        with contextlib.suppress(ValueError):  # MLSD of FTP: YYYYMMDDhhmmss, in UTC, whatever follows.
            return int(datetime.strptime(value[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp() * 1000)
        with contextlib.suppress(ValueError):
            found = datetime.fromisoformat(value)
            return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
    return None


class FsspecStorage:
    """The files below one URL."""

    def __init__(self, url: str) -> None:
        """Take the URL; the first connection is made by `prepare`."""
        self._url = url.rstrip("/")
        self._threads = threading.local()

    @property
    def location(self) -> str:
        """The URL, without what might be a password."""
        scheme, separator, rest = self._url.partition("://")
        return f"{scheme}{separator}{rest.rpartition('@')[2]}"

    @property
    def spool(self) -> Path | None:
        """Uploads are gathered in the system's directory for temporary files."""
        return None

    # -- operations ------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Create the folder where it is missing; storages without folders have nothing to create."""
        self._do("prepare", lambda fs, root: fs.makedirs(f"{root}/{INCOMING}", exist_ok=True))

    def place(self, source: Path, name: str) -> None:
        """Upload under a temporary name, then rename."""
        temporary = f"{INCOMING}/blob-{uuid.uuid4().hex}"

        def upload(fs: Any, root: str) -> None:
            fs.makedirs(_folder_of(f"{root}/{temporary}"), exist_ok=True)
            fs.put_file(str(source), f"{root}/{temporary}")
            _rename(fs, f"{root}/{temporary}", f"{root}/{name}")

        try:
            self._do(f"write {name}", upload)
        except BlobStorageFailed:
            with contextlib.suppress(BlobStorageFailed):
                self.delete(temporary)
            raise

    def open(self, name: str) -> BufferedReader:
        """Fetch the file into a local one that has no name and ends with its descriptor."""

        def fetch(fs: Any, root: str) -> BufferedReader:
            fs.info(f"{root}/{name}")  # Not every file system says of a file that is missing that it is missing.
            with tempfile.NamedTemporaryFile(prefix="eventflink-blob-") as copy:
                fs.get_file(f"{root}/{name}", copy.name)
                return Path(copy.name).open("rb")

        return self._do(f"read {name}", fetch)

    def move(self, name: str, target: str) -> bool:
        """Rename, or copy and remove where the storage has no renaming."""

        def rename(fs: Any, root: str) -> None:
            fs.info(f"{root}/{name}")
            _rename(fs, f"{root}/{name}", f"{root}/{target}")

        return self._was_there(f"move {name}", rename)

    def delete(self, name: str) -> bool:
        """Remove."""

        def remove(fs: Any, root: str) -> None:
            fs.info(f"{root}/{name}")
            fs.rm_file(f"{root}/{name}")

        return self._was_there(f"delete {name}", remove)

    def modified_ms(self, name: str) -> int | None:
        """Ask for the file's time."""
        return self._do(f"look at {name}", lambda fs, root: modified_of(fs.info(f"{root}/{name}")))

    def list(self) -> Iterator[StoredFile]:
        """List one folder after the other, so that no answer holds all files."""
        try:
            tops = self._do("list", lambda fs, root: [(e["name"], e["type"] == "directory", e) for e in fs.ls(root, detail=True)])
        except FileNotFoundError:
            return
        for name, is_folder, information in sorted(tops, key=lambda top: str(top[0])):
            found = self._find(name) if is_folder else {name: information}
            root = self._file_system()[1]
            for path, entry in sorted(found.items()):
                yield StoredFile(str(path).removeprefix(f"{root}/"), modified_of(entry), int(entry.get("size") or 0))

    def now_ms(self) -> int | None:
        """Write a file and look at its time."""
        name = f"{INCOMING}/clock-{uuid.uuid4().hex}"

        def write(fs: Any, root: str) -> int | None:
            fs.makedirs(_folder_of(f"{root}/{name}"), exist_ok=True)
            fs.pipe_file(f"{root}/{name}", b"?")
            fs.invalidate_cache()
            return modified_of(fs.info(f"{root}/{name}"))

        try:
            return self._do("read the clock", write)
        finally:
            with contextlib.suppress(BlobStorageFailed):
                self.delete(name)

    # -- fsspec ----------------------------------------------------------------------------------------------------

    def _find(self, folder: str) -> dict[str, Any]:
        try:
            return self._do("list", lambda fs, _: dict(fs.find(folder, detail=True)))
        except FileNotFoundError:
            return {}

    def _was_there(self, what: str, operation: Callable[[Any, str], None]) -> bool:
        try:
            self._do(what, operation)
        except FileNotFoundError:
            return False
        return True

    def _file_system(self, *, fresh: bool = False) -> tuple[Any, str]:
        """Return this thread's file system and the path of the root: a connection is no thing for two threads."""
        if fresh or not hasattr(self._threads, "found"):
            self._threads.found = url_to_fs(self._url, skip_instance_cache=True)
        fs, root = self._threads.found
        fs.invalidate_cache()  # Other masters write as well: what a listing said before counts for nothing.
        return fs, str(root).rstrip("/")

    def _do(self, what: str, operation: Callable[[Any, str], R]) -> R:
        """Do something, and once more if it fails.

        Raises:
            FileNotFoundError: there is no such file.
            BlobStorageFailed: it failed twice.

        """
        for attempt in range(2):
            try:
                return operation(*self._file_system(fresh=attempt > 0))
            except FileNotFoundError:
                raise
            except Exception as error:  # noqa: BLE001 - each file system has errors of its own, and some derive from nothing else
                failure = error
        raise BlobStorageFailed(f"the storage {self.location} could not {what}: {type(failure).__name__}: {failure}") from failure


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _rename(fs: Any, source: str, target: str) -> None:
    """Rename over what is there; where that is refused, remove it first."""
    fs.makedirs(_folder_of(target), exist_ok=True)
    try:
        fs.mv(source, target)
    except Exception:
        fs.invalidate_cache()
        if not (fs.exists(target) and fs.exists(source)):
            raise
        fs.rm_file(target)
        fs.mv(source, target)
