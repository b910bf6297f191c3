"""Archives of class data: what a JVM has loaded once, the next one like it maps from a file, in half the processor time.

An archive is for one program, set of jars and JVM. The first start without one records which classes it loads; a process of its own,
this module run as a program, waits until no more come and makes the archive of them with the lowest priority. The rule: an archive
only makes a start cheaper. Where none can be made or the JVM refuses it, everything works as it does without, and nothing is said but
one line; it appears whole or not at all, and of many processes that need it only one makes it.
"""

import contextlib
import hashlib
import logging
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from eventflink.local.jars import default_cache_directory
from eventflink.processes import die_with_parent
from eventflink.processes.disk import find_fault
from eventflink.processes.file_lock import LockBusy, locked

_LOGGER = logging.getLogger(__name__)

_KEPT_UNUSED_S: Final = 7 * 24 * 3600.0
_MOST_ARCHIVES: Final = 16
"""Each has up to 180 MB, and each directory that pyspark is installed in has its own."""
_ROOM_BYTES: Final = 1 << 30
_QUIET_S: Final = 5.0
"""How long no further class may have been loaded before the list of them counts as complete."""

_RECORD_LIMIT_S: Final = 600.0
_MAKE_LIMIT_S: Final = 600.0
_END_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 1.0
_LOWEST_PRIORITY: Final = 19
_MAKER: Final = "eventflink.local.class_data"
_RECORD: Final = "-XX:DumpLoadedClassList="
_SAFELY: Final = ("-XX:+IgnoreUnrecognizedVMOptions", "-XX:+VerifySharedSpaces", "-Xlog:cds*=off")
"""A JVM that does not know them goes on; one that maps an archive first compares its checksums, and says nothing about what it refuses."""


class ClassData:
    """What one start of a program in a JVM has to do with class data: `options` before it, `make_archive` once it runs."""

    def __init__(
        self,
        name: str,
        java: Path,
        identity: Sequence[str],
        main_class: str,
        needed_class: str = "",
        cache_directory: Path | None = None,
        more_jars: str = "",
    ) -> None:
        """Look for the archive; prepare to record where there is none.

        Args:
            name: of the program, with its version.
            java: that runs it.
            identity: what an archive depends on besides: the JVM's options and where the jars are.
            main_class: what stands after the JVM's options in the program's command line.
            needed_class: one that a list of classes has before an archive is worth making, such as `java/lang/String`.
            cache_directory: where archives are kept; by default in the user's cache.
            more_jars: what this start has at the end of its class path besides; the archive is without, and good for every such start.

        """
        self._more_jars = more_jars
        self._main_class = main_class
        self._needed_class = needed_class
        self._list: Path | None = None
        self.options: tuple[str, ...] = ()
        """What the JVM is told besides."""
        directory = (cache_directory if cache_directory is not None else default_cache_directory()) / "class-data"
        with contextlib.suppress(OSError):  # Without a cache that can be written to there is no archive.
            status = java.resolve().stat()
            key = hashlib.sha256(repr((str(java.resolve()), status.st_mtime_ns, status.st_size, *identity)).encode()).hexdigest()[:16]
            self._archive = directory / f"{name}-{key}.jsa"
            if self._archive.is_file():
                self.options = (f"-XX:SharedArchiveFile={self._archive}", "-Xshare:auto", *_SAFELY)
                os.utime(self._archive)
            directory.mkdir(parents=True, exist_ok=True)
            _remove_unused(directory)
            # What a JVM runs with is read from /proc; and where an archive could not be made, it is not tried at each start.
            if not self.options and sys.platform == "linux" and not _failure_of(self._archive).exists():
                recorded = self._archive.with_suffix(f".{uuid.uuid4().hex}.classes")
                recorded.touch(exist_ok=False)
                self._list = recorded
                self.options = (f"{_RECORD}{recorded}",)

    def make_archive(self, process_id: int) -> None:
        """Have the archive made in the background of what the started JVM records; does nothing where there is one."""
        recorded, self._list = self._list, None
        if recorded is None:
            return
        log = recorded.with_suffix(".log")
        maker = [sys.executable, "-P", "-m", _MAKER]
        maker += [str(self._archive), str(recorded), str(process_id), self._main_class, self._needed_class, self._more_jars]
        try:
            # The shell ends at once: who made it for this process has nothing to wait for, and the archive may be ready after its end.
            command = ["sh", "-c", 'log=$1; shift; "$@" >"$log" 2>&1 &', "sh", str(log), *maker]
            subprocess.run(command, stdin=subprocess.DEVNULL, start_new_session=True, cwd=log.parent, check=False)
        except OSError as error:
            _LOGGER.info("ClassDataNotShared archive=%s reason=%r", self._archive, str(error))
        else:
            _LOGGER.info("ClassDataToBeShared archive=%s log=%s", self._archive, log)


