"""A task's code: its archives come from the blob server, once per host, and its function is found in them or among the installed modules.

Runs in the process of the task and nowhere else: what is imported here changes `sys.path` and `sys.modules` for good. Two jobs never
see each other's code, because no two tasks share a process and the fork server imports no user code.
"""

import difflib
import functools
import importlib
import inspect
import math
import sys
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from eventflink.blob.keys import check_key
from eventflink.events.effects import TaskDeployment
from eventflink.jobs.archive import ArchiveKind, kind_of
from eventflink.jobs.module_imports import import_for_jobs
from eventflink.jobs.sql_files import find_sql
from eventflink.model.statuses import TaskType
from eventflink.processes.file_lock import LockBusy
from eventflink.taskexecutor.archive_cache import DIRECTORY, hold_archive, release_unused
from eventflink.taskexecutor.blob_access import fetch_blob
from eventflink.taskexecutor.failure_causes import CodeUnusable, UnknownFunction
from eventflink.taskexecutor.fork_server_wire import ForkServerSettings

_held: Final[dict[Path, int]] = {}
"""Descriptors of the archives that this process uses, by their paths: they stay open as long as it lives."""


def load_archives(digests: Iterable[str], blob_address: str, settings: ForkServerSettings) -> list[Path]:
    """Put the archives of code first on the module path, in their order, and return where they are; of packages and jars none are.

    Raises:
        BlobError: an archive is not there, came damaged, or the blob server did not answer.
        CodeUnusable: an archive is not a zip file, or cannot be stored here.

    """
    paths = fetch_archives(ArchiveKind.CODE, digests, blob_address, settings)
    if paths:
        sys.path[:0] = [str(path) for path in paths]
        importlib.invalidate_caches()
    return paths


def fetch_archives(kind: ArchiveKind, digests: Iterable[str], blob_address: str, settings: ForkServerSettings) -> list[Path]:
    """Return where the archives of one kind are on this host; raises as `fetch_archive` does."""
    return [path for digest in digests if _kind_of(path := fetch_archive(digest, blob_address, settings)) is kind]


def fetch_archive(digest: str, blob_address: str, settings: ForkServerSettings) -> Path:
    """Return the path of the archive on this host, where it stays as long as this process lives.

    Raises:
        BlobError: the archive is not there, came damaged, or the blob server did not answer.
        CodeUnusable: it is not a zip file, or cannot be stored here.

    """
    directory = settings.runtime_directory / DIRECTORY
    if (held := directory / f"{digest}.zip") in _held:
        return held
    try:
        path, descriptor = hold_archive(
            directory, check_key(digest), lambda: fetch_blob(blob_address, digest, settings.log_directory, settings.tls)
        )
        _held[path] = descriptor
        release_unused(directory, math.inf)
    except (LockBusy, OSError) as error:
        raise CodeUnusable(f"code archive {digest} cannot be stored: {error}") from error
    if not zipfile.is_zipfile(path):
        raise CodeUnusable(f"invalid code archive {digest}: it is not a zip file")
    return path


@functools.cache
def _kind_of(path: Path) -> ArchiveKind:
    return kind_of(path)


def with_statements(deployment: TaskDeployment, archives: Sequence[Path]) -> TaskDeployment:
    """Return a deployment that says the SQL of its task, and of what is chained to that, where it names files.

    Raises:
        CodeUnusable: a file is in none of the archives, or cannot be read.

    """

    def read(task_type: TaskType, task: str) -> dict[str, Any]:
        return {"task_type": TaskType.SQL, "task": _read_sql(task, archives)} if task_type is TaskType.SQL_FILE else {}

    stream = deployment.stream
    if stream is not None:
        stream = replace(stream, chained=tuple([replace(each, **read(each.task_type, each.task)) for each in stream.chained]))
    return replace(deployment, stream=stream, **read(deployment.task_type, deployment.task))


def _read_sql(path: str, archives: Sequence[Path]) -> str:
    try:
        text = find_sql(path, archives)
    except (OSError, ValueError) as error:
        raise CodeUnusable(f"sql_file {path} cannot be read: {error}") from error
    if text is None:
        raise CodeUnusable(
            f"sql_file not found: {path}; the code archives of the job are {', '.join(each.stem for each in archives) or 'none'}"
        )
    return text


def resolve_task(task: str) -> Callable[[Any], Any]:
    """Return the function of a task, which can be called with the context alone.

    Raises:
        UnknownFunction: there is no such function, or it takes no such argument, or needs others.

    """
    function = resolve_function(task)
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except ValueError:  # Of a function in C nobody knows.
        return function
    try:
        signature.bind(None)
    except TypeError as error:
        raise UnknownFunction(f"invalid function: '{task}' takes {signature}; a task takes one argument, the context") from error
    return function


def resolve_function(task: str) -> Callable[[Any], Any]:
    """Return the function that `module:function` names; errors of the module's own code pass through.

    Raises:
        UnknownFunction: there is no such module or function, or it cannot be called.

    """
    module_name, colon, function_name = task.partition(":")
    if not colon or not module_name or module_name.startswith(".") or not function_name:
        raise UnknownFunction(f"invalid function: '{task}'; give module:function")
    try:
        module = import_for_jobs(module_name)
    except ModuleNotFoundError as error:
        # The module's own imports may be what is missing: that is an error of the user's code, with its stack trace.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise UnknownFunction(
            f"'{task}' names the module '{module_name}', but '{error.name}' is neither in the job's code archives nor installed here:"
            " give it by --code"
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
