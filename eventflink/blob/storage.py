"""Where the bytes of blobs lie: what a storage has to do.

A storage knows names and files, nothing of keys and digests: those are `store.py`'s. Names are relative, with '/' between their parts.
Which one a configured place means is `open_storage.py`'s.
"""

from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Final, NamedTuple, Protocol

INCOMING: Final = "incoming"
"""The folder of what is still being written."""


class StoredFile(NamedTuple):
    """One file of a storage, when it was written last by the storage's own clock, in milliseconds (None: it does not say), and its size."""

    name: str
    modified_ms: int | None
    size_bytes: int


class Storage(Protocol):
    """Files by name. Methods block; several threads may call them, and several masters may use one place at a time.

    Every method raises OSError or BlobStorageFailed when the storage does not do what it should.
    """

    @property
    def location(self) -> str:
        """Where it is, for people."""

    @property
    def spool(self) -> Path | None:
        """Where uploads are gathered before `place`; None: in the system's directory for temporary files."""

    def prepare(self) -> None:
        """Create what is missing."""

    def place(self, source: Path, name: str) -> None:
        """Make a local file visible under `name`, whole or not at all, replacing what is there; its time is that of now."""

    def open(self, name: str) -> BufferedReader:
        """Return a file opened for reading at its start, whose bytes nobody changes; the caller closes it.

        Raises:
            FileNotFoundError: there is none.

        """

    def move(self, name: str, target: str) -> bool:
        """Rename a file, replacing what is there; tell whether it was there."""

    def delete(self, name: str) -> bool:
        """Remove a file; tell whether it was there."""

    def modified_ms(self, name: str) -> int | None:
        """Return when a file was written last, as `StoredFile` says it.

        Raises:
            FileNotFoundError: there is none.

        """

    def list(self) -> Iterator[StoredFile]:
        """Yield every file; one that comes or goes meanwhile may be missing."""

    def now_ms(self) -> int | None:
        """Return the time by the clock that dates the files, in milliseconds; None: the storage does not date them."""
