"""Child processes of a command, such as `up`, `demo` or a benchmark: started with their logs in files, watched, ended in order.

A child dies with the process that started it (the kernel sees to that), and a Ctrl-C in the terminal reaches only the parent, which
then ends its children in the order that lets each step down or deregister. Start children from the main thread.
"""

import logging
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eventflink.processes import die_with_parent
from eventflink.processes.log_files import last_lines

STOP_TIMEOUT_S: Final = 15.0

logger = logging.getLogger(__name__)


class ChildDied(Exception):
    """A child ended by itself; the message has its exit code and the last lines of its log."""


@dataclass(slots=True)
class ChildProcess:
    """One running child."""

    name: str
    log_path: Path
    process: subprocess.Popen[bytes]
    started_s: float
    """Monotonic."""
    command: Sequence[str] = ()

    def check(self) -> None:
        """Raise `ChildDied` if it has ended."""
        if how := self.end():
            raise ChildDied(f"{self.name} ended by itself ({how}); {self.end_of_log()}")

    def end(self) -> str:
        """Return how it has ended; empty: it runs."""
        code = self.process.poll()
        return "" if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"

    def end_of_log(self) -> str:
        """Return the last lines of its log, as the end of a message."""
        return f"its log, {self.log_path}, ends:\n{last_lines(self.log_path)}"


def start_child(
    name: str, command: Sequence[str], log_directory: Path, *, directory: Path | None = None, environment: Mapping[str, str] | None = None
) -> ChildProcess:
    """Start a child, in this directory and with this environment or its parent's; its output is appended to `log_directory`/<name>.log.

    Raises:
        OSError: it cannot be started, or its log not be written.

    """
    log_directory.mkdir(parents=True, exist_ok=True)
    log_path = log_directory / f"{name}.log"
    started_s = time.monotonic()
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=environment,
            process_group=0,
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - the function only calls prctl, which is safe after fork
        )
    return ChildProcess(name, log_path, process, started_s, command)


def end_children(children: Sequence[ChildProcess], timeout_s: float = STOP_TIMEOUT_S) -> None:
    """End children together: SIGTERM, and SIGKILL to those that are left after a while."""
    for child in children:
        if child.process.poll() is None:
            child.process.terminate()
    deadline = time.monotonic() + timeout_s
    for child in children:
        try:
            child.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            logger.warning("ChildKilled name=%s process_id=%d timeout_s=%.0f", child.name, child.process.pid, timeout_s)
            child.process.kill()
            child.process.wait()


class ChildProcesses:
    """Children in the order in which they were started. For the main thread."""

    def __init__(self, log_directory: Path) -> None:
        """Let the children log to `log_directory`/<name>.log."""
        self._log_directory = log_directory
        self.children: list[ChildProcess] = []

    def start(self, name: str, command: Sequence[str]) -> ChildProcess:
        """Start a child; its output is appended to its log.

        Raises:
            OSError: it cannot be started, or its log not be written.

        """
        child = start_child(name, command, self._log_directory)
        self.children.append(child)
        logger.info("ChildStarted name=%s process_id=%d log=%s", name, child.process.pid, child.log_path)
        return child

    def check(self) -> None:
        """Raise `ChildDied` if one has ended."""
        for child in self.children:
            child.check()

    def replace(self, child: ChildProcess) -> ChildProcess:
        """Start one that has ended again, as it was started; raises as `start` does."""
        self.children.remove(child)
        return self.start(child.name, child.command)

    def kill(self, name: str) -> None:
        """Kill a child, and know nothing of it any more."""
        [child] = [c for c in self.children if c.name == name]
        child.process.kill()
        child.process.wait()
        self.children.remove(child)

    def stop(self, names: Sequence[str] | None = None) -> None:
        """End these children (default: all, the last started first), together: SIGTERM, and SIGKILL after 15 s."""
        ending = [c for c in reversed(self.children) if names is None or c.name in names]
        end_children(ending)
        for child in ending:
            self.children.remove(child)
