"""The gate runs the trees of two commits, not the sources that it was started from, and leaves nothing behind, also when interrupted."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.gate import ALL_SERVERS, Kind, Verdict
from benchmarks.gate_runs import MEASURED
from benchmarks.submit_trace import LEADER, STANDBY
from eventflink.cli.failures import ExitCode

pytestmark = [pytest.mark.slow, pytest.mark.soak("benchmarks")]

ROOT = Path(__file__).parents[2]
LOAD = ("--without-task-executors", "--jobs=2", "--clients=2", "--concurrent-jobs=2", "--rounds=1", "--warm-up-jobs=2", "--idle-time=1")
WITHOUT_LIMIT = ("--cpu-tolerance=1e9", "--idle-tolerance=1e9", "--floor-tolerance=1e9")
TIMEOUT_S = 360.0


class Checkout:
    """The sources as they are here, as two equal commits of a repository of their own."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self.directory = directory / "checkout"
        self.temporary = directory / "temporary"
        self.temporary.mkdir()
        for name in MEASURED:
            shutil.copytree(ROOT / name, self.directory / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / ".gitignore", self.directory)
        self._bootstrap = bootstrap
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("first")
        self.commit("second")

    def git(self, *arguments: str) -> None:
        identity = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *arguments], cwd=self.directory, check=True, timeout=120)

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", f"--message={message}")

    def start_gate(self, *arguments: str) -> subprocess.Popen[str]:
        """Start it as a user does, from the sources of this test."""
        # A busy machine deposes nobody here: a leader that changes would disturb the trace.
        overrides = (f"-Dbootstrap.servers={self._bootstrap}", "-Dhigh-availability.lease-timeout=2000")
        return subprocess.Popen(
            [sys.executable, "-m", "benchmarks", *overrides, "gate", *arguments, "--", *LOAD],
            cwd=self.directory,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(self.temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def processes(self) -> list[psutil.Process]:
        """Return what was started from the gate's trees and still runs."""
        return [process for process in psutil.process_iter() if _runs_in(process, self.temporary)]


def _runs_in(process: psutil.Process, directory: Path) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()).is_relative_to(directory)
    except psutil.Error:
        return False


@pytest.fixture
def checkout(tmp_path: Path, bootstrap: str) -> Checkout:
    return Checkout(tmp_path, bootstrap)


def wait_for(condition: Callable[[], Any], what: str) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.1)


def test_equal_commits_are_compared_figure_by_figure_and_none_is_worse(checkout: Checkout) -> None:
    gate = checkout.start_gate("--rounds=1", "--events=1000", "--json", *WITHOUT_LIMIT)
    output, progress = gate.communicate(timeout=TIMEOUT_S)
    assert gate.returncode == ExitCode.OK, progress
    document = json.loads(output)
    assert (document["base"]["subject"], document["candidate"]["subject"]) == ("first", "second")
    figures = {(each["figure"]["kind"], each["figure"]["name"]): each for each in document["figures"]}
    assert {each["verdict"] for each in figures.values()} <= {Verdict.SAME}
    assert {each[side]["count"] for each in figures.values() for side in ("base", "candidate")} == {1}
    assert {name for kind, name in figures if kind == Kind.IDLE} == {LEADER, STANDBY, ALL_SERVERS}
    assert {name for kind, name in figures if kind == Kind.FLOOR} == {"one at a time: accepted, median", "2 in flight: accepted, median"}
    assert figures[Kind.REPLAY, "replay"]["base"]["median"] > 0
    assert figures[Kind.JOB, "one at a time: all servers"]["verdict"] == Verdict.SAME
    assert not list(checkout.temporary.iterdir())


def test_a_commit_that_cannot_be_traced_is_named_and_an_interrupted_gate_leaves_nothing(checkout: Checkout) -> None:
    bench = checkout.directory / "benchmarks" / "commands.py"
    traced = bench.read_text(encoding="utf-8")
    bench.write_text(traced.replace('"--trace"', '"--other", "trace"'), encoding="utf-8")
    checkout.commit("without a trace")
    gate = checkout.start_gate()
    _, progress = gate.communicate(timeout=TIMEOUT_S)
    assert gate.returncode == ExitCode.USAGE
    assert "(without a trace) has no benchmark 'submit --trace'" in progress
    assert not list(checkout.temporary.iterdir())

    bench.write_text(traced, encoding="utf-8")
    checkout.commit("with a trace")
    with checkout.start_gate("--base=main~2") as gate:
        wait_for(lambda: len(checkout.processes()) > 1 or gate.poll() is not None, "a master runs")
        gate.send_signal(signal.SIGINT)
        _, progress = gate.communicate(timeout=TIMEOUT_S)
    assert gate.returncode == ExitCode.INTERRUPTED, progress
    wait_for(lambda: not checkout.processes(), "all processes have ended")
    assert not list(checkout.temporary.iterdir())
