"""What a TaskExecutor has of itself for others to read: its log, what it prints, the list of its logs, and the stacks of its threads.

It finds its log by itself: a handler of the logging set-up names its file, and standard error and standard output are files where a
daemon, a terminal's redirection or a service manager made them so. The rule: a name that comes over the network is looked up in the list of
its own logs, and never becomes part of a path.
"""

import glob
import json
import logging
import os
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from eventflink.events.effects import TaskManagerFileUploadOrder
from eventflink.metrics.threads import dump_threads
from eventflink.model.statuses import TaskManagerFile

MAX_LISTED: Final = 1_000
_SUFFIXES: Final = (".log", ".out", ".err", ".txt")
_STANDARD_OUTPUT: Final = 1
_STANDARD_ERROR: Final = 2


class FileUnavailable(Exception):
    """There is no such file; the message says why, or what there is instead."""


@dataclass(frozen=True, slots=True)
class LogInfo:
    """One log, as Flink's LogInfo."""

    name: str
    size_bytes: int
    modified_at_ms: int


class OwnFiles:
    """The files of this process."""

    def __init__(self, directory: Path) -> None:
        """Take the directory where the TaskExecutor's helpers log; in folders of it are the files of tasks, which do not count."""
        self._directory = directory

    def find(self, order: TaskManagerFileUploadOrder) -> Path | bytes:
        """Return the file that is wanted, or a document that was made now.

        Raises:
            FileUnavailable: there is none.

        """
        match order.file:
            case TaskManagerFile.LOG:
                return self._required(self._log(), "it logs to no file: its standard error is a terminal, a pipe or closed")
            case TaskManagerFile.STDOUT:
                return self._required(_file_behind(_STANDARD_OUTPUT), "its standard output is not a file, but a terminal, a pipe or closed")
            case TaskManagerFile.NAMED:
                return self._named(order.name)
            case TaskManagerFile.LOG_LIST:
                return json.dumps({"logs": [asdict(info) for info in self.logs()]}, ensure_ascii=False).encode()
            case TaskManagerFile.THREAD_DUMP:
                return dump_threads().encode()

    def logs(self) -> list[LogInfo]:
        """Return its logs by name: its own and what it prints, with their earlier ones, and those of its helpers."""
        found: dict[str, LogInfo] = {}
        for path in self._paths():
            if path.name in found or len(found) >= MAX_LISTED:
                continue
            try:
                status = path.lstat()  # A link is nobody's log: what it leads to is not read either.
            except OSError:
                continue  # It was rotated away just now.
            if stat.S_ISREG(status.st_mode):
                found[path.name] = LogInfo(path.name, status.st_size, status.st_mtime_ns // 1_000_000)
        return [found[name] for name in sorted(found)]

    def _paths(self) -> Iterator[Path]:
        for path in (self._log(), _file_behind(_STANDARD_OUTPUT), _file_behind(_STANDARD_ERROR)):
            if path is not None:
                yield path
                yield from sorted(path.parent.glob(f"{glob.escape(path.name)}.*"))
        if self._directory.is_dir():
            yield from sorted(path for path in self._directory.iterdir() if path.suffix in _SUFFIXES)

    def _named(self, name: str) -> Path:
        known = {info.name for info in self.logs()}
        for path in self._paths() if name in known else ():
            if path.name == name:
                return path
        raise FileUnavailable(f"log not found: '{name[:255]}'; the TaskExecutor has {', '.join(sorted(known)) or 'no logs'}")

    def _log(self) -> Path | None:
        for logger in (logging.getLogger("eventflink"), logging.getLogger()):
            for handler in logger.handlers:
                if isinstance(handler, logging.FileHandler):
                    return Path(handler.baseFilename).resolve()
        return _file_behind(_STANDARD_ERROR)

    @staticmethod
    def _required(path: Path | None, reason: str) -> Path:
        if path is None:
            raise FileUnavailable(reason)
        return path


def _file_behind(descriptor: int) -> Path | None:
    """Return the file that a descriptor of this process is open for; None: it is not a file, or has no name any more."""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        return path if os.path.samestat(path.stat(), os.fstat(descriptor)) else None
    except OSError:
        return None
