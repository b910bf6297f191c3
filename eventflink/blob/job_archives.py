"""The archives of ended jobs: one JSON document for each, in a directory or behind an fsspec URL, which all masters of a cluster reach.

    <archive directory>/<cluster id>/<job id>.json      {"format": 1, "sha256": "…", "archive": {…}}

`sha256` is that of the bytes of `archive`. Nothing is believed that has another digest than it says itself, or than the log says; what
is damaged is an error and never an answer. What was verified is kept in memory, within bounds. As with Flink's HistoryServerArchivist, an
archive is for ever: who wants fewer of them deletes files.
"""

import contextlib
import hashlib
import json
import re
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from eventflink.blob import BlobError, BlobStorageFailed
from eventflink.blob.storage import Storage
from eventflink.processes.disk import FAULTS, describe

MAX_ARCHIVE_BYTES: Final = 256 * 1024 * 1024
"""Of one archive: no document that is read is longer."""

MAX_CACHE_BYTES: Final = 64 * 1024 * 1024
_HEAD: Final = re.compile(rb'\{"format": 1, "sha256": "([0-9a-f]{64})", "archive": ')
_TAIL: Final = b"}\n"
_IDENTITY: Final = ("job_id", "graph_digest", "submitted_at_ms", "ended_at_ms")
"""What tells one job from another of the same id, which may come when the first id is long forgotten."""


class ArchiveMissing(BlobError):
    """There is no archive of the job."""


class ArchiveDamaged(BlobError):
    """What lies there is not what was archived."""


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """An archive that is written."""

    location: str
    digest: str
    byte_count: int


def render_archive(archive: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return the document of an archive and its digest: the same for the same archive, whichever master writes it."""
    body = json.dumps(archive, ensure_ascii=False, separators=(",", ":")).encode()
    digest = hashlib.sha256(body).hexdigest()
    return b'{"format": 1, "sha256": "%s", "archive": ' % digest.encode() + body + _TAIL, digest


def parse_archive(document: bytes, job_id: str, digest: str = "") -> tuple[dict[str, Any], str]:
    """Return the archive of a document, and its digest; a `digest` that is given is the one it has to have.

    Raises:
        ArchiveDamaged: it is another document than was written; the message says what is wrong.

    """
    if len(document) > MAX_ARCHIVE_BYTES:
        raise ArchiveDamaged(f"it is longer than {MAX_ARCHIVE_BYTES} bytes")
    head = _HEAD.match(document)
    if head is None or not document.endswith(_TAIL):
        raise ArchiveDamaged("it is not a whole archive of format 1")
    body, promised = document[head.end() : -len(_TAIL)], head[1].decode()
    found = hashlib.sha256(body).hexdigest()
    if found != promised:
        raise ArchiveDamaged(f"its digest is {found}, and it says itself that it is {promised}")
    if digest and found != digest:
        raise ArchiveDamaged(f"its digest is {found}, and the log says that it is {digest}")
    archive = json.loads(body)
    if not isinstance(archive, dict) or archive.get("job_id") != job_id:
        raise ArchiveDamaged("it is the archive of another job")
    return archive, found


class JobArchives:
    """The archives of one cluster. Methods block; several threads may call them, and several masters may use one place at a time."""

    def __init__(self, storage: Storage, cache_size: int) -> None:
        """Take the place; at most `cache_size` archives are kept in memory. Nothing is opened yet."""
        self._storage = storage
        self._cache_size = cache_size
        self._cache: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._cached_bytes = 0
        self._lock = threading.Lock()

    def location_of(self, job_id: str) -> str:
        """Return where the archive of a job is, for people."""
        return f"{self._storage.location}/{_name_of(job_id)}"

    def write(self, archive: Mapping[str, Any]) -> ArchiveFile:
        """Write the archive of a job, whole or not at all; one of the same job that lies there undamaged stays.

        Raises:
            OSError, BlobStorageFailed: the storage did not take it.

        """
        job_id = str(archive["job_id"])
        document, digest = render_archive(archive)
        with contextlib.suppress(ArchiveMissing, ArchiveDamaged):
            present, present_digest, length = self._read(job_id, "")
            # Who wrote it may be a leader whose decision is not in the log: there is one archive, whatever the version that wrote it.
            if all(present.get(name) == archive.get(name) for name in _IDENTITY):
                return ArchiveFile(self.location_of(job_id), present_digest, length)
        self._storage.prepare()
        spool = self._storage.spool
        with tempfile.NamedTemporaryFile(prefix="archive-", dir=spool, delete=False) as file:
            path = Path(file.name)
            try:
                file.write(document)
                file.flush()
                self._storage.place(path, _name_of(job_id))
            except OSError as error:
                if error.errno in FAULTS:
                    raise BlobStorageFailed(describe(error, path.parent)) from error
                raise
            finally:
                path.unlink(missing_ok=True)
        return ArchiveFile(self.location_of(job_id), digest, len(document))

    def read(self, job_id: str, digest: str = "") -> dict[str, Any]:
        """Return the archive of a job, verified.

        Raises:
            ArchiveMissing: there is none.
            ArchiveDamaged: what is there is not what was archived; the message says where.
            OSError, BlobStorageFailed: the storage does not answer as it should.

        """
        with self._lock:
            document = self._cache.get((job_id, digest)) if digest else None
            if document is not None:
                self._cache.move_to_end((job_id, digest))
        if document is not None:
            return parse_archive(document, job_id, digest)[0]
        return self._read(job_id, digest)[0]

    def _read(self, job_id: str, digest: str) -> tuple[dict[str, Any], str, int]:
        location = self.location_of(job_id)
        try:
            with self._storage.open(_name_of(job_id)) as file:
                document = file.read(MAX_ARCHIVE_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ArchiveMissing(f"archive not found: job '{job_id}' at {location}") from error
        try:
            archive, found = parse_archive(document, job_id, digest)
        except ArchiveDamaged as error:
            raise ArchiveDamaged(f"the archive of job '{job_id}' at {location} is damaged: {error}") from error
        if digest:
            self._keep((job_id, digest), document)
        return archive, found, len(document)

    def _keep(self, key: tuple[str, str], document: bytes) -> None:
        with self._lock:
            self._cached_bytes += len(document) - len(self._cache.pop(key, b""))
            self._cache[key] = document
            while self._cache and (len(self._cache) > self._cache_size or self._cached_bytes > MAX_CACHE_BYTES):
                self._cached_bytes -= len(self._cache.popitem(last=False)[1])


def _name_of(job_id: str) -> str:
    return f"{job_id}.json"