def stop_making(cache_directory: Path | None = None) -> None:
    """End the processes that make archives for this cache, so that a stopped cluster leaves none running; a later start makes them."""
    import psutil  # noqa: PLC0415 - only who stops a cluster needs it

    directory = (cache_directory if cache_directory is not None else default_cache_directory()) / "class-data"
    makers = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if _MAKER in command and Path(command[command.index(_MAKER) + 1]).parent == directory:
                process.terminate()
                makers.append(process)
    _, alive = psutil.wait_procs(makers, _END_TIMEOUT_S)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()


def _failure_of(archive: Path) -> Path:
    """Return where it stands why an archive could not be made; as long as that is there, it is not tried again."""
    return archive.with_suffix(".failed")


def _remove_unused(directory: Path) -> None:
    """Remove what no start has used for a week, and of more archives those that were not used for longest.

    A JVM that has mapped an archive keeps it.
    """
    used_at = {}
    for path in directory.iterdir():
        with contextlib.suppress(FileNotFoundError):
            used_at[path] = path.stat().st_mtime
    unused = [path for path, used_at_s in used_at.items() if time.time() - used_at_s > _KEPT_UNUSED_S]
    archives = sorted((path for path in used_at if path.suffix == ".jsa"), key=used_at.__getitem__, reverse=True)
    for path in {*unused, *archives[_MOST_ARCHIVES:]}:
        path.unlink(missing_ok=True)


def main() -> int:
    """Make one archive; return the exit status, and leave no file but the archive or the reason why there is none."""
    archive, recorded, process_id, main_class, needed_class, more_jars = sys.argv[1:]
    os.nice(_LOWEST_PRIORITY)
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    log = Path(recorded).with_suffix(".log")
    try:
        with locked(Path(archive).with_suffix(".lock"), 0.0, LockBusy("another process makes it")):
            if not Path(archive).exists() and not _failure_of(Path(archive)).exists():
                _make(Path(archive), Path(recorded), int(process_id), main_class, needed_class, more_jars)
    except _CannotMake as error:
        sys.stdout.write(f"{error}\n")
        log.replace(_failure_of(Path(archive)))
        return 1
    except LockBusy:
        pass
    finally:
        for path in (Path(recorded), log):
            path.unlink(missing_ok=True)
    return 0


class _CannotMake(Exception):
    """The JVM made no archive, or there is no room for one."""


def _make(archive: Path, recorded: Path, process_id: int, main_class: str, needed_class: str, more_jars: str) -> None:
    """Wait until the list of classes is complete and have a JVM make the archive beside its place; the lock is held.

    A JVM that is killed, or for which a busy machine has no time, says nothing about the next one: a later start tries again.

    Raises:
        _CannotMake: the JVM refuses, or there is no room; the next one would fare no better.

    """
    try:
        command = [os.fsdecode(argument) for argument in Path(f"/proc/{process_id}/cmdline").read_bytes().split(b"\0")]
        command = [argument for argument in command[: command.index(main_class)] if not argument.startswith(_RECORD)]
        # A JVM maps an archive whose class path its own begins with.
        command = [argument.removesuffix(f"{os.pathsep}{more_jars}") if more_jars else argument for argument in command]
    except (OSError, ValueError):  # It has ended already.
        return
    if not _is_complete(recorded, process_id, needed_class):
        return
    fault = find_fault(archive.parent, _ROOM_BYTES)
    if fault:
        raise _CannotMake(fault)
    partial = archive.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    options = [*_SAFELY, "-Xshare:dump", f"-XX:SharedClassListFile={recorded}", f"-XX:SharedArchiveFile={partial}"]
    try:
        made = subprocess.run(
            [command[0], *options, *command[1:]],
            stdin=subprocess.DEVNULL,
            timeout=_MAKE_LIMIT_S,
            check=False,
            preexec_fn=die_with_parent(),
        )
        if made.returncode < 0:
            sys.stdout.write(f"the JVM was ended by signal {-made.returncode}\n")
            return
        if made.returncode > 0 or not partial.is_file():
            raise _CannotMake(f"the JVM ended with exit code {made.returncode}")
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.rename(archive)
    except subprocess.TimeoutExpired as error:
        sys.stdout.write(f"{error}\n")
    except OSError as error:
        raise _CannotMake(str(error)) from error
    finally:
        partial.unlink(missing_ok=True)


def _is_complete(recorded: Path, process_id: int, needed_class: str) -> bool:
    """Wait until no more classes come, or the JVM has ended; tell whether those that came are worth an archive."""
    deadline = time.monotonic() + _RECORD_LIMIT_S
    classes, grew_at = b"", time.monotonic()
    while Path(f"/proc/{process_id}").exists() and time.monotonic() < deadline:
        if recorded.stat().st_size != len(classes):
            classes, grew_at = recorded.read_bytes(), time.monotonic()
        if needed_class.encode() in classes and time.monotonic() - grew_at >= _QUIET_S:
            break
        time.sleep(_POLL_S)
    return needed_class.encode() in recorded.read_bytes()


if __name__ == "__main__":
    sys.exit(main())
