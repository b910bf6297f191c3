"""Blobs in a directory: the default storage, and the one that promises most.

A file becomes visible by one rename after its bytes are on the disk, and once `place` returns it survives a loss of power. Masters
on several hosts share it where the directory is a shared one.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from eventflink.blob.storage import INCOMING, StoredFile


class LocalStorage:
    """The files below one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def location(self) -> str:
        """The directory."""
        return str(self.directory)

    @property
    def spool(self) -> Path | None:
        """Within the directory, so that a rename is enough."""
        return self.directory / INCOMING

    def prepare(self) -> None:
        """Create the directory where it is missing."""
        (self.directory / INCOMING).mkdir(parents=True, exist_ok=True)

    def place(self, source: Path, name: str) -> None:
        """Sync the file to the disk and rename it."""
        with source.open("rb") as file:
            os.fsync(file.fileno())
        target = self.directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        source.replace(target)
        _sync_directory(target.parent)

    def open(self, name: str) -> BufferedReader:
        """Open the file itself: what is renamed or removed later stays readable."""
        return (self.directory / name).open("rb")

    def move(self, name: str, target: str) -> bool:
        """Rename; the file keeps its time."""
        source, goal = self.directory / name, self.directory / target
        goal.parent.mkdir(parents=True, exist_ok=True)
        try:
            source.replace(goal)
        except FileNotFoundError:
            return False
        _sync_directory(goal.parent)
        _sync_directory(source.parent)
        return True

    def delete(self, name: str) -> bool:
        """Unlink."""
        path = self.directory / name
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        _sync_directory(path.parent)
        return True

    def modified_ms(self, name: str) -> int | None:
        """Return the file's time of modification."""
        return (self.directory / name).stat().st_mtime_ns // 1_000_000

    def list(self) -> Iterator[StoredFile]:
        """Walk through the directory."""
        for folder, _, names in os.walk(self.directory):
            for name in sorted(names):
                path = Path(folder) / name
                with contextlib.suppress(FileNotFoundError):
                    status = path.stat()
                    yield StoredFile(path.relative_to(self.directory).as_posix(), status.st_mtime_ns // 1_000_000, status.st_size)

    def now_ms(self) -> int | None:
        """Write a file and look at its time: the directory may be another host's."""
        with tempfile.NamedTemporaryFile(dir=self.directory / INCOMING, prefix="clock-") as file:
            file.write(b"?")
            file.flush()
            return os.fstat(file.fileno()).st_mtime_ns // 1_000_000


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
