"""The code archives that tasks of this host have used, kept for those that come next.

One directory for all TaskExecutors of a data directory. The rule: an archive is only used whole and undamaged, and stays as long as a
task that uses it lives: each task's process holds a shared lock on the file, so that the kernel counts the references, however a process
dies. What no task uses goes some time after it was last seen in use. Python reads a zip again for each module: one in use must not vanish.
"""

import contextlib
import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from eventflink.processes.file_lock import FileLock, LockBusy, try_lock

DIRECTORY: Final = "archives"
KEPT_ARCHIVES: Final = 200
"""How many archives that no task uses stay at most, those that were used last."""
CHECK_INTERVAL_S: Final = 60.0
UNPACKING: Final = ".unpacking"
"""The ending of a directory into which packages are being unpacked."""
_REMOVED: Final = ".removed"
_LOCK_FILE: Final = "lock"
_LOCK_TIMEOUT_S: Final = 10.0
_ABANDONED_AFTER_S: Final = 3600.0

_LOGGER = logging.getLogger(__name__)


def hold_archive(directory: Path, digest: str, fetch: Callable[[], bytes]) -> tuple[Path, int]:
    """Return where the archive is, and an open descriptor: until that is closed, or its process ends, the archive stays.

    What is there already is hashed again before it is used; `fetch` gets what is not, verified.

    Raises:
        LockBusy: another process has held the directory's lock for too long.
        OSError: it cannot be stored here.

    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{digest}.zip"
    with _lock_of(directory):
        descriptor = _open_shared(path)
    damaged: int | None = None
    if descriptor is not None:
        if _digest_of(descriptor) == digest:
            os.utime(descriptor)
            return path, descriptor
        damaged = os.fstat(descriptor).st_ino
        os.close(descriptor)
    return path, _store(directory, path, fetch(), damaged)


def _store(directory: Path, path: Path, data: bytes, damaged: int | None) -> int:
    """Put an archive in the place of nothing, or of the damaged file with that inode; return a descriptor that holds it."""
    temporary_descriptor, temporary = tempfile.mkstemp(dir=directory, suffix=".part")
    try:
        with os.fdopen(temporary_descriptor, "wb") as file:
            file.write(data)
        with _lock_of(directory):
            # Another task may have fetched it meanwhile: in its place, this one would leave that task's lock on a file without a name.
            descriptor = _open_shared(path)
            if descriptor is not None and os.fstat(descriptor).st_ino == damaged:
                os.close(descriptor)
                descriptor = None
            if descriptor is None:
                Path(temporary).replace(path)
                descriptor = _open_shared(path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    if descriptor is None:
        raise FileNotFoundError(f"{path} vanished while it was locked: something else removes files there")
    _LOGGER.info("ArchiveFetched archive=%s bytes=%d", path.name, len(data))
    return descriptor


def release_unused(directory: Path, delay_s: float, kept: int = KEPT_ARCHIVES) -> int:
    """Remove the archives that no task uses and that were last seen in use `delay_s` ago, and of the others all but the newest `kept`.

    Return how many went; doing it in several processes at once is harmless.

    Raises:
        LockBusy: another process has held the directory's lock for too long.
        OSError: the directory cannot be read or written.

    """
    if not directory.is_dir():
        return 0
    with _lock_of(directory):
        now_s = time.time()
        ages = ((_unused_for(path, now_s), path) for path in directory.glob("*.zip"))
        unused = sorted(((age_s, path) for age_s, path in ages if age_s is not None), reverse=True)
        beyond = len(unused) - kept
        gone = [path for number, (age_s, path) in enumerate(unused) if number < beyond or age_s >= delay_s]
        for path in gone:
            if (unpacked := path.with_suffix("")).is_dir():  # Of packages. At once, or a half of them could be taken for the whole.
                unpacked.rename(tempfile.mkdtemp(dir=directory, suffix=_REMOVED))
            for each in (path, path.with_suffix(".lock")):
                each.unlink(missing_ok=True)
            _LOGGER.info("ArchiveReleased archive=%s", path.name)
        abandoned = [each for pattern in ("*.part", f"*{UNPACKING}") for each in directory.glob(pattern) if _is_abandoned(each, now_s)]
    for path in [*abandoned, *directory.glob(f"*{_REMOVED}")]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)  # What is left goes the next time.
        else:
            path.unlink(missing_ok=True)
    return len(gone)


def _is_abandoned(path: Path, now_s: float) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return now_s - path.stat().st_mtime >= _ABANDONED_AFTER_S
    return False


def keep_clean(directory: Path, delay_s: float) -> None:
    """Release what is unused from now on, in a thread that ends with the process."""

    def run() -> None:
        while True:
            time.sleep(min(delay_s, CHECK_INTERVAL_S))
            try:
                release_unused(directory, delay_s)
            except (LockBusy, OSError) as error:
                _LOGGER.warning("ArchivesNotReleased directory=%s error=%s", directory, error)

    threading.Thread(target=run, name="archive-cache", daemon=True).start()


def _unused_for(path: Path, now_s: float) -> float | None:
    """Return for how many seconds no task was seen to use an archive; None: a task uses it now, which is noted by its time."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        if try_lock(descriptor):
            return now_s - os.fstat(descriptor).st_mtime
        os.utime(descriptor)
        return None
    finally:
        os.close(descriptor)


def _open_shared(path: Path) -> int | None:
    """Return a descriptor that holds the archive; None: it is not there. For callers with the directory's lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _digest_of(descriptor: int) -> str:
    with open(descriptor, "rb", closefd=False) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _lock_of(directory: Path) -> FileLock:
    """Return the directory's lock, held for as long as it takes to rename or remove."""
    return FileLock(directory / _LOCK_FILE, _LOCK_TIMEOUT_S)
