"""The job bundles that were uploaded: files of one directory, which is all that there is of them, so several processes may share it.

An id is a UUID and the name that the file came with. The rule it keeps: what is in the place of an id is a whole bundle that was checked;
what is being written has another name. Nothing goes by itself: who uploads removes.
"""

import re
import shutil
import tempfile
import threading
import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from eventflink.jobs.bundle import SUFFIXES, Bundle, BundledJob, BundleError

MAX_JARS: Final = 100
MAX_TOTAL_BYTES: Final = 2 * 1024 * 1024 * 1024
_MAX_NAME: Final = 128
_ID: Final = re.compile(rf"[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}_(?P<name>[^/\0]{{1,{_MAX_NAME}}})")
_PART: Final = "upload-"
_ABANDONED_AFTER_S: Final = 3_600.0


class JarsFull(Exception):
    """There are as many bundles as there may be; the message says so."""


class NoSuchJar(Exception):
    """No bundle has this id."""


@dataclass(frozen=True, slots=True)
class Jar:
    """A bundle that was uploaded."""

    jar_id: str
    name: str
    uploaded_ms: int
    jobs: tuple[BundledJob, ...]


class JarStore:
    """The bundles of a directory. Its methods block, and raise OSError where the directory cannot be read or written."""

    def __init__(self, directory: Path | None) -> None:
        """Keep them below a directory, which is made when the first one comes; None: a temporary one, until `close`."""
        self._directory = directory
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._making = threading.Lock()
        self._jobs: OrderedDict[tuple[str, int, int], tuple[BundledJob, ...]] = OrderedDict()
        """Of the bundles that were looked at last."""

    def add(self, name: str, source: IO[bytes]) -> Path:
        """Keep a bundle under an id of its own; return where it is.

        Raises:
            BundleError: it is no bundle, or has no name of one.
            JarsFull: there is no room for it.

        """
        if not name.endswith(SUFFIXES) or len(name) > _MAX_NAME or not name.isprintable() or "/" in name or "\\" in name:
            raise BundleError(f"invalid name of a job bundle: '{name[:_MAX_NAME]}'; it has to end with {', '.join(SUFFIXES)}")
        directory = self._made()
        self._check_room(directory)
        with tempfile.NamedTemporaryFile(dir=directory, prefix=_PART, delete=False) as part:
            written = Path(part.name)
            try:
                shutil.copyfileobj(source, part)
                part.flush()
                with Bundle(written) as bundle:
                    bundle.check()
                    bundle.jobs()
                return written.rename(directory / f"{uuid.uuid4()}_{name}")
            except BaseException:
                written.unlink(missing_ok=True)
                raise

    def all(self) -> list[Jar]:
        """Return the bundles, the newest first."""
        found = [jar for path in self._paths() if (jar := self._look(path)) is not None]
        return sorted(found, key=lambda jar: jar.uploaded_ms, reverse=True)

    def remove(self, jar_id: str) -> None:
        """Remove a bundle; jobs that run from it have code of their own. Raises NoSuchJar."""
        try:
            self._path_of(jar_id).unlink()
        except FileNotFoundError:
            raise NoSuchJar from None

    def open(self, jar_id: str) -> Bundle:
        """Open a bundle; raises NoSuchJar, or BundleError where it was changed."""
        try:
            return Bundle(self._path_of(jar_id))
        except FileNotFoundError:
            raise NoSuchJar from None

    def close(self) -> None:
        """Remove what is temporary."""
        if self._temporary is not None:
            self._temporary.cleanup()

    def _made(self) -> Path:
        with self._making:
            if self._directory is None:
                self._temporary = tempfile.TemporaryDirectory(prefix="eventflink-web-", ignore_cleanup_errors=True)
                self._directory = Path(self._temporary.name)
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._directory

    def _paths(self) -> list[Path]:
        if self._directory is None or not self._directory.is_dir():
            return []
        return [path for path in self._directory.iterdir() if _ID.fullmatch(path.name)][: 2 * MAX_JARS]

    def _path_of(self, jar_id: str) -> Path:
        if self._directory is None or not _ID.fullmatch(jar_id):
            raise NoSuchJar
        return self._directory / jar_id

    def _check_room(self, directory: Path) -> None:
        for path in directory.glob(f"{_PART}*"):  # Of processes that were killed.
            if time.time() - path.stat().st_mtime > _ABANDONED_AFTER_S:
                path.unlink(missing_ok=True)
        sizes = [path.stat().st_size for path in self._paths()]
        if len(sizes) >= MAX_JARS or sum(sizes) >= MAX_TOTAL_BYTES:
            raise JarsFull(f"there are {len(sizes)} bundles of {sum(sizes)} bytes: remove some first (DELETE /jars/ID)")

    def _look(self, path: Path) -> Jar | None:
        """Return a bundle; None: it is gone, or somebody else has put there what is none."""
        try:
            status = path.stat()
            key = (path.name, status.st_mtime_ns, status.st_size)
            jobs = self._jobs.get(key)
            if jobs is None:
                with Bundle(path) as bundle:
                    self._jobs[key] = jobs = bundle.jobs()
                if len(self._jobs) > 2 * MAX_JARS:
                    self._jobs.popitem(last=False)
        except (OSError, BundleError):
            return None
        return Jar(path.name, path.name.partition("_")[2], status.st_mtime_ns // 1_000_000, jobs)
