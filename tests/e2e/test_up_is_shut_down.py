"""A local cluster that is shut down ends by itself, all of it, with the exit code of how it came out."""

import subprocess
import sys
from pathlib import Path

from tests.support.running_cluster import wait_until

PROGRAM = [sys.executable, "-m", "eventflink.cli"]


def test_up_ends_with_the_exit_code_of_the_cluster_that_is_shut_down(tmp_path: Path) -> None:
    options = ["-D", f"data.directory={tmp_path / 'data'}", "-D", "broker.port=0"]
    output = tmp_path / "up.txt"
    with output.open("w") as stream:
        process = subprocess.Popen([*PROGRAM, *options, "up"], stdout=stream, stderr=stream)
    try:
        wait_until(lambda: "is up" in output.read_text() or process.poll() is not None, "it is up", 90)
        asked = subprocess.run(
            [*PROGRAM, *options, "shutdown", "--status", "UNKNOWN"], capture_output=True, text=True, check=False, timeout=60
        )
        assert asked.returncode == 0, asked.stderr
        assert "is being shut down" in asked.stdout
        assert process.wait(60) == 165, output.read_text()
        assert "the cluster was shut down: exit code 165" in output.read_text()
    finally:
        process.kill()
        process.wait(60)
