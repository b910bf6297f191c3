"""A local cluster that is shut down ends by itself, all of it, with the exit code of how it came out."""

import json
import subprocess
import sys
import urllib.request
from http import HTTPStatus
from pathlib import Path

from tests.support.running_cluster import wait_until

PROGRAM = [sys.executable, "-m", "eventflink.cli"]


def test_up_ends_with_the_exit_code_of_the_cluster_that_is_shut_down(tmp_path: Path) -> None:
    options = ["-D", f"data.directory={tmp_path / 'data'}", "-D", "broker.port=0", "-D", "spark.start-early=false"]
    output = tmp_path / "up.txt"
    told = tmp_path / "up.json"
    with output.open("w") as stream, told.open("w") as document:
        process = subprocess.Popen([*PROGRAM, *options, "up", "--json"], stdout=document, stderr=stream)
    try:
        wait_until(lambda: told.read_text().endswith("\n") or process.poll() is not None, "it is up", 90)
        where = json.loads(told.read_text())
        with urllib.request.urlopen(f"{where['rest_url']}/config", timeout=120) as answer:
            assert answer.status == HTTPStatus.OK
        options += ["--bootstrap", where["bootstrap"], "--cluster-id", where["cluster_id"]]
        asked = subprocess.run(
            [*PROGRAM, *options, "shutdown", "--status", "UNKNOWN"], capture_output=True, text=True, check=False, timeout=60
        )
        assert asked.returncode == 0, asked.stderr
        assert "is being shut down" in asked.stdout
        assert process.wait(120) == 165, output.read_text()
        assert "the cluster was shut down: exit code 165" in output.read_text()
    finally:
        process.kill()
        process.wait(120)
