"""The packages that a job requires, on this host: unpacked once from their archive, and first on the module path of its tasks.

A task's process is forked from one that has loaded Spark's client, with numpy and pandas, and what is loaded cannot be loaded in another
version. So the process of a task whose job requires packages begins anew: it executes an interpreter in its place. To all others it is
the same process, with its id, its parent, its group, its files and its channel. The rule it keeps: what is unpacked is whole, belongs to
this interpreter, and stays for as long as a task holds its archive.
"""

import importlib.metadata
import json
import os
import shutil
import socket
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from eventflink.jobs.archive import PACKAGES_MARKER, ArchiveKind, interpreter, is_safe_name
from eventflink.model.statuses import TaskType
from eventflink.processes.file_lock import FileLock, LockBusy
from eventflink.processes.packages_path import PACKAGES_VARIABLE, environment_with
from eventflink.taskexecutor.archive_cache import UNPACKING
from eventflink.taskexecutor.failure_causes import CodeUnusable
from eventflink.taskexecutor.fork_server_wire import ForkServerSettings
from eventflink.taskexecutor.process_events import LaunchTask
from eventflink.taskexecutor.task_code import fetch_archives

_UNPACK_TIMEOUT_S: Final = 300.0
_MODE: Final = 0o755


def packages_of(order: LaunchTask, settings: ForkServerSettings) -> Path | None:
    """Return the directory of the packages that the job of a task requires; None: it requires none, or the task runs no Python.

    Raises:
        BlobError: the archive is not there, came damaged, or the blob server did not answer.
        CodeUnusable: it is for another interpreter, or cannot be unpacked here.

    """
    deployment = order.deployment
    if deployment.task_type is not TaskType.PYTHON and (deployment.stream is None or not deployment.stream.chained):
        return None
    found = fetch_archives(ArchiveKind.PACKAGES, deployment.code_archives, order.blob_address, settings)
    if len(found) > 1:
        raise CodeUnusable("invalid code archives: several of them hold packages, and which version of each is meant nobody knows")
    return unpacked(found[0]) if found else None


def unpacked(archive: Path) -> Path:
    """Return the directory with what an archive of packages, or of jars, holds, unpacked by the first process that asks.

    Raises:
        CodeUnusable: it is for another interpreter, or cannot be unpacked here.

    """
    directory = archive.with_suffix("")
    if directory.is_dir():
        return directory
    try:
        with FileLock(archive.with_suffix(".lock"), _UNPACK_TIMEOUT_S):
            if not directory.is_dir():
                _unpack(archive, directory)
    except (LockBusy, OSError, zipfile.BadZipFile) as error:
        raise CodeUnusable(f"archive {archive.stem} cannot be unpacked: {error}") from error
    return directory


def _unpack(archive: Path, directory: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        if PACKAGES_MARKER in opened.NameToInfo:
            _check_interpreter(json.loads(opened.read(PACKAGES_MARKER)))
        part = Path(tempfile.mkdtemp(dir=archive.parent, suffix=UNPACKING))
        try:
            for member in _checked(opened):
                place = Path(opened.extract(member, part))
                if (mode := member.external_attr >> 16 & 0o777) and place.is_file():
                    place.chmod(mode)
            part.chmod(_MODE)
            part.rename(directory)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise


def _checked(opened: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    members = opened.infolist()
    if unsafe := [each.filename for each in members if not is_safe_name(each.filename)]:
        raise CodeUnusable(f"invalid archive: '{unsafe[0][:128]}' is not the path of a file below the top")
    return members


def _check_interpreter(told: Mapping[str, object]) -> None:
    own = interpreter()
    if differing := [name for name, value in own.items() if told.get(name) != value]:
        theirs, ours = (", ".join(str(values.get(name)) for name in differing) for values in (told, own))
        raise CodeUnusable(
            f"invalid packages: they were installed for {theirs}, and tasks run on {ours} here: submit the job with such a Python"
        )


def find_conflicts(packages: Path, *, is_elsewhere: bool) -> list[str]:
    """Return which packages of a job are installed beside Spark in other versions, as `numpy 2.2.6 (here 2.4.6)`.

    `is_elsewhere`: that Spark is not of this host, so nobody knows what is installed beside it: then all of them.
    """
    required = sorted((each.name, each.version) for each in importlib.metadata.distributions(path=[str(packages)]))
    if is_elsewhere:
        return [f"{name} {version}" for name, version in required]
    beside = [path for path in sys.path if path != str(packages)]
    found = []
    for name, version in required:
        installed = next(iter(importlib.metadata.distributions(name=name, path=beside)), None)
        if installed is not None and installed.version != version:
            found.append(f"{name} {version} (here {installed.version})")
    return found


def refuse_foreign_processes(conflicts: Sequence[str]) -> None:
    """Let this process refuse what Spark would run without the packages of the job, in the versions that are installed beside it.

    Spark 4.2 starts the processes of stateful processors and of Python data sources by its own Python, whatever the session says.
    """
    from pyspark.sql.connect.datasource import DataSourceRegistration  # noqa: PLC0415 - Spark is loaded by those who use it
    from pyspark.sql.connect.group import GroupedData  # noqa: PLC0415 - likewise

    def refuse(*_: object, **__: object) -> NoReturn:
        raise CodeUnusable(
            "stateful processors and Python data sources run with what is installed beside Spark, not with the packages of the job: "
            f"{', '.join(conflicts)}; require the versions that are installed there, or leave them out"
        )

    for name in ("transformWithState", "transformWithStateInPandas"):
        setattr(GroupedData, name, refuse)
    DataSourceRegistration.register = refuse


def begin_anew(packages: Path, module: str, channel: socket.socket, orders: bytes) -> NoReturn:
    """Execute a module in place of what this process has loaded, with packages before all that is installed.

    Args:
        packages: their directory.
        module: is given the descriptors of the channel and of a file with the orders.
        channel: to the fork server.
        orders: what has come over it, and before it.

    Raises:
        OSError: no interpreter can be executed.

    """
    told = os.memfd_create("orders")
    with open(told, "wb", closefd=False) as file:
        file.write(orders)
    os.lseek(told, 0, os.SEEK_SET)
    for descriptor in (told, channel.fileno()):
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - as the function is
    command = [sys.executable, "-P", "-m", module, str(channel.fileno()), str(told)]
    os.execve(sys.executable, command, environment_with(packages) | {PACKAGES_VARIABLE: str(packages)})  # noqa: S606 - itself
