"""What the processes of a cluster use of the processor, read from outside; nothing is asked of them.

A process counts with all that came from it: what lives is read, and what has ended counts at the process that reaped it, where the kernel
has added it. A TaskExecutor is counted in parts, since most of what a task costs is not in its main process; so is Spark's server.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

CLIENT: Final = "client"
TASK_EXECUTOR: Final = "TaskExecutor"
GUARDIAN: Final = "TaskExecutor: guardian"
FORK_SERVER: Final = "TaskExecutor: fork server"
TASKS: Final = "TaskExecutor: tasks"
SPARK: Final = "Spark"
SPARK_PYTHON: Final = "Spark: Python workers"

_READS: Final = 20


class CpuNotMeasured(Exception):
    """A process is gone, or what it started does not come to rest for as long as a look takes."""


@dataclass(frozen=True, slots=True)
class CpuReading:
    """Seconds of the processor since the processes began, by the names of the parts."""

    at_s: float
    seconds: Mapping[str, float]
    machine_s: float
    """Of all cores, what everything on this machine used, or another machine took away."""
    waited_s: Mapping[str, float] = field(default_factory=dict)
    """For how long the main thread of each process was ready to run and no core ran it; empty where the kernel does not say so."""

    def since(self, earlier: "CpuReading") -> dict[str, float]:
        """Return what was used meanwhile, in seconds."""
        return {name: seconds - earlier.seconds.get(name, 0.0) for name, seconds in self.seconds.items()}

    def shares_since(self, earlier: "CpuReading") -> dict[str, float]:
        """Return what was used meanwhile, as shares of one core."""
        return {name: seconds / (self.at_s - earlier.at_s) for name, seconds in self.since(earlier).items()}


@dataclass(frozen=True, slots=True)
class CpuMeter:
    """Reads the processes that are named here by their ids, and this one as the client."""

    process_ids: Mapping[str, int]
    """The TaskExecutor's is that of its main process, Spark's that of its server's JVM."""

    def read(self) -> CpuReading:
        """Read all of them.

        Raises:
            CpuNotMeasured: one of them has ended.

        """
        own = psutil.Process().cpu_times()
        seconds: Counter[str] = Counter({CLIENT: own.user + own.system})
        waited_s = {name: waited for name, process_id in self.process_ids.items() if (waited := _waited_s(process_id)) is not None}
        for name, process_id in self.process_ids.items():
            seconds.update(_read_unchanged(process_id, _PARTS.get(name) or (lambda process: {name: _whole(process)})))  # noqa: B023 - called at once
        times = psutil.cpu_times()
        machine_s = times.user + times.nice + times.system + times.irq + times.softirq + times.steal
        return CpuReading(time.monotonic(), seconds, machine_s, waited_s)


def _waited_s(process_id: int) -> float | None:
    try:
        return int(Path(f"/proc/{process_id}/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except OSError:  # It has ended, or this kernel keeps no such file.
        return None


def _read_unchanged(process_id: int, read: Callable[[psutil.Process], dict[str, float]]) -> dict[str, float]:
    """Read a process and what came from it, again where one came or went meanwhile: it may count twice, or not at all."""
    for _ in range(_READS):
        try:
            root = psutil.Process(process_id)
            before = {child.pid for child in root.children(recursive=True)}
            parts = read(root)
            if before == {child.pid for child in root.children(recursive=True)}:
                return parts
        except psutil.NoSuchProcess as error:
            if error.pid == process_id:
                raise CpuNotMeasured(f"process {process_id} has ended") from error
    raise CpuNotMeasured(f"what process {process_id} starts comes and goes faster than it can be read")


def _own(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _ended(process: psutil.Process) -> float:
    """Return what the children used that it has reaped, and those that they had reaped."""
    times = process.cpu_times()
    return float(times.children_user + times.children_system)


def _started(process: psutil.Process) -> float:
    """Return what everything used that came from it."""
    return _ended(process) + sum(_own(child) + _ended(child) for child in process.children(recursive=True))


def _whole(process: psutil.Process) -> float:
    return _own(process) + _started(process)


def _task_executor_parts(process: psutil.Process) -> dict[str, float]:
    parts = {TASK_EXECUTOR: _own(process) + _ended(process), GUARDIAN: 0.0, FORK_SERVER: 0.0, TASKS: 0.0}
    for child in process.children():
        command = " ".join(child.cmdline())
        if "eventflink.taskexecutor.guardian" in command:
            parts[GUARDIAN] += _whole(child)
        elif "eventflink.taskexecutor.fork_server_main" in command:
            parts[FORK_SERVER] += _own(child)
            parts[TASKS] += _started(child)
        elif "eventflink.taskexecutor.spark_supervisor" not in command:  # Spark is not its part: it is shared by all of a host.
            parts[TASK_EXECUTOR] += _whole(child)
    return parts


def _spark_parts(process: psutil.Process) -> dict[str, float]:
    return {SPARK: _own(process), SPARK_PYTHON: _started(process)}


_PARTS: Final = {TASK_EXECUTOR: _task_executor_parts, SPARK: _spark_parts}
