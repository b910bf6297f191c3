"""Finds the processes of a stream by what they do: its task and Spark's server.

Nothing is asked of a process that is to be killed: a task is found by the file that it writes, Spark by its supervisor's directory.
"""

import contextlib
import os
from pathlib import Path

import psutil


def task_process(executor: int, path: Path) -> psutil.Process | None:
    """Return the task below a TaskExecutor's process that writes this file: it leads its process group, what it started does not."""
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(executor).children(recursive=True):
            with contextlib.suppress(psutil.Error, OSError):
                if os.getpgid(process.pid) == process.pid and any(file.path == str(path) for file in process.open_files()):
                    return process
    return None


def spark_servers(runtime_directory: Path) -> list[psutil.Process]:
    """Return the JVMs below the supervisors of this runtime directory: one, or none."""
    wanted = ["eventflink.taskexecutor.spark_supervisor", str(runtime_directory)]
    servers = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if all(part in process.cmdline() for part in wanted):
                servers += [child for child in process.children(recursive=True) if _is_java(child)]
    return servers


def _is_java(process: psutil.Process) -> bool:
    """Tell whether it is a JVM; a process that has just ended is none."""
    with contextlib.suppress(psutil.Error):
        return Path(process.exe()).name == "java"
    return False
