"""Where the bytes of blobs lie: what a storage has to do, and which one a configured place means.

A storage knows names and files, nothing of keys and digests: those are `store.py`'s. Names are relative, with '/' between their parts.
A directory is served by `local_storage.py`; every other URL by whatever fsspec has for it (`fsspec_storage.py`).
"""

import re
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from urllib.parse import unquote

from eventflink.blob.errors import BlobStorageUnusable

INCOMING: Final = "incoming"
"""The folder of what is still being written."""

_CHAIN: Final = re.compile(r"^[\w+.-]+::|::[\w+.-]+://")


class StoredFile(NamedTuple):
    """One file of a storage, and when it was written last by the storage's own clock, in milliseconds; None: it does not say."""

    name: str
    modified_ms: int | None


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


def open_storage(location: str, key: str = "blob.storage.directory") -> Storage:
    """Return the storage that a directory or an fsspec URL names; nothing is opened yet. `key` is where it is configured.

    Raises:
        BlobStorageUnusable: fsspec has nothing for this URL, or what it has is no storage that masters can share.

    """
    from eventflink.blob.fsspec_storage import FsspecStorage, check_url  # noqa: PLC0415 - fsspec only where it is needed
    from eventflink.blob.local_storage import LocalStorage  # noqa: PLC0415 - it imports from here

    scheme, separator, rest = location.partition("://")
    if not separator:
        return LocalStorage(Path(location))
    if _CHAIN.search(location):
        raise BlobStorageUnusable(f"{key}: '{location}' chains file systems: one URL is expected, without '::'")
    if scheme in ("file", "local"):
        return LocalStorage(Path(unquote(rest)))
    if scheme == "memory":
        raise BlobStorageUnusable(f"{key}: '{location}' is the memory of one process: no other master could read it after a failover")
    check_url(location, key)
    return FsspecStorage(location)
