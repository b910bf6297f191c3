"""Becomes a worker: `python -m eventflink.processes.launch JSON` writes its own pid file and then runs the worker's program in its place.

The process that wrote the file is the process that the file names, before and after: number and start stay as they are. The rule: a
worker's program begins only while its pid file names it, the master that asked for it lives, and no living process of this host leads in
a higher epoch.
"""

import os
import socket
import sys
from enum import IntEnum
from pathlib import Path
from typing import Final, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from eventflink.processes.identity import ProcessIdentity, identify, is_running
from eventflink.processes.pid_files import DaemonKind, PidFile, PidFiles

_FENCE: Final = "epoch"


class LaunchRefused(IntEnum):
    """The exit codes of a launcher that starts nothing."""

    RUNS_ALREADY = 81
    FENCED = 82
    NOBODY_ASKS = 83


REFUSALS: Final = {
    LaunchRefused.RUNS_ALREADY: "a worker of this id runs already",
    LaunchRefused.FENCED: "a leader of a higher epoch has taken over",
    LaunchRefused.NOBODY_ASKS: "the master that asked for it has ended",
}


class Launch(BaseModel):
    """What is to be launched."""

    model_config = ConfigDict(frozen=True)

    directory: Path
    """Of the workers' pid files."""
    worker_id: str
    epoch: int
    host: str
    log_path: str
    bootstrap: str
    command: tuple[str, ...]
    asked_by: int = Field(default_factory=os.getpid)
    """The process that asks."""


class Fence(BaseModel):
    """Who leads on this host: it counts while that process lives, for a cluster with a new log counts its epochs from the start."""

    model_config = ConfigDict(frozen=True)

    epoch: int
    process_id: int
    started: str


def _epoch_that_leads(directory: Path) -> int:
    """Return the epoch of the living process that leads here; 0: none does."""
    try:
        fence = Fence.model_validate_json((directory / _FENCE).read_bytes())
    except (FileNotFoundError, ValidationError):
        return 0
    return fence.epoch if is_running(ProcessIdentity(fence.process_id, fence.started)) else 0


def raise_fence(files: PidFiles, directory: Path, epoch: int) -> None:
    """Let nothing be launched for a lower epoch for as long as this process lives.

    Raises:
        OSError: the directory cannot be written to, or somebody holds it for too long.

    """
    own = identify(os.getpid())
    with files.locked():
        if own is not None and _epoch_that_leads(directory) < epoch:
            temporary = directory / f"{_FENCE}.{os.getpid()}"
            temporary.write_text(Fence(epoch=epoch, process_id=own.process_id, started=own.started).model_dump_json(), encoding="ascii")
            temporary.replace(directory / _FENCE)


def become_worker(launch: Launch) -> NoReturn:
    """Write the pid file and run the program, or exit with the code of a refusal.

    Raises:
        OSError: the pid file cannot be written, or the program not be run.

    """
    files = PidFiles(launch.directory)
    with files.locked():
        refusal = _refusal(launch, files)
        if refusal is not None:
            sys.exit(refusal)
        identity = identify(os.getpid())
        if identity is None:
            raise OSError("this process cannot be identified")
        file = PidFile(
            kind=DaemonKind.WORKER,
            daemon_id=launch.worker_id,
            host=launch.host,
            host_name=socket.gethostname(),
            process_id=identity.process_id,
            started=identity.started,
            log_path=launch.log_path,
            bootstrap=launch.bootstrap,
        )
        files.write(file)
    try:
        os.execv(launch.command[0], launch.command)  # noqa: S606 - the program of this very eventflink, and no shell in between
    except OSError:
        files.remove(file)
        raise


def _refusal(launch: Launch, files: PidFiles) -> LaunchRefused | None:
    if os.getppid() != launch.asked_by:
        return LaunchRefused.NOBODY_ASKS
    if _epoch_that_leads(launch.directory) > launch.epoch:
        return LaunchRefused.FENCED
    known = files.read(launch.worker_id)
    return LaunchRefused.RUNS_ALREADY if known is not None and is_running(known.identity) else None


if __name__ == "__main__":
    become_worker(Launch.model_validate_json(sys.argv[1]))
