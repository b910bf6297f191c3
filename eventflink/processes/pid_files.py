"""The pid files of one cluster on one host: who runs, as the one that started it wrote it down.

A file names the process by number and start, so that a number that was given out again is never taken for ours. A file of another host
(the directory is shared by mistake, or moved) is nobody's here: it is neither believed nor removed. Writing is atomic.
"""

import contextlib
import os
import socket
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from eventflink.processes.file_lock import locked
from eventflink.processes.identity import ProcessIdentity

LOCK_TIMEOUT_S: Final = 10.0
_SUFFIX: Final = ".pid"


class DaemonKind(StrEnum):
    """What a daemon is; the value is its command."""

    BROKER = "broker"
    MASTER = "master"
    TASK_EXECUTOR = "taskexecutor"
    REST = "rest"
    WORKER = "worker"
    """A TaskExecutor that the resource driver `process` started; no configuration names it."""


class PidFilesUnusable(OSError):
    """A directory of pid files or logs cannot be made, or somebody else holds it; the message says which."""


def make_directory(directory: Path, key: str) -> None:
    """Make a directory that a key of the configuration names.

    Raises:
        PidFilesUnusable: it cannot be made; the message names the key.

    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PidFilesUnusable(f"{key}: {directory} cannot be made: {error.strerror or error}") from error


class PidFile(BaseModel):
    """What a pid file says."""

    model_config = ConfigDict(frozen=True)

    kind: DaemonKind
    daemon_id: str
    host: str
    """The line's host, as the configuration writes it."""
    host_name: str
    """The name of the machine."""
    process_id: int
    started: str
    log_path: str
    bootstrap: str

    @property
    def identity(self) -> ProcessIdentity:
        """The process that is meant."""
        return ProcessIdentity(self.process_id, self.started)


class PidFiles:
    """A directory of pid files."""

    def __init__(self, directory: Path) -> None:
        """Name the directory; it is made when it is first written to."""
        self._directory = directory

    def path(self, daemon_id: str) -> Path:
        """Return where the file of this daemon is."""
        return self._directory / f"{daemon_id}{_SUFFIX}"

    def write(self, file: PidFile) -> None:
        """Write a file, over one of the same id.

        Raises:
            OSError: it cannot be written.

        """
        make_directory(self._directory, "env.pid.dir")
        temporary = self.path(file.daemon_id).with_suffix(f".{os.getpid()}")
        temporary.write_text(file.model_dump_json() + "\n", encoding="utf-8")
        temporary.replace(self.path(file.daemon_id))

    def read(self, daemon_id: str) -> PidFile | None:
        """Return what is written about this daemon on this host; None: nothing, or nothing that can be read."""
        try:
            file = PidFile.model_validate_json(self.path(daemon_id).read_bytes())
        except (OSError, ValidationError):
            return None
        return file if file.host_name == socket.gethostname() and file.daemon_id == daemon_id else None

    def all(self) -> list[PidFile]:
        """Return all of this host, by id."""
        paths = sorted(self._directory.glob(f"*{_SUFFIX}"))
        return [file for path in paths if (file := self.read(path.name.removesuffix(_SUFFIX))) is not None]

    def remove(self, file: PidFile) -> None:
        """Remove a file, unless it is about another process by now."""
        if self.read(file.daemon_id) == file:
            self.path(file.daemon_id).unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other starts and stops on this host out while the block runs.

        Raises:
            OSError: another one does not end, or the directory cannot be made or written to.

        """
        make_directory(self._directory, "env.pid.dir")
        path = self._directory / "lock"
        busy = PidFilesUnusable(f"another 'cluster start' or 'cluster stop' holds {path}; try again when it has ended")
        with locked(path, LOCK_TIMEOUT_S, busy):
            yield
