"""The content-addressed store: blobs by key, verified whenever one is read.

No network here; `server.py` puts HTTP before it, and `storage.py` the bytes somewhere. The rule: what is served has the digest that
its key promises. A permanent blob that nobody refers to is removed in two steps (`cleaning.py`): condemned first, when it can still
be read and comes back if somebody refers to it after all, and deleted later.

    ab/<key>              a permanent blob; `ab` are its first two digits
    transient/ab/<key>    a transient one
    condemned/ab/<key>    a permanent one that is about to be deleted
    owners/ab/<key>~<job> an empty file: a blob of this key was uploaded for this job
    incoming/             what is still being written
"""

import hashlib
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self

from eventflink.blob import BlobDamaged, BlobNotFound, BlobTooLarge
from eventflink.blob.keys import BlobKind, blob_key, check_key, digest_of, is_key, key_for, kind_of
from eventflink.blob.storage import INCOMING, Storage

__all__ = ["CHUNK_BYTES", "BlobEntry", "BlobPlace", "BlobStore", "BlobWriter", "StoredBlob", "Usage", "blob_key", "check_key"]

CHUNK_BYTES: Final = 256 * 1024
NO_JOB: Final = ""
_OWNED_BY: Final = "~"
"""Neither in a key nor in the id of a job."""

logger = logging.getLogger(__name__)


class BlobPlace(StrEnum):
    """Where in the store a file lies."""

    PERMANENT = "permanent"
    TRANSIENT = "transient"
    CONDEMNED = "condemned"
    OWNER = "owners"
    INCOMING = "incoming"


class StoredBlob(NamedTuple):
    """A blob that is safely in the storage."""

    key: str
    size_bytes: int


class Usage(NamedTuple):
    """How many bytes a storage holds in all, and of these how many were uploaded for each job; '' has what was uploaded for none."""

    total_bytes: int
    bytes_by_job: Counter[str]


class BlobEntry(NamedTuple):
    """A file of the store: its key (of an owner's, and of an incoming one, its name), and when it was written, in milliseconds.

    The time is that of the storage's clock.
    """

    key: str
    place: BlobPlace
    modified_ms: int | None


def name_of(key: str, place: BlobPlace) -> str:
    """Return where a key's file lies.

    Raises:
        InvalidBlobKey: the key is not valid.

    """
    if place is BlobPlace.INCOMING:
        return f"{INCOMING}/{key}"
    shard = f"{digest_of(blob_of(key) if place is BlobPlace.OWNER else key)[:2]}/{key}"
    return shard if place is BlobPlace.PERMANENT else f"{place}/{shard}"


def blob_of(name: str) -> str:
    """Return the key of the blob that an owner's file is about; that of a blob's file is its own."""
    return name.partition(_OWNED_BY)[0]


def _entry_of(name: str, modified_ms: int | None) -> BlobEntry | None:
    """Return what a file is; None: not of this store."""
    *folders, last = name.split("/")
    if folders == [INCOMING]:
        return BlobEntry(last, BlobPlace.INCOMING, modified_ms)
    if folders[:1] == [BlobPlace.OWNER]:
        is_one = is_key(blob_of(last)) and name == name_of(last, BlobPlace.OWNER)
        return BlobEntry(last, BlobPlace.OWNER, modified_ms) if is_one else None
    place = BlobPlace(folders[0]) if folders and folders[0] in (BlobPlace.TRANSIENT, BlobPlace.CONDEMNED) else BlobPlace.PERMANENT
    if not is_key(last) or name != name_of(last, place) or (kind_of(last) is BlobKind.TRANSIENT) != (place is BlobPlace.TRANSIENT):
        return None
    return BlobEntry(last, place, modified_ms)


