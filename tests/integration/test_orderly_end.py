"""SIGTERM means an orderly end, however often it is sent: a service manager, a terminal and an impatient person may all send it."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support import zygote
from tests.support.running_cluster import PROGRAM, RunningCluster


def end(process: subprocess.Popen[bytes], every_s: float) -> int:
    """Ask a process to end, again and again until it has."""
    deadline = time.monotonic() + 60
    while process.poll() is None:
        assert time.monotonic() < deadline
        process.terminate()
        time.sleep(every_s)
    return process.returncode


def test_whoever_is_asked_again_and_again_ends_in_order(bootstrap: str, cluster_id: str, tmp_path: Path) -> None:
    cluster = RunningCluster(bootstrap, cluster_id, tmp_path)
    try:
        cluster.start_master()
        cluster.start_task_executor()
        task_executor, master = cluster.processes["tm"], cluster.processes["master"]
        assert end(task_executor, 0.02) == 0, cluster.output("tm")
        cluster.wait_for(lambda fold: not fold.master.resource_manager.task_managers, "the disconnection of the TaskExecutor")
        assert end(master, 0.02) == 0, cluster.output("master")
        assert "Resigned" in cluster.output("master")
    finally:
        cluster.close()


@pytest.mark.parametrize("command", ["master", "taskexecutor"])
def test_one_that_has_no_kafka_ends_soon(tmp_path: Path, command: str) -> None:
    options = ["-D", f"data.directory={tmp_path / 'data'}", "-D", "bootstrap.servers=localhost:1"]
    with (tmp_path / "output.txt").open("wb") as output:
        process = zygote.Popen([*PROGRAM, *options, command], stdout=output, stderr=output)
    time.sleep(2)
    assert process.poll() is None, (tmp_path / "output.txt").read_text()
    process.terminate()
    assert process.wait(120) in (0, -signal.SIGTERM)
