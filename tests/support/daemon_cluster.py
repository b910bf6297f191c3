"""A configuration directory in a temporary place, and the command line that starts, shows and stops what it names."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from tests.support import zygote
from tests.support.running_cluster import wait_until

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-m", "eventflink.cli"]
TIMEOUT_S = 240.0


class DaemonCluster:
    """`eventflink` as a user calls it in a directory with ./conf."""

    def __init__(self, directory: Path, masters: str, workers: str, **keys: Any) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.conf = directory / "conf"
        self.conf.mkdir()
        # Patient, for a machine on which everything else is tested, too.
        keys = {"data.directory": self.data, "cluster.start-timeout": 180_000, "spark.start-early": "false", **keys}
        (self.conf / "eventflink.yaml").write_text("".join(f"{key}: {json.dumps(str(value))}\n" for key, value in keys.items()))
        self.name(masters, workers)

    def name(self, masters: str, workers: str) -> None:
        """Write `masters` and `workers`, blanks for ends of lines."""
        (self.conf / "masters").write_text("\n".join(masters.split()))
        (self.conf / "workers").write_text("\n".join(workers.split()))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("EVENTFLINK_")} | {"PYTHONPATH": str(ROOT)}
        return zygote.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, cwd=self.directory, env=clean)

    def status(self) -> tuple[int, dict[str, dict[str, Any]], dict[str, Any]]:
        """Return the exit code, the daemons by id, and the whole document."""
        finished = self.run("cluster", "status", "--json")
        assert finished.stdout, finished.stderr
        document = json.loads(finished.stdout)
        return finished.returncode, {daemon["daemon_id"]: daemon for daemon in document["daemons"]}, document

    def pid_files(self) -> list[str]:
        return sorted(path.name for path in self.directory.rglob("*.pid"))

    def processes(self) -> list[str]:
        """Return the command lines of all processes that have to do with this directory, by whatever they were started."""
        found = []
        for process in psutil.process_iter(["cmdline", "pid"]):
            line = " ".join(process.info["cmdline"] or [])
            if str(self.directory) in line and process.info["pid"] != os.getpid():
                found.append(line)
        return found

    def wait_until_nothing_runs(self) -> None:
        try:
            wait_until(lambda: not self.processes(), "the end of all processes", 120)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.processes()}") from error

    def close(self) -> None:
        """End whatever a failed test left."""
        self.run("cluster", "stop")
        for path in self.directory.rglob("*.pid"):
            process_id = json.loads(path.read_text())["process_id"]
            if any(str(self.directory) in part for part in _command_line(process_id)):
                os.kill(process_id, signal.SIGKILL)


def _command_line(process_id: int) -> list[str]:
    try:
        return list(psutil.Process(process_id).cmdline())
    except psutil.Error:
        return []


def kill_9(process_id: int) -> None:
    """Kill a daemon, and wait until it is gone."""
    os.kill(process_id, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while _command_line(process_id):
        assert time.monotonic() < deadline
        time.sleep(0.05)
