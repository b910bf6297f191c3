"""A task's code: its archives come from the blob server, once per host, and its function is found in them or among the installed modules.

Runs in the process of the task and nowhere else: what is imported here changes `sys.path` and `sys.modules` for good. Two jobs never
see each other's code, because no two tasks share a process and the fork server imports no user code.
"""

import contextlib
import difflib
import hashlib
import importlib
import logging
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from eventflink.blob.client import get_blob
from eventflink.blob.keys import check_key
from eventflink.blob.tls import TlsFiles
from eventflink.taskexecutor.failure_causes import CodeUnusable, UnknownFunction

logger = logging.getLogger(__name__)

_ARCHIVE_DIRECTORY: Final = "archives"
_KEPT_ARCHIVES: Final = 200
"""How many archives stay on the host, those that were used last; Python reads a zip again for each module, so one in use must stay."""


def load_archives(digests: Iterable[str], blob_address: str, runtime_directory: Path, tls: TlsFiles | None = None) -> list[Path]:
    """Put the archives first on the module path, in their order, and return where they are.

    Raises:
        BlobError: an archive is not there, came damaged, or the blob server did not answer.
        CodeUnusable: an archive is no zip, or cannot be stored here.

    """
    paths = [fetch_archive(digest, blob_address, runtime_directory / _ARCHIVE_DIRECTORY, tls) for digest in digests]
    if paths:
        sys.path[:0] = [str(path) for path in paths]
        importlib.invalidate_caches()
    return paths


def fetch_archive(digest: str, blob_address: str, directory: Path, tls: TlsFiles | None = None) -> Path:
    """Return the path of the archive on this host; what is there already is hashed again before it is used.

    Raises:
        BlobError: the archive is not there, came damaged, or the blob server did not answer.
        CodeUnusable: it is no zip, or cannot be stored here.

    """
    path = directory / f"{check_key(digest)}.zip"
    if path.is_file() and _digest_of(path) == digest:
        os.utime(path)
        return path
    data = get_blob(blob_address, digest, tls=tls)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=directory, suffix=".part")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            Path(temporary).replace(path)
            _remove_oldest(directory)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CodeUnusable(f"code archive {digest} cannot be stored: {error}") from error
    if not zipfile.is_zipfile(path):
        raise CodeUnusable(f"code archive {digest} is no zip file")
    logger.info("ArchiveFetched digest=%s bytes=%d", digest, len(data))
    return path


def resolve_function(task: str) -> Callable[[Any], Any]:
    """Return the function that `module:function` names; errors of the module's own code pass through.

    Raises:
        UnknownFunction: there is no such module or function, or it cannot be called.

    """
    module_name, colon, function_name = task.partition(":")
    if not colon or not module_name or not function_name:
        raise UnknownFunction(f"'{task}' names no function: module:function is expected")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # The module's own imports may be what is missing: that is an error of the user's code, with its stack trace.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise UnknownFunction(
            f"'{task}' names the module '{module_name}', but '{error.name}' is neither in the job's code archives nor installed here"
        ) from error
    function: Any = module
    for part in function_name.split("."):
        if not hasattr(function, part):
            near = difflib.get_close_matches(part, [n for n in dir(function) if not n.startswith("_")], n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise UnknownFunction(f"'{task}' names the function '{function_name}', which the module '{module_name}' does not have{hint}")
        function = getattr(function, part)
    if not callable(function):
        raise UnknownFunction(f"'{task}' names something that cannot be called: {type(function).__name__}")
    return function  # type: ignore[no-any-return]


def _remove_oldest(directory: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # Another task removes the same; whoever comes last finishes.
        files = sorted(((entry.stat().st_mtime_ns, entry.path) for entry in os.scandir(directory)), reverse=True)
        for _, path in files[_KEPT_ARCHIVES:]:
            Path(path).unlink()


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
