"""The content-addressed store: a directory of files, each named by the SHA-256 of its bytes.

No network here; `server.py` puts HTTP before it. The rule: what is served has the digest that its name promises. A blob
becomes visible by one rename after its bytes are on the disk, and is hashed again each time it is opened.
"""

import contextlib
import hashlib
import logging
import os
import re
import tempfile
import time
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self

from eventflink.blob.errors import BlobDamaged, BlobNotFound, BlobTooLarge, InvalidBlobKey

CHUNK_BYTES: Final = 256 * 1024
_KEY_PATTERN: Final = re.compile(r"[0-9a-f]{64}")
_ABANDONED_AFTER_S: Final = 3600.0

logger = logging.getLogger(__name__)


class StoredBlob(NamedTuple):
    """A blob that is safely on the disk."""

    key: str
    size_bytes: int


def blob_key(data: bytes) -> str:
    """Return the key of these bytes."""
    return hashlib.sha256(data).hexdigest()


def check_key(key: str) -> str:
    """Return the key.

    Raises:
        InvalidBlobKey: it is none; in particular nothing that could be a path passes.

    """
    if not _KEY_PATTERN.fullmatch(key):
        message = f"'{key[:80]}' is no blob key: a key is the SHA-256 of the blob, 64 lower-case hexadecimal digits"
        raise InvalidBlobKey(message)
    return key


class BlobWriter:
    """One blob on its way into the store: `write` its bytes, then `commit`; `abort` leaves nothing behind."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        """Open a temporary file in the store's `incoming` folder."""
        self._directory = directory
        self._max_bytes = max_bytes
        self._digest = hashlib.sha256()
        self._size = 0
        descriptor, name = tempfile.mkstemp(dir=directory / "incoming", prefix="blob-")
        self._file = os.fdopen(descriptor, "wb")
        self._path = Path(name)

    def write(self, chunk: bytes) -> None:
        """Append bytes.

        Raises:
            BlobTooLarge: with this chunk the blob exceeds the limit.

        """
        self._size += len(chunk)
        if self._size > self._max_bytes:
            message = f"the blob is larger than the {self._max_bytes} bytes that are taken (blob.max-size)"
            raise BlobTooLarge(message)
        self._digest.update(chunk)
        self._file.write(chunk)

    def commit(self) -> StoredBlob:
        """Make the blob visible under its key; once this returns it survives a loss of power."""
        key = self._digest.hexdigest()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        target = self._directory / key[:2] / key
        target.parent.mkdir(exist_ok=True)
        # Also where the key is there already: a damaged blob is healed by uploading it again.
        self._path.replace(target)
        _sync_directory(target.parent)
        return StoredBlob(key, self._size)

    def abort(self) -> None:
        """Drop what was written; harmless after a commit."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        """Return the writer."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Abort what was not committed."""
        self.abort()


class BlobStore:
    """The blobs below one directory. Methods block on the disk; several threads may call them."""

    def __init__(self, directory: Path) -> None:
        """Create the directory where it is missing and remove uploads that were abandoned more than an hour ago."""
        self.directory = directory
        (directory / "incoming").mkdir(parents=True, exist_ok=True)
        self._remove_abandoned()

    def _remove_abandoned(self) -> None:
        oldest = time.time() - _ABANDONED_AFTER_S
        for path in (self.directory / "incoming").glob("blob-*"):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < oldest:
                    path.unlink()

    def _path(self, key: str) -> Path:
        check_key(key)
        return self.directory / key[:2] / key

    def begin(self, max_bytes: int) -> BlobWriter:
        """Return a writer for one blob of at most `max_bytes`."""
        return BlobWriter(self.directory, max_bytes)

    def put(self, stream: BinaryIO, max_bytes: int) -> StoredBlob:
        """Store everything that the stream holds.

        Raises:
            BlobTooLarge: it holds more than `max_bytes`; nothing was stored.

        """
        with self.begin(max_bytes) as writer:
            while chunk := stream.read(CHUNK_BYTES):
                writer.write(chunk)
            return writer.commit()

    def open(self, key: str) -> tuple[BufferedReader, int]:
        """Return a verified blob, opened for reading at its start, and its size in bytes; the caller closes it.

        Raises:
            InvalidBlobKey: the key is none.
            BlobNotFound: there is no such blob.
            BlobDamaged: the bytes on the disk are not those that were stored.

        """
        try:
            file = self._path(key).open("rb")
        except FileNotFoundError:
            message = f"there is no blob {key}"
            raise BlobNotFound(message) from None
        try:
            size = _verify(file, key)
        except BaseException:
            file.close()
            raise
        return file, size

    def get(self, key: str) -> bytes:
        """Return a blob's bytes, verified; raises as `open` does."""
        file, _ = self.open(key)
        with file:
            return file.read()

    def delete(self, key: str) -> bool:
        """Remove a blob; tell whether it was there.

        Raises:
            InvalidBlobKey: the key is none.

        """
        path = self._path(key)
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        _sync_directory(path.parent)
        return True


def _verify(file: BufferedReader, key: str) -> int:
    """Hash the open file and go back to its start; return its size."""
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = file.tell()
    if digest != key:
        logger.error("BlobDamaged key=%s found_digest=%s size_bytes=%d", key, digest, size)
        message = f"the blob {key} is damaged on the disk of its server: its bytes have the digest {digest}; upload it again"
        raise BlobDamaged(message)
    file.seek(0)
    return size


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