class BlobWriter:
    """One blob on its way into the store: `write` its bytes, then `commit`; `abort` leaves nothing behind."""

    def __init__(self, storage: Storage, kind: BlobKind, max_bytes: int) -> None:
        self._storage = storage
        self._kind = kind
        self._max_bytes = max_bytes
        self._digest = hashlib.sha256()
        self._size = 0
        descriptor, name = tempfile.mkstemp(dir=storage.spool, prefix="blob-")
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
        """Make the blob visible under its key; once this returns it is as safe as the storage makes it.

        Raises:
            BlobStorageFailed, OSError: the storage did not take it; nothing is visible.

        """
        self._file.close()
        key = key_for(self._digest.hexdigest(), self._kind)
        place = BlobPlace.TRANSIENT if self._kind is BlobKind.TRANSIENT else BlobPlace.PERMANENT
        # Also where the key is there already: a damaged blob is healed by uploading it again, and the period of an old one restarts.
        self._storage.place(self._path, name_of(key, place))
        return StoredBlob(key, self._size)

    def abort(self) -> None:
        """Drop what was written; harmless after a commit."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.abort()


class BlobStore:
    """The blobs of one storage. Methods block; several threads may call them. All raise OSError or BlobStorageFailed for the storage."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        storage.prepare()

    def begin(self, max_bytes: int, kind: BlobKind = BlobKind.PERMANENT) -> BlobWriter:
        """Return a writer for one blob of at most `max_bytes`."""
        return BlobWriter(self.storage, kind, max_bytes)

    def put(self, stream: BinaryIO, max_bytes: int, kind: BlobKind = BlobKind.PERMANENT) -> StoredBlob:
        """Store everything that the stream holds.

        Raises:
            BlobTooLarge: it holds more than `max_bytes`; nothing was stored.

        """
        with self.begin(max_bytes, kind) as writer:
            while chunk := stream.read(CHUNK_BYTES):
                writer.write(chunk)
            return writer.commit()

    def open(self, key: str) -> tuple[BufferedReader, int]:
        """Return a verified blob, opened for reading at its start, and its size in bytes; the caller closes it.

        Raises:
            InvalidBlobKey: the key is not valid.
            BlobNotFound: there is no such blob.
            BlobDamaged: the bytes in the storage are not those that were stored.

        """
        if kind_of(key) is BlobKind.TRANSIENT:
            places: tuple[BlobPlace, ...] = (BlobPlace.TRANSIENT,)
        else:  # Looked for at its place once more: it may have been brought back between the first look and the second.
            places = (BlobPlace.PERMANENT, BlobPlace.CONDEMNED, BlobPlace.PERMANENT)
        for place in places:
            try:
                file = self.storage.open(name_of(key, place))
            except FileNotFoundError:
                continue
            try:
                return file, _verify(file, key)
            except BaseException:
                file.close()
                raise
        message = f"blob not found: {key}"
        raise BlobNotFound(message)

    def get(self, key: str) -> bytes:
        """Return a blob's bytes, verified; raises as `open` does."""
        file, _ = self.open(key)
        with file:
            return file.read()

    def delete(self, key: str, place: BlobPlace | None = None) -> bool:
        """Remove a blob, by default from where its kind lies; tell whether it was there.

        Raises:
            InvalidBlobKey: the key is not valid.

        """
        where = place or (BlobPlace.TRANSIENT if kind_of(key) is BlobKind.TRANSIENT else BlobPlace.PERMANENT)
        return self.storage.delete(name_of(key, where))

    def condemn(self, key: str) -> bool:
        """Take a permanent blob out of its place; it can still be read. Tell whether it was there."""
        return self.storage.move(name_of(key, BlobPlace.PERMANENT), name_of(key, BlobPlace.CONDEMNED))

    def restore(self, key: str) -> bool:
        """Put a condemned blob back; tell whether it was there."""
        return self.storage.move(name_of(key, BlobPlace.CONDEMNED), name_of(key, BlobPlace.PERMANENT))

    def modified_ms(self, entry: BlobEntry) -> int | None:
        """Return when the file of an entry was written last, now.

        Raises:
            FileNotFoundError: it is gone.

        """
        return self.storage.modified_ms(name_of(entry.key, entry.place))

    def note_owner(self, key: str, job_id: str) -> None:
        """Note that a blob was uploaded for a job: in the storage, so that every master counts it, also after this one."""
        descriptor, name = tempfile.mkstemp(dir=self.storage.spool, prefix="blob-")
        os.close(descriptor)
        try:
            self.storage.place(Path(name), name_of(f"{key}{_OWNED_BY}{job_id}", BlobPlace.OWNER))
        finally:
            Path(name).unlink(missing_ok=True)

    def usage(self) -> Usage:
        """Return how much all that is in the storage takes, also what is no blob, and how much the blobs of each job.

        A blob that was uploaded for several jobs is one of each.
        """
        total = 0
        sizes: Counter[str] = Counter()
        owners: dict[str, list[str]] = {}
        for file in self.storage.list():
            total += file.size_bytes
            entry = _entry_of(file.name, file.modified_ms)
            if entry is None or entry.place is BlobPlace.INCOMING:
                continue
            if entry.place is BlobPlace.OWNER:
                owners.setdefault(blob_of(entry.key), []).append(entry.key.partition(_OWNED_BY)[2])
            else:
                sizes[entry.key] += file.size_bytes
        by_job: Counter[str] = Counter()
        for key, size in sizes.items():
            by_job.update(dict.fromkeys(owners.get(key, [NO_JOB]), size))
        return Usage(total, by_job)

    def entries(self) -> Iterator[BlobEntry]:
        """Yield every file of the store; files that are not its own are left out."""
        for file in self.storage.list():
            entry = _entry_of(file.name, file.modified_ms)
            if entry is not None:
                yield entry


def _verify(file: BufferedReader, key: str) -> int:
    """Hash the open file and go back to its start; return its size."""
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = file.tell()
    if digest != digest_of(key):
        logger.error("BlobDamaged key=%s found_digest=%s size_bytes=%d", key, digest, size)
        message = f"the blob {key} is damaged in the storage of its server: its bytes have the digest {digest}; upload it again"
        raise BlobDamaged(message)
    file.seek(0)
    return size
