"""Which storage a configured place means: a directory is served by `local_storage.py`, every other URL by whatever fsspec has for it."""

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from eventflink.blob import BlobStorageUnusable
from eventflink.blob.local_storage import LocalStorage
from eventflink.blob.storage import Storage

_CHAIN: Final = re.compile(r"^[\w+.-]+::|::[\w+.-]+://")


def open_storage(location: str, key: str = "blob.storage.directory") -> Storage:
    """Return the storage that a directory or an fsspec URL names; nothing is opened yet. `key` is where it is configured.

    Raises:
        BlobStorageUnusable: fsspec has nothing for this URL, or what it has is no storage that masters can share.
        PackageMissing: what fsspec has for it needs a package that is not installed.

    """
    scheme, separator, rest = location.partition("://")
    if not separator:
        return LocalStorage(Path(location))
    if _CHAIN.search(location):
        raise BlobStorageUnusable(f"{key}: '{location}' chains file systems: one URL is expected, without '::'")
    if scheme in ("file", "local"):
        return LocalStorage(Path(unquote(rest)))
    if scheme == "memory":
        raise BlobStorageUnusable(f"{key}: '{location}' is the memory of one process: no other master could read it after a failover")
    from eventflink.blob.fsspec_storage import FsspecStorage, check_url  # noqa: PLC0415 - fsspec only where it is needed

    check_url(location, key)
    return FsspecStorage(location)
